"""GPU time of queued launches. Every contender's batch of launches over the rotated sets becomes
replays of a CUDA graph, so that Python's time does not show; the batches of all contenders are
queued one after the other, round for round, and only then waited for. What cannot be captured is
launched from Python behind a delay on the device that lasts until all of it is queued.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from .case import Call, Case, Operands

# Estimates that decide the number of launches only: rates below what an H100 reaches.
_FLOPS = {"bf16": 6e14, "f16": 6e14, "tf32": 3e14, "e4m3": 12e14, "s8": 8e14}
_BYTES = 2.5e12
_OVERHEAD = 2e-6
_MOST_LAUNCHES = 1000
# A graph has about so many of a batch, but all sets, and is replayed until the batch is full: what
# it takes to capture a launch is many times what it takes to run one. Of calls that take long to
# queue, a graph, or a batch without one, has as many as are queued within so many seconds.
_CAPTURED_LAUNCHES = 200
_QUEUING_SECONDS, _LEAST_LAUNCHES = 1.0, 2
# A call that takes longer to queue is timed by itself, and again so often if its first time is less
# than so many times the least.
SLOW_SECONDS, _SLOW_ROUNDS, _NEAR = 0.05, 2, 1.3
# The device's queue holds about a thousand launches; beyond that the host waits.
_QUEUED_LAUNCHES = 256
# Above the clock of any device of today, so that a delay is never too short.
_CYCLES_PER_SECOND = 2.2e9


@dataclass(frozen=True)
class Plan:
    """How long to measure: `rounds` of batches of about `batch_ms` each, after `cool_down` seconds
    of rest and `warmup` rounds; fewer rounds where they would take more than `limit` seconds.
    """

    rounds: int = 30
    batch_ms: float = 6.0
    warmup: int = 6
    cool_down: float = 0.5
    limit: float = 6.0


@dataclass(frozen=True)
class Batch:
    """Launches that `run` queues: as a graph, or from Python behind a delay of `cycles`."""

    run: Callable[[], object]
    launches: int
    cycles: int = 0

    @property
    def captured(self) -> bool:
        return self.cycles == 0

    @property
    def is_slow(self) -> bool:
        """Whether a single call takes long to queue."""
        return self.cycles > SLOW_SECONDS * _CYCLES_PER_SECOND and self.launches == 1


@dataclass(frozen=True)
class Rounds:
    """Milliseconds of one launch, `ms[contender][round]`, and when (seconds since the epoch)."""

    ms: tuple[tuple[float, ...], ...]
    started: float
    stopped: float


def launches_for(case: Case, plan: Plan) -> int:
    """How many launches fill a batch."""
    seconds = max(case.flops / _FLOPS[case.dtype], case.bytes / _BYTES)
    seconds += _OVERHEAD * case.calls
    most = _MOST_LAUNCHES // case.calls
    return max(1, min(most, round(1e-3 * plan.batch_ms / seconds)))


def make_batches(
    torch: Any, calls: Sequence[Call], sets: Sequence[Operands], launches: int
) -> list[Batch]:
    """A batch for each call; every set must have been through every call before.

    Launches of a graph follow each other a little closer, so the first call, the yardstick, gets
    one only if it can be captured, and without one nobody does. A call that takes long to queue is
    a batch of its own.
    """
    batches: list[Batch] = []
    captures = True
    captured = launches // max(1, launches // max(_CAPTURED_LAUNCHES, len(sets)))
    for call in calls:
        one = _queued(torch, call, sets, 1)
        if one.is_slow:
            batches.append(one)
            continue
        found = _capture(torch, call, sets, captured) if captures else None
        if found is not None:
            graph, count = found
            repeats = max(1, launches // count)
            batches.append(Batch(partial(_replay, graph, repeats), count * repeats))
        else:
            batches.append(_queued(torch, call, sets, min(launches, _QUEUED_LAUNCHES)))
            captures = any(batch.captured for batch in batches)
    return batches


def interleave(torch: Any, batches: Sequence[Batch], plan: Plan) -> Rounds:
    """Time every batch in every round, in turns forward and backward; one that is slow to queue
    once, and a few times more if it is about as fast as the fastest.
    """
    time.sleep(plan.cool_down)
    marks = _queue(torch, batches, 1)
    torch.cuda.synchronize()
    first = [_ms(batch, marked)[0] for batch, marked in zip(batches, marks, strict=True)]
    swift = [number for number, batch in enumerate(batches) if not batch.is_slow]
    timed = [batches[number] for number in swift]
    seconds = 1e-3 * sum(first[number] * batches[number].launches for number in swift) or 1e-9
    fit = int(plan.limit / seconds)
    rounds = max(3, min(plan.rounds, fit))
    _queue(torch, timed, min(plan.warmup, rounds))
    started = time.time()
    for number, marked in zip(swift, _queue(torch, timed, rounds), strict=True):
        marks[number] = marked
    torch.cuda.synchronize()
    stopped = time.time()
    for number, batch in enumerate(batches):
        if batch.is_slow and first[number] <= _NEAR * min(first):
            marks[number] += _queue(torch, [batch], _SLOW_ROUNDS)[0]
    torch.cuda.synchronize()
    ms = tuple(map(_ms, batches, marks))
    return Rounds(ms, started, stopped)


def _ms(batch: Batch, marked: Sequence[tuple[Any, Any]]) -> tuple[float, ...]:
    """Milliseconds of a launch, by the events around each run of a batch."""
    return tuple(start.elapsed_time(stop) / batch.launches for start, stop in marked)


def _queue(torch: Any, batches: Sequence[Batch], rounds: int) -> list[list[tuple[Any, Any]]]:
    """Events around each batch of each round, nothing waited for."""
    marks: list[list[tuple[Any, Any]]] = [[] for _ in batches]
    for number in range(rounds):
        order = range(len(batches))
        for index in order if number % 2 == 0 else reversed(order):
            batch = batches[index]
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            if not batch.captured:
                torch.cuda._sleep(batch.cycles)
            start.record()
            batch.run()
            stop.record()
            marks[index].append((start, stop))
    return marks


def _replay(graph: Any, repeats: int) -> None:
    for _ in range(repeats):
        graph.replay()


def _capture(
    torch: Any, call: Call, sets: Sequence[Operands], launches: int
) -> tuple[Any, int] | None:
    """A graph of so many launches, or of those that there is time for; None where the call does
    what cannot be captured.
    """
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            count = _queue_calls(call, sets, launches)
    except RuntimeError:
        # A capture that fails leaves its own stream as the current one.
        torch.cuda.set_stream(torch.cuda.default_stream())
        torch.cuda.synchronize()
        return None
    return graph, count


def _queued(torch: Any, call: Call, sets: Sequence[Operands], launches: int) -> Batch:
    """Launches from Python, with the delay that covers the time the host takes to queue them."""
    start = time.perf_counter()
    count = _queue_calls(call, sets, launches)
    seconds = time.perf_counter() - start
    torch.cuda.synchronize()
    run = partial(_queue_calls, call, sets, count, float("inf"))
    return Batch(run, count, 1000 + int(1.5 * seconds * _CYCLES_PER_SECOND))


def _queue_calls(
    call: Call, sets: Sequence[Operands], launches: int, seconds: float = _QUEUING_SECONDS
) -> int:
    """Queue so many calls over the sets in turn, a few at least, until the time is up; how many."""
    end = time.perf_counter() + seconds
    for number in range(launches):
        if number >= _LEAST_LAUNCHES and time.perf_counter() > end:
            return number
        call(sets[number % len(sets)])
    return launches
