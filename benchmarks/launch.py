"""What a call costs besides the kernel: import, argument checks, the launch itself, compilation.

    python -m benchmarks.launch [--json FILE] [--check]

The warm call is compared with CuPy's own launch of the same function with the same arguments, in
one process, interleaved, as medians. `--check` exits 1 when a figure is above its gate.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module

import numpy as np

import cutedialect as cute
from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.arguments import ArgumentChecker
from cutedialect.backend.runtime.cupy import gpu_available

_ROUNDS = 21
_CALLS = 200

# Prints milliseconds of `cute.compile` in a fresh process; of the imports only those count that a
# kernel found in the cache would do without.
_FRESH = """
import time
import numpy as np
import cutedialect as cute
import cutedialect.frontend.gemm
a = np.zeros((128, 128), np.float16)
start = time.perf_counter()
kernel = cute.compile(cute.gemm, a, a, arch="sm_80", backend="emulator")
program = time.perf_counter()
{assemble}
print(1e3 * (program - start), 1e3 * (time.perf_counter() - program))
"""


@dataclass(frozen=True)
class Row:
    """One figure; `value` is None where the machine cannot measure it."""

    name: str
    value: float | None
    unit: str
    gate: float | None = None
    note: str = ""

    @property
    def missed(self) -> bool:
        return self.gate is not None and self.value is not None and self.value > self.gate


def import_ms() -> float:
    """`import cutedialect` in a new process, above an empty one."""

    def one(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return 1e3 * (time.perf_counter() - start)

    both = [(one("import cutedialect"), one("pass")) for _ in range(7)]
    return statistics.median(a - b for a, b in both)


def compile_ms(*, warm: bool) -> tuple[float, float]:
    """(to PTX, to cubin) of a GEMM in a fresh process; `warm` starts it on a filled disk cache."""
    script = _FRESH.format(assemble="kernel.cubin" if ptxas.candidates() else "")
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"CUTEDIALECT_CACHE_DIR": folder}
        environment.pop("CUTEDIALECT_NO_CACHE", None)
        if warm:
            _output(script, environment)
        figures = []
        for _ in range(5):
            if not warm:
                environment["CUTEDIALECT_CACHE_DIR"] = tempfile.mkdtemp(dir=folder)
            to_ptx, to_cubin = _output(script, environment).split()
            figures.append((float(to_ptx), float(to_cubin)))
    return (
        statistics.median(to_ptx for to_ptx, _ in figures),
        statistics.median(to_cubin for _, to_cubin in figures),
    )


def checks_us() -> float:
    """Binding the arguments of a GEMM that were seen before: three matrices and a scalar."""
    a = np.zeros((256, 256), np.float16)
    kernel = cute.compile(cute.gemm, a, a, arch="sm_80", backend="emulator")
    checker = ArgumentChecker(kernel.signature)
    arguments = [a, a.copy(), a.copy(), 1.0]
    return _microseconds(lambda: checker.bind(arguments))


def warm_call_us() -> tuple[float, float, float]:
    """(CuPy's own launch, `Kernel.launch` above it, `cute.gemm` above it) on the current GPU."""
    cupy = import_module("cupy")
    a, b, out = (cupy.zeros((128, 128), cupy.float16) for _ in range(3))
    kernel = cute.compile(cute.gemm, a, b)
    kernel.launch(a, b, out, 1.0)
    cute.gemm(a, b, out=out)
    prepared = kernel.prepared(a, b, out, 1.0)
    assert prepared is not None
    ((function, grid, block, smem, packed),) = prepared.launches
    synchronize = cupy.cuda.runtime.deviceSynchronize
    figures = []
    for _ in range(_ROUNDS):
        figures.append(
            (
                _microseconds(lambda: function(grid, block, packed, smem), synchronize),
                _microseconds(lambda: kernel.launch(a, b, out, 1.0), synchronize),
                _microseconds(lambda: cute.gemm(a, b, out=out), synchronize),
            )
        )
    raw = statistics.median(figure[0] for figure in figures)
    above = [statistics.median(f[i] - f[0] for f in figures) for i in (1, 2)]
    return raw, above[0], above[1]


def measure() -> list[Row]:
    """Every figure of this machine."""
    cold, warm = compile_ms(warm=False), compile_ms(warm=True)
    rows = [
        Row("import cutedialect", import_ms(), "ms", 300),
        Row("argument checks of a warm call", checks_us(), "us"),
        Row("GEMM to PTX, cold process", cold[0], "ms", note="imports xdsl and the passes"),
        Row("GEMM to PTX, disk cache", warm[0], "ms", 30),
    ]
    if ptxas.candidates():
        rows.append(Row("PTX to cubin, ptxas", cold[1], "ms"))
        rows.append(Row("PTX to cubin, disk cache", warm[1], "ms", 30))
    names = ("CuPy's own launch", "Kernel.launch above it", "cute.gemm above it")
    figures: tuple[float | None, ...] = (None, None, None)
    note = "no GPU"
    if gpu_available():
        figures, note = warm_call_us(), _device()
    for name, figure, gate in zip(names, figures, (None, 15, 15), strict=True):
        rows.append(Row(name, figure, "us", gate, note))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.launch", description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    options = parser.parse_args()
    rows = measure()
    for row in rows:
        value = "-" if row.value is None else f"{row.value:.1f}"
        gate = "" if row.gate is None else f"<= {row.gate:g}"
        state = "MISSED" if row.missed else row.note
        print(f"{row.name:32} {value:>9} {row.unit:3} {gate:7} {state}".rstrip())
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump([asdict(row) for row in rows], file, indent=1)
    return int(options.check and any(row.missed for row in rows))


def _microseconds(call: Callable[[], object], finish: Callable[[], object] | None = None) -> float:
    """Host time of one call: the best of a few runs of many calls, the GPU not waited for."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(_CALLS):
            call()
        times.append(1e6 * (time.perf_counter() - start) / _CALLS)
        if finish is not None:
            finish()
    return min(times)


def _output(script: str, environment: dict[str, str]) -> str:
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True
    ).stdout


def _device() -> str:
    from cutedialect.backend.runtime.devices import device_name

    return device_name()


if __name__ == "__main__":
    sys.exit(main())
