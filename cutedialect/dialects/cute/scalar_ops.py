"""Operations on single numbers that `arith` and `math` do not have."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue
from xdsl.irdl import BaseAttr, VarConstraint, operand_def, result_def, traits_def
from xdsl.traits import Pure

from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition


@irdl_op_definition
class BrevOp(IRDLOperation):
    """The bits of an integer in reverse (PTX ISA 9.7.1.19).

    Example:

        cute.kernel @k(%n: i32) {
          %r = cute.brev %n : i32
        }
    """

    name = "cute.brev"
    T: ClassVar = VarConstraint("T", BaseAttr(IntegerType))

    operand = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$operand attr-dict `:` type($operand)"

    def __init__(self, operand: SSAValue) -> None:
        super().__init__(operands=[operand], result_types=[operand.type])

    def verify_(self) -> None:
        type_ = self.operand.type
        bits = type_.width.data  # pyright: ignore[reportAttributeAccessIssue]
        check(bits in (8, 16, 32, 64), f"expected an integer of 8 to 64 bits, got {type_}")
