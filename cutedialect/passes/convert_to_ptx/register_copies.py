"""Copies from memory to memory through registers of threads, where no asynchronous copy takes the
alignment or where values change on the way: a loop over parts of the tile, each of which is read
whole before it is written, so that many loads are on their way at one time.
"""

from __future__ import annotations

from math import prod

from xdsl.ir import Block, SSAValue

from cutedialect.dialects import ptx
from cutedialect.dialects.cute import transposed_tv
from cutedialect.layout import Layout, flatten
from cutedialect.passes.thread_layouts import columns_of

from .addresses import repeat_of
from .context import Context
from .copies import move_part
from .scalar_builder import Scalar
from .tile_access import TileAccess
from .views import View, local_tile

# Values of a thread that are read before they are written: as many as leave registers for their
# addresses, and of bytes, each a register too, half of that.
_AT_ONCE = 32


def copy_tile(
    context: Context,
    source: View,
    target: View,
    tv: Layout,
    limit_bytes: int = 16,
    is_tf32: bool = False,
) -> None:
    """Copy a tile, 0 for what is outside of the source's tensor. With `is_tf32`, f32 is rounded as
    TMA rounds it: to the nearest, ties to even.
    """
    cut = _cut(source, target, tv)

    def run(is_inside: bool) -> None:
        if cut is None:
            _copy(context, source, target, tv, limit_bytes, is_tf32, is_inside)
            return
        mode, extent, part_tv = cut
        builder = context.builder
        body = Block(arg_types=[ptx.reg("b32")])
        builder.push(body, repeats=True)
        builder.assume_nonnegative(body.args[0])
        shape: list[int] = list(source.shape)
        shape[mode] = extent
        at: list[Scalar] = [0] * len(shape)
        at[mode] = body.args[0]
        read, written = (
            local_tile(builder, view, tuple(shape), tuple(at)) for view in (source, target)
        )
        _copy(context, read, written, part_tv, limit_bytes, is_tf32, is_inside)
        builder.pop()
        low, high = (builder.value(each, "b32") for each in (0, source.shape[mode] // extent))
        builder.emit(ptx.ForOp(low, high, 1, body))

    whole = TileAccess(context, source, tv, 1, limit_bytes)
    context.when(whole.inside(), lambda: run(True), lambda: run(False))


def _copy(
    context: Context,
    source: View,
    target: View,
    tv: Layout,
    limit_bytes: int,
    is_tf32: bool,
    is_inside: bool,
) -> None:
    values = prod(flatten(tv.shape[1]))  # type: ignore[index]
    cls = "f32" if is_tf32 else "b16" if source.bits <= 16 else f"b{source.bits}"
    array = context.registers(cls, values)
    move_part(context, source, array, tv, limit_bytes, True, is_inside)
    if is_tf32:
        array = _to_tf32(context, array)
    move_part(context, target, array, tv, limit_bytes, False, is_inside)


def _to_tf32(context: Context, array: SSAValue) -> SSAValue:
    """f32 registers, rounded."""
    every = range(array.type.count)  # type: ignore[union-attr]
    result = context.registers("b32", len(every))

    def body(args: list[SSAValue]) -> list[Scalar]:
        return [context.builder.pure("cvt.rn.tf32.f32", args[0])]

    context.foreach(len(every), [(array, every)], [(result, every)], body)
    return result


def _cut(source: View, target: View, tv: Layout) -> tuple[int, int, Layout] | None:
    """(mode, extent, layout) of equal parts of a tile that every thread has few values of; None
    for a tile that is small, or that does not fall into such parts.
    """
    values = prod(flatten(tv.shape[1]))  # type: ignore[index]
    parts = -(-values // (_AT_ONCE if source.bits > 8 else _AT_ONCE // 2))
    shape = source.shape
    if parts == 1 or len(shape) != 2:
        return None
    for mode in (0, 1):
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
