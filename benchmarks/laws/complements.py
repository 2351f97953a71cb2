"""Complements: the offsets that a layout leaves out."""

from __future__ import annotations

from cutedialect import layout as algebra
from cutedialect.layout import Layout

from .case import Case, defined, known, law


@law
def a_complement_is_disjoint(case: Case) -> bool | None:
    if case.complement is None:
        return None
    return not set(case.offsets) & set(defined(case.complement)[1:])


@law
def a_complement_is_ordered(case: Case) -> bool | None:
    if case.complement is None:
        return None
    others = defined(case.complement)
    return others == sorted(set(others))


@law
def a_complement_begins_with_zero(case: Case) -> bool | None:
    return None if case.complement is None else defined(case.complement)[0] == 0


@law
def strides_of_a_complement_are_positive(case: Case) -> bool | None:
    if case.complement is None:
        return None
    flat = algebra.flatten(case.complement)
    strides = algebra.flatten(flat.stride)
    return all(stride > 0 for stride in strides) and tuple(sorted(strides)) == strides


@law
def a_layout_and_its_complement_have_each_number_once(case: Case) -> bool | None:
    """Where each stride is a multiple of what the modes of smaller ones cover."""
    covered = _covered(case)
    if covered is None:
        return None
    rest = algebra.complement(case.filtered, 2 * covered)
    mine, others = defined(case.filtered), defined(rest)
    sums = sorted([a + b for a in mine for b in others])
    return sums == list(range(2 * covered))


def _covered(case: Case) -> int | None:
    """The numbers that the modes cover, with what lies between, if they nest."""
    covered, kept = 1, case.filtered
    pairs = zip(algebra.flatten(kept.stride), algebra.flatten(kept.shape), strict=True)
    for stride, extent in sorted(pairs):
        if stride and stride % covered:
            return None
        covered = max(stride, 1) * extent
    return covered


@law
def a_layout_with_its_complement_leaves_nothing_out(case: Case) -> bool | None:
    covered = _covered(case)
    if covered is None:
        return None
    rest = algebra.complement(case.filtered, covered)
    both = algebra.make_layout(case.filtered, rest)
    return algebra.complement(both, covered).size() == 1


@law
def a_layout_and_its_complement_are_enough(case: Case) -> bool | None:
    """Where modes nest: what strides pass by is not left out either."""
    if case.complement is None or _covered(case) is None:
        return None
    return case.filtered.size() * case.complement.size() >= 2 * (max(case.offsets) + 1)


@law
def a_complement_asks_for_no_nesting(case: Case) -> bool:
    total = 2 * (max(case.offsets) + 1)
    return known(algebra.complement, case.flat, total) == case.complement


@law
def a_complement_asks_for_no_order_of_modes(case: Case) -> bool:
    turned = algebra.select(case.flat, tuple(reversed(range(len(case.pairs)))))
    total = 2 * (max(case.offsets) + 1)
    made = known(algebra.complement, turned, total)
    if made is None or case.complement is None:
        return made is None and case.complement is None
    return defined(made) == defined(case.complement)


@law
def a_complement_looks_at_no_zeros(case: Case) -> bool:
    total = 2 * (max(case.offsets) + 1)
    made = known(algebra.complement, algebra.filter_zeros(case.layout), total)
    return made == case.complement


@law
def a_complement_up_to_a_layout_is_up_to_its_cosize(case: Case) -> bool:
    room = Layout(2 * (max(case.offsets) + 1))
    return known(algebra.complement, case.layout, room) == case.complement


@law
def a_complement_up_to_a_shape_is_up_to_its_size(case: Case) -> bool:
    room = (2, max(case.offsets) + 1)
    return known(algebra.complement, case.layout, room) == case.complement


@law
def only_what_nests_has_a_complement(case: Case) -> bool:
    return (case.complement is not None) or _covered(case) is None


@law
def the_complement_of_one_element_is_everything(case: Case) -> bool:
    return defined(algebra.complement(Layout(1, 0), case.size)) == list(range(case.size))


@law
def the_complement_of_everything_is_one_element(case: Case) -> bool:
    return algebra.complement(Layout(case.size), case.size).size() == 1


@law
def a_complement_repeats_the_layout_side_by_side(case: Case) -> bool | None:
    """Sums of offsets of an injective layout and of its complement do not meet."""
    covered = _covered(case)
    if covered is None or not case.is_injective:
        return None
    rest = algebra.complement(case.layout, 3 * covered)
    sums = {a + b for a in case.offsets for b in defined(rest)}
    return len(sums) == case.size * rest.size()
