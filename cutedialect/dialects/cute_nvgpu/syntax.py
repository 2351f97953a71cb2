"""Pieces of syntax that the atom types share."""

from __future__ import annotations

from xdsl.parser import AttrParser
from xdsl.utils.exceptions import VerifyException


def parse_key(parser: AttrParser, name: str) -> None:
    """`name =`."""
    parser.parse_keyword(name)
    parser.parse_punctuation("=")


def parse_bits(parser: AttrParser) -> int:
    """`128 b`."""
    bits = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_keyword("b")
    return bits


def expect(condition: bool, message: str) -> None:
    """Raise VerifyException with `message` unless the condition holds."""
    if not condition:
        raise VerifyException(message)
