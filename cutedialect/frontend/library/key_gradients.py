"""The gradients of attention's keys and values as a tile program: a block of keys stays, the rows
that see it pass, and what they add to the gradient of the queries goes to memory.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from cutedialect.frontend.kernel import kernel

if TYPE_CHECKING:
    from cutedialect.frontend.scalar import Scalar
    from cutedialect.frontend.tile import Tensor


@kernel(in_bounds=True, spills="refuse")
def key_gradients(
    dO: Tensor,
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    logarithms: Tensor,
    delta: Tensor,
    sums: Tensor | None,
    dK: Tensor | None,
    dV: Tensor | None,
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
    items: Tensor | None,
    q_offsets: Tensor | None,
    k_offsets: Tensor | None,
    *,
    tile: tuple[int, int] = (64, 64),
    unit: int = 64,
    dims: tuple[int, int] = (64, 64),
    vector: int = 1,
    turned: bool = False,
    early_values: bool = False,
) -> None:
    """dK = factor dS^T Q and dV = P^T dO, where P = exp2(scale Q K^T - logarithms) and
    dS = P (dO V^T - delta); sums += dS K, if there are any.

    Scores are transposed, and `tile` is (keys, rows). Q, dO are (batch, heads, [heads that share
    keys,] rows, D), K, V, dK, dV (batch, heads, keys, D). `logarithms` and `delta` (batch,
    heads..., rows) and `sums` (..., D), which lie as `SumTile` says of `vector` and `turned`, hold
    each sequence from a multiple of `unit` rows on, with rows behind its end, up to such a
    multiple, whose logarithm is inf. Rows see keys as in `attention`, which has the same arguments;
    `items` (work items, heads) are enough for all blocks of keys of packed sequences. With
    `early_values` dV is multiplied beside the slopes, for which threads hold P in two types.
    """
    # Imported at tracing, since they need xDSL and a kernel found in the cache does not.
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.local_tiles import local_tile
    from cutedialect.frontend.loops import otherwise, range_, when

    from .added_sums import AddedSums, SumTile
    from .backward_items import KeyItem
    from .gradients import KeyGradients, Scales, Sums
    from .pair_by_pair import key_gradients_by_row
    from .seen_rows import SeenRows
    from .slopes import Slopes

    bk, bq = tile
    packing = items, q_offsets, k_offsets
    work = KeyItem.of((dO, Q, K, V, dK, dV), tile, packing, unit).up_to(lengths)
    heads, n = work.heads, work.n
    k = local_tile(work.K, (bk, dims[0]), (*heads, n, 0))
    v = local_tile(work.V, (bk, dims[1]), (*heads, n, 0))
    seen = SeenRows(n * bk, bk, work.rows, work.keys, left, right)
    whole = Slopes(scale, cap, None, factor_v)
    first, count = seen.tiles(bq)
    end = first + count
    dk, dv = Sums.of(dK, (bk, dims[0])), Sums.of(dV, (bk, dims[1]))
    has_slopes = dK is not None or sums is not None
    dq = AddedSums.of(sums, SumTile(bq, dims[0], vector, turned))
    for head in work.row_heads():
        slopes = whole.of_head(scale_q, scale_k, scale_v, head, heads)
        for i in range_(first, end):
            q = local_tile(work.Q, (bq, dims[0]), (*head, i, 0))
            g = local_tile(work.do, (bq, dims[1]), (*head, i, 0))
            place = (*head, work.tile + i)
            s, dp = cute.zeros((bk, bq)), cute.zeros((bk, bq))
            cute.tile_gemm(k, q.T, s)
            if has_slopes:
                cute.tile_gemm(v, g.T, dp)
            hides = seen.cuts(i * bq, bq)
            tangents = slopes.weigh(s, local_tile(logarithms, (bq,), place).T.load())
            seen.hide(s, i * bq, hides)
            if not has_slopes:
                dv.multiply(s, g)
                continue
            part = local_tile(delta, (bq,), place).T.load()
            if early_values:
                dv.multiply(s, g)
                slopes.bend(s, tangents)
                tangents = None
            slopes.slope(dp, s, tangents, part)
            # A gradient or a value that is NaN, which a weight of 0 does not hide.
            seen.hide(dp, i * bq, hides)
            if not early_values:
                # Before the slopes are stored, so that it works meanwhile.
                dv.multiply(s, g)
            ds = dp.to(Q.dtype)
            x = dq.multiply(ds, k)
            dk.multiply(ds, q)
            # Beside the multiply of dK.
            dq.add(x, place)

    scales = Scales(scale_q, scale_k, scale_v)
    gradients = KeyGradients.of(work, (dk, dv), (factor, factor_v), scales, dims)
    if seen.is_masked:
        # NaN or Inf in rows of Q or dO, which a product of 0 does not hide.
        with when(cute.any_(gradients.are_broken, local=True)):
            key_gradients_by_row(work, seen, whole, (logarithms, delta), scales, gradients, dims)
    with otherwise() if seen.is_masked else nullcontext():
        gradients.store((*heads, n, 0))
