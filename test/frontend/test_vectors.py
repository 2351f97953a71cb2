"""Tiles of one mode: what tensors of one mode give and take, beside tiles of more modes as a row or
a column alone.
"""

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

N, BLOCK = 93, 32
RNG = np.random.default_rng(3)
V = RNG.integers(-8, 8, N).astype(np.float32)
A = RNG.integers(-8, 8, (N, 24)).astype(np.float32)
EVERYWHERE = pytest.mark.parametrize("backend", ["interpreter", "emulator"])


def _blocks():
    for first in range(0, N, BLOCK):
        x = np.zeros(BLOCK, np.float32)
        x[: N - first] = V[first : first + BLOCK]
        yield slice(first, min(N, first + BLOCK)), x


@cute.kernel
def _elements(X, A, Y, Z, Numbers):
    i = cute.tile_index(X, (BLOCK,))
    view = cute.local_tile(X, (BLOCK,), (i,))
    x, out = view.load(), cute.local_tile(Y, (BLOCK,), (i,))
    assert x.shape == out.shape == (BLOCK,)
    total = cute.zeros((BLOCK,))
    for _ in cute.range(2):
        total += cute.maximum(x, -x)
    place = cute.coord(x, 0, view)
    cute.copy(cute.where(place % 2 == 0, total, x), out, place < N - 1)
    cute.copy(place, cute.local_tile(Numbers, (BLOCK,), (i,)))
    a = cute.local_tile(A, (BLOCK, 24), (i, 0)).load()
    row = cute.sum(a, mode=0, keepdims=False)
    assert row.shape == (24,)
    assert a[:, 3].shape == cute.row_sum(a)[:, 0].shape == (BLOCK,)
    assert a[3].shape == (24,)
    assert x[:, None].T.shape == x.T.shape == x[None, :].shape == (1, BLOCK)
    z = a * x[:, None] + row[None, :] + (a[:, 3] + cute.row_sum(a)[:, 0])[:, None] + a[3][None, :]
    cute.copy(z, cute.local_tile(Z, (BLOCK, 24), (i, 0)))


@EVERYWHERE
def test_elements_rows_and_columns(backend):
    y, z, numbers = np.zeros_like(V), np.zeros_like(A), np.zeros(N, np.int32)
    _elements(V, A, y, z, numbers, backend=backend)
    want = np.where(np.arange(N) % 2 == 0, 2 * abs(V), V)
    want[-1] = 0
    assert np.array_equal(y, want)
    assert np.array_equal(numbers, np.arange(N))
    for part, x in _blocks():
        a = np.zeros((BLOCK, 24), np.float32)
        a[: part.stop - part.start] = A[part]
        more = (a[:, 3] + a.sum(1))[:, None] + a[3]
        want = a * x[:, None] + a.sum(0) + more
        assert np.array_equal(z[part], want[: part.stop - part.start])


@cute.kernel
def _lines(X, Sums, Scanned, Sorted, Shaped, Rows, Counts, Tops):
    i = cute.tile_index(X, (BLOCK,))
    x = cute.local_tile(X, (BLOCK,), (i,)).load()
    top, place = cute.max(x, mode=0), cute.argmax(x, mode=0, keepdims=False)
    assert top.shape == place.shape == cute.sum(x).shape == (1,)
    sums = cute.concatenate((cute.sum(x), top, place.to(cute.f32), cute.mean(x, mode=-1)), 0)
    cute.copy(sums, cute.local_tile(Sums, (1, 4), (i, 0)))
    cute.copy(cute.cumsum(x, mode=0), cute.local_tile(Scanned, (BLOCK,), (i,)))
    cute.copy(cute.flip(cute.sort(x, mode=0), 0), cute.local_tile(Sorted, (BLOCK,), (i,)))
    counts = cute.histogram(x.to(cute.i32), 4)
    counts = cute.put_along(counts, cute.coord(counts[:1], 0) + 3, -1, mode=0)
    cute.copy(counts, cute.local_tile(Counts, (1, 4), (i, 0)))
    values, at = cute.top_k(x, 4, mode=0)
    values = cute.concatenate((values, cute.take_along(x, at, mode=0)), 0)
    cute.copy(values, cute.local_tile(Tops, (8,), (i,)))
    pair = cute.stack((x[:8], x[8:16]), -1)
    assert pair.shape == (8, 2)
    x = cute.reshape(x, (4, 8)) + cute.reshape(pair, (16,))[None, :8]
    cute.copy(cute.reshape(x, (BLOCK,)), cute.local_tile(Shaped, (BLOCK,), (i,)))
    cute.atomic_add(cute.sum(x, mode=0), cute.local_tile(Rows, (8,), (0,)))


