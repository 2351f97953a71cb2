"""Tiled copies and multiplies as values, which are made of layouts of the layout algebra, and what
takes them. They stand wholly in their types: `cute-fold-static` leaves in their place the attributes
that passes know, and `cute-expand-ops` views in that of partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, StringAttr, i32
from xdsl.ir import Attribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_attr_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from cutedialect.atoms import copy_atom
from cutedialect.atoms.tiled_mma import TiledMma
from cutedialect.dialects.checks import check, check_result
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.layout import (
    Dyn,
    Layout,
    LayoutError,
    ThrCopy,
    TiledCopy,
)

from .algebra import TileType
from .attributes import QuotedData, TiledCopyData
from .layout_types import LayoutType
from .tensor_layouts import view_type
from .types import MemRefType
from .views import LocalTileOp

COPY_SIDES = ("S", "D")
MMA_SIDES = ("A", "B", "C")


@irdl_attr_definition
class TiledCopyType(TiledCopyData, TypeAttribute):
    """A tiled copy as a type: `!cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">`."""

    name = "cute.tiled_copy"


def _read_mma(text: str) -> TiledMma:
    try:
        return TiledMma.parse(text)
    except ValueError as error:
        raise LayoutError(str(error)) from error


@irdl_attr_definition
class TiledMmaType(QuotedData[TiledMma], TypeAttribute):
    """A tiled multiply as a type, in the text of `TiledMma`:
    `!cute.tiled_mma<"(mma_m16n8k16_f32_f16; (2,2,1):(1,2,0); (32,32,16))">`.
    """

    name = "cute.tiled_mma"
    read = staticmethod(_read_mma)


@irdl_op_definition
class MakeTiledCopyOp(IRDLOperation):
    """The tiled copy of a layout of threads and one of values: threads side by side, each with a
    block of values. Both give an index for each coordinate of the tile that they cover, which
    repeats over larger tiles in the order of the modes, or as `order` says.

    The layouts are static: a kernel names the registers of each thread.

    Example:

        func.func @f() {
          %t = cute.static : !cute.layout<"(4,8):(8,1)">
          %v = cute.static : !cute.layout<"(1,4):(4,1)">
          %c = cute.make_tiled_copy %t, %v : !cute.layout<"(4,8):(8,1)">, !cute.layout<"(1,4):(4,1)"> ->
            !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">
          func.return
        }
    """

    name = "cute.make_tiled_copy"
    threads = operand_def(LayoutType)
    values = operand_def(LayoutType)
    order = opt_prop_def(DenseArrayBase)
    result = result_def(TiledCopyType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$threads `,` $values attr-dict `:` type($threads) `,` type($values) `->` type($result)"
    )

    def verify_(self) -> None:
        parts = [_static(operand, what) for operand, what in (
            (self.threads, "threads"), (self.values, "values"),
        )]  # fmt: skip
        order = None if self.order is None else tuple(self.order.get_values())
        expected = TiledCopyType(_legal(lambda: TiledCopy.of(parts[0], parts[1], order)))
        check_result(self.result, expected)


@irdl_op_definition
class MakeTiledMmaOp(IRDLOperation):
    """The tiled multiply of an MMA atom, by name, over a layout of warps along M, N and K, and over
    the permutation of a tile. Layouts are static, as those of `cute.make_tiled_copy`.

    Example:

        func.func @f() {
          %w = cute.static : !cute.layout<"(2,2,1):(1,2,0)">
          %t = cute.static : !cute.tile<"[32:1;(8,2,2):(1,16,8);16:1]">
          %m = cute.make_tiled_mma %w, %t {atom = "mma_m16n8k16_f32_f16"} :
            !cute.layout<"(2,2,1):(1,2,0)">, !cute.tile<"[32:1;(8,2,2):(1,16,8);16:1]"> ->
            !cute.tiled_mma<"(mma_m16n8k16_f32_f16; (2,2,1):(1,2,0); (32:1,(8,2,2):(1,16,8),16:1))">
          %n = cute.make_tiled_mma %w {atom = "mma_m16n8k16_f32_f16"} :
            !cute.layout<"(2,2,1):(1,2,0)"> -> !cute.tiled_mma<"(mma_m16n8k16_f32_f16; (2,2,1):(1,2,0))">
          func.return
        }
    """

    name = "cute.make_tiled_mma"
    warps = operand_def(LayoutType)
    tile = opt_operand_def(TileType)
    atom = prop_def(StringAttr)
    result = result_def(TiledMmaType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$warps (`,` $tile^)? attr-dict `:` type($warps) (`,` type($tile)^)? `->` type($result)"
    )

    def verify_(self) -> None:
        warps = _static(self.warps, "warps")
        tile: Any = (None, None, None)
        if self.tile is not None:
            assert isinstance(self.tile.type, TileType)
            entries = self.tile.type.data
            check(
                isinstance(entries, tuple) and len(entries) == len(MMA_SIDES),
                f"expected a tile of M, N and K, got {self.tile.type}",
            )
            tile = tuple(
                None if entry is None else str(_known(entry, "a permutation")) for entry in entries
            )
        expected = TiledMmaType(_legal(lambda: TiledMma(self.atom.data, str(warps), tile)))
        check_result(self.result, expected)


@irdl_op_definition
class TiledTileOp(IRDLOperation):
    """A tile of a tensor that threads load and store, or bring to a multiply, by a tiled copy.
    `cute-fold-static` names it on the `cute.local_tile`.

    Example:

        cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">, %m: i32) {
          %t = cute.static : !cute.layout<"(4,8):(8,1)">
          %v = cute.static : !cute.layout<"(1,4):(4,1)">
          %c = cute.make_tiled_copy %t, %v : !cute.layout<"(4,8):(8,1)">, !cute.layout<"(1,4):(4,1)"> ->
            !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">
          %x = cute.local_tile %a, [16, 64], (%m, %m) : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)"> ->
            !cute.memref<f32, gmem, align<16>, "(16,64):(?{i64 div=4},1)">
          %y = cute.tiled_tile %x by %c : !cute.memref<f32, gmem, align<16>, "(16,64):(?{i64 div=4},1)">,
            !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)"> ->
            !cute.memref<f32, gmem, align<16>, "(16,64):(?{i64 div=4},1)">
        }
    """

    name = "cute.tiled_tile"
    source = operand_def(MemRefType)
    copy = operand_def(TiledCopyType)
    result = result_def(MemRefType)
    traits = traits_def(Pure())
    assembly_format = (
        "$source `by` $copy attr-dict `:` type($source) `,` type($copy) `->` type($result)"
    )

    def __init__(self, source: SSAValue, copy: SSAValue) -> None:
        super().__init__(operands=[source, copy], result_types=[source.type])

    def verify_(self) -> None:
        assert isinstance(self.source.type, MemRefType)
        assert isinstance(self.copy.type, TiledCopyType)
        check(
            isinstance(self.source.owner, LocalTileOp),
            "expected a tile of cute.local_tile to copy by a tiled copy, got another view",
        )
        shape, copy = self.source.type.shape, self.copy.type.data
        _legal(lambda: copy.tv_layout(shape))
        check(
            self.result.type == self.source.type,
            f"expected the tile's type {self.source.type}, got {self.result.type}",
        )


@irdl_op_definition
class TiledGemmOp(IRDLOperation):
    """`cute.gemm` on tiles by a tiled multiply, which `cute-fold-static` names as its atom.

    Example:

        cute.kernel @k(%a: !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">) {
          %w = cute.static : !cute.layout<"(2,2,1):(1,2,0)">
          %m = cute.make_tiled_mma %w {atom = "mma_m16n8k16_f32_f16"} :
            !cute.layout<"(2,2,1):(1,2,0)"> -> !cute.tiled_mma<"(mma_m16n8k16_f32_f16; (2,2,1):(1,2,0))">
          %acc = cute.alloc_fragment : !cute.fragment<f32, "(64,64)">
          cute.tiled_gemm %a, %a, %acc by %m : !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">,
            !cute.memref<f16, gmem, align<16>, "(64,32):(32,1)">, !cute.fragment<f32, "(64,64)">,
            !cute.tiled_mma<"(mma_m16n8k16_f32_f16; (2,2,1):(1,2,0))">
        }
    """

    name = "cute.tiled_gemm"
    a = operand_def()
    b = operand_def()
    acc = operand_def()
    mma = operand_def(TiledMmaType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$a `,` $b `,` $acc `by` $mma attr-dict `:` type($a) `,` type($b) `,` type($acc) `,` "
        "type($mma)"
    )


@irdl_op_definition
class PartitionOp(IRDLOperation):
    """What one thread has of a tensor: CuTe's `partition_S`, `partition_D`, and of a tiled multiply
    `partition_A`, `_B`, `_C`. The first mode of the result are the values, the others repeat the
    copy's tile over the tensor. `thread` is a number that all threads agree on, as coordinates are.

    `atom` names the copy atom whose two sides differ, such as `ldmatrix_x4`; the tiled copy is then
    about the side in registers. `cute-expand-ops` makes a view of it.

    Example:

        cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(16,64):(64,1)">, %i: i32) {
          %t = cute.static : !cute.layout<"(4,8):(8,1)">
          %v = cute.static : !cute.layout<"(1,4):(4,1)">
          %c = cute.make_tiled_copy %t, %v : !cute.layout<"(4,8):(8,1)">, !cute.layout<"(1,4):(4,1)"> ->
            !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)">
          %p = cute.partition %a, %i by %c {side = "S"} : !cute.memref<f32, gmem, align<16>, "(16,64):(64,1)">,
            !cute.tiled_copy<"((8,4),4):((16,1),4)", tiler = "(4,32)"> ->
            !cute.memref<f32, gmem, align<16>, "(4,4,2):(1,256,32)">
        }
    """

    name = "cute.partition"
    source = operand_def(MemRefType)
    thread = operand_def(i32)
    by = operand_def(TiledCopyType | TiledMmaType)
    side = prop_def(StringAttr)
    atom = opt_prop_def(StringAttr)
    result = result_def(MemRefType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$source `,` $thread `by` $by attr-dict `:` type($source) `,` type($by) `->` type($result)"
    )

    def part(self, layout: Layout, thread: Any) -> tuple[Layout, Any]:
        """The layout of what a thread has of a tensor's layout, and the offset of the first
        element; raises LayoutError where the tensor is not what is copied or multiplied.
        """
        by, side = self.by.type, self.side.data
        if isinstance(by, TiledMmaType):
            return by.data.tiled.partition(side, layout, thread)
        assert isinstance(by, TiledCopyType)
        copy = by.data
        atom: Any = _Plain(copy) if self.atom is None else copy_atom(self.atom.data)
        mine = ThrCopy(copy, atom, thread)
        return mine.partition_S(layout) if side == "S" else mine.partition_D(layout)

    @property
    def start(self) -> int | Dyn:
        """What is known of the offset of the first element of any thread."""
        assert isinstance(self.source.type, MemRefType)
        return self.part(self.source.type.layout, Dyn())[1]

    def verify_(self) -> None:
        sides = COPY_SIDES if isinstance(self.by.type, TiledCopyType) else MMA_SIDES
        check(
            self.side.data in sides,
            f"expected the side {', '.join(sides)} of {self.by.type}, got {self.side.data}",
        )
        type_ = self.source.type
        assert isinstance(type_, MemRefType)
        layout, start = _legal(lambda: self.part(type_.layout, Dyn()))
        expected = view_type(type_, layout, start)
        check(
            self.result.type == expected,
            f"expected the partition's type {expected}, got {self.result.type}",
        )


@dataclass(frozen=True)
class _Plain:
    """An atom of both sides alike: each thread copies the values that it has."""

    copy: TiledCopy

    @property
    def src_layout(self) -> Layout:
        return Layout((self.copy.threads, self.copy.values))

    dst_layout = src_layout


def _legal(make: Any) -> Any:
    try:
        return make()
    except (LayoutError, ValueError, KeyError) as error:
        raise VerifyException(str(error)) from error


def _static(value: SSAValue, what: str) -> Layout:
    assert isinstance(value.type, LayoutType)
    return _known(value.type.data, what)


def _known(layout: Layout, what: str) -> Layout:
    """A layout without run-time numbers, or a refusal that names the nearest one."""
    if layout.is_static():
        return layout
    nearest = Layout(_least(layout.shape), _least(layout.stride))
    raise VerifyException(
        f"expected a static layout of {what}, since a kernel names the registers of each thread, got "
        f"{layout}; take numbers, such as {nearest}, and leave what is known at run time to the "
        "tensor (cute.make_view, cute.local_tile)"
    )


def _least(numbers: Any) -> Any:
    if isinstance(numbers, tuple):
        return tuple(map(_least, numbers))
    return numbers.div if isinstance(numbers, Dyn) else numbers


OPERATIONS = (MakeTiledCopyOp, MakeTiledMmaOp, TiledTileOp, TiledGemmOp, PartitionOp)
ATTRIBUTES: tuple[type[Attribute], ...] = (TiledCopyType, TiledMmaType)
