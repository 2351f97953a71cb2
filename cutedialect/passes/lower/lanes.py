"""Values of one or two words that lanes of a warp give each other by shuffles (PTX ISA 9.7.9.6)."""

from __future__ import annotations

from xdsl.ir import SSAValue

from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects import ptx
from cutedialect.dialects.ptx.syntax import class_of

from .context import Context
from .scalar_builder import Scalar

_ALL_LANES = -1
# What stops lanes at the end of the warp: the highest lane, and the lowest where they look down.
_CLAMPS = {"up": 0, "down": WARP_SIZE - 1, "bfly": WARP_SIZE - 1, "idx": WARP_SIZE - 1}


def lane_index(context: Context) -> Scalar:
    """The number of a lane in its warp."""
    return context.builder.pure("and.b32", context.builder.thread_index(), WARP_SIZE - 1)


def from_lane(context: Context, value: SSAValue, how: str, where: Scalar) -> SSAValue:
    """What another lane has: so far `up` (in front of this one) or `down`, of a number that differs
    in some bits (`bfly`), or of a number (`idx`).
    """
    builder, cls = context.builder, class_of(value)
    if cls in ("b64", "f64"):
        parts = builder.emit(ptx.UnpackOp(value, 2, "b32")).results
        made = [from_lane(context, part, how, where) for part in parts]
        return builder.result(ptx.PackOp(made, cls))
    operands = (builder.value(each, "b32") for each in (where, _CLAMPS[how], _ALL_LANES))
    return builder.result(ptx.ShflOp(f"sync.{how}.b32", value, *operands))


def shifted(context: Context, value: SSAValue, distance: int, reverse: bool) -> SSAValue:
    """What the lane has that is so far in front, behind where a line goes in reverse."""
    return from_lane(context, value, "down" if reverse else "up", distance)
