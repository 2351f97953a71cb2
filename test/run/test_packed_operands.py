"""Operands of packed elements: `cute.packed` in tile programs, whose integers come from memory as
they are and are taken apart on their way to the multiply.
"""

from math import prod

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.layout import flatten
from cutedialect.layout.text import parse_layout

ARCHS = ("sm_80", "sm_90a", "sm_100a")
BF16 = ml_dtypes.bfloat16
STAGES = 3
# Of a warpgroup's operand: what a thread multiplies of 64 elements is one word of 64 bits.
FRAGMENT = "(2,4,2,(2,2)):(2,16,4,(1,8))"
AWQ = "(2,4):(4,1)"


def packed(numbers, axis, per, order=None):
    """Elements as integers that hold so many of them along an axis, by what an order says."""
    layout = parse_layout(order or f"{per}:1")
    numbers = np.moveaxis(np.asarray(numbers, np.int64), axis, -1)
    size = prod(flatten(layout.shape))
    at = np.arange(numbers.shape[-1])
    place = at // size * size + np.array(layout.offsets())[at % size]
    integers = np.zeros((*numbers.shape[:-1], numbers.shape[-1] // per), np.uint32)
    for element, where in enumerate(place):
        bits = (numbers[..., element] & 15).astype(np.uint32)
        integers[..., where // per] |= bits << np.uint32(4 * (where % per))
    return np.ascontiguousarray(np.moveaxis(integers.astype(f"u{per // 2}"), -1, axis))


def drawn(rng, dtype, shape):
    return rng.integers(0, 16, shape) if dtype == "u4" else rng.integers(-8, 8, shape)


@cute.kernel
def weights_first(W, X, Y, *, dtype="u4", axis=1, order=None, tile=(64, 16, 64)):
    """Y = W X."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    w = cute.local_tile(cute.packed(W, dtype, axis, order), (bm, bk), (m, None))
    x = cute.local_tile(X, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn), cute.f32)
    for k in cute.range(w.tiles):
        cute.gemm(w[k].load().to(X.dtype), x[k], acc)
    cute.copy(acc.to(Y.dtype), cute.local_tile(Y, (bm, bn), (m, n)))


@cute.kernel
def weights_second(X, W, Y, *, dtype="u4", axis=0, order=None, tile=(64, 64, 64)):
    """Y = X W."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    x = cute.local_tile(X, (bm, bk), (m, None))
    w = cute.local_tile(cute.packed(W, dtype, axis, order), (bk, bn), (None, n))
    acc = cute.zeros((bm, bn), cute.f32)
    for k in cute.range(x.tiles):
        cute.gemm(x[k], w[k].load().to(X.dtype) - 8, acc)
    cute.copy(acc.to(Y.dtype), cute.local_tile(Y, (bm, bn), (m, n)))


@pytest.fixture
def rng():
    return np.random.default_rng(4)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("dtype", "per", "order"),
    [("u4", 2, None), ("i4", 8, None), ("i4", 2, "(32,2):(2,1)"), ("u4", 2, FRAGMENT)],
)
def test_integers_come_ahead_of_their_trip(arch, dtype, per, order, rng):
    type_ = np.float16 if dtype == "i4" else BF16
    options = {"dtype": dtype, "order": order, "arch": arch}
    schedule = cute.Schedule(stages=STAGES)
    for trips in (0, 1, STAGES - 1, STAGES, STAGES + 1, 2 * STAGES + 1):
        m, n, k = (72, 24, 64 * trips) if trips % 2 else (64, 16, 64 * trips)
        q, x = drawn(rng, dtype, (m, k)), rng.integers(-2, 3, (k, n)).astype(type_)
        y = np.ones((m, n), np.float32)
        w = packed(q, 1, per, order)
        weights_first(w, x, y, backend="emulator", schedule=schedule, **options)
        assert np.array_equal(y, q.astype(np.float32) @ x.astype(np.float32)), trips
    kernel = cute.compile(weights_first, w, x, y, schedule=schedule, **options)
    assert ("cp.async.c" if arch == "sm_80" else "cp.async.bulk.tensor") in kernel.ptx
    assert "ld.global" not in kernel.ptx


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("axis", "per", "order"), [(0, 8, None), (1, 8, AWQ), (0, 2, None), (1, 2, None)]
)
def test_words_hold_columns_or_rows(arch, axis, per, order, rng):
    for m, n, k in ((64, 64, 128), (24, 72, 72)):
        q = rng.integers(0, 16, (k, n))
        x = rng.integers(-2, 3, (m, k)).astype(BF16)
        y = np.ones((m, n), np.float32)
        w = packed(q, axis, per, order)
        weights_second(x, w, y, axis=axis, order=order, arch=arch, backend="emulator")
        assert np.array_equal(y, x.astype(np.float32) @ (q - 8).astype(np.float32))


def test_an_odd_depth_ends_within_a_byte(rng):
    q, x = rng.integers(0, 16, (64, 71)), rng.integers(-2, 3, (71, 16)).astype(BF16)
    padded = np.pad(q, ((0, 0), (0, 1)), constant_values=15)
    y = np.ones((64, 16), np.float32)
    weights_first(packed(padded, 1, 2), x, y, arch="sm_90a", backend="emulator")
    assert np.array_equal(y, q.astype(np.float32) @ x.astype(np.float32))


def test_fragments_are_words_of_a_thread():
    specs = (
        cute.TensorSpec((512, 256), "u8"),
        cute.TensorSpec((512, 512), "bf16"),
        cute.TensorSpec((512, 512), "f32"),
    )
    ptx = cute.compile(weights_first, *specs, order=FRAGMENT, arch="sm_90a").ptx
    loads = [line.split()[0] for line in ptx.splitlines() if "ld.shared" in line]
    assert loads == ["ld.shared.v2.b32"] * 2
    # Bytes stay where masks leave them: no permute puts those of two rows beside each other.
    assert ptx.count("prmt.b32") == ptx.count("fma.rn.bf16x2") == 16


@cute.kernel
def wide_sums(W, S, *, tile=(16, 64)):
    """Sums of the rows of packed elements, which computed in 8 bits would wrap."""
    i = cute.tile_index(S, (tile[0],))
    w = cute.local_tile(cute.packed(W, "i4"), tile, (i, 0)).load()
    assert w.dtype == cute.i4
    total = cute.sum(w.to(cute.i32) * 3, 1)
    cute.copy(total, cute.local_tile(S, (tile[0],), (i,)))


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
def test_tiles_are_taken_apart_without_a_multiply(backend, rng):
    q = rng.integers(-8, 8, (40, 64))
    sums = np.zeros(40, np.int32)
    wide_sums(packed(q, 1, 2), sums, arch="sm_90a", backend=backend)
    assert np.array_equal(sums, 3 * q.sum(1))


@cute.kernel
def transposed(W, X, Y, *, tile=(64, 32, 64)):
    """Y = W^T X of packed rows."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    w = cute.local_tile(cute.packed(W, "u4", 0), (bk, bm), (None, m))
    x = cute.local_tile(X, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn), cute.f32)
    for k in cute.range(w.tiles):
        cute.gemm(w[k].T.load().to(X.dtype), x[k], acc)
    cute.copy(acc.to(Y.dtype), cute.local_tile(Y, (bm, bn), (m, n)))


def test_a_tile_is_transposed_in_memory(rng):
    q, x = rng.integers(0, 16, (128, 64)), rng.integers(-2, 3, (128, 32)).astype(BF16)
    y = np.ones((64, 32), np.float32)
    transposed(packed(q, 0, 2), x, y, arch="sm_90a", backend="emulator")
    assert np.array_equal(y, q.T.astype(np.float32) @ x.astype(np.float32))


@cute.kernel
def unloaded(W, X, Y):
    acc = cute.zeros((64, 16))
    w = cute.local_tile(cute.packed(W, "u4"), (64, 64), (0, 0))
    cute.gemm(w, cute.local_tile(X, (64, 16), (0, 0)), acc)
    cute.copy(acc, cute.local_tile(Y, (64, 16), (0, 0)))


@pytest.mark.parametrize(
    ("program", "options", "holder", "message"),
    [
        (weights_first, {"tile": (64, 16, 48), "order": "(32,2):(2,1)"}, "u8",
         r"whole blocks of 64 elements along mode 1.*nearest extent is 64"),
        (weights_first, {"dtype": "i16"}, "u8", "expected u4, i4, u8 or i8 of packed elements"),
        (weights_first, {"order": "(2,2):(1,1)"}, "u8", "each of 4 places once"),
        (weights_first, {"order": "3:1"}, "u8", "whole integers of 2 elements"),
        (weights_first, {"order": "rows"}, "u8", "order: expected 'neighbors', 'awq' or a layout"),
        (weights_first, {"axis": 2}, "u8", r"axis: expected a mode in -2\.\.1, got 2"),
        (weights_first, {}, "i16", "expected int8, uint8, int32 or uint32"),
        (unloaded, {}, "u8", r"take view\.load\(\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_packed_is_refused(program, options, holder, message):
    specs = [cute.TensorSpec((64, 32), holder), cute.TensorSpec((64, 16), "bf16")]
    with pytest.raises(Exception, match=message) as caught:
        cute.compile(program, *specs, cute.TensorSpec((64, 16), "f32"), arch="sm_90a", **options)
    assert "test_packed_operands.py" in str(caught.value)
