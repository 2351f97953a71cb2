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
from .elementwise import Unary, exp, exp2, floats, log, log2, mapped, rsqrt, tanh
from .functions import reciprocal
from .scalar import Scalar
from .tile import Tile
from .trace import current

__all__ = ("cos", "exp", "exp2", "log", "log2", "reciprocal", "rsqrt", "sin", "tanh")


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
