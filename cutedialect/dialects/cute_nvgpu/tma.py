"""The tensor memory accelerator: tensor maps, its copy atoms, and the groups of its stores.

A tensor map is made on the host from a whole tensor and a box; one thread then starts the copy of a
box, which ends in an mbarrier (loads) or in a bulk group of that thread (stores).
"""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import Float32Type, FloatTF32Type, IntegerAttr, UnitAttr, i32
from xdsl.ir import Attribute, Data, SSAValue, TypeAttribute
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from cutedialect.atoms.smem_layouts import SWIZZLE_32B
from cutedialect.atoms.tensor_map import (
    REDUCTIONS,
    Window,
    check_reduction,
    span_of,
    swizzle_mode,
)
from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import ALL, ORDERS, Effects, Unit
from cutedialect.dialects.element_names import element_name
from cutedialect.layout import Swizzle

from .copy_atoms import CopyType
from .syntax import check_cache, parse_cache, parse_key

# What TMA writes: spans of 32, 64 and 128 bytes, and 128 of which 32 stay together.
_SWIZZLES = (Swizzle(1, 4, 3), Swizzle(2, 4, 3), Swizzle(3, 4, 3), SWIZZLE_32B)


@irdl_attr_definition
class TmaDescriptorType(Data[tuple], TypeAttribute):
    """A tensor map: `!cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>`.

    Element, the box's extent in each mode of the tensor, and the swizzle of byte addresses in
    shared memory (left out: none). PTX ISA 5.5. A map of `tf32` of a tensor of `f32` rounds to
    nearest as it loads. With `slice 0` at the end it is one for tiles of slices along mode 0: what
    lies behind a slice's end is out of bounds. With `pixels (-1,-1) (-1,-1) (1,1)` it is one for
    images (PTX ISA 5.5.4, im2col mode): copies walk over their pixels, between the lower and the
    upper corner and by the steps of the modes between the first and the last one, and a box has
    its pixels along the last of these. With `packed` it is one of bytes that hold elements of 6 bits
    without gaps: boxes count these, which get gaps in shared memory, 16 of them 16 bytes (PTX ISA
    5.5.1.1).
    """

    name = "cute_nvgpu.tma_descriptor"

    @classmethod
    def get(
        cls,
        element: Attribute,
        box: tuple[int, ...],
        swizzle: Swizzle | None = None,
        sliced: int | None = None,
        window: Window | None = None,
        packed: bool = False,
    ) -> TmaDescriptorType:
        return cls((element, tuple(box), swizzle, sliced, window, packed))

    @property
    def element(self) -> Attribute:
        return self.data[0]

    @property
    def box(self) -> tuple[int, ...]:
        """Elements of one box in each mode of the tensor."""
        return self.data[1]

    @property
    def swizzle(self) -> Swizzle | None:
        return self.data[2]

    @property
    def sliced(self) -> int | None:
        """The mode along which tiles are those of slices."""
        return self.data[3]

    @property
    def window(self) -> Window | None:
        """How copies walk over the pixels of images."""
        return self.data[4]

    @property
    def is_packed(self) -> bool:
        """Whether bytes hold its elements without gaps."""
        return self.data[5]

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        with parser.in_angle_brackets():
            element = parser.parse_type()
            parser.parse_punctuation(",")
            box = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN,
                lambda: parser.parse_integer(allow_boolean=False, allow_negative=False),
            )
            swizzle = sliced = window = None
            packed = False
            while parser.parse_optional_punctuation(",") is not None:
                if parser.parse_optional_keyword("slice") is not None:
                    sliced = parser.parse_integer(allow_boolean=False, allow_negative=False)
                elif parser.parse_optional_keyword("packed") is not None:
                    packed = True
                elif parser.parse_optional_keyword("pixels") is not None:
                    window = parse_window(parser)
                else:
                    swizzle = _parse_swizzle(parser)
            return element, tuple(box), swizzle, sliced, window, packed

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.element)
            printer.print_string(", (" + ",".join(map(str, self.box)) + ")")
            if self.swizzle is not None:
                printer.print_string(f", {self.swizzle}")
            if self.sliced is not None:
                printer.print_string(f", slice {self.sliced}")
            if self.window is not None:
                printer.print_string(f", pixels {window_text(self.window)}")
            if self.is_packed:
                printer.print_string(", packed")

    def verify(self) -> None:
        check(1 <= len(self.box) <= 5, f"expected a box of rank 1 to 5, got {len(self.box)}")
        check(
            self.sliced is None or self.sliced < len(self.box),
            f"expected a slice along one of {len(self.box)} modes, got {self.sliced}",
        )
        wrong = [extent for extent in self.box if not 1 <= extent <= 256]
        check(not wrong, f"expected box extents in 1..256, got {wrong[:1]}")
        swizzle = self.swizzle
        check(
            swizzle is None or swizzle in _SWIZZLES,
            "expected the swizzle S<1,4,3>, S<2,4,3> or S<3,4,3> of byte addresses (on sm_100 also "
            f"S<2,5,2>), got {swizzle}",
        )
        if self.window is not None:
            check_window(self.window, len(self.box))
            check(
                self.sliced is None and set(self.box[:-2]) == {1},
                f"expected boxes of pixels along the last mode but one, of no slice, got {self.box}",
            )


