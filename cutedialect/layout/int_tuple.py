"""Nested int tuples: the shapes, strides and coordinates of the algebra.

A leaf is an int, a run-time value (`Dyn`), or a scaled basis (`ScaledBasis`, strides of coordinate
layouts). Everything is colexicographic: the first mode runs fastest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .errors import LayoutError

IntTuple = Any


@dataclass(frozen=True)
class Dyn:
    """A leaf known at run time: a multiple of `div`, `bits` wide; prints `?{i64 div=8}`."""

    div: int = 1
    bits: int = 32

    def __str__(self) -> str:
        parts = [f"i{self.bits}"] if self.bits != 32 else []
        if self.div != 1:
            parts.append(f"div={self.div}")
        return "?" + ("{" + " ".join(parts) + "}" if parts else "")

    __repr__ = __str__


@dataclass(frozen=True)
class ScaledBasis:
    """`value` times the basis vector of one coordinate mode: `1@0`."""

    value: int
    mode: int

    def __str__(self) -> str:
        return f"{self.value}@{self.mode}"

    __repr__ = __str__


def is_tuple(value: object) -> bool:
    """Whether a value is a mode with modes of its own."""
    return isinstance(value, tuple)


def flatten(value: IntTuple) -> tuple:
    """All leaves, left to right.

    >>> flatten(((2, 3), 4))
    (2, 3, 4)
    """
    if not isinstance(value, tuple):
        return (value,)
    out: list[Any] = []
    for item in value:
        if isinstance(item, tuple):
            out.extend(flatten(item))
        else:
            out.append(item)
    return tuple(out)


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


def congruent(one: IntTuple, other: IntTuple) -> bool:
    """Whether two tuples have the same nesting."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(congruent, one, other))
    return not isinstance(one, tuple) and not isinstance(other, tuple)


def leaves(one: IntTuple, other: IntTuple) -> Iterator[tuple[Any, Any]]:
    """Pairs of leaves of congruent tuples."""
    return zip(flatten(one), flatten(other), strict=True)


def to_text(value: IntTuple) -> str:
    """`((4,8),2)`; a slice is `_`."""
    if isinstance(value, tuple):
        return "(" + ",".join(map(to_text, value)) + ")"
    return "_" if value is None else str(value)


def compact(shape: IntTuple) -> IntTuple:
    """Column-major strides of a static shape."""
    stride, _ = _compact(shape, 1)
    return stride


def _compact(shape: IntTuple, start: int) -> tuple[IntTuple, int]:
    if isinstance(shape, tuple):
        out = []
        for mode in shape:
            stride, start = _compact(mode, start)
            out.append(stride)
        return tuple(out), start
    if not isinstance(shape, int):
        raise LayoutError(f"expected a static shape for compact strides, got {to_text(shape)}")
    return start, start * shape


def idx2crd(index: int, shape: IntTuple) -> IntTuple:
    """Coordinate of a colexicographic index; the last mode is not reduced.

    >>> idx2crd(5, (4, 8))
    (1, 1)
    """
    if not isinstance(shape, tuple):
        return index
    out = []
    for position, mode in enumerate(shape):
        if position == len(shape) - 1:
            out.append(idx2crd(index, mode))
        else:
            extent = product(mode)
            out.append(idx2crd(index % extent, mode))
            index //= extent
    return tuple(out)


def crd2idx(coord: IntTuple, shape: IntTuple, stride: IntTuple | None = None) -> Any:
    """Offset of a coordinate; an int coordinate of a nested mode runs colexicographically.

    >>> crd2idx((1, 1), (4, 8))
    5
    """
    if stride is None:
        stride = compact(shape)
    if isinstance(coord, tuple):
        if not isinstance(shape, tuple) or len(coord) != len(shape):
            raise LayoutError(
                f"expected a coordinate of {to_text(shape)}, got {to_text(coord)}"
            )
        total: Any = 0
        for c, s, d in zip(coord, shape, stride, strict=True):
            total = add(total, crd2idx(c, s, d))
        return total
    if isinstance(shape, tuple):
        return crd2idx(idx2crd(coord, shape), shape, stride)
    return scale(coord, stride)


def scale(coord: int, stride: Any) -> Any:
    """coord * stride, for every kind of stride."""
    if isinstance(stride, ScaledBasis):
        return (0,) * stride.mode + (coord * stride.value,)
    if isinstance(stride, Dyn):
        raise LayoutError(f"expected a static stride, got {stride}")
    return coord * stride


def add(one: Any, other: Any) -> Any:
    """Sum of offsets; coordinate tuples add mode by mode."""
    if isinstance(one, tuple) or isinstance(other, tuple):
        left = one if isinstance(one, tuple) else ()
        right = other if isinstance(other, tuple) else ()
        width = max(len(left), len(right))
        left += (0,) * (width - len(left))
        right += (0,) * (width - len(right))
        return tuple(a + b for a, b in zip(left, right, strict=True))
    return one + other
