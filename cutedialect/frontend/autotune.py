"""`cute.autotune`: the fastest schedule of a kernel for a problem, by timing. Candidates are
compiled ahead and assembled in parallel; then all are timed in turns, and those that fall behind
leave. What does not compile or run is a line of the result, never its end.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from cutedialect import environment
from cutedialect.backend.runtime.errors import CompileError, LossWarning
from cutedialect.backend.runtime.fingerprint import FingerprintError
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.progress_line import ProgressLine
from cutedialect.backend.runtime.ptx_text import canonical
from cutedialect.backend.runtime.timing import DeviceLostError, DeviceTimer, Timer
from cutedialect.backend.runtime.tracebacks import concise
from cutedialect.backend.runtime.tunings import (
    Timing,
    Tuning,
    keep_tuning,
    read_tuning,
    tuning_key,
)
from cutedialect.schedule import Schedule

from .kernel import KernelFunction
from .launch import as_schedule
from .open_parameters import listed
from .tunable import Tunable, TunableKernel
from .tuned_options import Candidate, Options, options_of

ROUNDS = 30
# After so many rounds only those go on that are within a factor of the best, and only so many.
_CUTS = ((3, 1.25, 16), (10, 1.06, 8))
_PROCESSES = 16

Config = Schedule | str | Mapping[str, object] | None


def autotune(
    op: Any,
    *args: object,
    configs: Iterable[Config] | None = None,
    rounds: int = ROUNDS,
    again: bool = False,
    check: bool = True,
    **options: Any,
) -> Any:
    """The fastest schedule of `cute.gemm`, `cute.attention`, `cute.attention_backward` or a
    `@cute.kernel` function for arguments like `args`.

    `args` and `options` are those of a call or of `cute.compile`: arrays, whose copies are timed so
    that they stay as they are, or `cute.TensorSpec`s of given extents. `configs` are schedules or
    their texts (None is what is chosen without one); by default the list of `cute.gemm`, or
    the values of a kernel's open parameters (`cute.one_of`) and variations of what the heuristic
    takes; calls that leave them open use what was found. A mapping among them sets compile-time
    parameters of a kernel, and perhaps a schedule, `{"tile": (4, 1024), "schedule": "warps =
    (4,1)"}`; where one is the fastest it is the result: the keyword arguments of the call. Each is
    timed in `rounds` rounds by CUDA events, launches that follow each other on copies of the arrays
    that rotate past L2, as in a network. One whose result is not that of the first fails, unless
    `check` is off: results may differ from call to call.

    The result is kept on disk for the kernel, target, device and class of problems (extents to
    three leading bits), and found there next time unless `again` is set; `cute.gemm` without a
    schedule uses it. Candidates that fail are listed on standard error. Ctrl-C ends the search with
    the best so far. Raises NoDeviceError (a RuntimeError) without a CUDA device, CompileError where
    no candidate runs.
    """
    line = ProgressLine()
    given = None if configs is None else list(configs)
    try:
        tuning = tune(
            op,
            args,
            options,
            configs=given,
            rounds=rounds,
            again=again,
            check=check,
            show=line.show,
        )
    except Exception as error:
        raise concise(error)  # noqa: B904
    finally:
        line.clear()
    if not tuning.kept:
        for failed in tuning.failures:
            print(f"autotune: {failed.schedule or 'default'}: {failed.failure}", file=sys.stderr)
        if not tuning.complete:
            print("autotune: stopped before the last round", file=sys.stderr)
    best = tuning.best
    assert best is not None
    for each in _candidates(given) if given is not None else _filled(op, options):
        if isinstance(each, Options) and each.text() == best.schedule:
            return each.call()
    return Schedule.parse(best.schedule or best.full)


def tune(
    op: Any,
    args: Sequence[object],
    options: Mapping[str, Any],
    *,
    configs: Iterable[Config] | None = None,
    rounds: int = ROUNDS,
    again: bool = False,
    check: bool = True,
    show: Callable[[str], None] = lambda text: None,
    timer: Timer | None = None,
) -> Tuning:
    """What `autotune` does, with every timing; `show` is told how far it is.

    Raises KeyboardInterrupt only for a Ctrl-C before anything was timed.
    """
    _check(options, rounds)
    chosen = None if configs is None else _asked_for(op, configs)
    device = DeviceTimer(check) if timer is None else timer
    given = {k: v for k, v in options.items() if k not in ("schedule", "stream", "backend")}
    given["arch"] = given.get("arch") or device.arch
    target = _tunable(op, args, given, device)
    schedules = _distinct(target.candidates()) if chosen is None else chosen
    key = _key(target, given["arch"], device.device)
    kept = None if key is None or again else read_tuning(key)
    asked = None if kept is None else kept.only(_text(schedule) for schedule in schedules)
    if asked is not None and asked.complete and asked.best is not None:
        return asked
    search = _Search(target, schedules, device, rounds, show)
    complete = search.run()
    tuning = Tuning(
        target.name, given["arch"], device.device, target.problem, search.timings(), complete
    )
    if tuning.best is None:
        if search.interrupted:
            raise KeyboardInterrupt
        raise CompileError(
            f"expected a schedule of '{target.name}' that runs, got {len(schedules)} that do not; "
            f"the first: {tuning.timings[0].failure}",
            code="CD-TUNE",
        )
    if key is not None:
        keep_tuning(key, tuning)
        forget = getattr(op, "forget", None)
        if forget is not None:
            forget()
    return tuning


def _check(options: Mapping[str, Any], rounds: int) -> None:
    """Whether there is something to tune, on a device."""
    if options.get("schedule") is not None:
        raise TypeError("schedule: expected none to tune, got one; 'configs' lists those to try")
    backend = options.get("backend") or environment.backend() or "auto"
    if backend not in ("auto", "cuda", "cupy", "cupy-cubin"):
        raise ValueError(
            f"backend: expected 'auto', 'cuda' or 'cupy' to tune, got {backend!r}: emulated time "
            "says nothing of a device"
        )
    if rounds < 1:
        raise ValueError(f"rounds: expected 1 or more, got {rounds}")


def _asked_for(op: object, configs: Iterable[Config]) -> tuple[Candidate, ...]:
    """The candidates that a call lists."""
    chosen = _candidates(configs)
    if not chosen:
        raise ValueError("configs: expected one schedule or more, got none")
    if not isinstance(op, KernelFunction) and any(isinstance(c, Options) for c in chosen):
        raise TypeError(
            f"configs: expected schedules of {_kind(op)}, got compile-time parameters, which only "
            "a @cute.kernel function has"
        )
    return chosen


@dataclass
class _Candidate:
    """One schedule on its way: `rounds` has a figure for each round, `first` is its first look."""

    schedule: Candidate
    kernel: Kernel | None = None
    assembly: Future[object] | None = None
    failure: str | None = None
    prepared: Any = None
    first: float | None = None
    rounds: list[float] = field(default_factory=list)
    twin: _Candidate | None = None

    @property
    def figures(self) -> tuple[float, ...]:
        """What was measured; the first look only where there is nothing else."""
        if self.twin is not None:
            return self.twin.figures
        return tuple(self.rounds or ([] if self.first is None else [self.first]))

    @property
    def median(self) -> float:
        return median(self.figures)


class _Search:
    """Compiles and times candidates; what it has so far can be read at any time."""

    def __init__(
        self,
        target: Tunable,
        schedules: Sequence[Candidate],
        timer: Timer,
        rounds: int,
        show: Callable[[str], None],
    ) -> None:
        self._target, self._timer, self._rounds, self._show = target, timer, rounds, show
        self._candidates = [_Candidate(schedule) for schedule in schedules]
        self.interrupted = False

    def run(self) -> bool:
        """Whether nothing was left out."""
        try:
            self._compile()
            self._look()
            self._time()
        except KeyboardInterrupt:
            self.interrupted = True
        except DeviceLostError:
            return False
        finally:
            with suppress(Exception):
                self._timer.close()
        return not self.interrupted

    def timings(self) -> tuple[Timing, ...]:
        """In the order of the schedules."""
        return tuple(
            Timing(
                _text(each.schedule),
                each.figures,
                each.kernel.schedule if each.kernel is not None else "",
                each.failure if each.twin is None else each.twin.failure,
            )
            for each in self._candidates
        )

    def _compile(self) -> None:
        """Kernels one after the other, their machine code beside that in threads: ptxas is another
        process.
        """
        total = len(self._candidates)
        known: dict[str, _Candidate] = {}
        pool = ThreadPoolExecutor(min(_PROCESSES, os.cpu_count() or 1))
        try:
            for number, each in enumerate(self._candidates):
                self._show(f"compiling {number + 1}/{total}{self._failed()}  {_name(each)}")
                try:
                    each.kernel = self._target.compiled(each.schedule)
                except Exception as error:
                    each.failure = _said(error)
                    continue
                first = known.setdefault(canonical(each.kernel.ptx), each)
                if first is not each:
                    each.twin = first
                    continue
                each.assembly = pool.submit(self._timer.assemble, each.kernel)
            for each in self._candidates:
                if each.assembly is None:
                    continue
                self._show(f"assembling{self._failed()}  {_name(each)}")
                try:
                    each.assembly.result()
                except Exception as error:
                    each.failure = _said(error)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _look(self) -> None:
        """Run each once and time it once: a slow first round is better than none."""
        alive = self._alive()
        for number, each in enumerate(alive):
            self._show(f"first look {number + 1}/{len(alive)}{self._failed()}{self._best()}")
            assert each.kernel is not None
            try:
                arguments = self._target.arguments(each.schedule)
                with warnings.catch_warnings():
                    # What a candidate loses shows in its time.
                    warnings.simplefilter("ignore", LossWarning)
                    each.prepared = self._timer.prepare(each.kernel, arguments)
                (each.first,) = self._timer.time([each.prepared])
            except DeviceLostError as error:
                each.failure = _said(error)
                for later in alive[number + 1 :]:
                    later.failure = f"not timed: the device was lost to {_name(each)}"
                raise
            except Exception as error:
                each.failure = _said(error)

    def _time(self) -> None:
        """Rounds of all that are left, in turns forward and backward."""
        left = self._alive()
        for number in range(self._rounds):
            if not left:
                return
            self._show(
                f"round {number + 1}/{self._rounds}, {len(left)} schedules{self._failed()}"
                f"{self._best()}"
            )
            order = left if number % 2 == 0 else left[::-1]
            for each, figure in zip(
                order, self._timer.time([each.prepared for each in order]), strict=True
            ):
                each.rounds.append(figure)
            for after, factor, most in _CUTS:
                if number + 1 == after:
                    ranked = sorted(left, key=lambda each: each.median)
                    limit = factor * ranked[0].median
                    left = [each for each in ranked[:most] if each.median <= limit]

    def _alive(self) -> list[_Candidate]:
        return [each for each in self._candidates if each.failure is None and each.twin is None]

    def _failed(self) -> str:
        count = sum(each.failure is not None for each in self._candidates)
        return f", {count} failed" if count else ""

    def _best(self) -> str:
        timed = [each for each in self._candidates if each.figures]
        if not timed:
            return ""
        best = min(timed, key=lambda each: each.median)
        return f", best {best.median:.1f} us  {_name(best)}"


def _tunable(op: Any, args: Sequence[object], options: dict[str, Any], timer: Timer) -> Tunable:
    if isinstance(op, KernelFunction):
        return TunableKernel(op, args, options, timer)
    make = getattr(op, "tunable", None)
    if make is None:
        raise TypeError(
            f"expected cute.gemm, cute.attention or a @cute.kernel function, got {_kind(op)}"
        )
    return make(tuple(args), options, timer)


def _kind(op: object) -> str:
    return getattr(op, "__name__", None) or type(op).__name__


def _key(target: Tunable, arch: str, device: str) -> str | None:
    """The key of the result; None for a kernel that reaches something without a stable hash."""
    try:
        return tuning_key(target.fingerprint, target.problem, arch, device)
    except FingerprintError:
        return None


def _candidates(configs: Iterable[Config]) -> tuple[Candidate, ...]:
    return _distinct(
        options_of(config) if isinstance(config, Mapping) else as_schedule(config)
        for config in configs
    )


def _filled(op: object, options: Mapping[str, Any]) -> tuple[Candidate, ...]:
    """The values of a kernel's open parameters that a call does not give."""
    if not isinstance(op, KernelFunction):
        return ()
    left = {name: values for name, values in op.open.items() if name not in options}
    return tuple(listed(left)) if left else ()


def _distinct(schedules: Iterable[Candidate]) -> tuple[Candidate, ...]:
    return tuple(dict.fromkeys(schedules))


def _text(schedule: Candidate) -> str:
    return "" if schedule is None else schedule.text()


def _name(candidate: _Candidate) -> str:
    return _text(candidate.schedule) or "default"


def _said(error: Exception) -> str:
    """One line for an error that ends a candidate."""
    if isinstance(error, CompileError):
        return f"error[{error.code}]: {error.message}"
    lines = str(error).strip().splitlines() or ["no message"]
    return lines[0] if isinstance(error, ValueError) else f"{type(error).__name__}: {lines[0]}"
