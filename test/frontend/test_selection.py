"""Reductions by name, the largest elements and their places, and random numbers by place."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute

ARCHS = ("sm_80", "sm_90a")


@cute.kernel
def routing(X, V, P, A, *, tile=(4, 64), k=3):
    i, _ = cute.tile_index(X, (tile[0], None))
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    x = cute.where(cute.coord(x, 1) < X.shape[1], x, -cute.inf)
    values, places = cute.top_k(x, k)
    cute.copy(values, cute.local_tile(V, (tile[0], k), (i, 0)))
    cute.copy(places, cute.local_tile(P, (tile[0], k), (i, 0)))
    cute.copy(cute.argmax(x), cute.local_tile(A, (tile[0], 1), (i, 0)))


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("tile", "k"), [((4, 64), 3), ((1, 64), 8), ((16, 128), 1)])
def test_top_k(arch, tile, k):
    rng = np.random.default_rng(k)
    x = rng.standard_normal((int(rng.integers(1, 12)), 50)).astype(np.float32)
    x[0, 5] = x[0, 9] = 7
    v, p = np.zeros((len(x), k), np.float32), np.zeros((len(x), k), np.int32)
    a = np.zeros((len(x), 1), np.int32)
    routing(x, v, p, a, tile=tile, k=k, arch=arch, backend="emulator")
    order = np.argsort(-x, 1, kind="stable")[:, :k]
    assert np.array_equal(p, order)
    assert np.array_equal(v, np.take_along_axis(x, order, 1))
    assert np.array_equal(a, order[:, :1])


def test_a_nan_is_the_largest():
    x = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    x[1, 7] = x[1, 40] = np.nan
    v, p, a = np.zeros((4, 1), np.float32), np.zeros((4, 1), np.int32), np.zeros((4, 1), np.int32)
    routing(x, v, p, a, k=1, backend="emulator")
    assert np.isnan(v[1, 0])
    assert p[1, 0] == a[1, 0] == 7


@cute.kernel
def chosen(X, V, P, *, k=4):
    values, places = cute.top_k(cute.local_tile(X, (4, 16), (0, 0)), k)
    cute.copy(values, cute.local_tile(V, (4, k), (0, 0)))
    cute.copy(places, cute.local_tile(P, (4, k), (0, 0)))


def in_order(x, k):
    """The places of the largest elements, of equal ones the first; a NaN is the largest."""
    keys = np.where(np.isnan(x), np.inf, x.astype(np.float64))
    return np.lexsort((-keys, ~np.isnan(x)), axis=1)[:, :k]


@pytest.mark.some(4)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("dtype", ["f32", "f16", "f64"])
def test_no_place_is_chosen_twice(dtype, arch):
    """Rows of fewer than k numbers above -inf, of nothing else, of equal ones, and of NaNs."""
    x = np.full((4, 16), -np.inf, getattr(cute, dtype).numpy)
    x[0, [0, 9]] = 1, 2
    x[2] = 3
    x[3, [2, 7, 11]] = np.nan, np.inf, np.nan
    v, p = np.zeros((4, 6), x.dtype), np.zeros((4, 6), np.int32)
    chosen(x, v, p, k=6, arch=arch, backend="emulator")
    assert np.array_equal(p, in_order(x, 6))
    assert np.array_equal(v, np.take_along_axis(x, p, 1), equal_nan=True)


@pytest.mark.parametrize("dtype", ["e4m3", "e5m2"])
def test_the_largest_of_8_bits(dtype):
    x = np.random.default_rng(4).integers(-3, 4, (4, 16)).astype(getattr(cute, dtype).numpy)
    if dtype == "e5m2":
        x[1, [3, 8]] = np.inf, -np.inf
        x[2] = -np.inf
    v, p = np.zeros((4, 3), np.float32), np.zeros((4, 3), np.int32)
    chosen(x, v, p, k=3, arch="sm_90a", backend="emulator")
    assert np.array_equal(p, in_order(x.astype(np.float32), 3))
    assert np.array_equal(v, np.take_along_axis(x.astype(np.float32), p, 1))


@cute.kernel
def reduced(X, R, C, *, kind="add", tile=(16, 64)):
    cute.tile_index(X, tile)
    x = cute.load(cute.local_tile(X, tile, (0, 0)))
    cute.copy(cute.reduce(x, 1, kind), cute.local_tile(R, (tile[0], 1), (0, 0)))
    cute.copy(cute.reduce(x, 0, kind), cute.local_tile(C, (1, tile[1]), (0, 0)))


@pytest.mark.parametrize("kind", ["add", "mul", "max", "min"])
def test_reduce(kind):
    x = np.random.default_rng(2).uniform(0.8, 1.2, (16, 64)).astype(np.float32)
    r, c = np.zeros((16, 1), np.float32), np.zeros((1, 64), np.float32)
    reduced(x, r, c, kind=kind, backend="emulator")
    ufunc = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[kind]
    for found, mode in ((r, 1), (c, 0)):
        exact = ufunc.reduce(x.astype(np.float64), mode, keepdims=True)
        np.testing.assert_allclose(found, exact, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kind": "sum"}, "expected combine to be one of add, max, min, mul, got 'sum'"),
    ],
)
def test_what_reduce_refuses(options, said):
    spec = cute.TensorSpec((16, 64), cute.f32)
    with pytest.raises(cute.CompileError, match=said):
        cute.compile(reduced, spec, spec, spec, **options)


def test_what_top_k_refuses():
    x = cute.TensorSpec((None, 64), cute.f32)
    with pytest.raises(cute.CompileError, match=r"expected k in 1\.\.64, got 65"):
        cute.compile(routing, x, x, cute.TensorSpec((None, 64), cute.i32), x, k=65)


def philox(counter, key):
    """Philox 4x32-10, word by word."""
    c, k = [*counter], [*key]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def test_philox_gives_the_published_words():
    """The known answer of its authors for a counter and key of zeros."""
    words = philox((0, 0, 0, 0), (0, 0))
    assert words == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


@cute.kernel
def noise(Y, seed, *, tile=(2, 64)):
    i, j = cute.tile_index(Y, tile)
    y = cute.zeros(tile)
    row, column = cute.coord(y, 0, i * tile[0]), cute.coord(y, 1, j * tile[1])
    y.assign(cute.rand(seed, row * Y.shape[1] + column))
    cute.copy(y, cute.local_tile(Y, tile, (i, j)))


@pytest.mark.parametrize(("tile", "arch"), [((2, 64), "sm_80"), ((4, 128), "sm_90a")])
def test_random_numbers_follow_from_seed_and_place(tile, arch):
    seed = 123456789
    y = np.zeros((5, 100), np.float32)
    noise(y, seed, tile=tile, arch=arch, backend="emulator")
    exact = [(philox((n, 0, 0, 0), (seed, 0))[0] >> 8) * 2.0**-24 for n in range(500)]
    assert np.array_equal(y.ravel(), np.array(exact, np.float32))
