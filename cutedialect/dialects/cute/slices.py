"""Parts of tensors whose bounds are run-time values, single elements as scalars, and the search for
the part that a work item belongs to: what packed sequences of different lengths need.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, i1, i32, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.layout import Dyn, Layout

from .attributes import with_attributes
from .tile_ops import YieldOp
from .types import MemRefType
from .views import is_first


def slice_type(type_: MemRefType, mode: int, first: SSAValue | None = None) -> MemRefType:
    """Type of a tensor cut along a mode: the extent is a run-time value, and of the alignment
    stays what every start keeps; all of it where `first` is known to be 0.
    """
    check(0 <= mode < type_.rank, f"expected a mode in 0..{type_.rank - 1}, got {mode}")
    stride = type_.stride[mode]
    check(
        not isinstance(type_.modes[mode], tuple),
        f"expected a mode without nesting to cut, got {type_.modes[mode]} in {type_.layout}",
    )
    step = stride.div if isinstance(stride, Dyn) else stride
    bytes_ = step * type_.bits // 8
    keeps = bytes_ == 0 or (first is not None and is_first(first))
    alignment = type_.alignment if keeps else min(type_.alignment, bytes_ & -bytes_)
    modes = tuple(Dyn() if at == mode else extent for at, extent in enumerate(type_.modes))
    return type_.with_layout(Layout(modes, type_.stride), alignment)


_SLICED_VALUES = frozenset(
    f"cute.{kind}"
    for kind in ("shape", "stride", "int_tuple", "coord", "layout", "composed_layout")
)


def _slice_of_values() -> type[Operation]:
    """`cute.slice(%value, %coord)` of CuTe IR."""
    from .algebra import OPS

    return OPS["slice"]


@irdl_op_definition
class SliceOp(IRDLOperation):
    """The elements `first` to `end` - 1 of a tensor along one mode.

    For the tiles of a slice it is the whole tensor: coordinates count from `first`, loads beyond
    `end` give 0 and stores there write nothing. `end` may lie beyond the tensor, and `first` in front
    of it where the op says `guard`: what is not in the tensor reads 0, too.

    Example:

        cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %b: i32, %e: i32) {
          %s = cute.slice %a, 0, (%b, %e) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
        }
    """

    name = "cute.slice"
    source = operand_def(MemRefType)
    first = operand_def(i32)
    end = operand_def(i32)
    mode = prop_def(IntegerAttr)
    result = result_def(MemRefType)
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, mode: int, first: SSAValue, end: SSAValue) -> None:
        type_ = source.type
        assert isinstance(type_, MemRefType)
        super().__init__(
            operands=[source, first, end],
            properties={"mode": IntegerAttr(mode, i64)},
            result_types=[slice_type(type_, mode, first)],
        )

    @classmethod
    def create(cls, *, operands: Sequence[SSAValue] = (), **others: Any) -> Any:
        # CuTe IR has an op of this name on values of the layout algebra: in the generic form only
        # the operands tell which one is meant.
        if operands and getattr(operands[0].type, "name", "") in _SLICED_VALUES:
            return _slice_of_values().create(operands=operands, **others)
        return super().create(operands=operands, **others)

    @classmethod
    def parse(cls, parser: Parser) -> Operation:
        if parser.lexer.input.content[parser.pos : parser.pos + 1] == "(":
            return _slice_of_values().parse(parser)
        unresolved = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        mode = parser.parse_integer(allow_boolean=False)
        parser.parse_punctuation(",")
        bounds = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source = parser.parse_type()
        parser.parse_punctuation("->")
        result = parser.parse_type()
        return cls.create(
            operands=[
                parser.resolve_operand(unresolved, source),
                *parser.resolve_operands(bounds, [i32, i32], parser.pos),
            ],
            properties={"mode": IntegerAttr(mode, i64)},
            attributes=attributes,
            result_types=[result],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(f", {self.mode.value.data}, (")
        printer.print_list((self.first, self.end), printer.print_ssa_value)
        printer.print_string(")")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        type_ = self.source.type
        assert isinstance(type_, MemRefType)
        check(type_.space == "gmem", f"expected a tensor in gmem, got {type_.space}")
        expected = slice_type(type_, self.mode.value.data, self.first)
        check(
            self.result.type == expected,
            f"expected the slice's type {expected}, got {self.result.type}",
        )


@irdl_op_definition
class ReadOp(IRDLOperation):
    """One element of a tensor, the same for the whole CTA. Nothing may write to it meanwhile. With
    `if %p` nothing is read, and the result is 0, unless the (CTA-uniform) condition holds.

    Example:

        cute.kernel @k(%n: !cute.memref<i32, gmem, align<4>, "(?):(1)">, %b: i32, %p: i1) {
          %l = cute.read %n[%b] : !cute.memref<i32, gmem, align<4>, "(?):(1)">
          %m = cute.read %n[%b] if %p : !cute.memref<i32, gmem, align<4>, "(?):(1)">
        }
    """

    name = "cute.read"
    source = operand_def(MemRefType)
    coords = var_operand_def(i32)
    pred = opt_operand_def(i1)
    result = result_def()
    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self, source: SSAValue, coords: Sequence[SSAValue], pred: SSAValue | None = None
    ) -> None:
        type_ = source.type
        assert isinstance(type_, MemRefType)
        super().__init__(operands=[source, list(coords), pred], result_types=[type_.element])

    @classmethod
    def parse(cls, parser: Parser) -> ReadOp:
        unresolved = parser.parse_unresolved_operand()
        coords = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_unresolved_operand
        )
        pred = None
        if parser.parse_optional_keyword("if"):
            pred = parser.resolve_operand(parser.parse_unresolved_operand(), i1)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        type_ = parser.parse_type()
        if not isinstance(type_, MemRefType):
            parser.raise_error(f"expected a memref, got {type_}", start, parser.pos)
        op = cls(
            parser.resolve_operand(unresolved, type_),
            parser.resolve_operands(coords, [i32] * len(coords), parser.pos),
            pred,
        )
        return with_attributes(op, attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        with printer.in_square_brackets():
            printer.print_list(self.coords, printer.print_ssa_value)
        if self.pred is not None:
            printer.print_string(" if ")
            printer.print_ssa_value(self.pred)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)

    def verify_(self) -> None:
        type_ = self.source.type
        assert isinstance(type_, MemRefType)
        check(type_.space == "gmem", f"expected a tensor in gmem, got {type_.space}")
        check(
            len(self.coords) == type_.rank,
            f"expected one coordinate for each of the {type_.rank} modes of {type_.layout}, "
            f"got {len(self.coords)}",
        )
        check(
            self.result.type == type_.element,
            f"expected a result of type {type_.element}, got {self.result.type}",
        )


@irdl_op_definition
class SearchOp(IRDLOperation):
    """The last of the numbers 0 to `count` - 1 whose image is at most `value`; 0 where none is.

    The body gives the image of its argument, which grows with it, by scalar code without effects.

    Example:

        cute.kernel @k(%n: !cute.memref<i32, gmem, align<4>, "(?):(1)">, %count: i32, %item: i32) {
          %s = cute.search %item below %count {
          ^bb0(%i: i32):
            %x = cute.read %n[%i] : !cute.memref<i32, gmem, align<4>, "(?):(1)">
            cute.yield %x : i32
          }
        }
    """

    name = "cute.search"
    value = operand_def(i32)
    count = operand_def(i32)
    body = region_def("single_block")
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$value `below` $count $body attr-dict"

    def __init__(self, value: SSAValue, count: SSAValue, body: Block | Region) -> None:
        super().__init__(
            operands=[value, count],
            regions=[body if isinstance(body, Region) else Region(body)],
            result_types=[i32],
        )

    def verify_(self) -> None:
        types = [arg.type for arg in self.body.block.args]
        check(types == [i32], f"expected a body with one argument of i32, got {types}")
        end = self.body.block.last_op
        check(
            isinstance(end, YieldOp) and end.value.type == i32,
            "expected the body to end with cute.yield of an i32",
        )
