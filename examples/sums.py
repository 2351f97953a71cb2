"""Sums of a matrix along its rows, its columns, and of all of it, with the same bits every time.

Rows are a work item each. A column is as long as the matrix is high, so that few work items would
have it: `parts` of the rows are summed by one kernel, and their sums by another. One part is enough
where a matrix is so wide that its columns fill the device.
"""

from __future__ import annotations

import sys

import numpy as np

import cutedialect as cute


@cute.kernel
def row_sums(X, S, *, tile=(4, 1024)):
    """S[i] is the sum of row i."""
    rows, _ = tile
    i = cute.tile_index(S, (rows,))
    x = cute.local_tile(X, tile, (i, None))
    total = cute.zeros((rows, 1))
    for j in cute.range(x.tiles):
        total.assign(total + cute.row_sum(x[j].to(cute.f32)))
    cute.copy(total.to(S.dtype), cute.local_tile(S, (rows,), (i,)))


@cute.kernel
def partial_sums(X, P, *, tile=(128, 128)):
    """P[p, j] is the sum of column j over the p-th part of the rows."""
    rows, columns = tile
    p, j = cute.tile_index(P, (1, columns))
    length = -(-X.extent // P.extent)
    x = cute.local_tile(X.slice(0, p * length, (p + 1) * length), tile, (None, j))
    total = cute.zeros((1, columns))
    for i in cute.range(-(-length // rows)):
        total.assign(total + cute.column_sum(x[i].to(cute.f32)))
    cute.copy(total.to(P.dtype), cute.local_tile(P, (1, columns), (p, j)))


@cute.kernel
def sum_of_parts(P, S, *, tile=(64, 64)):
    """S[j] is the sum of column j of P."""
    _, j = cute.tile_index(S, (1, tile[1]))
    p = cute.local_tile(P, tile, (None, j))
    total = cute.zeros((1, tile[1]))
    for i in cute.range(p.tiles):
        total.assign(total + cute.column_sum(p[i]))
    cute.copy(total.to(S.dtype), cute.local_tile(S, (1, tile[1]), (0, j)))


@cute.host
def column_sums(X, S, parts, *, tile=(128, 128), split=True):
    """S[0, j] is the sum of column j, summed in so many parts, or in one if not `split`."""
    if not split:
        cute.launch(partial_sums, X, S, tile=tile)
        return
    between = cute.workspace((parts, X.dim(1)), cute.f32)
    cute.launch(partial_sums, X, between, tile=tile)
    cute.launch(sum_of_parts, between, S)


def tile_for(shape, at_once=264):
    """The tile of which whole waves of work items have the fewest columns to spare. Rows that are
    loaded element by element share sectors at its ends, so that it has 128 of them.
    """
    _, columns = shape

    def busy(width):
        tiles = -(-columns // width)
        items = tiles * max(1, at_once // tiles)
        return columns / (tiles * width) * items / (-(-items // at_once) * at_once)

    width = 128 if columns % 8 else max((128, 64, 256), key=busy)
    return 16384 // width, width


def parts_for(shape, tile=(128, 128), at_once=None):
    """In how many parts a device that has so many work items at work sums the columns: one for each
    of them, of whole tiles. An SM of 132 has two, or one that loads rows element by element.
    """
    rows, columns = shape
    at_once = at_once or (264 if columns % 2 == 0 else 132)
    parts = max(1, at_once // -(-columns // tile[1]))
    trips = -(-rows // (parts * tile[0]))
    return max(1, -(-rows // (trips * tile[0])))


@cute.kernel
def sums_of_runs(X, P, *, tile=8192):
    """P[p] is the sum of the p-th run of a vector."""
    p = cute.tile_index(P, (1,))
    length = -(-X.extent // P.extent)
    length = -(-length // tile) * tile
    x = cute.local_tile(X.slice(0, p * length, (p + 1) * length), (tile,), (None,))
    total = cute.zeros((1,))
    for i in cute.range(length // tile):
        total.assign(total + cute.sum(x[i].to(cute.f32), mode=0))
    cute.copy(total, cute.local_tile(P, (1,), (p,)))


@cute.kernel
def sum_of_runs(P, S, *, tile=8192):
    """S[0] is the sum of P."""
    cute.tile_index(S, (1,))
    p = cute.local_tile(P, (tile,), (None,))
    total = cute.zeros((1,))
    for i in cute.range(p.tiles):
        total.assign(total + cute.sum(p[i], mode=0))
    cute.copy(total.to(S.dtype), cute.local_tile(S, (1,), (0,)))


@cute.host
def whole_sum(X, S, runs, *, tile=8192):
    """S[0] is the sum of a vector, summed in so many runs."""
    between = cute.workspace((runs,), cute.f32)
    cute.launch(sums_of_runs, X, between, tile=tile)
    cute.launch(sum_of_runs, between, S)


def main() -> int:
    x = np.random.default_rng(0).standard_normal((150, 700)).astype(np.float16)
    wide = x.astype(np.float64)
    rows, columns, whole = (np.empty(n, np.float32) for n in (150, 700, 1))
    row_sums(x, rows)
    column_sums(x, columns[None], 4)
    whole_sum(x.reshape(-1), whole, 3)
    worst = 0.0
    for found, exact in ((rows, wide.sum(1)), (columns, wide.sum(0)), (whole, wide.sum()[None])):
        error = float(np.abs(found - exact).max())
        worst = max(worst, error)
        print(f"{len(found)} sums: largest error against float64 {error:.1e}")
    return 0 if worst < 1e-3 else 1


if __name__ == "__main__":
    sys.exit(main())
