"""Attributes of the `cute` dialect: layouts, shapes and swizzles as quoted text, and schedules.

Every layout is one string token, spelled as NVIDIA's open CuTe IR spells it; a syntax error in it
is reported at the character that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, TypeVar, cast

from xdsl.ir import Attribute, Data, Operation
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from cutedialect.layout import (
    ComposedLayout,
    Layout,
    LayoutError,
    LayoutSyntaxError,
    Swizzle,
    TiledCopy,
    to_text,
)
from cutedialect.layout import text as layout_text
from cutedialect.schedule import Schedule, ScheduleError

_T = TypeVar("_T")
_Op = TypeVar("_Op", bound=Operation)


def parse_quoted(parser: AttrParser, read: Callable[[str], _T]) -> _T:
    """Read one string literal with `read`; a `LayoutSyntaxError` points at its own character."""
    start = parser.pos
    literal = parser.parse_str_literal()
    try:
        return read(literal)
    except LayoutSyntaxError as error:
        at = start + 1 + error.offset
        parser.raise_error(str(error), at, at + 1)
    except LayoutError as error:
        parser.raise_error(str(error), start, parser.pos)


class QuotedData(Data[_T]):
    """What is one string token in angle brackets; `read` parses it, `str` prints it."""

    read: ClassVar[Callable[[str], object]]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> _T:
        with parser.in_angle_brackets():
            return cast(_T, parse_quoted(parser, cls.read))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(str(self.data))


@irdl_attr_definition
class LayoutAttr(QuotedData[Layout]):
    """A layout: `#cute.layout<"(4,8):(8,1)">`; leaves may be dynamic (`?`)."""

    name = "cute.layout"
    read = staticmethod(layout_text.parse_layout)


@irdl_attr_definition
class ComposedLayoutAttr(QuotedData[ComposedLayout]):
    """A composed layout: `#cute.composed_layout<"S<3,4,3> o 0 o (8,64):(64,1)">`, whose swizzle acts
    on element offsets.
    """

    name = "cute.composed_layout"
    read = staticmethod(layout_text.parse_composed_layout)


@irdl_attr_definition
class SwizzleAttr(QuotedData[Swizzle]):
    """A swizzle of byte addresses: `#cute.swizzle<"S<3,4,3>">`."""

    name = "cute.swizzle"
    read = staticmethod(layout_text.parse_swizzle)


class TiledCopyData(Data[TiledCopy]):
    """A tiled copy in angle brackets, as attribute and as type."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> TiledCopy:
        with parser.in_angle_brackets():
            start = parser.pos
            tv = parse_quoted(parser, layout_text.parse_layout)
            parser.parse_punctuation(",")
            parser.parse_keyword("tiler")
            parser.parse_punctuation("=")
            tiler = parse_quoted(parser, layout_text.parse_int_tuple)
            order = None
            if parser.parse_optional_punctuation(","):
                parser.parse_keyword("order")
                parser.parse_punctuation("=")
                order = parse_quoted(parser, layout_text.parse_int_tuple)
            try:
                return TiledCopy(tv, _numbers(tiler), None if order is None else _numbers(order))
            except LayoutError as error:
                parser.raise_error(str(error), start, parser.pos)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(str(self.data.tv))
            printer.print_string(", tiler = ")
            printer.print_string_literal(to_text(self.data.tiler))
            if self.data.order is not None:
                printer.print_string(", order = ")
                printer.print_string_literal(to_text(self.data.order))


@irdl_attr_definition
class TiledCopyAttr(TiledCopyData):
    """Which thread copies which elements of a tile, beside the atom that says by what instruction:
    `#cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">` maps (thread, value) to a part of
    the tile, which repeats over it in the order of the modes, or in that of `order = "(1,0)"`.
    """

    name = "cute.tiled_copy"


def _numbers(read: object) -> tuple[int, ...]:
    found = read if isinstance(read, tuple) else (read,)
    if not all(isinstance(each, int) for each in found):
        raise LayoutError(f"expected a number for each mode, got {to_text(read)}")
    return cast(tuple[int, ...], found)


@irdl_attr_definition
class ScheduleAttr(Data[Schedule]):
    """The choices of a kernel: `#cute.schedule<"tile = (128,128,32), warps = (2,2)">`."""

    name = "cute.schedule"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Schedule:
        with parser.in_angle_brackets():
            start = parser.pos
            literal = parser.parse_str_literal()
            try:
                return Schedule.parse(literal)
            except ScheduleError as error:
                parser.raise_error(str(error), start, parser.pos)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(self.data.text())


def with_attributes(op: _Op, attributes: Mapping[str, Attribute]) -> _Op:
    """`op` with the attributes that its text has beside its own (`parse_optional_attr_dict`)."""
    op.attributes.update(attributes)
    return op
