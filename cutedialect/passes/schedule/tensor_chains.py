"""A step of `cute-schedule-loops`: in a loop of multiplies into tensor memory, those of what is
computed from others of their trip are issued one trip later, behind the first ones of the next.

    for j { s = q k[j]; p = f(s) (main); x = p v[j] }
    =>
    for j { s = q k[j] {0, 0}; p = f(s) (main); x = p v[j] {1, 1} }

in braces the stage and the order of each multiply (`trips.py`). One thread issues all of them: in
the order of the program it would wait for `p` with the tensor core idle, though `s` of the next
trip asks for nothing that is still to come. Other roles keep the order of the program, and so does
each ring.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.dialects.cute import AllocTmemOp, GemmOp, KernelOp
from cutedialect.dialects.effects import Unit, effects_of, written_by
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.anchors import anchored
from cutedialect.passes.remarks import remark
from cutedialect.passes.roles.role_plan import is_load
from cutedialect.passes.roles.tensor_columns import tensor_overlays, tensor_stages
from cutedialect.passes.schedule.trips import order_of, set_place
from cutedialect.passes.synchronize.memory_views import root_of


@anchored(AllocTmemOp)
def schedule_tensor_chains(kernel: KernelOp, stages: int) -> None:
    """Give the multiplies of a kernel's loops a stage and an order; the rings that loads fill have
    so many stages.
    """
    for loop in [op for op in ops_of(kernel, scf.ForOp) if not op.iter_args]:
        block = loop.body.block
        gemms = [op for op in block.ops if _is_issued(op)]
        late = _late(block, gemms)
        if not late or len(late) == len(gemms) or any(order_of(op) is not None for op in gemms):
            continue
        why = _declined(kernel, loop, gemms, late, stages)
        if why:
            remark("cute-schedule-loops", late[0], f"multiplies not issued ahead: {why}")
            continue
        overlays = tensor_overlays(kernel)
        if not overlays or tensor_stages(kernel) > 1:
            for op in gemms:
                set_place(op, int(op in late), int(op in late))
            continue
        # The columns of a product are free when what lies over them has been multiplied: that comes
        # first. Products keep their order, as rings do.
        passed = order = 0
        for op in gemms:
            if op in late:
                set_place(op, 1, 2 * passed)
                passed += 1
                continue
            over = {each.result for each, under in overlays.items() if _writes(op, under)}
            readers = [2 * at for at, each in enumerate(late) if over & _operands(each)]
            order = max(order, 2 * passed, *readers)
            set_place(op, 0, order + 1)


def _is_issued(op: Operation) -> bool:
    return isinstance(op, GemmOp) and effects_of(op).unit is Unit.TCGEN05


def _late(block: Block, gemms: list[Operation]) -> list[Operation]:
    """The multiplies of what threads write to shared or tensor memory in the same trip."""
    written = {
        root_of(value)
        for op in block.ops
        if not is_load(op) and not _is_issued(op)
        for value in written_by(op)
    }
    return [op for op in gemms if not written.isdisjoint(_operands(op))]


def _writes(op: Operation, alloc: AllocTmemOp) -> bool:
    return alloc.result in map(root_of, written_by(op))


def _operands(op: Operation) -> set[SSAValue]:
    return {root_of(op.a), root_of(op.b)}


def _declined(
    kernel: KernelOp, loop: scf.ForOp, gemms: list[Operation], late: list[Operation], stages: int
) -> str:
    """Why the order of the program stays; empty where it does not have to."""
    if any(_is_issued(op) and op not in gemms for op in walk(loop)):
        return "others stand in loops or branches of the trip"
    early = [op for op in gemms if op not in late]
    shared = set[SSAValue]().union(*map(_operands, early)) & set[SSAValue]().union(
        *map(_operands, late)
    )
    filled = {root_of(value) for op in loop.body.block.ops for value in written_by(op)}
    if stages < 2 and shared & filled:
        return "they read a tile with earlier ones, and one stage holds no trip but one"
    return ""
