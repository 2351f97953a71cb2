"""Arithmetic on whole int tuples, with pycute's names and argument order: products, quotients and
coordinates leaf by leaf. A precondition that does not hold is a LayoutError with both tuples.
"""

from __future__ import annotations

import numbers
from abc import ABC
from typing import Any

from .errors import LayoutError
from .int_tuple import Dyn, IntTuple, ceil_div, crd2idx, extent, idx2crd, is_tuple, to_text


class Integer(ABC):  # noqa: B024 - only asked for its instances
    """What counts as an integer leaf: ints and those of NumPy, but no bool.

    >>> isinstance(3, Integer), isinstance(True, Integer), isinstance(3.0, Integer)
    (True, False, False)
    """

    @classmethod
    def __subclasshook__(cls, subclass: type) -> bool:
        if cls is not Integer:
            return NotImplemented
        return subclass is not bool and issubclass(subclass, numbers.Integral)


def is_int(value: object) -> bool:
    """Whether a value is an integer leaf.

    >>> is_int(3), is_int((3,))
    (True, False)
    """
    return isinstance(value, Integer)


def has_none(value: IntTuple) -> bool:
    """Whether a coordinate has a slice (None) at some leaf.

    >>> has_none((1, (None, 2))), has_none((1, 2))
    (True, False)
    """
    return any(map(has_none, value)) if is_tuple(value) else value is None


def tuple_max(value: IntTuple) -> Any:
    """The largest leaf.

    >>> tuple_max((2, (8, 4)))
    8
    """
    if not is_tuple(value):
        return value
    if not value:
        raise LayoutError("expected a tuple with a leaf, got ()")
    return max(map(tuple_max, value))


def inner_product(one: IntTuple, other: IntTuple) -> Any:
    """The sum of the products of the leaves of two congruent tuples.

    >>> inner_product((2, (3, 4)), (1, (10, 100)))
    432
    """
    if not is_tuple(one) and not is_tuple(other):
        return one * other
    total: Any = 0
    for left, right in _modes("inner_product", one, other):
        total = total + inner_product(left, right)
    return total


def elem_scale(one: IntTuple, other: IntTuple) -> IntTuple:
    """The product leaf by leaf; a tuple beside an int stands for the product of its leaves.

    >>> elem_scale((2, 3), (4, (2, 2)))
    (8, 12)
    """
    if not is_tuple(one):
        return one * extent(other)
    return tuple(elem_scale(x, y) for x, y in _modes("elem_scale", one, other))


def prefix_product(shape: IntTuple, init: IntTuple = 1) -> IntTuple:
    """The product of all leaves before each one, times `init`; congruent to `shape`. Tuples of
    `init` start each mode anew. Unlike `compact`, an extent of 1 keeps its product.

    >>> prefix_product((3, (2, 4))), prefix_product((4, 1, 3)), prefix_product((3, (2, 4)), (1, 8))
    ((1, (3, 6)), (1, 4, 4), (1, (8, 16)))
    """
    if is_tuple(init):
        return tuple(prefix_product(x, y) for x, y in _modes("prefix_product", shape, init))
    if not is_tuple(shape):
        return init
    result: list[Any] = []
    for mode in shape:
        result.append(prefix_product(mode, init))
        init = init * extent(mode)
    return tuple(result)


def shape_div(shape: IntTuple, divisor: IntTuple) -> IntTuple:
    """A shape with the first `divisor` elements of each run taken as one; of two ints one divides
    the other, and the quotient is rounded up. An int divisor goes through the modes of a shape one
    after the other, a tuple divides mode by mode, and stands for its product beside an int.

    >>> shape_div((3, 4), 6), shape_div((12, (4, 8)), (4, 8)), shape_div(12, (2, 3))
    ((1, 2), (3, (1, 4)), 2)
    """
    if is_tuple(shape):
        if is_tuple(divisor):
            return tuple(shape_div(x, y) for x, y in _modes("shape_div", shape, divisor))
        result: list[Any] = []
        for mode in shape:
            result.append(shape_div(mode, divisor))
            divisor = shape_div(divisor, extent(mode))
        return tuple(result)
    if is_tuple(divisor):
        return shape_div(shape, extent(divisor))
    known = not isinstance(shape, Dyn) and not isinstance(divisor, Dyn)
    if known and (0 in (shape, divisor) or (shape % divisor and divisor % shape)):
        raise LayoutError(
            f"shape_div: expected extents of which one divides the other, got {to_text(shape)} and "
            f"{to_text(divisor)}"
        )
    if not known:
        return _run_time_quotient(shape, divisor)
    return ceil_div(shape, divisor)


def _run_time_quotient(shape: Any, divisor: Any) -> Any:
    """The quotient where one divides the other: 1 where the divisor is the larger one."""
    from .expression import Expression, choose, compute

    if not isinstance(shape, Expression) and not isinstance(divisor, Expression):
        return ceil_div(shape, divisor)
    quotient = shape // divisor
    if quotient is shape or (isinstance(divisor, int) and shape.div % divisor == 0):
        return quotient
    return choose(compute("not_equal", quotient, 0), quotient, 1)


def crd2crd(coord: IntTuple, dst_shape: IntTuple, src_shape: IntTuple | None = None) -> IntTuple:
    """A coordinate in another shape: the one with the same colexicographic index. A tuple for an
    int of `dst_shape` needs the shape that it is a coordinate of.

    >>> crd2crd(5, (4, 8)), crd2crd((1, 1), 32, (4, 8))
    ((1, 1), 5)
    """
    if is_tuple(coord) and not is_tuple(dst_shape):
        if src_shape is None:
            raise LayoutError(
                f"crd2crd: expected src_shape for coordinate {to_text(coord)} of shape "
                f"{to_text(dst_shape)}, got None"
            )
        return crd2idx(coord, src_shape)
    if is_tuple(coord):
        return tuple(crd2crd(x, y) for x, y in _modes("crd2crd", coord, dst_shape))
    return idx2crd(coord, dst_shape)


def _modes(name: str, one: IntTuple, other: IntTuple) -> list[tuple[Any, Any]]:
    """Pairs of modes of two tuples of one rank."""
    if not is_tuple(one) or not is_tuple(other) or len(one) != len(other):
        raise LayoutError(
            f"{name}: expected tuples of one rank, got {to_text(one)} and {to_text(other)}"
        )
    return list(zip(one, other, strict=True))
