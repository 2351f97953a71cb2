"""Roles and the life of barriers: which warps run which part, with which registers, and that every
mbarrier exists before its first use and until its last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cutedialect.dialects import ptx
from cutedialect.dialects.pipeline import RoleOp

from .context import Context
from .scalar_builder import Scalar, ScalarBuilder

_WARP = 32
_GROUP = 4
_REGISTER_FILE = 65536
_ALL_LANES = 0xFFFFFFFF


def warp_index(builder: ScalarBuilder) -> Scalar:
    """The warp's number in the CTA; one lane says it to all, so that it is known to be uniform."""
    warp = builder.pure("shr.u32", builder.special("tid.x"), 5)
    zero, clamp, members = (builder.value(v, "b32") for v in (0, 31, _ALL_LANES))
    shared = builder.emit(
        ptx.ShflOp("sync.idx.b32", builder.value(warp, "b32"), zero, clamp, members)
    )
    return builder.assume_nonnegative(shared.results[0])


def lower_roles(
    context: Context, roles: Sequence[RoleOp], warp: Scalar, body: Callable[[RoleOp], None]
) -> None:
    """Branch to each role on the warp's number; warpgroups change their registers before."""
    builder = context.builder
    threads = context.threads
    # What ptxas gives a kernel of this block size to start with (PTX ISA 9.7.19.5).
    entry = min(255, _REGISTER_FILE // threads) // 8 * 8
    # Registers are given back only so that others may take them; for nothing, ptxas refuses (C7507).
    moves = any(role.registers and role.registers.value.data > entry for role in roles)
    groups: dict[tuple[int, int], list[RoleOp]] = {}
    for role in roles:
        span = role.warp_range
        key = (span.start // _GROUP, -(-span.stop // _GROUP))
        groups.setdefault(key, []).append(role)
    for (first, last), members in groups.items():
        within = _within(builder, warp, first * _GROUP, last * _GROUP, threads // _WARP)

        def group(members: list[RoleOp] = members, first: int = first, last: int = last) -> None:
            registers = members[0].registers
            if registers is not None and moves:
                count = registers.value.data
                if count != entry:
                    builder.emit(ptx.SetMaxRegsOp("dec" if count < entry else "inc", count))
            for role in members:
                builder.at(role)
                span = role.warp_range
                inside: Scalar = True
                if (span.start, span.stop) != (first * _GROUP, last * _GROUP):
                    inside = _within(builder, warp, span.start, span.stop, last * _GROUP)
                context.when(inside, lambda role=role: _run(context, role, warp, body))

        context.when(within, group)


def _within(builder: ScalarBuilder, warp: Scalar, start: int, stop: int, limit: int) -> Scalar:
    low: Scalar = True if start == 0 else builder.pure("setp.ge.u32", warp, start)
    high: Scalar = True if stop >= limit else builder.pure("setp.lt.u32", warp, stop)
    return builder.both(low, high)


def _run(context: Context, role: RoleOp, warp: Scalar, body: Callable[[RoleOp], None]) -> None:
    builder = context.builder
    span = role.warp_range
    outer = context.threads, context.barrier_id, context.warp, builder.thread
    context.threads = len(span) * _WARP
    context.barrier_id += 1
    context.roles_seen += 1
    context.barrier_id = context.roles_seen
    context.warp = builder.pure("sub.s32", warp, span.start)
    builder.assume_nonnegative(context.warp)
    context.scratch = None
    context.scratch_bytes = 0
    if role.elect is not None:
        builder.thread = 0
        context.elected = True
        chosen = builder.emit(ptx.ElectOp()).results[0]
        context.when(chosen, lambda: body(role))
        context.elected = False
    else:
        thread = builder.pure("sub.s32", builder.special("tid.x"), span.start * _WARP)
        builder.thread = builder.assume_nonnegative(thread)
        body(role)
    context.scratch = None
    context.scratch_bytes = 0
    context.threads, context.barrier_id, context.warp, builder.thread = outer
