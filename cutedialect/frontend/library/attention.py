"""Attention as a tile program: O = softmax(scale Q K^T, masked) V over blocks of keys, online.

Tensors are (batch, heads..., sequence, head dimension). Heads that share keys and values are a
mode of their own, along which K and V have stride 0. Softmax runs in base 2 on the rows of one tile
of Q: `total` is the sum of a row's exponentials, which count from `m`, its largest scaled score so
far. With `is_lazy` that may be one less by up to `_SLACK`, so that few trips scale what was added
up before. With `is_optimistic` a trip does not look for it: the exponentials count from that of the
trips before, and only if they add up to too much are they computed again.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING

from cutedialect.frontend.kernel import kernel

if TYPE_CHECKING:
    from cutedialect.frontend.scalar import Scalar
    from cutedialect.frontend.tile import Tensor, Tile

_LN2 = math.log(2)
# Exponentials of 8 bits are multiplied by 2^8: e4m3 goes up to 448.
_SHIFT = 8.0
# By how much a row's largest score may exceed the one that its exponentials count from. These go
# up to 2^8 then, as exact in floats of 16 bits as those up to 1.
_SLACK = 8.0
# What exponentials of a row may add up to in one thread before its largest score is looked for:
# floats of 16 bits go up to 2^15.
_MOST = 2.0**12
# In the place of a largest score of -inf: what any score exceeds by too much, and -inf does not.
_LOWEST = -3.4028234663852886e38
_LEAST = 1e-30


@kernel(in_bounds=True, spills="refuse")
def attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    out: Tensor,
    lse: Tensor | None,
    scale: Scalar,
    cap: Scalar | None,
    left: Scalar | None,
    right: Scalar | None,
    factor_v: Scalar | None,
    scale_q: Tensor | None,
    scale_k: Tensor | None,
    scale_v: Tensor | None,
    lengths: Tensor | None,
    items: Tensor | None,
    q_offsets: Tensor | None,
    k_offsets: Tensor | None,
    queries: Scalar | None = None,
    table: Tensor | None = None,
    *,
    tile: tuple[int, int] = (128, 64),
    dims: tuple[int, int] = (64, 64),
    is_scaled_first: bool = False,
    is_lazy: bool = False,
    is_optimistic: bool = False,
    meets_at: int = 0,
    page_size: int = 0,
) -> None:
    """`scale` is in units of log2(e); `cap` is softcap log2(e), with scale / cap as the scale.
    Row r sees the keys from r + shift - left to r + shift + right, where shift = keys - rows; None
    is unbounded. `dims` are the head dimensions of Q and V, rounded up. The result is multiplied by
    `factor_v`; `scale_q`, `scale_k` and `scale_v` (batch, heads...) multiply Q, K and V.

    Padded keys: of batch entry b the first lengths[b] count. Packed sequences: s has the rows from
    q_offsets[s] and the keys from k_offsets[s] on. Its tiles are the work items from number
    q_offsets[s] // bq + s on, of which `items` (work items, heads...) has enough for all.

    An `out` with a mode more, in front of the rows, has the keys split into as many parts as it has
    extents there: each part attends to its own keys, and has an lse of its own.

    With a `table` (batch, pages) K and V are (pages, heads..., page_size, head dimension): the keys
    of batch entry b lie in the pages table[b, 0], table[b, 1] and so on.

    With `queries` the rows of Q are those of several heads, so many of each: row r is the query
    r mod `queries` of its head.

    With `meets_at` a tile begins with its last block whose number is a multiple of that, and comes
    to those in front of it in the end: tiles computed at a time begin with the same keys.
    """
    # Imported at tracing, since they need xDSL and a kernel found in the cache does not.
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.dtypes import e4m3, f32
    from cutedialect.frontend.dtypes import i32 as cute_i32
    from cutedialect.frontend.loops import otherwise, range_, when
    from cutedialect.frontend.tile import local_tile

    bq, bk = tile
    width = 16
    along = Q.rank - 2
    piece = None
    if items is not None and q_offsets is not None and k_offsets is not None:
        item, *heads = cute.tile_index(items, (1,) * along)
        batch = (0, *heads)

        def first_item(s: Scalar) -> Scalar:
            return q_offsets[s].to(cute_i32) // bq + s

        sequence = cute.search(first_item, q_offsets.extent - 1, item)
        i = item - first_item(sequence)
        of_rows = [q_offsets[at].to(cute_i32) for at in (sequence, sequence + 1)]
        of_keys = [k_offsets[at].to(cute_i32) for at in (sequence, sequence + 1)]
        Q, out = Q.slice(along, *of_rows), out.slice(along, *of_rows)
        K, V = K.slice(along, *of_keys), V.slice(along, *of_keys)
        lse = None if lse is None else lse.slice(along, *of_rows)
    else:
        *batch, i = cute.tile_index(out, (1,) * (out.rank - 2) + (bq,))
        if out.rank > Q.rank:
            piece = batch.pop()
    if right is not None and queries is None:
        # A tile sees the more keys the later it is: the longest go first, so that none is left for
        # the end. (A cluster, or the last work item of a sequence, may reach beyond.)
        last = (Q.dim(along) + (bq - 1)) // bq - 1
        i = i + (i <= last).to(cute_i32) * (last - i - i)
    factors = [each[tuple(batch)] for each in (scale_q, scale_k) if each is not None]
    for factor in factors:
        scale = scale * factor
    if factors:
        # Of a head of zeros the scale may be 0, which would make a number of what a mask hides.
        scale = cute.maximum(scale, _LEAST)
    if scale_v is not None:
        factor_v = scale_v[tuple(batch)]
    # What is multiplied by V: of 8 bits, exponentials up to 2^8 use the range of the type.
    p_type = e4m3 if Q.dtype.bits == 8 else Q.dtype
    shift = _SHIFT if p_type.bits == 8 else 0.0
    if table is not None:
        K, V = (each.paged(along, table, page_size) for each in (K, V))
    if lengths is not None:
        valid = lengths[batch[0]].to(cute_i32)
        K, V = K.slice(along, 0, valid), V.slice(along, 0, valid)
    q = local_tile(Q, (bq, dims[0]), (*batch, i, 0))
    k = local_tile(K, (bk, dims[0]), (*batch, None, 0))
    v = local_tile(V, (bk, dims[1]), (*batch, None, 0))

    # The keys that a row of the tile sees, and those that all of them see: the first row is aligned
    # with the key `diagonal`, the last one with `diagonal` + `more`.
    rows, keys = Q.dim(along), K.dim(along)
    if queries is None:
        diagonal, more = i * bq + (keys - rows), bq - 1
    else:
        diagonal, more = keys - queries, queries - 1
    begin, end = 0, keys
    if right is not None:
        end = cute.minimum(diagonal + right + more + 1, keys)
    if left is not None:
        begin = cute.maximum(diagonal - left, 0)

    if piece is not None:
        # Whole blocks of keys, as many for each part but the last ones.
        first, parts = begin // bk, out.dim(along)
        share = ((end + (bk - 1)) // bk - first + (parts - 1)) // parts
        begin = cute.maximum((first + piece * share) * bk, begin)
        end = cute.minimum((first + (piece + 1) * share) * bk, end)
    place = batch if piece is None else (*batch, piece)

    if items is not None:
        # The last work items of a sequence may lie behind it.
        end = end * (i * bq < rows).to(cute_i32)

    def scaled(s: Tile) -> Tile:
        """The scores that the largest is looked for among."""
        if not is_scaled_first:
            return s
        return s * scale if cap is None else cute.tanh(s * scale) * cap

    def exponentials(s: Tile, base: Tile) -> Tile:
        """2^shift times those of what the scores are above `base`."""
        below = base - shift if shift else base
        return cute.exp2((s if is_scaled_first else s * scale) - below)

    def hides_behind(at: Scalar) -> Scalar:
        """Whether some row does not see the last key of the block that begins there."""
        return at + bk > (keys if right is None else cute.minimum(diagonal + right + 1, keys))

    def hides_before(at: Scalar) -> Scalar:
        """Whether some row does not see the first key of the block that begins there."""
        return at < diagonal - left + more

    def aligned() -> Tile:
        """The key that each row is aligned with."""
        if queries is None:
            return cute.coord(cute.zeros((bq,)), 0, diagonal)
        return cute.coord(cute.zeros((bq,)), 0, i * bq) % queries + diagonal

    def is_not_behind(s: Tile, at: Scalar) -> Tile:
        end = keys if right is None else cute.minimum(aligned() + right + 1, keys)
        return cute.coord(s, 1, at) < end

    def is_not_before(s: Tile, at: Scalar) -> Tile:
        return cute.coord(s, 1, at) >= aligned() - left

    def hide(s: Tile, at: Scalar) -> None:
        """Let -inf be what a mask hides of the scores of the block of keys that begins there. One
        side of it at a time: few blocks have both.
        """
        with when(hides_behind(at)):
            s.assign(cute.where(is_not_behind(s, at), s, -cute.inf))
        if left is not None:
            with when(hides_before(at)):
                s.assign(cute.where(is_not_before(s, at), s, -cute.inf))

    def one_by_one(part: Tile, m: Tile) -> None:
        """Each row only touches the keys that it sees."""
        base = cute.where(m == -cute.inf, 0.0, m)
        for c in range_(dims[1] // width):
            exact = cute.zeros((bq, width))
            for t in range_(begin, end):
                s = cute.zeros((bq, 1))
                for x in range_(dims[0] // width):
                    mine, key = ((bq, width), (*batch, i, x)), ((1, width), (*batch, t, x))
                    s += cute.row_sum(local_tile(Q, *mine).to(f32) * local_tile(K, *key).to(f32))
                s.assign(scaled(s))
                p = exponentials(s, base)
                row = local_tile(V, (1, width), (*batch, t, c)).to(f32)
                seen = is_not_behind(s, t)
                seen = seen if left is None else seen & is_not_before(s, t)
                exact += cute.where(seen, p * row, 0.0)
            cute.copy((exact * part).to(out.dtype), local_tile(out, (bq, width), (*place, i, c)))

    o, total = cute.zeros((bq, dims[1])), cute.zeros((bq,))
    m = cute.full((bq,), -cute.inf)

    def largest(s: Tile) -> Tile:
        """The largest scaled score of each row so far."""
        top = cute.row_max(s)
        return cute.maximum(m, top if is_scaled_first else top * scale)

    def settle(s: Tile, new: Tile, p: Tile, r: Tile) -> None:
        """Let the largest scores be `new` ones: the exponentials that count from them, their sums,
        and what was added up before is to be multiplied by.
        """
        base = cute.maximum(new, _LOWEST)
        exact = exponentials(s, base)
        r.assign(cute.exp2(m - base))
        total.assign(total * r + cute.row_sum(exact))
        p.assign(exact.to(p_type))
        m.assign(new)

    first, behind = begin // bk, (end + (bk - 1)) // bk
    for trip in range_(first, behind):
        j = trip
        if meets_at:
            met = (behind - 1) // meets_at * meets_at
            j = cute.maximum(trip + (met - first), trip)
            j = j - (j >= behind).to(cute_i32) * (behind - first)
        s = cute.zeros((bq, bk))
        cute.tile_gemm(q, k[j].T, s)
        if is_scaled_first:
            s.assign(scaled(s))
        if left is None:
            hide(s, j * bk)
        else:
            with when(hides_behind(j * bk) | hides_before(j * bk)):
                hide(s, j * bk)
        if is_optimistic:
            p, r = cute.zeros((bq, bk), p_type), cute.zeros((bq,))
            base = cute.maximum(m, _LOWEST)
            with when(trip > first):
                tried = exponentials(s, base)
                p.assign(tried.to(p_type))
                holds = cute.row_sum(tried, local=True) <= _MOST
                fails = cute.any_(~holds, local=True)
                with when(fails):
                    # Only the rows of which a part is too much: none depends on its neighbors.
                    late = cute.row_max(cute.where(holds, -cute.inf, s))
                    settle(s, cute.where(late == -cute.inf, m, largest(s)), p, r)
                with otherwise():
                    total.assign(total + cute.row_sum(tried))
                with when(fails):
                    o.assign(o * r)
            with otherwise():
                settle(s, largest(s), p, r)
            cute.tile_gemm(p, v[j], o)
            continue
        new = largest(s)
        r = some = None
        if is_lazy:
            r = cute.full((bq,), 1.0)
            # NaN counts as growth. The other rows of a warp keep their m.
            grown = ~(new <= (m if shift else m + _SLACK))
            some = cute.any_(grown, local=True)
            with when(some):
                r.assign(cute.where(grown, cute.exp2(m - new), 1.0))
                m.assign(cute.where(grown, new, m))
            new = m
        # Of a row that has seen no key yet, the largest score is -inf: subtract 0 from its scores.
        base = cute.where(new == -cute.inf, 0.0, new)
        p = exponentials(s, base)
        r = cute.exp2(m - base) if r is None else r
        total.assign(total * r + cute.row_sum(p))
        with nullcontext() if some is None else when(some):
            o.assign(o * r)
        cute.tile_gemm(p.to(p_type), v[j], o)
        if not is_lazy:
            m.assign(new)
    none = total == 0.0
    part = cute.reciprocal(total)
    part = cute.where(none, 0.0, part if factor_v is None else part * factor_v)
    is_masked = left is not None or right is not None
    # NaN or Inf in V, which a product of 0 does not hide.
    lost = cute.any_(cute.row_sum(o, local=True) * 0.0 != 0.0, local=True) if is_masked else None
    with nullcontext() if lost is None else when(lost):
        if lost is not None:
            one_by_one(part, m)
    with otherwise() if is_masked else nullcontext():
        cute.copy((o * part).to(out.dtype), local_tile(out, (bq, dims[1]), (*place, i, 0)))
    if lse is not None:
        above = cute.log2(total) - shift if shift else cute.log2(total)
        logs = cute.where(none, -cute.inf, (m + above) * _LN2)
        cute.copy(logs, local_tile(lse, (bq,), (*place, i)))
