"""Arrays of registers, which are mutable, the tables of integers by which ops take registers out of
them, and the elementwise code that the printer unrolls.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, ErasedSSAValue, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsTerminator,
    MemoryAllocEffect,
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition

from .registers import B32, RegsType, RegType, check, reg
from .scalar import ScalarOp
from .syntax import (
    class_of,
    integer,
    parse_defined,
    parse_extra,
    parse_keyword_extra,
    print_extra,
    print_keyword_extra,
)

# Bits of an integer of `table`.
_WIDTH = 64
# Address space to the register class of its addresses.
SPACES = {"global": "b64", "shared": "b32"}


@irdl_op_definition
class RegArrayOp(IRDLOperation):
    """Declare an array of registers.

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
          %x = ptx.regs : !ptx.regs<f32 x 4>
        }
    """

    name = "ptx.regs"
    res = result_def(RegsType)
    traits = traits_def(MemoryAllocEffect())
    assembly_format = "attr-dict `:` type($res)"

    def __init__(self, register_class: str, count: int) -> None:
        Operation.__init__(self, result_types=[RegsType.get(register_class, count)])

    def verify(self, verify_nested_ops: bool = True) -> None:
        """All rules, the short way for an op that is plainly right (as of `ScalarOp`)."""
        if (
            self._operands
            or self.properties
            or self.regions
            or self.successors
            or self.next_op is None
            or [type(result.type) for result in self.results] != [RegsType]
        ):
            super().verify(verify_nested_ops)


@irdl_op_definition
class FillOp(IRDLOperation):
    """Set every register of an array.

    Example:

        ptx.kernel @k(%v: f32) attributes {target = "sm_80", threads = 32 : i32} {
          %x = ptx.regs : !ptx.regs<f32 x 4>
          ptx.fill %x, %v : !ptx.regs<f32 x 4>, !ptx.reg<f32>
        }
    """

    name = "ptx.fill"
    data = operand_def(RegsType)
    value = operand_def(RegType)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$data `,` $value attr-dict `:` type($data) `,` type($value)"

    def __init__(self, data: SSAValue, value: SSAValue) -> None:
        Operation.__init__(self, operands=[data, value])

    def verify_(self) -> None:
        assert isinstance(self.data.type, RegsType)
        assert isinstance(self.value.type, RegType)
        check(
            self.data.type.cls == self.value.type.data,
            f"expected a value of class {self.data.type.cls}, got {self.value.type.data}",
        )


@irdl_op_definition
class GetOp(IRDLOperation):
    """Copy one register of an array.

    Example:

        ptx.kernel @k(%v: f32) attributes {target = "sm_80", threads = 32 : i32} {
          %x = ptx.regs : !ptx.regs<f32 x 4>
          ptx.fill %x, %v : !ptx.regs<f32 x 4>, !ptx.reg<f32>
          %y = ptx.get %x[3]
        }
    """

    name = "ptx.get"
    data = operand_def(RegsType)
    index = prop_def(IntegerAttr)
    res = result_def(RegType)
    traits = traits_def(MemoryReadEffect())

    def __init__(self, data: SSAValue, index: int) -> None:
        assert isinstance(data.type, RegsType)
        Operation.__init__(
            self,
            operands=[data],
            properties={"index": integer(index)},
            result_types=[reg(data.type.cls)],
        )

    @classmethod
    def parse(cls, parser: Parser) -> GetOp:
        made = cls(*_parse_element(parser))
        made.attributes |= parse_extra(parser)
        return made

    def print(self, printer: Printer) -> None:
        _print_element(printer, self.data, self.index)
        print_extra(printer, self.attributes)

    def verify_(self) -> None:
        _check_element(self.data, self.index, self.res)


@irdl_op_definition
class SetOp(IRDLOperation):
    """Write one register of an array.

    Example:

        ptx.kernel @k(%v: f32) attributes {target = "sm_80", threads = 32 : i32} {
          %x = ptx.regs : !ptx.regs<f32 x 4>
          ptx.set %x[3], %v
        }
    """

    name = "ptx.set"
    data = operand_def(RegsType)
    value = operand_def(RegType)
    index = prop_def(IntegerAttr)
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, data: SSAValue, index: int, value: SSAValue) -> None:
        Operation.__init__(self, operands=[data, value], properties={"index": integer(index)})

    @classmethod
    def parse(cls, parser: Parser) -> SetOp:
        data, index = _parse_element(parser)
        parser.parse_punctuation(",")
        made = cls(data, index, parse_defined(parser))
        made.attributes |= parse_extra(parser)
        return made

    def print(self, printer: Printer) -> None:
        _print_element(printer, self.data, self.index)
        printer.print_string(", ")
        printer.print_ssa_value(self.value)
        print_extra(printer, self.attributes)

    def verify_(self) -> None:
        _check_element(self.data, self.index, self.value)


def _parse_element(parser: Parser) -> tuple[SSAValue, int]:
    start = parser.pos
    data = parse_defined(parser)
    if not isinstance(data.type, RegsType):
        parser.raise_error(f"expected an array of registers, got {data.type}", start, parser.pos)
    with parser.in_square_brackets():
        return data, parser.parse_integer(allow_boolean=False, allow_negative=False)


def _print_element(printer: Printer, data: SSAValue, index: IntegerAttr) -> None:
    printer.print_string(" ")
    printer.print_ssa_value(data)
    printer.print_string(f"[{index.value.data}]")


def _check_element(data: SSAValue, index: IntegerAttr, value: SSAValue) -> None:
    assert isinstance(data.type, RegsType)
    check(
        0 <= index.value.data < data.type.count,
        f"expected a register index below {data.type.count}, got {index.value.data}",
    )
    check(
        class_of(value) == data.type.cls,
        f"expected a register of class {data.type.cls}, got {class_of(value)}",
    )


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The values that an unrolled region writes to its targets.

    Example:

        ptx.kernel @k(%v: f32) attributes {target = "sm_80", threads = 32 : i32} {
          %x = ptx.regs : !ptx.regs<f32 x 4>
          ptx.foreach 4 () -> (%x [0, 1, 2, 3]) {
            ptx.yield %v : !ptx.reg<f32>
          }
        }
    """

    name = "ptx.yield"
    values = var_operand_def(RegType)
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, values: Sequence[SSAValue]) -> None:
        Operation.__init__(self, operands=values)

    def verify(self, verify_nested_ops: bool = True) -> None:
        """All rules, the short way for an op that is plainly right (as of `ScalarOp`)."""
        if (
            self.results
            or self.properties
            or self.regions
            or self.successors
            or self.next_op is not None
            or any(type(value.type) is not RegType for value in self._operands)
            or any(isinstance(value, ErasedSSAValue) for value in self._operands)
        ):
            super().verify(verify_nested_ops)


