"""Tiles that leave a warp waiting are joined: the same results, and the numbers of rows and columns
as the program asks for them.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import cutedialect as cute

RNG = random.Random(19)
TILES = [
    (1, 64),
    (1, 1),
    (5, 1),
    (3, 20),
    (2, 2),
    *[(RNG.choice((1, 2, 3, 4)), 7) for _ in range(2)],
]


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")


@cute.kernel
def numbered(X, R, C, Y, *, tile):
    """Elements with their places, a vector along either mode beside them."""
    i, j = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, j)).to(cute.f32)
    row, column = cute.coord(x, 0, i * tile[0]), cute.coord(x, 1, j * tile[1])
    x = cute.where((row + column) % 3 == 0, -x, x)
    y = x * cute.row_vector(R, j, tile[1]) + cute.column_vector(C, i, tile[0])
    cute.copy(y.to(Y.dtype), cute.local_tile(Y, tile, (i, j)))


@cute.kernel
def softmax(X, Y, S, *, tile):
    i, _ = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    x = cute.where(cute.coord(x, 1) < X.shape[1], x, -cute.inf)
    e = cute.exp(x - cute.row_max(x))
    total = cute.row_sum(e)
    cute.copy(total, cute.local_tile(S, (tile[0],), (i,)))
    cute.copy((e / total).to(Y.dtype), cute.local_tile(Y, tile, (i, 0)))


@cute.kernel
def looped_sums(X, S, *, tile):
    i = cute.tile_index(S, (tile[0],))
    x = cute.local_tile(X, tile, (i, None))
    total = cute.zeros((tile[0], 1))
    for j in cute.range(x.tiles):
        total.assign(total + cute.row_sum(x[j].to(cute.f32)))
    cute.copy(total, cute.local_tile(S, (tile[0],), (i,)))


@cute.kernel
def scaled_by_item(X, Y, *, tile):
    """What a work item computes of its number would change."""
    i, j = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, j)).to(cute.f32)
    cute.copy((x * (i % 3).to(cute.f32)).to(Y.dtype), cute.local_tile(Y, tile, (i, j)))


def joined(kernel):
    return [each.message for each in kernel.remarks if "leave a warp waiting" in each.message]


@pytest.mark.parametrize("tile", TILES)
def test_elements_keep_their_places(tile):
    rng = np.random.default_rng(sum(tile))
    x = rng.integers(-9, 9, (23, 77)).astype(np.float16)
    r, c = (rng.integers(-9, 9, n).astype(np.float32) for n in (77, 23))
    y = np.zeros_like(x)
    kernel = cute.compile(numbered, x, r, c, y, tile=tile, arch="sm_90a", backend="emulator")
    kernel.launch(x, r, c, y)
    places = np.add.outer(np.arange(23), np.arange(77))
    exact = np.where(places % 3 == 0, -x, x) * r + c[:, None]
    np.testing.assert_array_equal(y, exact.astype(np.float16))
    assert joined(kernel)


@pytest.mark.parametrize("rows", [1, 3])
def test_rows_are_joined_and_columns_stay(rows):
    x = np.random.default_rng(rows).standard_normal((21, 30)).astype(np.float32)
    y, s, t = np.zeros_like(x), np.zeros(21, np.float32), np.zeros(21, np.float32)
    options = {"tile": (rows, 32), "arch": "sm_80", "backend": "emulator"}
    kernel = cute.compile(softmax, x, y, s, **options)
    kernel.launch(x, y, s)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(s, e.sum(1), rtol=1e-5)
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)
    assert joined(kernel)
    looped_sums(x, t, tile=(rows, 16), arch="sm_80", backend="emulator")
    np.testing.assert_allclose(t, x.sum(1), rtol=1e-4, atol=1e-5)


def test_what_asks_for_the_number_of_its_work_item_stays():
    x = np.ones((9, 70), np.float32)
    y = np.zeros_like(x)
    kernel = cute.compile(scaled_by_item, x, y, tile=(2, 8), arch="sm_80", backend="emulator")
    kernel.launch(x, y)
    rows = np.repeat(np.arange(5) % 3, 2)[:9]
    np.testing.assert_array_equal(y, x * rows[:, None])
    assert all("along mode 1" in message for message in joined(kernel))
