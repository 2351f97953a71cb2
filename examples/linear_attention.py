"""Linear attention with a decay, chunk by chunk: what came before a chunk is one running state.

    o_t = sum over s <= t of decay^(t - s) (q_t . k_s) v_s

Within a chunk that is two multiplies, as in attention without a softmax. All earlier chunks are in
the state, the sum of decay^(t - s) k_s v_s^T: one more multiply reads it, and another one adds the
chunk to it. The program says these four; which of them work at the same time is the schedule's.
"""

from __future__ import annotations

import sys

import numpy as np

import cutedialect as cute


@cute.kernel
def linear_attention(Q, K, V, decay, out, *, tile=(64, 64, 64)):
    """A work item is some columns of V of one head; `decay` holds log2 of each head's factor."""
    bt, d, dv = tile
    b, h, _, c = cute.tile_index(out, (1, 1, None, dv))
    q, k = (cute.local_tile(X, (bt, d), (b, h, None, 0)) for X in (Q, K))
    v, o = (cute.local_tile(X, (bt, dv), (b, h, None, c)) for X in (V, out))
    rate = decay[h]
    state = cute.zeros((d, dv))
    for j in cute.range(q.tiles):
        y = cute.zeros((bt, dv))
        cute.gemm(q[j], state.to(V.dtype), y)
        s = cute.zeros((bt, bt))
        cute.gemm(q[j], k[j].T, s)
        y.assign(y * cute.exp2(rate * (cute.coord(y, 0) + 1).to(cute.f32)))
        age = cute.coord(s, 0) - cute.coord(s, 1)
        s = cute.where(age >= 0, s * cute.exp2(rate * age.to(cute.f32)), 0.0)
        x = cute.load(k[j])
        left = (bt - 1 - cute.coord(x, 0)).to(cute.f32)
        x = (x.to(cute.f32) * cute.exp2(rate * left)).to(K.dtype)
        state.assign(state * cute.exp2(rate * bt))
        cute.gemm(s.to(V.dtype), v[j], y)
        cute.gemm(x.T, v[j], state)
        cute.copy(y.to(out.dtype), o[j])


def reference(q, k, v, decay):
    """The same in float64, without chunks."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    t = np.arange(q.shape[2])
    age = t[:, None] - t
    weights = np.where(age >= 0, np.exp2(decay[:, None, None] * np.maximum(age, 0)), 0)
    return (q @ k.swapaxes(-1, -2) * weights) @ v


def main() -> int:
    rng = np.random.default_rng(0)
    good = True
    for batch, heads, length, dv in ((1, 2, 256, 64), (2, 3, 100, 96)):
        q, k = (rng.standard_normal((batch, heads, length, 64)).astype(np.float16) for _ in "qk")
        v = rng.standard_normal((batch, heads, length, dv)).astype(np.float16)
        decay = np.log2(1 - np.exp2(-5.0 - np.arange(heads))).astype(np.float32)
        out = np.empty_like(v)
        linear_attention(q, k, v, decay, out)
        exact = reference(q, k, v, decay)
        error = np.abs(out - exact).max() / np.abs(exact).max()
        good &= error < 2e-3
        print(f"{batch} x {heads} x {length} x {dv}: relative error {error:.1e}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
