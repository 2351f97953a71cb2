"""A step of `cute-schedule-loops`: where a trip multiplies into an accumulator of its own and then
computes on that, as sums of parts of K are scaled and added to others, the next trip's multiplies
work beside it.

    for k { fill p, 0; gemm a[k], b[k], p; copy t + f(p), t }
    =>
    for k {
        fill p, 0 {0, 0}; gemm a[k], b[k], p {0, 0}; complete p {0, 2}
        copy t + f(p), t {1, 1}
    }

in braces the stage and the order of each op (`trips.py`). So a trip issues its multiplies, computes
on what the one before has left, and waits for its own:

    gemm a[0], b[0], p
    for k behind 0 { gemm a[k], b[k], q; copy t + f(p), t; complete q; copy q, p }
    copy t + f(p), t

`cute-unroll-loops` lets both accumulators take turns, and the copy goes. No multiply is at work
where a trip ends: the assembler would serialize it (`multiply_groups.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Operation

from cutedialect.dialects.cute import (
    AllocFragmentOp,
    FragmentType,
    GemmOp,
    KernelOp,
    fragment_of,
)
from cutedialect.dialects.effects import is_pure, space_of, used_by, written_by
from cutedialect.dialects.pipeline import CompleteOp
from cutedialect.passes.analysis.memory_views import is_work_loop
from cutedialect.passes.analysis.mma_choice import is_warpgroup_multiply
from cutedialect.passes.analysis.trips import (
    clear_place,
    order_of,
    own_ops,
    set_place,
    trip_of,
    wrong_order,
)
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import erase, insert_after
from cutedialect.passes.schedule.loops_in_order import (
    ONE_STAGE,
    dependence,
    lacked,
    loops_in_order,
    registers_of,
)

_MULTIPLY, _COMPUTE, _COMPLETE = range(3)
# Registers of a thread for addresses, predicates and numbers.
_OTHERS = 40


def schedule_products_ahead(kernel: KernelOp, stages: int) -> None:
    """Give the ops of a kernel's loops that compute on their own products a stage and an order; the
    rings that other roles fill have so many stages.
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
                f"what is computed on products not beside the next trip's multiplies: {why}",
            )


def _multiplies(loop: scf.ForOp, ops: Sequence[Operation]) -> list[GemmOp]:
    """The multiplies of a trip, if all of them take shared memory and have one accumulator, made in
    the trip, that what stands behind them computes on.
    """
    gemms = [op for op in ops if isinstance(op, GemmOp) and is_warpgroup_multiply(op)]
    if not gemms or is_work_loop(loop) or ops != own_ops(trip_of(loop, True)):
        return []
    (acc, *others) = dict.fromkeys(op.acc for op in gemms)
    is_made = isinstance(acc.owner, AllocFragmentOp) and acc.owner in ops
    if others or not is_made or any(space_of(x) != "smem" for op in gemms for x in (op.a, op.b)):
        return []
    behind = ops[ops.index(gemms[-1]) + 1 :]
    return gemms if acc in used_by(*behind) and acc not in written_by(*behind) else []


def _declined(
    kernel: KernelOp, ops: Sequence[Operation], gemms: Sequence[GemmOp], stages: int
) -> str:
    """Why a trip keeps its order; empty where it does not have to."""
    if stages < 2:
        return ONE_STAGE
    written = {tile for tile in written_by(*ops) if isinstance(tile.type, FragmentType)}
    wants = _OTHERS + registers_of(fragment_of(gemms[0].acc))
    wants += sum(registers_of(fragment_of(tile)) for tile in written)
    return lacked(kernel, wants)


def _placed(ops: Sequence[Operation], gemms: Sequence[GemmOp]) -> str:
    """Write the places; the reason where an op would run before what it depends on."""
    last = ops.index(gemms[-1])
    for at, op in enumerate(ops):
        set_place(op, *((0, _MULTIPLY) if at <= last else (1, _COMPUTE)))
    complete = CompleteOp([gemms[0].acc])
    complete.attributes["role"] = gemms[0].attributes["role"]
    set_place(complete, 0, _COMPLETE)
    insert_after(gemms[-1], complete)
    wrong = wrong_order([*ops[: last + 1], complete, *ops[last + 1 :]])
    if wrong is None and all(is_pure(op) or order_of(op) is not None for op in ops):
        return ""
    for op in ops:
        clear_place(op)
    erase(complete)
    if wrong is None:
        return "an op has no place"
    return dependence(wrong)
