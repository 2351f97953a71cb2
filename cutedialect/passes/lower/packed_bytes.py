"""Maps of 8-bit integers, four of which share a register: masks, shifts and sums with constants
work on all four at once, and conversions to floats are byte permutes beside sums of two (f16x2,
bf16x2) or one (f32).

A byte u below the bits of an exponent is the number 2^m + u, where m are the bits of the mantissa:
`0x6400 | u` is 1024 + u in f16, `0x4300 | u` 128 + u in bf16 (u < 128), `0x4b000000 | u` 2^23 + u
in f32. One permute puts it there, and one exact sum takes 2^m away, together with what constants
the program adds: (w & 15).to(bf16) - 8 is two instructions for two elements and one mask for four.
Bytes above 127 become bf16 by way of subnormal numbers, three instructions for two; two where the
program multiplies them by 2^-6 or less. Elements of 4 bits that are so multiplied are such numbers
where they lie in bytes: a mask and a product for two, if these are 16 bits apart.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import frexp

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue

from cutedialect.dialects.cute import ConvertOp, MapOp, UnpackOp, element_bits

from .scalar_builder import Scalar, ScalarBuilder

ELEMENTS = 4
"""Bytes of a register."""
_EVERY = 0x01010101
_SIGNS = 0x80 * _EVERY
_BYTE_BITS, _HALF_BITS = 8, 4
_HIGHEST = 255
# Which bytes of a register, and of the exponents in another one, make two halves, of neighbors and
# of those that are 16 bits apart, or an f32.
_PAIRS, _APART = (0x4140, 0x4342), (0x4240, 0x4341)
_SINGLES = (0x7440, 0x7441, 0x7442, 0x7443)


@dataclass(frozen=True)
class _Form:
    """How bytes become a float type: its exponents in a register, the number that they stand for,
    and up to which whole numbers are exact.
    """

    exponents: int
    base: int
    exact: int


_FORMS: dict[type[Attribute], _Form] = {
    Float16Type: _Form(0x64646464, 1 << 10, 1 << 11),
    BFloat16Type: _Form(0x43434343, 1 << 7, 1 << 8),
    Float32Type: _Form(0x4B000000, 1 << 23, 1 << 24),
}
# Two halves of a register: equal ones, and 1, 2^127 and 2^6 in bf16.
_BOTH = 0x10001
_ONES, _MOST_POWERS, _OTHER_POWERS = 0x3F80 * _BOTH, 0x7F00 * _BOTH, 0x4280 * _BOTH
# Bits of 1 and of the mantissa in bf16, the power of two that its least subnormal number is, and
# those by which one factor, 2^127 at most, makes bytes of such numbers normal.
_ONE_BITS, _MANTISSA_BITS, _TINY_POWER = 0x3F80, 7, -133
_LEAST_POWER, _MOST_POWER = -64, -6


@dataclass(frozen=True)
class Bytes:
    """Four integers: unsigned bytes of a register, which are at most `most`, plus an offset. Those
    with `is_raw` are what a register of 8-bit integers holds, signed or not as who reads them says.
    Floats are these times 2^power.
    """

    register: Scalar
    most: int = 255
    offset: int = 0
    is_raw: bool = False
    power: int = 0

    def fits(self, low: int, high: int) -> bool:
        """Whether all values lie in a range."""
        return low <= self.offset and self.offset + self.most <= high


@dataclass(frozen=True)
class _Link:
    """An op of a body on one value and on constants, of which the last one is given."""

    op: Operation
    operand: SSAValue
    constant: float | None

    @property
    def result(self) -> SSAValue:
        return self.op.results[0]

    @property
    def by(self) -> int | None:
        return None if self.constant is None else int(self.constant)


@dataclass(frozen=True)
class Nibbles:
    """A register of bytes of which the lower or upper elements of 4 bits are four integers: a mask
    of those of two halves, or, of neighbors, of all four; and what these times a power of two are
    multiplied by.
    """

    register: Scalar
    mask: Scalar
    factor: Scalar


class PackedBytes:
    """The ops of a map's body that work on four bytes of the same register at once. Elements
    beside each other in a result are bytes that are neighbors, or 16 bits `apart`.
    """

    def __init__(self, op: MapOp, inputs: Sequence[SSAValue], apart: bool = False) -> None:
        self.apart = apart
        self.inputs = [(at, arg) for at, arg in enumerate(op.body.block.args) if arg in inputs]
        self.most = {
            arg: _most(tile) for arg, tile in zip(op.body.block.args, op.inputs, strict=True)
        }
        self.links: list[_Link] = []
        reached, constants = {*inputs}, dict(_constants(op))
        for inner in op.body.block.ops if inputs else ():
            takes = [value for value in inner.operands if value not in constants]
            if len(takes) != 1 or takes[0] not in reached or type(inner) not in _KINDS:
                continue
            if takes[0] is inner.operands[0] or type(inner) in _COMMUTATIVE:
                others = [constants[value] for value in inner.operands if value in constants]
                self.links.append(_Link(inner, takes[0], *(others or [None])))
                reached.update(inner.results)

    @property
    def nibbles(self) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """Masks and factors of lower and of upper elements of 4 bits (`Nibbles`), where a product
        with a power of two makes bf16 of the only input; else None.
        """
        kinds = [type(link.op) for link in self.links]
        if len(self.inputs) != 1 or kinds[:1] != [arith.UIToFPOp] or kinds[-1:] != [arith.MulfOp]:
            return None
        power = _power_of(self.links[-1])
        if power is None or any(kind not in _SUMS for kind in kinds[1:-1]):
            return None
        mask = 0xF * (_BOTH if self.apart else _EVERY)
        lower, upper = (_factor(power - bits) for bits in (0, _HALF_BITS))
        return (mask, lower), (mask << _HALF_BITS, upper)

    def elements(
        self,
        builder: ScalarBuilder,
        registers: Sequence[Scalar],
        nibbles: Nibbles | None = None,
    ) -> dict[SSAValue, list[Scalar]]:
        """The four elements of each float in the body that is computed from the bytes of inputs,
        whose registers are given, but for those of which only such floats are computed; empty where
        some cannot be. `nibbles` say how the only input lies in the integers that it is of.
        """
        found: dict[SSAValue, list[Scalar]] = {}
        for value, (source, signed) in self._floats(builder, registers).items():
            if nibbles is not None and source.power:
                elements = _of_nibbles(builder, nibbles, source, self.apart)
            else:
                elements = _as_floats(builder, source, signed, value.type, self.apart)
            if elements is None:
                return {}
            found[value] = elements
        return found

    def _floats(
        self, builder: ScalarBuilder, registers: Sequence[Scalar]
    ) -> dict[SSAValue, tuple[Bytes, bool]]:
        """The integers that floats are, and whether bytes are signed: of those that others take."""
        values: dict[SSAValue, Bytes] = {}
        floats: dict[SSAValue, tuple[Bytes, bool]] = {}
        for at, arg in self.inputs if self.links else ():
            most = self.most[arg]
            values[arg] = Bytes(registers[at], most, is_raw=most == _HIGHEST)
        for link in self.links:
            kind = type(link.op)
            builder.at(link.op)
            if link.operand in floats:
                source, signed = floats[link.operand]
                by = _scaled if isinstance(link.op, arith.MulfOp) else _moved
                moved = by(builder, link, source, signed)
                if moved is not None:
                    floats[link.result] = moved, signed
            elif link.operand in values and kind in _TO_FLOAT:
                source, signed = values[link.operand], _TO_FLOAT[kind]
                if _is_held(source, link, signed):
                    floats[link.result] = source, signed
            elif link.operand in values and kind in _RULES:
                made = _RULES[kind](builder, link, values[link.operand])
                if made is not None:
                    values[link.result] = made
        return {value: floats[value] for value in floats if _is_taken(value, floats)}


def _most(tile: SSAValue) -> int:
    """The highest byte that a register tile of integers may have: packed elements are lower."""
    while isinstance(tile.owner, ConvertOp):
        tile = tile.owner.source
    return (1 << tile.owner.bits) - 1 if isinstance(tile.owner, UnpackOp) else _HIGHEST


def _is_taken(value: SSAValue, floats: Mapping[SSAValue, object]) -> bool:
    """Whether anything but ops that make other `floats` takes a value."""
    users = [use.operation for use in value.uses]
    return any(not any(result in floats for result in user.results) for user in users)


def left_of(op: MapOp, found: Mapping[SSAValue, object]) -> tuple[list[Operation], set[SSAValue]]:
    """The ops of a map's body that are left to compute where some values are `found`, in order, and
    the inputs that they take.
    """
    left: list[Operation] = []
    wanted: set[SSAValue] = set()
    for inner in reversed([*op.body.block.ops]):
        if not inner.results or any(value in wanted for value in inner.results):
            left.append(inner)
            wanted.update(value for value in inner.operands if value not in found)
    return left[::-1], wanted


def _constants(op: MapOp) -> Iterator[tuple[SSAValue, float]]:
    """The constants in a map's body, also those that are cut to 8 bits."""
    known: dict[SSAValue, float] = {}
    for inner in op.body.block.ops:
        if isinstance(inner, arith.ConstantOp):
            value = inner.value
            if isinstance(value, IntegerAttr | FloatAttr):
                known[inner.result] = value.value.data
        elif isinstance(inner, arith.TruncIOp) and inner.input in known:
            known[inner.result] = int(known[inner.input]) & 255
    yield from known.items()


