"""Exponentials as polynomials, of one value or of two: for units that multiply and add where the
one for special functions (16 results a cycle of a processor) is what a program waits for.
"""

from __future__ import annotations

import math
from functools import partial

from xdsl.dialects import math as mathd
from xdsl.ir import Operation, SSAValue

from cutedialect.dialects.discardable import BOUNDED, LOST

from .context import float_name
from .narrow_floats import from_f32, to_f32
from .scalar_builder import Scalar, ScalarBuilder
from .scalars import extreme

# Minimax fits of 2^r, |r| <= 1/2, by relative error, among those that are 1 at 0 (the largest
# weight of a softmax, and all powers of two, are exact): 2^-13.2, 2^-18.4 and 2^-22.5 in f32.
_COEFFICIENTS = {
    3: (0.6932829022407532, 0.2422109693288803, 0.05500893294811249),
    4: (0.6931241750717163, 0.24024099111557007, 0.055906426161527634, 0.009582852944731712),
    5: (
        0.6931470036506653,
        0.24022242426872253,
        0.05550733581185341,
        0.009671512991189957,
        0.001326472731307149,
    ),
}
# Adding this rounds to a whole number, which is then in the lowest bits: with 127, an exponent.
_WHOLE = 12582912.0
_ROUND = _WHOLE + 127.0
# At the one 2^n is 0, at the other infinite; beyond them the exponent would wrap.
_LEAST, _MOST = -127.0, 128.0
# What an instruction clamps to [0, 1] by itself is x less the least, so many at a time.
_CLAMPED = 256.0


def polynomial(builder: ScalarBuilder, op: Operation, x: Scalar, degree: int) -> Scalar:
    """`math.exp2` or `math.exp` of one value as a polynomial.

    With n = x rounded to a whole number, 2^x is 2^(x - n) 2^n: a polynomial for |x - n| <= 1/2,
    times a number whose exponent is n. Adding 1.5 * 2^23 + 127 rounds x, and leaves n + 127 in the
    lowest bits. The relative error is that of the fit, of `exp` up to |x| 2^-23 more. Results below
    2^-126 are 0 or off by less than that, those from 2^127.5 on are infinite; NaN gives NaN.
    """
    x = _clamped(builder, op, x)
    rounded = builder.pure("add.rn.f32", x, _ROUND)
    rest = builder.pure("sub.rn.f32", x, builder.pure("sub.rn.f32", rounded, _ROUND))
    *lower, result = (1.0, *_COEFFICIENTS[degree])
    for coefficient in reversed(lower):
        result = builder.pure("fma.rn.f32", result, rest, coefficient)
    result = builder.pure("mul.rn.f32", result, _power(builder, rounded))
    return from_f32(builder, result, float_name(op.results[0].type))


def polynomial_of_pair(
    builder: ScalarBuilder, op: Operation, xs: tuple[Scalar, Scalar], degree: int
) -> tuple[Scalar, Scalar]:
    """The same of two values at once, where the target has arithmetic on two f32. The exponent of a
    bounded power is added to the bits of the polynomial: of -127 that gives 0, for the polynomial
    is 1 at 0.
    """
    is_bounded = BOUNDED in op.attributes
    parts = _saturated(builder, op, xs)
    if parts is not None:
        many, shift = (builder.paired(c, c) for c in (_CLAMPED, _WHOLE + _LEAST))
        rounded = builder.register("fma.rn.f32x2", parts, many, shift)
        whole = builder.register("sub.rn.f32x2", shift, rounded)
        rest = builder.register("fma.rn.f32x2", parts, many, whole)
    else:
        x = builder.paired(*(_clamped(builder, op, each, is_bounded) for each in xs))
        shift = builder.paired(*[_WHOLE if is_bounded else _ROUND] * 2)
        rounded = builder.register("add.rn.f32x2", x, shift)
        whole = builder.register("sub.rn.f32x2", rounded, shift)
        rest = builder.register("sub.rn.f32x2", x, whole)
    first, *coefficients = (builder.paired(c, c) for c in reversed((1.0, *_COEFFICIENTS[degree])))
    result = first
    for coefficient in coefficients:
        result = builder.register("fma.rn.f32x2", result, rest, coefficient)
    exponents = builder.halves(rounded)
    if is_bounded:
        found = [*map(partial(_scaled, builder), builder.halves(result), exponents)]
    else:
        powers = (_power(builder, each) for each in exponents)
        found = builder.halves(builder.register("mul.rn.f32x2", result, builder.paired(*powers)))
    low, high = (from_f32(builder, each, float_name(op.results[0].type)) for each in found)
    return low, high


def _saturated(builder: ScalarBuilder, op: Operation, xs: tuple[Scalar, Scalar]) -> SSAValue | None:
    """(x + 127) / 256 of two exponents that products and sums of pairs give, clamped by what
    multiplies and adds: `fma.rn.sat` of either, which makes 0 of a NaN. None where that is not
    allowed, or x comes from elsewhere.
    """
    if LOST not in op.attributes or not isinstance(op, mathd.Exp2Op):
        return None
    pair = builder.paired(*xs)
    kind, *operands = builder.definition(pair) or ("",)
    if kind != "fma.rn.f32x2":
        return None
    part = 1 / _CLAMPED
    found: list[Scalar] = []
    for factor, scale, rest in zip(*map(builder.halves, operands), strict=True):
        scale = builder.pure("mul.rn.f32", scale, part)
        rest = builder.pure("fma.rn.f32", rest, part, -_LEAST * part)
        found.append(builder.pure("fma.rn.sat.f32", factor, scale, rest))
    return builder.paired(*found)


def _clamped(builder: ScalarBuilder, op: Operation, x: Scalar, is_bounded: bool = False) -> Scalar:
    """An exponent of 2, where its power has an exponent."""
    x = to_f32(builder, x, float_name(op.results[0].type))
    if isinstance(op, mathd.ExpOp):
        x = builder.pure("mul.f32", x, math.log2(math.e))
    x = extreme(builder, "max", "f32", x, _LEAST)
    return x if is_bounded else extreme(builder, "min", "f32", x, _MOST)


def _scaled(builder: ScalarBuilder, value: Scalar, rounded: Scalar) -> Scalar:
    """A number times 2^n, where n is in the lowest bits of another."""
    exponent = builder.pure("shl.b32", builder.pure("mov.b32", rounded), 23)
    return builder.pure(
        "mov.f32", builder.pure("add.s32", builder.pure("mov.b32", value), exponent)
    )


def _power(builder: ScalarBuilder, rounded: Scalar) -> Scalar:
    """2^n, whose exponent n + 127 is in the lowest bits of a number."""
    return builder.pure("mov.f32", builder.pure("shl.b32", builder.pure("mov.b32", rounded), 23))
