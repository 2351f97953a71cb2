"""Programs on the rows of a matrix, each read once: layer norm, RMSNorm with a residual, softmax in
one pass, rows quantized to 8-bit floats with a scale each, cross-entropy over rows of any width,
and the largest of a row.

A work item is `tile[0]` whole rows; `tile[1]` is at least their width. What a program keeps between
its reductions stays in registers.
"""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np

import cutedialect as cute

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
E4M3_MAX = 448.0


@cute.kernel
def softmax(X, Y, *, tile=(4, 1024)):
    """Y = softmax(X) along the rows."""
    i, _ = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    x = cute.where(cute.coord(x, 1) < X.shape[1], x, -cute.inf)
    e = cute.exp(x - cute.row_max(x))
    cute.copy((e / cute.row_sum(e)).to(Y.dtype), cute.local_tile(Y, tile, (i, 0)))


@cute.kernel
def layer_norm(X, scale, bias, Y, eps, *, tile=(4, 1024)):
    """Y = (X - mean) / sqrt(variance + eps) * scale + bias, along the rows."""
    i, _ = cute.tile_index(Y, tile)
    width = X.shape[1]
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    d = cute.where(cute.coord(x, 1) < width, x - cute.row_sum(x) / width, 0.0)
    r = cute.rsqrt(cute.row_sum(d * d) / width + eps)
    s, b = (cute.row_vector(v, 0, tile[1]).to(cute.f32) for v in (scale, bias))
    cute.copy((d * r * s + b).to(Y.dtype), cute.local_tile(Y, tile, (i, 0)))


@cute.kernel
def rms_norm(X, R, scale, Y, S, eps, *, tile=(4, 1024)):
    """S = X + R, the residual stream; Y = S / sqrt(mean of squares + eps) * scale."""
    i, _ = cute.tile_index(Y, tile)
    x, r = (cute.local_tile(v, tile, (i, 0)) for v in (X, R))
    s = x.to(cute.f32) + r.to(cute.f32)
    cute.copy(s.to(S.dtype), cute.local_tile(S, tile, (i, 0)))
    inverse = cute.rsqrt(cute.row_sum(s * s) / X.shape[1] + eps)
    y = s * inverse * cute.row_vector(scale, 0, tile[1]).to(cute.f32)
    cute.copy(y.to(Y.dtype), cute.local_tile(Y, tile, (i, 0)))


@cute.kernel
def quantize(X, Y, scales, *, tile=(4, 1024)):
    """Y = X / scales in 8 bits; the scale of a row takes its largest magnitude to the type's."""
    i, _ = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    scale = cute.maximum(cute.row_max(cute.abs(x)), 1e-12) / E4M3_MAX
    cute.copy(scale, cute.local_tile(scales, (tile[0],), (i,)))
    cute.copy((x * (1.0 / scale)).to(Y.dtype), cute.local_tile(Y, tile, (i, 0)))


@cute.kernel
def cross_entropy(X, labels, losses, *, tile=8192):
    """losses = log(sum(exp(X))) - X[label] of each row, in one pass with a running maximum."""
    i = cute.tile_index(losses, (1,))
    x = cute.local_tile(X, (1, tile), (i, None))
    top, total = cute.full((1, 1), -cute.inf), cute.zeros((1, 1))
    for j in cute.range(x.tiles):
        v = x[j].to(cute.f32)
        v = cute.where(cute.coord(v, 1, x) < X.shape[1], v, -cute.inf)
        new = cute.maximum(top, cute.row_max(v))
        part = cute.row_sum(cute.exp(v - new))
        total.assign(total * cute.exp(top - new) + part)
        top.assign(new)
    right = cute.local_tile(X, (1, 1), (i, labels[i])).to(cute.f32)
    cute.copy(top + cute.log(total) - right, cute.local_tile(losses, (1,), (i,)))


@cute.kernel
def top_k(X, values, places, *, tile=(4, 256), k=8):
    """The k largest of each row in falling order, and their columns."""
    i, _ = cute.tile_index(X, (tile[0], None))
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    x = cute.where(cute.coord(x, 1) < X.shape[1], x, -cute.inf)
    found = cute.top_k(x, k)
    for tensor, part in zip((values, places), found, strict=True):
        cute.copy(part.to(tensor.dtype), cute.local_tile(tensor, (tile[0], k), (i, 0)))


def tile_for(width: int, rows: int = 4) -> tuple[int, int]:
    """Whole rows of a width, several where they are short."""
    return max(1, min(rows, 4096 // width)), width


def _worst(name: str, shape: tuple[int, int], *pairs: tuple[np.ndarray, np.ndarray]) -> float:
    error = max(
        float(np.abs(found.astype(np.float64) - exact).max() / np.abs(exact).max())
        for found, exact in pairs
    )
    print(f"{name} {shape[0]} x {shape[1]}: error against float64 {error:.1e}")
    return error


def main() -> int:
    rng = np.random.default_rng(0)
    errors: list[float] = []
    for shape in ((6, 1024), (5, 301)):
        tile, width = tile_for(shape[1]), shape[1]
        x, r = (rng.standard_normal(shape).astype(BF16) for _ in range(2))
        scale, bias = (rng.standard_normal(width).astype(BF16) for _ in range(2))
        y, s = np.empty_like(x), np.empty_like(x)
        wide, g, b = (each.astype(np.float64) for each in (x, scale, bias))

        softmax(x, y, tile=tile)
        e = np.exp(wide - wide.max(1, keepdims=True))
        errors.append(_worst("softmax", shape, (y, e / e.sum(1, keepdims=True))))

        layer_norm(x, scale, bias, y, 1e-5, tile=tile)
        d = wide - wide.mean(1, keepdims=True)
        exact = d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * g + b
        errors.append(_worst("layer norm", shape, (y, exact)))

        rms_norm(x, r, scale, y, s, 1e-5, tile=tile)
        total = wide + r.astype(np.float64)
        exact = total / np.sqrt((total * total).mean(1, keepdims=True) + 1e-5) * g
        errors.append(_worst("RMSNorm", shape, (y, exact), (s, total)))

        q, scales = np.empty(shape, E4M3), np.empty(shape[0], np.float32)
        try:
            quantize(x, q, scales, tile=tile)
        except cute.CompileError:  # 8-bit floats begin with sm_89
            quantize(x, q, scales, tile=tile, arch="sm_90a", backend="emulator")
        errors.append(_worst("e4m3", shape, (q.astype(np.float32) * scales[:, None], wide)) / 8)

        labels = rng.integers(0, width, shape[0]).astype(np.int32)
        losses = np.empty(shape[0], np.float32)
        cross_entropy(x, labels, losses, tile=256)
        exact = np.log(np.exp(wide).sum(1)) - wide[np.arange(len(labels)), labels]
        errors.append(_worst("cross-entropy", shape, (losses, exact)))

        values, places = np.empty((shape[0], 4), np.float32), np.empty((shape[0], 4), np.int32)
        top_k(x, values, places, tile=tile, k=4)
        exact = -np.sort(-wide, 1)[:, :4]
        found = np.take_along_axis(wide, places, 1)
        errors.append(_worst("top 4", shape, (values, exact), (found, exact)))
    return 0 if max(errors) < 1e-2 else 1


if __name__ == "__main__":
    sys.exit(main())
