"""Operands whose rows begin at any element on sm_90a: aligned words, shifted into place. The
emulator ends a kernel that reads outside of its tensors, so that these runs hold both ends too.
"""

from __future__ import annotations

import random
import re

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import f16

import cutedialect as cute
from cutedialect.dialects.cute import AllocSmemOp, MemRefType
from cutedialect.layout import Layout

TYPES = {
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "f32": np.float32,
    "s8": np.int8,
}
RESULTS = {"e4m3": ml_dtypes.bfloat16, "s8": np.int32}


def matrix(rng, shape, kind, offset, rows=True):
    """Small integers in rows, or in columns, whose first element lies so many behind a base."""
    if not rows:
        return matrix(rng, shape[::-1], kind, offset).T
    count = shape[0] * shape[1]
    store = rng.integers(-3, 4, count + offset).astype(kind)
    return store[offset:].reshape(shape)


def multiplied(sizes, kind, majors="TN", offsets=(0, 0, 0), schedule=None, seed=0):
    """(result, what is right) of a product of matrices in memory without a byte around them."""
    rng = np.random.default_rng(seed)
    m, n, k = sizes
    a = matrix(rng, (m, k), TYPES[kind], offsets[0], majors[0] == "T")
    b = matrix(rng, (k, n), TYPES[kind], offsets[1], majors[1] == "N")
    out = matrix(rng, (m, n), RESULTS.get(kind, TYPES[kind]), offsets[2])
    cute.gemm(a, b, out=out, arch="sm_90a", backend="emulator", schedule=schedule)
    return out, (a.astype(np.float64) @ b.astype(np.float64)).astype(out.dtype)


def drawn(number):
    """Sizes, type, majors, offsets and schedule of one problem."""
    rng = random.Random(number)
    kind = rng.choice(("bf16", "f16", "e4m3", "f32", "s8", "bf16"))
    m, n, k = (rng.choice((rng.randint(1, 9), rng.randint(10, 90))) for _ in range(3))
    is_half = kind in ("bf16", "f16")
    majors = rng.choice(("TT", "TN", "NN", "NT")) if is_half else "TT"
    schedules = (None, "tile = (64,64,128)", "tile = (128,32,64), stages = 2")
    return (
        (m, n, k), kind, majors, tuple(rng.randint(0, 9) for _ in range(3)),
        rng.choice(schedules) if is_half else None,
    )  # fmt: skip


@pytest.mark.some(3)
@pytest.mark.parametrize("number", range(60))
def test_drawn_problem(number):
    sizes, kind, majors, offsets, schedule = drawn(number)
    out, right = multiplied(sizes, kind, majors, offsets, schedule, number)
    assert np.array_equal(out, right)


@pytest.mark.some(2)
@pytest.mark.parametrize("offset", range(8))
def test_every_offset_of_tensors_within_one_aligned_word(offset):
    """Rows of one to three elements: aligned words hold several of them, and both ends."""
    sizes = (5, 3, 1 + offset % 3)
    out, right = multiplied(sizes, "bf16", offsets=(offset, 7 - offset, 0))
    assert np.array_equal(out, right)


@pytest.mark.some(1)
@pytest.mark.parametrize("step", [1, 3, 7])
def test_overlapping_rows(step):
    """Rows that begin fewer than 16 bytes apart: a tile's last aligned words end behind the last
    row, though other rows lie behind the tile.
    """
    rng = np.random.default_rng(step)
    store = rng.integers(-3, 4, 199 * step + 70).astype(np.float16)
    a = np.lib.stride_tricks.as_strided(store, (200, 70), (2 * step, 2))
    b = rng.integers(-3, 4, (70, 24)).astype(np.float16)
    out = cute.gemm(a, b, arch="sm_90a", backend="emulator", schedule="tile = (64,32,64)")
    assert np.array_equal(out, a.astype(np.float32) @ b.astype(np.float32))


def test_loads_are_vectors():
    """Single elements are loaded of the words at the start of each tensor alone."""
    specs = [cute.TensorSpec(shape, "bf16", align=2) for shape in ((300, 1001), (1001, 301))]
    kernel = cute.gemm.compile(*specs, arch="sm_90a")
    assert len(re.findall(r"cp\.async\.cg\.shared\.global", kernel.ptx)) >= 16
    assert "shf.r.wrap.b32" in kernel.ptx
    assert "ld.global.v4" not in kernel.ptx


