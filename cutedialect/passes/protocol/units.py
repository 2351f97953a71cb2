"""By what extents of arguments are divided into tiles."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from cutedialect.dialects import cute

# Ops between an extent and its division into tiles: bounds, offsets, what is left.
_STEPS_TO_DIVISION = 4
_DIVISIONS = (arith.CeilDivSIOp, arith.DivSIOp, arith.FloorDivSIOp)


def units_of(ops: Iterable[Operation]) -> dict[tuple[int, int], int]:
    """The elements of a tile along a mode of an argument, or of the members of one that is a group:
    by (argument, mode), where something divides the extent.
    """
    units: dict[tuple[int, int], int] = {}
    for op in ops:
        if not isinstance(op, cute.DimOp):
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
