"""Which CTA computes which tile: work items in raster order, one for each CTA or several in turn.

Tiles are dealt out in blocks of the cluster's shape, which are walked in the order of `raster.py`.
The tiles of a group of tensors are one list, tensor by tensor. The scheduler `single` gives every
CTA the work item of its block index; `persistent` wraps the program into a loop over work items, as
many CTAs apart as the grid has, or over a list that the host made where the program says how much
work tiles are; `dynamic` into one that claims them (`work_loops.py`); `cancel` gives every CTA the
work item of its block index, and those that have begun cancel launches and take over their items.
With `split_k` or the scheduler `stream`, CTAs share the reductions of tiles (`split_reduction.py`),
with `tail` those of the tiles that do not fill the last round.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects import cute
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.bind.layout_inference import contiguous_mode
from cutedialect.passes.bind.tensor_maps import mark_cluster_mode, mark_cluster_uniform
from cutedialect.passes.rewriting import ScalarBuilder, erase
from cutedialect.passes.tile.absent_items import effects_of_items, guard_effects
from cutedialect.passes.tile.launch_arguments import add_argument, launched_with
from cutedialect.passes.tile.raster import walk
from cutedialect.passes.tile.runs import count_runs
from cutedialect.passes.tile.split_reduction import (
    Reduction,
    Share,
    hoisted,
    reduction_of,
    share_reduction,
)
from cutedialect.passes.tile.work_loops import cancel_loop, claim_loop, work_loop
from cutedialect.schedule import Schedule


def count_blocks(
    build: ScalarBuilder,
    memref: SSAValue,
    tile: tuple[int, ...],
    cluster: tuple[int, int],
    run: int | None = None,
) -> tuple[SSAValue, ...]:
    """How many blocks of tiles cover each mode of a tensor; or how many runs of tiles cover it."""
    if run is not None:
        return count_runs(build, memref, tile[-1], run), build.constant(1)
    shape = (1,) * (len(tile) - 2) + cluster if len(tile) >= 2 else (1,) * len(tile)
    counts: list[SSAValue] = []
    for mode, (extent, ctas) in enumerate(zip(tile, shape, strict=True)):
        tiles = build.tiles(memref, mode, extent)
        if ctas > 1:
            tiles = build.binary(arith.CeilDivSIOp, tiles, build.constant(ctas))
        counts.append(tiles)
    return tuple(counts)


def tile_index_of(kernel: cute.KernelOp) -> cute.TileIndexOp | None:
    """The `cute.tile_index` of a kernel, None where there is none."""
    found = ops_of(kernel, cute.TileIndexOp)
    if len(found) > 1:
        raise PassFailedException(
            found[1], f"expected one cute.tile_index in @{kernel.sym_name.data}, got {len(found)}"
        )
    return found[0] if found else None


def shares_rows(kernel: cute.KernelOp) -> bool:
    """Whether CTAs of a cluster share the rows of a kernel, by their ranks."""
    return any(isinstance(op, cute.ClusterRankOp) for op in kernel.body.block.ops)


def lower_tile_index(kernel: cute.KernelOp, index: cute.TileIndexOp, schedule: Schedule) -> None:
    """Replace a `cute.tile_index` by the coordinates of the CTA's work items.

    The host part has to be there: for a group of tensors it computes where the work items of each
    begin.
    """
    cluster = schedule.cluster or (1, 1)
    tile = index.tile.get_values()
    build = ScalarBuilder(InsertPoint.before(index), index)
    offsets = _add_offsets(kernel, index, cluster)
    item: SSAValue = build.insert(cute.BlockIdxOp("x")).results[0]
    blocks = None
    if offsets is None:
        blocks = count_blocks(build, index.memref, tile, cluster, index.run)
    rank = None
    effects: list[Operation] = []
    if cluster != (1, 1):
        effects = effects_of_items(index, cluster)
        size = build.constant(cluster[0] * cluster[1])
        block, item = item, build.binary(arith.DivSIOp, item, size)
        mark_cluster_uniform(item)
        rank = build.binary(arith.RemSIOp, block, size)
    if schedule.scheduler == "stream" and schedule.split_k not in (None, 1):
        raise PassFailedException(
            index,
            f"expected split_k = 1 with the scheduler stream, which splits by itself, got "
            f"{schedule.split_k}",
        )
    # Of rows that a cluster shares, its CTAs have parts by their ranks.
    have_rows = shares_rows(kernel)
    reduction = reduction_of(kernel) if schedule.shares_tiles and not have_rows else None
    launched = _Launched(kernel, index.memref, tile, cluster, offsets)
    share = None
    if schedule.scheduler == "stream":
        assert reduction is not None
        if blocks is None:
            raise PassFailedException(
                index, "expected one tensor for the scheduler stream, got a group of tensors"
            )
        total = _product(build, blocks)
        build, item, share = _stream(kernel, index, build, total, reduction, item, rank, launched)
    elif schedule.scheduler == "tail" and (schedule.split_k or 1) > 1:
        if blocks is None or schedule.shares_in_cluster:
            got = "a group of tensors" if blocks is None else "reduction = cluster"
            raise PassFailedException(
                index, f"expected one tensor and no cluster that shares its tiles, got {got}"
            )
        total, parts = _product(build, blocks), schedule.split_k or 1
        build, item, share = _tail(index, build, total, parts, item, rank, launched)
    else:
        parts = schedule.split_k or 1
        if schedule.scheduler in ("persistent", "dynamic", "cancel", "tail"):
            total = _last(build, offsets) if blocks is None else _product(build, blocks)
            if parts > 1:
                total = build.binary(arith.MuliOp, total, build.constant(parts))
            if schedule.scheduler == "dynamic":
                build, item = claim_loop(kernel, index, item, total)
            elif schedule.scheduler == "cancel":
                build, item = cancel_loop(index, item, total)
            else:
                build, item = _persistent(build, index, item, total, parts, launched)
        if parts > 1 and have_rows:
            item = build.binary(arith.DivSIOp, item, build.constant(parts))
        elif parts > 1:
            item, share = _split(build, item, parts, rank, launched)
    problem = None
    if blocks is None:
        assert offsets is not None
        problem = build.insert(cute.FindOp(item, offsets)).results[0]
        first = build.insert(cute.MemberOp(offsets, problem)).results[0]
        item = build.binary(arith.SubiOp, item, first)
        tensor = build.insert(cute.MemberOp(index.memref, problem)).results[0]
        blocks = count_blocks(build, tensor, tile, cluster)
    if index.run is not None:
        coords = [item, build.constant(0)]
    elif schedule.order == "sections":
        coords = _in_sections(build, item, blocks, tile, schedule)
    elif schedule.order == "memory":
        tensor = index.memref if problem is None else tensor
        coords = _along_memory(build, item, tensor, blocks, tile)
    else:
        coords = _coordinates(build, item, blocks, schedule)
    if rank is not None:
        coords = _inside(build, coords, rank, cluster)
    if effects:
        found = index.memref if problem is None else tensor
        guard_effects(effects, build, found, tile, coords, cluster)
    if problem is not None:
        coords = [problem, *coords]
    for old, new in zip(index.results, coords, strict=True):
        old.replace_all_uses_with(new)
    erase(index)
    if reduction is not None and share is not None:
        share_reduction(kernel, reduction, share, schedule)


def grid_size(
    build: ScalarBuilder,
    memref: SSAValue,
    tile: tuple[int, ...],
    schedule: Schedule,
    run: int | None = None,
) -> SSAValue:
    """Host part: how many CTAs to launch over the tiles of a tensor, or of a group of them."""
    cluster = schedule.cluster or (1, 1)
    ctas = cluster[0] * cluster[1]
    if isinstance(memref.type, cute.GroupType):
        total = _last(build, build.insert(cute.TileOffsetsOp(memref, tile, cluster)).results[0])
    else:
        total = _product(build, count_blocks(build, memref, tile, cluster, run))
    if schedule.shares_in_cluster:
        ctas = schedule.split_k or 1
    elif schedule.scheduler != "stream" and (schedule.split_k or 1) > 1:
        total = build.binary(arith.MuliOp, total, build.constant(schedule.split_k or 1))
    size = build.constant(ctas) if ctas > 1 else None
    if schedule.scheduler in ("persistent", "dynamic", "stream", "tail"):
        resident = build.insert(cute.SmCountOp()).results[0]
        waits = schedule.scheduler in ("stream", "tail") or (schedule.split_k or 1) > 1
        if (schedule.ctas or 1) > 1 and not waits:
            # Those that wait for others' sums may be no more than surely run at a time.
            resident = build.binary(arith.MuliOp, resident, build.constant(schedule.ctas or 1))
        if size is not None:
            resident = build.binary(arith.DivSIOp, resident, size)
            resident = build.binary(arith.MaxSIOp, resident, build.constant(1))
        if schedule.scheduler == "stream":
            # Few tiles keep all CTAs busy; without any there is nothing to launch.
            any_ = build.binary(arith.MinSIOp, total, build.constant(1))
            total = build.binary(arith.MuliOp, any_, resident)
        total = build.binary(arith.MinSIOp, total, resident)
    return total if size is None else build.binary(arith.MuliOp, total, size)


@dataclass(frozen=True)
class _Launched:
    """What the launches of a kernel compute about its work items."""

    kernel: cute.KernelOp
    memref: SSAValue
    tile: tuple[int, ...]
    cluster: tuple[int, int]
    offsets: BlockArgument | None

    @property
    def ctas(self) -> int:
        """CTAs of a work item."""
        return self.cluster[0] * self.cluster[1]

    def tiles(self, build: ScalarBuilder, launch: cute.LaunchOp) -> SSAValue:
        """Tiles of whole clusters, as host code in front of a launch."""
        if self.offsets is not None:
            total = _last(build, launched_with(self.kernel, launch, self.offsets))
        else:
            given = launched_with(self.kernel, launch, self.memref)
            total = _product(build, count_blocks(build, given, self.tile, self.cluster))
        return (
            total
            if self.ctas == 1
            else build.binary(arith.MuliOp, total, build.constant(self.ctas))
        )


def _persistent(
    build: ScalarBuilder,
    index: cute.TileIndexOp,
    mine: SSAValue,
    total: SSAValue,
    parts: int,
    launched: _Launched,
) -> tuple[ScalarBuilder, SSAValue]:
    """A loop over every so many-th work item, or over a list of them; returns the item's number."""
    if launched.offsets is not None and index.work is not None and parts == 1:
        shares = _add_shares(launched.kernel, index, launched)
        first = _entry(build, shares, mine)
        last = _entry(build, shares, build.binary(arith.AddiOp, mine, build.constant(1)))
        build, at = work_loop(index, build, first, last, build.constant(1))
        return build, _entry(build, shares, at)
    return work_loop(index, build, mine, total, _work_items(build, launched.ctas))


