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


BOUNDS = [(0, 150), (3, 70), (100, 100), (60, 20), (130, 999), (149, 150)]


@pytest.mark.some(3)
@pytest.mark.parametrize(("first", "end"), BOUNDS)
def test_boxes_of_a_slice_end_with_it(first, end):
    """Rows of other slices are NaN, which neither come nor go."""

    @cute.kernel(in_bounds=True)
    def program(A, B, C, bounds):
        rows = A.slice(1, bounds[0], bounds[1]), C.slice(1, bounds[0], bounds[1])
        batch, i = cute.tile_index(C, (1, 64))
        acc = cute.zeros((64, 64))
        a, b = (
            cute.local_tile(rows[0], (64, 64), (batch, i, 0)),
            cute.local_tile(B, (64, 64), (0, 0)),
        )
        cute.gemm(a, b, acc)
        cute.copy(acc.to(C.dtype), cute.local_tile(rows[1], (64, 64), (batch, i, 0)))

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((2, 150, 64), (64, 64)))
    clean = a.copy()
    inside = np.zeros(150, bool)
    inside[first:end] = True
    a[:, ~inside] = np.nan
    c = np.full_like(a, 7)
    bounds = np.array([first, end], np.int32)
    program(a, b, c, bounds, arch="sm_90a", backend="emulator")
    expected = np.where(inside[:, None], clean.astype(np.float32) @ b, 7)
    np.testing.assert_array_equal(c, expected)
    kernel = cute.compile(program, a, b, c, bounds, arch="sm_90a")
    assert "cp.async.bulk.tensor.5d.shared" in kernel.ptx
    assert "cp.async.bulk.tensor.5d.global" in kernel.ptx
    assert "slice 1" in kernel.stages["cute-partition"]


@pytest.mark.some(3)
@pytest.mark.parametrize(("first", "end"), BOUNDS)
def test_rows_behind_a_slice_add_nothing(first, end):
    """The contraction runs over a slice of a slice: along rows of B, and elements of rows of A."""

    @cute.kernel(in_bounds=True)
    def program(A, B, C, bounds):
        a = A.slice(1, bounds[0], bounds[1])
        b = B.slice(0, bounds[0] - 2, 999).slice(0, 2, bounds[1] - bounds[0] + 2)
        acc = cute.zeros((64, 64))
        a_k, b_k = cute.local_tile(a, (64, 32), (0, None)), cute.local_tile(b, (32, 64), (None, 0))
        for j in cute.range((a.dim(1) + 31) // 32):
            cute.gemm(a_k[j], b_k[j], acc)
        cute.copy(acc, cute.local_tile(C, (64, 64), (0, 0)))

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, s).astype(np.float16) for s in ((64, 152), (152, 64)))
    inside = np.zeros(152, bool)
    inside[first + 2 : end + 2] = True
    b[~inside] = np.nan
    c = np.zeros((64, 64), np.float32)
    bounds = np.array([first + 2, end + 2], np.int32)
    program(a, b, c, bounds, arch="sm_90a", backend="emulator")
    expected = a[:, inside].astype(np.float32) @ b[inside].astype(np.float32)
    np.testing.assert_array_equal(c, expected)
    kernel = cute.compile(program, a, b, c, bounds, arch="sm_90a")
    assert kernel.ptx.count("cp.async.bulk.tensor.5d.shared") == 1


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
