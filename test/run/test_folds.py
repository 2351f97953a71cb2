"""Reductions by a function of the program, `cute.reduce(tile, mode, function)`: along either mode,
on shapes and layouts drawn by lot, in the emulator and in the interpreter.
"""

from __future__ import annotations

from functools import reduce

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

BF16 = ml_dtypes.bfloat16
DRAW = np.random.default_rng(77)


@cute.kernel
def folded(X, R, C, step, *, tile=(8, 64)):
    """R: the element of each row that is farthest from `step`; C: by column, (1 + a)(1 + b) - 1."""

    def farther(a, b):
        return cute.where(
            cute.maximum(a - step, step - a) >= cute.maximum(b - step, step - b), a, b
        )

    i, j = cute.tile_index(C, (1, tile[1]))
    x = cute.local_tile(X, tile, (i, j)).to(cute.f32)
    rows, columns = X.shape[0] - i * tile[0], X.shape[1] - j * tile[1]
    there = (cute.coord(x, 0) < rows) & (cute.coord(x, 1) < columns)
    far = cute.reduce(cute.where(there, x, step), 1, farther)
    cute.copy(far.to(R.dtype), cute.local_tile(R, (tile[0], 1), (i, j)))
    found = cute.reduce(cute.where(there, x, 0.0), 0, lambda a, b: a + b + a * b)
    cute.copy(found.to(C.dtype), cute.local_tile(C, (1, tile[1]), (i, j)))


@cute.kernel
def whole(X, Y, *, tile=(4, 32)):
    i, _ = cute.tile_index(Y, (tile[0], 1))
    x = cute.load(cute.local_tile(X, tile, (i, 0)))
    found = cute.reduce(x, 1, lambda a, b: (a | b) - (a & b))
    cute.copy(found.to(Y.dtype), cute.local_tile(Y, (tile[0], 1), (i, 0)))


def draws(count):
    tiles = [(1 << DRAW.integers(0, 5), 1 << DRAW.integers(3, 9)) for _ in range(count)]
    return [tuple(map(int, each)) for each in [*tiles, (4, 2048), (3, 40)]]


@pytest.mark.some(6)
@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
@pytest.mark.parametrize("tile", draws(4))
def test_folds_of_rows_and_columns(tile, backend):
    arch = str(DRAW.choice(["sm_80", "sm_90a", "sm_100a"]))
    dtype = DRAW.choice([np.float16, np.float32, BF16])
    shape = int(DRAW.integers(1, 3 * tile[0] + 1)), int(DRAW.integers(1, 2 * tile[1] + 1))
    x = DRAW.uniform(-0.3, 0.3, shape).astype(dtype)
    down, right = -(-shape[0] // tile[0]), -(-shape[1] // tile[1])
    r, c = np.zeros((shape[0], right), np.float32), np.zeros((down, shape[1]), np.float32)
    folded(x, r, c, 0.125, tile=tile, arch=arch, backend=backend)
    wide = x.astype(np.float64)
    for j in range(right):
        part = wide[:, j * tile[1] : (j + 1) * tile[1]]
        assert np.allclose(np.abs(r[:, j] - 0.125), np.abs(part - 0.125).max(1), rtol=1e-6)
        assert (r[:, j, None] == part.astype(np.float32)).any(1).all()
    for i in range(down):
        part = wide[i * tile[0] : (i + 1) * tile[0]]
        assert np.allclose(c[i], (1 + part).prod(0) - 1, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.int64])
def test_folds_of_integers(dtype, backend):
    x, y = DRAW.integers(-100, 100, (11, 32)).astype(dtype), np.zeros((11, 1), np.int64)
    whole(x, y, arch="sm_90a", backend=backend)
    assert np.array_equal(y[:, 0], [reduce(lambda a, b: a ^ b, map(int, row)) for row in x])


@pytest.mark.some(16)
@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
@pytest.mark.parametrize("dtype", [np.float16, np.int32, np.int64])
@pytest.mark.parametrize("tile", [(1, 9001), (5, 25), (1, 31), (2, 777), (40, 3), (3000, 1)])
def test_folds_of_what_lanes_do_not_share_evenly(tile, dtype, backend):
    """Lanes and warps hold more of a row than there is, some of them nothing of it: a function does
    not see it, and the text has no thread with all of a row.
    """

    @cute.kernel
    def both(X, R, C):
        x = cute.local_tile(X, tile, (0, 0)).load()
        cute.copy(
            cute.reduce(x, 1, lambda a, b: a + b + 1), cute.local_tile(R, (tile[0], 1), (0, 0))
        )
        cute.copy(
            cute.reduce(x, 0, lambda a, b: a + b + 1), cute.local_tile(C, (1, tile[1]), (0, 0))
        )

    x = np.random.default_rng(5).integers(-2, 1, tile).astype(dtype)
    rows, columns = np.zeros((tile[0], 1), dtype), np.zeros((1, tile[1]), dtype)
    both(x, rows, columns, arch="sm_90a", backend=backend)
    wide = x.astype(np.int64)
    np.testing.assert_array_equal(rows[:, 0], (wide.sum(1) + tile[1] - 1).astype(dtype))
    np.testing.assert_array_equal(columns[0], (wide.sum(0) + tile[0] - 1).astype(dtype))
    kernel = cute.compile(both, x, rows, columns, arch="sm_90a")
    assert len(kernel.ptx.splitlines()) < 3000


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda a, b: 1, "expected the function of cute.reduce to give a scalar"),
        (lambda a, b: a < b, "expected the function of cute.reduce to give a scalar"),
        ("sum", "expected combine to be one of add, max, min, mul"),
    ],
)
def test_what_is_no_fold_is_refused(function, message):
    @cute.kernel
    def program(X, Y):
        i, _ = cute.tile_index(Y, (4, 1))
        x = cute.load(cute.local_tile(X, (4, 32), (i, 0)))
        cute.copy(cute.reduce(x, 1, function), cute.local_tile(Y, (4, 1), (i, 0)))

    spec = cute.TensorSpec((None, None), cute.f32)
    with pytest.raises(cute.CompileError, match=message):
        cute.compile(program, spec, spec, arch="sm_80")
