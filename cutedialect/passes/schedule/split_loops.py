"""`cute-split-loops`: a loop of multiplies with a branch that some first or last trips take becomes
one loop for each case, in which the branch is decided.

    for j in a..b { s = q k[j]; if j * 64 + 64 > n { mask s }; ... }
    =>
    y = n / 64, within a..b
    for j in a..y { s = q k[j]; ... }
    for j in y..b { s = q k[j]; mask s; ... }

Behind the first trips their conditions hold no more: branches on one of them alone are decided in
the last ones, too.

A condition counts if it compares sums with a multiple of the loop's index, so that it changes once
along the loop, or if it joins such conditions by `or` or by `and` so that at most some first and
some last trips differ from those between. It comes behind `cute-synchronize`: the first trip and
the last multiply that a skewed loop has around it are there once for all of its parts, and the role
that loads keeps one loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cutedialect.dialects.cute import GemmOp, KernelOp
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.analysis.memory_views import constant_of, varies
from cutedialect.passes.anchors import Anchors, KernelPass
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import (
    ScalarBuilder,
    clone_block,
    cloned,
    erase,
    insert_before,
    sweep,
)

FEW_TRIPS = "few_trips"
"""The attribute of a loop that has some first or last trips of one."""


@dataclass(frozen=True)
class SplitLoopsPass(KernelPass):
    """Split the loops of kernels whose schedule says `split_loops = yes`."""

    name = "cute-split-loops"
    anchors = Anchors(ops=(GemmOp,), asked={"split_loops": "yes"})

    def run(self, kernel: KernelOp) -> None:
        for loop in ops_of(kernel, scf.ForOp):
            if not any(isinstance(inner, GemmOp) for inner in loop.body.block.ops):
                continue
            branches = [op for op in loop.body.block.ops if isinstance(op, scf.IfOp)]
            found = [(op, each) for op in branches if (each := _condition(loop, op.cond))]
            on_index = [op for op in branches if _asks_for_index(loop, op.cond)]
            if found and not loop.iter_args and constant_of(loop.step) == 1:
                _split(loop, *found[0])
            elif on_index:
                remark(
                    self.name,
                    on_index[0],
                    "loop not split: expected a branch on comparisons of the loop's index "
                    "times a constant with what no trip changes",
                )


@dataclass(frozen=True)
class _Sum:
    """`factor` times the loop's index, and numbers that are the same in all trips."""

    factor: int
    constant: int
    added: tuple[SSAValue, ...] = ()
    subtracted: tuple[SSAValue, ...] = ()

    def plus(self, other: _Sum) -> _Sum:
        return _Sum(
            self.factor + other.factor,
            self.constant + other.constant,
            self.added + other.added,
            self.subtracted + other.subtracted,
        )

    def negated(self) -> _Sum:
        return _Sum(-self.factor, -self.constant, self.subtracted, self.added)


@dataclass(frozen=True)
class _Change:
    """The first trip for which a condition is not what it was before: `rises` if it is true from
    there on. It is the least j with factor j >= limit, where the limit is a sum without index.
    """

    rises: bool
    factor: int
    limit: _Sum


@dataclass(frozen=True)
class _Condition:
    """Whether a branch is taken in the first and last trips that `changes` bound, or between."""

    outer: bool
    changes: tuple[_Change, ...]


def _asks_for_index(loop: scf.ForOp, condition: SSAValue) -> bool:
    """Whether a condition is computed from the index, in the body's own block."""
    block = loop.body.block
    pending, seen = [condition], set[SSAValue]()
    while pending:
        value = pending.pop()
        if value is block.args[0]:
            return True
        owner = value.owner
        if isinstance(owner, Operation) and owner.parent is block and value not in seen:
            seen.add(value)
            pending += owner.operands
    return False


def _condition(loop: scf.ForOp, value: SSAValue) -> _Condition | None:
    """A comparison, or several joined by one of `or` and `and`."""
    joined = type(value.owner)
    if joined not in (arith.OrIOp, arith.AndIOp):
        joined = arith.OrIOp
    changes: list[_Change] = []
    pending = [value]
    while pending:
        op = pending.pop().owner
        if type(op) is joined and isinstance(op, Operation):
            pending += op.operands
            continue
        change = _change(loop, op) if isinstance(op, arith.CmpiOp) else None
        if change is None:
            return None
        changes.append(change)
    if joined is arith.OrIOp:
        return _Condition(True, tuple(changes))
    # All hold between where one of them does not.
    return _Condition(False, tuple(replace(each, rises=not each.rises) for each in changes))


def _change(loop: scf.ForOp, op: arith.CmpiOp) -> _Change | None:
    """Where a comparison changes, by how its sides differ: factor j + rest against 0."""
    name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    if name not in ("slt", "sle", "sgt", "sge"):
        return None
    sides = [_sum(loop, side) for side in op.operands]
    if sides[0] is None or sides[1] is None:
        return None
    rest = sides[0].plus(sides[1].negated())
    is_greater, is_strict = name[1] == "g", name[2] == "t"
    if rest.factor < 0:
        rest, is_greater = rest.negated(), not is_greater
    if rest.factor == 0:
        return None
    # The least j for which the sum is above 0, where that is what changes, else at least 0.
    above = is_greater == is_strict
    limit = replace(rest, factor=0).negated()
    limit = replace(limit, constant=limit.constant + above)
    return _Change(is_greater, rest.factor, limit)


