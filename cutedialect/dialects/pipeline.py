"""The `pipeline` dialect: rings of shared-memory stages and the verbs of their producer and consumer.

A ring is named, not stored: what a verb becomes (commit groups, mbarriers) follows from its kind.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32
from xdsl.ir import Data, Dialect, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

KINDS = ("cp_async", "threads")


@irdl_attr_definition
class RingType(Data[int], TypeAttribute):
    """A ring with so many stages: `!pipeline.ring<3>`."""

    name = "pipeline.ring"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> int:
        with parser.in_angle_brackets():
            return parser.parse_integer(allow_boolean=False, allow_negative=False)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))

    def verify(self) -> None:
        if not 1 <= self.data <= 64:
            raise VerifyException(f"expected 1 to 64 stages, got {self.data}")


@irdl_op_definition
class CreateOp(IRDLOperation):
    """Make a ring.

    Kind `cp_async`: the same warps fill and read it; writes are `cp.async` commit groups (PTX ISA
    9.7.9.25.3). Kind `threads`: they fill it with ordinary stores.

    Example:

        cute.kernel @k() {
          %p = pipeline.create {kind = "cp_async"} : !pipeline.ring<3>
        }
    """

    name = "pipeline.create"
    kind = prop_def(StringAttr)
    ring = result_def(RingType)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict `:` type($ring)"

    def __init__(self, kind: str, stages: int) -> None:
        super().__init__(properties={"kind": StringAttr(kind)}, result_types=[RingType(stages)])

    def verify_(self) -> None:
        if self.kind.data not in KINDS:
            raise VerifyException(f"expected kind {' or '.join(KINDS)}, got '{self.kind.data}'")


@irdl_op_definition
class ProducerAcquireOp(IRDLOperation):
    """Before the first write of a stage: wait until its readers are done with it.

    Example:

        cute.kernel @k() {
          %p = pipeline.create {kind = "cp_async"} : !pipeline.ring<3>
          pipeline.producer_acquire %p : !pipeline.ring<3>
        }
    """

    name = "pipeline.producer_acquire"
    ring = operand_def(RingType)
    assembly_format = "$ring attr-dict `:` type($ring)"

    def __init__(self, ring: SSAValue) -> None:
        super().__init__(operands=[ring])


@irdl_op_definition
class ProducerCommitOp(IRDLOperation):
    """After the last write of a stage: it is on its way (`cp.async.commit_group`).

    Example:

        cute.kernel @k() {
          %p = pipeline.create {kind = "cp_async"} : !pipeline.ring<3>
          pipeline.producer_commit %p : !pipeline.ring<3>
        }
    """

    name = "pipeline.producer_commit"
    ring = operand_def(RingType)
    assembly_format = "$ring attr-dict `:` type($ring)"

    def __init__(self, ring: SSAValue) -> None:
        super().__init__(operands=[ring])


@irdl_op_definition
class ConsumerWaitOp(IRDLOperation):
    """Before the first read of a stage: at most `pending` later stages may still be on their way.

    For `cp_async` that is `cp.async.wait_group pending` and a CTA barrier, which also tells every
    producer that the stage read before is free.

    Example:

        cute.kernel @k() {
          %p = pipeline.create {kind = "cp_async"} : !pipeline.ring<3>
          pipeline.consumer_wait %p {pending = 1 : i32} : !pipeline.ring<3>
        }
    """

    name = "pipeline.consumer_wait"
    ring = operand_def(RingType)
    pending = prop_def(IntegerAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$ring attr-dict `:` type($ring)"

    def __init__(self, ring: SSAValue, pending: int) -> None:
        super().__init__(operands=[ring], properties={"pending": IntegerAttr(pending, i32)})

    def verify_(self) -> None:
        stages = self.ring.type
        assert isinstance(stages, RingType)
        pending = self.pending.value.data
        if not 0 <= pending < stages.data:
            raise VerifyException(
                f"expected fewer stages on their way than the ring's {stages.data}, got {pending}"
            )


@irdl_op_definition
class ConsumerReleaseOp(IRDLOperation):
    """After the last read of a stage has completed: its producer may write it again.

    Example:

        cute.kernel @k() {
          %p = pipeline.create {kind = "cp_async"} : !pipeline.ring<3>
          pipeline.consumer_release %p : !pipeline.ring<3>
        }
    """

    name = "pipeline.consumer_release"
    ring = operand_def(RingType)
    assembly_format = "$ring attr-dict `:` type($ring)"

    def __init__(self, ring: SSAValue) -> None:
        super().__init__(operands=[ring])


Pipeline = Dialect(
    "pipeline",
    [CreateOp, ProducerAcquireOp, ProducerCommitOp, ConsumerWaitOp, ConsumerReleaseOp],
    [RingType],
)
