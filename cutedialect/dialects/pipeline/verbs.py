"""What producer and consumer of a ring say."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i1, i32
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.cute import FragmentType, MemRefType
from cutedialect.dialects.effects import ORDERS, Effects

from .rings import CreateOp, RingType, StateType, check_state

_FORMAT = "$ring `at` $state attr-dict `:` type($ring) `,` type($state)"


@irdl_op_definition
class ProducerAcquireOp(IRDLOperation):
    """Before the first write of a stage: wait until its readers are done with it.

    Example:

        cute.kernel @k() {
          %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
          %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
          pipeline.producer_acquire %q at %s : !pipeline.ring<4>, !pipeline.state<4>
          pipeline.producer_commit %q at %s : !pipeline.ring<4>, !pipeline.state<4>
        }
    """

    name = "pipeline.producer_acquire"
    ring = operand_def(RingType)
    state = operand_def(StateType)
    assembly_format = _FORMAT

    def __init__(self, ring: SSAValue, state: SSAValue) -> None:
        super().__init__(operands=[ring, state])

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        check_state(self.ring, self.state, "producer")
        _demand(self, ProducerCommitOp, "a producer_commit of the ring after the acquire")
        op = self.next_op
        while op is not None and not _is_of(op, ProducerCommitOp, self.ring):
            if _is_of(op, ProducerAcquireOp, self.ring):
                raise VerifyException(
                    "expected a producer_commit of the ring after the acquire, got another acquire"
                )
            op = op.next_op


@irdl_op_definition
class ProducerCommitOp(IRDLOperation):
    """After the last write of a stage: it is on its way, and `full` learns when it is there.

    Example:

        cute.kernel @k() {
          %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
          %s = pipeline.state "producer" %q : !pipeline.ring<4> -> !pipeline.state<4>
          pipeline.producer_acquire %q at %s : !pipeline.ring<4>, !pipeline.state<4>
          pipeline.producer_commit %q at %s : !pipeline.ring<4>, !pipeline.state<4>
        }
    """

    name = "pipeline.producer_commit"
    ring = operand_def(RingType)
    state = operand_def(StateType)
    assembly_format = _FORMAT

    def __init__(self, ring: SSAValue, state: SSAValue) -> None:
        super().__init__(operands=[ring, state])

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        check_state(self.ring, self.state, "producer")
        _demand(self, ProducerAcquireOp, "a producer_acquire before the commit")


@irdl_op_definition
class ConsumerWaitOp(IRDLOperation):
    """Before the first read of a stage: wait until it is full.

    Example:

        cute.kernel @k() {
          %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
          %s = pipeline.state "consumer" %q : !pipeline.ring<4> -> !pipeline.state<4>
          pipeline.consumer_wait %q at %s : !pipeline.ring<4>, !pipeline.state<4>
          pipeline.consumer_release %q at %s : !pipeline.ring<4>, !pipeline.state<4>
        }
    """

    name = "pipeline.consumer_wait"
    ring = operand_def(RingType)
    state = operand_def(StateType)
    assembly_format = _FORMAT

    def __init__(self, ring: SSAValue, state: SSAValue) -> None:
        super().__init__(operands=[ring, state])

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        check_state(self.ring, self.state, "consumer")
        _demand(self, ConsumerReleaseOp, "a consumer_release after the wait")


@irdl_op_definition
class ConsumerReleaseOp(IRDLOperation):
    """After the last read of a stage has completed: its producer may write it again.

    With `back` it is the stage so many before the one at which the state stands: readers that are
    still at work on this one are done with that one. With `if %p` nothing is released unless the
    (role-uniform) condition holds. With `commits` the tensor core reads the stage, and releases it
    when all that the thread has started is done (`tcgen05.commit`, PTX ISA 9.7.16.11.1).

    Example:

        cute.kernel @k(%later: i1) {
          %q = pipeline.create {kind = "tma", producers = 1 : i32, consumers = 8 : i32, bytes = 49152 : i32} : !pipeline.ring<4>
          %s = pipeline.state "consumer" %q : !pipeline.ring<4> -> !pipeline.state<4>
          pipeline.consumer_wait %q at %s : !pipeline.ring<4>, !pipeline.state<4>
          pipeline.consumer_release %q at %s if %later {back = 1 : i32} : !pipeline.ring<4>, !pipeline.state<4>
          pipeline.consumer_release %q at %s {commits} : !pipeline.ring<4>, !pipeline.state<4>
        }
    """

    name = "pipeline.consumer_release"
    ring = operand_def(RingType)
    state = operand_def(StateType)
    pred = opt_operand_def(i1)
    back = opt_prop_def(IntegerAttr)
    commits = opt_prop_def(UnitAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$ring `at` $state (`if` $pred^)? attr-dict `:` type($ring) `,` type($state)"

    def __init__(
        self,
        ring: SSAValue,
        state: SSAValue,
        pred: SSAValue | None = None,
        back: int | None = None,
        commits: bool = False,
    ) -> None:
        super().__init__(
            operands=[ring, state, pred],
            properties={
                "back": None if back is None else IntegerAttr(back, i32),
                "commits": UnitAttr() if commits else None,
            },
        )

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        check_state(self.ring, self.state, "consumer")
        _demand(self, ConsumerWaitOp, "a consumer_wait before the release")
        stages = self.ring.type
        assert isinstance(stages, RingType)
        if self.back is not None and not 0 <= self.back.value.data < stages.data:
            raise VerifyException(
                f"expected a stage fewer than {stages.data} back, got {self.back.value.data}"
            )
        if self.commits is not None and self.back is not None:
            raise VerifyException("expected no back with commits, got one")


def _is_of(op: Operation, kind: type[ProducerAcquireOp | ProducerCommitOp], ring: SSAValue) -> bool:
    return isinstance(op, kind) and op.ring is ring


def _demand(
    op: ProducerAcquireOp | ProducerCommitOp | ConsumerWaitOp | ConsumerReleaseOp,
    kind: type[Operation],
    what: str,
) -> None:
    """Refuse half of a pair: another op has to be `kind`, with the same state or, where a stage is
    passed on (an operand is written over the accumulator that it is made of), of the same ring. A
    ring without consumers has no release, and nothing to acquire.
    """
    made = op.ring.owner
    if isinstance(made, CreateOp) and made.consumers.value.data == 0:
        return
    if not any(isinstance(use.operation, kind) for use in (*op.state.uses, *op.ring.uses)):
        raise VerifyException(f"expected {what}, got none")


@irdl_op_definition
class CompleteOp(IRDLOperation):
    """What was copied into some tiles of shared memory, or multiplied into register tiles, is there
    for all threads that read it.

    It does nothing to a program that is run op by op: a schedule puts it where waiting costs
    least, and `cute-synchronize` makes of it what the copies and multiplies before it need (a wait
    for their groups, a barrier).

    Example:

        cute.kernel @k() {
          %s = cute.alloc_smem : !cute.memref<f16, smem, align<128>, "(64,32):(32,1)">
          pipeline.complete %s : !cute.memref<f16, smem, align<128>, "(64,32):(32,1)">
        }
    """

    name = "pipeline.complete"
    tiles = var_operand_def(MemRefType | FragmentType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$tiles attr-dict `:` type($tiles)"

    def __init__(self, tiles: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(tiles)])

    def effects(self) -> Effects:
        return Effects(reads=tuple(self.tiles), orders=True)
