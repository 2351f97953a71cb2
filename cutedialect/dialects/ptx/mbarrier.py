"""`mbarrier`: barriers in shared memory that count arrivals and bytes of asynchronous copies (PTX
ISA 9.7.13.15). One is 8 bytes, aligned to 8, and is used for phases 0, 1, 0, 1, ... in turn.
"""

from __future__ import annotations

from xdsl.dialects.builtin import I64, IntegerAttr, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import operand_def, opt_operand_def, opt_prop_def, prop_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition

from .registers import B32, PRED, check
from .syntax import ONE, ZERO, integer

# Counts of arrivals and of bytes are below this (PTX ISA 9.7.13.15.2).
COUNT_LIMIT = 1 << 20


def _check_offset(offset: IntegerAttr) -> None:
    at = offset.value.data
    check(at % 8 == 0, f"expected an offset that is a multiple of 8 bytes, got {at}")


def _check_count(what: str, given: IntegerAttr, least: int) -> None:
    count = given.value.data
    check(
        least <= count < COUNT_LIMIT, f"expected {what} in {least}..{COUNT_LIMIT - 1}, got {count}"
    )


@irdl_op_definition
class MbarrierInitOp(IRDLOperation):
    """Make a barrier whose phases each take `count` arrivals (PTX ISA 9.7.13.15.9).

    Others may use it after a fence (`mbarrier_init.release.cluster` for the asynchronous proxy and
    other CTAs) and a barrier of the CTA or the cluster.

    Example:

        ptx.kernel @k(%s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
          ptx.mbarrier.init [%s + 8], 2
        }
    """

    name = "ptx.mbarrier.init"
    addr = operand_def(B32)
    offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    count = prop_def(IntegerAttr[I64])
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "` ` `[` $addr (`+` $offset^)? `]` `,` $count attr-dict"

    def __init__(self, addr: SSAValue, count: int, offset: int = 0) -> None:
        super().__init__(
            operands=[addr], properties={"offset": integer(offset), "count": integer(count)}
        )

    def verify_(self) -> None:
        _check_offset(self.offset)
        _check_count("a count of arrivals", self.count, 1)


@irdl_op_definition
class MbarrierInvalOp(IRDLOperation):
    """End the life of a barrier, so that its memory may serve otherwise (PTX ISA 9.7.13.15.10).

    Example:

        ptx.kernel @k(%s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
          ptx.mbarrier.init [%s], 1
          ptx.mbarrier.inval [%s]
        }
    """

    name = "ptx.mbarrier.inval"
    addr = operand_def(B32)
    offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "` ` `[` $addr (`+` $offset^)? `]` attr-dict"

    def __init__(self, addr: SSAValue, offset: int = 0) -> None:
        super().__init__(operands=[addr], properties={"offset": integer(offset)})

    def verify_(self) -> None:
        _check_offset(self.offset)


@irdl_op_definition
class MbarrierArriveOp(IRDLOperation):
    """Arrive `count` times, releasing what this thread did before (PTX ISA 9.7.13.15.13).

    With `cluster` the address is one of `shared::cluster`, as `ptx.mapa` makes. The scope stays the
    default: an arrive with `.release.cluster` costs a fence of the whole GPU on each trip.

    Example:

        ptx.kernel @k(%s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
          %p = ptx.elect
          %zero = ptx.imm 0 : b32
          %first = ptx.mapa %s, %zero
          ptx.mbarrier.init [%s], 4
          ptx.mbarrier.arrive [%s], 2 if %p
          ptx.mbarrier.arrive cluster [%first]
        }
    """

    name = "ptx.mbarrier.arrive"
    addr = operand_def(B32)
    pred = opt_operand_def(PRED)
    offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    count = prop_def(IntegerAttr[I64], default_value=ONE)
    cluster = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "(`cluster` $cluster^)? ` ` `[` $addr (`+` $offset^)? `]` (`,` $count^)? (`if` $pred^)? "
        "attr-dict"
    )

    def __init__(
        self,
        addr: SSAValue,
        offset: int = 0,
        count: int = 1,
        pred: SSAValue | None = None,
        cluster: bool = False,
    ) -> None:
        super().__init__(
            operands=[addr, pred],
            properties={
                "offset": integer(offset),
                "count": integer(count),
                "cluster": UnitAttr() if cluster else None,
            },
        )

    def verify_(self) -> None:
        _check_offset(self.offset)
        _check_count("a count of arrivals", self.count, 1)


@irdl_op_definition
class MbarrierExpectTxOp(IRDLOperation):
    """Arrive once, and make the phase wait for `bytes` more of asynchronous copies (PTX ISA
    9.7.13.15.13).

    Example:

        ptx.kernel @k(%s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
          %p = ptx.elect
          ptx.mbarrier.init [%s], 1
          ptx.mbarrier.arrive.expect_tx [%s], 0 if %p
        }
    """

    name = "ptx.mbarrier.arrive.expect_tx"
    addr = operand_def(B32)
    pred = opt_operand_def(PRED)
    bytes = prop_def(IntegerAttr[I64])
    offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "` ` `[` $addr (`+` $offset^)? `]` `,` $bytes (`if` $pred^)? attr-dict"

    def __init__(
        self, addr: SSAValue, bytes: int, offset: int = 0, pred: SSAValue | None = None
    ) -> None:
        super().__init__(
            operands=[addr, pred],
            properties={"offset": integer(offset), "bytes": integer(bytes)},
        )

    def verify_(self) -> None:
        _check_offset(self.offset)
        _check_count("a number of bytes", self.bytes, 0)


@irdl_op_definition
class MbarrierWaitOp(IRDLOperation):
    """Wait until the phase of a parity is complete: a loop on `mbarrier.try_wait.parity`, which may
    give up early (PTX ISA 9.7.13.15.16). A new barrier lets a wait for parity 1 pass.

    Example:

        ptx.kernel @k(%s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
          ptx.mbarrier.init [%s], 32
          ptx.bar.sync 0
          ptx.mbarrier.arrive [%s]
          %parity = ptx.imm 0 : b32
          ptx.mbarrier.wait [%s], %parity
        }
    """

    name = "ptx.mbarrier.wait"
    addr = operand_def(B32)
    parity = operand_def(B32)
    offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "` ` `[` $addr (`+` $offset^)? `]` `,` $parity attr-dict"

    def __init__(self, addr: SSAValue, parity: SSAValue, offset: int = 0) -> None:
        super().__init__(operands=[addr, parity], properties={"offset": integer(offset)})

    def verify_(self) -> None:
        _check_offset(self.offset)


@irdl_op_definition
class CpAsyncMbarrierArriveOp(IRDLOperation):
    """Arrive when all earlier `cp.async` of this thread are done (PTX ISA 9.7.13.15.15).

    With `noinc` the barrier's count has to include this arrival; without, the arrival adds to the
    pending count first what it takes later.

    Example:

        ptx.kernel @k(%s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
          ptx.mbarrier.init [%s], 32
          ptx.bar.sync 0
          ptx.cp.async.mbarrier.arrive noinc [%s]
        }
    """

    name = "ptx.cp.async.mbarrier.arrive"
    addr = operand_def(B32)
    offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    noinc = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "(`noinc` $noinc^)? ` ` `[` $addr (`+` $offset^)? `]` attr-dict"

    def __init__(self, addr: SSAValue, offset: int = 0, noinc: bool = True) -> None:
        super().__init__(
            operands=[addr],
            properties={"offset": integer(offset), "noinc": UnitAttr() if noinc else None},
        )

    def verify_(self) -> None:
        _check_offset(self.offset)
