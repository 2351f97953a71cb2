"""Stores of registers to swizzled shared memory whose lanes would meet in banks.

A warp that writes the accumulators of a multiply as pairs of f32 has four lanes in 32 bytes of a
row. A swizzle of lines of 128 bytes moves blocks of 16 bytes, so that two rows of four meet. Where
every second row writes another part of its line at that time, none do:

    for v { store x[v], s[lane, v] }
    =>
    p = a bit of the lane; y[v] = p ? x[v ^ step] : x[v]; for v { store y[v], s[lane, v ^ p step] }

Each lane still writes the same values to the same places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import or_

from xdsl.ir import SSAValue

from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects import ptx

from .addresses import (
    Digit,
    byte_digits,
    digit_value,
    memory_op,
    shared_addresses,
    subset_sums,
)
from .context import Context, array_class
from .tile_access import TileAccess

# Bytes of all banks, and of one.
_BANKS_BYTES, _BANK_BYTES = 128, 4
_LEAST_VECTOR = 2


@dataclass(frozen=True)
class Skew:
    """The bit of the lane that turns bit `step` of the bytes of its places."""

    lane_bit: int
    step: int

    def moved(self, places: Sequence[int]) -> list[int]:
        """Where lanes write that wrote to some places."""
        return [at ^ self.step * (lane >> self.lane_bit & 1) for lane, at in enumerate(places)]


def skew_of(access: TileAccess) -> Skew | None:
    """The skew with which lanes of a store meet in no bank, if they meet without one; None where
    values, in vectors of registers of 32 bits, do not lie so.
    """
    swizzle = access.view.swizzle
    if swizzle is None or not swizzle.bits or not _is_plain(access):
        return None
    width, size = len(access.vectors[0].values), access.view.element_bytes
    digits = byte_digits(access.view, access.layout.threads)
    sums = subset_sums([(extent, weight) for _, extent, weight in digits], swizzle.repeat)
    used = reduce(or_, sums)
    offsets = {vector.offset.static * size for vector in access.vectors}
    if any(used & (offset % swizzle.repeat) for offset in offsets):
        return None
    # The lanes that one pass over the banks serves.
    lanes = range(min(WARP_SIZE, _BANKS_BYTES // (width * size)))
    places = [
        swizzle(sum(lane // div % extent * weight for div, extent, weight in digits))
        for lane in lanes
    ]
    if _meetings(places, width) == 1:
        return None
    steps = [
        step
        for step in (1 << bit for bit in range(swizzle.repeat.bit_length() - 1))
        if not used & step and swizzle(step) == step and {at ^ step for at in offsets} == offsets
    ]
    bits = range((len(lanes) - 1).bit_length())
    skews = (Skew(bit, step) for bit, step in product(bits, steps))
    return next((skew for skew in skews if _meetings(skew.moved(places), width) == 1), None)


def _is_plain(access: TileAccess) -> bool:
    """Whether every thread stores all its values, as vectors of one width that differ by constants,
    to shared memory.
    """
    vectors, view = access.vectors, access.view
    if view.space != "smem" or access.mask is not None or access.is_bounded:
        return False
    if access.pack != 1 or view.element_bytes != _BANK_BYTES or access.owner() is not True:
        return False
    widths = {len(vector.values) for vector in vectors}
    is_constant = not any(vector.offset.dynamic for vector in vectors)
    return is_constant and len(widths) == 1 and min(widths) >= _LEAST_VECTOR


def _meetings(places: Sequence[int], width: int) -> int:
    """How many lanes have different words of one bank at most."""
    words: dict[int, set[int]] = {}
    for place in places:
        for word in range(place // _BANK_BYTES, place // _BANK_BYTES + width):
            words.setdefault(word % (_BANKS_BYTES // _BANK_BYTES), set()).add(word)
    return max(map(len, words.values()))


def store_skewed(context: Context, access: TileAccess, array: SSAValue, skew: Skew) -> None:
    """Store the registers of `array`, in turns."""
    builder, view = context.builder, access.view
    vectors, size = access.vectors, view.element_bytes
    digit = Digit(1 << skew.lane_bit, 2, ())
    turned = digit_value(builder, digit, context.threads)
    takes_other = builder.pure("setp.ne.s32", turned, 0)
    by_offset = {vector.offset.static * size: vector.values for vector in vectors}
    own = [value for values in by_offset.values() for value in values]
    other = [value for offset in by_offset for value in by_offset[offset ^ skew.step]]
    cls = array_class(array)
    mixed = context.registers(cls, len(own))
    context.foreach(
        len(own),
        [(array, other), (array, own)],
        [(mixed, range(len(own)))],
        lambda args: [builder.pure(f"selp.{cls}", *args, takes_other)],
    )
    addresses = shared_addresses(
        builder,
        view,
        byte_digits(view, access.layout.threads),
        list(by_offset),
        context.threads,
        (builder.pure("mul.lo.s32", turned, skew.step), skew.step),
    )
    width = len(vectors[0].values)
    memory_op(context, ptx.StOp, f"shared.v{width}.b32", mixed, addresses, list(range(len(own))))
