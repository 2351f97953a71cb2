"""Run-time loops and conditions: `cute.range`, `cute.when`, `cute.otherwise`.

The body of a loop is traced once. What a tracer would get silently wrong is an error at the user's
line: rebinding an outer name, leaving the loop early, using a body value after it.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Region

from .scalar import Scalar, as_condition, as_i32
from .tile import Tensor, Tile, View, Views
from .trace import current, error, location, user_frame

_STATE = (Tile, Scalar, View, Views, Tensor)


def range_(start: object, stop: object = None, step: object = 1) -> Iterator[Scalar]:
    """A run-time loop: `for k in cute.range(n)`, `cute.range(first, n)` or with a step, as Python's
    range; zero trips are fine. A step may count down, and may be a run-time scalar; one that is 0
    there makes no trips.

    State that lives across trips is a tile made before the loop, changed by `.assign` or `+=`.
    """
    trace = current()
    if stop is None:
        start, stop = 0, start
    low, high = as_i32(start, "a loop bound"), as_i32(stop, "a loop bound")
    stride = as_i32(step, "a step")
    if not isinstance(step, Scalar) and operator.index(step) == 0:  # pyright: ignore[reportArgumentType]
        raise error("expected a step other than 0, got 0")
    is_plain = not isinstance(step, Scalar) and operator.index(step) == 1  # pyright: ignore[reportArgumentType]
    one = stride if is_plain else trace.constant(1, i32)
    block = Block(arg_types=[i32])
    if is_plain:
        trace.insert(scf.ForOp(low, high, one, [], block))
    else:
        trips = _trips(Scalar(low), Scalar(high), Scalar(stride), isinstance(step, Scalar))
        trace.insert(scf.ForOp(trace.constant(0, i32), trips.use(), one, [], block))
    frame = user_frame()
    before = _state(frame)
    where = f"the loop at line {frame.f_lineno}"
    finished = False
    try:
        with trace.region(block, where) as scope:
            index = Scalar(block.args[0], scope)
            if not is_plain:
                index = Scalar(low) + index * Scalar(stride)
            trace.loops.append(index)
            yield index
            _check_rebinding(frame, before)
            trace.insert(scf.YieldOp())
            trace.loops.pop()
        finished = True
    finally:
        if not finished and trace.failure is None:
            trace.failure = error(
                f"expected {where} to run to the end of its body, got a break, return or "
                "exception; a condition inside a loop is `with cute.when(cond):`"
            )


def _trips(low: Scalar, high: Scalar, step: Scalar, may_be_zero: bool) -> Scalar:
    """How many trips there are from one bound to the other: their distance over the step, up."""
    trace = current()
    if may_be_zero:
        is_zero = step == 0
        one = trace.constant(1, i32)
        step = Scalar(trace.insert(arith.SelectOp(is_zero.use(), one, step.use())).results[0])
    distance = (high - low).use()
    count = Scalar(trace.insert(arith.CeilDivSIOp(distance, step.use())).results[0])
    count = count.binary("maximum", 0)
    if may_be_zero:
        zero = trace.constant(0, i32)
        count = Scalar(trace.insert(arith.SelectOp(is_zero.use(), zero, count.use())).results[0])
    return count


def _state(frame: FrameType) -> dict[str, object]:
    """The caller's names for values that live; those of ended loops may be bound anew."""
    return {
        name: value
        for name, value in frame.f_locals.items()
        if isinstance(value, _STATE) and (isinstance(value, Tensor) or value.scope.open)
    }


def _check_rebinding(frame: FrameType, before: dict[str, object]) -> None:
    """Refuse a name from outside that the body bound to another value."""
    for name, value in frame.f_locals.items():
        if name in before and value is not before[name]:
            raise error(
                f"expected '{name}' to keep its value across the loop, got it rebound in the body; "
                f"use {name}.assign(...) or {name} += ... on a tile made by cute.zeros or cute.full"
            )


@contextmanager
def when(condition: object) -> Iterator[None]:
    """Run the body where a CTA-uniform condition holds: `with cute.when(m < n): ...`."""
    trace = current()
    value = as_condition(condition, "the condition of cute.when")
    then, other = Block(), Block()
    branch = scf.IfOp(value, [], Region(then), Region(other))
    trace.insert(branch)
    frame = user_frame()
    before = _state(frame)
    with trace.region(then, f"the condition at line {frame.f_lineno}"):
        yield
        _check_rebinding(frame, before)
        trace.insert(scf.YieldOp())
    other.add_op(_yield())


@contextmanager
def otherwise() -> Iterator[None]:
    """The other branch of the `cute.when` just before."""
    trace = current()
    last = trace.scope.block.last_op
    if not isinstance(last, scf.IfOp):
        raise error("expected cute.otherwise right after a cute.when block")
    block = last.false_region.block
    if block.first_op is not block.last_op:
        raise error("expected one cute.otherwise for a cute.when, got a second one")
    ending = block.last_op
    assert ending is not None
    ending.detach()
    frame = user_frame()
    before = _state(frame)
    with trace.region(block, f"the condition at line {frame.f_lineno}"):
        yield
        _check_rebinding(frame, before)
        trace.insert(scf.YieldOp())


def _yield() -> scf.YieldOp:
    op = scf.YieldOp()
    op.location = location()
    return op
