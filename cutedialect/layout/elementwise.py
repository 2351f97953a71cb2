"""Tuples leaf by leaf: sums, differences, comparisons, products of modes and the next coordinate.

Leaves may be run-time values; a comparison of those is an expression that gives 0 or 1.
"""

from __future__ import annotations

from typing import Any

from .composed_layout import ComposedLayout
from .errors import LayoutError
from .expression import choose, compute
from .int_tuple import (
    Dyn,
    IntTuple,
    ScaledBasis,
    add,
    congruent,
    crd2idx,
    extent,
    flatten,
    is_tuple,
    to_text,
    unflatten,
)
from .layout import Layout


def tuple_add(one: IntTuple, other: IntTuple) -> IntTuple:
    """The sum leaf by leaf; what only one of them has stays, and 0 is nothing beside a tuple.

    >>> tuple_add((1, 2, 3), (4, 5)), tuple_add(0, (4, 5))
    ((5, 7, 3), (4, 5))
    """
    if is_tuple(one) != is_tuple(other):
        scalar, rest = (other, one) if is_tuple(one) else (one, other)
        if isinstance(scalar, int) and scalar == 0:
            return rest
        raise LayoutError(
            f"expected tuples of one nesting, got {to_text(one)} and {to_text(other)}"
        )
    if is_tuple(one) and is_tuple(other):
        common = min(len(one), len(other))
        both = (_nested_alike(tuple_add, x, y) for x, y in zip(one, other, strict=False))
        return (*both, *one[common:], *other[common:])
    return one + other


def tuple_sub(one: IntTuple, other: IntTuple) -> IntTuple:
    """The difference leaf by leaf; what only one of them has stays.

    >>> tuple_sub((5, 8, 3), (1, 2)), tuple_sub((5, 8), 0)
    ((4, 6, 3), (5, 8))
    """
    if is_tuple(one) != is_tuple(other):
        if is_tuple(one) and isinstance(other, int) and other == 0:
            return one
        raise LayoutError(
            f"expected tuples of one nesting, got {to_text(one)} and {to_text(other)}"
        )
    if is_tuple(one) and is_tuple(other):
        common = min(len(one), len(other))
        both = (_nested_alike(tuple_sub, x, y) for x, y in zip(one, other, strict=False))
        return (*both, *one[common:], *other[common:])
    return one - other


def _nested_alike(operation: Any, one: IntTuple, other: IntTuple) -> IntTuple:
    if is_tuple(one) != is_tuple(other):
        raise LayoutError(
            f"expected tuples of one nesting, got {to_text(one)} and {to_text(other)}"
        )
    return operation(one, other)


def elem_less(one: IntTuple, other: IntTuple) -> Any:
    """Whether every leaf is less than that of a congruent tuple: True, False, or an expression.

    >>> elem_less((1, (2, 3)), (4, (8, 4))), elem_less((1, 8), (4, 8))
    (True, False)
    """
    return _all("less", one, other)


def equal(one: Any, other: Any) -> Any:
    """Whether two tuples or two layouts are the same: True, False, or an expression.

    >>> equal((1, 2), (1, 2)), equal(Layout(4, 1), Layout(4, 2))
    (True, False)
    """
    if isinstance(one, Layout) and isinstance(other, Layout):
        return equal((one.shape, one.stride), (other.shape, other.stride))
    if not congruent(one, other):
        return False
    return _all("equal", one, other)


def _all(op: str, one: IntTuple, other: IntTuple) -> Any:
    if not congruent(one, other):
        raise LayoutError(f"expected congruent tuples, got {to_text(one)} and {to_text(other)}")
    result: Any = True
    for left, right in zip(flatten(one), flatten(other), strict=True):
        if isinstance(left, ScaledBasis) and isinstance(right, ScaledBasis):
            if left.path != right.path:
                return False
            left, right = left.value, right.value
        if not (isinstance(left, int | Dyn) and isinstance(right, int | Dyn)):
            if left != right:
                return False
            continue
        fact = compute(op, left, right)
        if isinstance(fact, int):
            if not fact:
                return False
        else:
            result = fact if result is True else compute("and", result, fact)
    return result


def tuple_product(value: IntTuple) -> Any:
    """The product of all leaves.

    >>> tuple_product((2, (3, 4)))
    24
    """
    return extent(value)


def product_each(value: IntTuple) -> IntTuple:
    """The product of the leaves of each mode.

    >>> product_each((2, (3, 4))), product_each(6)
    ((2, 12), (6,))
    """
    return tuple(map(extent, value)) if is_tuple(value) else (value,)


def increment_coord(coord: IntTuple, shape: IntTuple) -> IntTuple:
    """The next coordinate of a shape, the first mode fastest; the last mode does not wrap.

    >>> increment_coord((3, 1), (4, 8)), increment_coord((3, 7), (4, 8))
    ((0, 2), (0, 8))
    """
    if not congruent(coord, shape):
        raise LayoutError(f"expected a coordinate of {to_text(shape)}, got {to_text(coord)}")
    if not all(isinstance(leaf, int | Dyn) for leaf in flatten(coord)):
        raise LayoutError(f"expected a coordinate without slices, got {to_text(coord)}")
    carry: Any = 1
    pairs = list(zip(flatten(coord), flatten(shape), strict=True))
    digits: list[Any] = []
    for position, (digit, size) in enumerate(pairs):
        if position == len(pairs) - 1:
            digits.append(digit + carry)
        elif isinstance(size, int) and size == 1:
            digits.append(0)
        else:
            total = digit + carry
            stays = compute("less", total, size)
            digits.append(choose(stays, total, 0))
            carry = choose(stays, 0, 1)
    return unflatten(iter(digits), coord)


def layout_eval(coord: IntTuple, layout: Any) -> Any:
    """The offset of a coordinate; a coordinate layout gives a coordinate, in tuples.

    >>> layout_eval((1, 2), Layout((4, 8), (8, 1)))
    10
    """
    if isinstance(layout, ComposedLayout):
        inner = layout_eval(coord, layout.inner)
        at = add(layout.offset, inner)
        if isinstance(layout.outer, Layout):
            return layout_eval(at, layout.outer)
        return layout.outer(at)
    return crd2idx(coord, layout.shape, layout.stride)
