"""`cute.indexed_tile`: a tile whose rows are those of a tensor that a register tile numbers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.layout import Dyn, Layout

from .kernel_ops import parse_tile, print_tile, print_tile_of
from .types import FragmentType, MemRefType
from .views import local_tile_type, transposed_type


@irdl_op_definition
class IndexedTileOp(IRDLOperation):
    """One tile of a tensor in global memory whose rows lie wherever a tile of numbers says: loads
    gather, stores and atomics scatter.

    `tile` and the coordinates are those of `cute.local_tile`. The first mode that the tile keeps is
    that of its rows: row r of the tile is row `rows[r]` of the tensor, and the coordinate of that
    mode is not looked at. A row whose number is not one of the tensor's reads 0 and is not stored;
    of rows with one number, any may be stored last. A tile of one mode is a column. `of` is what
    coordinates count where columns are padded, as with `cute.local_tile`. With a second tile of
    numbers each row has a coordinate of its own along the second mode, too, in tiles. `pixels` is
    the same tile said in another way (`cute.pixel_tile`), by which TMA can copy it.

    Example:

        cute.kernel @k(%x: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, %r: !cute.memref<i32, gmem, align<16>, "(16,1):(1,0)">, %z: i32, %k: i32) {
          %rows = cute.load %r : !cute.memref<i32, gmem, align<16>, "(16,1):(1,0)"> -> !cute.fragment<i32, "(16,1)">
          %t = cute.indexed_tile %x, [16, 64], (%z, %k), %rows : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.fragment<i32, "(16,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,64):(?{i64 div=8},1)">
          %v = cute.load %t : !cute.memref<f16, gmem, align<16>, "(16,64):(?{i64 div=8},1)"> -> !cute.fragment<f16, "(16,64)">
          %p = cute.indexed_tile %x, [16, 320], (%z, %k) of [16, 264], %rows : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.fragment<i32, "(16,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,320):(?{i64 div=8},1)">
          %b = cute.indexed_tile %x, [16, 8], (%z, %z), %rows at %rows : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">, !cute.fragment<i32, "(16,1)"> -> !cute.memref<f16, gmem, align<16>, "(16,8):(?{i64 div=8},1)">
        }
    """

    name = "cute.indexed_tile"
    memref = operand_def(MemRefType)
    coords = var_operand_def(i32)
    rows = operand_def(FragmentType)
    places = opt_operand_def(FragmentType)
    pixels = opt_operand_def(MemRefType)
    tile = prop_def(DenseArrayBase)
    of = opt_prop_def(DenseArrayBase)
    result = result_def(MemRefType)
    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        memref: SSAValue,
        tile: Sequence[int],
        coords: Sequence[SSAValue],
        rows: SSAValue,
        of: Sequence[int] | None = None,
        places: SSAValue | None = None,
        pixels: SSAValue | None = None,
    ) -> None:
        type_ = memref.type
        assert isinstance(type_, MemRefType)
        super().__init__(
            operands=[memref, list(coords), rows, places, pixels],
            properties={
                "tile": DenseArrayBase.from_list(i64, list(tile)),
                "of": None if of is None else DenseArrayBase.from_list(i64, list(of)),
            },
            result_types=[indexed_tile_type(type_, tile, of, coords)],
        )

    @property
    def mode(self) -> int:
        """The mode of the tensor that the rows number."""
        return next(mode for mode, extent in enumerate(self.tile.get_values()) if extent != 0)

    @property
    def last(self) -> int:
        """The last mode that the tile keeps: that of the columns, where there are several."""
        kept = [mode for mode, extent in enumerate(self.tile.get_values()) if extent != 0]
        return kept[-1]

    @property
    def counted(self) -> tuple[int, ...]:
        """The extents that coordinates count, as those of the tile are given."""
        return tuple((self.of or self.tile).get_values())  # pyright: ignore[reportReturnType]

    @classmethod
    def parse(cls, parser: Parser) -> IndexedTileOp:
        memref = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        tile = parse_tile(parser)
        parser.parse_punctuation(",")
        coords = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        properties: dict[str, Attribute] = {"tile": tile}
        if parser.parse_optional_keyword("of"):
            properties["of"] = parse_tile(parser)
        parser.parse_punctuation(",")
        rows = parser.parse_unresolved_operand()
        places = None
        if parser.parse_optional_keyword("at"):
            places = parser.parse_unresolved_operand()
        pixels = None
        if parser.parse_optional_keyword("or"):
            pixels = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source = parser.parse_type()
        parser.parse_punctuation(",")
        numbers = parser.parse_type()
        others: list[SSAValue] = []
        if pixels is not None:
            parser.parse_punctuation(",")
            others.append(parser.resolve_operand(pixels, parser.parse_type()))
        parser.parse_punctuation("->")
        result = parser.parse_type()
        pos = parser.pos
        moved = [] if places is None else [parser.resolve_operand(places, numbers)]
        properties["operandSegmentSizes"] = DenseArrayBase.from_list(
            i32, [1, len(coords), 1, len(moved), len(others)]
        )
        return cls.create(
            operands=[
                parser.resolve_operand(memref, source),
                *parser.resolve_operands(coords, [i32] * len(coords), pos),
                parser.resolve_operand(rows, numbers),
                *moved,
                *others,
            ],
            properties=properties,
            attributes=attributes,
            result_types=[result],
        )

    def print(self, printer: Printer) -> None:
        print_tile_of(printer, self.memref, self.tile, self.coords)
        if self.of is not None:
            printer.print_string(" of ")
            print_tile(printer, self.of)
        printer.print_string(", ")
        printer.print_ssa_value(self.rows)
        if self.places is not None:
            printer.print_string(" at ")
            printer.print_ssa_value(self.places)
        if self.pixels is not None:
            printer.print_string(" or ")
            printer.print_ssa_value(self.pixels)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.memref.type)
        printer.print_string(", ")
        printer.print_attribute(self.rows.type)
        if self.pixels is not None:
            printer.print_string(", ")
            printer.print_attribute(self.pixels.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        type_, rows = self.memref.type, self.rows.type
        assert isinstance(type_, MemRefType)
        assert isinstance(rows, FragmentType)
        tile, of = self.tile.get_values(), self.counted
        check(type_.space == "gmem", f"expected a tensor in global memory, got {type_.space}")
        check(
            len(tile) == len(self.coords) == type_.rank,
            f"expected one tile extent and one coordinate for each of the {type_.rank} modes of "
            f"{type_.layout}, got {len(tile)} and {len(self.coords)}",
        )
        kept = [extent for extent in tile if extent != 0]
        check(
            len(kept) in (1, 2) and kept[0] > 0,
            f"expected a tile of one or two modes, the first of them of a static extent, got {tile}",
        )
        check(
            rows.shape == (kept[0], 1) and rows.element == IntegerType(32),
            f"expected i32 numbers of {kept[0]} rows, as a column, got {rows}",
        )
        check(
            self.places is None or (self.places.type == rows and len(kept) == 2),
            f"expected a tile of two modes whose rows have places {rows}, got {tile}, "
            f"{self.places and self.places.type}",
        )
        for extent, mode, leaves in zip(tile, type_.shape, type_.modes, strict=True):
            check(
                extent >= 0 or isinstance(mode, int),
                f"expected a mode of static extent for '_', got {mode} in {type_.layout}",
            )
            check(
                extent < 0 or not isinstance(leaves, tuple),
                f"expected '_' for the nested mode {leaves} of {type_.layout}, got {extent or '*'}",
            )
        check(
            len(of) == len(tile)
            and of[self.mode] == tile[self.mode]
            and all(0 < a <= b or a == b for a, b in zip(of, tile, strict=True)),
            f"expected 'of' to list extents from 1 up to those of the tile {tile}, and all of its "
            f"rows, got {of}",
        )
        if self.pixels is not None:
            _check_pixels(self.pixels.type, type_.element, tuple(kept))
        expected = indexed_tile_type(type_, tile, None if self.of is None else of, self.coords)
        check(
            self.result.type == expected,
            f"expected the tile's type {expected}, got {self.result.type}",
        )


def _check_pixels(type_: Attribute, element: Attribute, tile: tuple[int, ...]) -> None:
    """Refuse pixels that are another tile than the rows."""
    assert isinstance(type_, MemRefType)
    check(
        type_.shape == tile and type_.element == element,
        f"expected pixels as a tile {tile} of {element}, got {type_}",
    )


def indexed_tile_type(
    type_: MemRefType,
    tile: Sequence[int],
    of: Sequence[int] | None = None,
    coords: Sequence[SSAValue] = (),
) -> MemRefType:
    """Type of a tile whose rows are numbered: that of `cute.local_tile`, as a matrix. Rows of a
    tensor that lie beside each other do not do so in the tile.
    """
    made = local_tile_type(type_, tile, of, coords)
    if made.rank == 1:
        made = transposed_type(transposed_type(made))
    elif made.stride[0] == 1:
        made = made.with_layout(Layout(made.modes, (Dyn(bits=64), *made.stride[1:])))
    assert isinstance(made, MemRefType)
    return made
