"""Which accumulators that change between multiplies can stay in tensor memory while a role of the
plan corrects them there: those that each trip of one loop changes element by element, then
multiplies into.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from cutedialect.dialects import cute
from cutedialect.dialects.effects import written
from cutedialect.passes.roles.role_plan import rows_of


@dataclass
class Correction:
    """The life of one accumulator: the fill that begins it, the loop in whose body it is multiplied
    into, the multiplies, the maps that change it before them with the copies that keep what these
    give, and the ops that read it behind the loop.
    """

    fill: cute.FillOp
    loop: scf.ForOp
    multiplies: list[cute.GemmOp]
    updates: list[tuple[cute.MapOp, cute.CopyOp]]
    readers: list[Operation]


def corrects(kernel: cute.KernelOp) -> bool:
    """Whether a role of a kernel's plan corrects accumulators in tensor memory."""
    plan = None if kernel.schedule is None else kernel.schedule.data.roles
    if plan is None:
        return False
    try:
        rows = rows_of(plan)
    except ValueError:  # `cute-assign-warp-roles` says what is wrong with it.
        return False
    return any("corrects" in row.takes for row in rows)


def correction_of(accumulator: SSAValue) -> Correction | None:
    """The life of an accumulator that is filled, and in the trips of one loop changed element by
    element, then multiplied into, and that is only read behind the loop; None for any other.
    """
    alloc = accumulator.owner
    if not isinstance(alloc, cute.AllocFragmentOp) or alloc.parent is None:
        return None
    users = [use.operation for use in accumulator.uses]
    gemms = [op for op in users if isinstance(op, cute.GemmOp) and op.acc is accumulator]
    fills = [op for op in users if isinstance(op, cute.FillOp)]
    blocks = {op.parent for op in gemms}
    if len(blocks) != 1 or len(fills) != 1 or fills[0].parent is not alloc.parent:
        return None
    (inner,) = blocks
    loop = None if inner is None else inner.parent_op()
    if inner is None or not isinstance(loop, scf.ForOp) or loop.parent is not alloc.parent:
        return None
    gemms.sort(key=inner.get_operation_index)
    if any(op.negate is not None or accumulator in (op.a, op.b) for op in gemms):
        return None
    outer = alloc.parent.get_operation_index
    behind, first = outer(loop), inner.get_operation_index(gemms[0])
    if outer(fills[0]) > behind:
        return None
    updates: dict[Operation, cute.CopyOp] = {}
    readers: list[Operation] = []
    for op in users:
        place = alloc.parent.find_ancestor_op_in_block(op)
        if op in gemms or op in fills:
            continue
        if place is not loop:
            if place is None or outer(place) < behind or accumulator in written(op):
                return None
            readers.append(op)
            continue
        around = inner.find_ancestor_op_in_block(op)
        assert around is not None
        if inner.get_operation_index(around) > first:
            return None
        if isinstance(op, cute.MapOp):
            kept = [use.operation for use in op.result.uses]
            if len(kept) != 1 or not _keeps(kept[0], op, accumulator) or not _is_narrow(op):
                return None
            updates[op] = kept[0]  # pyright: ignore[reportArgumentType]
        elif not (isinstance(op, cute.CopyOp) and isinstance(op.source.owner, cute.MapOp)):
            return None
    copies = {op for op in users if isinstance(op, cute.CopyOp) and op.destination is accumulator}
    if copies != {*updates.values()} or not updates:
        return None
    pairs = [(op, copy) for op, copy in updates.items() if isinstance(op, cute.MapOp)]
    return Correction(fills[0], loop, gemms, pairs, readers)


def _keeps(op: Operation, made: cute.MapOp, accumulator: SSAValue) -> bool:
    """Whether an op right in the block of a map makes what it gives the accumulator."""
    is_copy = isinstance(op, cute.CopyOp) and op.destination is accumulator
    return is_copy and op.parent is made.parent


def _is_narrow(op: cute.MapOp) -> bool:
    """Whether all but the accumulator that a map takes is one element for each row."""
    accumulators = [value for value in op.inputs if value.type == op.result.type]
    others = [value.type for value in op.inputs if value not in accumulators]
    return len({*accumulators}) == 1 and all(
        isinstance(type_, cute.FragmentType) and (len(type_.shape) == 1 or type_.shape[1] == 1)
        for type_ in others
    )
