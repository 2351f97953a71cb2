"""Tiles that lie outside of their tensors on any side: they read 0 and are not stored, whether
threads, `cp.async` or TMA copy them.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute

TARGETS = ("sm_80", "sm_90a")


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")


def guarded(shape, dtype=np.float32):
    """An array of numbers from 1 on, between rows of NaN: what is read beside it shows."""
    store = np.full((shape[0] + 16, *shape[1:]), np.nan, dtype)
    array = store[8:-8]
    array[...] = np.arange(1, 1 + array.size).reshape(shape)
    return store, array


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("at", [-1, 0, 1, 2, 5])
def test_coordinates_from_memory(target, at) -> None:
    @cute.kernel
    def program(X, Y, P):
        where = P[0]
        x = cute.local_tile(X, (8, 32), (where, 0)).load()
        cute.copy(x + 1.0, cute.local_tile(Y, (8, 32), (where, 0)))

    _, x = guarded((16, 32))
    store, y = guarded((16, 32))
    before = store.copy()
    program(x, y, np.array([at], np.int32), arch=target, backend="emulator")
    if at in (0, 1):
        before[8:-8][8 * at : 8 * at + 8] = x[8 * at : 8 * at + 8] + 1
    np.testing.assert_array_equal(store, before)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("at", [-1, 0, 2, 3])
def test_batches_that_are_not_there(target, at) -> None:
    @cute.kernel
    def program(X, Y, Z, P):
        i = cute.tile_index(Y, (8,))
        x = cute.local_tile(X, (8, 32), (P[0], i, 0)).load()
        cute.copy(x + 1.0, cute.local_tile(Y, (8, 32), (i, 0)))
        cute.copy(x + 2.0, cute.local_tile(Z, (8, 32), (P[0], i, 0)))

    _, x = guarded((3, 16, 32))
    store, z = guarded((3, 16, 32))
    y = np.zeros((16, 32), np.float32)
    before = store.copy()
    program(x, y, z, np.array([at], np.int32), arch=target, backend="emulator")
    inside = 0 <= at < 3
    np.testing.assert_array_equal(y, (x[at] if inside else 0) + np.ones_like(y))
    if inside:
        before[8:-8][at] = x[at] + 2
    np.testing.assert_array_equal(store, before)


@pytest.mark.some(8)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize(("first", "end"), [(-3, 20), (-40, 9), (-3, -1), (2, 30)])
def test_slices_that_begin_in_front_of_the_tensor(target, mode, first, end) -> None:
    @cute.kernel
    def program(X, Y, Z, bounds):
        part, into = (T.slice(mode, bounds[0], bounds[1]) for T in (X, Z))
        x = cute.local_tile(part, (16, 32), (0, 0)).load()
        cute.copy(x, cute.local_tile(Y, (16, 32), (0, 0)))
        cute.copy(x + 1.0, cute.local_tile(into, (16, 32), (0, 0)))

    _, x = guarded((24, 40))
    store, z = guarded((24, 40))
    y = np.full((16, 32), 7, np.float32)
    before = store.copy()
    program(x, y, z, np.array([first, end], np.int32), arch=target, backend="emulator")
    rows = [first + i for i in range(16)] if mode == 0 else list(range(16))
    columns = [first + j for j in range(32)] if mode == 1 else list(range(32))
    last = (min(end, 24), 40) if mode == 0 else (24, min(end, 40))
    want = np.zeros_like(y)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            if 0 <= row < last[0] and 0 <= column < last[1]:
                want[i, j] = x[row, column]
                before[8:-8][row, column] = x[row, column] + 1
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(store, before)


@pytest.mark.parametrize("target", TARGETS)
def test_a_halo_stencil(target) -> None:
    """The sum of a tile and its eight neighbors' edges, by slices that begin at -1."""

    @cute.kernel
    def stencil(X, Y, *, tile=(16, 32)):
        i, j = cute.tile_index(Y, tile)
        total = cute.zeros(tile)
        for dy in range(-1, 2):
            for dx in range(-1, 2):
                moved = X.slice(0, dy, 10_000).slice(1, dx, 10_000)
                total += cute.local_tile(moved, tile, (i, j)).load()
        cute.copy(total, cute.local_tile(Y, tile, (i, j)))

    _, x = guarded((37, 50))
    y = np.zeros_like(x)
    stencil(x, y, arch=target, backend="emulator")
    padded = np.pad(x, 1)
    want = sum(padded[r : r + 37, c : c + 50] for r in range(3) for c in range(3))
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("target", TARGETS)
def test_a_convolution_with_padding(target) -> None:
    """A 3 x 3 convolution of images (batch, height, width, channels) as nine multiplies of a tile,
    which is a row of the output, or some pixels of one.
    """

    @cute.kernel
    def convolution(X, W, Y, *, width=32, channels=16, filters=16):
        b, row, i = cute.tile_index(Y, (1, 1, width))
        acc = cute.zeros((width, filters))
        for dy in cute.range(3):
            for dx in cute.range(3):
                x = X.slice(2, dx - 1, 10_000)
                pixels = cute.local_tile(x, (width, channels), (b, row + (dy - 1), i, 0))
                taps = cute.local_tile(W, (channels, filters), (dy, dx, 0, 0))
                cute.gemm(pixels, taps, acc)
        cute.copy(acc.to(Y.dtype), cute.local_tile(Y, (width, filters), (b, row, i, 0)))

    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (2, 3, 40, 16)).astype(np.float16)
    w = rng.integers(-2, 3, (3, 3, 16, 16)).astype(np.float16)
    y = np.zeros((2, 3, 40, 16), np.float16)
    convolution(x, w, y, arch=target, backend="emulator")
    padded = np.pad(x.astype(np.float32), ((0, 0), (1, 1), (1, 1), (0, 0)))
    want = np.zeros(y.shape, np.float32)
    for dy in range(3):
        for dx in range(3):
            want += padded[:, dy : dy + 3, dx : dx + 40] @ w[dy, dx].astype(np.float32)
    np.testing.assert_array_equal(y, want.astype(np.float16))