def _width(value: SSAValue) -> int:
    return element_bits(value.type)


def _is_held(source: Bytes, link: _Link, signed: bool) -> bool:
    """Whether a conversion reads integers as what they are here, to a type that has a form."""
    if type(link.result.type) not in _FORMS:
        return False
    width = _width(link.operand)
    if source.is_raw:
        return width == _BYTE_BITS
    half = 1 << width - 1
    return source.fits(-half, half - 1) if signed else source.fits(0, 2 * half - 1)


def _moved(builder: ScalarBuilder, link: _Link, source: Bytes, signed: bool) -> Bytes | None:
    """What floats are after a constant is added, if each sum is a whole number that is exact."""
    form, constant = _FORMS.get(type(link.result.type)), link.constant
    if type(link.op) not in _SUMS or form is None or constant is None or constant % 1:
        return None
    if source.power:
        return None
    if source.is_raw:
        source = _from_signed(builder, source) if signed else replace(source, is_raw=False)
    change = int(-constant if isinstance(link.op, arith.SubfOp) else constant)
    moved = replace(source, offset=source.offset + change)
    return moved if moved.fits(-form.exact, form.exact) else None


def _scaled(builder: ScalarBuilder, link: _Link, source: Bytes, signed: bool) -> Bytes | None:
    """What integers are times a power of two with which one product gives them in bf16."""
    power = _power_of(link)
    if power is None or source.power:
        return None
    if source.is_raw:
        source = _from_signed(builder, source) if signed else replace(source, is_raw=False)
    exact = _FORMS[BFloat16Type].exact
    return replace(source, power=power) if source.fits(-exact, exact) else None


