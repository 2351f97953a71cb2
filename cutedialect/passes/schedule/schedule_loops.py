"""`cute-schedule-loops`: copies from global memory run ahead of the multiplies that read them.

In a kernel without roles, a loop that copies tiles to shared memory and reads them in the same trip
becomes one that copies the tiles of a later trip. The buffer gets one more mode, of S stages:

    for k { copy g[k], s; use s }
    =>
    for j in 0..S-1 { copy g[j], s[j] if j < n }
    for k { complete s[k % S]; copy g[k+S-1], s[(k+S-1) % S] if k+S-1 < n; use s[k % S] }

The program still means the same run op by op: `pipeline.complete` does nothing but say where
waiting for the copies costs least, and `cute-synchronize` adds what makes threads wait. A tile of a
tensor that the loop stores to is copied where it is read: an earlier trip may have made it.

Fragments are then loaded one k block ahead of their multiply:

    for k { complete; for each k block { load fragment; multiply } }
    =>
    complete; load fragment 0
    for k { for each k block { load the next one's fragment; multiply } }

The fragment of the next tile's first block is loaded before the last multiply of this tile, behind
what completes its copies, so that no multiply waits for shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseArrayBase, UnitAttr, i32, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from cutedialect.allocation import (
    MOST_RING_STAGES,
    MOST_STAGES_OF_ALL,
    SharedUse,
    stages_that_fit,
)
from cutedialect.dialects.cute import (
    AllocFragmentOp,
    AllocSmemOp,
    CopyOp,
    GemmOp,
    IndexedTileOp,
    KernelOp,
    LoadOp,
    LocalTileOp,
    ReadOp,
    ScheduleAttr,
    StageOp,
    SubviewOp,
    memref_of,
)
from cutedialect.dialects.cute.views import GUARD
from cutedialect.dialects.effects import is_in_memory, is_pure, written_by
from cutedialect.dialects.pipeline import CompleteOp
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.analysis.memory_views import constant_of, root_of
from cutedialect.passes.analysis.resource_plan import (
    ONE_STAGE,
    shared_use,
    stages_of_results,
)
from cutedialect.passes.analysis.ring_edges import (
    depth,
    edges_of,
    own_stages,
    own_stages_of_loops,
    stages_of,
)
from cutedialect.passes.analysis.role_plan import role_of
from cutedialect.passes.analysis.smem_layouts import OPERAND
from cutedialect.passes.anchors import KernelPass
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import ScalarBuilder, cloned, erase, insert_before, ring_of
from cutedialect.passes.roles.assign_warp_roles import roles_of
from cutedialect.passes.schedule.multiplies_ahead import schedule_multiplies_ahead
from cutedialect.passes.schedule.multiply_chains import schedule_chains, schedule_tensor_chains
from cutedialect.passes.schedule.operand_stages import stage_operands
from cutedialect.passes.schedule.operands_ahead import schedule_operands_ahead
from cutedialect.passes.schedule.products_ahead import schedule_products_ahead
from cutedialect.schedule import Schedule, replace_set


@dataclass(frozen=True)
class ScheduleLoopsPass(KernelPass):
    """Let copies run ahead of their readers; `stages` overrides the schedule."""

    name = "cute-schedule-loops"

    stages: int | None = None

    def __post_init__(self) -> None:
        Schedule(stages=self.stages)

    def run(self, kernel: KernelOp) -> None:
        if self.stages is not None and kernel.schedule is not None:
            _set_stages(kernel, self.stages)
        asked = self.stages or kernel.choices.stages
        if roles_of(kernel):
            self._schedule_roles(kernel, asked)
            return
        if kernel.choices.ring_stages is not None:
            raise PassFailedException(
                kernel,
                "expected a role that loads with ring_stages, got a plan in which every warp does; "
                "take stages, or roles = specialized",
            )
        loops = _filled_loops(kernel)
        rings = [(_buffer(writer), MOST_RING_STAGES) for _, writers in loops for writer in writers]
        use = shared_use(kernel, stages_of_results(kernel).items(), rings)
        most = MOST_STAGES_OF_ALL if ops_of(kernel, GemmOp) else _UNASKED
        stages = self._allocate(kernel, use, asked, most)
        for loop, writers in loops:
            if stages > 1:
                _run_ahead(kernel, loop, writers, stages)

    def _schedule_roles(self, kernel: KernelOp, asked: int | None) -> None:
        """Of a kernel in which some roles load for others."""
        own, is_all = own_stages_of_loops(kernel)
        most = min(own) if own and is_all else MOST_RING_STAGES
        use = _leave_room(kernel, _ring_use(kernel), asked or most)
        stages = min([self._allocate(kernel, use, asked, most), *own])
        overlaps = kernel.choices.overlaps_multiplies and not _is_shared_out(kernel)
        if overlaps:
            schedule_chains(kernel, stages)
        written = [op for op in ops_of(kernel, AllocSmemOp) if OPERAND in op.attributes]
        if written:
            stage_operands(kernel, written, stages)
        if overlaps:
            schedule_multiplies_ahead(kernel, stages)
            schedule_operands_ahead(kernel, stages)
            if (kernel.choices.unroll or 1) > 1:
                schedule_products_ahead(kernel, stages)
        if kernel.choices.overlap != "no":
            schedule_tensor_chains(kernel, stages)

    def _allocate(
        self, kernel: KernelOp, use: SharedUse | None, asked: int | None, most: int
    ) -> int:
        """As many stages as shared memory holds, up to those asked for, or to the most that serve;
        said in the schedule.
        """
        if use is None:
            return asked or _UNASKED
        fitting = stages_that_fit(use, asked or most, is_asked=asked is not None)
        if asked is not None and fitting < asked:
            why = "shared memory holds no more"
            remark(self.name, kernel, f"{fitting} stages instead of {asked}: {why}")
        elif asked is None and fitting == 1 and use.rings:
            remark(
                self.name,
                next(iter(ops_of(kernel, GemmOp)), kernel),
                "one stage, so that nothing is loaded ahead: shared memory of "
                f"{use.capacity} bytes has no room for a second one",
            )
        if fitting != asked and kernel.schedule is not None:
            _set_stages(kernel, fitting)
        return fitting


# Stages where nothing says how many there may be.
_UNASKED = 2


def _is_shared_out(kernel: KernelOp) -> bool:
    """Whether roles share out the multiplies, so that one's work beside what the other computes."""
    return len({role_of(op) for op in ops_of(kernel, GemmOp)}) > 1


