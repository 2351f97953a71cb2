"""Powers of tiles and scalars: products where the exponent is a whole number that Python knows, a
square root for a half, and `exp2(y * log2(x))` elsewhere, which is NaN where `x` is negative.
"""

from __future__ import annotations

from math import log2 as log2_of_number
from typing import Any

from .arithmetic import is_number
from .trace import error

# A larger whole exponent costs more products than a logarithm and an exponential take.
_MOST_EXPONENT = 64


def power(base: Any, exponent: Any) -> Any:
    """`base ** exponent`, of which one at least is a tile or a scalar of the program.

    A whole exponent between -64 and 64 is a product of factors, in the type of the base, exact for
    integers (whose exponent must not be negative). Of any other, 16-bit floats are computed in f32,
    as by `cute.sqrt`, `cute.exp2` and `cute.log2`.
    """
    from .elementwise import exp2, log2, sqrt

    if is_number(exponent):
        number = float(exponent)
        if number.is_integer() and abs(number) <= _MOST_EXPONENT:
            return _product(base, int(number))
        if base.dtype.kind == "f" and number == 0.5:
            return sqrt(base)
    if is_number(base):
        if float(base) <= 0:
            raise error(
                f"expected a positive base for an exponent that the GPU computes, got {base}",
                code="CD-P4",
            )
        _demand_float(exponent, "an exponent")
        return exp2(exponent * log2_of_number(float(base)))
    _demand_float(base, "a base with such an exponent")
    return exp2(log2(base) * exponent)


def _product(base: Any, exponent: int) -> Any:
    """Squares of squares."""
    from .functions import full
    from .tile import Tile

    if exponent < 0:
        _demand_float(base, "a base with a negative exponent")
        return 1.0 / _product(base, -exponent)
    if exponent == 0:
        # 1 for NaN too, as in IEEE 754.
        return full(base.shape, 1, base.dtype) if isinstance(base, Tile) else 1
    if exponent == 1:
        return base.to(base.dtype)
    result = None
    while True:
        if exponent & 1:
            result = base if result is None else result * base
        exponent >>= 1
        if not exponent:
            return result
        base = base * base


def _demand_float(value: Any, what: str) -> None:
    if value.dtype.kind != "f":
        raise error(
            f"expected floats for {what}, got {value.dtype.name}; convert it with .to(cute.f32)",
            code="CD-P3",
        )
