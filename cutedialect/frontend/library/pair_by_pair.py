"""Gradients of attention that only touch the pairs of a row and a key that it sees: the slow way of
tiles in which what a mask hides from some is NaN or Inf.
"""

from __future__ import annotations

from cutedialect.frontend import functions as cute
from cutedialect.frontend.dtypes import f32
from cutedialect.frontend.local_tiles import local_tile
from cutedialect.frontend.loops import range_
from cutedialect.frontend.scalar import Scalar
from cutedialect.frontend.tile import Tensor, Tile, View

from .backward_items import KeyItem, RowItem
from .gradients import Gradient, KeyGradients, Scales
from .seen_keys import SeenKeys
from .seen_rows import SeenRows
from .slopes import Slopes

# Columns that are multiplied at once.
_WIDTH = 16
# A tensor and the coordinates of a tile of it, in front of its columns.
Place = tuple[Tensor, tuple[Scalar | int, ...]]


def _products(one: Place, other: Place, rows: tuple[int, int], width: int) -> Tile:
    """Those of the rows of a tile with one row of another."""
    total = cute.zeros((max(rows), 1))
    for x in range_(width // _WIDTH):
        left, right = (
            local_tile(tensor, (count, _WIDTH), (*at, x)).to(f32)
            for (tensor, at), count in zip((one, other), rows, strict=True)
        )
        total += cute.row_sum(left * right)
    return total


def _pair(
    places: tuple[Place, Place, Place, Place],
    rows: tuple[int, int],
    dims: tuple[int, int],
    slopes: Slopes,
    by_rows: tuple[View, View],
) -> tuple[Tile, Tile]:
    """Weights and slopes of the places of Q, K, dO and V, of which one is a single row."""
    q, k, g, v = places
    s, dp = _products(q, k, rows, dims[0]), _products(g, v, rows, dims[1])
    logarithms, delta = (view.load()[:, None] for view in by_rows)
    tangents = slopes.weigh(s, logarithms)
    slopes.slope(dp, s, tangents, delta)
    return s, dp


def key_gradients_by_row(
    work: KeyItem,
    seen: SeenRows,
    slopes: Slopes,
    by_tiles: tuple[Tensor, Tensor],
    scales: Scales,
    gradients: KeyGradients,
    dims: tuple[int, int],
) -> None:
    """Store the gradients of a block of keys and values."""
    each = gradients.of_keys, gradients.of_values
    for gradient, source, number in zip(each, (work.Q, work.do), (1, 0), strict=True):
        if gradient is not None:
            _sum_by_row(work, seen, slopes, by_tiles, scales, dims, gradient, source, number)


def _sum_by_row(
    work: KeyItem,
    seen: SeenRows,
    slopes: Slopes,
    by_tiles: tuple[Tensor, Tensor],
    scales: Scales,
    dims: tuple[int, int],
    gradient: Gradient,
    source: Tensor,
    number: int,
) -> None:
    """Store the sums of the rows of `source` times weights (0) or slopes (1)."""
    bk, heads, here = seen.bk, work.heads, (*work.heads, work.n)
    for c in range_(gradient.width // _WIDTH):
        exact = cute.zeros((bk, _WIDTH))
        for t in range_(work.rows * work.members):
            head, row = heads, t
            if work.shares:
                head, row = (*heads, t // work.rows), t % work.rows
            at, place = (*head, row), (*head, work.tile * work.bq + row)
            of_head = slopes.of_head(scales.q, scales.k, scales.v, head, heads)
            logarithms, delta = (local_tile(each, (1,), place) for each in by_tiles)
            places = (work.Q, at), (work.K, here), (work.do, at), (work.V, here)
            pair = _pair(places, (1, bk), dims, of_head, (logarithms, delta))
            values = local_tile(source, (1, _WIDTH), (*at, c)).to(f32)
            exact += cute.where(seen.sees(pair[0], row), pair[number] * values, 0.0)
        rows = exact if gradient.by is None else exact * gradient.by
        cute.copy(rows.to(gradient.out.dtype), local_tile(gradient.out, (bk, _WIDTH), (*here, c)))


def query_gradients_by_key(
    work: RowItem,
    tensors: tuple[Tensor, Tensor, Tensor, Tensor],
    seen: SeenKeys,
    slopes: Slopes,
    by_tiles: tuple[Tensor, Tensor],
    gradient: tuple[Tensor, Scalar],
    dims: tuple[int, int],
) -> None:
    """Store the gradients of a tile of rows. `tensors` are Q, K, dO and V."""
    bq = seen.bq
    Q, K, dO, V = tensors
    dQ, factor = gradient
    at = (*work.head, work.i)
    logarithms, delta = (local_tile(each, (bq,), work.place) for each in by_tiles)
    for c in range_(dims[0] // _WIDTH):
        exact = cute.zeros((bq, _WIDTH))
        for t in range_(seen.begin, seen.end):
            key = (*work.key_head, t)
            places = (Q, at), (K, key), (dO, at), (V, key)
            _, ds = _pair(places, (bq, 1), dims, slopes, (logarithms, delta))
            values = local_tile(K, (1, _WIDTH), (*key, c)).to(f32)
            exact += cute.where(seen.sees(ds, t), ds * values, 0.0)
        cute.copy((exact * factor).to(dQ.dtype), local_tile(dQ, (bq, _WIDTH), (*at, c)))
