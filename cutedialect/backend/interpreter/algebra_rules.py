"""Rules of the layout algebra, of what `cute-to-base` makes of it, and of the `gpu` dialect. A
value of the algebra is the tuple of its run-time leaves, a struct that of its fields, a pointer to
a constant the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from xdsl.dialects import func, llvm, ub
from xdsl.dialects import math as mathd
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute

from cutedialect.dialects import gpu
from cutedialect.dialects.cute.algebra import (
    OPS,
    AlgebraOp,
    is_value,
    numbers_of,
    outcome,
    value_of,
)
from cutedialect.layout import Dyn, Layout, flatten
from cutedialect.layout.expression import dynamic_leaves, evaluate, map_dynamic

from .cta import Cta, slot, slots
from .elements import dtype_of
from .rules import Code, Step, function, nothing, rule

_COMPUTED = [op for name, op in OPS.items() if op.ROW.rule and name != "get_scalars"]
_MADE = [op for name, op in OPS.items() if name.startswith("make_") and not op.ROW.rule]
# Calls within each other; Python's own stack ends at about 1,000.
_DEPTH = 200
_LENGTH = re.compile(r"(%[-+ #0]*\d*(?:\.\d+)?)l+")


def shown(type_: Attribute, value: Any) -> str:
    """A value as text: one of the algebra with its leaves in place of each `?`."""
    if not is_value(type_):
        return str(value)
    leaves = iter(value)
    whole = type(type_)(map_dynamic(value_of(type_), lambda leaf: int(next(leaves))))  # type: ignore
    text = re.search(r'"(.*)"', str(whole))
    assert text is not None
    return text[1]


def _named(types: Sequence[Attribute], values: Sequence[Any]) -> dict[tuple[int, int], int]:
    """The numbers of run-time leaves by (operand, position)."""
    return {
        (number, position): int(leaf)
        for number, (type_, value) in enumerate(zip(types, values, strict=True))
        for position, leaf in enumerate(value if is_value(type_) else (value,))
    }


@function(*_COMPUTED)
def _computed(op: AlgebraOp) -> Any:
    types = [operand.type for operand in op.operands]
    value = outcome(op)
    if op.ROW.variadic_result:
        parts = list(flatten(value))
        if op.ROW.name == "get_layouts_from_tile":
            parts = [part for part in parts if isinstance(part, Layout)]
    else:
        parts = [value]

    def compute(*values: Any) -> Any:
        leaves = _named(types, values)
        results: list[Any] = []
        for result, part in zip(op.results, parts, strict=True):
            if is_value(result.type):
                results.append(tuple(evaluate(leaf, leaves) for leaf in dynamic_leaves(part)))
            else:
                results.append(np.bool_(evaluate(part, leaves)))
        return results if len(op.results) > 1 else results[0]

    return compute


@function(OPS["get_scalars"])
def _scalars(op: AlgebraOp) -> Any:
    numbers = numbers_of(value_of(op.operands[0].type))
    if "only_dynamic" in op.properties:
        numbers = [number for number in numbers if isinstance(number, Dyn)]
    kinds = [dtype_of(result.type).type for result in op.results]

    def scalars(value: Any) -> Any:
        leaves = iter(value)
        given = (next(leaves) if isinstance(number, Dyn) else number for number in numbers)
        results = [kind(int(number)) for kind, number in zip(kinds, given, strict=True)]
        return results if len(results) > 1 else results[0]

    return scalars


@function(*_MADE)
def _made(op: AlgebraOp) -> Any:
    """Leaves in the order of the result: a composed layout begins with what is applied first."""
    types = [operand.type for operand in op.operands]
    is_reversed = op.ROW.name == "make_composed_layout"
    is_layout = op.ROW.name in ("make_layout", "make_composed_layout")

    def make(*values: Any) -> Any:
        parts = [
            (tuple(value) or (() if is_layout else (value_of(type_),)))
            if is_value(type_)
            else (int(value),)
            for type_, value in zip(types, values, strict=True)
        ]
        ordered = reversed(parts) if is_reversed else parts
        return tuple(leaf for part in ordered for leaf in part)

    return make


@function(OPS["static"])
def _static(op: AlgebraOp) -> Any:
    del op
    return lambda: ()


@rule(OPS["print"])
def _print(op: AlgebraOp) -> Step:
    type_, given = op.operands[0].type, slot(op.operands[0])
    return lambda cta: print(shown(type_, cta.values[given]))


def _empty(type_: Attribute) -> Any:
    if isinstance(type_, llvm.LLVMStructType):
        return tuple(_empty(field) for field in type_.types.data)
    return dtype_of(type_).type(0)


@function(ub.PoisonOp)
def _poison(op: ub.PoisonOp) -> Any:
    value = _empty(op.results[0].type)
    return lambda: value


@function(llvm.ExtractValueOp)
def _extract(op: llvm.ExtractValueOp) -> Any:
    path = tuple(op.position.get_values())

    def extract(struct: Any) -> Any:
        for field in path:
            struct = struct[field]
        return struct

    return extract


@function(llvm.InsertValueOp)
def _insert(op: llvm.InsertValueOp) -> Any:
    path = tuple(op.position.get_values())

    def insert(struct: Any, value: Any, path: tuple[int, ...] = path) -> Any:
        if not path:
            return value
        first, *rest = path
        inner = insert(struct[first], value, tuple(rest))
        return (*struct[:first], inner, *struct[first + 1 :])

    return insert


@function(mathd.AbsIOp)
def _absolute(op: mathd.AbsIOp) -> Any:
    del op
    return np.abs


@function(llvm.AddressOfOp)
def _address(op: llvm.AddressOfOp) -> Any:
    """A constant text of the module."""
    module = op.parent_op()
    while not isinstance(module, ModuleOp):
        assert module is not None
        module = module.parent_op()
    name = op.global_name.string_value()
    for one in module.body.block.ops:
        if isinstance(one, llvm.GlobalOp) and one.sym_name.data == name:
            value = one.value
            if isinstance(value, StringAttr):
                text = value.data.removesuffix("\0")
                return lambda: text
    raise ValueError(f"expected a constant text named @{name}")


@function(llvm.GEPOp)
def _element(op: llvm.GEPOp) -> Any:
    indices = tuple(op.rawConstantIndices.get_values())
    if any(indices) or op.ssa_indices:
        raise ValueError("expected the address of a text's first character")
    return lambda text: text


def formatted(text: str, values: Sequence[Any]) -> str:
    """What `printf` writes: Python's format has no lengths of integers."""
    return _LENGTH.sub(r"\1", text) % tuple(np.asarray(value).item() for value in values)


