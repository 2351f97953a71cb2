"""`cute.atomic_add` of whole tiles by TMA (`cp.reduce.async.bulk.tensor`): each type that it adds,
at ragged edges, several CTAs into one tile, and where plain atomics have to do.
"""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator

REDUCTION = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group"
TYPES = (np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.float64)


@pytest.fixture(params=range(3))
def late(request, monkeypatch):
    """Asynchronous copies complete late, each time in another order."""
    monkeypatch.setattr(emulator, "launch", partial(emulator.launch, seed=request.param))


@cute.kernel
def add(X, Y, *, tile=(32, 64)):
    i, j = cute.tile_index(X, tile)
    cute.atomic_add(cute.load(cute.local_tile(X, tile, (i, j))), cute.local_tile(Y, tile, (i, j)))


@cute.kernel
def add_all_rows(X, Y, *, tile=(32, 64)):
    """The tiles of a column of X, added to the first rows of Y."""
    i, j = cute.tile_index(X, tile)
    cute.atomic_add(cute.load(cute.local_tile(X, tile, (i, j))), cute.local_tile(Y, tile, (0, j)))


@cute.kernel
def add_and_read(X, Y, Z, *, tile=(32, 64)):
    i, j = cute.tile_index(X, tile)
    at = cute.local_tile(Y, tile, (i, j))
    cute.copy(cute.load(at), cute.local_tile(Z, tile, (i, j)))
    cute.atomic_add(cute.load(cute.local_tile(X, tile, (i, j))), at)


@cute.kernel
def product(A, B, C, *, tile=(64, 64, 32)):
    """C += A B."""
    bm, bn, bk = tile
    m, n = cute.tile_index(C, (bm, bn))
    a, b = cute.local_tile(A, (bm, bk), (m, None)), cute.local_tile(B, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn), cute.f32)
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], acc)
    cute.atomic_add(acc.to(C.dtype), cute.local_tile(C, (bm, bn), (m, n)))


def given(shape, dtype, seed=0):
    low = 0 if np.dtype(dtype).kind == "u" else -9
    return np.random.default_rng(seed).integers(low, 9, shape).astype(dtype)


def run(program, *args, **options):
    options = {"schedule": "roles = specialized"} | options
    kernel = cute.compile(program, *args, arch="sm_90a", backend="emulator", **options)
    kernel.launch(*args)
    return kernel.ptx


@pytest.mark.parametrize("dtype", TYPES, ids=lambda each: np.dtype(each).name)
def test_each_type_at_ragged_edges(dtype) -> None:
    x, y = given((70, 136), dtype), given((70, 136), dtype, 1)
    wanted = x + y
    assert REDUCTION in run(add, x, y)
    assert np.array_equal(y, wanted)


def test_several_ctas_add_to_one_tile(late) -> None:
    x, y = given((200, 72), np.float32), given((32, 72), np.float32, 1)
    wanted = y.copy()
    for first in range(0, 200, 32):
        part = x[first : first + 32]
        wanted[: len(part)] += part
    assert REDUCTION in run(add_all_rows, x, y)
    assert np.array_equal(y, wanted)


@pytest.mark.some(9)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_products(dtype, order, late) -> None:
    a, b = given((100, 64), np.float16) // 3, np.asfortranarray(given((64, 72), np.float16, 1) // 3)
    c = np.ones((104, 72), dtype, order)[:100]
    wanted = (1 + (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype)).astype(dtype)
    text = run(product, a, b, c)
    # Columns of 100 elements of 16 bits are no whole number of 16 bytes: something may lie behind.
    assert (REDUCTION in text) == (order == "C" or dtype is np.float32)
    assert np.array_equal(c.astype(np.float32), wanted.astype(np.float32))


@pytest.mark.parametrize("warps", [(4, 1), (8, 1)])
def test_warpgroups_add_their_own_rows(warps, late) -> None:
    a, b = given((200, 64), np.float16) // 3, np.asfortranarray(given((64, 72), np.float16, 1) // 3)
    c = np.ones((200, 72), np.float32)
    schedule = cute.Schedule(warps=warps)
    assert REDUCTION in run(product, a, b, c, tile=(128, 64, 32), schedule=schedule)
    assert np.array_equal(c, 1 + a.astype(np.float32) @ b.astype(np.float32))


def test_what_lies_behind_ragged_rows_stays() -> None:
    x, whole = given((70, 66), np.float32), np.full((70, 72), 5, np.float32)
    assert REDUCTION not in run(add, x, whole[:, :66])
    assert np.array_equal(whole[:, :66], 5 + x)
    assert (whole[:, 66:] == 5).all()


def test_a_tensor_that_is_read_too_takes_atomics() -> None:
    """What TMA adds is there when the kernel is done: a later read of it could come too early."""
    x, y = given((70, 136), np.float32), given((70, 136), np.float32, 1)
    z, old = np.zeros_like(y), y.copy()
    text = run(add_and_read, x, y, z)
    assert REDUCTION not in text
    assert "red.relaxed.gpu.global.add.f32" in text
    assert np.array_equal(z, old)
    assert np.array_equal(y, old + x)


def test_a_type_that_tensor_copies_do_not_add() -> None:
    x, y = given((70, 136), np.int64), given((70, 136), np.int64, 1)
    wanted = x + y
    assert "red.relaxed.gpu.global.add.u64" in run(add, x, y)
    assert np.array_equal(y, wanted)


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a"])
def test_pairs_that_share_no_register(arch, monkeypatch) -> None:
    """Threads hold columns of what is added in rows: vectors of single elements begin with sm_90
    (PTX ISA 9.7.13.6).
    """
    # Else another schedule is taken where a text is not legal.
    monkeypatch.delenv("CUTEDIALECT_VERIFY")

    @cute.kernel
    def add_turned(X, Y, Z):
        x = cute.local_tile(X, (9, 9), (0, 0)).T.load()
        cute.atomic_add(x.to(cute.f16), cute.local_tile(Y, (9, 9), (0, 0)))
        cute.copy(x, cute.local_tile(Z, (9, 9), (0, 0)))

    x, y = given((8, 8), np.float32), given((8, 8), np.float16, 1)
    wanted = y + x.T.astype(np.float16)
    kernel = cute.compile(add_turned, x, y, np.zeros_like(x), arch=arch, backend="emulator")
    assert (".v2.f16" in kernel.ptx) == (arch == "sm_90a")
    kernel.launch(x, y, np.zeros_like(x))
    np.testing.assert_array_equal(y, wanted)
