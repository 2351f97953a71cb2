"""Which CTA computes which tile: work items in raster order, one for each CTA or several in turn.

Tiles are dealt out in blocks of the cluster's shape, which are walked in the order of `raster.py`.
The tiles of a group of tensors are one list, tensor by tensor. The scheduler `single` gives every
CTA the work item of its block index; `persistent` wraps the program into a loop over work items, as
many CTAs apart as the grid has.
"""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import (
    AllocSmemOp,
    BlockIdxOp,
    FindOp,
    GridDimOp,
    GroupSizeOp,
    GroupType,
    KernelOp,
    LaunchOp,
    MemberOp,
    SmCountOp,
    TileIndexOp,
    TileOffsetsOp,
)
from cutedialect.passes.launch_arguments import add_argument, launched_with
from cutedialect.passes.raster import walk
from cutedialect.passes.scalar_ops import ScalarBuilder
from cutedialect.passes.tensor_maps import mark_cluster_mode, mark_cluster_uniform
from cutedialect.schedule import Schedule


def count_blocks(
    build: ScalarBuilder, memref: SSAValue, tile: tuple[int, ...], cluster: tuple[int, int]
) -> tuple[SSAValue, ...]:
    """How many blocks of tiles cover each mode of a tensor."""
    shape = (1,) * (len(tile) - 2) + cluster if len(tile) >= 2 else (1,) * len(tile)
    counts: list[SSAValue] = []
    for mode, (extent, ctas) in enumerate(zip(tile, shape, strict=True)):
        tiles = build.tiles(memref, mode, extent)
        if ctas > 1:
            tiles = build.binary(arith.CeilDivSIOp, tiles, build.constant(ctas))
        counts.append(tiles)
    return tuple(counts)


def tile_index_of(kernel: KernelOp) -> TileIndexOp | None:
    """The `cute.tile_index` of a kernel, None where there is none."""
    found = [op for op in kernel.walk() if isinstance(op, TileIndexOp)]
    if len(found) > 1:
        raise PassFailedException(
            found[1], f"expected one cute.tile_index in @{kernel.sym_name.data}, got {len(found)}"
        )
    return found[0] if found else None


def lower_tile_index(kernel: KernelOp, index: TileIndexOp, schedule: Schedule) -> None:
    """Replace a `cute.tile_index` by the coordinates of the CTA's work items.

    The host part has to be there: for a group of tensors it computes where the work items of each
    begin.
    """
    cluster = schedule.cluster or (1, 1)
    tile = index.tile.get_values()
    build = ScalarBuilder(InsertPoint.before(index), index)
    offsets = _add_offsets(kernel, index, cluster)
    item: SSAValue = build.insert(BlockIdxOp("x")).results[0]
    blocks = None
    if offsets is None:
        blocks = count_blocks(build, index.memref, tile, cluster)
    rank = None
    if cluster != (1, 1):
        size = build.constant(cluster[0] * cluster[1])
        block, item = item, build.binary(arith.DivSIOp, item, size)
        mark_cluster_uniform(item)
        rank = build.binary(arith.RemSIOp, block, size)
    if schedule.scheduler == "persistent":
        total = _last(build, offsets) if blocks is None else _product(build, blocks)
        build, item = _work_loop(kernel, index, build, total, cluster[0] * cluster[1], item)
    problem = None
    if blocks is None:
        assert offsets is not None
        problem = build.insert(FindOp(item, offsets)).results[0]
        first = build.insert(MemberOp(offsets, problem)).results[0]
        item = build.binary(arith.SubiOp, item, first)
        tensor = build.insert(MemberOp(index.memref, problem)).results[0]
        blocks = count_blocks(build, tensor, tile, cluster)
    coords = _coordinates(build, item, blocks, schedule)
    if rank is not None:
        coords = _inside(build, coords, rank, cluster)
    if problem is not None:
        coords = [problem, *coords]
    for old, new in zip(index.results, coords, strict=True):
        old.replace_all_uses_with(new)
    index.detach()
    index.erase()


