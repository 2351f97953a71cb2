"""`ReadyAttention`: a call of `cute.attention` after its checks. It runs on arrays that look like
those it was made from, and holds none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cutedialect.backend.runtime.aliasing import Named, check_aliases
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.new_arrays import maker, new_array
from cutedialect.backend.runtime.warm_call import WarmCall, warm_call

from .attention_scales import NAMES as SCALES
from .attention_scales import HeadScales
from .attention_views import heads_as_rows, share_heads, split_heads, work_items
from .dtypes import DType, f32

# The arrays of a call, in the order of `ReadyAttention.run`, and the place of the output.
_ARRAYS = ("q", "k", "v", "out", "lengths", "block_table", *SCALES, "cu_seqlens", "cu_seqlens")
_OUT = 3


@dataclass
class ReadyAttention:
    """What a warm call needs, and none of the arrays that it was made from.

    `numbers` are the scale, the cap, and the keys before and behind that a row sees; `items` the
    work items of packed sequences. With `folds` the rows of heads that share keys are those of one;
    they are gathered if no stride leads through those of q. `queries` is how many a head has, where
    it matters, and `parts` how many the keys are split
    into. `warm` is the call on device arrays after the first one; `make` and `make_lse` make its
    results.
    """

    kernel: Kernel | None
    out_shape: tuple[int | None, ...]
    out_dtype: DType
    returns_lse: bool
    heads: int
    group: int
    numbers: tuple[Any, ...]
    scales: HeadScales
    items: tuple[int | None, ...] | None
    folds: bool
    gathers: bool
    queries: Any
    parts: Any
    warm: WarmCall | None = field(default=None, compare=False)
    make: Callable[[Any], Any] | None = field(default=None, compare=False)
    make_lse: Callable[[Any], Any] | None = field(default=None, compare=False)

    def run(
        self,
        arrays: tuple[Any, Any, Any, Any],
        scales: Sequence[Any],
        keys: tuple[Any, Any],
        offsets: Sequence[Any],
        stream: Any,
        addresses: Sequence[int | None],
    ) -> Any:
        """Launch on arrays that look like those of `prepare`, at `addresses` in that order."""
        q, k, v, out = arrays
        lse = None
        if stream is None and self.make is not None and self.make_lse is not None:
            out = self.make(q) if out is None else out
            lse = self.make_lse(q) if self.returns_lse else None
        else:
            if out is None:
                out = new_array(q, self.out_shape, self.out_dtype.numpy, stream)
            if self.returns_lse:
                lse = new_array(q, self.out_shape[:-1], f32.numpy, stream)
        every = (q, k, v, out, lse, *keys, *scales, *offsets)
        if self.warm is not None:
            places = (*addresses[: _OUT + 1], None, *addresses[_OUT + 1 :])
            if self.warm.run(every, places, self.warm.prepared.numbers, stream):
                return (out, lse) if self.returns_lse else out
        if self.kernel is not None:
            args = self.arguments((q, k, v, out, lse), scales, keys, offsets)

            def check() -> None:
                given = zip(_ARRAYS, (*arrays, *keys, *scales, *offsets), strict=False)
                check_aliases([Named(name, value, name == "out") for name, value in given])

            self.kernel.launch(
                *[value for value in args if value is not None],
                stream=stream,
                check=None if arrays[3] is None else check,
            )
            if self.warm is None:
                self._warm_up([value for value in args if value is not None], every, arrays[3])
        return (out, lse) if self.returns_lse else out

    def _warm_up(self, args: list[Any], every: tuple[Any, ...], out: Any) -> None:
        """Keep the launch for calls on other arrays that look the same."""
        assert self.kernel is not None
        written = [] if out is None else [_OUT]
        self.warm = warm_call(self.kernel, args, every, written=written)
        if self.warm is not None:
            self.make = maker(every[0], self.out_shape, self.out_dtype.numpy)
            self.make_lse = maker(every[0], self.out_shape[:-1], f32.numpy)

    def arguments(
        self,
        arrays: Sequence[Any],
        scales: Sequence[Any],
        keys: tuple[Any, Any],
        offsets: Sequence[Any],
    ) -> list[Any]:
        """The program's arguments: heads that share keys are a mode of their own. `keys` are their
        lengths and the table of their pages.
        """
        lengths, table = keys
        q, k, v, out, lse = arrays
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
            scales, self.out_shape[0], self.heads, 1 if self.folds else self.group
        )
        given = [q, k, v, out, lse, *self.numbers, *factors, lengths]
        if self.parts is not None or self.gathers:
            return [*given, self.queries, table, self.parts]
        return [*given, *packing, self.queries, table]
