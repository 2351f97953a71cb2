"""Larger tiles for a program without a multiply whose tiles are so small that a warp would load a
few bytes and wait: a step of `cute-tile`.

    i, j = tile_index Y, [1, 64]                        c, j = tile_index Y, [16, 64]
    x = load local_tile(X, [1, 64], (i, j))      =>     x = load local_tile(X, [16, 64], (c, j))
    y = map x { coord 0 + 1 i }                         y = map x { coord 0 + 16 c }

A mode of the work items is joined if each element keeps it to itself: tiles have it, or are the
same for all of its work items, nothing reduces it, and its coordinate says nothing else than where
a tile begins. A tensor that is stored to, and may be longer than the work items, is cut to them.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint

from cutedialect.dialects import cute
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import ScalarBuilder
from cutedialect.passes.tile.resized_tiles import (
    View,
    fragment_shape,
    is_added_to,
    moved_by,
    only_begins_tiles,
    origins_of,
    resize_tiles,
    resize_view,
)

# A tile of fewer bytes is joined, to one of so many: four vectors of each lane of a warp.
_LEAST_BYTES = 1024
_BYTES = 2048
# What a warp reads of a line at once; longer tiles might be longer than the rows.
_LINE_BYTES = 512


def join_tiles(kernel: cute.KernelOp, of: str) -> None:
    """Join work items of a kernel without a multiply if their tiles are too small; `of` is the pass
    that says so.
    """
    found = ops_of(kernel, cute.TileIndexOp)
    if len(found) != 1 or not isinstance(found[0].memref.type, cute.MemRefType):
        return
    index = found[0]
    size = _largest(kernel)
    if not 0 < size < _LEAST_BYTES:
        return
    extents = [int(each) for each in index.tile.get_values()]
    # Along lines first, as far as a warp reads at once; then across them.
    for mode in reversed(range(len(extents))):
        extent = extents[mode]
        most = _BYTES // size
        if mode == len(extents) - 1:
            most = min(most, _LINE_BYTES // size)
        parts = 1 << max(1, most).bit_length() - 1
        join = _Join(kernel, index, mode, parts)
        if extent < 1 or parts < 2 or not join.is_legal():
            continue
        remark(
            of,
            index,
            f"tiles of {size} bytes leave a warp waiting: work items of {extent * parts} along "
            f"mode {mode} instead of {extent}",
        )
        join.run()
        size = _largest(kernel)


def _largest(kernel: cute.KernelOp) -> int:
    """The bytes of the largest tile that moves."""
    sizes = [
        prod(type_.shape) * type_.bits // 8
        for op in ops_of(kernel, cute.LoadOp, cute.CopyOp)
        for type_ in moved_by(op)
        if all(isinstance(each, int) for each in type_.shape)
    ]
    return max(sizes, default=0)


class _Join:
    """`parts` work items along one mode as one. `places` says which mode of a tile it is, for the
    tiles that have it.
    """

    def __init__(
        self, kernel: cute.KernelOp, index: cute.TileIndexOp, mode: int, parts: int
    ) -> None:
        self.index, self.mode, self.parts = index, mode, parts
        self.part = int(index.tile.get_values()[mode])
        self.coord = index.results[mode]
        self.places: dict[SSAValue, int] = {}
        # Views of tensors that may be longer than the work items.
        self.longer: set[View] = set()
        self._ops = list(walk(kernel.body.block))

    def is_legal(self) -> bool:
        """Whether the mode can be joined; finds `places`."""
        views = [op for op in self._ops if isinstance(op, cute.LocalTileOp)]
        if any(isinstance(op, cute.BlockIdxOp | cute.GridDimOp) for op in self._ops):
            # The program counts its CTAs, of which there would be fewer.
            return False
        return (
            all(map(self._finds, views))
            and self._spreads()
            and all(map(self._ends, views))
            and all(map(self._allows, self._ops))
            and only_begins_tiles(self.coord, self.part, lambda op: self.places.get(op.result))
        )

    def run(self) -> None:
        """Join it."""
        index = self.index
        extents = [int(each) for each in index.tile.get_values()]
        extents[self.mode] *= self.parts
        index.properties["tile"] = DenseArrayBase.from_list(i64, extents)
        for value in origins_of(self.coord, self.part):
            self._move(value)

        def longer(value: SSAValue) -> dict[int, int]:
            place = self.places.get(value)
            extent = None if place is None else self._extent(value, place)
            return {} if place is None or extent is None else {place: extent * self.parts}

        resize_tiles(self._ops, longer, self._join_view)

    def _finds(self, view: cute.LocalTileOp) -> bool:
        """Note a view of a tile at the coordinate; False if it is more than a place along a mode of
        the tile.
        """
        tile = [int(each) for each in view.tile.get_values()]
        modes = [mode for mode, at in enumerate(view.coords) if at is self.coord]
        if not modes:
            return True
        mode = modes[0]
        if len(modes) > 1 or view.of is not None or tile[mode] != self.part:
            return False
        if any(extent < 0 for extent in tile):
            return False
        self.places[view.result] = sum(1 for each in tile[:mode] if each != 0)
        return True

    def _ends(self, view: cute.LocalTileOp) -> bool:
        """Whether what is stored to a view can end where the work items do: the tensor of the index
        does, another one may be longer and is cut.
        """
        if view.result not in self.places or not self._is_stored(view.result):
            return True
        mode = self._mode_of(view)
        if view.memref is self.index.memref and mode == self.mode:
            return True
        type_ = view.memref.type
        if not isinstance(type_, cute.MemRefType) or isinstance(type_.modes[mode], tuple):
            return False
        self.longer.add(view)
        return True

    def _is_stored(self, view: SSAValue) -> bool:
        return any(
            (isinstance(use.operation, cute.TransposeOp) and self._is_stored(use.operation.result))
            or (isinstance(use.operation, cute.CopyOp) and use.operation.destination is view)
            for use in view.uses
        )

    def _spreads(self) -> bool:
        """Find which other tiles have the mode; False where that has no answer."""
        before = -1
        while before != len(self.places):
            before = len(self.places)
            for op in self._ops:
                for value, place in self._implied(op):
                    if self.places.setdefault(value, place) != place:
                        return False
        return True

    def _implied(self, op: Operation) -> Iterable[tuple[SSAValue, int]]:
        """Tiles of an op that have the mode because others have."""
        places = self.places
        match op:
            case cute.TransposeOp() if op.source in places:
                yield op.result, 1 - places[op.source]
            case cute.LoadOp() | cute.ReduceOp() if op.source in places:
                yield op.result, places[op.source]
            case cute.CopyOp():
                both = op.source, op.destination
                for one, other in (both, both[::-1]):
                    if one in places and isinstance(other.type, cute.FragmentType):
                        yield other, places[one]
            case cute.MapOp():
                found = {places[value] for value in op.operands if value in places}
                for place in found:
                    yield op.result, place
                if op.result in places and self.part > 1:
                    # What is as long is not the same for all work items of the mode.
                    place = places[op.result]
                    for value in op.inputs:
                        if self._extent(value, place) == self.part:
                            yield value, place
            case _:
                pass

    def _allows(self, op: Operation) -> bool:
        """Whether an op may have longer tiles, and asks nothing of where in them it is."""
        # What has not the mode would be stored by each of the work items; a mask has its own.
        is_store = isinstance(op, cute.CopyOp) and isinstance(op.destination.type, cute.MemRefType)
        touched = [value for value in (*op.operands, *op.results) if value in self.places]
        if not touched and not is_store:
            return True
        if any(
            self._extent(value, self.places[value]) not in (None, self.part) for value in touched
        ):
            return False
        match op:
            case cute.LocalTileOp() | cute.AllocFragmentOp() | cute.FillOp():
                return True
            case cute.TransposeOp():
                # What is the same for all work items is not as long as what it stands beside.
                return op.source in self.places and op.result in self.places
            case cute.LoadOp() | cute.CopyOp():
                moved = 1 if isinstance(op, cute.LoadOp) else 2
                return len(op.operands) == moved and all(map(self.places.__contains__, op.operands))
            case cute.ReduceOp():
                return op.source in self.places and op.mode.value.data != self.places[op.source]
            case cute.MapOp():
                return self._allows_map(op)
            case _:
                return False

    def _allows_map(self, op: cute.MapOp) -> bool:
        ranks = {len(fragment_shape(value)) for value in (*op.operands, *op.results)}
        origins = origins_of(self.coord, self.part)
        return len(ranks) == 1 and all(
            is_added_to(coord, origins)
            for coord in op.body.block.ops
            if isinstance(coord, cute.CoordOp) and coord.mode.value.data == self.places[op.result]
        )

    def _move(self, origin: SSAValue) -> None:
        """Let a first element be that of the longer tile."""
        if isinstance(origin, OpResult) and isinstance(origin.owner, arith.MuliOp):
            at = origin.owner
            place = next(n for n, value in enumerate(at.operands) if value is not self.coord)
            build = ScalarBuilder(InsertPoint.before(at), at)
            at.operands[place] = build.constant(self.part * self.parts)
            return
        users = [use for use in origin.uses if isinstance(use.operation, arith.AddiOp)]
        if users:
            build = ScalarBuilder(InsertPoint.after(self.index), self.index)
            first = build.mul(origin, self.parts)
            for use in users:
                use.operation.operands[use.index] = first

    def _join_view(self, op: View) -> None:
        if op.result not in self.places:
            return
        tile, memref = list(op.tile.get_values()), op.memref
        tile[self._mode_of(op)] = self.part * self.parts
        if op in self.longer:
            build = ScalarBuilder(InsertPoint.before(op), op)
            end = build.mul(build.tiles(self.index.memref, self.mode, self.part), self.part)
            cut = cute.SliceOp(memref, self._mode_of(op), build.constant(0), end)
            memref = build.value(cut)
        resize_view(op, tile, memref=memref)

    def _mode_of(self, view: View) -> int:
        """The mode of a tensor at the coordinate."""
        return next(mode for mode, at in enumerate(view.coords) if at is self.coord)

    def _extent(self, value: SSAValue, place: int) -> int | None:
        shape = fragment_shape(value)
        return shape[place] if place < len(shape) else None
