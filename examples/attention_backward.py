"""Gradients of attention: queries, keys and values learn to attend like others, by descent.

    python examples/attention_backward.py

The loss is half the squared distance of the results, whose slopes are that distance. It runs in the
emulator where there is no GPU.
"""

from __future__ import annotations

import sys

import numpy as np

import cutedialect as cute

SHAPE, STEPS, RATE = (1, 1, 40, 32), 3, 0.4


def main() -> int:
    rng = np.random.default_rng(0)
    goal = cute.attention(*(rng.standard_normal(SHAPE).astype(np.float16) for _ in range(3)))
    learned = [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(3)]
    losses: list[float] = []
    for step in range(STEPS):
        q, k, v = (x.astype(np.float16) for x in learned)
        out, lse = cute.attention(q, k, v, causal=True, return_lse=True)
        do = out - goal
        losses.append(float(np.square(do.astype(np.float32)).sum() / 2))
        print(f"step {step}: loss {losses[-1]:.1f}")
        gradients = cute.attention_backward(do, q, k, v, out, lse, causal=True)
        for x, gradient in zip(learned, gradients, strict=True):
            x -= RATE * gradient
    return 0 if sorted(losses, reverse=True) == losses else 1


if __name__ == "__main__":
    sys.exit(main())
