"""Attention in several kernels. Where the tiles of rows do not fill a device, keys are split over
CTAs: one kernel attends to each part of them, another merges the parts. Few rows of heads that
share keys are gathered to one tile's first, where no stride leads through them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cutedialect.frontend.host import host
from cutedialect.frontend.kernel import kernel
from cutedialect.schedule import Schedule

from .attention import attention

if TYPE_CHECKING:
    from cutedialect.frontend.scalar import Scalar
    from cutedialect.frontend.tile import Tensor

_LOG2_E = math.log2(math.e)
# Parts that are loaded together, and rows of a tile of the kernel that merges them.
_AT_ONCE, _ROWS = 4, 8


@kernel(in_bounds=True, spills="refuse")
def gather(rows: Tensor, out: Tensor, *, width: int = 64) -> None:
    """The rows of heads (batch, heads, group, rows, D) as those of one (batch, heads, group times
    rows, width), head by head; 0 in the columns behind D.
    """
    # Imported at tracing, since they need xDSL and a kernel found in the cache does not.
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.local_tiles import local_tile

    b, head, member, i = cute.tile_index(rows, (1, 1, 1, _ROWS))
    count = rows.dim(3)
    mine = out.slice(2, member * count, (member + 1) * count)
    source = local_tile(rows, (_ROWS, width), (b, head, member, i, 0))
    cute.copy(source.load(), local_tile(mine, (_ROWS, width), (b, head, i, 0)))


@kernel(in_bounds=True, spills="refuse")
def combine(
    parts: Tensor, logs: Tensor, out: Tensor, lse: Tensor | None, *, width: int = 64
) -> None:
    """The rows of `out` (..., rows, width) from those of each part (..., parts, rows, width) by the
    natural logarithms of their sums (..., parts, rows); -inf is that of a part without keys.
    """
    # Imported at tracing, since they need xDSL and a kernel found in the cache does not.
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.dtypes import f32, i32
    from cutedialect.frontend.local_tiles import local_tile
    from cutedialect.frontend.loops import range_

    *batch, i = cute.tile_index(out, (1,) * (out.rank - 2) + (_ROWS,))
    count = parts.dim(parts.rank - 3)
    steps = (count + (_AT_ONCE - 1)) // _AT_ONCE

    def places(step: Scalar) -> list[tuple[Scalar, Scalar]]:
        """The parts of a step, and whether they exist: one that is there stands for the others."""
        numbers = [step * _AT_ONCE + number for number in range(_AT_ONCE)]
        return [(cute.minimum(each, count - 1), each < count) for each in numbers]

    top = cute.full((_ROWS, 1), -cute.inf)
    for step in range_(steps):
        views = [local_tile(logs, (_ROWS,), (*batch, s, i)) for s, _ in places(step)]
        for log in [view.load()[:, None] for view in views]:
            top.assign(cute.maximum(top, log))
    # Of a row that no part has seen keys of, the largest is -inf: subtract 0 from it.
    base = cute.where(top == -cute.inf, 0.0, top)
    total, merged = cute.zeros((_ROWS, 1)), cute.zeros((_ROWS, width))
    for step in range_(steps):
        at = places(step)
        found = [
            (local_tile(logs, (_ROWS,), (*batch, s, i)).load()[:, None],
             local_tile(parts, (_ROWS, width), (*batch, s, i, 0)).load())
            for s, _ in at
        ]  # fmt: skip
        for (_, exists), (log, rows) in zip(at, found, strict=True):
            weight = cute.exp2((log - base) * _LOG2_E) * exists.to(i32).to(f32)
            total += weight
            merged += rows * weight
    none = total == 0.0
    merged.assign(merged * cute.where(none, 0.0, 1.0 / total))
    cute.copy(merged.to(out.dtype), local_tile(out, (_ROWS, width), (*batch, i, 0)))
    if lse is not None:
        found = cute.where(none, -cute.inf, base + cute.log(total))
        cute.copy(found, local_tile(lse, (_ROWS,), (*batch, i)))


@host
def split_attention(
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
    queries: Scalar | None,
    table: Tensor | None,
    parts: Scalar | None,
    *,
    tile: tuple[int, int] = (64, 64),
    dims: tuple[int, int] = (64, 64),
    is_scaled_first: bool = False,
    maxima: str = "exact",
    meets_at: int = 0,
    page_size: int = 0,
    sums: str = "registers",
    packed: tuple[int, int] = (1, 1),
) -> None:
    """`attention` with the keys of each tile of rows in so many `parts`. A Q with a mode more, the
    heads that share keys, is brought into the order of `out` first.
    """
    from cutedialect.frontend.dtypes import f32
    from cutedialect.frontend.host import launch, workspace

    *heads, rows = (out.dim(mode) for mode in range(out.rank - 1))
    plan = Schedule(roles="uniform", scheduler="single", epilogue="direct")
    if Q.rank > out.rank:
        gathered = workspace((*heads, rows, dims[0]), Q.dtype)
        launch(gather, Q, gathered, schedule=plan, width=dims[0])
        Q = gathered
    whole = out, lse
    if parts is not None:
        out, lse = (
            workspace((*heads, parts, rows, dims[1]), f32),
            workspace((*heads, parts, rows), f32),
        )
    launch(
        attention,
        *(Q, K, V, out, lse, scale, cap, left, right),
        *(factor_v, scale_q, scale_k, scale_v, lengths, None, None, None, queries, table),
        tile=tile,
        dims=dims,
        is_scaled_first=is_scaled_first,
        maxima=maxima,
        meets_at=meets_at,
        page_size=page_size,
        sums=sums,
        packed=packed,
    )
    if parts is not None and lse is not None:
        launch(combine, out, lse, *whole, schedule=plan, width=dims[1])
