"""Instances of a role that take work items in turns (ping-pong): a step of `cute-synchronize`.

    for w = first to total step n { body(w) }
    =>
    skip the items of the instances before
    for w = first + i n to total step 2 n {
      wait for the turn unless w is the first; main loop; pass the turn unless w is the last
      epilogue; skip the items of the other instances
    }

The main loop of one item then runs beside the epilogue of the one before. A skipped item moves the
role's places in the rings on by the item's trips, counted by the same scalar code.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects import pipeline
from cutedialect.dialects.cute import (
    AllocSmemOp,
    FindOp,
    FragmentType,
    KernelOp,
    MemberOp,
    ReadOp,
    StageOp,
)
from cutedialect.dialects.effects import is_pure
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.analysis.memory_views import TRIP, WORK
from cutedialect.passes.rewriting import (
    ScalarBuilder,
    cloned,
    erase,
    insert_after,
    insert_before,
    ring_of,
    sweep,
)


def alternate_instances(kernel: KernelOp, role: pipeline.RoleOp) -> None:
    """Give each instance of a role every so many-th work item, and its own shared memory."""
    body = role.body.block
    # A kernel without work items has loops of its program alone.
    loops = [op for op in body.ops if isinstance(op, scf.ForOp) and WORK in op.attributes]
    scheduler = kernel.choices.scheduler
    if len(loops) != 1 or scheduler not in ("persistent", "stream", "tail"):
        raise PassFailedException(
            kernel,
            "expected one loop over work items (scheduler = persistent, stream or tail) for "
            f"instances that alternate, got {len(loops)} loops of the scheduler {scheduler}; take "
            "roles = specialized",
        )
    loop = loops[0]
    instance = pipeline.InstanceOp()
    instance.location = role.location
    assert body.first_op is not None
    insert_before(body.first_op, instance)
    _own_buffers(kernel, role, instance)
    build = ScalarBuilder(InsertPoint.before(loop), loop)
    teams = build.constant(role.teams)
    _repeat(
        build,
        build.constant(0),
        instance.index,
        lambda inner, j: _skip(loop, inner, _after(inner, loop.lb, j, loop.step)),
    )
    start, step = loop.lb, loop.step
    total = loop.ub
    loop.operands[0] = _after(build, start, instance.index, step)
    loop.operands[2] = build.mul(teams, step)
    for op in loop.body.block.ops:
        if TRIP in op.attributes:
            op.operands[1] = loop.lb if isinstance(op, arith.SubiOp) else loop.step
    _take_turns(loop, start, step, total)
    last = loop.body.block.last_op
    assert last is not None
    build = ScalarBuilder(InsertPoint.before(last), loop)
    item = loop.body.block.args[0]
    if role.teams == 2:
        _skip(loop, build, build.add(item, step))
        return
    _repeat(
        build,
        build.constant(1),
        build.constant(role.teams),
        lambda inner, j: _skip(loop, inner, _after(inner, item, j, step)),
    )


def _after(build: ScalarBuilder, item: SSAValue, count: SSAValue, step: SSAValue) -> SSAValue:
    """The work item so many steps after another."""
    return build.add(item, build.mul(count, step))


def _repeat(
    build: ScalarBuilder,
    low: SSAValue,
    high: SSAValue,
    body: Callable[[ScalarBuilder, SSAValue], None],
) -> None:
    """A loop with step 1."""
    block = Block(arg_types=[i32])
    loop = build.insert(scf.ForOp(low, high, build.constant(1), [], block))
    inner = ScalarBuilder(InsertPoint.at_end(block), loop)
    body(inner, block.args[0])
    inner.insert(scf.YieldOp())


def _own_buffers(kernel: KernelOp, role: pipeline.RoleOp, instance: pipeline.InstanceOp) -> None:
    """Buffers that only this role uses: one for each instance."""
    place: Operation = instance
    for alloc in [op for op in kernel.body.block.ops if isinstance(op, AllocSmemOp)]:
        users = [use.operation for use in alloc.result.uses]
        if not users or not all(role.is_ancestor(user) for user in users):
            continue
        whole = ring_of(alloc, role.teams)
        mine = StageOp(whole.result, instance.index)
        mine.location = alloc.location
        insert_after(place, mine)
        place = mine
        alloc.result.replace_all_uses_with(mine.result)
        erase(alloc)


def _take_turns(loop: scf.ForOp, start: SSAValue, step: SSAValue, total: SSAValue) -> None:
    """Let the items wait for the stages of rings one after the other."""
    block = loop.body.block
    waiting = [op for op in block.ops if ops_of(op, pipeline.ConsumerWaitOp)]
    if not waiting:
        return
    item = block.args[0]
    build = ScalarBuilder(InsertPoint.before(waiting[0]), loop)
    build.insert(pipeline.TurnWaitOp(build.compare("ne", item, start)))
    build = ScalarBuilder(InsertPoint.after(waiting[-1]), loop)
    build.insert(pipeline.TurnPassOp(build.compare("slt", build.add(item, step), total)))


def _skip(loop: scf.ForOp, build: ScalarBuilder, item: SSAValue) -> None:
    """Move the places in rings on by what a work item, maybe one past the last, would."""
    values: dict[SSAValue, SSAValue] = {loop.body.block.args[0]: item}
    ops = (op for op in loop.body.block.ops if not isinstance(op, scf.YieldOp))
    block = Block(cloned(op, values, _counts) for op in ops if _counts(op))
    sweep(block)
    _count_trips(block)
    sweep(block)
    if ops_of(block, FindOp, MemberOp, ReadOp):
        # Past the last item there is no group to look up, and nothing to read.
        block.add_op(scf.YieldOp())
        build.insert(scf.IfOp(build.compare("slt", item, loop.ub), [], [block]))
        return
    for op in list(block.ops):
        op.detach()
        build.insert(op)


def _counts(op: Operation) -> bool:
    """Whether an op goes on in a ring, is control around one that does or gives numbers, or scalar
    code.
    """
    if isinstance(op, pipeline.AdvanceOp) or op.has_trait(IsTerminator):
        return True
    if isinstance(op, scf.ForOp | scf.IfOp | scf.WhileOp):
        return bool(op.results or ops_of(op, pipeline.AdvanceOp))
    return is_pure(op) and not any(isinstance(each.type, FragmentType) for each in op.results)


def _count_trips(block: Block) -> None:
    """Loops that only advance become one advance by as many trips."""
    for op in list(block.ops):
        for region in op.regions:
            for inner in region.blocks:
                _count_trips(inner)
        if not isinstance(op, scf.ForOp):
            continue
        steps = [each for each in op.body.block.ops if not isinstance(each, scf.YieldOp)]
        if not all(isinstance(each, pipeline.AdvanceOp) and each.count is None for each in steps):
            continue
        build = ScalarBuilder(InsertPoint.before(op), op)
        trips = build.max(build.ceil_div(build.sub(op.ub, op.lb), op.step), 0)
        for each in steps:
            assert isinstance(each, pipeline.AdvanceOp)
            build.insert(pipeline.AdvanceOp(each.state, trips))
        erase(op)
