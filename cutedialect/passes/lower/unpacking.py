"""Packed elements taken out of their integers, a byte each: those of 8 bits are there.

Four bytes of a register have their lower elements by one mask, and their upper ones by a shift
and a mask. Where pairs of the tile are neighbors there, or 16 bits apart, the registers stay so,
and the tile's values get their order. Where it wants lower and upper ones beside each other, one
permute of bytes puts them there:

    and.b32 %low, %w, 0x0f0f0f0f;   shr.u32 %s, %w, 4;   and.b32 %high, %s, 0x0f0f0f0f;
    prmt.b32 %r, %low, %high, 0x5140;
"""

from __future__ import annotations

from dataclasses import replace

from cutedialect.dialects.cute import FragmentType
from cutedialect.layout import Layout, coalesce, make_layout
from cutedialect.passes.analysis.coordinates import Digit, thread_value
from cutedialect.passes.analysis.packed_layouts import Packing

from .addresses import thread_coord
from .context import Context, register_class, register_count
from .elementwise import Fragment, Held
from .scalar_builder import Scalar

_BYTES = 4
_LOWER = 0x0F0F0F0F
_IDENTITY = 0x3210
_HALF, _BYTE_BITS = 4, 8

Place = tuple[int, int, int]
"""A register, a byte of it, and whether the element is the lower or the upper one."""


def unpack(context: Context, source: Fragment, type_: FragmentType, packing: Packing) -> Fragment:
    """The elements of a tile of integers, in registers of the layout of `type_`, whose threads hold
    the integers that they need.
    """
    places, shift = _places(context, source, type_, packing)
    type_, places = _as_held(type_, places)
    result = Fragment(
        type_, context.registers(register_class(type_.element), register_count(type_))
    )
    builder = context.builder
    masked: dict[tuple[int, int], Scalar] = {}

    def elements(register: int, upper: int) -> Scalar:
        """The lower or upper elements of the bytes of a register."""
        if (register, upper) not in masked:
            word: Scalar = builder.get(source.array, register)
            if shift != 0:
                word = builder.pure("shr.u32", word, shift)
            if upper:
                word = builder.pure("shr.u32", word, _HALF)
            is_whole = source.type.bits // packing.per == _BYTE_BITS
            masked[register, upper] = word if is_whole else builder.pure("and.b32", word, _LOWER)
        return masked[register, upper]

    def permuted(wanted: list[tuple[Scalar, int]]) -> Scalar:
        """A register of bytes of no more than two others."""
        first = wanted[0][0]
        others = [value for value, _ in wanted if value is not first]
        second = others[0] if others else first
        if any(value is not second for value in others):
            # Of four registers two make either half.
            low, high = permuted(wanted[:2]), permuted(wanted[2:])
            return builder.pure("prmt.b32", low, high, 0x5410)
        selector = sum(
            (byte + (0 if value is first else _BYTES)) << 4 * at
            for at, (value, byte) in enumerate(wanted)
        )
        if selector == _IDENTITY:
            return first
        return builder.pure("prmt.b32", first, second, selector)

    held: list[tuple[int, bool]] = []
    for at in range(register_count(type_)):
        four = places[_BYTES * at : _BYTES * (at + 1)]
        four += [four[-1]] * (_BYTES - len(four))
        wanted = [(elements(register, upper), byte) for register, byte, upper in four]
        builder.set(result.array, at, permuted(wanted))
        register, _, upper = four[0]
        if four == [(register, byte, upper) for byte in range(_BYTES)]:
            held.append((register, upper > 0))
    if shift != 0 or packing.per * _HALF != source.type.bits or len(held) < register_count(type_):
        return result
    return replace(result, held=Held(source.array, tuple(held)))


def _as_held(type_: FragmentType, places: list[Place]) -> tuple[FragmentType, list[Place]]:
    """The type of the elements with its values in the order in which masks leave them in registers,
    and their places so; the same where pairs of them are neither neighbors nor 16 bits apart there.
    """
    registers = {(register, upper): None for register, _, upper in places}
    first = {key: _BYTES * at for at, key in enumerate(registers)}
    order = [first[register, upper] + byte for register, byte, upper in places]
    count = len(order)
    pairs = {(order[v] % 2, order[v + 1] - order[v]) for v in range(0, count, 2)}
    apart = {(order[v] // 2 % 2, order[v + 1] - order[v]) for v in range(0, count, 2)}
    are_pairs = pairs == {(0, 1)} or apart == {(0, 2)}
    if sorted(order) != [*range(count)] or count & count - 1 or not are_pairs:
        return type_, places
    bits = [1 << bit for bit in range(count.bit_length() - 1)]
    sums = [sum(order[bit] for bit in bits if value & bit) for value in range(count)]
    if order != sums:
        return type_, places
    tv = type_.bound
    moved = [order.index(bit) for bit in bits]
    values = Layout((2,) * len(bits), tuple([tv((0, value)) for value in moved]))
    kept = type_.with_tv(make_layout(tv[0], coalesce(values)))
    return kept, [places[order.index(value)] for value in range(count)]


def _places(
    context: Context, source: Fragment, type_: FragmentType, packing: Packing
) -> tuple[list[Place], Scalar]:
    """Where each value of the elements lies in the registers of the integers, and by how many bits
    these are shifted before.
    """
    mode, per = packing.mode, packing.per
    bits = source.type.bits // per
    mine, whole = source.layout, thread_value(type_.bound, type_.shape)
    numbers = {coord: number for number, coord in enumerate(mine.value_coords())}
    places: list[Place] = []
    for coord in whole.value_coords():
        place = _place(packing, coord[mode])
        number = numbers.get((*coord[:mode], place // per, *coord[mode + 1 :]))
        if number is None:
            raise ValueError(
                f"expected each thread to hold the integers of its elements, got {source.type} for "
                f"{type_}"
            )
        register, byte = divmod(number, source.pack)
        within, upper = divmod(place % per, _BYTE_BITS // bits)
        places.append((register, byte + within, upper))
    shifts: list[Digit] = []
    for digit in whole.threads:
        step = digit.steps[mode]
        divisor = digit.divisor
        for extent, place in packing.places(digit.extent, step) if step else ():
            for count, at in _within(extent, place, per):
                shifts.append(Digit(divisor, count, (at * bits,)))
            divisor *= extent
    if not shifts:
        return places, 0
    return places, thread_coord(context.builder, shifts, 0, context.threads)


def _place(packing: Packing, element: int) -> int:
    """The place of an element of the packed mode."""
    size = packing.order.size()
    return element // size * size + packing.order.offsets()[element % size]


def _within(extent: int, place: int, per: int) -> list[tuple[int, int]]:
    """The part of a run of places that goes along one integer."""
    return [(min(extent, per // place), place)] if place < per else []
