"""`cute-expand-rings`: what the verbs of rings ask for beside them becomes ops, one for each thing
that is done, so that what is checked behind this pass is all that is printed.

    producer_acquire q; tma a -> s; producer_commit q
    =>
    producer_acquire q; expect q; tma a -> s; producer_commit q; ...; drain q

A stage that TMA fills expects its bytes. Barriers of rings in tensor memory order `tcgen05`
instructions by a fence on either side, the one behind a wait in a branch where that alone has any;
a commit for a pair of CTAs says whether loops in front of it have multiplied.
At the end of a role, stages at whose barriers others arrive are waited for.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import GemmOp, KernelOp, MemRefType, StageOp
from cutedialect.dialects.cute_nvgpu import Tcgen05FenceOp
from cutedialect.dialects.pipeline import (
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateOp,
    DrainOp,
    ExpectOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    RoleOp,
    StateOp,
)
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.analysis.memory_views import constant_of
from cutedialect.passes.anchors import Anchors, KernelPass
from cutedialect.passes.rewriting import erase, insert_after, insert_before

Verb = ProducerAcquireOp | ProducerCommitOp | ConsumerWaitOp | ConsumerReleaseOp
_VERBS = (ProducerAcquireOp, ProducerCommitOp, ConsumerWaitOp, ConsumerReleaseOp)
_EXPANDED = (Tcgen05FenceOp, ExpectOp, DrainOp)


@dataclass(frozen=True)
class ExpandRingsPass(KernelPass):
    """Say by ops what the verbs of rings ask for; a kernel that says it stays as it is."""

    name = "cute-expand-rings"
    anchors = Anchors(ops=(CreateOp,))

    def run(self, kernel: KernelOp) -> None:
        if ops_of(kernel, *_EXPANDED):
            return
        for verb in ops_of(kernel, *_VERBS):
            _expand(verb)
        for verb in ops_of(kernel, ProducerCommitOp, ConsumerReleaseOp):
            if _tells_pair(verb):
                _say_whether_multiplied(verb)
        for acquire in ops_of(kernel, ProducerAcquireOp):
            _move_into_branch(acquire)
        for role in ops_of(kernel, RoleOp):
            _drain(role)


def _ring_of(ring: SSAValue) -> CreateOp:
    made = ring.owner
    assert isinstance(made, CreateOp)
    return made


def _expand(verb: Verb) -> None:
    """Put around a verb what its ring asks for."""
    ring = _ring_of(verb.ring)
    before: list[Operation] = []
    behind: list[Operation] = []
    if isinstance(verb, ProducerAcquireOp | ConsumerWaitOp):
        if ring.is_in_tensor_memory:
            behind.append(Tcgen05FenceOp("after"))
        if isinstance(verb, ProducerAcquireOp) and "tma" in ring.kinds:
            behind.append(ExpectOp(verb.ring, verb.state))
    elif isinstance(verb, ProducerCommitOp):
        if "tmem" in ring.kinds:
            before.append(Tcgen05FenceOp("before"))
    elif ring.is_in_tensor_memory and verb.commits is None:
        before.append(Tcgen05FenceOp("before"))
    insert_before(verb, *before)
    insert_after(verb, *behind)


def _tells_pair(verb: ProducerCommitOp | ConsumerReleaseOp) -> bool:
    """Whether a commit of the tensor core tells both CTAs of a pair."""
    ring = _ring_of(verb.ring)
    if isinstance(verb, ConsumerReleaseOp):
        return verb.commits is not None and ring.tells_readers
    return ring.is_paired and "tcgen05" in ring.kinds


def _say_whether_multiplied(verb: ProducerCommitOp | ConsumerReleaseOp) -> None:
    """Give a commit for a pair of CTAs the condition under which a multiply stands in front of it,
    if there may be none: loops of multiplies may have no trip, and branches not be taken.
    """
    conditions = list[SSAValue]()
    op = verb.prev_op
    while op is not None and not _begins(op, verb):
        if isinstance(op, GemmOp):
            return
        if isinstance(op, scf.ForOp) and _multiplies(op.body.block):
            begin, end = constant_of(op.lb), constant_of(op.ub)
            if begin is not None and end is not None and begin < end:
                return
            enters = arith.CmpiOp(op.lb, op.ub, "slt")
            insert_before(verb, enters)
            conditions.append(enters.result)
        elif isinstance(op, scf.IfOp) and _multiplies(op.true_region.block):
            conditions.append(op.cond)
        op = op.prev_op
    if not conditions:
        raise PassFailedException(
            verb, "expected multiplies, or loops of them, in front of a pair's commit, got none"
        )
    some = conditions[0]
    for condition in conditions[1:]:
        either = arith.OrIOp(some, condition)
        insert_before(verb, either)
        some = either.result
    if isinstance(verb, ConsumerReleaseOp):
        told = ConsumerReleaseOp(verb.ring, verb.state, verb.pred, commits=True, multiplied=some)
    else:
        told = ProducerCommitOp(verb.ring, verb.state, some)
    insert_after(verb, told)
    erase(verb)


def _begins(op: Operation, verb: ProducerCommitOp | ConsumerReleaseOp) -> bool:
    """Whether an op begins what a verb ends: it waits for the stage."""
    waits = ConsumerWaitOp if isinstance(verb, ConsumerReleaseOp) else ProducerAcquireOp
    return isinstance(op, waits) and op.ring is verb.ring


def _multiplies(block: Block) -> bool:
    """Whether a block has a multiply whenever it runs."""
    return any(isinstance(op, GemmOp) for op in block.ops)


def _move_into_branch(acquire: ProducerAcquireOp) -> None:
    """Let the fence behind a wait stand in the one branch that uses the stage: threads that do not
    enter it have no instructions to be ordered. The fence in front of the commit stays, since it
    orders what a role did before the wait, too.
    """
    fence, between = acquire.next_op, list[Operation]()
    op = fence.next_op if isinstance(fence, Tcgen05FenceOp) else None
    while op is not None and not isinstance(op, Tcgen05FenceOp):
        between.append(op)
        op = op.next_op
    commit = None if op is None else op.next_op
    if not isinstance(commit, ProducerCommitOp) or commit.state is not acquire.state:
        return
    branches = [each for each in between if _is_of_tensor_memory(each)]
    if len(branches) != 1 or not isinstance(branch := branches[0], scf.IfOp):
        return
    first = branch.true_region.block.first_op
    has_other = any(map(_is_of_tensor_memory, walk(branch.false_region)))
    if fence is not None and first is not None and not has_other:
        fence.detach()
        insert_before(first, fence)


def _is_of_tensor_memory(op: Operation) -> bool:
    """Whether an op, or one in it, has an operand there or is a verb of a ring."""
    return any(
        isinstance(each, _VERBS)
        or any(
            isinstance(value.type, MemRefType) and value.type.space == "tmem"
            for value in each.operands
        )
        for each in walk(op)
        if not isinstance(each, StageOp)
    )


def _drain(role: RoleOp) -> None:
    """Wait at a role's end for the stages that it filled."""
    block = role.body.block
    for state in [op for op in block.ops if isinstance(op, StateOp)]:
        if state.side.data == "producer" and _is_signaled(_ring_of(state.ring)):
            drain = DrainOp(state.ring, state.state)
            drain.location = state.location
            block.add_op(drain)


def _is_signaled(ring: CreateOp) -> bool:
    """Whether other CTAs, or the tensor core, say that its stages are empty."""
    if not ring.is_released:
        return False
    releases = (use.operation for use in ring.ring.uses)
    return ring.is_shared or any(
        isinstance(op, ConsumerReleaseOp) and op.commits is not None for op in releases
    )
