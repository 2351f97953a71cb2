"""Nested int tuples: the shapes, strides and coordinates of the algebra.

A leaf is an int, a run-time value (`Dyn`), or a scaled basis (`ScaledBasis`, strides of coordinate
layouts); a tuple of leaves and tuples is a mode with modes of its own. Everything is
colexicographic: the first mode runs fastest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import Any, NoReturn, TypeGuard, cast

from .errors import LayoutError

IntTuple = Any
"""An int, `Dyn`, `ScaledBasis`, `None` (in coordinates), or a tuple of these, nested."""


@dataclass(frozen=True)
class Dyn:
    """A leaf known at run time: a multiple of `div`, `bits` wide; prints `?{i64 div=8}`.

    Arithmetic keeps what is known of divisibility; a comparison raises LayoutError. Two equal
    `Dyn` are the same type, not the same value.

    >>> Dyn(div=8) * 4, Dyn(div=8) // 4, Dyn(div=8) % 4, Dyn() + 1
    (?{div=32}, ?{div=2}, 0, ?)
    """

    div: int = 1
    bits: int = 32

    def __post_init__(self) -> None:
        if self.div < 1 or self.bits not in (32, 64):
            raise LayoutError(f"expected div >= 1 and 32 or 64 bits, got {self}")

    def __str__(self) -> str:
        parts = [f"i{self.bits}"] if self.bits != 32 else []
        if self.div != 1:
            parts.append(f"div={self.div}")
        return "?" + ("{" + " ".join(parts) + "}" if parts else "")

    __repr__ = __str__

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Dyn):
            return Dyn(self.div * other.div, max(self.bits, other.bits))
        if isinstance(other, int):
            return Dyn(self.div * abs(other), self.bits) if other else 0
        return NotImplemented

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Dyn):
            return Dyn(gcd(self.div, other.div), max(self.bits, other.bits))
        if isinstance(other, int):
            return Dyn(gcd(self.div, other), self.bits) if other else self
        return NotImplemented

    __radd__ = __add__
    __sub__ = __add__
    __rsub__ = __add__

    def __neg__(self) -> Dyn:
        return self

    def __floordiv__(self, other: Any) -> Any:
        if isinstance(other, Dyn):
            return Dyn(1, max(self.bits, other.bits))
        return Dyn(self.div // other if self.div % other == 0 else 1, self.bits)

    def __rfloordiv__(self, other: Any) -> Any:
        return Dyn(1, self.bits) if other else 0

    def ceil_div(self, other: Any) -> Any:
        """The quotient rounded up."""
        return self // other

    def ceil_divides(self, other: int) -> Any:
        """The quotient of a number by this value, rounded up."""
        return other // self

    def __abs__(self) -> Any:
        return self

    def __mod__(self, other: Any) -> Any:
        if isinstance(other, int) and self.div % other == 0:
            return 0
        return Dyn(1, self.bits)

    def __rmod__(self, other: Any) -> Any:
        return Dyn(1, self.bits) if other else 0

    def _refuse(self, other: object) -> NoReturn:
        raise LayoutError(f"expected static values to compare, got {self} and {other}")

    def __lt__(self, other: object) -> NoReturn:
        self._refuse(other)

    def __le__(self, other: object) -> NoReturn:
        self._refuse(other)

    def __gt__(self, other: object) -> NoReturn:
        self._refuse(other)

    def __ge__(self, other: object) -> NoReturn:
        self._refuse(other)


class ScaledBasis:
    """`value` times the basis vector of one coordinate mode: `1@0`.

    A nested mode is a path, outermost first: `ScaledBasis(1, (4, 2))` is mode 2 of mode 4 and
    prints inside out, `1@2@4`.
    """

    __slots__ = ("path", "value")

    value: Any
    path: tuple[int, ...]

    def __init__(self, value: Any, path: int | tuple[int, ...]) -> None:
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "path", path if is_tuple(path) else (path,))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a ScaledBasis is immutable")

    def __str__(self) -> str:
        return "@".join(map(str, (self.value, *reversed(self.path))))

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return ScaledBasis, (self.value, self.path)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ScaledBasis):
            return NotImplemented
        return self.value == other.value and self.path == other.path

    def __hash__(self) -> int:
        return hash((self.value, self.path))

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int | Dyn):
            return ScaledBasis(self.value * other, self.path) if other != 0 else 0
        return NotImplemented

    __rmul__ = __mul__

    def vector(self) -> tuple[Any, ...]:
        """The coordinate itself: `3@1` is `(0,3)`."""
        result: Any = self.value
        for mode in reversed(self.path):
            result = (0,) * mode + (result,)
        return result


def is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    """Whether a value is a mode with modes of its own."""
    return isinstance(value, tuple)


def nested(value: Any) -> Any:
    """Lists as tuples, at every depth, and integers of other libraries as ints.

    >>> nested([4, [2, 3]])
    (4, (2, 3))
    """
    if isinstance(value, list):
        value = tuple(cast("list[Any]", value))
    if is_tuple(value):
        return tuple(map(nested, value))
    if isinstance(value, int | Dyn | ScaledBasis) or not hasattr(value, "__index__"):
        return value
    return int(value)


def is_static(value: IntTuple) -> bool:
    """Whether no leaf is known at run time only.

    >>> is_static((4, (2, 8))), is_static((4, Dyn()))
    (True, False)
    """
    for leaf in flatten(value):
        if isinstance(leaf, Dyn) or (isinstance(leaf, ScaledBasis) and isinstance(leaf.value, Dyn)):
            return False
    return True


def depth(value: IntTuple) -> int:
    """How deep tuples nest: 0 of an int.

    >>> depth(4), depth((4, (2, 3)))
    (0, 2)
    """
    if is_tuple(value):
        return 1 + max(map(depth, value), default=0)
    return 0


def flatten(value: Any) -> Any:
    """All leaves, left to right; a layout with them as modes (a leaf stays one).

    >>> flatten(((2, 3), 4))
    (2, 3, 4)
    """
    if not is_tuple(value):
        flat = getattr(value, "flat_modes", None)
        return (value,) if flat is None else flat()
    out: list[Any] = []
    for item in value:
        if isinstance(item, tuple):  # a call of `is_tuple` for each leaf takes longer than the rest
            out.extend(flatten(item))
        else:
            out.append(item)
    return tuple(out)


def unflatten(leaves_: Iterator[Any], profile: IntTuple) -> IntTuple:
    """Leaves in the nesting of `profile`.

    >>> unflatten(iter((1, 2, 3)), ((0, 0), 0))
    ((1, 2), 3)
    """
    if is_tuple(profile):
        return tuple(unflatten(leaves_, mode) for mode in profile)
    return next(leaves_)


def product(value: IntTuple) -> int:
    """Product of all leaves; a run-time leaf raises LayoutError.

    >>> product(((2, 3), 4))
    24
    """
    if isinstance(value, int):
        return value
    result = 1
    for leaf in flatten(value):
        if not isinstance(leaf, int):
            raise LayoutError(f"expected static extents, got {to_text(value)}")
        result *= leaf
    return result


def extent(value: IntTuple) -> Any:
    """Product of all leaves, an int or, with run-time leaves, a `Dyn`.

    >>> extent((4, (Dyn(), 2)))
    ?{div=8}
    """
    result: Any = 1
    for leaf in flatten(value):
        result = result * leaf
    return result


def congruent(one: IntTuple, other: IntTuple) -> bool:
    """Whether two tuples have the same nesting."""
    if is_tuple(one) and is_tuple(other):
        return len(one) == len(other) and all(map(congruent, one, other))
    return not is_tuple(one) and not is_tuple(other)


def weakly_congruent(one: IntTuple, other: IntTuple) -> bool:
    """Whether `other` has the nesting of `one`, or more below its leaves.

    >>> weakly_congruent((1, 2), ((2, 2), 3)), weakly_congruent(((2, 2), 3), (1, 2))
    (True, False)
    """
    if is_tuple(one):
        return is_tuple(other) and len(one) == len(other) and all(map(weakly_congruent, one, other))
    return True


def leaves(one: IntTuple, other: IntTuple) -> Iterator[tuple[Any, Any]]:
    """Pairs of leaves of congruent tuples."""
    return zip(flatten(one), flatten(other), strict=True)


def to_text(value: IntTuple) -> str:
    """`((4,8),2)`; a slice is `_`."""
    if is_tuple(value):
        return "(" + ",".join(map(to_text, value)) + ")"
    return "_" if value is None else str(value)


def ceil_div(one: Any, other: Any) -> Any:
    """`one / other` rounded up. A tuple divides mode by mode and leaves the modes past its end; an
    int goes through the modes of a tuple one after the other.

    >>> ceil_div(9, 4), ceil_div(Dyn(), 4), ceil_div((9, 8, 3), (4, 4)), ceil_div((4, 6), 8)
    (3, ?, (3, 2, 3), (1, 3))
    """
    if is_tuple(one) or is_tuple(other):
        return _ceil_div_modes(one, other)
    if isinstance(one, Dyn):
        return one.ceil_div(other)
    if isinstance(other, Dyn):
        return other.ceil_divides(one)
    if other == 0:
        raise LayoutError(f"expected a divisor other than 0 of {to_text(one)}")
    return -(-one // other)


def _ceil_div_modes(one: Any, other: Any) -> Any:
    if not is_tuple(one):
        return ceil_div(one, extent(other))
    if is_tuple(other):
        if len(other) > len(one):
            raise LayoutError(
                f"expected a divisor of at most {len(one)} modes of {to_text(one)}, got "
                f"{to_text(other)}"
            )
        return (*map(ceil_div, one, other), *one[len(other) :])
    result: list[Any] = []
    for mode in one:
        result.append(ceil_div(mode, other))
        other = ceil_div(other, extent(mode))
    return tuple(result)


def compact(shape: IntTuple) -> IntTuple:
    """Column-major strides of a shape; an extent of 1 has stride 0.

    >>> compact((4, (2, 3))), compact((4, 1, 3))
    ((1, (4, 8)), (1, 0, 4))
    """
    stride, _ = _compact(shape, 1)
    return stride


def _compact(shape: IntTuple, start: Any) -> tuple[IntTuple, Any]:
    if is_tuple(shape):
        out: list[Any] = []
        for mode in shape:
            stride, start = _compact(mode, start)
            out.append(stride)
        return tuple(out), start
    return (0 if shape == 1 else start), start * shape


def idx2crd(index: Any, shape: IntTuple, stride: IntTuple | None = None) -> IntTuple:
    """Coordinate of a colexicographic index; the last mode is not reduced.

    With strides (pycute's third argument), the coordinate at an offset of that compact layout:
    each leaf is `offset / stride % extent`, and a leaf of extent 1 or stride 0 gives 0.

    >>> idx2crd(5, (4, 8)), idx2crd(5, (4, 8), (8, 1))
    ((1, 1), (0, 5))
    """
    if stride is not None:
        parts = (0 if s == 1 or d == 0 else index // d % s for s, d in leaves(shape, stride))
        return unflatten(parts, shape)
    if not is_tuple(shape):
        return index
    if is_tuple(index):
        if len(index) != len(shape):
            raise LayoutError(f"expected a coordinate of {to_text(shape)}, got {to_text(index)}")
        return tuple(map(idx2crd, index, shape))
    out: list[Any] = []
    for position, mode in enumerate(shape):
        if position == len(shape) - 1:
            out.append(idx2crd(index, mode))
        else:
            size = extent(mode)
            if size == 0:
                raise LayoutError(f"expected a shape with coordinates, got {to_text(shape)}")
            out.append(idx2crd(index % size, mode))
            index = index // size
    return tuple(out)


def crd2idx(coord: IntTuple, shape: IntTuple, stride: IntTuple = None) -> Any:
    """Offset of a coordinate; an int coordinate of a nested mode runs colexicographically.

    >>> crd2idx((1, 1), (4, 8))
    5
    """
    if stride is None:
        stride = compact(shape)
    if is_tuple(coord):
        if not is_tuple(shape) or len(coord) != len(shape):
            raise LayoutError(f"expected a coordinate of {to_text(shape)}, got {to_text(coord)}")
        total: Any = 0
        for c, s, d in zip(coord, shape, stride, strict=True):
            total = add(total, crd2idx(c, s, d))
        return total
    if coord is None:
        return 0
    if is_tuple(shape):
        return crd2idx(idx2crd(coord, shape), shape, stride) if shape else 0
    return scale(coord, stride)


def scale(coord: Any, stride: Any) -> Any:
    """coord * stride, for every kind of stride."""
    if isinstance(stride, ScaledBasis):
        return ScaledBasis(coord * stride.value, stride.path).vector()
    return coord * stride


def add(one: Any, other: Any) -> Any:
    """Sum of offsets; coordinate tuples add mode by mode, 0 stands for any of them."""
    if is_tuple(one) and is_tuple(other):
        width = max(len(one), len(other))
        left = one + (0,) * (width - len(one))
        right = other + (0,) * (width - len(other))
        return tuple(map(add, left, right))
    if is_tuple(one) or is_tuple(other):
        tuple_, scalar = (one, other) if is_tuple(one) else (other, one)
        if scalar != 0:
            raise LayoutError(f"expected coordinates to add, got {to_text(one)} and {other}")
        return tuple_
    return one + other
