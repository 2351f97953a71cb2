"""Tiles of three to five modes against NumPy, and what is refused of them."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

X = np.random.default_rng(37).integers(-4, 5, (3, 29, 16)).astype(np.float32)
# As the work items see it: elements outside are 0.
PADDED = np.zeros((4, 32, 16), np.float32)
PADDED[:3, :29] = X
TILE = (2, 16, 16)


def _run(program, *outputs, backend="emulator", arch="sm_80"):
    program(X, *outputs, backend=backend, arch=arch)


def _tiles():
    """The work items' tiles, and where they lie."""
    for b, i in np.ndindex(2, 2):
        place = slice(2 * b, 2 * b + 2), slice(16 * i, 16 * i + 16)
        yield place, PADDED[place]


@cute.kernel
def _shapes(X, Turned, Split, Flat, Parts):
    at = (*cute.tile_index(X, TILE[:2]), 0)
    x = cute.local_tile(X, TILE, at).load()
    b, i, _ = at
    cute.copy(cute.permute(x, (2, 0, 1)), cute.local_tile(Turned, (16, 2, 16), (0, b, i)))
    five = cute.reshape(x, (2, 4, 4, 8, 2))
    low, high = cute.split(five, 2)
    joined = cute.concatenate((high, low), -1)
    cute.copy(cute.reshape(joined, TILE), cute.local_tile(Split, TILE, at))
    cute.copy(cute.reshape(x, (32, 16)), cute.local_tile(Flat, (32, 16), (b, i)))
    part = x[:, 2:4, None, 1:3] + x.mT[:, 2:4, None, 1:3]
    cute.copy(part[:, :, 0:1], cute.local_tile(Parts, (2, 2, 1, 2), (b, i, 0, 0)))


EVERYWHERE = pytest.mark.parametrize("backend", ["interpreter", "emulator"])


