"""`python -m benchmarks.layout_laws [--count N] [--seed S] [--law NAME]`: the laws of the layout
algebra on every compact layout of at most 4 modes with extents up to 4, in all orders of strides,
on every layout of at most 2 modes with strides up to twice its size, and on drawn ones beyond.

A law is a statement about the functions that layouts are, checked against their definition: digits
of the index times strides. Prints each layout that breaks one, and how many layouts each law was
about; exits 1 where one is broken.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations, product
from math import prod

from cutedialect import layout as algebra
from cutedialect.layout import Layout, LayoutError

Law = Callable[[Layout], bool]
LAWS: dict[str, Law] = {}
"""What holds of every layout, by name."""
_EXTENTS = (1, 2, 3, 4)
_DIVIDES = ("logical_divide", "zipped_divide", "tiled_divide", "flat_divide")
_PRODUCTS = (
    "logical_product", "zipped_product", "tiled_product", "flat_product", "blocked_product",
    "raked_product",
)  # fmt: skip
# Tiles by which layouts are divided, each with the extent that it and its complement cover whole.
_PERIODS = {Layout(2): 2, Layout(2, 2): 4, Layout((2, 2), (1, 4)): 8, Layout(3): 3}
_TILES = tuple(_PERIODS)
# Elements above which a law takes as long as many others.
_LARGEST = 256


def law(check: Law) -> Law:
    """Register a law under the name of its function."""
    LAWS[check.__name__] = check
    return check


def defined(layout: Layout) -> list[int]:
    """Offsets from the definition alone."""
    pairs = list(zip(algebra.flatten(layout.shape), algebra.flatten(layout.stride), strict=True))
    found: list[int] = []
    for index in range(prod(extent for extent, _ in pairs)):
        offset = 0
        for extent, stride in pairs:
            offset += index % extent * stride
            index //= extent
        found.append(offset)
    return found


def compact_layouts() -> Iterator[Layout]:
    """Every compact layout of at most 4 modes with extents up to 4, in all orders."""
    for rank in range(1, 5):
        for shape in product(_EXTENTS, repeat=rank):
            for order in permutations(range(rank)):
                strides, size = [0] * rank, 1
                for mode in order:
                    strides[mode] = size
                    size *= shape[mode]
                yield Layout(shape, tuple(strides))


def strided_layouts() -> Iterator[Layout]:
    """Every layout of at most 2 modes with extents up to 4 and strides up to twice its size."""
    for rank in (1, 2):
        for shape in product(_EXTENTS, repeat=rank):
            for strides in product(range(2 * prod(shape) + 1), repeat=rank):
                yield Layout(shape, strides)


def drawn_layouts(seed: int) -> Iterator[Layout]:
    """Endlessly many layouts of up to 5 modes, some of them nested."""
    draw = random.Random(seed)
    while True:
        shape = [draw.choice((1, 2, 2, 3, 4, 5, 8)) for _ in range(draw.randint(1, 5))]
        if prod(shape) > _LARGEST:
            continue
        if draw.random() < 0.5:
            order = draw.sample(range(len(shape)), len(shape))
            stride, size = [0] * len(shape), draw.choice((1, 1, 1, 2, 3))
            for mode in order:
                stride[mode] = size
                size *= shape[mode] * draw.choice((1, 1, 1, 2))
        else:
            stride = [draw.choice((0, 1, 2, 3, 4, 6, 8, 12, 16, 64)) for _ in shape]
        if len(shape) > 2 and draw.random() < 0.5:
            shape, stride = [tuple(shape[:2]), *shape[2:]], [tuple(stride[:2]), *stride[2:]]
        yield Layout(tuple(shape), tuple(stride))


def _is_injective(layout: Layout) -> bool:
    found = defined(layout)
    return len(set(found)) == len(found)


def _same(one: Layout, other: Layout) -> bool:
    return defined(one) == defined(other)


@law
def calls_and_offsets_are_the_definition(layout: Layout) -> bool:
    found = defined(layout)
    return layout.offsets() == found and [layout(i) for i in range(len(found))] == found


@law
def the_size_is_that_of_the_domain(layout: Layout) -> bool:
    return layout.size() == len(defined(layout)) == algebra.size(layout.shape)


@law
def the_cosize_is_one_more_than_the_last_offset(layout: Layout) -> bool:
    return layout.cosize() == max(defined(layout)) + 1


@law
def text_is_read_as_it_was_written(layout: Layout) -> bool:
    return algebra.parse_layout(str(layout)) == layout


@law
def a_coordinate_has_the_offset_of_its_index(layout: Layout) -> bool:
    shape = layout.shape
    return all(
        layout(algebra.idx2crd(index, shape)) == offset
        for index, offset in enumerate(defined(layout))
    )


@law
def coalescing_keeps_the_function(layout: Layout) -> bool:
    return _same(algebra.coalesce(layout), layout)


@law
def coalescing_twice_is_coalescing(layout: Layout) -> bool:
    once = algebra.coalesce(layout)
    return algebra.coalesce(once) == once


@law
def coalescing_leaves_no_more_modes(layout: Layout) -> bool:
    flat = algebra.flatten(layout)
    return len(algebra.coalesce(layout)) <= max(1, len(flat))


@law
def flattening_keeps_the_function(layout: Layout) -> bool:
    return _same(algebra.flatten(layout), layout)


@law
def filtering_keeps_the_set_of_offsets(layout: Layout) -> bool:
    return set(defined(algebra.filter(layout))) == set(defined(layout))


@law
def grouping_keeps_the_function(layout: Layout) -> bool:
    return all(
        _same(algebra.group(layout, 0, count), layout) for count in range(1, len(layout) + 1)
    )


@law
def the_identity_changes_nothing_from_the_right(layout: Layout) -> bool:
    return _same(algebra.composition(layout, Layout(layout.size())), layout)


@law
def the_identity_changes_nothing_from_the_left(layout: Layout) -> bool:
    return _same(algebra.composition(Layout(layout.cosize()), layout), layout)


@law
def a_composition_is_that_of_the_functions(layout: Layout) -> bool:
    for tile in _TILES:
        if tile.cosize() > layout.size():
            continue
        try:
            made = algebra.composition(layout, tile)
        except LayoutError:
            continue
        found = defined(layout)
        if defined(made) != [found[at] for at in defined(tile)]:
            return False
    return True


@law
def a_right_inverse_is_one(layout: Layout) -> bool:
    inverse, found = algebra.right_inverse(layout), defined(layout)
    return [found[at] for at in defined(inverse)] == list(range(inverse.size()))


@law
def a_left_inverse_is_one(layout: Layout) -> bool:
    if not _is_injective(layout):
        return True
    try:
        inverse = algebra.left_inverse(layout)
    except LayoutError:
        return True
    return all(inverse(offset) == index for index, offset in enumerate(defined(layout)))


@law
def a_complement_is_disjoint(layout: Layout) -> bool:
    try:
        rest = algebra.complement(layout, 2 * layout.cosize())
    except LayoutError:
        return True
    mine, others = set(defined(algebra.filter(layout))), defined(rest)
    return not mine & set(others[1:])


@law
def a_complement_is_ordered(layout: Layout) -> bool:
    try:
        others = defined(algebra.complement(layout, 2 * layout.cosize()))
    except LayoutError:
        return True
    return others == sorted(set(others))


@law
def a_layout_and_its_complement_have_each_number_once(layout: Layout) -> bool:
    """Where each stride is a multiple of what the modes of smaller ones cover."""
    covered, kept = 1, algebra.filter(layout)
    pairs = zip(algebra.flatten(kept.stride), algebra.flatten(kept.shape), strict=True)
    for stride, extent in sorted(pairs):
        if stride and stride % covered:
            return True
        covered = max(stride, 1) * extent
    rest = algebra.complement(kept, 2 * covered)
    sums = sorted(a + b for a in defined(kept) for b in defined(rest))
    return sums == list(range(2 * covered))


@law
def the_nullspace_goes_to_zero(layout: Layout) -> bool:
    null, found = algebra.nullspace(layout), defined(layout)
    return all(found[at] == 0 for at in defined(null))


@law
def the_nullspace_is_all_that_strides_of_zero_leave(layout: Layout) -> bool:
    pairs = zip(algebra.flatten(layout.shape), algebra.flatten(layout.stride), strict=True)
    return algebra.nullspace(layout).size() == prod(extent for extent, d in pairs if d == 0)


@law
def a_layout_like_another_is_compact(layout: Layout) -> bool:
    like = algebra.make_layout_like(layout)
    return sorted(set(defined(like))) == list(range(like.cosize()))


@law
def a_layout_like_another_has_its_shape_and_zeros(layout: Layout) -> bool:
    like = algebra.make_layout_like(layout)
    zeros = [
        (extent == 1 or stride == 0) == (extent == 1 or other == 0)
        for extent, stride, other in zip(
            algebra.flatten(layout.shape),
            algebra.flatten(layout.stride),
            algebra.flatten(like.stride),
            strict=True,
        )
    ]
    return like.shape == layout.shape and all(zeros)


@law
def taking_modes_gives_their_function(layout: Layout) -> bool:
    first = algebra.take(layout, 0, 1)
    return defined(first) == defined(layout[0])


@law
def wider_elements_are_those_of_narrower_ones(layout: Layout) -> bool:
    try:
        narrow = algebra.downcast(layout, 2)
    except LayoutError:
        return True
    return _same(algebra.upcast(narrow, 2), layout)


def _divides(name: str) -> Law:
    def check(layout: Layout) -> bool:
        """All elements, tile by tile: the first ones are those of the first tile."""
        divide = getattr(algebra, name)
        for tile, period in _PERIODS.items():
            flat = algebra.coalesce(layout)
            if len(flat) != 1 or flat.size() % period:
                continue
            try:
                made = divide(flat, tile)
            except LayoutError:
                continue
            found = defined(flat)
            if sorted(defined(made)) != sorted(found):
                return False
            if defined(made)[: tile.size()] != [found[at] for at in defined(tile)]:
                return False
        return True

    return check


def _multiplies(name: str) -> Law:
    def check(layout: Layout) -> bool:
        """As many elements as both have together; where offsets differ, so do the product's."""
        multiply = getattr(algebra, name)
        tile = Layout(2) if len(layout) == 1 else Layout((2, *(1,) * (len(layout) - 1)))
        try:
            made = multiply(layout, tile)
            whole = algebra.logical_product(layout, tile)
        except LayoutError:
            return True
        if made.size() != layout.size() * tile.size():
            return False
        return sorted(defined(made)) == sorted(defined(whole))

    return check


