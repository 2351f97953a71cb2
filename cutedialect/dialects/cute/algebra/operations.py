"""The classes of the ops in `table.py`, made from its rows: `OPS["make_layout"]` is `MakeLayoutOp`."""

from __future__ import annotations

import re
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, UnitAttr
from xdsl.ir import Attribute
from xdsl.irdl import (
    AnyOf,
    AttrConstraint,
    BaseAttr,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import ConstantLike, MemoryWriteEffect, NoMemoryEffect, Pure

from cutedialect.dialects.definition import irdl_op_definition
from cutedialect.dialects.effects import ORDERS, Effects

from .algebra_op import AlgebraOp, Row
from .table import ROWS


def _one_of(kinds: tuple[type[Attribute], ...]) -> AttrConstraint:
    constraints = tuple(BaseAttr(kind) for kind in kinds)
    return constraints[0] if len(constraints) == 1 else AnyOf(constraints)


def _members(row: Row) -> dict[str, Any]:
    """The operands, properties and results of an op, as IRDL has them."""
    members: dict[str, Any] = {}
    for operand in row.operands:
        define = operand_def
        if operand.variadic or operand.optional:
            define = var_operand_def if operand.variadic else opt_operand_def
        # A field named as one of Operation's own gets another name; operands have no name in text.
        name = operand.name + "_" if operand.name in ("operands", "input") else operand.name
        members[name] = define(_one_of(operand.kinds))
    for name in row.ints:
        members[name] = prop_def(IntegerAttr)
    if row.mode:
        define = opt_prop_def if row.mode == "optional" else prop_def
        members["mode"] = define(DenseArrayBase)
    if row.flag:
        members[row.flag] = opt_prop_def(UnitAttr)
    if row.variadic_result:
        members["results_"] = var_result_def(_one_of(row.result))
    elif row.result:
        members["result"] = result_def(_one_of(row.result))
    return members


# Divisions by what is known at run time only may not move to where they would not run.
_TRAITS = {"pure": Pure(), "divides": NoMemoryEffect(), "writes": MemoryWriteEffect()}


def _effects(op: AlgebraOp) -> Effects:
    return ORDERS


def _class_of(row: Row) -> type[AlgebraOp]:
    members = _members(row)
    traits = [_TRAITS[row.does]]
    if row.name == "static":
        traits.append(ConstantLike())
    members["traits"] = traits_def(*traits)
    if row.does == "writes":
        members["effects"] = _effects
    members |= {
        "name": f"cute.{row.name}",
        "ROW": row,
        "__doc__": f"{row.summary}\n\nExample:\n\n{_example(row)}",
        "__module__": __name__,
        "__annotations__": {"ROW": "ClassVar[Row]"},
    }
    return irdl_op_definition(type(row.class_name, (AlgebraOp,), members))


def _example(row: Row) -> str:
    """A function with the op in it: operands have the types that the example names."""
    example = re.sub(r"(\w+)`([^`]*)`", r'!cute.\1<"\2">', row.example)
    attributes = re.match(r"<[\[\]0-9, ]*> ", example)
    types = example[attributes.end() :] if attributes else example
    results, name = "%r = ", f"cute.{row.name}"
    if attributes or row.flag or row.mode:
        name += attributes.group() if attributes else " "
    given = [] if row.types == "result" else _split(types.partition(" -> ")[0])
    if not row.result:
        results = ""
    elif row.variadic_result:
        results = f"%r:{row.example_results} = "
    names = [f"%{chr(ord('a') + number)}" for number in range(len(given))]
    arguments = ", ".join(f"{one}: {type_}" for one, type_ in zip(names, given, strict=True))
    operands = "" if row.types == "result" else f"({', '.join(names)})"
    return (
        f"    func.func @f({arguments}) {{\n"
        f"      {results}{name}{operands} : {types}\n"
        "      func.return\n"
        "    }\n"
    )


def _split(types: str) -> list[str]:
    """The types in a list, which may stand in parentheses."""
    if types.startswith("("):
        types = types[1:-1]
    return re.findall(r'![\w.]+<"[^"]*">|i\d+', types)


OPS: dict[str, type[AlgebraOp]] = {row.name: _class_of(row) for row in ROWS}
"""Name without the dialect to class."""

OPERATIONS = tuple(op for name, op in OPS.items() if name != "slice")
"""The ops that the dialect registers; `cute.slice` is told apart by its operands (`slices.py`)."""
