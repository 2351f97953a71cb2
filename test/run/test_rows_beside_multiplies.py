"""Long rows beside multiplies, of lengths that threads do not share evenly: they are padded, so
that each thread holds its share of a row, and not all of it.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.passes.tile import pad_tiles

# What a kernel of such rows has at most; one thread with all of a row took 65,000 lines.
_MOST_LINES = 5000


def program_of(length: int):
    @cute.kernel
    def program(X, Y, L, A, B, C):
        m, n = cute.tile_index(C, (64, 64))
        x = cute.local_tile(X, (1, length), (m, 0)).to(cute.f32)
        cute.copy(cute.row_sum(x), cute.local_tile(Y, (1, 1), (m, 0)))
        cute.copy(x - cute.row_max(x), cute.local_tile(L, (1, length), (m, 0)))
        acc = cute.zeros((64, 64))
        for k in cute.range(2):
            a = cute.local_tile(A, (64, 64), (m, k))
            cute.gemm(a, cute.local_tile(B, (64, 64), (k, n)), acc)
        cute.copy(acc, cute.local_tile(C, (64, 64), (m, n)))

    return program


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("length", "columns"), [(9000, 9000), (9001, 9001), (264, 200), (1000, 1500)]
)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_sums_maxima_and_maps(arch, length, columns) -> None:
    """Of tiles that end before the tensor does, and of those that hang over its end."""
    rng = np.random.default_rng(length)
    x = rng.integers(-9, -1, (2, columns)).astype(np.float16)
    a, b = (rng.integers(-1, 2, (128, 128)).astype(np.float16) for _ in range(2))
    y, log = np.zeros((2, 1), np.float32), np.full((2, columns), 7, np.float32)
    c = np.zeros((128, 128), np.float32)
    program_of(length)(x, y, log, a, b, c, arch=arch, backend="emulator")
    row = np.zeros((2, length), np.float32)
    row[:, : min(length, columns)] = x[:, :length]
    np.testing.assert_array_equal(y, row.sum(1, keepdims=True))
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b)
    wanted = np.full_like(log, 7)
    wanted[:, :length] = (row - row.max(1, keepdims=True))[:, :columns]
    np.testing.assert_array_equal(log, wanted)


@pytest.mark.parametrize("length", [9000, 9001, 20000])
def test_lines_are_bounded(length) -> None:
    half, full = (cute.TensorSpec((None, None), dtype) for dtype in (cute.f16, cute.f32))
    kernel = cute.compile(program_of(length), half, full, full, half, half, full, arch="sm_90a")
    assert len(kernel.ptx.splitlines()) < _MOST_LINES


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_columns_of_a_wide_tile_fit_shared_memory(arch) -> None:
    """Warps that share the two rows of a tile of 30,000 columns would exchange 240,000 bytes."""

    @cute.kernel
    def program(X, Y):
        cute.tile_index(X, (2, 30000))
        x = cute.local_tile(X, (2, 30000), (0, 0)).load()
        cute.copy(cute.column_max(x), cute.local_tile(Y, (1, 30000), (0, 0)))

    x = np.random.default_rng(0).integers(-99, 99, (2, 30000)).astype(np.float32)
    y = np.zeros((1, 30000), np.float32)
    program(x, y, arch=arch, backend="emulator")
    np.testing.assert_array_equal(y[0], x.max(0))


@pytest.mark.parametrize("unit", [64, 512])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_fold_of_which_lanes_or_warps_hold_nothing(arch, unit, monkeypatch) -> None:
    """100 elements in tiles of 128 or 512, of which four warps hold as many each."""
    monkeypatch.setattr(pad_tiles, "_units", lambda type_, widest: [(100, unit)])
    monkeypatch.setattr(pad_tiles, "_crowded_extents", lambda type_: type_.shape)

    @cute.kernel
    def program(X, Y, A, C):
        x = cute.local_tile(X, (1, 100), (0, 0)).load()
        y = cute.reduce(x, 1, lambda a, b: a + b + 1)
        cute.copy(y, cute.local_tile(Y, (1, 1), (0, 0)))
        acc = cute.zeros((64, 64))
        a = cute.local_tile(A, (64, 64), (0, 0))
        cute.gemm(a, a, acc)
        cute.copy(acc, cute.local_tile(C, (64, 64), (0, 0)))

    x, a = np.ones((1, 100), np.float32), np.eye(64, dtype=np.float16)
    y, c = np.zeros((1, 1), np.float32), np.zeros((64, 64), np.float32)
    program(x, y, a, c, arch=arch, backend="emulator")
    assert y == 199
    np.testing.assert_array_equal(c, a)
