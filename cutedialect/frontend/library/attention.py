"""Attention as a tile program: O = softmax(scale Q K^T, masked) V over blocks of keys, online.

Tensors are (batch, heads..., sequence, head dimension). Heads that share keys and values are a
mode of their own, along which K and V have stride 0. Softmax runs in base 2 on the rows of one tile
of Q: `total` is the sum of a row's exponentials, which count from `m`, a score of the row or a
little less. There are three ways to find `m`, a function each. `exact` takes the largest score so
far. `lazy` looks for that too, but keeps an `m` that is less by up to `_SLACK`, so that few blocks
scale what was added up before. `guessed` does not look for it: the exponentials of a block count
from the `m` of those before, and only if they add up to too much are they computed again. The last
two divide by the sums of the exponentials as they are multiplied by V, in 16 bits: where one key
has almost all of the weight, the rounding of its exponential cancels out.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING

from cutedialect.frontend.kernel import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cutedialect.frontend.scalar import Scalar
    from cutedialect.frontend.tile import Tensor, Tile

_LN2 = math.log(2)
# Exponentials of 8 bits are multiplied by 2^8: e4m3 goes up to 448.
_SHIFT = 8.0
# Those of f16 that count from a guess, by 2^-3: what that loses of small ones, below 2^-14, is less
# than the rounding of the large ones, even where few keys have most of a row's weight and thousands
# the rest (2^-6 had 1.5 times the mean error there). Those of bf16 by 2^-64, where 2 is too much:
# one bit tells that.
_ROOM = {"f16": -3.0, "bf16": -64.0}
_TOO_MUCH = 2.0
# By how much a row's largest score may exceed the one that its exponentials count from. These go
# up to 2^8 in f16 then, and up to 2^64 in bf16, as exact as those up to 1.
_SLACK = {"f16": 8.0, "bf16": 64.0}
# What guessed exponentials of a row may add up to in one thread: e4m3 goes up to 448, bf16 as far
# as f32, in which their products with the values of V need room too.
_MOST = {"bf16": 2.0**80}
_MOST_SMALL = 448.0
# f16 has room for few guesses: a row's `m` is left behind by up to 2^_FAR, which two of that add up
# to less than 65504 with. The first blocks take the largest score so far. Where that of the last of
# them exceeds the one before by 2^_NEAR, or once the exponentials of a row add up to 2^_HINT of the
# first ones in a thread, a warp goes on looking for largest scores ahead of exponentials, so that
# hardly any are computed twice.
_NEAR, _HINT, _FAR = 9.0, 14.0, 17.0
FIRST_BLOCKS = 2
# What has to be looked at: rounding hides no row that left its `m` behind by more than 2^_FAR.
_MOST_LEFT = _FAR - 0.01
# Columns that add up rows beside a multiply, and more elements than any thread has.
_SUM_COLUMNS, _ALL = 8, 1 << 10
# In the place of a largest score of -inf: what any score exceeds by too much, and -inf does not.
_LOWEST = -3.4028234663852886e38
_LEAST = 1e-30


@kernel(in_bounds=True, spills="refuse")
def attention(
    Q: Tensor,
    K: Tensor,
    V: Tensor | None,
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
    maxima: str = "exact",
    meets_at: int = 0,
    page_size: int = 0,
    sums: str = "registers",
    packed: tuple[int, int] = (1, 1),
) -> None:
    """`scale` is in units of log2(e); `cap` is softcap log2(e), with scale / cap as the scale.
    Row r sees the keys from r + shift - left to r + shift + right, where shift = keys - rows; None
    is unbounded. `dims` are the head dimensions of Q and V, rounded up. The result is multiplied by
    `factor_v`; `scale_q`, `scale_k` and `scale_v` (batch, heads...) multiply Q, K and V.

    Padded keys: of batch entry b the first lengths[b] count. Packed sequences: s has the rows from
    q_offsets[s] and the keys from k_offsets[s] on. Its tiles are the work items from number
    q_offsets[s] // bq + s on, of which `items` (work items, heads...) has enough for all.

    Without V the values are the first columns of K, which are there once it is loaded.

    An `out` with a mode more, in front of the rows, has the keys split into as many parts as it has
    extents there: each part attends to its own keys, and has an lse of its own.

    With a `table` (batch, pages) K and V are (pages, heads..., page_size, head dimension): the keys
    of batch entry b lie in the pages table[b, 0], table[b, 1] and so on.

    With `queries` the rows of Q are those of several heads, so many of each: row r is the query
    r mod `queries` of its head.

    With `meets_at` a tile begins with its last block whose number is a multiple of that, and comes
    to those in front of it in the end: tiles computed at a time begin with the same keys.

    `sums` says what adds up rounded exponentials: "registers", or the "multiply" by V. Registers
    add `packed` elements of a thread in 16 bits first, the second number those of a block that a
    causal mask cuts.
    """
    # Imported at tracing, since they need xDSL and a kernel found in the cache does not.
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.dtypes import bf16, e4m3, f16, f32
    from cutedialect.frontend.dtypes import i1 as cute_i1
    from cutedialect.frontend.dtypes import i32 as cute_i32
    from cutedialect.frontend.local_tiles import local_tile
    from cutedialect.frontend.loops import otherwise, range_, when

    bq, bk = tile
    width = 16
    V = K if V is None else V
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
    if factors and not is_scaled_first:
        # Of a head of zeros the scale may be 0, which would make a number of what a mask hides.
        scale = cute.maximum(scale, _LEAST)
    if scale_v is not None:
        factor_v = scale_v[tuple(batch)]
    # What is multiplied by V: of 8 bits, exponentials up to 2^8 use the range of the type.
    p_type = e4m3 if Q.dtype.bits == 8 else Q.dtype
    shift = _SHIFT if p_type.bits == 8 else 0.0
    sums_rounded = maxima != "exact" and p_type.bits == 16
    # Columns behind those of the result add up what is multiplied by V.
    by_multiply = sums_rounded and sums == "multiply"
    # No sum of the block is at hand then. Where exponentials are large, one of them has a bit.
    by_bits = by_multiply and p_type == bf16 and lse is None
    if maxima == "guessed" and (p_type == f16 or by_bits):
        shift = _ROOM[p_type.name]
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
        with nullcontext() if left is None else when(hides_behind(at)):
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

    o = cute.zeros((bq, dims[1] + (_SUM_COLUMNS if by_multiply else 0)))
    total, m = cute.zeros((bq,)), cute.full((bq,), -cute.inf)
    whole, cut = packed
    if by_multiply:
        # Whether there is room alone: sums are as exact as can be anyway.
        whole = cut = _ALL
    differ_by_cut = sums_rounded and right is not None and whole != cut
    is_wary = maxima == "guessed" and p_type == f16
    # Rows of f16 whose warp looks for largest scores first. No others have such a tile: a role plan
    # that splits what warps do would take it for a part of that.
    looks = cute.full((bq,), True, cute_i1) if is_wary else m
    # The logarithms are those of sums before rounding.
    plain = cute.zeros((bq,)) if sums_rounded and lse is not None else total

    def packings(is_cut: Scalar) -> Iterator[int]:
        """How many elements the sums of a block add in 16 bits, in each case."""
        if not differ_by_cut:
            yield whole
            return
        with when(is_cut):
            yield cut
        with otherwise():
            yield whole

    def summed(p: Tile, rounded: Tile | None, most: int, local: bool = False) -> Tile:
        """Of each row's exponentials: what the products with V are divided by."""
        if sums_rounded and rounded is not None:
            return cute.row_sum(rounded, local=local, packed=most)
        return cute.row_sum(p, local=local)

    def own_sums(p: Tile, rounded: Tile, is_cut: Scalar) -> Tile:
        """What a thread has of these."""
        if not differ_by_cut:
            return summed(p, rounded, whole, local=True)
        own = cute.zeros((bq,))
        for most in packings(is_cut):
            own.assign(summed(p, rounded, most, local=True))
        return own

    def add_up(p: Tile, rounded: Tile | None, is_cut: Scalar, r: Tile | None = None) -> None:
        """Add a block's exponentials to their sums, which are multiplied by `r` before."""
        if not by_multiply:
            for most in packings(is_cut):
                total.assign((total if r is None else total * r) + summed(p, rounded, most))
        if plain is not total:
            plain.assign((plain if r is None else plain * r) + cute.row_sum(p))

    def largest(s: Tile) -> Tile:
        """The largest scaled score of each row so far."""
        top = cute.row_max(s)
        return cute.maximum(m, top if is_scaled_first else top * scale)

    def exact(s: Tile, is_cut: Scalar) -> Tile:
        """The exponentials of a block that count from the largest score so far."""
        new = largest(s)
        # Of a row that has seen no key yet, the largest score is -inf: subtract 0 from its scores.
        base = cute.where(new == -cute.inf, 0.0, new)
        p = exponentials(s, base)
        r = cute.exp2(m - base)
        rounded = p.to(p_type)
        add_up(p, rounded, is_cut, r)
        o.assign(o * r)
        m.assign(new)
        return rounded

    def lazy(s: Tile, is_cut: Scalar) -> Tile:
        """Those that count from another one, where that is hardly less."""
        new = largest(s)
        r = cute.full((bq,), 1.0)
        # NaN counts as growth. The other rows of a warp keep their m.
        slack = _SLACK.get(p_type.name)
        grown = ~(new <= (m if slack is None else m + slack))
        some = cute.any_(grown, local=True)
        with when(some):
            r.assign(cute.where(grown, cute.exp2(m - new), 1.0))
            m.assign(cute.where(grown, new, m))
        p = exponentials(s, cute.where(m == -cute.inf, 0.0, m))
        # What no sum takes is rounded behind the scaling, which waits for the multiply before.
        rounded = p.to(p_type) if sums_rounded else None
        add_up(p, rounded, is_cut, r)
        with when(some):
            o.assign(o * r)
        return p.to(p_type) if rounded is None else rounded

    def settle(s: Tile, new: Tile, rounded: Tile, is_cut: Scalar, r: Tile) -> None:
        """Let `m` be `new`: the exponentials that count from it, their sums, and `r`, by which what
        was added up before is to be multiplied.
        """
        base = cute.maximum(new, _LOWEST)
        p = exponentials(s, base)
        factor = cute.exp2(m - base)
        rounded.assign(p.to(p_type))
        add_up(p, rounded, is_cut, factor)
        r.assign(factor)
        m.assign(new)

    def exceeds(new: Tile, by: float | Scalar) -> Tile:
        """Where the largest score of a row is above `m` by more than that. NaN is, too."""
        return ~(new <= m + by)

    def hold(sums: Sequence[Tile], by: float) -> Tile:
        """Whether the sums of a thread's exponentials are 2^by of the first ones at most."""
        found = [each <= 2.0 ** (by + shift) for each in sums]
        return found[0] if len(found) == 1 else found[0] & found[1]

    def wary(s: Tile, at: Scalar, is_cut: Scalar) -> Tile:
        """Those of f16 that count from a guess. What `m` is depends on the row alone: the largest
        score of the first blocks, or the one that has left it behind. A warp looks for that ahead
        of the exponentials in these, and in all others once the last of them or a sum says that its
        rows grow; until then sums show whether it has to.
        """
        rounded, r = cute.zeros((bq, bk), p_type), cute.full((bq,), 1.0)
        with when(cute.any_(looks, local=True)):
            new = largest(s)
            left_behind = exceeds(new, (at >= first + FIRST_BLOCKS).to(f32) * _FAR)
            looks.assign(exceeds(new, _NEAR) | (at != first + (FIRST_BLOCKS - 1)))
            with when(cute.any_(left_behind, local=True)):
                r.assign(cute.where(left_behind, cute.exp2(m - new), 1.0))
                m.assign(cute.where(left_behind, new, m))
            p = exponentials(s, cute.maximum(m, _LOWEST))
            rounded.assign(p.to(p_type))
            add_up(p, rounded, is_cut, r)
        with otherwise():
            p = exponentials(s, cute.maximum(m, _LOWEST))
            rounded.assign(p.to(p_type))
            sums = [own_sums(p, rounded, is_cut)]
            if plain is not total:
                # Both are there before the branch, which then holds no exponentials.
                sums.append(cute.row_sum(p, local=True))
            with when(cute.any_(~hold(sums, _HINT), local=True)):
                looks.assign(cute.full((bq,), True, cute_i1))
                with when(cute.any_(~hold(sums, _MOST_LEFT), local=True)):
                    new = largest(s)
                    settle(s, cute.where(exceeds(new, _FAR), new, m), rounded, is_cut, r)
                with otherwise():
                    add_up(p, rounded, is_cut)
            with otherwise():
                add_up(p, rounded, is_cut)
        with when(cute.any_(r != 1.0, local=True)):
            o.assign(o * r)
        return rounded

    def guessed(s: Tile, at: Scalar, is_cut: Scalar) -> Tile:
        """Those that count from the score that those of the blocks before did. The first block of a
        tile looks for the largest score.
        """
        rounded, r = cute.zeros((bq, bk), p_type), cute.zeros((bq,))
        with when(at == first):
            settle(s, largest(s), rounded, is_cut, r)
        with otherwise():
            p = exponentials(s, cute.maximum(m, _LOWEST))
            rounded.assign(p.to(p_type))
            most = _MOST.get(p_type.name, _MOST_SMALL)
            if by_bits:
                holds = cute.abs_(rounded) < _TOO_MUCH
            else:
                holds = own_sums(p, rounded, is_cut) <= most
                if plain is not total:
                    # Both sums are there before the branch, which then holds no exponentials.
                    holds = holds & (cute.row_sum(p, local=True) <= most)
            fails = cute.any_(~holds, local=True)
            with when(fails):
                # Only the rows of which a part is too much: none depends on its neighbors.
                if by_bits:
                    new = largest(s)
                    new = cute.where(new <= m + (math.log2(_TOO_MUCH) - shift), m, new)
                else:
                    late = cute.row_max(cute.where(holds, -cute.inf, s))
                    new = cute.where(late == -cute.inf, m, largest(s))
                settle(s, new, rounded, is_cut, r)
            with otherwise():
                add_up(p, rounded, is_cut)
            with when(fails):
                o.assign(o * r)
        return rounded

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
        is_behind = hides_behind(j * bk)
        is_cut = is_behind if left is None else is_behind | hides_before(j * bk)
        with when(is_cut):
            hide(s, j * bk)
        if maxima == "guessed":
            p = wary(s, trip, is_cut) if is_wary else guessed(s, trip, is_cut)
        else:
            p = lazy(s, is_cut) if maxima == "lazy" else exact(s, is_cut)
        cute.tile_gemm(p, v[j], o, sums=by_multiply)
    if by_multiply:
        total = cute.row_max(o.columns(dims[1], _SUM_COLUMNS))
        o = o.columns(0, dims[1])
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
        above = cute.log2(plain) - shift if shift else cute.log2(plain)
        logs = cute.where(none, -cute.inf, (m + above) * _LN2)
        cute.copy(logs, local_tile(lse, (bq,), (*place, i)))
