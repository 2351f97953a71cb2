"""GEMM on problems drawn at random against cuBLAS: what the default does where nothing was fitted.

    python -m benchmarks.shapes [--seed N] [--budget SECONDS] [--only REGEX] [--scale F]
                                [--json FILE] [--check]

One seed draws one list (`shape_draws.py`): layers of language models, sizes of any kind, other
majors, skinny problems, and f16 8192^3 against our own rate at 6144^3. Ours and cuBLAS run
interleaved as CUDA graphs over inputs rotated past L2; a row below its gate is timed once more with
five times the samples, which then count. Rows share what is left of the budget equally. `--scale`
draws that many times the rows. The seed and the five worst rows end the table.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .case import Case
from .cases import described
from .contenders import OURS
from .kernels import Compilation
from .progress import Progress
from .report import HEADER, line_of, write_json
from .rows import Row, geometric_mean, row_of
from .shape_draws import LARGE, STRATA, Stratum, drawn
from .supervisor import NoDeviceError, Supervisor, WorkerError
from .telemetry import Telemetry, driver
from .timing import Plan

_COMPILE_SECONDS = 120.0
_WORST = 5
# Seconds: what a skinny row may take besides its bytes.
_OVERHEAD = 3e-6
# Of the seconds of a row the share that is timed: the rest makes inputs and checks results.
_TIMED = 0.4
_AGAIN = 5
_LARGE_GATE, _LARGE_GOAL = 0.98, 1.02


def main(arguments: Sequence[str] | None = None, supervisor: Supervisor | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.shapes",
        description=__doc__,
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
    try:
        pattern = re.compile(options.only or "")
    except re.error as error:
        parser.error(f"--only: expected a regular expression, got '{options.only}': {error}")
    cases = [
        case
        for case in drawn(options.seed, options.scale)
        if pattern.search(f"{case.section} {case.name}")
    ]
    if not cases:
        parser.error(f"--only: expected to match a row of seed {options.seed}, got none")
    rows: dict[str, Row] = {}
    begun = time.monotonic()
    machine: dict[str, Any] = {"seed": options.seed}
    copied: float | None = None
    interrupted = False
    try:
        work = [] if supervisor else [(case, None) for case in cases]
        with (
            Compilation(work) as compilation,
            supervisor or Supervisor(options.patience) as worker,
            Telemetry() as telemetry,
        ):
            done, all_ = compilation.finish(_COMPILE_SECONDS)
            if all_:
                print(f"{done} of {all_} kernels compiled ahead")
            machine |= worker.machine | driver()
            copied = worker.ask({"copy": True}).get("bytes_per_second")
            machine["copy_bytes_per_second"] = copied
            print(", ".join(f"{key} {value}" for key, value in machine.items() if value))
            print(HEADER)
            progress = Progress(len(cases))
            for number, case in enumerate(cases):
                progress.step(case.name)
                left = options.budget - (time.monotonic() - begun)
                plan = _plan(left / (len(cases) - number))
                row = _row(worker, case, plan, progress)
                if not _reached(row, copied) and row.failure is None:
                    again = Plan(**asdict(plan) | {"rounds": _AGAIN * plan.rounds})
                    row = _row(worker, case, again, progress)
                found = telemetry.between(row.started, row.stopped)
                row.mhz, row.watts = found or (None, None)
                rows[case.name] = row
                progress.clear()
                print(line_of(row), flush=True)
                if options.json:
                    write_json(options.json, machine, asdict(plan), list(rows.values()))
    except (NoDeviceError, WorkerError) as error:
        print(f"benchmarks.shapes: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        interrupted = True
    lines, passed = summary(list(rows.values()), copied)
    print("\n".join([*lines, *worst(list(rows.values())), f"seed {options.seed}"]))
    if interrupted:
        return 130
    return 1 if options.check and not passed else 0


def _plan(seconds: float) -> Plan:
    """How to time a row of which all may take so many seconds."""
    limit = max(0.02, _TIMED * seconds)
    return Plan(rounds=15, batch_ms=1.5, warmup=3, cool_down=0.0, limit=limit)


def _row(worker: Supervisor, case: Case, plan: Plan, progress: Progress) -> Row:
    request = {
        "case": described(case),
        "schedules": {OURS: None},
        "peers": False,
        "plan": asdict(plan),
        "resources": True,
    }
    try:
        return row_of(case, worker.ask(request, progress.note))
    except WorkerError as error:
        return Row(case, failure=str(error))


def _reached(row: Row, copied: float | None) -> bool:
    """Whether a row has its gate, or the time that its bytes may take."""
    return row.passed or _as_fast_as_copies(row, copied)


def _as_fast_as_copies(row: Row, copied: float | None) -> bool:
    stratum = next((each for each in STRATA if each.section == row.case.section), None)
    if stratum is None or not stratum.copies or not row.ours_ms or not row.right or not copied:
        return False
    ms = sorted(row.ours_ms)[len(row.ours_ms) // 2]
    return 1e-3 * ms <= _OVERHEAD + row.case.bytes / (stratum.copies * copied)


def summary(rows: Sequence[Row], copied: float | None) -> tuple[list[str], bool]:
    """A line for each stratum, and whether all that is asked of them holds."""
    lines: list[str] = []
    passed = True
    for stratum in STRATA:
        inside = [row for row in rows if row.case.section == stratum.section]
        if inside:
            line, holds = _judged(stratum, inside, copied)
            lines.append(line)
            passed &= holds
    large = {row.case.name: row.tflops for row in rows if row.case.section == LARGE}
    rates = list(large.values())
    if len(rates) == 2 and None not in rates:
        ratio = rates[0] / rates[1]  # type: ignore[operator]
        names = " over ".join(large)
        missed = "" if ratio >= _LARGE_GATE else "  MISSED"
        passed &= not missed
        lines.append(f"{names}: {ratio:.3f} (gate {_LARGE_GATE}, goal {_LARGE_GOAL}){missed}")
    wrong = [row for row in rows if row.failure is not None or row.right is False]
    lines += [f"  {row.verdict} {row.case.name}: {row.failure or 'error'}" for row in wrong]
    return lines, passed and not wrong


def _judged(stratum: Stratum, rows: Sequence[Row], copied: float | None) -> tuple[str, bool]:
    ratios = sorted(row.ratio for row in rows if row.ratio is not None)
    mean = geometric_mean(rows)
    if mean is None:
        return f"{stratum.section}: no rows have times", False
    reached = sum(ratio >= stratum.most for ratio in ratios) / len(rows)
    holds = mean >= stratum.mean and reached >= stratum.share and ratios[0] >= stratum.least
    parts = [f"{stratum.section}: geometric mean {mean:.3f} of {len(ratios)}/{len(rows)} rows"]
    parts.append(f"(gate {stratum.mean:.2f}, goal {stratum.goal:.2f})")
    if stratum.most:
        below = sum(ratio < stratum.most for ratio in ratios)
        parts.append(f"{below} below {stratum.most:.2f}, least {ratios[0]:.2f}")
        parts.append(f"(at most {1 - stratum.share:.0%} of them, none below {stratum.least:.2f})")
    if stratum.copies:
        fast = sum(_as_fast_as_copies(row, copied) for row in rows)
        parts.append(f"{fast} within 3 us and {stratum.copies:.2f} of a copy's rate")
        holds = mean >= stratum.mean or fast == len(rows)
    return "  ".join([*parts, *([] if holds else ["MISSED"])]), holds


def worst(rows: Sequence[Row]) -> list[str]:
    """The rows furthest below cuBLAS, with what was chosen for them."""
    timed = [row for row in rows if row.ratio is not None and row.case.section != LARGE]
    timed.sort(key=lambda row: row.ratio or 0.0)
    lines = [
        f"  {row.ratio:.3f} {row.case.section}: {row.case.name}  [{row.resources}]"
        for row in timed[:_WORST]
    ]
    return ["worst rows:", *lines] if lines else []


if __name__ == "__main__":
    sys.exit(main())
