"""Floats of 4 to 16 bits: constants, and conversions from and to f32, in which all is computed for
which PTX has no instruction.

An element is in a 16-bit register; the high byte of one of 8 bits and less says nothing. Tensor
cores multiply those of 8 bits; everything else is computed in f32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from xdsl.ir import SSAValue

from .scalar_builder import Scalar, ScalarBuilder

_NAN = 0x7FFFFFFF


class Format(NamedTuple):
    """All bits, those of the mantissa, the exponent's bias; the bits of what too large a number
    becomes, of infinity (None: all that lies beyond is NaN) and of what NaN becomes: the largest
    number where there is none.
    """

    bits: int
    mantissa: int
    bias: int
    most: int
    infinity: int | None
    nan: int


FORMATS = {
    "f16": Format(16, 10, 15, 0x7C00, 0x7C00, 0x7E00),
    "bf16": Format(16, 7, 127, 0x7F80, 0x7F80, 0x7FC0),
    "e4m3": Format(8, 3, 7, 0x7E, None, 0x7F),
    "e5m2": Format(8, 2, 15, 0x7B, 0x7C, 0x7E),
    "e2m3": Format(6, 3, 1, 0x1F, None, 0x1F),
    "e3m2": Format(6, 2, 3, 0x1F, None, 0x1F),
    "e2m1": Format(4, 1, 1, 0x7, None, 0x7),
    # No sign, no mantissa, and 2^-127 in the place of 0: `_encode_power`.
    "ue8m0": Format(8, 0, 127, 0xFE, None, 0xFF),
}
_BYTE = 8
_MANTISSA_F32, _BIAS_F32 = 23, 127
_EXPONENT_F32 = 0x7F800000
_LEAST_POWER = 0x400000
# Sums of f32 with this are whole numbers. Exponents up to which a number's bits are found by a line
# for each of them.
_ROUNDING, _MOST_LINES = 3 << 22, 3
_ROUNDING_BITS = 0x4B400000


def encode(value: float, name: str) -> int:
    """The bits nearest to a number, ties to even; of 8 bits, what is too large becomes the largest.

    >>> hex(encode(1.0, "e4m3")), hex(encode(-1e9, "e4m3")), hex(encode(2.0 ** -9, "e4m3"))
    ('0x38', '0xfe', '0x1')
    >>> hex(encode(65504.0, "f16")), hex(encode(1e39, "bf16"))
    ('0x7bff', '0x7f80')
    """
    form = FORMATS[name]
    if name == "ue8m0":
        return _encode_power(value)
    sign = 1 << form.bits - 1 if math.copysign(1.0, value) < 0 else 0
    magnitude, least = abs(value), 1 - form.bias
    if math.isnan(value):
        return form.nan if form.nan == form.most else form.nan | sign
    if math.isinf(value):
        return form.most | sign
    exponent = max(math.frexp(magnitude)[1] - 1, least) if magnitude else least
    # Rounding may carry into the next binade, which the sum below takes as well.
    steps = round(math.ldexp(magnitude, form.mantissa - exponent))
    return min(steps + (exponent - least << form.mantissa), form.most) | sign


def _encode_power(value: float) -> int:
    """The exponent of the least power of two that is no smaller than a number's magnitude."""
    form = FORMATS["ue8m0"]
    if math.isnan(value):
        return form.nan
    if math.isinf(value):
        return form.most
    fraction, exponent = math.frexp(abs(value)) if value else (0.5, -form.bias)
    return min(max(exponent - (fraction == 0.5) + form.bias, 0), form.most)


def decode(bits: int, name: str) -> float:
    """The number that the low bits stand for.

    >>> decode(0x38, "e4m3"), decode(0x7B, "e5m2"), decode(0xBC00, "f16"), decode(0x3F80, "bf16")
    (1.0, 57344.0, -1.0, 1.0)
    """
    form = FORMATS[name]
    if name == "ue8m0":
        power = bits & form.nan
        return math.nan if power == form.nan else math.ldexp(1.0, power - form.bias)
    sign_bit = 1 << form.bits - 1
    sign, bits = (-1.0 if bits & sign_bit else 1.0), bits & sign_bit - 1
    if bits == form.infinity:
        return sign * math.inf
    if bits > form.most:
        return math.nan
    exponent, steps = bits >> form.mantissa, bits & (1 << form.mantissa) - 1
    if exponent:
        steps += 1 << form.mantissa
    return sign * math.ldexp(steps, max(exponent, 1) - form.bias - form.mantissa)


def converts_bytes(builder: ScalarBuilder, name: str) -> bool:
    """Whether the target converts two floats of a type, in the bytes of a register, from and to
    wider ones (PTX ISA 9.7.9.22). Of e2m1 two are in one byte there.
    """
    of_eight = "e4m3" if name in ("e4m3", "e5m2") else "e2m3"
    return name != "e2m1" and builder.has(f"cvt.rn.satfinite.{of_eight}x2.f32")


