"""Which CTA computes which tile: work items in raster order, one for each CTA or several in turn.

Tiles are dealt out in blocks of the cluster's shape; a group of `raster` rows of blocks is walked
column by column, so that CTAs that run at one time share operands in L2. The scheduler `single`
gives every CTA the work item of its block index; `persistent` wraps the program into a loop over
work items, as many CTAs apart as the grid has.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import (
    AllocSmemOp,
    BlockIdxOp,
    GridDimOp,
    KernelOp,
    SmCountOp,
    TileIndexOp,
)
from cutedialect.passes.scalar_ops import ScalarBuilder
from cutedialect.passes.tensor_maps import mark_cluster_mode, mark_cluster_uniform
from cutedialect.schedule import Schedule


@dataclass(frozen=True)
class Blocks:
    """How many blocks of tiles each mode has, and the block's shape over the last two."""

    counts: tuple[SSAValue, ...]
    cluster: tuple[int, int]

    @property
    def size(self) -> int:
        """CTAs of a block."""
        return self.cluster[0] * self.cluster[1]


def count_blocks(
    build: ScalarBuilder, memref: SSAValue, tile: tuple[int, ...], cluster: tuple[int, int]
) -> Blocks:
    """The blocks of tiles that cover a tensor."""
    shape = (1,) * (len(tile) - 2) + cluster if len(tile) >= 2 else (1,) * len(tile)
    counts: list[SSAValue] = []
    for mode, (extent, ctas) in enumerate(zip(tile, shape, strict=True)):
        tiles = build.tiles(memref, mode, extent)
        if ctas > 1:
            tiles = build.binary(arith.CeilDivSIOp, tiles, build.constant(ctas))
        counts.append(tiles)
    return Blocks(tuple(counts), cluster)


def lower_tile_index(kernel: KernelOp, schedule: Schedule) -> TileIndexOp | None:
    """Replace the kernel's `cute.tile_index` by the coordinates of the CTA's work items.

    Returns a detached copy of the op for the host part, None where there is none.
    """
    found = [op for op in kernel.walk() if isinstance(op, TileIndexOp)]
    if not found:
        return None
    if len(found) > 1:
        raise PassFailedException(
            found[1], f"expected one cute.tile_index in @{kernel.sym_name.data}, got {len(found)}"
        )
    index = found[0]
    tile = index.tile.get_values()
    cluster = schedule.cluster or (1, 1)
    build = ScalarBuilder(InsertPoint.before(index), index)
    block = build.insert(BlockIdxOp("x")).results[0]
    blocks = count_blocks(build, index.memref, tile, cluster)
    item, rank = block, None
    if blocks.size > 1:
        size = build.constant(blocks.size)
        item = build.binary(arith.DivSIOp, block, size)
        mark_cluster_uniform(item)
        rank = build.binary(arith.RemSIOp, block, size)
    if schedule.scheduler == "persistent":
        build, item = _work_loop(kernel, index, build, blocks, item)
    coords = _coordinates(build, item, blocks.counts, schedule.raster or 1)
    if rank is not None:
        coords = _inside(build, coords, rank, cluster)
    for old, new in zip(index.results, coords, strict=True):
        old.replace_all_uses_with(new)
    kept = TileIndexOp(index.memref, index.tile)
    index.detach()
    index.erase()
    return kept


def grid_size(
    build: ScalarBuilder, memref: SSAValue, tile: tuple[int, ...], schedule: Schedule
) -> SSAValue:
    """Host part: how many CTAs to launch."""
    blocks = count_blocks(build, memref, tile, schedule.cluster or (1, 1))
    total = blocks.counts[0]
    for count in blocks.counts[1:]:
        total = build.binary(arith.MuliOp, total, count)
    size = build.constant(blocks.size) if blocks.size > 1 else None
    if schedule.scheduler == "persistent":
        resident = build.insert(SmCountOp()).results[0]
        if size is not None:
            resident = build.binary(arith.DivSIOp, resident, size)
            resident = build.binary(arith.MaxSIOp, resident, build.constant(1))
        total = build.binary(arith.MinSIOp, total, resident)
    return total if size is None else build.binary(arith.MuliOp, total, size)


