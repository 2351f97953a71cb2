"""Causal attention from scratch, and a variant of it with two functions of your own.

`attention` is softmax(scale Q K^T) V for each head of (batch, heads, sequence, dimension), where
row i sees the keys up to i. `score` changes the scores of a tile: here ALiBi, a bias that grows
with the distance. `mask` says where what a row sees begins: here at its document of 96 tokens, so
that blocks of keys before that are not even loaded.
"""

from __future__ import annotations

import math
import sys

import numpy as np

import cutedialect as cute

# A schedule for many rows on Hopper: CTAs claim tiles, the longest of 32 heads first. Where blocks
# are multiplied while the exponentials of the next ones are computed, two take turns in registers.
HOPPER = "scheduler = dynamic, order = sections, raster = 32"
TURNS = f"{HOPPER}, unroll = 2"
# Below any score, and above -inf: from it a score exceeds by too much, and what is hidden does not.
LOWEST = -3.4e38
# What the exponentials of a row may add up to in one thread: those of f16 count from 2^-3.
MOST = {cute.bf16: 2.0**80, cute.f16: 2.0**15}
ROOM = {cute.f16: 3.0}


def plain(keys, head):
    """The scores as they are."""
    return lambda s, row, key: (s, 0.0)


def alibi(keys, head):
    """The scores less the distance times the slope of the head, 2^-(head + 1)/2.

    Softmax does not see what all scores of a row have in common, so that the distance from the
    first row of the tile does for all rows. That of a block of keys is one number; what its columns
    add is the same for all blocks, and computed here, once.
    """
    slope = cute.exp2(cute.full((1, 1), -0.5) * (head + 1).to(cute.f32))
    columns = cute.coord(cute.zeros((1, keys)), 1).to(cute.f32) * slope
    return lambda s, row, key: (s + columns, (key - row).to(cute.f32) * slope)


def documents(row):
    """The first key that a row sees: that of its own 96 tokens. (It never falls.)"""
    return row // 96 * 96


def exact(s, scale, m, total, o, first, dtype):
    """The exponentials of a block of scores, s times `scale`, which count from the largest so far,
    m. What was added up before, `total` and o, is scaled to count from it too.
    """
    new = cute.maximum(m, cute.row_max(s) * scale)
    base = cute.where(new == -cute.inf, 0.0, new)
    p = cute.exp2(s * scale - base)
    r = cute.exp2(m - base)
    total.assign(total * r + cute.row_sum(p))
    o.assign(o * r)
    m.assign(new)
    return p.to(dtype)


def guessed(s, scale, m, total, o, first, dtype):
    """The same, which count from what those of the blocks before did. Only if they add up to too
    much, or in the first block, m is the largest score so far.
    """
    room = ROOM.get(dtype, 0.0)
    rounded, r = cute.zeros(s.shape, dtype), cute.zeros(m.shape)

    def settle(new):
        p = cute.exp2(s * scale - (cute.maximum(new, LOWEST) + room))
        rounded.assign(p.to(dtype))
        r.assign(cute.exp2(m - cute.maximum(new, LOWEST)))
        total.assign(total * r + cute.row_sum(p))
        m.assign(new)

    with cute.when(first):
        settle(cute.row_max(s) * scale)
    with cute.otherwise():
        p = cute.exp2(s * scale - (cute.maximum(m, LOWEST) + room))
        rounded.assign(p.to(dtype))
        holds = cute.row_sum(p, local=True) <= MOST[dtype]
        fails = cute.any(~holds, local=True)
        with cute.when(fails):
            late = cute.row_max(cute.where(holds, -cute.inf, s))
            settle(cute.maximum(m, late * scale))
        with cute.otherwise():
            total += cute.row_sum(p)
        with cute.when(fails):
            o.assign(o * r)
    return rounded


@cute.kernel
def attention(Q, K, V, out, scale, *, tile=(128, 64, 64), score=None, mask=None, way=guessed):
    """One work item is a tile of rows of one head. The last rows of a head go first: they take
    longest. `scale` counts in log2(e), since exponentials are of base 2.

    `score(keys, head)` is called before the loop. What it returns gets a tile of scores and the
    numbers of its first row and key; it gives the scores to use, and a number to add to them all,
    which m, what exponentials count from, is less by instead. Without it products of q and k are
    only scaled in the exponent, where that costs nothing. `mask(row)` gets the number of one
    row, or a tile of such. `way` is `exact` or `guessed`.
    """
    bq, bk, d = tile
    b, h, i = cute.tile_index(out, (1, 1, bq))
    i = (out.extent + (bq - 1)) // bq - 1 - i
    q = cute.local_tile(Q, (bq, d), (b, h, i, 0))
    k = cute.local_tile(K, (bk, d), (b, h, None, 0))
    v = cute.local_tile(V, (bk, d), (b, h, None, 0))
    o, total = cute.zeros((bq, d)), cute.zeros((bq, 1))
    m = cute.full((bq, 1), -cute.inf)
    first = i * bq
    change = None if score is None else score(bk, h)
    row = cute.coord(total, 0, first)
    # The first key that any of the rows sees, and the first that the last one does.
    begin, full = (0, 0) if mask is None else (mask(first), mask(first + (bq - 1)))
    start = begin // bk
    for j in cute.range(start, cute.minimum(first + (bq + bk - 1), K.extent + bk - 1) // bk):
        s = cute.zeros((bq, bk))
        cute.gemm(q, k[j].T, s)
        common, factor = 0.0, scale
        if change is not None:
            x, common = change(s * scale, first, j * bk)
            s.assign(x)
            factor = 1.0
        cuts = j * bk + bk > first
        with cute.when(cuts if mask is None else cuts | (j * bk < full)):
            key = cute.coord(s, 1, j * bk)
            seen = key <= row if mask is None else (key <= row) & (key >= mask(row))
            s.assign(cute.where(seen, s, -cute.inf))
        m.assign(m - common)
        p = way(s, factor, m, total, o, j == start, V.dtype)
        cute.gemm(p, v[j], o)
        m.assign(m + common)
    part = cute.reciprocal(total)
    cute.copy((o * part).to(out.dtype), cute.local_tile(out, (bq, d), (b, h, i, 0)))


def reference(q, k, v, edited):
    """The same in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    n = q.shape[2]
    s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) * math.log2(math.e)
    row, key = np.arange(n)[:, None], np.arange(n)[None]
    seen = key <= row
    if edited:
        slopes = 2.0 ** (-0.5 * np.arange(1, q.shape[1] + 1))
        s = s - (row - key) * slopes[:, None, None]
        seen = seen & (documents(row) <= key)
    p = np.exp2(np.where(seen, s, -np.inf))
    return p @ v / p.sum(-1, keepdims=True)


def main() -> int:
    rng = np.random.default_rng(0)
    good = True
    for n, edited in ((200, False), (200, True)):
        q, k, v = (rng.standard_normal((1, 2, n, 64)).astype(np.float16) for _ in range(3))
        out = np.empty_like(q)
        scale = math.log2(math.e) / math.sqrt(64)
        options = {"score": alibi, "mask": documents} if edited else {}
        attention(q, k, v, out, scale, **options)
        error = np.abs(out - reference(q, k, v, edited)).max()
        good &= error < 4e-3
        print(f"{n} tokens, {'ALiBi and documents' if edited else 'causal'}: error {error:.1e}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
