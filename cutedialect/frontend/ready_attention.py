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
from cutedialect.backend.runtime.repeats import Repeat
from cutedialect.backend.runtime.warm_call import warm_call

from .attention_scales import NAMES as SCALES
from .attention_scales import HeadScales
from .attention_views import heads_as_rows, share_heads, split_heads, work_items
from .dtypes import DType, f32

# The arrays of a call, in the order of `ReadyAttention.run`.
_ARRAYS = ("q", "k", "v", "out", "lengths", "block_table", *SCALES, "cu_seqlens", "cu_seqlens")
# Places in the arrays of a kernel.
_OUT, _LSE, _LENGTHS, _TABLE, *_SCALES, _OFFSETS = range(3, 11)


@dataclass
class ReadyAttention:
    """What a warm call needs, and none of the arrays that it was made from.

    `numbers` are the scale, the cap, and the keys before and behind that a row sees; `items` the
    work items of packed sequences. With `folds` the rows of heads that share keys are those of one;
    they are gathered if no stride leads through those of q. `queries` is how many a head has, where
    it matters, and `parts` how many the keys are split into. `repeat` is the call on device arrays
    after the first one, of (q, k, v, out, lse, lengths, block_table, scales..., offsets...).
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
    repeat: Repeat | None = field(default=None, compare=False)

    def run(
        self,
        arrays: tuple[Any, Any, Any, Any],
        scales: Sequence[Any],
        keys: tuple[Any, Any],
        offsets: Sequence[Any],
        stream: Any,
    ) -> Any:
        """Launch on arrays that look like those of `prepare`."""
        q, k, v, out = arrays
        if self.repeat is not None:
            result = self.repeat(None, stream, True, *arrays, None, *keys, *scales, *offsets)
            if result is not None:
                return result
        lse = None
        if out is None:
            out = new_array(q, self.out_shape, self.out_dtype.numpy, stream)
        if self.returns_lse:
            lse = new_array(q, self.out_shape[:-1], f32.numpy, stream)
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
            if self.repeat is None:
                every = (q, k, v, out, lse, *keys, *scales, *offsets)
                self.repeat = self.repeat_of(every, arrays[_OUT] is None, args)
        return (out, lse) if self.returns_lse else out

    def repeat_of(
        self, every: tuple[Any, ...], is_new: bool, args: Sequence[Any] | None = None
    ) -> Repeat | None:
        """The launch for calls on other arrays that look like these, which include the results, as
        one function for what torch is at just now. `args` are the kernel's arguments, if known.
        """
        assert self.kernel is not None
        k, v = every[1:3]
        if args is None:
            args = self.arguments(
                every[:_LENGTHS],
                every[_SCALES[0] : _OFFSETS],
                (every[_LENGTHS], every[_TABLE]),
                every[_OFFSETS:],
            )
        makers: dict[int, Callable[[Any, Any], Any]] = {}
        if is_new:
            makers[_OUT] = maker(every[0], self.out_shape, self.out_dtype.numpy)
        if self.returns_lse:
            makers[_LSE] = maker(every[0], self.out_shape[:-1], f32.numpy)
        # What `arguments` gives, in its order.
        places = [*range(_LENGTHS), *_SCALES, _LENGTHS]
        if self.items is not None:
            places += [_OFFSETS, _OFFSETS, _OFFSETS + 1]
        places.append(_TABLE)
        return warm_call(
            self.kernel,
            [value for value in args if value is not None],
            every,
            [place for place in places if place < len(every) and every[place] is not None],
            makers,
            [_OUT, _LSE] if self.returns_lse else [_OUT],
            written=[] if is_new else [_OUT],
            # Values that begin where keys do may be columns of these.
            apart=[(1, 2)] if v is not None and v.shape[-1] < k.shape[-1] else [],
        )

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
