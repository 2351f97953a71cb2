"""How much less time the interpreter takes than the emulator, on one matrix multiply of f16.

    python -m benchmarks.interpreter [--size N] [--json FILE] [--check]

CPU time of one call each, in turns, the least of some; the kernels are compiled before. `--check`
exits 1 when the tile program of a target is not 50 times faster in the interpreter.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cutedialect as cute
from cutedialect.backend.interpreter import Program
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.choices import Arch

_ROUNDS, _RUNS = 3, 4
_GATE = 50
_TARGETS: tuple[Arch, ...] = ("sm_80", "sm_90a", "sm_100a")
_PROGRAM = "tile program"
_LAST = "cute-assign-warp-roles"


def main(argv: list[str] | None = None) -> int:
    """Measure, print a row for each target and stage, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--size", type=int, default=1024, help="M = N = K; default 1024")
    parser.add_argument("--json", metavar="FILE", help="write the rows")
    parser.add_argument("--check", action="store_true", help="exit 1 when the gate is missed")
    options = parser.parse_args(argv)
    rows = [row for arch in _TARGETS for row in measured(arch, options.size)]
    print(f"cute.gemm of f16, {options.size}^3: CPU seconds, emulator against interpreter")
    for row in rows:
        print("{arch:8} {stage:24} {emulator:8.3f} {interpreter:8.3f} {ratio:6.1f} x".format(**row))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    slow = [row for row in rows if row["stage"] == _PROGRAM and row["ratio"] < _GATE]
    return int(options.check and bool(slow))


def measured(arch: Arch, size: int) -> list[dict[str, Any]]:
    """Rows for the tile program and the last stage of a target."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (size, size)).astype(np.float16) for _ in range(2))
    kernel = cute.compile(cute.gemm, a, b, arch=arch, backend="emulator")
    programs = {_PROGRAM: Program(kernel.traced()), _LAST: Program(_stage(kernel))}
    out, wanted = np.zeros((size, size), np.float16), np.zeros((size, size), np.float16)
    emulated, interpreted = [], {name: [] for name in programs}
    for _ in range(_ROUNDS):
        emulated.append(_seconds(lambda: kernel.launch(a, b, wanted, 1.0)))
        for name, program in programs.items():
            out[...] = 0
            for _ in range(_RUNS):
                taken = _seconds(lambda program=program: program.run([a, b, out, 1.0]))
                interpreted[name].append(taken)
            if not np.array_equal(out, wanted):
                raise RuntimeError(f"expected the emulator's result of the {name}, got another")
    slow = min(emulated)
    return [
        {"arch": arch, "stage": name, "emulator": slow, "interpreter": min(taken),
         "ratio": slow / min(taken)}
        for name, taken in interpreted.items()
    ]  # fmt: skip


def _stage(kernel: Kernel) -> Any:
    """The module after the last pass before loops are scheduled."""
    from xdsl.context import Context

    from cutedialect.passes.cute_to_ptx import pipeline

    module = kernel.traced()
    for step in pipeline(kernel.arch):
        step.apply(Context(), module)
        if step.name == _LAST:
            break
    return module


def _seconds(call: Callable[[], None]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


if __name__ == "__main__":
    sys.exit(main())
