"""Kernels that load tiles which they have stored before: the loads see the stores. On a GPU, where
there is one, each runs a thousand times and gives the same bits.
"""

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime.driver import gpu_available

TARGETS = ("sm_80", "sm_90a")
ON_THE_GPU = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="no GPU")]


@pytest.fixture(params=[("emulator", 1), pytest.param(("cuda", 1000), marks=ON_THE_GPU)], ids=str)
def run(request, arch):
    """Runs a kernel on copies of arrays, which it returns."""
    backend, times = request.param

    def run_on_copies(kernel, *arrays):
        found = None
        for at in range(times):
            copies = [array.copy() for array in arrays]
            kernel(*copies, arch=arch, backend=backend)
            found = found or copies
            for one, other in zip(found, copies, strict=True):
                assert np.array_equal(one, other), f"run {at} differs"
        return found

    return run_on_copies


@cute.kernel
def rms_norm(X, R, Y, *, tile=(4, 64)):
    """R += X; Y = R / sqrt(mean of squares of R's row): R is stored, and read again."""
    rows, _ = tile
    i, _ = cute.tile_index(Y, (rows, None))
    x, r, y = (cute.local_tile(T, tile, (i, None)) for T in (X, R, Y))
    total = cute.zeros((rows, 1), cute.f32)
    for j in cute.range(x.tiles):
        both = x[j].to(cute.f32) + r[j].to(cute.f32)
        cute.copy(both.to(R.dtype), r[j])
        total.assign(total + cute.row_sum(both * both))
    for j in cute.range(x.tiles):
        value = r[j].to(cute.f32)
        cute.copy((value * cute.rsqrt(total / 64.0 + 1.0)).to(Y.dtype), y[j])


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("columns", [64, 200, 201])
def test_a_second_pass_reads_what_the_first_has_stored(run, arch, columns):
    rng = np.random.default_rng(columns)
    x, r = (rng.standard_normal((9, columns)).astype(np.float32) for _ in range(2))
    y = np.zeros_like(x)
    both = (x + r).astype(np.float64)
    x, r, y = run(rms_norm, x, r, y)
    assert np.allclose(r, both, atol=1e-6)
    expected = both / np.sqrt((both * both).sum(1, keepdims=True) / 64 + 1)
    assert np.allclose(y, expected, atol=1e-5)


@cute.kernel
def softmax_in_place(X, *, tile=(2, 64)):
    """Three passes over a row: largest, exponentials stored in place, division in place."""
    rows, _ = tile
    i, _ = cute.tile_index(X, (rows, None))
    x = cute.local_tile(X, tile, (i, None))
    m, total = cute.full((rows, 1), -cute.inf, cute.f32), cute.zeros((rows, 1), cute.f32)
    for j in cute.range(x.tiles):
        value = cute.load(x[j])
        inside = cute.coord(value, 1, x) < X.shape[1]
        m.assign(cute.maximum(m, cute.row_max(cute.where(inside, value, -cute.inf))))
    for j in cute.range(x.tiles):
        value = cute.load(x[j])
        inside = cute.coord(value, 1, x) < X.shape[1]
        e = cute.where(inside, cute.exp(value - m), 0.0)
        cute.copy(e, x[j])
        total.assign(total + cute.row_sum(e))
    for j in cute.range(x.tiles):
        cute.copy(cute.load(x[j]) / total, x[j])


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("columns", [100, 132])
def test_softmax_in_place(run, arch, columns):
    x = np.random.default_rng(columns).standard_normal((5, columns)).astype(np.float32)
    exact = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    (x,) = run(softmax_in_place, x)
    assert np.allclose(x, exact, atol=1e-6)


@cute.kernel
def recurrence(X, *, tile=(8, 32)):
    """Each tile adds the one before it, which the trip before has stored."""
    i, _ = cute.tile_index(X, (tile[0], None))
    x = cute.local_tile(X, tile, (i, None))
    for j in cute.range(x.tiles - 1):
        cute.copy(cute.load(x[j]) + cute.load(x[j + 1]), x[j + 1])


@pytest.mark.parametrize("arch", TARGETS)
def test_a_trip_reads_what_the_one_before_has_stored(run, arch):
    x = np.random.default_rng(1).integers(-3, 4, (10, 128)).astype(np.float32)
    expected = x.reshape(10, 4, 32).cumsum(1).reshape(10, 128)
    (x,) = run(recurrence, x)
    assert np.array_equal(x, expected)


@cute.kernel
def transposed_in_place(X):
    """A tile is replaced by its transpose: other threads hold what a thread stores over."""
    i, j = cute.tile_index(X, (32, 32))
    x = cute.local_tile(X, (32, 32), (i, j))
    value = cute.load(x)
    cute.copy(value.T, x)


@pytest.mark.parametrize("arch", TARGETS)
def test_a_tile_is_stored_over_what_other_threads_load(run, arch):
    x = np.arange(32 * 64, dtype=np.float32).reshape(32, 64)
    expected = np.concatenate([x[:, :32].T, x[:, 32:].T], 1)
    (x,) = run(transposed_in_place, x)
    assert np.array_equal(x, expected)


@cute.kernel
def squares(X, Y, *, tile=(64, 64)):
    """Y = X X, then Y = Y X as often as there are trips: operands that the kernel stores."""
    bm, _ = tile
    i, _ = cute.tile_index(Y, (bm, None))
    x = cute.local_tile(X, tile, (0, 0))
    y = cute.local_tile(Y, tile, (i, 0))
    for _trip in cute.range(3):
        acc = cute.zeros(tile, cute.f32)
        cute.gemm(y, x, acc)
        cute.copy(acc.to(Y.dtype), y)


