"""`cute.exact`: functions of f32 to the last place, where the plain ones take a fast instruction.
They take tiles of floats of at most 32 bits, compute in f32, and cost some ten to thirty
instructions an element.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from .dtypes import DType, f32, f64, i64
from .elementary import copysign_of_zero, like, logarithm, of_f32, quotient, series, waves
from .elementwise import abs_, exp2, fma, sqrt
from .functions import where
from .tile import Tile, View
from .trace import error

Elements = Any
"""A tile or a scalar of f32 or f64."""

_LOG2E = 1.4426950408889634
# ln 2 in two parts, of which the first has so few bits that its product with a number of 8 bits is
# exact; adding and taking away 1.5 * 2^23 rounds to a whole number.
_LN2 = (0.693145751953125, 1.4286068203094172e-06)
_ROUND = 12582912.0
# Fits at Chebyshev nodes: (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2, to 0.6 ulp of exp, and
# (tanh(x) - x) / x^3 in powers of x^2 for |x| <= 0.6, to 0.7 ulp of tanh.
_EXP = (0.5, 0.16666576, 0.041666467, 0.00836318, 0.0013933652)
_TANH = (-0.33333331, 0.13332924, -0.053875137, 0.021116216, -0.006276389)
_SMALL = 0.6
_ROUND_F64 = 1.5 * 2**52
_SIN, _COS = series(3, 2, 6, alternates=True), series(4, 2, 6)
_COS = tuple(c if k % 2 == 0 else -c for k, c in enumerate(_COS))
# (2 / pi) 2^(24 k) modulo 4, in two parts.
_TURNS = (
    (0.6366197723675814, -3.935735335036497e-17),
    (3.4308817435903483, 1.0190525440657723e-16),
    (0.08267188988231296, 2.8658837463471963e-18),
    (0.1536837791107848, 1.1892889840965575e-17),
    (1.9578379245607584, 7.769584704001829e-17),
)


def divide(left: object, right: object) -> Tile:
    """left / right, rounded to nearest even (`div.rn.f32`); `/` is off by up to 2 ulp."""
    operands = [_wide(v) if isinstance(v, Tile | View) else v for v in (left, right)]
    if not any(isinstance(v, Tile) for v in operands):
        raise error("expected a tile on at least one side, got numbers")
    return cast(Tile, quotient(*operands))


def exp(tile: Tile | View) -> Tile:
    """e^x to 1.5 ulp; results below 2^-125 count as 0. `cute.exp` has a relative error of up to
    2^-22 + |x| 2^-23.
    """
    x = _wide(tile)
    count = (x * _LOG2E + _ROUND) - _ROUND
    rest = x - count * _LN2[0]
    rest = rest - count * _LN2[1]
    poly = rest * _EXP[-1] + _EXP[-2]
    for coefficient in reversed(_EXP[:-2]):
        poly = poly * rest + coefficient
    # Half of the power of two, so that the largest results do not overflow on the way.
    half = exp2(where(count > 130.0, 130.0, count) - 1.0)
    result = (1.0 + (rest + rest * rest * poly)) * half * 2.0
    result = where(x > 89.0, float("inf"), where(x < -87.0, 0.0, result))
    return where(x == x, result, x)


def sigmoid(tile: Tile | View) -> Tile:
    """1 / (1 + e^-x) to 2.5 ulp."""
    return divide(1.0, 1.0 + exp(-_wide(tile)))


def tanh(tile: Tile | View) -> Tile:
    """tanh(x) to 2 ulp; `cute.tanh` has a relative error of up to 2^-11."""
    x = _wide(tile)
    square = x * x
    poly = square * _TANH[-1] + _TANH[-2]
    for coefficient in reversed(_TANH[:-2]):
        poly = poly * square + coefficient
    small = x + x * square * poly
    size = abs_(x)
    large = 1.0 - divide(2.0, exp(2.0 * size) + 1.0)
    return where(size < _SMALL, small, where(x < 0.0, -large, large))


@of_f32(np.sin)
def sin(x: Elements) -> Elements:
    """Sine, to 0.6 ulp, of all numbers; computed in f64."""
    rest, quarters = _reduced(abs_(x).to(f64))
    value = waves(rest, quarters, _SIN, _COS).to(f32)
    return where(x < 0.0, -value, copysign_of_zero(value, x))


@of_f32(np.cos)
def cos(x: Elements) -> Elements:
    """Cosine, to 0.6 ulp, of all numbers; computed in f64."""
    rest, quarters = _reduced(abs_(x).to(f64))
    return waves(rest, quarters + 1, _SIN, _COS).to(f32)


def _reduced(size: Elements) -> tuple[Elements, Elements]:
    """A positive number of f64 as what is left of it beside quarter turns, and their number in the
    last bits. Of a large one so much is divided off that it stays whole; turns of what is left
    count modulo four.
    """
    part, turns, rest = size, *(like(size, number) for number in _TURNS[0])
    for number, (high, low) in enumerate(_TURNS[1:], 1):
        is_beyond = size >= 2.0 ** (23 + 24 * number)
        part = where(is_beyond, size * 2.0 ** (-24 * number), part)
        turns, rest = where(is_beyond, high, turns), where(is_beyond, low, rest)
    sum_ = fma(part, turns, _ROUND_F64)
    left = fma(part, rest, fma(part, turns, _ROUND_F64 - sum_))
    return left * (math.pi / 2), sum_.bitcast(i64)


@of_f32(np.log)
def log(x: Elements) -> Elements:
    """The natural logarithm, to 0.51 ulp, near 1 too; `cute.log` has an absolute error of up to
    2^-21.6 there.
    """
    return logarithm(x.to(f64)).to(f32)


@of_f32(np.log2)
def log2(x: Elements) -> Elements:
    """Logarithm to base 2, to 0.51 ulp, near 1 too; `cute.log2` has an absolute error of up to
    2^-22 there.
    """
    return (logarithm(x.to(f64)) * (1 / math.log(2))).to(f32)


def rsqrt(tile: Tile | View) -> Tile:
    """1 / sqrt(x) to 1.5 ulp; `cute.rsqrt` has a relative error of up to 2^-22.9."""
    return divide(1.0, sqrt(_wide(tile)))


def _wide(value: Tile | View) -> Tile:
    """The elements in f32."""
    source = value.load() if isinstance(value, View) else value
    dtype: DType | None = source.dtype if isinstance(source, Tile) else None
    if dtype is None or dtype.kind != "f" or dtype.bits > 32:
        got = type(value).__name__ if dtype is None else dtype.name
        raise error(f"expected a tile of floats of at most 32 bits, got {got}", code="CD-P3")
    return source.to(f32)
