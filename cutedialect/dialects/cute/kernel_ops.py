"""Ops of a kernel as a whole: the kernel, work items, facts about tensors, where threads meet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar, Self, TypeVar

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolNameConstraint,
    UnitAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    NoTerminator,
    Pure,
    SymbolOpInterface,
)

from cutedialect.dialects.arguments import parse_argument
from cutedialect.dialects.checks import check
from cutedialect.dialects.cute_nvgpu import TmaDescriptorType
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import ALL, NONE, ORDERS, Effects
from cutedialect.schedule import Schedule

from .attributes import ScheduleAttr, with_attributes
from .groups import GroupType
from .types import MemRefType

_NO_CHOICES = Schedule()

# Of a module, the name of the kernel that has the schedule of the call, if it is not the first.
SCHEDULED = "cute.scheduled"


def parse_tile(parser: Parser) -> DenseArrayBase:
    """`[*, 128, _]`: tile extents by mode; `_` (stored as -1) is the whole mode, `*` (stored as 0)
    a mode that is indexed and dropped."""
    extents: list[int] = []

    def one() -> None:
        if parser.parse_optional_keyword("_"):
            extents.append(-1)
        elif parser.parse_optional_punctuation("*"):
            extents.append(0)
        else:
            extents.append(parser.parse_integer(allow_boolean=False, allow_negative=False))

    parser.parse_comma_separated_list(parser.Delimiter.SQUARE, one)
    return DenseArrayBase.from_list(i64, extents)


def print_tile(printer: Printer, tile: DenseArrayBase) -> None:
    shown = ("_" if extent < 0 else str(extent or "*") for extent in tile.get_values())
    printer.print_string("[" + ", ".join(shown) + "]")


def print_tile_of(
    printer: Printer, source: SSAValue, tile: DenseArrayBase, coords: Sequence[SSAValue]
) -> None:
    """A tensor, the extents of its tile, and the coordinates of that."""
    printer.print_string(" ")
    printer.print_ssa_value(source)
    printer.print_string(", ")
    print_tile(printer, tile)
    printer.print_string(", (")
    printer.print_list(coords, printer.print_ssa_value)
    printer.print_string(")")


@irdl_op_definition
class KernelOp(IRDLOperation):
    """A device function that every CTA of the grid runs.

    Arguments are memrefs in gmem, scalars, tensor maps, and groups. `schedule` carries the choices,
    `threads` the block size once `cute-tile` has settled it, `cluster` the CTAs of a cluster.

    Example:

        cute.kernel @scale(%x: !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">,
                           %s: f32) attributes {threads = 128 : i32} {
          %m = cute.dim %x, 0 : !cute.memref<f32, gmem, align<16>, "(?,?):(?{i64 div=4},1)">
        }
    """

    name = "cute.kernel"

    sym_name = prop_def(SymbolNameConstraint())
    schedule = opt_prop_def(ScheduleAttr)
    threads = opt_prop_def(IntegerAttr[IntegerType])
    cluster = opt_prop_def(IntegerAttr[IntegerType])
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())

    def __init__(
        self,
        name: str,
        body: Region | Block,
        schedule: ScheduleAttr | None = None,
        threads: int | None = None,
    ) -> None:
        super().__init__(
            regions=[body if isinstance(body, Region) else Region(body)],
            properties={
                "sym_name": StringAttr(name),
                "schedule": schedule,
                "threads": None if threads is None else IntegerAttr(threads, i32),
            },
        )

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        name = parser.parse_symbol_name()
        args = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_argument(parser)
        )
        attributes = parser.parse_optional_attr_dict_with_keyword()
        region = parser.parse_region(args)
        if not region.blocks:
            region.add_block(Block(arg_types=[arg.type for arg in args]))
        values = dict(attributes.data) if attributes is not None else {}
        op = cls(name.data, region)
        for key in ("schedule", "threads", "cluster"):
            if key in values:
                op.properties[key] = values.pop(key)
        op.attributes.update(values)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        with printer.in_parens():
            printer.print_list(self.body.block.args, printer.print_block_argument)
        shown = {k: v for k, v in self.properties.items() if k != "sym_name"} | self.attributes
        if shown:
            printer.print_string(" attributes ")
            printer.print_attr_dict(shown)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    @property
    def choices(self) -> Schedule:
        """What the schedule says; where there is none, nothing."""
        return _NO_CHOICES if self.schedule is None else self.schedule.data

    def effects(self) -> Effects:
        return NONE

    def verify_(self) -> None:
        for arg in self.body.block.args:
            if isinstance(arg.type, MemRefType):
                check(
                    arg.type.space == "gmem",
                    f"expected kernel tensors in gmem, got {arg.type.space}",
                )
            else:
                check(
                    isinstance(arg.type, IntegerType | AnyFloat | TmaDescriptorType | GroupType),
                    f"expected kernel arguments to be memrefs, tensor maps, groups or scalars, "
                    f"got {arg.type}",
                )


@irdl_op_definition
class DimOp(IRDLOperation):
    """The extent of one top-level mode of a tensor, as i32.

    Example:

        func.func @f(%x: !cute.memref<f32, gmem, align<4>, "(?,8):(8,1)">) {
          %m = cute.dim %x, 0 : !cute.memref<f32, gmem, align<4>, "(?,8):(8,1)">
          func.return
        }
    """

    name = "cute.dim"
    memref = operand_def(MemRefType)
    mode = prop_def(IntegerAttr)
    result = result_def(i32)
    traits = traits_def(Pure())

    def __init__(self, memref: SSAValue, mode: int) -> None:
        super().__init__(
            operands=[memref],
            properties={"mode": IntegerAttr(mode, i64)},
            result_types=[i32],
        )

    @classmethod
    def parse(cls, parser: Parser):
        return _parse_mode_of(parser, cls)

    def print(self, printer: Printer) -> None:
        _print_mode_of(printer, self)

    def verify_(self) -> None:
        _verify_mode(self)


@irdl_op_definition
class StrideOp(IRDLOperation):
    """The stride of one top-level mode of a tensor, in elements, as i64.

    Example:

        func.func @f(%x: !cute.memref<f32, gmem, align<4>, "(?,8):(?{i64},1)">) {
          %ld = cute.stride %x, 0 : !cute.memref<f32, gmem, align<4>, "(?,8):(?{i64},1)">
          func.return
        }
    """

    name = "cute.stride"
    memref = operand_def(MemRefType)
    mode = prop_def(IntegerAttr)
    result = result_def(i64)
    traits = traits_def(Pure())

    def __init__(self, memref: SSAValue, mode: int) -> None:
        super().__init__(
            operands=[memref],
            properties={"mode": IntegerAttr(mode, i64)},
            result_types=[i64],
        )

    @classmethod
    def parse(cls, parser: Parser):
        return _parse_mode_of(parser, cls)

    def print(self, printer: Printer) -> None:
        _print_mode_of(printer, self)

    def verify_(self) -> None:
        _verify_mode(self)


_OfMode = TypeVar("_OfMode", DimOp, StrideOp)


def _parse_mode_of(parser: Parser, cls: type[_OfMode]) -> _OfMode:
    unresolved = parser.parse_unresolved_operand()
    parser.parse_punctuation(",")
    mode = parser.parse_integer(allow_boolean=False)
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    memref = parser.resolve_operand(unresolved, parser.parse_type())
    return with_attributes(cls(memref, mode), attributes)


def _print_mode_of(printer: Printer, op: DimOp | StrideOp) -> None:
    printer.print_string(" ")
    printer.print_ssa_value(op.memref)
    printer.print_string(f", {op.mode.value.data}")
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    printer.print_attribute(op.memref.type)


def _verify_mode(op: DimOp | StrideOp) -> None:
    type_ = op.memref.type
    assert isinstance(type_, MemRefType)
    mode = op.mode.value.data
    check(
        0 <= mode < type_.rank,
        f"expected a mode in 0..{type_.rank - 1} of {type_.layout}, got {mode}",
    )


def check_work(type_: Attribute, mode: int) -> None:
    """Whether a mode of a group's tensors can say how much there is to do."""
    member = type_.member if isinstance(type_, GroupType) else None
    check(isinstance(member, MemRefType), f"expected a group of tensors for work, got {type_}")
    assert isinstance(member, MemRefType)
    check(
        0 <= mode < member.rank,
        f"expected a mode in 0..{member.rank - 1} of {member.layout} for work, got {mode}",
    )


