"""Swizzles, and layouts that go through one."""

from __future__ import annotations

import pickle

from cutedialect import layout as algebra
from cutedialect.layout import ComposedLayout, Layout, Swizzle

from .case import Case, law

_SWIZZLES = (Swizzle(1, 0, 1), Swizzle(2, 1, 3), Swizzle(3, 3, 3), Swizzle(2, 0, -2))
_SWIZZLE = _SWIZZLES[1]


def _composed(case: Case) -> ComposedLayout:
    return ComposedLayout(_SWIZZLE, 3, case.layout)


@law
def a_swizzle_undoes_itself(case: Case) -> bool:
    return all(swizzle(swizzle(at)) == at for swizzle in _SWIZZLES for at in case.offsets)


@law
def a_swizzle_exchanges_bits_of_the_offset(case: Case) -> bool:
    """From the definition: bits at `base` are combined with those `shift` higher."""
    bits, base, shift = _SWIZZLE.bits, _SWIZZLE.base, _SWIZZLE.shift
    for at in case.offsets:
        wanted = at
        for bit in range(base, base + bits):
            if at >> (bit + shift) & 1:
                wanted ^= 1 << bit
        if _SWIZZLE(at) != wanted:
            return False
    return True


@law
def a_swizzle_keeps_what_is_injective(case: Case) -> bool | None:
    if not case.is_injective:
        return None
    return len({_SWIZZLE(at) for at in case.offsets}) == case.size


@law
def a_swizzle_repeats(case: Case) -> bool:
    repeat = _SWIZZLE.repeat
    return all(_SWIZZLE(at + repeat) == _SWIZZLE(at) + repeat for at in case.offsets)


@law
def a_swizzle_keeps_what_is_below_its_base(case: Case) -> bool:
    return all(
        _SWIZZLE(at) % (1 << _SWIZZLE.base) == at % (1 << _SWIZZLE.base) for at in case.offsets
    )


@law
def a_swizzle_of_no_bits_changes_nothing(case: Case) -> bool:
    return [Swizzle(0, 2, 3)(at) for at in case.offsets] == case.offsets


@law
def a_swizzle_after_a_layout_is_a_composition(case: Case) -> bool:
    made = algebra.composition(_SWIZZLE, case.layout)
    return made.offsets() == [_SWIZZLE(at) for at in case.offsets]


@law
def a_composed_layout_is_outer_of_offset_and_inner(case: Case) -> bool:
    return _composed(case).offsets() == [_SWIZZLE(3 + at) for at in case.offsets]


@law
def a_composed_layout_is_called_by_coordinates(case: Case) -> bool:
    composed, step = _composed(case), 1 + case.size // 8
    coords = case.coordinates[::step]
    return [composed(coord) for coord in coords] == composed.offsets()[::step]


@law
def a_composed_layout_has_the_size_of_what_is_inside(case: Case) -> bool:
    composed = _composed(case)
    return composed.size() == case.size and composed.rank() == case.layout.rank()


@law
def the_cosize_of_a_composed_layout_is_one_more_than_its_last_offset(case: Case) -> bool:
    composed = _composed(case)
    return composed.cosize() == 1 + max(composed.offsets())


@law
def the_text_of_a_composed_layout_is_read_as_it_was_written(case: Case) -> bool:
    composed = _composed(case)
    return algebra.parse_composed_layout(str(composed)) == composed


@law
def a_pickled_composed_layout_is_the_same(case: Case) -> bool:
    composed = _composed(case)
    return pickle.loads(pickle.dumps(composed)) == composed


@law
def a_slice_of_a_composed_layout_keeps_its_place(case: Case) -> bool | None:
    if len(case.layout) < 2:
        return None
    composed = _composed(case)
    last = tuple(extent - 1 for extent in case.extents[1:])
    part = composed(None, *last)
    return [part(at) for at in range(case.extents[0])] == [
        composed((at, *last)) for at in range(case.extents[0])
    ]


@law
def coalescing_a_composed_layout_keeps_its_function(case: Case) -> bool:
    composed = _composed(case)
    return algebra.coalesce(composed).offsets() == composed.offsets()


@law
def flattening_a_composed_layout_keeps_its_function(case: Case) -> bool:
    composed = _composed(case)
    return algebra.flatten(composed).offsets() == composed.offsets()


@law
def a_swizzle_after_itself_is_the_layout(case: Case) -> bool:
    swizzled = algebra.composition(_SWIZZLE, case.layout)
    return algebra.composition(_SWIZZLE, swizzled) == case.layout


@law
def a_moved_composed_layout_is_moved_inside(case: Case) -> bool:
    moved = algebra.offset_by(_composed(case), 5)
    return moved.offsets() == [_SWIZZLE(8 + at) for at in case.offsets]


@law
def recasting_moves_a_swizzle_with_the_bytes(case: Case) -> bool:
    """What is exchanged of 16-bit elements is the same of their bytes."""
    bytes_ = algebra.recast(_SWIZZLE, 16, 8)
    return [bytes_(2 * at) for at in case.offsets] == [2 * _SWIZZLE(at) for at in case.offsets]


@law
def a_layout_outside_a_layout_is_their_composition(case: Case) -> bool:
    composed = ComposedLayout(Layout(4096, 3), 2, case.layout)
    return composed.offsets() == [3 * (2 + at) for at in case.offsets]
