"""Tiles of tensors of 1 to 5 modes, loaded and stored by TMA: whichever of the tile's modes is the
contiguous one, under each swizzle, at ragged edges, with copies that complete late, and shared by a
cluster.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator

BY_TMA = {"arch": "sm_90a", "backend": "emulator", "schedule": "roles = specialized"}


@pytest.fixture(params=range(2))
def late(request, monkeypatch):
    """Asynchronous copies complete late, each time in another order."""
    monkeypatch.setattr(emulator, "launch", partial(emulator.launch, seed=request.param))


@cute.kernel
def doubled_1(X, Y, *, tile=(64,)):
    i = cute.tile_index(Y, tile)
    cute.copy(cute.load(cute.local_tile(X, tile, (i,))) * 2, cute.local_tile(Y, tile, (i,)))


@cute.kernel
def doubled_2(X, Y, *, tile=(32, 64)):
    i, j = cute.tile_index(Y, tile)
    cute.copy(cute.load(cute.local_tile(X, tile, (i, j))) * 2, cute.local_tile(Y, tile, (i, j)))


@cute.kernel
def doubled_3(X, Y, *, tile=(32, 64)):
    at = cute.tile_index(Y, (1, *tile))
    cute.copy(cute.load(cute.local_tile(X, tile, at)) * 2, cute.local_tile(Y, tile, at))


@cute.kernel
def doubled_4(X, Y, *, tile=(32, 64)):
    at = cute.tile_index(Y, (1, 1, *tile))
    cute.copy(cute.load(cute.local_tile(X, tile, at)) * 2, cute.local_tile(Y, tile, at))


@cute.kernel
def doubled_5(X, Y, *, tile=(32, 64)):
    at = cute.tile_index(Y, (1, 1, 1, *tile))
    cute.copy(cute.load(cute.local_tile(X, tile, at)) * 2, cute.local_tile(Y, tile, at))


KERNELS = (doubled_1, doubled_2, doubled_3, doubled_4, doubled_5)
SHAPES = ((200,), (56, 72), (3, 40, 72), (2, 3, 40, 72), (2, 1, 3, 40, 72))


def given(shape, dtype, order="last"):
    """Small integers; `order` is which mode is contiguous: the last, or the one before it."""
    made = np.random.default_rng(len(shape)).integers(-60, 60, shape).astype(dtype)
    if order == "last":
        return made
    return np.ascontiguousarray(made.swapaxes(-1, -2)).swapaxes(-1, -2)


def check(kernel, x, y, **options):
    """Run, compare, and count on the copies of that rank in the text."""
    compiled = cute.compile(kernel, x, y, **(BY_TMA | options))
    compiled.launch(x, y)
    assert np.array_equal(y, 2 * x)
    rank = x.ndim
    assert f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile" in compiled.ptx
    assert f"cp.async.bulk.tensor.{rank}d.global.shared::cta.tile" in compiled.ptx
    return compiled


@pytest.mark.some(13)
@pytest.mark.parametrize("rank", range(1, 6))
@pytest.mark.parametrize("orders", [("last", "last"), ("before", "before"), ("last", "before")])
def test_each_rank(rank, orders, late) -> None:
    if rank == 1 and orders != ("last", "last"):
        pytest.skip("a vector has one mode")
    x, y = (given(SHAPES[rank - 1], np.float16, order) for order in orders)
    check(KERNELS[rank - 1], x, y)


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64])
@pytest.mark.parametrize("rank", [1, 3, 5])
def test_each_width_of_element(rank, dtype) -> None:
    shape = (*SHAPES[rank - 1][:-1], 208 if rank == 1 else 80)
    x = given(shape, dtype) // 2
    check(KERNELS[rank - 1], x, np.zeros_like(x))


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("width", "swizzle"), [(8, None), (16, "S<1,4,3>"), (32, "S<2,4,3>"), (64, "S<3,4,3>")]
)
@pytest.mark.parametrize("rank", range(2, 6))
def test_each_swizzle(rank, width, swizzle) -> None:
    x = given(SHAPES[rank - 1], np.float16)
    compiled = check(KERNELS[rank - 1], x, np.zeros_like(x), tile=(32, width))
    maps = [
        line
        for line in compiled.stages["cute-partition"].splitlines()
        if "make_tma_descriptor" in line
    ]
    assert len(maps) == 2
    for line in maps:
        swizzles = [each for each in ("S<1,4,3>", "S<2,4,3>", "S<3,4,3>") if each in line]
        assert swizzles == ([] if swizzle is None else [swizzle])


def test_contiguous_batches_have_no_tensor_tile() -> None:
    """Where neither mode of the tile is contiguous no box has a row: threads load and store."""
    made = np.random.default_rng(0).integers(-60, 60, (40, 24, 16)).astype(np.float16)
    x = made.transpose(2, 0, 1)
    y = np.zeros_like(made).transpose(2, 0, 1)
    compiled = cute.compile(doubled_3, x, y, tile=(16, 8), **BY_TMA)
    compiled.launch(x, y)
    assert np.array_equal(y, 2 * x)
    assert "cp.async.bulk.tensor" not in compiled.ptx


@cute.kernel
def biased(X, rows, columns, Y, *, tile=(32, 64)):
    i, j = cute.tile_index(Y, tile)
    x = cute.load(cute.local_tile(X, tile, (i, j)))
    row = cute.row_vector(columns, j, tile[1])
    column = cute.column_vector(rows, i, tile[0])
    cute.copy(x * column + row, cute.local_tile(Y, tile, (i, j)))


def test_vectors_in_the_ring_of_a_tile(late) -> None:
    """Vectors that a tile needs come with it, by the same warp."""
    x = given((70, 72), np.float32)
    rows, columns = given((70,), np.float32), given((72,), np.float32)
    y = np.zeros_like(x)
    kernel = cute.compile(biased, x, rows, columns, y, **BY_TMA)
    kernel.launch(x, rows, columns, y)
    assert np.array_equal(y, x * rows[:, None] + columns)
    assert "cp.async.bulk.tensor.1d" in kernel.ptx
    assert "cp.async.cg" not in kernel.ptx


@pytest.mark.some(7)
@pytest.mark.parametrize("batch", [(), (2,), (2, 2), (2, 1, 2)])
@pytest.mark.parametrize("majors", ["TN", "NT"])
def test_batches_shared_by_a_cluster(batch, majors, late) -> None:
    """Operands of rank 2 to 5, K-major and not, each loaded once for two CTAs."""
    m, n, k = 128, 72, 72
    a, b = given((*batch, m, k), np.float16) // 20, given((*batch, k, n), np.float16) // 20
    if majors[0] == "N":
        a = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    if majors[1] == "N":
        b = np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2)
    schedule = cute.Schedule(tile=(64, 64, 64), cluster=(2, 1))
    options = {"arch": "sm_90a", "backend": "emulator", "schedule": schedule}
    got = cute.gemm(a, b, **options)
    wanted = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
    assert np.array_equal(got, wanted)
    text = cute.compile(cute.gemm, a, b, **options).ptx
    rank = a.ndim
    assert f"tensor.{rank}d.shared::cluster.global.tile" in text
    assert "multicast::cluster" in text