def _power_of(link: _Link) -> int | None:
    """The power of two that bf16 are multiplied by, if bytes become such by one product."""
    if not isinstance(link.result.type, BFloat16Type) or not link.constant:
        return None
    half, exponent = frexp(link.constant)
    is_power = half == 0.5 and _LEAST_POWER < exponent <= _MOST_POWER + 1
    return exponent - 1 if is_power else None


# Rules of integer ops: what four bytes become by an op with a constant; None where not at once.


def _and(builder: ScalarBuilder, link: _Link, value: Bytes) -> Bytes | None:
    if link.by is None or value.offset:
        return None
    mask = link.by & 255
    register = builder.pure("and.b32", value.register, mask * _EVERY)
    if value.is_raw and mask > 127:
        return replace(value, register=register)
    return Bytes(register, min(mask, (1 << value.most.bit_length()) - 1))


def _or(builder: ScalarBuilder, link: _Link, value: Bytes) -> Bytes | None:
    by = link.by
    if by is None or value.offset:
        return None
    name = "or" if isinstance(link.op, arith.OrIOp) else "xor"
    register = builder.pure(f"{name}.b32", value.register, (by & 255) * _EVERY)
    if value.is_raw:
        return replace(value, register=register)
    if by < 0 or by > 255:
        return None
    return Bytes(register, (1 << max(value.most, by).bit_length()) - 1)


