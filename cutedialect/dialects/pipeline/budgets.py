"""What the roles of a kernel share: its warps, its registers, and the named barriers."""

from __future__ import annotations

from xdsl.utils.exceptions import VerifyException

from cutedialect.atoms import REGISTER_FILE, WARP_SIZE
from cutedialect.dialects.cute import BarrierOp, KernelOp
from cutedialect.dialects.walks import walk

from .rings import is_whole
from .roles import RoleOp
from .turns import TurnPassOp, TurnWaitOp

_GROUP = 4
_MOST_REGISTERS = 255
_NAMED_BARRIERS = 16


def verify_budgets(role: RoleOp) -> None:
    """Check a role against the block of threads of its kernel and the roles beside it."""
    kernel = role.parent_op()
    if not isinstance(kernel, KernelOp):
        return
    assert role.parent is not None
    roles = [op for op in role.parent.ops if isinstance(op, RoleOp)]
    if not is_whole(kernel) or not all(is_whole(each) and each.teams > 0 for each in roles):
        return
    _verify_barriers(role, roles)
    threads = 0 if kernel.threads is None else kernel.threads.value.data
    if threads < 1:
        return
    warps = -(-threads // WARP_SIZE)
    if role.warp_range.stop > warps:
        raise VerifyException(
            f"expected warps among the {warps} of {threads} threads, got "
            f"{role.warp_range.start}..{role.warp_range.stop - 1}"
        )
    _verify_registers(role, roles, threads)


def _verify_registers(role: RoleOp, roles: list[RoleOp], threads: int) -> None:
    """What warpgroups ask for is what others gave back (PTX ISA 9.7.19.5)."""
    if role.registers is None:
        return
    kernel = role.parent_op()
    assert isinstance(kernel, KernelOp)
    ctas = 1 if kernel.schedule is None else kernel.schedule.data.ctas or 1
    entry = min(_MOST_REGISTERS, REGISTER_FILE // (threads * ctas)) // 8 * 8
    groups = [entry] * -(-threads // (_GROUP * WARP_SIZE))
    for each in roles:
        span = each.warp_range
        if each.registers is not None and 0 <= span.start <= span.stop <= len(groups) * _GROUP:
            for warp in each.warp_range:
                groups[warp // _GROUP] = each.registers.value.data
    if sum(groups) > entry * len(groups):
        shown = " + ".join(map(str, groups))
        raise VerifyException(
            f"expected at most {entry * len(groups)} registers of a thread over all warpgroups, "
            f"with {entry} of which each starts, got {sum(groups)} ({shown})"
        )


def _verify_barriers(role: RoleOp, roles: list[RoleOp]) -> None:
    """The CTA has barrier 0; roles before this one and this one take the next (9.7.13.1)."""
    taken = 1
    for each in sorted(roles, key=lambda one: one.warp_range.start):
        taken += _barriers(each)
        if each is role:
            break
    if taken > _NAMED_BARRIERS:
        raise VerifyException(
            f"expected at most {_NAMED_BARRIERS} named barriers in a CTA, got {taken} up to role "
            f"'{role.role.data}'"
        )


def _barriers(role: RoleOp) -> int:
    """Named barriers of a role: one for each instance, for each group of warps that meets by
    itself, and for each turn.
    """
    team = max(1, len(role.warp_range) // role.teams)
    count = role.teams
    widths: set[int] = set()
    turning: set[int] = set()
    turns = False
    for op in walk(role.body):
        if isinstance(op, BarrierOp) and is_whole(op) and op.warps is not None:
            width = op.warps.value.data
            if width < 1 or team % width:
                raise VerifyException(
                    f"expected barriers of warps that divide the {team} of role "
                    f"'{role.role.data}', got {width}"
                )
            if width < team:
                widths.add(width)
        if isinstance(op, TurnPassOp | TurnWaitOp) and is_whole(op):
            if op.warps is None:
                turns = True
            else:
                turning.add(max(1, op.warps.value.data))
    count += sum(team // width for each in (widths, turning) for width in each) * role.teams
    return count + role.teams if turns else count
