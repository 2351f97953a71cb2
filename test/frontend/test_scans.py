"""`cute.cumsum`, `cute.scan` and the like along modes, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

ARCHES = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"]


def computed(function, x, tile=None, out=None, arch="sm_90a", backend="emulator", **options):
    tile = tile or x.shape

    @cute.kernel
    def program(X, Y):
        at = cute.tile_index(Y, tile)
        cute.copy(function(cute.local_tile(X, tile, at).load()), cute.local_tile(Y, tile, at))

    y = np.zeros(x.shape, out or x.dtype)
    program(x, y, arch=arch, backend=backend, **options)
    return y


def both(function, x, tile=None, out=None, arch="sm_90a", **options):
    y = computed(function, x, tile, out, arch, **options)
    np.testing.assert_array_equal(y, computed(function, x, tile, out, arch, "interpreter"))
    return y


def sums(x, mode, reverse, exclusive):
    wide = np.flip(x, mode) if reverse else x
    y = np.cumsum(wide, mode) - (wide if exclusive else 0)
    return np.flip(y, mode) if reverse else y


# Rows of one thread, of lanes, of warps, and of what is padded; columns alike.
SHAPES = [(4, 64, None), (2, 256, (1, 4)), (64, 24, (4, 1)), (3, 100, None), (5, 1, None)]


@pytest.mark.some(5)
@pytest.mark.parametrize(("rows", "columns", "warps"), SHAPES)
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_sums(rows, columns, warps, mode, reverse, exclusive):
    x = np.random.default_rng(0).integers(-4, 5, (rows, columns)).astype(np.float32)
    how = {"reverse": reverse, "exclusive": exclusive}
    schedule = {} if warps is None else {"schedule": cute.Schedule(warps=warps)}
    y = both(lambda tile: cute.cumsum(tile, mode, **how), x, **schedule)
    np.testing.assert_array_equal(y, sums(x, mode, reverse, exclusive))


DTYPES = ["int8", "uint8", "uint32", "int64", "float16", "float64", ml_dtypes.bfloat16]


@pytest.mark.some(3)
@pytest.mark.parametrize("dtype", DTYPES)
def test_types(dtype):
    x = np.random.default_rng(1).integers(0, 3, (6, 40)).astype(dtype)
    out = np.int32 if np.dtype(dtype).itemsize == 1 else dtype
    wide = x.astype(np.float64)
    y = both(lambda tile: cute.cumsum(tile, -1), x, out=out)
    np.testing.assert_array_equal(y.astype(np.float64), np.cumsum(wide, 1))
    y = both(lambda tile: cute.cumprod(cute.maximum(tile, 1), 0), x, out=out)
    np.testing.assert_array_equal(y.astype(np.float64), np.cumprod(np.maximum(wide, 1), 0))
    y = both(lambda tile: cute.cummax(tile) - cute.cummin(tile), x, out=out)
    want = np.maximum.accumulate(wide, 1) - np.minimum.accumulate(wide, 1)
    np.testing.assert_array_equal(y.astype(np.float64), want)


def test_first_elements_of_exclusive_extremes():
    x = np.array([[3, 1, 4, 1], [5, 9, 2, 6]], np.float32)
    y = both(lambda tile: cute.cummax(tile, exclusive=True), x)
    np.testing.assert_array_equal(y, [[-np.inf, 3, 3, 4], [-np.inf, 5, 9, 9]])
    y = both(lambda tile: cute.cummin(tile, 0, exclusive=True), x.astype(np.uint32))
    np.testing.assert_array_equal(y, [[2**32 - 1] * 4, [3, 1, 4, 1]])


def test_a_nan_stays():
    x = np.ones((2, 64), np.float32)
    x[0, 40] = np.nan
    y = both(cute.cummax, x)
    assert np.array_equal(np.isnan(y[0]), np.arange(64) >= 40)
    assert (y[1] == 1).all()


def affine(a, b, c, d):
    return a * c, b * c + d


def composed(a, b, mode, reverse, first=None):
    """The scan of maps x -> a x + b, one element of each line after the other."""
    a, b = (np.moveaxis(np.flip(v, mode) if reverse else v, mode, 0) for v in (a, b))
    found, last = [], None
    for now in zip(a, b, strict=True):
        if first is not None:
            found.append([np.full_like(v, f) for v, f in zip(now, first, strict=True)])
            if last is not None:
                found[-1] = last
        last = now if last is None else affine(*last, *now)
        if first is None:
            found.append(last)
    made = [np.moveaxis(np.stack(v), 0, mode) for v in zip(*found, strict=True)]
    return [np.flip(v, mode) if reverse else v for v in made]


def scanned_pairs(a, b, mode, reverse, first, arch, backend, warps):
    @cute.kernel
    def program(A, B, P, Q):
        at = cute.tile_index(A, a.shape)
        tiles = tuple(cute.local_tile(v, a.shape, at).load() for v in (A, B))
        how = {"reverse": reverse, "exclusive": first is not None, "initial": first}
        for value, result in zip(cute.scan(tiles, mode, affine, **how), (P, Q), strict=True):
            cute.copy(value, cute.local_tile(result, a.shape, at))

    p, q = np.zeros_like(a), np.zeros_like(b)
    schedule = {} if backend == "interpreter" else {"schedule": cute.Schedule(warps=warps)}
    program(a, b, p, q, arch=arch, backend=backend, **schedule)
    return p, q


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("shape", [(2, 100), (1, 512), (48, 24), (33, 7)])
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("first", [None, (7, 9)])
def test_functions_that_do_not_commute(shape, mode, reverse, first, arch):
    rng = np.random.default_rng(2)
    a = rng.choice([1, 1, 1, -1], shape).astype(np.int64)
    b = rng.integers(-4, 5, shape).astype(np.int64)
    warps = (1, 4) if shape[0] < shape[1] else (4, 1)
    for backend in ("emulator", "interpreter"):
        made = scanned_pairs(a, b, mode, reverse, first, arch, backend, warps)
        for got, want in zip(made, composed(a, b, mode, reverse, first), strict=True):
            np.testing.assert_array_equal(got, want)


def test_segmented_sums():
    def segmented(x, f, y, g):
        return cute.where(g != 0, y, x + y), f | g

    @cute.kernel
    def program(X, F, Y):
        at = cute.tile_index(Y, (4, 96))
        x, f = (cute.local_tile(v, (4, 96), at).load() for v in (X, F))
        cute.copy(cute.scan((x, f), 1, segmented)[0], cute.local_tile(Y, (4, 96), at))

    rng = np.random.default_rng(3)
    x = rng.integers(-4, 5, (8, 96)).astype(np.float32)
    f = (rng.random((8, 96)) < 0.1).astype(np.int32)
    want = x.copy()
    for j in range(1, 96):
        want[:, j] += np.where(f[:, j] != 0, 0, want[:, j - 1])
    for backend in ("emulator", "interpreter"):
        y = np.zeros_like(x)
        program(x, f, y, arch="sm_90a", backend=backend)
        np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("roles", ["uniform", "specialized"])
def test_carried_through_a_loop(roles):
    @cute.kernel
    def program(X, Y):
        (i, _) = cute.tile_index(Y, (4, 200))
        carry = cute.zeros((4, 1), cute.i32)
        for k in cute.range(-(-X.shape[1] // 64)):
            x = cute.local_tile(X, (4, 64), (i, k)).load()
            cute.copy(cute.cumsum(x) + carry, cute.local_tile(Y, (4, 64), (i, k)))
            carry += cute.sum(x, mode=1)

    x = np.random.default_rng(4).integers(-5, 5, (8, 200)).astype(np.int8)
    y = np.zeros(x.shape, np.int32)
    program(x, y, arch="sm_90a", backend="emulator", schedule=cute.Schedule(roles=roles))
    np.testing.assert_array_equal(y, np.cumsum(x.astype(np.int32), 1))


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a", "sm_100a"])
def test_of_products(arch):
    @cute.kernel
    def program(A, B, Y):
        i, j = cute.tile_index(Y, (64, 64))
        acc = cute.zeros((64, 64))
        for k in cute.range(2):
            a, b = (cute.local_tile(v, (64, 32), (at, k)) for v, at in ((A, i), (B, j)))
            cute.gemm(a, b.T, acc)
        cute.copy(
            cute.cumsum(cute.cumsum(acc, 1, reverse=True), 0), cute.local_tile(Y, (64, 64), (i, j))
        )

    rng = np.random.default_rng(5)
    a, b = (rng.integers(-2, 3, (64, 64)).astype(np.float16) for _ in range(2))
    y = np.zeros((64, 64), np.float32)
    program(a, b, y, arch=arch, backend="emulator")
    product = a.astype(np.float32) @ b.astype(np.float32).T
    np.testing.assert_array_equal(y, np.cumsum(sums(product, 1, True, False), 0))


def test_a_mutable_tile_keeps_what_it_had():
    def function(tile):
        state = cute.zeros(tile.shape)
        state += tile
        scanned = cute.cumsum(state)
        state.assign(0.0)
        return scanned + state

    x = np.ones((4, 32), np.float32)
    np.testing.assert_array_equal(both(function, x), np.cumsum(x, 1))


def test_exchanges_of_several_sizes_share_a_place():
    def function(tile):
        return cute.cumsum(tile) + cute.sum(tile, mode=1) + cute.max(tile, mode=0)

    def size(one):
        @cute.kernel
        def program(X, Y):
            at = cute.tile_index(Y, (8, 256))
            x = cute.local_tile(X, (8, 256), at).load()
            cute.copy(one(x), cute.local_tile(Y, (8, 256), at))

        spec = cute.TensorSpec((None, None), cute.f32)
        schedule = cute.Schedule(warps=(2, 2))
        return cute.compile(
            program, spec, spec, arch="sm_90a", schedule=schedule
        ).program.dynamic_smem

    one, other = size(cute.cumsum), size(lambda tile: cute.max(tile, mode=0) + tile)
    assert size(function) == max(one, other) > min(one, other)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda t: cute.cumsum(t, 2), "expected mode 0 .columns. or 1 .rows., got 2"),
        (lambda t: cute.scan(t, 1, "or"), "one of add, mul, max, min, got 'or'"),
        (lambda t: cute.scan((t, t), 1, "add"), "expected a function to combine"),
        (lambda t: cute.scan((), 1, "add"), "expected a tile or a tuple of tiles"),
        (lambda t: cute.scan(t, 1, lambda a, b: 3), "to give 1 scalar of the types"),
        (lambda t: cute.scan((t, t), 1, lambda a, b, c, d: (a,)), "to give 2 scalars of the types"),
        (
            lambda t: cute.scan(t, 1, lambda a, b: a + b, exclusive=True),
            "as many initial values as tiles, 1",
        ),
        (
            lambda t: cute.scan((t, t), 1, affine, exclusive=True, initial=(1, "x")),
            "expected numbers or scalars as initial values",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(function, message):
    with pytest.raises(CompileError, match=message):
        computed(function, np.zeros((8, 8), np.float32))


def merged(n, m, q, k, o, r):
    """Counts, means and sums of squares beside the means of two parts (Welford)."""
    both = n + k
    share = k / both
    d = o - m
    return both, m + d * share, q + r + d * d * n * share


@pytest.mark.some(2)
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_reductions_of_tuples(mode, arch):
    x = np.random.default_rng(6).standard_normal((24, 100)).astype(np.float32) + 100

    @cute.kernel
    def program(X, M, V):
        t = cute.local_tile(X, x.shape, (0, 0)).load()
        parts = cute.full(x.shape, 1.0), t, cute.zeros(x.shape)
        n, mean, squares = cute.reduce(parts, mode, merged)
        for value, out in ((mean, M), (squares / n, V)):
            cute.copy(value, cute.local_tile(out, value.shape, (0, 0)))

    shape = x.mean(mode, keepdims=True).shape
    for backend in ("emulator", "interpreter"):
        m, v = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        program(x, m, v, arch=arch, backend=backend)
        wide = x.astype(np.float64)
        np.testing.assert_allclose(m, wide.mean(mode, keepdims=True), rtol=1e-6)
        np.testing.assert_allclose(v, wide.var(mode, keepdims=True), rtol=2e-5)
