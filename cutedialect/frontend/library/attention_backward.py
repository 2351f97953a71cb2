"""Attention's backward pass in several kernels: what concerns rows alone, the gradients of keys and
values with sums for those of queries, and these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutedialect.atoms import WARP_SIZE
from cutedialect.frontend.host import host
from cutedialect.schedule import Schedule, replace_set

from .backward_rows import finish_rows, prepare_rows
from .key_gradients import key_gradients
from .query_gradients import query_gradients

if TYPE_CHECKING:
    from cutedialect.frontend.scalar import Scalar
    from cutedialect.frontend.tile import Tensor

# CTAs of a processor that prepare rows, whose loads and stores fill the time in which others wait,
# and the elements of a tile of which threads have registers for that.
_PREPARING_CTAS, _PREPARED = 3, 8192


@host
def attention_backward(
    dO: Tensor | None,
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    out: Tensor,
    lse: Tensor,
    dlse: Tensor | None,
    dQ: Tensor | None,
    dK: Tensor | None,
    dV: Tensor | None,
    logarithms: Tensor,
    delta: Tensor,
    sums: Tensor | None,
    copied: Tensor | None,
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
    dims: tuple[int, int] = (64, 64),
    streamed: str = "tile = (64,64)",
    vector: int = 1,
    turned: bool = False,
    early_values: bool = False,
    values: str | None = None,
) -> None:
    """The gradients dQ, dK and dV that are asked for, of softmax(scores) V and its logarithms lse,
    where the loss has the slopes dO and dlse along these; arguments are those of `key_gradients`,
    `scale` that of scores in units of log2(e) and `factor` in natural ones. `tile` is (keys, rows),
    `dims` are the head dimensions, rounded up, and `streamed` is the schedule of the pass over the
    keys, whose tile (keys, rows) has whole tiles of rows. `vector`, `turned` and `early_values` are
    those of `key_gradients`, and `values` is its schedule where a launch of its own has dV.

    Memory of the call: `logarithms` and `delta` (batch, heads..., rows of whole tiles); `sums`
    (..., D) of dQ, added up in the order in which CTAs come, without which a pass over the keys has
    dQ; and `copied` (batch, heads..., rows, Dv), if multiplies cannot read dO.
    """
    from cutedialect.frontend.host import launch

    from .added_sums import SumTile

    over_keys = Schedule.parse(streamed)
    assert over_keys.tile is not None
    is_streamed = sums is None and dQ is not None
    # Of each sequence, which begins at a tile of what lies by rows.
    unit = over_keys.tile[1] if is_streamed else tile[1]
    # What is computed again pair by pair needs registers that several CTAs would not leave it.
    plan = Schedule(roles="uniform", scheduler="single", epilogue="direct", ctas=1)
    ctas = _PREPARING_CTAS if unit * max(dims) <= _PREPARED else 1
    launch(
        prepare_rows, dO, out, lse, dlse, logarithms, delta, sums, copied, q_offsets,
        schedule=replace_set(plan, {"ctas": ctas}), rows=unit, dims=dims,
    )  # fmt: skip
    g = dO if copied is None else copied
    about = scale, factor, cap, left, right, factor_v, scale_q, scale_k, scale_v, lengths
    offsets = q_offsets, k_offsets
    options = {
        "tile": tile, "unit": unit, "dims": dims, "vector": vector, "turned": turned,
        "early_values": early_values,
    }  # fmt: skip
    has_slopes = dK is not None or sums is not None
    beside = dV if has_slopes and values is None else None
    if has_slopes:
        launch(
            key_gradients, g, Q, K, V, logarithms, delta, sums, dK, beside, *about, items, *offsets,
            **options,
        )  # fmt: skip
    if dV is not beside:
        launch(
            key_gradients, g, Q, K, V, logarithms, delta, None, None, dV, *about, items, *offsets,
            schedule=values, **options,
        )  # fmt: skip
    if sums is not None:
        threads = SumTile(tile[1], dims[0], vector, turned).threads
        launch(
            finish_rows, sums, dQ, g, Q, K, V, logarithms, delta, *about, *offsets,
            schedule=replace_set(plan, {"warps": (threads // WARP_SIZE, 1)}), rows=tile[1],
            dims=dims, vector=vector, turned=turned,
        )  # fmt: skip
    elif dQ is not None:
        launch(
            query_gradients, dQ, g, Q, K, V, logarithms, delta, *about, *offsets,
            schedule=replace_set(over_keys, {"tile": None}), tile=over_keys.tile, dims=dims,
        )  # fmt: skip
