"""Divides, and the tiles and partitions that are taken by them."""

from __future__ import annotations

from cutedialect import layout as algebra
from cutedialect.layout import Layout

from .case import PERIODS, TILES, Case, defined, family, known, law

# Elements of layouts that are divided for each tile, which takes as long as many laws.
_FEW = 16
_DIVIDES = ("logical_divide", "zipped_divide", "tiled_divide", "flat_divide")


@family(_DIVIDES, "{}_reorders_by_tiles")
def _reorders(name):
    divide = getattr(algebra, name)

    def check(case: Case) -> bool | None:
        """All elements, tile by tile: the first ones are those of the first tile."""
        flat, said = case.coalesced, None
        for tile, period in PERIODS.items():
            if len(flat) != 1 or case.size % period:
                continue
            made = known(divide, flat, tile)
            if made is None:
                continue
            said, offsets = True, defined(made)
            if sorted(offsets) != sorted(case.offsets):
                return False
            if offsets[: tile.size()] != [case.offsets[at] for at in defined(tile)]:
                return False
        return said

    return check


@family(_DIVIDES, "{}_by_even_parts_keeps_all_elements")
def _keeps(name):
    divide = getattr(algebra, name)

    def check(case: Case) -> bool | None:
        if not isinstance(case.layout.shape, tuple):
            return None
        made = known(divide, case.layout, case.parts)
        return None if made is None else sorted(defined(made)) == sorted(case.offsets)

    return check


@law
def a_divide_is_a_composition_with_the_complement(case: Case) -> bool | None:
    said = None
    for tile in TILES[1:3]:
        made = known(algebra.logical_divide, case.layout, tile)
        rest = known(algebra.complement, tile, case.size)
        if made is None or rest is None:
            continue
        said = True
        if made != algebra.composition(case.layout, algebra.make_layout(tile, rest)):
            return False
    return said


