"""Tensors over NumPy memory: what the algebra says of offsets holds of the data."""

import itertools

import numpy
import pytest

from cutedialect import layout
from cutedialect.layout import (
    ComposedLayout,
    Layout,
    LayoutError,
    Swizzle,
    Tensor,
    make_fragment_like,
    make_tensor,
    make_tensor_like,
    zipped_divide,
)

LAYOUTS = [
    Layout((8, 12), (12, 1)),
    Layout((8, 12), (1, 8)),
    Layout(((2, 4), (3, 4)), ((1, 6), (2, 24))),
    Layout((8, 12), (13, 1)),
]


def tensor_of(one):
    return make_tensor(numpy.arange(one.cosize()) * 3, one)


@pytest.mark.parametrize("one", LAYOUTS, ids=str)
def test_elements_are_those_of_the_matrix(one):
    tensor = tensor_of(one)
    matrix = numpy.array([[tensor[i, j] for j in range(12)] for i in range(8)])
    assert (matrix == 3 * numpy.array([[one(i, j) for j in range(12)] for i in range(8)])).all()
    assert list(tensor) == list(matrix.T.reshape(-1))
    assert list(tensor[3, None]) == list(matrix[3])


@pytest.mark.parametrize("one", LAYOUTS, ids=str)
def test_tiles_and_places_cover_a_tensor(one):
    tensor = tensor_of(one)
    tiles = [tensor.inner_partition((4, 3), at) for at in itertools.product(range(2), range(4))]
    assert sorted(value for tile in tiles for value in tile) == sorted(tensor)
    assert all(tile.size() == 12 for tile in tiles)
    places = [tensor.outer_partition((4, 3), at) for at in itertools.product(range(4), range(3))]
    assert sorted(value for place in places for value in place) == sorted(tensor)
    assert tiles[5][1, 2] == tensor[4 * 1 + 1, 3 * 1 + 2]
    assert places[5][1, 2] == tensor[4 * 1 + 1, 3 * 2 + 2]


def test_a_row_of_tiles_stays_a_mode():
    tensor = tensor_of(LAYOUTS[0])
    row = tensor.inner_partition((4, 3), (1,))
    assert row[2, 1, 3] == tensor[4 + 2, 9 + 1]
    column = tensor.outer_partition((4, 3), (1,))
    assert column[2, 1, 3] == tensor[4 * 1 + 1, 3 * 3 + 2]


def test_writing_goes_to_the_memory():
    memory = numpy.zeros(96)
    tensor = make_tensor(memory, (8, 12), (12, 1))
    tensor.local_tile((4, 3), (1, 2))[2, 1] = 5
    assert memory[6 * 12 + 7] == 5
    assert memory.sum() == 5


def test_a_swizzled_tensor_is_a_permutation():
    swizzled = ComposedLayout(Swizzle(2, 1, 3), 0, Layout((8, 8), (8, 1)))
    memory = numpy.arange(64)
    tensor = Tensor(memory, swizzled)
    assert sorted(tensor) == list(range(64))
    part = tensor.inner_partition((4, 4), (1, 1))
    assert [part[i, j] for i in range(4) for j in range(4)] == [
        tensor[4 + i, 4 + j] for i in range(4) for j in range(4)
    ]
    moved = tensor.domain_offset((2, 3))
    assert moved[1, 2] == tensor[3, 5]


@pytest.mark.parametrize("one", LAYOUTS, ids=str)
def test_tensors_alike_are_compact(one):
    like = make_tensor_like(tensor_of(one))
    assert like.layout.cosize() == like.size() == len(like.memory) == 96
    assert like.memory.dtype == numpy.arange(1).dtype
    assert not any(like)
    fragment = make_fragment_like(tensor_of(one).apply(zipped_divide, (4, 3)))
    assert fragment.layout.cosize() == fragment.size() == 96
    assert fragment.layout[0].offsets() == list(range(12))


def test_identity_tensors_give_coordinates():
    tile = layout.make_identity_tensor((64, 32)).local_tile((16, 8), (2, 3))
    assert tile[5, 6] == (2 * 16 + 5, 3 * 8 + 6)


def test_the_kernel_of_a_layout_is_all_of_it():
    """`nullspace` has the indices that the layout takes to 0 of modes that do not move."""
    for strides in itertools.product((0, 1, 3), repeat=3):
        one = Layout((2, 3, 4), strides)
        kernel = layout.nullspace(one)
        assert {one(at) for at in kernel.offsets()} == {0}
        moving = [s for s, d in zip((2, 3, 4), strides, strict=True) if d]
        assert kernel.size() * numpy.prod(moving, dtype=int) == one.size()


def test_outside_of_the_memory_is_an_error():
    with pytest.raises(LayoutError, match=r"expected an offset in 0..3, got 4 at \(0,2\)"):
        make_tensor([1, 2, 3, 4], (2, 3), (1, 2))[0, 2]
    with pytest.raises(LayoutError, match="expected the coordinate of an element in memory"):
        make_tensor([1, 2, 3, 4], (2, 2))[0, None] = 3
