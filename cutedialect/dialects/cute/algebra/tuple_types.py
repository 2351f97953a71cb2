"""Tuples as types and attributes: int tuples, shapes, strides, coordinates and tiles, one quoted string
each, spelled as NVIDIA's CuTe IR spells them.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import TypeAttribute
from xdsl.irdl import irdl_attr_definition

from cutedialect.dialects.cute.attributes import QuotedData
from cutedialect.dialects.cute.layout_types import check_layout, check_strides
from cutedialect.layout import Layout, LayoutError, LayoutSyntaxError, ScaledBasis, to_text
from cutedialect.layout import flatten as leaves_of
from cutedialect.layout.text import format_tile, parse_int_tuple, parse_tiler


def parse_ints(text: str) -> Any:
    """A tuple without slices and basis vectors."""
    value = parse_int_tuple(text)
    for leaf in leaves_of(value):
        if leaf is None or isinstance(leaf, ScaledBasis):
            raise LayoutError(f"expected ints and '?', got {to_text(leaf)}")
    return value


def parse_coord(text: str) -> Any:
    """A tuple without basis vectors; a slice is None."""
    value = parse_int_tuple(text)
    for leaf in leaves_of(value):
        if isinstance(leaf, ScaledBasis):
            raise LayoutError(f"expected ints, '?' and '_', got {leaf}")
    return value


def parse_stride(text: str) -> Any:
    """A tuple without slices."""
    if "_" in text:
        raise LayoutSyntaxError("expected an int, '?' or a scaled basis", text.index("_"))
    return parse_int_tuple(text)


class TupleData(QuotedData[Any]):
    """A tuple in quotes."""

    def print_parameter(self, printer: Any) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(to_text(self.data))


class TileData(QuotedData[Any]):
    """A tiler in quotes: a layout, `_`, or a list of them in brackets."""

    def print_parameter(self, printer: Any) -> None:
        with printer.in_angle_brackets():
            printer.print_string_literal(format_tile(self.data))


@irdl_attr_definition
class IntTupleAttr(TupleData):
    """An int or a nested tuple of ints: `#cute.int_tuple<"(1,(2,?))">`."""

    name = "cute.int_tuple"
    read = staticmethod(parse_ints)


@irdl_attr_definition
class IntTupleType(TupleData, TypeAttribute):
    """An int tuple as a type: `!cute.int_tuple<"(?,?{i64})">`; dynamic leaves are of the value."""

    name = "cute.int_tuple"
    read = staticmethod(parse_ints)


@irdl_attr_definition
class ShapeAttr(TupleData):
    """Extents: `#cute.shape<"(4,(2,?))">`."""

    name = "cute.shape"
    read = staticmethod(parse_ints)


@irdl_attr_definition
class ShapeType(TupleData, TypeAttribute):
    """Extents as a type: `!cute.shape<"(4,(2,?))">`."""

    name = "cute.shape"
    read = staticmethod(parse_ints)


@irdl_attr_definition
class StrideAttr(TupleData):
    """Strides, ints or basis vectors of coordinates: `#cute.stride<"(1@0,1@1)">`."""

    name = "cute.stride"
    read = staticmethod(parse_stride)


@irdl_attr_definition
class StrideType(TupleData, TypeAttribute):
    """Strides as a type: `!cute.stride<"(16,?)">`."""

    name = "cute.stride"
    read = staticmethod(parse_stride)

    def verify(self) -> None:
        check_strides(self.data)


@irdl_attr_definition
class CoordAttr(TupleData):
    """A coordinate, in which `_` takes a whole mode: `#cute.coord<"(_,3)">`."""

    name = "cute.coord"
    read = staticmethod(parse_coord)


@irdl_attr_definition
class CoordType(TupleData, TypeAttribute):
    """A coordinate as a type: `!cute.coord<"(_,?)">`."""

    name = "cute.coord"
    read = staticmethod(parse_coord)


@irdl_attr_definition
class TileAttr(TileData):
    """A tiler, a layout or `_` for each mode: `#cute.tile<"[4:1;_]">`."""

    name = "cute.tile"
    read = staticmethod(parse_tiler)


@irdl_attr_definition
class TileType(TileData, TypeAttribute):
    """A tiler as a type: `!cute.tile<"[4:1;8:2]">`."""

    name = "cute.tile"
    read = staticmethod(parse_tiler)

    def verify(self) -> None:
        for slot in leaves_of(self.data):
            if isinstance(slot, Layout):
                check_layout(slot)


ATTRIBUTES = (
    IntTupleAttr,
    IntTupleType,
    ShapeAttr,
    ShapeType,
    StrideAttr,
    StrideType,
    CoordAttr,
    CoordType,
    TileAttr,
    TileType,
)
