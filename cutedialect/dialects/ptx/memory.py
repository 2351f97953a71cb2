"""Memory instructions and MMA on register arrays: one op is many instructions, driven by tables.

Instruction i of an op addresses `bases[base[i]] + offset[i]`, moves the registers that `regs` names
(as many as the vector is wide), and is predicated by `preds[pred[i]]` unless that is -1.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    BytesAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from .mnemonics import memory_classes, mma_counts, vector_length
from .registers import PRED, RegsType, RegType, check, reg
from .syntax import class_of, parse_defined, parse_extra, parse_reg, print_extra

_SPACES = {"global": "b64", "shared": "b32"}


def table(values: Sequence[int]) -> DenseArrayBase:
    """A table of integers as an attribute."""
    return DenseArrayBase(i64, BytesAttr(struct.pack(f"<{len(values)}q", *values)))


def entries(given: Attribute | None) -> tuple[int, ...]:
    """The integers of a table; none if there is no table."""
    if given is None:
        return ()
    check(
        isinstance(given, DenseArrayBase) and isinstance(given.elt_type, IntegerType),
        f"expected a table of integers, got {given}",
    )
    return cast(DenseArrayBase[IntegerType], given).get_values()


def space_of(modifiers: str) -> str:
    """`global` or `shared`: what an instruction addresses."""
    for part in modifiers.split("."):
        if part in _SPACES:
            return part
    check(False, f"expected .global or .shared in the modifiers, got '{modifiers}'")
    raise AssertionError


def _check_index(what: str, values: Sequence[int], limit: int, low: int = 0) -> None:
    wrong = [v for v in values if not low <= v < limit]
    check(not wrong, f"expected {what} indices in {low}..{limit - 1}, got {wrong[:1]}")


def _check_classes(what: str, values: Sequence[SSAValue], wanted: str) -> None:
    for value in values:
        check(
            class_of(value) == wanted, f"expected {what} of class {wanted}, got {class_of(value)}"
        )


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
        _check_index("base", entries(self.base), len(self.bases))
        _check_index("register", registers, data.count)
        if self.pred is not None:
            check(
                len(entries(self.pred)) == count,
                f"expected {count} predicate indices, got {len(entries(self.pred))}",
            )
            _check_index("predicate", entries(self.pred), len(self.preds), -1)
        _check_classes("bases", self.bases, _SPACES[space_of(self.modifiers.data)])
        _check_classes("predicates", self.preds, "pred")


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
        _check_index("destination", entries(self.dst_base), len(self.dst_bases))
        _check_index("source", entries(self.src_base), len(self.src_bases))
        if self.size is not None:
            _check_index("size", entries(self.size), len(self.sizes), -1)
        if self.pred is not None:
            _check_index("predicate", entries(self.pred), len(self.preds), -1)
        check(
            self.bytes.value.data in (4, 8, 16),
            f"expected cp.async of 4, 8 or 16 bytes, got {self.bytes.value.data}",
        )
        check(
            not self.modifiers.data.startswith("cg") or self.bytes.value.data == 16,
            f"expected cp.async.cg of 16 bytes, got {self.bytes.value.data}",
        )
        _check_classes("destinations", self.dst_bases, "b32")
        _check_classes("sources", self.src_bases, "b64")
        _check_classes("sizes", self.sizes, "b32")
        _check_classes("predicates", self.preds, "pred")


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
            _check_index("register", entries(start), value.type.count - count + 1)


@irdl_op_definition
class LdScalarOp(IRDLOperation):
    """Load one register (PTX ISA 9.7.9.8); 0 where a predicate switches it off.

    Example:

        ptx.kernel @k(%a: b64) attributes {target = "sm_80", threads = 32 : i32} {
          %x = ptx.ld.scalar "global.b32", %a {offset = 16 : i64} : !ptx.reg<b64> -> !ptx.reg<b32>
        }
    """

    name = "ptx.ld.scalar"
    modifiers = prop_def(StringAttr)
    base = operand_def(RegType)
    pred = opt_operand_def(PRED)
    offset = prop_def(IntegerAttr)
    res = result_def(RegType)
    traits = traits_def(MemoryReadEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$modifiers `,` $base (`if` $pred^)? attr-dict `:` type($base) `->` type($res)"
    )

    def __init__(
        self,
        modifiers: str,
        base: SSAValue,
        offset: int,
        register_class: str,
        pred: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[base, pred],
            properties={"modifiers": StringAttr(modifiers), "offset": IntegerAttr(offset, i64)},
            result_types=[reg(register_class)],
        )

    def verify_(self) -> None:
        _check_access("ld", self.modifiers.data, self.base, self.res)


@irdl_op_definition
class StScalarOp(IRDLOperation):
    """Store one register, perhaps under a predicate (PTX ISA 9.7.9.11).

    Example:

        ptx.kernel @k(%a: b64, %x: b32) attributes {target = "sm_80", threads = 32 : i32} {
          ptx.st.scalar "global.b32", %x, %a {offset = 16 : i64} : !ptx.reg<b32>, !ptx.reg<b64>
        }
    """

    name = "ptx.st.scalar"
    modifiers = prop_def(StringAttr)
    value = operand_def(RegType)
    base = operand_def(RegType)
    pred = opt_operand_def(RegType)
    offset = prop_def(IntegerAttr)
    traits = traits_def(MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$modifiers `,` $value `,` $base (`if` $pred^ `:` type($pred))? attr-dict `:` "
        "type($value) `,` type($base)"
    )

    def __init__(
        self,
        modifiers: str,
        value: SSAValue,
        base: SSAValue,
        offset: int,
        pred: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[value, base, pred],
            properties={"modifiers": StringAttr(modifiers), "offset": IntegerAttr(offset, i64)},
        )

    def verify_(self) -> None:
        _check_access("st", self.modifiers.data, self.base, self.value)
        if self.pred is not None:
            _check_classes("predicates", [self.pred], "pred")


@irdl_op_definition
class AtomOp(IRDLOperation):
    """Read and modify one register's worth of memory at once (PTX ISA 9.7.13.5); `cas` compares
    with the first value and writes the second.

    Example:

        ptx.kernel @k(%a: b64, %x: b32) attributes {target = "sm_80", threads = 32 : i32} {
          %old = ptx.atom "global.add.u32" %a, 16, %x : b32
          %now = ptx.atom "global.cas.b32" %a, 16, %x, %old : b32
        }
    """

    name = "ptx.atom"
    modifiers = prop_def(StringAttr)
    base = operand_def(RegType)
    values = var_operand_def(RegType)
    offset = prop_def(IntegerAttr)
    res = result_def(RegType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self, modifiers: str, base: SSAValue, offset: int, values: Sequence[SSAValue]
    ) -> None:
        super().__init__(
            operands=[base, list(values)],
            properties={"modifiers": StringAttr(modifiers), "offset": IntegerAttr(offset, i64)},
            result_types=[values[0].type],
        )

    @classmethod
    def parse(cls, parser: Parser) -> AtomOp:
        modifiers = parser.parse_str_literal()
        base = parse_defined(parser)
        parser.parse_punctuation(",")
        offset = parser.parse_integer(allow_boolean=False)
        values: list[SSAValue] = []
        while parser.parse_optional_punctuation(","):
            values.append(parse_defined(parser))
        extra = parse_extra(parser)
        parser.parse_punctuation(":")
        return cls.create(
            operands=[base, *values],
            properties={"modifiers": StringAttr(modifiers), "offset": IntegerAttr(offset, i64)},
            result_types=[parse_reg(parser)],
            attributes=extra,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.modifiers.data)
        printer.print_string(" ")
        printer.print_ssa_value(self.base)
        printer.print_string(f", {self.offset.value.data}")
        for value in self.values:
            printer.print_string(", ")
            printer.print_ssa_value(value)
        print_extra(printer, self.attributes)
        printer.print_string(f" : {class_of(self.res)}")

    def verify_(self) -> None:
        modifiers = self.modifiers.data
        wanted = 2 if "cas" in modifiers.split(".") else 1
        check(
            len(self.values) == wanted,
            f"expected {wanted} values of atom.{modifiers}, got {len(self.values)}",
        )
        for value in (*self.values, self.res):
            _check_access("atom", modifiers, self.base, value)


def _check_access(family: str, modifiers: str, base: SSAValue, value: SSAValue) -> None:
    mnemonic = f"{family}.{modifiers}"
    _check_classes("a base", [base], _SPACES[space_of(modifiers)])
    classes = memory_classes(mnemonic)
    check(
        vector_length(mnemonic) == 1,
        f"expected one register, got the vector instruction {mnemonic}",
    )
    check(
        class_of(value) in classes,
        f"expected a register of class {' or '.join(classes)} for {mnemonic}, "
        f"got {class_of(value)}",
    )
