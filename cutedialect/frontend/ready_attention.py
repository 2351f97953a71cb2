"""`ReadyAttention`: a call of `cute.attention` after its checks. It runs on arrays that look like
those it was made from, and holds none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .attention_scales import NAMES as SCALES
from .attention_scales import HeadScales
from .attention_views import heads_as_rows, share_heads, split_heads, work_items
from .dtypes import DType, f32
from .gemm_operands import viewable
from .ready_call import Ready

# The arrays of a call.
_ARRAYS = (
    "q", "k", "v", "out", "lse", "lengths", "block_table", *SCALES, "cu_seqlens", "cu_seqlens",
)  # fmt: skip
_OUT, _LSE, _LENGTHS, _TABLE, *_SCALES, _OFFSETS = range(3, 11)


@dataclass
class ReadyAttention(Ready):
    """What a warm call needs, and none of the arrays that it was made from.

    `scalars` are the scale, the cap, and the keys before and behind that a row sees; `items` the
    work items of packed sequences. With `folds` the rows of heads that share keys are those of one;
    they are gathered if no stride leads through those of q. `queries` is how many a head has, where
    it matters, and `parts` how many the keys are split into.
    """

    ARRAYS = _ARRAYS
    OUT = _OUT
    WRITTEN = (_OUT,)

    returns_lse: bool
    heads: int
    group: int
    scalars: tuple[Any, ...]
    scales: HeadScales
    items: tuple[int | None, ...] | None
    folds: bool
    gathers: bool
    queries: Any
    parts: Any

    @cached_property
    def results(self) -> dict[int, tuple[tuple[int | None, ...], DType]]:
        results = {_OUT: (self.out_shape, self.out_dtype)}
        return results | {_LSE: (self.out_shape[:-1], f32)} if self.returns_lse else results

    def places(self, arrays: Sequence[Any]) -> list[int]:
        places = [*range(_LENGTHS), *_SCALES, _LENGTHS]
        if self.items is not None:
            places += [_OFFSETS, _OFFSETS, _OFFSETS + 1]
        return [*places, _TABLE]

    def about(self, arrays: Sequence[Any]) -> dict[str, Any]:
        # Values that begin where keys do may be columns of these.
        k, v = arrays[1:3]
        depth = viewable(k).shape[-1]
        return {"apart": [(1, 2)] if v is not None and viewable(v).shape[-1] < depth else []}

    def arguments(self, arrays: Sequence[Any], numbers: tuple[float, ...] = ()) -> list[Any]:
        """The program's arguments: heads that share keys are a mode of their own."""
        q, k, v, out, lse, lengths, table, *scales = arrays[:_OFFSETS]
        offsets, keys = arrays[_OFFSETS:], viewable(k).shape[:3] if any(self.scales.spans) else ()
        if self.folds:
            view = split_heads if self.gathers else heads_as_rows
            q, out = view(q, self.heads), heads_as_rows(out, self.heads)
            lse = None if lse is None else heads_as_rows(lse, self.heads)
        elif self.group > 1:
            q, out = split_heads(q, self.heads), split_heads(out, self.heads)
            k = share_heads(k, self.group)
            v = None if v is None else share_heads(v, self.group)
            lse = None if lse is None else split_heads(lse, self.heads)
        items = None if self.items is None else work_items(offsets[0], self.items)
        packing = [items, *offsets] if items is not None else [None] * 3
        factors = self.scales.arguments(
            scales, self.out_shape[0], self.heads, 1 if self.folds else self.group, keys=keys
        )
        given = [q, k, v, out, lse, *self.scalars, *factors, lengths]
        if self.parts is not None or self.gathers:
            return [*given, self.queries, table, self.parts]
        return [*given, *packing, self.queries, table]