def _shift_left(builder: ScalarBuilder, link: _Link, value: Bytes) -> Bytes | None:
    by = link.by
    if by is None or value.offset or not 0 <= by < _BYTE_BITS:
        return None
    if _width(link.result) != _BYTE_BITS:
        return None
    shifted = builder.pure("shl.b32", value.register, by)
    kept = 255 << by & 255
    return Bytes(builder.pure("and.b32", shifted, kept * _EVERY), is_raw=True)


def _shift_right(builder: ScalarBuilder, link: _Link, value: Bytes) -> Bytes | None:
    by, signed = link.by, isinstance(link.op, arith.ShRSIOp | arith.FloorDivSIOp)
    if isinstance(link.op, arith.FloorDivSIOp | arith.DivUIOp):
        # Division by a power of two.
        by = by.bit_length() - 1 if by and by > 0 and not by & by - 1 else None
    if by is None or not 0 <= by < _BYTE_BITS:
        return None
    if signed and value.is_raw:
        value = _from_signed(builder, value)
    half = 1 << _width(link.result) - 1
    is_held = value.fits(-half, half - 1) if signed else value.fits(0, 2 * half - 1)
    if not is_held or value.offset % (1 << by):
        return None
    shifted = builder.pure("shr.u32", value.register, by)
    register = builder.pure("and.b32", shifted, (255 >> by) * _EVERY)
    return Bytes(register, value.most >> by, value.offset >> by)


def _from_signed(builder: ScalarBuilder, value: Bytes) -> Bytes:
    """Signed integers as unsigned ones, less 128."""
    return Bytes(builder.pure("xor.b32", value.register, _SIGNS), 255, -128)


def _add(_builder: ScalarBuilder, link: _Link, value: Bytes) -> Bytes | None:
    if link.by is None or value.is_raw:
        return None
    half = 1 << _width(link.result) - 1
    change = -link.by if isinstance(link.op, arith.SubiOp) else link.by
    moved = replace(value, offset=value.offset + change)
    # What wraps is no sum; readers of signed and of unsigned numbers agree on what both hold.
    return moved if moved.fits(-half, half - 1) else None


def _extend(builder: ScalarBuilder, link: _Link, value: Bytes) -> Bytes | None:
    signed = isinstance(link.op, arith.ExtSIOp)
    if value.is_raw:
        return _from_signed(builder, value) if signed else replace(value, is_raw=False)
    return value if value.fits(-128 if signed else 0, 127) else None


_RULES: dict[type[Operation], Callable[[ScalarBuilder, _Link, Bytes], Bytes | None]] = {
    arith.AndIOp: _and,
    arith.OrIOp: _or,
    arith.XOrIOp: _or,
    arith.ShLIOp: _shift_left,
    arith.ShRSIOp: _shift_right,
    arith.ShRUIOp: _shift_right,
    arith.FloorDivSIOp: _shift_right,
    arith.DivUIOp: _shift_right,
    arith.AddiOp: _add,
    arith.SubiOp: _add,
    arith.ExtSIOp: _extend,
    arith.ExtUIOp: _extend,
}
# Conversions, and whether they read signed numbers.
_TO_FLOAT: dict[type[Operation], bool] = {arith.SIToFPOp: True, arith.UIToFPOp: False}
_SUMS = (arith.AddfOp, arith.SubfOp)
_KINDS = {*_RULES, *_TO_FLOAT, *_SUMS, arith.MulfOp}
_COMMUTATIVE = (
    arith.AndIOp, arith.OrIOp, arith.XOrIOp, arith.AddiOp, arith.AddfOp, arith.MulfOp,
)  # fmt: skip


