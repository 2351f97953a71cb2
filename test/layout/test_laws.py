"""The algebra does what its definitions say, on all small layouts."""

import re
from itertools import pairwise
from itertools import product as cartesian

import pytest

from cutedialect.layout import (
    Layout,
    LayoutError,
    coalesce,
    complement,
    composition,
    filter,
    left_inverse,
    logical_divide,
    logical_product,
    right_inverse,
)

EXTENTS = (1, 2, 3, 4)
STRIDES = (0, 1, 2, 3, 4, 6)


def layouts(rank, extents=EXTENTS, strides=STRIDES):
    for shape in cartesian(extents, repeat=rank):
        for stride in cartesian(strides, repeat=rank):
            yield Layout(shape, stride) if rank > 1 else Layout(shape[0], stride[0])


SMALL = [*layouts(1), *layouts(2)]
NESTED = [
    Layout(((s0, s1), s2), ((d0, d1), d2))
    for s0, s1, s2 in cartesian((1, 2, 3), repeat=3)
    for d0, d1, d2 in cartesian((0, 1, 2, 6), repeat=3)
]


def by_definition(layout):
    """Offsets from the definition alone: digits of the index, last mode unbounded."""
    flat_shape, flat_stride = [], []

    def walk(shape, stride):
        for s, d in zip(shape, stride, strict=True) if isinstance(shape, tuple) else ():
            walk(s, d)
        if not isinstance(shape, tuple):
            flat_shape.append(shape)
            flat_stride.append(stride)

    walk(layout.shape, layout.stride)

    def at(index):
        total = 0
        for s, d in zip(flat_shape[:-1], flat_stride[:-1], strict=True):
            total += index % s * d
            index //= s
        return total + index * flat_stride[-1]

    return at


@pytest.mark.parametrize("some", [SMALL, NESTED], ids=["flat", "nested"])
def test_call_and_offsets_are_the_definition(some):
    for layout in some:
        at = by_definition(layout)
        count = layout.size()
        assert (
            layout.offsets() == [at(i) for i in range(count)] == [layout(i) for i in range(count)]
        )
        assert [layout(i) for i in range(count, count + 7)] == [
            at(i) for i in range(count, count + 7)
        ]


@pytest.mark.parametrize("some", [SMALL, NESTED], ids=["flat", "nested"])
def test_cosize_is_one_more_than_the_largest_offset(some):
    for layout in some:
        assert layout.cosize() == max(layout.offsets()) + 1
    assert Layout((4, 2), (-1, -8)).cosize() == 12


@pytest.mark.parametrize("some", [SMALL, NESTED], ids=["flat", "nested"])
def test_coalesce_keeps_the_function_and_is_flat(some):
    for layout in some:
        result = coalesce(layout)
        assert result.offsets() == layout.offsets()
        assert result.depth() <= 1
        assert coalesce(result) == result
        if len(result) > 1:
            pairs = list(zip(result.shape, result.stride, strict=True))
            assert all(s > 1 for s, _ in pairs)
            assert all(d != s0 * d0 for (s0, d0), (_, d) in pairwise(pairs))
        by_mode = coalesce(layout, (1,) * len(layout))
        assert by_mode.offsets() == layout.offsets()
        assert [m.size() for m in by_mode] == [m.size() for m in layout]


def test_filter_keeps_the_set_of_offsets():
    for layout in SMALL + NESTED:
        assert set(filter(layout).offsets()) == set(layout.offsets())


def factors(values):
    """Whether values[i] == L(i) for some layout L of that size, by trying all factorizations."""
    if len(values) == 1:
        return values[0] == 0
    count = len(values)
    if values[0] != 0:
        return False
    for first in range(2, count + 1):
        if count % first:
            continue
        step = values[1]
        if any(values[i] != i * step for i in range(first)):
            continue
        blocks = range(0, count, first)
        if all(values[b + i] == values[b] + values[i] for b in blocks for i in range(first)):
            rest = [values[b] for b in blocks]
            if len(rest) == 1 or factors(rest):
                return True
    return False


def test_composition_with_one_mode_exists_exactly_when_a_layout_is_the_function():
    found = refused = 0
    for a in layouts(2, extents=(2, 3, 4, 5), strides=(0, 1, 2, 5)):
        for size, stride in cartesian((1, 2, 3, 4, 6), (0, 1, 2, 3, 4, 5)):
            b = Layout(size, stride)
            values = [a(i * stride) for i in range(size)]
            if not factors(values):
                refused += 1
                with pytest.raises(LayoutError, match=re.escape(f"{a} o {b}")):
                    composition(a, b)
                continue
            found += 1
            result = composition(a, b)
            assert result.offsets() == values, f"{a} o {b} = {result}"
            assert result.size() == size
    assert found > 1000
    assert refused > 100