def _repeats_the_block(layout: Layout) -> bool:
    """The first elements of a logical product are the block."""
    try:
        made = algebra.logical_product(layout, Layout(2))
    except LayoutError:
        return True
    return defined(made)[: layout.size()] == defined(layout)


LAWS |= {f"{name}_reorders_by_tiles": _divides(name) for name in _DIVIDES}
LAWS |= {f"{name}_has_the_elements_of_the_logical_one": _multiplies(name) for name in _PRODUCTS}
LAWS["a_product_begins_with_the_block"] = _repeats_the_block


def broken(
    layouts: Iterator[Layout] | Sequence[Layout], counts: Counter[str], only: str = ""
) -> int:
    """How many laws layouts break; each is printed."""
    faults = 0
    for layout in layouts:
        for name, check in LAWS.items():
            if only and name != only:
                continue
            counts[name] += 1
            if not check(layout):
                print(f"{name}: {layout}")
                faults += 1
    return faults


def main(arguments: Sequence[str] | None = None) -> int:
    """Check all laws; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.layout_laws",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=100_000, help="drawn layouts")
    parser.add_argument("--seed", type=int, default=0, help="of the drawn layouts")
    parser.add_argument("--law", default="", choices=("", *LAWS), help="this one alone")
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    faults = broken(compact_layouts(), counts, options.law)
    faults += broken(strided_layouts(), counts, options.law)
    drawn = (one for one, _ in zip(drawn_layouts(options.seed), range(options.count), strict=False))
    faults += broken(drawn, counts, options.law)
    least = min(counts.values())
    print(f"{len(counts)} laws of {least:,} layouts each, {faults} broken")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
