"""Layouts of the same bytes in elements of another size, and what two layouts have in common."""

from __future__ import annotations

from cutedialect import layout as algebra
from cutedialect.layout import Layout

from .case import Case, defined, known, law


@law
def wider_elements_are_those_of_narrower_ones(case: Case) -> bool | None:
    narrow = known(algebra.downcast, case.layout, 2)
    return None if narrow is None else case.same(algebra.upcast(narrow, 2))


@law
def narrower_elements_lie_inside_of_wider_ones(case: Case) -> bool | None:
    narrow = known(algebra.downcast, case.layout, 2)
    if narrow is None:
        return None
    return sorted(defined(narrow)) == sorted(
        2 * at + half for at in case.offsets for half in (0, 1)
    )


@law
def wider_elements_hold_the_narrower_ones(case: Case) -> bool | None:
    """Of modes that share no element: each of them is grouped by itself."""
    wide = known(algebra.upcast, case.layout, 2) if case.is_injective else None
    return None if wide is None else set(defined(wide)) == {at // 2 for at in case.offsets}


@law
def recasting_by_one_changes_nothing(case: Case) -> bool:
    layout = case.layout
    return algebra.upcast(layout, 1) == layout == algebra.downcast(layout, 1)


@law
def recasting_to_the_same_bits_changes_nothing(case: Case) -> bool:
    return algebra.recast(case.layout, 16, 16) == case.layout


@law
def recasting_to_fewer_bits_is_downcasting(case: Case) -> bool:
    made = known(algebra.recast, case.layout, 32, 8)
    return made == known(algebra.downcast, case.layout, 4)


@law
def recasting_to_more_bits_is_upcasting(case: Case) -> bool:
    made = known(algebra.recast, case.layout, 8, 16)
    return made == known(algebra.upcast, case.layout, 2)


@law
def recasting_there_and_back_changes_no_offset(case: Case) -> bool | None:
    there = known(algebra.recast, case.layout, 32, 16)
    return None if there is None else case.same(algebra.recast(there, 16, 32))


@law
def downcasting_in_two_steps_is_one(case: Case) -> bool | None:
    one = known(algebra.downcast, case.layout, 2)
    two = None if one is None else known(algebra.downcast, one, 2)
    return None if two is None else two == algebra.downcast(case.layout, 4)


@law
def upcasting_in_two_steps_is_one(case: Case) -> bool | None:
    one = known(algebra.upcast, case.layout, 2)
    two = None if one is None else known(algebra.upcast, one, 2)
    four = known(algebra.upcast, case.layout, 4)
    if two is None or four is None:
        return None
    return defined(two) == defined(four)


@law
def what_a_layout_has_in_common_with_itself_is_its_run(case: Case) -> bool:
    common = algebra.max_common_layout(case.layout, case.layout)
    return [case.offsets[at] for at in defined(common)] == list(range(common.size()))


@law
def a_common_layout_is_contiguous_in_both(case: Case) -> bool:
    other = Layout(case.size)
    common = algebra.max_common_layout(case.layout, other)
    indices = defined(common)
    return [case.offsets[at] for at in indices] == list(range(len(indices))) == indices


@law
def a_common_vector_is_as_long_as_the_layout(case: Case) -> bool:
    other = Layout(case.size)
    length = algebra.max_common_vector(case.layout, other)
    return length == algebra.max_common_layout(case.layout, other).size() <= case.size


@law
def an_offset_moves_all_elements(case: Case) -> bool:
    return algebra.offset_by(case.layout, 7).offsets() == [at + 7 for at in case.offsets]