@irdl_op_definition
class TileIndexOp(IRDLOperation):
    """The coordinates, in tiles, of the work item that this CTA computes.

    One result for each mode of the tensor; `cute-tile` turns it into block indices and gives the
    host part the matching grid. The order of the work items is the schedule's choice. For a group
    of tensors the first result is the tensor's number; their tiles are walked tensor by tensor.
    `work` names another group of as many tensors: a tile takes time in proportion to an extent of
    its problem's tensor there, and the schedule may deal tiles out so that all CTAs end together.

    A work item of `runs(n)` is n tiles of a matrix that follow each other row by row, from wherever
    in a row they begin; its coordinates are its number and 0.

    Example:

        cute.kernel @k(%c: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">) {
          %m, %n = cute.tile_index %c, [128, 128] : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
        }
        cute.kernel @flat(%c: !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">) {
          %f, %zero = cute.tile_index %c, [1, 8] runs(512) : !cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">
        }
        cute.kernel @grouped(%a: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>, %c: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>) {
          %i, %m, %n = cute.tile_index %c, [128, 128] work(%a[1]) : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>, !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
        }
    """

    name = "cute.tile_index"
    memref = operand_def(MemRefType | GroupType)
    work = opt_operand_def(GroupType)
    tile = prop_def(DenseArrayBase)
    mode = opt_prop_def(IntegerAttr)
    runs = opt_prop_def(IntegerAttr)
    coords = var_result_def(i32)

    def __init__(
        self,
        memref: SSAValue,
        tile: Sequence[int] | DenseArrayBase,
        work: tuple[SSAValue, int] | None = None,
        runs: int | None = None,
    ) -> None:
        if not isinstance(tile, DenseArrayBase):
            tile = DenseArrayBase.from_list(i64, list(tile))
        coords = len(tile.get_values()) + isinstance(memref.type, GroupType)
        super().__init__(
            operands=[memref, [] if work is None else [work[0]]],
            properties={
                "tile": tile,
                "mode": work and IntegerAttr(work[1], i64),
                "runs": None if runs is None else IntegerAttr(runs, i64),
            },
            result_types=[[i32] * coords],
        )

    @property
    def run(self) -> int | None:
        """How many tiles in a row-by-row order are a work item; None where each is one."""
        return None if self.runs is None else self.runs.value.data

    @classmethod
    def parse(cls, parser: Parser) -> TileIndexOp:
        unresolved = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        tile = parse_tile(parser)
        work, mode, runs = None, 0, None
        if parser.parse_optional_keyword("runs"):
            with parser.in_parens():
                runs = parser.parse_integer(allow_boolean=False, allow_negative=False)
        if parser.parse_optional_keyword("work"):
            with parser.in_parens():
                work = parser.parse_unresolved_operand()
                with parser.in_square_brackets():
                    mode = parser.parse_integer(allow_boolean=False, allow_negative=False)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        memref = parser.resolve_operand(unresolved, parser.parse_type())
        if work is None:
            return with_attributes(cls(memref, tile, runs=runs), attributes)
        parser.parse_punctuation(",")
        group = parser.resolve_operand(work, parser.parse_type())
        return with_attributes(cls(memref, tile, (group, mode)), attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.memref)
        printer.print_string(", ")
        print_tile(printer, self.tile)
        if self.run is not None:
            printer.print_string(f" runs({self.run})")
        if self.work is not None and self.mode is not None:
            printer.print_string(" work(")
            printer.print_ssa_value(self.work)
            printer.print_string(f"[{self.mode.value.data}])")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.memref.type)
        if self.work is not None:
            printer.print_string(", ")
            printer.print_attribute(self.work.type)

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        if self.work is not None or self.mode is not None:
            check(
                isinstance(self.memref.type, GroupType) and None not in (self.work, self.mode),
                "expected work, with a mode, for a group of tensors alone, got it for "
                f"{self.memref.type}",
            )
            assert self.work is not None
            assert self.mode is not None
            check_work(self.work.type, self.mode.value.data)
        type_ = self.memref.type
        if isinstance(type_, GroupType):
            type_ = type_.member
        check(isinstance(type_, MemRefType), f"expected a group of tensors, got {type_}")
        assert isinstance(type_, MemRefType)
        tile = self.tile.get_values()
        check(
            len(tile) == type_.rank,
            f"expected one tile extent for each of the {type_.rank} modes of {type_.layout}, "
            f"got {len(tile)}",
        )
        check(
            all(extent == -1 or extent > 0 for extent in tile),
            f"expected positive tile extents or '_', got {list(tile)}",
        )
        check(
            self.run is None
            or (self.run > 0 and isinstance(self.memref.type, MemRefType) and tile[:-1] == (1,)),
            "expected runs of tiles of one row of a matrix, got "
            f"runs({self.run}) of {list(tile)} of {self.memref.type}",
        )