def _ring_use(kernel: KernelOp) -> SharedUse | None:
    """What a kernel with roles takes of shared memory; rings of its innermost loops are open."""
    edges = edges_of(kernel)
    depths = {edge: depth(edge.block) for edge in edges}
    deepest = max(depths.values(), default=0)
    own = own_stages(kernel, edges)
    filled = [edge for edge, at in depths.items() if at == deepest]
    return shared_use(
        kernel,
        [
            *stages_of_results(kernel).items(),
            *((alloc, count) for edge, count in own.items() for alloc in edge.buffers),
        ],
        [
            (alloc, stages_of(edge, MOST_RING_STAGES))
            for edge in filled
            if edge not in own
            for alloc in edge.buffers
        ],
        signaled=len(filled),
        waiting=[
            alloc
            for edge, at in depths.items()
            if 0 < at < deepest and edge not in own
            for alloc in edge.buffers
        ],
    )


def _leave_room(kernel: KernelOp, use: SharedUse | None, most: int) -> SharedUse | None:
    """What a kernel takes where results have one stage, if that alone leaves room for a second one
    of what a loop loads: its trips are many, and a result is stored once.
    """
    results = [alloc for alloc, stages in stages_of_results(kernel).items() if stages > 1]
    if use is None or not (results and use.rings):
        return use
    if most == 1 or stages_that_fit(use, most, is_asked=True) > 1:
        return use
    for alloc in results:
        alloc.attributes[ONE_STAGE] = UnitAttr()
    found = _ring_use(kernel)
    if found is not None and stages_that_fit(found, most, is_asked=True) > 1:
        return found
    for alloc in results:
        del alloc.attributes[ONE_STAGE]
    return use