@lru_cache(maxsize=1024)
def _tables(tables: tuple[tuple[int, ...], ...]) -> ArrayAttr:
    return ArrayAttr([table(each) for each in tables])


# What a body may hold besides the scalar families.
_UNROLLED = ("ptx.imm", "ptx.pack", "ptx.unpack", "ptx.shfl", "ptx.vote")


@irdl_op_definition
class ForeachOp(IRDLOperation):
    """Scalar code on `count` groups of registers, unrolled by the printer.

    Trip i binds each argument to the register (or the constant) that its table names, runs the
    body, and writes the yielded values; trips run in order, so that a target which is also a source
    accumulates.

    Example:

        ptx.kernel @k(%v: f32) attributes {target = "sm_80", threads = 32 : i32} {
          %x = ptx.regs : !ptx.regs<f32 x 4>
          ptx.fill %x, %v : !ptx.regs<f32 x 4>, !ptx.reg<f32>
          ptx.foreach 4 (%a = %x [0, 1, 2, 3], %k = imm [0, 8, 16, 24]) -> (%x [0, 1, 2, 3]) {
            %y = ptx.mul "f32" %a, %v : (f32, f32) -> f32
            ptx.yield %y : !ptx.reg<f32>
          }
        }
    """

    name = "ptx.foreach"
    count = prop_def(IntegerAttr)
    sources = var_operand_def(RegsType)
    targets = var_operand_def(RegsType)
    source_index = prop_def(ArrayAttr)
    constants = prop_def(ArrayAttr)
    target_index = prop_def(ArrayAttr)
    body = region_def("single_block")
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        count: int,
        sources: Sequence[tuple[SSAValue, Sequence[int]]],
        constants: Sequence[Sequence[int]],
        targets: Sequence[tuple[SSAValue, Sequence[int]]],
        body: Block,
    ) -> None:
        Operation.__init__(
            self,
            operands=[v for v, _ in (*sources, *targets)],
            properties={
                "operandSegmentSizes": _segments(len(sources), len(targets)),
                "count": integer(count),
                "source_index": _tables(tuple(tuple(t) for _, t in sources)),
                "constants": _tables(tuple(tuple(t) for t in constants)),
                "target_index": _tables(tuple(tuple(t) for _, t in targets)),
            },
            regions=[Region(body)],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ForeachOp:
        count = parser.parse_integer(allow_boolean=False, allow_negative=False)
        sources: list[tuple[SSAValue, list[int]]] = []
        constants: list[list[int]] = []
        args: list[Parser.Argument] = []

        def indices() -> list[int]:
            return parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parser.parse_integer(allow_boolean=False)
            )

        def source() -> None:
            name = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            if parser.parse_optional_keyword("imm"):
                constants.append(indices())
                args.append(name.resolve(B32))
                return
            if constants:
                parser.raise_error("expected the constants after all arrays, got an array")
            value, index = array()
            sources.append((value, index))
            assert isinstance(value.type, RegsType)
            args.append(name.resolve(reg(value.type.cls)))

        def array() -> tuple[SSAValue, list[int]]:
            start = parser.pos
            value = parse_defined(parser)
            if not isinstance(value.type, RegsType):
                parser.raise_error(
                    f"expected an array of registers, got {value.type}", start, parser.pos
                )
            return value, indices()

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, source)
        parser.parse_punctuation("->")
        targets = parser.parse_comma_separated_list(parser.Delimiter.PAREN, array)
        extra = parse_keyword_extra(parser)
        region = parser.parse_region(args)
        made = cls(count, sources, constants, targets, region.detach_block(0))
        made.attributes |= extra
        return made

    def print(self, printer: Printer) -> None:
        args = list(self.body.block.args)
        printer.print_string(f" {self.count.value.data} (")
        first = True
        for arg, value, index in zip(args, self.sources, self.source_index, strict=False):
            printer.print_string("" if first else ", ")
            first = False
            printer.print_ssa_value(arg)
            printer.print_string(" = ")
            printer.print_ssa_value(value)
            printer.print_string(f" {_shown(index)}")
        for arg, index in zip(args[len(self.sources) :], self.constants, strict=False):
            printer.print_string("" if first else ", ")
            first = False
            printer.print_ssa_value(arg)
            printer.print_string(f" = imm {_shown(index)}")
        printer.print_string(") -> (")
        first = True
        for value, index in zip(self.targets, self.target_index, strict=False):
            printer.print_string("" if first else ", ")
            first = False
            printer.print_ssa_value(value)
            printer.print_string(f" {_shown(index)}")
        printer.print_string(") ")
        print_keyword_extra(printer, self.attributes)
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    def verify_(self) -> None:
        count = self.count.value.data
        args = self.body.block.args
        check(
            len(args) == len(self.sources) + len(self.constants),
            f"expected {len(self.sources) + len(self.constants)} arguments, got {len(args)}",
        )
        for values, tables in (
            (self.sources, self.source_index),
            (self.targets, self.target_index),
        ):
            check(
                len(values) == len(tables),
                f"expected a table for each of {len(values)} arrays, got {len(tables)}",
            )
            for value, index in zip(values, tables, strict=True):
                assert isinstance(value.type, RegsType)
                got = entries(index)
                check(len(got) == count, f"expected tables of {count} entries, got {len(got)}")
                check(
                    min(got) >= 0 and max(got) < value.type.count,
                    f"expected register indices below {value.type.count}, got {max(got)}",
                )
        for index in self.constants:
            got = entries(index)
            check(len(got) == count, f"expected tables of {count} entries, got {len(got)}")
        wanted = [reg(v.type.cls) for v in self.sources if isinstance(v.type, RegsType)]
        wanted += [B32] * len(self.constants)
        for arg, type_ in zip(args, wanted, strict=True):
            if arg.type != type_:
                raise VerifyException(f"expected an argument of type {type_}, got {arg.type}")
        for op in self.body.block.ops:
            check(
                isinstance(op, YieldOp) or op.name in _UNROLLED or isinstance(op, ScalarOp),
                f"expected scalar instructions in the body, got {op.name}",
            )
        last = self.body.block.last_op
        check(isinstance(last, YieldOp), "expected the body to end with ptx.yield")
        assert isinstance(last, YieldOp)
        check(
            len(last.values) == len(self.targets),
            f"expected to yield {len(self.targets)} values, got {len(last.values)}",
        )
        for value, target in zip(last.values, self.targets, strict=True):
            assert isinstance(value.type, RegType)
            assert isinstance(target.type, RegsType)
            check(
                value.type.data == target.type.cls,
                f"expected to yield class {target.type.cls}, got {value.type.data}",
            )


