"""Views of memory against the definition: a coordinate's place is what the layout says."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from cutedialect.backend.interpreter.elements import held, held_as
from cutedialect.backend.interpreter.memory import Joined, view_of_array, view_of_buffer
from cutedialect.layout import Layout, Swizzle, cosize

LAYOUTS = [
    (Layout((8, 16), (16, 1)), None),
    (Layout((8, 16), (1, 8)), None),
    (Layout((64, 32), (32, 1)), Swizzle(2, 4, 3)),
    (Layout((64, (64, 2)), (64, (1, 4096))), Swizzle(3, 4, 3)),
    (Layout(((32, 4), 1), ((1, 32), 128)), Swizzle(3, 4, 3)),
    (Layout(((2, 3), (4, 2)), ((8, 16), (1, 4))), None),
]


def places(layout, swizzle, size):
    """Coordinate to element of the storage, by the layout's own arithmetic."""
    shape = [np.prod(mode, dtype=int) for mode in layout.shape]
    found = {}
    for coord in itertools.product(*map(range, shape)):
        byte = layout(*map(int, coord)) * size
        found[coord] = (byte if swizzle is None else swizzle(byte)) // size
    return found


@pytest.mark.parametrize(("layout", "swizzle"), LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_elements_lie_where_the_layout_says(layout, swizzle, dtype):
    data = np.full(2 * cosize(layout), -1, dtype)
    view = view_of_buffer(data, layout, swizzle)
    values = (np.arange(np.prod(view.shape)) % 2039).astype(np.float32).reshape(view.shape)
    view.write(values)
    where = places(layout, swizzle, data.itemsize)
    view.memory.settle()
    assert {coord: data[place] for coord, place in where.items()} == {
        coord: values[coord] for coord in where
    }
    assert np.array_equal(view.read(), values)
    assert np.array_equal(view.transpose().read(), values.T)


@pytest.mark.parametrize(("layout", "swizzle"), LAYOUTS)
def test_a_view_sees_what_another_wrote(layout, swizzle):
    view = view_of_buffer(np.zeros(2 * cosize(layout), np.float32), layout, swizzle)
    rng = np.random.default_rng(0)
    want = rng.integers(0, 99, view.shape).astype(np.float32)
    view.write(want)
    half = (view.shape[0] // 2, view.shape[1])
    extents = [1 if isinstance(layout.shape[0], tuple) else half[0], view.shape[1]]
    part = view.subview((0, 0), extents)
    assert np.array_equal(part.read(), want[: extents[0]])
    part.transpose().write(np.full(extents[::-1], 7, np.float32))
    want = want.copy()
    want[: extents[0]] = 7
    assert np.array_equal(view.read(), want)


@pytest.mark.parametrize(("at", "extent"), [(0, 64), (64, 32), (0, 128), (64, 128), (192, 192)])
def test_a_part_of_a_nested_mode(at, extent):
    layout = Layout((8, (64, 6)), (64, (1, 512)))
    view = view_of_buffer(np.zeros(cosize(layout), np.float32), layout, Swizzle(3, 4, 3))
    want = np.arange(8 * 384, dtype=np.float32).reshape(8, 384)
    view.write(want)
    part = view.subview((0, at), (8, extent))
    assert np.array_equal(part.read(), want[:, at : at + extent])


def test_outside_of_a_tensor_is_zero_and_keeps_nothing():
    rng = np.random.default_rng(1)
    for _ in range(50):
        shape = rng.integers(1, 9, 3)
        array = rng.integers(1, 9, shape).astype(np.float32)
        order = rng.permutation(3)
        array = np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))
        tile, at = rng.integers(1, 5, 3), rng.integers(0, 4, 3)
        view = view_of_array(array, Layout(tuple(map(int, shape)), (1, 1, 1)))
        part = view.local_tile(tuple(map(int, tile)), tuple(map(int, at)))
        padded = np.zeros((20, 20, 20), np.float32)
        padded[tuple(map(slice, shape))] = array
        region = tuple(slice(c * e, c * e + e) for c, e in zip(at, tile, strict=True))
        assert np.array_equal(part.read(), padded[region])
        part.write(np.full(tile, 99, np.float32))
        padded[region] = 99
        assert np.array_equal(array, padded[tuple(map(slice, shape))])


def test_dropped_modes_slices_and_whole_modes():
    array = np.arange(4 * 6 * 8, dtype=np.float32).reshape(4, 6, 8)
    view = view_of_array(array, Layout((4, 6, 8), (48, 8, 1)))
    assert np.array_equal(view.local_tile((0, 4, -1), (2, 0, 0)).read(), array[2, :4])
    assert not view.local_tile((0, 4, -1), (4, 0, 0)).read().any()
    cut = view.slice(1, 2, 5)
    assert cut.shape == (4, 3, 8)
    want = np.zeros((2, 2, 8), np.float32)
    want[:, :1] = array[2:4, 4:5]
    assert np.array_equal(cut.local_tile((2, 2, 8), (1, 1, 0)).read(), want)
    assert view.slice(0, 3, 99).shape == (1, 6, 8)
    assert view.slice(0, 3, 2).shape == (0, 6, 8)
    assert np.array_equal(view.at([np.int32(1), np.arange(6), np.int32(3)]), array[1, :, 3])


def test_joined_tiles_are_cut_across_and_along():
    parts = [np.full((4, 6), n, np.float32) + np.arange(6) / 8 for n in range(3)]
    views = [view_of_array(part, Layout((4, 6), (6, 1))) for part in parts]
    whole = np.concatenate(parts)
    joined = Joined(views, 0)
    assert np.array_equal(joined.read(), whole)
    assert np.array_equal(joined.transpose().read(), whole.T)
    assert np.array_equal(joined.subview((4, 2), (8, 3)).read(), whole[4:, 2:5])
    assert np.array_equal(joined.subview((6, 0), (2, 6)).read(), whole[6:8])
    assert np.array_equal(joined.transpose().subview((1, 4), (2, 4)).read(), whole.T[1:3, 4:8])


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, np.float16])
def test_narrow_floats_are_held_in_f32(dtype):
    array = np.arange(16).astype(dtype).reshape(4, 4)
    view = view_of_array(array, Layout((4, 4), (4, 1)))
    assert view.read().dtype == np.float32
    view.write(np.full((4, 4), 3, np.float32))
    assert view.read().dtype == np.float32
    assert (array == dtype(3)).all()


def test_elements_that_share_a_place_are_combined_one_by_one():
    array = np.zeros(4, np.float32)
    view = view_of_array(array, Layout(4, 1)).local_tile((4,), (0,))
    folded = view_of_array(
        np.lib.stride_tricks.as_strided(array, (3, 4), (0, 4)), Layout((3, 4), (0, 1))
    )
    folded.write(np.ones((3, 4), np.float32), np.add)
    assert np.array_equal(view.read(), np.full(4, 3))


@pytest.mark.parametrize(
    "dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.int8]
)
def test_elements_are_held_as_their_values(dtype):
    """All patterns, and as many that they are looked up in several steps."""
    size = np.dtype(dtype).itemsize
    every = np.arange(1 << 8 * size, dtype=f"u{size}").view(dtype)
    wanted = every.astype(held_as(np.dtype(dtype)))
    for elements in (every, every[::3], np.resize(every, (257, 301)), every.reshape(-1, 4).T):
        result = held(elements)
        assert result.shape == elements.shape
        np.testing.assert_array_equal(result, elements.astype(wanted.dtype))
