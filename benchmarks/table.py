"""The table of one kind of problem: arguments, one row after the other, and what they add up to."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .cases import select
from .contenders import OURS
from .kernels import Compilation
from .plot import svg
from .progress import Progress
from .report import HEADER, summary
from .rows import Row
from .supervisor import NoDeviceError, Supervisor, WorkerError
from .telemetry import Telemetry, driver
from .timed_rows import TimedRows
from .timing import Plan

_COMPILE_SECONDS = 40.0


def run(
    kind: str,
    title: str,
    description: str | None,
    arguments: Sequence[str] | None = None,
    supervisor: Supervisor | None = None,
    *,
    has_peers: bool = False,
) -> int:
    """`python -m benchmarks.KIND`: the exit status. The plot is called `title` on the device."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{kind}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", metavar="REGEX", help="cases whose section and name match")
    parser.add_argument("--quick", action="store_true", help="few rounds, the rows that tell most")
    parser.add_argument("--rounds", type=_count, metavar="N", help="pairs for each row")
    parser.add_argument("--runs", type=_count, default=1, metavar="N", help="passes, pooled")
    parser.add_argument("--schedule", metavar="S", help="use this schedule for every case")
    parser.add_argument("--json", metavar="FILE", help="write the results")
    parser.add_argument("--plot", metavar="FILE", help="write an SVG")
    parser.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    if has_peers:
        parser.add_argument("--peers", action="store_true", help="time Triton and pyptx as well")
    parser.add_argument(
        "--patience", type=float, default=60, metavar="S", help="seconds until a kernel hangs"
    )
    options = parser.parse_args(arguments)
    try:
        cases = select(options.only, kind=kind, quick=options.quick)
    except ValueError as error:
        parser.error(f"--only: {error}")
    plan = Plan(rounds=10, cool_down=0.0, batch_ms=4.0) if options.quick else Plan()
    if options.rounds:
        plan = Plan(**asdict(plan) | {"rounds": options.rounds})
    rows: dict[str, Row] = {}
    machine: dict[str, Any] = {}
    interrupted = False
    try:
        work = [] if supervisor else [(case, options.schedule) for case in cases]
        with (
            Compilation(work) as compilation,
            supervisor or Supervisor(options.patience) as worker,
            Telemetry() as telemetry,
        ):
            done, begun = compilation.finish(_COMPILE_SECONDS)
            if begun:
                print(f"{done} of {begun} kernels compiled ahead")
            machine = worker.machine | driver()
            print(", ".join(f"{key} {value}" for key, value in machine.items() if value))
            print(HEADER)
            progress = Progress(options.runs * len(cases))
            table = TimedRows(worker, telemetry, progress, rows, machine, options.json)
            peers, ways = getattr(options, "peers", False), {OURS: options.schedule}
            for case in list(cases) * options.runs:
                progress.step(case.name)
                table.keep(table.timed(case, plan, ways, case.name, peers), plan)
    except (NoDeviceError, WorkerError) as error:
        print(f"benchmarks.{kind}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        interrupted = True
    print("\n".join(summary(list(rows.values()))))
    if options.plot:
        with open(options.plot, "w", encoding="utf-8") as file:
            file.write(svg(list(rows.values()), f"{title} on {machine.get('device', '?')}"))
    if interrupted:
        return 130
    return 1 if options.check and not all(row.passed for row in rows.values()) else 0


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number of 1 or more, got {text}")
    return number
