"""Softmax of the rows of a matrix of any width, in two passes over each row."""

from __future__ import annotations

import sys

import numpy as np

import cutedialect as cute

LOG2E = 1.4426950408889634


@cute.kernel
def softmax(X, Y, *, tile=(16, 128)):
    """Y = softmax(X) along the rows; one work item is `tile[0]` rows."""
    rows, _ = tile
    i, _ = cute.tile_index(Y, (rows, None))
    x = cute.local_tile(X, tile, (i, None))
    y = cute.local_tile(Y, tile, (i, None))
    m = cute.full((rows, 1), -cute.inf, cute.f32)
    total = cute.zeros((rows, 1), cute.f32)
    for j in cute.range(x.tiles):
        value = x[j].to(cute.f32)
        inside = cute.coord(value, 1, x) < X.shape[1]
        value = cute.where(inside, value, -cute.inf)
        new = cute.maximum(m, cute.row_max(value))
        part = cute.row_sum(cute.exp2((value - new) * LOG2E))
        total.assign(total * cute.exp2((m - new) * LOG2E) + part)
        m.assign(new)
    for j in cute.range(x.tiles):
        value = cute.exp2((x[j].to(cute.f32) - m) * LOG2E) / total
        cute.copy(value.to(Y.dtype), y[j])


def main() -> int:
    rng = np.random.default_rng(0)
    worst = 0.0
    for shape in ((48, 384), (37, 301), (5, 1)):
        x = (4 * rng.standard_normal(shape)).astype(np.float32)
        y = np.empty_like(x)
        softmax(x, y)
        exact = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        exact /= exact.sum(1, keepdims=True)
        error = np.abs(y - exact).max()
        worst = max(worst, error)
        print(f"softmax {shape[0]} x {shape[1]}: largest error against float64 {error:.2e}")
    return 0 if worst < 1e-6 else 1


if __name__ == "__main__":
    sys.exit(main())
