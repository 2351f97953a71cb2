"""Shadows of multiplies: what a role does behind its last multiply of a tile, and what does not
need the result, comes before the wait for it. A step of `cute-overlap`.

    o += p v; wait; part = f(total); meet until stores have been read; write o * part
    =>
    o += p v; part = f(total); meet until stores have been read; wait; write o * part

Where a branch around the multiply decides whether there is one, its other side does the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import scf
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from cutedialect.dialects.cute import (
    AllocFragmentOp,
    AnyOp,
    BarrierOp,
    ConvertOp,
    CopyOp,
    ExtractOp,
    FillOp,
    FragmentType,
    GemmOp,
    KernelOp,
    LoadOp,
    MapOp,
    ReduceOp,
)
from cutedialect.dialects.cute_nvgpu import (
    BulkStoreType,
    TmaStoreType,
    TmaStoreWaitOp,
    WgmmaWaitOp,
)
from cutedialect.dialects.pipeline import (
    AdvanceOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
)

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
            _move_rows(branch, wait)


def _last_wait(branch: scf.IfOp) -> WgmmaWaitOp | None:
    """The wait for all multiplies that a branch ends with, if it does."""
    block = branch.true_region.block
    op = block.last_op
    while op is not None and _stays_behind(op):
        if _waits_for_all(op):
            assert isinstance(op, WgmmaWaitOp)
            return op if branch.false_region.blocks and not branch.results else None
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
    if isinstance(op, CopyOp):
        atom: Attribute | None = op.atom
        return not isinstance(atom, TmaStoreType | BulkStoreType)
    return (
        isinstance(
            op,
            AdvanceOp
            | AllocFragmentOp
            | AnyOp
            | BarrierOp
            | ConsumerReleaseOp
            | ConsumerWaitOp
            | ConvertOp
            | ExtractOp
            | FillOp
            | LoadOp
            | MapOp
            | ReduceOp
            | WgmmaWaitOp
            | scf.IfOp
            | scf.YieldOp,
        )
        or is_side_effect_free(op)
        or isinstance(op.parent_op(), MapOp)
    )


# Values of rows


def _move_rows(branch: scf.IfOp, wait: WgmmaWaitOp) -> None:
    """Compute behind the multiply of a branch what needs no result of it, for rows alone."""
    found = _found_rows(branch, wait)
    block, inside, end = branch.parent, wait.parent, branch.false_region.block.last_op
    assert block is not None
    assert inside is not None
    assert end is not None
    known: list[dict[SSAValue, SSAValue]] = [{}, {}]
    kept: list[SSAValue] = []
    made: list[MapOp] = []
    for each in found:
        copies = [each.clone(values) for values in known]
        made += copies
        for copy, values, at in zip(copies, known, (wait, end), strict=True):
            _insert(copy, at, each)
            values[each.result] = copy.result
        if each.result.type.bits != 32:  # pyright: ignore[reportAttributeAccessIssue]
            continue
        alloc = AllocFragmentOp(each.result.type)
        _insert(alloc, branch, each)
        kept.append(alloc.result)
        for copy, at in zip(copies, (wait, end), strict=True):
            _insert(CopyOp(copy.result, alloc.result), at, each)
        for values, copy in zip(known, copies, strict=True):
            values[alloc.result] = copy.result
        each.result.replace_all_uses_with(alloc.result)
    if kept:
        _insert(WgmmaWaitOp(0, [*wait.after, *kept]), wait, wait)
        wait.detach()
        wait.erase()
    for op in reversed([*found, *made]):
        if not op.result.uses:
            op.detach()
            op.erase()


def _insert(op: Operation, at: Operation, like: Operation) -> None:
    op.location = like.location
    assert at.parent is not None
    at.parent.insert_op_before(op, at)


def _found_rows(branch: scf.IfOp, wait: WgmmaWaitOp) -> list[MapOp]:
    """The maps behind a branch that give a number for rows or columns alone, of what is known
    before the wait in the branch, as far as few registers hold the numbers.
    """
    changed = set(_written_behind(wait))
    found: list[MapOp] = []
    values = 0
    op = branch.next_op
    while op is not None:
        if isinstance(op, MapOp) and _is_of_rows(op) and not changed & set(_read(op)):
            made = op.result.type
            assert isinstance(made, FragmentType)
            if values + made.values <= _FEW and _is_known_before(op, branch, found):
                found.append(op)
                values += made.values if made.bits == 32 else 0
        changed.update(value for inner in op.walk() for value in _written(inner))
        op = op.next_op
    return found


def _is_of_rows(op: MapOp) -> bool:
    """Whether a map's result is a number for each row or column."""
    type_ = op.result.type
    assert isinstance(type_, FragmentType)
    return 1 in type_.shape


def _is_known_before(op: MapOp, branch: scf.IfOp, found: Sequence[MapOp]) -> bool:
    """Whether what a map takes is there before a branch, or is made by one of some maps."""
    block = branch.parent
    assert block is not None
    for value in _read(op):
        owner = value.owner
        if isinstance(owner, Block):
            continue
        if owner in found or op.is_ancestor(owner):
            continue
        outer = block.find_ancestor_op_in_block(owner)
        if outer is not None and block.get_operation_index(outer) >= block.get_operation_index(
            branch
        ):
            return False
    return True


def _read(op: Operation) -> Iterator[SSAValue]:
    for inner in op.walk():
        yield from inner.operands


def _written(op: Operation) -> tuple[SSAValue, ...]:
    match op:
        case FillOp():
            return (op.fragment,)
        case CopyOp():
            return (op.destination,)
        case GemmOp():
            return (op.acc,)
        case _:
            return ()


def _written_behind(wait: WgmmaWaitOp) -> Iterator[SSAValue]:
    """What multiplies that a wait is for change, and what is changed behind it."""
    block = wait.parent
    assert block is not None
    op: Operation | None = wait
    while op is not None and not (isinstance(op, scf.ForOp)):
        if isinstance(op, GemmOp):
            yield op.acc
        op = op.prev_op
    op = wait
    while op is not None:
        for inner in op.walk():
            yield from _written(inner)
        op = op.next_op
