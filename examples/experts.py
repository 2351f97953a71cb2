"""The gated feed-forward layer of a mixture of experts in two calls: each token goes to `k`
experts, and the layer is the sum of w_j (silu(x G_e) * (x U_e)) D_e over its experts e.

A router gives experts and weights; `sorted_by_expert` puts the rows in order. Where groups begin
stays on the device, so that the two calls are captured in a CUDA graph as they are.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import cutedialect as cute


def sorted_by_expert(experts: Any, count: int) -> tuple[Any, Any, Any]:
    """Of the experts of each token (tokens, k): which token each row of the sorted groups is, where
    the groups begin and the last one ends, and the place of each choice among the rows.
    """
    order = np.argsort(experts, axis=None, kind="stable")
    offsets = np.searchsorted(experts.ravel()[order], np.arange(count + 1)).astype(np.int32)
    places = np.empty(experts.size, np.int32)
    places[order] = np.arange(experts.size, dtype=np.int32)
    return (order // experts.shape[1]).astype(np.int32), offsets, places.reshape(experts.shape)


def experts_layer(
    x: Any, gate: Any, up: Any, down: Any, tokens: Any, offsets: Any, places: Any, weights: Any
) -> Any:
    """x (tokens, D); gate, up (E, D, H) and down (E, H, D); the rest is what the router said."""
    hidden = cute.routed_gemm(x, gate, offsets, rows=tokens, gated=up, activation="silu")
    return cute.routed_gemm(hidden, down, offsets, scatter=places, weights=weights)


def main() -> int:
    rng = np.random.default_rng(0)
    good = True
    for tokens, count, k, width, hidden in ((40, 8, 2, 64, 96), (9, 16, 4, 72, 64)):
        x = rng.standard_normal((tokens, width)).astype(np.float16)
        gate, up = (rng.standard_normal((count, width, hidden)) / width**0.5 for _ in range(2))
        down = rng.standard_normal((count, hidden, width)) / hidden**0.5
        gate, up, down = (each.astype(np.float16) for each in (gate, up, down))
        experts = np.stack([rng.permutation(count)[:k] for _ in range(tokens)])
        weights = rng.dirichlet(np.ones(k), tokens).astype(np.float32)
        rows, offsets, places = sorted_by_expert(experts, count)
        y = experts_layer(x, gate, up, down, rows, offsets, places, weights)
        exact = np.zeros((tokens, width))
        for t, chosen in enumerate(experts):
            for e, share in zip(chosen, weights[t], strict=True):
                g, u = (x[t].astype(np.float64) @ each[e] for each in (gate, up))
                exact[t] += share * (g / (1 + np.exp(-g)) * u) @ down[e]
        error = np.abs(y - exact).max() / np.abs(exact).max()
        good &= error < 2e-3
        print(f"{tokens} tokens, {k} of {count} experts: relative error {error:.1e}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