@EVERYWHERE
def test_functions_along_the_mode(backend):
    sums, rows = np.zeros((3, 4), np.float32), np.zeros(8, np.float32)
    scanned, ordered, shaped = (np.zeros_like(V) for _ in range(3))
    counts, tops = np.zeros((3, 4), np.int32), np.zeros(24, np.float32)
    _lines(V, sums, scanned, ordered, shaped, rows, counts, tops, backend=backend)
    total = np.zeros(8, np.float32)
    for number, (part, x) in enumerate(_blocks()):
        count = part.stop - part.start
        assert np.allclose(sums[number], [x.sum(), x.max(), x.argmax(), x.mean()])
        assert np.array_equal(scanned[part], x.cumsum()[:count])
        assert np.array_equal(ordered[part], np.sort(x)[::-1][:count])
        assert np.array_equal(counts[number], [*((x == n).sum() for n in range(3)), -1])
        assert np.array_equal(tops[8 * number : 8 * number + 8], np.tile(-np.sort(-x)[:4], 2))
        want = x.reshape(4, 8) + np.stack((x[:8], x[8:16]), -1).reshape(16)[:8]
        assert np.array_equal(shaped[part], want.ravel()[:count])
        total += want.sum(0)
    assert np.array_equal(rows, total)


MIXED = r"as many modes, got .*; write v\[:, None\] for an element in each row .* v\[None, :\]"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda x, v: x + v, MIXED),
        (lambda x, v: v < x, MIXED),
        (lambda x, v: cute.maximum(v, cute.row_max(x)), MIXED),
        (lambda x, v: cute.where(v > 0, x, 0.0), MIXED),
        (lambda x, v: x - cute.sum(x, mode=1, keepdims=False), MIXED),
        (lambda x, v: cute.zeros((16,)).assign(cute.row_sum(x)), MIXED),
        (lambda x, v: cute.concatenate((x, v)), MIXED),
        (lambda x, v: cute.scan((x, v), 1, lambda a, b, c, d: (a + c, b + d)), MIXED),
        (lambda x, v: cute.row_sum(v), r"tile of two modes, got .*\(16,\); write v\[:, None\] or"),
        (lambda x, v: cute.cumsum(v), r"expected mode=0, the only one of a tile \(16,\)"),
        (lambda x, v: cute.sum(v, mode=1), r"expected a mode in 0..0 of 1 modes, got 1"),
        (lambda x, v: v.mT, r"expected v\[:, None\] or v\[None, :\] of a tile \(16,\), got .mT"),
        (lambda x, v: cute.gemm(v, x, cute.zeros((16, 16))), r"write v\[:, None\] or v\[None, :\]"),
        (lambda x, v: v[3], "expected a Tile as a whole"),
        (lambda x, v: cute.broadcast_to(v, (16, 16)), "expected a shape of 1 modes"),
    ],
)
def test_a_vector_beside_more_modes_is_refused(made, message):
    @cute.kernel
    def program(X, V):
        x = cute.local_tile(X, (16, 16), (0, 0)).load()
        made(x, cute.local_tile(V, (16,), (0,)).load())

    with pytest.raises(CompileError, match=message):
        program(np.zeros((16, 16), np.float32), np.zeros(16, np.float32), backend="interpreter")
