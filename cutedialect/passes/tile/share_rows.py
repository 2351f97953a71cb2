"""Rows that the CTAs of a cluster share, in a program without a multiply: a step of `cute-tile`.

    x = load local_tile(X, [1, 32768], (i, 0))
    copy map(x, reduce "max", x), local_tile(Y, [1, 32768], (i, 0))
    =>
    r = cluster_rank of 4; x = load local_tile(X, [1, 8192], (i, r))
    m = cluster_reduce "max", (reduce "max", x) of 4
    copy map(x, m), local_tile(Y, [1, 8192], (i, r))

A long row takes so many registers that an SM holds one at a time, and memory waits while it is
computed and stored. Of parts of rows an SM holds several, which load and compute in turns; few rows
keep as many times more SMs busy. What is reduced along the row crosses the cluster once for each
reduction; what has no part of the row all of its CTAs compute and store alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from cutedialect.atoms import target
from cutedialect.dialects import cute
from cutedialect.dialects.cute.reductions import combined_type
from cutedialect.dialects.effects import is_pure, space_of, written_by
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.analysis.memory_views import (
    expression_of,
    is_zero,
    root_of,
    tensor_dependences,
)
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import ScalarBuilder, erase
from cutedialect.passes.tile.resized_tiles import (
    RESIZABLE,
    View,
    fragment_shape,
    fragment_shapes,
    hide,
    resize_tiles,
    resize_view,
)
from cutedialect.passes.tile.streaming import part_of, parts_of_rows
from cutedialect.schedule import Schedule

# What all CTAs may do alike.
_ALONE = (
    cute.DimOp,
    cute.LocalTileOp,
    cute.ReadOp,
    cute.SliceOp,
    cute.StrideOp,
    cute.TileIndexOp,
    cute.YieldOp,
)
_BITS = 32


def share_rows(kernel: cute.KernelOp, given: Schedule, arch: str, of: str) -> int:
    """Let the CTAs of clusters share the rows of a kernel; how many of them, 1 where none do.
    `split_k` and `reduction = cluster` of the schedule say how many, else the rows' length does.
    """
    asked = (given.split_k or 1) if given.shares_in_cluster else None
    if asked is None and (given.split_k is not None or not _takes_clusters(given, arch)):
        return 1
    row = max((op.length for op in ops_of(kernel, cute.ReduceOp)), default=None)
    parts = asked or (1 if row is None else parts_of_rows(kernel, row))
    if parts == 1:
        return 1
    why = "no row is reduced" if row is None else _Share(kernel, row, parts).why_not()
    if why:
        if asked is not None:
            raise PassFailedException(
                kernel, f"expected rows that {parts} CTAs of a cluster can share, but {why}"
            )
        remark(of, kernel, f"rows of {row} elements not shared by {parts} CTAs: {why}")
        return 1
    assert row is not None
    if asked is None:
        remark(of, kernel, f"rows of {row} elements are shared by clusters of {parts} CTAs")
    _Share(kernel, row, parts).run()
    return parts


def _takes_clusters(given: Schedule, arch: str) -> bool:
    """Whether clusters can be chosen for a schedule that does not ask for them."""
    return (
        target(arch).max_cluster > 1
        and given.plan.loads is None
        and given.scheduler in (None, "single")
        and given.cluster in (None, (1, 1))
    )


class _Share:
    """The rows of one kernel: modes of its tiles that are as long as its longest row."""

    def __init__(self, kernel: cute.KernelOp, row: int, parts: int) -> None:
        self.kernel, self.row, self.parts = kernel, row, parts
        self.part = part_of(row, parts)

    def why_not(self) -> str:
        """Why the rows cannot be shared; empty where they can."""
        stored = [tile for tile in written_by(self.kernel) if space_of(tile) == "gmem"]
        if tensor_dependences(self.kernel).readers:
            return "the program loads what it has stored"
        whys = (self._why_not(op, stored) for op in walk(self.kernel.body.block))
        return next(filter(None, whys), "")

    def _why_not(self, op: Operation, stored: Sequence[SSAValue]) -> str:
        tiles = fragment_shapes(op)
        has_rows = any(map(self._modes, tiles))
        if any(len(self._modes(shape)) > 1 for shape in tiles):
            return f"a tile has two modes of {self.row}"
        in_map = isinstance(op.parent_op(), cute.MapOp)
        if has_rows and op.parent is not self.kernel.body.block:
            return "rows are loaded or computed in a loop or branch"
        if has_rows and not isinstance(op, RESIZABLE):
            return f"{op.name} is not known to leave the parts of rows apart"
        match op:
            case cute.LocalTileOp():
                return self._why_no_view(op)
            case cute.ReduceOp() if op.length == self.row:
                return _why_no_reduction(op)
            case cute.LoadOp() if not (has_rows and _stays_apart(op.source, stored)):
                if any(root_of(tile) is root_of(op.source) for tile in stored):
                    return "the program stores what another CTA may not have loaded yet"
            case cute.AtomicOp() if not has_rows:
                return "every CTA would add the same to memory"
            case _:
                pass
        alone = isinstance(op, (*RESIZABLE, *_ALONE)) or in_map or op.regions or is_pure(op)
        return "" if alone else f"every CTA would do {op.name}"

    def _why_no_view(self, op: cute.LocalTileOp) -> str:
        tile = op.tile.get_values()
        modes = self._modes(tile)
        if op.of is not None or any(extent < 0 for extent in tile):
            return "a tile has a whole mode"
        if len(modes) > 1:
            return f"a tile has two modes of {self.row}"
        if modes and not self._divides and not is_zero(op.coords[modes[0]]):
            return f"tiles of {self.row} do not divide into {self.parts} that follow each other"
        return ""

    @property
    def _divides(self) -> bool:
        return self.part * self.parts == self.row

    def _modes(self, shape: Iterable[object]) -> list[int]:
        return [mode for mode, extent in enumerate(shape) if extent == self.row]

    def run(self) -> None:
        """Share them."""
        block = self.kernel.body.block
        first = block.first_op
        assert first is not None
        ops = list(walk(block))
        reduced = [op for op in ops if isinstance(op, cute.ReduceOp) and op.length == self.row]
        build = ScalarBuilder(InsertPoint.before(first), first)
        rank = build.value(cute.ClusterRankOp(self.parts))
        start = build.mul(rank, self.part)

        def extents(value: SSAValue) -> dict[int, int]:
            return dict.fromkeys(self._modes(fragment_shape(value)), self.part)

        resize_tiles(ops, extents, lambda op: self._share_view(op, rank), start)
        for op in reduced:
            if not self._divides:
                hide(op, {op.mode.value.data: self.row}, start)
            self._combine(op)

    def _combine(self, op: cute.ReduceOp) -> None:
        """Let what reads a reduction of parts read that of the whole row; 16-bit floats are
        combined in f32 and rounded once.
        """
        type_ = cute.fragment_of(op.result)
        wide = combined_type(type_.element)
        before = ScalarBuilder(InsertPoint.before(op), op)
        source = op.source if wide == type_.element else _as(before, op.source, wide, arith.ExtFOp)
        build = ScalarBuilder(InsertPoint.after(op), op)
        part = build.value(cute.ReduceOp(op.kind.data, source, op.mode.value.data))
        whole = build.value(cute.ClusterReduceOp(op.kind.data, part, self.parts))
        if wide != type_.element:
            whole = _as(build, whole, type_.element, arith.TruncFOp)
        whole.name_hint = op.result.name_hint
        op.result.replace_all_uses_with(whole)
        erase(op)

    def _share_view(self, op: View, rank: SSAValue) -> None:
        """The part of a view's row that a CTA has; of a row that does not divide it ends where the
        row does.
        """
        tile, coords, memref = list(op.tile.get_values()), list(op.coords), op.memref
        build = ScalarBuilder(InsertPoint.before(op), op)
        modes = self._modes(tile)
        for mode in modes:
            tile[mode] = self.part
            if not is_zero(coords[mode]):
                coords[mode] = build.add(build.mul(coords[mode], self.parts), rank)
                continue
            coords[mode] = rank
            if not self._divides:
                ends = build.constant(0), build.constant(self.row)
                memref = build.value(cute.SliceOp(memref, mode, *ends))
        if modes:
            resize_view(op, tile, coords, memref)


def _stays_apart(loaded: SSAValue, stored: Sequence[SSAValue]) -> bool:
    """Whether of a tensor that is stored to, too, each CTA loads the part that it stores."""
    tiles = [tile for tile in stored if root_of(tile) is root_of(loaded)]
    return all(expression_of(tile) == expression_of(loaded) for tile in tiles)


def _why_no_reduction(op: cute.ReduceOp) -> str:
    type_ = cute.fragment_of(op.result)
    if op.body is not None or op.local is not None:
        return "a reduction folds by a function"
    if prod(type_.shape) > 1:
        return f"tiles have {prod(type_.shape)} rows"
    bits = cute.element_bits(combined_type(type_.element))
    return "" if bits == _BITS else f"a reduction is of {bits} bits, not {_BITS}"


def _as(build: ScalarBuilder, tile: SSAValue, element: Attribute, kind: type) -> SSAValue:
    """A tile in another type of floats."""
    made = cute.FragmentType.get(element, cute.fragment_of(tile).shape)
    return build.value(cute.MapOp.of(lambda each: kind(each, element), [tile], made))
