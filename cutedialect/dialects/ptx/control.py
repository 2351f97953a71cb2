"""Kernels, structured control flow, and output from a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    i32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    NoTerminator,
    SymbolOpInterface,
)

from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition

from .arrays import entries, table
from .isolation import Isolated
from .registers import B32, PRED, RegType, TensorMapType, check
from .syntax import (
    integer,
    parse_defined,
    parse_keyword_extra,
    parse_optional_defined,
    parse_reg,
    print_keyword_extra,
)

_TENSOR_MAP = "tensor_map"
_KERNEL_PROPERTIES = ("target", "threads", "smem", "min_ctas", "max_regs", "cluster")


@irdl_op_definition
class KernelOp(IRDLOperation):
    """A kernel entry (PTX ISA 11.1): parameters are registers of the given classes.

    `threads` is the block size, `smem` the bytes of dynamic shared memory, `min_ctas` and
    `max_regs` the performance directives of PTX ISA 11.4, `cluster` the CTAs of a cluster along x, y
    and z (PTX ISA 11.7). A parameter `tensor_map` is 128 bytes; its value is their generic address.

    Example:

        ptx.kernel @k(%a: b64, %n: b32) attributes {target = "sm_80", threads = 128 : i32} {
          ptx.bar.sync 0
        }
    """

    name = "ptx.kernel"
    sym_name = prop_def(SymbolNameConstraint())
    target = prop_def(StringAttr)
    threads = prop_def(IntegerAttr)
    smem = opt_prop_def(IntegerAttr)
    min_ctas = opt_prop_def(IntegerAttr)
    max_regs = opt_prop_def(IntegerAttr)
    cluster = opt_prop_def(DenseArrayBase)
    body = region_def("single_block")
    traits = traits_def(Isolated(), NoTerminator(), SymbolOpInterface())

    def __init__(
        self,
        name: str,
        body: Block | Region,
        target: str,
        threads: int,
        smem: int = 0,
        cluster: Sequence[int] | None = None,
    ) -> None:
        super().__init__(
            regions=[body if isinstance(body, Region) else Region(body)],
            properties={
                "sym_name": StringAttr(name),
                "target": StringAttr(target),
                "threads": IntegerAttr(threads, i32),
                "smem": IntegerAttr(smem, i32) if smem else None,
                "cluster": None if cluster is None else table(cluster),
            },
        )

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        name = parser.parse_symbol_name()

        def one() -> Parser.Argument:
            arg = parser.parse_argument(expect_type=False)
            parser.parse_punctuation(":")
            return arg.resolve(_parse_parameter(parser))

        args = parser.parse_comma_separated_list(parser.Delimiter.PAREN, one)
        attributes = parse_keyword_extra(parser)
        region = parser.parse_region(args)
        properties: dict[str, Attribute] = {"sym_name": name}
        extra: dict[str, Attribute] = {}
        for key, value in attributes.items():
            known = key in _KERNEL_PROPERTIES
            (properties if known else extra)[key] = value
        return cls.create(properties=properties, attributes=extra, regions=[region])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)

        def one(arg: SSAValue) -> None:
            printer.print_ssa_value(arg)
            shown = arg.type.data if isinstance(arg.type, RegType) else _TENSOR_MAP
            printer.print_string(f": {shown}")

        with printer.in_parens():
            printer.print_list(self.body.block.args, one)
        printer.print_string(" attributes")
        shown = {k: v for k, v in self.properties.items() if k != "sym_name"} | self.attributes
        printer.print_attr_dict(shown)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    def verify_(self) -> None:
        for arg in self.body.block.args:
            check(
                isinstance(arg.type, RegType | TensorMapType),
                f"expected parameters in registers or tensor maps, got {arg.type}",
            )
        threads = self.threads.value.data
        check(1 <= threads <= 1024, f"expected 1 to 1024 threads, got {threads}")
        for name, least in (("smem", 0), ("min_ctas", 1), ("max_regs", 1)):
            given = self.properties.get(name)
            if isinstance(given, IntegerAttr):
                check(
                    given.value.data >= least,
                    f"expected {name} of {least} or more, got {given.value.data}",
                )
        if self.cluster is not None:
            extents = tuple(entries(self.cluster))
            check(
                len(extents) == 3 and min(extents) >= 1 and prod(extents) <= 16,
                f"expected a cluster of 3 extents and 1 to 16 CTAs, got {extents}",
            )


def _parse_parameter(parser: Parser) -> RegType | TensorMapType:
    if parser.parse_optional_keyword(_TENSOR_MAP):
        return TensorMapType()
    return parse_reg(parser)


@irdl_op_definition
class ForOp(IRDLOperation):
    """A counted loop on signed 32-bit registers, tested before the first trip. The step is positive:
    a constant, or a register of the same value in all trips.

    Example:

        ptx.kernel @k(%n: b32, %by: b32) attributes {target = "sm_80", threads = 32 : i32} {
          %zero = ptx.imm 0 : b32
          ptx.for %i = %zero to %n step 1 {
            ptx.bar.sync 0
          }
          ptx.for %i = %zero to %n step %by {
            ptx.bar.sync 0
          }
        }
    """

    name = "ptx.for"
    low = operand_def(B32)
    high = operand_def(B32)
    by = opt_operand_def(B32)
    step = opt_prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(
        self, low: SSAValue, high: SSAValue, step: int | SSAValue, body: Block | Region
    ) -> None:
        constant = isinstance(step, int)
        super().__init__(
            operands=[low, high, None if constant else step],
            properties={"step": integer(step) if constant else None},
            regions=[body if isinstance(body, Region) else Region(body)],
        )

    @classmethod
    def parse(cls, parser: Parser) -> ForOp:
        arg = parser.parse_argument(expect_type=False).resolve(B32)
        parser.parse_punctuation("=")
        low = parse_defined(parser)
        parser.parse_keyword("to")
        high = parse_defined(parser)
        parser.parse_keyword("step")
        step = parse_optional_defined(parser)
        if step is None:
            step = parser.parse_integer(allow_boolean=False)
        extra = parse_keyword_extra(parser)
        made = cls(low, high, step, parser.parse_region([arg]))
        made.attributes |= extra
        return made

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.body.block.args[0])
        printer.print_string(" = ")
        printer.print_ssa_value(self.low)
        printer.print_string(" to ")
        printer.print_ssa_value(self.high)
        printer.print_string(" step ")
        if self.by is not None:
            printer.print_ssa_value(self.by)
        elif self.step is not None:
            printer.print_string(str(self.step.value.data))
        printer.print_string(" ")
        print_keyword_extra(printer, self.attributes)
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    def verify_(self) -> None:
        check(
            (self.by is None) != (self.step is None),
            "expected a step, either a constant or a register, got "
            + ("none" if self.by is None else "both"),
        )
        if self.step is not None:
            check(self.step.value.data > 0, f"expected a positive step, got {self.step.value.data}")
        types = [arg.type for arg in self.body.block.args]
        check(types == [B32], f"expected one counter of class b32, got {len(types)} arguments")


@irdl_op_definition
class RepeatOp(IRDLOperation):
    """A loop tested at its end: its last op, `ptx.again`, says whether there is another trip.

    Example:

        ptx.kernel @k(%n: b32) attributes {target = "sm_80", threads = 32 : i32} {
          ptx.repeat {
            ptx.bar.sync 0
            %p = ptx.setp "lt.s32" %n, %n : (b32, b32) -> pred
            ptx.again %p
          }
        }
    """

    name = "ptx.repeat"
    body = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(self, body: Block | Region) -> None:
        super().__init__(regions=[body if isinstance(body, Region) else Region(body)])

    @classmethod
    def parse(cls, parser: Parser) -> RepeatOp:
        extra = parse_keyword_extra(parser)
        made = cls(parser.parse_region())
        made.attributes |= extra
        return made

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_keyword_extra(printer, self.attributes)
        printer.print_region(self.body, print_empty_block=False)

    def verify_(self) -> None:
        last = self.body.block.last_op
        check(isinstance(last, AgainOp), f"expected ptx.again at the end, got {last and last.name}")


@irdl_op_definition
class AgainOp(IRDLOperation):
    """The end of a trip of `ptx.repeat`: another one where the predicate holds.

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
          ptx.repeat {
            %p = ptx.imm 0 : pred
            ptx.again %p
          }
        }
    """

    name = "ptx.again"
    pred = operand_def(PRED)
    assembly_format = "$pred attr-dict"

    def __init__(self, pred: SSAValue) -> None:
        super().__init__(operands=[pred])

    def verify_(self) -> None:
        around = self.parent_op()
        good = isinstance(around, RepeatOp) and self.next_op is None
        check(good, "expected to be the last op of a ptx.repeat, got another place")


@irdl_op_definition
class IfOp(IRDLOperation):
    """A branch on a predicate.

    Example:

        ptx.kernel @k(%n: b32) attributes {target = "sm_80", threads = 32 : i32} {
          %zero = ptx.imm 0 : b32
          %p = ptx.setp "gt.s32" %n, %zero : (b32, b32) -> pred
          ptx.if %p {
            ptx.bar.sync 0
          } else {
            ptx.trap
          }
        }
    """

    name = "ptx.if"
    pred = operand_def(PRED)
    then = region_def("single_block")
    otherwise = region_def("single_block")
    traits = traits_def(NoTerminator())

    def __init__(self, pred: SSAValue, then: Block, otherwise: Block | None = None) -> None:
        regions = [Region(then), Region(otherwise or Block())]
        Operation.__init__(self, operands=[pred], regions=regions)

    @classmethod
    def parse(cls, parser: Parser) -> IfOp:
        pred = parse_defined(parser)
        extra = parse_keyword_extra(parser)
        then = parser.parse_region()
        other = parser.parse_region() if parser.parse_optional_keyword("else") else Region()
        for region in (then, other):
            if not region.blocks:
                region.add_block(Block())
        return cls.create(operands=[pred], regions=[then, other], attributes=extra)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.pred)
        printer.print_string(" ")
        print_keyword_extra(printer, self.attributes)
        printer.print_region(self.then, print_empty_block=False)
        if self.otherwise.block.first_op is not None:
            printer.print_string(" else ")
            printer.print_region(self.otherwise)


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """End this thread early (PTX ISA 9.7.12.6), inside a `ptx.if`.

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
          %p = ptx.imm 1 : pred
          ptx.if %p {
            ptx.return
          }
        }
    """

    name = "ptx.return"
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class TrapOp(IRDLOperation):
    """Abort the grid (PTX ISA 9.7.19.4).

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
          ptx.trap
        }
    """

    name = "ptx.trap"
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class PrintfOp(IRDLOperation):
    """`vprintf`: f32 arguments are widened to f64 as in C, b16 and pred to b32 with zeros.

    Example:

        ptx.kernel @k(%n: b32) attributes {target = "sm_80", threads = 32 : i32} {
          ptx.printf "n = %d\\n", %n : !ptx.reg<b32>
        }
    """

    name = "ptx.printf"
    format = prop_def(StringAttr)
    args = var_operand_def(RegType)
    assembly_format = "$format (`,` $args^ `:` type($args))? attr-dict"

    def __init__(self, format: str, args: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(args)], properties={"format": StringAttr(format)})


@irdl_op_definition
class FailOp(IRDLOperation):
    """Record that an assertion has failed, with its message and this op's location, in the status
    word of the module, unless another one is recorded there: `atom.cas` (PTX ISA 9.7.13.5). The
    kernel goes on.

    Example:

        ptx.kernel @k() attributes {target = "sm_80", threads = 32 : i32} {
          ptx.fail "expected one row or more"
        }
    """

    name = "ptx.fail"
    message = prop_def(StringAttr)
    assembly_format = "$message attr-dict"

    def __init__(self, message: str) -> None:
        super().__init__(properties={"message": StringAttr(message)})
