"""Loads, stores and atomics of one register."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition

from .arrays import SPACES, check_classes, space_of
from .mnemonics import memory_classes, vector_length
from .registers import PRED, RegType, check, reg
from .syntax import class_of, parse_defined, parse_extra, parse_reg, print_extra


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
            check_classes("predicates", [self.pred], "pred")


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
    check_classes("a base", [base], SPACES[space_of(modifiers)])
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
