"""One case measured: every contender checked against float64, then all timed in turns.

Everything here happens in the worker's process; what leaves it is `Result`, plain data. A
contender that refuses or goes wrong becomes a result with the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .accuracy import Reference, errors, reference
from .case import Call, Case, Maker, Operands
from .inputs import poison, rotation
from .timing import SLOW_SECONDS, Plan, interleave, launches_for, make_batches


class DeviceLostError(Exception):
    """The context is gone: nothing more can run in this process."""


@dataclass
class Result:
    """What one contender did: `ms` of a launch for each round, errors right after its first call
    and, if it `writes` its output in place, again after the timed launches; `allowance` is what
    they are compared with. `failure` is why there are no times.
    """

    name: str
    ms: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    allowance: list[float] = field(default_factory=list)
    later_errors: list[float] = field(default_factory=list)
    failure: str | None = None
    writes: bool = True
    launches: int = 0
    captured: bool = True
    started: float = 0.0
    stopped: float = 0.0


def measure(
    torch: Any,
    case: Case,
    makers: dict[str, Maker],
    plan: Plan,
    tell: Callable[[str], None] = lambda _: None,
) -> list[Result]:
    """Results in the order of `makers`; `tell` hears what is about to be done.

    Raises DeviceLostError, with the results so far, when the context does not survive a contender.
    """
    if case.draws:
        return _pooled(torch, case, makers, tell)
    tell("inputs")
    # A batch of launches uses no more.
    count = min(rotation(torch, case), launches_for(case, plan))
    sets = [case.make_operands(torch, seed) for seed in range(count)]
    tell("reference")
    ref = reference(torch, case, sets[0])
    results: list[Result] = []
    calls: dict[str, Call] = {}
    for name, make in makers.items():
        tell(name)
        result = Result(name)
        results.append(result)
        try:
            calls[name] = _checked(torch, make, sets, ref, result)
        except Exception as error:
            result.failure = reason(error)
            _survived(torch, results)
    live = [result for result in results if result.failure is None]
    try:
        _time(torch, case, [calls[result.name] for result in live], sets, ref, plan, live, tell)
    except Exception as error:
        for result in live:
            result.failure = f"while timing: {reason(error)}"
        _survived(torch, results)
    return results


def _pooled(
    torch: Any, case: Case, makers: dict[str, Maker], tell: Callable[[str], None]
) -> list[Result]:
    """Errors of so many inputs as one: (largest, mean, the largest in units in the last place)."""
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in makers}
    failures: dict[str, str] = {}
    for seed in range(case.draws):
        tell("inputs")
        operands = case.make_operands(torch, seed)
        ref = reference(torch, case, operands)
        for name, make in makers.items():
            tell(name)
            try:
                if name not in failures:
                    one = Result(name)
                    _checked(torch, make, [operands], ref, one)
                    found[name].append(tuple(one.errors))
            except Exception as error:
                failures[name] = reason(error)
                _survived(torch, [Result(name, failure=failures[name])])
    results: list[Result] = []
    for name, errors_of in found.items():
        result = Result(name, failure=failures.get(name))
        if result.failure is None:
            largest, _, units = max(errors_of)
            result.errors = [largest, sum(each[1] for each in errors_of) / case.draws, units]
        results.append(result)
    return results


def reason(error: BaseException) -> str:
    """One line of an error: its type only where the message does not stand alone."""
    text = str(error).strip()
    first = text.splitlines()[0] if text else ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _checked(torch: Any, make: Maker, sets: list[Operands], ref: Reference, result: Result) -> Call:
    """The call of a contender that went through every set, unless each takes long to queue, and
    left its errors on the first.
    """
    call = make()
    poison(sets[0])
    made = call(sets[0])
    if made is not None:
        result.writes = False
        parts = made if isinstance(made, tuple) else (made,)
        for out, part in zip(sets[0].outputs, parts, strict=True):
            out.copy_(part)
    torch.cuda.synchronize()
    result.errors, result.allowance = list(errors(torch, ref)), list(ref.allowance)
    for operands in sets[1:]:
        begun = time.perf_counter()
        call(operands)
        if time.perf_counter() - begun > SLOW_SECONDS:
            break
    torch.cuda.synchronize()
    return call


def _time(
    torch: Any,
    case: Case,
    calls: list[Call],
    sets: list[Operands],
    ref: Reference,
    plan: Plan,
    results: list[Result],
    tell: Callable[[str], None],
) -> None:
    if not calls:
        return
    tell("graphs")
    batches = make_batches(torch, calls, sets, launches_for(case, plan))
    tell("timing")
    rounds = interleave(torch, batches, plan)
    tell("later errors")
    for result, batch, ms in zip(results, batches, rounds.ms, strict=True):
        result.ms = list(ms)
        result.launches, result.captured = batch.launches, batch.captured
        result.started, result.stopped = rounds.started, rounds.stopped
        if result.writes:
            poison(sets[0])
            batch.run()
            torch.cuda.synchronize()
            result.later_errors = list(errors(torch, ref))


def _survived(torch: Any, results: list[Result]) -> None:
    try:
        torch.cuda.synchronize()
    except Exception as error:
        raise DeviceLostError(results) from error
