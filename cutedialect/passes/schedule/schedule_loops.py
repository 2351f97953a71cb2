"""`cute-schedule-loops`: copies from global memory run ahead of the multiplies that read them.

In a kernel without roles, a loop that copies tiles to shared memory and reads them in the same trip
becomes one that copies the tiles of a later trip. The buffer gets one more mode, of S stages:

    for k { copy g[k], s; use s }
    =>
    for j in 0..S-1 { copy g[j], s[j] if j < n }
    for k { complete s[k % S]; copy g[k+S-1], s[(k+S-1) % S] if k+S-1 < n; use s[k % S] }

The program still means the same run op by op: `pipeline.complete` does nothing but say where
waiting for the copies costs least, and `cute-synchronize` adds what makes threads wait. Fragments
are loaded one k block ahead of their multiply (`fragment_prefetch.py`). A tile of a tensor that the
loop stores to is copied where it is read: an earlier trip may have made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from cutedialect.dialects.cute import (
    AllocSmemOp,
    CopyOp,
    KernelOp,
    LoadOp,
    ReadOp,
    ScheduleAttr,
    StageOp,
)
from cutedialect.dialects.effects import is_in_memory, is_pure, written_by
from cutedialect.dialects.pipeline import CompleteOp
from cutedialect.dialects.walks import walk
from cutedialect.passes.anchors import KernelPass
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import ScalarBuilder, cloned, erase
from cutedialect.passes.roles.assign_warp_roles import roles_of
from cutedialect.passes.roles.resource_plan import (
    LEAST_RESERVED_BYTES,
    Buffer,
    room,
    stages_of_results,
)
from cutedialect.passes.schedule.fragment_prefetch import prefetch_fragments
from cutedialect.passes.schedule.multiply_chains import schedule_chains, schedule_tensor_chains
from cutedialect.passes.synchronize.memory_views import constant_of, root_of
from cutedialect.passes.synchronize.ring_edges import Edge, depth, edges_of, stages_of
from cutedialect.passes.synchronize.ring_ends import ring_of
from cutedialect.schedule import Schedule, replace_set


@dataclass(frozen=True)
class ScheduleLoopsPass(KernelPass):
    """Let copies run ahead of their readers; `stages` overrides the schedule."""

    name = "cute-schedule-loops"

    stages: int | None = None

    def __post_init__(self) -> None:
        Schedule(stages=self.stages)

    def run(self, kernel: KernelOp) -> None:
        scheduled = kernel.schedule.data.stages if kernel.schedule is not None else None
        stages = self.stages or scheduled or 2
        if self.stages is not None and kernel.schedule is not None:
            given = replace_set(kernel.schedule.data, {"stages": self.stages})
            kernel.properties["schedule"] = ScheduleAttr(given)
        if roles_of(kernel):
            edges = edges_of(kernel)
            deepest = max((depth(edge.block) for edge in edges), default=0)
            filled = [edge for edge in edges if depth(edge.block) == deepest]
            fitting = self._fit(kernel, filled, stages)
            if kernel.schedule is not None and kernel.schedule.data.overlaps_multiplies:
                schedule_chains(kernel, fitting)
            if kernel.schedule is None or kernel.schedule.data.overlap != "no":
                schedule_tensor_chains(kernel, fitting)
            return
        loops = _filled_loops(kernel)
        buffers = [writer.destination.owner for _, writers in loops for writer in writers]
        stages = self._fit(kernel, buffers, stages)  # pyright: ignore[reportArgumentType]
        for loop, writers in loops:
            if stages > 1:
                _run_ahead(kernel, loop, writers, stages)

    def _fit(
        self, kernel: KernelOp, buffers: Sequence[AllocSmemOp] | Sequence[Edge], stages: int
    ) -> int:
        """As many stages of buffers, or of the rings of edges, as shared memory holds, up to those
        asked for; said in the schedule.
        """
        results = stages_of_results(kernel).items()
        fitting = stages
        while fitting > 1:
            staged = [*results, *(each for of in buffers for each in _staged(of, fitting))]
            # Two mbarriers for each stage of a ring, which few rings find in what is reserved.
            barriers = sum(_RING_BARRIERS * fitting for of in buffers if isinstance(of, Edge))
            if room(kernel, staged, max(LEAST_RESERVED_BYTES, barriers + _OTHERS)) >= 0:
                break
            fitting -= 1
        if fitting < stages:
            remark(
                self.name,
                kernel,
                f"{fitting} stages instead of {stages}: shared memory holds no more",
            )
            assert kernel.schedule is not None
            given = replace_set(kernel.schedule.data, {"stages": fitting})
            kernel.properties["schedule"] = ScheduleAttr(given)
        return fitting


# Bytes of the mbarriers of a stage, and of what else a kernel of many rings has.
_RING_BARRIERS, _OTHERS = 16, 512


def _staged(of: AllocSmemOp | Edge, stages: int) -> list[tuple[Buffer, int]]:
    """Buffers with their stages."""
    if isinstance(of, AllocSmemOp):
        return [(of, stages)]
    return [(alloc, stages_of(of, stages)) for alloc in of.buffers]


def _filled_loops(kernel: KernelOp) -> list[tuple[scf.ForOp, list[CopyOp]]]:
    """The loops that copy tiles to shared memory for their own trip, with the copies that can be
    made ahead of it.
    """
    found: dict[scf.ForOp, list[CopyOp]] = {}
    for op in walk(kernel.body.block):
        loop = op.parent_op()
        if not isinstance(op, CopyOp) or not isinstance(loop, scf.ForOp):
            continue
        buffer = op.destination.owner
        if not isinstance(buffer, AllocSmemOp) or "scratch" in buffer.attributes:
            continue
        found.setdefault(loop, []).append(op)
    return [(loop, ahead) for loop, writers in found.items() if (ahead := _movable(loop, writers))]


def _movable(loop: scf.ForOp, writers: list[CopyOp]) -> list[CopyOp]:
    """The copies of tensors that the loop does not store to, made of pure ops and loads; none in a
    loop that does not count by one.
    """
    if constant_of(loop.step) != 1:
        return []
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
        writer: ring_of(writer.destination.owner, stages).result  # pyright: ignore[reportArgumentType]
        for writer in writers
    }
    ahead = stages - 1
    _prologue(ScalarBuilder(InsertPoint.before(loop), writers[0]), loop, producers, rings, ahead)
    first = loop.body.block.first_op
    assert first is not None
    inner = ScalarBuilder(InsertPoint.before(first), writers[0])
    k = loop.body.block.args[0]
    size = inner.constant(stages)
    from_start = inner.binary(arith.SubiOp, k, loop.lb)
    current = inner.binary(arith.RemUIOp, from_start, size)
    views = [inner.insert(StageOp(ring, current, 0)) for ring in rings.values()]
    complete = CompleteOp([view.result for view in views])
    inner.insert(complete)
    next_k = inner.binary(arith.AddiOp, k, inner.constant(ahead))
    position = inner.binary(arith.AddiOp, from_start, inner.constant(ahead))
    slot = inner.binary(arith.RemUIOp, position, size)
    inside = inner.insert(arith.CmpiOp(next_k, loop.ub, "slt")).results[0]
    _produce(inner, loop, producers, rings, (next_k, slot, inside, ahead))
    for writer, view in zip(rings, views, strict=True):
        writer.destination.replace_uses_with_if(
            view.result, lambda use: use.operation not in producers
        )
    for op in reversed(producers):
        # A coordinate may be wanted elsewhere in the loop too.
        if not any(result.first_use is not None for result in op.results):
            erase(op)
    prefetch_fragments(loop, complete, views, from_start)
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


def _prologue(
    build: ScalarBuilder,
    loop: scf.ForOp,
    producers: list[Operation],
    rings: dict[CopyOp, SSAValue],
    ahead: int,
) -> None:
    """Fill the first `ahead` stages."""
    body = Block(arg_types=[i32])
    zero, one, count = build.constant(0), build.constant(1), build.constant(ahead)
    build.insert(scf.ForOp(zero, count, one, [], body))
    inner = ScalarBuilder(InsertPoint.at_end(body), loop)
    slot = body.args[0]
    k = inner.binary(arith.AddiOp, slot, loop.lb)
    inside = inner.insert(arith.CmpiOp(k, loop.ub, "slt")).results[0]
    _produce(inner, loop, producers, rings, (k, slot, inside, 0))
    inner.insert(scf.YieldOp())


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
        build.insert(clone).location = op.location
        for old, new in zip(op.results, clone.results, strict=True):
            values[old] = new
