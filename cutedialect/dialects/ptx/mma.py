"""`mma` on register arrays: one op is many instructions, driven by tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition

from .arrays import check_index, entries, table
from .mnemonics import mma_counts
from .registers import RegsType, check

# Threads of a quad that give words of scales, and bytes of a word.
_LAST_A, _LAST_B, _BYTES = 1, 3, 4


@dataclass(frozen=True)
class MmaScales:
    """Words of scales of A and B: the registers, which word and thread of a quad each instruction
    takes, and the first byte of both.
    """

    a: SSAValue
    b: SSAValue
    of_a: Sequence[tuple[int, int]]
    of_b: Sequence[tuple[int, int]]
    byte: int = 0

    @property
    def properties(self) -> dict[str, Attribute]:
        """What the op has of them."""
        found: dict[str, Attribute] = {}
        for name, places in (("a", self.of_a), ("b", self.of_b)):
            found[f"words_{name}"] = table([word for word, _ in places])
            found[f"threads_{name}"] = table([thread for _, thread in places])
        if self.byte:
            found["byte"] = IntegerAttr(self.byte, i32)
        return found


@irdl_op_definition
class MmaOp(IRDLOperation):
    """`mma`: D = A B + D on registers (PTX ISA 9.7.14.5), many instructions in a row.

    Instruction i reads `counts` registers of each operand, starting at `c[i]`, `a[i]`, `b[i]`. With
    `scales` of A and of B in words of registers (block scaling), it takes word `words_a[i]` of the
    thread `threads_a[i]` of each quad, from byte `byte` on, and the same of B.

    Example:

        ptx.kernel @k() attributes {target = "sm_120a", threads = 32 : i32} {
          %c = ptx.regs : !ptx.regs<f32 x 4>
          %a = ptx.regs : !ptx.regs<b32 x 4>
          %b = ptx.regs : !ptx.regs<b32 x 2>
          ptx.mma "sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", %c, %a, %b {
            counts = array<i64: 4, 4, 2>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>
          } : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>
        }

        ptx.kernel @scaled() attributes {target = "sm_120a", threads = 32 : i32} {
          %c = ptx.regs : !ptx.regs<f32 x 4>
          %a = ptx.regs : !ptx.regs<b32 x 4>
          %b = ptx.regs : !ptx.regs<b32 x 2>
          %s = ptx.regs : !ptx.regs<b32 x 1>
          ptx.mma "sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3", %c, %a, %b scales %s, %s {
            counts = array<i64: 4, 4, 2>, c = array<i64: 0>, a = array<i64: 0>, b = array<i64: 0>,
            words_a = array<i64: 0>, threads_a = array<i64: 1>, words_b = array<i64: 0>, threads_b = array<i64: 3>
          } : !ptx.regs<f32 x 4>, !ptx.regs<b32 x 4>, !ptx.regs<b32 x 2>, !ptx.regs<b32 x 1>, !ptx.regs<b32 x 1>
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
    scales = var_operand_def(RegsType)
    words_a = opt_prop_def(DenseArrayBase)
    threads_a = opt_prop_def(DenseArrayBase)
    words_b = opt_prop_def(DenseArrayBase)
    threads_b = opt_prop_def(DenseArrayBase)
    byte = opt_prop_def(IntegerAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$modifiers `,` $acc `,` $lhs `,` $rhs (`scales` $scales^)? attr-dict `:` "
        "type($acc) `,` type($lhs) `,` type($rhs) (`,` type($scales)^)?"
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
        scales: MmaScales | None = None,
    ) -> None:
        super().__init__(
            operands=[acc, lhs, rhs, [] if scales is None else [scales.a, scales.b]],
            properties={
                "modifiers": StringAttr(modifiers),
                "counts": table(counts),
                "c": table(c),
                "a": table(a),
                "b": table(b),
                **({} if scales is None else scales.properties),
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
        self._verify_scales()
        starts = (self.c, self.a, self.b)
        check(
            len({len(entries(start)) for start in starts}) == 1,
            "expected tables c, a and b of one length",
        )
        operands = (self.acc, self.lhs, self.rhs)
        for value, start, count in zip(operands, starts, counts, strict=True):
            assert isinstance(value.type, RegsType)
            check_index("register", entries(start), value.type.count - count + 1)

    def _verify_scales(self) -> None:
        tables = (self.words_a, self.words_b, self.threads_a, self.threads_b)
        is_scaled = ".block_scale." in self.modifiers.data
        check(
            len(self.scales) == (2 if is_scaled else 0)
            and all((each is not None) == is_scaled for each in tables),
            "expected scales of A and B with their words and threads for a form with block_scale, "
            "none for another one",
        )
        count = len(entries(self.c))
        for value, words, threads, last in zip(
            self.scales, tables[:2], tables[2:], (_LAST_A, _LAST_B), strict=is_scaled
        ):
            assert isinstance(value.type, RegsType)
            assert words is not None
            assert threads is not None
            check(
                len(entries(words)) == len(entries(threads)) == count,
                "expected tables of words and threads as long as those of registers",
            )
            check_index("word", entries(words), value.type.count)
            check_index("thread of a quad", entries(threads), last + 1)
        check(0 <= self.first_byte < _BYTES, f"expected a byte of a word, got {self.first_byte}")

    @property
    def first_byte(self) -> int:
        """The byte of a word of scales from which on an instruction takes some."""
        return 0 if self.byte is None else self.byte.value.data
