"""A step of `cute-schedule-loops`: where a trip goes on behind its last multiply, the next trip's
first multiply works beside that.

    for j { s = q k[j]; p = f(s); x = p v[j]; store x }
    =>
    for j {
        s = q k[j] {0, 4}
        complete s {1, 1}; p = f(s) {1, 3}; x = p v[j] {1, 3}; store x {1, 5}
    }

in braces the stage and the order of each op (`trips.py`): all but the first multiply comes a trip
later, so that a trip begins with its scores and ends with the next one's issue:

    s = q k[0]; for j { complete s; p = f(s); x = p v[j]; s = q k[j + 1]; store x }

The accumulator is one of all trips: what reads the scores stands in front of the next issue. A trip
waits for them before any other multiply, since the assembler serializes multiplies of which some
cross the back edge while others are waited for (`multiply_groups.py`).

The last multiply of a trip comes another trip later where it can (`late_multiplies.py`): beside
what is computed behind the multiplies that stand between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation

from cutedialect.dialects.cute import AllocFragmentOp, FillOp, GemmOp, KernelOp
from cutedialect.dialects.effects import is_in_memory, is_pure, space_of, used_by, written_by
from cutedialect.dialects.pipeline import CompleteOp
from cutedialect.dialects.walks import walk
from cutedialect.passes.analysis.memory_views import is_work_loop, root_of, roots_of
from cutedialect.passes.analysis.mma_choice import is_warpgroup_multiply
from cutedialect.passes.analysis.trips import (
    CROWDED,
    clear_place,
    own_ops,
    set_place,
    trip_of,
    wrong_order,
)
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import erase, insert_before
from cutedialect.passes.schedule.late_multiplies import STAGES_IN_USE, LateMultiply, late_multiply
from cutedialect.passes.schedule.loops_in_order import ONE_STAGE, dependence, loops_in_order

# The order of a trip: what the first multiply's result is not asked for, its completion, the
# multiplies that stood between, the last one of the trip before, all up to the last one else, the
# next trip's first one, the rest.
_OPENING, _COMPLETE, _DELAYED, _LATE, _UP_TO_LAST, _NEXT, _REST = range(7)
_NOT_BESIDE = "the next trip's first multiply does not work beside what follows the last one"


@dataclass(frozen=True)
class _Trip:
    """The ops of a trip in program order, the multiplies into its first accumulator, the last one
    of its own, the op that asks for the result of the first ones first, and a multiply that comes
    another trip later.
    """

    ops: Sequence[Operation]
    firsts: Sequence[GemmOp]
    last: GemmOp
    asks: Operation
    late: LateMultiply | None


def schedule_multiplies_ahead(kernel: KernelOp, stages: int) -> None:
    """Give the ops of a kernel's loops that go on behind their last multiply a stage and an order;
    the rings that other roles fill have so many stages.
    """
    for loop in loops_in_order(kernel):
        trip = _trip(loop, stages)
        if trip is None:
            continue
        if stages < 2:
            remark(
                "cute-schedule-loops",
                trip.firsts[0],
                f"{_NOT_BESIDE}: {ONE_STAGE}",
            )
            continue
        wrong = _place(loop, trip)
        if wrong is not None and trip.late is not None:
            trip = replace(trip, last=trip.late.gemm, late=None)
            wrong = _place(loop, trip)
        if wrong is not None:
            remark(
                "cute-schedule-loops",
                wrong[1],
                f"{_NOT_BESIDE}: {dependence(wrong)}",
            )
            continue
        loop.attributes[CROWDED] = UnitAttr()
        if trip.late is not None:
            trip.late.take()


def _trip(loop: scf.ForOp, stages: int) -> _Trip | None:
    """What there is to say of a loop's trips, whose loads have so many stages; None where their
    first multiply stays.
    """
    ops, opening = (own_ops(trip_of(loop, at)) for at in (False, True))
    gemms = [op for op in ops if isinstance(op, GemmOp) and is_warpgroup_multiply(op)]
    if ops != opening or not gemms or is_work_loop(loop) or _has_ops_of_others(ops, gemms[0]):
        return None
    late = late_multiply(loop, ops) if stages >= STAGES_IN_USE else None
    if late is not None and late.gemm is gemms[-1]:
        gemms = gemms[:-1]
    last, firsts = gemms[-1], _firsts(ops, gemms)
    if not firsts or last in firsts or all(is_pure(op) for op in ops[ops.index(last) + 1 :]):
        return None
    behind = ops[ops.index(firsts[-1]) + 1 :]
    asks = next((op for op in behind if firsts[0].acc in used_by(op)), None)
    if asks is None or not _is_loaded(loop, ops, firsts):
        return None
    return _Trip(ops, firsts, last, asks, late)


def _firsts(ops: Sequence[Operation], gemms: Sequence[GemmOp]) -> list[GemmOp]:
    """The multiplies into the accumulator of the first one, which a trip makes and multiplies into
    before any other; none where it does not.
    """
    acc = gemms[0].acc
    firsts = [op for op in gemms if op.acc is acc]
    is_made = isinstance(acc.owner, AllocFragmentOp) and acc.owner in ops
    return firsts if is_made and gemms[: len(firsts)] == firsts else []


def _has_ops_of_others(ops: Sequence[Operation], mine: GemmOp) -> bool:
    """Whether branches or loops of a trip hold what another role does, which keeps its trips."""
    roles = {inner.attributes.get("role") for op in ops if op.regions for inner in walk(op)}
    return not roles <= {None, mine.attributes.get("role")}


def _is_loaded(loop: scf.ForOp, ops: Sequence[Operation], firsts: Sequence[GemmOp]) -> bool:
    """Whether the first multiplies take buffers that other roles fill, which the rest of the trip
    releases.
    """
    taken = roots_of(value for op in firsts for value in (op.a, op.b))
    if any(space_of(root) != "smem" for root in taken) or taken & roots_of(written_by(*ops)):
        return False
    filled = {root_of(value) for value in written_by(loop) if is_in_memory(value)}
    rest = [op for op in ops if op not in firsts]
    return taken & filled <= roots_of(used_by(*rest))


def _place(loop: scf.ForOp, trip: _Trip) -> tuple[Operation, Operation] | None:
    """Write the places, unless an op would run before what it depends on: these two."""
    ops, acc = trip.ops, trip.firsts[0].acc
    made, asks = acc.owner, trip.asks
    assert isinstance(made, AllocFragmentOp)
    if made.parent is loop.body.block:
        made.detach()
        insert_before(loop, made)
    complete = asks
    if not isinstance(asks, CompleteOp):
        complete = CompleteOp([acc])
        complete.attributes["role"] = trip.firsts[0].attributes["role"]
        insert_before(asks, complete)
    first, asked, last = (ops.index(op) for op in (trip.firsts[0], asks, trip.last))
    set_place(complete, 1, _COMPLETE)
    for at, op in enumerate(ops):
        if op in (made, complete):
            continue
        if trip.late is not None and op is trip.late.gemm:
            set_place(op, 2, _LATE)
        elif op in trip.firsts or (at < first and isinstance(op, FillOp) and op.fragment is acc):
            set_place(op, 0, _NEXT)
        elif at < asked:
            starts = isinstance(op, GemmOp)
            set_place(op, 1, _DELAYED if starts else _OPENING)
        else:
            set_place(op, 1, _UP_TO_LAST if at <= last else _REST)
    wrong = wrong_order(own_ops(trip_of(loop, False)))
    if wrong is not None:
        for op in (*ops, complete):
            clear_place(op)
        if complete is not asks:
            erase(complete)
    return wrong
