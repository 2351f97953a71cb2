"""Floats of 8 and 16 bits: constants, and conversions from and to f32, in which all is computed for
which PTX has no instruction.

An element is in a 16-bit register; the high byte of one of 8 bits says nothing. Tensor cores
multiply those of 8 bits; everything else is computed in f32.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from xdsl.ir import SSAValue

from .scalar_builder import Scalar, ScalarBuilder

_NAN = 0x7FFFFFFF


class Format(NamedTuple):
    """All bits, those of the mantissa, the exponent's bias; the bits of what too large a number
    becomes, of infinity (None: all that lies beyond is NaN) and of NaN.
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
}


def encode(value: float, name: str) -> int:
    """The bits nearest to a number, ties to even; of 8 bits, what is too large becomes the largest.

    >>> hex(encode(1.0, "e4m3")), hex(encode(-1e9, "e4m3")), hex(encode(2.0 ** -9, "e4m3"))
    ('0x38', '0xfe', '0x1')
    >>> hex(encode(65504.0, "f16")), hex(encode(1e39, "bf16"))
    ('0x7bff', '0x7f80')
    """
    form = FORMATS[name]
    sign = 1 << form.bits - 1 if math.copysign(1.0, value) < 0 else 0
    magnitude, least = abs(value), 1 - form.bias
    if math.isnan(value):
        return form.nan | sign
    if math.isinf(value):
        return form.most | sign
    exponent = max(math.frexp(magnitude)[1] - 1, least) if magnitude else least
    # Rounding may carry into the next binade, which the sum below takes as well.
    steps = round(math.ldexp(magnitude, form.mantissa - exponent))
    return min(steps + (exponent - least << form.mantissa), form.most) | sign


def decode(bits: int, name: str) -> float:
    """The number that the low bits stand for.

    >>> decode(0x38, "e4m3"), decode(0x7B, "e5m2"), decode(0xBC00, "f16"), decode(0x3F80, "bf16")
    (1.0, 57344.0, -1.0, 1.0)
    """
    form = FORMATS[name]
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


def converts_bytes(builder: ScalarBuilder) -> bool:
    """Whether the target converts 8-bit floats (PTX ISA 9.7.9.22)."""
    return builder.has("cvt.rn.satfinite.e4m3x2.f32")


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
    return (_byte_to_f32 if converts_bytes(builder) else _bits_to_f32)(builder, value, name)


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
    """An 8-bit float for targets without conversions of them."""
    if name == "e5m2":
        # The upper half of an f16.
        return builder.pure("cvt.f32.f16", builder.pure("shl.b16", value, 8))
    bits = builder.pure("cvt.u32.u16", value)
    magnitude = builder.pure("and.b32", bits, 0x7F)
    # With the exponent's bias of f32, subnormal numbers included.
    scaled = builder.pure("mov.f32", builder.pure("shl.b32", magnitude, 20))
    number = builder.pure("mul.f32", scaled, 2.0**120)
    is_nan = builder.equal(magnitude, FORMATS[name].nan)
    plain = builder.pure("selp.b32", _NAN, builder.pure("mov.b32", number), is_nan)
    sign = builder.pure("shl.b32", builder.pure("and.b32", bits, 0x80), 24)
    return builder.pure("mov.f32", builder.pure("or.b32", plain, sign))


def from_f32(builder: ScalarBuilder, value: Scalar, name: str) -> Scalar:
    """f32 rounded to the nearest narrow float, ties to even; other types leave it as it is.

    `ScalarBuilder.pack_bytes` makes one conversion of two to 8 bits, which saturate.
    """
    if name not in FORMATS:
        return value
    if not isinstance(value, SSAValue):
        return encode(float(value), name)
    if FORMATS[name].bits == 8:
        if not converts_bytes(builder):
            got = "" if builder.chip is None else builder.chip.name
            raise ValueError(f"expected sm_89 or newer for conversions of {name}, got {got}")
        return builder.pure(f"cvt.rn.satfinite.{name}x2.f32", 0.0, value)
    if name == "bf16" and not builder.has("cvt.rn.bf16.f32"):
        return _rounded_by_bits(builder, value)
    return builder.pure(f"cvt.rn.{name}.f32", value)


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
