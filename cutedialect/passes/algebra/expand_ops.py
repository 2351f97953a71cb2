"""`cute-expand-ops`: operations of the layout algebra as arithmetic on their run-time leaves.

    %r = cute.crd2idx(%c, %s) : (!cute.coord<"(?,?)">, !cute.shape<"(4,8)">) -> !cute.int_tuple<"?">
    becomes
    %0:2 = cute.get_scalars<{only_dynamic}> (%c) : !cute.coord<"(?,?)">
    %1 = arith.constant 4 : i32
    %2 = arith.muli %0#1, %1 overflow<nsw> : i32
    %3 = arith.addi %0#0, %2 overflow<nsw> : i32
    %r = cute.make_int_tuple(%3) : (i32) -> !cute.int_tuple<"?">

What is left are constructors, `get_scalars`, `static` and `print`. The layout of a tensor is made
of what `cute.dim` and `cute.stride` say of it, a view through a layout takes the layout's run-time
numbers, and a partition is such a view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp, ExtSIOp
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from cutedialect.dialects.cute import (
    ComposedLayoutType,
    DimOp,
    GetLayoutOp,
    LayoutType,
    MakeViewOp,
    MemRefType,
    StrideOp,
    SwizzleType,
)
from cutedialect.dialects.cute.algebra import (
    OPS,
    AlgebraOp,
    IntTupleType,
    ShapeType,
    StrideType,
    bits_of,
    is_static_type,
    is_value,
    layout_type_of,
    numbers_of,
    outcome,
    scalar_types,
    type_of,
    value_of,
)
from cutedialect.dialects.cute.tiled_values import PartitionOp
from cutedialect.dialects.walks import walk
from cutedialect.layout import ComposedLayout, Dyn, Layout, flatten
from cutedialect.layout.expression import dynamic_leaves, leaf

from .arithmetic import Emitter, located

KEPT = ("static", "print", "get_scalars", "make_layout", "make_composed_layout") + tuple(
    f"make_{kind}" for kind in ("int_tuple", "shape", "stride", "coord", "tile")
)
"""The operations that other ones are made of."""


@dataclass(frozen=True)
class ExpandOpsPass(ModulePass):
    """Replaces operations of the layout algebra by arithmetic and constructors."""

    name = "cute-expand-ops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for one in list(walk(op)):
            if isinstance(one, GetLayoutOp):
                expand_layout(one)
            elif isinstance(one, MakeViewOp):
                expand_view(one)
            elif isinstance(one, PartitionOp):
                expand_partition(one)
            elif isinstance(one, AlgebraOp) and one.ROW.name not in KEPT:
                expand(one)


def expand(op: AlgebraOp) -> None:
    """Replace one op."""
    if all(is_static_type(result.type) for result in op.results):
        constants = [OPS["static"].create(result_types=[result.type]) for result in op.results]
        _replace(op, constants, [constant.results[0] for constant in constants])
        return
    value = outcome(op)
    if isinstance(value, bool):
        constant = ConstantOp(IntegerAttr(int(value), i1))
        _replace(op, [constant], [constant.result])
        return
    compares = op.results[0].type == i1
    emitter = Emitter({})
    emitter.leaves = _leaves(op, emitter, compares)
    # All arithmetic, then the constructors.
    emitter.plan([value] if compares else list(dynamic_leaves(value)))
    if compares:
        results = [emitter.value(value)]
    elif op.ROW.variadic_result:
        results = [
            _static(emitter, result.type)
            if is_static_type(result.type)
            else build(emitter, leaf, result.type)
            for leaf, result in zip(_parts(op, value), op.results, strict=True)
        ]
    else:
        results = [build(emitter, value, op.results[0].type)]
    _replace(op, emitter.ops, results)


def expand_layout(op: GetLayoutOp) -> None:
    """Replace the layout of a tensor by one of its run-time extents and strides."""
    type_ = op.source.type
    assert isinstance(type_, MemRefType)
    emitter = Emitter({})
    layout = named_layout(emitter, op.source)
    result = build(emitter, layout, op.result.type)
    _replace(op, emitter.ops, [result])


def named_layout(emitter: Emitter, tensor: SSAValue) -> Layout:
    """The layout of a tensor with a name for each number of run time, which is asked of it."""
    type_ = tensor.type
    assert isinstance(type_, MemRefType)
    leaves: dict[Any, SSAValue] = dict(emitter.leaves)

    def named(part: int, make: type[DimOp] | type[StrideOp], modes: Sequence[Any]) -> tuple:
        found: list[Any] = []
        for mode, value in enumerate(modes):
            if isinstance(value, Dyn):
                leaves[part, mode] = emitter.add(make(tensor, mode))
                value = leaf((part, mode), value.bits, value.div)
            found.append(value)
        return tuple(found)

    layout = type_.layout
    if not layout.is_static():
        layout = Layout(named(0, DimOp, type_.modes), named(1, StrideOp, type_.stride))
    emitter.leaves = leaves
    return layout


def expand_partition(op: PartitionOp) -> None:
    """Replace what a thread has of a tensor by a view of it."""
    thread = ("thread", 0)
    emitter = Emitter({thread: op.thread})
    layout, start = op.part(named_layout(emitter, op.source), leaf(thread, 32, 1))
    strides = dynamic_leaves(layout.stride)
    numbers = [emitter.value(each, each.bits) for each in dynamic_leaves(layout.shape)]
    numbers += [emitter.value(each, i64.bitwidth) for each in strides]
    offset = emitter.value(start, start.bits) if isinstance(start, Dyn) else None
    # Arithmetic on types keeps what is known of divisors, that on expressions does not.
    known = op.start
    div = known.div if isinstance(known, Dyn) else None
    if offset is None and start:
        offset = emitter.value(start, i64.bitwidth)
    view = MakeViewOp(op.source, numbers, op.result.type, offset, div)
    view.result.name_hint = op.result.name_hint
    emitter.add(view)
    by = op.by.owner
    _replace(op, emitter.ops, [view.result])
    if isinstance(by, Operation) and not by.results[0].uses:
        Rewriter.erase_op(by)


def expand_view(op: MakeViewOp) -> None:
    """Give a view the numbers of its layout and offset: those of run time, strides as wide as in
    memory.
    """
    layout, offset = op.value, op.offset
    if layout is None and (offset is None or not is_value(offset.type)):
        return
    emitter = Emitter({})
    numbers = list(op.layout) if layout is None else _run_time_numbers(emitter, layout)
    if layout is not None:
        extents = sum(isinstance(leaf, Dyn) for leaf in flatten(value_of(layout.type).shape))
        wide = [_as_wide(emitter, number) for number in numbers[extents:]]
        numbers = [*numbers[:extents], *wide]
    div = None if op.div is None else op.div.value.data
    if offset is not None and is_value(offset.type):
        start = op.start
        if isinstance(start, int):
            offset = emitter.value(start, i64.bitwidth) if start else None
        else:
            (offset,), div = _run_time_numbers(emitter, offset), start.div
    view = MakeViewOp(op.source, numbers, op.result.type, offset, div)
    view.attributes.update(op.attributes)
    view.result.name_hint = op.result.name_hint
    emitter.add(view)
    _replace(op, emitter.ops, [view.result])


def _run_time_numbers(emitter: Emitter, value: SSAValue) -> list[SSAValue]:
    """The run-time numbers of a value of the algebra."""
    if is_static_type(value.type):
        return []
    scalars = OPS["get_scalars"].create(
        operands=[value],
        result_types=scalar_types(value.type, True),
        properties={"only_dynamic": UnitAttr()},
    )
    emitter.ops.append(scalars)
    return list(scalars.results)


def _as_wide(emitter: Emitter, number: SSAValue) -> SSAValue:
    return number if number.type == i64 else emitter.add(ExtSIOp(number, i64))


def _parts(op: AlgebraOp, value: Any) -> list[Any]:
    """The values of the results of an op that has several."""
    parts = flatten(value)
    if op.ROW.name == "get_layouts_from_tile":
        return [part for part in parts if isinstance(part, Layout)]
    return list(parts)


def _leaves(op: AlgebraOp, emitter: Emitter, all_numbers: bool) -> dict[Any, SSAValue]:
    """The run-time leaves of the operands by name, from `get_scalars` of each."""
    leaves: dict[Any, SSAValue] = {}
    for number, operand in enumerate(op.operands):
        if not is_value(operand.type):
            leaves[number, 0] = operand
        if is_static_type(operand.type) or not is_value(operand.type):
            continue
        scalars = OPS["get_scalars"].create(
            operands=[operand],
            result_types=scalar_types(operand.type, not all_numbers),
            properties={} if all_numbers else {"only_dynamic": UnitAttr()},
        )
        emitter.ops.append(scalars)
        values = list(scalars.results)
        if all_numbers:
            numbers = numbers_of(value_of(operand.type))
            values = [v for v, one in zip(values, numbers, strict=True) if not isinstance(one, int)]
        leaves |= {(number, position): scalar for position, scalar in enumerate(values)}
    return leaves


def build(emitter: Emitter, value: Any, type_: Attribute) -> SSAValue:
    """A value of the algebra of a type, made of what its expressions compute."""
    if isinstance(value, ComposedLayout) and isinstance(type_, ComposedLayoutType):
        return _composed(emitter, value)
    if isinstance(type_, LayoutType):
        if isinstance(value, ComposedLayout):
            value = value.inner
        return _layout(emitter, value)
    if isinstance(type_, SwizzleType):
        return _static(emitter, type_)
    return _tuple(emitter, value, type_)


def _tuple(emitter: Emitter, value: Any, type_: Attribute) -> SSAValue:
    numbers = [emitter.value(leaf, bits_of(leaf)) for leaf in dynamic_leaves(value)]
    name = f"make_{type_.name.removeprefix('cute.')}"
    return emitter.add(OPS[name].create(operands=numbers, result_types=[type_]))


def _static(emitter: Emitter, type_: Attribute) -> SSAValue:
    return emitter.add(OPS["static"].create(result_types=[type_]))


def _layout(emitter: Emitter, layout: Layout) -> SSAValue:
    type_ = type_of(layout, LayoutType)
    if is_static_type(type_):
        return _static(emitter, type_)
    shape = _tuple(emitter, layout.shape, type_of(layout.shape, ShapeType))
    stride = _tuple(emitter, layout.stride, type_of(layout.stride, StrideType))
    return emitter.add(OPS["make_layout"].create(operands=[shape, stride], result_types=[type_]))


def _composed(emitter: Emitter, composed: ComposedLayout) -> SSAValue:
    type_ = layout_type_of(composed)
    if is_static_type(type_):
        return _static(emitter, type_)
    inner = _layout(emitter, composed.inner)
    offset = _tuple(emitter, composed.offset, type_of(composed.offset, IntTupleType))
    outer = build(emitter, composed.outer, layout_type_of(composed.outer))
    make: Callable[..., Operation] = OPS["make_composed_layout"].create
    return emitter.add(make(operands=[outer, offset, inner], result_types=[type_]))


def _replace(op: Operation, ops: Sequence[Operation], results: list[SSAValue]) -> None:
    located(ops, op.location)
    Rewriter.replace_op(op, ops, results)