def _set_stages(kernel: KernelOp, stages: int) -> None:
    given = replace_set(kernel.choices, {"stages": stages})
    kernel.properties["schedule"] = ScheduleAttr(given)


def _buffer(writer: CopyOp) -> AllocSmemOp:
    """The buffer that a copy fills."""
    buffer = writer.destination.owner
    assert isinstance(buffer, AllocSmemOp)
    return buffer


def _filled_loops(kernel: KernelOp) -> list[tuple[scf.ForOp, list[CopyOp]]]:
    """The loops that copy tiles to shared memory for their own trip, with the copies that can be
    made ahead of it, in loops that count by one.
    """
    found: dict[scf.ForOp, list[CopyOp]] = {}
    for op in ops_of(kernel.body.block, CopyOp):
        loop, buffer = op.parent_op(), op.destination.owner
        if not isinstance(loop, scf.ForOp) or not isinstance(buffer, AllocSmemOp):
            continue
        if "scratch" not in buffer.attributes and constant_of(loop.step) == 1:
            found.setdefault(loop, []).append(op)
    return [(loop, ahead) for loop, writers in found.items() if (ahead := _movable(loop, writers))]


def _movable(loop: scf.ForOp, writers: list[CopyOp]) -> list[CopyOp]:
    """The copies of tensors that the loop does not store to, made of pure ops and loads."""
    stored = {root_of(each) for each in written_by(loop)}
    found: list[CopyOp] = []
    for writer in writers:
        feeding = _producers(loop, [writer])
        reads = [each.operands[0] for each in feeding if isinstance(each, CopyOp | LoadOp)]
        is_plain = all(
            each is writer or isinstance(each, LoadOp) or is_pure(each) for each in feeding
        )
        if is_plain and not any(root_of(each) in stored for each in reads if is_in_memory(each)):
            found.append(writer)
    return found


def _run_ahead(kernel: KernelOp, loop: scf.ForOp, writers: list[CopyOp], stages: int) -> None:
    """Let the copies of a loop run `stages - 1` trips ahead of their readers."""
    producers = _producers(loop, writers)
    rings: dict[CopyOp, SSAValue] = {
        writer: ring_of(_buffer(writer), stages).result for writer in writers
    }
    ahead = stages - 1
    # Fill the first stages.
    build = ScalarBuilder(InsertPoint.before(loop), writers[0])
    body = Block(arg_types=[i32])
    zero, one, count = (build.constant(number) for number in (0, 1, ahead))
    build.insert(scf.ForOp(zero, count, one, [], body))
    inner = ScalarBuilder(InsertPoint.at_end(body), loop)
    k = inner.add(body.args[0], loop.lb)
    inside = inner.compare("slt", k, loop.ub)
    _produce(inner, loop, producers, rings, (k, body.args[0], inside, 0))
    inner.insert(scf.YieldOp())
    inner = ScalarBuilder(InsertPoint.at_start(loop.body.block), writers[0])
    k = loop.body.block.args[0]
    size = inner.constant(stages)
    from_start = inner.sub(k, loop.lb)
    current = inner.binary(arith.RemUIOp, from_start, size)
    views = [inner.insert(StageOp(ring, current, 0)) for ring in rings.values()]
    complete = CompleteOp([view.result for view in views])
    inner.insert(complete)
    next_k = inner.add(k, ahead)
    position = inner.add(from_start, ahead)
    slot = inner.binary(arith.RemUIOp, position, size)
    inside = inner.compare("slt", next_k, loop.ub)
    _produce(inner, loop, producers, rings, (next_k, slot, inside, ahead))
    for writer, view in zip(rings, views, strict=True):
        writer.destination.replace_uses_with_if(
            view.result, lambda use: use.operation not in producers
        )
    for op in reversed(producers):
        # A coordinate may be wanted elsewhere in the loop too.
        if not any(result.first_use is not None for result in op.results):
            erase(op)
    _prefetch_fragments(loop, complete, views, from_start)
    for buffer in [op for op in kernel.body.block.ops if isinstance(op, AllocSmemOp)]:
        if not any(True for _ in buffer.result.uses):
            erase(buffer)


