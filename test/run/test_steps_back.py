"""Arrays whose strides are below zero: tiles of them are loaded, stored, multiplied, gathered and
added to like others, without TMA where a kernel would copy them by it.
"""

import itertools
from typing import Any

import numpy as np
import pytest

import cutedialect as cute

TARGETS = ("sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a")
BACK, ON = slice(None, None, -1), slice(None)
FLIPS = [flip for flip in itertools.product((ON, BACK), repeat=2) if BACK in flip]
TMA = "cp.async.bulk.tensor"


def integers(shape, dtype: Any = np.float16, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


@cute.kernel
def doubled(X, Y, *, tile=(16, 32)):
    at = cute.tile_index(Y, tile)
    cute.copy(2 * cute.local_tile(X, tile, at).load(), cute.local_tile(Y, tile, at))


@cute.kernel
def product(A, B, C, *, tile=(64, 64, 32)):
    bm, bn, bk = tile
    m, n = cute.tile_index(C, (bm, bn))
    a = cute.local_tile(A, (bm, bk), (m, None))
    b = cute.local_tile(B, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn))
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], acc)
    cute.copy(acc.to(C.dtype), cute.local_tile(C, (bm, bn), (m, n)))


@pytest.mark.some(8)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("m", "n"), [(32, 64), (33, 71), (1, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_loads_and_stores(target, m, n, dtype):
    x, whole = integers((m, n), dtype), np.full((m + 2, n + 2), 77, dtype)
    y = whole[1:-1, 1:-1]
    for one, other in zip([*FLIPS, (ON, ON)], [*FLIPS[1:], *FLIPS[:2]], strict=True):
        doubled(x[one], y[other], arch=target, backend="emulator")
        assert np.array_equal(y[other], 2 * x[one])
        y[...] = 77
        assert (whole == 77).all()


@pytest.mark.parametrize("backend", ["interpreter", "emulator"])
@pytest.mark.parametrize("flip", [(BACK, ON, ON), (ON, BACK, BACK), (BACK, BACK, BACK)])
def test_three_modes_and_parts_of_them(backend, flip):
    @cute.kernel
    def run(X, Y, *, tile=(1, 8, 16)):
        at = cute.tile_index(Y, tile)
        cute.copy(2 * cute.local_tile(X, tile, at).load(), cute.local_tile(Y, tile, at))

    x, y = integers((3, 19, 42), np.float32), np.zeros((3, 19, 21), np.float32)
    run(x[flip][:, :, ::2], y.transpose(0, 1, 2)[flip], backend=backend)
    assert np.array_equal(y[flip], 2 * x[flip][:, :, ::2])
    vector = np.arange(100, dtype=np.float32)[::-3]
    out = np.zeros(34, np.float32)

    @cute.kernel
    def line(X, Y, *, tile=(32,)):
        at = (cute.tile_index(Y, tile),)
        cute.copy(cute.local_tile(X, tile, at).load(), cute.local_tile(Y, tile, at))

    line(vector, out[::-1], backend=backend)
    assert np.array_equal(out[::-1], vector)


@pytest.mark.some(8)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("extents", [(72, 88, 104), (33, 71, 45)])
def test_products(target, place, extents):
    m, n, k = extents
    a, b, c = integers((m, k)), integers((k, n), seed=1), np.zeros((m, n), np.float16)
    for flip in FLIPS:
        args = [each[flip] if at == place else each for at, each in enumerate((a, b, c))]
        product(*args, arch=target, backend="emulator")
        expected = args[0].astype(np.float32) @ args[1].astype(np.float32)
        assert np.array_equal(args[2].astype(np.float32), expected)


def test_only_what_steps_back_goes_without_tma_and_a_remark_says_so():
    a, b, c = integers((128, 64)), integers((64, 128)), np.zeros((128, 128), np.float16)
    by_tma = cute.compile(product, a, b, c, arch="sm_90a")
    kernel = cute.compile(product, a[::-1], b, c, arch="sm_90a")
    assert [each.mapped for each in by_tma.signature.parameters] == [True] * 3
    assert [each.mapped for each in kernel.signature.parameters] == [False, True, True]
    assert TMA in kernel.ptx
    said = [each.message for each in kernel.remarks if each.pass_name == "launch"]
    way = "a stride below zero, which TMA does not take; its tiles are copied otherwise"
    assert said == [f"A: {way}"]
    message = r"A: expected strides of zero or more, .* by TMA, .*; compile the kernel for this"
    with pytest.raises(ValueError, match=message):
        by_tma.launch(a[::-1], b, c)
    # A mode of one element has no stride, and on sm_80 nothing is copied by TMA.
    assert cute.compile(product, a[:1][::-1], b, c, arch="sm_90a").ptx == by_tma.ptx
    plain = [cute.compile(product, each, b, c, arch="sm_80") for each in (a, a[::-1])]
    assert plain[0] is plain[1]
    spec = cute.TensorSpec((128, 64), cute.f16, steps_back=True)
    assert cute.compile(product, spec, b, c, arch="sm_90a") is kernel


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_groups(target):
    @cute.kernel
    def products(As, Bs, Cs, *, tile=(64, 64, 32)):
        bm, bn, bk = tile
        g, m, n = cute.tile_index(Cs, (bm, bn))
        a = cute.local_tile(As[g], (bm, bk), (m, None))
        b = cute.local_tile(Bs[g], (bk, bn), (None, n))
        acc = cute.zeros((bm, bn))
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], acc)
        cute.copy(acc.to(cute.f16), cute.local_tile(Cs[g], (bm, bn), (m, n)))

    x = [integers((64, 64)), integers((72, 40))[::-1]]
    w = [integers((64, 64), seed=1), integers((40, 64), seed=2)]
    y = [np.zeros((64, 64), np.float16), np.zeros((72, 64), np.float16)[::-1]]
    products(x, w, y, arch=target, backend="emulator")
    for a, b, c in zip(x, w, y, strict=True):
        assert np.array_equal(c.astype(np.float32), a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.some(6)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("flip", FLIPS)
def test_rows_that_a_tile_numbers_and_atomics(target, flip):
    @cute.kernel
    def moved(X, rows, Y, counts, *, tile=(32, 32)):
        m, n = cute.tile_index(Y, tile)
        at = cute.local_tile(rows, (32,), (m,)).load()
        x = cute.local_tile(X, tile, (at, n)).load()
        cute.copy(x, cute.local_tile(Y, tile, (at, n)))
        cute.atomic_add(x.to(cute.i32), cute.local_tile(counts, tile, (at, n)))

    x = integers((64, 72), np.float32)
    rows = np.random.default_rng(3).permutation(64).astype(np.int32)
    y, counts = np.zeros_like(x)[flip], np.ones(x.shape, np.int32)[flip]
    moved(x[flip], rows[::-1], y, counts, arch=target, backend="emulator")
    assert np.array_equal(y, x[flip])
    assert np.array_equal(counts, 1 + x[flip].astype(np.int32))


def test_multiplies_of_numbered_rows():
    @cute.kernel
    def gathered(X, W, rows, Y, *, tile=(64, 64, 32)):
        bm, bn, bk = tile
        m, n = cute.tile_index(Y, (bm, bn))
        x = cute.local_tile(X, (bm, bk), (cute.local_tile(rows, (bm,), (m,)), None))
        w = cute.local_tile(W, (bk, bn), (None, n))
        acc = cute.zeros((bm, bn))
        for k in cute.range(x.tiles):
            cute.gemm(x[k], w[k], acc)
        cute.copy(acc.to(Y.dtype), cute.local_tile(Y, (bm, bn), (m, n)))

    x, w = integers((50, 104))[::-1], integers((104, 72), seed=1)[::-1]
    rows = np.random.default_rng(3).integers(0, 50, 70).astype(np.int32)
    for target in TARGETS[1:]:
        y = np.zeros((70, 72), np.float32)
        gathered(x, w, rows, y, arch=target, backend="emulator")
        assert np.array_equal(y, x[rows].astype(np.float32) @ w.astype(np.float32))


def test_memory_that_is_read_and_written_is_counted_from_its_lowest_address():
    buffer = np.zeros((64, 64), np.float32)
    doubled(buffer[:32][::-1], buffer[32:], arch="sm_80", backend="emulator")
    with pytest.raises(ValueError, match="Y: expected memory of its own"):
        doubled(buffer[:40][::-1], buffer[32:][:, ::-1], arch="sm_80", backend="emulator")
    with pytest.raises(ValueError, match="Y: expected memory of its own"):
        doubled(buffer[::-1], buffer, arch="sm_80", backend="emulator")
