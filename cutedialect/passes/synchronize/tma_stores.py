"""The part of `cute-synchronize` for results that leave through shared memory: threads write a
buffer, TMA stores it, and the next write waits until it has been read.

    copy y, s; copy s, g {tma}; copy z, s; copy s, h {tma}
    =>
    wait until s has been read; meet; copy y, s; fence; meet; copy s, g; commit; ...

Where one role writes and another one stores, the buffer becomes a ring:

    copy y, s (correction); copy s, g {tma} (epilogue); copy z, s; copy s, h {tma}
    =>
    acquire; copy y, s[i]; fence; commit; advance; acquire; copy z, s[i]; ... (correction)
    wait; copy s[j], g; commit; wait; copy s[j], h; commit; bulk wait 1; release (epilogue)

A stage is free when TMA has read it, for which the thread that stores waits: where there are two
stages, one store later. Which buffers TMA may still read where threads of a role write them again
is found from the order of stores, waits and meetings alone, whoever placed them: a buffer, or a
stage of one, is free when the thread that issued its store has waited until TMA has read it, and
the warps that write it have met that thread since.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import AllocSmemOp, BarrierOp, CopyOp, KernelOp, StageOp
from cutedialect.dialects.cute_nvgpu import (
    ProxyFenceOp,
    TmaStoreCommitOp,
    TmaStoreType,
    TmaStoreWaitOp,
)
from cutedialect.dialects.effects import ALL, Unit, effects_of
from cutedialect.dialects.pipeline import ConsumerReleaseOp, CreateOp, IndexOp
from cutedialect.dialects.walks import ops_ahead, ops_of
from cutedialect.passes.analysis.memory_views import constant_of, root_of
from cutedialect.passes.analysis.resource_plan import stages_of_results
from cutedialect.passes.analysis.role_plan import role_of
from cutedialect.passes.rewriting import block_of, erase, insert_after, insert_before, ring_of
from cutedialect.passes.roles.assign_warp_roles import Role
from cutedialect.passes.synchronize.ring_ends import RoleEnd, ring_between, role_among


def complete_stores(kernel: KernelOp, part: Block, stages: Mapping[AllocSmemOp, int]) -> None:
    """Let what threads of a role write to shared memory, and TMA stores, be fenced, and waited for
    before it is written again; `stages` are those of the buffers of results.

    Buffers that are filled one after the other and then stored take one step. Buffers of several
    steps have two stages that take turns: before the threads meet for a step, the storing one waits
    until the step before has been read. Of an odd number of steps the last one has the stage of the
    first, which therefore waits for it before it writes. Where multiplies overlap and hide what
    precedes the first step, two steps become one that fills both stages, behind one wait. Elsewhere
    the sooner the first of them leaves the better. Where a buffer may be read as it is written all
    the same, behind blocks with odd numbers of steps, one more wait goes in front.
    """
    at_once = kernel.choices.overlaps_multiplies
    stores = [op for op in ops_of(part, CopyOp) if isinstance(op.atom, TmaStoreType)]
    blocks = [_store_steps(block) for block in dict.fromkeys(map(block_of, stores))]
    buffers = _steps_of_buffers(blocks)
    take_turns = {alloc for alloc in buffers if stages.get(alloc, 1) > 1}
    for alloc in take_turns:
        _alternate_stages(alloc, buffers[alloc])
    placed: dict[CopyOp, _StoreStep] = {}
    for steps in blocks:
        joined = _joined(steps, take_turns) if at_once else steps
        placed |= {writer: step for step in joined for writer in step.writers}
        if at_once:
            _wait_at_once(joined)
        else:
            _wait_for_the_step_before(joined, take_turns)
    _wait_for_what_is_read(part, stores, placed)
    for warps in dict.fromkeys(step.warps for steps in blocks for step in steps):
        assert part.last_op is not None
        insert_after(part.last_op, TmaStoreWaitOp(0, True, warps))


def _steps_of_buffers(
    blocks: Sequence[Sequence[_StoreStep]],
) -> dict[AllocSmemOp, list[_StoreStep]]:
    """The steps that write each buffer, in order."""
    buffers: dict[AllocSmemOp, list[_StoreStep]] = {}
    for step in chain.from_iterable(blocks):
        for writer in step.writers:
            assert isinstance(writer.destination.owner, AllocSmemOp)
            buffers.setdefault(writer.destination.owner, []).append(step)
    return buffers


def _alternate_stages(alloc: AllocSmemOp, steps: Sequence[_StoreStep]) -> None:
    """Give a buffer two stages, of which its steps take one each in turn."""
    copies = [
        (writer, store)
        for step in steps
        for writer, store in zip(step.writers, step.stores, strict=True)
        if writer.destination is alloc.result
    ]
    ring = ring_of(alloc, 2)
    for turn, (writer, store) in enumerate(copies):
        index = arith.ConstantOp(IntegerAttr(turn % 2, i32))
        stage = StageOp(ring.result, index.result)
        insert_before(writer, index, stage)
        writer.operands[1] = store.operands[0] = stage.result
    erase(alloc)


def _wait_at_once(steps: Sequence[_StoreStep]) -> None:
    """Wait in front of a step where its warps have not waited in its block, or where its buffers
    have been stored there.
    """
    asked: set[int | None] = set()
    stored: set[AllocSmemOp] = set()
    for step in steps:
        if step.warps not in asked or step.buffers & stored:
            _wait_in_front(step)
            asked.add(step.warps)
        _fence_and_commit(step)
        stored |= step.buffers


def _wait_for_the_step_before(steps: Sequence[_StoreStep], take_turns: set[AllocSmemOp]) -> None:
    """Wait behind the writes of a step until the one before has been read, where stages take turns,
    else in front of it.
    """
    for step in steps:
        if not step.buffers <= take_turns:
            _wait_in_front(step)
            _fence_and_commit(step)
            continue
        alike = [other for other in steps if other.buffers == step.buffers]
        is_odd = len(alike) % 2 == 1
        if is_odd and step is alike[0]:
            _wait_in_front(step)
        follows_itself = is_odd and step is alike[-1]
        _fence_and_commit(step, *([] if follows_itself else [TmaStoreWaitOp(0, True, step.warps)]))


def _wait_in_front(step: _StoreStep) -> None:
    read = TmaStoreWaitOp(0, True, step.warps)
    insert_before(step.writers[0], read, BarrierOp(step.warps))


def _fence_and_commit(step: _StoreStep, *waits: Operation) -> None:
    """Let the threads that write meet in front of the stores, and end these as a group."""
    insert_after(step.writers[-1], ProxyFenceOp(), *waits, BarrierOp(step.warps))
    insert_after(step.stores[-1], TmaStoreCommitOp(step.warps))


def _wait_for_what_is_read(
    part: Block, stores: Sequence[CopyOp], placed: Mapping[CopyOp, _StoreStep]
) -> None:
    """Wait in front of the steps that may still write what TMA reads."""
    roots = [root_of(store.source).owner for store in stores]
    kept = {alloc for alloc in roots if isinstance(alloc, AllocSmemOp)}
    while (early := unread_write(part, kept)) is not None:
        step, teams = placed[early[0]], early[1]
        waits = [TmaStoreWaitOp(0, True, each) for each in sorted(teams, key=lambda x: x or 0)]
        meeting = BarrierOp(step.warps if teams == {step.warps} else None)
        insert_before(step.writers[0], *waits, meeting)


def _joined(steps: Sequence[_StoreStep], staged: set[AllocSmemOp]) -> list[_StoreStep]:
    """The steps of a block, of which two that fill the stages of the same buffers after each other
    become one: all writes, then all stores.
    """
    found: list[_StoreStep] = []
    for step in steps:
        last = found[-1] if found else None
        if (
            last is None
            or last.buffers != step.buffers
            or not step.buffers <= staged
            or len(last.writers) > len(last.buffers)
        ):
            found.append(step)
            continue
        for store in last.stores:
            store.detach()
            block_of(step.stores[0]).insert_op_before(store, step.stores[0])
        found[-1] = _StoreStep(last.writers + step.writers, last.stores + step.stores, step.buffers)
    return found


@dataclass
class _StoreStep:
    """Buffers that threads write, and the TMA stores of each, in the same order."""

    writers: list[CopyOp]
    stores: list[CopyOp]
    buffers: set[AllocSmemOp]

    @property
    def warps(self) -> int | None:
        atom = self.stores[0].atom
        assert isinstance(atom, TmaStoreType)
        return atom.warps


def _store_steps(block: Block) -> list[_StoreStep]:
    """The steps of a block: writes of buffers up to the first store, and the stores up to the next
    write.
    """
    stored = {
        op.source
        for op in block.ops
        if isinstance(op, CopyOp) and isinstance(op.atom, TmaStoreType)
    }
    steps: list[_StoreStep] = []
    for op in block.ops:
        if not isinstance(op, CopyOp):
            continue
        if op.destination in stored:
            alloc = op.destination.owner
            assert isinstance(alloc, AllocSmemOp)
            if not steps or steps[-1].stores:
                steps.append(_StoreStep([], [], set()))
            steps[-1].writers.append(op)
            steps[-1].buffers.add(alloc)
        elif isinstance(op.atom, TmaStoreType) and not _is_of_ring(op):
            if not steps:
                raise PassFailedException(op, "expected a write of the buffer that TMA stores")
            steps[-1].stores.append(op)
    for step in steps:
        written = [writer.destination for writer in step.writers]
        if written != [store.source for store in step.stores] or len(step.buffers) != len(written):
            raise PassFailedException(
                step.writers[0], "expected one TMA store after each write of its buffer"
            )
    return steps


def _is_of_ring(store: CopyOp) -> bool:
    """Whether another role has written what is stored."""
    stage = store.source.owner
    return isinstance(stage, StageOp) and isinstance(stage.index.owner, IndexOp)


def insert_store_rings(kernel: KernelOp, roles: Sequence[Role]) -> None:
    """Give every buffer that one role fills and another one stores its ring."""
    stages = stages_of_results(kernel)
    writers: dict[CopyOp, CopyOp] = {}
    stores: dict[AllocSmemOp, list[CopyOp]] = {}
    for store in ops_of(kernel.body.block, CopyOp):
        alloc = store.source.owner
        if effects_of(store).unit is not Unit.TMA_STORE or not isinstance(alloc, AllocSmemOp):
            continue
        writer = _writer_of(alloc, store)
        if role_of(writer) != role_of(store):
            writers[store] = writer
            stores.setdefault(alloc, []).append(store)
    ends: dict[CopyOp, RoleEnd] = {}
    expected = "expected one role to write a result, and one to store it by TMA"
    for alloc, mine in stores.items():
        writing = role_among(roles, [writers[store] for store in mine], expected)
        storing = role_among(roles, mine, expected)
        arriving = 1 if storing.elect else storing.warps
        create = CreateOp("threads", stages[alloc], writing.warps, arriving)
        filling, reading = ring_between(kernel, create, alloc, writing, storing)
        buffers = (alloc, ring_of(alloc, stages[alloc]))
        for store in mine:
            # TMA reads what threads have written.
            fence = ProxyFenceOp()
            filling.around([writers[store]], filling.begins(), [fence, *filling.ends()], buffers)
            reading.around([store], reading.begins(), [], buffers)
            ends[store] = reading
    blocks: dict[Block | None, list[CopyOp]] = {}
    for store in writers:
        blocks.setdefault(store.parent, []).append(store)
    for together in blocks.values():
        _release(together, ends)
    erase(*stores)


def _writer_of(alloc: AllocSmemOp, store: CopyOp) -> CopyOp:
    """The copy that has filled a buffer in front of the store of it."""
    for op in ops_ahead(store):
        if isinstance(op, CopyOp) and op.destination is alloc.result:
            return op
    raise PassFailedException(store, "expected a write of the buffer that TMA stores")


def _release(stores: Sequence[CopyOp], ends: Mapping[CopyOp, RoleEnd]) -> None:
    """Let each store of a block release the stage of the one before, and the last one its own."""
    waiting: RoleEnd | None = None
    for store in stores:
        end = ends[store]
        behind: list[Operation] = [TmaStoreCommitOp()]
        if waiting is not None:
            # That stage is one back: its state has gone on.
            behind += [TmaStoreWaitOp(1, True), ConsumerReleaseOp(*waiting.operands, None, 1)]
        waiting = end
        if end.ring.stages == 1 or store is stores[-1]:
            behind += [TmaStoreWaitOp(0, True), ConsumerReleaseOp(*end.operands)]
            waiting = None
        end.behind(store, *behind, *end.goes_on())


@dataclass(frozen=True)
class _Unread:
    """What TMA may still read: a stage of a buffer, or all of it (None), stored by one thread of so
    many warps, or of the role (None), which `is_waited` for it.
    """

    alloc: AllocSmemOp
    stage: int | None
    warps: int | None
    is_waited: bool = False


def unread_write(
    part: Block, buffers: Collection[AllocSmemOp]
) -> tuple[CopyOp, set[int | None]] | None:
    """The first write of a role to one of some `buffers` in shared memory that TMA may still read,
    and for how many warps one thread issues what reads it; None where all writes come behind reads.
    """
    order = _Order(buffers)
    order.follow(part, frozenset())
    return order.early


class _Order:
    """The order of stores and writes of a role."""

    def __init__(self, buffers: Collection[AllocSmemOp]) -> None:
        self.buffers = buffers
        self.early: tuple[CopyOp, set[int | None]] | None = None

    def follow(self, block: Block, state: frozenset[_Unread]) -> frozenset[_Unread]:
        for op in block.ops:
            state = self._control(op, state) if op.regions else self._op(op, state)
        return state

    def _control(self, op: Operation, state: frozenset[_Unread]) -> frozenset[_Unread]:
        if isinstance(op, scf.IfOp):
            sides = [
                self.follow(each.block, state) if each.blocks else state for each in op.regions
            ]
            return frozenset().union(*sides)
        if not isinstance(op, scf.ForOp | scf.WhileOp):
            return state
        while True:
            end = state
            for region in op.regions:
                end = self.follow(region.block, end)
            if end <= state:
                return state
            state |= end

    def _op(self, op: Operation, state: frozenset[_Unread]) -> frozenset[_Unread]:
        if isinstance(op, TmaStoreWaitOp) and op.pending.value.data == 0:
            warps = None if op.warps is None else op.warps.value.data
            return frozenset(
                replace(each, is_waited=True) if each.warps == warps else each for each in state
            )
        if isinstance(op, CopyOp):
            return self._copy(op, state)
        meets = effects_of(op).meets if state else 0
        if meets:
            return frozenset(
                each for each in state if not each.is_waited or meets not in (ALL, each.warps)
            )
        return state

    def _copy(self, op: CopyOp, state: frozenset[_Unread]) -> frozenset[_Unread]:
        if isinstance(op.atom, TmaStoreType):
            alloc, stage = _place(op.source)
            if alloc is None or alloc not in self.buffers:
                return state
            return state | {_Unread(alloc, stage, op.atom.warps)}
        alloc, stage = _place(op.destination)
        warps = {
            each.warps
            for each in state
            if each.alloc is alloc and (stage == each.stage or None in (stage, each.stage))
        }
        if warps and self.early is None:
            self.early = op, warps
        return state


def _place(value: SSAValue) -> tuple[AllocSmemOp | None, int | None]:
    """The buffer in shared memory that a tile is, and the stage of it where that is a constant."""
    owner, stage = value.owner, None
    if isinstance(owner, StageOp):
        stage = constant_of(owner.index)
        owner = owner.source.owner
    return owner if isinstance(owner, AllocSmemOp) else None, stage