def grid_size(
    build: ScalarBuilder, memref: SSAValue, tile: tuple[int, ...], schedule: Schedule
) -> SSAValue:
    """Host part: how many CTAs to launch over the tiles of a tensor, or of a group of them."""
    cluster = schedule.cluster or (1, 1)
    ctas = cluster[0] * cluster[1]
    if isinstance(memref.type, GroupType):
        total = _last(build, build.insert(TileOffsetsOp(memref, tile, cluster)).results[0])
    else:
        total = _product(build, count_blocks(build, memref, tile, cluster))
    size = build.constant(ctas) if ctas > 1 else None
    if schedule.scheduler == "persistent":
        resident = build.insert(SmCountOp()).results[0]
        if size is not None:
            resident = build.binary(arith.DivSIOp, resident, size)
            resident = build.binary(arith.MaxSIOp, resident, build.constant(1))
        total = build.binary(arith.MinSIOp, total, resident)
    return total if size is None else build.binary(arith.MuliOp, total, size)


def _product(build: ScalarBuilder, counts: tuple[SSAValue, ...]) -> SSAValue:
    total = counts[0]
    for count in counts[1:]:
        total = build.binary(arith.MuliOp, total, count)
    return total


def _add_offsets(
    kernel: KernelOp, index: TileIndexOp, cluster: tuple[int, int]
) -> BlockArgument | None:
    """For a group of tensors, the kernel argument that says where the work items of each begin."""
    group, tile = index.memref, index.tile.get_values()
    if not isinstance(group.type, GroupType):
        return None

    def make(launch: LaunchOp) -> TileOffsetsOp:
        given = launched_with(kernel, launch, group)
        for use in given.uses:
            op = use.operation
            if (
                isinstance(op, TileOffsetsOp)
                and op.tile.get_values() == tile
                and op.cluster.get_values() == cluster
            ):
                return op
        return TileOffsetsOp(given, tile, cluster)

    return add_argument(kernel, GroupType(i32), "offsets", make)


def _last(build: ScalarBuilder, offsets: SSAValue | None) -> SSAValue:
    """The last of the offsets: how many work items there are."""
    assert offsets is not None
    size = build.insert(GroupSizeOp(offsets)).results[0]
    last = build.binary(arith.SubiOp, size, build.constant(1))
    return build.insert(MemberOp(offsets, last)).results[0]


def _work_loop(
    kernel: KernelOp,
    index: TileIndexOp,
    build: ScalarBuilder,
    total: SSAValue,
    ctas: int,
    first: SSAValue,
) -> tuple[ScalarBuilder, SSAValue]:
    """Move everything from `index` on into a loop over work items, each of which is for so many
    CTAs; returns the item's number.
    """
    step = build.insert(GridDimOp("x")).results[0]
    if ctas > 1:
        step = build.binary(arith.DivSIOp, step, build.constant(ctas))
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
    build: ScalarBuilder, item: SSAValue, counts: tuple[SSAValue, ...], schedule: Schedule
) -> list[SSAValue]:
    """Block coordinates of a work item."""
    coords: list[SSAValue] = [item] * len(counts)
    rest = item
    leading = range(0)
    if len(counts) >= 2:
        plane = build.binary(arith.MuliOp, counts[-2], counts[-1])
        inside = build.binary(arith.RemSIOp, item, plane) if len(counts) > 2 else item
        rest = build.binary(arith.DivSIOp, item, plane) if len(counts) > 2 else item
        coords[-2:] = walk(build, inside, (counts[-2], counts[-1]), schedule)
        leading = range(len(counts) - 3, -1, -1)
    for d in leading:
        last = d == 0
        coords[d] = rest if last else build.binary(arith.RemSIOp, rest, counts[d])
        rest = rest if last else build.binary(arith.DivSIOp, rest, counts[d])
    return coords


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
