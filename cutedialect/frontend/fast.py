"""`cute.fast`: functions of f32 by the instructions that approximate them, whatever the plain ones
take. 16-bit floats are computed and given in f32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
from xdsl.dialects import math as mathd
from xdsl.ir import Operation, SSAValue

from .arithmetic import is_number
from .dtypes import f32
from .elementary import GammaTerms, Number, gamma_of_number, log_of_gamma, of_f32
from .elementwise import (
    Unary,
    exp,
    exp2,
    floats,
    log,
    log2,
    mapped,
    rsqrt,
    tanh,
)
from .functions import reciprocal
from .scalar import Scalar
from .tile import Tile
from .trace import current

__all__ = ("cos", "exp", "exp2", "lgamma", "log", "log2", "reciprocal", "rsqrt", "sin", "tanh")


def _wave(op: type[Operation], of_number: Callable[[float], float], sentence: str) -> Unary:
    def function(value: object) -> Tile | Scalar | float:
        if is_number(value):
            return float(of_number(np.float64(value)))

        def body(element: SSAValue) -> SSAValue:
            return current().insert(op(element)).results[0]  # pyright: ignore[reportCallIssue]

        return mapped(floats(value, 32).to(f32), f32, body)

    function.__doc__ = sentence
    return cast(Unary, function)


sin: Unary = _wave(
    mathd.SinOp,
    np.sin,
    "Sine by one instruction: absolute error up to 2^-20.5 for |x| <= pi, growing with |x| "
    "beyond (PTX ISA 9.7.3.18, `sin.approx`).",
)
cos: Unary = _wave(
    mathd.CosOp,
    np.cos,
    "Cosine by one instruction: absolute error up to 2^-20.5 for |x| <= pi, growing with |x| "
    "beyond (PTX ISA 9.7.3.17, `cos.approx`).",
)

# lgamma(2 + d) / (d (1 + d)) and sin(pi d) / (pi d) in d^2 for |d| <= 1/2: to 2^-28 and 2^-27.
_LGAMMA = (
    0.4227843350959525, -0.10031728877789114, 0.03296499500731042, -0.01238487723630297,
    0.004998949964384343, -0.002098372852754191, 0.0009109288378535301, -0.000456448429654636,
    0.00020580492242538458,
)  # fmt: skip
_SINE_OF_PI = (
    0.999999995698809, -1.6449332063351194, 0.8117148426658763, -0.19044175272048114,
    0.02471864459807641,
)  # fmt: skip
_NARROW_GAMMA = GammaTerms(
    lambda x: x, log, reciprocal, _LGAMMA, (1 / 12, -1 / 360, 1 / 1260), _SINE_OF_PI
)


@of_f32(gamma_of_number)
def lgamma(x: Number) -> Number:
    """The logarithm of the size of the gamma function in f32, by `cute.log`: off by at most 2^-18
    of its size, or of 1 where that is more. Infinite at 0, at negative whole numbers, and where the
    size of x is below 2^-126. `cute.lgamma` has 0.51 ulp and takes three times as long.
    """
    return log_of_gamma(x, _NARROW_GAMMA)
