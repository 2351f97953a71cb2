"""Exponentials of base 2 as polynomials, for units that multiply and add where the one for special
functions (16 results in a cycle of a processor) is what a program waits for.

With n = x rounded to a whole number, 2^x is 2^(x - n) 2^n: a polynomial for |x - n| <= 1/2, times a
number whose exponent is n. Adding 1.5 * 2^23 + 127 rounds x, and leaves n + 127 in the lowest bits.
"""

from __future__ import annotations

import math

from xdsl.dialects import math as mathd
from xdsl.ir import Operation

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
_ROUND = 12582912.0 + 127.0
# At the one 2^n is 0, at the other infinite; beyond them the exponent would wrap.
_LEAST, _MOST = -127.0, 128.0


def polynomial(builder: ScalarBuilder, op: Operation, x: Scalar, degree: int) -> Scalar:
    """`math.exp2` or `math.exp` of one value. Its relative error is that of the fit, of `exp` up to
    |x| 2^-23 more. Results below 2^-126 are 0 or off by less than that, those from 2^127.5 on are
    infinite; NaN gives NaN.
    """
    name = float_name(op.results[0].type)
    x = to_f32(builder, x, name)
    if isinstance(op, mathd.ExpOp):
        x = builder.pure("mul.f32", x, math.log2(math.e))
    x = extreme(builder, "min", "f32", extreme(builder, "max", "f32", x, _LEAST), _MOST)
    rounded = builder.pure("add.rn.f32", x, _ROUND)
    power = builder.pure("shl.b32", builder.pure("mov.b32", rounded), 23)
    rest = builder.pure("sub.rn.f32", x, builder.pure("sub.rn.f32", rounded, _ROUND))
    *lower, total = (1.0, *_COEFFICIENTS[degree])
    result: Scalar = total
    for coefficient in reversed(lower):
        result = builder.pure("fma.rn.f32", result, rest, coefficient)
    result = builder.pure("mul.rn.f32", result, builder.pure("mov.f32", power))
    return from_f32(builder, result, name)
