"""Barriers, fences and groups of asynchronous copies, exchange between the lanes of a warp, and what
warps and CTAs agree on beside memory: the elected lane, the CTAs of a cluster, registers that move
between warpgroups, and grids that depend on each other.
"""

from __future__ import annotations

import re
from typing import ClassVar, Self

from xdsl.dialects.builtin import I64, IntegerAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition

from .registers import B32, PRED, RegsType, RegType, check, width_of
from .syntax import ZERO, integer, parse_extra, parse_optional_defined, print_extra


@irdl_op_definition
class ShflOp(IRDLOperation):
    """Exchange a register between lanes (PTX ISA 9.7.9.6): `ptx.shfl "sync.bfly.b32"`.

    Operands: value, lane (or mask), clamp, member mask.

    Example:

        ptx.kernel @k(%v: b32) attributes {target = "sm_80", threads = 32 : i32} {
          %one = ptx.imm 1 : b32
          %c = ptx.imm 31 : b32
          %all = ptx.imm 4294967295 : b32
          %r = ptx.shfl "sync.bfly.b32", %v, %one, %c, %all : !ptx.reg<b32> -> !ptx.reg<b32>
        }
    """

    name = "ptx.shfl"
    modifiers = prop_def(StringAttr)
    value = operand_def(RegType)
    lane = operand_def(B32)
    clamp = operand_def(B32)
    members = operand_def(B32)
    res = result_def(RegType)
    assembly_format = (
        "$modifiers `,` $value `,` $lane `,` $clamp `,` $members attr-dict `:` "
        "type($value) `->` type($res)"
    )

    def __init__(
        self, modifiers: str, value: SSAValue, lane: SSAValue, clamp: SSAValue, members: SSAValue
    ) -> None:
        super().__init__(
            operands=[value, lane, clamp, members],
            properties={"modifiers": StringAttr(modifiers)},
            result_types=[value.type],
        )

    def verify_(self) -> None:
        check(
            width_of(self.value.type) == 32 and self.res.type == self.value.type,
            f"expected a value and a result of one class of 32 bits, got {self.value.type} and "
            f"{self.res.type}",
        )


@irdl_op_definition
class VoteOp(IRDLOperation):
    """Combine a predicate over the lanes of a mask (PTX ISA 9.7.13.11): all, any, uni, ballot.

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
          %p = ptx.imm 1 : pred
          %all = ptx.imm 4294967295 : b32
          %any = ptx.vote "sync.any.pred", %p, %all : !ptx.reg<pred>
          %lanes = ptx.vote "sync.ballot.b32", %p, %all : !ptx.reg<b32>
        }
    """

    name = "ptx.vote"
    modifiers = prop_def(StringAttr)
    pred = operand_def(PRED)
    members = operand_def(B32)
    res = result_def(RegType)
    assembly_format = "$modifiers `,` $pred `,` $members attr-dict `:` type($res)"

    def __init__(self, modifiers: str, pred: SSAValue, members: SSAValue) -> None:
        super().__init__(
            operands=[pred, members],
            properties={"modifiers": StringAttr(modifiers)},
            result_types=[B32 if "ballot" in modifiers else PRED],
        )

    def verify_(self) -> None:
        wanted = B32 if "ballot" in self.modifiers.data else PRED
        check(self.res.type == wanted, f"expected a result {wanted}, got {self.res.type}")


class NamedBarrierOp(IRDLOperation):
    """Base of the ops on the 16 barriers of a CTA: one by its number or by a register."""

    id = opt_prop_def(IntegerAttr)
    threads = opt_prop_def(IntegerAttr)
    register = opt_operand_def(B32)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, id: int | SSAValue = 0, threads: int | None = None) -> None:
        super().__init__(
            operands=[id if isinstance(id, SSAValue) else None],
            properties={
                "id": integer(id) if isinstance(id, int) else None,
                "threads": None if threads is None else integer(threads),
            },
        )

    @property
    def number(self) -> int:
        """The barrier that is named by a constant; 0 when none is given."""
        return 0 if self.id is None else self.id.value.data

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        barrier: int | SSAValue | None = parser.parse_optional_integer(allow_boolean=False)
        if barrier is None:
            barrier = parse_optional_defined(parser)
        threads = None
        if barrier is not None and parser.parse_optional_punctuation(","):
            threads = parser.parse_integer(allow_boolean=False)
        made = cls(0 if barrier is None else barrier, threads)
        made.attributes |= parse_extra(parser)
        return made

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        if self.register is not None:
            printer.print_ssa_value(self.register)
        else:
            printer.print_string(str(self.number))
        if self.threads is not None:
            printer.print_string(f", {self.threads.value.data}")
        print_extra(printer, self.attributes)

    def verify_(self) -> None:
        check(
            self.id is None or self.register is None,
            "expected a barrier by a number or by a register, got both",
        )
        check(0 <= self.number < 16, f"expected a barrier in 0..15, got {self.number}")
        threads = self.threads.value.data if self.threads is not None else 32
        check(
            threads > 0 and threads % 32 == 0,
            f"expected a multiple of 32 threads, got {threads}",
        )


