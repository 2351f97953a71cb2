"""A multilayer perceptron and attention that several devices share, against one of them: by torch's
DTensor, a process a device (NCCL, gloo on CPUs), and by JAX, one process (`shard_map` and `jit`).

    python -m benchmarks.tensor_parallel [--only torch|jax] [--device cuda|cpu] [--count N]
                                         [--json FILE]

Columns of the first weight and rows of the second one are parted, heads of attention with the keys
that they share; the communication is torch's and JAX's. Each result is held against the same in
float32 on one device. On GPUs calls are timed that follow each other, beside those of torch's own
operators in the same places; on CPUs small shapes run in the emulator, untimed. Exits 1 where a
result is wrong, or where an engine ended without figures, whose last lines of errors are shown.
"""

# torch and JAX are no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_WARM, _TIMED = 5, 20
# Largest difference to float32, as a part of the largest result: a rank's sum is rounded to 16 bits
# before it is added to the others.
_TOLERANCE = 2e-2
# Lines of errors of an engine that ended without figures: a traceback's innermost frames.
_SHOWN_LINES = 12


@dataclass(frozen=True)
class Shapes:
    """Tokens, what a layer has for each, and heads of queries and of keys."""

    tokens: int
    width: int
    hidden: int
    heads: int
    key_heads: int
    columns: int

    def work(self, case: str) -> float:
        """Floating-point operations of a case."""
        if case == "mlp":
            return 4.0 * self.tokens * self.width * self.hidden
        inner = self.heads * self.columns
        products = 2.0 * self.tokens * self.width * 2 * (inner + self.key_heads * self.columns)
        return products + 2.0 * self.tokens * self.tokens * inner  # causal


LARGE = Shapes(8192, 4096, 14336, 32, 8, 128)
SMALL = Shapes(32, 32, 48, 4, 2, 16)


@dataclass(frozen=True)
class Figure:
    """A case: the largest difference to float32 on one device and on all of them, and milliseconds
    (None where nothing is timed).
    """

    engine: str
    case: str
    devices: int
    one_error: float
    all_error: float
    one_ms: float | None = None
    all_ms: float | None = None
    work: float = 0

    @property
    def is_right(self) -> bool:
        """Whether both are as exact as 16 bits are."""
        return max(self.one_error, self.all_error) <= _TOLERANCE

    def line(self) -> str:
        """For people."""
        text = f"{self.engine:14} {self.case:10} error {self.one_error:.1e} on one, "
        text += f"{self.all_error:.1e} on {self.devices}"
        if self.one_ms is not None and self.all_ms is not None:
            rates = ", ".join(
                f"{ms:.3f} ms ({1e-9 * self.work / ms:.0f} TFLOP/s) on {count}"
                for count, ms in ((1, self.one_ms), (self.devices, self.all_ms))
            )
            text += f"; {rates}, {self.one_ms / self.all_ms:.2f} times as fast"
        return text + ("" if self.is_right else "  WRONG")


def mlp(product: Callable[..., Any], x: Any, up: Any, down: Any) -> Any:
    """Two products with a gelu between them."""
    return product(product(x, up, activation="gelu"), down)


def attended(
    product: Callable[..., Any], attention: Callable[..., Any], shapes: Shapes, *given: Any
) -> Any:
    """A block of attention: products into queries, keys and values, and of what heads found."""
    x, *inner, last = given
    q, k, v = (
        product(x, weight).reshape(x.shape[0], heads, shapes.columns).swapaxes(0, 1)[None]
        for weight, heads in zip(
            inner, (shapes.heads, shapes.key_heads, shapes.key_heads), strict=True
        )
    )
    found = attention(q, k, v, causal=True)[0].swapaxes(0, 1)
    return product(found.reshape(x.shape[0], -1), last)


def torch_figures(device: str, count: int) -> list[Figure]:
    """One process for each device."""
    import torch

    with tempfile.TemporaryDirectory() as folder:
        meeting, told = (Path(folder, name) for name in ("meeting", "told.json"))
        torch.multiprocessing.spawn(  # type: ignore[attr-defined]
            _torch_rank, (count, device, str(meeting), str(told)), nprocs=count
        )
        return [Figure(**each) for each in json.loads(told.read_text())]


