"""Tensors: layouts over memory."""

from __future__ import annotations

from cutedialect import layout as algebra
from cutedialect.layout import Layout, Tensor

from .case import Case, law


def _tensor(case: Case) -> Tensor:
    """Memory whose elements say where they are."""
    return Tensor(range(2 * max(case.offsets) + 8), case.layout)


@law
def elements_of_a_tensor_are_where_its_layout_says(case: Case) -> bool:
    return list(_tensor(case)) == case.offsets


@law
def a_tensor_without_memory_gives_offsets(case: Case) -> bool:
    tensor, step = Tensor(None, case.layout), 1 + case.size // 8
    return [tensor[at] for at in case.coordinates[::step]] == case.offsets[::step]


@law
def a_part_of_a_tensor_has_its_elements(case: Case) -> bool | None:
    if len(case.layout) < 2:
        return None
    tensor = _tensor(case)
    last = tuple(extent - 1 for extent in case.extents[1:])
    part = tensor[None, *last]
    return list(part) == [case.layout((at, *last)) for at in range(case.extents[0])]


@law
def a_tensor_from_a_coordinate_on_begins_there(case: Case) -> bool:
    middle = case.coordinates[case.size // 2]
    moved = _tensor(case).domain_offset(middle)
    return moved[case.coordinates[0]] == case.offsets[case.size // 2]


@law
def a_tensor_like_another_has_as_many_elements(case: Case) -> bool:
    like = algebra.make_tensor_like(Tensor([0] * (max(case.offsets) + 1), case.layout))
    return like.size() == case.size and len(like.memory) == like.layout.cosize()


@law
def a_fragment_like_a_tensor_is_compact(case: Case) -> bool:
    like = algebra.make_fragment_like(Tensor([0] * (max(case.offsets) + 1), case.layout)).layout
    assert isinstance(like, Layout)
    offsets = set(like.offsets())
    return offsets == set(range(like.cosize())) and like.size() == case.size


@law
def a_fragment_has_the_values_of_an_instruction_first(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    like = algebra.make_fragment_like(Tensor([0] * (max(case.offsets) + 1), case.layout)).layout
    assert isinstance(like, Layout)
    if len(like) == 1:
        return None
    return like[0].offsets() == list(range(like[0].size()))


@law
def the_identity_tensor_gives_coordinates(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    tensor, step = algebra.make_identity_tensor(case.extents), 1 + case.size // 8
    return [tensor[at] for at in range(0, case.size, step)] == case.coordinates[::step]


@law
def what_is_applied_to_a_tensor_is_applied_to_its_layout(case: Case) -> bool:
    return list(_tensor(case).apply(algebra.coalesce)) == case.offsets


@law
def what_is_written_is_read(case: Case) -> bool | None:
    if not case.is_injective:
        return None
    tensor = Tensor([None] * (max(case.offsets) + 1), case.layout)
    for at, coord in enumerate(case.coordinates):
        tensor[coord] = at
    return list(tensor) == list(range(case.size))
