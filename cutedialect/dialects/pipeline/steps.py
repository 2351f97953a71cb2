"""How threads do by shared memory what one of them cannot do alone: where they meet, what they store
for each other, and what they load.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr, i1, i32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_region_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, NoTerminator
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.cute import BarrierOp
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import ORDERS, Effects

from .starts import ExchangeDrainOp, ExchangeType


@irdl_op_definition
class ScratchStoreOp(IRDLOperation):
    """Threads of a team store what the op behind their `pipeline.steps` has for others to the buffer
    that the ops of a team share, each to places of its own.

    Example:

        cute.kernel @k() {
          pipeline.steps {
            pipeline.scratch_store
          }
        }
    """

    name = "pipeline.scratch_store"
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "attr-dict"

    def effects(self) -> Effects:
        return ORDERS


@irdl_op_definition
class ScratchLoadOp(IRDLOperation):
    """Threads of a team load what others have stored by `pipeline.scratch_store`.

    Example:

        cute.kernel @k() {
          pipeline.steps {
            pipeline.scratch_store
            cute.barrier
            pipeline.scratch_load
          }
        }
    """

    name = "pipeline.scratch_load"
    traits = traits_def(MemoryReadEffect())
    assembly_format = "attr-dict"

    def effects(self) -> Effects:
        return ORDERS


class _OfExchangeOp(IRDLOperation):
    """A step of an exchange of CTAs of a cluster."""

    exchange = operand_def(ExchangeType)
    assembly_format = "$exchange attr-dict `:` type($exchange)"
    irdl_options = (ParsePropInAttrDict(),)

    def effects(self) -> Effects:
        return ORDERS


class _OfBytesOp(_OfExchangeOp):
    """One that says how many bytes come to a CTA in all."""

    bytes = prop_def(IntegerAttr)

    def __init__(self, exchange: SSAValue, bytes_: int) -> None:
        super().__init__(operands=[exchange], properties={"bytes": IntegerAttr(bytes_, i32)})

    def verify_(self) -> None:
        if self.bytes.value.data < 1:
            raise VerifyException(f"expected 1 byte or more, got {self.bytes.value.data}")


@irdl_op_definition
class ExchangeExpectOp(_OfBytesOp):
    """Count so many bytes at the first barrier of an exchange, which come from all CTAs that send
    (PTX ISA 9.7.13.15.11).

    Example:

        cute.kernel @k() {
          %x = pipeline.exchange {readers = 2 : i32} : !pipeline.exchange
          pipeline.steps {
            pipeline.exchange_expect %x {bytes = 4096 : i32} : !pipeline.exchange
            pipeline.exchange_send %x {bytes = 4096 : i32} : !pipeline.exchange
            pipeline.exchange_wait %x {side = "full"} : !pipeline.exchange
            pipeline.exchange_load %x : !pipeline.exchange
          }
        }
    """

    name = "pipeline.exchange_expect"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class ExchangeSendOp(_OfBytesOp):
    """Send what the CTAs of an exchange get from this one (`st.async`, PTX ISA 9.7.9.12). So many
    bytes come to each that gets some: CTAs run one program.

    Example:

        cute.kernel @k() {
          %x = pipeline.exchange {readers = 2 : i32} : !pipeline.exchange
          pipeline.steps {
            pipeline.exchange_send %x {bytes = 4096 : i32} : !pipeline.exchange
          }
        }
    """

    name = "pipeline.exchange_send"
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class ExchangeWaitOp(_OfExchangeOp):
    """Wait until all bytes have come (`side` full), or until who got this CTA's has read them
    (`empty`), at a barrier of an exchange.

    Example:

        cute.kernel @k() {
          %x = pipeline.exchange {readers = 1 : i32} : !pipeline.exchange
          pipeline.steps {
            pipeline.exchange_wait %x {side = "empty"} : !pipeline.exchange
          }
        }
    """

    name = "pipeline.exchange_wait"
    side = prop_def(StringAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, exchange: SSAValue, side: str) -> None:
        super().__init__(operands=[exchange], properties={"side": StringAttr(side)})

    def verify_(self) -> None:
        if self.side.data not in ("full", "empty"):
            raise VerifyException(f"expected side full or empty, got '{self.side.data}'")


@irdl_op_definition
class ExchangeLoadOp(_OfExchangeOp):
    """Load what has come.

    Example:

        cute.kernel @k() {
          %x = pipeline.exchange {readers = 1 : i32} : !pipeline.exchange
          pipeline.steps {
            pipeline.exchange_load %x : !pipeline.exchange
          }
        }
    """

    name = "pipeline.exchange_load"
    traits = traits_def(MemoryReadEffect())

    def __init__(self, exchange: SSAValue) -> None:
        super().__init__(operands=[exchange])


@irdl_op_definition
class ExchangeTellOp(_OfExchangeOp):
    """Tell those who sent that what came is read: `count` CTAs from rank `first` on, a thread each.

    Example:

        cute.kernel @k() {
          %x = pipeline.exchange {readers = 1 : i32} : !pipeline.exchange
          pipeline.steps {
            pipeline.exchange_load %x : !pipeline.exchange
            cute.barrier
            pipeline.exchange_tell %x {first = 1 : i32, count = 3 : i32} : !pipeline.exchange
          }
        }
    """

    name = "pipeline.exchange_tell"
    first = prop_def(IntegerAttr)
    count = prop_def(IntegerAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, exchange: SSAValue, first: int, count: int) -> None:
        super().__init__(
            operands=[exchange],
            properties={"first": IntegerAttr(first, i32), "count": IntegerAttr(count, i32)},
        )


@irdl_op_definition
class StepsOp(IRDLOperation):
    """What threads do, in this order, to do the op that follows: accesses to memory that they share,
    and what synchronizes these. They do none of it where a condition (`if`) does not hold. Where it
    is `ranked` the first CTA of a cluster does the first, and the others do the second (`else`).

    `cute-expand-roles` writes them; the op behind is lowered to them and to what each thread does by
    itself, and adds no barrier of its own.

    Example:

        cute.kernel @k(%x: f32) {
          %t = cute.alloc_fragment : !cute.fragment<f32, "(64,8)">
          cute.fill %t, %x : !cute.fragment<f32, "(64,8)">
          pipeline.steps {
            cute.barrier
            pipeline.scratch_store
            cute.barrier
            pipeline.scratch_load
          }
          %s = cute.reduce "add", %t {mode = 0 : i64} : !cute.fragment<f32, "(64,8)"> -> !cute.fragment<f32, "(1,8)">
        }
    """

    name = "pipeline.steps"
    condition = opt_operand_def(i1)
    ranked = opt_prop_def(UnitAttr)
    body = region_def("single_block")
    otherwise = opt_region_def("single_block")
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(NoTerminator(), MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "(`if` $condition^)? attr-dict-with-keyword $body (`else` $otherwise^)?"

    def __init__(
        self,
        ops: Sequence[Operation],
        condition: SSAValue | None = None,
        otherwise: Sequence[Operation] = (),
    ) -> None:
        """With `otherwise`, the first CTA of a cluster does one, and the others do the other."""
        super().__init__(
            operands=[condition],
            properties={"ranked": UnitAttr() if otherwise else None},
            regions=[Region(Block(ops)), [Region(Block(otherwise))] if otherwise else []],
        )

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        for region in self.regions:
            for op in region.block.ops:
                if not isinstance(op, STEPS):
                    names = ", ".join(step.name for step in STEPS)
                    raise VerifyException(f"expected one of {names} in {self.name}, got {op.name}")
        if (self.ranked is None) != (self.otherwise is None):
            raise VerifyException("expected ranked and what the others do (else) together")


ACCESSES = (ScratchStoreOp, ScratchLoadOp, ExchangeSendOp, ExchangeLoadOp)
"""Steps that the op behind does by itself: accesses to memory that threads share."""
STEPS = (
    BarrierOp, ExchangeDrainOp, ExchangeExpectOp, ExchangeWaitOp, ExchangeTellOp, *ACCESSES,
)  # fmt: skip
"""What threads do there."""
