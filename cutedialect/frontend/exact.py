"""`cute.exact`: functions of f32 to the last place, where the plain ones take a fast instruction.
They take tiles of floats of at most 32 bits, compute in f32, and cost some ten to thirty
instructions an element.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from .arithmetic import convert_value, is_number, literal
from .dtypes import DType, f32
from .elementwise import abs_, exp2, sqrt
from .functions import where
from .scalar import Scalar
from .tile import Tile, View, broadcast_shape, elementwise
from .trace import current, error

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


def divide(left: object, right: object) -> Tile:
    """left / right, rounded to nearest even (`div.rn.f32`); `/` is off by up to 2 ulp."""
    operands = [_wide(each) if isinstance(each, Tile | View) else each for each in (left, right)]
    tiles = [each for each in operands if isinstance(each, Tile)]
    for each in operands:
        if not (isinstance(each, Tile | Scalar) or is_number(each)):
            raise error(f"expected tiles, scalars or numbers, got {type(each).__name__}")
    if not tiles:
        raise error("expected a tile on at least one side, got numbers")

    def body(*args: SSAValue) -> SSAValue:
        given = iter(args)
        sides: list[SSAValue] = []
        for each in operands:
            if isinstance(each, Tile):
                sides.append(next(given))
            elif isinstance(each, Scalar):
                sides.append(convert_value(each.use(), each.dtype, f32))
            else:
                sides.append(literal(each, f32))  # pyright: ignore[reportArgumentType]
        return current().insert(arith.DivfOp(sides[0], sides[1])).results[0]

    shape = broadcast_shape(*(tile.shape for tile in tiles))
    return elementwise(body, tiles, shape, f32)


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