def _parse_swizzle(parser: AttrParser) -> Swizzle:
    parser.parse_keyword("S")
    with parser.in_angle_brackets():
        numbers = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, lambda: parser.parse_integer(allow_boolean=False)
        )
    if len(numbers) != 3:
        parser.raise_error(f"expected S<bits,base,shift>, got {len(numbers)} numbers")
    return Swizzle(*numbers)


def parse_window(parser: AttrParser) -> Window:
    """A walk over pixels: `(-1,-1) (-1,-1) (1,1)`, its lower corner, upper corner and steps."""
    parts = [
        tuple(parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_integer))
        for _ in range(3)
    ]
    return Window(*parts)


def window_text(window: Window) -> str:
    """The text that `parse_window` reads."""
    return " ".join("(" + ",".join(map(str, part)) + ")" for part in window)


def check_window(window: Window, rank: int) -> None:
    """Refuse a walk that a tensor map of a rank has not."""
    check(
        len(window.lower) == rank - 2,
        f"expected corners of the {rank - 2} modes between the first and the last one, got "
        f"{window_text(window)}",
    )
    try:
        window.check()
    except ValueError as error:
        raise VerifyException(str(error)) from error


def _check_reduction(operation: str, element: Attribute) -> None:
    """What encodes and assembles may still be an illegal instruction."""
    try:
        check_reduction(operation, element_name(element))
    except ValueError as error:
        raise VerifyException(str(error)) from error


