"""Values of the layout algebra as structs of their run-time leaves.

A tuple or a coordinate is a struct of its leaves, in their order, or the number itself where there
is one; a tile is a struct of its layouts, or the one that it has; a layout is a struct of shape and
strides, a composed layout one of what is applied first, the offset and what is applied last. What
is static has no field. CuTe IR's own lowering has the same structs, so functions of both may call
each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith, llvm, ub
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, i64
from xdsl.ir import Attribute, SSAValue

from cutedialect.dialects.cute import ComposedLayoutType, LayoutType
from cutedialect.dialects.cute.algebra import (
    IntTupleType,
    ShapeType,
    StrideType,
    TileType,
    bits_of,
    layout_type_of,
    numbers_of,
    value_of,
)
from cutedialect.layout import Dyn, Layout, flatten
from cutedialect.layout.expression import dynamic_leaves

from .arithmetic import Emitter


def parts_of(type_: Attribute) -> tuple[Attribute, ...] | None:
    """The types that a value is a struct of, in the order of its fields; None of one of numbers."""
    value = value_of(type_)
    if isinstance(type_, LayoutType):
        return ShapeType(value.shape), StrideType(value.stride)
    if isinstance(type_, ComposedLayoutType):
        outer = layout_type_of(value.outer)
        return LayoutType(value.inner), IntTupleType(value.offset), outer
    if isinstance(type_, TileType):
        slots = [LayoutType(slot) for slot in flatten(value) if isinstance(slot, Layout)]
        return parts_of(slots[0]) if len(slots) == 1 else tuple(slots)
    return None


def struct_of(type_: Attribute) -> Attribute:
    """The type that stands for a type of the layout algebra."""
    parts = parts_of(type_)
    if parts is not None:
        return llvm.LLVMStructType.from_type_list([struct_of(part) for part in parts])
    fields = [IntegerType(leaf.bits) for leaf in dynamic_leaves(value_of(type_))]
    if len(fields) == 1:
        return fields[0]
    return llvm.LLVMStructType.from_type_list(fields)


def leaf_places(
    type_: Attribute, path: tuple[int, ...] = ()
) -> list[tuple[int | Dyn, tuple[int, ...]]]:
    """The numbers of a value in order: static ones, and run-time ones with the path of fields."""
    parts = parts_of(type_)
    if parts is not None:
        return [
            place
            for position, part in enumerate(parts)
            for place in leaf_places(part, (*path, position))
        ]
    places: list[tuple[int | Dyn, tuple[int, ...]]] = []
    value: Any = value_of(type_)
    alone = sum(1 for _ in dynamic_leaves(value)) == 1
    position = 0
    for number in numbers_of(value):
        places.append((number, path if alone else (*path, position)))
        position += isinstance(number, Dyn)
    return places


def poison(emitter: Emitter, type_: Attribute) -> SSAValue:
    """A struct of which nothing is known yet; one without fields is known."""
    return emitter.add(ub.PoisonOp(type_))


def filled(emitter: Emitter, struct: Attribute, fields: Sequence[SSAValue]) -> SSAValue:
    """A struct of some fields."""
    value = poison(emitter, struct)
    for position, field in enumerate(fields):
        value = _inserted(emitter, value, field, (position,))
    return value


def _inserted(
    emitter: Emitter, struct: SSAValue, field: SSAValue, path: tuple[int, ...]
) -> SSAValue:
    place = DenseArrayBase.from_list(i64, path)
    return emitter.add(llvm.InsertValueOp(place, struct, field))


def made(emitter: Emitter, type_: Attribute, leaves: Sequence[SSAValue]) -> SSAValue:
    """What stands for a value with some run-time leaves."""
    paths = [path for number, path in leaf_places(type_) if isinstance(number, Dyn)]
    if paths == [()]:
        return leaves[0]
    value = poison(emitter, struct_of(type_))
    for leaf, path in zip(leaves, paths, strict=True):
        value = _inserted(emitter, value, leaf, path)
    return value


def numbers(
    emitter: Emitter, type_: Attribute, struct: SSAValue, only_dynamic: bool
) -> list[SSAValue]:
    """The numbers in a value."""
    found: list[SSAValue] = []
    for number, path in leaf_places(type_):
        if isinstance(number, Dyn):
            found.append(extracted(emitter, struct, path, IntegerType(number.bits)))
        elif not only_dynamic:
            attribute = IntegerAttr(number, IntegerType(bits_of(number)))
            found.append(emitter.add(arith.ConstantOp(attribute)))
    return found


def extracted(
    emitter: Emitter, struct: SSAValue, path: tuple[int, ...], type_: Attribute
) -> SSAValue:
    """The field at the end of a path, of no fields the struct itself."""
    if not path:
        return struct
    place = DenseArrayBase.from_list(i64, path)
    return emitter.add(llvm.ExtractValueOp(place, struct, type_))
