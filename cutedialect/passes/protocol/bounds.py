"""What holds of two integers of a kernel whatever its inputs are: that one is at most the other.
It follows from sums, products by constants, quotients, and the least and the largest of some; with
it a body of a loop or condition is one that no input enters.

    first = 128 q;  floor(first / 96) * 96 is in first + [-95, 0];  (first + 255) / 128 is q + 1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.ir import BlockArgument, Operation, Region, SSAValue

from .scalars import constant_of


@dataclass(frozen=True)
class _Linear:
    """A sum of atoms with factors, and of something between two numbers. An atom is a value, or the
    quotient of an exact sum: (divisor, the sum).
    """

    factors: tuple[tuple[Any, int], ...]
    low: int
    high: int


@dataclass(frozen=True)
class _Extreme:
    """The least, or the largest, of some."""

    is_least: bool
    parts: tuple[_Bound, ...]


_Bound = _Linear | _Extreme
_ZERO = _Linear((), 0, 0)


@dataclass(frozen=True)
class _Quotient:
    divisor: int
    of: _Linear


def _linear(factors: Mapping[Any, int], low: int, high: int) -> _Linear:
    return _Linear(tuple((atom, by) for atom, by in factors.items() if by), low, high)


def _added(one: _Bound, other: _Bound) -> _Bound | None:
    """The sum; None for that of two extremes."""
    if isinstance(one, _Extreme):
        if isinstance(other, _Extreme):
            return None
        one, other = other, one
    if isinstance(other, _Extreme):
        parts = [_added(one, part) for part in other.parts]
        kept = tuple(part for part in parts if part is not None)
        return _Extreme(other.is_least, kept) if len(kept) == len(parts) else None
    factors = dict(one.factors)
    for atom, by in other.factors:
        factors[atom] = factors.get(atom, 0) + by
    return _linear(factors, one.low + other.low, one.high + other.high)


def _times(one: _Bound, by: int) -> _Bound:
    if isinstance(one, _Extreme):
        parts = tuple(_times(part, by) for part in one.parts)
        return _Extreme(one.is_least == (by >= 0), parts)
    ends = one.low * by, one.high * by
    return _linear({atom: each * by for atom, each in one.factors}, min(ends), max(ends))


def _spread(one: _Linear, divisor: int = 0) -> _Linear:
    """The sum without a quotient that is a multiple of its divisor, of what is no multiple of
    another one.
    """
    for atom, by in one.factors:
        if isinstance(atom, _Quotient) and by % atom.divisor == 0 and (not divisor or by % divisor):
            rest = _linear({a: b for a, b in one.factors if a != atom}, one.low, one.high)
            # The divisor times the quotient is what was divided, less its rest.
            of = _linear(dict(atom.of.factors), atom.of.low - atom.divisor + 1, atom.of.high)
            spread = _added(rest, _times(of, by // atom.divisor))
            assert isinstance(spread, _Linear)
            return spread
    return one


def _divided(one: _Bound, divisor: int) -> _Bound | None:
    """The quotient, rounded down; None where nothing is known of it."""
    if isinstance(one, _Extreme):
        parts = [_divided(part, divisor) for part in one.parts]
        kept = tuple(part for part in parts if part is not None)
        return _Extreme(one.is_least, kept) if len(kept) == len(parts) else None
    spread = one
    while (following := _spread(spread, divisor)) != spread:
        spread = following
    if all(by % divisor == 0 for _, by in spread.factors):
        factors = {atom: by // divisor for atom, by in spread.factors}
        return _linear(factors, spread.low // divisor, spread.high // divisor)
    return _linear({_Quotient(divisor, one): 1}, 0, 0) if one.low == one.high else None


def _is_at_most(one: _Bound, other: _Bound) -> bool:
    """Whether one is at most the other."""
    if isinstance(one, _Extreme) and not one.is_least:
        return all(_is_at_most(part, other) for part in one.parts)
    if isinstance(other, _Extreme) and other.is_least:
        return all(_is_at_most(one, part) for part in other.parts)
    if isinstance(one, _Extreme) and any(_is_at_most(part, other) for part in one.parts):
        return True
    if isinstance(other, _Extreme):
        return any(_is_at_most(one, part) for part in other.parts)
    if isinstance(one, _Extreme):
        return False
    apart = _added(other, _times(one, -1))
    assert isinstance(apart, _Linear)
    while apart.factors and (following := _spread(apart)) != apart:
        apart = following
    return not apart.factors and apart.low >= 0


class Bounds:
    """What is known of the integers of one kernel."""

    def __init__(self) -> None:
        self._known: dict[SSAValue, _Bound] = {}

    def never_enters(self, op: Operation, region: int) -> bool:
        """Whether no input leads into a region of an op, or of one around it."""
        inside: Region | None = op.regions[region]
        while inside is not None:
            parent = inside.parent
            if parent is not None and self._is_shut(parent, parent.regions.index(inside)):
                return True
            inside = None if parent is None else parent.parent_region()
        return False

    def _is_shut(self, op: Operation, region: int) -> bool:
        if isinstance(op, scf.ForOp):
            return _is_at_most(self.of(op.ub), self.of(op.lb))
        condition = op.cond.owner if isinstance(op, scf.IfOp) else None
        if not isinstance(condition, arith.CmpiOp):
            return False
        one, other = self.of(condition.lhs), self.of(condition.rhs)
        # slt, sle, sgt, sge, as (lesser, how much less it is at least).
        sides = {2: (one, other, 1), 3: (one, other, 0), 4: (other, one, 1), 5: (other, one, 0)}
        side = sides.get(condition.predicate.value.data)
        if side is None:
            return False
        lesser, larger, by = side
        if region:
            return self._is_always(_plus(lesser, by), larger)
        return self._is_always(_plus(larger, 1 - by), lesser)

    def _is_always(self, one: _Bound, other: _Bound) -> bool:
        """Whether one is at most the other, in whichever trips of the loops around."""
        most, least = self._in_trips(one, True), self._in_trips(other, False)
        return _is_at_most(one, other) or (
            most is not None and least is not None and _is_at_most(most, least)
        )

    def _in_trips(self, one: _Bound, is_most: bool) -> _Bound | None:
        """What a sum is at most, or at least, in all trips of loops whose indices are in it."""
        if isinstance(one, _Extreme):
            return one
        total: _Bound | None = one
        for atom, by in one.factors:
            loop = atom.block.parent_op() if isinstance(atom, BlockArgument) else None
            if total is None or not isinstance(loop, scf.ForOp) or atom.index:
                continue
            end = _plus(self.of(loop.ub), -1) if is_most == (by > 0) else self.of(loop.lb)
            without = _added(total, _linear({atom: -by}, 0, 0))
            total = None if without is None else _added(without, _times(end, by))
        return total

    def of(self, value: SSAValue) -> _Bound:
        """What a value is."""
        known = self._known.get(value)
        if known is None:
            computed = self._computed(value.owner) if isinstance(value.owner, Operation) else None
            known = self._known[value] = computed or _linear({value: 1}, 0, 0)
        return known

    def _computed(self, op: Operation) -> _Bound | None:
        number = constant_of(op)
        if number is not None:
            return _linear({}, number, number)
        match op:
            case arith.AddiOp():
                return _added(self.of(op.lhs), self.of(op.rhs))
            case arith.SubiOp():
                return self._less(self.of(op.lhs), self.of(op.rhs))
            case arith.MuliOp() if (by := _constant(op.rhs)) is not None:
                return _times(self.of(op.lhs), by)
            case arith.FloorDivSIOp() if (by := _constant(op.rhs)) is not None and by > 0:
                return _divided(self.of(op.lhs), by)
            case arith.CeilDivSIOp() if (by := _constant(op.rhs)) is not None and by > 0:
                return _divided(_plus(self.of(op.lhs), by - 1), by)
            case arith.RemSIOp():
                return _ZERO if self.of(op.lhs) == _ZERO else None
            case arith.MinSIOp() | arith.MaxSIOp():
                parts = self.of(op.lhs), self.of(op.rhs)
                for one, other in (parts, parts[::-1]):
                    if _is_at_most(one, other):
                        return one if isinstance(op, arith.MinSIOp) else other
                return _Extreme(isinstance(op, arith.MinSIOp), parts)
            case _:
                return None

    def _less(self, one: _Bound, other: _Bound) -> _Bound | None:
        """The difference; nothing where both are the same."""
        if _is_at_most(one, other) and _is_at_most(other, one):
            return _ZERO
        return _added(one, _times(other, -1))


def _plus(one: _Bound, number: int) -> _Bound:
    added = _added(one, _linear({}, number, number))
    assert added is not None
    return added


def _constant(value: SSAValue) -> int | None:
    return constant_of(value.owner) if isinstance(value.owner, Operation) else None
