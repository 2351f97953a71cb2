"""What the pages of the cookbook compute as kernels in Triton, in the way of its own tutorials: one
program a block of rows, or a head. Each function gives its results as torch's formulas do, in
memory that it allocates. Needs Triton.
"""

from __future__ import annotations

from typing import Any

import torch  # pyright: ignore[reportMissingImports]
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]


def _launched(kernel: Any, grid: tuple[int, ...], *args: Any, **options: Any) -> None:
    kernel[grid](*args, **options)


_THETA_BITS = tl.constexpr(13.287712379549449)
"""The logarithm to base 2 of 10,000."""


def router(x: Any, k: int = 4) -> tuple[Any, Any]:
    """The shares (rows, k) and numbers of the k greatest scores of each row."""
    rows, columns = x.shape
    shares = torch.empty(rows, k, device=x.device)
    places = torch.empty(rows, k, dtype=torch.int32, device=x.device)
    _launched(_router, (triton.cdiv(rows, 64),), x, shares, places, rows, N=columns, K=k, B=64)
    return shares, places


@triton.jit
def _router(x, shares, places, rows, N: tl.constexpr, K: tl.constexpr, B: tl.constexpr):
    row, column, rank = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, N), tl.arange(0, K)
    is_row = (row < rows)[:, None]
    scores = tl.load(x + row[:, None] * N + column[None, :], mask=is_row, other=0.0)
    top, at = tl.full((B, K), 0.0, tl.float32), tl.full((B, K), 0, tl.int32)
    for number in tl.static_range(K):
        place = tl.argmax(scores, 1)[:, None]
        is_rank = rank[None, :] == number
        top = tl.where(is_rank, tl.max(scores, 1)[:, None], top)
        at = tl.where(is_rank, place, at)
        scores = tl.where(column[None, :] == place, float("-inf"), scores)
    powers = tl.exp(top - tl.max(top, 1)[:, None])
    to = row[:, None] * K + rank[None, :]
    tl.store(shares + to, powers / tl.sum(powers, 1)[:, None], mask=is_row)
    tl.store(places + to, at, mask=is_row)


def cross_entropy(x: Any, labels: Any, smoothing: float = 0.1) -> tuple[Any, Any]:
    """The losses (rows, 1) and their slopes by the logits."""
    rows, columns = x.shape
    loss, slope = torch.empty(rows, 1, device=x.device), torch.empty_like(x)
    _launched(
        _cross_entropy,
        (triton.cdiv(rows, 32),),
        x,
        labels,
        loss,
        slope,
        rows,
        smoothing,
        N=columns,
        B=32,
    )
    return loss, slope


@triton.jit
def _cross_entropy(x, labels, loss, slope, rows, smoothing, N: tl.constexpr, B: tl.constexpr):
    row, column = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, N)
    is_row, at = (row < rows)[:, None], row[:, None] * N + column[None, :]
    logits = tl.load(x + at, mask=is_row, other=0.0)
    label = tl.load(labels + row, mask=row < rows, other=0)
    top = tl.max(logits, 1)
    powers = tl.exp(logits - top[:, None])
    total = tl.sum(powers, 1)
    is_label = column[None, :] == label[:, None]
    chosen = tl.sum(tl.where(is_label, logits, 0.0), 1)
    mean = tl.sum(logits, 1) / N
    value = top + tl.log(total) - (1 - smoothing) * chosen - smoothing * mean
    tl.store(loss + row, value, mask=row < rows)
    target = tl.where(is_label, 1 - smoothing, 0.0) + smoothing / N
    tl.store(slope + at, powers / total[:, None] - target, mask=is_row)


def rope(x: Any) -> tuple[Any, Any]:
    """Rows turned by angles that their numbers give, halves and neighbors as pairs."""
    halves, pairs = torch.empty_like(x), torch.empty_like(x)
    rows, columns = x.shape
    _launched(_rope, (triton.cdiv(rows, 64),), x, halves, pairs, rows, N=columns, B=64)
    return halves, pairs


@triton.jit
def _rope(x, halves, pairs, rows, N: tl.constexpr, B: tl.constexpr):
    H: tl.constexpr = N // 2
    row, pair = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, H)
    is_row = (row < rows)[:, None]
    angle = row[:, None].to(tl.float32) * tl.exp2(-_THETA_BITS * pair / H)[None, :]
    cos, sin = tl.cos(angle), tl.sin(angle)
    at = row[:, None] * N + pair[None, :]
    one = tl.load(x + at, mask=is_row, other=0.0)
    other = tl.load(x + at + H, mask=is_row, other=0.0)
    tl.store(halves + at, one * cos - other * sin, mask=is_row)
    tl.store(halves + at + H, other * cos + one * sin, mask=is_row)
    both = row[:, None] * N + tl.arange(0, N)[None, :]
    even, odd = tl.split(tl.reshape(tl.load(x + both, mask=is_row, other=0.0), (B, H, 2)))
    turned = tl.join(even * cos - odd * sin, odd * cos + even * sin)
    tl.store(pairs + both, tl.reshape(turned, (B, N)), mask=is_row)