@irdl_attr_definition
class TmaLoadType(CopyType):
    """`cp.async.bulk.tensor` into shared memory: `!cute_nvgpu.atom.tma_load<f16>`.

    With `multicast = n:s`, CTAs whose cluster ranks differ by multiples of s (n of them) want the
    same tile: each loads one n-th of it for all of them. With `pair`, the two CTAs of a pair (ranks
    2i and 2i + 1) share the tile: each keeps its half of the rows, of which the CTAs of a multicast
    load their parts, and a multiply of the pair reads both (PTX ISA 9.7.16.5). `cache = evict_first`
    (or `evict_last`, `normal`) tells L2 how long to keep what is read (PTX ISA 9.7.9.18). With
    `rows` the tile is one of numbered rows (`cute.indexed_tile`): lanes copy four of them each
    (`.tile::gather4`, PTX ISA 5.5.3.4).
    """

    name = "cute_nvgpu.atom.tma_load"
    unit = Unit.TMA_LOAD

    @classmethod
    def get(
        cls,
        element: Attribute,
        multicast: tuple[int, int] | None = None,
        cache: str | None = None,
        pair: bool = False,
        rows: bool = False,
    ) -> TmaLoadType:
        return cls((element, multicast, cache, pair, rows))

    @property
    def element(self) -> Attribute:
        return self.data[0]

    @property
    def multicast(self) -> tuple[int, int] | None:
        """(CTAs that share the tile, step between their ranks)."""
        return self.data[1]

    @property
    def cache(self) -> str | None:
        """L2 hint; None leaves it to the hardware."""
        return self.data[2]

    @property
    def is_paired(self) -> bool:
        """Whether each CTA of a pair keeps half of the tile."""
        return self.data[3]

    @property
    def gathers(self) -> bool:
        """Whether the rows of the tile are numbered."""
        return self.data[4]

    def entry_name(self, rank: int) -> str:
        if self.gathers:
            return "tma_gather4"
        return f"tma_load_{rank}d{'_multicast' if self.multicast else ''}"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        multicast, cache, pair, rows = None, None, False, False
        with parser.in_angle_brackets():
            element = parser.parse_type()
            while parser.parse_optional_punctuation(","):
                if parser.parse_optional_keyword("cache"):
                    cache = parse_cache(parser)
                    continue
                if parser.parse_optional_keyword("pair"):
                    pair = True
                    continue
                if parser.parse_optional_keyword("rows"):
                    rows = True
                    continue
                parse_key(parser, "multicast")
                extent = parser.parse_integer(allow_boolean=False, allow_negative=False)
                parser.parse_punctuation(":")
                multicast = extent, parser.parse_integer(allow_boolean=False)
        return element, multicast, cache, pair, rows

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.element)
            if self.multicast is not None:
                printer.print_string(f", multicast = {self.multicast[0]}:{self.multicast[1]}")
            if self.is_paired:
                printer.print_string(", pair")
            if self.gathers:
                printer.print_string(", rows")
            if self.cache is not None:
                printer.print_string(f", cache = {self.cache}")

    def verify(self) -> None:
        check(
            not (self.gathers and (self.multicast or self.is_paired)),
            "expected rows to be gathered by each CTA for itself, got a multicast or a pair",
        )
        if self.cache is not None:
            check_cache(self.cache)
        if self.multicast is not None:
            extent, step = self.multicast
            check(
                extent in (2, 4, 8, 16) and step in (1, 2, 4, 8) and extent * step <= 16,
                f"expected a multicast to 2, 4, 8 or 16 CTAs of one cluster, got {extent}:{step}",
            )


@irdl_attr_definition
class TmaStoreType(CopyType):
    """`cp.async.bulk.tensor` out of shared memory: `!cute_nvgpu.atom.tma_store<f16>`.

    `tma_store<f32, reduce = add>` combines with what is there (`cp.reduce.async.bulk.tensor`). With
    `warps = 4` every four warps store their own equal part of the rows, or, with `along = 1`, of
    the columns: a thread of theirs starts it, instead of one thread for all. `cache` is as of
    `tma_load`.
    """

    name = "cute_nvgpu.atom.tma_store"
    unit = Unit.TMA_STORE

    @classmethod
    def get(
        cls,
        element: Attribute,
        reduce: str | None = None,
        warps: int | None = None,
        cache: str | None = None,
        along: int = 0,
    ) -> TmaStoreType:
        return cls((element, reduce, warps, cache, along))

    @property
    def element(self) -> Attribute:
        return self.data[0]

    @property
    def reduce(self) -> str | None:
        return self.data[1]

    @property
    def warps(self) -> int | None:
        """Warps that store a part together; None is all of the role."""
        return self.data[2]

    @property
    def cache(self) -> str | None:
        """L2 hint; None leaves it to the hardware."""
        return self.data[3]

    @property
    def along(self) -> int:
        """The mode that is divided where some warps store a part each."""
        return self.data[4]

    def entry_name(self, rank: int) -> str:
        return f"tma_reduce_{self.reduce}_{rank}d" if self.reduce else f"tma_store_{rank}d"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple:
        reduce, warps, cache, along = None, None, None, 0
        with parser.in_angle_brackets():
            element = parser.parse_type()
            while parser.parse_optional_punctuation(","):
                if parser.parse_optional_keyword("warps"):
                    parser.parse_punctuation("=")
                    warps = parser.parse_integer(allow_boolean=False)
                elif parser.parse_optional_keyword("along"):
                    parser.parse_punctuation("=")
                    along = parser.parse_integer(allow_boolean=False)
                elif parser.parse_optional_keyword("cache"):
                    cache = parse_cache(parser)
                else:
                    parse_key(parser, "reduce")
                    reduce = parser.parse_identifier()
        return element, reduce, warps, cache, along

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.element)
            if self.reduce is not None:
                printer.print_string(f", reduce = {self.reduce}")
            if self.warps is not None:
                printer.print_string(f", warps = {self.warps}")
            if self.along:
                printer.print_string(f", along = {self.along}")
            if self.cache is not None:
                printer.print_string(f", cache = {self.cache}")

    def verify(self) -> None:
        check(
            self.along == 0 or (self.along == 1 and self.warps is not None),
            f"expected a mode, 0 or 1, that some warps divide, got {self.along}",
        )
        check(
            self.reduce is None or self.reduce in REDUCTIONS,
            f"expected a reduction {', '.join(REDUCTIONS)}, got {self.reduce}",
        )
        if self.reduce is not None:
            _check_reduction(self.reduce, self.element)
        check(
            self.warps is None or 1 <= self.warps <= 32,
            f"expected parts of 1 to 32 warps, got {self.warps}",
        )
        if self.cache is not None:
            check_cache(self.cache)


