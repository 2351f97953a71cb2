"""Layout text to objects and back: `(4,8):(8,1)`, `S<3,4,3> o 0 o (8,64):(64,1)`, `((4,?),2)`,
`[4:1;8:1]`. The spelling is that of NVIDIA's open CuTe IR; whitespace between tokens is free, and a
syntax error carries the offset of the character that is wrong.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from .composed_layout import ComposedLayout
from .errors import LayoutError, LayoutSyntaxError
from .int_tuple import Dyn, ScaledBasis, flatten, is_tuple, to_text
from .layout import Layout
from .swizzle import Swizzle

_NUMBER = re.compile(r"-?\d+")
_DYN = re.compile(r"\?(?:\{\s*(?:i(32|64)\b)?\s*(?:div\s*=\s*(\d+))?\s*\})?")
_BASIS = re.compile(r"\s*@\s*(\d+)")
_SWIZZLE = re.compile(r"S\s*<\s*(\d+)\s*,\s*(\d+)\s*,\s*(-?\d+)\s*>")


@lru_cache(maxsize=8192)
def parse_layout(text: str) -> Layout:
    """Read a layout; without strides it is compact column-major.

    >>> parse_layout("(4,8)"), parse_layout("(4,?):(?{div=8},1)")
    (Layout((4,8):(1,4)), Layout((4,?):(?{div=8},1)))
    """
    layout, at = _layout(text, 0)
    _end(text, at)
    return layout


@lru_cache(maxsize=4096)
def parse_composed_layout(text: str) -> ComposedLayout:
    """Read `S<3,4,3> o 0 o (8,64):(64,1)`; outside may be a layout too."""
    at = _space(text, 0)
    outer: Layout | Swizzle
    if text[at : at + 1] == "S":
        outer, at = _swizzle(text, at)
    else:
        outer, at = _layout(text, at)
    at = _circle(text, at)
    start = at
    offset, at = _tuple(text, at)
    inner, at = _layout(text, _circle(text, at))
    _end(text, at)
    for leaf in flatten(offset):
        if not isinstance(leaf, int | Dyn):
            raise LayoutSyntaxError(f"expected ints as offset, got {to_text(leaf)}", start)
    try:
        return ComposedLayout(outer, offset, inner)
    except LayoutError as error:
        raise LayoutSyntaxError(str(error), _space(text, start)) from error


def parse(text: str) -> Layout | ComposedLayout | Swizzle:
    """Read a layout, a composed layout or a swizzle, whichever it is.

    >>> parse("S<3,4,3>"), parse("S<3,3,3> o 0 o (8,64):(64,1)")
    (Swizzle(bits=3, base=4, shift=3), ComposedLayout(S<3,3,3> o 0 o (8,64):(64,1)))
    """
    if "o" in text:
        return parse_composed_layout(text)
    return parse_swizzle(text) if text.lstrip().startswith("S") else parse_layout(text)


@lru_cache(maxsize=4096)
def parse_int_tuple(text: str) -> Any:
    """Read a shape, stride or coordinate; `_` is None."""
    value, at = _tuple(text, 0)
    _end(text, at)
    return value


@lru_cache(maxsize=256)
def parse_swizzle(text: str) -> Swizzle:
    """Read `S<3,4,3>`."""
    swizzle, at = _swizzle(text, _space(text, 0))
    _end(text, at)
    return swizzle


@lru_cache(maxsize=1024)
def parse_tile(text: str) -> tuple[Any, ...]:
    """Read a tiler: a tuple of layouts, `None` and tuples.

    >>> parse_tile("[4:1;_;[8:2;2:1]]")
    (Layout(4:1), None, (Layout(8:2), Layout(2:1)))
    """
    tile = parse_tiler(text)
    if not is_tuple(tile):
        raise LayoutSyntaxError(f"expected '[', got '{text.strip()[:1] or 'the end'}'", 0)
    return tile


@lru_cache(maxsize=1024)
def parse_tiler(text: str) -> Any:
    """Read a tiler or one slot of it: a layout, None, or a tuple of them.

    >>> parse_tiler("(4,8):(1,4)"), parse_tiler("[4:1;_]")
    (Layout((4,8):(1,4)), (Layout(4:1), None))
    """
    tile, at = _tile(text, _space(text, 0))
    _end(text, at)
    return tile


def format_tile(tile: Any) -> str:
    """The text of a tiler; an int n is the layout n:1.

    >>> format_tile((4, None, Layout(8, 2)))
    '[4:1;_;8:2]'
    """
    if is_tuple(tile):
        return "[" + ";".join(map(format_tile, tile)) + "]"
    if tile is None:
        return "_"
    return f"{tile}:1" if isinstance(tile, int | Dyn) else str(tile)


def _space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _got(text: str, at: int) -> str:
    return f"'{text[at]}'" if at < len(text) else "the end"


def _end(text: str, at: int) -> None:
    at = _space(text, at)
    if at < len(text):
        raise LayoutSyntaxError(f"expected the end of the layout, got '{text[at]}'", at)


def _circle(text: str, at: int) -> int:
    at = _space(text, at)
    if text[at : at + 1] != "o":
        raise LayoutSyntaxError(f"expected 'o', got {_got(text, at)}", at)
    return at + 1


def _swizzle(text: str, at: int) -> tuple[Swizzle, int]:
    match = _SWIZZLE.match(text, at)
    if match is None:
        raise LayoutSyntaxError(f"expected a swizzle such as S<3,4,3>, got {_got(text, at)}", at)
    try:
        return Swizzle(*map(int, match.groups())), match.end()
    except LayoutError as error:
        raise LayoutSyntaxError(str(error), at) from error


def _layout(text: str, at: int) -> tuple[Layout, int]:
    start = at = _space(text, at)
    shape, at = _tuple(text, at)
    after = _space(text, at)
    stride: Any = None
    if text[after : after + 1] == ":":
        stride, at = _tuple(text, after + 1)
    for leaf in flatten(shape):
        if not isinstance(leaf, int | Dyn):
            raise LayoutSyntaxError(
                f"expected non-negative int extents, got {to_text(leaf)}", start
            )
    try:
        return Layout(shape, stride), at
    except LayoutError as error:
        raise LayoutSyntaxError(str(error), start) from error


def _tile(text: str, at: int, depth: int = 0) -> tuple[Any, int]:
    at = _space(text, at)
    if depth > 64:
        raise LayoutSyntaxError("expected at most 64 nested modes", at)
    if text[at : at + 1] == "_":
        return None, at + 1
    if text[at : at + 1] != "[":
        return _layout(text, at)
    items: list[Any] = []
    while True:
        item, at = _tile(text, at + 1, depth + 1)
        items.append(item)
        at = _space(text, at)
        if text[at : at + 1] == "]":
            return tuple(items), at + 1
        if text[at : at + 1] != ";":
            raise LayoutSyntaxError(f"expected ';' or ']', got {_got(text, at)}", at)


def _tuple(text: str, at: int, depth: int = 0) -> tuple[Any, int]:
    at = _space(text, at)
    if depth > 64:
        raise LayoutSyntaxError("expected at most 64 nested modes", at)
    if text[at : at + 1] != "(":
        return _leaf(text, at)
    items: list[Any] = []
    at = _space(text, at + 1)
    if text[at : at + 1] == ")":
        return (), at + 1
    while True:
        item, at = _tuple(text, at, depth + 1)
        items.append(item)
        at = _space(text, at)
        if text[at : at + 1] == ")":
            return tuple(items), at + 1
        if text[at : at + 1] != ",":
            raise LayoutSyntaxError(f"expected ',' or ')', got {_got(text, at)}", at)
        at += 1


def _leaf(text: str, at: int) -> tuple[Any, int]:
    if text[at : at + 1] == "_":
        return None, at + 1
    value: Any
    if match := _NUMBER.match(text, at):
        if len(match.group()) > 20:
            raise LayoutSyntaxError("expected an integer below 2^63", at)
        value = int(match.group())
    elif match := _DYN.match(text, at):
        bits, div = match.groups()
        if div is not None and int(div) == 0:
            raise LayoutSyntaxError("expected div >= 1, got 0", at)
        value = Dyn(int(div or 1), int(bits or 32))
    else:
        raise LayoutSyntaxError(f"expected an integer, '?' or '(', got {_got(text, at)}", at)
    end = match.end()
    path: list[int] = []
    while basis := _BASIS.match(text, end):
        if len(basis.group(1)) > 3:
            raise LayoutSyntaxError("expected a mode below 1000", basis.start(1))
        path.append(int(basis.group(1)))
        end = basis.end()
    return (ScaledBasis(value, tuple(reversed(path))) if path else value), end
