"""Roles: which warps run which part, with which registers, and where threads meet, take turns or
wait for their copies and multiplies. Scalar code and views that only what follows a loop of a role
needs move behind it: there they overlap with multiplies that are still at work, where before the
loop everything would wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation

from cutedialect.atoms import REGISTER_FILE, WARP_SIZE, target
from cutedialect.dialects import cute, cute_nvgpu, pipeline, ptx
from cutedialect.dialects.effects import is_pure
from cutedialect.dialects.pipeline import RoleOp
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.rewriting import block_of

from .addresses import Address, memory_op
from .context import Steps, Team
from .lowering import Handler, KernelLowering
from .rings import is_even_cta
from .scalar_builder import Scalar, ScalarBuilder, array_type
from .wgmma import write_ones

_GROUP = 4
# Registers of a tile that a wait is tied to.
_MOST_TIED = 8


def _role(self: KernelLowering, op: RoleOp) -> None:
    """The first role lowers all of them, side by side."""
    context, builder = self.context, self.builder
    roles = [each for each in block_of(op).ops if isinstance(each, RoleOp)]
    self.done.update(roles)
    for each in ops_of(self.kernel, cute.BarrierOp):
        if each.roles is not None:
            _meeting_of(self, each)
    context.wait_for_launch()
    # What ptxas gives a kernel of this block size to start with (PTX ISA 9.7.19.5).
    entry = min(255, REGISTER_FILE // (context.threads * context.resident)) // 8 * 8
    groups: dict[range, list[RoleOp]] = {}
    for role in sorted(roles, key=lambda each: each.warp_range.start):
        span = role.warp_range
        warps = range(span.start // _GROUP * _GROUP, -(-span.stop // _GROUP) * _GROUP)
        groups.setdefault(warps, []).append(role)
    # Registers are given back for others to take them; where none does, ptxas refuses (C7507).
    wanted = [role.registers.value.data for role in roles if role.registers is not None]
    changes = entry if max(wanted, default=0) > entry else None
    _branch(self, list(groups.items()), builder.warp_index(), changes, 0)


def _branch(
    self: KernelLowering,
    groups: Sequence[tuple[range, list[RoleOp]]],
    warp: Scalar,
    entry: int | None,
    lowest: int,
) -> None:
    """Branch on the warp's number to the roles of the first warpgroups, or else to those of the
    others; `lowest` is the least warp that comes here, `entry` the registers that it has, where
    warpgroups change them.
    """
    context, builder = self.context, self.builder
    warps, members = groups[0]
    builder.at(members[0])
    limit = context.threads // WARP_SIZE
    warps = range(warps.start, min(warps.stop, limit))
    # Who has played a role does not come to the next: what that one needs of numbers from in front
    # of both takes no registers meanwhile, of which a warpgroup with several such roles has few.
    apart = bool(target(context.arch).tmem_columns)

    def here() -> None:
        registers = members[0].registers
        if registers is not None and entry is not None and registers.value.data != entry:
            count = registers.value.data
            builder.emit(ptx.SetMaxRegsOp("dec" if count < entry else "inc", count))
        play(members)

    def play(roles: Sequence[RoleOp]) -> None:
        role, *others = roles
        builder.at(role)
        inside = _within(builder, warp, role.warp_range, warps.start, warps.stop)
        if role.pair is not None:
            inside = builder.both(inside, is_even_cta(builder))
        following = (lambda: play(others)) if others else None
        context.when(inside, lambda: _run(self, role, warp), following if apart else None)
        if following is not None and not apart:
            following()

    def elsewhere() -> None:
        _branch(self, groups[1:], warp, entry, warps.stop if warps.start <= lowest else lowest)

    inside = _within(builder, warp, warps, lowest, limit)
    context.when(inside, here, elsewhere if len(groups) > 1 else None)


def _within(builder: ScalarBuilder, warp: Scalar, span: range, lowest: int, limit: int) -> Scalar:
    """Whether a warp in lowest..limit - 1 is one of `span`."""
    low = builder.pure("setp.ge.u32", warp, span.start) if span.start > lowest else True
    high = builder.pure("setp.lt.u32", warp, span.stop) if span.stop < limit else True
    return builder.both(low, high)


def _run(self: KernelLowering, role: RoleOp, warp: Scalar) -> None:
    context, builder, span = self.context, self.builder, role.warp_range
    outer = context.team, builder.thread
    size = len(span) // role.teams
    context.team = team = Team(size * WARP_SIZE, context.take_barriers(role.teams))
    team.instances, team.around = role.teams, role
    team.registers = _number(role.registers)
    team.warp = builder.assume_nonnegative(builder.sub(warp, span.start))
    start: Scalar = span.start * WARP_SIZE
    if role.teams > 1:
        team.instance = builder.div(team.warp, size)
        team.warp = builder.rem(team.warp, size)
        moved = builder.mul(team.instance, team.threads)
        start = builder.add(moved, start)
    if role.elect is not None:
        builder.thread, team.elected = 0, True
        context.when(builder.result(ptx.ElectOp()), lambda: _play(self, role))
    else:
        thread = builder.sub(builder.special("tid.x"), start)
        builder.thread = builder.assume_nonnegative(thread)
        _play(self, role)
    context.team, builder.thread = outer


def _play(self: KernelLowering, role: RoleOp) -> None:
    block = role.body.block
    sink_past_loops(block)
    self.run(block)


def sink_past_loops(block: Block) -> None:
    """Do so in a block and in the blocks of its loops and branches."""
    for loop in [op for op in block.ops if op.regions and isinstance(op, scf.ForOp)]:
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
    for op in block.ops:
        if op.regions and isinstance(op, scf.ForOp | scf.IfOp | scf.WhileOp):
            for region in op.regions:
                for inner in region.blocks:
                    sink_past_loops(inner)


def _is_used_in(op: Operation, places: set[Operation]) -> bool:
    """Whether ops of `places`, and no others of the block, use a result."""
    block = block_of(op)
    users = [use.operation for result in op.results for use in result.uses]
    return bool(users) and all(block.find_ancestor_op_in_block(user) in places for user in users)


def _number(attribute: IntegerAttr | None) -> int | None:
    return None if attribute is None else attribute.value.data


def _barrier(self: KernelLowering, op: cute.BarrierOp) -> None:
    context, builder = self.context, self.builder
    if op.cluster is not None:
        # Threads that have ended count as arrived (PTX ISA 9.7.13.3).
        builder.emit(ptx.ClusterArriveOp())
        builder.emit(ptx.ClusterWaitOp())
    elif op.roles is not None:
        builder.emit(ptx.BarSyncOp(*_meeting_of(self, op)))
    else:
        context.barrier(_number(op.warps))


def _steps(self: KernelLowering, op: pipeline.StepsOp) -> None:
    """Keep the steps for the op behind, which says where in it they belong."""

    def lower(step: Operation) -> None:
        self.handlers[type(step)](self, step)

    otherwise = None if op.otherwise is None else Steps(op.otherwise.block.ops, lower)
    self.context.steps = Steps(
        op.body.block.ops, lower, may_be_left=op.condition is not None, otherwise=otherwise
    )


def _meeting_of(self: KernelLowering, op: cute.BarrierOp) -> tuple[int, int]:
    """The named barrier at which roles meet, and how many threads do."""
    names, roles = op.role_names, ops_of(self.kernel, RoleOp)
    if names not in self.meetings:
        self.meetings[names] = self.context.take_barriers(1)
    warps = sum(len(role.warp_range) for role in roles if role.role.data in names)
    return self.meetings[names], WARP_SIZE * warps


def _instance(self: KernelLowering, op: pipeline.InstanceOp) -> None:
    self.scalars[op.index] = self.context.team.instance


def _turn(self: KernelLowering, op: pipeline.TurnWaitOp | pipeline.TurnPassOp) -> None:
    passes, warps = isinstance(op, pipeline.TurnPassOp), _number(op.warps)
    condition = True if op.pred is None else self.scalars[op.pred]
    self.context.when(condition, lambda: self.context.turn(passes, warps, op.outside is not None))


def _wgmma_wait(self: KernelLowering, op: cute_nvgpu.WgmmaWaitOp) -> None:
    """A store under a condition that never holds, of which only the hardware knows, ties the wait
    to what is to come before it.
    """
    for value in op.after:
        array = self.fragment(op, value).array
        whole = array_type(array).count
        # A few registers, spread over the tile, hold the wait back as well as all.
        tied = range(whole - 1, -1, -max(1, whole // _MOST_TIED))[::-1]
        never = self.builder.equal(self.builder.special("nctaid.y"), 0)
        places = [Address(self.builder.smem_base(), 0)] * len(tied)
        guards = [never] * len(tied)
        memory_op(self.context, ptx.StOp, "shared.b32", array, places, tied, guards)
    self.builder.emit(ptx.WgmmaWaitOp(op.pending.value.data))


def _emits(make: Callable[..., Operation]) -> Handler:
    """A handler for an op that is one instruction."""
    return lambda self, op: self.builder.emit(make(op))


HANDLERS: dict[type[Operation], Handler] = {
    RoleOp: _role,
    pipeline.InstanceOp: _instance,
    pipeline.TurnWaitOp: _turn,
    pipeline.TurnPassOp: _turn,
    cute.BarrierOp: _barrier,
    pipeline.StepsOp: _steps,
    cute_nvgpu.WriteOnesOp: write_ones,
    cute_nvgpu.WgmmaFenceOp: _emits(lambda op: ptx.WgmmaFenceOp()),
    cute_nvgpu.WgmmaCommitOp: _emits(lambda op: ptx.WgmmaCommitOp()),
    cute_nvgpu.WgmmaWaitOp: _wgmma_wait,
    cute_nvgpu.Tcgen05FenceOp: _emits(lambda op: ptx.Tcgen05FenceOp(f"{op.side.data}_thread_sync")),
    cute_nvgpu.CpAsyncCommitOp: _emits(lambda op: ptx.CpAsyncCommitOp()),
    cute_nvgpu.CpAsyncWaitOp: _emits(lambda op: ptx.CpAsyncWaitOp(op.pending.value.data)),
    cute_nvgpu.ProxyFenceOp: _emits(lambda op: ptx.FenceOp("proxy.async.shared::cta")),
}
