"""Parts of tensors at run-time bounds, elements as scalars, and the search for a part."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError


@pytest.mark.parametrize(("first", "end"), [(0, 7), (3, 20), (5, 5), (9, 4), (30, 99)])
def test_tiles_of_a_slice_know_its_bounds(first, end):
    @cute.kernel
    def program(X, Y, bounds):
        part = X.slice(0, bounds[0], bounds[1])
        copied = cute.load(cute.local_tile(part, (16, 8), (0, 0)))
        cute.copy(copied + part.dim(0).to(cute.f32), cute.local_tile(Y, (16, 8), (0, 0)))

    x = np.arange(40 * 8, dtype=np.float32).reshape(40, 8)
    y = np.zeros((16, 8), np.float32)
    program(x, y, np.array([first, end], np.int32), backend="emulator")
    rows = x[first:end]
    expected = np.full((16, 8), float(len(rows)), np.float32)
    expected[: len(rows[:16])] += rows[:16]
    np.testing.assert_array_equal(y, expected)


def test_stores_beyond_a_slice_write_nothing():
    @cute.kernel
    def program(Y, n):
        part = Y.slice(1, 3, n)
        cute.copy(cute.full((8, 16), 1.0), cute.local_tile(part, (8, 16), (0, 0)))

    y = np.zeros((8, 24), np.float32)
    program(y, 10, backend="emulator")
    expected = np.zeros_like(y)
    expected[:, 3:10] = 1
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_search_finds_the_last_that_is_not_beyond(count):
    @cute.kernel
    def program(offsets, Y):
        row = cute.tile_index(Y, (1,))
        found = cute.search(lambda i: offsets[i], offsets.extent, row)
        cute.copy(cute.full((1,), found, cute.i32), cute.local_tile(Y, (1,), (row,)))

    offsets = np.array([2, 2, 5, 9, 9, 9, 14, 15][:count], np.int32)
    y = np.zeros(18, np.int32)
    program(offsets, y, backend="emulator")
    below = [np.flatnonzero(offsets <= row) for row in range(18)]
    np.testing.assert_array_equal(y, [found[-1] if len(found) else 0 for found in below])


def refused(message, body):
    @cute.kernel
    def program(X):
        body(X)

    with pytest.raises(CompileError, match=message):
        program(np.zeros((4, 4), np.float32), backend="emulator")


def test_refused():
    refused(r"expected a mode in 0\.\.1 of X, got 2", lambda X: X.slice(2, 0, 1))
    refused("expected one coordinate for each of the 2 modes of X, got 1", lambda X: X[0])
    refused("expected a coordinate to be an int or a scalar, got slice", lambda X: X[0, :1])
    refused("expected tiles or single elements of X, got iteration", list)
    refused(
        "expected what the function of cute.search gives of type i32, got f32",
        lambda X: cute.search(lambda i: X[i, 0], 4, 1),
    )
