"""The table of problems that a seed draws: each timed within its share of a budget, once more where
it misses its gate, and what all of a kind add up to.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .case import Case
from .cases import described
from .contenders import OURS
from .kernels import Compilation
from .progress import Progress
from .report import HEADER
from .rows import Row, together
from .supervisor import NoDeviceError, Supervisor, WorkerError
from .telemetry import Telemetry, driver
from .timed_rows import TimedRows
from .timing import Plan

_COMPILE_SECONDS = 120.0
# Of the budget what is waited for that at most; the rest is compiled meanwhile.
_COMPILING = 0.3
_WORST = 5
# Of the seconds of a row the share that is timed: the rest makes inputs and checks results.
_TIMED = 0.4
_AGAIN = 5


@dataclass(frozen=True)
class Drawn:
    """What differs between tables. `draw` gives the cases of a seed, so many times as many as
    usual; `reached` says whether a row needs no second look, at a copy's bytes in a second;
    `summary` what all rows add up to, and whether that is enough. Rows of a section in `unranked`
    are none of the worst; `shuffled`: they come in random order. A contender's launches of a round
    take `batch_ms`: the longer, the less of it is what the one before leaves behind in L2.
    """

    kind: str
    description: str | None
    draw: Callable[[int, float], Sequence[Case]]
    reached: Callable[[Row, float | None], bool]
    summary: Callable[[Sequence[Row], float | None], tuple[list[str], bool]]
    unranked: str = ""
    shuffled: bool = False
    batch_ms: float = 1.5

    def run(
        self, arguments: Sequence[str] | None = None, supervisor: Supervisor | None = None
    ) -> int:
        """`python -m benchmarks.KIND`: the exit status."""
        options = self._options(arguments)
        cases = self._cases(options)
        rows: dict[str, Row] = {}
        begun = time.monotonic()
        machine: dict[str, Any] = {"seed": options.seed}
        copied: float | None = None
        interrupted = False
        try:
            work = [] if supervisor else [(case, each) for case in cases for each in _ways(case)]
            with (
                Compilation(work) as compilation,
                supervisor or Supervisor(options.patience) as worker,
                Telemetry() as telemetry,
            ):
                done, all_ = compilation.finish(min(_COMPILE_SECONDS, _COMPILING * options.budget))
                if all_:
                    print(f"{done} of {all_} kernels compiled ahead")
                machine |= worker.machine | driver()
                copied = worker.ask({"copy": True}).get("bytes_per_second")
                machine["copy_bytes_per_second"] = copied
                print(", ".join(f"{key} {value}" for key, value in machine.items() if value))
                print(HEADER)
                progress = Progress(len(cases))
                table = TimedRows(worker, telemetry, progress, rows, machine, options.json)
                for number, case in enumerate(cases):
                    progress.step(case.name)
                    left = options.budget - (time.monotonic() - begun)
                    plan = _plan(left / (len(cases) - number), self.batch_ms)
                    ways = {OURS: None} | dict(case.rivals)
                    row = table.timed(case, plan, ways, described(case))
                    if not self.reached(row, copied) and row.failure is None and row.ours_ms:
                        again = Plan(**asdict(plan) | {"rounds": _AGAIN * plan.rounds})
                        first, row = row, table.timed(case, again, ways, described(case))
                        row.seconds = together(first.seconds, row.seconds)
                    table.keep(row, plan)
        except (NoDeviceError, WorkerError) as error:
            print(f"benchmarks.{self.kind}: {error}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            interrupted = True
        lines, passed = self.summary(list(rows.values()), copied)
        tail = worst([row for row in rows.values() if row.case.section != self.unranked])
        spent = spent_on(list(rows.values()), time.monotonic() - begun)
        print("\n".join([*lines, *tail, spent, f"seed {options.seed}"]))
        if interrupted:
            return 130
        return 1 if options.check and not passed else 0

    def _options(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        parser = argparse.ArgumentParser(
            prog=f"python -m benchmarks.{self.kind}",
            description=self.description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the draw")
        parser.add_argument("--budget", type=float, default=480, metavar="S", help="seconds in all")
        parser.add_argument("--only", metavar="REGEX", help="rows whose section and name match")
        parser.add_argument("--scale", type=float, default=1.0, metavar="F", help="times the rows")
        parser.add_argument("--json", metavar="FILE", help="write the results")
        parser.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
        parser.add_argument("--patience", type=float, default=60, metavar="S", help="until a hang")
        options = parser.parse_args(arguments)
        options.error = parser.error
        return options

    def _cases(self, options: argparse.Namespace) -> list[Case]:
        try:
            pattern = re.compile(options.only or "")
        except re.error as error:
            options.error(f"--only: expected a regular expression, got '{options.only}': {error}")
            raise
        cases = [
            case
            for case in self.draw(options.seed, options.scale)
            if pattern.search(f"{case.section} {case.name}")
        ]
        if not cases:
            options.error(f"--only: expected to match a row of seed {options.seed}, got none")
        if self.shuffled:
            random.Random(f"{options.seed} order").shuffle(cases)
        return cases


def worst(rows: Sequence[Row]) -> list[str]:
    """The rows furthest below their yardsticks, with what was chosen for them."""
    timed = sorted((row for row in rows if row.ratio is not None), key=lambda row: row.ratio or 0.0)
    lines = [
        f"  {row.ratio:.3f} {row.case.section}: {row.case.name}  [{row.resources}]"
        for row in timed[:_WORST]
    ]
    return ["worst rows:", *lines] if lines else []


def spent_on(rows: Sequence[Row], seconds: float) -> str:
    """How many seconds of a table each phase took, yardsticks among them; the most first."""
    phases = together(*(row.seconds for row in rows))
    most = sorted(phases.items(), key=lambda phase: -phase[1])
    parts = [f"{name} {spent:.1f}" for name, spent in most]
    return f"{seconds:.0f} s, {sum(phases.values()):.0f} of them in the worker: " + ", ".join(parts)


def _plan(seconds: float, batch_ms: float) -> Plan:
    """How to time a row of which all may take so many seconds."""
    limit = max(0.02, _TIMED * seconds)
    return Plan(rounds=15, batch_ms=batch_ms, warmup=3, cool_down=0.0, limit=limit)


def _ways(case: Case) -> tuple[str | None, ...]:
    """The schedules that a case is computed under."""
    return (None, *case.rivals.values())
