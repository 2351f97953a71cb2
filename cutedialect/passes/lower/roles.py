"""Roles and the life of barriers: which warps run which part, with which registers, and that every
mbarrier exists before its first use and until its last. Scalar code and views that only what
follows a loop of a role needs move behind it: there they overlap with multiplies that are still at
work, where before the loop everything would wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation

from cutedialect.atoms import target
from cutedialect.dialects import ptx
from cutedialect.dialects.effects import is_pure
from cutedialect.dialects.pipeline import RoleOp
from cutedialect.passes.rewriting import block_of

from .context import Context
from .scalar_builder import Scalar, ScalarBuilder

_WARP = 32
_GROUP = 4
_REGISTER_FILE = 65536


def lower_roles(context: Context, roles: Sequence[RoleOp], body: Callable[[RoleOp], None]) -> None:
    """Branch to each role on the warp's number; warpgroups change their registers before."""
    threads = context.threads
    # What ptxas gives a kernel of this block size to start with (PTX ISA 9.7.19.5).
    entry = min(255, _REGISTER_FILE // (threads * context.resident)) // 8 * 8
    groups: dict[tuple[int, int], list[RoleOp]] = {}
    wanted: list[int] = []
    for role in sorted(roles, key=lambda each: each.warp_range.start):
        span = role.warp_range
        key = (span.start // _GROUP, -(-span.stop // _GROUP))
        groups.setdefault(key, []).append(role)
        if role.registers is not None:
            wanted.append(role.registers.value.data)
    # Registers are given back for others to take them; where none does, ptxas refuses (C7507).
    if max(wanted, default=0) <= entry:
        entry = None
    _branch(context, list(groups.items()), context.builder.warp_index(), entry, 0, body)


def _branch(
    context: Context,
    groups: Sequence[tuple[tuple[int, int], list[RoleOp]]],
    warp: Scalar,
    entry: int | None,
    lowest: int,
    body: Callable[[RoleOp], None],
) -> None:
    """The roles of the first warpgroups, or else those of the others; `lowest` is the least warp
    that comes here, `entry` the registers that it has.
    """
    builder = context.builder
    (first, last), members = groups[0]
    builder.at(members[0])
    limit = context.threads // _WARP
    # Who has played a role does not come to the next: what that one needs of numbers from in front
    # of both takes no registers meanwhile, of which a warpgroup with several such roles has few.
    apart = bool(target(context.arch).tmem_columns)
    start, stop = first * _GROUP, min(last * _GROUP, limit)

    def here() -> None:
        registers = members[0].registers
        if registers is not None and entry is not None and registers.value.data != entry:
            count = registers.value.data
            builder.emit(ptx.SetMaxRegsOp("dec" if count < entry else "inc", count))
        play(members)

    def play(roles: Sequence[RoleOp]) -> None:
        role, *others = roles
        builder.at(role)
        inside = _within(builder, warp, role.warp_range, start, stop)
        if role.pair is not None:
            odd = builder.pure("and.b32", builder.special("cluster_ctarank"), 1)
            inside = builder.both(inside, builder.pure("setp.eq.s32", odd, 0))
        if others and apart:
            context.when(inside, lambda: _run(context, role, warp, body), lambda: play(others))
            return
        context.when(inside, lambda: _run(context, role, warp, body))
        if others:
            play(others)

    def elsewhere() -> None:
        _branch(context, groups[1:], warp, entry, stop if start <= lowest else lowest, body)

    inside = _within(builder, warp, range(start, stop), lowest, limit)
    context.when(inside, here, elsewhere if len(groups) > 1 else None)


def _within(builder: ScalarBuilder, warp: Scalar, span: range, lowest: int, limit: int) -> Scalar:
    """Whether a warp in lowest..limit - 1 is one of `span`."""
    low: Scalar = True
    if span.start > lowest:
        low = builder.pure("setp.ge.u32", warp, span.start)
    high: Scalar = True
    if span.stop < limit:
        high = builder.pure("setp.lt.u32", warp, span.stop)
    return builder.both(low, high)


def _run(context: Context, role: RoleOp, warp: Scalar, body: Callable[[RoleOp], None]) -> None:
    builder = context.builder
    span = role.warp_range
    outer = context.threads, context.barrier_id, context.warp, builder.thread
    context.instances = role.teams
    context.registers_given = None if role.registers is None else role.registers.value.data
    team = len(span) // role.teams
    context.threads = team * _WARP
    context.barrier_id = context.take_barriers(role.teams)
    context.warp = builder.pure("sub.s32", warp, span.start)
    builder.assume_nonnegative(context.warp)
    start: Scalar = span.start * _WARP
    if role.teams > 1:
        context.instance = builder.pure("div.u32", context.warp, team)
        builder.assume_nonnegative(context.instance)
        context.warp = builder.pure("rem.u32", context.warp, team)
        builder.assume_nonnegative(context.warp)
        moved = builder.pure("mul.lo.s32", context.instance, context.threads)
        start = builder.pure("add.s32", moved, start)
    context.scratch = None
    context.scratch_bytes = 0
    if role.elect is not None:
        builder.thread = 0
        context.elected = True
        chosen = builder.emit(ptx.ElectOp()).results[0]
        context.when(chosen, lambda: body(role))
        context.elected = False
    else:
        thread = builder.pure("sub.s32", builder.special("tid.x"), start)
        builder.thread = builder.assume_nonnegative(thread)
        body(role)
    context.scratch = None
    context.scratch_bytes = 0
    context.instance, context.instances, context.turns = 0, 1, None
    context.registers_given = None
    context.threads, context.barrier_id, context.warp, builder.thread = outer


def sink_past_loops(block: Block) -> None:
    """Do so in a block and in the blocks of its loops and branches."""
    for loop in [op for op in block.ops if op.regions and isinstance(op, scf.ForOp)]:
        _sink_past(block, loop)
    for op in block.ops:
        if op.regions and isinstance(op, scf.ForOp | scf.IfOp | scf.WhileOp):
            for region in op.regions:
                for inner in region.blocks:
                    sink_past_loops(inner)


def _sink_past(block: Block, loop: Operation) -> None:
    behind: set[Operation] = set()
    op = loop.next_op
    while op is not None:
        behind.add(op)
        op = op.next_op
    op = loop.prev_op
    while op is not None:
        before = op.prev_op
        if not op.regions and op.results and is_pure(op) and _is_used_in(op, behind):
            op.detach()
            block.insert_op_after(op, loop)
            behind.add(op)
        op = before


def _is_used_in(op: Operation, places: set[Operation]) -> bool:
    """Whether ops of `places`, and no others of the block, use a result."""
    block = block_of(op)
    users = [use.operation for result in op.results for use in result.uses]
    return bool(users) and all(block.find_ancestor_op_in_block(user) in places for user in users)
