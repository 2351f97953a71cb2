"""Values of the layout algebra and the types of the IR that stand for them, both ways.

A type is the data of a value whose run-time leaves are `?`. For the rules each `?` becomes an
`Expression` leaf named (operand, position), so that one call of a rule gives the type of a result
and how its leaves are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from cutedialect.dialects.cute.layout_types import (
    ComposedLayoutType,
    LayoutType,
    SwizzleType,
    is_plain,
)
from cutedialect.layout import ComposedLayout, Dyn, Layout, Swizzle
from cutedialect.layout.expression import (
    Expression,
    dynamic_leaves,
    is_static_value,
    leaf,
    map_dynamic,
)

from .tuple_types import CoordType, IntTupleType, ShapeType, StrideType, TileType

TUPLES = (IntTupleType, ShapeType, StrideType, CoordType)
VALUES = (*TUPLES, TileType, LayoutType, ComposedLayoutType, SwizzleType)
ANY_LAYOUT = (LayoutType, ComposedLayoutType)

KINDS = {kind.name.removeprefix("cute."): kind for kind in VALUES}


def is_value(type_: Attribute) -> bool:
    """Whether a type stands for a value of the algebra."""
    return isinstance(type_, VALUES)


def value_of(type_: Attribute) -> Any:
    """The value that a type stands for; its run-time leaves are `Dyn`."""
    assert isinstance(type_, VALUES)
    return type_.data


def is_static_type(type_: Attribute) -> bool:
    """Whether a type says all of its value."""
    return is_value(type_) and is_static_value(value_of(type_))


def named_leaves(types: Sequence[Attribute]) -> tuple[Any, ...]:
    """The values of operands of some types, with leaves named (operand, position)."""
    values: list[Any] = []
    for number, type_ in enumerate(types):
        if not is_value(type_):
            values.append(leaf((number, 0), width_of(type_)))
            continue
        position = -1

        def name(dyn: Dyn, number: int = number) -> Expression:
            nonlocal position
            position += 1
            return leaf((number, position), dyn.bits, dyn.div)

        values.append(map_dynamic(value_of(type_), name))
    return tuple(values)


def width_of(type_: Attribute) -> int:
    """Bits of an integer type."""
    assert isinstance(type_, IntegerType)
    return type_.width.data


def type_of(value: Any, kind: type[Attribute]) -> Attribute:
    """The type of a value: of `kind`, but a composed layout that is a plain one has its type."""
    if kind is ComposedLayoutType and not isinstance(value, ComposedLayout):
        kind = LayoutType
    if isinstance(value, ComposedLayout) and is_plain(value):
        value, kind = value.inner, LayoutType
    return kind(map_dynamic(value, plain))  # pyright: ignore[reportCallIssue]


def plain(dyn: Dyn) -> Dyn:
    """What a type says of a leaf."""
    return dyn.plain if isinstance(dyn, Expression) else dyn


def layout_type_of(value: Any) -> Attribute:
    """The type of a layout, a composed layout or a swizzle."""
    if isinstance(value, Swizzle):
        return SwizzleType(value)
    return type_of(value, LayoutType if isinstance(value, Layout) else ComposedLayoutType)


def scalar_types(type_: Attribute, only_dynamic: bool) -> list[Attribute]:
    """The integer types of the numbers in a value, in the order of `dynamic_leaves`."""
    value = value_of(type_)
    if only_dynamic:
        return [IntegerType(dyn.bits) for dyn in dynamic_leaves(value)]
    return [IntegerType(bits_of(number)) for number in numbers_of(value)]


def bits_of(number: Any) -> int:
    """Width of a number: 32 bits of a static one that fits."""
    if isinstance(number, Dyn):
        return number.bits
    return 32 if -(1 << 31) <= number < 1 << 31 else 64


def numbers_of(value: Any) -> list[Any]:
    """All numbers in a value, static ones too; a slice is 0."""
    match value:
        case tuple():
            return [number for part in value for number in numbers_of(part)]
        case Layout():
            return numbers_of(value.shape) + numbers_of(value.stride)
        case ComposedLayout():
            return numbers_of(value.inner) + numbers_of(value.offset) + numbers_of(value.outer)
        case Swizzle():
            return [value.bits, value.base, value.shift]
        case None:
            return [0]
        case int() | Dyn():
            return [value]
        case _:
            return [value.value, *reversed(value.path)]
