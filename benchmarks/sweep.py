"""Schedules of one case against each other and against its yardstick, for tuning.

    python -m benchmarks.sweep CASE_REGEX 'SCHEDULE' 'SCHEDULE' ... [--rounds N] [--json FILE]

`default` is the heuristic's schedule; `@FILE` reads schedules from a file, one a line. All run
interleaved on the same inputs, so that a schedule costs a fraction of a second of the GPU. One that
is refused, hangs or is wrong is listed with the reason and does not stop the others.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .case import Case
from .cases import described, select
from .kernels import Compilation
from .progress import Progress
from .rows import Row, row_of
from .supervisor import NoDeviceError, Supervisor, WorkerError
from .timing import Plan

_DEFAULT = "default"
_COMPILE_SECONDS = 40.0


def main(arguments: Sequence[str] | None = None, supervisor: Supervisor | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sweep",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        fromfile_prefix_chars="@",
    )
    parser.add_argument("case", metavar="CASE_REGEX", help="cases whose section and name match")
    parser.add_argument("schedules", metavar="SCHEDULE", nargs="*", default=[_DEFAULT])
    parser.add_argument("--rounds", type=int, default=10, metavar="N", help="times each is run")
    parser.add_argument("--batch-ms", type=float, default=3, metavar="MS", help="of one timing")
    parser.add_argument("--patience", type=float, default=20, metavar="S", help="until a hang")
    parser.add_argument("--json", metavar="FILE", help="write the results")
    options = parser.parse_args(arguments)
    try:
        cases = select(options.case)
    except ValueError as error:
        parser.error(f"CASE_REGEX: {error}")
    plan = Plan(options.rounds, options.batch_ms, warmup=2, cool_down=0.0)
    schedules = list(dict.fromkeys(filter(None, map(str.strip, options.schedules))))
    found: list[dict[str, Any]] = []
    try:
        work = [] if supervisor else [(case, _text(one)) for case in cases for one in schedules]
        with (
            Compilation(work) as compilation,
            supervisor or Supervisor(options.patience) as worker,
        ):
            compilation.finish(_COMPILE_SECONDS)
            print(f"{worker.machine.get('device', '?')}; ratio > 1 is faster than the yardstick")
            progress = Progress(len(cases))
            for case in cases:
                progress.step(case.name)
                rows = sweep(worker, case, schedules, plan, progress)
                progress.clear()
                print("\n".join(lines_of(case, rows)), flush=True)
                found += [{"schedule": name} | row.record() for name, row in rows.items()]
    except (NoDeviceError, WorkerError) as error:
        print(f"benchmarks.sweep: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    finally:
        if options.json and found:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(found, file, indent=1)
    return 0


def sweep(
    worker: Supervisor, case: Case, schedules: Sequence[str], plan: Plan, progress: Progress
) -> dict[str, Row]:
    """A row for each schedule, in the order given; those that stop the worker are left out of the
    next attempt.
    """
    rows: dict[str, Row] = {}
    left = list(schedules)
    while left:
        before = len(left)
        request = {
            "case": described(case),
            "schedules": {name: _text(name) for name in left},
            "peers": False,
            "plan": asdict(plan),
            "resources": True,
        }
        try:
            answer = worker.ask(request, progress.note)
        except WorkerError as error:
            if error.doing not in left and len(left) > 1:  # one of them, alone it shows which
                for name in left:
                    rows |= sweep(worker, case, [name], plan, progress)
                break
            guilty = error.doing if error.doing in left else left[0]
            rows[guilty] = Row(case, failure=str(error))
            left.remove(guilty)
            continue
        reached = {result["name"]: result for result in answer["results"]}
        for name in [name for name in left if name in reached]:
            # The context died on a later schedule before this one was timed.
            if not reached[name]["ms"] and reached[name]["failure"] is None:
                continue
            rows[name] = row_of(case, answer, name)
            left.remove(name)
        if len(left) == before:  # a yardstick took the device along
            for name in left:
                rows[name] = row_of(case, answer, name)
                rows[name].failure = rows[name].failure or _last_failure(answer)
            left = []
    return {name: rows[name] for name in schedules}


def _last_failure(answer: dict[str, Any]) -> str:
    failures = [result["failure"] for result in answer["results"] if result["failure"]]
    return failures[-1] if failures else "no times"


def lines_of(case: Case, rows: dict[str, Row]) -> list[str]:
    """The fastest first, what failed last."""
    timed = [row for row in rows.values() if row.yardstick_tflops is not None]
    theirs = f", {timed[0].yardstick} {timed[0].yardstick_tflops:.1f} TFLOP/s" if timed else ""
    bounds = f", gate {case.gate:.2f}, goal {case.goal:.2f}" if case.gate else ""
    lines = [f"{case.name}{theirs}{bounds}"]
    for name, row in sorted(rows.items(), key=lambda item: -(item[1].ratio or 0)):
        if row.failure is not None or row.ratio is None:
            lines.append(f"  FAILED  {name}: {row.failure}")
            continue
        spread = "" if row.spread is None else f"{row.spread[0]:.3f}-{row.spread[1]:.3f}"
        wrong = "" if row.right else "  WRONG"
        queued = "" if row.captured else "  (no graph)"
        lines.append(
            f"  {row.ratio:6.3f}  {spread:11}  {row.tflops:7.1f} TFLOP/s  {name}  "
            f"[{row.resources}]{wrong}{queued}"
        )
    return lines


def _text(schedule: str) -> str | None:
    return None if schedule == _DEFAULT else schedule


if __name__ == "__main__":
    sys.exit(main())