def to_f32(builder: ScalarBuilder, value: Scalar, name: str) -> Scalar:
    """A narrow float as f32, exactly; others stay as they are."""
    if name not in FORMATS:
        return value
    if not isinstance(value, SSAValue):
        return decode(int(value), name)
    if name == "f16":
        return builder.pure("cvt.f32.f16", value)
    if name == "bf16":
        # sm_80 has no cvt.f32.bf16: the bits are the upper half of an f32.
        return builder.pack(0, value, cls="f32")
    if name == "ue8m0":
        return _power_to_f32(builder, value)
    convert = _byte_to_f32 if converts_bytes(builder, name) else _bits_to_f32
    return convert(builder, value, name)


def _byte_to_f32(builder: ScalarBuilder, value: SSAValue, name: str) -> Scalar:
    """The two bytes of a register are converted together."""
    pair, half = value, 0
    definition = builder.definition(value)
    if definition[:1] == ("shr.u16",) and builder.constant(definition[2]) == 8:
        pair, half = definition[1], 1
    wide = builder.pure(f"cvt.rn.f16x2.{name}x2", pair)
    assert isinstance(wide, SSAValue)
    return builder.pure("cvt.f32.f16", builder.unpack(wide)[half])


def _bits_to_f32(builder: ScalarBuilder, value: SSAValue, name: str) -> Scalar:
    """A float of 8 bits or less for targets without conversions of them."""
    form = FORMATS[name]
    if name == "e5m2":
        # The upper half of an f16.
        return builder.pure("cvt.f32.f16", builder.pure("shl.b16", value, 8))
    bits = builder.pure("cvt.u32.u16", value)
    magnitude = builder.pure("and.b32", bits, (1 << form.bits - 1) - 1)
    # With the exponent's bias of f32, subnormal numbers included.
    shifted = builder.pure("shl.b32", magnitude, _MANTISSA_F32 - form.mantissa)
    scaled = builder.pure("mov.f32", shifted)
    number = builder.pure("mul.f32", scaled, 2.0 ** (_BIAS_F32 - form.bias))
    plain = builder.pure("mov.b32", number)
    if form.nan != form.most:
        plain = builder.pure("selp.b32", _NAN, plain, builder.equal(magnitude, form.nan))
    sign = builder.pure("and.b32", bits, 1 << form.bits - 1)
    sign = builder.pure("shl.b32", sign, 32 - form.bits)
    return builder.pure("mov.f32", builder.pure("or.b32", plain, sign))


def _power_to_f32(builder: ScalarBuilder, value: SSAValue) -> Scalar:
    """2^(n - 127), of which the least is a subnormal number and 255 is NaN."""
    power = builder.pure("and.b32", builder.pure("cvt.u32.u16", value), 0xFF)
    normal = builder.pure("shl.b32", power, _MANTISSA_F32)
    bits = builder.pure("max.u32", normal, _LEAST_POWER)
    is_nan = builder.equal(power, FORMATS["ue8m0"].nan)
    return builder.pure("mov.f32", builder.pure("selp.b32", _NAN, bits, is_nan))


def from_f32(builder: ScalarBuilder, value: Scalar, name: str) -> Scalar:
    """f32 rounded to the nearest narrow float, ties to even, and to ue8m0 to the least power of two
    that is no smaller; other types leave it as it is.

    `ScalarBuilder.pack_bytes` makes one conversion of two to 8 bits, which saturate.
    """
    if name not in FORMATS:
        return value
    if not isinstance(value, SSAValue):
        return encode(float(value), name)
    if FORMATS[name].bits <= _BYTE:
        if converts_bytes(builder, name):
            mode = "rp" if name == "ue8m0" else "rn"
            return builder.pure(f"cvt.{mode}.satfinite.{name}x2.f32", 0.0, value)
        return (_power_of if name == "ue8m0" else _byte_of)(builder, value, name)
    if name == "bf16" and not builder.has("cvt.rn.bf16.f32"):
        return _rounded_by_bits(builder, value)
    return builder.pure(f"cvt.rn.{name}.f32", value)


