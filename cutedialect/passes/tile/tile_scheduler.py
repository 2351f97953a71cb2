"""Which CTA computes which tile: work items in raster order, one for each CTA or several in turn.

Tiles are dealt out in blocks of the cluster's shape, which are walked in the order of `raster.py`.
The tiles of a group of tensors are one list, tensor by tensor. The scheduler `single` gives every
CTA the work item of its block index; `persistent` wraps the program into a loop over work items, as
many CTAs apart as the grid has, or over a list that the host made where the program says how much
work tiles are; `dynamic` into one that claims them; `cancel` gives every CTA the work item of its
block index, and those that have begun cancel launches and take over their items.

    for item = first to total step n { body }
    while item < total { next = claim; body; item = next }
    while item < total { next = cancel_launch; body; item = next }

Where a kernel has roles, the one that loads claims for all of them (`shared_numbers.py`).
With `split_k` or the scheduler `stream`, CTAs share the reductions of tiles (`split_reduction.py`),
with `tail` those of the tiles that do not fill the last round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import prod

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i32, i64
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects import cute
from cutedialect.dialects.walks import holds, ops_of
from cutedialect.layout import Layout
from cutedialect.passes.analysis.layout_inference import contiguous_mode
from cutedialect.passes.analysis.memory_views import WORK
from cutedialect.passes.analysis.tensor_maps import mark_cluster_mode, mark_cluster_uniform
from cutedialect.passes.launch_arguments import add_argument, launched_with
from cutedialect.passes.rewriting import ScalarBuilder, erase
from cutedialect.passes.tile.absent_items import effects_of_items, guard_effects, guard_loads
from cutedialect.passes.tile.cluster_bounds import ClusterBounds
from cutedialect.passes.tile.raster import walk
from cutedialect.passes.tile.runs import count_runs
from cutedialect.passes.tile.split_reduction import (
    Share,
    hoisted,
    reduction_of,
    share_reduction,
)
from cutedialect.schedule import Schedule

_COUNTER_ALIGNMENT_BYTES = 16
_COUNTER = cute.MemRefType.get(i32, "gmem", _COUNTER_ALIGNMENT_BYTES, Layout((1,), (1,)))


def count_blocks(
    build: ScalarBuilder, memref: SSAValue, index: cute.TileIndexOp, cluster: tuple[int, int]
) -> tuple[SSAValue, ...]:
    """How many blocks of tiles cover each mode of a tensor; or how many runs of tiles cover it."""
    tile = index.tile.get_values()
    if index.run is not None:
        return count_runs(build, memref, tile[-1], index.run), build.constant(1)
    shape = (1,) * (len(tile) - 2) + cluster if len(tile) >= 2 else (1,) * len(tile)
    counts: list[SSAValue] = []
    for mode, (extent, ctas) in enumerate(zip(tile, shape, strict=True)):
        tiles = build.tiles(memref, mode, extent)
        counts.append(build.ceil_div(tiles, ctas) if ctas > 1 else tiles)
    return tuple(counts)


def tile_index_of(kernel: cute.KernelOp) -> cute.TileIndexOp | None:
    """The `cute.tile_index` of a kernel, None where there is none."""
    found = ops_of(kernel, cute.TileIndexOp)
    if len(found) > 1:
        raise PassFailedException(
            found[1], f"expected one cute.tile_index in @{kernel.sym_name.data}, got {len(found)}"
        )
    if found and found[0].parent_op() is not kernel:
        around = "a loop" if isinstance(found[0].parent_op(), scf.ForOp) else "a condition"
        raise PassFailedException(
            found[0],
            f"expected cute.tile_index outside of loops and conditions, got it in {around}: a "
            "work item is the whole program of a CTA; move it in front",
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
    build = ScalarBuilder(InsertPoint.before(index), index)
    offsets = _add_offsets(kernel, index, cluster)
    item = build.value(cute.BlockIdxOp("x"))
    blocks = count_blocks(build, index.memref, index, cluster) if offsets is None else None
    rank = None
    effects: list[Operation] = []
    if cluster != (1, 1):
        effects = effects_of_items(index, cluster)
        guard_loads(index, cluster)
        size = build.constant(prod(cluster))
        block, item = item, build.div(item, size)
        mark_cluster_uniform(item)
        rank = build.rem(block, size)
    # Of rows that a cluster shares, its CTAs have parts by their ranks.
    have_rows = shares_rows(kernel)
    is_shared = schedule.shares_tiles and not have_rows
    _check(index, schedule, blocks is None)
    reduction = reduction_of(kernel) if is_shared else None
    items = _Items(kernel, index, cluster, offsets, rank)
    share = None
    scheduler, parts = schedule.scheduler, schedule.split_k or 1

    def total() -> SSAValue:
        return _last(build, offsets) if blocks is None else _product(build, blocks)

    if scheduler == "stream":
        assert reduction is not None
        build, item, share = items.stream(build, total(), reduction.loop, item)
    elif scheduler == "tail" and parts > 1:
        build, item, share = items.tail(build, total(), parts, item)
    else:
        build, item = items.dealt(build, item, total, schedule)
        if parts > 1 and have_rows:
            item = build.div(item, parts)
        elif parts > 1:
            item, share = items.split(build, item, parts)
    tensor, problem = index.memref, []
    if blocks is None:
        number, item, tensor = items.of_group(build, item)
        problem = [number]
        blocks = count_blocks(build, tensor, index, cluster)
    tile = index.tile.get_values()
    coords = _coords_of(build, index, item, tensor, blocks, schedule)
    if rank is not None:
        _compute_bounds(ClusterBounds(kernel, index, tensor, cluster), build, coords)
        coords = _inside(build, coords, rank, cluster)
    if effects:
        guard_effects(effects, build, tensor, tile, coords, cluster)
    for old, new in zip(index.results, [*problem, *coords], strict=True):
        old.replace_all_uses_with(new)
    erase(index)
    if reduction is not None and share is not None:
        share_reduction(kernel, reduction, share, schedule)


def _coords_of(
    build: ScalarBuilder,
    index: cute.TileIndexOp,
    item: SSAValue,
    tensor: SSAValue,
    blocks: tuple[SSAValue, ...],
    schedule: Schedule,
) -> list[SSAValue]:
    """The tile that a work item is, in the order that the schedule names."""
    tile = index.tile.get_values()
    if index.run is not None:
        return [item, build.constant(0)]
    if schedule.order == "sections":
        return _in_sections(build, item, blocks, tile, schedule)
    if schedule.order == "memory":
        return _along_memory(build, item, tensor, blocks, tile)
    return _coordinates(build, item, blocks, schedule)


def _check(index: cute.TileIndexOp, schedule: Schedule, is_group: bool) -> None:
    """Refuse what a scheduler cannot deal out."""
    parts, wrong = schedule.split_k or 1, None
    if schedule.scheduler == "stream" and parts > 1:
        wrong = (
            "split_k = 1 with the scheduler stream, which splits by itself",
            f"{parts}; leave split_k out",
        )
    elif schedule.scheduler == "stream" and is_group:
        wrong = "one tensor for the scheduler stream", "a group of tensors"
    elif schedule.scheduler == "tail" and parts > 1 and (is_group or schedule.shares_in_cluster):
        got = "a group of tensors" if is_group else "reduction = cluster"
        wrong = "one tensor and no cluster that shares its tiles", got
    if wrong is not None:
        raise PassFailedException(index, f"expected {wrong[0]}, got {wrong[1]}")


def grid_size(
    build: ScalarBuilder, memref: SSAValue, index: cute.TileIndexOp, schedule: Schedule
) -> SSAValue:
    """Host part: how many CTAs to launch over the tiles of a tensor, or of a group of them."""
    cluster, parts = schedule.cluster or (1, 1), schedule.split_k or 1
    ctas = prod(cluster)
    if isinstance(memref.type, cute.GroupType):
        offsets = cute.TileOffsetsOp(memref, index.tile.get_values(), cluster)
        total = _last(build, build.value(offsets))
    else:
        total = _product(build, count_blocks(build, memref, index, cluster))
    if schedule.shares_in_cluster:
        ctas = parts
    elif schedule.scheduler != "stream" and parts > 1:
        total = build.mul(total, parts)
    size = build.constant(ctas) if ctas > 1 else None
    if schedule.scheduler in ("persistent", "dynamic", "stream", "tail"):
        resident = build.value(cute.SmCountOp())
        waits = schedule.scheduler in ("stream", "tail") or parts > 1
        if (schedule.ctas or 1) > 1 and not waits:
            # Those that wait for others' sums may be no more than surely run at a time.
            resident = build.mul(resident, schedule.ctas or 1)
        if size is not None:
            resident = build.max(build.div(resident, size), 1)
        if schedule.scheduler == "stream":
            # Few tiles keep all CTAs busy; without any there is nothing to launch.
            total = build.mul(build.min(total, 1), resident)
        total = build.min(total, resident)
    return total if size is None else build.mul(total, size)


@dataclass(frozen=True)
class _Items:
    """The work items of a kernel, and how its CTAs take them: what gives a share of a tile also
    gives the tile's number. For a group of tensors, `offsets` says where those of each begin; a
    CTA of a cluster has a `rank`.
    """

    kernel: cute.KernelOp
    index: cute.TileIndexOp
    cluster: tuple[int, int]
    offsets: BlockArgument | None
    rank: SSAValue | None

    def dealt(
        self,
        build: ScalarBuilder,
        mine: SSAValue,
        total: Callable[[], SSAValue],
        schedule: Schedule,
    ) -> tuple[ScalarBuilder, SSAValue]:
        """The work item of a CTA, and where a CTA has several a loop over them."""
        scheduler, parts = schedule.scheduler, schedule.split_k or 1
        if scheduler not in ("persistent", "dynamic", "cancel", "tail"):
            return build, mine
        count = build.mul(total(), parts) if parts > 1 else total()
        if scheduler == "dynamic":
            return _claim_loop(self.kernel, self.index, mine, count)
        if scheduler == "cancel":
            return _cancel_loop(self.index, mine, count)
        return self.persistent(build, mine, count, parts)

    def persistent(
        self, build: ScalarBuilder, mine: SSAValue, total: SSAValue, parts: int
    ) -> tuple[ScalarBuilder, SSAValue]:
        """A loop over every so many-th work item, or over a list that the host made of them."""
        if self.offsets is None or self.index.work is None or parts > 1:
            return _work_loop(self.index, build, mine, total, self._at_a_time(build))
        shares = self._add_shares()
        first = _entry(build, shares, mine)
        last = _entry(build, shares, build.add(mine, 1))
        build, at = _work_loop(self.index, build, first, last, build.constant(1))
        return build, _entry(build, shares, at)

    def of_group(self, build: ScalarBuilder, item: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
        """The number of the tensor that a work item belongs to, the item's number there, and the
        tensor.
        """
        assert self.offsets is not None
        number = build.value(cute.FindOp(item, self.offsets))
        item = build.sub(item, _entry(build, self.offsets, number))
        return number, item, _entry(build, self.index.memref, number)

    def split(self, build: ScalarBuilder, item: SSAValue, parts: int) -> tuple[SSAValue, Share]:
        """A part of a tile, of which each tile has so many."""
        count = build.constant(parts)
        tile, part = build.div(item, count), build.rem(item, count)
        return tile, self._equal_parts(build, tile, part, count, count, parts)

    def tail(
        self, build: ScalarBuilder, tiles: SSAValue, parts: int, mine: SSAValue
    ) -> tuple[ScalarBuilder, SSAValue, Share]:
        """A loop over whole tiles in rounds, and then over parts of those that do not fill one."""
        zero, one, several = (build.constant(each) for each in (0, 1, parts))
        takers = self._at_a_time(build)
        rest = build.rem(tiles, takers)
        whole = build.sub(tiles, rest)
        total = build.add(whole, build.mul(rest, several))
        build, item = _work_loop(self.index, build, mine, total, takers)
        behind = build.sub(item, whole)
        is_part = build.compare("sge", behind, zero)
        behind = build.max(behind, zero)
        shared = build.div(behind, several)
        part = build.select(is_part, build.rem(behind, several), zero)
        count = build.select(is_part, several, one)
        tile = build.select(is_part, build.add(whole, shared), item)
        share = self._equal_parts(build, shared, part, count, several, parts)
        return build, tile, share

    def _equal_parts(
        self,
        build: ScalarBuilder,
        tile: SSAValue,
        part: SSAValue,
        count: SSAValue,
        several: SSAValue,
        parts: int,
    ) -> Share:
        """Number `part` of `count` parts of a tile, of which those that are shared have `several`:
        all tiles where the two are one value, else no more than there are CTAs.
        """
        counter = self._of_cta(build, tile)

        def slot(build: ScalarBuilder, part: SSAValue) -> SSAValue:
            return self._of_cta(build, build.add(build.mul(tile, several), part))

        def trips(build: ScalarBuilder, total: SSAValue) -> tuple[SSAValue, SSAValue]:
            return _equal_share(build, part, count, total)

        always = count is several
        counters = self._tiles if always else _ctas
        return Share(part, count, counter, slot, trips, counters, parts, always)

    def stream(
        self, build: ScalarBuilder, tiles: SSAValue, loop: scf.ForOp, mine: SSAValue
    ) -> tuple[ScalarBuilder, SSAValue, Share]:
        """A loop over the tiles in which a CTA has steps: of all tiles' steps, one after the other,
        each CTA takes an equal run. A run begins inside of one tile and ends inside of another, so
        that a CTA keeps at most two sums.
        """
        zero, one = build.constant(0), build.constant(1)
        steps, start = (hoisted(build, each, self.index) for each in (loop.ub, loop.lb))
        steps = build.max(build.sub(steps, start), zero)
        # A tile without steps is work too: one step in the count, none when it is done.
        length = build.max(steps, one)
        ctas = self._at_a_time(build)
        total = build.mul(tiles, length)
        first, count = _equal_share(build, mine, ctas, total)
        end = build.add(first, count)
        low, high = build.div(first, length), build.ceil_div(end, length)
        short, longer = build.div(total, ctas), build.rem(total, ctas)

        def owner(build: ScalarBuilder, step: SSAValue) -> SSAValue:
            """The CTA that takes a step: the first `longer` ones have one more than the others."""
            more = build.add(short, one)
            behind = build.sub(step, build.mul(longer, more))
            is_long = build.compare("slt", behind, zero)
            rest = build.div(build.max(behind, zero), build.max(short, one))
            rest = build.add(longer, rest)
            return build.select(is_long, build.div(step, more), rest)

        build, tile = _work_loop(self.index, build, low, high, one)
        begin = build.mul(tile, length)
        last = build.add(begin, build.sub(length, one))
        head = owner(build, begin)
        parts = build.add(build.sub(owner(build, last), head), one)
        part = build.sub(mine, head)
        from_ = build.max(build.sub(first, begin), zero)
        to = build.min(build.sub(end, begin), steps)
        trips = build.max(build.sub(to, from_), zero)
        counter = self._of_cta(build, head)

        def slot(build: ScalarBuilder, part: SSAValue) -> SSAValue:
            """Two for each CTA: of the tile that its run begins in, and of that it ends in."""
            whose = build.add(head, part)
            which = build.select(build.compare("eq", part, zero), one, zero)
            return self._of_cta(build, build.add(build.add(whose, whose), which))

        share = Share(part, parts, counter, slot, lambda *_: (from_, trips), _ctas, 2, always=False)
        return build, tile, share

    def _of_cta(self, build: ScalarBuilder, number: SSAValue) -> SSAValue:
        """The number of a CTA's own among those of its cluster."""
        if self.rank is None:
            return number
        return build.add(build.mul(number, prod(self.cluster)), self.rank)

    def _at_a_time(self, build: ScalarBuilder) -> SSAValue:
        """How many work items run at one time."""
        return self._clusters(build, build.value(cute.GridDimOp("x")))

    def _clusters(self, build: ScalarBuilder, ctas: SSAValue) -> SSAValue:
        size = prod(self.cluster)
        return ctas if size == 1 else build.div(ctas, size)

    def _tiles(self, build: ScalarBuilder, launch: cute.LaunchOp) -> SSAValue:
        """Tiles of whole clusters, as host code in front of a launch."""
        if self.offsets is not None:
            total = _last(build, launched_with(self.kernel, launch, self.offsets))
        else:
            given = launched_with(self.kernel, launch, self.index.memref)
            total = _product(build, count_blocks(build, given, self.index, self.cluster))
        size = prod(self.cluster)
        return total if size == 1 else build.mul(total, size)

    def _add_shares(self) -> BlockArgument:
        """The kernel argument that says which work items each cluster takes."""
        offsets, work, mode = self.offsets, self.index.work, self.index.mode
        assert offsets is not None
        assert work is not None
        assert mode is not None

        def make(launch: cute.LaunchOp) -> cute.TileSharesOp:
            build = ScalarBuilder(InsertPoint.before(launch), launch)
            takers = self._clusters(build, launch.grid[0])
            made, given = (launched_with(self.kernel, launch, each) for each in (offsets, work))
            return cute.TileSharesOp(made, given, mode.value.data, takers)

        return add_argument(self.kernel, cute.GroupType(i32), "shares", make)