@irdl_op_definition
class MakeTmaDescriptorOp(IRDLOperation):
    """Host part: the tensor map of a whole tensor, for boxes of its type's shape, or the maps of
    a group of tensors.

    The driver's innermost dimension is the tensor's contiguous mode, then come the others from the
    last to the first.

    Example:

        func.func @launch(%a: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">) {
          %t = cute_nvgpu.make_tma_descriptor %a : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)"> -> !cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>
          func.return
        }
    """

    name = "cute_nvgpu.make_tma_descriptor"
    memref = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$memref attr-dict `:` type($memref) `->` type($result)"

    def __init__(self, memref: SSAValue, result: Attribute) -> None:
        super().__init__(operands=[memref], result_types=[result])

    def verify_(self) -> None:
        from cutedialect.dialects.cute import GroupType, MemRefType

        type_, made = self.memref.type, self.result.type
        if isinstance(type_, GroupType) and isinstance(made, GroupType):
            type_, made = type_.member, made.member
        check(
            isinstance(made, TmaDescriptorType),
            f"expected a tensor map, or a group of them for a group of tensors, got {made}",
        )
        assert isinstance(made, TmaDescriptorType)
        check(
            isinstance(type_, MemRefType) and type_.space == "gmem",
            f"expected a tensor in gmem, got {type_}",
        )
        assert isinstance(type_, MemRefType)
        check(
            len(made.box) == type_.rank,
            f"expected a box of the tensor's rank {type_.rank}, got {len(made.box)}",
        )
        check(
            type_.element == made.element
            or (isinstance(made.element, FloatTF32Type) and isinstance(type_.element, Float32Type)),
            f"expected a map of {type_.element}, got {made.element}",
        )
        contiguous = [mode for mode, stride in enumerate(type_.stride) if stride == 1]
        check(
            bool(contiguous) and type_.alignment >= 16,
            f"expected a tensor with a contiguous mode, aligned to 16 bytes, got {type_}",
        )
        sliced = made.sliced
        if sliced is not None:
            across = [extent for mode, extent in enumerate(made.box) if mode not in contiguous]
            check(
                sliced not in contiguous and prod(across) == made.box[sliced],
                f"expected boxes of rows of slices, along the contiguous mode {contiguous[0]} and "
                f"mode {sliced}, got ({','.join(map(str, made.box))})",
            )
        row = made.box[contiguous[0]] * type_.bits // 8
        span = span_of(swizzle_mode(made.swizzle)) if made.swizzle is not None else 1 << 20
        check(
            row % 16 == 0 and row <= span,
            f"expected a box row of a multiple of 16 bytes and at most {span}, got {row}",
        )


