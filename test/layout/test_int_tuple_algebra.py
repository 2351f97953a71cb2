"""Products and quotients of int tuples, against their definition on leaves drawn at random."""

import random
from math import prod

import numpy as np
import pytest

from cutedialect.layout import (
    Dyn,
    Integer,
    LayoutError,
    compact,
    congruent,
    crd2crd,
    crd2idx,
    elem_scale,
    flatten,
    has_none,
    idx2crd,
    inner_product,
    is_int,
    prefix_product,
    product,
    shape_div,
    tuple_max,
)


def drawn(generator, depth=3, extents=(1, 2, 3, 4, 8)):
    """A nested tuple of extents."""
    if depth == 0 or generator.random() < 0.4:
        return generator.choice(extents)
    return tuple(drawn(generator, depth - 1, extents) for _ in range(generator.randint(1, 3)))


@pytest.fixture(params=range(40))
def generator(request):
    return random.Random(request.param)


def test_prefix_product_is_the_product_of_the_leaves_before(generator):
    shape = drawn(generator)
    strides = prefix_product(shape, 5)
    leaves = flatten(shape)
    assert congruent(shape, strides)
    assert flatten(strides) == tuple(5 * prod(leaves[:i]) for i in range(len(leaves)))
    wide = drawn(generator, extents=(2, 3, 5))
    assert prefix_product(wide) == compact(wide)


@pytest.mark.some(17)
def test_inner_product_is_the_offset_of_a_coordinate(generator):
    shape = drawn(generator)
    stride = prefix_product(shape)
    for index in range(0, product(shape), 7):
        coord = idx2crd(index, shape)
        assert inner_product(coord, stride) == crd2idx(coord, shape, stride) == index


def test_shape_div_leaves_the_quotient(generator):
    shape = drawn(generator, extents=(2, 4, 8))
    for exponent in range(8):
        rest = shape_div(shape, 1 << exponent)
        assert congruent(shape, rest)
        assert product(rest) == max(1, product(shape) >> exponent)
    assert product(shape_div(shape, shape)) == 1
    assert shape_div(shape, 1) == shape


def test_crd2crd_keeps_the_index(generator):
    shape = drawn(generator)
    index = generator.randrange(product(shape))
    coord = crd2crd(index, shape)
    assert crd2crd(coord, product(shape), shape) == index
    assert crd2crd(coord, shape) == coord


def test_elem_scale_and_tuple_max(generator):
    shape = drawn(generator)
    assert flatten(elem_scale(shape, shape)) == tuple(x * x for x in flatten(shape))
    assert tuple_max(shape) == max(flatten(shape))
    assert elem_scale((2, 3), (4, (2, 2))) == (8, 12)


def test_integers():
    assert all(isinstance(value, Integer) for value in (0, -3, np.int64(2), np.uint8(1)))
    assert not any(isinstance(value, Integer) for value in (True, 1.0, "1", (1,), None, np.True_))
    assert issubclass(int, Integer)
    assert not issubclass(float, Integer)
    assert is_int(4)
    assert has_none((1, (2, None)))
    assert not has_none((1, 2))


def test_run_time_leaves_stay_known_by_what_divides_them():
    assert prefix_product((4, Dyn(div=8), 2)) == (1, 4, Dyn(div=32))
    assert inner_product((Dyn(div=4), 2), (2, 8)) == Dyn(div=8)
    assert shape_div(Dyn(div=8), 4) == Dyn(div=2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shape_div(6, 4), "one divides the other, got 6 and 4"),
        (lambda: shape_div(6, 0), "one divides the other, got 6 and 0"),
        (lambda: shape_div((4, 2), (2,)), "tuples of one rank"),
        (lambda: inner_product((1, 2), 3), "tuples of one rank"),
        (lambda: inner_product((1, 2), (1, 2, 3)), "tuples of one rank"),
        (lambda: prefix_product(4, (1, 2)), "tuples of one rank"),
        (lambda: elem_scale((1, 2), 3), "tuples of one rank"),
        (lambda: crd2crd((1, 1), 32), "expected src_shape"),
        (lambda: tuple_max(()), "a tuple with a leaf"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(LayoutError, match=message):
        call()