def _work_loop(
    kernel: KernelOp, index: TileIndexOp, build: ScalarBuilder, blocks: Blocks, first: SSAValue
) -> tuple[ScalarBuilder, SSAValue]:
    """Move everything from `index` on into a loop over work items; returns the item's number."""
    total = blocks.counts[0]
    for count in blocks.counts[1:]:
        total = build.binary(arith.MuliOp, total, count)
    step = build.insert(GridDimOp("x")).results[0]
    if blocks.size > 1:
        step = build.binary(arith.DivSIOp, step, build.constant(blocks.size))
    body = Block(arg_types=[i32])
    build.insert(scf.ForOp(first, total, step, [], body))
    moved: list[Operation] = []
    op: Operation | None = index
    while op is not None:
        if not isinstance(op, AllocSmemOp):
            moved.append(op)
        op = op.next_op
    for op in moved:
        op.detach()
        body.add_op(op)
    ending = scf.YieldOp()
    ending.location = kernel.location
    body.add_op(ending)
    return ScalarBuilder(InsertPoint.before(index), index), body.args[0]


def _coordinates(
    build: ScalarBuilder, item: SSAValue, counts: tuple[SSAValue, ...], raster: int
) -> list[SSAValue]:
    """Block coordinates of a work item."""
    coords: list[SSAValue] = [item] * len(counts)
    rest = item
    leading = range(0)
    if len(counts) >= 2:
        plane = build.binary(arith.MuliOp, counts[-2], counts[-1])
        inside = build.binary(arith.RemSIOp, item, plane) if len(counts) > 2 else item
        rest = build.binary(arith.DivSIOp, item, plane) if len(counts) > 2 else item
        coords[-2:] = _raster(build, inside, counts[-2], counts[-1], raster)
        leading = range(len(counts) - 3, -1, -1)
    for d in leading:
        last = d == 0
        coords[d] = rest if last else build.binary(arith.RemSIOp, rest, counts[d])
        rest = rest if last else build.binary(arith.DivSIOp, rest, counts[d])
    return coords


def _raster(
    build: ScalarBuilder, index: SSAValue, rows: SSAValue, columns: SSAValue, group: int
) -> tuple[SSAValue, SSAValue]:
    """Blocks of a group of rows are walked column by column: neighbors share operands in L2."""
    width = build.constant(group)
    area = build.binary(arith.MuliOp, width, columns)
    which = build.binary(arith.DivSIOp, index, area)
    first = build.binary(arith.MuliOp, which, width)
    left = build.binary(arith.SubiOp, rows, first)
    height = build.binary(arith.MinSIOp, left, width)
    inside = build.binary(arith.RemSIOp, index, area)
    row = build.binary(arith.AddiOp, first, build.binary(arith.RemSIOp, inside, height))
    return row, build.binary(arith.DivSIOp, inside, height)


def _inside(
    build: ScalarBuilder, coords: list[SSAValue], rank: SSAValue, cluster: tuple[int, int]
) -> list[SSAValue]:
    """Tile coordinates of the CTA with this rank: ranks run along M first."""
    across = build.constant(cluster[0])
    steps = [
        build.binary(arith.RemSIOp, rank, across) if cluster[0] > 1 else None,
        build.binary(arith.DivSIOp, rank, across) if cluster[1] > 1 else None,
    ]
    moved = list(coords)
    for mode, (place, extent, step) in enumerate(zip((-2, -1), cluster, steps, strict=True)):
        if step is not None:
            start = build.binary(arith.MuliOp, coords[place], build.constant(extent))
            moved[place] = build.binary(arith.AddiOp, start, step)
            mark_cluster_mode(moved[place], mode)
    return moved
