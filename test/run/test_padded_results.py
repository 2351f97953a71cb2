"""Results whose rows are no whole number of 16 bytes, in a larger array: what lies behind them
stays as it is, though TMA stores write whole units of 16 bytes. Other rows go by TMA all the same.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute

STORE = "cp.async.bulk.tensor.2d.global.shared::cta"
GUARD = 77
BY_TMA = {"arch": "sm_90a", "backend": "emulator", "schedule": "roles = specialized"}


def operands(m, n, k, dtype=np.float16):
    rng = np.random.default_rng(m + n)
    a = rng.integers(-3, 4, (m, k)).astype(dtype)
    return a, np.asfortranarray(rng.integers(-3, 4, (k, n)).astype(dtype))


def inside(shape, dtype=np.float16):
    """A larger array of guards, and the part of it that is the result."""
    whole = np.full((shape[0] + 2, -(-shape[1] // 16) * 16 + 16), GUARD, dtype)
    return whole, whole[1:-1, : shape[1]]


def untouched(whole, part):
    copy = whole.copy()
    copy[1:-1, : part.shape[1]] = GUARD
    return bool((copy == GUARD).all())


@pytest.mark.parametrize("n", [32, 33, 36, 40, 71])
@pytest.mark.parametrize("m", [1, 70])
def test_gemm(m, n) -> None:
    a, b = operands(m, n, 48)
    whole, out = inside((m, n))
    cute.gemm(a, b, out=out, arch="sm_90a", backend="emulator")
    assert np.array_equal(out, a.astype(np.float32) @ b.astype(np.float32))
    assert untouched(whole, out)
    text = cute.compile(cute.gemm, a, b, out=out, arch="sm_90a", backend="emulator").ptx
    assert (STORE in text) == (n % 8 == 0)


def test_columns() -> None:
    """The contiguous mode of the result is the other one."""
    a, b = operands(33, 64, 32)
    whole, out = inside((64, 33))
    cute.gemm(a, b, out=out.T, arch="sm_90a", backend="emulator")
    assert np.array_equal(out.T, a.astype(np.float32) @ b.astype(np.float32))
    assert untouched(whole, out)


def test_grouped_gemm() -> None:
    problems = [operands(40, n, 32) for n in (32, 33)]
    results = [inside((40, n)) for n in (32, 33)]
    pairs = zip(*problems, strict=True)
    outs = [part for _, part in results]
    cute.grouped_gemm(*map(list, pairs), out=outs, arch="sm_90a", backend="emulator")
    for (a, b), (whole, out) in zip(problems, results, strict=True):
        assert np.array_equal(out, a.astype(np.float32) @ b.astype(np.float32))
        assert untouched(whole, out)


@cute.kernel
def doubled(X, Y, *, tile=(32, 64)):
    i, j = cute.tile_index(Y, tile)
    cute.copy(cute.load(cute.local_tile(X, tile, (i, j))) * 2, cute.local_tile(Y, tile, (i, j)))


@pytest.mark.parametrize("columns", [64, 67])
def test_kernel_that_reads_and_writes_padded_arrays(columns) -> None:
    x = np.random.default_rng(3).integers(-99, 99, (40, 96)).astype(np.float32)
    whole, out = inside((40, columns), np.float32)
    kernel = cute.compile(doubled, x[:, :columns], out, **BY_TMA)
    kernel.launch(x[:, :columns], out)
    assert np.array_equal(out, 2 * x[:, :columns])
    assert untouched(whole, out)
    # Loads take TMA either way: they are exact.
    assert "cp.async.bulk.tensor.2d.shared::cluster.global" in kernel.ptx
    assert (STORE in kernel.ptx) == (columns == 64)


def test_a_kernel_for_whole_rows_refuses_others() -> None:
    x = np.ones((40, 96), np.float32)
    kernel = cute.compile(doubled, x[:, :64], x[:, :64].copy(), **BY_TMA)
    whole, out = inside((40, 67), np.float32)
    with pytest.raises(ValueError, match=r"Y: expected rows of a multiple of 16 bytes, .* 268"):
        kernel.launch(x[:, :67], out)
    assert untouched(whole, out)
    whole, out = inside((40, 68), np.float32)
    kernel.launch(x[:, :67], out)
    assert np.array_equal(out[:, :67], 2 * x[:, :67])
    assert untouched(whole, out)


def test_vectors_that_threads_store_beside_it() -> None:
    """Only what TMA stores to is asked for whole rows."""
    a, b = operands(37, 64, 32)
    rows = np.zeros((37,), np.float32)
    c = np.zeros((37, 64), np.float32)
    kernel = cute.compile(sums, a[:32], b, c[:32], rows[:32], arch="sm_90a", backend="emulator")
    assert STORE in kernel.ptx
    kernel.launch(a, b, c, rows)
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    assert np.array_equal(rows, c.sum(1))


@cute.kernel
def sums(A, B, C, S, *, tile=(64, 64, 32)):
    bm, bn, bk = tile
    m, n = cute.tile_index(C, (bm, bn))
    a, b = cute.local_tile(A, (bm, bk), (m, None)), cute.local_tile(B, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn), cute.f32)
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], acc)
    cute.copy(acc, cute.local_tile(C, (bm, bn), (m, n)))
    cute.atomic_add(cute.row_sum(acc), cute.local_tile(S, (bm,), (m,)))


def test_tiles_that_begin_between_vectors_do_not_go_by_tma() -> None:
    """A tile of 6 columns is padded to 8, but its neighbor begins at the 6th: no 16 bytes."""

    @cute.kernel
    def best(X, Y):
        i, j = cute.tile_index(Y, (64, 6))
        values, _ = cute.top_k(cute.local_tile(X, (64, 8), (i, j)).load(), 6)
        cute.copy(values, cute.local_tile(Y, (64, 6), (i, j)))

    x = np.random.default_rng(0).standard_normal((64, 16)).astype(np.float32)
    y = np.zeros((64, 12), np.float32)
    best(x, y, **BY_TMA)
    wanted = [-np.sort(-part, 1)[:, :6] for part in (x[:, :8], x[:, 8:])]
    assert np.array_equal(y, np.concatenate(wanted, 1))


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_tiles_that_lanes_pad(target) -> None:
    """Tiles of 20 columns, which lanes pad to 24: a box would end in the next tile."""

    @cute.kernel
    def places(X, Y):
        i, j = cute.tile_index(X, (20, 16))
        x = cute.local_tile(X, (20, 16), (i, j)).T.load()
        cute.copy(cute.argmax(x, 0), cute.local_tile(Y, (1, 20), (j, i)))

    x = np.random.default_rng(0).integers(-2, 3, (20, 16)).astype(np.float32)
    y = np.full((1, 40), GUARD, np.int32)
    places(x, y, arch=target, backend="emulator", schedule="roles = specialized")
    assert np.array_equal(y[0, :20], x.argmax(1))
    assert (y[0, 20:] == GUARD).all()


def test_sums_of_tiles_that_lanes_pad() -> None:
    """Rows and columns are padded, and neighbors are added to once."""

    @cute.kernel
    def added(X, Y):
        i, j = cute.tile_index(X, (40, 20))
        x = cute.local_tile(X, (40, 20), (i, j)).load()
        cute.atomic_add(x, cute.local_tile(Y, (40, 20), (i, j)))

    x = np.random.default_rng(0).integers(-2, 3, (80, 40)).astype(np.float32)
    y = np.zeros_like(x)
    added(x, y, **BY_TMA)
    assert np.array_equal(y, x)
