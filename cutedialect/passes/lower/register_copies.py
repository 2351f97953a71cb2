"""Copies from memory to memory through registers of threads, where no asynchronous copy takes the
alignment or where values change on the way: a loop over parts of the tile, each of which is read
whole before it is written, so that many loads are on their way at one time.
"""

from __future__ import annotations

from math import prod

from xdsl.ir import SSAValue

from cutedialect.layout import Layout, flatten

from .context import Context
from .copies import move_part
from .scalar_builder import Scalar
from .tile_access import TileAccess
from .tile_parts import in_parts
from .views import View

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
    """Copy a tile, 0 for what is outside of the source's tensor; what is outside of the target's
    is not written. With `is_tf32`, f32 is rounded as TMA rounds it: to the nearest, ties to even.
    """
    most = _AT_ONCE if source.bits > 8 else _AT_ONCE // 2

    def run(is_inside: bool) -> None:
        def part(source: View, target: View, tv: Layout) -> None:
            _copy(context, source, target, tv, limit_bytes, is_tf32, is_inside)

        in_parts(context, source, target, tv, most, part)

    is_inside = context.builder.both(
        *(TileAccess(context, each, tv, 1, limit_bytes).inside() for each in (source, target))
    )
    context.when(is_inside, lambda: run(True), lambda: run(False))


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