@lru_cache(maxsize=64)
def _segments(sources: int, targets: int) -> DenseArrayBase:
    return DenseArrayBase.from_list(i32, [sources, targets])


def _shown(index: Attribute) -> str:
    return "[" + ", ".join(map(str, entries(index))) + "]"


def table(values: Sequence[int]) -> DenseArrayBase:
    """A table of integers as an attribute."""
    return _table(tuple(values))


@lru_cache(maxsize=1024)
def _table(values: tuple[int, ...]) -> DenseArrayBase:
    return DenseArrayBase(i64, BytesAttr(struct.pack(f"<{len(values)}q", *values)))


def entries(given: Attribute | None) -> tuple[int, ...]:
    """The integers of a table; none if there is no table."""
    if given is None:
        return ()
    if not (isinstance(given, DenseArrayBase) and isinstance(given.elt_type, IntegerType)):
        raise VerifyException(f"expected a table of integers, got {given}")
    if given.elt_type.width.data == _WIDTH:
        return _unpacked(given.data.data)
    return cast(DenseArrayBase[IntegerType], given).get_values()


# The printer, the verifier and the emulator ask for a table's integers many times.
@lru_cache(maxsize=1024)
def _unpacked(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) * 8 // _WIDTH}q", data)


def space_of(modifiers: str) -> str:
    """`global` or `shared`: what an instruction addresses."""
    for part in modifiers.split("."):
        if part in SPACES:
            return part
    check(False, f"expected .global or .shared in the modifiers, got '{modifiers}'")
    raise AssertionError


def check_index(what: str, values: Sequence[int], limit: int, low: int = 0) -> None:
    """VerifyException unless all of a table is in low..limit-1."""
    if values and not (low <= min(values) and max(values) < limit):
        wrong = next(v for v in values if not low <= v < limit)
        raise VerifyException(f"expected {what} indices in {low}..{limit - 1}, got [{wrong}]")


def check_classes(what: str, values: Sequence[SSAValue], wanted: str) -> None:
    """VerifyException unless all registers are of one class."""
    for value in values:
        check(
            class_of(value) == wanted, f"expected {what} of class {wanted}, got {class_of(value)}"
        )
