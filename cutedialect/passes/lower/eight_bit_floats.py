"""Numbers of 8 bits, e4m3 and e5m2: constants, and conversions from and to f32.

Tensor cores multiply them; everything else is computed in f32. An element is the low byte of a
16-bit register, whose high byte says nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.atoms import target

from .scalar_builder import Scalar, ScalarBuilder

_FIRST_TARGET = 89
_NAN = 0x7FFFFFFF


class Format(NamedTuple):
    """Mantissa bits, exponent bias, the largest finite number, and the bits of infinity (None: all
    that lies beyond is NaN) and NaN.
    """

    mantissa: int
    bias: int
    largest: float
    infinity: int | None
    nan: int


FORMATS = {"e4m3": Format(3, 7, 448.0, None, 0x7F), "e5m2": Format(2, 15, 57344.0, 0x7C, 0x7E)}


def has_conversions(arch: str) -> bool:
    """Whether a target converts 8-bit floats (PTX ISA 9.7.9.22)."""
    return target(arch).number >= _FIRST_TARGET


def check_target(op: Operation, arch: str, name: str) -> None:
    """Refuse a target that does not round to 8-bit floats."""
    if not has_conversions(arch):
        raise PassFailedException(
            op, f"{op.name}: expected sm_89 or newer for conversions of {name}, got {arch}"
        )


def encode(value: float, name: str) -> int:
    """The bits nearest to a number, ties to even; what is too large becomes the largest.

    >>> hex(encode(1.0, "e4m3")), hex(encode(-1e9, "e4m3")), hex(encode(2.0 ** -9, "e4m3"))
    ('0x38', '0xfe', '0x1')
    """
    form = FORMATS[name]
    sign = 0x80 if math.copysign(1.0, value) < 0 else 0
    if math.isnan(value):
        return form.nan | sign
    magnitude = min(abs(value), form.largest)
    exponent = max(math.frexp(magnitude)[1] - 1, 1 - form.bias) if magnitude else 1 - form.bias
    # Rounding may carry into the next binade, which the sum below takes as well.
    steps = round(math.ldexp(magnitude, form.mantissa - exponent))
    return sign | steps + (exponent + form.bias - 1 << form.mantissa)


def decode(bits: int, name: str) -> float:
    """The number that the low 8 bits stand for.

    >>> decode(0x38, "e4m3"), decode(0x7B, "e5m2")
    (1.0, 57344.0)
    """
    form = FORMATS[name]
    sign, bits = (-1.0 if bits & 0x80 else 1.0), bits & 0x7F
    if form.infinity is not None and bits >= form.infinity:
        return sign * math.inf if bits == form.infinity else math.nan
    if form.infinity is None and bits == form.nan:
        return math.nan
    exponent, steps = bits >> form.mantissa, bits & (1 << form.mantissa) - 1
    if exponent:
        steps += 1 << form.mantissa
    return sign * math.ldexp(steps, max(exponent, 1) - form.bias - form.mantissa)


def to_f32(builder: ScalarBuilder, value: Scalar, name: str) -> Scalar:
    """An element as f32, exactly; the two bytes of a register are converted together."""
    if not isinstance(value, SSAValue):
        return decode(int(value), name)
    pair, half = value, 0
    definition = builder.definitions.get(value, ())
    if definition[:1] == ("shr.u16",) and builder.constant(definition[2]) == 8:
        pair, half = definition[1], 1
    wide = builder.pure(f"cvt.rn.f16x2.{name}x2", pair)
    assert isinstance(wide, SSAValue)
    return builder.pure("cvt.f32.f16", builder.unpack(wide)[half])


def to_f32_by_bits(builder: ScalarBuilder, value: Scalar, name: str) -> Scalar:
    """`to_f32` for targets without conversions of these types."""
    if not isinstance(value, SSAValue):
        return decode(int(value), name)
    if name == "e5m2":
        # The upper half of an f16.
        return builder.pure("cvt.f32.f16", builder.pure("shl.b16", value, 8))
    bits = builder.pure("cvt.u32.u16", value)
    magnitude = builder.pure("and.b32", bits, 0x7F)
    # With the exponent's bias of f32, subnormal numbers included.
    scaled = builder.pure("mov.f32", builder.pure("shl.b32", magnitude, 20))
    number = builder.pure("mul.f32", scaled, 2.0**120)
    is_nan = builder.pure("setp.eq.s32", magnitude, FORMATS[name].nan)
    plain = builder.pure("selp.b32", _NAN, builder.pure("mov.b32", number), is_nan)
    sign = builder.pure("shl.b32", builder.pure("and.b32", bits, 0x80), 24)
    return builder.pure("mov.f32", builder.pure("or.b32", plain, sign))


def from_f32(builder: ScalarBuilder, value: Scalar, name: str) -> Scalar:
    """f32 rounded to nearest even; what is too large becomes the largest, NaN stays NaN.

    `ScalarBuilder.pack_bytes` makes one conversion of two of these.
    """
    if not isinstance(value, SSAValue):
        return encode(float(value), name)
    return builder.pure(f"cvt.rn.satfinite.{name}x2.f32", 0.0, value)
