"""Programs that stream, the examples' as they are, against torch, torch.compile and max-autotune.

    python -m benchmarks.streaming [--seed N] [--budget SECONDS] [--only REGEX] [--shapes N]
                                   [--others N] [--programs N] [--peers always|missed|never]
                                   [--json FILE] [--check]

Every workload is timed on 65536 x 1024, 8192 x 8192, 2048 x 32768 and on shapes drawn by the seed
(`--shapes` of them), all bf16 and of about 2^26 elements, so that nothing stays in L2. Ours and the
three peers run interleaved in one process as CUDA graphs over rotated operands; GB/s count the
bytes that have to move. A row passes at 0.97 of the better peer, or at 0.95 of the rate of a copy
on the device in the same process. Rows share what is left of the budget, the listed shapes first;
those that it does not reach are said to be left out. With `--peers missed` ours are timed alone
first, and the peers, which take long to compile, only of rows that do not reach the copy.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from math import log2
from typing import Any

from .cases import described
from .contenders import OURS
from .kernels import Compilation
from .peer_compilation import PeerCompilation
from .progress import Progress
from .report import write_json
from .rows import Row, row_of
from .streaming_case import Streaming
from .streaming_others import OTHERS
from .streaming_programs import PREFIX, program_of
from .streaming_workloads import WORKLOADS
from .supervisor import NoDeviceError, Supervisor, WorkerError
from .telemetry import Telemetry, driver
from .timing import Plan

SHAPES = ((65536, 1024), (8192, 8192), (2048, 32768))
HEADER = (
    f"{'case':30} {'GB/s':>6} {'peer':>6} {'ratio':>6} {'quartiles':>11} {'copy':>5} "
    f"{'error/reference':>17}  verdict"
)
_ELEMENTS = 1 << 26
_OF_COPY = 0.95
_GOAL_OF_COPY = 0.97
_LEAST = 0.85
_SHARE = 0.95
_COMPILE_SECONDS = 120.0
# Of the seconds of a row the share that is timed: torch compiles in the rest.
_TIMED = 0.25
# Seconds without which no row is begun.
_SHORTEST = 2.0
# Of the seconds left to peers the share in which they compile at most.
_COMPILED = 0.6


def drawn(seed: int, count: int) -> tuple[tuple[int, int], ...]:
    """Shapes of about as many elements, with rows of any width from 256 to 40,000."""
    rng = random.Random(seed)
    shapes: list[tuple[int, int]] = []
    for _ in range(count):
        columns = round(2 ** rng.uniform(8, 15.3))
        if rng.random() < 0.75:
            columns = -(-columns // 8) * 8
        shapes.append((max(1, round(_ELEMENTS / columns)), columns))
    return tuple(shapes)


def others(seed: int, count: int) -> list[Streaming]:
    """Programs that no example has, each at so many shapes of its own."""
    rng = random.Random(seed)
    found: dict[str, Streaming] = {}
    for workload, other in OTHERS.items():
        for _ in range(count):
            columns = round(2 ** rng.uniform(log2(other.least), log2(other.largest)))
            if columns > 64 and rng.random() < 0.5:
                columns = -(-columns // 8) * 8
            shape = max(1, round(_ELEMENTS / columns)), columns
            case = Streaming("others", "bf16", workload, shape, gate=0.97, goal=1.0)
            found.setdefault(case.name, case)
    return list(found.values())


def programs(seed: int, count: int) -> list[Streaming]:
    """So many programs drawn by lot, each at its own shape."""
    names = [f"{PREFIX}{seed}.{number}" for number in range(count)]
    return [
        Streaming("programs", "bf16", name, program_of(name).shape, gate=0.97, goal=1.0)
        for name in names
    ]


def cases(seed: int, count: int) -> list[Streaming]:
    """Every workload on the listed shapes, then on the drawn ones. Workloads with rows of their own
    width come once.
    """
    found: dict[str, Streaming] = {}
    for shape in (*SHAPES, *drawn(seed, count)):
        section = "listed" if shape in SHAPES else "drawn"
        for workload in WORKLOADS:
            case = Streaming(section, "bf16", workload, shape, gate=0.97, goal=1.0)
            if WORKLOADS[workload].width is None or case.workload not in {
                other.workload for other in found.values()
            }:
                found.setdefault(case.name, case)
    return list(found.values())


def main(arguments: Sequence[str] | None = None, supervisor: Supervisor | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.streaming",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the draw")
    parser.add_argument("--budget", type=float, default=1800, metavar="S", help="seconds in all")
    parser.add_argument("--only", metavar="REGEX", help="rows whose section and name match")
    parser.add_argument("--shapes", type=int, default=10, metavar="N", help="shapes to draw")
    parser.add_argument(
        "--others",
        type=int,
        default=0,
        metavar="N",
        help="shapes to draw for each program that no example has",
    )
    parser.add_argument(
        "--programs", type=int, default=0, metavar="N", help="programs to draw by lot"
    )
    parser.add_argument(
        "--peers",
        choices=("always", "missed", "never"),
        default="always",
        help="of which rows peers are timed: all, those that do not reach the copy, none",
    )
    parser.add_argument("--json", metavar="FILE", help="write the results")
    parser.add_argument("--check", action="store_true", help="exit 1 when too many rows fail")
    parser.add_argument("--patience", type=float, default=180, metavar="S", help="until a hang")
    options = parser.parse_args(arguments)
    try:
        pattern = re.compile(options.only or "")
    except re.error as error:
        parser.error(f"--only: expected a regular expression, got '{options.only}': {error}")
    every = [
        *cases(options.seed, options.shapes),
        *others(options.seed, options.others),
        *programs(options.seed, options.programs),
    ]
    chosen = [case for case in every if pattern.search(f"{case.section} {case.name}")]
    if not chosen:
        parser.error(f"--only: expected to match a row of seed {options.seed}, got none")
    rows: list[Row] = []
    begun = time.monotonic()
    machine: dict[str, Any] = {"seed": options.seed}
    copied: float | None = None
    interrupted = False
    try:
        work = [] if supervisor else [(case, None) for case in chosen]
        with (
            Compilation(work) as compilation,
            supervisor or Supervisor(options.patience) as worker,
            Telemetry() as telemetry,
        ):
            done, all_ = compilation.finish(min(_COMPILE_SECONDS, 0.3 * options.budget))
            if all_:
                print(f"{done} of {all_} kernels compiled ahead")
            copied = worker.ask({"copy": True}).get("bytes_per_second")
            machine |= worker.machine | driver() | {"copy_bytes_per_second": copied}
            print(", ".join(f"{key} {value}" for key, value in machine.items() if value))
            print(HEADER)
            progress = Progress(len(chosen))
            for number, case in enumerate(chosen):
                left = options.budget - (time.monotonic() - begun)
                if left < _SHORTEST:
                    break
                progress.step(case.name)
                plan = _plan(left / (len(chosen) - number))
                row = _row(worker, case, plan, progress, alone=options.peers != "always")
                found = telemetry.between(row.started, row.stopped)
                row.mhz, row.watts = found or (None, None)
                rows.append(row)
                progress.clear()
                print(line_of(row, copied), flush=True)
                if options.json:
                    write_json(options.json, machine, asdict(plan), rows)
            if options.peers == "missed":
                for case, plan in _missed(rows, copied, begun + options.budget):
                    at = chosen.index(case)
                    rows[at] = _row(worker, case, plan, progress)
                    progress.clear()
                    print(line_of(rows[at], copied), flush=True)
                    if options.json:
                        write_json(options.json, machine, asdict(plan), rows)
    except (NoDeviceError, WorkerError) as error:
        print(f"benchmarks.streaming: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        interrupted = True
    lines, passed = summary(rows, copied, len(chosen))
    print("\n".join([*lines, f"seed {options.seed}"]))
    if interrupted:
        return 130
    return 1 if options.check and not passed else 0


def _plan(seconds: float) -> Plan:
    """How to time a row of which all may take so many seconds."""
    limit = max(0.05, _TIMED * seconds)
    return Plan(rounds=20, batch_ms=2.0, warmup=3, cool_down=0.0, limit=limit)


def _missed(
    rows: Sequence[Row], copied: float | None, end: float
) -> Iterator[tuple[Streaming, Plan]]:
    """Rows that miss the copy and how to time them against peers, which have been compiled in
    about half of the time until `end`.
    """
    missed = [row for row in rows if verdict(row, copied) == "MISSED"]
    missed.sort(key=lambda row: rate(row, row.ours_ms) or 0.0)
    cases = [row.case for row in missed if isinstance(row.case, Streaming)]
    with PeerCompilation(cases) as compilation:
        ready = compilation.ready(_COMPILED * max(0.0, end - time.monotonic()))
    print(f"peers of {len(ready)} rows of {len(cases)} that miss the copy compiled ahead")
    for number, case in enumerate(ready):
        left = end - time.monotonic()
        if left < _SHORTEST:
            return
        yield case, _plan(left / (len(ready) - number))


def _row(
    worker: Supervisor, case: Streaming, plan: Plan, progress: Progress, alone: bool = False
) -> Row:
    request = {
        "case": described(case),
        "schedules": {OURS: None},
        "peers": False,
        "yardsticks": not alone,
        "plan": asdict(plan),
        "resources": True,
    }
    try:
        return row_of(case, worker.ask(request, progress.note), alone=alone)
    except WorkerError as error:
        return Row(case, failure=str(error))


def rate(row: Row, ms: Sequence[float]) -> float | None:
    """Bytes that had to move in a second."""
    return row.case.bytes / (1e-3 * statistics.median(ms)) if ms else None


def verdict(row: Row, copied: float | None) -> str:
    """ "goal" at 0.97 of a copy; "peer" or "copy" where that passes; MISSED, WRONG or FAILED."""
    if row.failure is not None:
        return "FAILED"
    if not row.right:
        return "WRONG"
    ours = rate(row, row.ours_ms) or 0.0
    if copied and ours >= _GOAL_OF_COPY * copied:
        return "goal"
    if row.ratio is not None and row.ratio >= row.case.gate:
        return "peer"
    return "copy" if copied and ours >= _OF_COPY * copied else "MISSED"


def line_of(row: Row, copied: float | None) -> str:
    """One line of the table, under `HEADER`."""
    if row.failure is not None:
        return f"{row.case.name:30} FAILED  {row.failure}"
    ours, theirs = rate(row, row.ours_ms), rate(row, row.yardstick_ms)
    spread = "" if row.spread is None else f"{row.spread[0]:.3f}-{row.spread[1]:.3f}"
    share = f"{ours / copied:.0%}" if ours and copied else ""
    ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
    error = "" if row.error is None else f"{row.error:.3g}/{row.allowance:.3g}"
    return (
        f"{row.case.name:30} {_gigabytes(ours)} {_gigabytes(theirs)} {ratio:>6} {spread:>11} "
        f"{share:>5} {error:>17}  {verdict(row, copied)}"
        f"{f', to {row.yardstick}' if row.yardstick else ''}  [{row.resources}]"
    )


def summary(rows: Sequence[Row], copied: float | None, asked: int) -> tuple[list[str], bool]:
    """How many rows pass, the worst ones, and whether that is enough."""
    verdicts = [verdict(row, copied) for row in rows]
    passed = sum(each in ("goal", "peer", "copy") for each in verdicts)
    goals = verdicts.count("goal")
    least = min((row.ratio for row in rows if row.ratio is not None), default=0.0)
    enough = bool(rows) and passed >= _SHARE * len(rows) and least >= _LEAST
    lines = [
        f"{passed} of {len(rows)} rows pass ({_SHARE:.0%} wanted), {goals} at {_GOAL_OF_COPY:.0%} "
        f"of a copy; the least ratio is {least:.3f} ({_LEAST} wanted)"
    ]
    unknown = sum(
        verdict(row, copied) == "MISSED" and row.ratio is None and row.failure is None
        for row in rows
    )
    if unknown:
        lines.append(f"{unknown} rows miss the copy without a peer that was timed")
    if len(rows) < asked:
        lines.append(f"{asked - len(rows)} rows left out: the budget was spent")
    return lines, enough


def _gigabytes(value: float | None) -> str:
    return f"{'':6}" if value is None else f"{value / 1e9:6.0f}"


if __name__ == "__main__":
    sys.exit(main())