def _split(
    build: ScalarBuilder, item: SSAValue, parts: int, rank: SSAValue | None, launched: _Launched
) -> tuple[SSAValue, Share]:
    """The tile of a work item, of which each tile has so many, and the item's share of it."""
    count = build.constant(parts)
    tile = build.binary(arith.DivSIOp, item, count)
    part = build.binary(arith.RemSIOp, item, count)

    def trips(build: ScalarBuilder, total: SSAValue) -> tuple[SSAValue, SSAValue]:
        return _equal_share(build, part, count, total)

    def slot(build: ScalarBuilder, part: SSAValue) -> SSAValue:
        first = build.binary(arith.MuliOp, tile, count)
        return _of_cta(build, build.binary(arith.AddiOp, first, part), rank, launched.ctas)

    def slots(build: ScalarBuilder, launch: cute.LaunchOp) -> SSAValue:
        return build.binary(arith.MuliOp, launched.tiles(build, launch), build.constant(parts))

    counter = _of_cta(build, tile, rank, launched.ctas)
    return tile, Share(part, count, counter, slot, trips, launched.tiles, slots)


def _tail(
    index: cute.TileIndexOp,
    build: ScalarBuilder,
    tiles: SSAValue,
    parts: int,
    mine: SSAValue,
    rank: SSAValue | None,
    launched: _Launched,
) -> tuple[ScalarBuilder, SSAValue, Share]:
    """A loop over whole tiles in rounds, and then over parts of those that do not fill a round.
    Returns the tile's number and the item's share of it: all of it, or one of so many parts.
    """
    zero, one, several = (build.constant(each) for each in (0, 1, parts))
    takers = _work_items(build, launched.ctas)
    rest = build.binary(arith.RemSIOp, tiles, takers)
    whole = build.binary(arith.SubiOp, tiles, rest)
    total = build.binary(arith.AddiOp, whole, build.binary(arith.MuliOp, rest, several))
    build, item = work_loop(index, build, mine, total, takers)
    behind = build.binary(arith.SubiOp, item, whole)
    is_part = build.insert(arith.CmpiOp(behind, zero, "sge")).results[0]

    behind = build.binary(arith.MaxSIOp, behind, zero)
    shared = build.binary(arith.DivSIOp, behind, several)
    part = build.select(is_part, build.binary(arith.RemSIOp, behind, several), zero)
    count = build.select(is_part, several, one)
    tile = build.select(is_part, build.binary(arith.AddiOp, whole, shared), item)

    def trips(build: ScalarBuilder, total: SSAValue) -> tuple[SSAValue, SSAValue]:
        return _equal_share(build, part, count, total)

    def slot(build: ScalarBuilder, part: SSAValue) -> SSAValue:
        first = build.binary(arith.MuliOp, shared, several)
        return _of_cta(build, build.binary(arith.AddiOp, first, part), rank, launched.ctas)

    def slots(build: ScalarBuilder, launch: cute.LaunchOp) -> SSAValue:
        return build.binary(arith.MuliOp, launch.grid[0], build.constant(parts))

    counter = _of_cta(build, shared, rank, launched.ctas)
    share = Share(
        part, count, counter, slot, trips, lambda _, launch: launch.grid[0], slots, always=False
    )
    return build, tile, share


