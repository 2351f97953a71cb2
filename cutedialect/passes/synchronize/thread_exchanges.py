"""Steps of ops by which threads exchange what they hold: in front of each stands what they store to
memory that they share and load from it, and where they meet (`pipeline.steps`).

    reduce %t over rows that warps share
    =>
    steps { barrier; scratch_store; barrier; scratch_load }; reduce %t

The scratch buffer is that of all such ops of a team, so that threads meet before they store, too.
"""

from __future__ import annotations

from xdsl.dialects.arith import CmpiOp, ConstantOp
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Operation

from cutedialect.dialects.cute import (
    LINE_OPS,
    BarrierOp,
    ClaimOp,
    FetchOp,
    KernelOp,
    LastArrivalOp,
    PutOp,
    ReduceOp,
)
from cutedialect.dialects.pipeline import RoleOp, ScratchLoadOp, ScratchStoreOp, StepsOp
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.analysis.lines import rounds_of
from cutedialect.passes.analysis.memory_views import constant_of
from cutedialect.passes.anchors import anchored
from cutedialect.passes.rewriting import insert_before

THREAD_EXCHANGES = (ReduceOp, FetchOp, *LINE_OPS, ClaimOp, LastArrivalOp)
"""The ops by which threads of a team exchange what they hold, or what one of them is told."""


@anchored(*THREAD_EXCHANGES)
def say_steps(kernel: KernelOp) -> None:
    """Put the steps of each such op in front of it."""
    for op in ops_of(kernel, *THREAD_EXCHANGES):
        if isinstance(op.prev_op, StepsOp):
            continue
        if isinstance(op, ClaimOp):
            if not _is_of_one_thread(op):
                insert_before(op, StepsOp(_round()))
        elif isinstance(op, LastArrivalOp):
            _of_last_arrival(op)
        else:
            steps = [step for _ in range(rounds_of(op)) for step in _round(isinstance(op, PutOp))]
            if steps:
                insert_before(op, StepsOp(steps))


def _round(changes: bool = False) -> list[Operation]:
    """Threads store and others load; before that some may change what was stored."""
    stored: list[Operation] = [BarrierOp(), ScratchStoreOp()]
    if changes:
        stored += [BarrierOp(), ScratchStoreOp()]
    return [*stored, BarrierOp(), ScratchLoadOp()]


def _is_of_one_thread(op: Operation) -> bool:
    around = op.parent_op()
    while around is not None and not isinstance(around, RoleOp):
        around = around.parent_op()
    return around is not None and around.elect is not None


def _of_last_arrival(op: LastArrivalOp) -> None:
    """Who is alone tells nobody."""
    total = constant_of(op.total)
    if total is not None:
        if total > 1:
            insert_before(op, StepsOp(_round()))
        return
    one = ConstantOp(IntegerAttr(1, i32))
    several = CmpiOp(op.total, one.result, "sgt")
    insert_before(op, one, several, StepsOp(_round(), several.result))
