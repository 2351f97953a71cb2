"""`cute-structure-exits`: what ends a loop or a work item early becomes loops and branches, in
which no op skips the ones behind it. A loop that is left so counts in a `scf.while`.

    scf.for %i = %low to %high step %s {        %e = scf.while (%n = %low) : (i32) -> i32 {
      first                                       %more = arith.cmpi slt, %n, %high
      cute.break_if %c                            scf.condition(%more) %n : i32
      rest                                      } do { ^bb0(%i: i32):
    }                                             first
                                           =>     %go = arith.xori %c, true
                                                  %way = scf.if %go -> (i32) { rest; yield 0 }
                                                                        else { yield 1 }
                                                  %on = arith.cmpi eq, %way, 0
                                                  %then = arith.addi %i, %s
                                                  %next = arith.select %on, %then, %high
                                                  scf.yield %next : i32
                                                }

A number says how a block was left: 0 at its end, 1 for the loop's end, 2 for the work item's. No
op moves to another trip of such a loop: whether there is one is known when this one ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from cutedialect.dialects.cute import BreakIfOp, ExitOp, KernelOp, ReturnIfOp
from cutedialect.dialects.walks import holds, ops_around, ops_of
from cutedialect.passes.anchors import Anchors, KernelPass
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import ScalarBuilder, erase

# How a block is left.
AT_END, LOOP_LEFT, ITEM_LEFT = range(3)


@dataclass(frozen=True)
class StructureExitsPass(KernelPass):
    """Turn early exits into loops and branches."""

    name = "cute-structure-exits"
    anchors: ClassVar[Anchors] = Anchors((BreakIfOp, ReturnIfOp))

    def run(self, kernel: KernelOp) -> None:
        for loop in ops_of(kernel, scf.ForOp):
            if _leaves(loop):
                why = "no op moves to another trip: whether one follows is known at the end of this"
                remark(self.name, loop, why)
        _structure(kernel.body.block)


def _leaves(loop: scf.ForOp) -> bool:
    """Whether an op inside of a loop may leave it early."""
    return holds(loop, ReturnIfOp) or any(
        next(op for op in ops_around(exit_) if isinstance(op, scf.ForOp)) is loop
        for exit_ in ops_of(loop, BreakIfOp)
    )


def _exits(op: Operation) -> bool:
    """Whether what stands behind an op in its block may be skipped."""
    if isinstance(op, scf.ForOp):
        return holds(op, ReturnIfOp)
    return isinstance(op, ExitOp) or (
        isinstance(op, scf.IfOp)
        and any(_exits(inner) for region in op.regions for b in region.blocks for inner in b.ops)
    )


def _structure(block: Block) -> SSAValue | None:
    """Give a block and those inside no early exits; how it was left, None if at its end."""
    for op in list(block.ops):
        if _exits(op):
            return _with_rest(block, op)
        if isinstance(op, scf.ForOp) and _leaves(op):
            _looped(op)
        else:
            for region in op.regions:
                for inner in region.blocks:
                    _structure(inner)
    return None


def _with_rest(block: Block, op: Operation) -> SSAValue:
    """The ops of a block behind one that may leave it, in a branch; how the block was left."""
    way = _way(op)
    after = way.owner
    assert isinstance(after, Operation)
    rest: list[Operation] = []
    behind = after.next_op
    while behind is not None and not isinstance(behind, scf.YieldOp):
        rest.append(behind)
        behind = behind.next_op
    if not rest:
        return way
    into = Block()
    for each in rest:
        each.detach()
        into.add_op(each)
    build = ScalarBuilder(InsertPoint.after(after), op)
    goes_on = build.compare("eq", way, AT_END)
    # What is behind ends with a yield, too, where somebody asks how it was left.
    ending = scf.YieldOp()
    if block.last_op is None or not isinstance(block.last_op, scf.YieldOp):
        # The end of the kernel, where nobody asks.
        _structure(into)
        into.add_op(ending)
        build.insert(scf.IfOp(goes_on, [], Region(into)))
        return way
    into.add_op(ending)
    then = _structure(into)
    erase(ending)
    at_end = ScalarBuilder(InsertPoint.at_end(into), op)
    at_end.insert(scf.YieldOp(at_end.constant(AT_END) if then is None else then))
    left = Block()
    ScalarBuilder(InsertPoint.at_end(left), op).insert(scf.YieldOp(way))
    return build.insert(scf.IfOp(goes_on, [i32], Region(into), Region(left))).results[0]


def _way(op: Operation) -> SSAValue:
    """Replace an op that may leave its block by one that does not; how the block is left there."""
    if isinstance(op, ExitOp):
        build = ScalarBuilder(InsertPoint.before(op), op)
        way = LOOP_LEFT if isinstance(op, BreakIfOp) else ITEM_LEFT
        made = build.select(op.condition, build.constant(way), build.constant(AT_END))
        erase(op)
        return made
    if isinstance(op, scf.ForOp):
        way = _looped(op)
        assert way is not None
        return way
    assert isinstance(op, scf.IfOp)
    sides: list[Region] = []
    for region in op.regions:
        side = region.detach_block(0) if region.blocks else Block()
        way = _structure(side)
        if side.last_op is not None and isinstance(side.last_op, scf.YieldOp):
            erase(side.last_op)
        build = ScalarBuilder(InsertPoint.at_end(side), op)
        build.insert(scf.YieldOp(build.constant(AT_END) if way is None else way))
        sides.append(Region(side))
    made = ScalarBuilder(InsertPoint.before(op), op).insert(
        scf.IfOp(op.cond, [i32], sides[0], sides[1])
    )
    erase(op)
    return made.results[0]


def _looped(loop: scf.ForOp) -> SSAValue | None:
    """Replace a loop that is left early by a `scf.while`; whether the work item ends in it."""
    ends_item = holds(loop, ReturnIfOp)
    build = ScalarBuilder(InsertPoint.before(loop), loop)
    body = loop.body.detach_block(0)
    way = _structure(body)
    assert way is not None
    if isinstance(body.last_op, scf.YieldOp):
        erase(body.last_op)
    types = [i32, i32] if ends_item else [i32]
    before = Block(arg_types=types)
    check = build.at(InsertPoint.at_end(before))
    more = check.compare("slt", before.args[0], loop.ub)
    check.insert(scf.ConditionOp(more, *before.args))
    end = build.at(InsertPoint.at_end(body))
    following = end.add(body.args[0], loop.step)
    values = [end.select(end.compare("eq", way, AT_END), following, loop.ub)]
    initial = [loop.lb]
    if ends_item:
        body.insert_arg(i32, 1)
        item_left, at_end = end.constant(ITEM_LEFT), end.constant(AT_END)
        values.append(end.select(end.compare("eq", way, ITEM_LEFT), item_left, at_end))
        initial.append(build.constant(AT_END))
    end.insert(scf.YieldOp(*values))
    made = build.insert(scf.WhileOp(initial, types, Region(before), Region(body)))
    erase(loop)
    return made.results[1] if ends_item else None
