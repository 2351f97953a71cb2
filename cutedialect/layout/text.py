"""Layout text to objects: `(4,8):(8,1)`, `S<3,4,3>`, `((4,?),2)`; errors carry their offset."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from .errors import LayoutError, LayoutSyntaxError
from .int_tuple import Dyn, ScaledBasis
from .layout import Layout
from .swizzle import Swizzle

_LEAF = re.compile(r"(-?\d+)(?:@(\d+))?|\?(?:\{\s*(?:i(32|64))?\s*(?:div=(\d+))?\s*\})?|_")


@lru_cache(maxsize=8192)
def parse_layout(text: str) -> Layout:
    """Read a layout; without strides it is compact column-major."""
    shape, at = _tuple(text, 0)
    at = _space(text, at)
    stride: Any = None
    if at < len(text) and text[at] == ":":
        stride, at = _tuple(text, at + 1)
    _end(text, at)
    try:
        return Layout(shape, stride)
    except LayoutSyntaxError:
        raise
    except LayoutError as error:
        raise LayoutSyntaxError(str(error), 0) from error


@lru_cache(maxsize=4096)
def parse_int_tuple(text: str) -> Any:
    """Read a shape, stride or coordinate."""
    value, at = _tuple(text, 0)
    _end(text, at)
    return value


@lru_cache(maxsize=256)
def parse_swizzle(text: str) -> Swizzle:
    """Read `S<3,4,3>`."""
    match = re.fullmatch(r"\s*S<\s*(\d+)\s*,\s*(\d+)\s*,\s*(-?\d+)\s*>\s*", text)
    if match is None:
        raise LayoutSyntaxError(f"expected a swizzle such as S<3,4,3>, got '{text}'", 0)
    return Swizzle(*map(int, match.groups()))


def _space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _end(text: str, at: int) -> None:
    at = _space(text, at)
    if at < len(text):
        raise LayoutSyntaxError(f"expected the end of the layout, got '{text[at]}'", at)


def _tuple(text: str, at: int, depth: int = 0) -> tuple[Any, int]:
    at = _space(text, at)
    if depth > 64:
        raise LayoutSyntaxError("expected at most 64 nested modes", at)
    if at < len(text) and text[at] == "(":
        items: list[Any] = []
        at = _space(text, at + 1)
        if at < len(text) and text[at] == ")":
            return (), at + 1
        while True:
            item, at = _tuple(text, at, depth + 1)
            items.append(item)
            at = _space(text, at)
            got = text[at : at + 1]
            if got == ")":
                return tuple(items), at + 1
            if got != ",":
                raise LayoutSyntaxError(f"expected ',' or ')', got '{got or 'the end'}'", at)
            at += 1
    match = _LEAF.match(text, at)
    if match is None:
        got = text[at : at + 1] or "the end"
        raise LayoutSyntaxError(f"expected an integer, '?' or '(', got '{got}'", at)
    number, basis, bits, div = match.groups()
    if number is not None:
        if len(number) > 20:
            raise LayoutSyntaxError("expected an integer below 2^63", at)
        value: Any = int(number)
        return (ScaledBasis(value, int(basis)) if basis else value), match.end()
    if match.group() == "_":
        return None, match.end()
    return Dyn(int(div or 1), int(bits or 32)), match.end()
