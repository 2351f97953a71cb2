"""`cute-tile`: give every kernel its grid, its work-item coordinates and its host part.

Before, `cute.tile_index` says which tiles there are, and `cute.gemm` may stand for a whole problem;
after, tile coordinates come from the block index in the schedule's raster order, and `@launch`
computes the grid from the tensors' extents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    f32,
    i32,
    i64,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import (
    AllocFragmentOp,
    AtomicOp,
    BlockIdxOp,
    CopyOp,
    DimOp,
    FillOp,
    FragmentType,
    GemmOp,
    KernelOp,
    LaunchOp,
    LocalTileOp,
    MapOp,
    MemRefType,
    ScheduleAttr,
    TileIndexOp,
    TransposeOp,
    YieldOp,
)
from cutedialect.passes.schedule_heuristic import complete
from cutedialect.schedule import Schedule


class ScalarBuilder:
    """Builds i32 scalar ops in order at one place, all with one location."""

    def __init__(self, point: InsertPoint, like: Operation) -> None:
        self._builder = Builder(point)
        self._location = like.location

    def insert(self, op: Operation) -> Operation:
        op.location = self._location
        return self._builder.insert(op)

    def constant(self, value: int) -> SSAValue:
        return self.insert(arith.ConstantOp(IntegerAttr(value, i32))).results[0]

    def dim(self, memref: SSAValue, mode: int) -> SSAValue:
        return self.insert(DimOp(memref, mode)).results[0]

    def binary(self, kind: type, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.insert(kind(lhs, rhs)).results[0]

    def tiles(self, memref: SSAValue, mode: int, extent: int) -> SSAValue:
        """How many tiles of `extent` cover a mode; -1 is the whole mode in one tile."""
        if extent < 0:
            return self.constant(1)
        size = self.dim(memref, mode)
        if extent == 1:
            return size
        return self.binary(arith.CeilDivSIOp, size, self.constant(extent))


@dataclass(frozen=True)
class TilePass(ModulePass):
    """Lower work items to block indices and write the host part."""

    name = "cute-tile"

    arch: str = "sm_80"
    schedule: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.attributes["cute.arch"] = StringAttr(self.arch)
        asked = Schedule.parse(self.schedule) if self.schedule else None
        kernels = [kernel for kernel in op.ops if isinstance(kernel, KernelOp)]
        launched = any(isinstance(f, func.FuncOp) for f in op.ops)
        for kernel in kernels:
            _expand_whole_problem(kernel, asked)
            given = kernel.schedule.data if kernel.schedule is not None else Schedule()
            schedule = complete(kernel, given.merged(asked), self.arch)
            assert schedule.warps is not None
            threads = 32 * schedule.warps[0] * schedule.warps[1]
            kernel.properties["schedule"] = ScheduleAttr(schedule)
            kernel.properties["threads"] = IntegerAttr(threads, i32)
            grid = _lower_tile_index(kernel, schedule)
            if not launched:
                _write_launch(op, kernel, grid, threads)


def _expand_whole_problem(kernel: KernelOp, asked: Schedule | None) -> None:
    """`cute.gemm` on whole tensors becomes a tile program: work item, k loop, store."""
    whole = [op for op in kernel.body.block.ops if isinstance(op, GemmOp) and op.is_whole_problem]
    if not whole:
        return
    if len(whole) > 1:
        raise PassFailedException(whole[1], "expected one whole-problem cute.gemm in a kernel")
    gemm = whole[0]
    given = kernel.schedule.data if kernel.schedule is not None else Schedule()
    tile = given.merged(asked).tile or (128, 128, 32)
    bm, bn, bk = tile
    build = ScalarBuilder(InsertPoint.before(gemm), gemm)
    out_type = gemm.acc.type
    assert isinstance(out_type, MemRefType)
    index = build.insert(TileIndexOp(gemm.acc, [bm, bn]))
    m, n = index.results
    acc = build.insert(AllocFragmentOp(FragmentType.get(f32, (bm, bn)))).results[0]
    zero = build.insert(arith.ConstantOp(FloatAttr(0.0, f32))).results[0]
    build.insert(FillOp(acc, zero))
    low, one = build.constant(0), build.constant(1)
    trips = build.tiles(gemm.a, 1, bk)
    body = Block(arg_types=[i32])
    build.insert(scf.ForOp(low, trips, one, [], body))
    inner = ScalarBuilder(InsertPoint.at_end(body), gemm)
    k = body.args[0]
    a = inner.insert(LocalTileOp(gemm.a, [bm, bk], [m, k])).results[0]
    b = inner.insert(LocalTileOp(gemm.b, [bn, bk], [n, k])).results[0]
    inner.insert(GemmOp(a, b, acc))
    inner.insert(scf.YieldOp())
    out = acc
    if out_type.element != f32:
        scalar = Block(arg_types=[f32])
        narrow = arith.TruncFOp(scalar.args[0], out_type.element)
        scalar.add_ops([narrow, YieldOp(narrow.results[0])])
        fragment = FragmentType.get(out_type.element, (bm, bn))
        out = build.insert(MapOp([acc], fragment, scalar)).results[0]
    view = build.insert(LocalTileOp(gemm.acc, [bm, bn], [m, n])).results[0]
    build.insert(CopyOp(out, view))
    gemm.detach()
    gemm.erase()


def _lower_tile_index(kernel: KernelOp, schedule: Schedule) -> TileIndexOp | None:
    """Replace the kernel's `cute.tile_index` by arithmetic on the block index."""
    found = [op for op in kernel.walk() if isinstance(op, TileIndexOp)]
    if not found:
        return None
    if len(found) > 1:
        raise PassFailedException(
            found[1], f"expected one cute.tile_index in @{kernel.sym_name.data}, got {len(found)}"
        )
    index = found[0]
    tile = index.tile.get_values()
    build = ScalarBuilder(InsertPoint.before(index), index)
    block = build.insert(BlockIdxOp("x")).results[0]
    counts = [build.tiles(index.memref, d, extent) for d, extent in enumerate(tile)]
    coords: list[SSAValue] = [block] * len(tile)
    rest = block
    if len(tile) >= 2:
        plane = build.binary(arith.MuliOp, counts[-2], counts[-1])
        inside = build.binary(arith.RemSIOp, block, plane) if len(tile) > 2 else block
        rest = build.binary(arith.DivSIOp, block, plane) if len(tile) > 2 else block
        coords[-2:] = _raster(build, inside, counts[-2], counts[-1], schedule.raster or 1)
        leading = range(len(tile) - 3, -1, -1)
    else:
        leading = range(0)
    for d in leading:
        last = d == 0
        coords[d] = rest if last else build.binary(arith.RemSIOp, rest, counts[d])
        rest = rest if last else build.binary(arith.DivSIOp, rest, counts[d])
    for old, new in zip(index.results, coords, strict=True):
        old.replace_all_uses_with(new)
    kept = TileIndexOp(index.memref, index.tile)
    index.detach()
    index.erase()
    return kept


