"""What a call costs besides the kernel: import, argument checks, the launch itself, compilation,
and how many kernels lengths ask for.

    python -m benchmarks.launch [--only calls|cupy|compilation|classes] [--seed N] [--json FILE]
                                [--check]

Launches are compared with CuPy's launch of a kernel of one pointer, calls of the library with
torch's, in one process, interleaved, as medians. `cupy` has the same kernels launched by the
driver and through CuPy, of PTX and of machine code, side by side: time of the host and of the GPU.
Each figure is printed, and in the file, once it is taken. Lengths are drawn by the seed, and what a
call asks for is counted, not compiled.
`--check` exits 1 when a figure is above its gate.
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import cycle

import numpy as np

import cutedialect as cute
from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.arguments import ArgumentChecker
from cutedialect.backend.runtime.driver import gpu_available
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.timing import DeviceTimer
from cutedialect.choices import Backend

from .kernel_classes import classes

_ROUNDS = 21
_CALLS = 200
# Microseconds by which a launch with other pointers may be above CuPy's of one pointer.
_ABOVE = 3

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


# Prints, for each operation, milliseconds of its first calls in a process, without the cache and
# without what ptxas takes, or of its compilation where there is no GPU. Each call is the first of a
# fork of a process that has imported all and called nothing: a call ahead writes down which modules
# it imports.
_FIRST = """
import gc, json, os, sys, time
from contextlib import suppress
from importlib import import_module
os.environ["CUTEDIALECT_NO_CACHE"] = "1"
import numpy as np
import ml_dtypes
import cutedialect as cute
from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.driver import gpu_available
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.timing import DeviceTimer
from cutedialect.choices import Backend

def forked(function, *args):
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        with os.fdopen(sink, "w") as file:
            json.dump(function(*args), file)
        os._exit(0)
    os.close(sink)
    with os.fdopen(source) as file:
        answer = file.read()
    os.waitpid(child, 0)
    return json.loads(answer)

def first(operation, options, shape):
    has_gpu = gpu_available()
    if has_gpu:
        arrays = [torch.randn(*shape, dtype=torch.bfloat16, device="cuda") for _ in range(3)]
        torch.cuda.synchronize()
    else:
        arrays = [np.zeros(shape, ml_dtypes.bfloat16) for _ in range(3)]
    arrays = arrays[:2] if operation == "gemm" else arrays
    imported, spent = set(sys.modules), 0.0
    def timed(function):
        def call(*args, **more):
            nonlocal spent
            start = time.perf_counter()
            try:
                return function(*args, **more)
            finally:
                spent += time.perf_counter() - start
        return call
    ptxas.assemble, ptxas.version = timed(ptxas.assemble), timed(ptxas.version)
    function = getattr(cute, operation)
    start = time.perf_counter()
    if has_gpu:
        function(*arrays, **options)
        torch.cuda.synchronize()
    else:
        kernel = cute.compile(function, *arrays, arch="sm_90a", **options)
        if ptxas.candidates():
            kernel.cubin
    figure = 1e3 * (time.perf_counter() - start - spent)
    return figure, sorted(set(sys.modules) - imported)

# No fork may follow a look at the GPU.
if forked(gpu_available):
    import torch
for operation, options, shape in {given}:
    for turn in range({turns} + 1):
        gc.collect()
        gc.freeze()
        figure, names = forked(first, operation, options, shape)
        for name in names:
            with suppress(ImportError):
                import_module(name)
        if turn:
            print(operation, figure, flush=True)
