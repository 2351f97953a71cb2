"""The gradient of attention's queries as a tile program of its own: a tile of rows stays, the keys
that it sees pass. It adds in one order, so that equal calls give equal bits.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from cutedialect.frontend.kernel import kernel

if TYPE_CHECKING:
    from cutedialect.frontend.scalar import Scalar
    from cutedialect.frontend.tile import Tensor


@kernel(in_bounds=True, spills="refuse")
def query_gradients(
    dQ: Tensor,
    dO: Tensor,
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    logarithms: Tensor,
    delta: Tensor,
    scale: Scalar,
    factor: Scalar,
    cap: Scalar | None,
    left: Scalar | None,
    right: Scalar | None,
    factor_v: Scalar | None,
    scale_q: Tensor | None,
    scale_k: Tensor | None,
    scale_v: Tensor | None,
    lengths: Tensor | None,
    q_offsets: Tensor | None,
    k_offsets: Tensor | None,
    *,
    tile: tuple[int, int] = (64, 64),
    dims: tuple[int, int] = (64, 64),
) -> None:
    """dQ = factor dS K, with dS, and all arguments, as in `key_gradients`."""
    # Imported at tracing, since they need xDSL and a kernel found in the cache does not.
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.local_tiles import local_tile
    from cutedialect.frontend.loops import otherwise, range_, when

    from .backward_items import RowItem
    from .pair_by_pair import query_gradients_by_key
    from .seen_keys import SeenKeys
    from .slopes import Slopes

    bk, bq = tile
    # A tile sees the more keys the later it is.
    is_longer = right is not None and q_offsets is None
    work = RowItem.of(logarithms, bq, (dQ, dO, Q), (K, V), q_offsets, k_offsets, is_longer)
    work = work.up_to(lengths)
    dQ, dO, Q = (each for each in work.of_rows if each is not None)
    K, V = (each for each in work.of_keys if each is not None)
    if scale_k is not None:
        factor = factor * scale_k[work.key_head]
    slopes = Slopes(scale, cap, None, factor_v)
    slopes = slopes.of_head(scale_q, scale_k, scale_v, work.head, work.key_head)
    at, head = (*work.head, work.i), work.key_head
    q, g = local_tile(Q, (bq, dims[0]), (*at, 0)), local_tile(dO, (bq, dims[1]), (*at, 0))
    k = local_tile(K, (bk, dims[0]), (*head, None, 0))
    v = local_tile(V, (bk, dims[1]), (*head, None, 0))
    log, part = (
        local_tile(each, (bq,), work.place).load()[:, None] for each in (logarithms, delta)
    )
    seen = SeenKeys.of(Q, K, bq, work.i, left, right, None)
    # The last tiles of a packed sequence may lie behind it.
    seen.end = cute.where(work.i * bq < Q.dim(Q.rank - 2), seen.end, 0)
    x = cute.zeros((bq, dims[0]))
    for j in range_(seen.begin // bk, (seen.end + (bk - 1)) // bk):
        s, dp = cute.zeros((bq, bk)), cute.zeros((bq, bk))
        cute.tile_gemm(q, k[j].T, s)
        cute.tile_gemm(g, v[j].T, dp)
        tangents = slopes.weigh(s, log)
        slopes.slope(dp, s, tangents, part)
        with when(seen.cuts(j * bk, bk)):
            dp.assign(cute.where(seen.sees(dp, j * bk), dp, 0.0))
        cute.tile_gemm(dp.to(Q.dtype), k[j], x)
    if seen.is_masked:
        # NaN or Inf in rows of K, which a product of 0 does not hide.
        with when(cute.any_(cute.row_sum(x, local=True) * 0.0 != 0.0, local=True)):
            query_gradients_by_key(
                work, (Q, K, dO, V), seen, slopes, (logarithms, delta), (dQ, factor), dims
            )
    with otherwise() if seen.is_masked else nullcontext():
        cute.copy((x * factor).to(dQ.dtype), local_tile(dQ, (bq, dims[0]), (*at, 0)))
