"""Programs as users write them, on every generation, against NumPy: what found a fault stays."""

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

TARGETS = ("sm_75", "sm_80", "sm_90a", "sm_100a")
BF16 = ml_dtypes.bfloat16


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@cute.kernel
def rotary(X, cos, sin, Y, *, tile=16, d=32):
    """Rotary embeddings of (batch, place, head, d): a tile has one head, between its two modes."""
    b, i, h, _ = cute.tile_index(X, (1, tile, 1, d))

    def half(T, which):
        return cute.local_tile(T, (tile, 1, d // 2), (b, i, h, which))

    x0, x1 = half(X, 0).to(cute.f32), half(X, 1).to(cute.f32)
    c, s = (cute.local_tile(T, (tile, d // 2), (i, 0)).load() for T in (cos, sin))
    cute.copy((x0 * c - x1 * s).to(Y.dtype), half(Y, 0))
    cute.copy((x0 * s + x1 * c).to(Y.dtype), half(Y, 1))


@pytest.mark.parametrize("arch", TARGETS)
def test_a_tile_with_a_mode_of_one_element_in_between(arch, rng):
    x = rng.standard_normal((2, 20, 3, 32)).astype(np.float16)
    angles = np.outer(np.arange(20), 100.0 ** (-np.arange(16) / 16))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    y = np.zeros_like(x)
    rotary(x, cos, sin, y, arch=arch, backend="emulator")
    c, s = cos[:, None], sin[:, None]
    x0, x1 = x[..., :16].astype(float), x[..., 16:].astype(float)
    exact = np.concatenate([x0 * c - x1 * s, x0 * s + x1 * c], -1)
    assert np.allclose(y, exact, atol=4e-3)


@cute.kernel
def cholesky(A, L, *, n=4, tile=32):
    """Factors of n x n matrices, one a thread: unrolled, on columns of one element each."""
    b, _, _ = cute.tile_index(A, (tile, n, n))

    def at(T, i, j):
        return cute.local_tile(T, (tile, 1, 1), (b, i, j))

    factor = {}
    for i in range(n):
        for j in range(i + 1):
            s = at(A, i, j).load()
            for k in range(j):
                s = s - factor[i, k] * factor[j, k]
            factor[i, j] = cute.sqrt(s) if i == j else s / factor[j, j]
            cute.copy(factor[i, j], at(L, i, j))


@pytest.mark.parametrize("arch", TARGETS)
def test_tiles_of_one_element_in_two_modes(arch, rng):
    a = rng.standard_normal((70, 4, 4))
    a = (a @ a.transpose(0, 2, 1) + 4 * np.eye(4)).astype(np.float32)
    factor = np.zeros_like(a)
    cholesky(a, factor, arch=arch, backend="emulator")
    assert np.allclose(factor, np.linalg.cholesky(a.astype(float)), atol=1e-6)


@cute.kernel
def sums_of_runs(X, Y, *, tile=(8, 16)):
    """A run of tiles along a mode that has one element in each, between two others."""
    i, j = cute.tile_index(Y, tile)
    x = cute.local_tile(X, (tile[0], 1, tile[1]), (i, None, j))
    total = cute.zeros(x.shape)
    for k in cute.range(x.tiles):
        total += x[k].load()
    cute.copy(total, cute.local_tile(Y, tile, (i, j)))


@pytest.mark.parametrize("arch", TARGETS)
def test_a_run_along_a_mode_of_one_element(arch, rng):
    x = rng.integers(-9, 10, (13, 5, 30)).astype(np.float32)
    y = np.zeros((13, 30), np.float32)
    sums_of_runs(x, y, arch=arch, backend="emulator")
    assert np.array_equal(y, x.sum(1))


def test_tiles_of_three_modes_are_copied():
    @cute.kernel
    def program(X, Y):
        i, j, k = cute.tile_index(X, (2, 2, 4))
        tile = cute.local_tile(X, (2, 2, 4), (i, j, k))
        cute.copy(tile.load(), cute.local_tile(Y, (2, 2, 4), (i, j, k)))

    x = np.arange(64, dtype=np.float32).reshape(4, 4, 4)
    y = np.zeros_like(x)
    program(x, y, backend="emulator")
    assert np.array_equal(y, x)


def test_an_origin_in_another_mode_is_refused():
    """Keys are read transposed: their coordinates are those of k.T."""

    @cute.kernel
    def program(Q, K, S, *, by_view):
        q, k = cute.local_tile(Q, (16, 64), (0, 0)), cute.local_tile(K, (32, 64), (None, 0))
        for j in cute.range(k.tiles):
            s = cute.zeros((16, 32))
            cute.gemm(q, k[j].T, s)
            origin = k if by_view == "run" else k[j].T if by_view == "T" else k[j]
            s = cute.where(cute.coord(s, 1, origin) < K.shape[0], s, -1.0)
            cute.copy(s, cute.local_tile(S, (16, 32), (0, j)))

    q, k = np.ones((16, 64), np.float16), np.ones((40, 64), np.float16)
    for by_view in ("T", "run"):
        s = np.zeros((16, 64), np.float32)
        program(q, k, s, by_view=by_view, backend="emulator")
        assert (s[:, :40] == 64).all()
        assert (s[:, 40:] == -1).all()
    wanted = r"an origin with 32 elements along mode 1.*got 64 of a view of shape \(32, 64\)"
    with pytest.raises(cute.CompileError, match=wanted):
        program(q, k, s, by_view="view", backend="emulator")


@cute.kernel
def read(V, Y):
    """A condition and a number that come from one element of a tensor."""
    i = cute.tile_index(Y, (4,))
    y = cute.local_tile(Y, (4,), (i,))
    cute.copy(cute.zeros((4, 1)) + V[i].to(cute.f32), y)
    with cute.when(V[i] > 1):
        cute.copy(cute.zeros((4, 1)) + (V[i] * 2).to(cute.f32), y)


KINDS = (np.int8, np.uint8, np.float16, BF16, np.float32, np.int64, np.float64)
EIGHTS = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)


@pytest.mark.parametrize(
    ("kind", "arch"),
    [*((kind, "sm_80") for kind in KINDS), *((kind, "sm_90a") for kind in (*KINDS, *EIGHTS))],
)
def test_an_element_of_any_type_is_read(kind, arch):
    v = np.array([250, 1, 2, 3] if kind is np.uint8 else [-2, 1, 2, -3]).astype(kind)
    y = np.zeros(16, np.float32)
    read(v, y, arch=arch, backend="emulator")
    exact = v.astype(np.float32)
    assert np.array_equal(y[::4], np.where(exact > 1, (v * kind(2)).astype(np.float32), exact))
