"""The `gpu` dialect: kernels, launches and what threads ask, in the custom syntax of MLIR. xDSL has
classes of these names that read the generic form only, and none of `gpu.printf`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    IndexType,
    IntegerType,
    StringAttr,
    SymbolNameConstraint,
    UnitAttr,
    i32,
)
from xdsl.dialects.gpu import DimensionAttr, DimensionEnum
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    opt_operand_def,
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
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    MemoryWriteEffect,
    NoTerminator,
    Pure,
    SymbolOpInterface,
    SymbolTable,
)

from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition

from .arguments import parse_argument
from .checks import check
from .effects import ORDERS, Effects

_INDEX = IndexType()
_DIMENSIONS = tuple(DimensionEnum)
# Block numbers, thread numbers, extents of the grid, extents of a block, each along x, y and z.
_LAUNCH_ARGUMENTS = 4 * len(_DIMENSIONS)


@irdl_op_definition
class ModuleOp(IRDLOperation):
    """Functions of the device.

    Example:

        gpu.module @kernels {
          gpu.func @k(%n: i32) kernel {
            gpu.return
          }
        }
    """

    name = "gpu.module"
    sym_name = prop_def(SymbolNameConstraint())
    targets = opt_prop_def(ArrayAttr)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface(), SymbolTable())

    @classmethod
    def parse(cls, parser: Parser) -> ModuleOp:
        properties: dict[str, Attribute] = {"sym_name": parser.parse_symbol_name()}
        if parser.parse_optional_characters("["):
            targets: list[Attribute] = []
            while not parser.parse_optional_characters("]"):
                targets.append(parser.parse_attribute())
                parser.parse_optional_punctuation(",")
            properties["targets"] = ArrayAttr(targets)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        region = parser.parse_region()
        if not region.blocks:
            region.add_block(Block())
        extra = {} if attributes is None else dict(attributes.data)
        return cls.create(properties=properties, attributes=extra, regions=[region])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        if self.targets is not None:
            printer.print_string(" ")
            printer.print_attribute(self.targets)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)


@irdl_op_definition
class FuncOp(IRDLOperation):
    """A function of the device; a kernel has no results. `known_block_size` has the threads of a
    block along x, y and z.

    Example:

        gpu.module @kernels {
          gpu.func @k(%n: i32) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
            gpu.return
          }
        }
    """

    name = "gpu.func"
    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    kernel = opt_prop_def(UnitAttr)
    known_block_size = opt_prop_def(DenseArrayBase)
    known_grid_size = opt_prop_def(DenseArrayBase)
    body = region_def()
    traits = traits_def(IsolatedFromAbove(), HasParent(ModuleOp), SymbolOpInterface())

    _SIZES: ClassVar = ("known_block_size", "known_grid_size")

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        name = parser.parse_symbol_name()
        arguments: list[Parser.Argument] = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: parse_argument(parser)
        )
        results: Sequence[Attribute] = ()
        if parser.parse_optional_punctuation("->"):
            results = parser.parse_optional_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_type
            ) or [parser.parse_type()]
        properties: dict[str, Attribute] = {
            "sym_name": name,
            "function_type": FunctionType.from_lists([arg.type for arg in arguments], results),
        }
        if parser.parse_optional_keyword("kernel"):
            properties["kernel"] = UnitAttr()
        given = parser.parse_optional_attr_dict_with_keyword()
        extra = {} if given is None else dict(given.data)
        properties |= {key: extra.pop(key) for key in cls._SIZES if key in extra}
        region = parser.parse_region(arguments)
        return cls.create(properties=properties, attributes=extra, regions=[region])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        with printer.in_parens():
            printer.print_list(self.body.blocks[0].args, printer.print_block_argument)
        outputs = self.function_type.outputs.data
        if outputs:
            printer.print_string(" -> ")
            if len(outputs) == 1:
                printer.print_attribute(outputs[0])
            else:
                with printer.in_parens():
                    printer.print_list(outputs, printer.print_attribute)
        if self.kernel is not None:
            printer.print_string(" kernel")
        sizes = {key: self.properties[key] for key in self._SIZES if key in self.properties}
        printer.print_op_attributes({**sizes, **self.attributes}, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    def verify_(self) -> None:
        check(bool(self.body.blocks), "expected a body, got a declaration")
        types = tuple(self.body.blocks[0].arg_types)
        inputs = self.function_type.inputs.data
        check(
            types == inputs,
            f"expected the arguments of the body to have the types {_listed(inputs)}, got "
            f"{_listed(types)}",
        )
        outputs = self.function_type.outputs.data
        check(
            self.kernel is None or not outputs,
            f"expected a kernel without results, got {_listed(outputs)}",
        )
        for name in self._SIZES:
            size = self.properties.get(name)
            if isinstance(size, DenseArrayBase):
                extents = tuple(size.get_values())
                check(
                    len(extents) == len(_DIMENSIONS) and min(extents, default=0) >= 1,
                    f"expected 3 positive extents as {name}, got {extents}",
                )
        for block in self.body.blocks:
            last = block.last_op
            if isinstance(last, ReturnOp):
                given = tuple(last.operand_types)
                check(
                    given == outputs,
                    f"expected gpu.return of {_listed(outputs)}, got {_listed(given)}",
                )


def _listed(types: Sequence[Attribute]) -> str:
    return f"({', '.join(map(str, types))})"


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """The end of a function of the device.

    Example:

        gpu.module @kernels {
          gpu.func @twice(%n: i32) -> i32 {
            %m = arith.addi %n, %n : i32
            gpu.return %m : i32
          }
        }
    """

    name = "gpu.return"
    args = var_operand_def()
    traits = traits_def(IsTerminator(), HasParent(FuncOp))
    assembly_format = "attr-dict ($args^ `:` type($args))?"


@irdl_op_definition
class TerminatorOp(IRDLOperation):
    """The end of the body of a launch.

    Example:

        func.func @f(%one: index) {
          gpu.launch blocks(%bx, %by, %bz) in (%gx = %one, %gy = %one, %gz = %one)
                     threads(%tx, %ty, %tz) in (%sx = %one, %sy = %one, %sz = %one) {
            gpu.terminator
          }
          func.return
        }
    """

    name = "gpu.terminator"
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict"


@irdl_op_definition
class PrintfOp(IRDLOperation):
    """Text from a thread, in C's format.

    Example:

        gpu.module @kernels {
          gpu.func @k(%n: i32) kernel {
            gpu.printf "n = %d", %n : i32
            gpu.return
          }
        }
    """

    name = "gpu.printf"
    format = prop_def(StringAttr)
    args = var_operand_def()
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$format attr-dict (`,` $args^ `:` type($args))?"

    def __init__(self, format: str, args: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(args)], properties={"format": StringAttr(format)})

    def effects(self) -> Effects:
        return ORDERS


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """A launch whose kernel is its body. The body's arguments are the numbers of block and thread,
    then the extents of grid and block.

    Example:

        func.func @f(%one: index, %bytes: i32) {
          gpu.launch blocks(%bx, %by, %bz) in (%gx = %one, %gy = %one, %gz = %one)
                     threads(%tx, %ty, %tz) in (%sx = %one, %sy = %one, %sz = %one)
                     dynamic_shared_memory_size %bytes {
            gpu.printf "block %lld", %bx : index
            gpu.terminator
          }
          func.return
        }
    """

    name = "gpu.launch"
    sizes = var_operand_def(IndexType)
    dynamic_shared_memory_size = opt_operand_def(IntegerType(32))
    body = region_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self, sizes: Sequence[SSAValue], shared_bytes: SSAValue | None, body: Region
    ) -> None:
        super().__init__(operands=[list(sizes), shared_bytes], regions=[body])

    @classmethod
    def parse(cls, parser: Parser) -> LaunchOp:
        numbers: list[Parser.Argument] = []
        extents: list[Parser.Argument] = []
        sizes: list[SSAValue] = []
        for keyword in ("blocks", "threads"):
            parser.parse_keyword(keyword)
            numbers += _three(parser, lambda: _index_argument(parser))
            parser.parse_keyword("in")
            for argument, size in _three(parser, lambda: _assigned(parser)):
                extents.append(argument)
                sizes.append(size)
        shared_bytes = None
        if parser.parse_optional_keyword("dynamic_shared_memory_size"):
            shared_bytes = parser.resolve_operand(parser.parse_unresolved_operand(), i32)
        body = parser.parse_region(numbers + extents)
        op = cls(sizes, shared_bytes, body)
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        args = self.body.blocks[0].args
        per = len(_DIMENSIONS)
        for number, keyword in enumerate(("blocks", "threads")):
            printer.print_string(f" {keyword}(")
            printer.print_list(args[number * per :][:per], printer.print_ssa_value)
            printer.print_string(") in (")
            extents = args[(number + 2) * per :][:per]
            sizes = self.sizes[number * per :][:per]
            for position, (extent, size) in enumerate(zip(extents, sizes, strict=True)):
                printer.print_string(", " if position else "")
                printer.print_ssa_value(extent)
                printer.print_string(" = ")
                printer.print_ssa_value(size)
            printer.print_string(")")
        if self.dynamic_shared_memory_size is not None:
            printer.print_string(" dynamic_shared_memory_size ")
            printer.print_ssa_value(self.dynamic_shared_memory_size)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        check(len(self.sizes) == 6, f"expected 6 extents of grid and block, got {len(self.sizes)}")
        types = list(self.body.blocks[0].arg_types) if self.body.blocks else []
        check(
            types == [_INDEX] * _LAUNCH_ARGUMENTS,
            f"expected {_LAUNCH_ARGUMENTS} index arguments of the body, got {_listed(types)}",
        )


def _three(parser: Parser, one: Callable) -> list:
    start = parser.pos
    parts = parser.parse_comma_separated_list(parser.Delimiter.PAREN, one)
    if len(parts) != len(_DIMENSIONS):
        parser.raise_error(f"expected 3 values, got {len(parts)}", start, parser.pos)
    return parts


def _index_argument(parser: Parser) -> Parser.Argument:
    argument = parser.parse_argument(expect_type=False)
    return argument.resolve(_INDEX)


def _assigned(parser: Parser) -> tuple[Parser.Argument, SSAValue]:
    argument = _index_argument(parser)
    parser.parse_punctuation("=")
    return argument, parser.resolve_operand(parser.parse_unresolved_operand(), _INDEX)


class NumberOp(IRDLOperation):
    """What a thread asks along one dimension."""

    dimension = prop_def(DimensionAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> Operation:
        name = parser.expect(
            lambda: parser.parse_optional_keyword_in({str(one) for one in _DIMENSIONS}),
            "expected x, y or z",
        )
        attributes = parser.parse_optional_attr_dict()
        dimension = DimensionAttr(DimensionEnum(name))
        return cls.create(
            result_types=[_INDEX], properties={"dimension": dimension}, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.dimension.data}")
        printer.print_op_attributes(self.attributes)


def _number_op(name: str, meaning: str) -> type[NumberOp]:
    doc = f"""{meaning} along a dimension.

    Example:

        gpu.module @kernels {{
          gpu.func @k() kernel {{
            %x = gpu.{name} x
            gpu.return
          }}
        }}
    """
    title = "".join(part.capitalize() for part in name.split("_")) + "Op"
    return irdl_op_definition(
        type(title, (NumberOp,), {"name": f"gpu.{name}", "__doc__": doc, "__module__": __name__})
    )


NUMBERS = {
    name: _number_op(name, meaning)
    for name, meaning in (
        ("thread_id", "The number of the thread in its block"),
        ("block_id", "The number of the block in the grid"),
        ("block_dim", "The threads of a block"),
        ("grid_dim", "The blocks of the grid"),
        ("global_id", "The number of the thread in the grid"),
    )
}
"""What threads ask, by the name without the dialect."""


def runs_on_device(op: Operation) -> bool:
    """Whether an op stands in a function of the device or in a launch."""
    around = op.parent_op()
    while around is not None:
        if isinstance(around, ModuleOp | LaunchOp) or around.name == "cute.kernel":
            return True
        around = around.parent_op()
    return False


Gpu = Dialect(
    "gpu",
    [ModuleOp, FuncOp, ReturnOp, TerminatorOp, PrintfOp, LaunchOp, *NUMBERS.values()],
    [DimensionAttr],
)
