"""Tiles of 8-bit floats copied to tiles of 16-bit floats in shared memory, for tensor cores that
multiply them by others of 16 bits.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from cutedialect.layout import Layout

from .context import Context, float_name
from .copies import load_tile, store_tile
from .narrow_floats import converts_bytes, from_f32, to_f32
from .scalar_builder import Scalar
from .tile_parts import in_parts
from .views import View

# Elements of a thread at once: two loads of 16 bytes.
_AT_ONCE = 32
_PACK = 4


def widen_copy(context: Context, source: View, target: View, tv: Layout) -> None:
    """Convert a tile, 0 for what is outside of the source's tensor, in parts: `tv` says which
    threads hold which elements on the way.
    """
    names = float_name(source.element), float_name(target.element)

    def part(source: View, target: View, tv: Layout) -> None:
        count = -(-tv[1].size() // _PACK)
        narrow, wide = context.registers("b32", count), context.registers("b32", 2 * count)
        load_tile(context, source, narrow, tv)
        targets = [(wide, range(half, 2 * count, 2)) for half in range(2)]
        context.foreach(
            count, [(narrow, range(count))], targets, lambda args: _converted(context, args, names)
        )
        store_tile(context, target, wide, tv)

    in_parts(context, source, target, tv, _AT_ONCE, part)


def _converted(context: Context, args: list[SSAValue], names: tuple[str, str]) -> list[Scalar]:
    """The four elements of a register as two registers."""
    builder, (source, target) = context.builder, names
    halves = builder.unpack(args[0])
    if target == "f16" and converts_bytes(builder):
        return [builder.pure(f"cvt.rn.f16x2.{source}x2", half) for half in halves]
    result: list[Scalar] = []
    for half in halves:
        elements = half, builder.pure("shr.u16", half, 8)
        floats = [to_f32(builder, each, source) for each in elements]
        result.append(builder.pack(*(from_f32(builder, each, target) for each in floats)))
    return result
