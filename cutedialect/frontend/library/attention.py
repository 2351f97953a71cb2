"""Attention as a tile program: O = softmax(scale Q K^T, masked) V over blocks of keys, online.

Tensors are (batch, heads..., sequence, head dimension). Heads that share keys and values are a
mode of their own, along which K and V have stride 0. The parts of the program have files of their
own: which rows a CTA computes (`work_item.py`), which keys they see (`seen_keys.py`), and what
their exponentials count from (`online_softmax.py`: a policy of the maximum, a class each).
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from cutedialect.frontend.kernel import kernel, one_of

if TYPE_CHECKING:
    from cutedialect.frontend.scalar import Scalar
    from cutedialect.frontend.tile import Tensor


@kernel(in_bounds=True, spills="refuse", space="attention")
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
    tile: tuple[int, int] = one_of(),
    dims: tuple[int, int] = one_of(),
    is_scaled_first: bool = False,
    maxima: str = one_of(),
    meets_at: int = one_of(),
    page_size: int = 0,
    sums: str = one_of(),
    packed: tuple[int, int] = one_of(),
) -> None:
    """`scale` is in units of log2(e); `cap` is softcap log2(e), with scale / cap as the scale.
    Row r sees the keys from r + shift - left to r + shift + right, where shift = keys - rows; None
    is unbounded. `dims` are the head dimensions of Q and V, rounded up. The result is multiplied by
    `factor_v`; `scale_q`, `scale_k` and `scale_v` (batch, heads...) multiply Q, K and V. Of K and V
    each key may have one (batch, heads..., keys), in pages as the keys are; V is multiplied in f32
    on its way to the tensor cores, scores behind them.

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

    `sums` says what adds up exponentials: of rounded ones "registers", or the "multiply" by V; of
    "unrounded" ones registers. These add `packed` rounded ones of a thread in 16 bits first, the
    second number those of a block that a causal mask cuts.
    """
    # Imported at tracing, since they need xDSL and a kernel found in the cache does not.
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.dtypes import i32
    from cutedialect.frontend.library.key_by_key import attend_key_by_key
    from cutedialect.frontend.library.online_softmax import Scores, Weights, policy_of
    from cutedialect.frontend.library.scaled_keys import ScaledKeys, parted_scales
    from cutedialect.frontend.library.seen_keys import SeenKeys
    from cutedialect.frontend.library.work_item import Operands, packed_work_item, work_item
    from cutedialect.frontend.local_tiles import local_tile
    from cutedialect.frontend.loops import otherwise, range_, when

    bq, bk = tile
    of_keys, of_heads = parted_scales(K, scale_k, scale_v)
    tensors = Operands(Q, K, K if V is None else V, out, lse, *of_keys)
    if items is not None and q_offsets is not None and k_offsets is not None:
        work = packed_work_item(tensors, bq, items, q_offsets, k_offsets)
    else:
        work = work_item(tensors, bq)
    if right is not None and queries is None:
        # A tile sees the more keys the later it is: the longest go first, so that none is left for
        # the end.
        work = work.latest_first(bq)
    batch, i = work.batch, work.i
    factors = work.of_heads(scale_q), work.of_heads(of_heads[0])
    scores = Scores(scale, cap, is_scaled_first).times(*factors)
    factor_v = factor_v if of_heads[1] is None else work.of_heads(of_heads[1])
    work = work.in_pages(table, page_size).up_to(lengths)
    q = local_tile(work.Q, (bq, dims[0]), (*batch, i, 0))
    k = ScaledKeys(work.K, work.scale_k, batch, (bk, dims[0]), Q.dtype, bq)
    v = ScaledKeys(work.V, work.scale_v, batch, (bk, dims[1]), Q.dtype, bq)

    seen = SeenKeys.of(work.Q, work.K, bq, i, left, right, queries)
    if work.part is not None:
        seen.take_part(work.part, out.dim(work.along), bk)
    if items is not None:
        # The last work items of a sequence may lie behind it.
        seen.end = seen.end * (i * bq < work.Q.dim(work.along)).to(i32)
    has_lse, cuts = lse is not None, right is not None
    weights = Weights.of(maxima, Q.dtype, sums, packed, has_lse, cuts)
    softmax = policy_of(maxima, Q.dtype, sums)(tile, dims[1], scores, weights)
    # CTAs of a cluster share keys: a mask hides what others see.
    first = cute.cluster_min(seen.begin // bk)
    behind = cute.cluster_max((seen.end + (bk - 1)) // bk)
    for trip in range_(first, behind):
        j = trip
        if meets_at:
            met = (behind - 1) // meets_at * meets_at
            j = cute.maximum(trip + (met - first), trip)
            j = j - (j >= behind).to(i32) * (behind - first)
        s = cute.zeros((bq, bk))
        cute.tile_gemm(q, k.elements(j).T, s)
        k.scale_columns(s, j)
        if is_scaled_first:
            s.assign(scores.scaled(s))
        is_cut = seen.cuts(j * bk, bk)
        with when(is_cut):
            seen.hide(s, j * bk)
        p = softmax.weigh(s, trip, first, is_cut)
        cute.tile_gemm(p, v.scaled(j), softmax.o, sums=weights.by_multiply)

    o, total = softmax.result()
    has_no_key = total == 0.0
    part = cute.reciprocal(total)
    part = cute.where(has_no_key, 0.0, part if factor_v is None else part * factor_v)
    if seen.is_masked:
        # NaN or Inf in V, which a product of 0 does not hide.
        with when(cute.any_(cute.row_sum(o, local=True) * 0.0 != 0.0, local=True)):
            attend_key_by_key(work, seen, softmax, dims, part)
    with otherwise() if seen.is_masked else nullcontext():
        rows = (o * part).to(out.dtype)
        cute.copy(rows, local_tile(work.out, (bq, dims[1]), (*work.place, i, 0)))
    if work.lse is not None:
        logarithms = softmax.logarithms(has_no_key)
        cute.copy(logarithms, local_tile(work.lse, (bq,), (*work.place, i)))
