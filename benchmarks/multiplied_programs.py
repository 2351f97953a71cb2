"""Programs of several multiplies by class, seed and number; what becomes of them, refusals
included; and the table of classes and targets at the end.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from .multiplied_family import FAMILIES
from .multiplied_lot import draw
from .multiplied_operands import TooLongError
from .program_outcome import UNFIT, Outcome, expected, outcome
from .program_refusals import lacks, schedule_that_works
from .tile_program import Program

TARGETS = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
KINDS = ("right", "misfit", "declined", "refused", "refusable", "helpless", "wrong", "broken")
# What is a fault of the compiler; a program that is refused with a remedy is none.
FAULTS = ("refusable", "helpless", "wrong", "broken")
_ATTEMPTS = 100


@functools.cache
def program_of(seed: int, number: int, family: str = "") -> Program:
    """The program of this number of a seed, one whose values are exact; without a class each has
    its turn.
    """
    family = family or list(FAMILIES)[number % len(FAMILIES)]
    for attempt in range(_ATTEMPTS):
        try:
            program = draw((seed * 1_000_003 + number) * _ATTEMPTS + attempt, family)
            expected(program)
        except (TooLongError, *UNFIT):
            continue
        return replace(program, number=number)
    raise AssertionError(f"expected an exact program in {_ATTEMPTS} draws for {number}, got none")


def judged(
    program: Program,
    target: str,
    backend: str = "emulator",
    times: int = 1,
    say: Callable[[str], None] = lambda doing: None,
) -> Outcome:
    """The outcome, of a refusal also what it should have been."""
    got = outcome(program, target, backend, times)
    if got.kind != "refused":
        return got

    def is_right(schedule: str) -> bool:
        return outcome(program, target, backend, times, schedule).kind == "right"

    works = schedule_that_works(program, got.reason, is_right, say)
    if works:
        return Outcome("refusable", got.reason, works)
    lacking = lacks(got.reason)
    if lacking:
        return Outcome("helpless", f"{got.reason}\n  lacks {lacking}")
    if program.must_be_refused:
        return Outcome("right")
    if program.may_be_refused and program.may_be_refused in got.reason:
        return replace(got, kind="declined")
    if program.schedule:
        say("the default")
        plain = replace(program, schedule="")
        if outcome(plain, target, backend, times).kind == "right":
            return replace(got, kind="misfit")
    return got


def fails_alike(program: Program, target: str, backend: str, found: Outcome) -> bool:
    """Whether a program that is being made small still fails in the same way."""
    got = outcome(program, target, backend)
    if found.kind == "wrong":
        return got.kind == "wrong"
    kind = "broken" if found.kind == "broken" else "refused"  # also what is a misfit
    if (got.kind, got.pattern) != (kind, found.pattern):
        return False
    if found.kind != "refusable":
        return True
    return outcome(program, target, backend, 1, found.schedule).kind == "right"


def class_of(program: Program) -> str:
    """The name of its class."""
    return next(each for each in program.features if each.startswith("class "))[6:]


def report(found: Sequence[tuple[Program, dict[str, Outcome]]], targets: Sequence[str]) -> None:
    """Counts by class and target, and each kind of failure with the programs that show it."""
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    shown: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for program, outcomes in found:
        name = class_of(program)
        for target, each in outcomes.items():
            counts[name, target][each.kind] += 1
            if each.kind != "right":
                works = f" (right with {each.schedule})" if each.schedule else ""
                shown[each.kind + works, target, each.pattern].append(f"{name} {program.number}")
    print(f"{'class':16} {'target':8} " + " ".join(f"{kind:>9}" for kind in KINDS))
    for name in FAMILIES:
        for target in targets:
            row = counts[name, target]
            if row:
                print(f"{name:16} {target:8} " + " ".join(f"{row[kind]:9}" for kind in KINDS))
    total = sum(counts.values(), Counter())
    print(f"{'all':25} " + " ".join(f"{total[kind]:9}" for kind in KINDS))
    judged = total.total() - total["misfit"] - total["declined"]
    print(
        f"{100 * total['refused'] / max(1, judged):.1f} % refused of {judged} programs; "
        f"{total['misfit']} others only with the schedule that was drawn for them, "
        f"{total['declined']} whose arrays overlap as no call takes them"
    )
    for kind in KINDS[1:]:
        for (of, target, pattern), programs in sorted(
            shown.items(), key=lambda item: -len(item[1])
        ):
            if of.split()[0] == kind:
                print(f"{len(programs):4} {of} on {target}: {pattern}")
                print(f"       {', '.join(programs[:6])}")
