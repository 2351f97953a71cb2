"""What warps and CTAs agree on beside memory: the elected lane, the CTAs of a cluster, registers
that move between warpgroups, and grids that depend on each other.
"""

from __future__ import annotations

from typing import ClassVar, Self

from xdsl.dialects.builtin import I64, IntegerAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from .registers import B32, PRED, RegsType, check
from .syntax import ZERO, integer, parse_extra, print_extra


@irdl_op_definition
class ElectOp(IRDLOperation):
    """True in one lane of the warp, which all lanes reach together (PTX ISA 9.7.13.14). It is how
    one thread issues a copy: ptxas takes a comparison of thread indices for a divergent branch.

    Example:

        ptx.kernel @k() attributes {target = "sm_90a", threads = 32 : i32} {
          %p = ptx.elect
        }
    """

    name = "ptx.elect"
    res = result_def(PRED)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[PRED])


@irdl_op_definition
class MapaOp(IRDLOperation):
    """The address of `shared::cluster` of what is at the same place in another CTA of the cluster
    (PTX ISA 9.7.9.23).

    Example:

        ptx.kernel @k(%s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
          %rank = ptx.imm 0 : b32
          %there = ptx.mapa %s, %rank
        }
    """

    name = "ptx.mapa"
    addr = operand_def(B32)
    rank = operand_def(B32)
    res = result_def(B32)
    traits = traits_def(Pure())
    assembly_format = "$addr `,` $rank attr-dict"

    def __init__(self, addr: SSAValue, rank: SSAValue) -> None:
        super().__init__(operands=[addr, rank], result_types=[B32])


@irdl_op_definition
class StAsyncOp(IRDLOperation):
    """Stores to the shared memory of a CTA of the cluster, four registers each: store i moves the
    registers from 4 i on to `addr + i stride`, and its bytes count at a barrier there when they have
    landed (PTX ISA 9.7.9.12). Both addresses are of `shared::cluster`, as `ptx.mapa` makes them.

    Example:

        ptx.kernel @k(%s: b32) attributes {target = "sm_90a", threads = 32 : i32} {
          %x = ptx.regs : !ptx.regs<f32 x 4>
          %rank = ptx.imm 0 : b32
          %there = ptx.mapa %s, %rank
          ptx.st.async %x [%there + 16], [%there + 8], stride 512 : !ptx.regs<f32 x 4>
        }
    """

    name = "ptx.st.async"
    data = operand_def(RegsType)
    addr = operand_def(B32)
    barrier = operand_def(B32)
    offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    at = prop_def(IntegerAttr[I64], default_value=ZERO)
    stride = prop_def(IntegerAttr[I64])
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$data ` ` `[` $addr (`+` $offset^)? `]` `,` `[` $barrier (`+` $at^)? `]` `,` `stride` $stride "
        "attr-dict `:` type($data)"
    )

    def __init__(
        self, data: SSAValue, addr: SSAValue, barrier: SSAValue, offset: int, at: int, stride: int
    ) -> None:
        super().__init__(
            operands=[data, addr, barrier],
            properties={
                "offset": integer(offset),
                "at": integer(at),
                "stride": integer(stride),
            },
        )

    def verify_(self) -> None:
        data = self.data.type
        assert isinstance(data, RegsType)
        check(data.cls in ("b32", "f32"), f"expected registers of 32 bits, got {data.cls}")
        check(data.count % 4 == 0, f"expected four registers for each store, got {data.count}")
        at, offset, stride = (each.value.data for each in (self.at, self.offset, self.stride))
        check(at % 8 == 0, f"expected a barrier at a multiple of 8 bytes, got {at}")
        for name, value in (("an offset", offset), ("a stride", stride)):
            check(value % 16 == 0, f"expected {name} that is a multiple of 16 bytes, got {value}")


