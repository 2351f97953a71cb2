"""Figures that need no GPU: compile time, op counts, import time, emulation, bank conflicts.

    python -m benchmarks.budgets [--json FILE] [--check]

`--check` exits 1 when a figure is above its gate.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

SCHEDULE = "tile = (128,128,32), warps = (2,2), stages = 3"


def compile_ms() -> float:
    """Program to PTX of an fp16 GEMM with bias, imports and caches excluded."""
    from cutedialect.frontend.dtypes import f32
    from cutedialect.frontend.kernel import ScalarSpec, TensorSpec
    from cutedialect.frontend.launch import lower
    from cutedialect.frontend.library.gemm import program_for
    from cutedialect.schedule import Schedule

    matrix, vector = TensorSpec((None, None), "f16"), TensorSpec((None,), "f16")
    given = {"A": matrix, "B": matrix, "bias": vector, "D": matrix, "alpha": ScalarSpec(f32)}
    schedule = Schedule.parse(SCHEDULE)
    times = []
    for _ in range(7):
        program = program_for.__wrapped__("relu")
        specs = [given.get(name) for name in program.parameters]
        start = time.perf_counter()
        lower(program.trace(specs, None, schedule), "gemm", "sm_80")
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


# The first compilation imports what any later one needs.
_COLD = """
import time
import cutedialect as cute
def compiled(extent, dtype, arch):
    a = cute.TensorSpec((extent, extent), dtype, (None, 1))
    b = cute.TensorSpec((extent, extent), dtype, (1, None))
    return cute.compile(cute.gemm, a, b, arch=arch).cubin
compiled(256, "f16", "sm_80")
start = time.perf_counter()
compiled(4096, "bf16", "sm_90a")
print(1e3 * (time.perf_counter() - start))
"""


_COLD_ATTENTION = """
import time
import cutedialect as cute
def compiled(depth):
    x = cute.TensorSpec((4, 16, 4096, depth), "bf16")
    return cute.compile(cute.attention, x, x, x, causal=True, arch="sm_90a").ptx
compiled(64)
start = time.perf_counter()
compiled(128)
print(1e3 * (time.perf_counter() - start))
"""


_COLD_BLACKWELL = """
import time
import cutedialect as cute
def compiled(extent):
    a = cute.TensorSpec((extent, extent), "bf16", (None, 1))
    b = cute.TensorSpec((extent, extent), "bf16", (1, None))
    return cute.compile(cute.gemm, a, b, arch="sm_100a", backend="emulator").ptx
compiled(256)
start = time.perf_counter()
compiled(4096)
print(1e3 * (time.perf_counter() - start))
"""


def blackwell_ms() -> float:
    """Tile program to PTX of a Blackwell GEMM by CTA pairs, without the disk cache and imports."""
    return _printed(_COLD_BLACKWELL)


def cold_cubin_ms() -> float:
    """Tile program to cubin of a Hopper GEMM, the disk cache off, imports excluded."""
    return _printed(_COLD)


def attention_ms() -> float:
    """Tile program to PTX of causal Hopper attention, D = 128, the disk cache off, imports
    excluded.
    """
    return _printed(_COLD_ATTENTION)


def _printed(script: str) -> float:
    """What a script prints in processes of its own, without the disk cache: the median."""
    environment = os.environ | {"CUTEDIALECT_NO_CACHE": "1"}
    return statistics.median(
        float(subprocess.check_output([sys.executable, "-c", script], env=environment))
        for _ in range(5)
    )


def last_stage_ops() -> float:
    """Ops of the ptx dialect of that GEMM."""
    import cutedialect as cute

    a = np.empty((256, 256), np.float16)
    kernel = cute.compile(cute.gemm, a, a, schedule=SCHEDULE, arch="sm_80")
    return float(sum(kernel.program.ops.values()))


def last_stage_attention_ops() -> float:
    """Ops of the ptx dialect of causal Hopper attention, D = 128."""
    import cutedialect as cute

    x = cute.TensorSpec((4, 16, 4096, 128), "bf16")
    kernel = cute.compile(cute.attention, x, x, x, causal=True, arch="sm_90a")
    return float(sum(kernel.program.ops.values()))


def import_ms() -> float:
    """`import cutedialect` in a new process, above an empty one."""

    def one(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return 1e3 * (time.perf_counter() - start)

    both = [(one("import cutedialect"), one("pass")) for _ in range(9)]
    return statistics.median(a for a, _ in both) - statistics.median(b for _, b in both)


def emulated_seconds() -> float:
    """A 256^3 fp16 GEMM with 128x128x32 tiles in the emulator."""
    import cutedialect as cute

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (256, 256)).astype(np.float16) for _ in range(2))
    kernel = cute.compile(cute.gemm, a, b, schedule=SCHEDULE, arch="sm_80", backend="emulator")
    out = np.empty((256, 256), np.float16)
    start = time.perf_counter()
    kernel.launch(a, b, out, np.float32(1))
    seconds = time.perf_counter() - start
    assert np.array_equal(out, a.astype(np.float64) @ b.astype(np.float64))
    return seconds


def extra_wavefronts() -> float:
    """Shared-memory wavefronts beyond the minimum, emulated, over all four majors."""
    import cutedialect as cute

    total = 0
    for majors in ("TN", "TT", "NN", "NT"):
        a, b = (np.ones((256, 256), np.float16) for _ in range(2))
        a = a if majors[0] == "T" else a.T
        b = b if majors[1] == "T" else b.T
        kernel = cute.compile(cute.gemm, a, b, schedule=SCHEDULE, arch="sm_80", backend="emulator")
        kernel.launch(a, b, np.empty((256, 256), np.float16), np.float32(1))
        for report in kernel.reports:
            total += report.bank_conflicts
    return float(total)


# Name, unit, gate, goal (None: the gate), and the function that measures it.
FIGURES: tuple[tuple[str, str, float, float | None, Callable[[], float]], ...] = (
    ("program to PTX, GEMM", "ms", 150, None, compile_ms),
    ("program to PTX, Blackwell GEMM by CTA pairs", "ms", 150, None, blackwell_ms),
    ("program to cubin, Hopper GEMM", "ms", 500, None, cold_cubin_ms),
    ("IR at the last stage, GEMM", "ops", 500, None, last_stage_ops),
    ("program to PTX, causal Hopper attention", "ms", 300, 200, attention_ms),
    ("IR at the last stage, causal Hopper attention", "ops", 800, None, last_stage_attention_ops),
    ("import cutedialect", "ms", 300, None, import_ms),
    ("emulated 256^3 fp16 GEMM, tile 128x128x32", "s", 5, None, emulated_seconds),
    ("shared wavefronts beyond the minimum, 16-bit GEMMs", "", 0, None, extra_wavefronts),
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.budgets", description=__doc__)
    parser.add_argument("--json", help="write the results to a file")
    parser.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    options = parser.parse_args(arguments)
    results = []
    for name, unit, gate, goal, figure in FIGURES:
        value = figure()
        results.append({"figure": name, "unit": unit, "value": value, "gate": gate, "goal": goal})
        aim = "" if goal is None else f", goal {goal:g}"
        missed = "  MISSED" if value > gate else ""
        print(f"{name:52} {value:9.2f} {unit:4} (at most {gate:g}{aim}){missed}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
    missed = [r for r in results if r["value"] > r["gate"]]
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
