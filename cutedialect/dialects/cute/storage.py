"""Storage of tiles: registers, shared memory and tensor memory, the stages of a buffer, and loads
of tiles into registers.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    IntegerAttr,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    MemoryReadEffect,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from cutedialect.atoms.tmem_layouts import COLUMNS, LANE, LANES
from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import ALLOCATES, Effects
from cutedialect.layout import (
    Layout,
    LayoutError,
    coalesce,
    flatten,
    unflatten,
)

from .attributes import TiledCopyAttr
from .types import FragmentType, MemRefType
from .views import (
    parse_types,
    print_types,
    same_element,
    same_tile,
    shape_of,
)

PAIR = "pair"
"""On the buffer of a tile of which each CTA of a pair keeps half of the rows."""
AHEAD = "ahead"
"""On a `cute.stage`: of which trip of the loop around it that is the stage, counted from the
present one."""


@irdl_op_definition
class AllocFragmentOp(IRDLOperation):
    """A mutable register tile; its elements are undefined until written.

    Example:

        cute.kernel @k() {
          %acc = cute.alloc_fragment : !cute.fragment<f32, "(128,128)">
        }
    """

    name = "cute.alloc_fragment"
    result = result_def(FragmentType)
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, type_: FragmentType) -> None:
        super().__init__(result_types=[type_])

    def effects(self) -> Effects:
        return ALLOCATES


def smem_bytes(type_: MemRefType) -> int:
    """How many bytes a buffer takes: whole lines, with what pads the last one as well, since copies
    of lines that begin at any element fill it with the aligned words around them.
    """
    modes = zip(flatten(type_.layout.shape), flatten(type_.layout.stride), strict=True)
    lines = max((extent * stride for extent, stride in modes), default=1)
    return -(-max(type_.layout.cosize(), lines) * type_.bits // 8)


@irdl_op_definition
class AllocSmemOp(IRDLOperation):
    """A buffer in shared memory that lives as long as the CTA.

    Buffers with an `offset` lie so many bytes behind the start of one area, where they may share
    storage: what is written to one is lost in those that it overlaps.

    Example:

        cute.kernel @k() {
          %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<2,4,3>, "(128,32,3):(32,1,4096)">
          %a = cute.alloc_smem {offset = 0 : i64} : !cute.memref<f16, smem, align<128>, "(64,32):(32,1)">
          %b = cute.alloc_smem {offset = 0 : i64} : !cute.memref<f32, smem, align<128>, "(64,32):(32,1)">
        }
    """

    name = "cute.alloc_smem"
    offset = opt_prop_def(IntegerAttr)
    result = result_def(MemRefType)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self, type_: MemRefType) -> None:
        super().__init__(result_types=[type_])

    @property
    def bytes(self) -> int:
        """How many bytes it takes."""
        type_ = self.result.type
        assert isinstance(type_, MemRefType)
        return smem_bytes(type_)

    @property
    def place(self) -> range | None:
        """The bytes that it takes of the area of those that share storage; None beside it."""
        if self.offset is None:
            return None
        return range(self.offset.value.data, self.offset.value.data + self.bytes)

    def effects(self) -> Effects:
        return ALLOCATES

    def verify_(self) -> None:
        type_ = self.result.type
        assert isinstance(type_, MemRefType)
        check(type_.space == "smem", f"expected an smem memref, got {type_.space}")
        if self.offset is not None:
            offset = self.offset.value.data
            check(
                offset >= 0 and offset % type_.alignment == 0,
                f"expected an offset that is a multiple of the alignment ({type_.alignment} "
                f"bytes), got {offset}",
            )
        swizzle = type_.swizzle
        if swizzle is not None:
            repeat = 1 << (swizzle.bits + swizzle.base + abs(swizzle.shift))
            check(
                type_.alignment >= min(repeat, 1024),
                f"expected an alignment of the swizzle's repeat ({repeat} bytes), "
                f"got {type_.alignment}",
            )


@irdl_op_definition
class AllocTmemOp(IRDLOperation):
    """A buffer in tensor memory that lives as long as the CTA.

    Its layout counts elements as addresses count words of 32 bits (PTX ISA 9.7.16.1.1): a lane is
    65536 words, a column one, which holds two elements of 16 bits. A ring has one more mode, as in
    shared memory. `over` another buffer it has the first columns of that one.

    Example:

        cute.kernel @k() {
          %t = cute.alloc_tmem : !cute.memref<f32, tmem, align<4>, "(128,256):(65536,1)">
          %a = cute.alloc_tmem : !cute.memref<f16, tmem, align<4>, "(128,64):(131072,1)">
          %p = cute.alloc_tmem over %t : !cute.memref<f32, tmem, align<4>, "(128,256):(65536,1)"> : !cute.memref<f16, tmem, align<4>, "(128,64):(131072,1)">
        }
    """

    name = "cute.alloc_tmem"
    over = opt_operand_def(MemRefType)
    result = result_def(MemRefType)
    assembly_format = "(`over` $over^ `:` type($over))? attr-dict `:` type($result)"

    def __init__(self, type_: MemRefType, over: SSAValue | None = None) -> None:
        super().__init__(operands=[over], result_types=[type_])

    @property
    def lanes(self) -> int:
        """Lanes from the first to the last that it uses."""
        return 1 + self._last // (LANE * self.packed)

    @property
    def columns(self) -> int:
        """Columns from the first to the last that it uses."""
        return 1 + self._last % (LANE * self.packed) // self.packed

    @property
    def packed(self) -> int:
        """Elements in a word."""
        type_ = self.result.type
        assert isinstance(type_, MemRefType)
        return 32 // type_.bits

    @property
    def _last(self) -> int:
        """The largest address in the buffer."""
        type_ = self.result.type
        assert isinstance(type_, MemRefType)
        return type_.layout.cosize() - 1

    @property
    def dense_layout(self) -> Layout:
        """The layout with lanes next to each other, in a buffer of nothing but tensor memory."""
        type_ = self.result.type
        assert isinstance(type_, MemRefType)
        layout = type_.layout
        lane, columns = LANE * self.packed, COLUMNS * self.packed
        dense = (at // lane * columns + at % lane for at in flatten(layout.stride))
        return Layout(layout.shape, unflatten(dense, layout.shape))

    def effects(self) -> Effects:
        return ALLOCATES

    def verify_(self) -> None:
        type_ = self.result.type
        assert isinstance(type_, MemRefType)
        check(type_.space == "tmem", f"expected a tmem memref, got {type_.space}")
        check(
            type_.bits in (8, 16, 32),
            f"expected elements of 8, 16 or 32 bits in tensor memory, got {type_.bits}",
        )
        check(
            self.columns <= COLUMNS,
            f"expected at most {COLUMNS} columns of tensor memory, got {self.columns}",
        )
        check(
            self.lanes <= LANES,
            f"expected at most {LANES} lanes of tensor memory, got {self.lanes}",
        )
        if self.over is None:
            return
        under = self.over.owner
        if not isinstance(under, AllocTmemOp) or under.over is not None:
            raise VerifyException("expected another buffer with columns of its own under this one")
        check(
            self.columns <= under.columns,
            f"expected at most the {under.columns} columns of the buffer under this one, got "
            f"{self.columns}",
        )


@irdl_op_definition
class StageOp(IRDLOperation):
    """One stage of a ring in shared memory: its last mode at a run-time index.

    Example:

        cute.kernel @k(%i: i32) {
          %s = cute.alloc_smem : !cute.memref<f16, smem, align<1024>, S<2,4,3>, "(64,32,3):(32,1,2048)">
          %v = cute.stage %s[%i] : !cute.memref<f16, smem, align<1024>, S<2,4,3>, "(64,32,3):(32,1,2048)"> -> !cute.memref<f16, smem, align<1024>, S<2,4,3>, "(64,32):(32,1)">
        }
    """

    name = "cute.stage"
    source = operand_def(MemRefType)
    index = operand_def(i32)
    result = result_def(MemRefType)
    traits = traits_def(Pure())

    def __init__(self, source: SSAValue, index: SSAValue, ahead: int | None = None) -> None:
        super().__init__(operands=[source, index], result_types=[stage_type(source.type)])
        if ahead is not None:
            self.attributes[AHEAD] = IntegerAttr(ahead, i32)

    @classmethod
    def parse(cls, parser: Parser) -> StageOp:
        unresolved = parser.parse_unresolved_operand()
        with parser.in_square_brackets():
            index = parser.parse_unresolved_operand()
        attributes, source, result = parse_types(parser)
        return cls.create(
            operands=[
                parser.resolve_operand(unresolved, source),
                parser.resolve_operand(index, i32),
            ],
            attributes=attributes,
            result_types=[result],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        with printer.in_square_brackets():
            printer.print_ssa_value(self.index)
        print_types(printer, self, self.source)

    def verify_(self) -> None:
        expected = stage_type(self.source.type)
        check(
            self.result.type == expected,
            f"expected the stage's type {expected}, got {self.result.type}",
        )


def is_paired(alloc: Operation) -> bool:
    """Whether each CTA of a pair keeps half of a buffer."""
    return PAIR in alloc.attributes


def ring_type(type_: Attribute, stages: int) -> MemRefType:
    """Type of a ring of `stages` buffers of a type."""
    assert isinstance(type_, MemRefType)
    extent = Layout(type_.modes, type_.stride).cosize()
    # A stage starts on the swizzle's repeat, so that the pattern is the same in each.
    repeat = max(1, type_.alignment * 8 // type_.bits)
    if type_.space == "tmem":
        # Stages lie side by side, in all lanes.
        packed = 32 // type_.bits
        extent, repeat = 1 + (extent - 1) % (LANE * packed), packed
    extent = -(-extent // repeat) * repeat
    return type_.with_layout(Layout((*type_.modes, stages), (*type_.stride, extent)))


def stage_type(type_: Attribute) -> MemRefType:
    """Type of one stage of a ring."""
    if not isinstance(type_, MemRefType) or type_.rank < 2:
        raise VerifyException(f"expected a ring of rank 2 or more, got {type_}")
    return type_.with_layout(Layout(type_.modes[:-1], type_.stride[:-1]))


@irdl_op_definition
class LoadOp(IRDLOperation):
    """Read a tile of memory into a new register tile; what lies outside the tensor reads as 0.

    `tiled` is the tiled copy that `cute-partition` gave the register tile its layout from; none
    where that is the layout of another op, such as a multiply's.

    Example:

        cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)">) {
          %x = cute.load %a : !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.fragment<f32, "(64,32)">
          %y = cute.load %a {tiled = #cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">} :
            !cute.memref<f32, gmem, align<16>, "(64,32):(32,1)"> -> !cute.fragment<f32, "(64,32)", "((8,4),(4,16)):((256,1),(64,4))">
        }
    """

    name = "cute.load"
    source = operand_def(MemRefType)
    tiled = opt_prop_def(TiledCopyAttr)
    result = result_def(FragmentType)
    traits = traits_def(MemoryReadEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(
        self,
        source: SSAValue,
        result: FragmentType | None = None,
        tiled: TiledCopyAttr | None = None,
    ) -> None:
        type_ = source.type
        assert isinstance(type_, MemRefType)
        result = result or FragmentType.get(type_.element, type_.shape)
        super().__init__(operands=[source], result_types=[result], properties={"tiled": tiled})

    def effects(self) -> Effects:
        return Effects(reads=(self.source,))

    def verify_(self) -> None:
        same_tile(self.source.type, self.result.type)
        same_element(self.source.type, self.result.type)
        check_tiled(self.tiled, self.source, self.result)


def check_tiled(tiled: TiledCopyAttr | None, *sides: SSAValue) -> None:
    """A tiled copy moves the register tile of a copy as the tile's own layout has it, and whole
    parts of a tile between memories (a tile of several parts part by part).
    """
    if tiled is None:
        return
    held = next((each.type for each in sides if isinstance(each.type, FragmentType)), None)
    shape = shape_of(sides[0].type)
    check(
        len(shape) == len(tiled.data.tiler),
        f"expected a tiler of rank {len(shape)}, got {tiled.data.tiler}",
    )
    if held is None or held.tv is None:
        return
    try:
        mine = tiled.data.tv_layout(shape)
    except LayoutError as error:
        raise VerifyException(str(error)) from error
    check(
        all(coalesce(a) == coalesce(b) for a, b in zip(mine, held.tv, strict=True)),
        f"expected a tiled copy that moves the register tile as {held.tv}, got {mine}",
    )