class AxisOp(IRDLOperation):
    """Base of the ops that ask for a number along an axis of the grid."""

    AXES: ClassVar = ("x", "y", "z")
    axis = prop_def(StringAttr)
    result = result_def(i32)
    traits = traits_def(Pure())

    def __init__(self, axis: str) -> None:
        super().__init__(properties={"axis": StringAttr(axis)}, result_types=[i32])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        op = cls(parser.parse_identifier())
        return with_attributes(op, parser.parse_optional_attr_dict())

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.axis.data}")
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        check(self.axis.data in self.AXES, f"expected axis x, y or z, got {self.axis.data}")


@irdl_op_definition
class BlockIdxOp(AxisOp):
    """The index of this CTA in the grid along x, y or z.

    Example:

        cute.kernel @k() {
          %b = cute.block_idx x
        }
    """

    name = "cute.block_idx"


@irdl_op_definition
class GridDimOp(AxisOp):
    """How many CTAs the grid has along x, y or z.

    Example:

        cute.kernel @k() {
          %n = cute.grid_dim x
        }
    """

    name = "cute.grid_dim"


@irdl_op_definition
class PrintfOp(IRDLOperation):
    """Print scalars from the first thread of each CTA, with C's printf conversions.

    Example:

        cute.kernel @k(%n: i32) {
          cute.printf "n = %d\\n", %n : i32
        }
    """

    name = "cute.printf"
    format = prop_def(StringAttr)
    args = var_operand_def()

    def __init__(self, format: str, args: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(args)], properties={"format": StringAttr(format)})

    @classmethod
    def parse(cls, parser: Parser) -> PrintfOp:
        format_ = parser.parse_str_literal()
        unresolved = []
        while parser.parse_optional_punctuation(","):
            unresolved.append(parser.parse_unresolved_operand())
        attributes = parser.parse_optional_attr_dict()
        args: Sequence[SSAValue] = ()
        if unresolved:
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            args = parser.resolve_operands(unresolved, types, parser.pos)
        return with_attributes(cls(format_, args), attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.format.data)
        for arg in self.args:
            printer.print_string(", ")
            printer.print_ssa_value(arg)
        printer.print_op_attributes(self.attributes)
        if self.args:
            printer.print_string(" : ")
            printer.print_list([arg.type for arg in self.args], printer.print_attribute)

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        problem = format_problem(self.format.data, [arg.type for arg in self.args])
        check(problem is None, problem or "")


