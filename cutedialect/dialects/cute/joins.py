"""Tiles of memory that are put together from several: what a table of pages leads to."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import prop_def, result_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.layout import Layout

from .attributes import with_attributes
from .types import MemRefType


def concat_type(part: MemRefType, count: int, mode: int) -> MemRefType:
    """Type of so many tiles one after the other along a mode; its strides are those of one."""
    check(part.space == "gmem", f"expected tiles in gmem, got {part.space}")
    check(0 <= mode < part.rank, f"expected a mode in 0..{part.rank - 1}, got {mode}")
    extent = part.modes[mode]
    check(isinstance(extent, int), f"expected a static mode without nesting to join, got {extent}")
    assert isinstance(extent, int)
    modes = (*part.modes[:mode], count * extent, *part.modes[mode + 1 :])
    return part.with_layout(Layout(modes, part.stride))


@irdl_op_definition
class ConcatOp(IRDLOperation):
    """A tile of several of one type, one after the other along a mode; each may lie anywhere.

    Copied to shared memory, as operands of `cute.gemm` are, it is whole; what threads load of it
    comes through there, too. The strides of its type are those inside of each part.

    Example:

        cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(?,64,32):(?{i64 div=8},32,1)">, %i: i32, %j: i32) {
          %0 = arith.constant 0 : i32
          %x = cute.local_tile %a, [*, 16, 32], (%i, %0, %0) : !cute.memref<f16, gmem, align<16>, "(?,64,32):(?{i64 div=8},32,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)">
          %y = cute.local_tile %a, [*, 16, 32], (%j, %0, %0) : !cute.memref<f16, gmem, align<16>, "(?,64,32):(?{i64 div=8},32,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)">
          %t = cute.concat (%x, %y), 0 : !cute.memref<f16, gmem, align<16>, "(16,32):(32,1)"> -> !cute.memref<f16, gmem, align<16>, "(32,32):(32,1)">
        }
    """

    name = "cute.concat"
    parts = var_operand_def(MemRefType)
    mode = prop_def(IntegerAttr)
    result = result_def(MemRefType)
    traits = traits_def(Pure())

    def __init__(self, parts: Sequence[SSAValue], mode: int) -> None:
        type_ = parts[0].type
        assert isinstance(type_, MemRefType)
        super().__init__(
            operands=[list(parts)],
            properties={"mode": IntegerAttr(mode, i64)},
            result_types=[concat_type(type_, len(parts), mode)],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ConcatOp:
        parts = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        parser.parse_punctuation(",")
        mode = parser.parse_integer(allow_boolean=False)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        part = parser.parse_type()
        parser.parse_punctuation("->")
        result = parser.parse_type()
        op = cls.create(
            operands=parser.resolve_operands(parts, [part] * len(parts), parser.pos),
            properties={"mode": IntegerAttr(mode, i64)},
            result_types=[result],
        )
        return with_attributes(op, attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        with printer.in_parens():
            printer.print_list(self.parts, printer.print_ssa_value)
        printer.print_string(f", {self.mode.value.data}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.parts[0].type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        check(len(self.parts) > 0, "expected one tile or more to join, got none")
        types = [part.type for part in self.parts]
        assert isinstance(types[0], MemRefType)
        for type_ in types[1:]:
            check(type_ == types[0], f"expected parts of one type {types[0]}, got {type_}")
        expected = concat_type(types[0], len(types), self.mode.value.data)
        check(
            self.result.type == expected,
            f"expected the joined type {expected}, got {self.result.type}",
        )
