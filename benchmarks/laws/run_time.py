"""Layouts whose extents and strides are known at run time alone: what the algebra computes of
expressions is what it computes of their numbers.
"""

from __future__ import annotations

from typing import Any

from cutedialect import layout as algebra
from cutedialect.layout import Expression, Layout
from cutedialect.layout.expression import dynamic_leaves, is_static_value, leaf, map_dynamic

from .case import TILES, Case, defined, family, known, law


def _dynamic(case: Case, extents: bool = True) -> tuple[Layout, dict[Any, int]]:
    """The layout with an expression for each stride, and each extent, above 1; and the numbers."""
    numbers: dict[Any, int] = {}

    def unknown(value: int) -> Any:
        if value <= 1:
            return value
        name = f"x{len(numbers)}"
        numbers[name] = value
        return leaf(name)

    shape = tuple(unknown(size) if extents else size for size, _ in case.pairs)
    stride = tuple(unknown(step) for _, step in case.pairs)
    return Layout(shape, stride), numbers


@law
def run_time_leaves_have_their_numbers(case: Case) -> bool:
    layout, numbers = _dynamic(case)
    return algebra.evaluate(layout, numbers) == Layout(*zip(*case.pairs, strict=True))


@law
def run_time_offsets_are_those_of_the_numbers(case: Case) -> bool:
    layout, numbers = _dynamic(case)
    step = 1 + case.size // 2
    return [
        algebra.evaluate(layout(at), numbers) for at in range(0, case.size, step)
    ] == case.offsets[::step]


@law
def run_time_sizes_are_those_of_the_numbers(case: Case) -> bool:
    layout, numbers = _dynamic(case)
    return algebra.evaluate(algebra.tuple_product(layout.shape), numbers) == case.size


@law
def run_time_coordinates_are_those_of_the_numbers(case: Case) -> bool:
    layout, numbers = _dynamic(case)
    coord = algebra.idx2crd(case.size - 1, layout.shape)
    return algebra.evaluate(coord, numbers) == algebra.idx2crd(case.size - 1, case.flat.shape)


@family(("coalesce", "filter_zeros", "flatten"), "{}_of_run_time_leaves_keeps_their_function")
def _keeps(name):
    function = getattr(algebra, name)

    def check(case: Case) -> bool | None:
        layout, numbers = _dynamic(case)
        made = known(function, layout)
        if made is None:
            return None
        number = algebra.evaluate(made, numbers)
        return (
            defined(number) == defined(algebra.filter_zeros(case.flat))
            if (name == "filter_zeros")
            else case.same(number)
        )

    return check


@law
def run_time_strides_compose(case: Case) -> bool | None:
    """With extents that are known the composition is that of the numbers."""
    layout, numbers = _dynamic(case, extents=False)
    said = None
    for tile in TILES[:3]:
        made = known(algebra.composition, layout, tile)
        if made is None or tile.cosize() > case.size:
            continue
        number = algebra.evaluate(made, numbers)
        said = True
        if defined(number) != [case.offsets[at] for at in defined(tile)]:
            return False
    return said


@law
def run_time_extents_compose_where_they_divide(case: Case) -> bool | None:
    """Powers of two divide those of the tiles; other extents are undefined, as in CuTe."""
    if any(extent & (extent - 1) for extent, _ in case.pairs):
        return None
    layout, numbers = _dynamic(case)
    said = None
    for tile in TILES[:3]:
        made = known(algebra.composition, layout, tile)
        static = known(algebra.composition, case.flat, tile)
        if made is None or static is None or tile.cosize() > case.size:
            continue
        number = algebra.evaluate(made, numbers)
        said = True
        if defined(number) != [case.offsets[at] for at in defined(tile)]:
            return False
    return said


@law
def run_time_extents_are_divided_by_tiles(case: Case) -> bool | None:
    if any(extent % 2 for extent, _ in case.pairs):
        return None
    layout, numbers = _dynamic(case)
    parts = (2,) * len(case.pairs)
    made = known(algebra.zipped_divide, layout, parts)
    if made is None:
        return None
    number = algebra.evaluate(made, numbers)
    return defined(number) == defined(algebra.zipped_divide(case.flat, parts))


@law
def a_complement_of_a_run_time_stride_is_that_of_its_number(case: Case) -> bool | None:
    coalesced = case.coalesced
    if isinstance(coalesced.shape, tuple) or coalesced.stride < 2:
        return None
    total = 2 * coalesced.cosize()
    made = known(algebra.complement, Layout(coalesced.shape, leaf("d")), total)
    if made is None:
        return None
    number = algebra.evaluate(made, {"d": coalesced.stride})
    return defined(number) == defined(algebra.complement(coalesced, total))


@law
def run_time_leaves_are_found(case: Case) -> bool:
    layout, numbers = _dynamic(case)
    names = [one.args[0] for one in dynamic_leaves(layout) if isinstance(one, Expression)]
    return sorted(names) == sorted(numbers) and is_static_value(layout) == (not numbers)


@law
def run_time_leaves_are_replaced_in_their_order(case: Case) -> bool:
    layout, numbers = _dynamic(case)
    values = iter(numbers.values())
    return map_dynamic(layout, lambda _: next(values)) == algebra.evaluate(layout, numbers)


@law
def comparing_run_time_leaves_compares_their_numbers(case: Case) -> bool:
    layout, numbers = _dynamic(case)
    same = algebra.equal(layout, Layout(*zip(*case.pairs, strict=True)))
    return bool(algebra.evaluate(same, numbers))


@law
def the_next_run_time_coordinate_is_that_of_the_numbers(case: Case) -> bool:
    layout, numbers = _dynamic(case)
    coord = algebra.idx2crd(case.size // 2, case.flat.shape)
    made = algebra.increment_coord(coord, layout.shape)
    return algebra.evaluate(made, numbers) == algebra.increment_coord(coord, case.flat.shape)
