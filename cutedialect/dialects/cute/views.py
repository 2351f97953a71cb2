"""Views and storage: tiles of tensors, transposes, register tiles and shared-memory buffers.

A view moves no data; what it shows follows from its chain of ops back to a kernel argument or to an
allocation.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.layout import (
    Dyn,
    Layout,
    LayoutError,
    TiledCopy,
    composition,
    flatten,
)

from .attributes import TiledCopyAttr
from .kernel_ops import parse_tile, print_tile, print_tile_of
from .types import FragmentType, MemRefType


def shape_of(type_: Attribute) -> tuple:
    """Logical shape of a memref or fragment."""
    # Asked of every tile by every pass, and `isinstance` is slow of xDSL's abstract classes.
    if type(type_) is FragmentType or type(type_) is MemRefType:
        return type_.shape
    raise VerifyException(f"expected a memref or a fragment, got {type_}")


def names_of(elements: Sequence[Attribute]) -> str:
    return "(" + ", ".join(map(str, elements)) + ")"


def arch_of(op: Operation) -> str | None:
    """The target that the module is compiled for (`cute.arch`), or None before it is known."""
    top = op.get_toplevel_object()
    arch = top.attributes.get("cute.arch") if isinstance(top, Operation) else None
    return arch.data if isinstance(arch, StringAttr) else None


def element_of(type_: Attribute) -> Attribute:
    """Element type of a memref or fragment."""
    shape_of(type_)
    return type_.element  # type: ignore[union-attr]


def same_tile(source: Attribute, destination: Attribute) -> None:
    """Refuse two tiles of different shapes."""
    if shape_of(source) != shape_of(destination):
        raise VerifyException(
            f"expected tiles of one shape, got {shape_of(source)} and {shape_of(destination)}"
        )


def same_element(source: Attribute, destination: Attribute) -> None:
    """Refuse two tiles of different element types."""
    if element_of(source) != element_of(destination):
        raise VerifyException(
            f"expected one element type, got {element_of(source)} and {element_of(destination)}"
        )


def local_tile_type(
    type_: MemRefType,
    tile: Sequence[int],
    of: Sequence[int] | None = None,
    coords: Sequence[SSAValue] = (),
) -> MemRefType:
    """Type of one tile: an extent of -1 keeps the whole mode, 0 drops it. Where coordinates count
    other extents, `of`, the alignment is what every such start keeps.
    """
    kept = [mode for mode, extent in enumerate(tile) if extent != 0]
    check(bool(kept), "expected a tile with at least one mode that is not '*'")
    shape = tuple(type_.modes[mode] if tile[mode] < 0 else tile[mode] for mode in kept)
    alignment = type_.alignment
    for extent, stride, at in zip(of or (), type_.stride, coords, strict=bool(of)):
        if extent > 0 and not is_first(at):
            step = extent * (stride.div if isinstance(stride, Dyn) else stride) * type_.bits // 8
            alignment = min(alignment, step & -step) if step else alignment
    layout = Layout(shape, tuple(type_.stride[mode] for mode in kept))
    return type_.with_layout(layout, alignment)


def is_first(coord: SSAValue) -> bool:
    """Whether a coordinate is known to be 0."""
    op = coord.owner
    return (
        isinstance(op, arith.ConstantOp)
        and isinstance(op.value, IntegerAttr)
        and op.value.value.data == 0
    )


def parse_types(parser: Parser) -> tuple[dict[str, Attribute], Attribute, Attribute]:
    """Attributes, then the types of the source and the result."""
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    source = parser.parse_type()
    parser.parse_punctuation("->")
    return attributes, source, parser.parse_type()


def print_types(printer: Printer, op: Operation, source: SSAValue) -> None:
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    printer.print_attribute(source.type)
    printer.print_string(" -> ")
    printer.print_attribute(op.results[0].type)


GUARD = "guard"
"""On a view: coordinates that may lie outside of the tensor, other than behind a tiled mode's end."""


