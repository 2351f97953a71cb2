"""GEMM on the GPU against cuBLAS: correctness against float64, then paired timings in one process.

    python -m benchmarks.gemm [--only REGEX] [--json FILE] [--check]

Random inputs, buffers rotated past L2, cuBLAS (through torch) and ours interleaved, the median of
paired ratios. `--check` exits 1 when a gate is missed.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cutedialect as cute


@dataclass(frozen=True)
class Case:
    """One problem: sizes, type, majors, the schedule and the gate on the ratio to cuBLAS."""

    m: int
    n: int
    k: int
    dtype: str
    majors: str
    schedule: str | None = None
    gate: float | None = None

    @property
    def name(self) -> str:
        size = f"{self.m}^3" if self.m == self.n == self.k else f"{self.m}x{self.n}x{self.k}"
        return f"{size} {self.dtype} {self.majors}"


CASES = (
    Case(8192, 8192, 8192, "bfloat16", "TN", gate=0.5),
    Case(4096, 4096, 4096, "bfloat16", "TN"),
    Case(4096, 4096, 4096, "float16", "TN"),
    Case(4096, 4096, 4096, "bfloat16", "TT"),
    Case(4096, 4096, 4096, "bfloat16", "NN"),
    Case(4096, 4096, 4096, "bfloat16", "NT"),
    Case(2048, 2048, 2048, "bfloat16", "TN"),
    Case(4095, 4097, 4104, "bfloat16", "TN"),
)
_ROUNDS = 15
_L2_BYTES = 50 << 20


def inputs(torch: Any, case: Case, seed: int) -> tuple[Any, Any]:
    """Random a (M,K) and b (K,N) in the majors of the case."""
    generator = torch.Generator("cuda").manual_seed(seed)
    dtype = getattr(torch, case.dtype)

    def one(rows: int, columns: int, last: bool) -> Any:
        shape = (rows, columns) if last else (columns, rows)
        made = torch.randn(shape, generator=generator, device="cuda").to(dtype)
        return made if last else made.T

    return (
        one(case.m, case.k, case.majors[0] == "T"),
        one(case.k, case.n, case.majors[1] == "T"),
    )


def timed(torch: Any, call: Callable[[int], None], repeats: int) -> float:
    """Milliseconds of one call, from queued launches between two events."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for i in range(repeats):
        call(i)
    stop.record()
    stop.synchronize()
    return start.elapsed_time(stop) / repeats


def measure(torch: Any, case: Case) -> dict[str, Any]:
    """Check one case against float64 and time it against cuBLAS."""
    bytes_each = 2 * (case.m * case.k + case.k * case.n + case.m * case.n)
    sets = [inputs(torch, case, seed) for seed in range(max(2, 3 * _L2_BYTES // bytes_each))]
    dtype = getattr(torch, case.dtype)
    outs = [torch.empty(case.m, case.n, dtype=dtype, device="cuda") for _ in sets]
    theirs = [torch.empty_like(out) for out in outs]
    a, b = sets[0]
    cute.gemm(a, b, out=outs[0], schedule=case.schedule)
    torch.matmul(a, b, out=theirs[0])
    rows = slice(0, case.m, max(1, case.m // 64))
    exact = a[rows].double() @ b.double()
    ours_error = (outs[0][rows].double() - exact).abs().max().item()
    their_error = (theirs[0][rows].double() - exact).abs().max().item()

    def run_ours(i: int) -> None:
        at = i % len(sets)
        cute.gemm(*sets[at], out=outs[at], schedule=case.schedule)

    def run_theirs(i: int) -> None:
        at = i % len(sets)
        torch.matmul(*sets[at], out=theirs[at])

    flops = 2 * case.m * case.n * case.k
    repeats = max(3, min(50, int(2e13 // flops)))
    for call in (run_ours, run_theirs):
        timed(torch, call, 3)
    pairs = [
        (timed(torch, run_ours, repeats), timed(torch, run_theirs, repeats)) for _ in range(_ROUNDS)
    ]
    ratio = statistics.median(theirs_ms / ours_ms for ours_ms, theirs_ms in pairs)
    ours_ms = statistics.median(ours for ours, _ in pairs)
    cublas_ms = statistics.median(theirs for _, theirs in pairs)
    return {
        "case": case.name,
        "tflops": flops / ours_ms / 1e9,
        "cublas_tflops": flops / cublas_ms / 1e9,
        "ratio": ratio,
        "gate": case.gate,
        "error": ours_error,
        "cublas_error": their_error,
        "right": ours_error <= 2 * their_error,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gemm", description=__doc__)
    parser.add_argument("--only", help="cases whose name matches a regular expression")
    parser.add_argument("--schedule", help="use this schedule for every case")
    parser.add_argument("--json", help="write the results to a file")
    parser.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    options = parser.parse_args(arguments)
    try:
        import torch
    except ImportError:
        torch = None
    if torch is None or not torch.cuda.is_available():
        print("benchmarks.gemm: expected torch and a CUDA device, got none", file=sys.stderr)
        return 2
    cases = [case for case in CASES if not options.only or re.search(options.only, case.name)]
    results = []
    print(f"{torch.cuda.get_device_name()}; ratio > 1 is faster than cuBLAS")
    print(f"{'case':34} {'TFLOP/s':>8} {'cuBLAS':>8} {'ratio':>6} {'gate':>5}  error/cuBLAS's")
    for number, case in enumerate(cases):
        if sys.stderr.isatty():
            print(f"\r[{number + 1}/{len(cases)}] {case.name}", end="\r", file=sys.stderr)
        if options.schedule:
            case = Case(**(case.__dict__ | {"schedule": options.schedule}))
        row = measure(torch, case)
        results.append(row)
        gate = "" if case.gate is None else f"{case.gate:.2f}"
        print(
            f"{row['case']:34} {row['tflops']:8.1f} {row['cublas_tflops']:8.1f} "
            f"{row['ratio']:6.3f} {gate:>5}  {row['error']:.3g}/{row['cublas_error']:.3g}"
            f"{'' if row['right'] else '  WRONG'}",
            flush=True,
        )
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"gpu": torch.cuda.get_device_name(), "results": results}, file, indent=1)
    missed = [r for r in results if not r["right"] or (r["gate"] and r["ratio"] < r["gate"])]
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
