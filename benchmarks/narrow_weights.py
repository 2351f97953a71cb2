"""Products of bf16 by weights of 8 and 4 bits, as a user writes them, beside cuBLAS with weights of
bf16, on this machine's GPU.

    python -m benchmarks.narrow_weights [--rows N ...] [--shape N K] [--only REGEX] [--rounds N]
                                        [--json FILE]
    python -m benchmarks.narrow_weights --drawn SEED [--layers N] [--sections REGEX] [--only REGEX]
                                        [--rounds N]

Every program is timed with each of its tiles (`TILES`), and a row of the table has the fastest one.
Launches are CUDA graphs over operands that rotate past three times L2, ours and cuBLAS interleaved;
a ratio is cuBLAS's GPU time over ours, the median of the rounds. The error is the largest one of
512 columns against f64. "of memory" is the time in which weights, rows and results alone would move
at 4.8 TB/s, over ours.

With `--drawn` calls of `cute.gemm` are timed as they are, for drawn layers (`narrow_layers.py`).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import cutedialect as cute

from . import narrow_layers
from .timing import Plan, interleave, make_batches
from .torch_gpu import torch_on_gpu

ROWS = (16, 64, 256, 4096)
SHAPE = (8192, 8192)
# Bytes past which operands rotate: three times the L2 of an H200. Bytes a second of its memory.
_ROTATED, _RATE = 3 * (50 << 20), 4.8e12
_LAUNCHES = 60
MOST_ERROR = 1e-2


@cute.kernel
def eight_bits(W, X, scale, Y, *, tile=(128, 64, 64)):
    """Y = X W^T of int8 weights (N, K), each row of which has a scale."""
    bn, bm, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    w = cute.local_tile(W, (bn, bk), (n, None))
    x = cute.local_tile(X, (bm, bk), (m, None))
    acc = cute.zeros((bn, bm), cute.f32)
    for k in cute.range(w.tiles):
        cute.gemm(w[k].load().to(X.dtype), x[k].T, acc)
    out = acc * cute.column_vector(scale, n, bn)
    cute.copy(out.to(Y.dtype).T, cute.local_tile(Y, (bm, bn), (m, n)))


@cute.kernel
def four_bits(W, X, scale, Y, *, tile=(128, 64, 64)):
    """Y = X W^T of weights of 4 bits, less 8: byte k of a row (N, K/2) holds those of k, below, and
    of k + K/2, so that a byte is read once for both.
    """
    bn, bm, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    w = cute.local_tile(W, (bn, bk), (n, None))
    x = cute.local_tile(X, (bm, bk), (m, None))
    acc = cute.zeros((bn, bm), cute.f32)
    for k in cute.range(w.tiles):
        both = w[k].load()
        cute.gemm((both & 15).to(X.dtype) - 8, x[k].T, acc)
        cute.gemm((both >> 4).to(X.dtype) - 8, x[k + w.tiles].T, acc)
    out = acc * cute.column_vector(scale, n, bn)
    cute.copy(out.to(Y.dtype).T, cute.local_tile(Y, (bm, bn), (m, n)))


PROGRAMS = {"W8A16": (eight_bits, 8), "W4A16": (four_bits, 4)}
# By program, and by the most rows for which they are: tiles (N, rows, bytes of depth) with words of
# a schedule.
_SHARED = "split_k = 2, reduction = cluster"
TILES: dict[str, dict[int, tuple[tuple[tuple[int, int, int], str], ...]]] = {
    "W8A16": {
        16: (
            ((64, 16, 128), ""),
            ((64, 16, 256), ""),
            ((64, 16, 256), "overlap = no"),
            ((128, 16, 128), _SHARED),
            ((128, 16, 256), _SHARED),
        ),
        64: (
            ((64, 64, 128), ""),
            ((64, 64, 128), "overlap = no"),
            ((64, 64, 256), ""),
            ((128, 64, 128), _SHARED),
        ),
        256: (
            ((128, 128, 64), ""),
            ((128, 128, 128), ""),
            ((128, 128, 128), "overlap = no"),
            ((64, 256, 128), ""),
        ),
        1 << 31: (
            ((128, 256, 64), ""),
            ((128, 256, 64), "overlap = no"),
            ((128, 256, 64), "cluster = (2,1)"),
            ((128, 192, 64), ""),
        ),
    },
    "W4A16": {
        16: (
            ((64, 16, 128), ""),
            ((64, 16, 128), "overlap = no"),
            ((64, 16, 256), ""),
            ((128, 16, 128), _SHARED),
        ),
        64: (
            ((64, 64, 64), ""),
            ((64, 64, 64), "overlap = no"),
            ((64, 64, 128), ""),
            ((128, 64, 64), _SHARED),
        ),
        256: (((128, 128, 64), ""), ((128, 128, 64), "overlap = no"), ((64, 256, 64), "")),
        1 << 31: (
            ((128, 256, 32), ""),
            ((128, 256, 32), "overlap = no"),
            ((128, 256, 32), "cluster = (2,1)"),
            ((128, 192, 32), ""),
        ),
    },
}


@dataclass(frozen=True)
class Row:
    """One program at a number of rows: microseconds of a launch, medians of the rounds."""

    program: str
    rows: int
    shape: tuple[int, int]
    tile: str
    microseconds: float
    cublas_microseconds: float
    ratio: float
    of_memory: float
    error: float
    others: dict[str, float]


def tiles_for(program: str, rows: int) -> tuple[tuple[tuple[int, int, int], str], ...]:
    """The tiles that are timed, with words of a schedule."""
    return next(tiles for most, tiles in TILES[program].items() if rows <= most)


def packed(torch: Any, numbers: Any) -> Any:
    """Numbers of 4 bits (N, K), 0 to 15, as the bytes (N, K/2) that `four_bits` reads."""
    half = numbers.shape[1] // 2
    return (numbers[:, :half] | numbers[:, half:] << 4).to(torch.uint8)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0 unless there is no GPU, or a result is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.narrow_weights")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--shape", type=int, nargs=2, default=SHAPE, metavar=("N", "K"))
    parser.add_argument("--only", default="", help="programs whose names match")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--drawn", type=int, metavar="SEED", help="calls for drawn layers")
    parser.add_argument("--layers", type=int, default=6, help="drawn layers of a section")
    parser.add_argument("--sections", default="", help="sections whose names match")
    given = parser.parse_args(arguments)
    torch = torch_on_gpu()
    if torch is None:
        return 1
    if given.drawn is not None:
        return _drawn(torch, given)
    print(f"{torch.cuda.get_device_name()}: weights {given.shape[0]} x {given.shape[1]}")
    print(f"{'program':8} {'rows':>5} {'us':>8} {'cuBLAS':>8} {'ratio':>6} {'of memory':>9}  tile")
    found: list[Row] = []
    for name in PROGRAMS:
        for rows in given.rows if re.search(given.only, name) else ():
            row = _row(torch, name, rows, tuple(given.shape), given.rounds)
            found.append(row)
            print(
                f"{name:8} {rows:5} {row.microseconds:8.1f} {row.cublas_microseconds:8.1f} "
                f"{row.ratio:6.2f} {row.of_memory:9.2f}  {row.tile}, error {row.error:.1e}",
                flush=True,
            )
            if given.json is not None:
                given.json.write_text(json.dumps([asdict(row) for row in found], indent=1))
    return 0 if all(row.error < MOST_ERROR for row in found) else 1


def _drawn(torch: Any, given: argparse.Namespace) -> int:
    """Print the rows of drawn layers, and what is left of each section."""
    layers = [
        layer
        for layer in narrow_layers.drawn(given.drawn, given.layers)
        if re.search(given.sections, layer.section)
    ]
    found: list[narrow_layers.Row] = []
    for row in narrow_layers.measured(
        torch, layers, given.rounds, lambda kind: re.search(given.only, kind)
    ):
        found.append(row)
        layer = row.layer
        print(
            f"{row.kind:11} {layer.section:11} {layer.m:5} {layer.n:6} {layer.k:6} "
            f"{row.microseconds:8.1f} {row.cublas_microseconds:8.1f} {row.ratio:6.3f} error "
            f"{row.error:.1e}  {row.schedule[:70]}",
            flush=True,
        )
        if given.json is not None:
            given.json.write_text(json.dumps([asdict(each) for each in found], indent=1))
    print(*narrow_layers.summary(found), sep="\n")
    return 0 if all(row.error < MOST_ERROR for row in found) else 1


def _row(torch: Any, name: str, rows: int, shape: tuple[int, int], rounds: int) -> Row:
    program, bits = PROGRAMS[name]
    (n, k), device = shape, "cuda"
    moved = n * k * bits // 8 + 2 * rows * (n + k)
    count = max(2, -(-_ROTATED // moved) + 1)
    x = torch.randn(rows, k, device=device).to(torch.bfloat16)
    scale = torch.rand(n, device=device) + 0.5
    sets: list[Any] = [_operands(torch, bits, shape, x, scale) for _ in range(min(count, 8))]
    kernels = list(_kernels(program, name, sets[0], rows))
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda one: one[1].cubin, kernels))
    error = 0.0
    for _, kernel in kernels:
        kernel.launch(*sets[0][:4])
        error = max(error, _error(torch, bits, sets[0]))

    def ours(kernel: Any) -> Callable[[Any], object]:
        return lambda operands: kernel.launch(*operands[:4])

    def cublas(operands: Any) -> object:
        return torch.matmul(operands[1], operands[4].T, out=operands[5])

    calls = [cublas, *(ours(kernel) for _, kernel in kernels)]
    for call in calls:
        for operands in sets:
            call(operands)
    torch.cuda.synchronize()
    batches = make_batches(torch, calls, sets, max(len(sets), _LAUNCHES))
    peer, *mine = interleave(torch, batches, Plan(rounds=rounds)).ms
    times = {label: 1e3 * median(ms) for (label, _), ms in zip(kernels, mine, strict=True)}
    best = min(times, key=times.__getitem__)
    at = [label for label, _ in kernels].index(best)
    return Row(
        name, rows, shape, best, times[best], 1e3 * median(peer),
        median(theirs / own for theirs, own in zip(peer, mine[at], strict=True)),
        1e6 * moved / _RATE / times[best], error, times,
    )  # fmt: skip


def _operands(torch: Any, bits: int, shape: tuple[int, int], x: Any, scale: Any) -> tuple[Any, ...]:
    """Weights, rows, scales and results of ours; weights of bf16 and results of cuBLAS."""
    low, high = (-127, 128) if bits == 8 else (0, 16)
    numbers = torch.randint(low, high, shape, device=x.device, dtype=torch.int16)
    weights = numbers.to(torch.int8) if bits == 8 else packed(torch, numbers)
    wide = (numbers - (0 if bits == 8 else 8)).to(torch.bfloat16)
    results = (torch.empty(len(x), shape[0], device=x.device, dtype=x.dtype) for _ in range(2))
    ours, theirs = results
    return weights, x, scale, ours, wide, theirs


def _kernels(
    program: Any, name: str, operands: tuple[Any, ...], rows: int
) -> Iterator[tuple[str, Any]]:
    for tile, words in tiles_for(name, rows):
        label = "x".join(map(str, tile)) + (f", {words}" if words else "")
        yield label, cute.compile(program, *operands[:4], tile=tile, schedule=words or None)


def _error(torch: Any, bits: int, operands: tuple[Any, ...]) -> float:
    """The largest error of some columns, relative to the largest result."""
    _, x, scale, y, wide, _ = operands
    columns = slice(0, 512)
    exact = x.double() @ wide[columns].double().T * scale[columns].double()
    return float((y[:, columns].double() - exact).abs().max() / exact.abs().max())


if __name__ == "__main__":
    sys.exit(main())
