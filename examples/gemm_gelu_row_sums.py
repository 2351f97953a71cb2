"""GELU(A B + bias) and the sums of its rows, in one kernel.

Each CTA adds its part of the row sums atomically in f32.
"""

from __future__ import annotations

import math
import sys

import numpy as np

import cutedialect as cute


@cute.kernel
def gemm_gelu_row_sums(A, B, C, bias, sums, *, tile=(64, 64, 32)):
    """C = gelu(A B + bias), sums += row sums of C."""
    bm, bn, bk = tile
    m, n = cute.tile_index(C, (bm, bn))
    gA, gB = cute.local_tile(A, (bm, bk), (m, None)), cute.local_tile(B, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn), cute.f32)
    for k in cute.range(gA.tiles):
        cute.gemm(gA[k], gB[k], acc)
    out = cute.gelu(acc + cute.row_vector(bias, n, bn))
    # Columns beyond C hold gelu(0) = 0 and add nothing to the sums.
    cute.atomic_add(cute.row_sum(out), cute.local_tile(sums, (bm,), (m,)))
    cute.copy(out.to(C.dtype), cute.local_tile(C, (bm, bn), (m, n)))


def main() -> int:
    rng = np.random.default_rng(0)
    good = True
    for m, n, k in ((128, 128, 64), (100, 90, 40)):
        a = rng.standard_normal((m, k)).astype(np.float16)
        b = rng.standard_normal((k, n)).astype(np.float16)
        bias = rng.standard_normal(n).astype(np.float16)
        c, sums = np.empty((m, n), np.float16), np.zeros(m, np.float32)
        gemm_gelu_row_sums(a, b, c, bias, sums)
        x = a.astype(np.float64) @ b.astype(np.float64) + bias.astype(np.float64)
        exact = 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))
        error = np.abs(c - exact).max() / np.abs(exact).max()
        sum_error = np.abs(sums - exact.sum(1)).max() / np.abs(exact.sum(1)).max()
        good &= error < 1e-3 and sum_error < 1e-5
        print(f"{m} x {n} x {k}: relative error {error:.1e}, of the row sums {sum_error:.1e}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
