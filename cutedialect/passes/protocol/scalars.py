"""Numbers of a role's control flow, computed on integers. What is no integer (an element of a
tensor, a sum of floats) is a term: a tuple that names the op and its operands, equal where two
roles compute the same. A term becomes an integer where control asks for one, as the case says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from cutedialect.dialects import cute

from .findings import place_of

Value = Any
Numbers = Callable[[Value], int]
"""Makes an integer of a value."""
Step = Callable[[Sequence[Value], Numbers], Value]


def _floor(one: int, other: int) -> int:
    return one // other if other else 0


def _ceil(one: int, other: int) -> int:
    return -(-one // other) if other else 0


def _truncated(one: int, other: int) -> int:
    if not other:
        return 0
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


def _rest(one: int, other: int) -> int:
    return one - other * _truncated(one, other)


_BINARY: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda one, other: one + other,
    arith.SubiOp: lambda one, other: one - other,
    arith.MuliOp: lambda one, other: one * other,
    arith.DivSIOp: _truncated,
    arith.DivUIOp: _floor,
    arith.CeilDivSIOp: _ceil,
    arith.CeilDivUIOp: _ceil,
    arith.FloorDivSIOp: _floor,
    arith.RemSIOp: _rest,
    arith.RemUIOp: lambda one, other: one % other if other else 0,
    arith.MinSIOp: min,
    arith.MinUIOp: min,
    arith.MaxSIOp: max,
    arith.MaxUIOp: max,
    arith.AndIOp: lambda one, other: one & other,
    arith.OrIOp: lambda one, other: one | other,
    arith.XOrIOp: lambda one, other: one ^ other,
    arith.ShLIOp: lambda one, other: one << other if 0 <= other < 64 else 0,
    arith.ShRSIOp: lambda one, other: one >> min(other & (1 << 64) - 1, 63),
    arith.ShRUIOp: lambda one, other: one >> min(other & (1 << 64) - 1, 63),
}
_SAME = (arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.IndexCastOp)
# By the predicate's number: eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge.
_COMPARES: tuple[Callable[[int, int], int], ...] = (
    lambda one, other: int(one == other),
    lambda one, other: int(one != other),
    lambda one, other: int(one < other),
    lambda one, other: int(one <= other),
    lambda one, other: int(one > other),
    lambda one, other: int(one >= other),
    lambda one, other: int(one < other),
    lambda one, other: int(one <= other),
    lambda one, other: int(one > other),
    lambda one, other: int(one >= other),
)


def constant_of(op: Operation) -> int | None:
    """The integer that an op is."""
    if type(op) is arith.ConstantOp:
        constant = op.value
        if isinstance(constant, IntegerAttr):
            return constant.value.data
    return None


def function_of(op: Operation) -> Callable[[int, int], int] | None:
    """What an op makes of two integers, where it takes these."""
    if type(op) is arith.CmpiOp:
        return _COMPARES[op.predicate.value.data]
    return _BINARY.get(type(op))


def step_of(op: Operation) -> Step:
    """How the result of another op that gives a number, or a view of global memory, is computed."""
    if type(op) in _SAME:
        return lambda values, _: values[0]
    if isinstance(op, arith.SelectOp):
        return lambda values, number: values[1] if number(values[0]) else values[2]
    if isinstance(op, cute.DimOp):
        return _extent(op)
    return _term(op)


def _extent(op: cute.DimOp) -> Step:
    type_ = op.memref.type
    mode = op.mode.value.data
    extent = type_.shape[mode] if isinstance(type_, cute.MemRefType) else None
    if isinstance(extent, int):
        return lambda values, _: extent
    return lambda values, _: ("dim", mode, values[0])


def _term(op: Operation) -> Step:
    """A term of what the op is and what it takes; conditions are marked, to have two values."""
    is_condition = bool(op.results) and op.results[0].type == IntegerType(1)
    head = (
        "condition" if is_condition else "number",
        op.name,
        tuple(str(value) for value in op.properties.values()),
    )
    if isinstance(op, cute.AnyOp):
        # What registers hold is no number: the line tells one question from another.
        head += (place_of(op),)
    return lambda values, _: (*head, *values)


# Ops between an extent and its division into tiles: bounds, offsets, what is left.
_STEPS_TO_DIVISION = 4
_DIVISIONS = (arith.CeilDivSIOp, arith.DivSIOp, arith.FloorDivSIOp)


def units_of(ops: Iterable[Operation]) -> dict[tuple[int, int], int]:
    """The elements of a tile along a mode of an argument, or of the members of one that is a group:
    by (argument, mode), where something divides the extent.
    """
    units: dict[tuple[int, int], int] = {}
    for op in ops:
        if type(op) is not cute.DimOp:
            continue
        whole: SSAValue = op.memref
        if isinstance(whole, OpResult) and isinstance(whole.op, cute.MemberOp):
            whole = whole.op.group
        unit = _divisor(op.result, _STEPS_TO_DIVISION)
        if isinstance(whole, BlockArgument) and unit is not None:
            units[whole.index, op.mode.value.data] = unit
    return units


def _divisor(value: SSAValue, steps: int) -> int | None:
    """By what a number, or what is computed from it, is divided into tiles."""
    for use in value.uses:
        user = use.operation
        if type(user) in _DIVISIONS and use.index == 0:
            divisor = user.operands[1].owner
            constant = divisor.value if isinstance(divisor, arith.ConstantOp) else None
            if isinstance(constant, IntegerAttr) and constant.value.data > 1:
                return constant.value.data
        elif steps and type(user).dialect_name() == arith.Arith.name and user.results:
            found = _divisor(user.results[0], steps - 1)
            if found is not None:
                return found
    return None
