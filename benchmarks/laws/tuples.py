"""Nested tuples of ints: the shapes, strides and coordinates of layouts."""

from __future__ import annotations

from math import prod

from cutedialect import layout as algebra
from cutedialect.layout import Layout

from .case import Case, known, law


@law
def a_shape_is_congruent_to_its_strides(case: Case) -> bool:
    return algebra.congruent(case.layout.shape, case.layout.stride)


@law
def a_shape_refines_its_extents(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    return algebra.weakly_congruent(case.extents, case.layout.shape)


@law
def leaves_are_put_back_in_their_nesting(case: Case) -> bool:
    shape = case.layout.shape
    return algebra.unflatten(iter(algebra.flatten(shape)), shape) == shape


@law
def the_text_of_a_tuple_is_read_as_it_was_written(case: Case) -> bool:
    shape = case.layout.shape
    return algebra.parse_int_tuple(algebra.to_text(shape)) == shape


@law
def products_count_elements(case: Case) -> bool:
    shape = case.layout.shape
    return algebra.product(shape) == algebra.tuple_product(shape) == case.size


@law
def products_of_modes_are_their_extents(case: Case) -> bool:
    return algebra.product_each(case.layout.shape) == case.extents


@law
def the_depth_of_leaves_is_one(case: Case) -> bool:
    return algebra.depth(algebra.flatten(case.layout.shape)) == 1


@law
def shapes_have_no_slices(case: Case) -> bool:
    return not algebra.has_none(case.layout.shape) and algebra.is_static(case.layout.shape)


@law
def the_largest_leaf_is_one_of_them(case: Case) -> bool:
    return algebra.tuple_max(case.layout.shape) == max(extent for extent, _ in case.pairs)


@law
def an_inner_product_with_strides_is_the_offset(case: Case) -> bool:
    coords, step = case.coordinates, 1 + case.size // 8
    nested = [algebra.idx2crd(at, case.layout.shape) for at in range(0, case.size, step)]
    return (
        len(coords) == case.size
        and [algebra.inner_product(coord, case.layout.stride) for coord in nested]
        == case.offsets[::step]
    )


@law
def crd2idx_with_strides_is_the_layout(case: Case) -> bool:
    shape, stride = case.layout.shape, case.layout.stride
    step = 1 + case.size // 8
    coords = case.coordinates[::step]
    return [algebra.crd2idx(at, shape, stride) for at in coords] == case.offsets[::step]


@law
def crd2idx_undoes_idx2crd(case: Case) -> bool:
    shape, step = case.layout.shape, 1 + case.size // 8
    indices = list(range(0, case.size, step))
    return [algebra.crd2idx(algebra.idx2crd(at, shape), shape) for at in indices] == indices


@law
def coordinates_of_indices_lie_inside(case: Case) -> bool:
    shape, step = case.layout.shape, 1 + case.size // 8
    return all(
        algebra.elem_less(algebra.idx2crd(at, shape), shape) is True
        for at in range(0, case.size, step)
    )


@law
def the_coordinate_behind_the_last_lies_outside(case: Case) -> bool:
    shape = case.layout.shape
    return algebra.elem_less(algebra.idx2crd(case.size, shape), shape) is False


@law
def coordinates_of_compact_strides_are_those_of_indices(case: Case) -> bool:
    shape, step = case.layout.shape, 1 + case.size // 8
    compact = algebra.compact(shape)
    return all(
        algebra.idx2crd(at, shape, compact) == algebra.idx2crd(at, shape)
        for at in range(0, case.size, step)
    )


@law
def the_next_coordinate_is_that_of_the_next_index(case: Case) -> bool:
    shape, step = case.layout.shape, 1 + case.size // 8
    return all(
        algebra.increment_coord(algebra.idx2crd(at, shape), shape) == algebra.idx2crd(at + 1, shape)
        for at in range(0, case.size - 1, step)
    )


@law
def a_coordinate_in_another_shape_has_the_same_index(case: Case) -> bool:
    shape, flat = case.layout.shape, case.size
    step = 1 + flat // 8
    coords = [algebra.idx2crd(at, shape) for at in range(0, flat, step)]
    return [algebra.crd2crd(coord, flat, shape) for coord in coords] == list(range(0, flat, step))


@law
def an_index_in_a_shape_is_its_coordinate(case: Case) -> bool:
    shape, step = case.layout.shape, 1 + case.size // 8
    return all(
        algebra.crd2crd(at, shape) == algebra.idx2crd(at, shape) for at in range(0, case.size, step)
    )


@law
def compact_strides_number_all_elements(case: Case) -> bool:
    layout = Layout(case.layout.shape)
    return layout.offsets() == list(range(case.size))


@law
def prefix_products_are_compact_strides_but_for_single_elements(case: Case) -> bool:
    shape = case.layout.shape
    both = zip(
        algebra.flatten(shape),
        algebra.flatten(algebra.prefix_product(shape)),
        algebra.flatten(algebra.compact(shape)),
        strict=True,
    )
    return all(one == other or extent == 1 for extent, one, other in both)


@law
def prefix_products_begin_with_what_is_given(case: Case) -> bool:
    shape = case.layout.shape
    one, three = (algebra.flatten(algebra.prefix_product(shape, init)) for init in (1, 3))
    return tuple(3 * leaf for leaf in one) == three


@law
def scaling_by_ones_changes_nothing(case: Case) -> bool:
    shape = case.layout.shape
    ones = algebra.unflatten(iter((1,) * len(case.pairs)), shape)
    return algebra.elem_scale(shape, ones) == shape


@law
def scaling_multiplies_sizes(case: Case) -> bool:
    shape = case.layout.shape
    twos = algebra.unflatten(iter((2,) * len(case.pairs)), shape)
    return algebra.product(algebra.elem_scale(shape, twos)) == case.size * 2 ** len(case.pairs)


@law
def dividing_a_shape_by_one_changes_nothing(case: Case) -> bool:
    return algebra.shape_div(case.layout.shape, 1) == case.layout.shape


@law
def a_shape_divided_by_its_size_has_one_element(case: Case) -> bool:
    return algebra.product(algebra.shape_div(case.layout.shape, case.size)) == 1


@law
def a_shape_divided_by_itself_has_one_element(case: Case) -> bool:
    shape = case.layout.shape
    return algebra.product(algebra.shape_div(shape, shape)) == 1


@law
def dividing_by_leading_extents_leaves_the_others(case: Case) -> bool:
    count = len(case.pairs) // 2
    leading = prod(extent for extent, _ in case.pairs[:count])
    rest = algebra.shape_div(case.layout.shape, leading)
    return algebra.product(rest) == case.size // leading


@law
def quotients_rounded_up_cover(case: Case) -> bool:
    shape = algebra.flatten(case.layout.shape)
    threes = algebra.ceil_div(shape, (3,) * len(shape))
    return all(
        3 * part >= extent > 3 * (part - 1) for part, extent in zip(threes, shape, strict=True)
    )


@law
def a_quotient_by_one_changes_nothing(case: Case) -> bool:
    return algebra.ceil_div(case.layout.shape, 1) == case.layout.shape


@law
def sums_commute(case: Case) -> bool:
    shape, stride = case.layout.shape, case.layout.stride
    return algebra.tuple_add(shape, stride) == algebra.tuple_add(stride, shape)


@law
def differences_undo_sums(case: Case) -> bool:
    shape, stride = case.layout.shape, case.layout.stride
    return algebra.tuple_sub(algebra.tuple_add(shape, stride), stride) == shape


@law
def the_offset_of_a_sum_of_coordinates_is_the_sum(case: Case) -> bool | None:
    """Of each coordinate and what the last one has more: no digit carries."""
    if not isinstance(case.layout.shape, tuple):
        return None
    last, layout = case.coordinates[-1], case.layout
    return all(
        offset + layout(algebra.tuple_sub(last, coord)) == case.offsets[-1]
        for coord, offset in zip(case.coordinates[:8], case.offsets, strict=False)
    )


@law
def nothing_is_less_than_itself(case: Case) -> bool:
    return algebra.elem_less(case.layout.shape, case.layout.shape) is False


@law
def everything_equals_itself(case: Case) -> bool:
    layout = case.layout
    return algebra.equal(layout, layout) is True and algebra.equal(layout.shape, layout.shape)


@law
def other_strides_are_another_layout(case: Case) -> bool:
    other = Layout(case.flat.shape, tuple(stride + 1 for stride in case.flat.stride))
    return algebra.equal(case.flat, other) is False and case.flat != other


@law
def uneven_divisors_are_refused(case: Case) -> bool | None:
    """Of two ints one divides the other, or there is no quotient."""
    extent = case.size
    quotient = known(algebra.shape_div, extent, 3)
    if extent % 3 and 3 % extent:
        return quotient is None
    return quotient == -(-extent // 3)
