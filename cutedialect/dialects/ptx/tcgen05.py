"""`tcgen05`: products with accumulators in tensor memory, and copies between it and registers or
shared memory (PTX ISA 9.7.16). Addresses of tensor memory are `lane << 16 | column` in a `b32`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects.builtin import I64, DenseArrayBase, IntegerAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition

from .arrays import check_index, entries, table
from .mnemonics import tmem_registers
from .registers import B16, B32, PRED, RegsType, RegType, SmemDescType, check
from .syntax import ZERO, integer
from .wgmma import ADDRESS_LIMIT, check_operand

# Where the instruction descriptor says that an operand is MN-major (PTX ISA 9.7.16.4.2).
_TRANSPOSE_A, _TRANSPOSE_B = 15, 16
_COLUMNS = (32, 64, 128, 256, 512)
_GROUPS = (1, 2)
_FENCES = ("before_thread_sync", "after_thread_sync")
# `tcgen05.ld.red` with its operation (PTX ISA 9.7.16.8.1); f32 by size or with NaN.
_REDUCTION = re.compile(
    r"red\.sync\.aligned\.32x32b\.x(?!1\.)\d+\.(min|max)"
    r"(\.(u32|s32)|(\.abs)?(\.NaN)?\.f32)"
)
_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")


def _check_group(group: IntegerAttr) -> None:
    check(group.value.data in _GROUPS, f"expected a CTA group of 1 or 2, got {group.value.data}")


def _check_columns(columns: IntegerAttr) -> None:
    check(
        columns.value.data in _COLUMNS,
        f"expected a power of two in 32..512 columns, got {columns.value.data}",
    )


@irdl_op_definition
class TmemAllocOp(IRDLOperation):
    """`tcgen05.alloc`: a warp takes columns of tensor memory; their address goes to shared memory
    (PTX ISA 9.7.16.7.1). Of a CTA pair (`group` 2) one warp of each CTA does it.

    Example:

        ptx.kernel @k(%s: b32) attributes {target = "sm_100a", threads = 32 : i32} {
          ptx.tcgen05.alloc [%s + 8], 256, 1
        }
    """

    name = "ptx.tcgen05.alloc"
    addr = operand_def(B32)
    offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    columns = prop_def(IntegerAttr[I64])
    group = prop_def(IntegerAttr[I64])
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "` ` `[` $addr (`+` $offset^)? `]` `,` $columns `,` $group attr-dict"

    def __init__(self, addr: SSAValue, columns: int, group: int = 1, offset: int = 0) -> None:
        super().__init__(
            operands=[addr],
            properties={
                "offset": integer(offset),
                "columns": integer(columns),
                "group": integer(group),
            },
        )

    def verify_(self) -> None:
        at = self.offset.value.data
        check(at % 4 == 0, f"expected an offset that is a multiple of 4 bytes, got {at}")
        _check_columns(self.columns)
        _check_group(self.group)


@irdl_op_definition
class TmemDeallocOp(IRDLOperation):
    """`tcgen05.dealloc`: a warp gives columns back, all that an allocation took (PTX ISA
    9.7.16.7.1).

    Example:

        ptx.kernel @k(%t: b32) attributes {target = "sm_100a", threads = 32 : i32} {
          ptx.tcgen05.dealloc %t, 256, 1
        }
    """

    name = "ptx.tcgen05.dealloc"
    addr = operand_def(B32)
    columns = prop_def(IntegerAttr[I64])
    group = prop_def(IntegerAttr[I64])
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$addr `,` $columns `,` $group attr-dict"

    def __init__(self, addr: SSAValue, columns: int, group: int = 1) -> None:
        super().__init__(
            operands=[addr], properties={"columns": integer(columns), "group": integer(group)}
        )

    def verify_(self) -> None:
        _check_columns(self.columns)
        _check_group(self.group)


@irdl_op_definition
class TmemRelinquishOp(IRDLOperation):
    """`tcgen05.relinquish_alloc_permit`: the CTA will allocate no more (PTX ISA 9.7.16.7.1).

    Example:

        ptx.kernel @k() attributes {target = "sm_100a", threads = 32 : i32} {
          ptx.tcgen05.relinquish_alloc_permit 1
        }
    """

    name = "ptx.tcgen05.relinquish_alloc_permit"
    group = prop_def(IntegerAttr[I64])
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$group attr-dict"

    def __init__(self, group: int = 1) -> None:
        super().__init__(properties={"group": integer(group)})

    def verify_(self) -> None:
        _check_group(self.group)


@irdl_op_definition
class Tcgen05MmaOp(IRDLOperation):
    """`tcgen05.mma`: D = A B + D, many instructions in a row, issued by one thread (PTX ISA
    9.7.16.10.9).

    Instruction i accumulates in tensor memory `d[i]` behind `acc`. A is behind a descriptor
    or an address of tensor memory (b32), to which `a[i]` is added, `b[i]` to the descriptor of B;
    addends of descriptors move the start address, in units of 16 bytes. `scale[i]` names a
    predicate of `enable` that is false where D starts from 0, or is -1 for always true. `idesc` is
    the instruction descriptor; block-scaled kinds have the addresses of the scale factors of A
    and B in `factors`. Bits of `masks` that are set leave lanes of D as they are: 4 words, of a CTA
    pair 8 (PTX ISA 9.7.16.10.9.1, disable-output-lane).

    Example:

        ptx.kernel @k(%start: b64, %t: b32, %p: b32) attributes {
          target = "sm_100a", threads = 128 : i32
        } {
          %d = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
          %zero = ptx.imm 0 : b32
          %later = ptx.setp "ne.s32" %p, %zero : (b32, b32) -> pred
          ptx.tcgen05.mma "cta_group::1.kind::f16", %t, %d, %d enable %later {
            idesc = 136314896, d = array<i64: 0, 0>, a = array<i64: 0, 2>,
            b = array<i64: 0, 2>, scale = array<i64: 0, -1>
          } : !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>,
            !ptx.smem_desc<tcgen05, K, 128B, leading = 16, stride = 1024>
        }
    """

    name = "ptx.tcgen05.mma"
    modifiers = prop_def(StringAttr)
    acc = operand_def(B32)
    lhs = operand_def(RegType | SmemDescType)
    rhs = operand_def(SmemDescType)
    enable = var_operand_def(PRED)
    factors = var_operand_def(B32)
    masks = var_operand_def(B32)
    idesc = prop_def(IntegerAttr[I64])
    d = prop_def(DenseArrayBase)
    a = prop_def(DenseArrayBase)
    b = prop_def(DenseArrayBase)
    scale = opt_prop_def(DenseArrayBase)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$modifiers `,` $acc `,` $lhs `,` $rhs (`enable` $enable^)? (`factors` $factors^)? "
        "(`masks` $masks^)? attr-dict `:` type($lhs) `,` type($rhs)"
    )

    def __init__(
        self,
        modifiers: str,
        acc: SSAValue,
        lhs: SSAValue,
        rhs: SSAValue,
        idesc: int,
        d: Sequence[int],
        a: Sequence[int],
        b: Sequence[int],
        enable: Sequence[SSAValue] = (),
        scale: Sequence[int] | None = None,
        factors: Sequence[SSAValue] = (),
        masks: Sequence[SSAValue] = (),
    ) -> None:
        super().__init__(
            operands=[acc, lhs, rhs, list(enable), list(factors), list(masks)],
            properties={
                "modifiers": StringAttr(modifiers),
                "idesc": integer(idesc),
                "d": table(d),
                "a": table(a),
                "b": table(b),
                "scale": None if scale is None else table(scale),
            },
        )

    def verify_(self) -> None:
        parts = self.modifiers.data.split(".")
        check(
            parts[0] in ("cta_group::1", "cta_group::2")
            and len(parts) > 1
            and parts[1].removeprefix("kind::") in _KINDS,
            f"expected a CTA group and a kind ({', '.join(_KINDS)}) in the modifiers, got "
            f"'{self.modifiers.data}'",
        )
        wanted = 2 if "block_scale" in parts else 0
        check(
            len(self.factors) == wanted,
            f"expected {wanted} addresses of scale factors for {self.modifiers.data}, got "
            f"{len(self.factors)}",
        )
        words = 0 if wanted else 4 * int(parts[0][-1])
        check(
            len(self.masks) in (0, words),
            f"expected {f'{words} words' if words else 'no words'} of lane masks for "
            f"{self.modifiers.data}, got {len(self.masks)}",
        )
        check(
            self.lhs.type == B32 or isinstance(self.lhs.type, SmemDescType),
            f"expected a descriptor (!ptx.smem_desc) or an address of tensor memory (b32) as A, "
            f"got {self.lhs.type}",
        )
        count = len(entries(self.d))
        check(count > 0, "expected at least one instruction, got none")
        for given in (self.a, self.b, self.scale):
            if given is not None:
                check(
                    len(entries(given)) == count,
                    f"expected {count} entries in each table, got {len(entries(given))}",
                )
        check_index("column", entries(self.d), 512)
        check_index("addend", entries(self.a), ADDRESS_LIMIT)
        check_index("addend", entries(self.b), ADDRESS_LIMIT)
        check_index("predicate", entries(self.scale), len(self.enable), -1)
        idesc = self.idesc.value.data
        check(0 <= idesc < 1 << 32, f"expected an instruction descriptor of 32 bits, got {idesc}")
        check_operand("B", self.rhs.type, "tcgen05", bool(idesc >> _TRANSPOSE_B & 1))
        if self.lhs.type != B32:
            check_operand("A", self.lhs.type, "tcgen05", bool(idesc >> _TRANSPOSE_A & 1))


@irdl_op_definition
class Tcgen05CommitOp(IRDLOperation):
    """`tcgen05.commit`: arrive at a barrier when all earlier `mma`, `cp` and `shift` of this thread
    are done (PTX ISA 9.7.16.11.1); with `multicast` (a mask of CTAs) at the same place in each.

    Example:

        ptx.kernel @k(%s: b32, %h: b16) attributes {target = "sm_100a", threads = 32 : i32} {
          ptx.tcgen05.commit [%s + 8], 1
          ptx.tcgen05.commit [%s + 8], 1 multicast %h
        }
    """

    name = "ptx.tcgen05.commit"
    addr = operand_def(B32)
    offset = prop_def(IntegerAttr[I64], default_value=ZERO)
    group = prop_def(IntegerAttr[I64])
    multicast = opt_operand_def(B16)
    pred = opt_operand_def(PRED)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "` ` `[` $addr (`+` $offset^)? `]` `,` $group (`multicast` $multicast^)? (`if` $pred^)? "
        "attr-dict"
    )

    def __init__(
        self,
        addr: SSAValue,
        offset: int = 0,
        group: int = 1,
        multicast: SSAValue | None = None,
        pred: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[addr, multicast, pred],
            properties={"offset": integer(offset), "group": integer(group)},
        )

    def verify_(self) -> None:
        at = self.offset.value.data
        check(at % 8 == 0, f"expected an offset that is a multiple of 8 bytes, got {at}")
        _check_group(self.group)


class _Transfer(IRDLOperation):
    """Instructions between registers and tensor memory: number i moves the registers from
    `registers[i]` on, and the tensor memory at `addends[i]` behind the address."""

    def check_transfer(self, array: SSAValue, head: str) -> None:
        modifiers: StringAttr = self.modifiers  # type: ignore[attr-defined]
        count = tmem_registers(modifiers.data)
        registers = entries(self.registers)  # type: ignore[attr-defined]
        addends = entries(self.addends)  # type: ignore[attr-defined]
        type_ = array.type
        assert isinstance(type_, RegsType)
        check(
            type_.cls in ("b32", "f32"),
            f"expected registers of 32 bits for {head}, got {type_.cls}",
        )
        check(len(registers) > 0, "expected at least one instruction, got none")
        check(
            len(addends) == len(registers),
            f"expected {len(registers)} entries in each table, got {len(addends)}",
        )
        check_index("register", registers, type_.count - count + 1)
        check_index("address", addends, 128 << 16)


@irdl_op_definition
class TmemLdOp(_Transfer):
    """`tcgen05.ld`: a warp loads tensor memory; the registers are there after `wait_ld` (PTX ISA
    9.7.16.8.1). Number i defines the registers from `registers[i]` on from `addends[i]` behind the
    address; with `red`, register i of `reduced` too: the least or largest of those of its thread
    (sm_103a).

    Example:

        ptx.kernel @k(%t: b32) attributes {target = "sm_103a", threads = 128 : i32} {
          %r = ptx.regs : !ptx.regs<f32 x 32>
          ptx.tcgen05.ld "sync.aligned.32x32b.x16.b32", %r, %t {
            registers = array<i64: 0, 16>, addends = array<i64: 0, 16>
          } : !ptx.regs<f32 x 32>
          %m = ptx.regs : !ptx.regs<f32 x 2>
          ptx.tcgen05.ld "red.sync.aligned.32x32b.x16.max.f32", %r, %t reduced %m {
            registers = array<i64: 0, 16>, addends = array<i64: 0, 16>
          } : !ptx.regs<f32 x 32>, !ptx.regs<f32 x 2>
          ptx.tcgen05.wait_ld
        }
    """

    name = "ptx.tcgen05.ld"
    modifiers = prop_def(StringAttr)
    array = operand_def(RegsType)
    addr = operand_def(B32)
    reduced = opt_operand_def(RegsType)
    registers = prop_def(DenseArrayBase)
    addends = prop_def(DenseArrayBase)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$modifiers `,` $array `,` $addr (`reduced` $reduced^)? attr-dict `:` type($array) "
        "(`,` type($reduced)^)?"
    )

    def __init__(
        self,
        modifiers: str,
        array: SSAValue,
        addr: SSAValue,
        registers: Sequence[int],
        addends: Sequence[int],
        reduced: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[array, addr, reduced],
            properties={
                "modifiers": StringAttr(modifiers),
                "registers": table(registers),
                "addends": table(addends),
            },
        )

    def verify_(self) -> None:
        self.check_transfer(self.array, "tcgen05.ld")
        modifiers, type_ = self.modifiers.data, None if self.reduced is None else self.reduced.type
        reduces = modifiers.startswith("red.")
        check(
            reduces == (type_ is not None),
            f"expected registers that are reduced with red, and none without, got '{modifiers}' "
            f"and {type_}",
        )
        if isinstance(type_, RegsType):
            check(
                type_.cls in ("b32", "f32") and type_.count >= len(entries(self.registers)),
                f"expected a register of 32 bits for each of {len(entries(self.registers))} "
                f"reductions, got {type_}",
            )
            check(
                _REDUCTION.fullmatch(modifiers) is not None,
                "expected red.sync.aligned, the shape 32x32b, at least .x2, and "
                f".min or .max of f32, u32 or s32, got '{modifiers}'",
            )


@irdl_op_definition
class TmemStOp(_Transfer):
    """`tcgen05.st`: a warp stores to tensor memory; the data is there after `wait_st` (PTX ISA
    9.7.16.8.2). The tables are those of `ptx.tcgen05.ld`.

    Example:

        ptx.kernel @k(%t: b32) attributes {target = "sm_100a", threads = 128 : i32} {
          %r = ptx.regs : !ptx.regs<b32 x 16>
          ptx.tcgen05.st "sync.aligned.32x32b.x16.b32", %t, %r {
            registers = array<i64: 0>, addends = array<i64: 0>
          } : !ptx.regs<b32 x 16>
          ptx.tcgen05.wait_st
        }
    """

    name = "ptx.tcgen05.st"
    modifiers = prop_def(StringAttr)
    addr = operand_def(B32)
    array = operand_def(RegsType)
    registers = prop_def(DenseArrayBase)
    addends = prop_def(DenseArrayBase)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$modifiers `,` $addr `,` $array attr-dict `:` type($array)"

    def __init__(
        self,
        modifiers: str,
        addr: SSAValue,
        array: SSAValue,
        registers: Sequence[int],
        addends: Sequence[int],
    ) -> None:
        super().__init__(
            operands=[addr, array],
            properties={
                "modifiers": StringAttr(modifiers),
                "registers": table(registers),
                "addends": table(addends),
            },
        )

    def verify_(self) -> None:
        self.check_transfer(self.array, "tcgen05.st")


@irdl_op_definition
class TmemCopyOp(IRDLOperation):
    """`tcgen05.cp`: bring a matrix behind a descriptor from shared memory to tensor memory (PTX ISA
    9.7.16.8.3).

    Example:

        ptx.kernel @k(%t: b32, %start: b64) attributes {target = "sm_100a", threads = 32 : i32} {
          %d = ptx.smem_desc %start : !ptx.smem_desc<tcgen05, K, none, leading = 16, stride = 128>
          ptx.tcgen05.cp "cta_group::1.32x128b.warpx4", %t, %d :
            !ptx.smem_desc<tcgen05, K, none, leading = 16, stride = 128>
        }
    """

    name = "ptx.tcgen05.cp"
    modifiers = prop_def(StringAttr)
    addr = operand_def(B32)
    source = operand_def(SmemDescType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$modifiers `,` $addr `,` $source attr-dict `:` type($source)"

    def __init__(self, modifiers: str, addr: SSAValue, source: SSAValue) -> None:
        super().__init__(operands=[addr, source], properties={"modifiers": StringAttr(modifiers)})

    def verify_(self) -> None:
        group, _, shape = self.modifiers.data.partition(".")
        shapes = (
            "128x256b", "4x256b", "128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23",
            "32x128b.warpx4",
        )  # fmt: skip
        check(
            group in ("cta_group::1", "cta_group::2") and shape in shapes,
            f"expected a CTA group and a shape ({', '.join(shapes)}), got '{self.modifiers.data}'",
        )
        check_operand("the source", self.source.type, "tcgen05", None)


@irdl_op_definition
class TmemWaitLdOp(IRDLOperation):
    """Registers that earlier `tcgen05.ld` of this warp define may be used, and the tensor memory be
    overwritten (PTX ISA 9.7.16.8.5).

    Example:

        ptx.kernel @k() attributes {target = "sm_100a", threads = 32 : i32} {
          ptx.tcgen05.wait_ld
        }
    """

    name = "ptx.tcgen05.wait_ld"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class TmemWaitStOp(IRDLOperation):
    """What earlier `tcgen05.st` of this warp stored is there (PTX ISA 9.7.16.8.5).

    Example:

        ptx.kernel @k() attributes {target = "sm_100a", threads = 32 : i32} {
          ptx.tcgen05.wait_st
        }
    """

    name = "ptx.tcgen05.wait_st"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class Tcgen05FenceOp(IRDLOperation):
    """Order `tcgen05` instructions with a signal between threads: `before_thread_sync` the earlier
    ones, `after_thread_sync` the later ones (PTX ISA 9.7.16.11.2).

    Example:

        ptx.kernel @k() attributes {target = "sm_100a", threads = 32 : i32} {
          ptx.tcgen05.fence "before_thread_sync"
          ptx.tcgen05.fence "after_thread_sync"
        }
    """

    name = "ptx.tcgen05.fence"
    side = prop_def(StringAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$side attr-dict"

    def __init__(self, side: str) -> None:
        super().__init__(properties={"side": StringAttr(side)})

    def verify_(self) -> None:
        check(
            self.side.data in _FENCES,
            f"expected a fence ({' or '.join(_FENCES)}), got '{self.side.data}'",
        )
