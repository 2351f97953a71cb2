"""Coalescing and filtering: the same function, or the same offsets, in fewer modes."""

from __future__ import annotations

from itertools import pairwise

from cutedialect import layout as algebra
from cutedialect.layout import Layout

from .case import Case, defined, law


def _leaves(layout: Layout) -> list[tuple[int, int]]:
    return list(zip(algebra.flatten(layout.shape), algebra.flatten(layout.stride), strict=True))


@law
def coalescing_keeps_the_function(case: Case) -> bool:
    return case.same(case.coalesced)


@law
def coalescing_twice_is_coalescing(case: Case) -> bool:
    return algebra.coalesce(case.coalesced) == case.coalesced


@law
def coalescing_leaves_no_more_modes(case: Case) -> bool:
    return len(case.coalesced) <= max(1, len(case.pairs))


@law
def coalescing_leaves_no_single_elements(case: Case) -> bool:
    return all(extent != 1 for extent, _ in _leaves(case.coalesced)) or case.coalesced.size() == 1


@law
def coalescing_leaves_no_neighbors_that_run_on(case: Case) -> bool:
    leaves = _leaves(case.coalesced)
    return all(stride != last * step for (last, step), (_, stride) in pairwise(leaves))


@law
def coalesced_layouts_are_flat(case: Case) -> bool:
    return algebra.depth(case.coalesced) <= 1


@law
def coalescing_keeps_size_and_cosize(case: Case) -> bool:
    made = case.coalesced
    return (made.size(), made.cosize()) == (case.size, max(case.offsets) + 1)


@law
def coalescing_asks_for_no_nesting(case: Case) -> bool:
    return algebra.coalesce(case.flat) == case.coalesced


@law
def a_coalesced_group_is_coalesced(case: Case) -> bool:
    grouped = algebra.group(case.layout, 0, len(case.layout))
    return algebra.coalesce(grouped) == case.coalesced


@law
def coalescing_by_mode_keeps_each_mode(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    made = algebra.coalesce(case.layout, (1,) * len(case.layout))
    both = zip(made, case.modes, strict=True)
    return all(defined(mode) == defined(before) for mode, before in both)


@law
def coalescing_by_mode_coalesces_each_mode(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    made = algebra.coalesce(case.layout, (1,) * len(case.layout))
    return list(made) == [algebra.coalesce(mode) for mode in case.modes]


@law
def a_short_profile_leaves_the_other_modes(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    made = algebra.coalesce(case.layout, (1,))
    return list(made)[1:] == case.modes[1:]


@law
def filtering_keeps_the_set_of_offsets(case: Case) -> bool:
    return set(defined(case.filtered)) == set(case.offsets)


@law
def filtering_twice_is_filtering(case: Case) -> bool:
    return algebra.filter(case.filtered) == case.filtered


@law
def filtering_leaves_no_strides_of_zero(case: Case) -> bool:
    return case.filtered.size() == 1 or all(stride for _, stride in _leaves(case.filtered))


@law
def filtering_what_has_no_zeros_is_coalescing(case: Case) -> bool | None:
    if any(stride == 0 or extent == 1 for extent, stride in case.pairs):
        return None
    return case.filtered == case.coalesced


@law
def what_is_filtered_and_injective_has_each_offset_once(case: Case) -> bool | None:
    offsets = defined(case.filtered)
    if len(set(offsets)) != len(offsets):
        return None
    return len(offsets) == len(set(case.offsets))


@law
def filtered_zeros_keep_the_nesting(case: Case) -> bool:
    made = algebra.filter_zeros(case.layout)
    return algebra.congruent(made.shape, case.layout.shape) and made.stride == case.layout.stride


@law
def filtered_zeros_keep_the_set_of_offsets(case: Case) -> bool:
    return set(defined(algebra.filter_zeros(case.layout))) == set(case.offsets)