def _producers(loop: scf.ForOp, writers: list[CopyOp]) -> list[Operation]:
    """The copies into shared memory and what only feeds them, in program order."""
    body = loop.body.block
    wanted: set[Operation] = set(writers)
    for op in reversed(list(body.ops)):
        if op in wanted:
            for operand in op.operands:
                owner = operand.owner
                if isinstance(owner, Operation) and owner.parent is body:
                    wanted.add(owner)
    return [op for op in body.ops if op in wanted]


def _produce(
    build: ScalarBuilder,
    loop: scf.ForOp,
    producers: list[Operation],
    rings: dict[CopyOp, SSAValue],
    trip: tuple[SSAValue, SSAValue, SSAValue, int],
) -> None:
    """The producers of a trip: its number, its stage, whether it exists, how far ahead it is."""
    k, slot, inside, ahead = trip
    values: dict[SSAValue, SSAValue] = {loop.body.block.args[0]: k}
    loaded = _views_of_loads(producers)
    for op in producers:
        if isinstance(op, CopyOp) and op in rings:
            stage = build.insert(StageOp(rings[op], slot, ahead))
            source = values.get(op.source, op.source)
            copy = CopyOp(source, stage.result, inside, op.atom, op.tiled)
            copy.attributes.update(op.attributes)
            build.insert(copy).location = op.location
            continue
        clone = cloned(op, values)
        if isinstance(op, ReadOp):  # nothing is known to be behind the last trip's element
            assert isinstance(clone, ReadOp)
            clone = ReadOp(clone.source, clone.coords, inside)
        elif isinstance(op, LocalTileOp | IndexedTileOp) and op in loaded:
            assert isinstance(clone, LocalTileOp | IndexedTileOp)
            _guard_dropped_modes(clone, op.coords)
        build.insert(clone).location = op.location
        for old, new in zip(op.results, clone.results, strict=True):
            values[old] = new


def _views_of_loads(producers: Sequence[Operation]) -> set[Operation]:
    """The views of memory from which producers load registers: unlike copies, for every trip that
    a loop runs ahead.
    """
    views: set[Operation] = set()
    pending = [op.source for op in producers if isinstance(op, LoadOp)]
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, Operation) and owner not in views:
            views.add(owner)
            pending += [value for value in owner.operands if is_in_memory(value)]
    return views


def _guard_dropped_modes(clone: LocalTileOp | IndexedTileOp, coords: Sequence[SSAValue]) -> None:
    """Let the tile of a trip behind the last one read 0 along modes that are dropped: those whose
    coordinates are not the `coords` of the loop's own trip.
    """
    given = clone.attributes.get(GUARD)
    guarded = set(given.get_values() if isinstance(given, DenseArrayBase) else ())
    extents = clone.tile.get_values()
    for mode, (own, coord) in enumerate(zip(coords, clone.coords, strict=True)):
        if extents[mode] == 0 and coord is not own:
            guarded.add(mode)
    if guarded:
        clone.attributes[GUARD] = DenseArrayBase.from_list(i64, sorted(guarded))


# Fragments