"""
_FIRST_TURNS = 3
# Name, operation, options, shape, and the milliseconds that it may take beside ptxas.
_FIRST_CALLS = (
    ("GEMM", "gemm", {}, (4096, 4096), 150),
    ("attention", "attention", {}, (2, 16, 4096, 128), 300),
    ("causal attention", "attention", {"causal": True}, (2, 16, 4096, 128), 300),
)


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


def first_calls() -> Iterator[Row]:
    """The first calls of operations, without imports and ptxas, each figure as it is taken."""
    given = [(operation, options, shape) for _, operation, options, shape, _ in _FIRST_CALLS]
    script = _FIRST.replace("{given}", repr(given)).replace("{turns}", str(_FIRST_TURNS))
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for name, *_, gate in _FIRST_CALLS:
            figures = [float(process.stdout.readline().split()[1]) for _ in range(_FIRST_TURNS)]
            note = "beside ptxas and imports"
            yield Row(f"first call, {name}", statistics.median(figures), "ms", gate, note)


def checks_us() -> float:
    """Binding the arguments of a GEMM that were seen before: three matrices and a scalar."""
    a = np.zeros((256, 256), np.float16)
    kernel = cute.compile(cute.gemm, a, a, arch="sm_80", backend="emulator")
    checker = ArgumentChecker(kernel.signature)
    arguments = [a, a.copy(), a.copy(), 1.0]
    return _microseconds(lambda: checker.bind(arguments))


# One pointer, nothing done with it: the least that a launch through CuPy costs.
_EMPTY = r"""
extern "C" __global__ void touch(float *x) { }
"""


def launches_us() -> tuple[float, float, float]:
    """(CuPy's launch of a kernel of one pointer, a prepared GEMM again, `Kernel.launch` of it with
    other pointers each time) on the current GPU.
    """
    cupy = import_module("cupy")
    x = cupy.zeros(1, cupy.float32)
    raw = cupy.RawModule(code=_EMPTY).get_function("touch")
    given = (x,)
    a, b = (cupy.zeros((128, 128), cupy.float16) for _ in range(2))
    outs = [cupy.zeros((128, 128), cupy.float16) for _ in range(4)]
    kernel = cute.compile(cute.gemm, a, b)
    prepared = kernel.prepare(a, b, outs[0], 1.0)
    assert prepared is not None
    turns = cycle([(a, b, outs[0]), (b, a, outs[1]), (a, b, outs[2]), (b, a, outs[3])])
    return _medians(
        cupy.cuda.runtime.deviceSynchronize,
        lambda: raw((1,), (32,), given),
        prepared.repeat,
        lambda: kernel.launch(*next(turns), 1.0),
    )  # type: ignore[return-value]


_BACKENDS: tuple[Backend, ...] = ("cuda", "cupy", "cupy-cubin")


def through_cupy() -> Iterator[Row]:
    """A GEMM by each of `_BACKENDS`: host time of `Kernel.launch` with other pointers
    each time and of a prepared launch, and time on the GPU, of the largest problem alone.
    """
    cupy = import_module("cupy")
    random = cupy.random.RandomState(0)

    def drawn(*shape: int) -> object:
        return random.standard_normal(shape, cupy.float32).astype(cupy.float16)

    matrices = [drawn(256, 256) for _ in range(4)]
    large = [drawn(4096, 4096) for _ in range(3)]
    gemm, wide = (cute.compile(cute.gemm, *each[:2]) for each in (matrices, large))
    yield from _side_by_side("GEMM", gemm, [(*matrices[:3], 1.0), (*matrices[1:], 1.0)])
    yield from _on_the_gpu("GEMM 4096^3", wide, (*large, 1.0))


def _side_by_side(name: str, kernel: Kernel, calls: Sequence[tuple[object, ...]]) -> Iterator[Row]:
    """Host times of a kernel's launches by each backend, in turns."""
    cupy = import_module("cupy")
    kernels = [kernel.on(backend) for backend in _BACKENDS]
    launches: list[Callable[[], object]] = []
    for each in kernels:
        turns = cycle(calls)
        launches.append(lambda each=each, turns=turns: each.launch(*next(turns)))
        prepared = each.prepare(*calls[0])
        assert prepared is not None
        launches.append(prepared.repeat)
    figures = _medians(cupy.cuda.runtime.deviceSynchronize, *launches)
    for kind, values in (("launch", figures[::2]), ("launch again", figures[1::2])):
        for backend, value in zip(_BACKENDS, values, strict=True):
            yield Row(f"{name}, {kind}, {backend}", value, "us", note="on the host")


def _on_the_gpu(name: str, kernel: Kernel, arguments: tuple[object, ...]) -> Iterator[Row]:
    """Times of a kernel on the GPU by each backend, in turns."""
    timer = DeviceTimer(check=False)
    prepared = [timer.prepare(kernel.on(backend), arguments) for backend in _BACKENDS]
    rounds = [timer.time(prepared) for _ in range(_ROUNDS)]
    for backend, figures in zip(_BACKENDS, zip(*rounds, strict=True), strict=True):
        yield Row(f"{name}, {backend}", statistics.median(figures), "us", note="on the GPU")


