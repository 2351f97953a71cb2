"""Building i32 scalar code in the IR: what passes say about extents, coordinates and counts."""

from __future__ import annotations

from typing import TypeVar

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from cutedialect.dialects.cute import DimOp

_OpT = TypeVar("_OpT", bound=Operation)
_NO_WRAP = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])
_SUMS = (arith.AddiOp, arith.SubiOp, arith.MuliOp)


class ScalarBuilder:
    """Builds i32 scalar ops in order at one place, all with one location."""

    def __init__(self, point: InsertPoint, like: Operation) -> None:
        self._builder = Builder(point)
        self._location = like.location

    def insert(self, op: _OpT) -> _OpT:
        op.location = self._location
        return self._builder.insert(op)

    def constant(self, value: int) -> SSAValue:
        properties = {"value": IntegerAttr(value, i32)}
        made = arith.ConstantOp.create(result_types=[i32], properties=properties)
        return self.insert(made).results[0]

    def dim(self, memref: SSAValue, mode: int) -> SSAValue:
        return self.insert(DimOp(memref, mode)).results[0]

    def binary(self, kind: type[Operation], lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """An integer op; extents and counts are below 2^31, so that sums do not wrap."""
        properties = {"overflowFlags": _NO_WRAP} if kind in _SUMS else {}
        made = kind.create(operands=[lhs, rhs], result_types=[lhs.type], properties=properties)
        return self.insert(made).results[0]

    def tiles(self, memref: SSAValue, mode: int, extent: int) -> SSAValue:
        """How many tiles of `extent` cover a mode; -1 is the whole mode in one tile."""
        if extent < 0:
            return self.constant(1)
        size = self.dim(memref, mode)
        if extent == 1:
            return size
        return self.binary(arith.CeilDivSIOp, size, self.constant(extent))
