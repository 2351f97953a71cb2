"""Ops that set, rename, cut or read a register tile without computing: no element changes its thread."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i1,
    i32,
    i64,
)
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
from xdsl.traits import HasParent, MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import ALL, Effects

from .attributes import with_attributes
from .tile_ops import MapOp
from .types import FragmentType
from .views import element_of, parse_types, print_types, same_element, same_tile, shape_of


@irdl_op_definition
class FillOp(IRDLOperation):
    """Set every element of a register tile to one scalar.

    Example:

        cute.kernel @k(%x: f32) {
          %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
          cute.fill %acc, %x : !cute.fragment<f32, "(64,64)">
        }
    """

    name = "cute.fill"
    fragment = operand_def(FragmentType)
    value = operand_def()
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, fragment: SSAValue, value: SSAValue) -> None:
        super().__init__(operands=[fragment, value])

    @classmethod
    def parse(cls, parser: Parser) -> FillOp:
        fragment = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        value = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        element = type_.element if isinstance(type_, FragmentType) else type_
        op = cls(parser.resolve_operand(fragment, type_), parser.resolve_operand(value, element))
        return with_attributes(op, attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.fragment)
        printer.print_string(", ")
        printer.print_ssa_value(self.value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.fragment.type)

    def effects(self) -> Effects:
        return Effects(writes=(self.fragment,))

    def verify_(self) -> None:
        element = element_of(self.fragment.type)
        if self.value.type != element:
            raise VerifyException(f"expected a value of type {element}, got {self.value.type}")


@irdl_op_definition
class ConvertOp(IRDLOperation):
    """The same tile in another thread-value layout that leaves every element in its thread.

    Only registers are renamed or moved; a conversion across threads is a copy through smem.

    Example:

        cute.kernel @k(%x: f32) {
          %t = cute.alloc_fragment : !cute.fragment<f32, "(8,4)", "(8,(2,2)):(1,(8,16))">
          %u = cute.convert %t : !cute.fragment<f32, "(8,4)", "(8,(2,2)):(1,(8,16))"> -> !cute.fragment<f32, "(8,4)", "(8,(2,2)):(1,(16,8))">
        }
    """

    name = "cute.convert"
    source = operand_def(FragmentType)
    result = result_def(FragmentType)
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, result: FragmentType) -> None:
        super().__init__(operands=[source], result_types=[result])

    def effects(self) -> Effects:
        return Effects(reads=(self.source,))

    def verify_(self) -> None:
        same_tile(self.source.type, self.result.type)
        same_element(self.source.type, self.result.type)


@irdl_op_definition
class ExtractOp(IRDLOperation):
    """A smaller register tile at a static coordinate of a larger one; no element changes threads.

    Example:

        cute.kernel @k(%x: f32) {
          %t = cute.alloc_fragment : !cute.fragment<f32, "(8,8)", "(8,8):(1,8)">
          cute.fill %t, %x : !cute.fragment<f32, "(8,8)", "(8,8):(1,8)">
          %u = cute.extract %t, (0, 4) : !cute.fragment<f32, "(8,8)", "(8,8):(1,8)"> -> !cute.fragment<f32, "(8,4)", "(8,4):(1,8)">
        }
    """

    name = "cute.extract"
    source = operand_def(FragmentType)
    origin = prop_def(DenseArrayBase)
    result = result_def(FragmentType)
    traits = traits_def(MemoryReadEffect())

    def __init__(self, source: SSAValue, origin: Sequence[int], result: FragmentType) -> None:
        super().__init__(
            operands=[source],
            properties={"origin": DenseArrayBase.from_list(i64, list(origin))},
            result_types=[result],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ExtractOp:
        unresolved = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        origin = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_integer(allow_boolean=False)
        )
        attributes, source, result = parse_types(parser)
        return cls.create(
            operands=[parser.resolve_operand(unresolved, source)],
            properties={"origin": DenseArrayBase.from_list(i64, origin)},
            attributes=attributes,
            result_types=[result],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(", (" + ", ".join(map(str, self.origin.get_values())) + ")")
        print_types(printer, self, self.source)

    def effects(self) -> Effects:
        return Effects(reads=(self.source,))

    def verify_(self) -> None:
        source, result = self.source.type, self.result.type
        same_element(source, result)
        origin = self.origin.get_values()
        whole, part = shape_of(source), shape_of(result)
        check(
            len(origin) == len(whole) == len(part)
            and all(0 <= at <= w - p for at, w, p in zip(origin, whole, part, strict=True)),
            f"expected {part} at {tuple(origin)} to lie in {whole}",
        )


@irdl_op_definition
class AnyOp(IRDLOperation):
    """Whether a condition holds for any element of a register tile, the same for the whole CTA or
    role.

    Where it is `local`, threads may decide for the rows that they hold: it is the same for all that
    hold elements of one row, and true at least where it holds for one. `warps` says that every so
    many neighboring warps decide together: a single one by a vote, several at a barrier.

    Example:

        cute.kernel @k(%c: i1) {
          %t = cute.alloc_fragment : !cute.fragment<i1, "(128,1)">
          cute.fill %t, %c : !cute.fragment<i1, "(128,1)">
          %a = cute.any %t : !cute.fragment<i1, "(128,1)">
          %b = cute.any %t {local, warps = 4 : i32} : !cute.fragment<i1, "(128,1)">
        }
    """

    name = "cute.any"
    source = operand_def(FragmentType)
    local = opt_prop_def(UnitAttr)
    warps = opt_prop_def(IntegerAttr)
    result = result_def(i1)
    traits = traits_def(MemoryReadEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$source attr-dict `:` type($source)"

    def __init__(self, source: SSAValue, local: bool = False) -> None:
        super().__init__(
            operands=[source],
            properties={"local": UnitAttr() if local else None},
            result_types=[i1],
        )

    def effects(self) -> Effects:
        team = ALL if self.warps is None else self.warps.value.data
        return Effects(reads=(self.source,), team=team)

    def verify_(self) -> None:
        element = element_of(self.source.type)
        check(element == i1, f"expected a tile of conditions, got one of {element}")
        check(
            self.warps is None or self.local is not None,
            "expected a local condition where only some warps decide together, got another",
        )


@irdl_op_definition
class ShareOp(IRDLOperation):
    """A condition that one role computes and others take as well: its operand.

    Where `cute-synchronize` has split the roles, `maker` has it with the operand, and each of the
    `takers` has one without, of the same `number`: the condition crosses through shared memory.

    Example:

        cute.kernel @k() {
          %t = cute.alloc_fragment : !cute.fragment<i1, "(128,1)">
          %a = cute.any %t : !cute.fragment<i1, "(128,1)">
          %b = cute.share %a {number = 0 : i32, maker = "main", takers = ["load", "mma"]}
          %c = cute.share {number = 0 : i32, maker = "main", takers = ["load", "mma"]}
        }
    """

    name = "cute.share"
    value = opt_operand_def(i1)
    number = prop_def(IntegerAttr)
    maker = prop_def(StringAttr)
    takers = prop_def(ArrayAttr[StringAttr])
    result = result_def(i1)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "($value^)? attr-dict"

    def __init__(
        self, value: SSAValue | None, number: int, maker: str, takers: Sequence[str]
    ) -> None:
        super().__init__(
            operands=[value],
            properties={
                "number": IntegerAttr(number, i32),
                "maker": StringAttr(maker),
                "takers": ArrayAttr([StringAttr(each) for each in takers]),
            },
            result_types=[i1],
        )

    @property
    def makes(self) -> str:
        """The role that computes the condition."""
        return self.maker.data

    @property
    def takes(self) -> tuple[str, ...]:
        """The roles that get it."""
        return tuple(each.data for each in self.takers)

    def effects(self) -> Effects:
        return Effects(orders=True, by_every_role=True)

    def verify_(self) -> None:
        check(
            self.takes != () and self.makes not in self.takes,
            f"expected other roles than '{self.makes}' to take a condition, got "
            + (", ".join(self.takes) or "none"),
        )


@irdl_op_definition
class CoordOp(IRDLOperation):
    """The coordinate, in the tile, of the element that a map body computes.

    Example:

        cute.kernel @k() {
          %i = cute.map () -> !cute.fragment<i32, "(8,8)"> {
            %c = cute.coord 1
            cute.yield %c : i32
          }
        }
    """

    name = "cute.coord"
    mode = prop_def(IntegerAttr)
    result = result_def(i32)
    traits = traits_def(Pure(), HasParent(MapOp))

    def __init__(self, mode: int) -> None:
        super().__init__(properties={"mode": IntegerAttr(mode, i64)}, result_types=[i32])

    @classmethod
    def parse(cls, parser: Parser) -> CoordOp:
        op = cls(parser.parse_integer(allow_boolean=False))
        return with_attributes(op, parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.mode.value.data}")
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        parent = self.parent_op()
        assert isinstance(parent, MapOp)
        rank = len(shape_of(parent.result.type))
        mode = self.mode.value.data
        check(0 <= mode < rank, f"expected a mode in 0..{rank - 1}, got {mode}")