def _prefetch_fragments(
    loop: scf.ForOp, complete: CompleteOp, views: Sequence[StageOp], position: SSAValue
) -> None:
    """Skew the k blocks of a pipelined loop whose current stages are `views`.

    `position` counts the loop's trips from 0. A loop that reads its stages in any other way than
    into the operands of two or more multiplies stays as it is.
    """
    blocks = _k_blocks(loop, views)
    if blocks is None:
        return
    for _, copies in blocks:
        for copy in copies:
            alloc = copy.destination.owner
            assert isinstance(alloc, AllocFragmentOp)
            alloc.detach()
            insert_before(loop, alloc)
    (_, first), (last, _) = blocks[0], blocks[-1]
    ahead = ScalarBuilder(InsertPoint.before(loop), loop)
    _load(ahead, first, ahead.constant(0), views, 0)
    erase(complete)
    end = ScalarBuilder(InsertPoint.before(last), last)
    count = end.constant(memref_of(views[0].source).modes[-1])
    following = end.add(position, 1)
    _load(end, first, end.binary(arith.RemUIOp, following, count), views, 1)
    # The first block's copies are elsewhere now; each other block's move before the one ahead.
    for copy in first:
        view = _view(copy)
        erase(copy, view)
    for (before, _), (_, copies) in pairwise(blocks):
        for copy in copies:
            for op in (_view(copy), copy):
                op.detach()
                insert_before(before, op)


def _k_blocks(
    loop: scf.ForOp, views: Sequence[StageOp]
) -> list[tuple[GemmOp, list[CopyOp]]] | None:
    """The multiplies in order, each with the copies that fill its operands, or None when the stages
    are read in another way.
    """
    copies: dict[SSAValue, CopyOp] = {}
    readers = 0
    for sub in [use.operation for view in views for use in view.result.uses]:
        if isinstance(sub, CompleteOp):
            continue
        if not isinstance(sub, SubviewOp) or not sub.result.has_one_use():
            return None
        copy = next(iter(sub.result.uses)).operation
        if not isinstance(copy, CopyOp) or not isinstance(copy.destination.owner, AllocFragmentOp):
            return None
        copies[copy.destination] = copy
        readers += 1
    blocks = _blocks(loop, copies)
    filled = sum(len(mine) for _, mine in blocks)
    # A fragment with a further reader could be overwritten under it. Scales serve several blocks,
    # those of the first one not the last one.
    shared = {value for op, _ in blocks for value in op.factors}
    single = all(len(list(value.uses)) == 2 for value in copies if value not in shared)
    if not (single and len(blocks) >= 2 and filled == readers):
        return None
    first = {copy.destination for copy in blocks[0][1]}
    return blocks if first.isdisjoint(blocks[-1][0].factors) else None


def _blocks(loop: scf.ForOp, copies: dict[SSAValue, CopyOp]) -> list[tuple[GemmOp, list[CopyOp]]]:
    """The multiplies of a trip with the copies that fill what each is the first one to read."""
    blocks: list[tuple[GemmOp, list[CopyOp]]] = []
    taken: set[SSAValue] = set()
    for op in loop.body.block.ops:
        if isinstance(op, GemmOp):
            new = [value for value in (op.a, op.b, *op.factors) if value in copies.keys() - taken]
            taken.update(new)
            if new:
                blocks.append((op, [copies[value] for value in new]))
    return blocks


def _view(copy: CopyOp) -> SubviewOp:
    """The part of a stage that a copy brings to a fragment."""
    view = copy.source.owner
    assert isinstance(view, SubviewOp)
    return view


def _load(
    build: ScalarBuilder,
    copies: Sequence[CopyOp],
    index: SSAValue,
    views: Sequence[StageOp],
    ahead: int,
) -> None:
    """The copies of a block, from stage `index`, behind those of the trip so many ahead."""
    stages: dict[SSAValue, SSAValue] = {
        view.result: build.insert(StageOp(view.source, index, ahead)).result for view in views
    }
    build.insert(CompleteOp(list(stages.values())))
    for copy in copies:
        view = build.insert(cloned(_view(copy), dict(stages)))
        again = CopyOp(view.result, copy.destination, atom=copy.atom, tiled=copy.tiled)
        again.attributes.update(copy.attributes)
        build.insert(again)
