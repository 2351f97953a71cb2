"""A step of `cute-synchronize`: warpgroup multiplies become groups, and each group is waited for in
front of the first op that needs it complete.

    gemm q, k, s; gemm g, v, t; p = f(s); x = f(t, p)
    =>
    fence; gemm q, k, s; commit; fence; gemm g, v, t; commit;
    wait 1; p = f(s); wait 0; x = f(t, p)

Multiplies that follow each other on one accumulator are one group. No group is at work where a trip
of a loop ends (the assembler serializes multiplies that cross the back edge while another
accumulator is read), but for loops that only accumulate: there one group works while the next one
starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from cutedialect.dialects.cute import AllocSmemOp, CopyOp, FragmentType, GemmOp, KernelOp
from cutedialect.dialects.cute_nvgpu import WgmmaCommitOp, WgmmaFenceOp, WgmmaWaitOp
from cutedialect.dialects.effects import Unit, effects_of
from cutedialect.passes.roles.assign_warp_roles import MAIN
from cutedialect.passes.synchronize.ring_edges import is_load, is_preparing

# Groups at work when another one starts: each holds accumulators and A in registers, and one beside
# the new one keeps the tensor cores busy.
_MOST_AT_WORK = 2


@dataclass
class _Group:
    """Multiplies that are committed together."""

    gemms: list[GemmOp]
    fence: Operation
    commit: Operation


@dataclass
class MultiplyGroups:
    """Which wait completes each multiply: what it has read is free behind that. Waits in `trailing`
    complete the multiplies of the trip before, and the loop is followed by one that completes all.
    """

    waits: dict[Operation, WgmmaWaitOp] = field(default_factory=dict)
    trailing: set[WgmmaWaitOp] = field(default_factory=set)

    def end_of(self, reader: Operation) -> Operation:
        """The op behind which a reader of a buffer is done with it."""
        return self.waits.get(reader, reader)


def group_multiplies(kernel: KernelOp, stages: Mapping[Block, int]) -> MultiplyGroups:
    """Group the multiplies of a kernel and insert their waits; `stages` are those of the rings that
    are filled in each block.
    """
    found = MultiplyGroups()
    runs: list[list[GemmOp]] = []
    for op in kernel.body.block.walk():
        if isinstance(op, GemmOp) and is_warpgroup_multiply(op):
            if runs and _follows(runs[-1][-1], op):
                runs[-1].append(op)
            else:
                runs.append([op])
    blocks: dict[Block, list[_Group]] = {}
    for run in runs:
        block = run[0].parent
        assert block is not None
        loop = _accumulating_loop(run) if stages.get(block, 1) > 1 else None
        if loop is None:
            blocks.setdefault(block, []).extend(_group(each) for each in _by_accumulator(run))
            continue
        wait = WgmmaWaitOp(1)
        _insert_after(wait, _group(run).commit)
        _insert_after(WgmmaWaitOp(0), loop)
        found.waits |= dict.fromkeys(run, wait)
        found.trailing.add(wait)
    for block, groups in blocks.items():
        _insert_waits(block, groups, found)
    return found


def _by_accumulator(run: Sequence[GemmOp]) -> list[list[GemmOp]]:
    """The parts of a run that add to one accumulator: each can be waited for alone."""
    parts: list[list[GemmOp]] = []
    for gemm in run:
        if parts and parts[-1][-1].acc is gemm.acc:
            parts[-1].append(gemm)
        else:
            parts.append([gemm])
    return parts


def _group(gemms: list[GemmOp]) -> _Group:
    """Multiplies between a fence and a commit."""
    fence, commit = WgmmaFenceOp(), WgmmaCommitOp()
    _insert_before(fence, gemms[0])
    _insert_after(commit, gemms[-1])
    return _Group(gemms, fence, commit)


def is_warpgroup_multiply(op: Operation) -> bool:
    """Whether a group of warps multiplies asynchronously."""
    return isinstance(op, GemmOp) and effects_of(op).unit is Unit.WGMMA


def _insert_waits(block: Block, groups: Sequence[_Group], found: MultiplyGroups) -> None:
    """Wait for each group of a block in front of the first op that needs it, or at the end."""
    begins = {group.commit: group for group in groups}
    fences = {group.fence for group in groups}
    working: list[_Group] = []
    for op in list(block.ops):
        needed = [at for at, group in enumerate(working) if _needs(op, group)]
        if op in fences and len(working) >= _MOST_AT_WORK:
            needed.append(len(working) - _MOST_AT_WORK)
        if needed:
            last = max(needed)
            _wait(WgmmaWaitOp(len(working) - 1 - last), op, working[: last + 1], found)
            del working[: last + 1]
        if op in begins:
            working.append(begins[op])
    if not working:
        return
    # What follows in the block needs none of them.
    end, wait = block.last_op, WgmmaWaitOp(0)
    assert end is not None
    if end.has_trait(IsTerminator):
        _insert_before(wait, end)
    else:
        _insert_after(wait, end)
    _complete(wait, working, found)


def _wait(
    wait: WgmmaWaitOp, op: Operation, groups: Sequence[_Group], found: MultiplyGroups
) -> None:
    _insert_before(wait, op)
    _complete(wait, groups, found)


def _complete(wait: WgmmaWaitOp, groups: Sequence[_Group], found: MultiplyGroups) -> None:
    for group in groups:
        found.waits |= dict.fromkeys(group.gemms, wait)


def _needs(op: Operation, group: _Group) -> bool:
    """Whether an op has to come behind the end of a group: it touches the registers of the group,
    accumulators or A (PTX ISA 9.7.15.7.1), writes memory that the group reads, or is a loop.
    """
    if isinstance(op, scf.ForOp | scf.WhileOp):
        return True
    accumulators = {gemm.acc for gemm in group.gemms}
    read = {value for gemm in group.gemms for value in (gemm.a, gemm.b)}
    registers = accumulators | {each for each in read if isinstance(each.type, FragmentType)}
    for inner in op.walk():
        if is_warpgroup_multiply(inner):
            # Multiplies of one accumulator are done in their order.
            assert isinstance(inner, GemmOp)
            if inner.a in accumulators or inner.b in accumulators:
                return True
            continue
        if registers & set(inner.operands) or read & set(effects_of(inner).writes):
            return True
    return any(is_warpgroup_multiply(inner) for inner in op.walk() if inner is not op)


def _accumulating_loop(run: Sequence[GemmOp]) -> scf.ForOp | None:
    """The loop that holds these multiplies, if nothing else in it touches their accumulators: the
    group of one trip may then be at work while the next one starts.
    """
    loop = run[0].parent_op()
    if not isinstance(loop, scf.ForOp) or not all(_is_staged(gemm) for gemm in run):
        return None
    for gemm in run:
        for use in gemm.acc.uses:
            if use.operation is not gemm and loop.is_ancestor(use.operation):
                return None
    others = [op for op in loop.walk() if is_warpgroup_multiply(op) and op not in run]
    return None if others else loop


def _is_staged(gemm: GemmOp) -> bool:
    """Whether both operands are buffers that another role fills in the same block."""
    return all(
        isinstance(value.owner, AllocSmemOp)
        and any(
            use.operation.parent is gemm.parent
            and (is_load(use.operation) or _fills_prepared(use.operation, value))
            for use in value.uses
        )
        for value in (gemm.a, gemm.b)
    )


def _fills_prepared(op: Operation, buffer: SSAValue) -> bool:
    return isinstance(op, CopyOp) and is_preparing(op) and op.destination is buffer


def _follows(one: Operation, other: Operation) -> bool:
    """Whether only copies by another role and pure ops stand between two ops of a block."""
    op = one.next_op
    while op is not None and op is not other:
        role = op.attributes.get("role")
        if isinstance(role, StringAttr) and role.data == MAIN:
            return False
        op = op.next_op
    return op is other


def _insert_before(op: Operation, place: Operation) -> None:
    op.location = place.location
    op.attributes["role"] = StringAttr(MAIN)
    block = place.parent
    assert block is not None
    block.insert_op_before(op, place)


def _insert_after(op: Operation, place: Operation) -> None:
    op.location = place.location
    op.attributes["role"] = StringAttr(MAIN)
    block = place.parent
    assert block is not None
    block.insert_op_after(op, place)
