"""What holds of two integers of a kernel whatever its inputs are: that one is at most the other.
It follows from sums, products by constants, quotients, and the least and the largest of some; with
it a body of a loop or condition is one that no input enters. So is one where two conditions around
it do not hold at once, such as i = 0 and i = 2, or an extent of 0 of a launch that has a tile for
each CTA.

    first = 128 q;  floor(first / 96) * 96 is in first + [-95, 0];  (first + 255) / 128 is q + 1
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import BlockArgument, Operation, Region, SSAValue

from cutedialect.dialects.cute import DimOp, KernelOp, LaunchOp
from cutedialect.dialects.walks import walk

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
_ZERO, _ONE = _Linear((), 0, 0), _Linear((), 1, 1)


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


def _pinned(needs: Sequence[_Bound]) -> dict[Any, int]:
    """The indices of loops that are one number where all of some needs are at most 0."""
    pins: dict[Any, int] = {}
    indices = {
        atom
        for need in needs
        if isinstance(need, _Linear)
        for atom, _ in need.factors
        if isinstance(atom, BlockArgument)
    }
    for index in indices:
        least = [end for need in needs if (end := _end(need, index, -1)) is not None]
        most = [end for need in needs if (end := _end(need, index, 1)) is not None]
        if least and most and max(least) == -max(most):
            pins[index] = max(least)
    return pins


def _end(need: _Bound, index: Any, by: int) -> int | None:
    """What -`by` times an index is at least where a need is at most 0; None if that says nothing of
    it.
    """
    if isinstance(need, _Linear):
        return need.low if need.factors == ((index, by),) else None
    ends = [_end(part, index, by) for part in need.parts]
    known = [end for end in ends if end is not None]
    if need.is_least:
        return min(known) if len(known) == len(ends) else None
    return max(known, default=None)


def _with(bound: _Bound, pins: Mapping[Any, int]) -> _Bound:
    """A bound with numbers instead of some atoms."""
    if isinstance(bound, _Extreme):
        return _Extreme(bound.is_least, tuple(_with(part, pins) for part in bound.parts))
    number, factors = 0, dict[Any, int]()
    for atom, by in bound.factors:
        of = _with(atom.of, pins) if isinstance(atom, _Quotient) else None
        if atom in pins:
            number += by * pins[atom]
        elif isinstance(of, _Linear) and not of.factors and of.low == of.high:
            number += by * (of.low // atom.divisor)
        else:
            factors[atom] = by
    return _linear(factors, bound.low + number, bound.high + number)


class Bounds:
    """What is known of the integers of one kernel; with the kernel, what its launches say of it."""

    def __init__(self, kernel: KernelOp | None = None) -> None:
        self._known: dict[SSAValue, _Bound] = {}
        # The least or largest of some that always is the same one of these.
        self._same: dict[SSAValue, SSAValue] = {}
        self._launched = set[tuple[int, int]]() if kernel is None else _launched(kernel)

    def never_enters(self, op: Operation, region: int) -> bool:
        """Whether no input leads into a region of an op, or of one around it."""
        inside: Region | None = op.regions[region]
        # What is at most 0 inside.
        needs: list[_Bound] = []
        while inside is not None:
            parent = inside.parent
            if parent is not None:
                at = parent.regions.index(inside)
                if self._is_shut(parent, at):
                    return True
                needs += self._needs(parent, at)
            inside = None if parent is None else parent.parent_region()
        atoms = {atom for need in needs if isinstance(need, _Linear) for atom, _ in need.factors}
        needs += map(self._of_extent, (a for a in atoms if _is_extent(a)))
        pins = _pinned(needs)
        pairs = combinations_with_replacement([_with(need, pins) for need in needs], 2)
        return any(
            (both := _added(one, other)) is not None and _is_at_most(_ONE, both)
            for one, other in pairs
        )

    def _of_extent(self, extent: SSAValue) -> _Bound:
        """An extent is no less than 0, or than 1 where no CTA is launched else."""
        op = extent.owner
        assert isinstance(op, DimOp)
        whole = op.memref
        is_some = (
            isinstance(whole, BlockArgument) and (whole.index, op.mode.value.data) in self._launched
        )
        return _linear({extent: -1}, int(is_some), int(is_some))

    def _needs(self, op: Operation, region: int) -> Iterator[_Bound]:
        """What is at most 0 in a region of an op."""
        if isinstance(op, scf.ForOp):
            index = op.body.block.args[0]
            yield from self._less(op.lb, index, 0)
            yield from self._less(index, op.ub, 1)
        elif isinstance(op, scf.IfOp):
            yield from self._of_condition(op.cond, region == 0)

    def _of_condition(self, value: SSAValue, holds: bool) -> Iterator[_Bound]:
        op = value.owner
        if isinstance(op, arith.AndIOp if holds else arith.OrIOp) and value.type == IntegerType(1):
            for side in op.operands:
                yield from self._of_condition(side, holds)
        if not isinstance(op, arith.CmpiOp):
            return
        name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
        if name in ("eq", "ne") and (name == "eq") is holds:
            yield from self._less(op.lhs, op.rhs, 0)
            yield from self._less(op.rhs, op.lhs, 0)
        elif name in ("slt", "sle", "sgt", "sge"):
            is_less, is_strict = (name[1] == "l") is holds, (name[2] == "t") is holds
            sides = (op.lhs, op.rhs) if is_less else (op.rhs, op.lhs)
            yield from self._less(*sides, int(is_strict))

    def _less(self, lesser: SSAValue, larger: SSAValue, by: int) -> Iterator[_Bound]:
        """What is at most 0 where one number is at least so much less than another."""
        apart = _added(self.of(lesser), _times(self.of(larger), -1))
        if apart is not None:
            yield _plus(apart, by)

    def _is_shut(self, op: Operation, region: int) -> bool:
        if isinstance(op, scf.ForOp):
            is_shut = _is_at_most(self.of(op.ub), self.of(op.lb))
            return is_shut or self._one_of(op.ub) is self._one_of(op.lb)
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
                is_same = self._one_of(op.lhs) is self._one_of(op.rhs)
                return _ZERO if is_same else self._difference(self.of(op.lhs), self.of(op.rhs))
            case arith.MuliOp() if (by := _constant(op.rhs)) is not None:
                return _times(self.of(op.lhs), by)
            case arith.FloorDivSIOp() if (by := _constant(op.rhs)) is not None and by > 0:
                return _divided(self.of(op.lhs), by)
            case arith.CeilDivSIOp() if (by := _constant(op.rhs)) is not None and by > 0:
                return _divided(_plus(self.of(op.lhs), by - 1), by)
            case arith.RemSIOp():
                return _ZERO if self.of(op.lhs) == _ZERO else None
            case arith.MinSIOp() | arith.MaxSIOp():
                is_least = isinstance(op, arith.MinSIOp)
                parts = self.of(op.lhs), self.of(op.rhs)
                for lesser, larger in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
                    if _is_at_most(self.of(lesser), self.of(larger)):
                        same = self._same[op.results[0]] = lesser if is_least else larger
                        return self.of(same)
                return _Extreme(is_least, parts)
            case _:
                return None

    def _one_of(self, value: SSAValue) -> SSAValue:
        """The number itself, or the one of some that it always is: what a number is between says
        nothing of whether another one is the same.
        """
        self.of(value)
        while value in self._same:
            value = self._same[value]
        return value

    def _difference(self, one: _Bound, other: _Bound) -> _Bound | None:
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


def _is_extent(atom: Any) -> bool:
    return isinstance(atom, SSAValue) and isinstance(atom.owner, DimOp)


def _launched(kernel: KernelOp) -> set[tuple[int, int]]:
    """The extents, (argument, mode), that are above 0 in each launch of a kernel that has CTAs."""
    module = kernel.parent_op()
    launches = [
        op
        for op in (() if module is None else walk(module))
        if isinstance(op, LaunchOp) and op.kernel.root_reference.data == kernel.sym_name.data
    ]
    found = [
        {
            (at, dim.mode.value.data)
            for dim in _positive(op.grid)
            for at, argument in enumerate(op.args)
            if argument is dim.memref
        }
        for op in launches
    ]
    return set[tuple[int, int]].intersection(*found) if found else set()


def _positive(grid: Sequence[SSAValue]) -> Iterator[DimOp]:
    """The extents that are above 0 where the extents of a grid are."""
    waiting = list(grid)
    while waiting:
        op = waiting.pop().owner
        match op:
            case DimOp():
                yield op
            case arith.MuliOp() | arith.MinSIOp():
                waiting += op.operands
            case arith.CeilDivSIOp() if (_constant(op.rhs) or 0) > 0:
                waiting.append(op.lhs)
            case _:
                pass