def dropout(x: Any, share: float = 0.25, seed: int = 11) -> tuple[Any]:
    """Elements with that share of them 0 and the others larger."""
    y = torch.empty_like(x)
    _launched(_dropout, (triton.cdiv(x.numel(), 1024),), x, y, x.numel(), share, seed, B=1024)
    return (y,)


@triton.jit
def _dropout(x, y, count, share, seed, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + at, mask=at < count)
    kept = tl.where(tl.rand(seed, at) >= share, value / (1 - share), 0.0)
    tl.store(y + at, kept, mask=at < count)


def convolution(x: Any, w: Any) -> tuple[Any]:
    """SiLU of a causal convolution of columns of x (length, channels) with taps (k, channels)."""
    length, channels = x.shape
    y = torch.empty_like(x)
    grid = triton.cdiv(length, 32), triton.cdiv(channels, 128)
    _launched(_convolution, grid, x, w, y, length, channels, TAPS=len(w), B=32, C=128)
    return (y,)


@triton.jit
def _convolution(x, w, y, length, channels, TAPS: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    row, column = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * C + tl.arange(0, C)
    is_column = (column < channels)[None, :]
    total = tl.zeros((B, C), tl.float32)
    for tap in tl.static_range(TAPS):
        source = row + (tap + 1 - TAPS)
        is_there = ((source >= 0) & (source < length))[:, None] & is_column
        part = tl.load(x + source[:, None] * channels + column[None, :], mask=is_there, other=0.0)
        total += part * tl.load(w + tap * channels + column, mask=column < channels)[None, :]
    at = row[:, None] * channels + column[None, :]
    tl.store(y + at, total * tl.sigmoid(total), mask=(row < length)[:, None] & is_column)


def gradient(slopes: Any, order: Any, keys: Any, g: Any) -> tuple[Any]:
    """Rows of slopes added to the rows of g that sorted keys name: sums of runs of one key in a
    block, and an atomic addition for each run.
    """
    count, width = slopes.shape
    _launched(_gradient, (triton.cdiv(count, 128),), slopes, order, keys, g, count, N=width, B=128)
    return (g,)


@triton.jit
def _of_segments(one, begins, other, begins_too):
    return tl.where(begins_too != 0, other, one + other), begins | begins_too


@triton.jit
def _gradient(slopes, order, keys, g, count, N: tl.constexpr, B: tl.constexpr):
    at, column = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, N)
    is_there = at < count
    key = tl.load(keys + at, mask=is_there, other=-1)
    before = tl.load(keys + at - 1, mask=is_there & (at > 0), other=-1)
    behind = tl.load(keys + at + 1, mask=at + 1 < count, other=-1)
    row = tl.load(order + at, mask=is_there, other=0)
    part = tl.load(slopes + row[:, None] * N + column[None, :], mask=is_there[:, None], other=0.0)
    begins = tl.broadcast_to((key != before).to(tl.int32)[:, None], (B, N))
    total, _ = tl.associative_scan((part, begins), 0, _of_segments)
    is_last = is_there & ((key != behind) | (tl.arange(0, B) == B - 1))
    tl.atomic_add(g + key[:, None] * N + column[None, :], total, mask=is_last[:, None])


def linear_attention(q: Any, k: Any, v: Any, logs: Any) -> tuple[Any]:
    """Linear attention of q, k, v (heads, length, depth) of f16 with the logarithms of decays
    (heads, length), in chunks of 64.
    """
    heads, length, depth = q.shape
    o = torch.empty(q.shape, device=q.device)
    _launched(_linear_attention, (heads,), q, k, v, logs, o, LENGTH=length, D=depth, C=64)
    return (o,)


@triton.jit
def _linear_attention(q, k, v, logs, o, LENGTH: tl.constexpr, D: tl.constexpr, C: tl.constexpr):
    head = tl.program_id(0).to(tl.int64)
    row, column = tl.arange(0, C), tl.arange(0, D)
    state = tl.zeros((D, D), tl.float32)
    for first in range(0, LENGTH, C):
        is_row = first + row < LENGTH
        at = (head * LENGTH + first + row)[:, None] * D + column[None, :]
        queries = tl.load(q + at, mask=is_row[:, None], other=0.0)
        keys = tl.load(k + at, mask=is_row[:, None], other=0.0)
        values = tl.load(v + at, mask=is_row[:, None], other=0.0)
        decay = tl.load(logs + head * LENGTH + first + row, mask=is_row, other=0.0)
        since, whole = tl.cumsum(decay, 0), tl.sum(decay, 0)
        inside = since[:, None] - since[None, :]
        inside = tl.exp(tl.where(row[:, None] >= row[None, :], inside, float("-inf")))
        scores = (tl.dot(queries, tl.trans(keys)) * inside).to(tl.float16)
        carried = (queries * tl.exp(since)[:, None]).to(tl.float16)
        result = tl.dot(scores, values) + tl.dot(carried, state.to(tl.float16))
        tl.store(o + at, result, mask=is_row[:, None])
        left = (keys * tl.exp(whole - since)[:, None]).to(tl.float16)
        state = state * tl.exp(whole) + tl.dot(tl.trans(left), values)
