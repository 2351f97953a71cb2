"""Inverses and the nullspace, and layouts that are compact in the order of another one."""

from __future__ import annotations

from itertools import pairwise
from math import prod

from cutedialect import layout as algebra
from cutedialect.layout import Layout

from .case import Case, defined, known, law


@law
def a_right_inverse_is_one(case: Case) -> bool:
    indices = defined(case.right_inverse)
    return [case.offsets[at] for at in indices] == list(range(len(indices)))


@law
def a_right_inverse_has_no_more_elements(case: Case) -> bool:
    return case.right_inverse.size() <= case.size


@law
def a_right_inverse_asks_for_no_nesting(case: Case) -> bool:
    return algebra.right_inverse(case.flat) == case.right_inverse


@law
def a_right_inverse_asks_for_no_coalescing(case: Case) -> bool:
    return algebra.right_inverse(case.coalesced) == case.right_inverse


@law
def a_right_inverse_of_what_is_compact_has_all_elements(case: Case) -> bool | None:
    return case.right_inverse.size() == case.size if case.is_compact else None


@law
def the_right_inverse_of_a_right_inverse_is_the_layout(case: Case) -> bool | None:
    if not case.is_compact:
        return None
    return case.same(algebra.right_inverse(case.right_inverse))


@law
def a_right_inverse_goes_as_far_as_modes_run_on(case: Case) -> bool:
    """No mode that is left begins where the run ends."""
    end = case.right_inverse.size()
    left = [(extent, stride) for extent, stride in _leaves(case.coalesced) if stride == end]
    return all(extent == 1 for extent, _ in left)


def _leaves(layout: Layout) -> list[tuple[int, int]]:
    return list(zip(algebra.flatten(layout.shape), algebra.flatten(layout.stride), strict=True))


@law
def a_left_inverse_is_one(case: Case) -> bool | None:
    inverse = case.left_inverse
    if inverse is None or not case.is_injective:
        return None
    return [inverse(offset) for offset in case.offsets] == list(range(case.size))


@law
def a_left_inverse_gives_an_index_of_the_offset(case: Case) -> bool | None:
    """Of layouts that are not injective, too."""
    inverse = case.left_inverse
    if inverse is None:
        return None
    return [case.layout(inverse(offset)) for offset in case.offsets] == case.offsets


@law
def inverses_of_what_is_compact_are_one(case: Case) -> bool | None:
    if not case.is_compact or case.left_inverse is None:
        return None
    return defined(case.left_inverse) == defined(case.right_inverse)


@law
def what_is_compact_has_a_left_inverse(case: Case) -> bool | None:
    return case.left_inverse is not None if case.is_compact else None


@law
def a_left_inverse_asks_for_no_nesting(case: Case) -> bool:
    return known(algebra.left_inverse, case.flat) == case.left_inverse


@law
def a_thread_value_map_is_turned(case: Case) -> bool | None:
    if not case.is_compact or len(case.layout) != 2:
        return None
    inverse = algebra.invert_tv(case.layout)
    return [inverse(offset) for offset in case.offsets] == list(range(case.size))


@law
def the_nullspace_goes_to_zero(case: Case) -> bool:
    return {case.offsets[at] for at in defined(algebra.nullspace(case.layout))} == {0}


@law
def the_nullspace_is_all_that_strides_of_zero_leave(case: Case) -> bool:
    zeros = prod(extent for extent, stride in case.pairs if stride == 0)
    return algebra.nullspace(case.layout).size() == zeros


@law
def the_nullspace_is_injective(case: Case) -> bool:
    offsets = defined(algebra.nullspace(case.layout))
    return len(set(offsets)) == len(offsets)


@law
def the_nullspace_and_what_is_filtered_share_the_elements(case: Case) -> bool:
    kept = algebra.filter_zeros(case.layout)
    return algebra.nullspace(case.layout).size() * kept.size() == case.size


@law
def adding_of_the_nullspace_changes_no_offset(case: Case) -> bool:
    """From an index without digits of its own in modes of stride 0."""
    null = defined(algebra.nullspace(case.layout))
    step, index = 1, 0
    for extent, stride in case.pairs:
        if stride:
            index += (extent - 1) * step
        step *= extent
    return {case.offsets[index + at] for at in null} == {case.offsets[index]}


@law
def a_layout_like_another_is_compact(case: Case) -> bool:
    like = algebra.make_layout_like(case.layout)
    return sorted(set(defined(like))) == list(range(like.cosize()))


@law
def a_layout_like_another_has_its_shape_and_zeros(case: Case) -> bool:
    like = algebra.make_layout_like(case.layout)
    zeros = [
        (extent == 1 or stride == 0) == (extent == 1 or other == 0)
        for (extent, stride), other in zip(case.pairs, algebra.flatten(like.stride), strict=True)
    ]
    return like.shape == case.layout.shape and all(zeros)


@law
def a_layout_like_another_has_the_order_of_its_strides(case: Case) -> bool:
    like = algebra.flatten(algebra.make_layout_like(case.layout).stride)
    both = [
        (stride, other)
        for (extent, stride), other in zip(case.pairs, like, strict=True)
        if stride and extent > 1
    ]
    ordered = sorted(both, key=lambda pair: pair[0])
    return all(one[0] == other[0] or one[1] < other[1] for one, other in pairwise(ordered))


@law
def a_layout_like_one_like_another_is_the_same(case: Case) -> bool:
    like = algebra.make_layout_like(case.layout)
    return algebra.make_layout_like(like) == like


@law
def first_modes_fastest_is_the_default_order(case: Case) -> bool:
    shape = case.flat.shape
    made = algebra.make_ordered_layout(shape, tuple(range(len(case.pairs))))
    return made.offsets() == list(range(case.size))


@law
def an_order_numbers_all_elements(case: Case) -> bool:
    count = len(case.pairs)
    order = tuple((at + 1) % count for at in range(count))
    made = algebra.make_ordered_layout(case.flat.shape, order)
    return sorted(made.offsets()) == list(range(case.size))


@law
def last_modes_fastest_turns_the_coordinates(case: Case) -> bool:
    count = len(case.pairs)
    made = algebra.make_ordered_layout(case.flat.shape, tuple(reversed(range(count))))
    turned = algebra.select(made, tuple(reversed(range(count))))
    return turned.offsets() == list(range(case.size))
