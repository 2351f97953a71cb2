"""Memory instructions on register arrays: one op is many instructions, driven by tables.

Instruction i of an op addresses `bases[base[i]] + offset[i]`, moves the registers that `regs` names
(as many as the vector is wide), and is predicated by `preds[pred[i]]` unless that is -1.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition

from .arrays import SPACES, check_classes, check_index, entries, space_of, table
from .mnemonics import memory_classes, vector_length
from .registers import RegsType, RegType, check


class TableOp(IRDLOperation):
    """Base of loads, stores and reductions between a register array and memory."""

    modifiers = prop_def(StringAttr)
    data = operand_def(RegsType)
    bases = var_operand_def(RegType)
    preds = var_operand_def(RegType)
    base = prop_def(DenseArrayBase)
    offset = prop_def(DenseArrayBase)
    regs = prop_def(DenseArrayBase)
    pred = opt_prop_def(DenseArrayBase)
    zero = opt_prop_def(UnitAttr)

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$modifiers `,` $data `[` $bases `]` (`if` $preds^ `:` type($preds))? attr-dict `:` "
        "type($data) `,` type($bases)"
    )

    def __init__(
        self,
        modifiers: str,
        data: SSAValue,
        bases: Sequence[SSAValue],
        base: Sequence[int],
        offset: Sequence[int],
        regs: Sequence[int],
        preds: Sequence[SSAValue] = (),
        pred: Sequence[int] | None = None,
        zero: bool = False,
    ) -> None:
        super().__init__(
            operands=[data, list(bases), list(preds)],
            properties={
                "modifiers": StringAttr(modifiers),
                "base": table(base),
                "offset": table(offset),
                "regs": table(regs),
                "pred": None if pred is None else table(pred),
                "zero": UnitAttr() if zero else None,
            },
        )

    @property
    def count(self) -> int:
        """How many instructions it stands for."""
        return len(entries(self.base))

    def verify_(self) -> None:
        count = self.count
        check(count > 0, "expected at least one instruction, got none")
        check(
            len(entries(self.offset)) == count,
            f"expected {count} offsets, got {len(entries(self.offset))}",
        )
        data = self.data.type
        assert isinstance(data, RegsType)
        registers = entries(self.regs)
        mnemonic = f"{self.name[len('ptx.') :]}.{self.modifiers.data}"
        length = vector_length(mnemonic)
        check(
            len(registers) == count * length,
            f"expected {count * length} registers for {count} of {mnemonic}, got {len(registers)}",
        )
        classes = memory_classes(mnemonic)
        check(
            data.cls in classes,
            f"expected registers of class {' or '.join(classes)} for {mnemonic}, got {data.cls}",
        )
        check_index("base", entries(self.base), len(self.bases))
        check_index("register", registers, data.count)
        if self.pred is not None:
            check(
                len(entries(self.pred)) == count,
                f"expected {count} predicate indices, got {len(entries(self.pred))}",
            )
            check_index("predicate", entries(self.pred), len(self.preds), -1)
        check_classes("bases", self.bases, SPACES[space_of(self.modifiers.data)])
        check_classes("predicates", self.preds, "pred")


@irdl_op_definition
class LdOp(TableOp):
    """Loads (PTX ISA 9.7.9.8); with `zero`, what a predicate switches off becomes 0.

    Example:

        ptx.kernel @k(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
          %x = ptx.regs : !ptx.regs<b32 x 4>
          ptx.ld "global.v2.b32", %x [%a] {
            base = array<i64: 0, 0>, offset = array<i64: 0, 64>, regs = array<i64: 0, 1, 2, 3>
          } : !ptx.regs<b32 x 4>, !ptx.reg<b64>
        }
    """

    name = "ptx.ld"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class StOp(TableOp):
    """Stores (PTX ISA 9.7.9.11).

    Example:

        ptx.kernel @k(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
          %x = ptx.regs : !ptx.regs<f32 x 1>
          ptx.st "global.f32", %x [%a] {
            base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0>
          } : !ptx.regs<f32 x 1>, !ptx.reg<b64>
        }
    """

    name = "ptx.st"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class RedOp(TableOp):
    """Atomic reductions to memory (PTX ISA 9.7.13.6).

    Example:

        ptx.kernel @k(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
          %x = ptx.regs : !ptx.regs<f32 x 1>
          ptx.red "relaxed.gpu.global.add.f32", %x [%a] {
            base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0>
          } : !ptx.regs<f32 x 1>, !ptx.reg<b64>
        }
    """

    name = "ptx.red"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class LdMatrixOp(TableOp):
    """`ldmatrix`: 8x8 matrices of 16-bit elements from shared memory (PTX ISA 9.7.14.5.15).

    Example:

        ptx.kernel @k(%s: b32) attributes {target = "sm_80", threads = 32 : i32} {
          %x = ptx.regs : !ptx.regs<b32 x 4>
          ptx.ldmatrix "sync.aligned.m8n8.x4.shared.b16", %x [%s] {
            base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0, 1, 2, 3>
          } : !ptx.regs<b32 x 4>, !ptx.reg<b32>
        }
    """

    name = "ptx.ldmatrix"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class StMatrixOp(TableOp):
    """`stmatrix`: 8x8 matrices of 16-bit elements to shared memory (PTX ISA 9.7.14.5.16), sm_90.

    Example:

        ptx.kernel @k(%s: b32) attributes {target = "sm_90", threads = 32 : i32} {
          %x = ptx.regs : !ptx.regs<b32 x 2>
          ptx.stmatrix "sync.aligned.m8n8.x2.shared.b16", %x [%s] {
            base = array<i64: 0>, offset = array<i64: 0>, regs = array<i64: 0, 1>
          } : !ptx.regs<b32 x 2>, !ptx.reg<b32>
        }
    """

    name = "ptx.stmatrix"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())


@irdl_op_definition
class CpAsyncOp(IRDLOperation):
    """`cp.async`: global to shared memory, asynchronously (PTX ISA 9.7.9.25.3).

    `sizes[size[i]]` is the number of bytes read, the rest is filled with 0.

    Example:

        ptx.kernel @k(%s: b32, %a: b64) attributes {target = "sm_80", threads = 32 : i32} {
          ptx.cp.async "cg.shared.global", 16, [%s] [%a] {
            dst_base = array<i64: 0>, dst_offset = array<i64: 0>, src_base = array<i64: 0>,
            src_offset = array<i64: 0>
          } : !ptx.reg<b64> -> !ptx.reg<b32>
        }
    """

    name = "ptx.cp.async"
    modifiers = prop_def(StringAttr)
    bytes = prop_def(IntegerAttr)
    dst_bases = var_operand_def(RegType)
    src_bases = var_operand_def(RegType)
    sizes = var_operand_def(RegType)
    preds = var_operand_def(RegType)
    dst_base = prop_def(DenseArrayBase)
    dst_offset = prop_def(DenseArrayBase)
    src_base = prop_def(DenseArrayBase)
    src_offset = prop_def(DenseArrayBase)
    size = opt_prop_def(DenseArrayBase)
    pred = opt_prop_def(DenseArrayBase)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$modifiers `,` $bytes `,` `[` $dst_bases `]` `[` $src_bases `]` "
        "(`size` $sizes^ `:` type($sizes))? (`if` $preds^ `:` type($preds))? attr-dict `:` "
        "type($src_bases) `->` type($dst_bases)"
    )

    def __init__(
        self,
        modifiers: str,
        size_bytes: int,
        dst_bases: Sequence[SSAValue],
        dst: Sequence[tuple[int, int]],
        src_bases: Sequence[SSAValue],
        src: Sequence[tuple[int, int]],
        sizes: Sequence[SSAValue] = (),
        size: Sequence[int] | None = None,
        preds: Sequence[SSAValue] = (),
        pred: Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            operands=[list(dst_bases), list(src_bases), list(sizes), list(preds)],
            properties={
                "modifiers": StringAttr(modifiers),
                "bytes": IntegerAttr(size_bytes, i64),
                "dst_base": table([b for b, _ in dst]),
                "dst_offset": table([o for _, o in dst]),
                "src_base": table([b for b, _ in src]),
                "src_offset": table([o for _, o in src]),
                "size": None if size is None else table(size),
                "pred": None if pred is None else table(pred),
            },
        )

    def verify_(self) -> None:
        count = len(entries(self.dst_base))
        for values in (self.dst_offset, self.src_base, self.src_offset, self.size, self.pred):
            if values is not None:
                check(
                    len(entries(values)) == count,
                    f"expected {count} entries in each table, got {len(entries(values))}",
                )
        check_index("destination", entries(self.dst_base), len(self.dst_bases))
        check_index("source", entries(self.src_base), len(self.src_bases))
        if self.size is not None:
            check_index("size", entries(self.size), len(self.sizes), -1)
        if self.pred is not None:
            check_index("predicate", entries(self.pred), len(self.preds), -1)
        check(
            self.bytes.value.data in (4, 8, 16),
            f"expected cp.async of 4, 8 or 16 bytes, got {self.bytes.value.data}",
        )
        check(
            not self.modifiers.data.startswith("cg") or self.bytes.value.data == 16,
            f"expected cp.async.cg of 16 bytes, got {self.bytes.value.data}",
        )
        check_classes("destinations", self.dst_bases, "b32")
        check_classes("sources", self.src_bases, "b64")
        check_classes("sizes", self.sizes, "b32")
        check_classes("predicates", self.preds, "pred")
