"""Layouts of packed elements and of the integers that hold them, against what an order says of each
element.
"""

import pytest

from cutedialect.layout import Layout
from cutedialect.layout.text import parse_layout
from cutedialect.passes.analysis.coordinates import thread_value
from cutedialect.passes.analysis.packed_layouts import (
    PackedLayoutError,
    Packing,
    packed_layout,
    unpacked_layout,
)

# A warpgroup's A operand of 64 x 64, and rows of bytes, 16 for a thread.
OPERAND = parse_layout("((4,8,4),((2,2,2),4)):((128,1,16),((64,8,512),1024))")
ROWS = parse_layout("((2,64),16):((1024,1),64)")
ORDERS = ("2:1", "8:1", "(32,2):(2,1)", "(2,4):(4,1)", "(2,4,2,(2,2)):(2,16,4,(1,8))")


def held(tv: Layout, shape: tuple[int, ...], thread: int) -> set[tuple[int, ...]]:
    """The coordinates that a thread has."""
    layout = thread_value(tv, shape)
    start = layout.thread_coords()[thread]
    values = layout.value_coords()
    return {tuple(a + b for a, b in zip(start, each, strict=True)) for each in values}


def integer(packing: Packing, element: int) -> int:
    size = packing.order.size()
    place = element // size * size + packing.order.offsets()[element % size]
    return place // packing.per


@pytest.mark.parametrize(
    ("order", "per"),
    [(order, per) for per in (2, 8) for order in ORDERS if (order, per) != ("2:1", 8)],
)
def test_threads_have_the_integers_of_their_elements(order: str, per: int):
    packing = Packing(1, parse_layout(order), per)
    tv = packed_layout(OPERAND, (64, 64), packing, 1)
    for thread in (0, 1, 5, 63, 127):
        elements = held(OPERAND, (64, 64), thread)
        wanted = {(row, integer(packing, k)) for row, k in elements}
        assert held(tv, (64, 64 // per), thread) == wanted


@pytest.mark.parametrize("order", ORDERS)
def test_threads_have_all_elements_of_their_integers(order: str):
    packing = Packing(1, parse_layout(order), 2)
    tv = unpacked_layout(ROWS, (64, 32), packing, 1)
    for thread in (0, 1, 64, 127):
        integers = held(ROWS, (64, 32), thread)
        wanted = {
            (m, k) for m in range(64) for k in range(64) if (m, integer(packing, k)) in integers
        }
        assert held(tv, (64, 64), thread) == wanted


def test_runs_across_parts_of_a_block_are_refused():
    packing = Packing(1, parse_layout("(3,2):(2,1)"), 2)
    with pytest.raises(PackedLayoutError, match="blocks of 6"):
        packed_layout(OPERAND, (64, 64), packing, 1)