def _stream(
    kernel: cute.KernelOp,
    index: cute.TileIndexOp,
    build: ScalarBuilder,
    tiles: SSAValue,
    reduction: Reduction,
    mine: SSAValue,
    rank: SSAValue | None,
    launched: _Launched,
) -> tuple[ScalarBuilder, SSAValue, Share]:
    """A loop over the tiles in which a CTA has steps: of all tiles' steps, one after the other,
    each CTA takes an equal run. A run begins inside of one tile and ends inside of another, so that
    a CTA keeps at most two sums. Returns the tile's number and the CTA's share of it.
    """
    zero, one = build.constant(0), build.constant(1)
    loop = reduction.loop
    steps = hoisted(build, loop.ub, index)
    start = hoisted(build, loop.lb, index)
    steps = build.binary(arith.MaxSIOp, build.binary(arith.SubiOp, steps, start), zero)
    # A tile without steps is work too: one step in the count, none when it is done.
    length = build.binary(arith.MaxSIOp, steps, one)
    ctas = _work_items(build, launched.ctas)
    total = build.binary(arith.MuliOp, tiles, length)
    first, count = _equal_share(build, mine, ctas, total)
    end = build.binary(arith.AddiOp, first, count)
    low = build.binary(arith.DivSIOp, first, length)
    high = build.binary(arith.CeilDivSIOp, end, length)
    short = build.binary(arith.DivSIOp, total, ctas)
    longer = build.binary(arith.RemSIOp, total, ctas)

    def owner(build: ScalarBuilder, step: SSAValue) -> SSAValue:
        """The CTA that takes a step: the first `longer` ones have one more than the others."""
        more = build.binary(arith.AddiOp, short, one)
        behind = build.binary(arith.SubiOp, step, build.binary(arith.MuliOp, longer, more))
        is_long = build.insert(arith.CmpiOp(behind, zero, "slt")).results[0]
        rest = build.binary(arith.MaxSIOp, behind, zero)
        rest = build.binary(arith.DivSIOp, rest, build.binary(arith.MaxSIOp, short, one))
        rest = build.binary(arith.AddiOp, longer, rest)
        early = build.binary(arith.DivSIOp, step, more)
        return build.select(is_long, early, rest)

    build, tile = work_loop(index, build, low, high, one)
    begin = build.binary(arith.MuliOp, tile, length)
    last = build.binary(arith.AddiOp, begin, build.binary(arith.SubiOp, length, one))
    head = owner(build, begin)
    parts = build.binary(arith.SubiOp, owner(build, last), head)
    parts = build.binary(arith.AddiOp, parts, one)
    part = build.binary(arith.SubiOp, mine, head)
    from_ = build.binary(arith.MaxSIOp, build.binary(arith.SubiOp, first, begin), zero)
    to = build.binary(arith.MinSIOp, build.binary(arith.SubiOp, end, begin), steps)
    trips = build.binary(arith.MaxSIOp, build.binary(arith.SubiOp, to, from_), zero)
    counter = _of_cta(build, head, rank, launched.ctas)

    def slot(build: ScalarBuilder, part: SSAValue) -> SSAValue:
        """Two for each CTA: of the tile that its run begins in, and of that which it ends in."""
        whose = build.binary(arith.AddiOp, head, part)
        ends = build.insert(arith.CmpiOp(part, zero, "eq")).results[0]
        which = build.select(ends, one, zero)
        pair = build.binary(arith.AddiOp, build.binary(arith.AddiOp, whose, whose), which)
        return _of_cta(build, pair, rank, launched.ctas)

    def slots(build: ScalarBuilder, launch: cute.LaunchOp) -> SSAValue:
        return build.binary(arith.AddiOp, launch.grid[0], launch.grid[0])

    share = Share(
        part,
        parts,
        counter,
        slot,
        lambda build, total: (from_, trips),
        lambda build, launch: launch.grid[0],
        slots,
        always=False,
    )
    return build, tile, share