@irdl_op_definition
class LocalTileOp(IRDLOperation):
    """One tile of a tensor in global memory, at run-time tile coordinates.

    The view's shape is the tile; where the tile hangs over the tensor, loads give 0 and stores
    write nothing. `*` indexes a mode at its coordinate and drops it (batch modes); `_` takes a
    whole mode, whose extent must be static, and whose coordinate is not looked at.

    `of` is what coordinates count where the tile is padded: a tile of these extents is there, and
    what lies behind it in the view is as if outside of the tensor.

    A program may name by `tiled` the tiled copy by which threads are to load and store the tile.

    `cute-tile` lists as `guard` the modes whose coordinate may be negative, or lie behind the end of
    a mode that is dropped; a tile outside of its tensor reads 0 and is not stored.

    Example:

        cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)">, %b: i32, %m: i32, %k: i32) {
          %t = cute.local_tile %a, [*, 128, 32], (%b, %m, %k) : !cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,32):(?{i64 div=8},1)">
          %q = cute.local_tile %a, [*, 128, 32], (%b, %m, %k) {tiled = #cute.tiled_copy<"((4,32),8):((256,1),32)", tiler = "(32,32)">} : !cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(128,32):(?{i64 div=8},1)">
          %p = cute.local_tile %a, [*, 4, 320], (%b, %m, %k) of [*, 4, 264] : !cute.memref<f16, gmem, align<16>, "(?,?,?):(?{i64 div=8},?{i64 div=8},1)"> -> !cute.memref<f16, gmem, align<16>, "(4,320):(?{i64 div=8},1)">
        }
    """

    name = "cute.local_tile"
    memref = operand_def(MemRefType)
    coords = var_operand_def(i32)
    tile = prop_def(DenseArrayBase)
    of = opt_prop_def(DenseArrayBase)
    result = result_def(MemRefType)
    traits = traits_def(Pure())

    def __init__(
        self,
        memref: SSAValue,
        tile: Sequence[int] | DenseArrayBase,
        coords: Sequence[SSAValue],
        of: Sequence[int] | None = None,
    ) -> None:
        if not isinstance(tile, DenseArrayBase):
            tile = DenseArrayBase.from_list(i64, list(tile))
        type_ = memref.type
        if not isinstance(type_, MemRefType):
            raise VerifyException(f"expected a memref to tile, got {type_}")
        extents = tile.get_values()
        if len(extents) != type_.rank:
            raise VerifyException(
                f"expected one tile extent for each of the {type_.rank} modes of {type_.layout}, "
                f"got {len(extents)}"
            )
        super().__init__(
            operands=[memref, list(coords)],
            properties={
                "tile": tile,
                "of": None if of is None else DenseArrayBase.from_list(i64, list(of)),
            },
            result_types=[local_tile_type(type_, extents, of, coords)],
        )

    @property
    def counted(self) -> tuple[int, ...]:
        """The extents that coordinates count, as those of the tile are given."""
        return tuple((self.of or self.tile).get_values())  # pyright: ignore[reportReturnType]

    @classmethod
    def parse(cls, parser: Parser) -> LocalTileOp:
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
        attributes, source, result = parse_types(parser)
        pos = parser.pos
        return cls.create(
            operands=[
                parser.resolve_operand(memref, source),
                *parser.resolve_operands(coords, [i32] * len(coords), pos),
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
        print_types(printer, self, self.memref)

    def verify_(self) -> None:
        type_ = self.memref.type
        assert isinstance(type_, MemRefType)
        tile, of = self.tile.get_values(), self.counted
        check(
            len(of) == len(tile)
            and all(0 < a <= b or a == b for a, b in zip(of, tile, strict=True)),
            f"expected 'of' to list extents from 1 up to those of the tile {tile}, got {of}",
        )
        count = len(self.coords)
        if not len(tile) == count == type_.rank:
            raise VerifyException(
                f"expected one tile extent and one coordinate for each of the {type_.rank} modes "
                f"of {type_.layout}, got {len(tile)} and {count}"
            )
        for extent, mode, leaves in zip(tile, type_.shape, type_.modes, strict=True):
            if extent < 0 and not isinstance(mode, int):
                raise VerifyException(
                    f"expected a mode of static extent for '_', got {mode} in {type_.layout}; give "
                    "the tile's extent"
                )
            if extent >= 0 and isinstance(leaves, tuple):
                raise VerifyException(
                    f"expected '_' for the nested mode {leaves} of {type_.layout}, got "
                    f"{extent or '*'}"
                )
        tiled = self.attributes.get("tiled")
        check(
            tiled is None or isinstance(tiled, TiledCopyAttr),
            f"expected a #cute.tiled_copy as 'tiled', got {tiled}",
        )
        expected = local_tile_type(type_, tile, None if self.of is None else of, self.coords)
        check(
            self.result.type == expected,
            f"expected the tile's type {expected}, got {self.result.type}",
        )


def named_copy(view: SSAValue) -> TiledCopy | None:
    """The tiled copy that a program names for a tile in memory."""
    op = view.owner
    if isinstance(op, TransposeOp):
        found = named_copy(op.source)
        return None if found is None else found.transposed()
    named = op.attributes.get("tiled") if isinstance(op, LocalTileOp) else None
    return named.data if isinstance(named, TiledCopyAttr) else None


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """The same tile with its two modes exchanged; no data moves.

    Example:

        cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">) {
          %t = cute.transpose %a : !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)"> -> !cute.memref<f16, gmem, align<16>, "(32,64):(1,32)">
        }
    """

    name = "cute.transpose"
    source = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue) -> None:
        super().__init__(operands=[source], result_types=[transposed_type(source.type)])

    def verify_(self) -> None:
        expected = transposed_type(self.source.type)
        if self.result.type != expected:
            raise VerifyException(
                f"expected the transposed type {expected}, got {self.result.type}"
            )


def tile_behind(view: SSAValue) -> LocalTileOp | None:
    """The tile of a tensor that a view turns, or is; None where it is something else."""
    while isinstance(view.owner, TransposeOp):
        view = view.owner.source
    return view.owner if isinstance(view.owner, LocalTileOp) else None


def transposed_type(type_: Attribute) -> MemRefType | FragmentType:
    """Type of a memref or fragment with its two modes exchanged; rank 1 counts as (n,1)."""
    shape = shape_of(type_)
    check(len(shape) in (1, 2), f"expected a tile of rank 1 or 2 to transpose, got shape {shape}")
    if isinstance(type_, MemRefType):
        modes, stride = type_.modes, type_.stride
        if len(modes) == 1:
            return type_.with_layout(Layout((1, modes[0]), (0, stride[0])))
        return type_.with_layout(Layout((modes[1], modes[0]), (stride[1], stride[0])))
    assert isinstance(type_, FragmentType)
    tv = type_.tv
    if len(shape) == 1:
        return FragmentType.get(type_.element, (1, shape[0]), tv)
    if tv is not None:
        tv = transposed_tv(tv, shape)
    return FragmentType.get(type_.element, (shape[1], shape[0]), tv)


def transposed_tv(tv: Layout, shape: tuple[int, ...]) -> Layout:
    """Thread-value layout onto column-major (M,N) made one onto column-major (N,M)."""
    rows, columns = shape

    def swap(extent: object, stride: object) -> object:
        if isinstance(extent, tuple):
            assert isinstance(stride, tuple)
            return tuple(swap(e, s) for e, s in zip(extent, stride, strict=True))
        assert isinstance(stride, int)
        assert isinstance(extent, int)
        check(
            stride % rows == 0 or (extent - 1) * stride < rows,
            f"expected each mode of {tv} to stay in one mode of {shape}, got stride {stride}",
        )
        return stride // rows if stride % rows == 0 else stride * columns

    return Layout(tv.shape, swap(tv.shape, tv.stride))


@irdl_op_definition
class SubviewOp(IRDLOperation):
    """A smaller tile inside a tile, at a static coordinate.

    Example:

        cute.kernel @k() {
          %s = cute.alloc_smem : !cute.memref<f16, smem, align<128>, "(64,32):(32,1)">
          %v = cute.subview %s, (0, 16) : !cute.memref<f16, smem, align<128>, "(64,32):(32,1)"> -> !cute.memref<f16, smem, align<128>, "(64,16):(32,1)">
        }
    """

    name = "cute.subview"
    source = operand_def(MemRefType)
    origin = prop_def(DenseArrayBase)
    result = result_def(MemRefType)
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, origin: Sequence[int], shape: Sequence[int]) -> None:
        type_ = source.type
        assert isinstance(type_, MemRefType)
        super().__init__(
            operands=[source],
            properties={"origin": DenseArrayBase.from_list(i64, list(origin))},
            result_types=[subview_type(type_, shape)],
        )

    @classmethod
    def parse(cls, parser: Parser) -> SubviewOp:
        unresolved = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        origin = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_integer(allow_boolean=False)
        )
        attributes, source, result = parse_types(parser)
        return cls.create(
            operands=[parser.resolve_operand(unresolved, source)],
            properties={"origin": DenseArrayBase.from_list(i64, origin)},
            attributes=attributes,
            result_types=[result],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(", (" + ", ".join(map(str, self.origin.get_values())) + ")")
        print_types(printer, self, self.source)

    def verify_(self) -> None:
        source, result = self.source.type, self.result.type
        assert isinstance(source, MemRefType)
        assert isinstance(result, MemRefType)
        origin = self.origin.get_values()
        check(
            len(origin) == source.rank == result.rank,
            f"expected one coordinate for each of the {source.rank} modes, got {len(origin)}",
        )
        expected = subview_type(source, result.shape)
        check(result == expected, f"expected the subview's type {expected}, got {result}")
        for at, extent, whole, mode, stride in zip(
            origin, result.shape, source.shape, source.modes, source.stride, strict=True
        ):
            check(
                isinstance(whole, int) and isinstance(extent, int) and 0 <= at <= whole - extent,
                f"expected {result.shape} at {tuple(origin)} to lie in {source.shape}",
            )
            check(
                not isinstance(mode, tuple)
                or extent == whole
                or _starts_a_part(mode, stride, extent, at),
                f"expected a part of the nested mode {mode} to start at a multiple of "
                f"{min(extent, mode[0]) if isinstance(mode, tuple) else extent} and to carry "
                f"nothing, got {extent} at {at}",
            )


def subview_type(type_: MemRefType, shape: Sequence[int]) -> MemRefType:
    """Type of a smaller tile of the same strides; of a nested mode whole, inside of its first
    factor, or whole factors and a part of the next.
    """
    modes: list[object] = []
    strides: list[object] = []
    for mode, stride, whole, extent in zip(
        type_.modes, type_.stride, type_.shape, shape, strict=True
    ):
        if extent != whole and isinstance(mode, tuple):
            assert isinstance(stride, tuple)
            part = _part(mode, stride, extent)
            check(
                part is not None,
                f"expected the nested mode {mode} of {type_.layout} to stay whole or a part that "
                f"divides {mode[0]} or is a multiple of it, got {extent}",
            )
            assert part is not None
            modes.append(part.shape)
            strides.append(part.stride)
            continue
        modes.append(mode if extent == whole else extent)
        strides.append(stride)
    return type_.with_layout(Layout(tuple(modes), tuple(strides)))


def has_part(type_: MemRefType, origin: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a smaller tile at a static coordinate has a layout of its own."""
    modes = zip(type_.modes, type_.stride, type_.shape, origin, shape, strict=True)
    return all(
        0 <= at <= whole - extent
        and (
            not isinstance(mode, tuple)
            or extent == whole
            or _starts_a_part(mode, stride, extent, at)
        )
        for mode, stride, whole, at, extent in modes
    )


def _part(mode: object, stride: object, extent: int) -> Layout | None:
    """The first elements of a nested mode, where they have a layout of their own."""
    try:
        return composition(Layout(mode, stride), Layout(extent, 1))
    except LayoutError:
        return None


def _starts_a_part(mode: tuple[object, ...], stride: object, extent: int, at: int) -> bool:
    """Whether a part of a nested mode that begins there goes through the same elements as the first
    one, further on.
    """
    sizes = flatten(mode)
    part = _part(mode, stride, extent)
    if part is None:
        return False
    taken = flatten(part.shape)
    if len(taken) == 1:
        return at % extent == 0
    unit = prod(taken[:-1])
    return (
        at % unit == 0 and at // unit % sizes[len(taken) - 1] + taken[-1] <= sizes[len(taken) - 1]
    )