def _raster(
    build: ScalarBuilder, index: SSAValue, rows: SSAValue, columns: SSAValue, group: int
) -> tuple[SSAValue, SSAValue]:
    """Tiles of a group of rows are walked column by column: neighbors share operands in L2."""
    width = build.constant(group)
    area = build.binary(arith.MuliOp, width, columns)
    which = build.binary(arith.DivSIOp, index, area)
    first = build.binary(arith.MuliOp, which, width)
    left = build.binary(arith.SubiOp, rows, first)
    height = build.binary(arith.MinSIOp, left, width)
    inside = build.binary(arith.RemSIOp, index, area)
    row = build.binary(arith.AddiOp, first, build.binary(arith.RemSIOp, inside, height))
    return row, build.binary(arith.DivSIOp, inside, height)


def _write_launch(
    module: ModuleOp, kernel: KernelOp, index: TileIndexOp | None, threads: int
) -> None:
    """Append `func.func @launch`: the grid from the extents, then the launch."""
    args = kernel.body.block.args
    block = Block(arg_types=[arg.type for arg in args])
    for mine, theirs in zip(block.args, args, strict=True):
        mine.name_hint = theirs.name_hint
    build = ScalarBuilder(InsertPoint.at_end(block), kernel)
    one = build.constant(1)
    total = one
    if index is not None:
        position = _argument_position(kernel, index)
        tensor = block.args[position]
        counts = [
            build.tiles(tensor, d, extent) for d, extent in enumerate(index.tile.get_values())
        ]
        total = counts[0]
        for count in counts[1:]:
            total = build.binary(arith.MuliOp, total, count)
        index.erase()
    build.insert(LaunchOp(kernel.sym_name.data, [total, one, one], block.args, threads=threads))
    build.insert(func.ReturnOp())
    host = func.FuncOp("launch", ([arg.type for arg in args], []), Region(block))
    host.attributes["cute.written"] = DenseArrayBase.from_list(i64, _written(kernel))
    host.location = kernel.location
    module.body.block.add_op(host)


def _written(kernel: KernelOp) -> list[int]:
    """Positions of the arguments that the kernel may store to."""
    roots: set[SSAValue] = set()
    for op in kernel.body.block.walk():
        if isinstance(op, CopyOp | AtomicOp):
            value = op.destination
            while isinstance(view := value.owner, LocalTileOp | TransposeOp):
                value = view.operands[0]
            roots.add(value)
    return [position for position, arg in enumerate(kernel.body.block.args) if arg in roots]


def _argument_position(kernel: KernelOp, index: TileIndexOp) -> int:
    arguments: Sequence[SSAValue] = kernel.body.block.args
    for position, arg in enumerate(arguments):
        if arg is index.memref:
            return position
    raise PassFailedException(
        kernel, "expected cute.tile_index on a kernel argument, got another tensor"
    )
