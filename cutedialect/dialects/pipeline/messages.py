"""Numbers that one role tells others, none of them negative: kept in shared memory, one for each
stage of a ring, whose verbs say when a slot may be written and read.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.cute import MemRefType
from cutedialect.dialects.effects import Effects


@irdl_op_definition
class SendOp(IRDLOperation):
    """Write a number into the slot of a stage, by one thread, between the acquire and the commit of
    its ring.

    Example:

        cute.kernel @k(%x: i32, %i: i32) {
          %slots = cute.alloc_smem : !cute.memref<i32, smem, align<8>, "(2):(1)">
          pipeline.send %x to %slots[%i] : !cute.memref<i32, smem, align<8>, "(2):(1)">
        }
    """

    name = "pipeline.send"
    value = operand_def(i32)
    slots = operand_def(MemRefType)
    index = operand_def(i32)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$value `to` $slots `[` $index `]` attr-dict `:` type($slots)"

    def __init__(self, value: SSAValue, slots: SSAValue, index: SSAValue) -> None:
        super().__init__(operands=[value, slots, index])

    def effects(self) -> Effects:
        return Effects(writes=(self.slots,), orders=True)

    def verify_(self) -> None:
        _check_slots(self.slots)


@irdl_op_definition
class ReceiveOp(IRDLOperation):
    """Read the number in the slot of a stage, by every thread of the role, between the wait and the
    release of its ring.

    Example:

        cute.kernel @k(%i: i32) {
          %slots = cute.alloc_smem : !cute.memref<i32, smem, align<8>, "(2):(1)">
          %x = pipeline.receive %slots[%i] : !cute.memref<i32, smem, align<8>, "(2):(1)">
        }
    """

    name = "pipeline.receive"
    slots = operand_def(MemRefType)
    index = operand_def(i32)
    result = result_def(i32)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$slots `[` $index `]` attr-dict `:` type($slots)"

    def __init__(self, slots: SSAValue, index: SSAValue) -> None:
        super().__init__(operands=[slots, index], result_types=[i32])

    def effects(self) -> Effects:
        return Effects(reads=(self.slots,), orders=True)

    def verify_(self) -> None:
        _check_slots(self.slots)


def _check_slots(slots: SSAValue) -> None:
    type_ = slots.type
    assert isinstance(type_, MemRefType)
    if type_.element != i32 or type_.space != "smem" or type_.rank != 1:
        raise VerifyException(f"expected slots of i32 in smem, one for each stage, got {type_}")
