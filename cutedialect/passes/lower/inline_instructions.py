"""Instructions of a program's own: each statement is an instruction as the compiler writes them,
checked against the target, shared and hoisted like others.

    cute.inline_ptx "lop3.b32 $0, $1, $2, 0, 0x3C;" (%a, %b)  =>  ptx.lop3 "b32" %a, %b, 0, 60
"""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects import cute
from cutedialect.dialects.cute.inline_ptx import Statement, statements
from cutedialect.dialects.ptx import operand_classes, result_class
from cutedialect.dialects.ptx.scalar import FAMILIES

from .context import Context, scalar_class
from .scalar_builder import Scalar

# Of the families, those that are about addresses and caches.
_OTHERS = ("cvta", "createpolicy")
_PREFIXES = {"pred": "%p", "b16": "%rs", "b32": "%r", "b64": "%rd", "f32": "%f", "f64": "%fd"}


def lower_inline(context: Context, op: Operation, args: list[Scalar]) -> list[Scalar]:
    """The results of the statements; ValueError says what cannot stand for the target."""
    assert isinstance(op, cute.InlinePtxOp)
    count = len(op.outputs)
    values: dict[str, Scalar] = {}
    classes: dict[str, str] = {}
    for place, (operand, value) in enumerate(zip(op.inputs, args, strict=True)):
        name = f"${count + place}"
        classes[name] = _class_of(operand.type)
        values[name] = context.builder.value(value, classes[name])
    for statement in statements(op.text.data):
        made = _checked(context, statement, classes)
        operands = [values[v] if isinstance(v, str) else v for v in statement.operands]
        values[statement.result] = context.builder.pure(statement.mnemonic, *operands)
        classes[statement.result] = made
    results: list[Scalar] = []
    for place, result in enumerate(op.outputs):
        got, wanted = classes[f"${place}"], _class_of(result.type)
        value = values[f"${place}"]
        if got != wanted:
            if {got, wanted} not in ({"b32", "f32"}, {"b64", "f64"}):
                raise ValueError(f"expected ${place} of class {wanted} ({result.type}), got {got}")
            value = context.builder.pure(f"mov.{wanted}", context.builder.value(value, got))
        results.append(value)
    return results


def _class_of(type_: Attribute) -> str:
    bits = getattr(type_, "bitwidth", 0)
    if not isinstance(type_, AnyFloat | IntegerType) or bits not in (16, 32, 64):
        raise ValueError(
            f"expected numbers of 16, 32 or 64 bits in registers of their own, got {type_}; "
            "convert with .to(cute.i32)"
        )
    return scalar_class(type_)


def _checked(context: Context, statement: Statement, classes: dict[str, str]) -> str:
    """The class of the result of a statement that the target takes."""
    family = statement.mnemonic.partition(".")[0]
    if family not in FAMILIES or family in _OTHERS:
        known = ", ".join(sorted(set(FAMILIES) - set(_OTHERS)))
        raise ValueError(
            f"expected an instruction that computes ({known}), got '{statement.text}'; memory, "
            "barriers and branches are for cute.copy, cute.when and the like"
        )
    try:
        wanted = operand_classes(statement.mnemonic, len(statement.operands))
        result = result_class(statement.mnemonic)
    except (VerifyException, KeyError, IndexError) as error:
        raise ValueError(f"{error}, in '{statement.text}'") from error
    if len(wanted) != len(statement.operands):
        raise ValueError(
            f"expected {len(wanted)} operands of {statement.mnemonic}, got "
            f"{len(statement.operands)} in '{statement.text}'"
        )
    shown: list[str] = []
    for number, (operand, choices) in enumerate(zip(statement.operands, wanted, strict=True)):
        if isinstance(operand, str):
            if classes[operand] not in choices:
                raise ValueError(
                    f"expected operand {number} of '{statement.text}' of class "
                    f"{' or '.join(choices)}, got {operand} of class {classes[operand]}"
                )
            shown.append(f"{_PREFIXES[classes[operand]]}{number + 1}")
        else:
            shown.append(str(operand))
    text = f"{statement.mnemonic} {_PREFIXES[result]}0, {', '.join(shown)};"
    from cutedialect.atoms import legal

    legality = legal(text, context.arch)
    if not legality:
        raise ValueError(
            f"expected what {context.arch} has, got '{statement.text}': {legality.reason}"
        )
    return result
