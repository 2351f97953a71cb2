"""`cute-assign-warp-roles`: every op that does something gets a role from the plan.

A plan maps kinds of ops to roles, and roles to warps. The plan `uniform` has one role, `main`, held
by every warp: what Ampere's multistage kernels do.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass
from xdsl.traits import is_side_effect_free
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import KernelOp

PLANS = {"uniform": "main"}


@dataclass(frozen=True)
class AssignWarpRolesPass(ModulePass):
    """Put a `role` on each op with an effect."""

    name = "cute-assign-warp-roles"

    plan: str | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.ops:
            if not isinstance(kernel, KernelOp):
                continue
            scheduled = kernel.schedule.data.roles if kernel.schedule is not None else None
            plan = self.plan or scheduled or "uniform"
            if plan not in PLANS:
                raise PassFailedException(
                    kernel, f"expected a role plan ({', '.join(PLANS)}), got '{plan}'"
                )
            role = StringAttr(PLANS[plan])
            for inner in kernel.body.block.walk():
                if not inner.regions and not is_side_effect_free(inner):
                    inner.attributes["role"] = role
