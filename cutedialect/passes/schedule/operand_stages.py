"""A step of `cute-schedule-loops`: a register tile that multiplies of its trip read in shared
memory has a second buffer where there is room.

    for j { copy p, s; gemm s, v, x }
    =>
    for j { copy p, s[j % 2]; gemm s[j % 2], v, x }

The warps that write the tile meet before the multiply reads it. With one buffer they meet once more
before they write the next trip's, when all of them have waited for the multiply. A multiply of the
trip before the last one is done where they have met in the last one.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import OpResult
from xdsl.rewriter import InsertPoint

from cutedialect.dialects.cute import AllocSmemOp, CopyOp, GemmOp, KernelOp, StageOp
from cutedialect.dialects.walks import index_in_block
from cutedialect.passes.analysis.memory_views import TRIP, WORK, constant_of, uses_of
from cutedialect.passes.analysis.resource_plan import (
    buffer_bytes,
    shared_use,
    stages_of_results,
)
from cutedialect.passes.analysis.ring_edges import depth, edges_of, own_stages, planned_stages
from cutedialect.passes.analysis.smem_layouts import OPERAND
from cutedialect.passes.analysis.trips import order_of
from cutedialect.passes.rewriting import ScalarBuilder, erase, ring_of

_STAGES = 2


def stage_operands(kernel: KernelOp, written: Sequence[AllocSmemOp], stages: int) -> None:
    """Give those operands that the threads of a loop have `written` two buffers, unless its ops
    have places; the rings that other roles fill have so many stages.
    """
    for alloc in written:
        writer = _writer_of(alloc)
        if writer is None:
            continue
        depths = {edge: depth(edge.block) for edge in edges_of(kernel)}
        rings = planned_stages(depths, stages) | own_stages(kernel, [*depths])
        filled = [(buffer, count) for edge, count in rings.items() for buffer in edge.buffers]
        staged = [*stages_of_results(kernel).items(), *filled]
        use = shared_use(kernel, staged, signaled=len(rings))
        if use is not None and use.left(stages) >= buffer_bytes(alloc):
            _alternate(alloc, writer)


def _writer_of(alloc: AllocSmemOp) -> CopyOp | None:
    """What alone writes a buffer, in the body of a loop whose multiplies then read it; None where
    a buffer has other users.
    """
    users = [use.operation for use in uses_of(alloc.result)]
    writers = [op for op in users if isinstance(op, CopyOp) and op.destination is alloc.result]
    loops = {op.parent_op() for op in users}
    loop = loops.pop() if len(loops) == 1 and len(writers) == 1 else None
    if not isinstance(loop, scf.ForOp) or any(order_of(op) is not None for op in loop.body.ops):
        return None
    if len({op.attributes.get("role") for op in users}) > 1:
        return None  # What one role writes and another one reads gets a ring with barriers.
    others = [op for op in users if op not in writers]
    at = index_in_block
    reads = others and all(isinstance(op, GemmOp) and at(op) > at(writers[0]) for op in others)
    return writers[0] if reads else None


def _alternate(alloc: AllocSmemOp, writer: CopyOp) -> None:
    """Let trips of the loop around a writer use the stages of a ring in turn."""
    loop = writer.parent_op()
    assert isinstance(loop, scf.ForOp)
    block = loop.body.block
    build = ScalarBuilder(InsertPoint.at_start(block), writer)
    trip = build.sub(block.args[0], loop.lb)
    if WORK in loop.attributes or constant_of(loop.step) != 1:
        # Work items go on by the number of CTAs.
        less, trip = trip, build.div(trip, loop.step)
        for value in (less, trip):
            assert isinstance(value, OpResult)
            value.op.attributes[TRIP] = UnitAttr()
    number = build.binary(arith.AndIOp, trip, build.constant(_STAGES - 1))
    ring = ring_of(alloc, _STAGES)
    ring.attributes[OPERAND] = alloc.attributes[OPERAND]
    stage = build.insert(StageOp(ring.result, number, 0))
    role = writer.attributes.get("role")
    if role is not None:
        stage.attributes["role"] = role
    alloc.result.replace_all_uses_with(stage.result)
    erase(alloc)
