"""What attention's backward pass does with rows ahead of its multiplies, and behind them."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING

from cutedialect.frontend.kernel import kernel

if TYPE_CHECKING:
    from cutedialect.frontend.scalar import Scalar
    from cutedialect.frontend.tile import Tensor

_LOG2_E = math.log2(math.e)


@kernel(in_bounds=True, spills="refuse")
def prepare_rows(
    dO: Tensor | None,
    out: Tensor,
    lse: Tensor,
    dlse: Tensor | None,
    logarithms: Tensor,
    delta: Tensor,
    sums: Tensor | None,
    copied: Tensor | None,
    q_offsets: Tensor | None,
    *,
    rows: int = 64,
    dims: tuple[int, int] = (64, 64),
) -> None:
    """delta = the row sums of dO out, less dlse; logarithms = lse in base 2, inf where a row sees
    no key or is none; sums = 0, and copied = dO, without which it is 0. dO, out are (batch,
    heads..., rows, D), lse and dlse without D, the others like them, but each sequence from a tile
    of `rows` on.

    A row whose delta is no number has NaN as its logarithm, and 0 as delta: what is computed of the
    keys that it sees is NaN then, and what is selected for others is not.
    """
    # Imported at tracing, since they need xDSL and a kernel found in the cache does not.
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.dtypes import f32
    from cutedialect.frontend.local_tiles import local_tile

    from .backward_items import RowItem

    work = RowItem.of(logarithms, rows, (dO, out, lse, dlse, copied), (), q_offsets, None)
    dO, o, of_sums, dlse, copied = work.of_rows
    assert o is not None
    assert of_sums is not None
    bq = rows
    at = (*work.head, work.i)
    if sums is not None:
        zeros = cute.zeros((bq, dims[0]))
        cute.copy(zeros, local_tile(sums, (bq, dims[0]), (*work.place, 0)))
    total = cute.zeros((bq, 1))
    if dO is not None:
        g = local_tile(dO, (bq, dims[1]), (*at, 0)).load()
        rows_of_out = local_tile(o, (bq, dims[1]), (*at, 0)).load()
        total.assign(cute.row_sum(g.to(f32) * rows_of_out.to(f32)))
        if copied is not None:
            cute.copy(g.to(copied.dtype), local_tile(copied, (bq, dims[1]), (*at, 0)))
    elif copied is not None:
        zeros = cute.zeros((bq, dims[1]), copied.dtype)
        cute.copy(zeros, local_tile(copied, (bq, dims[1]), (*at, 0)))
    if dlse is not None:
        total.assign(total - local_tile(dlse, (bq,), at).load()[:, None])
    log = local_tile(of_sums, (bq,), at).load()[:, None]
    row = cute.coord(log, 0, work.i * bq)
    is_row = row < of_sums.dim(of_sums.rank - 1)
    log = cute.where(is_row & (log != -cute.inf), log * _LOG2_E, cute.inf)
    none = total * 0.0
    log, total = log + none, cute.where(none == 0.0, total, 0.0)
    cute.copy(log, local_tile(logarithms, (bq,), work.place))
    cute.copy(total, local_tile(delta, (bq,), work.place))


@kernel(in_bounds=True, spills="refuse")
def finish_rows(
    sums: Tensor,
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
    rows: int = 64,
    dims: tuple[int, int] = (64, 64),
    vector: int = 1,
    turned: bool = False,
) -> None:
    """dQ = factor sums. Arguments are those of `key_gradients`."""
    # Imported at tracing, since they need xDSL and a kernel found in the cache does not.
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.local_tiles import local_tile
    from cutedialect.frontend.loops import otherwise, when

    from .added_sums import SumTile
    from .backward_items import RowItem
    from .pair_by_pair import query_gradients_by_key
    from .seen_keys import SeenKeys
    from .slopes import Slopes

    work = RowItem.of(logarithms, rows, (dQ, dO, Q), (K, V), q_offsets, k_offsets).up_to(lengths)
    dQ, dO, Q = (each for each in work.of_rows if each is not None)
    K, V = (each for each in work.of_keys if each is not None)
    bq = rows
    if scale_k is not None:
        factor = factor * scale_k[work.key_head]
    tile = SumTile(bq, dims[0], vector, turned)
    x = local_tile(tile.within(sums), (None, None), work.place, tile.copy).load()
    is_masked = left is not None or right is not None
    if is_masked:
        # NaN or Inf in rows of K, which a product of 0 does not hide.
        seen = SeenKeys.of(Q, K, bq, work.i, left, right, None)
        slopes = Slopes(scale, cap, None, factor_v)
        slopes = slopes.of_head(scale_q, scale_k, scale_v, work.head, work.key_head)
        with when(cute.any_(cute.row_sum(x, local=True) * 0.0 != 0.0, local=True)):
            query_gradients_by_key(
                work, (Q, K, dO, V), seen, slopes, (logarithms, delta), (dQ, factor), dims
            )
    with otherwise() if is_masked else nullcontext():
        result = (x * factor).to(dQ.dtype)
        at = *work.head, work.i, 0
        cute.copy(result, local_tile(dQ, (bq, dims[0]), at, tile.copy))