def test_composition_is_never_a_wrong_layout():
    right = [
        Layout((s0, s1), (d0, d1))
        for s0, s1 in cartesian((2, 3, 4), repeat=2)
        for d0, d1 in cartesian((0, 1, 2, 3, 4, 6), repeat=2)
    ]
    refused = 0
    for a in layouts(2, extents=(2, 3, 6), strides=(0, 1, 2, 7)):
        for b in right:
            try:
                result = composition(a, b)
            except LayoutError:
                refused += 1
                continue
            assert result.offsets() == [a(i) for i in b.offsets()], f"{a} o {b} = {result}"
    assert refused > 0


def test_composition_is_associative_where_it_exists():
    checked = 0
    for a in layouts(2, extents=(2, 4), strides=(1, 2, 8)):
        for b in layouts(2, extents=(2, 4), strides=(1, 2, 4)):
            for c in (Layout(2, 1), Layout(4, 2), Layout((2, 2), (2, 1))):
                try:
                    one = composition(composition(a, b), c)
                    other = composition(a, composition(b, c))
                except LayoutError:
                    continue
                checked += 1
                inside = max(c.offsets()) < b.size()
                if inside:
                    assert one.offsets() == other.offsets()
    assert checked > 100


def test_complement_is_disjoint_ordered_and_bounded():
    refused = 0
    for layout in SMALL:
        for cotarget in (1, 6, 8, 24):
            try:
                rest = complement(layout, cotarget)
            except LayoutError:
                refused += 1
                continue
            offsets = rest.offsets()
            assert offsets == sorted(set(offsets)), f"{layout}* = {rest}"
            assert set(offsets) & set(layout.offsets()) <= {0}, f"{layout}* = {rest}"
            kept = filter(layout)
            pairs = {x + y for x in kept.offsets() for y in offsets}
            assert len(pairs) == kept.size() * rest.size(), f"{layout}* = {rest}"
    assert refused > 0


def test_complement_refuses_what_is_not_injective():
    for layout in SMALL:
        kept = filter(layout)
        if len(set(kept.offsets())) != kept.size():
            with pytest.raises(LayoutError, match="modes that nest"):
                complement(layout, 24)


def test_right_inverse_is_the_identity_on_its_domain():
    for layout in SMALL + NESTED:
        inverse = right_inverse(layout)
        assert [layout(inverse(i)) for i in range(inverse.size())] == list(range(inverse.size()))


def test_right_inverse_of_a_bijection_is_whole():
    for layout in SMALL + NESTED:
        if sorted(layout.offsets()) == list(range(layout.size())):
            assert right_inverse(layout).size() == layout.size()


def test_left_inverse_undoes_injective_layouts():
    undone = refused = 0
    for layout in SMALL + NESTED:
        offsets = layout.offsets()
        try:
            inverse = left_inverse(layout)
        except LayoutError:
            refused += 1
            continue
        assert [layout(inverse(at)) for at in offsets] == offsets, f"{layout}: {inverse}"
        if len(set(offsets)) == len(offsets):
            undone += 1
            assert [inverse(at) for at in offsets] == list(range(len(offsets)))
    assert undone > 100
    assert refused > 0


def test_logical_divide_is_composition_with_tile_and_complement():
    checked = 0
    for layout in layouts(2, extents=(2, 4, 6), strides=(1, 2, 6)):
        for tiler in (Layout(2, 1), Layout(3, 2), Layout(2, 4), Layout((2, 2), (1, 4))):
            try:
                result = logical_divide(layout, tiler)
            except LayoutError:
                continue
            rest = complement(tiler, layout.size())
            checked += 1
            assert len(result) == 2
            assert result.offsets() == [
                layout(x + y) for y in rest.offsets() for x in tiler.offsets()
            ]
    assert checked > 50


def test_logical_product_repeats_the_block():
    checked = 0
    for block in layouts(2, extents=(2, 3), strides=(0, 1, 2, 6)):
        for tiler in (Layout(3, 1), Layout(2, 2), Layout((2, 2), (2, 1)), Layout(4, 0)):
            try:
                result = logical_product(block, tiler)
            except LayoutError:
                continue
            checked += 1
            assert result[0] == block
            rest = complement(block, block.size() * tiler.cosize())
            assert result[1].offsets() == [rest(i) for i in tiler.offsets()]
    assert checked > 50
