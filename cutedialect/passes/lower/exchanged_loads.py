"""Words from a swizzled tile in shared memory to registers, where lanes of one load that want words
of one bank take them in different loads instead.

Of two values that a thread wants, half of the lanes load the second one first. Where the values are
as far apart as a bit of the swizzle reaches, these lanes then have the banks that the other half
leaves free, and all of them exchange the two registers afterwards:

    lane 16 v0: line 0, lane 0 v0: line 0        lane 16 v1: line 4, lane 0 v0: line 0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects import ptx
from cutedialect.layout import Layout, Swizzle, bank_conflicts
from cutedialect.passes.analysis.coordinates import split_digits, thread_value

from .addresses import (
    Address,
    ByteDigit,
    byte_digits,
    lane_offset,
    meet,
    memory_op,
    value_offsets,
    xor_addresses,
)
from .context import Context, array_class
from .scalar_builder import Scalar
from .views import View

_WORD = 4
_LANE_BITS = tuple(1 << bit for bit in range(WARP_SIZE.bit_length() - 1))


@dataclass(frozen=True)
class _Exchange:
    """Lanes that have the bit `lane` load value `v ^ value` where others load value v; the two are
    `step` bytes apart.
    """

    lane: int
    value: int
    step: int


def load_exchanged(context: Context, view: View, array: SSAValue, tv: Layout) -> bool:
    """Read the words of `tv` into the registers of `array`; False, and nothing is done, where an
    ordinary load has no bank conflicts, or no exchange leaves none.
    """
    swizzle = view.swizzle
    is_plain = view.space == "smem" and view.guard is True and not any(view.bounds)
    if not is_plain or swizzle is None or swizzle.bits == 0 or view.element_bytes != _WORD:
        return False
    steps = (term.step * int(term.stride) * _WORD for term in view.terms)  # type: ignore[arg-type]
    if any(step % swizzle.repeat for step in steps):
        return False
    layout = thread_value(tv, view.leaf_shape)
    digits = byte_digits(view, split_digits(layout.threads, (*_LANE_BITS, WARP_SIZE)))
    offsets = [each.static * _WORD for each in value_offsets(view, layout.value_coords())]
    found = _exchange(swizzle, digits, offsets)
    if found is None:
        return False
    moved = [
        (divisor, extent, weight + found.step if divisor == found.lane else weight)
        for divisor, extent, weight in digits
    ]
    addresses = xor_addresses(context.builder, view, moved, offsets, context.threads)
    _load(context, array, found, addresses)
    return True


def _exchange(
    swizzle: Swizzle, digits: Sequence[ByteDigit], offsets: Sequence[int]
) -> _Exchange | None:
    """An exchange without which there are bank conflicts, and with which there are none."""
    lanes = [(divisor, extent, weight) for divisor, extent, weight in digits if divisor < WARP_SIZE]
    where = [lane_offset(lanes, lane) for lane in range(WARP_SIZE)]

    def conflicts(found: _Exchange | None) -> int:
        total = 0
        for at in offsets:
            words = [
                swizzle((each + at) ^ (found.step if found and lane & found.lane else 0))
                for lane, each in enumerate(where)
            ]
            total += bank_conflicts(words, _WORD).conflicts
        return total

    # Each sum of offsets is then the same as their exclusive or, of which a swizzle is one.
    if meet(digits, offsets, swizzle.repeat) or not conflicts(None):
        return None
    for value in (1 << bit for bit in range((len(offsets) - 1).bit_length())):
        apart = {
            offsets[v | value] - at
            for v, at in enumerate(offsets)
            if not v & value and v | value < len(offsets)
        }
        step = min(apart)
        is_bit = len(apart) == 1 and step > 0 and step & (step - 1) == 0 and step < swizzle.repeat
        if not is_bit or len(offsets) % (2 * value):
            continue
        for lane in _LANE_BITS:
            found = _Exchange(lane, value, step)
            if any(divisor == lane for divisor, _, _ in lanes) and not conflicts(found):
                return found
    return None


def _load(
    context: Context, array: SSAValue, exchange: _Exchange, addresses: Sequence[Address]
) -> None:
    builder, count = context.builder, len(addresses)
    cls = array_class(array)
    loaded = context.registers(cls, count)
    memory_op(context, ptx.LdOp, f"shared.b{8 * _WORD}", loaded, addresses)
    bit = builder.pure("and.b32", builder.thread_index(), exchange.lane)
    swaps = builder.pure("setp.ne.s32", bit, 0)
    firsts = [v for v in range(count) if not v & exchange.value]
    pairs = [
        (each, [v | bit for v in firsts]) for each in (loaded, array) for bit in (0, exchange.value)
    ]

    def chosen(args: list[SSAValue]) -> list[Scalar]:
        one, other = args
        return [
            builder.pure(f"selp.{cls}", other, one, swaps),
            builder.pure(f"selp.{cls}", one, other, swaps),
        ]

    context.foreach(len(firsts), pairs[:2], pairs[2:], chosen)