def test_a_promise_costs_nothing() -> None:
    """What a program promises to lie in its tensors is copied without a look."""

    def program(X, Y, P):
        x = cute.local_tile(X, (8, 32), (P[0], 0)).load()
        cute.copy(x, cute.local_tile(Y, (8, 32), (P[0], 0)))

    x = np.zeros((16, 32), np.float32)
    arguments = x, x.copy(), np.zeros(1, np.int32)
    looked, promised = (
        cute.compile(each, *arguments, arch="sm_80")
        for each in (cute.kernel(program), cute.kernel(in_bounds=True)(program))
    )
    assert "guard" in looked.stages["cute-tile"]
    assert "guard" not in promised.stages["cute-tile"]
    assert len(promised.ptx) < len(looked.ptx)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float32, np.float64])
def test_masks_of_loads_and_stores(target, dtype) -> None:
    """A mask of rows and one of columns and data: what it hides is another number, or stays."""

    @cute.kernel
    def program(X, Y, Z, *, tile=(16, 32)):
        i, j = cute.tile_index(Y, tile)
        view = cute.local_tile(X, tile, (i, j))
        rows = cute.coord(cute.zeros((tile[0], 1)), 0, view) < 13
        x = cute.load(view, rows, 3)
        cute.copy(x, cute.local_tile(Y, tile, (i, j)))
        chosen = (cute.coord(x, 1, view) < 37) & (x > 0)
        cute.copy(x, cute.local_tile(Z, tile, (i, j)), mask=chosen)

    x = np.random.default_rng(0).integers(-9, 9, (21, 45)).astype(dtype)
    y, z = np.zeros_like(x), np.full_like(x, 5)
    program(x, y, z, arch=target, backend="emulator")
    want = np.where(np.arange(21)[:, None] < 13, x, np.array(3, dtype))
    np.testing.assert_array_equal(y, want)
    inside = (np.arange(45) < 37) & (want > 0)
    np.testing.assert_array_equal(z, np.where(inside, want, np.array(5, dtype)))


@pytest.mark.parametrize("target", TARGETS)
def test_a_masked_store_behind_a_multiply(target) -> None:
    """The lower triangle of a product: what is above the diagonal stays as it is."""

    @cute.kernel
    def program(A, B, C):
        i, j = cute.tile_index(C, (64, 64))
        acc = cute.zeros((64, 64))
        a, b = cute.local_tile(A, (64, 32), (i, None)), cute.local_tile(B, (32, 64), (None, j))
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], acc)
        view = cute.local_tile(C, (64, 64), (i, j))
        below = cute.coord(acc, 0, view) >= cute.coord(acc, 1, view)
        cute.copy(acc.to(C.dtype), view, below)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, s).astype(np.float16) for s in ((100, 72), (72, 104)))
    c = np.full((100, 104), 7, np.float16)
    program(a, b, c, arch=target, backend="emulator")
    want = np.where(np.tri(100, 104, dtype=bool), a.astype(np.float32) @ b, 7)
    np.testing.assert_array_equal(c, want)


def test_masks_that_are_refused() -> None:
    def refused(message, body):
        @cute.kernel
        def program(X):
            body(cute.local_tile(X, (4, 8), (0, 0)))

        with pytest.raises(cute.CompileError, match=message):
            program(np.zeros((4, 8), np.float32), backend="emulator")

    wide = r"a mask that broadcasts to \(4, 8\)|whose modes agree"
    refused("a mask to be a tile of conditions, got f32", lambda v: cute.load(v, v.load()))
    refused("a mask to be a tile of conditions, got bool", lambda v: cute.copy(v.load(), v, True))
    refused(wide, lambda v: cute.load(v, cute.zeros((4, 16)) < 1))
    refused(wide, lambda v: cute.copy(v, v, cute.zeros((4, 16)) < 1))


@cute.kernel
def of_more_modes(X, Y):
    i, j = cute.tile_index(Y, (1, 1))
    x = cute.local_tile(X, (1, 1), (j, i, j)).load()
    cute.copy(x, cute.local_tile(Y, (1, 1), (i, j)))


def test_coordinates_of_a_tensor_with_more_modes():
    """A work item's coordinate drops a mode that the tensor of the work items does not have."""
    x = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    y = np.zeros((2, 2), np.float32)
    of_more_modes(x, y, arch="sm_90a", backend="emulator")
    np.testing.assert_array_equal(y, [[x[j, i, j] for j in range(2)] for i in range(2)])
