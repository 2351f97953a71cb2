"""A `func.func` of a module as a function of numbers and values of the layout algebra, on the host:
before `cute-expand-ops`, behind it, or behind `cute-to-base`. What it prints goes to `sys.stdout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import func, llvm
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from cutedialect.dialects.cute.algebra import is_value, value_of
from cutedialect.layout.expression import dynamic_leaves

from . import algebra_rules, control_rules
from .cta import Choices, Cta, InterpreterError, slots
from .elements import dtype_of
from .rules import Code

_RULES = algebra_rules, control_rules
_shown = algebra_rules.shown


class Function:
    """One function, read once. `name` may be left out where it is `main` or the only one.

    Raises InterpreterError for a function that is not there or has an op without a rule.
    """

    def __init__(self, module: ModuleOp, name: str | None = None) -> None:
        functions = {
            op.sym_name.data: op
            for op in module.ops
            if isinstance(op, func.FuncOp) and not op.is_declaration
        }
        if name is None:
            name = "main" if "main" in functions or len(functions) != 1 else next(iter(functions))
        if name not in functions:
            listed = ", ".join(f"@{one}" for one in functions) or "none"
            raise InterpreterError(module, f"expected a function @{name}, got {listed}")
        self.op = functions[name]
        if len(self.op.body.blocks) != 1:
            count = len(self.op.body.blocks)
            raise InterpreterError(
                self.op, f"expected one block (branches as scf.if), got {count} blocks"
            )
        self._code = Code(self.op.body.block)

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        """The results for numbers, of a value of the algebra its run-time leaves in their order."""
        block = self.op.body.block
        if len(args) != len(block.args):
            raise ValueError(f"expected {len(block.args)} arguments, got {len(args)}")
        values = [_value(arg.type, one) for arg, one in zip(block.args, args, strict=True)]
        cta = Cta(Choices(), dict(zip(slots(block.args), values, strict=True)))
        self._code.finish(cta)
        last = block.last_op
        return tuple(cta.values[value] for value in slots(last.operands if last else ()))

    def text_of(self, results: Sequence[Any]) -> str:
        """Results as lines of text."""
        types = self.op.function_type.outputs.data
        return "".join(
            f"result {number}: {_shown(type_, value)}\n"
            for number, (type_, value) in enumerate(zip(types, results, strict=True))
        )


def leaf_types(type_: Attribute) -> list[str]:
    """What an argument of a type is made of: the widths of its leaves."""
    if is_value(type_):
        return [f"i{leaf.bits}" for leaf in dynamic_leaves(value_of(type_))]
    return [str(type_)]


def _value(type_: Attribute, given: Any) -> Any:
    if is_value(type_):
        leaves = tuple(map(int, given if isinstance(given, Sequence) else (given,)))
        wanted = leaf_types(type_)
        if len(leaves) != len(wanted):
            raise ValueError(f"expected {len(wanted)} run-time leaves of {type_}, got {leaves}")
        return leaves
    if isinstance(type_, llvm.LLVMStructType):
        fields = type_.types.data
        if not isinstance(given, Sequence) or len(given) != len(fields):
            raise ValueError(f"expected {len(fields)} fields of {type_}, got {given}")
        return tuple(_value(field, one) for field, one in zip(fields, given, strict=True))
    return dtype_of(type_).type(given)
