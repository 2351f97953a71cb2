"""Pieces of the textual form that several ops of the `ptx` dialect share. Control flow is
structured, so a value is defined above its uses and an operand's type never needs to be written.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from xdsl.dialects.builtin import I64, IntegerAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import AttrParser, Parser
from xdsl.parser.core import UnresolvedOperand
from xdsl.printer import Printer

from .registers import RegType, parse_class, reg


@lru_cache(maxsize=1024)
def integer(value: int) -> IntegerAttr[I64]:
    """An integer as a property of 64 bits."""
    return IntegerAttr(value, i64)


# Values of properties that are not written in the text.
ZERO = integer(0)
ONE = integer(1)


def parse_reg(parser: AttrParser) -> RegType:
    """A register class, as in `b32`."""
    return reg(parse_class(parser))


def class_of(value: SSAValue) -> str:
    """The class of a scalar register."""
    assert isinstance(value.type, RegType)
    return value.type.data


def parse_defined(parser: Parser) -> SSAValue:
    """An operand that is defined above, of whatever type it has."""
    start = parser.pos
    return _resolved(parser, parser.parse_unresolved_operand(), start)


def parse_optional_defined(parser: Parser) -> SSAValue | None:
    """What `parse_defined` reads, if there is an operand."""
    start = parser.pos
    operand = parser.parse_optional_unresolved_operand()
    return None if operand is None else _resolved(parser, operand, start)


def _resolved(parser: Parser, operand: UnresolvedOperand, start: int) -> SSAValue:
    values = parser.ssa_values.get(operand.operand_name, ())
    if operand.index >= len(values):
        parser.raise_error(
            f"expected a value that is defined above, got %{operand.operand_name}",
            start,
            parser.pos,
        )
    return values[operand.index]


def parse_extra(parser: Parser) -> dict[str, Attribute]:
    """The attributes in braces, if any, of an op without a region."""
    return parser.parse_optional_attr_dict()


def print_extra(printer: Printer, attributes: Mapping[str, Attribute]) -> None:
    """What `parse_extra` reads."""
    printer.print_op_attributes(attributes)


def parse_keyword_extra(parser: Parser) -> dict[str, Attribute]:
    """The attributes after the word `attributes`, if any, of an op with a region."""
    found = parser.parse_optional_attr_dict_with_keyword()
    return dict(found.data) if found is not None else {}


def print_keyword_extra(printer: Printer, attributes: Mapping[str, Attribute]) -> None:
    """What `parse_keyword_extra` reads."""
    if attributes:
        printer.print_string("attributes ")
        printer.print_attr_dict(attributes)
        printer.print_string(" ")