class ClusterBarrierOp(IRDLOperation):
    """Base of the two halves of the cluster's barrier."""

    modifiers = prop_def(StringAttr, default_value=StringAttr(""))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    KNOWN: ClassVar[tuple[str, ...]]

    def __init__(self, modifiers: str = "") -> None:
        super().__init__(properties={"modifiers": StringAttr(modifiers)})

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        made = cls(parser.parse_optional_str_literal() or "")
        made.attributes |= parse_extra(parser)
        return made

    def print(self, printer: Printer) -> None:
        if self.modifiers.data:
            printer.print_string(" ")
            printer.print_string_literal(self.modifiers.data)
        print_extra(printer, self.attributes)

    def verify_(self) -> None:
        shown = ", ".join(f"'{one}'" for one in self.KNOWN)
        check(
            self.modifiers.data in self.KNOWN,
            f"expected modifiers ({shown}), got '{self.modifiers.data}'",
        )


@irdl_op_definition
class ClusterArriveOp(ClusterBarrierOp):
    """Arrive at the barrier of the cluster (PTX ISA 9.7.13.3); `aligned` where whole warps do.

    Example:

        ptx.kernel @k() attributes {
          target = "sm_90a", threads = 32 : i32, cluster = array<i64: 2, 1, 1>
        } {
          ptx.barrier.cluster.arrive "relaxed.aligned"
          ptx.barrier.cluster.wait "aligned"
        }
    """

    name = "ptx.barrier.cluster.arrive"
    KNOWN: ClassVar = ("", "release", "relaxed", "aligned", "release.aligned", "relaxed.aligned")


@irdl_op_definition
class ClusterWaitOp(ClusterBarrierOp):
    """Wait for all threads of the cluster that have not exited (PTX ISA 9.7.13.3).

    Example:

        ptx.kernel @k() attributes {target = "sm_90a", threads = 32 : i32} {
          ptx.barrier.cluster.arrive
          ptx.barrier.cluster.wait
        }
    """

    name = "ptx.barrier.cluster.wait"
    KNOWN: ClassVar = ("", "acquire", "aligned", "acquire.aligned")


@irdl_op_definition
class SetMaxRegsOp(IRDLOperation):
    """`setmaxnreg`: give registers back ("dec") or take some ("inc"), all warps of a warpgroup
    (PTX ISA 9.7.19.5). `inc` waits until the CTA's pool has enough.

    Example:

        ptx.kernel @k() attributes {
          target = "sm_90a", threads = 128 : i32, min_ctas = 1 : i32
        } {
          ptx.setmaxnreg "dec", 40
        }
    """

    name = "ptx.setmaxnreg"
    action = prop_def(StringAttr)
    count = prop_def(IntegerAttr[I64])
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$action `,` $count attr-dict"

    def __init__(self, action: str, count: int) -> None:
        super().__init__(properties={"action": StringAttr(action), "count": integer(count)})

    def verify_(self) -> None:
        check(
            self.action.data in ("inc", "dec"),
            f"expected an action 'inc' or 'dec', got '{self.action.data}'",
        )
        count = self.count.value.data
        near = min(max(round(count / 8) * 8, 24), 256)
        check(
            count == near,
            f"expected a multiple of 8 registers in 24..256, such as {near}, got {count}",
        )


@irdl_op_definition
class GriddepWaitOp(IRDLOperation):
    """Wait until the grids that this one depends on are done and their writes are seen (PTX ISA
    9.7.13.13).

    Example:

        ptx.kernel @k() attributes {target = "sm_90a", threads = 32 : i32} {
          ptx.griddepcontrol.wait
        }
    """

    name = "ptx.griddepcontrol.wait"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class GriddepLaunchOp(IRDLOperation):
    """Let the grids that depend on this one start, once all its CTAs say so or end (PTX ISA
    9.7.13.13).

    Example:

        ptx.kernel @k() attributes {target = "sm_90a", threads = 32 : i32} {
          ptx.griddepcontrol.launch_dependents
        }
    """

    name = "ptx.griddepcontrol.launch_dependents"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()