@pytest.mark.some(1)
@EVERYWHERE
def test_shapes(backend):
    turned, split = np.zeros((16, 3, 29), np.float32), np.zeros_like(X)
    flat, parts = np.zeros((64, 32), np.float32), np.zeros((4, 4, 1, 2), np.float32)
    _run(_shapes, turned, split, flat, parts, backend=backend)
    assert np.array_equal(turned, X.transpose(2, 0, 1))
    assert np.array_equal(split, X.reshape(3, 29, 8, 2)[..., ::-1].reshape(X.shape))
    for (b, i), x in _tiles():
        place = slice(16 * b.start, 16 * b.start + 32), i
        assert np.array_equal(flat[place], x.reshape(32, 16))
        want = (x + x.transpose(0, 2, 1))[:, 2:4, None, 1:3]
        assert np.array_equal(parts[b, i.start // 8 : i.start // 8 + 2], want)


@cute.kernel
def _along(X, Sums, Means, Scanned, Sorted, Places, Total):
    at = (*cute.tile_index(X, TILE[:2]), 0)
    b, i, _ = at
    view = cute.local_tile(X, TILE, at)
    x = view.load()
    cute.copy(x + cute.sum(x, mode=1), cute.local_tile(Sums, TILE, at))
    kept = cute.mean(x, mode=(0, 2), keepdims=False)
    cute.copy(kept, cute.local_tile(Means, (16, 1), (i, b)))
    shift = cute.coord(x, 0, view) * 100 + cute.coord(x, 1)
    cute.copy(cute.cumsum(x, mode=1) + shift.to(cute.f32), cute.local_tile(Scanned, TILE, at))
    cute.copy(cute.sort(x, mode=-1), cute.local_tile(Sorted, TILE, at))
    first = cute.argmax(x, mode=0)
    cute.copy(cute.broadcast_to(first, TILE), cute.local_tile(Places, TILE, at))
    with cute.when(cute.any(x > 3.0)):
        cute.copy(cute.sum(x, keepdims=False), cute.local_tile(Total, (1, 1), (b, i)))


@pytest.mark.some(1)
@EVERYWHERE
def test_functions_along_modes(backend):
    sums, scanned, ordered = np.zeros_like(X), np.zeros_like(X), np.zeros_like(X)
    means, total = np.zeros((32, 2), np.float32), np.zeros((2, 2), np.float32)
    places = np.zeros(X.shape, np.int32)
    _run(_along, sums, means, scanned, ordered, places, total, backend=backend)
    for place, x in _tiles():
        inside = sums[place].shape
        cut = tuple(map(slice, inside))
        b, i = place[0].start // 2, place[1].start // 16
        assert np.array_equal(sums[place], (x + x.sum(1, keepdims=True))[cut])
        assert np.allclose(means[place[1], b], x.mean((0, 2)), atol=1e-6)
        shift = np.arange(2 * b, 2 * b + 2)[:, None, None] * 100 + np.arange(16)[:, None]
        assert np.array_equal(scanned[place], (x.cumsum(1) + shift)[cut])
        assert np.array_equal(ordered[place], np.sort(x, -1)[cut])
        assert np.array_equal(places[place], (x.argmax(0, keepdims=True) + 0 * x)[cut])
        assert total[b, i] == x.sum()


@cute.kernel
def _products(X, Y):
    b, i = cute.tile_index(X, TILE[:2])
    acc = cute.zeros((2, 16, 16))
    acc += 1.0
    for _ in cute.range(2):
        x = cute.local_tile(X, TILE, (b, i, 0))
        cute.gemm(x.to(cute.f16), x.load().mT.to(cute.f16), acc)
    mask = cute.coord(acc, 2) < 9
    cute.copy(acc, cute.local_tile(Y, (2, 16, 16), (b, i, 0)), mask)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_products_with_batch_modes(arch):
    y = np.zeros_like(X)
    _run(_products, y, arch=arch)
    for place, x in _tiles():
        want = 1 + 2 * x @ x.transpose(0, 2, 1)
        want[..., 9:] = 0
        assert np.array_equal(y[place], want[tuple(map(slice, y[place].shape))])


@cute.kernel
def _places(X, Taken, Put, Counts, Tops, Places, Sorted, Moved, Welford):
    at = (*cute.tile_index(X, TILE[:2]), 0)
    b, i, _ = at
    x = cute.local_tile(X, TILE, at).load()
    numbers = cute.coord(x[:, :4], 1) * 5 - cute.coord(x[:, :4], 0)
    taken = cute.take_along(x, numbers, mode=1) + cute.take_along(x, numbers[:, :1, :1], mode=1)
    cute.copy(taken, cute.local_tile(Taken, (2, 4, 16), (b, i, 0)))
    put = cute.put_along(x, numbers, taken, 1)
    cute.copy(cute.put_along(put, numbers * 0, 1.0, 1, add=True),
              cute.local_tile(Put, TILE, at))  # fmt: skip
    whole = x.to(cute.i32)
    counts = cute.histogram(whole, 4, mode=1) + cute.histogram(whole, 4).mT
    cute.copy(counts, cute.local_tile(Counts, (2, 4, 16), (b, i, 0)))
    for tensor, part in zip((Tops, Places), cute.top_k(x, 3, mode=1), strict=True):
        cute.copy(part, cute.local_tile(tensor, (2, 3, 16), (b, i, 0)))
    first, second = cute.sort(x, mode=1, values=cute.coord(x, 1))
    for tensor, part in ((Sorted, first), (Moved, second)):
        cute.copy(part, cute.local_tile(tensor, TILE, at))
    mean, _ = cute.reduce((x, x * 0 + 1), 1, lambda m, n, p, q: ((m * n + p * q) / (n + q), n + q))
    cute.copy(mean, cute.local_tile(Welford, (2, 1, 16), (b, i, 0)))


@pytest.mark.some(1)
@EVERYWHERE
def test_places_along_modes(backend):
    taken, welford = np.zeros((4, 8, 16), np.float32), np.zeros((4, 2, 16), np.float32)
    put, ordered, moved = np.zeros_like(X), np.zeros_like(X), np.zeros(X.shape, np.int32)
    counts, tops = np.zeros((4, 8, 16), np.int32), np.zeros((4, 6, 16), np.float32)
    places = np.zeros((4, 6, 16), np.int32)
    results = taken, put, counts, tops, places, ordered, moved, welford
    _run(_places, *results, backend=backend)
    numbers = np.arange(4)[None, :, None] * 5 - np.arange(2)[:, None, None]
    inside = (numbers >= 0) & (numbers < 16)
    for place, x in _tiles():
        b, i = place[0].start, place[1].start // 16
        cut = tuple(map(slice, ordered[place].shape))
        want = np.take_along_axis(x, np.maximum(numbers, 0), 1) * inside
        want = want + (np.take_along_axis(x, np.maximum(numbers[:, :1], 0), 1) * inside[:, :1])
        assert np.array_equal(taken[b : b + 2, 4 * i : 4 * i + 4], want[: 4 - b])
        new = x.copy()
        for page, row in zip(*np.nonzero(inside[..., 0]), strict=True):
            new[page, numbers[page, row, 0]] = want[page, row]
        new[:, 0] += 4
        assert np.array_equal(put[place], new[cut])
        n = np.stack([(x.astype(int) == k).sum(1) for k in range(4)], 1)
        n = n + np.array([(x.astype(int) == k).sum() for k in range(4)])[:, None]
        assert np.array_equal(counts[b : b + 2, 4 * i : 4 * i + 4], n[: 4 - b])
        order = np.argsort(-x, 1, kind="stable")[:, :3]
        rows = slice(3 * i, 3 * i + 3)
        assert np.array_equal(places[b : b + 2, rows], order[: 4 - b])
        assert np.array_equal(tops[b : b + 2, rows], np.take_along_axis(x, order, 1)[: 4 - b])
        order = np.argsort(x, 1, kind="stable")
        assert np.array_equal(moved[place], order[cut])
        assert np.array_equal(ordered[place], np.sort(x, 1)[cut])
        assert np.allclose(welford[b : b + 2, i], x.mean(1)[: 4 - b], atol=1e-5)


@cute.kernel
def _combined(X, Sums, Old, Left):
    at = (*cute.tile_index(X, TILE[:2]), 0)
    x = cute.local_tile(X, TILE, at).load().to(cute.i32)
    sums, old, left = (cute.local_tile(v, TILE, at) for v in (Sums, Old, Left))
    cute.atomic_max(x, sums)
    found = cute.atomic_add(x, sums)
    with cute.when(at[0] >= 0):
        cute.copy(found, old)
    swapped = cute.atomic_compare_and_swap(x, x + 1, left)
    cute.copy(cute.where(swapped == x, found, swapped), old, swapped != 0)


@EVERYWHERE
def test_atomics(backend):
    sums, old, left = (
        np.full(X.shape, -1, np.int32),
        np.zeros(X.shape, np.int32),
        X.astype(np.int32),
    )
    left[::2] = 0
    before = left.copy()
    _run(_combined, sums, old, left, backend=backend)
    x = X.astype(np.int32)
    found = np.maximum(x, -1)
    assert np.array_equal(sums, found + x)
    assert np.array_equal(
        old, np.where((before == x) & (before != 0), found, np.where(before, before, found))
    )
    assert np.array_equal(left, np.where(before == x, x + 1, before))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda x: x + cute.zeros((16, 16)), r"expected tiles of as many .* t\[None, :, :\]"),
        (lambda x: x + cute.zeros((16,)), r"expected tiles of as many .* v\[None, :\]"),
        (lambda x: x.T, r"expected t.mT, which exchanges the last two modes"),
        (lambda x: x[0, 1, 2], r"expected a Tile as a whole"),
        (lambda x: x[:, :, :, 0], r"expected a slice or a number for each mode"),
        (lambda x: cute.sum(x, mode=3), r"expected a mode in 0..2 of 3 modes, got 3"),
        (lambda x: cute.permute(x, (0, 1)), r"expected the modes 0 to 2 in some order"),
        (lambda x: cute.split(x, 3), r"expected parts that add up to the 16 elements along mode 2"),
        (lambda x: cute.stack((x, x[:, :2])), r"expected tiles of one shape to stack"),
        (lambda x: cute.concatenate((x, x[:, :2]), 0), r"that differ along mode 0 alone"),
        (lambda x: cute.reshape(x, (2, 2, 2, 2, 2, 16)), r"expected a shape of 1 to 5 modes"),
        (lambda x: cute.row_sum(x), r"expected a tile of two modes, got one of shape"),
        (lambda x: cute.take_along(x, x[0].to(cute.i32), 1), r"expected tiles of as many modes"),
        (lambda x: cute.gemm(x, x[:1], cute.zeros((2, 16, 16))), r"expected a \(2, 'M', 'K'\)"),
        (lambda x: cute.broadcast_to(x, (16, 16)), r"expected a shape of 3 modes"),
    ],
)
def test_what_is_not_of_more_modes_is_refused(made, message):
    @cute.kernel
    def program(X, Y):
        at = (*cute.tile_index(X, TILE[:2]), 0)
        made(cute.local_tile(X, TILE, at).load())
        cute.copy(cute.zeros(TILE), cute.local_tile(Y, TILE, at))

    with pytest.raises(CompileError, match=message):
        cute.compile(program, X, X, arch="sm_80")
