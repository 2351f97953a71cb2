"""What ops of the layout algebra say of their results and operands: types made of the value that a rule
gives, and conditions that are no rule's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Attribute

from cutedialect.dialects.checks import check
from cutedialect.dialects.cute.layout_types import ComposedLayoutType, LayoutType
from cutedialect.layout import Layout, flatten
from cutedialect.layout.expression import dynamic_leaves

from .algebra_op import AlgebraOp, Results
from .values import is_static_type, layout_type_of, scalar_types, type_of, value_of


def gives(kind: type[Attribute]) -> Results:
    """One result of a kind."""
    return lambda types, value, known: [type_of(value, kind)]


def as_first(types: Sequence[Attribute], value: Any, known: Mapping[str, Any]) -> list[Attribute]:
    """One result of the kind of the first operand."""
    return [type_of(value, type(types[0]))]


def layout(types: Sequence[Attribute], value: Any, known: Mapping[str, Any]) -> list[Attribute]:
    return [layout_type_of(value)]


def leaves(types: Sequence[Attribute], value: Any, known: Mapping[str, Any]) -> list[Attribute]:
    kind = type(types[0])
    return [
        type_of(leaf, LayoutType if isinstance(leaf, Layout) else kind) for leaf in flatten(value)
    ]


def layouts(types: Sequence[Attribute], value: Any, known: Mapping[str, Any]) -> list[Attribute]:
    found = [type_of(leaf, LayoutType) for leaf in flatten(value) if isinstance(leaf, Layout)]
    check(bool(found), f"expected a tile with a layout in it, got {types[0]}")
    return found


def scalars(types: Sequence[Attribute], value: Any, known: Mapping[str, Any]) -> list[Attribute]:
    return scalar_types(types[0], known.get("only_dynamic", False))


def truth(types: Sequence[Attribute], value: Any, known: Mapping[str, Any]) -> list[Attribute]:
    return [i1]


def check_made(op: AlgebraOp) -> None:
    """A number for each run-time leaf of the result, as wide as it says."""
    dynamic = list(dynamic_leaves(value_of(op.results[0].type)))
    check(
        len(dynamic) == len(op.operands),
        f"expected {len(dynamic)} operands for {op.results[0].type}, got {len(op.operands)}",
    )
    for number, (leaf, operand) in enumerate(zip(dynamic, op.operands, strict=True)):
        type_ = operand.type
        if isinstance(type_, IntegerType):
            width = type_.width.data
        else:
            value = value_of(type_)
            check(
                not isinstance(value, tuple),
                f"expected an int tuple of one number as operand {number}, got {type_}",
            )
            width = leaf.bits if isinstance(value, int) else value.bits
        check(width == leaf.bits, f"expected operand {number} of {leaf.bits} bits, got {width}")


def check_static(op: AlgebraOp) -> None:
    type_ = op.results[0].type
    check(is_static_type(type_), f"expected a static type, got {type_}")


def of_one_kind(types: Sequence[Attribute]) -> None:
    one, other = types
    check(type(one) is type(other), f"expected operands of one kind, got {one} and {other}")


def pads(types: Sequence[Attribute]) -> None:
    """Tuples are padded with their kind, layouts and composed layouts with layouts."""
    value, element = types
    kind = LayoutType if isinstance(value, ComposedLayoutType) else type(value)
    check(
        isinstance(element, kind),
        f"expected an element of type !{kind.name} for {value}, got {element}",
    )
