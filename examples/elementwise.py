"""Programs that compute each element from a few others: SwiGLU, a cast, a sum, rotary embeddings,
rows gathered by their numbers, and dropout whose random numbers do not depend on the schedule.
"""

from __future__ import annotations

import sys

import ml_dtypes
import numpy as np

import cutedialect as cute

BF16 = ml_dtypes.bfloat16


@cute.kernel
def add(X, Y, Z, *, tile=(2, 1024)):
    """Z = X + Y."""
    at = cute.tile_index(Z, tile)
    x, y = (cute.local_tile(v, tile, at).to(cute.f32) for v in (X, Y))
    cute.copy((x + y).to(Z.dtype), cute.local_tile(Z, tile, at))


@cute.kernel
def cast(X, Y, *, tile=(4, 1024)):
    """Y = X in another type."""
    at = cute.tile_index(Y, tile)
    cute.copy(cute.local_tile(X, tile, at).to(Y.dtype), cute.local_tile(Y, tile, at))


@cute.kernel
def swiglu(X, Y, Z, *, tile=(4, 1024)):
    """Z = silu(X) * Y."""
    at = cute.tile_index(Z, tile)
    x, y = (cute.local_tile(v, tile, at).to(cute.f32) for v in (X, Y))
    cute.copy((cute.silu(x) * y).to(Z.dtype), cute.local_tile(Z, tile, at))


def flat(x):
    """All elements of a contiguous array as one row, for programs that do not care where it ends:
    NumPy arrays and torch tensors.
    """
    return x.reshape(1, -1)


@cute.kernel
def rope(X, C, S, Y, *, tile=(16, 64), heads=4):
    """Rotary embeddings: X and Y are (2, heads, tokens, depth / 2), the parts of heads that are
    turned against each other by angles (tokens, depth / 2), of which C and S are the cosines and
    sines; `tile[1]` is half of the depth. `halves` and `neighbors` are such views. A work item
    turns several `heads`, which divide the number of them, by the angles that it has loaded.
    """
    _, group, i, _ = cute.tile_index(Y, (None, heads, *tile))
    c, s = (cute.local_tile(v, tile, (i, 0)).to(cute.f32) for v in (C, S))
    for h in range(heads):
        at = group * heads + h, i, 0
        one, other = (cute.local_tile(X, tile, (part, *at)).to(cute.f32) for part in (0, 1))
        cute.copy((one * c - other * s).to(Y.dtype), cute.local_tile(Y, tile, (0, *at)))
        cute.copy((other * c + one * s).to(Y.dtype), cute.local_tile(Y, tile, (1, *at)))


def halves(x):
    """Heads (heads, tokens, depth) whose first half is turned against the second."""
    heads, tokens, depth = x.shape
    return _front(x.reshape(heads, tokens, 2, depth // 2), 2)


def neighbors(x):
    """Heads (heads, tokens, depth) whose neighbors are turned against each other."""
    heads, tokens, depth = x.shape
    return _front(x.reshape(heads, tokens, depth // 2, 2), 3)


def _front(x, mode: int):
    """A view with one mode in front: NumPy arrays and torch tensors."""
    order = (mode, *(each for each in range(4) if each != mode))
    return x.permute(order) if hasattr(x, "permute") else x.transpose(order)


@cute.kernel
def gather(X, rows, Y, *, tile=4096):
    """Y[i] = X[rows[i]]."""
    i, j = cute.tile_index(Y, (1, tile))
    x = cute.load(cute.local_tile(X, (1, tile), (rows[i], j)))
    cute.copy(x, cute.local_tile(Y, (1, tile), (i, j)))


@cute.kernel
def scatter(X, rows, Y, *, tile=(4, 1024)):
    """Y[rows[i]] = X[i], several rows a work item."""
    i, j = cute.tile_index(X, tile)
    x = cute.load(cute.local_tile(X, tile, (i, j)))
    at = cute.local_tile(rows, (tile[0],), (i,))
    cute.copy(x, cute.local_tile(Y, tile, (at, j)))


@cute.kernel
def dropout(X, Y, seed, p, *, tile=(4, 256)):
    """Y = X / (1 - p) with probability 1 - p, else 0: which elements follows from their places."""
    i, j = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, j)).to(cute.f32)
    row, column = cute.coord(x, 0, i * tile[0]), cute.coord(x, 1, j * tile[1])
    kept = cute.rand(seed, row * X.shape[1] + column) >= p
    y = cute.where(kept, x / (1.0 - p), 0.0)
    cute.copy(y.to(Y.dtype), cute.local_tile(Y, tile, (i, j)))


def main() -> int:
    rng = np.random.default_rng(0)
    good = True

    def check(name: str, found: np.ndarray, exact: np.ndarray) -> None:
        nonlocal good
        error = float(np.abs(found.astype(np.float64) - exact).max() / np.abs(exact).max())
        good &= error < 1e-2
        print(f"{name}: error against float64 {error:.1e}")

    x, y = (rng.standard_normal((9, 1300)).astype(BF16) for _ in range(2))
    z, wide, other = np.empty_like(x), x.astype(np.float64), y.astype(np.float64)
    add(x, y, z)
    check("sum", z, wide + other)
    swiglu(x, y, z)
    check("SwiGLU", z, wide / (1 + np.exp(-wide)) * other)
    half = np.empty(x.shape, np.float16)
    cast(x, half)
    check("cast", half, wide)

    heads = rng.standard_normal((2, 40, 128)).astype(BF16)
    angles = rng.standard_normal((40, 64))
    c, s = (f(angles).astype(np.float32) for f in (np.cos, np.sin))
    for name, view in (("halves", halves), ("neighbors", neighbors)):
        out = np.zeros_like(heads)
        rope(view(heads), c, s, view(out), heads=2)
        one, two = view(heads).astype(np.float64)
        exact = np.stack([one * c - two * s, two * c + one * s])
        check(f"rotary embeddings, {name}", view(out), exact)

    rows = rng.permutation(9).astype(np.int32)
    gather(x, rows, z, tile=2048)
    back = np.empty_like(x)
    scatter(z, rows, back)
    good &= np.array_equal(z, x[rows]) and np.array_equal(back, x)
    print("rows gathered and scattered")

    kept = np.empty_like(x)
    dropout(x, kept, 7, 0.25)
    again = np.empty_like(x)
    dropout(x, again, 7, 0.25, tile=(1, 512))
    share = float((kept != 0).mean())
    good &= np.array_equal(kept, again) and abs(share - 0.75) < 0.02
    print(f"dropout: {share:.3f} of the elements kept, the same under two schedules")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
