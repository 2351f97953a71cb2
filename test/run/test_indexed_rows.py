"""Rows that a tile numbers: gathered, scattered and added to, in the interpreter and the emulator,
for all targets.
"""

import re

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

BF16 = ml_dtypes.bfloat16
TARGETS = ("sm_80", "sm_90a", "sm_100a")
BACKENDS = ("interpreter", "emulator")


@cute.kernel
def gather(X, rows, Y, *, tile):
    i, j = cute.tile_index(Y, tile)
    at = cute.local_tile(rows, (tile[0],), (i,))
    cute.copy(cute.local_tile(X, tile, (at, j)), cute.local_tile(Y, tile, (i, j)))


@cute.kernel
def scatter(X, rows, Y, *, tile):
    i, j = cute.tile_index(X, tile)
    at = cute.local_tile(rows, (tile[0],), (i,))
    cute.copy(cute.local_tile(X, tile, (i, j)), cute.local_tile(Y, tile, (at, j)))


@cute.kernel
def scatter_add(X, rows, Y, *, tile):
    i, j = cute.tile_index(X, tile)
    at = cute.local_tile(rows, (tile[0],), (i,))
    x = cute.local_tile(X, tile, (i, j)).to(cute.f32)
    cute.atomic_add(x, cute.local_tile(Y, tile, (at, j)))


@cute.kernel
def scatter_add_to(X, rows, Y, *, tile):
    """In the type of Y."""
    i, j = cute.tile_index(X, tile)
    at = cute.local_tile(rows, (tile[0],), (i,))
    x = cute.local_tile(X, tile, (i, j)).to(Y.dtype)
    cute.atomic_add(x, cute.local_tile(Y, tile, (at, j)))


@cute.kernel
def transposed_gather(X, rows, Y, *, tile):
    """Y (columns, rows) of the rows of X: lanes follow the rows when they store."""
    j, i = cute.tile_index(Y, tile[::-1])
    at = cute.local_tile(rows, (tile[0],), (i,))
    x = cute.local_tile(X, tile, (at, j)).load()
    cute.copy(x.T, cute.local_tile(Y, tile[::-1], (j, i)))


@cute.kernel
def normed_embedding(X, P, words, Y, *, tile):
    """Two gathers of one program, numbered by arithmetic on tiles, in a loop over columns."""
    i = cute.tile_index(Y, (tile[0], None))[0]
    at = cute.local_tile(words, (tile[0],), (i,))
    even = cute.local_tile(words, (tile[0],), (i,)).load() // 2
    x = cute.local_tile(X, tile, (at, None))
    p = cute.local_tile(P, tile, (even, None))
    total = cute.zeros((tile[0], 1))
    for k in cute.range(x.tiles):
        v = x[k].to(cute.f32) + p[k].to(cute.f32)
        total.assign(total + cute.row_sum(v * v))
    y = cute.local_tile(Y, tile, (i, None))
    for k in cute.range(x.tiles):
        v = x[k].to(cute.f32) + p[k].to(cute.f32)
        cute.copy((v - total).to(Y.dtype), y[k])


@cute.kernel
def experts(X, W, rows, Y, scale, *, tile=(64, 64, 32)):
    """Rows of X times W, scaled element by element, stored to rows of Y; odd columns are kept."""
    bm, bn, bk = tile
    m, n = cute.tile_index(X, (bm, None))[0], 0
    x, w = cute.local_tile(X, (bm, bk), (m, None)), cute.local_tile(W, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn))
    for k in cute.range(x.tiles):
        cute.gemm(x[k], w[k], acc)
    at = cute.local_tile(rows, (bm,), (m,))
    acc = acc * cute.local_tile(scale, (bm, 1), (at, 0)).load()
    view = cute.local_tile(Y, (bm, bn), (at, n))
    cute.copy(acc.to(Y.dtype), view, mask=cute.coord(acc, 1) % 2 == 0)


def _numbers(rng, count, high, kind=np.int32):
    """Row numbers, some of them of no row."""
    return rng.integers(-2, high + 3, count).astype(kind)