def _torch_rank(rank: int, count: int, device: str, meeting: str, told: str) -> None:
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    import cutedialect.torch as ct

    is_gpu = device == "cuda"
    shapes = LARGE if is_gpu else SMALL
    if is_gpu:
        torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl" if is_gpu else "gloo", init_method=f"file://{meeting}", rank=rank, world_size=count
    )
    mesh = init_device_mesh(device, (count,))
    made = torch.Generator(device).manual_seed(0)  # the same on all ranks
    dtype = torch.bfloat16 if is_gpu else torch.float16

    def drawn(*shape: int) -> Any:
        scale = shape[0] ** -0.5 if shape[0] != shapes.tokens else 1.0
        return (torch.randn(shape, generator=made, device=device) * scale).to(dtype)

    def parted(array: Any, mode: int | None) -> Any:
        return distribute_tensor(array, mesh, [Replicate() if mode is None else Shard(mode)])

    def whole(array: Any) -> Any:
        """A result on all ranks."""
        return array.redistribute(mesh, [Replicate()]) if hasattr(array, "redistribute") else array

    def error(result: Any, wanted: Any) -> float:
        local = result.to_local() if hasattr(result, "to_local") else result
        return float((local.float() - wanted).abs().max() / wanted.abs().max())

    def torch_product(a: Any, b: Any, activation: str | None = None) -> Any:
        result = a @ b
        return result if activation is None else torch.nn.functional.gelu(result)

    def torch_attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=True
        )

    inner, keys = shapes.heads * shapes.columns, shapes.key_heads * shapes.columns
    x = drawn(shapes.tokens, shapes.width)
    weights = {
        "mlp": ((drawn(shapes.width, shapes.hidden), drawn(shapes.hidden, shapes.width)), (1, 0)),
        "attention": (
            (
                drawn(shapes.width, inner), drawn(shapes.width, keys), drawn(shapes.width, keys),
                drawn(inner, shapes.width),
            ),
            (1, 1, 1, 0),
        ),
    }  # fmt: skip
    engines: dict[str, tuple[Any, Any]] = {"ours, torch": (ct.gemm, ct.attention)}
    if is_gpu:
        engines["torch"] = torch_product, torch_attention
    figures: list[Figure] = []
    for case, (arrays, modes) in weights.items():
        placed = [parted(array, mode) for array, mode in zip(arrays, modes, strict=True)]
        everywhere = parted(x, None)

        def run(product: Any, attention: Any, *given: Any, case: str = case) -> Any:
            if case == "mlp":
                return whole(mlp(product, *given))
            return whole(attended(product, attention, shapes, *given))

        wanted = run(torch_product, torch_attention, x.float(), *(w.float() for w in arrays))
        for engine, operators in engines.items():
            with torch.no_grad():
                one, together = (
                    error(run(*operators, *given), wanted)
                    for given in ((x, *arrays), (everywhere, *placed))
                )
                times: list[float | None] = [None, None]
                if is_gpu:
                    times = [
                        _torch_ms(lambda given=given, run=run, ops=operators: run(*ops, *given))
                        for given in ((x, *arrays), (everywhere, *placed))
                    ]
            figures.append(
                Figure(engine, case, count, one, together, *times, work=shapes.work(case))
            )
    if rank == 0:
        Path(told).write_text(json.dumps([asdict(figure) for figure in figures]))
    dist.barrier()
    dist.destroy_process_group()


def _torch_ms(call: Callable[[], Any]) -> float:
    """Milliseconds of a call among calls that follow each other, all ranks at once."""
    import torch

    for _ in range(_WARM):
        call()
    torch.distributed.barrier()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(_TIMED):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / _TIMED