def test_operands_that_are_transposed_too_are_shifted_on_their_way():
    specs = [cute.TensorSpec(shape, "f32", align=4) for shape in ((300, 1001), (1001, 301))]
    kernel = cute.gemm.compile(*specs, arch="sm_90a", schedule="tile = (64,64,32)")
    assert "wgmma.mma_async" in kernel.ptx
    assert "ld.global.v4.b32" in kernel.ptx
    assert "cp.async.cg.shared.global" in kernel.ptx


def test_words_are_not_shifted_by_bits_where_rows_are_aligned_to_words():
    specs = [
        cute.TensorSpec((300, 101), "f32", align=4),
        cute.TensorSpec((101, 301), "f32", (1, None), align=4),
    ]
    kernel = cute.gemm.compile(*specs, arch="sm_90a")
    assert "cp.async.cg.shared.global" in kernel.ptx
    assert "shf.r" not in kernel.ptx


@pytest.mark.parametrize("offset", [0, 3])
@pytest.mark.parametrize(("width", "tile"), [(3, -1), (9, -1), (9, 0), (33, -1), (33, 0), (70, -1)])
def test_tiles_in_front_of_their_tensor(width, tile, offset):
    """They are zeros, and no aligned words are written twice where the tensor's first are whole."""

    @cute.kernel
    def program(out, a, b):
        total = cute.zeros((64, 16), cute.f32)
        rows, columns = (
            cute.local_tile(a, (64, 32), (tile, 0)),
            cute.local_tile(b, (32, 16), (0, 0)),
        )
        cute.gemm(rows, columns, total)
        cute.copy(total, cute.local_tile(out, (64, 16), (0, 0)))

    rng = np.random.default_rng(width)
    a = matrix(rng, (width, 32), np.float16, offset, rows=False)
    b, out = matrix(rng, (32, 16), np.float16, 0), np.ones((64, 16), np.float32)
    program(out, a, b, arch="sm_90a", backend="emulator")
    right = np.zeros((64, 16))
    if tile == 0:
        right[:width] = a.astype(np.float64)[:64] @ b.astype(np.float64)
    assert np.array_equal(out, right)


def test_the_words_around_the_last_row_have_room():
    """The aligned words of the last row reach into what pads it: nothing else lies there."""
    for stages in (1, 3):
        layout = Layout((64, 128, stages), (136, 1, 64 * 136))
        buffer = AllocSmemOp(MemRefType.get(f16, "smem", 128, layout))
        assert buffer.bytes == stages * 64 * 136 * 2


def test_plan_says_how_many_warps_shift():
    """A plan of one's own may have a warpgroup that does nothing else."""
    plan = "(load 4 @56: loads; prepare 4 @144: prepares; main * @152: rest)"
    schedule = f"tile = (128,64,64), roles = {plan}"
    out, right = multiplied((130, 70, 85), "bf16", "TN", (1, 3, 0), schedule)
    assert np.array_equal(out, right)
    specs = [cute.TensorSpec(shape, "bf16", align=2) for shape in ((300, 1001), (1001, 301))]
    kernel = cute.gemm.compile(*specs, arch="sm_90a", schedule=schedule)
    assert ".reqntid 512" in kernel.ptx or ".maxntid 512" in kernel.ptx


@pytest.mark.some(2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8])
@pytest.mark.parametrize("first", [-3, -1])
def test_rows_of_a_slice_that_begin_in_front_of_their_tensor(first, dtype, arch):
    """What lies in front of a row in memory is the end of the row before, and no part of it."""
    total = cute.i32 if dtype == np.int8 else cute.f32

    @cute.kernel
    def program(A, B, C):
        i, j = cute.tile_index(C, (64, 32))
        acc = cute.zeros((64, 32), total)
        a = cute.local_tile(A.slice(1, first, 45), (64, 32), (i, None))
        b = cute.local_tile(B.slice(1, first, 45), (32, 32), (j, None))
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k].T, acc)
        cute.copy(acc, cute.local_tile(C, (64, 32), (i, j)))

    rng = np.random.default_rng(-first)
    a, b = (rng.integers(-2, 3, shape).astype(dtype) for shape in ((70, 45), (40, 45)))
    c = np.zeros((70, 40), np.int32 if dtype == np.int8 else np.float32)
    program(a, b, c, arch=arch, backend="emulator")
    assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32).T)
