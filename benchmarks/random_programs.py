"""Tile programs drawn by lot, compiled for several targets, run, and compared with NumPy.

    python -m benchmarks.random_programs [--count N] [--first NUMBER] [--seed S]
                                         [--target NAME] [--backend NAME]
                                         [--only NUMBER] [--feature TEXT] [--repeat N]
                                         [--jobs N] [--patience SECONDS] [--budget SECONDS]
                                         [--no-shrink]
                                         [--multiplied [--class NAME]] [--one-target]
                                         [--protocol]

A program's result is exact, so that what a target computes is right or wrong. What is wrong, and
what is refused, is made small and printed as Python that runs; then come the shares of programs
with each feature of the language, and how many were refused for which reason. The exit status is 1
when a program is wrong or ends in another error than a refusal. With `--backend cuda`, or more than
one job, programs are compiled and run in child processes, each program with a time limit: one that
the assembler does not end, that waits for ever or that loses the CUDA context costs that program.

With `--multiplied` they are programs of two to five multiplies, of which each class
(`multiplied_family`) has a row; without `--class` every class has its turn. What a default refuses
is tried with a list of schedules: a program that one of them makes right is `refusable`, a refusal
without a line or a remedy `helpless`, and both are faults too. One that its drawn schedule alone
refuses is a `misfit`, and one whose arrays overlap as no call takes them is `declined`; both are
counted beside the share of refusals. `--one-target` runs each program on one of the targets in
turn.

With `--protocol` each is asked of `cute-check-protocol` too, and what it says is counted against
the emulator: a program that is proved and wrong, one that is right and refused, and more than 2 %
that are undecided are faults.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial

from cutedialect.backend.runtime.driver import gpu_available

from . import multiplied_programs, protocol_verdict
from .multiplied_family import FAMILIES
from .program_lot import EIGHT_BITS, draw
from .program_outcome import UNFIT, Outcome, expected, outcome
from .program_shrinker import shrunk
from .program_views import LARGE, Sizes
from .supervisor import NoDeviceError, WorkerError
from .tile_program import Program
from .worker_pool import answers

TARGETS = ("sm_80", "sm_90a")
_ATTEMPTS = 50
# The outcome of a program on a target that lacks what it is made of.
_ABSENT = "absent"
_ANSWERED = ("kind", "reason", "schedule", "check", "what")


def program_of(seed: int, number: int, sizes: Sizes = LARGE) -> Program:
    """The program of this number of a seed, one whose values are exact."""
    for attempt in range(_ATTEMPTS):
        program = draw((seed * 1_000_003 + number) * _ATTEMPTS + attempt, sizes)
        try:
            expected(program)
        except UNFIT:
            continue
        return replace(program, number=number)
    raise AssertionError(f"expected an exact program in {_ATTEMPTS} draws for {number}, got none")


def takes(target: str, program: Program) -> bool:
    """Whether a target has what a program is made of: 8-bit floats begin with sm_89."""
    return EIGHT_BITS not in program.features or int(re.sub(r"\D", "", target)) >= 89


def smaller(
    program: Program,
    target: str,
    found: Outcome,
    backend: str = "emulator",
    judge: Callable[[Program, str, str], Outcome] = outcome,
) -> Program:
    """A small program with the same kind of failure."""

    def fails(candidate: Program) -> bool:
        got = judge(candidate, target, backend)
        if found.kind == "wrong":
            return got.kind == "wrong"
        return (got.kind, got.pattern) == (found.kind, found.pattern)

    return _shrunk(program, fails)


def _small(program: Program, target: str, found: Outcome, options: argparse.Namespace) -> Program:
    """What is shown of a program that fails."""
    if options.no_shrink or options.backend == "cuda":
        return program
    if not options.multiplied:
        return smaller(program, target, found)
    alike = multiplied_programs.fails_alike
    return _shrunk(program, partial(alike, target=target, backend=options.backend, found=found))


def _shrunk(program: Program, fails: Callable[[Program], bool]) -> Program:
    def fails_in_numpy_too(candidate: Program) -> bool:
        try:
            return fails(candidate)
        except Exception:
            return False  # NumPy does not run it either.

    return shrunk(program, fails_in_numpy_too)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.random_programs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", metavar="N", type=int, default=200, help="so many programs")
    parser.add_argument("--first", metavar="NUMBER", type=int, default=0, help="from this one on")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="which ones")
    parser.add_argument("--target", metavar="NAME", action="append", help="sm_80 and sm_90a")
    parser.add_argument("--backend", default="emulator", help="emulator (the default) or cuda")
    parser.add_argument("--only", metavar="NUMBER", type=int, help="this program of the seed")
    parser.add_argument("--feature", metavar="TEXT", help="only programs with this feature")
    parser.add_argument("--repeat", metavar="N", type=int, default=1, help="run each so often")
    parser.add_argument("--budget", type=float, metavar="S", help="stop after so many seconds")
    parser.add_argument("--no-shrink", action="store_true", help="print programs as drawn")
    parser.add_argument("--jobs", metavar="N", type=int, help="processes (cuda: as cores)")
    parser.add_argument("--patience", type=float, default=60, metavar="S", help="for a program")
    parser.add_argument("--multiplied", action="store_true", help="two to five multiplies each")
    parser.add_argument(
        "--class", metavar="NAME", dest="family", default="", choices=["", *FAMILIES],
        help=f"of these: {', '.join(FAMILIES)}",
    )  # fmt: skip
    parser.add_argument("--one-target", action="store_true", help="each on one target, in turn")
    parser.add_argument("--protocol", action="store_true", help="ask the protocol's check, too")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    os.environ["CUTEDIALECT_NO_CACHE"] = "1"  # every program is compiled
    if options.worker:
        return _work(options)
    is_all = options.multiplied or options.protocol
    targets = options.target or (multiplied_programs.TARGETS if is_all else TARGETS)
    first = options.first
    numbers = range(first, first + options.count) if options.only is None else [options.only]
    if options.feature:
        numbers = [n for n in numbers if options.feature in _program(options, n).features]
    began = time.perf_counter()
    try:
        found = _run(numbers, targets, options)
    except NoDeviceError as error:
        print(f"benchmarks.random_programs: {error}", file=sys.stderr)
        return 2
    _report(found, targets, time.perf_counter() - began, options)
    if options.protocol:
        named = ((f"program {p.number}", t, o) for p, by in found for t, o in by.items())
        return protocol_verdict.report(named)
    kinds = multiplied_programs.FAULTS if options.multiplied else ("wrong", "broken")
    bad = [o for _, outcomes in found for o in outcomes.values() if o.kind in kinds]
    return 1 if bad else 0


def _program(options: argparse.Namespace, number: int) -> Program:
    if options.multiplied:
        return multiplied_programs.program_of(options.seed, number, options.family)
    return program_of(options.seed, number)


def _outcome(
    program: Program, target: str, options: argparse.Namespace, say: Callable[[str], None]
) -> Outcome:
    if not takes(target, program):
        return Outcome(_ABSENT)
    if options.protocol:
        return protocol_verdict.checked(lambda: outcome(program, target, options.backend))
    if options.multiplied:
        return multiplied_programs.judged(program, target, options.backend, options.repeat, say)
    return outcome(program, target, options.backend, options.repeat)


Found = list[tuple[Program, dict[str, Outcome]]]
Asked = tuple[int, str]


def _run(numbers: Sequence[int], targets: Sequence[str], options: argparse.Namespace) -> Found:
    """Each program on each target; failures are printed as they come, each kind once."""
    seen: set[tuple[str, str, str]] = set()
    outcomes: dict[int, dict[str, Outcome]] = {}
    asked = [(n, target) for n in numbers for target in _targets(n, targets, options)]
    jobs = options.jobs or (os.cpu_count() or 1 if options.backend == "cuda" else 1)
    came = _remote(asked, jobs, options) if jobs > 1 else _here(asked, options)
    end = time.perf_counter() + (options.budget or math.inf)
    with contextlib.closing(came):
        for (number, target), result in came:
            outcomes.setdefault(number, {})[target] = result
            kind = (result.kind, result.pattern, target)
            is_new = kind not in seen or result.kind == "wrong"
            if is_new and result.kind not in ("right", _ABSENT):
                seen.add(kind)
                _show(_small(_program(options, number), target, result, options), target, result)
            if time.perf_counter() > end:
                break
    done = Counter(number for number, _ in asked)
    whole = [number for number in numbers if len(outcomes.get(number, ())) == done[number]]
    taken = {n: {t: o for t, o in outcomes[n].items() if o.kind != _ABSENT} for n in whole}
    return [(_program(options, number), taken[number]) for number in whole if taken[number]]


def _targets(number: int, targets: Sequence[str], options: argparse.Namespace) -> Sequence[str]:
    """Those that a program runs on: all, or one after the other."""
    if not options.one_target:
        return targets
    # A class has its turn once in as many numbers as there are classes.
    turn = number if options.family or not options.multiplied else number // len(FAMILIES)
    return [targets[turn % len(targets)]]


def _here(asked: Sequence[Asked], options: argparse.Namespace) -> Generator[tuple[Asked, Outcome]]:
    for number, target in asked:
        program = _program(options, number)
        yield (number, target), _outcome(program, target, options, lambda doing: None)


def _remote(
    asked: Sequence[Asked], jobs: int, options: argparse.Namespace
) -> Generator[tuple[Asked, Outcome]]:
    command = (sys.executable, "-m", "benchmarks.random_programs", "--worker")
    command += ("--seed", str(options.seed), "--backend", options.backend)
    command += ("--repeat", str(options.repeat), "--class", options.family)
    command += ("--multiplied",) * options.multiplied + ("--protocol",) * options.protocol
    requests = [{"number": number, "target": target} for number, target in asked]
    with contextlib.closing(answers(requests, command, jobs, options.patience)) as came:
        for at, answer in came:
            if isinstance(answer, WorkerError):
                yield asked[at], Outcome("broken", str(answer))
            else:
                yield asked[at], Outcome(*(answer[name] for name in _ANSWERED))


def _show(program: Program, target: str, result: Outcome) -> None:
    schedule = f" (right with {result.schedule})" if result.schedule else ""
    reason = result.reason.strip()
    print(f"# program {program.number} on {target}: {result.kind}{schedule}: {reason}")
    print(program.script.replace('arch="sm_80"', f'arch="{target}"'), flush=True)
    print()


def _report(
    found: Found, targets: Sequence[str], seconds: float, options: argparse.Namespace
) -> None:
    count = max(1, len(found))
    features = Counter(feature for program, _ in found for feature in program.features)
    print(f"{len(found)} programs in {seconds:.0f} s; the share of them with each feature:")
    for feature, programs_ in sorted(features.items()):
        print(f"  {100 * programs_ / count:5.1f} %  {feature}")
    if options.multiplied:
        multiplied_programs.report(found, targets)
        return
    for target in targets:
        given = [outcomes[target] for _, outcomes in found if target in outcomes]
        kinds = Counter(each.kind for each in given)
        shown = ", ".join(f"{kinds[k]} {k}" for k in ("right", "refused", "wrong", "broken"))
        without = len(found) - len(given)
        print(f"{target}: {shown}" + (f"; {without} not asked (8-bit floats)" * bool(without)))
        reasons = Counter(each.pattern for each in given if each.kind == "refused")
        for reason, times in reasons.most_common():
            print(f"  {times:4} refused: {reason}")
    if {"sm_80", "sm_90a"} <= set(targets) and not options.one_target:
        alone = [
            program.number
            for program, outcomes in found
            if "sm_80" in outcomes
            and outcomes["sm_80"].kind != "refused"
            and outcomes["sm_90a"].kind == "refused"
        ]
        print(f"refused on sm_90a alone: {len(alone)} {alone[:20] if alone else ''}")


def _work(options: argparse.Namespace) -> int:
    """The child: answers one program after the other."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(**message: object) -> None:
        print(json.dumps(message), file=answers, flush=True)

    on_device = options.backend == "cuda"
    if on_device and not gpu_available():
        say(missing="a CUDA device, got none")
        return 2
    say(machine={})
    for line in sys.stdin:
        request = json.loads(line)
        program = _program(options, request["number"])
        say(doing=f"program {program.number} on {request['target']}")
        got = _outcome(program, request["target"], options, lambda doing: say(doing=doing))
        # The context may be lost with it.
        lost = got.kind == "broken" and on_device
        say(**{name: getattr(got, name) for name in _ANSWERED}, lost=lost)
    return 0


if __name__ == "__main__":
    sys.exit(main())