def _as_floats(
    builder: ScalarBuilder, source: Bytes, signed: bool, type_: Attribute, apart: bool
) -> list[Scalar] | None:
    """Four integers as floats of a type; None where there are no instructions for it."""
    form = _FORMS[type(type_)]
    if isinstance(type_, BFloat16Type):
        return _as_bf16(builder, source, signed, apart) if builder.has("fma.rn.bf16") else None
    if source.is_raw:
        source = _from_signed(builder, source) if signed else replace(source, is_raw=False)
    rest = source.offset - form.base
    if isinstance(type_, Float32Type):
        return [
            builder.pure("add.rn.f32", builder.pure("mov.b32", bits), float(rest))
            for bits in _permuted(builder, source.register, form.exponents, _SINGLES)
        ]
    (bits,) = struct.unpack("<H", struct.pack("<e", rest))
    pairs = _permuted(builder, source.register, form.exponents, _APART if apart else _PAIRS)
    sums = [builder.pure("add.rn.f16x2", pair, bits * _BOTH) for pair in pairs]
    return _halves(builder, sums, apart)


def _as_bf16(
    builder: ScalarBuilder, source: Bytes, signed: bool, apart: bool
) -> list[Scalar] | None:
    """The same of bf16, whose mantissa has 7 bits. A byte u with zeros above is 2^-133 u, its
    highest bit the lowest one of the exponent. Two exact products make that u; the second one adds
    what the program does. One is enough for u times a small power of two.
    """
    form, selectors = _FORMS[BFloat16Type], _APART if apart else _PAIRS
    is_low = source.most < form.base and not source.power
    if source.is_raw:
        source = _from_signed(builder, source) if signed else replace(source, is_raw=False)
    rest = _bf16((source.offset - form.base * is_low) * 2.0**source.power)
    if rest is None:
        return None
    pairs = _permuted(builder, source.register, form.exponents * is_low, selectors)
    factor = _ONES
    if source.power:
        factor = _factor(source.power)
    elif not is_low:
        # Units of the least subnormal number, which the first normal ones are multiples of, too.
        pairs = [builder.pure("fma.rn.bf16x2", pair, _MOST_POWERS, 0) for pair in pairs]
        factor = _OTHER_POWERS
    return _sums(builder, pairs, factor, rest * _BOTH, apart)


def _factor(power: int) -> int:
    """Two halves that make a power of two of the least subnormal number."""
    return _BOTH * (_ONE_BITS + (power - _TINY_POWER << _MANTISSA_BITS))


def _of_nibbles(
    builder: ScalarBuilder, nibbles: Nibbles, source: Bytes, apart: bool
) -> list[Scalar] | None:
    """Four integers times a power of two in bf16: those of 4 bits lie where they are multiples of
    subnormal numbers.
    """
    rest = _bf16(source.offset * 2.0**source.power)
    if rest is None or not builder.has("fma.rn.bf16"):
        return None
    word = nibbles.register
    if apart:
        words = word, builder.pure("shr.u32", word, _BYTE_BITS)
        pairs = [builder.pure("and.b32", each, nibbles.mask) for each in words]
    else:
        pairs = _permuted(builder, builder.pure("and.b32", word, nibbles.mask), 0, _PAIRS)
    return _sums(builder, pairs, nibbles.factor, rest * _BOTH, apart)


def _sums(
    builder: ScalarBuilder, pairs: Sequence[Scalar], factor: Scalar, other: int, apart: bool
) -> list[Scalar]:
    """The elements of pairs of bf16 times a factor, with another one added."""
    sums = [builder.pure("fma.rn.bf16x2", pair, factor, other) for pair in pairs]
    return _halves(builder, sums, apart)


def _permuted(
    builder: ScalarBuilder, register: Scalar, exponents: int, selectors: Sequence[int]
) -> list[Scalar]:
    return [builder.pure("prmt.b32", register, exponents, each) for each in selectors]


def _halves(builder: ScalarBuilder, pairs: Sequence[Scalar], apart: bool) -> list[Scalar]:
    """The elements of registers of two, by the bytes that they are of."""
    halves = [half for pair in pairs for half in builder.unpack(pair)]  # pyright: ignore[reportArgumentType]
    return [halves[at] for at in (0, 2, 1, 3)] if apart else [*halves]


def _bf16(value: float) -> int | None:
    """The bits of a number; None of one that bf16 does not hold."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return None if bits & 0xFFFF else bits >> 16
