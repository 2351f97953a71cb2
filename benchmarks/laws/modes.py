"""Taking layouts apart by mode, and putting them together."""

from __future__ import annotations

from cutedialect import layout as algebra
from cutedialect.layout import Layout

from .case import Case, defined, law

_PAD = Layout(1, 0)


@law
def a_mode_is_found_by_its_number(case: Case) -> bool:
    return [algebra.get(case.layout, mode) for mode in range(len(case.layout))] == case.modes


@law
def modes_put_together_are_the_layout(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    return algebra.make_layout(*case.modes) == case.layout


@law
def taking_modes_gives_their_function(case: Case) -> bool:
    return defined(algebra.take(case.layout, 0, 1)) == defined(case.modes[0])


@law
def taking_all_modes_takes_nothing_away(case: Case) -> bool:
    return list(algebra.take(case.layout, 0, len(case.layout))) == case.modes


@law
def two_parts_of_the_modes_are_all_of_them(case: Case) -> bool:
    ranks = len(case.layout)
    middle = ranks // 2
    parts = algebra.take(case.layout, 0, middle), algebra.take(case.layout, middle, ranks)
    return [mode for part in parts for mode in list(part) if part.shape != ()] == case.modes


@law
def what_is_appended_is_the_last_mode(case: Case) -> bool:
    made = algebra.append(case.layout, Layout(2, 77))
    return list(made) == [*case.modes, Layout(2, 77)]


@law
def what_is_prepended_is_the_first_mode(case: Case) -> bool:
    made = algebra.prepend(case.layout, Layout(2, 77))
    return list(made) == [Layout(2, 77), *case.modes]


@law
def an_appended_mode_of_one_element_keeps_the_function(case: Case) -> bool:
    return case.same(algebra.append(case.layout, _PAD, len(case.layout) + 1))


@law
def appending_up_to_the_rank_changes_nothing(case: Case) -> bool:
    return list(algebra.append(case.layout, _PAD, len(case.layout))) == case.modes


@law
def replacing_a_mode_with_itself_changes_nothing(case: Case) -> bool:
    made = algebra.replace(case.layout, 0, case.modes[0])
    return list(made) == case.modes


@law
def a_replaced_mode_leaves_the_others(case: Case) -> bool:
    last = len(case.layout) - 1
    made = algebra.replace(case.layout, last, Layout(5, 3))
    return list(made) == [*case.modes[:-1], Layout(5, 3)]


@law
def selecting_all_modes_changes_nothing(case: Case) -> bool:
    return list(algebra.select(case.layout, tuple(range(len(case.layout))))) == case.modes


@law
def modes_in_another_order_are_put_back(case: Case) -> bool:
    order = tuple(reversed(range(len(case.layout))))
    there = algebra.select(case.layout, order)
    return list(algebra.select(there, order)) == case.modes


@law
def turned_modes_have_the_offsets_of_turned_coordinates(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    turned = algebra.select(case.layout, tuple(reversed(range(len(case.layout)))))
    return [turned(coord[::-1]) for coord in case.coordinates] == case.offsets


@law
def grouping_keeps_the_function(case: Case) -> bool:
    counts = range(1, len(case.layout) + 1)
    return all(case.same(algebra.group(case.layout, 0, count)) for count in counts)


@law
def a_group_has_the_modes(case: Case) -> bool:
    made = algebra.group(case.layout, 0, len(case.layout))
    return len(made) == 1 and list(made[0]) == case.modes


@law
def grouped_modes_flatten_to_the_same(case: Case) -> bool:
    made = algebra.group_modes(case.layout, 0, len(case.layout))
    return algebra.flatten(made) == Layout(*map(_as_tuple, (case.flat.shape, case.flat.stride)))


def _as_tuple(value: object) -> object:
    return value if isinstance(value, tuple) else (value,)


@law
def flattening_keeps_the_function(case: Case) -> bool:
    return case.same(algebra.flatten(case.layout))


@law
def flattening_twice_is_flattening(case: Case) -> bool:
    once = algebra.flatten(case.layout)
    return algebra.flatten(once) == once


@law
def what_is_flat_has_no_deeper_modes(case: Case) -> bool:
    return algebra.depth(algebra.flatten(case.layout)) <= 1


@law
def the_identity_gives_each_coordinate(case: Case) -> bool:
    identity = algebra.make_identity_layout(case.extents)
    coords = case.coordinates[:16]
    return all(
        identity(coord) == (coord if isinstance(coord, tuple) else (coord,)) for coord in coords
    )


@law
def the_identity_gives_the_coordinate_of_an_index(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    identity = algebra.make_identity_layout(case.extents)
    return all(identity(at) == coord for at, coord in enumerate(case.coordinates[:16]))


@law
def a_layout_after_the_identity_is_the_layout(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    identity = algebra.make_identity_layout(case.extents)
    return all(case.layout(identity(at)) == offset for at, offset in enumerate(case.offsets[:16]))
