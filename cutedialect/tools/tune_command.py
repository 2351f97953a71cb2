"""`python -m cutedialect tune KERNEL SPEC...`: `cute.autotune` with its timings as a table or JSON.
Ctrl-C shows and keeps what there is, and exits with 130.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from cutedialect.backend.runtime.progress_line import ProgressLine
from cutedialect.backend.runtime.timing import NoDeviceError
from cutedialect.backend.runtime.tunings import Timing, Tuning
from cutedialect.frontend.autotune import ROUNDS, tune

from .kernel_arguments import ARGUMENTS, argument, kernel_named, settings

_INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m cutedialect tune",
        description="Time the schedules of a kernel on this machine's GPU and keep the result.",
        epilog=ARGUMENTS + "All extents have to be given: random numbers of that size are timed.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        fromfile_prefix_chars="@",
    )
    parser.add_argument(
        "kernel", help="FILE.py:NAME of a @cute.kernel function, cute.gemm or cute.attention"
    )
    parser.add_argument("arguments", nargs="*", metavar="SPEC", help="an argument, see below")
    parser.add_argument("--arch", help="target (default: the device's)")
    parser.add_argument(
        "--schedule",
        action="append",
        metavar="TEXT",
        help="a schedule to try, such as 'stages = 3', '' for the default; may be repeated",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a keyword argument, such as tile=(64,64), out_dtype=f32 or bias=4096:f32",
    )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, metavar="N", help=f"times each is run ({ROUNDS})"
    )
    parser.add_argument(
        "--no-check", action="store_true", help="do not compare the results of schedules"
    )
    parser.add_argument("--again", action="store_true", help="time what is known already")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    program = kernel_named(options.kernel)
    specs = [argument(text) for text in options.arguments]
    given = settings(options.set) | {"arch": options.arch}
    configs = None
    if options.schedule is not None:
        configs = [text if text.strip() else None for text in options.schedule]
    line = ProgressLine()
    try:
        tuning = tune(
            program,
            specs,
            given,
            configs=configs,
            rounds=options.rounds,
            again=options.again,
            check=not options.no_check,
            show=line.show,
        )
    except (NoDeviceError, MemoryError) as error:  # the driver's is one of the latter
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        line.clear()
        print("interrupted before anything was timed", file=sys.stderr)
        return _INTERRUPTED
    finally:
        line.clear()
    print(json.dumps(described(tuning), indent=1) if options.json else table(tuning))
    if not tuning.complete:
        print("stopped before the last round: the best so far", file=sys.stderr)
    return 0 if tuning.complete else _INTERRUPTED


def table(tuning: Tuning) -> str:
    """The fastest first with its speed relative to the default's, what failed last."""
    kept = ", as kept from an earlier run" if tuning.kept else ""
    lines = [f"{tuning.kernel} for {tuning.arch} on {tuning.device}{kept}", tuning.problem]
    default = _default(tuning)
    for timing in _ranked(tuning):
        assert timing.median is not None
        ratio = "" if default is None or default.median is None else default.median / timing.median
        shown = f"{ratio:6.3f}" if ratio else " " * 6
        name = timing.schedule or f"default: {timing.full}"
        lines.append(f"{timing.median:10.2f} us {shown} {len(timing.microseconds):4} x  {name}")
    for timing in tuning.failures:
        lines.append(f"    FAILED  {timing.schedule or 'default'}: {timing.failure}")
    return "\n".join(lines)


def described(tuning: Tuning) -> dict[str, object]:
    """The same for machines; `best` is the schedule that is kept."""
    best = tuning.best
    return tuning.to_json() | {
        "best": None if best is None else best.schedule or best.full,
        "timings": [
            {
                "schedule": timing.schedule,
                "full": timing.full,
                "median_us": timing.median,
                "microseconds": list(timing.microseconds),
                "failure": timing.failure,
            }
            for timing in (*_ranked(tuning), *tuning.failures)
        ],
    }


def _ranked(tuning: Tuning) -> list[Timing]:
    timed = [timing for timing in tuning.timings if timing.failure is None and timing.microseconds]
    return sorted(timed, key=lambda timing: timing.median or 0.0)


def _default(tuning: Tuning) -> Timing | None:
    return next((timing for timing in tuning.timings if not timing.schedule), None)
