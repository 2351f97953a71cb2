"""`cute.local_tile`, `cute.tile_index`, `.T`: the elements that a view shows, what is refused."""

# Wrong calls are made on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError


def run(program, *arrays, **options):
    program(*arrays, backend="emulator", **options)


def counted(*shape):
    """An array whose elements are all different."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("tile", [(1, 64), (64, 1), (1, 1), (32, 16)])
def test_an_extent_of_one_stays_a_mode(tile):
    shapes = []

    @cute.kernel
    def program(X, Y, *, tile=tile):
        at = cute.tile_index(Y, tile)
        x, y = cute.local_tile(X, tile, at), cute.local_tile(Y, tile, at)
        shapes.append(x.shape)
        cute.copy(cute.load(x) * 2.0, y)

    x = counted(5, 40)
    y = np.zeros_like(x)
    run(program, x, y)
    assert set(shapes) == {tile}
    assert np.array_equal(y, 2 * x)


def test_a_run_of_rows():
    @cute.kernel
    def program(X, Y):
        rows, out = (cute.local_tile(Z, (1, 64), (None, 0)) for Z in (X, Y))
        assert rows.shape == (1, 64)
        for row in cute.range(rows.tiles):
            cute.copy(cute.load(rows[row]) + 1.0, out[row])

    x = counted(7, 50)
    y = np.zeros_like(x)
    run(program, x, y)
    assert np.array_equal(y, x + 1)


def test_modes_before_the_tile_take_a_coordinate_each():
    @cute.kernel
    def program(X, Y):
        b, h, i = cute.tile_index(Y, (1, 1, 16))
        x, y = (cute.local_tile(Z, (16, 32), (b, h, i, None)) for Z in (X, Y))
        assert x.shape == (16, 32)
        for k in cute.range(x.tiles):
            assert x[k].shape == (16, 32)
            cute.copy(cute.load(x[k]) + 1.0, y[k])

    x = counted(2, 3, 20, 50)
    y = np.zeros_like(x)
    run(program, x, y)
    assert np.array_equal(y, x + 1)


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
@pytest.mark.parametrize("whole", [False, True])
def test_a_run_along_a_batch_mode(whole, backend):
    """It has as many tiles as the mode has elements, whether the tile drops the mode or has 1."""

    @cute.kernel
    def program(X, Y, N, *, whole=whole):
        m, k = cute.tile_index(Y, (16, 32))
        x = cute.local_tile(X, (1, 16, 32) if whole else (16, 32), (None, m, k))
        assert x.shape == (16, 32)
        total = cute.zeros((16, 32))
        for b in cute.range(x.tiles):
            total += x[b].load()
        cute.copy(total, cute.local_tile(Y, (16, 32), (m, k)))
        count = cute.full((1, 1), x.tiles)
        cute.copy(count, cute.local_tile(N, (1, 1), (0, 0)))

    x = counted(5, 20, 40) % 13
    y, n = np.zeros((20, 40), np.float32), np.zeros((1, 1), np.int32)
    program(x, y, n, backend=backend)
    assert n[0, 0] == 5
    assert np.array_equal(y, x.sum(0))


def test_a_run_along_a_batch_mode_of_numbered_rows():
    @cute.kernel
    def program(X, rows, Y):
        numbers = cute.local_tile(rows, (8,), (0,)).load()
        x = cute.local_tile(X, (8, 32), (None, numbers, 0))
        total = cute.zeros((8, 32))
        for b in cute.range(x.tiles):
            total += x[b].load()
        cute.copy(total, cute.local_tile(Y, (8, 32), (0, 0)))

    x, rows = counted(3, 20, 32) % 13, np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32)
    y = np.zeros((8, 32), np.float32)
    run(program, x, rows, y)
    assert np.array_equal(y, x[:, rows].sum(0))


def test_a_vector_of_a_batch():
    @cute.kernel
    def program(X, Y):
        b, i = cute.tile_index(X, (1, 32))
        x = cute.local_tile(X, (32,), (b, i))
        assert x.shape == (32,)
        cute.copy(x, cute.local_tile(Y, (32,), (b, i)))

    x = counted(3, 70)
    y = np.zeros_like(x)
    run(program, x, y)
    assert np.array_equal(y, x)


def test_coordinates_may_be_python_ints():
    @cute.kernel
    def program(X, Y):
        for i in range(2):
            cute.copy(
                cute.local_tile(X, (16, 16), (i, 1)), cute.local_tile(Y, (16, 16), (1 - i, 0))
            )

    x = counted(32, 32)
    y = np.zeros_like(x)
    run(program, x, y)
    assert np.array_equal(y[:16, :16], x[16:, 16:])
    assert np.array_equal(y[16:, :16], x[:16, 16:])
    assert not y[:, 16:].any()


def test_what_hangs_over_reads_zero_and_is_not_written():
    @cute.kernel
    def program(X, Y):
        at = (1, 1)
        cute.copy(
            cute.load(cute.local_tile(X, (16, 16), at)) + 5.0, cute.local_tile(Y, (16, 16), at)
        )

    # X ends inside the tile, Y does not: the rest of the tile is 0 + 5.
    x, store = counted(20, 19), np.full((40, 40), -1, np.float32)
    y = store[:36, :30]
    run(program, x, y)
    want = np.full((40, 40), -1, np.float32)
    want[16:32, 16:30] = 5
    want[16:20, 16:19] += x[16:, 16:]
    assert np.array_equal(store, want)


def test_transposed_views_and_tiles():
    @cute.kernel
    def program(X, Y, Z):
        i, j = cute.tile_index(X, (16, 32))
        x = cute.local_tile(X, (16, 32), (i, j))
        assert (x.T.shape, x.T.T.shape) == ((32, 16), (16, 32))
        cute.copy(x.T, cute.local_tile(Y, (32, 16), (j, i)))
        cute.copy(cute.load(x).T + 1.0, cute.local_tile(Z, (32, 16), (j, i)))

    x = counted(20, 70)
    y, z = np.zeros((70, 20), np.float32), np.zeros((70, 20), np.float32)
    run(program, x, y, z)
    assert np.array_equal(y, x.T)
    assert np.array_equal(z, x.T + 1)


REFUSED = {
    "too many modes": (
        lambda X: cute.local_tile(X, (1, 2, 3), (0, 0, 0)),
        "a tile of 1 to 2 modes",
    ),
    "no mode": (lambda X: cute.local_tile(X, (), (0, 0)), "a tile of 1 to 2 modes for X, got 0"),
    "extent 0": (lambda X: cute.local_tile(X, (0, 8), (0, 0)), "positive tile extents, got 0"),
    "extent -1": (lambda X: cute.local_tile(X, (8, -1), (0, 0)), "positive tile extents, got -1"),
    "float": (lambda X: cute.local_tile(X, (8, 2.0), (0, 0)), "tile extents to be ints or None"),
    "whole": (lambda X: cute.local_tile(X, (8, None), (0,)), "a static extent of mode 1 of X"),
    "coordinates": (
        lambda X: cute.local_tile(X, (8, 8), (0,)),
        "expected 2 coordinates for X, got 1",
    ),
    "two runs": (lambda X: cute.local_tile(X, (8, 8), (None, None)), "at most one coordinate"),
    "coordinate": (
        lambda X: cute.local_tile(X, (8, 8), (0, 1.5)),
        "a tile coordinate to be an int",
    ),
    "tensor": (lambda X: cute.local_tile(3, (8, 8), (0, 0)), "a tensor to tile, got int"),
    "index": (lambda X: cute.tile_index(X, (1, 1, 1)), "a tile of 1 to 2 modes for X, got 3"),
    "index 0": (lambda X: cute.tile_index(X, (8, 0)), "positive tile extents, got 0"),
    "batch run": (
        lambda X: cute.coord(cute.zeros((1, 8)), 0, cute.local_tile(X, (8,), (None, 0))),
        r"expected a run of tiles along one of their modes, got one of tiles \(8,\) along mode 0",
    ),
    "divided by 0": (lambda X: X.shape[0] // 0, "expected a divisor other than 0"),
    "rest of 0": (lambda X: cute.zeros((8, 8), cute.u8) % 0, "expected a divisor other than 0"),
    "iterated": (lambda X: list(cute.local_tile(X, (8, 8), (0, None))), "iteration over x itself"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    call, message = REFUSED[case]

    @cute.kernel
    def program(X):
        call(X)

    with pytest.raises(CompileError, match=message):
        run(program, counted(16, 16))