@irdl_op_definition
class TmaPrefetchOp(IRDLOperation):
    """Start to bring a tile of global memory to L2, box by box of a tensor map; nothing waits for
    it (PTX ISA 9.7.9.25.5.4).

    Example:

        cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, %t: !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>) {
          cute_nvgpu.tma_prefetch %a tma %t : !cute.memref<f16, gmem, align<16>, "(64,64):(64,1)">, !cute_nvgpu.tma_descriptor<f16, (64,64), S<3,4,3>>
        }
    """

    name = "cute_nvgpu.tma_prefetch"
    tile = operand_def()
    descriptor = operand_def(TmaDescriptorType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$tile `tma` $descriptor attr-dict `:` type($tile) `,` type($descriptor)"

    def __init__(self, tile: SSAValue, descriptor: SSAValue) -> None:
        super().__init__(operands=[tile, descriptor])

    def effects(self) -> Effects:
        return Effects(unit=Unit.TMA_LOAD, orders=True)

    def verify_(self) -> None:
        from cutedialect.dialects.cute import MemRefType

        type_ = self.tile.type
        check(
            isinstance(type_, MemRefType) and type_.space == "gmem",
            f"expected a tile in gmem, got {type_}",
        )


@irdl_op_definition
class TmaStoreCommitOp(IRDLOperation):
    """Close a group of TMA stores of the storing thread (PTX ISA 9.7.9.25.6.1); with `warps`, of
    the one in each so many warps.

    Example:

        cute.kernel @k() {
          cute_nvgpu.tma_store_commit
        }
    """

    name = "cute_nvgpu.tma_store_commit"
    warps = opt_prop_def(IntegerAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def __init__(self, warps: int | None = None) -> None:
        super().__init__(properties={"warps": None if warps is None else IntegerAttr(warps, i32)})

    def effects(self) -> Effects:
        team = self.warps.value.data if self.warps is not None else ALL
        return Effects(orders=True, team=team, closes=Unit.TMA_STORE)


@irdl_op_definition
class TmaStoreWaitOp(IRDLOperation):
    """The storing thread waits until at most `pending` groups are on their way.

    With `read` the shared memory they read may be written again; without it the stores are done.
    With `warps`, the storing thread of each so many warps waits for its own.

    Example:

        cute.kernel @k() {
          cute_nvgpu.tma_store_wait {pending = 1 : i32, read}
        }
    """

    name = "cute_nvgpu.tma_store_wait"
    pending = prop_def(IntegerAttr)
    read = opt_prop_def(UnitAttr)
    warps = opt_prop_def(IntegerAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def __init__(self, pending: int, read: bool, warps: int | None = None) -> None:
        super().__init__(
            properties={
                "pending": IntegerAttr(pending, i32),
                "read": UnitAttr() if read else None,
                "warps": None if warps is None else IntegerAttr(warps, i32),
            }
        )

    def effects(self) -> Effects:
        team = self.warps.value.data if self.warps is not None else ALL
        return Effects(orders=True, team=team, completes=Unit.TMA_STORE)


@irdl_op_definition
class ProxyFenceOp(IRDLOperation):
    """This thread's writes to shared memory become visible to TMA and wgmma (PTX ISA 9.7.13.4).

    Example:

        cute.kernel @k() {
          cute_nvgpu.fence_proxy_async
        }
    """

    name = "cute_nvgpu.fence_proxy_async"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()

    def effects(self) -> Effects:
        return Effects(orders=True, fences=True)


@irdl_op_definition
class FenceTensorMapsOp(IRDLOperation):
    """The CTA's later TMA copies see the tensor maps of a group as the host wrote them to global
    memory. The threads share the maps, so a barrier of all of them comes between this op and the
    first copy (PTX ISA 9.7.13.4, CUDA programming guide 10.30.2).

    Example:

        cute.kernel @k(%maps: !cute.group<!cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>>) {
          cute_nvgpu.fence_tensor_maps %maps : !cute.group<!cute_nvgpu.tma_descriptor<f16, (128,64), S<3,4,3>>>
        }
    """

    name = "cute_nvgpu.fence_tensor_maps"
    maps = operand_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$maps attr-dict `:` type($maps)"

    def __init__(self, maps: SSAValue) -> None:
        super().__init__(operands=[maps])

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        from cutedialect.dialects.cute import GroupType

        type_ = self.maps.type
        check(
            isinstance(type_, GroupType) and isinstance(type_.member, TmaDescriptorType),
            f"expected a group of tensor maps, got {type_}",
        )