@pytest.mark.parametrize("arch", TARGETS)
def test_a_loop_multiplies_what_it_has_stored(run, arch):
    rng = np.random.default_rng(2)
    x = (rng.permutation(np.eye(64)) * rng.choice([-1, 1], 64)).astype(np.float16)
    y = rng.integers(-4, 5, (64, 64)).astype(np.float16)
    expected = y.astype(np.float64) @ x @ x @ x
    x, y = run(squares, x, y)
    assert np.array_equal(y, expected)


@cute.kernel
def replicated_sum(X, S, Y):
    """A row's sum, which many threads hold, is stored and loaded by others."""
    i, _ = cute.tile_index(X, (16, 64))
    x = cute.load(cute.local_tile(X, (16, 64), (i, 0)))
    s = cute.local_tile(S, (16,), (i,))
    cute.copy(cute.row_sum(x), s)
    again = cute.load(s)
    cute.copy(x - again[:, None], cute.local_tile(Y, (16, 64), (i, 0)))


@pytest.mark.parametrize("arch", TARGETS)
def test_a_sum_is_stored_and_loaded_again(run, arch):
    x = np.random.default_rng(3).integers(-5, 6, (32, 64)).astype(np.float32)
    s, y = np.zeros(32, np.float32), np.zeros_like(x)
    kernel = cute.compile(replicated_sum, x, s, y, arch=arch)
    x, s, y = run(replicated_sum, x, s, y)
    assert np.array_equal(y, x - x.sum(1, keepdims=True))
    lines = [line.strip() for line in kernel.stages["cute-synchronize"].splitlines()]
    load = max(at for at, line in enumerate(lines) if "= cute.load" in line)
    assert lines[load - 1] == "cute.barrier"


@pytest.mark.parametrize("arch", TARGETS)
def test_tiles_apart_need_no_barrier(run, arch):
    """A loop that loads and stores tile after tile of one tensor does not meet in each trip."""

    @cute.kernel
    def scaled(X):
        i, _ = cute.tile_index(X, (8, None))
        x = cute.local_tile(X, (8, 64), (i, None))
        for j in cute.range(x.tiles):
            cute.copy(cute.load(x[j]) * 2.0, x[j])

    x = np.random.default_rng(4).standard_normal((16, 192)).astype(np.float32)
    expected = x * 2
    kernel = cute.compile(scaled, x, arch=arch)
    (x,) = run(scaled, x)
    assert np.array_equal(x, expected)
    assert not any("stores to the tensor before" in each.message for each in kernel.remarks)
    if arch == "sm_80":
        assert "cute.barrier" not in kernel.stages["cute-synchronize"]


def test_elements_of_a_stored_tensor_are_refused():
    @cute.kernel
    def follow(X, Y):
        i, _ = cute.tile_index(Y, (8, 8))
        cute.copy(cute.load(cute.local_tile(Y, (8, 8), (i, 0))), cute.local_tile(X, (8, 8), (i, 0)))
        at = X[i, 0]
        cute.copy(cute.full((8, 8), at, cute.i32), cute.local_tile(Y, (8, 8), (i, 0)))

    x = np.zeros((8, 8), np.int32)
    with pytest.raises(cute.CompileError, match="does not store to"):
        cute.compile(follow, x, x.copy(), arch="sm_80")


@pytest.mark.parametrize("arch", TARGETS)
def test_stores_are_not_gathered_across_a_load_of_what_they_store(run, arch):
    """Two stores of one shape go together, but for a load of the first one's tile between them."""

    @cute.kernel
    def beside(X, W, Y, Z):
        i, j = cute.tile_index(Z, (64, 32))
        x = cute.local_tile(X, (64, 32), (i, j)).load()
        acc = cute.zeros((64, 32), cute.f32)
        cute.gemm(x, cute.local_tile(W, (32, 32), (0, j)), acc)
        y = cute.local_tile(Y, (64, 32), (i, j))
        cute.copy(x, y)
        cute.copy(y.load().to(cute.i32) + acc.to(cute.i32), cute.local_tile(Z, (64, 32), (i, j)))

    rng = np.random.default_rng(5)
    x, w = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 32), (32, 32)))
    y, z = np.full((64, 32), 7, np.float16), np.zeros((64, 32), np.int32)
    x, w, y, z = run(beside, x, w, y, z)
    assert np.array_equal(y, x)
    assert np.array_equal(z, x.astype(np.int32) + x.astype(np.int32) @ w.astype(np.int32))


@pytest.mark.parametrize("arch", TARGETS)
def test_threads_that_hold_the_same_wait_for_the_one_that_stores(arch):
    """A tile has fewer elements than the role has threads: of those with the same one stores."""

    @cute.kernel
    def small(X, E, F, G):
        i, j = cute.tile_index(X, (64, 16))
        e = cute.local_tile(E, (16, 64), (i, j)).T
        cute.copy(cute.full((64, 16), -1, cute.i8), e)
        e.load()
        acc = cute.zeros((64, 16), cute.f16)
        f, g = cute.local_tile(F, (64, 32), (i, None)), cute.local_tile(G, (32, 16), (None, j))
        cute.gemm(f[0], g[0], acc)

    f = np.ones((60, 99), np.float16)
    g = np.ones(2 + 99 * 40, np.float16)[2:].reshape(99, 40)[:, :32]
    e = np.zeros((1, 1), np.int8)
    small(e.copy(), e, f, g, arch=arch, backend="emulator")
    assert e[0, 0] == -1
