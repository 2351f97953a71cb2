"""Kernels, register arrays, unrolled elementwise regions, control flow and synchronization."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    IsTerminator,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoTerminator,
    Pure,
    SymbolOpInterface,
)

from .memory import table
from .registers import B32, RegsType, RegType, check, reg


@irdl_op_definition
class KernelOp(IRDLOperation):
    """A kernel entry (PTX ISA 11.1): parameters are registers of the given classes.

    `threads` is the block size, `smem` the bytes of dynamic shared memory, `min_ctas` and
    `max_regs` the performance directives of PTX ISA 11.4.

    Example:

        ptx.kernel @k(%a: b64, %n: b32) attributes {target = "sm_80", threads = 128 : i32} {
          ptx.bar.sync
        }
    """

    name = "ptx.kernel"
    sym_name = prop_def(SymbolNameConstraint())
    target = prop_def(StringAttr)
    threads = prop_def(IntegerAttr)
    smem = opt_prop_def(IntegerAttr)
    min_ctas = opt_prop_def(IntegerAttr)
    max_regs = opt_prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())

    def __init__(
        self, name: str, body: Block | Region, target: str, threads: int, smem: int = 0
    ) -> None:
        super().__init__(
            regions=[body if isinstance(body, Region) else Region(body)],
            properties={
                "sym_name": StringAttr(name),
                "target": StringAttr(target),
                "threads": IntegerAttr(threads, i32),
                "smem": IntegerAttr(smem, i32) if smem else None,
            },
        )

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        name = parser.parse_symbol_name()

        def one() -> Parser.Argument:
            arg = parser.parse_argument(expect_type=False)
            parser.parse_punctuation(":")
            return arg.resolve(RegType(parser.parse_identifier()))

        args = parser.parse_comma_separated_list(parser.Delimiter.PAREN, one)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        region = parser.parse_region(args)
        if not region.blocks:
            region.add_block(Block(arg_types=[arg.type for arg in args]))
        properties: dict[str, Attribute] = {"sym_name": name}
        extra: dict[str, Attribute] = {}
        for key, value in (attributes.data if attributes is not None else {}).items():
            known = key in ("target", "threads", "smem", "min_ctas", "max_regs")
            (properties if known else extra)[key] = value
        return cls.create(properties=properties, attributes=extra, regions=[region])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)

        def one(arg: SSAValue) -> None:
            printer.print_ssa_value(arg)
            assert isinstance(arg.type, RegType)
            printer.print_string(f": {arg.type.data}")

        with printer.in_parens():
            printer.print_list(self.body.block.args, one)
        printer.print_string(" attributes")
        shown = {k: v for k, v in self.properties.items() if k != "sym_name"} | self.attributes
        printer.print_attr_dict(shown)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    def verify_(self) -> None:
        for arg in self.body.block.args:
            check(
                isinstance(arg.type, RegType), f"expected parameters in registers, got {arg.type}"
            )
        threads = self.threads.value.data
        check(1 <= threads <= 1024, f"expected 1 to 1024 threads, got {threads}")


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
    assembly_format = "attr-dict `:` type($res)"

    def __init__(self, register_class: str, count: int) -> None:
        super().__init__(result_types=[RegsType.get(register_class, count)])


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
        super().__init__(operands=[data, value])

    def verify_(self) -> None:
        assert isinstance(self.data.type, RegsType)
        assert isinstance(self.value.type, RegType)
        check(
            self.data.type.cls == self.value.type.data,
            f"expected a value of class {self.data.type.cls}, got {self.value.type.data}",
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
        super().__init__(operands=[list(values)])


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
        super().__init__(
            operands=[[v for v, _ in sources], [v for v, _ in targets]],
            properties={
                "count": IntegerAttr(count, i64),
                "source_index": ArrayAttr([table(t) for _, t in sources]),
                "constants": ArrayAttr([table(t) for t in constants]),
                "target_index": ArrayAttr([table(t) for _, t in targets]),
            },
            regions=[Region(body)],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ForeachOp:
        count = parser.parse_integer(allow_boolean=False)
        sources: list[tuple[SSAValue, list[int]]] = []
        constants: list[list[int]] = []
        targets: list[tuple[SSAValue, list[int]]] = []
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
                parser.raise_error("expected register sources before constants")
            value = parser.parse_operand()
            sources.append((value, indices()))
            type_ = value.type
            args.append(name.resolve(reg(type_.cls) if isinstance(type_, RegsType) else type_))

        def target() -> None:
            value = parser.parse_operand()
            targets.append((value, indices()))

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, source)
        parser.parse_punctuation("->")
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, target)
        region = parser.parse_region(args)
        return cls(count, sources, constants, targets, region.detach_block(0))

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
        printer.print_region(self.body, print_entry_block_args=False)

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
                assert isinstance(index, DenseArrayBase)
                got = index.get_values()
                check(len(got) == count, f"expected tables of {count} entries, got {len(got)}")
                check(
                    all(0 <= i < value.type.count for i in got),
                    f"expected register indices below {value.type.count}, got {max(got)}",
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


def _shown(index: Attribute) -> str:
    assert isinstance(index, DenseArrayBase)
    return "[" + ", ".join(map(str, index.get_values())) + "]"


@irdl_op_definition
class ForOp(IRDLOperation):
    """A counted loop on signed 32-bit registers, tested before the first trip.

    Example:

        ptx.kernel @k(%n: b32) attributes {target = "sm_80", threads = 32 : i32} {
          %zero = ptx.imm 0 : b32
          ptx.for %i = %zero to %n step 1 {
            ptx.bar.sync
          }
        }
    """

    name = "ptx.for"
    low = operand_def(RegType)
    high = operand_def(RegType)
    step = prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(self, low: SSAValue, high: SSAValue, step: int, body: Block | Region) -> None:
        super().__init__(
            operands=[low, high],
            properties={"step": IntegerAttr(step, i64)},
            regions=[body if isinstance(body, Region) else Region(body)],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        arg = parser.parse_argument(expect_type=False).resolve(B32)
        parser.parse_punctuation("=")
        low = parser.parse_operand()
        parser.parse_keyword("to")
        high = parser.parse_operand()
        parser.parse_keyword("step")
        step = parser.parse_integer(allow_boolean=False)
        return cls(low, high, step, parser.parse_region([arg]))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.body.block.args[0])
        printer.print_string(" = ")
        printer.print_ssa_value(self.low)
        printer.print_string(" to ")
        printer.print_ssa_value(self.high)
        printer.print_string(f" step {self.step.value.data} ")
        printer.print_region(self.body, print_entry_block_args=False)

    def verify_(self) -> None:
        check(self.step.value.data > 0, f"expected a positive step, got {self.step.value.data}")


@irdl_op_definition
class IfOp(IRDLOperation):
    """A branch on a predicate.

    Example:

        ptx.kernel @k(%n: b32) attributes {target = "sm_80", threads = 32 : i32} {
          %zero = ptx.imm 0 : b32
          %p = ptx.setp "gt.s32" %n, %zero : (b32, b32) -> pred
          ptx.if %p {
            ptx.bar.sync
          } else {
          }
        }
    """

    name = "ptx.if"
    pred = operand_def(RegType)
    then = region_def("single_block")
    otherwise = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(self, pred: SSAValue, then: Block, otherwise: Block | None = None) -> None:
        super().__init__(operands=[pred], regions=[Region(then), Region(otherwise or Block())])

    @classmethod
    def parse(cls, parser: Parser) -> IfOp:
        pred = parser.parse_operand()
        then = parser.parse_region()
        parser.parse_keyword("else")
        other = parser.parse_region()
        for region in (then, other):
            if not region.blocks:
                region.add_block(Block())
        return cls.create(operands=[pred], regions=[then, other])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.pred)
        printer.print_string(" ")
        printer.print_region(self.then)
        printer.print_string(" else ")
        printer.print_region(self.otherwise)


@irdl_op_definition
class ShflOp(IRDLOperation):
    """Exchange a register between lanes (PTX ISA 9.7.9.6): `ptx.shfl "sync.bfly.b32"`.

    Operands: value, lane (or mask), clamp, member mask.

    Example:

        ptx.kernel @k(%v: b32) attributes {target = "sm_80", threads = 32 : i32} {
          %one = ptx.imm 1 : b32
          %c = ptx.imm 31 : b32
          %all = ptx.imm 4294967295 : b32
          %r = ptx.shfl "sync.bfly.b32", %v, %one, %c, %all : !ptx.reg<b32> -> !ptx.reg<b32>
        }
    """

    name = "ptx.shfl"
    modifiers = prop_def(StringAttr)
    value = operand_def(RegType)
    lane = operand_def(B32)
    clamp = operand_def(B32)
    members = operand_def(B32)
    res = result_def(RegType)
    assembly_format = (
        "$modifiers `,` $value `,` $lane `,` $clamp `,` $members attr-dict `:` "
        "type($value) `->` type($res)"
    )

    def __init__(
        self, modifiers: str, value: SSAValue, lane: SSAValue, clamp: SSAValue, members: SSAValue
    ) -> None:
        super().__init__(
            operands=[value, lane, clamp, members],
            properties={"modifiers": StringAttr(modifiers)},
            result_types=[value.type],
        )


@irdl_op_definition
class BarSyncOp(IRDLOperation):
    """Every thread of the CTA meets: `bar.sync 0` (PTX ISA 9.7.13.1).

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
          ptx.bar.sync
        }
    """

    name = "ptx.bar.sync"
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class CpAsyncCommitOp(IRDLOperation):
    """Close a group of `cp.async` (PTX ISA 9.7.9.25.3.2).

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
          ptx.cp.async.commit_group
        }
    """

    name = "ptx.cp.async.commit_group"
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class CpAsyncWaitOp(IRDLOperation):
    """Wait until at most `pending` groups are on their way (PTX ISA 9.7.9.25.3.3).

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
          ptx.cp.async.wait_group {pending = 1 : i64}
        }
    """

    name = "ptx.cp.async.wait_group"
    pending = prop_def(IntegerAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def __init__(self, pending: int) -> None:
        super().__init__(properties={"pending": IntegerAttr(pending, i64)})


@irdl_op_definition
class PrintfOp(IRDLOperation):
    """`vprintf`: f32 arguments are widened, as in C.

    Example:

        ptx.kernel @k(%n: b32) attributes {target = "sm_80", threads = 32 : i32} {
          ptx.printf "n = %d\\n", %n : !ptx.reg<b32>
        }
    """

    name = "ptx.printf"
    format = prop_def(StringAttr)
    args = var_operand_def(RegType)
    assembly_format = "$format `,` $args attr-dict `:` type($args)"

    def __init__(self, format: str, args: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(args)], properties={"format": StringAttr(format)})
