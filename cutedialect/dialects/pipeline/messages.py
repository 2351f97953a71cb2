"""Numbers that one role tells others, none of them negative: kept in shared memory, one for each
stage of a ring, whose verbs say when a slot may be written and read. And the work items that a CTA
gets by canceling launches, which arrive in such slots.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, result_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.cute import MemRefType
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import Effects

from .rings import BarrierType


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


@irdl_op_definition
class RequestOp(IRDLOperation):
    """Cancel the launch of a cluster that has not begun, if there is one: the response comes to the
    slot of a stage, 16 bytes that the ring's full barrier counts (`clusterlaunchcontrol.try_cancel`,
    PTX ISA 9.7.13.17.1). Of a cluster the first CTA asks, and all get the response.

    Example:

        cute.kernel @k(%i: i32) {
          %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 16 : i32} : !pipeline.ring<2>
          %s = pipeline.state "producer" %q : !pipeline.ring<2> -> !pipeline.state<2>
          %slots = cute.alloc_smem : !cute.memref<i32, smem, align<16>, "(4,2):(1,4)">
          %b = pipeline.barrier %q at %s : !pipeline.ring<2>, !pipeline.state<2>
          pipeline.request %slots[%i] signal %b : !cute.memref<i32, smem, align<16>, "(4,2):(1,4)">, !pipeline.barrier
        }
    """

    name = "pipeline.request"
    slots = operand_def(MemRefType)
    index = operand_def(i32)
    barrier = operand_def(BarrierType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$slots `[` $index `]` `signal` $barrier attr-dict `:` type($slots) `,` type($barrier)"
    )

    def __init__(self, slots: SSAValue, index: SSAValue, barrier: SSAValue) -> None:
        super().__init__(operands=[slots, index, barrier])

    def effects(self) -> Effects:
        return Effects(writes=(self.slots,), orders=True)

    def verify_(self) -> None:
        _check_responses(self.slots)


@irdl_op_definition
class ResponseOp(IRDLOperation):
    """Read the response in the slot of a stage, by every thread of the role, between the wait and
    the release of its ring: the number of the cluster whose launch was canceled, or `otherwise`
    where all have begun (`clusterlaunchcontrol.query_cancel`, PTX ISA 9.7.13.17.2).

    Example:

        cute.kernel @k(%i: i32, %n: i32) {
          %slots = cute.alloc_smem : !cute.memref<i32, smem, align<16>, "(4,2):(1,4)">
          %x = pipeline.response %slots[%i] else %n : !cute.memref<i32, smem, align<16>, "(4,2):(1,4)">
        }
    """

    name = "pipeline.response"
    slots = operand_def(MemRefType)
    index = operand_def(i32)
    otherwise = operand_def(i32)
    result = result_def(i32)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$slots `[` $index `]` `else` $otherwise attr-dict `:` type($slots)"

    def __init__(self, slots: SSAValue, index: SSAValue, otherwise: SSAValue) -> None:
        super().__init__(operands=[slots, index, otherwise], result_types=[i32])

    def effects(self) -> Effects:
        return Effects(reads=(self.slots,), orders=True)

    def verify_(self) -> None:
        _check_responses(self.slots)


RESPONSE_WORDS = 4
"""Words of 32 bits of a response, which is aligned to all of them."""


def _check_responses(slots: SSAValue) -> None:
    type_ = slots.type
    assert isinstance(type_, MemRefType)
    fits = type_.element == i32 and type_.space == "smem" and type_.alignment % 16 == 0
    fits = fits and type_.rank == 2 and type_.shape[0] == RESPONSE_WORDS
    if not fits or type_.stride != (1, RESPONSE_WORDS):
        raise VerifyException(
            f"expected slots of {RESPONSE_WORDS} x i32 in smem, aligned to 16 bytes, one for each "
            f"stage, got {type_}"
        )


def _check_slots(slots: SSAValue) -> None:
    type_ = slots.type
    assert isinstance(type_, MemRefType)
    if type_.element != i32 or type_.space != "smem" or type_.rank != 1:
        raise VerifyException(f"expected slots of i32 in smem, one for each stage, got {type_}")
