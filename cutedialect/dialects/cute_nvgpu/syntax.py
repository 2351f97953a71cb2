"""Pieces of syntax that the atom types share."""

from __future__ import annotations

from xdsl.parser import AttrParser

from cutedialect.dialects.checks import check


def parse_key(parser: AttrParser, name: str) -> None:
    """`name =`."""
    parser.parse_keyword(name)
    parser.parse_punctuation("=")


def parse_bits(parser: AttrParser) -> int:
    """`128 b`."""
    bits = parser.parse_integer(allow_boolean=False, allow_negative=False)
    parser.parse_keyword("b")
    return bits


CACHE_HINTS = ("evict_first", "evict_last", "normal")


def parse_cache(parser: AttrParser) -> str:
    """`cache = evict_first`, after the word `cache`: how long L2 keeps what a bulk copy touches."""
    parser.parse_punctuation("=")
    return parser.parse_identifier()


def check_cache(cache: str) -> None:
    """Raise VerifyException for a hint that L2 does not know (PTX ISA 9.7.9.18)."""
    check(cache in CACHE_HINTS, f"expected a cache hint {', '.join(CACHE_HINTS)}, got {cache}")
