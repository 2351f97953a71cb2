"""The table of rules, by op class, and blocks as lists of steps. A rule reads an op once. It gives
the function from the operands' values to the result's, or the step that a CTA takes each time it
gets there; a step that holds others, or at which CTAs meet, is a generator that yields where
another CTA may go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from inspect import isgeneratorfunction
from typing import Any

from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator, Pure

from cutedialect.dialects.walks import walk

from .cta import Cta, InterpreterError, slot, slots
from .scalar_ops import function_of

Step = Callable[[Cta], Any]
Rule = Callable[[Any], Callable[..., Any]]

_STEPS: dict[type[Operation], Rule] = {}
_FUNCTIONS: dict[type[Operation], Rule] = {}


def rule(*ops: type[Operation]) -> Callable[[Rule], Rule]:
    """Register the rule of some op classes that gives a step."""
    return partial(_register, _STEPS, ops)


def function(*ops: type[Operation]) -> Callable[[Rule], Rule]:
    """Register the rule of some op classes that gives a function of the operands' values."""
    return partial(_register, _FUNCTIONS, ops)


def nothing(cta: Cta) -> None:
    """The step of an op that does nothing here; blocks leave it out."""
    del cta


def _register(table: dict[type[Operation], Rule], ops: Any, made: Rule) -> Rule:
    table.update(dict.fromkeys(ops, made))
    return made


def _step_of(op: Operation) -> Step:
    """The step of an op; raises InterpreterError for one without a rule."""
    kind = type(op)
    try:
        if kind in _STEPS:
            return _STEPS[kind](op)
        made = _FUNCTIONS[kind](op) if kind in _FUNCTIONS else function_of(op)
    except ValueError as error:
        raise InterpreterError(op, str(error)) from None
    if made is None:
        raise InterpreterError(
            op,
            "expected an op that the interpreter knows, of a stage before synchronization, got "
            f"{op.name}",
        )
    operands, result = slots(op.operands), slot(op.results[0])
    if len(op.results) > 1:
        results = slots(op.results)

        def several(cta: Cta) -> None:
            values = made(*[cta.values[operand] for operand in operands])
            cta.values.update(zip(results, values, strict=True))

        return several

    if len(operands) == 1:
        (only,) = operands

        def unary(cta: Cta) -> None:
            values = cta.values
            values[result] = made(values[only])

        return unary

    def step(cta: Cta) -> None:
        values = cta.values
        values[result] = made(*[values[operand] for operand in operands])

    return step


def _wanted(block: Block) -> list[Operation]:
    """The ops of a block without those that nothing depends on."""
    unused: set[Operation] = set()
    for op in reversed(list(block.ops)):
        users = {use.operation for result in op.results for use in result.uses}
        if op.has_trait(Pure) and not op.has_trait(IsTerminator) and users <= unused:
            unused.add(op)
    return [op for op in block.ops if op not in unused]


def _computing(block: Block, value: SSAValue) -> list[Operation]:
    """The ops of a block that a value is computed from, in order."""
    needed: set[Operation] = set()
    pending = [value]
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, Operation) and owner not in needed:
            needed.add(owner)
            pending += [operand for op in walk(owner) for operand in op.operands]
    return [op for op in block.ops if op in needed]


class Code:
    """The ops of a block as steps, or those that a value is computed from; `run` takes a CTA
    through them, `finish` without a stop.
    """

    def __init__(
        self, block: Block, without: Operation | None = None, value: SSAValue | None = None
    ) -> None:
        wanted = _wanted(block) if value is None else _computing(block, value)
        made = [(op, _step_of(op)) for op in wanted if op is not without]
        self._steps = [
            (op, step, isgeneratorfunction(step)) for op, step in made if step is not nothing
        ]
        self._is_flat = not any(is_deep for _, _, is_deep in self._steps)

    def run(self, cta: Cta) -> Iterable[None]:
        """The places where another CTA may go on, in the order in which this one gets there."""
        if not self._is_flat:
            return self._run_deep(cta)
        self._run_flat(cta)
        return ()

    def _run_flat(self, cta: Cta) -> None:
        at = None
        try:
            for at, step, _ in self._steps:  # noqa: B007
                step(cta)
        except (ValueError, TypeError, IndexError) as error:
            assert at is not None
            raise InterpreterError(at, str(error)) from error

    def _run_deep(self, cta: Cta) -> Iterator[None]:
        at = None
        try:
            for entry in self._steps:
                at, step, is_deep = entry
                if is_deep:
                    yield from step(cta)
                else:
                    step(cta)
        except (ValueError, TypeError, IndexError) as error:
            assert at is not None
            raise InterpreterError(at, str(error)) from error

    def finish(self, cta: Cta) -> None:
        for _ in self.run(cta):
            pass
