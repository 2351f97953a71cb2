"""Layouts as types: static layouts, composed layouts and swizzles in the text of NVIDIA's CuTe IR, so
that signatures and tests pass between the two. As attributes they are spelled the same with `#`.
"""

from __future__ import annotations

from xdsl.ir import Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from cutedialect.layout import ComposedLayout, Layout, Swizzle
from cutedialect.layout import text as layout_text

from .attributes import parse_quoted


@irdl_attr_definition
class LayoutType(Data[Layout], TypeAttribute):
    """A layout as a type: `!cute.layout<"(4,8):(8,1)">`; leaves may be dynamic (`?`)."""

    name = "cute.layout"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Layout:
        with parser.in_angle_brackets():
            return parse_quoted(parser, layout_text.parse_layout)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(str(self.data))


@irdl_attr_definition
class ComposedLayoutType(Data[ComposedLayout], TypeAttribute):
    """A composed layout as a type: `!cute.composed_layout<"S<3,4,3> o 0 o (8,64):(64,1)">`.

    Its swizzle acts on *element offsets*; that of a memref acts on byte addresses.
    """

    name = "cute.composed_layout"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ComposedLayout:
        with parser.in_angle_brackets():
            return parse_quoted(parser, layout_text.parse_composed_layout)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(str(self.data))


@irdl_attr_definition
class SwizzleType(Data[Swizzle], TypeAttribute):
    """A swizzle as a type: `!cute.swizzle<"S<3,4,3>">`."""

    name = "cute.swizzle"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Swizzle:
        with parser.in_angle_brackets():
            return parse_quoted(parser, layout_text.parse_swizzle)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(str(self.data))
