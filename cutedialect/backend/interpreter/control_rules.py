"""Rules of control flow: loops, branches and what they yield. A branch on a condition that rows
have of their own runs for all rows and writes those that take it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from xdsl.dialects import func, scf
from xdsl.ir import Block

from cutedialect.dialects.cute import BreakIfOp, ReturnIfOp, YieldOp

from .cta import Cta, slot, slots
from .elements import dtype_of
from .rules import Code, Step, nothing, rule


@rule(scf.YieldOp, scf.ConditionOp, YieldOp, func.ReturnOp)
def _terminator(op: Any) -> Step:
    """The op around it takes its operands."""
    del op
    return nothing


def _yielded(block: Block) -> tuple[int, ...]:
    last = block.last_op
    return slots(last.operands) if isinstance(last, scf.YieldOp) else ()


def _assign(cta: Cta, to: Any, values: Any) -> None:
    cta.values.update(zip(to, values, strict=True))


def _get(cta: Cta, values: Any) -> list[Any]:
    return [cta.values[value] for value in values]


class LoopLeft(Exception):  # noqa: N818
    """Ends the innermost loop, which carries nothing then."""


class ItemLeft(Exception):  # noqa: N818
    """Ends the work item."""


@rule(BreakIfOp, ReturnIfOp)
def _leave(op: BreakIfOp | ReturnIfOp) -> Step:
    condition, left = slot(op.condition), LoopLeft if isinstance(op, BreakIfOp) else ItemLeft

    def step(cta: Cta) -> None:
        if cta.values[condition]:
            raise left

    return step


@rule(scf.ForOp)
def _for(op: scf.ForOp) -> Step:
    block = op.body.block
    code, yielded = Code(block), _yielded(block)
    bounds = slots((op.lb, op.ub, op.step))
    first, results = slots(op.iter_args), slots(op.results)
    index, *carried = slots(block.args)
    kind = dtype_of(block.args[0].type).type

    def step(cta: Cta) -> Iterator[None]:
        low, high, stride = cta.numbers(bounds)
        if stride <= 0:
            raise ValueError(f"expected a step of 1 or more, got {stride}")
        values = _get(cta, first)
        for number in range(low, high, stride):
            cta.values[index] = kind(number)
            if carried:
                _assign(cta, carried, values)
            try:
                yield from code.run(cta)
            except LoopLeft:
                return
            if carried:
                values = _get(cta, yielded)
        _assign(cta, results, values)

    return step


@rule(scf.WhileOp)
def _while(op: scf.WhileOp) -> Step:
    before, after = op.before_region.block, op.after_region.block
    test, body = Code(before), Code(after)
    first, results = slots(op.operands), slots(op.results)
    given, taken = slots(before.args), slots(after.args)
    condition = before.last_op
    assert isinstance(condition, scf.ConditionOp)
    (holds, *passed), yielded = slots(condition.operands), _yielded(after)

    def step(cta: Cta) -> Iterator[None]:
        values = _get(cta, first)
        while True:
            _assign(cta, given, values)
            yield from test.run(cta)
            values = _get(cta, passed)
            if not cta.values[holds]:
                break
            _assign(cta, taken, values)
            yield from body.run(cta)
            values = _get(cta, yielded)
        _assign(cta, results, values)

    return step


@rule(scf.IfOp)
def _if(op: scf.IfOp) -> Step:
    sides = [region.block if region.blocks else Block() for region in op.regions]
    codes = [Code(side) for side in sides]
    yields = [_yielded(side) for side in sides]
    condition, results = slot(op.operands[0]), slots(op.results)

    def step(cta: Cta) -> Iterator[None]:
        holds = cta.values[condition]
        if np.ndim(holds) == 0:
            side = 0 if holds else 1
            yield from codes[side].run(cta)
            _assign(cta, results, _get(cta, yields[side]))
            return
        outer, taken = cta.mask, []
        for code, out, rows in zip(codes, yields, (holds, ~holds), strict=True):
            cta.mask = mask = rows if outer is None else rows & outer
            if mask.any() or out:
                yield from code.run(cta)
            taken.append(_get(cta, out))
        cta.mask = outer
        _assign(cta, results, [np.where(holds, yes, no) for yes, no in zip(*taken, strict=True)])

    return step
