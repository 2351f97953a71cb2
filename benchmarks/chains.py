"""`python -m benchmarks.chains`: chained multiplies as a user writes them, overlapped against one
after the other, on this machine's GPU. A row is the median time of each and their ratio; nothing is
asserted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import cutedialect as cute

from .torch_gpu import torch_on_gpu

_ROUNDS, _LAUNCHES, _DIM = 20, 5, 64
# Queries, keys and head dimension of a tile of attention's backward pass, and its queries; it has
# twice as many keys, a CTA for each block of which.
_BACKWARD = ((64, 64, 128), (64, 128, 128), (128, 128, 64))
_LENGTH = 8192


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
    g = cute.load(cute.local_tile(G, (bq,), (i,)))[:, None]
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
    y, total = cute.zeros((bq, 64), cute.f32), cute.zeros((bq, 1), cute.f32)
    for j in cute.range(k.tiles):
        s = cute.zeros((bq, bk), cute.f32)
        cute.gemm(q, k[j].T, s)
        p = cute.exp(s * 0.1)
        total.assign(total + cute.row_sum(p))
        cute.gemm(p.to(V.dtype), v[j], y)
    cute.copy(total, cute.local_tile(L, (bq,), (i,)))
    cute.copy(y, cute.local_tile(Y, (bq, 64), (i, 0)))


@cute.kernel
def linear(Q, K, V, Y, *, tile=(64, 64), apart=False):
    """Chunks of linear attention, with a running state; `apart`, each result is used before the
    next multiply begins, so that no two are at work.
    """
    bt, d = tile
    h, _, c = cute.tile_index(Y, (1, None, 64))
    q, k = (cute.local_tile(X, (bt, d), (h, None, 0)) for X in (Q, K))
    v, y = (cute.local_tile(X, (bt, 64), (h, None, c)) for X in (V, Y))
    state = cute.zeros((d, 64), cute.f32)
    for j in cute.range(q.tiles):
        out, s = cute.zeros((bt, 64), cute.f32), cute.zeros((bt, bt), cute.f32)
        cute.gemm(q[j], state.to(V.dtype), out)
        if apart:
            out.assign(out * 0.5)
        cute.gemm(q[j], k[j].T, s)
        if not apart:
            out.assign(out * 0.5)
        s = cute.where(cute.coord(s, 1) <= cute.coord(s, 0), s, 0.0)
        state.assign(state * 0.5)
        cute.gemm(s.to(V.dtype), v[j], out)
        if apart:
            cute.copy(out.to(Y.dtype), y[j])
        cute.gemm(k[j].T, v[j], state)
        if not apart:
            cute.copy(out.to(Y.dtype), y[j])


@cute.kernel
def adapted(X, W, U, Y, *, tile=(64, 64)):
    """relu(X W) U, with all columns of the hidden tile in registers."""
    bm, bk = tile
    i, _ = cute.tile_index(Y, (bm, None))
    x, w = cute.local_tile(X, (bm, bk), (i, None)), cute.local_tile(W, (bk, 64), (None, 0))
    u, y = cute.local_tile(U, (64, 64), (0, None)), cute.local_tile(Y, (bm, 64), (i, None))
    acc = cute.zeros((bm, 64), cute.f32)
    for k in cute.range(x.tiles):
        cute.gemm(x[k], w[k], acc)
    h = cute.relu(acc).to(X.dtype)
    for n in cute.range(u.tiles):
        out = cute.zeros((bm, 64), cute.f32)
        cute.gemm(h, u[n], out)
        cute.copy(out.to(Y.dtype), y[n])


@cute.kernel
def backward(Q, K, V, G, LSE, D, DQ, DK, DV, *, tile=(64, 64, 64), apart=False):
    """dQ, dK and dV of attention, a CTA for each block of keys; `apart`, scores are used before the
    next multiply begins.
    """
    bq, bk, dim = tile
    n, _ = cute.tile_index(DK, (bk, None))
    k, v = (cute.local_tile(X, (bk, dim), (n, 0)) for X in (K, V))
    q, g, dq = (cute.local_tile(X, (bq, dim), (None, 0)) for X in (Q, G, DQ))
    dk, dv = cute.zeros((bk, dim), cute.f32), cute.zeros((bk, dim), cute.f32)
    for j in cute.range(q.tiles):
        s, dp = cute.zeros((bk, bq), cute.f32), cute.zeros((bk, bq), cute.f32)
        cute.gemm(k, q[j].T, s)
        if not apart:
            cute.gemm(v, g[j].T, dp)
        p = cute.exp(s - cute.row_vector(LSE, j, bq))
        if apart:
            cute.gemm(v, g[j].T, dp)
        cute.gemm(p.to(Q.dtype), g[j], dv)
        ds = (p * (dp - cute.row_vector(D, j, bq))).to(Q.dtype)
        cute.gemm(ds, q[j], dk)
        x = cute.zeros((bq, dim), cute.f32)
        cute.gemm(ds.T, k, x)
        cute.atomic_add(x, dq[j])
    cute.copy(dk, cute.local_tile(DK, (bk, dim), (n, 0)))
    cute.copy(dv, cute.local_tile(DV, (bk, dim), (n, 0)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Time each chain both ways; 0 unless there is no GPU."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chains", description=__doc__)
    parser.add_argument("--rows", type=int, default=32768, help="rows of Q (default 32768)")
    parser.add_argument("--blocks", type=int, default=128, help="blocks of keys (default 128)")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    given = parser.parse_args(arguments)
    torch = torch_on_gpu()
    if torch is None:
        return 1
    found = []
    print(f"{torch.cuda.get_device_name()}: {given.rows} rows, {given.blocks} blocks of 64 keys")
    contenders = _contenders(torch, given.rows, 64 * given.blocks)
    with ThreadPoolExecutor() as pool:
        list(
            pool.map(
                lambda kernel: kernel.cubin, (each for _, both, _ in contenders for each in both)
            )
        )
    for name, kernels, args in contenders:
        overlapped, ordered = _times(torch, [partial(each.launch, *args) for each in kernels])
        found.append({"chain": name, "overlapped_ms": overlapped, "ordered_ms": ordered})
        ratio = ordered / overlapped
        print(
            f"{name:20} overlapped {overlapped:.3f} ms, not {ordered:.3f} ms, {ratio:.3f}",
            flush=True,
        )
        if given.json is not None:
            given.json.write_text(json.dumps(found, indent=1))
    return 0


def _contenders(torch: Any, rows: int, keys: int) -> list[tuple[str, list[Any], tuple[Any, ...]]]:
    """Each chain with the schedule that overlaps and with the order of its program, and what both
    are launched with.
    """

    def half(count: int, dim: int = _DIM) -> Any:
        return torch.randn(count, dim, device="cuda", dtype=torch.float16) * 0.3

    q, blocks = half(rows), [half(keys) for _ in range(3)]
    y = torch.empty(rows, _DIM, device="cuda")
    vector = torch.rand(rows, device="cuda")
    heads = [half(8 * rows).view(-1, 2048, _DIM) for _ in range(4)]
    wide, out = (half(rows * 16).view(-1, 16 * _DIM) for _ in range(2))
    narrow = half(16 * _DIM)
    schedules = ({}, {"schedule": "overlap = no"})
    # Each with the options of what overlaps and of what does not: a schedule, the order of the
    # program within a trip, or teams of warps, of which one multiplies while the other stores.
    chains: dict[str, tuple[Any, tuple[Any, ...], tuple[dict[str, Any], dict[str, Any]]]] = {
        "three": (three, (q, *blocks, y), schedules),
        "decayed": (decayed, (q, *blocks[:2], vector, y), schedules),
        "attended": (attended, (q, *blocks[:2], vector.clone(), y), schedules),
        "linear": (linear, tuple(heads), ({}, {"apart": True})),
        "adapted": (
            adapted,
            (wide, narrow, narrow.view(_DIM, -1), out),
            ({"schedule": "roles = alternate"}, {"schedule": "overlap = no"}),
        ),
    }
    for bq, bk, dim in _BACKWARD:
        halves = tuple(half(count, dim) for count in (_LENGTH, *[2 * _LENGTH] * 2, _LENGTH))
        vectors = tuple(torch.rand(_LENGTH, device="cuda") + 4 for _ in range(2))
        sums = tuple(
            torch.zeros(count, dim, device="cuda") for count in (_LENGTH, *[2 * _LENGTH] * 2)
        )
        options = ({"tile": (bq, bk, dim)}, {"tile": (bq, bk, dim), "apart": True})
        chains[f"backward {bq}x{bk}x{dim}"] = (backward, (*halves, *vectors, *sums), options)
    return [
        (name, [cute.compile(kernel, *args, **each) for each in options], args)
        for name, (kernel, args, options) in chains.items()
    ]


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
