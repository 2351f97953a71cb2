"""What `cute-check-protocol` says of a program, beside what becomes of it in the emulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from cutedialect.dialects import cute
from cutedialect.frontend import launch
from cutedialect.frontend.calls import DOORS
from cutedialect.passes import cute_to_ptx
from cutedialect.passes.protocol.check_protocol import verdict_of
from cutedialect.passes.protocol.skeleton import Undecided

from .program_outcome import Outcome

_CHECK = "cute-check-protocol"
# The largest share of drawn programs that may be undecided.
_MOST_UNDECIDED = 0.02


class _Step:
    """A pass behind the last one that orders."""

    name = "mutate"

    def __init__(self, change: Callable[[ModuleOp], None]) -> None:
        self.change = change

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.change(op)


@contextmanager
def behind_the_last_pass(change: Callable[[ModuleOp], None]) -> Iterator[None]:
    """Compilations inside do this to a module behind the last pass that orders, and do not check it
    by themselves. Kernels that were compiled outside are compiled again, and those inside are
    forgotten.
    """
    before, kernels = cute_to_ptx.pipeline, launch._kernels

    def pipeline_with(
        arch: str, schedule: str | None = None, protocol: str | None = None
    ) -> tuple[Any, ...]:
        steps = before(arch, schedule)
        at = next(at for at, step in enumerate(steps) if step.name == _CHECK)
        return (*steps[:at], _Step(change), *steps[at + 1 :])

    cute_to_ptx.pipeline = pipeline_with  # type: ignore[assignment]
    launch._kernels = {}
    forget_calls()
    try:
        yield
    finally:
        cute_to_ptx.pipeline, launch._kernels = before, kernels
        forget_calls()


def forget_calls() -> None:
    """Calls of functions of arrays keep their kernels ready."""
    for door in DOORS.values():
        door.calls.clear()


def verdict(module: ModuleOp) -> tuple[str, str]:
    """What the check says of a module: `proved`, `found` with what, or `undecided` with why."""
    for kernel in module.ops:
        if isinstance(kernel, cute.KernelOp):
            try:
                of_kernel = verdict_of(kernel)
            except Undecided as undecided:
                return "undecided", str(undecided)
            if of_kernel.findings:
                first = of_kernel.findings[0]
                return "found", f"{first.op.name}: {first.text()}"
            if of_kernel.unended:
                loop, case = of_kernel.unended[0]
                return "undecided", f"{loop.name} with {case} is not run to its end"
    return "proved", ""


def checked(
    run: Callable[[], Outcome], change: Callable[[ModuleOp], None] = lambda module: None
) -> Outcome:
    """What becomes of a program that `run` compiles and runs, after a change behind the last pass
    that orders, and what the check says of it; `refused` where no pass comes so far.
    """
    says: list[tuple[str, str]] = []

    def look(module: ModuleOp) -> None:
        change(module)
        says.append(verdict(module))

    with behind_the_last_pass(look):
        got = run()
    check, what = says[-1] if says else ("refused", "")
    return replace(got, check=check, what=what)


def is_at_odds(got: Outcome) -> bool:
    """Whether the check and the emulator say unlike things, or the check says nothing."""
    if got.kind == "refused":
        return False
    return got.check == "undecided" or (got.check == "proved") != (got.kind == "right")


def report(outcomes: Iterable[tuple[str, str, Outcome]]) -> int:
    """Print the counts of each target, and each program (name, target, outcome) of which check and
    emulator say unlike things; 1 where one is proved and wrong, found and right, or too many are
    undecided.
    """
    counts: dict[str, Counter[str]] = {}
    total: Counter[str] = Counter()
    for name, target, got in outcomes:
        kind = f"{got.check}/{got.kind}"
        counts.setdefault(target, Counter())[kind] += 1
        total[kind] += 1
        if is_at_odds(got):
            print(f"{name} on {target}: {got.check}, {got.kind}\n    check: {got.what[:400]}")
            print(f"    emulator: {got.reason[:300]}")
    print("check/emulator:")
    for target, row in counts.items():
        shown = ", ".join(f"{count} {kind}" for kind, count in sorted(row.items()))
        print(f"  {target}: {shown}")
    ran = sum(count for kind, count in total.items() if not kind.endswith("/refused"))
    undecided = sum(count for kind, count in total.items() if kind.startswith("undecided/"))
    wrong = total["proved/wrong"] + total["proved/broken"]
    print(
        f"{ran} ran: {total['proved/right']} proved and right, {wrong} proved and faulty, "
        f"{total['found/right']} false alarms, "
        f"{total['found/wrong'] + total['found/broken']} found and faulty, "
        f"{undecided} undecided ({100 * undecided / max(1, ran):.1f} %)"
    )
    is_bad = wrong or total["found/right"] or undecided > _MOST_UNDECIDED * ran
    return 1 if is_bad else 0