def _ctas(build: ScalarBuilder, launch: cute.LaunchOp) -> SSAValue:
    return launch.grid[0]


def _equal_share(
    build: ScalarBuilder, which: SSAValue, count: SSAValue, total: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """The first of the things that one of `count` takes, and how many: the first ones take one more
    where `total` does not divide.
    """
    short, longer = build.div(total, count), build.rem(total, count)
    first = build.add(build.mul(which, short), build.min(which, longer))
    is_long = build.compare("slt", which, longer)
    return first, build.select(is_long, build.add(short, 1), short)


def _product(build: ScalarBuilder, counts: tuple[SSAValue, ...]) -> SSAValue:
    return reduce(build.mul, counts)


def _add_offsets(
    kernel: cute.KernelOp, index: cute.TileIndexOp, cluster: tuple[int, int]
) -> BlockArgument | None:
    """For a group of tensors, the kernel argument that says where the work items of each begin."""
    group, tile = index.memref, index.tile.get_values()
    if not isinstance(group.type, cute.GroupType):
        return None

    def make(launch: cute.LaunchOp) -> Operation:
        given = launched_with(kernel, launch, group)
        for op in (use.operation for use in given.uses):
            is_offsets = isinstance(op, cute.TileOffsetsOp)
            if is_offsets and (op.tile.get_values(), op.cluster.get_values()) == (tile, cluster):
                return op
        return cute.TileOffsetsOp(given, tile, cluster)

    return add_argument(kernel, cute.GroupType(i32), "offsets", make)


def _entry(build: ScalarBuilder, table: SSAValue, at: SSAValue) -> SSAValue:
    return build.value(cute.MemberOp(table, at))


def _last(build: ScalarBuilder, offsets: SSAValue | None) -> SSAValue:
    """The last of the offsets: how many work items there are."""
    assert offsets is not None
    size = build.value(cute.GroupSizeOp(offsets))
    return _entry(build, offsets, build.sub(size, 1))


def _coordinates(
    build: ScalarBuilder, item: SSAValue, counts: tuple[SSAValue, ...], schedule: Schedule
) -> list[SSAValue]:
    """Block coordinates of a work item."""
    if len(counts) < 2:
        return [item] * len(counts)
    inside = rest = item
    plane = build.mul(counts[-2], counts[-1])
    if len(counts) > 2:
        inside = build.rem(item, plane)
        rest = build.div(item, plane)
    row, column = walk(build, inside, (counts[-2], counts[-1]), schedule)
    return [*_unfolded(build, rest, counts[:-2]), row, column]


def _unfolded(
    build: ScalarBuilder, number: SSAValue, counts: tuple[SSAValue, ...]
) -> list[SSAValue]:
    """The coordinates of a block in so many modes, the last of which runs first."""
    coords: list[SSAValue] = []
    for count in reversed(counts[1:]):
        coords.insert(0, build.rem(number, count))
        number = build.div(number, count)
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
    order: list[list[SSAValue]] = []
    for mode in modes:
        stride = build.value(cute.StrideOp(tensor, mode))
        length = build.value(arith.ConstantOp(IntegerAttr(tile[mode], i64)))
        step = build.value(arith.MuliOp(stride, length))
        order.append([step, counts[mode], build.constant(mode)])
    for end in reversed(range(1, len(order))):
        for at in range(end):
            pairs = list(zip(order[at], order[at + 1], strict=True))
            swaps = build.compare("slt", *pairs[0])
            order[at] = [build.select(swaps, other, one) for one, other in pairs]
            order[at + 1] = [build.select(swaps, one, other) for one, other in pairs]
    lengths = [length for _, length, _ in order]
    if nearest is not None:
        lengths.append(counts[nearest])
    found = _unfolded(build, item, tuple(lengths))
    coords = [build.constant(0)] * len(tile)
    if nearest is not None:
        coords[nearest] = found[len(order)]
    for mode in modes:
        for (_, _, whose), at in zip(order, found, strict=False):
            coords[mode] = build.select(build.compare("eq", whose, mode), at, coords[mode])
    return coords


def _compute_bounds(bounds: ClusterBounds, build: ScalarBuilder, coords: list[SSAValue]) -> None:
    """Compute the numbers that the CTAs of a cluster agree in, where a program has some."""
    if holds(bounds.kernel, cute.ClusterBoundOp):
        bounds.compute(build, coords)


def _inside(
    build: ScalarBuilder, coords: list[SSAValue], rank: SSAValue, cluster: tuple[int, int]
) -> list[SSAValue]:
    """Tile coordinates of the CTA with this rank: ranks run along M first."""
    across = build.constant(cluster[0])
    steps = [
        split(rank, across) if ctas > 1 else None
        for split, ctas in zip((build.rem, build.div), cluster, strict=True)
    ]
    moved = list(coords)
    for mode, step in enumerate(steps):
        if step is not None:
            moved[mode - 2] = build.add(build.mul(coords[mode - 2], cluster[mode]), step)
            mark_cluster_mode(moved[mode - 2], mode)
    return moved


def _work_loop(
    index: cute.TileIndexOp, build: ScalarBuilder, first: SSAValue, total: SSAValue, step: SSAValue
) -> tuple[ScalarBuilder, SSAValue]:
    """Move everything from `index` on into a loop; returns the item's number."""
    body = Block(arg_types=[i32])
    loop = build.insert(scf.ForOp(first, total, step, [], body))
    return _filled(loop, body, index, scf.YieldOp())


def _claim_loop(
    kernel: cute.KernelOp, index: cute.TileIndexOp, first: SSAValue, total: SSAValue
) -> tuple[ScalarBuilder, SSAValue]:
    """Move everything from `index` on into a loop that runs while there are items, beginning with
    `first`; returns the item's number.
    """
    if kernel.schedule is not None and kernel.schedule.data.cluster not in (None, (1, 1)):
        raise PassFailedException(
            index,
            f"expected cluster = (1,1) with the scheduler dynamic, got "
            f"{kernel.schedule.data.cluster}; take scheduler = persistent",
        )
    counter = add_argument(
        kernel, _COUNTER, "claims", lambda _: cute.WorkspaceOp([], _COUNTER, True)
    )
    return _while_loop(index, first, total, cute.ClaimOp(counter, total))


def _cancel_loop(
    index: cute.TileIndexOp, first: SSAValue, total: SSAValue
) -> tuple[ScalarBuilder, SSAValue]:
    """The same of a grid with a CTA (cluster) for each item: those that have begun take over items
    of others.
    """
    return _while_loop(index, first, total, cute.CancelLaunchOp(total))


def _while_loop(
    index: cute.TileIndexOp,
    first: SSAValue,
    total: SSAValue,
    claim: cute.ClaimOp | cute.CancelLaunchOp,
) -> tuple[ScalarBuilder, SSAValue]:
    """A loop that asks for the next item as the first thing that it does for one."""
    before, body = Block(arg_types=[i32]), Block(arg_types=[i32])
    build = ScalarBuilder(InsertPoint.before(index), index)
    loop = build.insert(scf.WhileOp([first], [i32], Region(before), Region(body)))
    inner = build.at(InsertPoint.at_end(before))
    runs = inner.compare("slt", before.args[0], total)
    inner.insert(scf.ConditionOp(runs, before.args[0]))
    build.at(InsertPoint.at_end(body)).insert(claim)
    return _filled(loop, body, index, scf.YieldOp(claim.result))


def _filled(
    loop: scf.ForOp | scf.WhileOp, body: Block, index: cute.TileIndexOp, ending: Operation
) -> tuple[ScalarBuilder, SSAValue]:
    """Move everything from `index` on but the buffers to the end of a loop's block, and end it;
    returns the place in front of the index, and the item's number.
    """
    loop.attributes[WORK] = UnitAttr()
    op: Operation | None = index
    while op is not None:
        behind = op.next_op
        if not isinstance(op, cute.AllocSmemOp):
            op.detach()
            body.add_op(op)
        op = behind
    build = ScalarBuilder(InsertPoint.before(index), index)
    build.at(InsertPoint.at_end(body)).insert(ending)
    return build, body.args[0]
