"""Tensors that span more than 2^31 elements: strides and offsets are 64-bit.

The memory is a sparse file, of which only the tiles are ever touched.
"""

from __future__ import annotations

import tempfile

import numpy as np
import pytest

import cutedialect as cute

STRIDE = (1 << 28) + 64


@cute.kernel
def copy(X, Y, *, tile=(16, 64)):
    i, j = cute.tile_index(Y, tile)
    cute.copy(cute.load(cute.local_tile(X, tile, (i, j))), cute.local_tile(Y, tile, (i, j)))


@pytest.fixture
def spread():
    """An int8 array (20, 80) whose rows lie 2^28 elements apart."""
    rows, columns = 20, 80
    span = STRIDE * (rows - 1) + columns
    assert span > 1 << 31
    with tempfile.TemporaryFile() as file:
        file.truncate(span)
        base = np.memmap(file, dtype=np.int8, mode="r+", shape=(span,))
        yield np.lib.stride_tricks.as_strided(base, (rows, columns), (STRIDE, 1))


def test_load_and_store_beyond_32_bits(spread):
    values = np.random.default_rng(0).integers(-100, 100, spread.shape).astype(np.int8)
    spread[...] = values
    near = np.zeros_like(values)
    copy(spread, near, backend="emulator")
    assert np.array_equal(near, values)
    spread[...] = 0
    copy(values, spread, backend="emulator")
    assert np.array_equal(spread, values)


def test_gemm_with_an_operand_beyond_32_bits(spread):
    rng = np.random.default_rng(1)
    spread[...] = rng.integers(-3, 4, spread.shape)
    b = rng.integers(-3, 4, (80, 24)).astype(np.int8)
    got = cute.gemm(spread, b, backend="emulator", schedule="tile = (64,64,64), stages = 2")
    assert np.array_equal(got, spread.astype(np.int32) @ b.astype(np.int32))


@cute.kernel
def moved_rows(X, Rows, Y, Sums, Column, *, tile=(8, 16)):
    """Rows of X by number to Y, by number; what was in Y is added to Sums, and a column of X."""
    i, j = cute.tile_index(Sums, tile)
    rows = cute.local_tile(Rows, (tile[0],), (i,)).load()
    x = cute.load(cute.local_tile(X, tile, (rows, j)))
    cute.copy(x, cute.local_tile(Y, tile, (9 - rows, j)))
    before = cute.atomic_add(x, cute.local_tile(X, tile, (i, j)))
    cute.atomic_max(before, cute.local_tile(Sums, tile, (i, j)))
    with cute.when(j == 0):
        view = cute.local_tile(Column, (tile[0],), (i,))
        cute.copy(view.load() * 2, view)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_gathered_rows_and_atomics_beyond_32_bits(kind):
    """Rows lie 2^28 elements of 4 bytes apart; numbers of rows are i32 or i64."""
    span = 3 * (STRIDE * 9 + 40)
    with tempfile.TemporaryFile() as file:
        file.truncate(4 * span)
        base = np.memmap(file, dtype=np.int32, mode="r+", shape=(span,))
        strides = 4 * STRIDE, 4
        x, y, column = (
            np.lib.stride_tricks.as_strided(base[at * (STRIDE * 9 + 40) :], (10, 40), strides)
            for at in range(3)
        )
        rng = np.random.default_rng(3)
        values = rng.integers(-99, 99, x.shape).astype(np.int32)
        x[...] = values
        column[:, 0] = values[:, 3]
        rows = rng.permutation(10).astype(kind)
        sums = np.full((10, 40), -200, np.int32)
        moved_rows(x, rows, y, sums, column[:, 0], tile=(16, 16), backend="emulator")
        assert np.array_equal(y[9 - rows], values[rows])
        assert np.array_equal(x, values + values[rows])
        assert np.array_equal(sums, values)
        assert np.array_equal(column[:, 0], 2 * values[:, 3])


def test_an_extent_beyond_32_bits_is_refused():
    far = np.lib.stride_tricks.as_strided(np.zeros(64, np.int8), (1 << 31, 2), (0, 1))
    with pytest.raises(ValueError, match=r"extents below 2\*\*31, .* see it with one more mode"):
        copy(far, np.zeros((16, 64), np.int8), backend="emulator")
