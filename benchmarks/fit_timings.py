"""Timings of schedules: the records that are kept, and how a device makes more of them. A record is
{"case": "4096x1024x512 bf16 TN", "schedule": TEXT, "us": TIME, "run": SEED, "at": SECONDS}, the
last since its run began.
"""

from __future__ import annotations

import json
import lzma
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from cutedialect.atoms import H100, Device
from cutedialect.choosing.gemm_price import Facts, gemm_price
from cutedialect.choosing.gemm_problem import Problem, tiles_of
from cutedialect.frontend.declarations import GEMM
from cutedialect.frontend.gemm import GemmCall

from . import shape_draws
from .gemm_case import Gemm
from .inputs import TYPES
from .supervisor import Supervisor, WorkerError
from .worker_pool import answers

KEPT = Path(__file__).parent / "timings"
WORKER = (sys.executable, "-m", "benchmarks.schedule_worker")
Record = dict[str, Any]
# Seconds between two signs of life of a process; and how many times the rows of one table are
# drawn, more than minutes suffice for.
_PATIENCE, _SCALE = 40.0, 6.0
# Processors that are left to the process that times, and to this one.
_BESIDE = 2


def measured(
    seed: int,
    minutes: float,
    say: Callable[[str], None],
    command: Sequence[str] = WORKER,
    scale: float = _SCALE,
) -> Iterator[list[Record]]:
    """The timings of one drawn problem after the other on the device at hand, until the minutes
    are over. Kernels are compiled by as many processes as there are processors; one that hangs or
    takes the device along costs its problem.
    """
    began = time.monotonic()
    end = began + 60 * minutes
    names = drawn(seed, scale)
    requests = [{"case": name, "seed": seed} for name in names]
    jobs = max(1, (os.cpu_count() or 1) - _BESIDE)
    with tempfile.TemporaryDirectory() as cache:
        # What a user tuned stays as it is, and what is compiled is found by the process that times.
        os.environ["CUTEDIALECT_CACHE_DIR"] = cache
        os.environ.pop("CUTEDIALECT_NO_CACHE", None)
        came = answers(requests, (*command, "compile"), jobs, _PATIENCE, end)
        with Supervisor(_PATIENCE, (*command, "time")) as timer, closing(came):
            say(f"{timer.machine['device']}, {len(names)} problems, {jobs} processes that compile")
            for number, answer in came:
                name = names[number]
                try:
                    if isinstance(answer, WorkerError):
                        raise answer
                    timed = timer.ask({"case": name, "schedules": answer["schedules"]})
                except WorkerError as error:
                    say(f"{name}: {error}, during {error.doing}")
                    continue
                for failure in (*answer["failures"], *timed["failures"]):
                    say(f"{name}: {failure}")
                seconds = round(time.monotonic() - began)
                yield [
                    {"case": name, "schedule": text, "us": round(us, 3), "run": seed, "at": seconds}
                    for text, us in dict(timed["timings"]).items()
                ]


def drawn(seed: int, scale: float) -> list[str]:
    """The names of drawn problems that trees are fitted to, in an order of the seed."""
    cases = [case.name for case in shape_draws.drawn(seed, scale) if case.section != "batches"]
    known = [name for name in cases if len(name.split()) == 3 and is_timed(problem_of(name))]
    random.Random(seed).shuffle(known)
    return known


def is_timed(problem: Problem) -> bool:
    """Whether trees are fitted to problems of this kind."""
    return Facts(tiles_of(), problem, gemm_price(problem.device))["is_timed"]


def read(folder: Path, stem: str) -> list[Record]:
    """All records of a space and a device: STEM.jsonl.xz, and STEM.SEED.jsonl of runs."""
    records: list[Record] = []
    for path in sorted(folder.glob(f"{stem}.*jsonl*")):
        raw = path.read_bytes()
        text = (lzma.decompress(raw) if path.suffix == ".xz" else raw).decode()
        # A run that was cut may have left half of a line.
        whole = text[: text.rfind("\n") + 1]
        records += map(json.loads, whole.splitlines())
    return records


def keep(folder: Path, stem: str, records: Iterable[Record]) -> Path:
    """Write records as one compressed file."""
    lines = "".join(json.dumps(record) + "\n" for record in records)
    path = folder / f"{stem}.jsonl.xz"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress(lines.encode()))
    return path


def pack(folder: Path, stem: str) -> Path:
    """Make one compressed file of all records, in place of those of runs."""
    runs = list(folder.glob(f"{stem}.*.jsonl"))
    path = keep(folder, stem, read(folder, stem))
    for run in runs:
        run.unlink()
    return path


def minutes_of(records: Iterable[Record]) -> float:
    """The minutes of a device that its runs took."""
    runs: dict[int, float] = {}
    for record in records:
        run = record.get("run", 0)
        runs[run] = max(runs.get(run, 0.0), record.get("at", 0.0))
    return sum(runs.values()) / 60


def gemm_of(name: str) -> Gemm:
    """The case of a name."""
    size, dtype, majors = name.split()[:3]
    edges = size.split("x") if "x" in size else [size.removesuffix("^3")] * 3
    m, n, k = map(int, edges)
    return Gemm("timed", dtype, (m, n, k), majors)


def problem_of(name: str, device: Device = H100) -> Problem:
    """The problem that a case is on a device, by its name."""
    case = gemm_of(name)
    ((a, b),) = case.specs
    out_dtype = TYPES[case.dtype][1]
    call = GemmCall.of(GEMM.given(a, b, out_dtype=out_dtype))
    return replace(call.problem(arch=device.arch), device=device)