def library_us() -> dict[str, tuple[float, float]]:
    """Host time of calls on torch tensors, ours and torch's, on the current GPU."""
    torch = import_module("torch")
    functional = import_module("torch.nn.functional")
    kind = {"dtype": torch.bfloat16, "device": "cuda"}
    a, b, out = (torch.randn(256, 256, **kind) for _ in range(3))
    q, k, v = (torch.randn(1, 4, 256, 128, **kind) for _ in range(3))
    with torch.no_grad():
        times = _medians(
            torch.cuda.synchronize,
            lambda: cute.gemm(a, b, out=out),
            lambda: torch.matmul(a, b, out=out),
            lambda: cute.gemm(a, b),
            lambda: torch.matmul(a, b),
            lambda: cute.attention(q, k, v),
            lambda: functional.scaled_dot_product_attention(q, k, v),
        )
    names = ("cute.gemm(out=)", "cute.gemm", "cute.attention")
    return dict(zip(names, zip(times[::2], times[1::2], strict=True), strict=True))


def _medians(synchronize: Callable[[], object], *calls: Callable[[], object]) -> tuple[float, ...]:
    """Medians of the host times of calls, each warm, taken in turns."""
    for call in calls:
        call()
    rounds = [[_microseconds(call, synchronize) for call in calls] for _ in range(_ROUNDS)]
    return tuple(statistics.median(figures) for figures in zip(*rounds, strict=True))


def measure(only: str | None = None, seed: int = 0) -> Iterator[Row]:
    """The figures of this machine, each as it is taken: of calls, of launches through CuPy, of
    compilation, of classes of lengths that a seed draws, or all.
    """
    if only in (None, "calls"):
        yield from calls()
    if only in (None, "cupy") and gpu_available() and find_spec("cupy") is not None:
        yield from through_cupy()
    elif only == "cupy":
        yield Row("launches through CuPy", None, "us", note="no GPU, or no CuPy")
    if only in (None, "compilation"):
        yield from compilation()
    if only in (None, "classes"):
        yield from lengths(seed)


def lengths(seed: int) -> Iterator[Row]:
    """Kernels that drawn lengths ask for: each is one of few, which its schedule names."""
    for each in classes(seed):
        note = f"of {each.problems} lengths, {each.schedules} schedules"
        yield Row(f"kernels, {each.name}", each.kernels, "", each.most, note)


def compilation() -> Iterator[Row]:
    """What it costs to import, and to compile what was not compiled before."""
    yield from first_calls()
    yield Row("import cutedialect", import_ms(), "ms", 300)
    cold = compile_ms(warm=False)
    yield Row("GEMM to PTX, cold process", cold[0], "ms", note="imports xdsl and the passes")
    has_ptxas = bool(ptxas.candidates())
    if has_ptxas:
        yield Row("PTX to cubin, ptxas", cold[1], "ms")
    warm = compile_ms(warm=True)
    yield Row("GEMM to PTX, disk cache", warm[0], "ms", 30)
    if has_ptxas:
        yield Row("PTX to cubin, disk cache", warm[1], "ms", 30)


def calls() -> Iterator[Row]:
    """What warm calls cost."""
    yield Row("argument checks of a warm call", checks_us(), "us")
    if not gpu_available():
        yield Row("a launch", None, "us", note="no GPU")
        return
    note = _device()
    if find_spec("torch") is not None:
        for name, (ours, theirs) in library_us().items():
            yield Row(name, ours, "us", theirs, f"torch {theirs:.1f} us")
    if find_spec("cupy") is not None:
        raw, again, other = launches_us()
        yield Row("CuPy's launch of one pointer", raw, "us", note=note)
        yield Row("a prepared launch again", again, "us", raw, note)
        yield Row("Kernel.launch, other pointers", other, "us", raw + _ABOVE, note)


def line(row: Row) -> str:
    """A figure beside its gate."""
    value = "-" if row.value is None else f"{row.value:.1f}"
    gate = "" if row.gate is None else f"<= {row.gate:.3g}"
    state = f"MISSED {row.note}" if row.missed else row.note
    return f"{row.name:32} {value:>9} {row.unit:3} {gate:7} {state}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.launch", description=__doc__)
    parser.add_argument(
        "--only", choices=("calls", "cupy", "compilation", "classes"), help="the rows of one kind"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the lengths")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    options = parser.parse_args()
    rows: list[Row] = []
    for row in measure(options.only, options.seed):
        rows.append(row)
        print(line(row), flush=True)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump([asdict(each) for each in rows], file, indent=1)
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