@rule(llvm.CallOp)
def _call_printf(op: llvm.CallOp) -> Step:
    callee = None if op.callee is None else op.callee.string_value()
    if callee != "printf":
        raise ValueError(f"expected a call of @printf, got @{callee}")
    text, *given = slots(op.args)
    results = slots(op.results)

    def step(cta: Cta) -> None:
        line = formatted(cta.values[text], [cta.values[arg] for arg in given])
        print(line, end="")
        cta.values.update(dict.fromkeys(results, np.int32(len(line))))

    return step


@rule(gpu.PrintfOp)
def _printf(op: gpu.PrintfOp) -> Step:
    given = slots(op.args)

    def step(cta: Cta) -> None:
        print(formatted(op.format.data, [cta.values[arg] for arg in given]), end="")

    return step


@rule(gpu.TerminatorOp)
def _terminator(op: gpu.TerminatorOp) -> Step:
    del op
    return nothing


@rule(gpu.LaunchOp)
def _launch(op: gpu.LaunchOp) -> Step:
    """Threads one after another: nothing here lets one wait for another."""
    code, args, sizes = Code(op.body.block), slots(op.body.block.args), slots(op.sizes)

    def step(cta: Cta) -> Iterator[None]:
        yield
        extents = cta.numbers(sizes)
        # x moves fastest, threads before blocks.
        for number in product(*(range(extent) for extent in (*extents[2::-1], *extents[:2:-1]))):
            block, thread = number[2::-1], number[:2:-1]
            values = [np.int64(one) for one in (*block, *thread, *extents)]
            cta.values.update(zip(args, values, strict=True))
            code.finish(cta)

    return step


@rule(func.CallOp)
def _call(op: func.CallOp) -> Step:
    module, name = op.parent_op(), op.callee.string_value()
    while module is not None and not isinstance(module, ModuleOp):
        module = module.parent_op()
    callees = [
        one
        for one in (module.body.block.ops if module is not None else ())
        if isinstance(one, func.FuncOp) and one.sym_name.data == name and not one.is_declaration
    ]
    if not callees:
        raise ValueError(f"expected a function @{name} with a body in the module, got none")
    callee, given, results = callees[0], slots(op.arguments), slots(op.results)
    code: list[Code] = []

    def step(cta: Cta) -> None:
        if not code:  # read at the first call, so that functions may call themselves
            code.append(Code(callee.body.block))
        cta.depth += 1
        if cta.depth > _DEPTH:
            raise ValueError(f"expected at most {_DEPTH} calls within each other, got more")
        values = dict(cta.values)
        inner = dict(zip(slots(callee.args), (values[arg] for arg in given), strict=True))
        cta.values = inner
        code[0].finish(cta)
        last = callee.body.block.last_op
        returned = [cta.values[value] for value in slots(last.operands if last else ())]
        cta.values = values
        cta.values.update(zip(results, returned, strict=True))
        cta.depth -= 1

    return step
