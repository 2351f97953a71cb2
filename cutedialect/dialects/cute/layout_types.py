"""Layouts as types: static layouts, composed layouts and swizzles in the text of NVIDIA's CuTe IR, so
that signatures and tests pass between the two. As attributes they are spelled the same with `#`.
"""

from __future__ import annotations

from xdsl.ir import TypeAttribute
from xdsl.irdl import irdl_attr_definition

from cutedialect.layout import ComposedLayout, Layout, Swizzle
from cutedialect.layout import text as layout_text

from .attributes import QuotedData


@irdl_attr_definition
class LayoutType(QuotedData[Layout], TypeAttribute):
    """A layout as a type: `!cute.layout<"(4,8):(8,1)">`; leaves may be dynamic (`?`)."""

    name = "cute.layout"
    read = staticmethod(layout_text.parse_layout)


@irdl_attr_definition
class ComposedLayoutType(QuotedData[ComposedLayout], TypeAttribute):
    """A composed layout as a type: `!cute.composed_layout<"S<3,4,3> o 0 o (8,64):(64,1)">`.

    Its swizzle acts on *element offsets*; that of a memref acts on byte addresses.
    """

    name = "cute.composed_layout"
    read = staticmethod(layout_text.parse_composed_layout)


@irdl_attr_definition
class SwizzleType(QuotedData[Swizzle], TypeAttribute):
    """A swizzle as a type: `!cute.swizzle<"S<3,4,3>">`."""

    name = "cute.swizzle"
    read = staticmethod(layout_text.parse_swizzle)
