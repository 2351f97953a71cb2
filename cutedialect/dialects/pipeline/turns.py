"""Instances of a role: which one runs, and the order in which they, or the warpgroups of one of
them, take turns.

Instances that share a ring read it one after the other: each waits for its turn before its first
stage and passes the turn on after its last, so that a phase is never mistaken for one a round later.
Warpgroups take turns for speed alone: one multiplies while another does something else.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i1, i32
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import ParsePropInAttrDict, opt_operand_def, opt_prop_def, result_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import ORDERS, Effects

from .roles import RoleOp, role_of


@irdl_op_definition
class InstanceOp(IRDLOperation):
    """Which instance of the role runs: 0 to instances - 1.

    Example:

        cute.kernel @k() {
          pipeline.role "mma" attributes {first = 4 : i32, warps = 8 : i32, instances = 2 : i32} {
            %i = pipeline.instance
          }
        }
    """

    name = "pipeline.instance"
    index = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[i32])

    def verify_(self) -> None:
        _demand_role(self)


class _TurnOp(IRDLOperation):
    """A step of the order of instances, or of groups of `warps` of them; with `if %p` only where the
    (uniform) condition holds. `outside` of all turns the last group passes the first turn on, and
    in the end the first group takes back the last one.
    """

    pred = opt_operand_def(i1)
    warps = opt_prop_def(IntegerAttr)
    outside = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "(`if` $pred^)? attr-dict"

    def __init__(
        self, pred: SSAValue | None = None, warps: int | None = None, outside: bool = False
    ) -> None:
        super().__init__(
            operands=[pred],
            properties={
                "warps": None if warps is None else IntegerAttr(warps, i32),
                "outside": UnitAttr() if outside else None,
            },
        )

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        role = _demand_role(self)
        if not {"first", "warps"} <= role.properties.keys():
            # Said of the role, which is verified behind what it holds.
            return
        if self.warps is not None:
            warps, mine = self.warps.value.data, len(role.warp_range) // role.teams
            if warps < 1 or mine % warps or mine == warps:
                raise VerifyException(
                    f"expected a part of the {mine} warps to take turns, got {warps}"
                )
            return
        if self.outside is not None:
            raise VerifyException("expected the warps of a group with 'outside', got none")
        if role.teams < 2:
            raise VerifyException(f"expected a role with several instances, got {role.teams}")


@irdl_op_definition
class TurnWaitOp(_TurnOp):
    """Wait until the instance before has passed the turn on (PTX ISA 9.7.13.1 `barrier.sync`).

    Example:

        cute.kernel @k(%later: i1) {
          pipeline.role "mma" attributes {first = 4 : i32, warps = 8 : i32, instances = 2 : i32} {
            pipeline.turn_wait if %later
          }
          pipeline.role "main" attributes {first = 12 : i32, warps = 8 : i32} {
            pipeline.turn_pass {warps = 4 : i32, outside}
            pipeline.turn_wait {warps = 4 : i32}
            pipeline.turn_pass {warps = 4 : i32}
            pipeline.turn_wait {warps = 4 : i32, outside}
          }
        }
    """

    name = "pipeline.turn_wait"


@irdl_op_definition
class TurnPassOp(_TurnOp):
    """It is the next instance's turn; after the last comes the first (`barrier.arrive`).

    Example:

        cute.kernel @k(%more: i1) {
          pipeline.role "mma" attributes {first = 4 : i32, warps = 8 : i32, instances = 2 : i32} {
            pipeline.turn_pass if %more
          }
        }
    """

    name = "pipeline.turn_pass"


def _demand_role(op: Operation) -> RoleOp:
    role = role_of(op)
    if role is None:
        raise VerifyException("expected a pipeline.role around, got none")
    return role