def _equal_share(
    build: ScalarBuilder, which: SSAValue, count: SSAValue, total: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """The first of the things that one of `count` takes, and how many: the first ones take one more
    where `total` does not divide.
    """
    short = build.binary(arith.DivSIOp, total, count)
    longer = build.binary(arith.RemSIOp, total, count)
    first = build.binary(arith.MuliOp, which, short)
    first = build.binary(arith.AddiOp, first, build.binary(arith.MinSIOp, which, longer))
    is_long = build.insert(arith.CmpiOp(which, longer, "slt")).results[0]
    more = build.binary(arith.AddiOp, short, build.constant(1))
    return first, build.select(is_long, more, short)


def _of_cta(build: ScalarBuilder, number: SSAValue, rank: SSAValue | None, ctas: int) -> SSAValue:
    """The number of a CTA's own among those of its cluster."""
    if rank is None:
        return number
    first = build.binary(arith.MuliOp, number, build.constant(ctas))
    return build.binary(arith.AddiOp, first, rank)


def _work_items(build: ScalarBuilder, ctas: int) -> SSAValue:
    """How many work items run at one time."""
    grid = build.insert(cute.GridDimOp("x")).results[0]
    return grid if ctas == 1 else build.binary(arith.DivSIOp, grid, build.constant(ctas))


def _product(build: ScalarBuilder, counts: tuple[SSAValue, ...]) -> SSAValue:
    total = counts[0]
    for count in counts[1:]:
        total = build.binary(arith.MuliOp, total, count)
    return total


def _add_offsets(
    kernel: cute.KernelOp, index: cute.TileIndexOp, cluster: tuple[int, int]
) -> BlockArgument | None:
    """For a group of tensors, the kernel argument that says where the work items of each begin."""
    group, tile = index.memref, index.tile.get_values()
    if not isinstance(group.type, cute.GroupType):
        return None

    def make(launch: cute.LaunchOp) -> cute.TileOffsetsOp:
        given = launched_with(kernel, launch, group)
        for use in given.uses:
            op = use.operation
            if (
                isinstance(op, cute.TileOffsetsOp)
                and op.tile.get_values() == tile
                and op.cluster.get_values() == cluster
            ):
                return op
        return cute.TileOffsetsOp(given, tile, cluster)

    return add_argument(kernel, cute.GroupType(i32), "offsets", make)


def _add_shares(
    kernel: cute.KernelOp, index: cute.TileIndexOp, launched: _Launched
) -> BlockArgument:
    """The kernel argument that says which work items each cluster takes."""
    work, mode, offsets = index.work, index.mode, launched.offsets
    assert work is not None
    assert mode is not None
    assert offsets is not None

    def make(launch: cute.LaunchOp) -> cute.TileSharesOp:
        build = ScalarBuilder(InsertPoint.before(launch), launch)
        takers = launch.grid[0]
        if launched.ctas > 1:
            takers = build.binary(arith.DivSIOp, takers, build.constant(launched.ctas))
        made, given = (launched_with(kernel, launch, each) for each in (offsets, work))
        return cute.TileSharesOp(made, given, mode.value.data, takers)

    return add_argument(kernel, cute.GroupType(i32), "shares", make)


def _entry(build: ScalarBuilder, table: SSAValue, at: SSAValue) -> SSAValue:
    return build.insert(cute.MemberOp(table, at)).results[0]


def _last(build: ScalarBuilder, offsets: SSAValue | None) -> SSAValue:
    """The last of the offsets: how many work items there are."""
    assert offsets is not None
    size = build.insert(cute.GroupSizeOp(offsets)).results[0]
    last = build.binary(arith.SubiOp, size, build.constant(1))
    return build.insert(cute.MemberOp(offsets, last)).results[0]


def _coordinates(
    build: ScalarBuilder, item: SSAValue, counts: tuple[SSAValue, ...], schedule: Schedule
) -> list[SSAValue]:
    """Block coordinates of a work item."""
    if len(counts) < 2:
        return [item] * len(counts)
    inside = rest = item
    plane = build.binary(arith.MuliOp, counts[-2], counts[-1])
    if len(counts) > 2:
        inside = build.binary(arith.RemSIOp, item, plane)
        rest = build.binary(arith.DivSIOp, item, plane)
    row, column = walk(build, inside, (counts[-2], counts[-1]), schedule)
    return [*_unfolded(build, rest, counts[:-2]), row, column]


def _unfolded(
    build: ScalarBuilder, number: SSAValue, counts: tuple[SSAValue, ...]
) -> list[SSAValue]:
    """The coordinates of a block in so many modes, the last of which runs first."""
    coords: list[SSAValue] = []
    for count in reversed(counts[1:]):
        coords.insert(0, build.binary(arith.RemSIOp, number, count))
        number = build.binary(arith.DivSIOp, number, count)
    return [number, *coords] if counts else []


def _in_sections(
    build: ScalarBuilder,
    item: SSAValue,
    counts: tuple[SSAValue, ...],
    tile: tuple[int, ...],
    schedule: Schedule,
) -> list[SSAValue]:
    """Block coordinates of a work item where all modes but the last that is tiled are rows: the
    tiles of some rows follow each other, first those at one coordinate of that mode, then those at
    the next. So the longest tiles of heads whose keys L2 holds together can go first.
    """
    last = max((mode for mode, extent in enumerate(tile) if extent >= 0), default=0)
    zero, one = build.constant(0), build.constant(1)
    rows = _product(build, counts[:last]) if last else one
    row, column = walk(build, item, (rows, counts[last]), schedule)
    behind = [zero] * (len(counts) - last - 1)
    return [*_unfolded(build, row, counts[:last]), column, *behind]


def _along_memory(
    build: ScalarBuilder,
    item: SSAValue,
    tensor: SSAValue,
    counts: tuple[SSAValue, ...],
    tile: tuple[int, ...],
) -> list[SSAValue]:
    """Block coordinates of a work item where the mode whose tiles are the least apart in memory
    runs first: the contiguous one, then the others by their strides, which only a call tells.
    """
    type_ = cute.memref_of(tensor)
    nearest = contiguous_mode(type_)
    modes = [mode for mode, extent in enumerate(tile) if extent >= 0 and mode != nearest]
    # From the farthest to the nearest: how far tiles are apart, how many there are, of which mode.
    order = [[_step(build, tensor, m, tile[m]), counts[m], build.constant(m)] for m in modes]
    for end in reversed(range(1, len(order))):
        for at in range(end):
            one, other = order[at : at + 2]
            swaps = build.insert(arith.CmpiOp(one[0], other[0], "slt")).results[0]
            for place, (first, second) in ((at, (other, one)), (at + 1, (one, other))):
                order[place] = [
                    build.select(swaps, *pair) for pair in zip(first, second, strict=True)
                ]
    lengths = [length for _, length, _ in order]
    if nearest is not None:
        lengths.append(counts[nearest])
    found = _unfolded(build, item, tuple(lengths))
    coords = [build.constant(0)] * len(tile)
    if nearest is not None:
        coords[nearest] = found[len(order)]
    for mode in modes:
        for (_, _, whose), at in zip(order, found, strict=False):
            is_mine = build.insert(arith.CmpiOp(whose, build.constant(mode), "eq")).results[0]
            coords[mode] = build.select(is_mine, at, coords[mode])
    return coords


def _step(build: ScalarBuilder, tensor: SSAValue, mode: int, extent: int) -> SSAValue:
    """How many elements the tiles along a mode are apart."""
    stride = build.insert(cute.StrideOp(tensor, mode)).results[0]
    length = build.insert(arith.ConstantOp(IntegerAttr(extent, i64))).results[0]
    return build.insert(arith.MuliOp(stride, length)).results[0]


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
