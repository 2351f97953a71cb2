"""Ops that leave a loop or a work item early, where a condition of the whole CTA holds.

They stand between other ops, as the user wrote them; `cute-structure-exits` turns them into loops
and branches before any other pass.
"""

from __future__ import annotations

from itertools import takewhile

from xdsl.dialects import scf
from xdsl.dialects.builtin import i1
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import operand_def

from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import ORDERS, Effects
from cutedialect.dialects.walks import ops_around

from .kernel_ops import KernelOp


class ExitOp(IRDLOperation):
    """The base of both: what stands behind it, up to the end of what it leaves, does not run."""

    condition = operand_def(i1)
    assembly_format = "$condition attr-dict"

    def __init__(self, condition: SSAValue) -> None:
        super().__init__(operands=[condition])

    def effects(self) -> Effects:
        return ORDERS

    def left(self) -> list[Operation]:
        """The loops and branches around the op, the innermost one first."""
        return list(takewhile(lambda op: not isinstance(op, KernelOp), ops_around(self)))

    def verify_(self) -> None:
        for op in self.left():
            check(
                isinstance(op, scf.IfOp | scf.ForOp) and not op.results,
                f"expected scf.for and scf.if without results around {self.name}, got {op.name}",
            )


@irdl_op_definition
class BreakIfOp(ExitOp):
    """Leave the innermost loop where the condition holds: neither the rest of this trip runs, nor
    another trip.

    Example:

        cute.kernel @k(%n: i32, %c: i1) {
          %zero = arith.constant 0 : i32
          %one = arith.constant 1 : i32
          scf.for %i = %zero to %n step %one : i32 {
            cute.break_if %c
          }
        }
    """

    name = "cute.break_if"

    def verify_(self) -> None:
        super().verify_()
        check(
            any(isinstance(op, scf.ForOp) for op in self.left()),
            "expected scf.for around cute.break_if, got none",
        )


@irdl_op_definition
class ReturnIfOp(ExitOp):
    """End the work item where the condition holds.

    Example:

        cute.kernel @k(%c: i1) {
          cute.return_if %c
        }
    """

    name = "cute.return_if"