@irdl_op_definition
class AssertOp(IRDLOperation):
    """Say that a condition, the same for the whole CTA, holds. Where it does not, the kernel goes on,
    and the host raises the message with this op's location when it next waits for the kernel.

    Example:

        cute.kernel @k(%n: i32) {
          %zero = arith.constant 0 : i32
          %c = arith.cmpi sgt, %n, %zero : i32
          cute.assert %c, "expected one row or more"
        }
    """

    name = "cute.assert"
    condition = operand_def(i1)
    message = prop_def(StringAttr)
    assembly_format = "$condition `,` $message attr-dict"

    def __init__(self, condition: SSAValue, message: str) -> None:
        super().__init__(operands=[condition], properties={"message": StringAttr(message)})

    def effects(self) -> Effects:
        return ORDERS


_CONVERSION = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(?P<long>ll?)?(?P<kind>[a-zA-Z%]|$)")


def with_strings(format: str, args: Sequence[object]) -> str:
    """The format with the strings among its arguments put in the place of their conversions."""
    given = iter(args)

    def known(conversion: re.Match[str]) -> str:
        text = next(given, None) if conversion["kind"] != "%" else None
        if not isinstance(text, str):
            return conversion.group()
        if conversion["kind"] != "s":
            raise ValueError(f"expected a conversion like %s for {text!r}, got {conversion[0]!r}")
        return (conversion.group() % text).replace("%", "%%")

    return _CONVERSION.sub(known, format)


