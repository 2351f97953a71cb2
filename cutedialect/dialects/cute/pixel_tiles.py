"""`cute.pixel_tile`: a tile whose rows are pixels of images, one behind the other."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, i32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from cutedialect.atoms.tensor_map import Window
from cutedialect.dialects.checks import check
from cutedialect.dialects.cute_nvgpu import check_window, parse_window, window_text
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.layout import Layout

from .kernel_ops import parse_tile, print_tile_of
from .types import MemRefType
from .views import parse_types, print_types


@irdl_op_definition
class PixelTileOp(IRDLOperation):
    """One tile of images (N, H, W, C): its rows are pixels, its columns some of their channels.

    Row 0 is the pixel at the coordinates; the channels' coordinate counts tiles, the others count
    elements. The rows behind it are those that the walk of `pixels` (lower corner, upper corner,
    steps of H and W) finds one after the other: along a row of the image, then along the rows, then
    the images, each from its first pixel plus the lower corner to its last one plus the upper
    corner. Then each row is moved by the offsets. What lies outside of the images reads 0. So TMA
    copies them in im2col mode (PTX ISA 5.5.4), whose limits hold for corners and steps; the
    coordinates are those of a place of the walk.

    Example:

        cute.kernel @k(%x: !cute.memref<f16, gmem, align<16>, "(?,?,?,?):(?{i64 div=8},?{i64 div=8},?{i64 div=8},1)">, %n: i32, %h: i32, %w: i32, %k: i32, %r: i32, %s: i32) {
          %t = cute.pixel_tile %x, [128, 64], (%n, %h, %w, %k) + (%r, %s), pixels (-1,-1) (-1,-1) (1,1) : !cute.memref<f16, gmem, align<16>, "(?,?,?,?):(?{i64 div=8},?{i64 div=8},?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,64):(?{i64 div=8},1)">
        }
    """

    name = "cute.pixel_tile"
    memref = operand_def(MemRefType)
    coords = var_operand_def(i32)
    offsets = var_operand_def(i32)
    tile = prop_def(DenseArrayBase)
    window = prop_def(DenseArrayBase)
    result = result_def(MemRefType)
    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        memref: SSAValue,
        tile: Sequence[int],
        coords: Sequence[SSAValue],
        offsets: Sequence[SSAValue],
        window: Window,
    ) -> None:
        type_ = memref.type
        assert isinstance(type_, MemRefType)
        super().__init__(
            operands=[memref, list(coords), list(offsets)],
            properties={
                "tile": DenseArrayBase.from_list(i64, list(tile)),
                "window": _packed(window),
            },
            result_types=[_tile_type(type_, tile)],
        )

    @property
    def walked(self) -> Window:
        """How the rows follow each other."""
        numbers = tuple(self.window.get_values())
        count = len(numbers) // 3
        return Window(*(numbers[at : at + count] for at in range(0, 3 * count, count)))  # pyright: ignore[reportArgumentType]

    @classmethod
    def parse(cls, parser: Parser) -> PixelTileOp:
        def numbers() -> list:
            return parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_unresolved_operand
            )

        memref = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        tile = parse_tile(parser)
        parser.parse_punctuation(",")
        coords = numbers()
        parser.parse_punctuation("+")
        offsets = numbers()
        parser.parse_punctuation(",")
        parser.parse_keyword("pixels")
        window = parse_window(parser)
        attributes, source, result = parse_types(parser)
        pos, given = parser.pos, [*coords, *offsets]
        return cls.create(
            operands=[
                parser.resolve_operand(memref, source),
                *parser.resolve_operands(given, [i32] * len(given), pos),
            ],
            properties={
                "tile": tile,
                "window": _packed(window),
                "operandSegmentSizes": DenseArrayBase.from_list(
                    i32, [1, len(coords), len(offsets)]
                ),
            },
            attributes=attributes,
            result_types=[result],
        )

    def print(self, printer: Printer) -> None:
        print_tile_of(printer, self.memref, self.tile, self.coords)
        printer.print_string(" + (")
        printer.print_list(self.offsets, printer.print_ssa_value)
        printer.print_string(f"), pixels {window_text(self.walked)}")
        print_types(printer, self, self.memref)

    def verify_(self) -> None:
        type_, tile = self.memref.type, self.tile.get_values()
        assert isinstance(type_, MemRefType)
        rank = type_.rank
        check(type_.space == "gmem", f"expected images in global memory, got {type_.space}")
        check(
            3 <= rank <= 5 and len(self.coords) == rank and len(self.offsets) == rank - 2,
            f"expected images of 3 to 5 modes, a coordinate for each, and an offset for each but "
            f"the first and the last, got {rank}, {len(self.coords)} and {len(self.offsets)}",
        )
        check(
            len(tile) == 2 and min(tile) > 0,
            f"expected a tile of static extents, pixels and channels, got {tile}",
        )
        check_window(self.walked, rank)
        expected = _tile_type(type_, tile)
        check(
            self.result.type == expected,
            f"expected the tile's type {expected}, got {self.result.type}",
        )


def _tile_type(type_: MemRefType, tile: Sequence[int]) -> MemRefType:
    """Type of a tile of pixels: neighbors of a row of the image lie as the images have them."""
    return type_.with_layout(Layout(tuple(tile), tuple(type_.stride[-2:])), type_.alignment)


def _packed(window: Window) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, [number for part in window for number in part])
