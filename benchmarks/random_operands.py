"""Operands on their way drawn by lot: weights of 8 and 4 bits, experts, images and chains of steps
in tile programs; run in the emulator, compared with NumPy, and assembled.

    python -m benchmarks.random_operands [--count N] [--seed S] [--only NUMBER] [--target NAME]
                                         [--form NAME ...] [--start NUMBER] [--assemble]
                                         [--ptxas PATH] [--dry] [--budget SECONDS]

Forms (`operand_draws.FORMS`) have their turns, those that `--form` names or all; no schedule is
drawn, so that a problem is one of the defaults. `--assemble` and `--ptxas` ask assemblers as
`benchmarks.random_gemms` does. `--dry` compiles and assembles, and runs nothing. The exit status is
1 where a problem is wrong, spills, or ends in another error than a refusal, or in one of a kernel
whose synchronization is not proved.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

import numpy as np

import cutedialect as cute

from .operand_draws import FORMS, Draw, Lot
from .random_gemms import KINDS, Release, add_options, assembled_by, refusal, releases
from .random_programs import Outcome

TARGETS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")


def draw(seed: int, number: int, targets: Sequence[str], forms: Sequence[str]) -> tuple[str, Draw]:
    """The problem of this number of a seed, with its target."""
    lot = Lot(np.random.default_rng((seed, number, 2)), "")
    lot.target = lot.one(targets)
    return lot.target, FORMS[forms[number % len(forms)]](lot)


def outcome(
    target: str, problem: Draw, tools: Sequence[Release], runs: bool
) -> tuple[Outcome, str]:
    """What became of a problem, and by which instruction it multiplies."""
    options = {**problem.options, "arch": target, "backend": "emulator"}
    try:
        got = problem.function(*problem.args, **options) if runs else None
        kernel = cute.compile(problem.function, *problem.args, **options)
    except (cute.CompileError, ValueError) as error:
        return refusal(error), ""
    except Exception as error:
        return Outcome("broken", f"{type(error).__name__}: {error}"), ""
    ptx = kernel.ptx
    units = {"tcgen05.mma": "tcgen05", "wgmma.mma": "wgmma", "mma.sync": "mma.sync"}
    unit = next((name for text, name in units.items() if text in ptx), "fma")
    if runs:
        found = problem.outputs[0] if problem.outputs else got
        wrong = found != problem.want.astype(np.float32)
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            why = f"{int(wrong.sum())} of {wrong.size} elements differ, first at {at}: expected "
            return Outcome("wrong", f"{why}{problem.want[at]}, got {found[at]}"), unit
    said = [(release, *assembled_by(kernel, release)) for release in tools]
    for kind in ("wrong", "spills"):
        for release, is_said, why in said:
            if is_said == kind:
                return Outcome(kind, f"ptxas {release.number}: {why}"), unit
    return Outcome("right", ""), unit


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.random_operands",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser, 100, TARGETS)
    parser.add_argument("--form", metavar="NAME", action="append", choices=tuple(FORMS))
    parser.add_argument("--start", metavar="N", type=int, default=0, help="the first one's number")
    options = parser.parse_args(arguments)
    tools = releases(options.ptxas or ()) if options.assemble or options.ptxas else []
    began, kinds, units = time.perf_counter(), Counter[str](), Counter[str]()
    reasons, forms = Counter[str](), options.form or tuple(FORMS)
    numbers = range(options.start, options.start + options.count)
    for number in numbers if options.only is None else [options.only]:
        if options.budget is not None and time.perf_counter() - began > options.budget:
            break
        target, problem = draw(options.seed, number, options.target or TARGETS, forms)
        found, unit = outcome(target, problem, tools, not options.dry)
        kinds[found.kind] += 1
        units[f"{unit} on {target}"] += found.kind == "right"
        if found.kind == "refused":
            reasons[f"refused: {found.pattern}"] += 1
        if found.kind != "right" and (found.kind != "refused" or options.only is not None):
            text = f"{number} {target} {problem.text}\n  {found.kind} {unit}: {found.reason}"
            print(text, flush=True)
    print(f"{sum(kinds.values())} problems in {time.perf_counter() - began:.0f} s")
    print(", ".join(f"{kinds[kind]} {kind}" for kind in KINDS))
    print(", ".join(f"{count} by {unit}" for unit, count in sorted(units.items()) if count))
    for release in tools:
        clean, spills, wrong = (release.said[kind] for kind in ("clean", "spills", "wrong"))
        told = f"{clean} clean, {spills} with spills, {wrong} with warnings or C75xx"
        print(f"ptxas {release.number}: {told} ({release.path})")
    for reason, count in reasons.most_common():
        print(f"  {count:4} {reason}")
    return 1 if kinds["wrong"] or kinds["broken"] or kinds["spills"] else 0


if __name__ == "__main__":
    sys.exit(main())
