"""What a layout is as a function: its values, sizes, coordinates, text."""

from __future__ import annotations

import pickle
from math import prod

from cutedialect import layout as algebra
from cutedialect.layout import Layout

from .case import Case, defined, law


@law
def calls_are_the_definition(case: Case) -> bool:
    layout = case.layout
    return [layout(index) for index in range(case.size)] == case.offsets


@law
def offsets_are_the_definition(case: Case) -> bool:
    return case.layout.offsets() == case.offsets == defined(case.layout)


@law
def the_size_is_that_of_the_domain(case: Case) -> bool:
    return case.layout.size() == case.size == algebra.size(case.layout.shape)


@law
def the_size_is_the_product_of_those_of_the_modes(case: Case) -> bool:
    return prod(algebra.size(case.layout, mode) for mode in range(len(case.layout))) == case.size


@law
def the_cosize_is_one_more_than_the_last_offset(case: Case) -> bool:
    return case.layout.cosize() == max(case.offsets) + 1


@law
def the_cosizes_of_modes_add_up(case: Case) -> bool:
    spans = [algebra.cosize(case.layout, mode) - 1 for mode in range(len(case.layout))]
    return sum(spans) + 1 == case.layout.cosize()


@law
def text_is_read_as_it_was_written(case: Case) -> bool:
    return algebra.parse_layout(str(case.layout)) == case.layout


@law
def the_text_of_any_value_is_read_as_that_of_a_layout(case: Case) -> bool:
    return algebra.parse(str(case.layout)) == case.layout


@law
def a_pickled_layout_is_the_same(case: Case) -> bool:
    return pickle.loads(pickle.dumps(case.layout)) == case.layout


@law
def equal_layouts_have_equal_hashes(case: Case) -> bool:
    again = Layout(case.layout.shape, case.layout.stride)
    return again == case.layout and hash(again) == hash(case.layout)


@law
def lists_stand_for_tuples(case: Case) -> bool | None:
    shape, stride = case.layout.shape, case.layout.stride
    return Layout([*shape], [*stride]) == case.layout if isinstance(shape, tuple) else None


@law
def a_coordinate_has_the_offset_of_its_index(case: Case) -> bool:
    layout = case.layout
    return [layout(coord) for coord in case.coordinates] == case.offsets


@law
def nested_coordinates_have_the_offset_of_their_index(case: Case) -> bool:
    layout, shape = case.layout, case.layout.shape
    indices = range(0, case.size, 1 + case.size // 8)
    return all(layout(algebra.idx2crd(at, shape)) == case.offsets[at] for at in indices)


@law
def the_offsets_of_modes_add_up(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    tables = [defined(mode) for mode in case.modes]
    sums = [
        sum(table[at] for table, at in zip(tables, coord, strict=True))
        for coord in case.coordinates
    ]
    return sums == case.offsets


@law
def an_index_behind_the_end_extends_the_last_mode(case: Case) -> bool:
    extent, stride = case.pairs[-1]
    step = extent * stride
    return [case.layout(case.size + at) for at in range(case.size)] == [
        at + step for at in case.offsets
    ]


@law
def evaluation_is_the_call(case: Case) -> bool:
    return all(
        algebra.layout_eval(coord, case.layout) == offset
        for coord, offset in zip(case.coordinates[:8], case.offsets, strict=False)
    )


@law
def the_rank_is_the_number_of_modes(case: Case) -> bool:
    layout = case.layout
    return algebra.rank(layout) == layout.rank() == len(list(layout)) == len(case.modes)


@law
def iteration_gives_the_modes(case: Case) -> bool:
    return list(case.layout) == case.modes


@law
def the_depth_is_that_of_the_shape(case: Case) -> bool:
    return algebra.depth(case.layout) == algebra.depth(case.layout.shape)


@law
def scaled_strides_scale_the_function(case: Case) -> bool:
    scaled = Layout(case.flat.shape, tuple(3 * stride for stride in case.flat.stride))
    return scaled.offsets() == [3 * at for at in case.offsets]


@law
def turned_strides_turn_the_function(case: Case) -> bool:
    turned = Layout(case.flat.shape, tuple(-stride for stride in case.flat.stride))
    return turned.offsets() == [-at for at in case.offsets]


@law
def turned_strides_keep_the_cosize(case: Case) -> bool:
    turned = Layout(case.flat.shape, tuple(-stride for stride in case.flat.stride))
    return turned.cosize() == max(case.offsets) + 1


@law
def a_slice_begins_where_its_coordinate_is(case: Case) -> bool | None:
    """One mode is kept, the others are at their last coordinate."""
    if not isinstance(case.layout.shape, tuple):
        return None
    for mode in range(len(case.layout)):
        coord = tuple(None if at == mode else extent - 1 for at, extent in enumerate(case.extents))
        part, offset = algebra.slice_and_offset(coord, case.layout)
        whole = [
            case.layout(tuple(step if at is None else at for at in coord))
            for step in range(case.extents[mode])
        ]
        if [offset + at for at in defined(part)] != whole:
            return False
    return True


@law
def a_call_with_a_hole_is_the_slice(case: Case) -> bool | None:
    if len(case.layout) < 2:
        return None
    coord = (None, *(0,) * (len(case.layout) - 1))
    return defined(case.layout(*coord)) == defined(case.modes[0])


@law
def slice_and_dice_share_the_modes(case: Case) -> bool | None:
    if len(case.layout) < 2:
        return None
    coord = (None, *(0,) * (len(case.layout) - 1))
    kept, left = (function(coord, case.layout) for function in (algebra.slice_, algebra.dice))
    return kept.size() * left.size() == case.size and list(kept) + list(left) == case.modes


@law
def injective_is_what_has_each_offset_once(case: Case) -> bool:
    return algebra.is_injective(case.layout) == case.is_injective


@law
def surjective_is_what_has_all_offsets(case: Case) -> bool:
    most = max(case.offsets) + 1
    return algebra.is_surjective(case.layout, most) == (len(set(case.offsets)) == most)


@law
def bijective_is_what_is_compact(case: Case) -> bool:
    return algebra.is_bijective(case.layout) == case.is_compact
