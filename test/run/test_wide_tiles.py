"""Tiles of many columns, of which few rows are reduced or folded, or that all work items load."""

import numpy as np
import pytest

import cutedialect as cute


@cute.kernel
def columns_of(X, Y, *, tile):
    i, _ = cute.tile_index(X, (tile[0], None))
    x = cute.local_tile(X, tile, (i, 0)).load()
    cute.copy(cute.column_max(x), cute.local_tile(Y, (1, tile[1]), (i, 0)))


@pytest.mark.some(8)
# More columns than a part has elements, of so few elements that nothing is walked.
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 9001), (1, 16384), (2, 9001)])
def test_wide_tiles_that_are_reduced_along_few_rows(rows, columns, arch):
    x = np.random.default_rng(0).integers(-5, 5, (2 * rows, columns)).astype(np.float32)
    y = np.zeros((2, columns), np.float32)
    columns_of(x, y, tile=(rows, columns), arch=arch, backend="emulator")
    assert np.array_equal(y, x.reshape(2, rows, columns).max(1))


@cute.kernel
def added_alike(X, Y, *, columns, centered):
    i, _ = cute.tile_index(Y, (1, None))
    x = cute.local_tile(X, (columns,), (0,)).T.to(cute.f32)
    most = cute.row_max(x)
    x = x - most if centered else x
    cute.atomic_add(x * 1.0, cute.local_tile(Y, (1, columns), (i, 0)))


# Nothing of a row waits for memory, of which the number of parts follows elsewhere.
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("centered", [False, True])
def test_rows_that_all_work_items_load_alike(centered, arch):
    x = np.random.default_rng(0).integers(-5, 5, 17378).astype(np.int32)
    y = np.zeros((2, x.size), np.float32)
    added_alike(x, y, columns=20000, centered=centered, arch=arch, backend="emulator")
    assert np.array_equal(y, np.stack([x - x.max() if centered else x] * 2))


@pytest.mark.parametrize("shape", [(2, 1009), (37, 64)])
def test_what_a_fold_leaves_is_shared_by_lanes_whatever_it_folds(shape):
    """A fold is not padded along what it folds; the other mode is, so that no lane has it all."""

    @cute.kernel
    def program(X, Y):
        x = cute.local_tile(X, shape, (0, 0)).load()
        found = cute.reduce(x, 0, lambda a, b: a * b + a + b)
        cute.copy(found, cute.local_tile(Y, (1, shape[1]), (0, 0)))

    # Contiguous along the columns.
    x = np.random.default_rng(7).integers(-1, 2, shape[::-1]).astype(np.float32).T
    y = np.zeros((1, shape[1]), np.float32)
    program(x, y, arch="sm_90a", backend="emulator")
    assert np.array_equal(y[0], (1 + x).prod(0) - 1)
    kernel = cute.compile(program, x, y, arch="sm_90a")
    assert len(kernel.ptx.splitlines()) < 1500


def test_lanes_share_a_fold_of_any_length():
    @cute.kernel
    def program(X, Y, *, columns):
        x = cute.local_tile(X, (4, columns), (0, 0)).load()
        x = cute.where(cute.coord(x, 1) < 1009, x, 0.0)
        found = cute.reduce(x, 1, lambda a, b: a * b + a + b)
        cute.copy(found, cute.local_tile(Y, (4, 1), (0, 0)))

    x = np.random.default_rng(7).integers(-1, 2, (4, 1009)).astype(np.float32)
    y = np.zeros((4, 1), np.float32)
    lines = {}
    for columns in (1009, 1024):
        kernel = cute.compile(program, x, y, columns=columns, arch="sm_90a")
        lines[columns] = len(kernel.ptx.splitlines())
        program(x, y, columns=columns, arch="sm_90a", backend="emulator")
        assert np.array_equal(y[:, 0], (1 + x).prod(1) - 1)
    assert lines[1009] < 1.5 * lines[1024]