def _rows_of(x, numbers):
    there = (numbers >= 0) & (numbers < len(x))
    return np.where(there[:, None], x[np.clip(numbers, 0, len(x) - 1)].astype(np.float64), 0)


def _drawn(seed):
    rng = np.random.default_rng(seed)
    dtype = [np.float32, BF16, np.int8, np.float64][rng.integers(4)]
    tile = int(rng.choice([1, 2, 4, 8, 16])), int(rng.choice([32, 64, 128, 256]))
    if rng.random() < 0.3:
        tile = int(rng.integers(1, 17)), int(rng.integers(1, 200))
    shape = int(rng.integers(1, 40)), int(rng.integers(1, 300))
    if rng.random() < 0.5:
        shape = shape[0], -(-shape[1] // 16) * 16
    return rng, dtype, tile, shape, int(rng.integers(1, 40))


def _check(seed, target, backend):
    rng, dtype, tile, (rows, width), count = _drawn(seed)
    kind = [np.int32, np.int64][seed % 2]
    where = {"tile": tile, "arch": target, "backend": backend}
    x = rng.integers(-8, 8, (rows, width)).astype(dtype)
    numbers = _numbers(rng, count, rows, kind)
    y = np.full((count, width), 9, dtype)
    gather(x, numbers, y, **where)
    np.testing.assert_array_equal(y.astype(np.float64), _rows_of(x, numbers))

    y = np.full((width, count), 9, dtype)
    transposed_gather(x, numbers, y, **where)
    np.testing.assert_array_equal(y.astype(np.float64).T, _rows_of(x, numbers))

    numbers = rng.permutation(rows + count)[:count].astype(kind) - 2
    source = rng.integers(-8, 8, (count, width)).astype(dtype)
    there = (numbers >= 0) & (numbers < rows)
    exact = x.copy()
    exact[numbers[there]] = source[there]
    scatter(source, numbers, x, **where)
    np.testing.assert_array_equal(x, exact)

    numbers = _numbers(rng, count, rows, kind)
    there = (numbers >= 0) & (numbers < rows)
    total = np.zeros((rows, width), np.float32)
    exact = total.copy()
    np.add.at(exact, numbers[there], source[there].astype(np.float32))
    scatter_add(source, numbers, total, **where)
    np.testing.assert_array_equal(total, exact)


@pytest.mark.parametrize("seed", range(3))
def test_drawn(seed):
    _check(seed, TARGETS[seed], BACKENDS[seed % 2])


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(100, 108))
def test_more_drawn(seed, target, backend):
    _check(seed, target, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_that_are_computed(backend):
    rng = np.random.default_rng(5)
    x, p = rng.integers(-3, 4, (2, 20, 90)).astype(BF16)
    words = rng.integers(0, 20, 13).astype(np.int32)
    y = np.empty((13, 90), np.float32)
    normed_embedding(x, p, words, y, tile=(4, 32), arch="sm_90a", backend=backend)
    v = x[words].astype(np.float64) + p[words // 2].astype(np.float64)
    np.testing.assert_array_equal(y, v - (v * v).sum(1, keepdims=True))


@pytest.mark.parametrize("target", TARGETS)
def test_results_of_a_multiply(target):
    rng = np.random.default_rng(6)
    x, w = rng.integers(-2, 3, (70, 40)).astype(BF16), rng.integers(-2, 3, (40, 64)).astype(BF16)
    scale = rng.integers(-2, 3, (90, 1)).astype(np.float32)
    rows = rng.permutation(95)[:70].astype(np.int32)
    y = np.full((90, 64), 5, np.float32)
    exact = y.copy()
    product = x.astype(np.float32) @ w.astype(np.float32)
    for at, row in enumerate(rows):
        if row < 90:
            exact[row, ::2] = (product[at] * scale[row])[::2]
    experts(x, w, rows, y, scale, arch=target, backend="emulator")
    np.testing.assert_array_equal(y, exact)


@cute.kernel
def of_batches(X, rows, Y):
    """Of (batch, rows, columns), along a vector, and of a slice."""
    b, i, _ = cute.tile_index(Y, (1, 4, 32))
    at = cute.local_tile(rows, (1, 4), (b, i)).T.load()
    some = X.slice(1, 2, 9)
    y = cute.local_tile(some, (4, 32), (b, at, 0)).load()
    cute.copy(y, cute.local_tile(Y, (4, 32), (b, i, 0)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_batches_and_slices(backend):
    rng = np.random.default_rng(7)
    x = rng.integers(-9, 9, (3, 12, 30)).astype(np.float32)
    rows = rng.integers(-1, 8, (3, 8)).astype(np.int32)
    y = np.empty((3, 8, 30), np.float32)
    of_batches(x, rows, y, backend=backend)
    for b in range(3):
        np.testing.assert_array_equal(y[b], _rows_of(x[b, 2:9], rows[b]))


@cute.kernel
def wrong(X, rows, Y, *, how):
    i, j = cute.tile_index(Y, (16, 16))
    at = cute.local_tile(rows, (16,), (i,))
    y = cute.local_tile(Y, (16, 16), (i, j))
    match how:
        case "columns":
            x = cute.local_tile(X, (16, 16), (i, at))
        case "type":
            x = cute.local_tile(X, (16, 16), (at.to(cute.f32), j))
        case "count":
            x = cute.local_tile(X, (8, 16), (at, j))
        case "added":
            x = cute.atomic_add(y.load(), cute.local_tile(X, (16, 16), (at, j)).T)
        case _:
            x = cute.local_tile(X, (16, 16), (at, j))
            x = x.load() + cute.coord(x.load(), 0, x)
    cute.copy(x, y)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("columns", "as the coordinate of the rows of a tile of X .*mode 1 of a tile .16, 16."),
        ("type", "row numbers of i32 or i64, got f32"),
        ("count", "the numbers of 8 rows, as the tile has, got a tile of shape .16,."),
        ("added", r"a tile of rows .* got its transpose; .*cute.atomic_add.tile.T, view"),
        ("coord", "a view tiled along mode 0"),
    ],
)
def test_refusals(how, message):
    x, rows = np.zeros((16, 16), np.float32), np.zeros(16, np.int32)
    with pytest.raises(cute.CompileError, match=message):
        wrong(x, rows, x.copy(), how=how, backend="emulator")


@pytest.mark.parametrize("width", [1000, 520, 777])
def test_lanes_share_rows_of_any_width(width):
    """125 vectors have no power of two in common with a warp: columns are padded."""
    rng = np.random.default_rng(width)
    x = rng.integers(-8, 8, (9, width)).astype(BF16)
    numbers, y = _numbers(rng, 7, 9), np.full((7, width), 9, BF16)
    where = {"tile": (4, width), "arch": "sm_90a"}
    gather(x, numbers, y, backend="emulator", **where)
    np.testing.assert_array_equal(y.astype(np.float64), _rows_of(x, numbers))
    kernel = cute.compile(gather, x, numbers, y, **where)
    assert kernel.resources.ops["main"] < 500


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
@pytest.mark.parametrize("columns", [64, 70, 33])
def test_vectors_added_to_rows(dtype, columns):
    """Atomics of whole vectors of floats from sm_90 on, of elements where rows do not begin so."""
    rng = np.random.default_rng(columns)
    x = rng.integers(-2, 3, (20, columns)).astype(BF16)
    rows = rng.integers(-1, 6, 20).astype(np.int32)
    y = np.zeros((5, columns), dtype)
    kernel = cute.compile(scatter_add_to, x, rows, y, tile=(4, 32), arch="sm_90a")
    found = " ".join(re.findall(r"red\.relaxed\.gpu\.global\.add\.(\S+)", kernel.ptx))
    packed = "x2" if dtype != np.float32 else ".f32"
    wide = {64: f"v4.*{packed}", 70: "v2.f32" if dtype == np.float32 else packed, 33: "f"}[columns]
    assert re.search(wide, found)
    assert columns == 64 or "v4" not in found
    scatter_add_to(x, rows, y, tile=(4, 32), arch="sm_90a", backend="emulator")
    exact = np.zeros((5, columns))
    inside = (rows >= 0) & (rows < 5)
    np.add.at(exact, rows[inside], x[inside].astype(np.float64))
    np.testing.assert_array_equal(y.astype(np.float64), exact)