def format_problem(format: str, types: Sequence[Attribute]) -> str | None:
    """What is wrong with C's printf conversions for arguments of these types, or None.

    Integers of up to 32 bits take d, i, u, o, x, X or c, those of 64 bits the same with l or ll;
    floats take f, e, g or a, in either case.
    """
    conversions = [each for each in _CONVERSION.finditer(format) if each["kind"] != "%"]
    if len(conversions) != len(types):
        return f"expected {len(conversions)} arguments for the format, got {len(types)}"
    for conversion, type_ in zip(conversions, types, strict=True):
        if isinstance(type_, AnyFloat):
            legal, want = "fFeEgGaA", "%f"
            fits = conversion["long"] is None
        else:
            wide = isinstance(type_, IntegerType) and type_.width.data == 64
            legal, want = "diuoxXc", "%ld" if wide else "%d"
            fits = (conversion["long"] is not None) == wide
        if not fits or not conversion["kind"] or conversion["kind"] not in legal:
            return f"expected a conversion like {want} for {type_}, got {conversion.group()!r}"
    return None


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All threads of the CTA, or of the role, meet and see each other's writes to shared memory.

    With `warps`, every so many neighboring warps meet among themselves; with `roles` the threads of
    the roles of these names; with `cluster` those of all CTAs of the cluster that have not ended
    (PTX ISA 9.7.13.3).

    Example:

        cute.kernel @k() attributes {cluster = 2 : i32} {
          cute.barrier
          cute.barrier {warps = 4 : i32}
          cute.barrier {cluster}
          cute.barrier {roles = ["main", "stats"]}
        }
    """

    name = "cute.barrier"
    warps = opt_prop_def(IntegerAttr)
    roles = opt_prop_def(ArrayAttr[StringAttr])
    cluster = opt_prop_def(UnitAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def __init__(
        self, warps: int | None = None, roles: Sequence[str] = (), cluster: bool = False
    ) -> None:
        super().__init__(
            properties={
                "warps": None if warps is None else IntegerAttr(warps, i32),
                "roles": ArrayAttr(map(StringAttr, roles)) if roles else None,
                "cluster": UnitAttr() if cluster else None,
            }
        )

    @property
    def role_names(self) -> tuple[str, ...]:
        """The roles that meet, where it is not one alone."""
        return () if self.roles is None else tuple(role.data for role in self.roles)

    def effects(self) -> Effects:
        return Effects(meets=ALL if self.warps is None else self.warps.value.data)

    def verify_(self) -> None:
        said = [
            name for name in ("warps", "roles", "cluster") if self.properties.get(name) is not None
        ]
        check(len(said) < 2, f"expected one of warps, roles and cluster, got {' and '.join(said)}")
