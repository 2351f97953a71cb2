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