def _sum(loop: scf.ForOp, value: SSAValue) -> _Sum | None:
    """A value as a sum; None if it depends on the index in another way."""
    if value is loop.body.block.args[0]:
        return _Sum(1, 0)
    number = constant_of(value)
    if number is not None:
        return _Sum(0, number)
    if not loop.is_ancestor(value.owner):
        return _Sum(0, 0, (value,))
    op = value.owner
    if isinstance(op, arith.AddiOp | arith.SubiOp | arith.MuliOp):
        one, other = (_sum(loop, each) for each in op.operands)
        if one is not None and other is not None:
            if isinstance(op, arith.AddiOp):
                return one.plus(other)
            if isinstance(op, arith.SubiOp):
                return one.plus(other.negated())
            for part, number in ((one, constant_of(op.rhs)), (other, constant_of(op.lhs))):
                if number is not None and not part.added and not part.subtracted:
                    return _Sum(part.factor * number, part.constant * number)
    return None if varies(value, loop) else _Sum(0, 0, (value,))


def _split(loop: scf.ForOp, branch: scf.IfOp, condition: _Condition) -> None:
    """Replace a loop by those of its trips in which the branch is decided alike."""
    build = ScalarBuilder(InsertPoint.before(loop), branch)
    made: dict[SSAValue, SSAValue] = {}
    ends = {
        rises: [
            _first(build, loop, each, made) for each in condition.changes if each.rises is rises
        ]
        for rises in (False, True)
    }
    bounds = [loop.lb, loop.ub]
    if ends[False]:
        end = reduce(build.max, [loop.lb, *ends[False]])
        bounds.insert(1, build.min(end, loop.ub))
    if ends[True]:
        end = reduce(build.min, [loop.ub, *ends[True]])
        bounds.insert(-1, build.max(end, bounds[-2]))
    middle = 1 if ends[False] else 0
    over = _decided(
        loop, [change for change in condition.changes if not change.rises], condition.outer
    )
    for part, (first, last) in enumerate(pairwise(bounds)):
        decided = {branch.cond: condition.outer is (part != middle)}
        if part > middle:
            decided = over | decided
        inserted = _insert_part(loop, decided, first, last)
        if part != middle:
            inserted.attributes[FEW_TRIPS] = UnitAttr()
    erase(loop)


def _first(
    build: ScalarBuilder, loop: scf.ForOp, change: _Change, made: dict[SSAValue, SSAValue]
) -> SSAValue:
    """The trip at which a condition changes, in front of the loop."""
    total = build.constant(change.limit.constant + change.factor - 1)
    for combine, values in (
        (build.add, change.limit.added),
        (build.sub, change.limit.subtracted),
    ):
        for value in values:
            total = combine(total, _before(build, loop, value, made))
    if change.factor == 1:
        return total
    return build.binary(arith.FloorDivSIOp, total, change.factor)


def _before(
    build: ScalarBuilder, loop: scf.ForOp, value: SSAValue, made: dict[SSAValue, SSAValue]
) -> SSAValue:
    """A value that is the same in all trips, computed in front of the loop."""
    op = value.owner
    if isinstance(op, Operation) and loop.is_ancestor(op) and value not in made:
        for each in op.operands:
            _before(build, loop, each, made)
        build.insert(cloned(op, made))
    return made.get(value, value)


def _decided(loop: scf.ForOp, changes: Sequence[_Change], is_outer: bool) -> dict[SSAValue, bool]:
    """What the comparisons that branches ask for are behind some changes from true to false, or, of
    a condition that was negated, from false to true.
    """
    asked = {op.cond: op.cond.owner for op in ops_of(loop.body.block, scf.IfOp)}
    return {
        value: not is_outer
        for value, op in asked.items()
        if isinstance(op, arith.CmpiOp)
        and (change := _change(loop, op)) is not None
        and replace(change, rises=change.rises is is_outer) in changes
    }


def _insert_part(
    loop: scf.ForOp, decided: Mapping[SSAValue, bool], first: SSAValue, last: SSAValue
) -> scf.ForOp:
    """One of the loops, in front of the old one, in which all branches on some conditions are
    decided.
    """
    values: dict[SSAValue, SSAValue] = {}
    body = clone_block(loop.body.block, values)
    for condition, is_taken in decided.items():
        _decide(body, values.get(condition, condition), is_taken)
    sweep(body)
    made = scf.ForOp(first, last, loop.step, [], body)
    insert_before(loop, made)
    return made


def _decide(body: Block, condition: SSAValue, is_taken: bool) -> None:
    """Put what the branches on a condition take in their places, wherever they stand."""
    branches = [op for op in ops_of(body, scf.IfOp) if op.cond is condition]
    for branch in reversed(branches):
        region = branch.true_region if is_taken else branch.false_region
        given: Sequence[SSAValue] = ()
        for op in list(region.block.ops) if region.blocks else ():
            if isinstance(op, scf.YieldOp):
                given = op.operands
            else:
                op.detach()
                insert_before(branch, op)
        Rewriter.replace_op(branch, [], given)
