"""Shadows of multiplies: what a role does behind its last multiply of a tile, and what does not
need the result, comes before the wait for it. A step of `cute-overlap-tiles`.

    o += p v; wait; part = f(total); meet until stores have been read; write o * part
    =>
    o += p v; part = f(total); meet until stores have been read; wait; write o * part

Where a branch around the multiply decides whether there is one, its other side does the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.dialects.cute import (
    AllocFragmentOp,
    BarrierOp,
    CopyOp,
    FragmentType,
    GemmOp,
    KernelOp,
    MapOp,
    ReduceOp,
)
from cutedialect.dialects.cute_nvgpu import (
    TmaStoreWaitOp,
    WgmmaWaitOp,
)
from cutedialect.dialects.effects import Unit, effects_of, used_by, written, written_by

_WARP = 32
# Registers of a thread that may hold what is computed before the wait.
_FEW = 8


def use_shadows(kernel: KernelOp) -> None:
    """Move what a kernel can do while its last multiplies are at work in front of their waits."""
    for read in [op for op in kernel.walk() if isinstance(op, TmaStoreWaitOp)]:
        meeting = read.next_op
        if isinstance(meeting, BarrierOp) and meeting.warps == read.warps:
            _move_meeting(read, meeting)
    for branch in [op for op in kernel.walk() if isinstance(op, scf.IfOp)]:
        wait = _last_wait(branch)
        if wait is not None:
            _move_few(branch, wait)


def _last_wait(branch: scf.IfOp) -> WgmmaWaitOp | None:
    """The wait for all multiplies that a branch ends with, if it does."""
    block = branch.true_region.block
    op = block.last_op
    while op is not None and _stays_behind(op):
        if _waits_for_all(op):
            assert isinstance(op, WgmmaWaitOp)
            return op if branch.false_region.blocks else None
        op = op.prev_op
    return None


def _waits_for_all(op: Operation) -> bool:
    return isinstance(op, WgmmaWaitOp) and op.pending.value.data == 0


# Waits for stores


def _move_meeting(read: TmaStoreWaitOp, meeting: BarrierOp) -> None:
    """Let threads know before the wait for a multiply that what they store from has been read."""
    block, op = read.parent, read.prev_op
    while block is not None:
        if op is None:
            around = block.parent_op()
            if not isinstance(around, scf.IfOp):
                return
            # The other side of the branch does not mind.
            block, op = around.parent, around.prev_op
            continue
        if _waits_for_all(op):
            _place([read, meeting], op)
            return
        if isinstance(op, scf.IfOp) and (wait := _last_wait(op)) is not None:
            end = op.false_region.block.last_op
            assert end is not None
            _place([read, meeting], wait)
            _place([read.clone(), meeting.clone()], end)
            return
        if not _stays_behind(op):
            return
        op = op.prev_op


def _place(ops: Sequence[Operation], at: Operation) -> None:
    """Move a wait and a meeting in front of another op, unless such ones are there."""
    block, before = at.parent, at.prev_op
    assert block is not None
    is_there = (
        isinstance(before, BarrierOp)
        and isinstance(before.prev_op, TmaStoreWaitOp)
        and before.prev_op.properties == ops[0].properties
        and before.properties == ops[1].properties
    )
    for op in ops:
        if op.parent is not None:
            op.detach()
        if not is_there:
            block.insert_op_before(op, at)


def _stays_behind(op: Operation) -> bool:
    """Whether threads may meet before an op as well as behind it: it starts no store whose source
    has to be read first, and makes nothing known that they meet for.
    """
    return all(_starts_nothing(inner) for inner in op.walk())


def _starts_nothing(op: Operation) -> bool:
    effects = effects_of(op)
    is_store_wait = effects.completes is Unit.TMA_STORE
    return not (effects.starts_or_publishes or is_store_wait or isinstance(op, scf.ForOp))


# Few values, such as one for each row


def _move_few(branch: scf.IfOp, wait: WgmmaWaitOp) -> None:
    """Compute behind the multiply of a branch what needs no result of it, if that is little."""
    found = _found(branch, wait)
    inside, end = wait.parent, branch.false_region.block.last_op
    assert inside is not None
    assert end is not None
    known: list[dict[SSAValue, SSAValue]] = [{}, {}]
    kept: list[SSAValue] = []
    made: list[Operation] = []
    for each in found:
        copies = [each.clone(values) for values in known]
        made += copies
        for copy, at in zip(copies, (wait, end), strict=True):
            _insert(copy, at, each)
        if isinstance(each, CopyOp):
            if not any(each.destination in op.operands for op in found if op is not each):
                kept.append(each.destination)
            continue
        result = each.results[0]
        for copy, values in zip(copies, known, strict=True):
            values[result] = copy.results[0]
        if _bits(result) != 32 or {use.operation for use in result.uses} <= set(found):
            continue
        assert isinstance(result.type, FragmentType)
        alloc = AllocFragmentOp(result.type)
        _insert(alloc, branch, each)
        kept.append(alloc.result)
        for copy, values, at in zip(copies, known, (wait, end), strict=True):
            _insert(CopyOp(copy.results[0], alloc.result), at, each)
            values[alloc.result] = copy.results[0]
        result.replace_all_uses_with(alloc.result)
    if kept:
        after = dict.fromkeys([*wait.after, *kept])
        _insert(WgmmaWaitOp(0, list(after)), wait, wait)
        wait.detach()
        wait.erase()
    for op in reversed([*found, *made]):
        if (isinstance(op, CopyOp) and op in found) or (op.results and not op.results[0].uses):
            op.detach()
            op.erase()


def _insert(op: Operation, at: Operation, like: Operation) -> None:
    op.location = like.location
    assert at.parent is not None
    at.parent.insert_op_before(op, at)


def _found(branch: scf.IfOp, wait: WgmmaWaitOp) -> list[MapOp | ReduceOp | CopyOp]:
    """The ops behind a branch that give a thread few values, of what is known before the wait in
    the branch, as far as few registers hold the values.
    """
    changed, read = _touched_behind(wait)
    found: list[MapOp | ReduceOp | CopyOp] = []
    values = 0
    op = branch.next_op
    while op is not None:
        used = used_by(op)
        mine = written_by(op)
        if (
            isinstance(op, MapOp | ReduceOp | CopyOp)
            and (made := _made(op)) is not None
            and values + made <= _FEW
            and not changed & (used - mine)
            and not (changed | read) & mine
            and all(_is_known_before(value, op, branch, found) for value in used)
        ):
            found.append(op)
            values += made
            if isinstance(op, MapOp) and _bits(op.result) != 32:
                # What others take of it they find where it was.
                read |= used
        else:
            changed |= mine
            read |= used
        op = op.next_op
    return found


def _made(op: MapOp | ReduceOp | CopyOp) -> int | None:
    """How many registers hold what an op gives; None where it does more than compute in a warp."""
    target = op.destination if isinstance(op, CopyOp) else op.results[0]
    if not isinstance(target.type, FragmentType):
        return None
    if isinstance(op, CopyOp):
        # It writes what is there already.
        is_few = isinstance(op.source.type, FragmentType) and _bits(target) == 32
        return 0 if is_few and target.type.values <= _FEW else None
    if isinstance(op, ReduceOp):
        source = op.source.type
        assert isinstance(source, FragmentType)
        if source.tv is None or source.values > _FEW or _bits(target) != 32:
            return None
        if effects_of(op).team:
            return None
    return target.type.values if _bits(target) == 32 else 0


def _bits(value: SSAValue) -> int:
    assert isinstance(value.type, FragmentType)
    return value.type.bits


def _is_known_before(
    value: SSAValue, op: Operation, branch: scf.IfOp, found: Sequence[Operation]
) -> bool:
    """Whether a value that an op takes is there before a branch, or is made by one of some ops."""
    owner, block = value.owner, branch.parent
    assert block is not None
    if isinstance(owner, Block) or owner in found or op.is_ancestor(owner):
        return True
    outer = block.find_ancestor_op_in_block(owner)
    return outer is None or block.get_operation_index(outer) < block.get_operation_index(branch)


def _touched_behind(wait: WgmmaWaitOp) -> tuple[set[SSAValue], set[SSAValue]]:
    """What multiplies that a wait is for and ops behind it in its block change, and what they
    read.
    """
    changed: set[SSAValue] = set()
    read: set[SSAValue] = set()
    op: Operation | None = wait.prev_op
    while op is not None and not isinstance(op, scf.ForOp):
        if isinstance(op, GemmOp):
            changed.add(op.acc)
            read |= set(op.operands)
        op = op.prev_op
    op = wait
    while op is not None:
        for inner in op.walk():
            changed |= set(written(inner))
            read |= set(inner.operands)
        op = op.next_op
    return changed, read