def jax_figures(device: str, count: int) -> list[Figure]:
    """One process that has all devices, which JAX was told of before it was imported."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import cutedialect.jax as cj

    is_gpu = device == "cuda"
    shapes = LARGE if is_gpu else SMALL
    devices = jax.devices()[:count]
    if len(devices) < count:
        raise ValueError(f"expected {count} devices of JAX, got {len(devices)}")
    mesh = Mesh(np.array(devices), ("x",))
    dtype = jnp.bfloat16 if is_gpu else jnp.float16
    keys = iter(jax.random.split(jax.random.key(0), 8))

    def drawn(*shape: int) -> Any:
        scale = shape[0] ** -0.5 if shape[0] != shapes.tokens else 1.0
        return (jax.random.normal(next(keys), shape) * scale).astype(dtype)

    def plain_product(a: Any, b: Any, activation: str | None = None) -> Any:
        result = jnp.matmul(a, b, precision="highest")
        return result if activation is None else jax.nn.gelu(result, approximate=False)

    def plain_attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
        return jax.nn.dot_product_attention(q, k, v, is_causal=causal).swapaxes(1, 2)

    x = drawn(shapes.tokens, shapes.width)
    inner, shared = shapes.heads * shapes.columns, shapes.key_heads * shapes.columns
    weights = {
        "mlp": [drawn(shapes.width, shapes.hidden), drawn(shapes.hidden, shapes.width)],
        "attention": [
            drawn(shapes.width, inner), drawn(shapes.width, shared), drawn(shapes.width, shared),
            drawn(inner, shapes.width),
        ],
    }  # fmt: skip
    # A rank of shard_map has its own heads.
    part = Shapes(**asdict(shapes) | {
        "heads": shapes.heads // count, "key_heads": shapes.key_heads // count,
    })  # fmt: skip
    figures: list[Figure] = []
    for case, arrays in weights.items():

        def run(product: Any, attention: Any, heads: Shapes, *given: Any, case: str = case) -> Any:
            if case == "mlp":
                return mlp(product, *given)
            return attended(product, attention, heads, *given)

        def ours(*given: Any, run: Any = run) -> Any:
            return run(cj.gemm, cj.attention, shapes, *given)

        def of_a_rank(*given: Any, run: Any = run) -> Any:
            return jax.lax.psum(run(cj.gemm, cj.attention, part, *given), "x")

        columns, rows = PartitionSpec(None, "x"), PartitionSpec("x", None)
        specs = [*[columns] * (len(arrays) - 1), rows]
        placed = [
            jax.device_put(array, NamedSharding(mesh, spec))
            for array, spec in zip(arrays, specs, strict=True)
        ]
        everywhere = jax.device_put(x, NamedSharding(mesh, PartitionSpec()))
        mapped = jax.shard_map(
            of_a_rank, mesh=mesh, in_specs=(PartitionSpec(), *specs), out_specs=PartitionSpec(),
            check_vma=False,
        )  # fmt: skip
        wanted = np.asarray(
            jax.jit(lambda *given, run=run: run(plain_product, plain_attention, shapes, *given))(
                x.astype(jnp.float32), *(w.astype(jnp.float32) for w in arrays)
            )
        )
        one = jax.jit(ours)
        one_error, one_ms = _jax_figure(one, (x, *arrays), wanted, is_gpu)
        for engine, call in (("ours, shard_map", jax.jit(mapped)), ("ours, jit", one)):
            all_error, all_ms = _jax_figure(call, (everywhere, *placed), wanted, is_gpu)
            figures.append(
                Figure(engine, case, count, one_error, all_error, one_ms, all_ms, shapes.work(case))
            )
    return figures


def _jax_figure(
    call: Callable[..., Any], arrays: tuple[Any, ...], wanted: Any, is_gpu: bool
) -> tuple[float, float | None]:
    """The largest difference of a call, and its milliseconds among calls that follow each other."""
    import numpy as np

    result = np.asarray(call(*arrays)).astype(np.float32)
    error = float(np.abs(result - wanted).max() / np.abs(wanted).max())
    if not is_gpu:
        return error, None
    for _ in range(_WARM):
        last = call(*arrays)
    last.block_until_ready()
    started = time.perf_counter()
    for _ in range(_TIMED):
        last = call(*arrays)
    last.block_until_ready()
    return error, 1e3 * (time.perf_counter() - started) / _TIMED


@dataclass(frozen=True)
class EngineRun:
    """The figures of an engine, or without any why there are none."""

    figures: tuple[Figure, ...] = ()
    failure: str = ""


def run_engine(engine: str, device: str, count: int) -> EngineRun:
    """An engine in a process of its own: JAX reads its devices when it is imported, and either
    engine would keep memory that the other one needs.
    """
    environment = dict(os.environ)
    if device == "cpu":
        environment["CUTEDIALECT_BACKEND"] = "emulator"
        environment["JAX_PLATFORMS"] = "cpu"
        flags = environment.get("XLA_FLAGS", "")
        environment["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={count}".strip()
    else:
        environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "figures.json")
        words = [sys.executable, "-m", __spec__.name, "--engine", engine, "--json", str(file)]
        words += ["--device", device, "--count", str(count)]
        done = subprocess.run(
            words, env=environment, stderr=subprocess.PIPE, text=True, errors="replace", check=False
        )
        if file.is_file():
            figures = json.loads(file.read_text())["figures"]
            return EngineRun(tuple(Figure(**figure) for figure in figures))
    lines = done.stderr.strip().splitlines()[-_SHOWN_LINES:]
    text = f"{engine}: expected figures, got none; it ended with {_ending(done.returncode)}"
    return EngineRun(failure="\n  ".join([text, *lines]))


def _ending(code: int) -> str:
    """A return code in words: a signal by its name."""
    if code >= 0:
        return f"return code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def main() -> int:
    """Run; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=("torch", "jax"))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--count", type=int, default=2, help="devices")
    parser.add_argument("--json", type=Path, help="write the figures to a file, too")
    parser.add_argument("--engine", choices=("torch", "jax"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    failures: list[str] = []
    if options.engine is not None:
        engines = {"torch": torch_figures, "jax": jax_figures}
        figures = engines[options.engine](options.device, options.count)
    else:
        figures = []
        for engine in ("torch", "jax") if options.only is None else (options.only,):
            run = run_engine(engine, options.device, options.count)
            print("\n".join(figure.line() for figure in run.figures) or run.failure, flush=True)
            figures += run.figures
            failures += [run.failure] if run.failure else []
    if options.json is not None:
        document = {"device": options.device, "figures": [asdict(figure) for figure in figures]}
        options.json.write_text(json.dumps(document | {"failures": failures}, indent=1))
    return 0 if not failures and all(figure.is_right for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
