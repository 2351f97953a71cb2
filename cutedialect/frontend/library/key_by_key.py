"""Rows that only touch the keys that they see: the slow way of tiles in which V has NaN or Inf."""

from __future__ import annotations

from cutedialect.frontend import functions as cute
from cutedialect.frontend.dtypes import f32
from cutedialect.frontend.local_tiles import local_tile
from cutedialect.frontend.loops import range_
from cutedialect.frontend.tile import Tile

from .online_softmax import OnlineSoftmax
from .seen_keys import SeenKeys
from .work_item import WorkItem

# Columns that are multiplied at once.
_WIDTH = 16


def attend_key_by_key(
    work: WorkItem, seen: SeenKeys, softmax: OnlineSoftmax, dims: tuple[int, int], part: Tile
) -> None:
    """Store the rows of a work item, whose largest scores and sums are known: `part` is what
    multiplies them in the end.
    """
    bq, m = softmax.tile[0], softmax.m
    base = cute.where(m == -cute.inf, 0.0, m)
    for c in range_(dims[1] // _WIDTH):
        exact = cute.zeros((bq, _WIDTH))
        for t in range_(seen.begin, seen.end):
            s = cute.zeros((bq, 1))
            for x in range_(dims[0] // _WIDTH):
                q = local_tile(work.Q, (bq, _WIDTH), (*work.batch, work.i, x)).to(f32)
                k = local_tile(work.K, (1, _WIDTH), (*work.batch, t, x)).to(f32)
                s += cute.row_sum(q * k)
            if work.scale_k is not None:
                s *= local_tile(work.scale_k, (1,), (*work.batch, t)).load()[:, None]
            s.assign(softmax.scores.scaled(s))
            p = softmax.exponentials(s, base)
            row = local_tile(work.V, (1, _WIDTH), (*work.batch, t, c)).to(f32)
            if work.scale_v is not None:
                row = row * local_tile(work.scale_v, (1,), (*work.batch, t)).load()[:, None]
            exact += cute.where(seen.sees(s, t), p * row, 0.0)
        place = (*work.place, work.i, c)
        cute.copy((exact * part).to(work.out.dtype), local_tile(work.out, (bq, _WIDTH), place))
