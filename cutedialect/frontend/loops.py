"""Run-time loops and conditions: `cute.range`, `cute.while_`, `cute.when`, `cute.otherwise`, and
what leaves a loop or a work item early: `cute.break_if`, `cute.return_if`.

The body of a loop is traced once. What a tracer would get silently wrong is an error at the user's
line: rebinding an outer name, leaving the loop early, using a body value after it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Region, SSAValue

from cutedialect.dialects.cute import BreakIfOp, ReturnIfOp

from .escapes import escape_of
from .scalar import Scalar, as_condition, as_i32
from .trace import current, error, location, traced_frames, user_frame, user_line
from .traced_state import StateBefore, is_at_loop

# The most that i32 counts.
_MOST_TRIPS = (1 << 31) - 1


def range_(start: object, stop: object = None, step: object = 1) -> Loop:
    """A run-time loop: `for k in cute.range(n)`, `cute.range(first, n)` or with a step, as Python's
    range; zero trips are fine. A step may count down, and may be a run-time scalar; one that is 0
    there makes no trips.

    The body is traced once. State that lives across trips is a tile made before the loop, changed
    by `.assign` or `+=`; what the body changes of Python's own state is refused. A list or
    dictionary that it fills with its own tiles and scalars is free to be read in the same trip: the
    body is traced a second time to see that the next trip does the same.
    """
    if stop is None:
        start, stop = 0, start
    low, high = as_i32(start, "a loop bound"), as_i32(stop, "a loop bound")
    stride = as_i32(step, "a step")
    if isinstance(step, Scalar):
        loop = Loop(low, high, stride, may_be_zero=True)
    else:
        number = operator.index(step)  # pyright: ignore[reportArgumentType]
        if number == 0:
            raise error("expected a step other than 0, got 0", code="CD-P4")
        loop = Loop(low, high, stride, is_plain=number == 1)
    _promise(loop, "expected `for k in cute.range(...):` around a body, got the range alone")
    return loop


def while_(condition: Callable[[], object], max_trips: object = _MOST_TRIPS) -> Loop:
    """A loop that goes on as long as a condition of the CTA holds, which is asked in front of each
    trip: `for trip in cute.while_(lambda: cute.any(error > 1e-3), max_trips=100): ...`.

    The condition is a function of tiles made before the loop, which the body changes by `.assign`
    or `+=`. `trip` counts from 0. After `max_trips` trips, a number or a scalar, the loop ends
    whether or not the condition holds.
    """
    if not callable(condition):
        raise error(
            "expected a function that gives the condition of cute.while_ for each trip, got "
            f"{type(condition).__name__}; write cute.while_(lambda: ...)"
        )
    one = as_i32(1, "a step")
    trips = as_i32(max_trips, "the number of trips")
    loop = Loop(as_i32(0, "a loop bound"), trips, one, is_plain=True, condition=condition)
    _promise(loop, "expected `for trip in cute.while_(...):` around a body, got the loop alone")
    return loop


def break_if(condition: object) -> None:
    """Leave the innermost `cute.range` or `cute.while_` where a condition of the CTA holds: nothing
    behind it in this trip runs, and no other trip. It may stand under `cute.when`.
    """
    if not current().loops:
        raise error(
            "expected cute.break_if in a cute.range or cute.while_, got it outside; "
            "cute.return_if(cond) ends the kernel for this tile",
            code="CD-P8",
        )
    _leave(BreakIfOp, condition, "the condition of cute.break_if")


def return_if(condition: object) -> None:
    """End the kernel for the tile at work where a condition of the CTA holds: nothing behind it
    runs, in whatever loops and conditions it stands. `cute.tile_index` stands in front of it.
    """
    _leave(ReturnIfOp, condition, "the condition of cute.return_if")


def _leave(op: type[BreakIfOp | ReturnIfOp], condition: object, what: str) -> None:
    trace = current()
    if trace.launches is not None:
        raise error(f"expected {op.name} in a kernel, got it in a host program", code="CD-P11")
    trace.insert(op(as_condition(condition, what)))


def _promise(made: object, message: str) -> None:
    """Note what is wrong if `made` is not entered before the kernel ends."""
    current().unused[id(made)] = message, user_line()


@dataclass(frozen=True)
class Loop:
    """What `for` walks over: one trip, at the end of which the body is checked. `is_plain` says
    that the step is 1, `may_be_zero` that only the GPU knows whether it is 0. A trip in front of
    which `condition` does not hold ends the loop.
    """

    low: SSAValue
    high: SSAValue
    step: SSAValue
    is_plain: bool = False
    may_be_zero: bool = False
    condition: Callable[[], object] | None = None

    def __iter__(self) -> Iterator[Scalar]:
        if not is_at_loop(user_frame()):
            raise error(
                "expected `for k in cute.range(...):` around a body, got the range in a call or a "
                "comprehension, such as enumerate, zip, list or sum, which would see one trip; "
                "count with the loop's index",
                code="CD-P8",
            )
        current().unused.pop(id(self), None)
        return _trip(self)


def _trip(loop: Loop) -> Iterator[Scalar]:
    """The one trip that is traced."""
    trace = current()
    block = Block(arg_types=[i32])
    if loop.is_plain:
        trace.insert(scf.ForOp(loop.low, loop.high, loop.step, [], block))
    else:
        low, high, step = map(Scalar, (loop.low, loop.high, loop.step))
        trips = _trips(low, high, step, loop.may_be_zero).use()
        zero, one = trace.constant(0, i32), trace.constant(1, i32)
        trace.insert(scf.ForOp(zero, trips, one, [], block))
    where = f"the loop at line {user_frame().f_lineno}"
    finished = False
    try:
        state, filled = StateBefore(is_loop=True), {}
        with trace.region(block, where):
            yield _counted(loop, block)
            filled = state.check()
            trace.insert(scf.YieldOp())
            trace.loops.pop()
        if filled:
            # Does the next trip, which finds them full, do the same?
            extents = {name: len(owner) for name, owner in filled.items()}
            again = Block(arg_types=[i32])
            then = StateBefore(is_loop=True)
            with trace.region(again, where):
                yield _counted(loop, again)
                then.check()
                trace.insert(scf.YieldOp())
                trace.loops.pop()
            is_alike = block.is_structurally_equivalent(again)
            again.erase()
            state.check_next(filled, extents, is_alike)
        finished = True
    finally:
        if not finished and trace.failure is None:
            trace.failure = error(
                f"expected {where} to run to the end of its body, got a break, return or "
                "exception; a condition inside a loop is `with cute.when(cond):`, and "
                "cute.break_if(cond) or cute.return_if(cond) leaves it",
                code="CD-P7",
            )


def _counted(loop: Loop, block: Block) -> Scalar:
    """The index of a trip that is traced into a block."""
    index = Scalar(block.args[0])
    if not loop.is_plain:
        index = Scalar(loop.low) + index * Scalar(loop.step)
    current().loops.append(index)
    if loop.condition is not None:
        holds = Scalar(as_condition(loop.condition(), "the condition of cute.while_"))
        _leave(BreakIfOp, ~holds, "the condition of cute.while_")
    return index


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


class Body(AbstractContextManager[None]):
    """What `with` enters: a body that is traced whether or not its condition holds."""

    def __init__(self, traced: AbstractContextManager[None], name: str) -> None:
        self.traced = traced
        _promise(self, f"expected `with {name}:` around a body, got the call alone")

    def __enter__(self) -> None:
        current().unused.pop(id(self), None)
        for frame in traced_frames():
            escape = escape_of(frame)
            if escape is not None:
                raise error(
                    f"expected the body of a condition to run to its end, got {escape}, which "
                    "would be taken whether or not it holds; put what is not to run under "
                    "cute.otherwise or another cute.when, or leave by cute.break_if(cond) or "
                    "cute.return_if(cond)",
                    code="CD-P7",
                )
        self.traced.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        trace = current()
        if kind is not None and trace.failure is None:
            trace.failure = error(
                "expected the body of a condition to run to its end, got an exception",
                code="CD-P7",
            )
        return self.traced.__exit__(kind, value, traceback)


def when(condition: object) -> AbstractContextManager[None]:
    """Run the body where a CTA-uniform condition holds: `with cute.when(m < n): ...`.

    The body is always traced: it must run to its end, and leave Python's own state as it is.
    """
    value = as_condition(condition, "the condition of cute.when")
    return Body(_when(value), "cute.when(condition)")


@contextmanager
def _when(value: SSAValue) -> Iterator[None]:
    trace = current()
    then, other = Block(), Block()
    branch = scf.IfOp(value, [], Region(then), Region(other))
    trace.insert(branch)
    with _traced(then):
        yield
    other.add_op(_yield())


def otherwise() -> AbstractContextManager[None]:
    """The other branch of the `cute.when` just before."""
    trace = current()
    last = trace.scope.block.last_op
    if not isinstance(last, scf.IfOp):
        raise error("expected cute.otherwise right after a cute.when block", code="CD-P8")
    block = last.false_region.block
    if block.first_op is not block.last_op:
        raise error("expected one cute.otherwise for a cute.when, got a second one", code="CD-P8")
    return Body(_otherwise(block), "cute.otherwise()")


@contextmanager
def _otherwise(block: Block) -> Iterator[None]:
    ending = block.last_op
    assert ending is not None
    ending.detach()
    with _traced(block):
        yield


@contextmanager
def _traced(block: Block) -> Iterator[None]:
    """The body of a branch."""
    trace = current()
    before = StateBefore(is_loop=False)
    with trace.region(block, f"the condition at line {user_frame().f_lineno}"):
        yield
        before.check()
        trace.insert(scf.YieldOp())


def _yield() -> scf.YieldOp:
    op = scf.YieldOp()
    op.location = location()
    return op
