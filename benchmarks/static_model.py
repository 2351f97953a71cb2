"""The static model of kernels against an H100: programs drawn by lot, their cycles measured and
predicted.

    python -m benchmarks.static_model [--seed S] [--count N] [--kind NAME] [--out FILE]

A third of the draws multiply matrices, a third are attention, a third stream rows. Cycles are those
of an SM's own counter (%clock64) between a kernel of one CTA on each SM in front of a batch of
launches and another one behind it, so that the device may change its clock. Every constant of the
model was set by hand or fitted to seeds 2 to 4; others are held out. `--out` adds one JSON line for
each draw.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

from cutedialect.backend.runtime.streams import cupy_stream
from cutedialect.model import H100, Device, Prediction, predict
from cutedialect.schedule import Schedule
from cutedialect.tools.model_command import packed, parsed

from .attention_case import Attention
from .case import Case
from .gemm_case import Gemm
from .inputs import rotation
from .streaming_case import Streaming
from .timing import Plan, launches_for, make_batches

KINDS = ("gemm", "attention", "streaming")
_ARCH = "sm_90a"
_ROUNDS = 5
_TOLERANCE = 0.15
# Hz: what a device that counts nanoseconds coarsely may seem to exceed.
_FASTEST = 1.98e9
_WORKERS = 14
_WORKLOADS = ("add", "SwiGLU", "RMSNorm", "softmax", "layer norm", "cast")
# Elements of the largest and of the least matrix that is streamed.
_ELEMENTS = (1 << 24, 1 << 27)
# Bytes of shared memory of a CTA that leave no room for another one.
_ALONE = 120 << 10
_TICK = r"""
extern "C" __global__ void tick(unsigned long long* out) {
  if (threadIdx.x == 0) {
    unsigned sm;
    unsigned long long time;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    out[2 * sm] = clock64();
    out[2 * sm + 1] = time;
  }
}
"""


@dataclass(frozen=True)
class Measured:
    """Cycles of one launch, and the clock of the SMs meanwhile in Hz."""

    cycles: float
    clock: float


def drawn(seed: int, count: int, kinds: Sequence[str] = KINDS) -> list[Case]:
    """So many cases of a seed, of each kind in turn."""
    return [
        _DRAWS[kinds[number % len(kinds)]](random.Random(f"{seed} {number}"))
        for number in range(count)
    ]


def _gemm(rng: random.Random) -> Case:
    dtype = rng.choice(("bf16", "bf16", "f16", "e4m3"))
    m, n = (_extent(rng, 256, 8192, 64) for _ in range(2))
    return Gemm("drawn", dtype, (m, n, _extent(rng, 256, 8192, 64)))


def _attention(rng: random.Random) -> Case:
    rows = _extent(rng, 512, 8192, 128)
    most = max(1, 65536 // rows)
    return Attention(
        "drawn",
        rng.choice(("bf16", "f16")),
        batch=1,
        heads=(heads := _extent(rng, 4, max(4, min(64, most)), 1), heads),
        rows=rows,
        keys=rows,
        depth=rng.choice((64, 128, 128)),
        causal=rng.random() < 0.5,
    )


def _streaming(rng: random.Random) -> Case:
    columns = _extent(rng, 512, 16384, 64)
    rows = _extent(rng, _ELEMENTS[0] // columns, _ELEMENTS[1] // columns, 1)
    return Streaming("drawn", "bf16", workload=rng.choice(_WORKLOADS), shape=(rows, columns))


_DRAWS = {"gemm": _gemm, "attention": _attention, "streaming": _streaming}


def _extent(rng: random.Random, low: int, high: int, step: int) -> int:
    """A multiple of a step, whose logarithm is equally likely all over its range."""
    value = low * (high / low) ** rng.random()
    return max(step, round(value / step) * step)


class Ticks:
    """Reads the counters of all SMs between launches."""

    def __init__(self, torch: Any) -> None:
        import cupy  # pyright: ignore[reportMissingImports]

        self.torch, self.cupy = torch, cupy
        self.count = torch.cuda.get_device_properties(0).multi_processor_count
        self.kernel = cupy.RawKernel(_TICK, "tick")
        self.kernel.max_dynamic_shared_size_bytes = _ALONE

    def read(self) -> Any:
        """Queue a reading; (count, 2) numbers: cycles and nanoseconds of each SM, later."""
        out = self.torch.zeros((self.count, 2), dtype=self.torch.int64, device="cuda")
        stream = cupy_stream(self.torch.cuda.current_stream())
        pointer = self.cupy.uint64(out.data_ptr())
        self.kernel((self.count,), (32,), (pointer,), shared_mem=_ALONE, stream=stream)
        return out


def measured(torch: Any, case: Case, ticks: Ticks, plan: Plan) -> Measured:
    """The median of some batches of launches, each over operands that L2 does not hold."""
    count = min(rotation(torch, case), launches_for(case, plan))
    sets = [case.make_operands(torch, seed) for seed in range(count)]
    call = case.ours(None)
    for each in sets:
        call(each)
    torch.cuda.synchronize()
    (batch,) = make_batches(torch, [call], sets, launches_for(case, plan))
    batch.run()
    marks = []
    for _ in range(_ROUNDS):
        if not batch.captured:
            torch.cuda._sleep(batch.cycles)
        before = ticks.read()
        batch.run()
        marks.append((before, ticks.read()))
    torch.cuda.synchronize()
    found: list[tuple[float, float]] = []
    for before, after in marks:
        past = (after - before)[(before[:, 0] != 0) & (after[:, 0] != 0)].double().cpu()
        cycles, seconds = past[:, 0].median().item(), past[:, 1].median().item() * 1e-9
        found.append((cycles / batch.launches, cycles / seconds))
    return Measured(*(statistics.median(part) for part in zip(*found, strict=True)))


def predicted(case: Case, device: Device | None = None, arch: str = _ARCH) -> Prediction:
    """What the model says of a case with its default schedule."""
    kernel = case.compiled(None, arch)
    return predict(parsed(kernel.stages["convert-to-ptx"]), arguments_of(case, kernel), device)


def arguments_of(case: Case, kernel: Any) -> list[Any]:
    """Shape and strides of each tensor of a case's launch, and a number for each scalar."""
    if isinstance(case, Streaming):
        return [
            _laid_out(tuple(spec.shape), spec.strides) if hasattr(spec, "shape") else spec
            for spec in case.specs()
        ]
    shapes: dict[str, Any] = {}
    if isinstance(case, Gemm):
        m, n, k = case.sizes
        shapes = {"A": (m, k), "B": (k, n), "D": (m, n)}
    elif isinstance(case, Attention):
        of_q, of_k = case.shapes
        shapes = {"Q": of_q, "K": of_k, "V": of_k, "out": (*of_q[:-1], case.v_depth)}
    laid = {name: _laid_out(shape, None) for name, shape in shapes.items()}
    if isinstance(case, Gemm):
        if case.majors[1] == "N":
            laid["B"] = _laid_out(shapes["B"], (1, shapes["B"][0]))
        if Schedule.parse(kernel.schedule).swap_ab == "yes":
            laid = {"A": _turned(laid["B"]), "B": _turned(laid["A"]), "D": _turned(laid["D"])}
    # Of scalars the width of a mask to the right decides how much is done: causal ones have 0.
    return [laid.get(parameter.name, 0) for parameter in kernel.signature.parameters]


