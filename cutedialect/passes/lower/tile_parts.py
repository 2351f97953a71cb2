"""Large tiles part by part: a run-time loop over equal pieces of a copy between memories, so that a
thread holds the addresses of few values at one time.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod

from xdsl.ir import Block

from cutedialect.dialects import ptx
from cutedialect.dialects.cute import transposed_tv
from cutedialect.layout import Layout, flatten
from cutedialect.passes.bind.thread_layouts import columns_of

from .addresses import repeat_of
from .context import Context
from .scalar_builder import Scalar
from .views import View, local_tile


def in_parts(
    context: Context,
    source: View,
    target: View,
    tv: Layout,
    most: int,
    body: Callable[[View, View, Layout], None],
) -> None:
    """Run `body` on parts of which every thread has at most `most` values, where the tile falls
    into such parts, else on the whole.
    """
    cut = _cut(source, target, tv, most)
    if cut is None:
        body(source, target, tv)
        return
    mode, extent, part = cut
    builder = context.builder
    block = Block(arg_types=[ptx.reg("b32")])
    builder.push(block, repeats=True)
    builder.assume_nonnegative(block.args[0])
    shape: list[int] = list(source.shape)
    shape[mode] = extent
    at: list[Scalar] = [0] * len(shape)
    at[mode] = block.args[0]
    read, written = (
        local_tile(builder, view, tuple(shape), tuple(at)) for view in (source, target)
    )
    body(read, written, part)
    builder.pop()
    low, high = (builder.value(each, "b32") for each in (0, source.shape[mode] // extent))
    builder.emit(ptx.ForOp(low, high, 1, block))


def _cut(source: View, target: View, tv: Layout, most: int) -> tuple[int, int, Layout] | None:
    """(mode, extent, layout) of equal parts of a tile that every thread has few values of; None
    for a tile that is small, or that does not fall into such parts.
    """
    values = prod(flatten(tv.shape[1]))  # type: ignore[index]
    least = -(-values // most)
    shape = source.shape
    if least == 1 or len(shape) != 2:
        return None
    # Three parts of a tile with 64 columns there are none, but four.
    for parts, mode in product(range(least, 2 * least), (0, 1)):
        extent, rest = divmod(shape[mode], parts)
        if rest or any(len(view.modes[mode]) != 1 for view in (source, target)):
            continue
        if not _is_aligned(target, mode, extent):
            continue
        part = _part_of(tv, shape, mode, extent)
        if part is not None:
            return mode, extent, part
    return None


def _is_aligned(view: View, mode: int, extent: int) -> bool:
    """Whether parts of a tile start where the pattern of its swizzle does."""
    if view.swizzle is None:
        return True
    step = view.modes[mode][0][1]
    return (
        isinstance(step, int) and extent * step * view.element_bytes % repeat_of(view.swizzle) == 0
    )


def _part_of(tv: Layout, shape: tuple[int, ...], mode: int, extent: int) -> Layout | None:
    """The layout of the first `extent` rows or columns of a tile."""
    rows, columns = shape
    if mode == 1:
        return columns_of(tv, rows, extent)
    part = columns_of(transposed_tv(tv, (rows, columns)), columns, extent)
    return None if part is None else transposed_tv(part, (columns, extent))
