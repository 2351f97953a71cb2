"""Elementwise functions that are one op each, of tiles, scalars and numbers: rows of tables. What
an op becomes stands in `passes/lower/scalars.py`, what NumPy computes in
`interpreter/scalar_ops.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Protocol, cast, overload

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects import math as mathd
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Operation, SSAValue

from cutedialect.dialects.cute import BrevOp
from cutedialect.dialects.discardable import BOUNDED, LOST

from .accuracy import documented
from .arithmetic import (
    Number,
    binary_value,
    convert_value,
    is_number,
    joined,
    promote,
)
from .dtypes import DType, f32, i1, i32, of_ir, signed
from .scalar import Scalar
from .tile import Tile, View, binary, broadcast_shape, elementwise, values_in
from .trace import current, error

# By name: the op, and what it is of a number of Python.
_OF_FLOATS: dict[str, tuple[type[Operation], Callable[[Any], Any]]] = {
    "exp": (mathd.ExpOp, np.exp),
    "exp2": (mathd.Exp2Op, np.exp2),
    "log": (mathd.LogOp, np.log),
    "log2": (mathd.Log2Op, np.log2),
    "sqrt": (mathd.SqrtOp, np.sqrt),
    "rsqrt": (mathd.RsqrtOp, lambda x: 1 / np.sqrt(x)),
    "tanh": (mathd.TanhOp, np.tanh),
    "abs": (mathd.AbsFOp, np.abs),
    "floor": (mathd.FloorOp, np.floor),
    "ceil": (mathd.CeilOp, np.ceil),
    "trunc": (mathd.TruncOp, np.trunc),
    "round": (mathd.RoundEvenOp, np.rint),
}
# By name: the op, whether the result is a count (i32), and the sentence of its docstring.
_OF_INTEGERS: dict[str, tuple[type[Operation], bool, str]] = {
    "popc": (mathd.CtPopOp, True, "How many bits are set, i32."),
    "clz": (mathd.CountLeadingZerosOp, True, "How many bits lie above the highest that is set, "
            "i32; of 0 the width."),
    "brev": (BrevOp, False, "The bits in reverse, in the type of x."),
}  # fmt: skip


def loaded(value: object) -> Tile | Scalar:
    """A tile, that of a view, or a scalar."""
    source = value.load() if isinstance(value, View) else value
    if not isinstance(source, Tile | Scalar):
        raise error(f"expected a tile or a scalar, got {type(value).__name__}")
    return source


def floats(value: object, most: int = 64) -> Tile | Scalar:
    """A tile or scalar of floats of at most so many bits."""
    source = loaded(value)
    if source.dtype.kind != "f" or source.dtype.bits > most:
        limit = "" if most == 64 else f" of at most {most} bits"
        what = "a scalar" if isinstance(source, Scalar) else "a tile"
        raise error(
            f"expected {what} of floats{limit}, got {source.dtype.name}; convert it with "
            ".to(cute.f32)",
            code="CD-P3",
        )
    return source


def _integers(value: object) -> Tile | Scalar:
    source = loaded(value)
    if source.dtype.kind not in "iu":
        what = "a scalar" if isinstance(source, Scalar) else "a tile"
        raise error(
            f"expected {what} of integers, got {source.dtype.name}; convert it with "
            ".to(cute.i32), or take its bits with .bitcast(dtype)",
            code="CD-P3",
        )
    return source


def mapped(
    source: Tile | Scalar, dtype: DType, body: Callable[[SSAValue], SSAValue]
) -> Tile | Scalar:
    """A function of each element of a tile, or of a scalar."""
    if isinstance(source, Scalar):
        return Scalar(body(source.use()))
    return elementwise(body, (source,), source.shape, dtype)


def applied(
    operands: Sequence[object],
    body: Callable[..., SSAValue],
    kinds: str,
) -> Tile | Scalar:
    """A function of the elements of tiles that broadcast, or of scalars, in the type that holds
    them all, which is one of floats or of integers, as `kinds` says.
    """
    sides = [v if is_number(v) else loaded(v) for v in operands]
    tiles = [v for v in sides if isinstance(v, Tile)]
    scalars = [v.dtype for v in sides if isinstance(v, Scalar)]
    if not (tiles or scalars):
        raise error("expected a tile or a scalar among the arguments, got numbers")
    if tiles:
        dtype = reduce(joined, scalars, reduce(promote, [tile.dtype for tile in tiles]))
    else:
        dtype = reduce(promote, scalars)
    if dtype.kind not in kinds:
        wanted = "floats" if kinds == "f" else "integers"
        raise error(
            f"expected {wanted}, got {dtype.name}; convert with .to(cute."
            f"{'f32' if kinds == 'f' else 'i32'})",
            code="CD-P3",
        )

    def converted(*args: SSAValue) -> SSAValue:
        return body(*values_in(dtype, sides, args))

    if not tiles:
        return Scalar(converted())
    shape = broadcast_shape(*(tile.shape for tile in tiles))
    return elementwise(converted, tiles, shape, dtype)


class Unary(Protocol):
    """A function of tiles, of scalars, and of numbers, which it computes at once."""

    __name__: str

    @overload
    def __call__(self, value: Tile | View, /) -> Tile: ...

    @overload
    def __call__(self, value: Scalar, /) -> Scalar: ...

    @overload
    def __call__(self, value: Number, /) -> float: ...


class Binary(Protocol):
    """A function of two tiles, scalars or numbers that broadcast."""

    __name__: str

    @overload
    def __call__(self, left: Tile | View, right: object, /) -> Tile: ...

    @overload
    def __call__(self, left: Scalar | Number, right: Tile | View, /) -> Tile: ...

    @overload
    def __call__(self, left: Scalar, right: Scalar | Number, /) -> Scalar: ...

    @overload
    def __call__(self, left: Number, right: Scalar, /) -> Scalar: ...

    @overload
    def __call__(self, left: Number, right: Number, /) -> float: ...


class Pair(Protocol):
    """A function of two tiles or scalars that broadcast, one of which may be a number."""

    __name__: str

    @overload
    def __call__(self, left: Scalar, right: Scalar | Number) -> Scalar: ...

    @overload
    def __call__(self, left: Number, right: Scalar) -> Scalar: ...

    @overload
    def __call__(self, left: Tile | View, right: object) -> Tile: ...

    @overload
    def __call__(self, left: object, right: Tile | View) -> Tile: ...


class OfElements(Protocol):
    """A function of tiles and of scalars."""

    __name__: str

    @overload
    def __call__(self, value: Tile | View, /) -> Tile: ...

    @overload
    def __call__(self, value: Scalar, /) -> Scalar: ...


def _unary(name: str, attributes: Mapping[str, Attribute] | None = None) -> Unary:
    made, of_number = _OF_FLOATS[name]

    def function(value: object) -> Tile | Scalar | float:
        if is_number(value):
            if name == "abs":
                return abs(value)
            with np.errstate(all="ignore"):
                return float(of_number(np.float64(value)))
        source = loaded(value)
        if name == "abs" and source.dtype.kind != "f":
            is_signed = source.dtype.kind == "i"
            return maximum(source, -source) if is_signed else source.to(source.dtype)
        source = floats(source)
        dtype = source.dtype if source.dtype.bits > 16 else f32

        def body(element: SSAValue) -> SSAValue:
            wide = convert_value(element, source.dtype, dtype)
            op = current().insert(made(wide))  # pyright: ignore[reportCallIssue]
            op.attributes.update(attributes or {})
            return op.results[0]

        return mapped(source, dtype, body)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = documented(name)
    return cast(Unary, function)


def _of_bits(name: str) -> OfElements:
    made, is_count, sentence = _OF_INTEGERS[name]

    def function(value: object) -> Tile | Scalar:
        source = _integers(value)
        dtype = source.dtype
        # Ops of `math` take integers without a sign.
        plain = dtype if dtype.kind == "i" else signed(dtype)

        def body(element: SSAValue) -> SSAValue:
            bits = convert_value(element, dtype, plain)
            result = current().insert(made(bits)).results[0]  # pyright: ignore[reportCallIssue]
            return convert_value(result, plain, i32 if is_count else dtype)

        return mapped(source, i32 if is_count else dtype, body)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{sentence} Of each element of integers, or of a scalar."
    return cast(OfElements, function)


exp: Unary = _unary("exp")
exp2: Unary = _unary("exp2")
bounded_exp2: Unary = _unary("exp2", {BOUNDED: UnitAttr()})
"""`exp2` of what the caller knows to be less than 127; NaN may give infinity."""
rough_exp2: Unary = _unary("exp2", {BOUNDED: UnitAttr(), LOST: UnitAttr()})
"""The same with relative errors up to 2^-16, for weights of 16 bits or fewer; NaN may give 0."""
log: Unary = _unary("log")
log2: Unary = _unary("log2")
sqrt: Unary = _unary("sqrt")
rsqrt: Unary = _unary("rsqrt")
tanh: Unary = _unary("tanh")
abs_: Unary = _unary("abs")
floor: Unary = _unary("floor")
ceil: Unary = _unary("ceil")
trunc: Unary = _unary("trunc")
round_: Unary = _unary("round")
popc: OfElements = _of_bits("popc")
clz: OfElements = _of_bits("clz")
brev: OfElements = _of_bits("brev")


def _classified(name: str, kind: str, sentence: str) -> OfElements:
    """A condition of floats: a comparison of x, or of its size with infinity, with itself."""

    def function(value: object) -> Tile | Scalar:
        source = floats(value)
        if source.dtype.bits == 8:  # one of the two has no infinity
            source = source.to(f32)

        def body(element: SSAValue) -> SSAValue:
            if name == "isnan":
                return binary_value(kind, element, element)
            size = current().insert(mathd.AbsFOp(element)).results[0]
            return binary_value(kind, size, current().constant(math.inf, source.dtype.ir))

        return mapped(source, i1, body)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{sentence} Of each element of floats, or of a scalar."
    return cast(OfElements, function)


isnan: OfElements = _classified("isnan", "ne", "Whether x is NaN.")
isinf: OfElements = _classified("isinf", "eq", "Whether x is an infinity, of either sign.")
isfinite: OfElements = _classified("isfinite", "lt", "Whether x is neither infinite nor NaN.")


@overload
def bitcast(value: Tile | View, dtype: object) -> Tile: ...


@overload
def bitcast(value: Scalar, dtype: object) -> Scalar: ...


def bitcast(value: Tile | View | Scalar, dtype: object) -> Tile | Scalar:
    """The bits of each element, or of a scalar, as a type of the same width."""
    return loaded(value).bitcast(dtype)


def _of_pairs(function: Callable[[object, object], Tile | Scalar]) -> Pair:
    """The function with the types that results have."""
    return cast(Pair, function)


@overload
def fma(a: Tile | View, b: object, c: object) -> Tile: ...


@overload
def fma(a: object, b: Tile | View, c: object) -> Tile: ...


@overload
def fma(a: object, b: object, c: Tile | View) -> Tile: ...


@overload
def fma(a: Scalar | Number, b: Scalar | Number, c: Scalar | Number) -> Scalar: ...


def fma(a: object, b: object, c: object) -> Tile | Scalar:
    """a * b + c of floats, rounded once, in the type that holds all three."""

    def body(x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
        return current().insert(mathd.FmaOp(x, y, z)).results[0]

    return applied((a, b, c), body, "f")


@_of_pairs
def copysign(size: object, sign: object) -> Tile | Scalar:
    """The absolute value of the first with the sign of the second, that of 0 and NaN too."""

    def body(x: SSAValue, y: SSAValue) -> SSAValue:
        return current().insert(mathd.CopySignOp(x, y)).results[0]

    return applied((size, sign), body, "f")


@_of_pairs
def mulhi(left: object, right: object) -> Tile | Scalar:
    """The upper half of the product of two integers of 32 or 64 bits."""

    def body(x: SSAValue, y: SSAValue) -> SSAValue:
        dtype = of_ir(x.type)
        if dtype.bits < 32:
            raise error(
                f"expected integers of 32 or 64 bits, got {dtype.name}; the product of two of "
                f"{dtype.bits} bits is whole in .to(cute.i32)",
                code="CD-P3",
            )
        kind = arith.MulSIExtendedOp if dtype.kind == "i" else arith.MulUIExtendedOp
        plain = [convert_value(value, dtype, signed(dtype)) for value in (x, y)]
        high = current().insert(kind(plain[0], plain[1])).results[1]
        return convert_value(high, signed(dtype), dtype)

    return applied((left, right), body, "iu")


@_of_pairs
def maximum(left: object, right: object) -> Tile | Scalar:
    """Elementwise maximum, or that of two scalars; a NaN in either gives NaN."""
    return _extreme("maximum", left, right)


@_of_pairs
def minimum(left: object, right: object) -> Tile | Scalar:
    """Elementwise minimum, or that of two scalars; a NaN in either gives NaN."""
    return _extreme("minimum", left, right)


def _extreme(kind: str, left: object, right: object) -> Tile | Scalar:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Scalar) and (isinstance(other, Scalar) or is_number(other)):
            return one.binary(kind, other)
    return binary(kind, left, right)
