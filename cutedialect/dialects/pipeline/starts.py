"""What comes before the roles of a kernel: barriers are made, and all threads that use them meet; and
the barriers of what CTAs of a cluster send each other.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i32
from xdsl.ir import ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import ALL, ALLOCATES, ORDERS, Effects


@irdl_attr_definition
class ExchangeType(ParametrizedAttribute, TypeAttribute):
    """The barriers of one exchange of CTAs: `!pipeline.exchange`."""

    name = "pipeline.exchange"


@irdl_op_definition
class ExchangeOp(IRDLOperation):
    """Barriers of register tiles that CTAs of a cluster send each other: one counts the bytes that
    come, and one the `readers`, CTAs that have read what this one sent; without readers an exchange
    takes place once, and has the first barrier alone. `bytes` is the room for what the others send,
    where the op that receives it takes none of its own (PTX ISA 9.7.9.12, 9.7.13.15).

    Example:

        cute.kernel @k() {
          %x = pipeline.exchange {readers = 2 : i32} : !pipeline.exchange
          %y = pipeline.exchange {readers = 0 : i32, bytes = 32 : i32} : !pipeline.exchange
        }
    """

    name = "pipeline.exchange"
    readers = prop_def(IntegerAttr)
    bytes = opt_prop_def(IntegerAttr)
    exchange = result_def(ExchangeType)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict `:` type($exchange)"

    def __init__(self, readers: int, bytes_: int | None = None) -> None:
        super().__init__(
            result_types=[ExchangeType()],
            properties={
                "readers": IntegerAttr(readers, i32),
                "bytes": None if bytes_ is None else IntegerAttr(bytes_, i32),
            },
        )

    def effects(self) -> Effects:
        return ALLOCATES

    def verify_(self) -> None:
        if self.readers.value.data < 0:
            raise VerifyException(f"expected 0 readers or more, got {self.readers.value.data}")


@irdl_op_definition
class ExchangeDrainOp(IRDLOperation):
    """Wait until all CTAs have read what this one sent last: at the end of a role whose CTA others
    would tell so when it has ended.

    Example:

        cute.kernel @k() {
          %x = pipeline.exchange {readers = 2 : i32} : !pipeline.exchange
          pipeline.exchange_drain %x : !pipeline.exchange
        }
    """

    name = "pipeline.exchange_drain"
    exchange = operand_def(ExchangeType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$exchange attr-dict `:` type($exchange)"

    def __init__(self, exchange: SSAValue) -> None:
        super().__init__(operands=[exchange])

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        made = self.exchange.owner
        if isinstance(made, ExchangeOp) and not made.readers.value.data:
            raise VerifyException("expected an exchange with readers, got one without")


@irdl_op_definition
class StartOp(IRDLOperation):
    """One thread makes the barriers of the rings and exchanges in front of it; then all threads of
    the CTA meet, or with `cluster` those of its CTAs. All see what threads of the CTA wrote before
    to shared memory: in a cluster only with `publishes`, without which the arrival is relaxed (PTX
    ISA 9.7.13.3, 9.7.13.15.9).

    Example:

        cute.kernel @k() {
          %q = pipeline.create {kind = "threads", producers = 4 : i32, consumers = 4 : i32} : !pipeline.ring<2>
          pipeline.start
        }
        cute.kernel @in_a_cluster() attributes {cluster = 2 : i32} {
          %x = pipeline.exchange {readers = 2 : i32} : !pipeline.exchange
          pipeline.start {cluster}
        }
    """

    name = "pipeline.start"
    cluster = opt_prop_def(UnitAttr)
    publishes = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def __init__(self, cluster: bool = False, publishes: bool = False) -> None:
        super().__init__(
            properties={
                "cluster": UnitAttr() if cluster else None,
                "publishes": UnitAttr() if publishes else None,
            }
        )

    @property
    def shows(self) -> bool:
        """Whether all see what was written before."""
        return self.cluster is None or self.publishes is not None

    def effects(self) -> Effects:
        return Effects(meets=ALL, orders=True)

    def verify_(self) -> None:
        if self.publishes is not None and self.cluster is None:
            raise VerifyException("expected publishes with cluster, got it without")


@irdl_op_definition
class StartArriveOp(IRDLOperation):
    """The first half of `pipeline.start` in a cluster: the barriers of exchanges are made, and the
    CTA tells the others. What stands between both halves is done while the others begin.

    Example:

        cute.kernel @k() attributes {cluster = 2 : i32} {
          %x = pipeline.exchange {readers = 0 : i32, bytes = 32 : i32} : !pipeline.exchange
          pipeline.start_arrive
          pipeline.start_wait
        }
    """

    name = "pipeline.start_arrive"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()

    def effects(self) -> Effects:
        return ORDERS


@irdl_op_definition
class StartWaitOp(IRDLOperation):
    """The second half of `pipeline.start` in a cluster: all its CTAs have made their barriers.

    Example:

        cute.kernel @k() attributes {cluster = 2 : i32} {
          pipeline.start_arrive
          pipeline.start_wait
        }
    """

    name = "pipeline.start_wait"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()

    def effects(self) -> Effects:
        return Effects(meets=ALL, orders=True)
