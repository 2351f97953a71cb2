"""Tile programs drawn by lot, compiled for several targets, run, and compared with NumPy.

    python -m benchmarks.random_programs [--count N] [--seed S] [--target NAME] [--backend NAME]
                                         [--only NUMBER] [--no-shrink] [--patience SECONDS]

A program's result is exact, so that what a target computes is right or wrong. What is wrong, and
what is refused, is made small and printed as Python that runs; then come the shares of programs
with each feature of the language, and how many were refused for which reason. The exit status is 1
when a program is wrong or ends in another error than a refusal. `--backend cuda` compiles the
programs on all cores first, and runs them on the GPU, in a child process that may be lost.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import linecache
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

import cutedialect as cute
from cutedialect import CompileError

from .numpy_tiles import InexactError, NumpyTiles
from .program_lot import draw
from .program_shrinker import shrunk
from .program_views import LARGE, Sizes
from .supervisor import NoDeviceError, Supervisor, WorkerError
from .tile_program import Program

TARGETS = ("sm_80", "sm_90a")
# Ways in which a program that is drawn cannot be compared: it is drawn again.
_UNFIT = (InexactError, OverflowError)
_ATTEMPTS = 50


@dataclass(frozen=True)
class Outcome:
    """What became of a program on a target: `right`, `refused`, `wrong` or `broken`, and why."""

    kind: str
    reason: str = ""

    @property
    def pattern(self) -> str:
        """The reason without its numbers, names and place."""
        first = self.reason.splitlines()[0] if self.reason else ""
        first = re.sub(r"\S+\.py:\d+(:\d+)?:? ?", "", first)
        return re.sub(r"-?\d+", "#", first)


def program_of(seed: int, number: int, sizes: Sizes = LARGE) -> Program:
    """The program of this number of a seed, one whose values are exact."""
    for attempt in range(_ATTEMPTS):
        program = draw((seed * 1_000_003 + number) * _ATTEMPTS + attempt, sizes)
        try:
            expected(program)
        except _UNFIT:
            continue
        return replace(program, number=number)
    raise AssertionError(f"expected an exact program in {_ATTEMPTS} draws for {number}, got none")


def expected(program: Program) -> list[Any]:
    """The arguments as NumPy leaves them."""
    arguments = [argument.make() for argument in program.arguments]
    names = NumpyTiles()
    names.run(_function(program, names), arguments)
    return arguments


def outcome(program: Program, target: str, backend: str = "emulator") -> Outcome:
    """Compile, run and compare."""
    wanted = expected(program)
    arguments = [argument.make() for argument in program.arguments]
    try:
        _function(program, cute)(*arguments, arch=target, backend=backend)
    except CompileError as error:
        return Outcome("refused", str(error))
    except Exception as error:
        return Outcome("broken", f"{type(error).__name__}: {error}")
    for argument, got, want in zip(program.arguments, arguments, wanted, strict=True):
        if isinstance(got, np.ndarray) and not np.array_equal(got, want):
            at = tuple(int(i) for i in np.argwhere(got != want)[0])
            count = int((got != want).sum())
            return Outcome(
                "wrong",
                f"{argument.name} differs in {count} of {got.size} elements, first at {at}: "
                f"expected {want[at]}, got {got[at]}",
            )
    return Outcome("right")


def _function(program: Program, names: Any) -> Any:
    """The program as a function that speaks with the names of a module."""
    file = f"<program {program.number}>"
    source = program.source
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"cute": names}
    exec(compile(source, file, "exec"), scope)
    return scope["program"]


def smaller(
    program: Program,
    target: str,
    found: Outcome,
    backend: str = "emulator",
    judge: Callable[[Program, str, str], Outcome] = outcome,
) -> Program:
    """A small program with the same kind of failure."""

    def fails(candidate: Program) -> bool:
        try:
            got = judge(candidate, target, backend)
        except Exception:
            return False  # NumPy does not run it either.
        if found.kind == "wrong":
            return got.kind == "wrong"
        return (got.kind, got.pattern) == (found.kind, found.pattern)

    return shrunk(program, fails)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.random_programs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", metavar="N", type=int, default=200, help="so many programs")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="which ones")
    parser.add_argument("--target", metavar="NAME", action="append", help="sm_80 and sm_90a")
    parser.add_argument("--backend", default="emulator", help="emulator (the default) or cuda")
    parser.add_argument("--only", metavar="NUMBER", type=int, help="this program of the seed")
    parser.add_argument("--no-shrink", action="store_true", help="print programs as drawn")
    parser.add_argument("--patience", type=float, default=60, metavar="S", help="until a hang")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        return _work(options.seed, options.backend)
    targets = options.target or TARGETS
    numbers = range(options.count) if options.only is None else [options.only]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        # Every program is compiled; on the GPU by another process than the one that runs it.
        on_device = options.backend == "cuda"
        key = "CUTEDIALECT_CACHE_DIR" if on_device else "CUTEDIALECT_NO_CACHE"
        os.environ[key] = folder if on_device else "1"
        try:
            if on_device:
                _compile_ahead(options.seed, numbers, targets)
            found = _run(numbers, targets, options)
        except NoDeviceError as error:
            print(f"benchmarks.random_programs: {error}", file=sys.stderr)
            return 2
    _report(found, targets, time.perf_counter() - began)
    bad = [o for _, outcomes in found for o in outcomes.values() if o.kind in ("wrong", "broken")]
    return 1 if bad else 0


Found = list[tuple[Program, dict[str, Outcome]]]


def _run(numbers: Sequence[int], targets: Sequence[str], options: argparse.Namespace) -> Found:
    """Each program on each target; failures are printed as they come, each kind once."""
    found: Found = []
    seen: set[tuple[str, str, str]] = set()
    command = (sys.executable, "-m", "benchmarks.random_programs", "--worker")
    command += ("--seed", str(options.seed), "--backend", options.backend)
    isolated = options.backend == "cuda"
    worker = Supervisor(options.patience, command).__enter__() if isolated else None
    try:
        for number in numbers:
            program = program_of(options.seed, number)
            outcomes: dict[str, Outcome] = {}
            for target in targets:
                if worker is None:
                    outcomes[target] = outcome(program, target, options.backend)
                else:
                    outcomes[target] = _asked(worker, number, target)
                result = outcomes[target]
                kind = (result.kind, result.pattern, target)
                if result.kind != "right" and (kind not in seen or result.kind == "wrong"):
                    seen.add(kind)
                    _show(program, target, result, options.no_shrink or isolated)
            found.append((program, outcomes))
    finally:
        if worker is not None:
            worker.__exit__(None, None, None)
    return found


def _show(program: Program, target: str, result: Outcome, as_drawn: bool) -> None:
    small = program if as_drawn else smaller(program, target, result)
    print(f"# program {program.number} on {target}: {result.kind}: {result.reason.strip()}")
    print(small.script.replace('arch="sm_80"', f'arch="{target}"'), flush=True)
    print()


def _report(found: Found, targets: Sequence[str], seconds: float) -> None:
    count = len(found)
    features = Counter(feature for program, _ in found for feature in program.features)
    print(f"{count} programs in {seconds:.0f} s; the share of them with each feature:")
    for feature, programs_ in sorted(features.items()):
        print(f"  {100 * programs_ / count:5.1f} %  {feature}")
    for target in targets:
        kinds = Counter(outcomes[target].kind for _, outcomes in found)
        shown = ", ".join(f"{kinds[k]} {k}" for k in ("right", "refused", "wrong", "broken"))
        print(f"{target}: {shown}")
        reasons = Counter(
            outcomes[target].pattern for _, outcomes in found if outcomes[target].kind == "refused"
        )
        for reason, times in reasons.most_common():
            print(f"  {times:4} refused: {reason}")
    if {"sm_80", "sm_90a"} <= set(targets):
        alone = [
            program.number
            for program, outcomes in found
            if outcomes["sm_80"].kind != "refused" and outcomes["sm_90a"].kind == "refused"
        ]
        print(f"refused on sm_90a alone: {len(alone)} {alone[:20] if alone else ''}")


# On the GPU


def _compile_ahead(seed: int, numbers: Sequence[int], targets: Sequence[str]) -> None:
    """Compile programs on all cores; what fails is told when the program runs."""
    jobs = [(seed, number, target) for number in numbers for target in targets]
    began = time.perf_counter()
    with ProcessPoolExecutor() as pool:
        took = list(pool.map(_compile, jobs))
    slowest, (_, number, target) = max(zip(took, jobs, strict=True))
    print(
        f"compiled in {time.perf_counter() - began:.0f} s; "
        f"longest: program {number} on {target}, {slowest:.1f} s",
        flush=True,
    )


def _compile(job: tuple[int, int, str]) -> float:
    """Machine code of a program, for the disk cache; the seconds that takes."""
    seed, number, target = job
    program = program_of(seed, number)
    began = time.perf_counter()
    with contextlib.suppress(CompileError):
        arguments = [argument.make() for argument in program.arguments]
        _ = cute.compile(_function(program, cute), *arguments, arch=cast(Any, target)).cubin
    return time.perf_counter() - began


def _asked(worker: Supervisor, number: int, target: str) -> Outcome:
    try:
        answer = worker.ask({"number": number, "target": target})
    except WorkerError as error:
        return Outcome("broken", str(error))
    return Outcome(answer["kind"], answer["reason"])


def _work(seed: int, backend: str) -> int:
    """The child: answers one program after the other."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps({"machine": {}}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        program = program_of(seed, request["number"])
        got = outcome(program, request["target"], backend)
        print(json.dumps({"kind": got.kind, "reason": got.reason}), file=answers, flush=True)
        if got.kind == "broken":
            return 3  # The context may be lost.
    return 0


if __name__ == "__main__":
    sys.exit(main())
