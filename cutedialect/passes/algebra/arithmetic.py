"""Expressions of the layout algebra as operations of `arith`, `math` and `scf`.

Signed, and without overflow (`nsw`): extents, strides and coordinates are 32 bits, or 64 where one
of the operands is. Each expression is computed once in the block it is asked for in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType, i1
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from cutedialect.dialects.walks import walk
from cutedialect.layout.expression import Expression

_NSW = arith.IntegerOverflowAttr((arith.IntegerOverflowFlag.NSW,))
_WRAPPING = {"add": arith.AddiOp, "sub": arith.SubiOp, "mul": arith.MuliOp}
_BINARY = {
    "div": arith.DivSIOp,
    "ceil_div": arith.CeilDivSIOp,
    "mod": arith.RemSIOp,
    "min": arith.MinSIOp,
    "max": arith.MaxSIOp,
    "xor": arith.XOrIOp,
    "shift_right": arith.ShRUIOp,
    "shift_left": arith.ShLIOp,
}
_PREDICATES = {"less": "slt", "equal": "eq", "not_equal": "ne", "greater": "sgt"}


class Emitter:
    """Appends operations to `ops`; `leaves` are the values of the named leaves of expressions."""

    def __init__(self, leaves: Mapping[Any, SSAValue]) -> None:
        self.leaves = leaves
        self.ops: list[Operation] = []
        self._known: dict[tuple[Any, int], SSAValue] = {}
        self._needed: dict[Expression, None] = {}

    def plan(self, values: Sequence[Any]) -> None:
        """Compute some expressions: absolute values of leaves first, and each quotient in front of
        the rest of the same division, so that back ends find both as a pair.
        """
        pending = [value for value in values if isinstance(value, Expression)]
        while pending:
            one = pending.pop()
            if one not in self._needed:
                self._needed[one] = None
                pending += [arg for arg in one.args if isinstance(arg, Expression)]
        for one in reversed(self._needed):
            if one.op == "abs" and one.args[0].op == "leaf":
                self.value(one)
        for value in values:
            self.value(value)

    def add(self, op: Operation) -> SSAValue:
        """Append an op, and give its first result."""
        self.ops.append(op)
        return op.results[0]

    def value(self, number: Any, bits: int | None = None) -> SSAValue:
        """A number, an int or an expression, as a value, of its own width or another."""
        if isinstance(number, bool):
            return self.add(arith.ConstantOp(IntegerAttr(int(number), i1)))
        if not isinstance(number, Expression):
            return self.add(arith.ConstantOp(IntegerAttr(number, IntegerType(bits or 32))))
        if is_truth(number):
            return self._remembered(number, 1)
        value = self._remembered(number, number.bits)
        if bits is None or bits == number.bits:
            return value
        key = (number, bits)
        if key not in self._known:
            cast = arith.ExtSIOp if bits > number.bits else arith.TruncIOp
            self._known[key] = self.add(cast(value, IntegerType(bits)))
        return self._known[key]

    def _remembered(self, number: Expression, bits: int) -> SSAValue:
        key = (number, bits)
        if key not in self._known:
            self._known[key] = self._made(number)
        return self._known[key]

    def _made(self, number: Expression) -> SSAValue:
        op, args, bits = number.op, number.args, number.bits
        if op == "leaf":
            return self.leaves[args[0]]
        if op in _PREDICATES:
            return self._compared(op, *args)
        if op == "and":
            both = all(map(is_truth, args))
            left, right = (self.value(arg, None if both else bits) for arg in args)
            return self.add(arith.AndIOp(left, right))
        if op == "select":
            return self._selected(args[0], args[1], args[2], bits)
        if op == "abs":
            return self.add(math.AbsIOp(self.value(args[0])))
        if op == "sign":
            return self._sign(args[0], bits)
        if op == "mod":
            quotient = Expression(1, bits, "div", args)
            if quotient in self._needed:
                self.value(quotient)
        left, right = (self.value(arg, bits) for arg in args)
        if op in _WRAPPING:
            return self.add(_WRAPPING[op](left, right, overflow=_NSW))
        return self.add(_BINARY[op](left, right))

    def _compared(self, op: str, one: Any, other: Any) -> SSAValue:
        width = max(arg.bits if isinstance(arg, Expression) else 32 for arg in (one, other))
        left, right = self.value(one, width), self.value(other, width)
        return self.add(arith.CmpiOp(left, right, _PREDICATES[op]))

    def _selected(self, condition: Any, one: Any, other: Any, bits: int) -> SSAValue:
        """A choice is an `scf.if`; what both sides compute stands in front of it."""
        test = self.value(condition)
        then, otherwise = self._side(one, bits), self._side(other, bits)
        return self.add(scf.IfOp(test, [IntegerType(bits)], then, otherwise))

    def _side(self, side: Any, bits: int) -> Region:
        inner = Emitter(self.leaves)
        inner._known = dict(self._known)
        value = inner.value(side, bits)
        return Region(Block([*inner.ops, scf.YieldOp(value)]))

    def _sign(self, number: Any, bits: int) -> SSAValue:
        positive = Expression(1, bits, "greater", (number, 0))
        zero = Expression(1, bits, "equal", (number, 0))
        below = Expression(1, bits, "select", (zero, 0, -1))
        return self._selected(positive, 1, below, bits)


def is_truth(number: Any) -> bool:
    """Whether an expression is true or false, rather than a number."""
    if not isinstance(number, Expression):
        return isinstance(number, bool)
    if number.op == "and":
        return all(map(is_truth, number.args))
    return number.op in _PREDICATES


def located(ops: Sequence[Operation], location: Attribute) -> None:
    """Give ops, and those inside of them, the location of what they stand for."""
    for op in ops:
        for inner in walk(op):
            inner.location = location  # pyright: ignore[reportAttributeAccessIssue]
