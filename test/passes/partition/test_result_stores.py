"""Results that are stored some columns at a time hold what the program computed, in its order."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute

SHAPE = (64, 128, 32)
SCHEDULE = cute.Schedule(epilogue="tma", roles="specialized", stages=2)


def integers(shape, dtype=np.float16, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


@pytest.fixture
def operands():
    m, n, k = SHAPE
    return integers((m, k), seed=1), np.asfortranarray(integers((k, n), seed=2))


def sums(A, B, D, rows=64):
    m, n = cute.tile_index(D, (rows, 128))
    acc = cute.zeros((rows, 128), cute.f32)
    a, b = cute.local_tile(A, (rows, 32), (m, None)), cute.local_tile(B, (32, 128), (None, n))
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], acc)
    return acc, (m, n)


def run(kernel, *args):
    kernel(*args, arch="sm_90a", backend="emulator", schedule=SCHEDULE)


def test_sums_that_change_before_a_store(operands):
    @cute.kernel
    def kernel(A, B, D, E):
        acc, at = sums(A, B, D)
        more = acc + 1.0
        acc.assign(acc * 2.0)
        cute.copy(more, cute.local_tile(D, (64, 128), at))
        cute.copy(acc, cute.local_tile(E, (64, 128), at))

    a, b = operands
    d, e = np.zeros((64, 128), np.float32), np.zeros((64, 128), np.float32)
    run(kernel, a, b, d, e)
    want = a.astype(np.float32) @ b.astype(np.float32)
    assert np.array_equal(d, want + 1)
    assert np.array_equal(e, want * 2)


def test_sums_that_change_between_two_stores(operands):
    @cute.kernel
    def kernel(A, B, D, E):
        acc, at = sums(A, B, D)
        cute.copy(acc, cute.local_tile(D, (64, 128), at))
        acc.assign(acc * 2.0)
        cute.copy(acc, cute.local_tile(E, (64, 128), at))

    a, b = operands
    d, e = np.zeros((64, 128), np.float32), np.zeros((64, 128), np.float32)
    run(kernel, a, b, d, e)
    want = a.astype(np.float32) @ b.astype(np.float32)
    assert np.array_equal(d, want)
    assert np.array_equal(e, want * 2)


def test_loads_from_a_tile_that_is_stored_transposed(operands):
    """All of it is read before any of it is written."""

    @cute.kernel
    def kernel(A, B, D):
        acc, at = sums(A, B, D, rows=128)
        turned = cute.local_tile(D, (128, 128), at).T.load()
        cute.copy(acc + turned, cute.local_tile(D, (128, 128), at))

    a, b = operands
    a, d = np.vstack([a, a]), integers((128, 128), np.float32, 3)
    want = a.astype(np.float32) @ b.astype(np.float32) + d.T
    options = {"arch": "sm_90a", "backend": "emulator", "schedule": SCHEDULE}
    stages = cute.compile(kernel, a, b, d, **options).stages
    assert stages["cute-partition"].count("cute.load") == 1
    run(kernel, a, b, d)
    assert np.array_equal(d, want)


def test_columns_of_a_value_with_another_reader(operands):
    """What a reduction reads too is computed once, whole."""

    @cute.kernel
    def kernel(A, B, D, E):
        acc, at = sums(A, B, D)
        shifted = acc + cute.coord(acc, 1, 0).to(cute.f32)
        top = cute.row_max(shifted)
        cute.copy(shifted, cute.local_tile(D, (64, 128), at))
        cute.copy(shifted - top, cute.local_tile(E, (64, 128), at))

    a, b = operands
    d, e = np.zeros((64, 128), np.float32), np.zeros((64, 128), np.float32)
    run(kernel, a, b, d, e)
    want = a.astype(np.float32) @ b.astype(np.float32) + np.arange(128, dtype=np.float32)
    assert np.array_equal(d, want)
    assert np.array_equal(e, want - want.max(1, keepdims=True))


def test_warpgroups_that_share_rows_store_their_columns(operands):
    """Each waits for its own threads alone, and its own thread stores."""

    @cute.kernel
    def kernel(A, B, C, D):
        n = cute.tile_index(C, (128,))
        a, b = cute.local_tile(A, (64, 32), (0, 0)), cute.local_tile(B, (32, 128), (0, n))
        for m in cute.range(3):
            acc = cute.zeros((64, 128), cute.f32)
            cute.gemm(a, b, acc)
            cute.atomic_add(acc, cute.local_tile(D, (64, 128), (m, n)))

    a, b = operands
    d = np.ones((192, 128), np.float32)
    schedule = cute.Schedule(epilogue="tma", roles="specialized", stages=2, warps=(4, 2))
    options = {"arch": "sm_90a", "backend": "emulator", "schedule": schedule}
    stage = cute.compile(kernel, a, b, d[0], d, **options).stages["cute-synchronize"]
    assert "tma_store<f32, reduce = add, warps = 4, along = 1>" in stage
    assert stage.count("cute.barrier {warps = 4") == 2
    assert "cute.barrier\n" not in stage
    kernel(a, b, d[0], d, **options)
    want = a.astype(np.float32) @ b.astype(np.float32) + 1
    assert np.array_equal(d, np.vstack([want] * 3))