@law
def a_divide_by_mode_is_that_of_each_mode(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    parts = case.parts
    made = known(algebra.logical_divide, case.layout, parts)
    if made is None:
        return None
    both = zip(case.modes, parts, strict=True)
    return list(made) == [algebra.logical_divide(mode, part) for mode, part in both]


@law
def nothing_divides_nothing(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    made = algebra.logical_divide(case.layout, (None,) * len(case.layout))
    return list(made) == case.modes


@law
def a_zipped_divide_has_the_tile_first(case: Case) -> bool | None:
    made = case.zipped
    if made is None:
        return None
    tile, rest = made
    return tile.size() * rest.size() == case.size and len(made) == 2


@law
def each_tile_has_the_elements_at_its_coordinates(case: Case) -> bool | None:
    made, parts = case.zipped, case.parts
    if made is None:
        return None
    for coord in case.coordinates[:: 1 + case.size // 3]:
        inside = tuple(at % part for at, part in zip(coord, parts, strict=True))
        tile = tuple(at // part for at, part in zip(coord, parts, strict=True))
        if made(inside, tile) != case.layout(coord):
            return False
    return True


@law
def a_tiled_divide_spreads_the_rest(case: Case) -> bool | None:
    made = case.zipped
    if made is None:
        return None
    tiled = algebra.tiled_divide(case.layout, case.parts)
    return list(tiled) == [made[0], *made[1]]


@law
def a_flat_divide_spreads_both(case: Case) -> bool | None:
    made = case.zipped
    if made is None:
        return None
    flat = algebra.flat_divide(case.layout, case.parts)
    return list(flat) == [*made[0], *made[1]]


@law
def dividing_by_one_leaves_single_elements(case: Case) -> bool:
    made = known(algebra.logical_divide, case.layout, Layout(1, 0))
    return made is not None and made[0].size() == 1 and case.same(made[1])


@law
def dividing_by_all_leaves_one_tile(case: Case) -> bool:
    made = algebra.logical_divide(case.layout, Layout(case.size))
    return case.same(made[0]) and made[1].size() == 1


@law
def a_local_tile_is_one_of_the_tiles(case: Case) -> bool | None:
    made, parts = case.zipped, case.parts
    if made is None:
        return None
    last = tuple(extent // part - 1 for extent, part in zip(case.extents, parts, strict=True))
    part, offset = algebra.local_tile(case.layout, parts, last)
    counts = range(made[0].size())
    return [offset + at for at in defined(part)] == [made(at, last) for at in counts]


@law
def a_local_tile_of_all_is_all(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple):
        return None
    made = known(algebra.local_tile, case.layout, case.extents, (0,) * len(case.extents))
    if made is None:
        return None
    return made[1] == 0 and case.same(made[0])


@law
def inner_partitions_share_the_elements(case: Case) -> bool | None:
    made, parts = case.zipped, case.parts
    if made is None or case.size > _FEW:
        return None
    counts = tuple(extent // part for extent, part in zip(case.extents, parts, strict=True))
    found: list[int] = []
    for at in range(made[1].size()):
        coord = algebra.idx2crd(at, counts)
        part, offset = algebra.inner_partition(case.layout, parts, coord)
        found += [offset + inside for inside in defined(part)]
    return sorted(found) == sorted(case.offsets)


@law
def outer_partitions_share_the_elements(case: Case) -> bool | None:
    made, parts = case.zipped, case.parts
    if made is None or case.size > _FEW:
        return None
    found: list[int] = []
    for at in range(made[0].size()):
        part, offset = algebra.outer_partition(case.layout, parts, algebra.idx2crd(at, parts))
        found += [offset + inside for inside in defined(part)]
    return sorted(found) == sorted(case.offsets)


@law
def partitions_of_threads_share_the_elements(case: Case) -> bool | None:
    parts = case.parts
    if case.zipped is None or case.size > _FEW:
        return None
    threads = Layout(parts)
    found: list[int] = []
    for index in range(threads.size()):
        part, offset = algebra.local_partition(case.layout, threads, index)
        found += [offset + inside for inside in defined(part)]
    return sorted(found) == sorted(case.offsets)


@law
def tiles_of_a_whole_are_its_first_modes(case: Case) -> bool | None:
    """A block repeated to the double shape begins with the block."""
    if not isinstance(case.layout.shape, tuple) or not case.is_compact:
        return None
    shape = tuple(2 * extent for extent in case.extents)
    made = known(algebra.tile_to_shape, case.layout, shape)
    if made is None:
        return None
    blocks = [made(coord) for coord in case.coordinates]
    return blocks == case.offsets and made.size() == case.size * 2 ** len(shape)


@law
def a_block_repeated_to_a_shape_has_each_offset_once(case: Case) -> bool | None:
    if not isinstance(case.layout.shape, tuple) or not case.is_compact:
        return None
    shape = tuple(2 * extent for extent in case.extents)
    made = known(algebra.tile_to_shape, case.layout, shape)
    return None if made is None else sorted(defined(made)) == list(range(made.size()))


@law
def a_cotiled_copy_has_the_elements_of_its_data(case: Case) -> bool | None:
    """Two threads share a compact layout of two modes."""
    if len(case.layout) != 2 or not case.is_compact or case.size % 2:
        return None
    tv = Layout((2, case.size // 2))
    copy = known(algebra.make_cotiled_copy, tv, case.layout)
    if copy is None:
        return None
    return [case.layout(copy.tv(at)) for at in range(case.size)] == list(range(case.size))


@law
def a_tiled_copy_has_each_element_once(case: Case) -> bool | None:
    if len(case.layout) != 2 or not case.is_compact or case.size > 64:
        return None
    tiler, tv = algebra.make_tiled_copy_tv(case.layout, Layout((2, 2), (2, 1)))
    return sorted(defined(tv)) == list(range(tiler[0] * tiler[1]))


@law
def a_tiled_copy_has_the_threads_where_their_layout_says(case: Case) -> bool | None:
    if len(case.layout) != 2 or not case.is_compact or case.size > 64:
        return None
    tiler, tv = algebra.make_tiled_copy_tv(case.layout, Layout((2, 2), (2, 1)))
    for at, (row, column) in enumerate(case.coordinates):
        if tv(case.offsets[at], 0) != 2 * row + tiler[0] * 2 * column:
            return False
    return True
