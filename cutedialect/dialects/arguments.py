"""Arguments of functions of the device, as they are written: `%a: type loc(...)`."""

from __future__ import annotations

from xdsl.parser import Parser


def parse_argument(parser: Parser) -> Parser.Argument:
    """An argument with the location that `--print-debuginfo` writes behind its type."""
    argument = parser.parse_argument()
    argument.location = parser.parse_optional_location()
    return argument
