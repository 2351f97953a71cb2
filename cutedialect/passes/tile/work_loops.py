"""Loops over work items: the items from a first one on, so many apart, or the next one that no
other CTA has claimed, or that of a CTA which has not begun.

    for item = first to total step n { body }
    while item < total { next = claim; body; item = next }
    while item < total { next = cancel_launch; body; item = next }

Where a kernel has roles, the one that loads claims for all of them (`shared_numbers.py`).
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import UnitAttr, i32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects import cute
from cutedialect.layout import Layout
from cutedialect.passes.analysis.memory_views import WORK
from cutedialect.passes.launch_arguments import add_argument
from cutedialect.passes.rewriting import ScalarBuilder

_ALIGNMENT = 16
_COUNTER = cute.MemRefType.get(i32, "gmem", _ALIGNMENT, Layout((1,), (1,)))


def work_loop(
    index: cute.TileIndexOp, build: ScalarBuilder, first: SSAValue, total: SSAValue, step: SSAValue
) -> tuple[ScalarBuilder, SSAValue]:
    """Move everything from `index` on into a loop; returns the item's number."""
    body = Block(arg_types=[i32])
    loop = build.insert(scf.ForOp(first, total, step, [], body))
    return _filled(loop, body, index, scf.YieldOp())


def claim_loop(
    kernel: cute.KernelOp, index: cute.TileIndexOp, first: SSAValue, total: SSAValue
) -> tuple[ScalarBuilder, SSAValue]:
    """Move everything from `index` on into a loop that runs while there are items, beginning with
    `first`; returns the item's number.
    """
    if kernel.schedule is not None and kernel.schedule.data.cluster not in (None, (1, 1)):
        raise PassFailedException(
            index,
            f"expected cluster = (1,1) with the scheduler dynamic, got "
            f"{kernel.schedule.data.cluster}; take scheduler = persistent",
        )
    counter = add_argument(
        kernel, _COUNTER, "claims", lambda _: cute.WorkspaceOp([], _COUNTER, True)
    )
    return _while_loop(index, first, total, cute.ClaimOp(counter, total))


def cancel_loop(
    index: cute.TileIndexOp, first: SSAValue, total: SSAValue
) -> tuple[ScalarBuilder, SSAValue]:
    """The same of a grid with a CTA (cluster) for each item: those that have begun take over items
    of others.
    """
    return _while_loop(index, first, total, cute.CancelLaunchOp(total))


def _while_loop(
    index: cute.TileIndexOp,
    first: SSAValue,
    total: SSAValue,
    claim: cute.ClaimOp | cute.CancelLaunchOp,
) -> tuple[ScalarBuilder, SSAValue]:
    """A loop that asks for the next item as the first thing that it does for one."""
    before, body = Block(arg_types=[i32]), Block(arg_types=[i32])
    build = ScalarBuilder(InsertPoint.before(index), index)
    loop = build.insert(scf.WhileOp([first], [i32], Region(before), Region(body)))
    inner = build.at(InsertPoint.at_end(before))
    runs = inner.compare("slt", before.args[0], total)
    inner.insert(scf.ConditionOp(runs, before.args[0]))
    build.at(InsertPoint.at_end(body)).insert(claim)
    return _filled(loop, body, index, scf.YieldOp(claim.result))


def _filled(
    loop: scf.ForOp | scf.WhileOp, body: Block, index: cute.TileIndexOp, ending: Operation
) -> tuple[ScalarBuilder, SSAValue]:
    """Move everything from `index` on but the buffers to the end of a loop's block, and end it;
    returns the place in front of the index, and the item's number.
    """
    loop.attributes[WORK] = UnitAttr()
    op: Operation | None = index
    while op is not None:
        behind = op.next_op
        if not isinstance(op, cute.AllocSmemOp):
            op.detach()
            body.add_op(op)
        op = behind
    build = ScalarBuilder(InsertPoint.before(index), index)
    build.at(InsertPoint.at_end(body)).insert(ending)
    return build, body.args[0]
