"""`ReadyAttentionBackward`: a call of `cute.attention_backward` after its checks. It runs on arrays
that look like those it was made from, and holds none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .attention_scales import NAMES as SCALES
from .attention_scales import HeadScales
from .attention_views import split_heads, work_items
from .dtypes import DType
from .ready_call import Ready

# Those that a call has for itself, and all arrays of a call.
MEMORY = "logarithms", "delta", "sums", "copied"
_ARRAYS = (
    "q", "k", "v", "out", "lse", "do", "dlse", "dq", "dk", "dv", *MEMORY,
    "lengths", *SCALES, "cu_seqlens", "cu_seqlens",
)  # fmt: skip
_Q, _K, _V, _OUT, _LSE, _DO, _DLSE, _DQ, _DK, _DV = range(10)
_LOGARITHMS, _DELTA, _SUMS, _COPIED, _LENGTHS, *_SCALES, _OFFSETS = range(10, 19)
# Those that have the heads of q.
_OF_ROWS = (_Q, _OUT, _LSE, _DO, _DLSE, _DQ, _LOGARITHMS, _DELTA, _SUMS, _COPIED)


@dataclass
class ReadyAttentionBackward(Ready):
    """What a warm call needs, and none of the arrays that it was made from.

    `gradients` are the shapes and types of the results that are wanted, by name, `memory` those of
    what the call has for itself; `scalars` the scale in units of log2(e), the natural one, the cap,
    the keys before and behind that a row sees, and the factor of v; `items` the work items of
    packed sequences of keys.
    """

    ARRAYS = _ARRAYS
    OUT = _DQ
    WRITTEN = (_DQ, _DK, _DV)

    gradients: Mapping[str, tuple[tuple[int | None, ...], DType]]
    heads: int
    group: int
    memory: Mapping[str, tuple[tuple[int | None, ...], DType]]
    scalars: tuple[Any, ...]
    scales: HeadScales
    items: tuple[int | None, ...] | None

    @cached_property
    def results(self) -> dict[int, tuple[tuple[int | None, ...], DType]]:
        made = {**self.gradients, **self.memory}
        return {place: made[name] for place, name in enumerate(_ARRAYS) if name in made}

    @property
    def returned(self) -> list[int]:
        return list(self.WRITTEN)

    def places(self, arrays: Sequence[Any]) -> list[int]:
        places = [_DO, _Q, _K, _V, _OUT, _LSE, _DLSE, _DQ, _DK, _DV]
        places += [_LOGARITHMS, _DELTA, _SUMS, _COPIED, *_SCALES, _LENGTHS]
        if self.items is not None:
            places += [_OFFSETS + 1, _OFFSETS, _OFFSETS + 1]
        return places

    def arguments(self, arrays: Sequence[Any], numbers: tuple[float, ...] = ()) -> list[Any]:
        """The program's arguments: heads that share keys are a mode of their own."""
        arrays, offsets = list(arrays[:_OFFSETS]), arrays[_OFFSETS:]
        if self.group > 1:
            for place in _OF_ROWS:
                if arrays[place] is not None:
                    arrays[place] = split_heads(arrays[place], self.heads)
        q, k, v, out, lse, do, dlse, *written = arrays[:_LENGTHS]
        lengths, *scales = arrays[_LENGTHS:]
        items = None if self.items is None else work_items(offsets[1], self.items)
        packing = [items, *offsets] if items is not None else [None] * 3
        factors = self.scales.arguments(
            scales, self.out_shape[0], self.heads, self.group, shares=False
        )
        given = [do, q, k, v, out, lse, dlse, *written]
        return [*given, *self.scalars, *factors, lengths, *packing]
