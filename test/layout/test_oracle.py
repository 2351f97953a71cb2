"""A second opinion: tensor-layouts 0.3.2, on inputs where it follows the definitions.

It is weaker elsewhere: it accepts overlapping complements and left inverses that do not divide.
"""

from itertools import product as cartesian

import pytest

from cutedialect.layout import (
    Layout,
    LayoutError,
    complement,
    composition,
    logical_divide,
    logical_product,
    right_inverse,
)

oracle = pytest.importorskip("tensor_layouts")

COMPACT = [
    Layout(shape, stride)
    for shape in cartesian((2, 3, 4), repeat=2)
    for stride in ((1, shape[0]), (shape[1], 1))
]


def theirs(layout):
    return oracle.Layout(layout.shape, layout.stride)


def offsets(layout):
    return [layout(i) for i in range(oracle.size(layout))]


@pytest.mark.parametrize("layout", COMPACT, ids=str)
def test_agreement(layout):
    assert offsets(theirs(layout)) == layout.offsets()
    assert offsets(oracle.right_inverse(theirs(layout))) == right_inverse(layout).offsets()
    assert offsets(oracle.complement(theirs(layout), 48)) == complement(layout, 48).offsets()
    for tiler in (Layout(2, 1), Layout(3, 1), Layout(4, 1), Layout(2, 2), Layout((2, 2), (2, 1))):
        for mine, other in (
            (composition, oracle.compose),
            (logical_divide, oracle.logical_divide),
            (logical_product, oracle.logical_product),
        ):
            try:
                result = mine(layout, tiler)
            except LayoutError:
                continue
            assert offsets(other(theirs(layout), theirs(tiler))) == result.offsets()
