"""`python -m benchmarks.chains`: loops of chained multiplies as a user writes them, overlapped with
the next trip against the order of the program, on this machine's GPU. A row is the median time of
each and their ratio; nothing is asserted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import cutedialect as cute

_ROUNDS, _LAUNCHES, _DIM = 20, 5, 64


@cute.kernel
def three(Q, K, V, W, Y, *, tile=(64, 64)):
    """Y = sum over blocks of relu(exp(Q K^T) V) W."""
    bq, bk = tile
    i, _ = cute.tile_index(Y, (bq, None))
    q = cute.local_tile(Q, (bq, 64), (i, 0))
    k, v, w = (cute.local_tile(X, (bk, 64), (None, 0)) for X in (K, V, W))
    y = cute.zeros((bq, 64), cute.f32)
    for j in cute.range(k.tiles):
        s = cute.zeros((bq, bk), cute.f32)
        cute.gemm(q, k[j].T, s)
        t = cute.zeros((bq, 64), cute.f32)
        cute.gemm(cute.exp(s * 0.1).to(V.dtype), v[j], t)
        cute.gemm((cute.relu(t) * 0.01).to(W.dtype), w[j], y)
    cute.copy(y, cute.local_tile(Y, (bq, 64), (i, 0)))


@cute.kernel
def decayed(Q, K, V, G, Y, *, tile=(64, 64)):
    """A running sum that decays behind each block, by a factor of its own for every row."""
    bq, bk = tile
    i, _ = cute.tile_index(Y, (bq, None))
    q = cute.local_tile(Q, (bq, 64), (i, 0))
    k, v = (cute.local_tile(X, (bk, 64), (None, 0)) for X in (K, V))
    g = cute.load(cute.local_tile(G, (bq,), (i,)))
    y = cute.zeros((bq, 64), cute.f32)
    for j in cute.range(k.tiles):
        s = cute.zeros((bq, bk), cute.f32)
        cute.gemm(q, k[j].T, s)
        cute.gemm(cute.exp(s * 0.1).to(V.dtype), v[j], y)
        y.assign(y * g)
    cute.copy(y, cute.local_tile(Y, (bq, 64), (i, 0)))


@cute.kernel
def attended(Q, K, V, L, Y, *, tile=(64, 64)):
    """Attention whose rows are not scaled: exponentials of scores, and their sums."""
    bq, bk = tile
    i, _ = cute.tile_index(Y, (bq, None))
    q = cute.local_tile(Q, (bq, 64), (i, 0))
    k, v = (cute.local_tile(X, (bk, 64), (None, 0)) for X in (K, V))
    y, total = cute.zeros((bq, 64), cute.f32), cute.zeros((bq,), cute.f32)
    for j in cute.range(k.tiles):
        s = cute.zeros((bq, bk), cute.f32)
        cute.gemm(q, k[j].T, s)
        p = cute.exp(s * 0.1)
        total.assign(total + cute.row_sum(p))
        cute.gemm(p.to(V.dtype), v[j], y)
    cute.copy(total, cute.local_tile(L, (bq,), (i,)))
    cute.copy(y, cute.local_tile(Y, (bq, 64), (i, 0)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Time each chain both ways; 0 unless there is no GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chains", description=__doc__)
    parser.add_argument("--rows", type=int, default=32768, help="rows of Q (default 32768)")
    parser.add_argument("--blocks", type=int, default=128, help="blocks of keys (default 128)")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    given = parser.parse_args(arguments)
    try:
        import torch
    except ModuleNotFoundError:
        print("expected PyTorch on a machine with a GPU, got none", file=sys.stderr)
        return 1
    if not torch.cuda.is_available():
        print("expected a GPU, got none", file=sys.stderr)
        return 1
    found = []
    print(f"{torch.cuda.get_device_name()}: {given.rows} rows, {given.blocks} blocks of 64 keys")
    for name, launches in _contenders(torch, given.rows, 64 * given.blocks).items():
        overlapped, ordered = _times(torch, launches)
        found.append({"chain": name, "overlapped_ms": overlapped, "ordered_ms": ordered})
        ratio = ordered / overlapped
        print(f"{name:10} overlapped {overlapped:.3f} ms, not {ordered:.3f} ms, {ratio:.3f}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1))
    return 0


def _contenders(torch: Any, rows: int, keys: int) -> dict[str, list[Callable[[], object]]]:
    """Each chain with the schedule that overlaps, and with the order of its program."""

    def half(count: int) -> Any:
        return torch.randn(count, _DIM, device="cuda", dtype=torch.float16) * 0.3

    q, blocks = half(rows), [half(keys) for _ in range(3)]
    y = torch.empty(rows, _DIM, device="cuda")
    vector = torch.rand(rows, device="cuda")
    chains = {
        "three": (three, (q, *blocks, y)),
        "decayed": (decayed, (q, *blocks[:2], vector, y)),
        "attended": (attended, (q, *blocks[:2], vector.clone(), y)),
    }
    found: dict[str, list[Callable[[], object]]] = {}
    for name, (kernel, args) in chains.items():
        compiled = [cute.compile(kernel, *args, schedule=each) for each in (None, "overlap = no")]
        found[name] = [lambda each=each, args=args: each.launch(*args) for each in compiled]
    return found


def _times(torch: Any, launches: Sequence[Callable[[], object]]) -> list[float]:
    """Milliseconds of one launch of each contender, which take turns."""
    taken: list[list[float]] = [[] for _ in launches]
    for number in range(_ROUNDS + 2):
        for launch, times in zip(launches, taken, strict=True):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(_LAUNCHES):
                launch()
            end.record()
            end.synchronize()
            if number > 1:
                times.append(start.elapsed_time(end) / _LAUNCHES)
    return [median(times) for times in taken]


if __name__ == "__main__":
    sys.exit(main())
