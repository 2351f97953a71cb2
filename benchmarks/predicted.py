"""Predictions of the static model in the place of timings: of devices that no one lends. No call
runs the model; price files are fitted to what it says (`fit.py`). It takes no branch that depends
on run time, and so sees nothing of what CTAs that share a tile add up: the constants of these stay
as they are.

    python -m benchmarks.predicted [TEXT] --schedule TEXT [--schedule TEXT ...] [--target NAME]

What the default takes of each listed product that has TEXT in its name, and how many times as long
as with these fields: above 1 they are faster.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import cutedialect as cute
from cutedialect.atoms import Device
from cutedialect.choosing.gemm_schedules import GEMM_SPACE
from cutedialect.choosing.need import NONE
from cutedialect.model import predict
from cutedialect.tools.model_command import parsed

from .cases import select
from .fit_timings import Record, drawn, gemm_of, problem_of
from .gemm_case import Gemm
from .schedule_worker import NoMemory, call_of, whole
from .static_model import arguments_of

# Problems share kernels.
_module = lru_cache(maxsize=512)(parsed)
# How many times the rows of one table are drawn; of each problem, schedules that come first, and
# others.
_SCALE, _FIRST, _OTHERS = 2.0, 8, 3


def predicted(
    device: Device, seed: int, minutes: float, say: Callable[[str], None]
) -> Iterator[list[Record]]:
    """What schedules of one drawn problem after the other take on a device by the model, until the
    minutes are over: those that the price at hand puts first, and some of the others.
    """
    began = time.monotonic()
    for name in drawn(seed, _SCALE):
        if time.monotonic() > began + 60 * minutes:
            return
        case, (specs, options) = gemm_of(name), call_of(name)
        target = cute.gemm.tunable(specs, options | {"arch": device.arch}, NoMemory())
        records: list[Record] = []
        ranked = list(GEMM_SPACE.ranked((problem_of(name, device),), None, NONE))
        ranked = [schedule for schedule in ranked if schedule.split_k is None]
        others = ranked[_FIRST:]
        drawn_too = random.Random(f"{seed} {name}").sample(others, min(_OTHERS, len(others)))
        for schedule in map(whole, ranked[:_FIRST] + drawn_too):
            text = schedule.text()
            try:
                kernel = target.compiled(schedule)
                module = _module(kernel.stages["convert-to-ptx"])
                seconds = predict(module, arguments_of(case, kernel)).seconds
            except (cute.CompileError, ValueError) as error:
                say(f"{name}: {text}: {error}")
                continue
            at = round(time.monotonic() - began)
            us = round(1e6 * seconds, 3)
            record = {"case": name, "schedule": text, "us": us, "run": seed, "at": at}
            records.append(record | {"predicted": True})
        yield records


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.predicted",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("only", metavar="TEXT", nargs="?", help="products with this in their name")
    parser.add_argument("--schedule", action="append", required=True, help="fields of a schedule")
    parser.add_argument("--target", default="sm_100a", help="sm_100a, or another that is modeled")
    options = parser.parse_args(arguments)
    ratios = defaultdict[str, list[float]](list)
    for case in select(options.only, kind="gemm"):
        assert isinstance(case, Gemm)
        default, chosen = _seconds(case, None, options.target)
        if default is None:
            print(f"{case.name}: {chosen}")
            continue
        told = [f"{case.name}: {1e6 * default:.1f} us ({chosen})"]
        for schedule in options.schedule:
            seconds, why = _seconds(case, schedule, options.target)
            if seconds is None:
                told.append(f"{schedule}: {why}")
                continue
            ratios[schedule].append(default / seconds)
            told.append(f"{schedule}: {default / seconds:.3f}")
        print("; ".join(told), flush=True)
    for schedule, each in ratios.items():
        mean = statistics.geometric_mean(each)
        print(f"{schedule}: {len(each)} products, mean {mean:.3f}, {min(each):.3f} to "
              f"{max(each):.3f}")  # fmt: skip
    return 0


def _seconds(case: Gemm, schedule: str | None, target: str) -> tuple[float | None, str]:
    """What a product takes, and its schedule; None and why where that is not predicted."""
    if case.group or case.batch > 1 or case.majors[0] == "N":
        return None, "only single products of rows of A are predicted"
    try:
        kernel = case.compiled(schedule, target)
        module = _module(kernel.stages["convert-to-ptx"])
        return predict(module, arguments_of(case, kernel)).seconds, kernel.schedule
    except (cute.CompileError, ValueError) as error:
        return None, str(error).splitlines()[0]


if __name__ == "__main__":
    sys.exit(main())
