"""Edges between roles that follow each other take turns in the stages of one ring, where shared
memory does not hold a ring for each:

    copy x, %a (load); use %a; copy y, %b (load); use %b
    =>
    acquire; copy x, %s[i]; commit; advance; acquire; copy y, %s[i]; commit; advance (load)
    wait; use %s[j]; release; advance; wait; use %s[j]; release; advance (main)

Roles are projections of one program, so all of them go through the stages in its order. What a
multiply reads is free when its group is done, which may be behind the wait for the next tile: the
state advances in front of that wait then, and the release names a stage so many steps back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import (
    CopyOp,
    GemmOp,
    KernelOp,
    StageOp,
    SubviewOp,
    TransposeOp,
)
from cutedialect.dialects.cute.storage import is_paired
from cutedialect.dialects.cute_nvgpu import ProxyFenceOp, Sm90MmaType, Sm100MmaType, WgmmaFenceOp
from cutedialect.dialects.pipeline import (
    AdvanceOp,
    ConsumerReleaseOp,
    ProducerCommitOp,
    RingType,
)
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import erase, insert_after, insert_before
from cutedialect.passes.roles.resource_plan import Buffer, room
from cutedialect.passes.schedule.trips import STAGE
from cutedialect.passes.synchronize.memory_views import root_of
from cutedialect.passes.synchronize.multiply_groups import MultiplyGroups, is_warpgroup_multiply
from cutedialect.passes.synchronize.ring_edges import Edge
from cutedialect.passes.synchronize.ring_ends import RingEnd

# One stage is read by a group at work while the next one is waited for.
_LEAST_STAGES = 2
Staged = Sequence[tuple[Buffer, int]]


def share_rings(
    kernel: KernelOp, edges: Sequence[Edge], staged: Staged, results: Staged
) -> tuple[list[list[Edge]], int]:
    """The edges that take turns, and in how many stages, as many as fit; none where even the fewest
    do not. `staged` are the stages of each edge's buffers by itself.
    """
    turns: list[list[Edge]] = []
    for edge in edges:
        mates = next((turn for turn in turns if _follows(turn[-1], edge)), None)
        if mates is None:
            turns.append([edge])
        else:
            mates.append(edge)
    turns = [turn for turn in turns if len(turn) > _LEAST_STAGES]
    alone = dict(staged)
    for turn in turns:
        alone |= {alloc: 0 for edge in turn for alloc in edge.buffers}
    for stages in range(max(map(len, turns), default=0), _LEAST_STAGES - 1, -1):
        given = alone | {
            alloc: min(stages, len(turn)) for turn in turns for alloc in turn[0].buffers
        }
        if room(kernel, [*results, *given.items()]) >= 0:
            remark(
                "cute-synchronize",
                turns[0][0].writers[0],
                f"{sum(map(len, turns))} tiles take turns in {stages} stages of shared memory",
            )
            return turns, stages
    return [], 0


def _follows(one: Edge, other: Edge) -> bool:
    """Whether an edge comes behind another one that is like it, in both roles."""
    block = one.block
    if other.block is not block or _look(one) != _look(other):
        return False
    at = block.get_operation_index
    has_stages = any(STAGE in op.attributes for op in block.ops)
    if has_stages or any(map(is_paired, one.buffers)):
        return False
    if one.crosses:
        return False
    return max(map(at, one.readers)) < min(map(at, other.readers)) and max(
        map(at, one.writers)
    ) < min(map(at, other.writers))


def _look(edge: Edge) -> object:
    """What edges that take turns agree in."""
    return (
        edge.producer,
        edge.consumer,
        [alloc.result.type for alloc in edge.buffers],
        [(writer.atom, writer.tiled) for writer in edge.writers],
        {is_read_by_multiplies([reader]) for reader in edge.readers},
    )


def use_in_turns(
    turns: Sequence[tuple[Sequence[Operation], Mapping[SSAValue, SSAValue]]],
    end: RingEnd,
    groups: MultiplyGroups,
    commits: bool,
) -> None:
    """Let the readers of each edge wait for its stage of the ring, and release it; `turns` are the
    readers, in one block, with the rings that the buffers which they read become stages of.
    """
    block = turns[0][0][0].parent
    type_ = end.ring.ring.type
    assert block is not None
    assert isinstance(type_, RingType)
    starts = [place_of_wait(*turn) for turn in turns]
    at = block.get_operation_index
    ends = [max(map(groups.end_of, readers), key=at) for readers, _ in turns]
    # Whether a tile is still read when the next one is waited for.
    is_late = [at(done) > at(start) for done, start in zip(ends, starts[1:], strict=False)]
    is_late.append(False)
    waits = [(at(start), turn, False) for turn, start in enumerate(starts)]
    releases = [(at(done), turn, True) for turn, done in enumerate(ends)]
    advanced = released = 0
    last: dict[Operation, Operation] = {}
    for _, turn, is_release in sorted(waits + releases):
        if is_release:
            back = (advanced - turn) or None
            ops = fences_behind(turns[turn][0], end)
            ops.append(ConsumerReleaseOp(*end.operands, None, back, commits))
            released += 1
            if not is_late[turn]:
                ops += end.goes_on()
                advanced += 1
            insert_after(last.get(ends[turn], ends[turn]), *ops)
            last[ends[turn]] = ops[-1]
            continue
        readers, buffers = turns[turn]
        if turn and is_late[turn - 1]:
            insert_before(starts[turn], *end.goes_on())
            advanced += 1
        if turn - released >= type_.data:
            raise PassFailedException(
                readers[0], f"expected at most {type_.data} tiles in use at one time"
            )
        wait_in_front(starts[turn], readers, end, buffers)


def place_of_wait(readers: Sequence[Operation], buffers: Mapping[SSAValue, SSAValue]) -> Operation:
    """In front of which op readers wait for what they read."""
    block = readers[0].parent
    assert block is not None
    reading = _with_views(readers, buffers)
    start = min((op for op in reading if op.parent is block), key=block.get_operation_index)
    if is_warpgroup_multiply(start) and not isinstance(start.prev_op, WgmmaFenceOp):
        # Behind a wait, the assembler wants the multiplies that follow to begin anew (C7519).
        insert_before(start, WgmmaFenceOp())
    while isinstance(start.prev_op, WgmmaFenceOp):
        start = start.prev_op
    return start


def wait_in_front(
    start: Operation,
    readers: Sequence[Operation],
    end: RingEnd,
    buffers: Mapping[SSAValue, SSAValue],
) -> None:
    """Wait for a stage of a ring in front of `start`, and let the readers read it: `buffers` says
    which ring each buffer becomes a stage of.
    """
    reading = _with_views(readers, buffers)
    index = end.index()
    insert_before(start, *end.begins(), index)
    if "cp_async" in end.ring.kinds and is_read_by_multiplies(readers):
        # The copies arrive by themselves: no thread could fence between them and the barrier.
        insert_before(start, ProxyFenceOp())
    for buffer, whole in buffers.items():
        stage = StageOp(whole, index.index)
        insert_before(start, stage)
        buffer.replace_uses_with_if(stage.result, lambda use: use.operation in reading)


def fences_behind(readers: Sequence[Operation], end: RingEnd) -> list[Operation]:
    """What orders the reads of threads in front of copies of TMA into the stage that they release:
    these come through another proxy, for which an arrival orders nothing (PTX ISA 8.9).
    """
    reads = all(_reads_by_threads(op) for reader in readers for op in walk(reader))
    return [ProxyFenceOp()] if reads and "tma" in end.ring.kinds else []


def drop_repeated_fences(kernel: KernelOp) -> None:
    """Erase the fences that follow another one with nothing but verbs of rings between."""
    for fence in ops_of(kernel, ProxyFenceOp):
        before = fence.prev_op
        while isinstance(before, AdvanceOp | ConsumerReleaseOp | ProducerCommitOp):
            before = before.prev_op
        if isinstance(before, ProxyFenceOp):
            erase(fence)


def _reads_by_threads(op: Operation) -> bool:
    if isinstance(op, GemmOp):
        return not is_read_by_multiplies([op])
    return not (isinstance(op, CopyOp) and op.descriptor is not None)


def _with_views(
    readers: Sequence[Operation], buffers: Mapping[SSAValue, SSAValue]
) -> set[Operation]:
    """Ops, those inside of them, and the views of buffers through which they read these."""
    found = {inner for op in readers for inner in walk(op)}
    pending = list(found)
    while pending:
        for value in pending.pop().operands:
            made = value.owner
            if not (type(made) is SubviewOp or type(made) is TransposeOp) or made in found:
                continue
            if root_of(value) in buffers:
                found.add(made)
                pending.append(made)
    return found


def is_read_by_multiplies(readers: Sequence[Operation]) -> bool:
    """Whether tensor cores read the buffers, through the asynchronous proxy (PTX ISA 8.9)."""
    return any(
        isinstance(op, GemmOp) and isinstance(op.atom, Sm90MmaType | Sm100MmaType)
        for reader in readers
        for op in walk(reader)
    )
