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

from collections.abc import Iterable, Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from cutedialect.dialects.cute import (
    AllocFragmentOp,
    AtomicOp,
    CopyOp,
    FillOp,
    FragmentType,
    IndexedTileOp,
    KernelOp,
    LoadOp,
    LocalTileOp,
    MapOp,
    MemRefType,
    ReduceOp,
    TileIndexOp,
    TransposeOp,
    YieldOp,
    shape_of,
)
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.bind.layout_inference import contiguous_mode
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import ScalarBuilder
from cutedialect.passes.tile.resized_tiles import (
    coordinates_along,
    count_from,
    moved_by,
    resize_fragment,
    resize_transposed,
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
_CUT = (AllocFragmentOp, AtomicOp, CopyOp, FillOp, LoadOp, MapOp, ReduceOp, TransposeOp, YieldOp)


def cut_tiles(kernel: KernelOp, of: str) -> None:
    """Cut a mode of the tiles of a kernel without a multiply if they are too large; `of` is the
    pass that says so.
    """
    index = next(iter(ops_of(kernel, TileIndexOp)), None)
    sizes = [prod(each) for op in walk(kernel) for each in _shapes(op)]
    if index is None or not sizes:
        return
    reduces = bool(ops_of(kernel, ReduceOp))
    most = _MOST_REDUCED if reduces else _MOST
    for mode, extent in enumerate(index.tile.get_values()):
        least = -(-max(sizes) // most)
        parts = next((each for each in range(least, extent + 1) if extent % each == 0), 1)
        cut = _Cut(kernel, index, mode, parts)
        if parts > 1 and cut.is_legal():
            remark(
                of,
                index,
                f"tiles of {max(sizes)} elements do not fit the registers: {parts} work items "
                f"share each, of {extent // parts} along mode {mode} instead of {extent}",
            )
            cut.run()
            return


def narrow_tiles(kernel: KernelOp, of: str) -> None:
    """Cut the columns of a kernel that neither multiplies nor reduces to what a warp reads of a row
    at a time, so that rows which end within a tile leave few lanes idle.
    """
    index = next(iter(ops_of(kernel, TileIndexOp)), None)
    if index is None or not isinstance(index.memref.type, MemRefType):
        return
    mode = contiguous_mode(index.memref.type)
    turned = [shape_of(op.source.type) for op in ops_of(kernel, TransposeOp)]
    if mode is None or any(min(shape) > 1 < len(shape) for shape in turned):
        return
    extents = [int(each) for each in index.tile.get_values()]
    columns = extents[mode]
    rows = prod(each for other, each in enumerate(extents) if other != mode and each > 0)
    moved = [type_ for op in walk(kernel) for type_ in moved_by(op)]
    bits = [type_.bits for type_ in moved if prod(type_.shape) == rows * columns]
    if rows < _FEW_ROWS or not bits or ops_of(kernel, ReduceOp):
        return
    enough = max(_WARP_ELEMENTS, 8 * _WORK_BYTES // sum(bits))
    least = max(enough // rows, _WARP_COLUMNS, 8 * _WARP_BYTES // max(bits))
    parts = max((n for n in range(1, columns // least + 1) if columns % n == 0), default=1)
    cut = _Cut(kernel, index, mode, parts)
    if parts > 1 and cut.is_legal():
        remark(
            of,
            index,
            f"rows that end within {columns} columns would leave lanes idle: {parts} work items "
            f"share each tile, of {columns // parts} columns",
        )
        cut.run()


def _shapes(op: Operation) -> Iterable[tuple[int, ...]]:
    for value in (*op.operands, *op.results):
        if isinstance(value.type, FragmentType):
            yield value.type.shape


class _Cut:
    """One mode of the work items of a kernel, cut into parts. Tiles have it where they have its
    extent; where another mode of the work items is as long, at its own place.
    """

    def __init__(self, kernel: KernelOp, index: TileIndexOp, mode: int, parts: int) -> None:
        self.kernel, self.index, self.mode, self.parts = kernel, index, mode, parts
        self.extents = [int(each) for each in index.tile.get_values()]
        self.whole = self.extents[mode]
        self.part = self.whole // parts
        self.place: int | None = None
        if self.extents.count(self.whole) > 1:
            self.place = sum(1 for each in self.extents[:mode] if each != 0)
            self.place += 2 - sum(1 for each in self.extents if each != 0)

    def is_legal(self) -> bool:
        """Whether the mode is one that each element keeps to itself: all tiles have it at the
        coordinate of the work item, none has it twice, and nothing reduces it.
        """
        return all(map(self._allows, walk(self.kernel.body.block)))

    def _allows(self, op: Operation) -> bool:
        match op:
            case LocalTileOp() | IndexedTileOp():
                kept, shape = _kept(op), _shape(op)
                is_numbered = isinstance(op, IndexedTileOp)
                if is_numbered and op.mode in [kept[d] for d in self._modes(shape)]:
                    return False
                if any(each < 0 for each in shape) or (not is_numbered and op.of is not None):
                    return False
                places = [op.coords[kept[d]] for d in self._modes(shape)]
                if any(at is not self.index.results[self.mode] for at in places):
                    return False
                if len(places) > 1 or (self.place is not None and len(shape) != 2):
                    return False
            case ReduceOp() if op.mode.value.data in self._modes(op.source.type.shape):  # pyright: ignore
                return False
            case TransposeOp() if self.place is not None:
                return False
            case CopyOp() | AtomicOp() if isinstance(op.destination.type, MemRefType):
                # What has not the mode would be stored by each of the work items.
                if len(self._modes(op.destination.type.shape)) != 1:
                    return False
            case _:
                pass
        found = [self._modes(shape) for shape in _shapes(op)]
        return not any(found) or (isinstance(op, _CUT) and all(len(each) < 2 for each in found))

    def _modes(self, shape: Sequence[object]) -> list[int]:
        """The modes of a tile that are cut."""
        places = range(len(shape)) if self.place is None else (self.place,)
        return [d for d in places if d < len(shape) and shape[d] == self.whole]

    def run(self) -> None:
        """Cut it."""
        index = self.index
        self.extents[self.mode] = self.part
        index.properties["tile"] = DenseArrayBase.from_list(i64, self.extents)
        cut = index.results[self.mode]
        views = ops_of(self.kernel.body.block, LocalTileOp, IndexedTileOp)
        places = {op: [_kept(op)[d] for d in self._modes(_shape(op))] for op in views}
        build = ScalarBuilder(InsertPoint.after(index), index)
        count = build.constant(self.parts)
        before = build.binary(arith.DivSIOp, cut, count)
        inside = build.binary(arith.RemSIOp, cut, count)
        offset = build.binary(arith.MuliOp, inside, build.constant(self.part))
        own = before.owner, inside.owner
        cut.replace_uses_with_if(before, lambda use: use.operation not in own)
        for op in list(walk(self.kernel.body.block)):
            match op:
                case LocalTileOp() | IndexedTileOp() if places.get(op):
                    self._cut_view(op, places[op][0], cut)
                case TransposeOp() if isinstance(op.source.type, MemRefType):
                    resize_transposed(op)
                case _:
                    asked = self._modes(_fragment_shape(op.result)) if isinstance(op, MapOp) else ()
                    for coordinate in coordinates_along(op, asked):
                        count_from(coordinate, offset)
                    for result in op.results:
                        modes = self._modes(_fragment_shape(result))[:1]
                        resize_fragment(result, dict.fromkeys(modes, self.part))

    def _cut_view(self, op: LocalTileOp | IndexedTileOp, mode: int, coord: SSAValue) -> None:
        tile, coords = list(op.tile.get_values()), list(op.coords)
        tile[mode], coords[mode] = self.part, coord
        resize_view(op, tile, coords)


def _kept(op: LocalTileOp | IndexedTileOp) -> list[int]:
    """The modes of a tensor that its tile keeps."""
    return [mode for mode, extent in enumerate(op.tile.get_values()) if extent != 0]


def _shape(op: LocalTileOp | IndexedTileOp) -> tuple[int, ...]:
    return tuple(op.tile.get_values()[mode] for mode in _kept(op))


def _fragment_shape(value: SSAValue) -> tuple[int, ...]:
    type_ = value.type
    return type_.shape if isinstance(type_, FragmentType) else ()
