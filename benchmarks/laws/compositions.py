"""Composition: a layout of the indices that another one gives."""

from __future__ import annotations

from cutedialect import layout as algebra
from cutedialect.layout import Layout

from .case import TILES, Case, defined, known, law


@law
def the_identity_changes_nothing_from_the_right(case: Case) -> bool:
    return case.same(algebra.composition(case.layout, Layout(case.size)))


@law
def the_identity_changes_nothing_from_the_left(case: Case) -> bool:
    return case.same(algebra.composition(Layout(case.layout.cosize()), case.layout))


@law
def a_composition_is_that_of_the_functions(case: Case) -> bool | None:
    said = None
    for tile in TILES:
        made = known(algebra.composition, case.layout, tile) if tile.cosize() <= case.size else None
        if made is None:
            continue
        said = True
        if defined(made) != [case.offsets[at] for at in defined(tile)]:
            return False
    return said


@law
def a_composition_has_the_shape_of_what_is_inside(case: Case) -> bool | None:
    said = None
    for tile in TILES:
        made = known(algebra.composition, case.layout, tile)
        if made is None:
            continue
        said = True
        if not algebra.weakly_congruent(tile.shape, made.shape) or made.size() != tile.size():
            return False
    return said


@law
def a_number_inside_takes_the_first_elements(case: Case) -> bool | None:
    made = known(algebra.composition, case.layout, 2)
    if made is None or case.size < 2:
        return None
    return defined(made) == case.offsets[:2]


@law
def a_stride_inside_takes_every_such_element(case: Case) -> bool | None:
    said = None
    for step in (2, 3, 4):
        if case.size % step or case.size == step:
            continue
        made = known(algebra.composition, case.layout, Layout(case.size // step, step))
        if made is None:
            continue
        said = True
        if defined(made) != case.offsets[::step]:
            return False
    return said


@law
def a_stride_of_zero_inside_repeats_the_first_element(case: Case) -> bool:
    return set(defined(algebra.composition(case.layout, Layout(4, 0)))) == {0}


@law
def a_stride_outside_scales(case: Case) -> bool:
    made = algebra.composition(Layout(case.layout.cosize(), 5), case.layout)
    return defined(made) == [5 * at for at in case.offsets]


@law
def numbers_by_mode_take_the_first_of_each(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    counts = tuple(2 if extent % 2 == 0 else 1 for extent in case.extents)
    made = known(algebra.composition, case.layout, counts)
    if made is None:
        return None
    both = zip(made, case.modes, counts, strict=True)
    return all(defined(part) == defined(mode)[:count] for part, mode, count in both)


@law
def nothing_by_mode_keeps_each_mode(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    return list(algebra.composition(case.layout, (None,) * len(case.layout))) == case.modes


@law
def a_composition_by_mode_is_each_of_them(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    tiles = (2,) * len(case.layout)
    made = known(algebra.composition, case.layout, tiles)
    if made is None:
        return None
    return list(made) == [algebra.composition(mode, 2) for mode in case.modes]


@law
def compositions_associate(case: Case) -> bool | None:
    """A of (B of C) is (A of B) of C, where all of them are layouts."""
    said = None
    for one in (Layout(4), Layout((2, 2), (2, 1)), Layout((2, 3), (3, 1))):
        for other in (Layout(2), Layout(2, 2)):
            if one.cosize() > case.size or other.cosize() > one.size():
                continue
            left = known(algebra.composition, case.layout, one)
            right = known(algebra.composition, case.layout, algebra.composition(one, other))
            left = None if left is None else known(algebra.composition, left, other)
            if left is None or right is None:
                continue
            said = True
            if defined(left) != defined(right):
                return False
    return said


@law
def a_composition_with_two_modes_is_that_with_each(case: Case) -> bool | None:
    both = Layout((2, 2), (1, 2))
    made = known(algebra.composition, case.layout, both)
    if made is None or case.size < 4:
        return None
    return [defined(mode) for mode in made] == [
        defined(algebra.composition(case.layout, mode)) for mode in both
    ]


@law
def composing_asks_for_no_nesting_outside(case: Case) -> bool | None:
    said = None
    for tile in TILES:
        made, flat = (known(algebra.composition, one, tile) for one in (case.layout, case.flat))
        if (made is None) != (flat is None):
            return False
        if made is not None and flat is not None:
            said = True
            if made != flat:
                return False
    return said


@law
def a_layout_of_its_right_inverse_counts(case: Case) -> bool | None:
    inverse = case.right_inverse
    made = known(algebra.composition, case.layout, inverse)
    return None if made is None else defined(made) == list(range(inverse.size()))


@law
def a_right_inverse_composes(case: Case) -> bool:
    """Its modes are those of the layout: nothing carries."""
    return known(algebra.composition, case.layout, case.right_inverse) is not None


@law
def a_composed_layout_composes_inside(case: Case) -> bool | None:
    swizzled = algebra.composition(algebra.Swizzle(2, 1, 3), case.layout)
    made = known(algebra.composition, swizzled, Layout(2))
    if made is None or case.size < 2:
        return None
    return made.offsets() == swizzled.offsets()[:2]
