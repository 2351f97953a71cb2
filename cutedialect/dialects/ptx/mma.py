"""`mma` on register arrays: one op is many instructions, driven by tables."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    prop_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from .arrays import check_index, entries, table
from .mnemonics import mma_counts
from .registers import RegsType, check


@irdl_op_definition
class MmaOp(IRDLOperation):
    """`mma`: D = A B + D on registers (PTX ISA 9.7.14.5), many instructions in a row.

    Instruction i reads `counts` registers of each operand, starting at `c[i]`, `a[i]`, `b[i]`.

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
          %c = ptx.regs : !ptx.regs<f32 x 4>
          %a = ptx.regs : !ptx.regs<b32 x 4>
          %b = ptx.regs : !ptx.regs<b32 x 2>
          ptx.mma "sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", %c, %a, %b {
            counts = array<i64: 4, 4, 2>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
          } : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>
        }
    """

    name = "ptx.mma"
    modifiers = prop_def(StringAttr)
    acc = operand_def(RegsType)
    lhs = operand_def(RegsType)
    rhs = operand_def(RegsType)
    counts = prop_def(DenseArrayBase)
    c = prop_def(DenseArrayBase)
    a = prop_def(DenseArrayBase)
    b = prop_def(DenseArrayBase)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$modifiers `,` $acc `,` $lhs `,` $rhs attr-dict `:` "
        "type($acc) `,` type($lhs) `,` type($rhs)"
    )

    def __init__(
        self,
        modifiers: str,
        acc: SSAValue,
        lhs: SSAValue,
        rhs: SSAValue,
        counts: Sequence[int],
        c: Sequence[int],
        a: Sequence[int],
        b: Sequence[int],
    ) -> None:
        super().__init__(
            operands=[acc, lhs, rhs],
            properties={
                "modifiers": StringAttr(modifiers),
                "counts": table(counts),
                "c": table(c),
                "a": table(a),
                "b": table(b),
            },
        )

    def verify_(self) -> None:
        counts = entries(self.counts)
        check(len(counts) == 3, f"expected counts of C, A and B, got {len(counts)}")
        wanted = mma_counts(f"mma.{self.modifiers.data}")
        check(
            wanted is None or tuple(counts) == wanted,
            f"expected counts {wanted} for mma.{self.modifiers.data}, got {tuple(counts)}",
        )
        starts = (self.c, self.a, self.b)
        check(
            len({len(entries(start)) for start in starts}) == 1,
            "expected tables c, a and b of one length",
        )
        operands = (self.acc, self.lhs, self.rhs)
        for value, start, count in zip(operands, starts, counts, strict=True):
            assert isinstance(value.type, RegsType)
            check_index("register", entries(start), value.type.count - count + 1)