def _byte_of(builder: ScalarBuilder, value: SSAValue, name: str) -> Scalar:
    """f32 to the nearest float of a byte, where no instruction does it."""
    form = FORMATS[name]
    most, saturates = decode(form.most, name), form.nan == form.most
    magnitude = builder.pure("min.f32", builder.pure("abs.f32", value), most)
    of_lines = (form.most >> form.mantissa) <= _MOST_LINES
    sums = (_steps_by_lines if of_lines else _steps_by_exponent)(builder, magnitude, form)
    signed = value
    if saturates and not _is_computed(builder, value):
        # The smaller of NaN and a number is the number: without a NaN it is the largest one.
        signed = builder.pure("min.f32", value, most)
    word = builder.pure("mov.b32", signed)
    sign = builder.pure("shr.u32", word, 32 - form.bits)
    mask = (1 << form.bits - 1) - 1
    # The low bits of the sum, the others of the sign: one bitwise function of two and a constant.
    differing = builder.pure("and.b32", builder.pure("xor.b32", sums, sign), mask)
    bits = builder.pure("xor.b32", differing, sign)
    if not saturates:
        # All bits below the sign, as `cvt` has it.
        bits = builder.pure("selp.b32", mask, bits, builder.pure("setp.nan.f32", value, value))
    element = builder.pure("cvt.u16.u32", bits)
    if name == "e2m1":
        from .packed_codes import Code

        lines = tuple(_lines(form))
        builder.codes[element] = Code(value, word, lines, most, sums, _ROUNDING_BITS)
    return element


def _lines(form: Format) -> Iterator[tuple[float, int]]:
    """The slope of a line for each exponent, and its first step."""
    for exponent in range(form.most >> form.mantissa):
        yield 2.0 ** (form.mantissa + form.bias - 1 - exponent), exponent << form.mantissa


def _steps_by_lines(builder: ScalarBuilder, magnitude: Scalar, form: Format) -> Scalar:
    """The bits of a positive number in the lowest ones of a register: its place among those of the
    format, which is the least of a line for each exponent, since lines become less steep. Sums with
    1.5 * 2^23 round to whole numbers, and rounding keeps their order.
    """
    least: Scalar | None = None
    for slope, first in _lines(form):
        anchor = float(_ROUNDING + first)
        line = builder.pure("mov.b32", builder.pure("fma.rn.f32", magnitude, slope, anchor))
        least = line if least is None else builder.pure("min.s32", least, line)
    assert least is not None
    return least


def _steps_by_exponent(builder: ScalarBuilder, magnitude: Scalar, form: Format) -> Scalar:
    """The same of formats with many exponents. The sum with 2^(e + 23 - m), where e is the number's
    exponent and m the bits of the mantissa, rounds it to m bits, and leaves the steps of 2^(e - m)
    that it has in the lowest bits, to which those of e are added. A few units more in the sum are
    what the bias takes away.
    """
    exponent = builder.pure("and.b32", builder.pure("mov.b32", magnitude), _EXPONENT_F32)
    least = 1 - form.bias + _BIAS_F32
    unit = builder.pure("max.u32", exponent, least << _MANTISSA_F32)
    shift = _MANTISSA_F32 - form.mantissa
    others = form.bits - 1 - form.mantissa
    anchor = (1 << shift) + (-least) % (1 << others)
    rounded = builder.pure("fma.rn.f32", builder.pure("mov.f32", unit), float(anchor), magnitude)
    return builder.add(builder.pure("mov.b32", rounded), builder.pure("shr.u32", unit, shift))


def _is_computed(builder: ScalarBuilder, value: SSAValue) -> bool:
    """Whether an instruction has computed a number, whose NaN then has no sign (PTX ISA 9.7.3)."""
    return builder.definition(value)[:1] in (("mul.rn.f32",), ("add.rn.f32",), ("fma.rn.f32",))


def _power_of(builder: ScalarBuilder, value: SSAValue, name: str) -> Scalar:
    """f32 to ue8m0: the exponent, and one more where a bit of the mantissa is set."""
    form = FORMATS[name]
    bits = builder.pure("and.b32", builder.pure("mov.b32", value), 0x7FFFFFFF)
    up = builder.pure("shr.u32", builder.add(bits, (1 << _MANTISSA_F32) - 1), _MANTISSA_F32)
    power = builder.pure("min.u32", up, form.most)
    power = builder.pure("selp.b32", 0, power, builder.pure("setp.le.u32", bits, _LEAST_POWER))
    is_nan = builder.pure("setp.gt.u32", bits, _EXPONENT_F32)
    return builder.pure("cvt.u16.u32", builder.pure("selp.b32", form.nan, power, is_nan))


def _rounded_by_bits(builder: ScalarBuilder, value: Scalar) -> Scalar:
    """f32 to the nearest bf16, ties to even, where no instruction does it: half a unit more of the
    upper half, less one bit where that is even; a NaN keeps its upper half and is quiet.
    """
    bits = builder.pure("mov.b32", value)
    odd = builder.pure("and.b32", builder.pure("shr.u32", bits, 16), 1)
    rounded = builder.add(bits, builder.add(odd, 0x7FFF))
    quiet = builder.pure("or.b32", bits, 0x400000)
    is_nan = builder.pure("setp.nan.f32", value, value)
    high = builder.pure("shr.u32", builder.pure("selp.b32", quiet, rounded, is_nan), 16)
    return builder.pure("cvt.u16.u32", high)