@irdl_op_definition
class BarSyncOp(NamedBarrierOp):
    """The threads of the CTA, or `threads` of them, meet at barrier `id` (PTX ISA 9.7.13.1).

    Example:

        ptx.kernel @k(%n: b32) attributes {target = "sm_80", threads = 64 : i32} {
          ptx.bar.sync 0
          ptx.bar.sync 1, 64
          ptx.bar.sync %n, 64
        }
    """

    name = "ptx.bar.sync"


@irdl_op_definition
class BarAnyOp(IRDLOperation):
    """The threads of the CTA, or `threads` of them, meet at barrier `id` and hear whether a
    predicate holds for any of them (`bar.red.or.pred`, PTX ISA 9.7.13.1).

    Example:

        ptx.kernel @k(%n: b32, %x: b32) attributes {target = "sm_80", threads = 64 : i32} {
          %p = ptx.setp "lt.s32" %n, %x : (b32, b32) -> pred
          %q = ptx.bar.any %p, %n {threads = 64 : i32}
        }
    """

    name = "ptx.bar.any"
    pred = operand_def(PRED)
    register = operand_def(B32)
    threads = prop_def(IntegerAttr)
    res = result_def(PRED)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$pred `,` $register attr-dict"

    def __init__(self, pred: SSAValue, register: SSAValue, threads: int) -> None:
        super().__init__(
            operands=[pred, register],
            properties={"threads": integer(threads)},
            result_types=[PRED],
        )

    def verify_(self) -> None:
        threads = self.threads.value.data
        check(
            threads > 0 and threads % 32 == 0,
            f"expected a multiple of 32 threads, got {threads}",
        )


@irdl_op_definition
class BarArriveOp(NamedBarrierOp):
    """Be counted at barrier `id` without waiting there; `threads` arrive or meet in all (PTX ISA
    9.7.13.1).

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 64 : i32} {
          %half = ptx.imm 32 : b32
          %t = ptx.special "tid.x" : b32
          %first = ptx.setp "lt.s32" %t, %half : (b32, b32) -> pred
          ptx.if %first {
            ptx.bar.arrive 1, 64
          } else {
            ptx.bar.sync 1, 64
          }
        }
    """

    name = "ptx.bar.arrive"

    def __init__(self, id: int | SSAValue, threads: int | None) -> None:
        super().__init__(id, threads)

    def verify_(self) -> None:
        check(self.threads is not None, "expected the number of threads that meet, got none")
        super().verify_()


@irdl_op_definition
class BarWarpSyncOp(IRDLOperation):
    """The lanes of a mask meet (PTX ISA 9.7.13.2).

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
          %all = ptx.imm 4294967295 : b32
          ptx.bar.warp.sync %all
        }
    """

    name = "ptx.bar.warp.sync"
    members = operand_def(B32)
    assembly_format = "$members attr-dict"

    def __init__(self, members: SSAValue) -> None:
        super().__init__(operands=[members])


_FENCE = re.compile(
    r"(sc|acq_rel)\.(cta|cluster|gpu|sys)"
    r"|proxy\.(alias|async(\.(global|shared::(cta|cluster)))?)"
    r"|proxy\.tensormap::generic\.release\.(cta|cluster|gpu|sys)"
    r"|mbarrier_init\.release\.cluster"
)


@irdl_op_definition
class FenceOp(IRDLOperation):
    """Order this thread's memory accesses (PTX ISA 9.7.13.5).

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
          ptx.fence "acq_rel.gpu"
        }
    """

    name = "ptx.fence"
    modifiers = prop_def(StringAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$modifiers attr-dict"

    def __init__(self, modifiers: str) -> None:
        super().__init__(properties={"modifiers": StringAttr(modifiers)})

    def verify_(self) -> None:
        check(
            _FENCE.fullmatch(self.modifiers.data) is not None,
            "expected a fence such as 'acq_rel.gpu', 'proxy.async', 'proxy.async.shared::cta' or "
            f"'mbarrier_init.release.cluster', got '{self.modifiers.data}'",
        )


@irdl_op_definition
class CpAsyncCommitOp(IRDLOperation):
    """Close a group of `cp.async` (PTX ISA 9.7.9.25.3.2).

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
          ptx.cp.async.commit_group
        }
    """

    name = "ptx.cp.async.commit_group"
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class CpAsyncWaitOp(IRDLOperation):
    """Wait until at most `pending` groups are on their way (PTX ISA 9.7.9.25.3.3).

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
          ptx.cp.async.wait_group {pending = 1 : i64}
        }
    """

    name = "ptx.cp.async.wait_group"
    pending = prop_def(IntegerAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def __init__(self, pending: int) -> None:
        super().__init__(properties={"pending": integer(pending)})

    def verify_(self) -> None:
        check(
            self.pending.value.data >= 0,
            f"expected a number of groups of 0 or more, got {self.pending.value.data}",
        )


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
