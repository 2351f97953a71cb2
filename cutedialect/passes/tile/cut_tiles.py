"""Smaller tiles for a program without a multiply whose tiles do not fit the registers, or may be
longer than its rows: a step of `cute-tile`.

    i = tile_index Y, [64, 1024]                        c = tile_index Y, [16, 1024]
    x = load local_tile(X, [64, 1024], (i, 0))    =>    x = load local_tile(X, [16, 1024], (c, 0))
    y = map x { coord 0 + 64 i }                        y = map x { coord 0 + 16 (c mod 4) + 64 i }

A mode of the tiles is cut that is a mode of the work items, that nothing reduces, and whose
coordinate all tiles have in common. What else the program computes of the coordinate i gets the one
that it would have had: i = c / 4.

Where nothing is reduced, columns are cut to what a warp reads of a row at a time: lanes behind the
end of a row load nothing, and a tile of 1,024 columns would leave two thirds of them idle on rows
of 310.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from cutedialect.dialects import cute
from cutedialect.dialects.walks import holds, ops_of, walk
from cutedialect.passes.analysis.layout_inference import contiguous_mode
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import ScalarBuilder
from cutedialect.passes.tile.resized_tiles import (
    RESIZABLE,
    View,
    fragment_shape,
    fragment_shapes,
    kept_modes,
    moved_by,
    resize_tiles,
    resize_view,
)

# Elements of a tile that the registers of a CTA hold: of 8 warps where rows are reduced, else of
# 32.
_MOST_REDUCED = 16384
_MOST = 32768
# Bytes and elements of a row that a warp reads at a time.
_WARP_BYTES = 512
_WARP_COLUMNS = 256
# Elements that are work enough for a warp, and bytes that move while a CTA is launched.
_WARP_ELEMENTS = 1024
_WORK_BYTES = 4096
# With fewer rows, parts of them would share lines with others as often as they fill lanes.
_FEW_ROWS = 4


def cut_tiles(kernel: cute.KernelOp, of: str) -> None:
    """Cut a mode of the tiles of a kernel without a multiply if they are too large; `of` is the
    pass that says so.
    """
    index = next(iter(ops_of(kernel, cute.TileIndexOp)), None)
    size = max((prod(each) for op in walk(kernel) for each in fragment_shapes(op)), default=0)
    if index is None or not size:
        return
    most = _MOST_REDUCED if holds(kernel, cute.ReduceOp, *cute.LINE_OPS) else _MOST
    for mode, extent in enumerate(index.tile.get_values()):
        parts = next((n for n in range(-(-size // most), extent + 1) if extent % n == 0), 1)
        why = (
            f"tiles of {size} elements do not fit the registers: {parts} work items "
            f"share each, of {extent // parts} along mode {mode} instead of {extent}"
        )
        if parts > 1 and _Cut(kernel, index, mode, parts).is_done(of, why):
            return


def narrow_tiles(kernel: cute.KernelOp, of: str) -> None:
    """Cut the columns of a kernel that neither multiplies nor reduces to what a warp reads of a row
    at a time, so that rows which end within a tile leave few lanes idle.
    """
    index = next(iter(ops_of(kernel, cute.TileIndexOp)), None)
    if index is None or not isinstance(index.memref.type, cute.MemRefType):
        return
    mode = contiguous_mode(index.memref.type)
    turned = [cute.shape_of(op.source.type) for op in ops_of(kernel, cute.TransposeOp)]
    if mode is None or any(min(shape) > 1 < len(shape) for shape in turned):
        return
    extents = [int(each) for each in index.tile.get_values()]
    columns = extents[mode]
    rows = prod(each for other, each in enumerate(extents) if other != mode and each > 0)
    moved = [type_ for op in walk(kernel) for type_ in moved_by(op)]
    bits = [type_.bits for type_ in moved if prod(type_.shape) == rows * columns]
    if rows < _FEW_ROWS or not bits or holds(kernel, cute.ReduceOp, *cute.LINE_OPS):
        return
    parts = _parts_of_rows(rows, columns, bits)
    why = (
        f"rows that end within {columns} columns would leave lanes idle: {parts} work items "
        f"share each tile, of {columns // parts} columns"
    )
    if parts > 1:
        _Cut(kernel, index, mode, parts).is_done(of, why)


def _parts_of_rows(rows: int, columns: int, bits: Sequence[int]) -> int:
    """The parts of rows that are work enough for a warp each, of tensors of elements of `bits`."""
    enough = max(_WARP_ELEMENTS, 8 * _WORK_BYTES // sum(bits))
    least = max(enough // rows, _WARP_COLUMNS, 8 * _WARP_BYTES // max(bits))
    return max((n for n in range(1, columns // least + 1) if columns % n == 0), default=1)


class _Cut:
    """One mode of the work items of a kernel, cut into parts. Tiles have it where they have its
    extent; where another mode of the work items is as long, at its own place.
    """

    def __init__(
        self, kernel: cute.KernelOp, index: cute.TileIndexOp, mode: int, parts: int
    ) -> None:
        self.block, self.index, self.mode, self.parts = kernel.body.block, index, mode, parts
        self.extents = [int(each) for each in index.tile.get_values()]
        self.whole = self.extents[mode]
        self.part = self.whole // parts
        self.place: int | None = None
        if self.extents.count(self.whole) > 1:
            self.place = sum(1 for each in self.extents[:mode] if each != 0)
            self.place += 2 - sum(1 for each in self.extents if each != 0)

    def is_done(self, of: str, why: str) -> bool:
        """Cut the mode if each element keeps it to itself: all tiles have it at the coordinate of
        the work item, none has it twice, and nothing reduces it.
        """
        is_legal = all(map(self._allows, walk(self.block)))
        if is_legal:
            remark(of, self.index, why)
            self._run()
        return is_legal

    def _allows(self, op: Operation) -> bool:
        match op:
            case cute.LocalTileOp() | cute.IndexedTileOp():
                modes = self._modes_of_tensor(op)
                is_numbered = isinstance(op, cute.IndexedTileOp)
                if is_numbered and op.mode in modes:
                    return False
                if min(op.tile.get_values()) < 0 or (not is_numbered and op.of is not None):
                    return False
                if any(op.coords[m] is not self.index.results[self.mode] for m in modes):
                    return False
                if len(modes) > 1 or (self.place is not None and len(kept_modes(op)) != 2):
                    return False
            case cute.ReduceOp() | cute.ScanOp() | cute.SortOp() if (
                op.mode.value.data in self._modes(fragment_shape(op.source))
            ):
                return False
            case cute.TransposeOp() if self.place is not None:
                return False
            case cute.CopyOp() | cute.AtomicOp() if isinstance(
                op.destination.type, cute.MemRefType
            ):
                # What has not the mode would be stored by each of the work items.
                if len(self._modes(op.destination.type.shape)) != 1:
                    return False
            case _:
                pass
        found = [self._modes(shape) for shape in fragment_shapes(op)]
        is_known = isinstance(op, (*RESIZABLE, cute.ScanOp, cute.SortOp))
        is_known = is_known and all(len(each) < 2 for each in found)
        return is_known or not any(found)

    def _modes(self, shape: Sequence[object]) -> list[int]:
        """The modes of a tile that are cut."""
        places = range(len(shape)) if self.place is None else (self.place,)
        return [d for d in places if d < len(shape) and shape[d] == self.whole]

    def _modes_of_tensor(self, op: View) -> list[int]:
        kept, tile = kept_modes(op), op.tile.get_values()
        return [kept[d] for d in self._modes([tile[mode] for mode in kept])]

    def _run(self) -> None:
        index = self.index
        self.extents[self.mode] = self.part
        index.properties["tile"] = DenseArrayBase.from_list(i64, self.extents)
        cut = index.results[self.mode]
        places = {
            op: self._modes_of_tensor(op)
            for op in ops_of(self.block, cute.LocalTileOp, cute.IndexedTileOp)
        }
        build = ScalarBuilder(InsertPoint.after(index), index)
        count = build.constant(self.parts)
        before, inside = build.div(cut, count), build.rem(cut, count)
        offset = build.mul(inside, self.part)
        own = before.owner, inside.owner
        cut.replace_uses_with_if(before, lambda use: use.operation not in own)

        def extents(value: SSAValue) -> dict[int, int]:
            return dict.fromkeys(self._modes(fragment_shape(value))[:1], self.part)

        def resize(op: View) -> None:
            tile, coords = list(op.tile.get_values()), list(op.coords)
            for mode in places[op]:
                tile[mode], coords[mode] = self.part, cut
            if places[op]:
                resize_view(op, tile, coords)

        resize_tiles(walk(self.block), extents, resize, offset)
