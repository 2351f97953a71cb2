"""Ops of the host part `func.func @launch` alone: the launch of a kernel, and what it asks of the
device. Extents and strides of tensors (`cute.dim`, `cute.stride`) are asked in kernels too.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, SymbolRefAttr, UnitAttr, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
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
from cutedialect.dialects.effects import ORDERS, Effects
from cutedialect.layout import Dyn, flatten

from .attributes import with_attributes
from .groups import GroupType
from .kernel_ops import check_work, parse_tile, print_tile
from .types import MemRefType

# CTAs; more than 8 need the kernel's consent, which the launcher gives.
MAX_CLUSTER = 16


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """Launch a kernel from the host part; a grid with a zero extent launches nothing. Without a
    grid `cute-tile` computes it from the kernel's work items.

    `cluster` (x, y, z) is written behind a grid of clusters, whose extents it has to divide.
    `threads` is the block size, `smem` the dynamic shared memory in bytes (known after
    `convert-to-ptx`).

    Example:

        func.func @launch(%x: !cute.memref<f32, gmem, align<4>, "(?):(1)">) {
          %one = arith.constant 1 : i32
          %n = cute.dim %x, 0 : !cute.memref<f32, gmem, align<4>, "(?):(1)">
          cute.launch @k grid(%n, %one, %one) args(%x) {threads = 128 : i32} : !cute.memref<f32, gmem, align<4>, "(?):(1)">
          cute.launch @pairs grid(%n, %one, %one) cluster(2, 1, 1) args() {threads = 128 : i32}
          func.return
        }
    """

    name = "cute.launch"
    kernel = prop_def(SymbolRefAttr)
    grid = var_operand_def(i32)
    args = var_operand_def()
    cluster = opt_prop_def(DenseArrayBase)
    threads = opt_prop_def(IntegerAttr)
    smem = opt_prop_def(IntegerAttr)

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        kernel: str,
        grid: Sequence[SSAValue],
        args: Sequence[SSAValue],
        threads: int | None = None,
        smem: int | None = None,
        cluster: Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            operands=[list(grid), list(args)],
            properties={
                "kernel": SymbolRefAttr(kernel),
                "cluster": None if cluster is None else DenseArrayBase.from_list(i64, cluster),
                "threads": None if threads is None else IntegerAttr(threads, i32),
                "smem": None if smem is None else IntegerAttr(smem, i32),
            },
        )

    @classmethod
    def parse(cls, parser: Parser) -> LaunchOp:
        kernel = parser.parse_symbol_name()
        parser.parse_keyword("grid")
        grid = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        cluster = None
        if parser.parse_optional_keyword("cluster"):
            cluster = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parser.parse_integer(allow_boolean=False)
            )
        parser.parse_keyword("args")
        args = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        types: list[Attribute] = []
        if args:
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        pos = parser.pos
        op = cls(
            kernel.data,
            parser.resolve_operands(grid, [i32] * len(grid), pos),
            parser.resolve_operands(args, types, pos),
            cluster=cluster,
        )
        for key, value in attributes.items():
            if key in ("threads", "smem"):
                op.properties[key] = value
            else:
                op.attributes[key] = value
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.kernel.string_value())
        printer.print_string(" grid")
        with printer.in_parens():
            printer.print_list(self.grid, printer.print_ssa_value)
        if self.cluster is not None:
            printer.print_string(f" cluster({', '.join(map(str, self.cluster.get_values()))})")
        printer.print_string(" args")
        with printer.in_parens():
            printer.print_list(self.args, printer.print_ssa_value)
        shown = {k: self.properties[k] for k in ("threads", "smem") if k in self.properties}
        shown |= self.attributes
        if shown:
            printer.print_string(" ")
            printer.print_attr_dict(shown)
        if self.args:
            printer.print_string(" : ")
            printer.print_list([arg.type for arg in self.args], printer.print_attribute)

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        check(
            len(self.grid) in (0, 3),
            f"expected a grid of 3 extents, or none for cute-tile to fill in, got {len(self.grid)}",
        )
        if self.cluster is not None:
            cluster = self.cluster.get_values()
            check(
                len(cluster) == 3 and min(cluster) > 0 and prod(cluster) <= MAX_CLUSTER,
                f"expected a cluster of 3 positive extents and at most {MAX_CLUSTER} CTAs, "
                f"got {cluster}",
            )


@irdl_op_definition
class SmCountOp(IRDLOperation):
    """How many multiprocessors the device has: a persistent grid is that large. The emulator has 4.

    Example:

        func.func @launch() {
          %sms = cute.sm_count : i32
          func.return
        }
    """

    name = "cute.sm_count"
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "attr-dict `:` type($result)"

    def __init__(self) -> None:
        super().__init__(result_types=[i32])


@irdl_op_definition
class WorkspaceOp(IRDLOperation):
    """Memory on the device that lives as long as the launches do: a tensor of the result's type,
    whose run-time extents are the operands; run-time strides are those of rows, the last mode
    contiguous. Its contents are undefined; with `zeroed` they are zeros, and the kernels have to
    leave zeros behind.

    Example:

        func.func @launch(%n: i32) {
          %w = cute.workspace(%n) : !cute.memref<f32, gmem, align<16>, "(?,64,64):(4096,64,1)">
          %c = cute.workspace(%n) zeroed : !cute.memref<i32, gmem, align<16>, "(?):(1)">
          func.return
        }
    """

    name = "cute.workspace"
    extents = var_operand_def(i32)
    zeroed = opt_prop_def(UnitAttr)
    result = result_def(MemRefType)

    def __init__(
        self, extents: Sequence[SSAValue], type_: MemRefType, zeroed: bool = False
    ) -> None:
        super().__init__(
            operands=[list(extents)],
            properties={"zeroed": UnitAttr() if zeroed else None},
            result_types=[type_],
        )

    @classmethod
    def parse(cls, parser: Parser) -> WorkspaceOp:
        extents = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        zeroed = parser.parse_optional_keyword("zeroed") is not None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        type_ = parser.parse_type()
        if not isinstance(type_, MemRefType):
            parser.raise_error(f"expected a memref, got {type_}", start, parser.pos)
        operands = parser.resolve_operands(extents, [i32] * len(extents), start)
        return with_attributes(cls(operands, type_, zeroed), attributes)

    def print(self, printer: Printer) -> None:
        with printer.in_parens():
            printer.print_list(self.extents, printer.print_ssa_value)
        printer.print_string(" zeroed" if self.zeroed is not None else "")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        type_ = self.result.type
        assert isinstance(type_, MemRefType)
        check(type_.space == "gmem", f"expected a workspace in gmem, got {type_.space}")
        dynamic = sum(isinstance(leaf, Dyn) for leaf in flatten(type_.layout.shape))
        check(
            len(self.extents) == dynamic,
            f"expected {dynamic} extents for {type_.layout}, got {len(self.extents)}",
        )
        extents, strides = (flatten(x) for x in (type_.layout.shape, type_.layout.stride))
        for mode, stride in enumerate(strides):
            later = extents[mode + 1 :]
            check(
                not isinstance(stride, Dyn) or any(isinstance(extent, Dyn) for extent in later),
                f"expected run-time strides in front of run-time extents, got {type_.layout}",
            )


@irdl_op_definition
class TileOffsetsOp(IRDLOperation):
    """How many blocks of tiles the tensors of a group have in front of each: a group of i32 that
    starts with 0, ends with the total, and has one entry more than there are tensors.

    `tile` is that of `cute.tile_index`; a block is `cluster` tiles of the last two modes.

    Example:

        func.func @launch(%c: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>) {
          %offsets = cute.tile_offsets %c, [128, 256] cluster(2, 1) : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
          func.return
        }
    """

    name = "cute.tile_offsets"
    group = operand_def(GroupType)
    tile = prop_def(DenseArrayBase)
    cluster = prop_def(DenseArrayBase)
    result = result_def(GroupType)
    traits = traits_def(Pure())

    def __init__(self, group: SSAValue, tile: Sequence[int], cluster: Sequence[int]) -> None:
        super().__init__(
            operands=[group],
            properties={
                "tile": DenseArrayBase.from_list(i64, list(tile)),
                "cluster": DenseArrayBase.from_list(i64, list(cluster)),
            },
            result_types=[GroupType(i32)],
        )

    @classmethod
    def parse(cls, parser: Parser) -> TileOffsetsOp:
        unresolved = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        tile = parse_tile(parser).get_values()
        parser.parse_keyword("cluster")
        cluster = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parser.parse_integer(allow_boolean=False)
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        group = parser.resolve_operand(unresolved, parser.parse_type())
        op = cls(group, tile, cluster)  # pyright: ignore[reportArgumentType]
        return with_attributes(op, attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.group)
        printer.print_string(", ")
        print_tile(printer, self.tile)
        printer.print_string(f" cluster({', '.join(map(str, self.cluster.get_values()))})")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.group.type)

    def verify_(self) -> None:
        assert isinstance(self.group.type, GroupType)
        member = self.group.type.member
        check(isinstance(member, MemRefType), f"expected a group of tensors, got {member}")
        assert isinstance(member, MemRefType)
        tile, cluster = self.tile.get_values(), self.cluster.get_values()
        check(
            len(tile) == member.rank,
            f"expected one tile extent for each of the {member.rank} modes of {member.layout}, "
            f"got {len(tile)}",
        )
        check(
            all(extent == -1 or extent > 0 for extent in tile),
            f"expected positive tile extents or '_', got {list(tile)}",
        )
        check(
            len(cluster) == 2 and min(cluster) > 0,
            f"expected a cluster of 2 positive extents, got {cluster}",
        )
        check(
            self.result.type == GroupType(i32),
            f"expected a result of type {GroupType(i32)}, got {self.result.type}",
        )


@irdl_op_definition
class TileSharesOp(IRDLOperation):
    """Which blocks of tiles of a group each of `takers` computes, so that all have about as much to
    do: a tile takes time in proportion to an extent of a tensor of `work` (such as K of a matrix
    multiply) and a constant. `offsets` is what `cute.tile_offsets` made.

    A group of i32: where each taker's list begins, where the last one ends, and the lists.

    Example:

        func.func @launch(%a: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>, %n: i32) {
          %o = cute.tile_offsets %a, [128, _] cluster(1, 1) : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
          %s = cute.tile_shares %o, %a[1], %n : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
          func.return
        }
    """

    name = "cute.tile_shares"
    offsets = operand_def(GroupType)
    work = operand_def(GroupType)
    takers = operand_def(i32)
    mode = prop_def(IntegerAttr)
    result = result_def(GroupType)
    traits = traits_def(Pure())

    def __init__(self, offsets: SSAValue, work: SSAValue, mode: int, takers: SSAValue) -> None:
        super().__init__(
            operands=[offsets, work, takers],
            properties={"mode": IntegerAttr(mode, i64)},
            result_types=[GroupType(i32)],
        )

    @classmethod
    def parse(cls, parser: Parser) -> TileSharesOp:
        offsets = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        work = parser.parse_unresolved_operand()
        with parser.in_square_brackets():
            mode = parser.parse_integer(allow_boolean=False, allow_negative=False)
        parser.parse_punctuation(",")
        takers = parser.resolve_operand(parser.parse_unresolved_operand(), i32)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        group = parser.resolve_operand(work, parser.parse_type())
        op = cls(parser.resolve_operand(offsets, GroupType(i32)), group, mode, takers)
        return with_attributes(op, attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.offsets)
        printer.print_string(", ")
        printer.print_ssa_value(self.work)
        printer.print_string(f"[{self.mode.value.data}], ")
        printer.print_ssa_value(self.takers)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.work.type)

    def verify_(self) -> None:
        assert isinstance(self.offsets.type, GroupType)
        check(self.offsets.type.member == i32, f"expected offsets of i32, got {self.offsets.type}")
        check_work(self.work.type, self.mode.value.data)
