"""Orders of packed elements: layouts from the number of an element in a block to its place."""

from __future__ import annotations

from math import prod

from .int_tuple import flatten
from .layout import Layout


def check_order(order: Layout, per: int) -> None:
    """Raise ValueError where a layout is not the order of a block of elements of which an integer
    holds so many: each place once, and whole integers.
    """
    extents, strides = flatten(order.shape), flatten(order.stride)
    size = prod(each for each in extents if isinstance(each, int))
    if not all(isinstance(each, int) for each in (*extents, *strides)):
        raise ValueError(f"expected an order of known extents, got {order}")
    if sorted(order.offsets()) != list(range(size)):
        raise ValueError(
            f"expected an order that has each of {size} places once, got {order}; neighbors one "
            f"behind the other are {per}:1"
        )
    if size % per:
        raise ValueError(
            f"expected an order of whole integers of {per} elements, got {size} elements in {order}"
        )
