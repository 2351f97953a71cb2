"""`cute-to-base`: values of the layout algebra as structs of their run-time leaves, in the dialects
`arith`, `scf`, `llvm` and `ub`; `cute-expand-ops` comes before it.

    func.func @f(%l: !cute.layout<"(?,4):(1,?)">) -> i32 {
      %0:2 = cute.get_scalars<{only_dynamic}> (%l) : !cute.layout<"(?,4):(1,?)">
      func.return %0#0 : i32
    becomes
    func.func @f(%l: !llvm.struct<(i32, i32)>) -> i32 {
      %0 = llvm.extractvalue %l[0] : !llvm.struct<(i32, i32)>
      func.return %0 : i32
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import FunctionType, IntegerAttr, IntegerType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import GetLayoutOp, MakeViewOp
from cutedialect.dialects.cute.algebra import AlgebraOp, is_value, value_of
from cutedialect.dialects.gpu import FuncOp as GpuFuncOp
from cutedialect.dialects.gpu import runs_on_device
from cutedialect.dialects.walks import walk
from cutedialect.layout.expression import dynamic_leaves

from .arithmetic import Emitter, located
from .printing import call_printf, print_on_device
from .structs import filled, made, numbers, poison, struct_of

_TUPLES = tuple(f"make_{kind}" for kind in ("int_tuple", "shape", "stride", "coord", "tile"))
_LOWERED = ("static", "print", "get_scalars", "make_layout", "make_composed_layout", *_TUPLES)


@dataclass(frozen=True)
class ToBasePass(ModulePass):
    """Lowers constructors and accessors of the layout algebra, and the types of functions, blocks
    and other operations that have such values.
    """

    name = "cute-to-base"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        ops = [one for one in walk(op) if isinstance(one, AlgebraOp)]
        for one in walk(op):
            if (
                isinstance(one, GetLayoutOp)
                or (isinstance(one, MakeViewOp) and any(is_value(x.type) for x in one.operands))
                or (isinstance(one, AlgebraOp) and one.ROW.name not in _LOWERED)
            ):
                message = f"expected an operation that cute-expand-ops leaves, got {one.name}"
                one.emit_error(message, PassFailedException(message))
        # The types say what is static, and are gone once the values are structs.
        types = [[operand.type for operand in one.operands] for one in ops]
        results = [[result.type for result in one.results] for one in ops]
        for one in walk(op):
            _convert(one)
        for one, operands, given in zip(ops, types, results, strict=True):
            lower(one, op, operands, given)


def _convert(op: Operation) -> None:
    """The types of an op's results and blocks, and of a function, as structs."""
    values: list[SSAValue] = [] if isinstance(op, AlgebraOp) else list(op.results)
    for region in op.regions:
        for block in region.blocks:
            values += block.args
    for value in values:
        if is_value(value.type):
            Rewriter.replace_value_with_new_type(value, struct_of(value.type))
    if isinstance(op, FuncOp | GpuFuncOp):
        type_ = op.function_type
        op.function_type = FunctionType.from_lists(
            _converted(type_.inputs.data), _converted(type_.outputs.data)
        )


def _converted(types: Sequence[Attribute]) -> list[Attribute]:
    return [struct_of(type_) if is_value(type_) else type_ for type_ in types]


def lower(
    op: AlgebraOp, module: ModuleOp, types: Sequence[Attribute], results: Sequence[Attribute]
) -> None:
    """Replace one op, whose operands had `types` and its results `results` before."""
    emitter = Emitter({})
    name = op.ROW.name
    if name == "print":
        if runs_on_device(op):
            print_on_device(emitter, types[0], op.operands[0])
        else:
            call_printf(emitter, module, types[0], op.operands[0])
        values: list[SSAValue] = []
    elif name == "get_scalars":
        values = numbers(emitter, types[0], op.operands[0], "only_dynamic" in op.properties)
    elif name == "static":
        values = [poison(emitter, struct_of(results[0]))]
    elif name in _TUPLES:
        leaves = _given(emitter, op, types, results[0])
        values = [made(emitter, results[0], leaves)]
    else:
        fields = list(op.operands)
        if name == "make_composed_layout":
            fields.reverse()
        values = [filled(emitter, struct_of(results[0]), fields)]
    located(emitter.ops, op.location)
    Rewriter.replace_op(op, emitter.ops, values)


def _given(
    emitter: Emitter, op: AlgebraOp, types: Sequence[Attribute], result: Attribute
) -> list[SSAValue]:
    """The operands of a constructor as numbers: a static int tuple is a constant."""
    leaves: list[SSAValue] = []
    for operand, type_, leaf in zip(
        op.operands, types, dynamic_leaves(value_of(result)), strict=True
    ):
        number = value_of(type_) if is_value(type_) else None
        if isinstance(number, int):
            constant = arith.ConstantOp(IntegerAttr(number, IntegerType(leaf.bits)))
            leaves.append(emitter.add(constant))
        else:
            leaves.append(operand)
    return leaves
