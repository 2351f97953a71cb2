"""Loops of chained multiplies drawn at random: right on integers with the multiplies overlapped,
and in the order of the program.
"""

import random

import numpy as np
import pytest

import cutedialect as cute

N = 64


def clip(x):
    """Small integers again, so that every product and sum is exact in f16 and f32."""
    return cute.maximum(cute.minimum(x, 2.0), -2.0)


def drawn(seed):
    """A kernel and the same in NumPy: in each trip some multiplies, each of what the one before
    gave or of q, by a block of k, its transpose, a constant tile or a computed one; the last adds
    to a sum, with what a user does before and behind it.
    """
    rng = random.Random(seed)
    count = rng.choice([2, 2, 3, 4])
    steps = [
        {
            "a": "q" if n == 0 else rng.choice(["before", "before", "q"]),
            "b": rng.choice(["k", "kT", "k", "w", "computed"]),
            "gate": rng.random() < 0.3,
            "branch": rng.choice([None, None, "later", "first", "even"]),
            "rows": rng.random() < 0.4,
            "stores": rng.random() < 0.2,
        }
        for n in range(count)
    ]
    steps[-1]["a"] = "before"
    decay = rng.choice([None, None, "number", "row", "trip"])
    rescale = rng.random() < 0.3
    out = rng.choice(["sum", "sum", "rows"])

    @cute.kernel
    def chain(Q, K, G, W, Y, Z):
        i, _ = cute.tile_index(Y, (N, None))
        q = cute.local_tile(Q, (N, N), (i, 0))
        k = cute.local_tile(K, (N, N), (None, 0))
        w = cute.load(cute.local_tile(W, (N, N), (0, 0)))
        o = cute.zeros((N, N), cute.f32)
        m = cute.zeros((N, 1), cute.f32)
        for j in cute.range(k.tiles):
            x = None
            for step in steps:
                a = q if step["a"] == "q" or x is None else x.to(Q.dtype)
                b = {"k": k[j], "kT": k[j].T, "w": w}.get(step["b"])
                if b is None:
                    b = (cute.load(k[j]) * 2.0).to(Q.dtype)
                if step is steps[-1]:
                    if rescale:
                        o.assign(clip(o) + m)
                    cute.gemm(a, b, o)
                    break
                s = cute.zeros((N, N), cute.f32)
                cute.gemm(a, b, s)
                if step["gate"]:
                    s.assign(s * cute.load(cute.local_tile(G, (1, N), (0, j))))
                if step["rows"]:
                    m.assign(clip(m + cute.row_max(s)))
                if step["branch"] is not None:
                    taken = {"later": j > 1, "first": j > 0, "even": j % 2 == 0}
                    with cute.when(taken[step["branch"]]):
                        s.assign(s - 1.0)
                x = clip(s)
                if step["stores"]:
                    cute.copy(x, cute.local_tile(Z, (N, N), (i, j)))
            if decay == "number":
                o.assign(clip(o))
            elif decay == "row":
                o.assign(clip(o) * m)
            elif decay == "trip":
                o.assign(clip(o) + j.to(cute.f32))
        if out == "rows":
            o.assign(o + m)
        cute.copy(o, cute.local_tile(Y, (N, N), (i, 0)))

    def reference(q, k, g, w):
        q, k, g, w = (each.astype(np.float64) for each in (q, k, g, w))
        o, m = np.zeros((len(q), N)), np.zeros((len(q), 1))
        z = np.zeros((len(q), len(k)))
        for j in range(len(k) // N):
            x, block = None, k[N * j : N * j + N]
            for step in steps:
                a = q if step["a"] == "q" or x is None else x
                b = {"k": block, "kT": block.T, "w": w, "computed": 2 * block}[step["b"]]
                if step is steps[-1]:
                    if rescale:
                        o = o.clip(-2, 2) + m
                    o = o + a @ b
                    break
                s = a @ b
                if step["gate"]:
                    s = s * g[:, N * j : N * j + N]
                if step["rows"]:
                    m = (m + s.max(1, keepdims=True)).clip(-2, 2)
                if step["branch"] is not None and {
                    "later": j > 1, "first": j > 0, "even": j % 2 == 0,
                }[step["branch"]]:  # fmt: skip
                    s = s - 1
                x = s.clip(-2, 2)
                if step["stores"]:
                    z[:, N * j : N * j + N] = x
            if decay is not None:
                o = o.clip(-2, 2)
                o = o * m if decay == "row" else o + j if decay == "trip" else o
        return (o + m if out == "rows" else o), z

    return chain, reference


def operands(seed, trips):
    rng = np.random.default_rng(seed)
    q, k, w = (rng.integers(-2, 3, (n, N)).astype(np.float16) for n in (N, N * trips, N))
    return q, k, rng.integers(-1, 2, (1, N * trips)).astype(np.float32), w


def check(seed, trips, **schedule):
    chain, reference = drawn(seed)
    data = operands(seed, trips)
    y = np.full((N, N), np.nan, np.float32)
    options = {"schedule": cute.Schedule(**schedule), "spills": "allow"}
    z = np.zeros((N, N * trips), np.float32)
    chain(*data, y, z, arch="sm_90a", backend="emulator", **options)
    for found, expected in zip((y, z), reference(*data), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.some(2)
@pytest.mark.parametrize("seed", range(10))
def test_a_drawn_chain(seed):
    for trips in (0, 1, 2, 4) if seed < 3 else (3,):
        for overlap in ("yes", "no") if seed < 3 else ("yes",):
            check(seed, trips, overlap=overlap)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 70))
def test_more_drawn_chains(seed):
    rng = random.Random(seed)
    for overlap in ("yes", "no", "turns"):
        check(seed, rng.randrange(6), overlap=overlap, stages=rng.choice([1, 2, 3]))
