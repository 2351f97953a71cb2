"""Programs of small tiles, whose work items may or may not be joined: they are right either way."""

import numpy as np
import pytest

import cutedialect as cute

ARCHES = ("sm_80", "sm_90a")


@pytest.fixture
def x():
    return np.random.default_rng(0).integers(-9, 10, (10, 4)).astype(np.float32)


def tile(tensor, shape, at):
    return cute.local_tile(tensor, shape, at)


@cute.kernel
def turned(X, Y):
    """What is the same for all work items is turned, and is as long as their tiles."""
    i, j = cute.tile_index(Y, (5, 2))
    one = cute.load(tile(X, (5, 2), (0, 0)))
    cute.copy((one.T + 1).T, tile(Y, (5, 2), (i, j)))


@pytest.mark.parametrize("arch", ARCHES)
def test_a_turned_tile_that_work_items_share(arch, x):
    y = np.zeros_like(x)
    turned(x, y, arch=arch, backend="emulator")
    assert np.array_equal(y, np.tile(x[:5, :2] + 1, (2, 2)))


@cute.kernel
def reduced(X, Y):
    i, _ = cute.tile_index(Y, (2, 1))
    least = cute.reduce(cute.load(tile(X, (2, 4), (0, 0))), 1, "min")
    cute.copy(cute.minimum(least, 3), tile(Y, (2, 1), (i, 0)))


@pytest.mark.parametrize("arch", ARCHES)
def test_a_sum_that_work_items_share(arch, x):
    y = np.zeros((10, 1), np.float32)
    reduced(x, y, arch=arch, backend="emulator")
    assert np.array_equal(y, np.tile(np.minimum(x[:2].min(1, keepdims=True), 3), (5, 1)))


@cute.kernel
def masked(X, Y):
    """A mask says where in the tile an element is: a longer tile would have another one."""
    i, j = cute.tile_index(Y, (5, 2))
    x = cute.load(tile(X, (5, 2), (i, j)))
    cute.copy(x, tile(Y, (5, 2), (i, j)), cute.coord(x, 1) < 1)


@pytest.mark.parametrize("arch", ARCHES)
def test_a_store_with_a_mask(arch, x):
    y = np.zeros_like(x)
    masked(x, y, arch=arch, backend="emulator")
    assert np.array_equal(y, np.where(np.arange(4) % 2 < 1, x, 0))


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("rows", [33, 37, 66])
def test_rows_that_few_warps_cannot_share(arch, rows):
    """The nearest divisor of 33 rows to two warps is three."""

    @cute.kernel
    def program(X, Y):
        i, j = cute.tile_index(Y, (16, rows))
        x = cute.load(tile(X, (rows, 16), (j, i)).T)
        cute.copy(x - cute.column_max(x), tile(Y, (16, rows), (i, j)))

    x = np.random.default_rng(0).integers(-9, 10, (2 * rows, 30)).astype(np.float64)
    y = np.zeros((30, 2 * rows))
    program(x, y, arch=arch, backend="emulator")
    wanted = x.T.reshape(30, 2, rows)
    top = [np.maximum.reduceat(wanted, [0, 16], 0)[n // 16] for n in range(30)]
    assert np.array_equal(y, (wanted - top).reshape(30, 2 * rows))


@cute.kernel
def longer(X, Y, Z):
    """Z has more rows than there are work items, whose rows it keeps to itself."""
    i, j = cute.tile_index(Y, (2, 4))
    x = cute.load(tile(X, (2, 4), (i, j)))
    cute.copy(x, tile(Y, (2, 4), (i, j)))
    cute.copy(x + 1, tile(Z, (2, 4), (i, j)))
    cute.copy(x + 2, tile(Z.slice(0, 10, 1000), (2, 4), (i, j)))


@pytest.mark.parametrize("arch", ARCHES)
def test_a_tensor_that_is_longer_than_the_work_items(arch):
    x = np.arange(120, dtype=np.float32).reshape(30, 4)
    y, z = np.zeros((5, 4), np.float32), np.zeros((30, 4), np.float32)
    kernel = cute.compile(longer, x, y, z, arch=arch)
    assert any("leave a warp waiting" in each.message for each in kernel.remarks)
    longer(x, y, z, arch=arch, backend="emulator")
    wanted = np.zeros_like(z)
    wanted[:6], wanted[10:16] = x[:6] + 1, x[:6] + 2
    assert np.array_equal(y, x[:5])
    assert np.array_equal(z, wanted)


@pytest.mark.parametrize("arch", ARCHES)
def test_lanes_share_rows_by_powers_of_two(arch):
    """Six warps, and rows of twelve vectors: reductions meet in shuffles."""

    @cute.kernel
    def program(X, Y, Z, S):
        i, j = cute.tile_index(Y, (33, 48))
        x = cute.load(tile(X, (48, 33), (j, i)).T)
        ones = cute.where(cute.coord(x, 0) < 20, cute.full((33, 48), 1, cute.i8), 0)
        cute.copy(x, tile(Y, (33, 48), (i, j)))
        cute.copy(ones.to(cute.i32), tile(Z, (33, 48), (i, j)))
        cute.copy(cute.row_sum(ones), tile(S, (33, 1), (i, j)))

    x = np.random.default_rng(0).integers(-9, 10, (96, 33)).astype(np.int8)
    y, z, s = np.zeros((33, 96), np.int8), np.zeros((33, 96), np.int32), np.zeros((33, 2), np.int32)
    program(x, y, z, s, arch=arch, backend="emulator")
    ones = np.repeat((np.arange(33) < 20)[:, None], 96, 1)
    assert np.array_equal(y, x.T)
    assert np.array_equal(z, ones)
    assert np.array_equal(s, 48 * ones[:, ::48])