def _turned(tensor: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """The shape and strides of a matrix's transpose."""
    return tuple(part[::-1] for part in tensor)


def _laid_out(shape: tuple[int, ...], strides: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A shape with its strides, those of a tensor without gaps where none are given."""
    full = packed(shape)
    given = full if strides is None else strides
    return shape, tuple(step if one is None else one for one, step in zip(given, full, strict=True))


def _compiled(case: Case) -> str:
    """Assemble a case's kernel for the disk cache; what went wrong."""
    try:
        _ = case.compiled(None, _ARCH).cubin
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.static_model",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", metavar="S", type=int, default=2, help="which draws (default 2)")
    parser.add_argument("--count", metavar="N", type=int, default=30, help="so many draws")
    parser.add_argument("--kind", action="append", choices=KINDS, help="of these kinds alone")
    parser.add_argument("--out", metavar="FILE", help="add JSON lines to a file")
    parser.add_argument("--budget", metavar="SECONDS", type=float, help="measure no longer")
    options = parser.parse_args(arguments)
    import torch  # pyright: ignore[reportMissingImports]

    began = time.perf_counter()
    cases = drawn(options.seed, options.count, options.kind or KINDS)
    # Workers that are forked would take over a device that this process uses.
    spawning = get_context("spawn")
    with ProcessPoolExecutor(_WORKERS, spawning) as pool:
        failures = list(pool.map(_compiled, cases))
    print(f"compiled {len(cases)} kernels in {time.perf_counter() - began:.0f} s", flush=True)
    ticks, plan = Ticks(torch), Plan(batch_ms=8.0)
    cycles: dict[int, Measured] = {}
    for number, (case, failure) in enumerate(zip(cases, failures, strict=True)):
        if options.budget is not None and time.perf_counter() - began > options.budget:
            break
        try:
            if failure:
                raise RuntimeError(failure)
            found = cycles[number] = measured(torch, case, ticks, plan)
            print(f"{case.kind:10} {case.name:40} {found.cycles:10.0f} cycles", flush=True)
        except Exception as error:
            print(f"{case.name}: {error}", flush=True)
    print(f"measured {len(cycles)} in {time.perf_counter() - began:.0f} s", flush=True)
    tasks = [(cases[number], found.clock) for number, found in cycles.items()]
    errors: dict[str, list[float]] = {}
    with ProcessPoolExecutor(_WORKERS, spawning) as pool:
        for (number, found), said in zip(
            cycles.items(), pool.map(_predicted_cycles, tasks), strict=True
        ):
            _show(cases[number], found, said, errors, options)
    for kind, each in errors.items():
        within = sum(abs(error) <= _TOLERANCE for error in each)
        print(
            f"{kind}: {within} of {len(each)} within {_TOLERANCE:.0%}, mean error "
            f"{statistics.mean(map(abs, each)):.1%}, largest {max(map(abs, each)):.0%}"
        )
    return 0


def _predicted_cycles(task: tuple[Case, float]) -> float:
    """The prediction at a clock; 0 for none."""
    case, clock = task
    try:
        return predicted(case, replace(H100, clock=min(clock, _FASTEST))).cycles
    except Exception as error:
        print(f"{case.name}: {type(error).__name__}: {error}", flush=True)
        return 0.0


def _show(
    case: Case, found: Measured, said: float, errors: dict[str, list[float]], options: Any
) -> None:
    """Print a row, and add it to the file and to the errors of its kind."""
    error = said / found.cycles - 1
    errors.setdefault(case.kind, []).append(error)
    print(f"{case.kind:10} {case.name:40} {found.cycles:10.0f} cycles at {found.clock / 1e6:.0f} "
          f"MHz, predicted {said:10.0f}, {error:+.1%}", flush=True)  # fmt: skip
    if options.out:
        row = {"seed": options.seed, "kind": case.kind, "name": case.name}
        row |= {"cycles": found.cycles, "clock": found.clock, "predicted": said}
        with open(options.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    sys.exit(main())
