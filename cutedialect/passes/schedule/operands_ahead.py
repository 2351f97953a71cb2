"""A step of `cute-schedule-loops`: where a trip computes the register tiles that its multiplies
take, these multiplies work beside the next trip's computation.

    for k { w = load s[k]; a = convert w; o += a x[k] }
    =>
    for k { w = load s[k] {0, 1}; a = convert w {0, 1}; o += a x[k] {1, 0}; complete o {1, 2} }

in braces the stage and the order of each op (`trips.py`). So a trip issues the multiplies of the
one before, converts its own operand, and waits for these:

    a = convert s[0]; for k behind 0 { o += a x[k - 1]; b = convert s[k]; complete o; a = b }

The multiplies have one accumulator, which nothing else in the loop touches.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Operation

from cutedialect.dialects.cute import GemmOp, KernelOp, LoadOp, MapOp, fragment_of
from cutedialect.dialects.effects import used_by, written_by
from cutedialect.dialects.pipeline import CompleteOp
from cutedialect.passes.analysis.mma_choice import is_warpgroup_multiply
from cutedialect.passes.analysis.operand_plans import computes_ahead
from cutedialect.passes.analysis.trips import (
    clear_place,
    own_ops,
    set_place,
    trip_of,
    wrong_order,
)
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import insert_after
from cutedialect.passes.schedule.loops_in_order import (
    ONE_STAGE,
    dependence,
    lacked,
    loops_in_order,
    registers_of,
)

_MULTIPLY, _COMPUTE, _COMPLETE = range(3)
# Registers of a thread for addresses, predicates and what a conversion takes at a time.
_OTHERS = 48


def schedule_operands_ahead(kernel: KernelOp, stages: int) -> None:
    """Give the ops of a kernel's loops that compute operands of their multiplies a stage and an
    order; the rings that other roles fill have so many stages.
    """
    for loop in loops_in_order(kernel):
        ops = own_ops(trip_of(loop, False))
        gemms = _multiplies(loop, ops)
        if not gemms:
            continue
        why = _declined(kernel, ops, gemms, stages) or _placed(ops, gemms)
        if why:
            remark(
                "cute-schedule-loops",
                gemms[0],
                f"multiplies not beside the next trip's operands: {why}",
            )


def _multiplies(loop: scf.ForOp, ops: list[Operation]) -> list[GemmOp]:
    """The multiplies of a trip, if all of them take register tiles that it computes of what it
    loads, and have an accumulator of their own.
    """
    gemms = [op for op in ops if isinstance(op, GemmOp) and is_warpgroup_multiply(op)]
    if not gemms or ops != own_ops(trip_of(loop, True)):
        return []
    (acc, *others), rest = {op.acc for op in gemms}, [op for op in ops if op not in gemms]
    is_made = all(isinstance(op.a.owner, MapOp) and op.a.owner in ops for op in gemms)
    loads = any(isinstance(op, LoadOp) for op in rest)
    if others or acc.owner in ops or not (is_made and loads):
        return []
    return gemms if acc not in used_by(*rest) | written_by(*rest) else []


def _declined(kernel: KernelOp, ops: list[Operation], gemms: list[GemmOp], stages: int) -> str:
    """Why a trip keeps its order; empty where it does not have to."""
    if stages < 2:
        return ONE_STAGE
    columns = gemms[0].acc.type.shape[1]  # pyright: ignore[reportAttributeAccessIssue]
    if not computes_ahead(kernel, gemms[0]):
        return f"{columns} columns take no longer than what is computed for them"
    if any(op.regions and not isinstance(op, MapOp) for op in ops):
        return "a loop or a branch stands beside them"
    operands = {op.a for op in gemms}
    loaded = {op.result for op in ops if isinstance(op, LoadOp)}
    wants = _OTHERS + 2 * sum(registers_of(fragment_of(each)) for each in operands)
    wants += sum(registers_of(fragment_of(each)) for each in (gemms[0].acc, *loaded))
    return lacked(kernel, wants)


def _placed(ops: list[Operation], gemms: list[GemmOp]) -> str:
    """Write the places; the reason where an op would run before what it depends on."""
    complete = CompleteOp([gemms[0].acc])
    complete.attributes["role"] = gemms[0].attributes["role"]
    for op in ops:
        set_place(op, *((1, _MULTIPLY) if op in gemms else (0, _COMPUTE)))
    wrong = wrong_order(ops)
    if wrong is None:
        set_place(complete, 1, _COMPLETE)
        insert_after(gemms[-1], complete)
        return ""
    for op in ops:
        clear_place(op)
    return dependence(wrong)
