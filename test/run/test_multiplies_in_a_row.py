"""Multiplies that follow each other without a loop, or in a branch: each finds its operands."""

import numpy as np
import pytest

import cutedialect as cute

TARGETS = ("sm_80", "sm_90a")


def integers(rng, *shape):
    return rng.integers(-3, 4, shape).astype(np.float16)


@cute.kernel
def two_products(A, B, C, D, Y, *, tile=(64, 64, 32)):
    """Y = A B + C D, for a depth of one tile."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    acc = cute.zeros((bm, bn), cute.f32)
    for left, right in ((A, B), (C, D)):
        cute.gemm(
            cute.local_tile(left, (bm, bk), (m, 0)), cute.local_tile(right, (bk, bn), (0, n)), acc
        )
    cute.copy(acc, cute.local_tile(Y, (bm, bn), (m, n)))


@pytest.mark.parametrize("arch", TARGETS)
def test_two_products_without_a_loop(arch):
    rng = np.random.default_rng(0)
    a, c = (integers(rng, 100, 32) for _ in range(2))
    b, d = (integers(rng, 32, 96) for _ in range(2))
    y = np.zeros((100, 96), np.float32)
    two_products(a, b, c, d, y, arch=arch, backend="emulator")
    assert np.array_equal(y, a.astype(np.float64) @ b + c.astype(np.float64) @ d)


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_loop_that_python_unrolls(arch, count):
    @cute.kernel
    def unrolled(A, B, Y):
        m, n = cute.tile_index(Y, (64, 64))
        acc = cute.zeros((64, 64), cute.f32)
        for k in range(count):
            a = cute.local_tile(A, (64, 32), (m, k))
            cute.gemm(a, cute.local_tile(B, (32, 64), (k, n)), acc)
        cute.copy(acc, cute.local_tile(Y, (64, 64), (m, n)))

    rng = np.random.default_rng(count)
    a, b = integers(rng, 64, 32 * count), integers(rng, 32 * count, 64)
    y = np.zeros((64, 64), np.float32)
    unrolled(a, b, y, arch=arch, backend="emulator")
    assert np.array_equal(y, a.astype(np.float64) @ b)


@cute.kernel
def chosen(A, B, C, Y, flag: cute.i32):  # pyright: ignore[reportInvalidTypeForm]
    """Y = A B, and A C beside it where the flag is set."""
    acc = cute.zeros((64, 64), cute.f32)
    m, n = cute.tile_index(Y, (64, 64))
    a = cute.local_tile(A, (64, 32), (m, 0))
    cute.gemm(a, cute.local_tile(B, (32, 64), (0, n)), acc)
    with cute.when(flag > 0):
        cute.gemm(a, cute.local_tile(C, (32, 64), (0, n)), acc)
    cute.copy(acc, cute.local_tile(Y, (64, 64), (m, n)))


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("flag", [0, 1])
def test_a_product_inside_of_a_branch(arch, flag):
    rng = np.random.default_rng(flag)
    a, b, c = integers(rng, 64, 32), integers(rng, 32, 64), integers(rng, 32, 64)
    y = np.zeros((64, 64), np.float32)
    chosen(a, b, c, y, flag, arch=arch, backend="emulator")
    assert np.array_equal(y, a.astype(np.float64) @ (b + flag * c))


@cute.kernel
def register_operand(A, B, C, Y):
    """Y = (A B) C^T with both operands of the second product from registers or memory."""
    m, n = cute.tile_index(Y, (64, 64))
    first = cute.zeros((64, 64), cute.f32)
    cute.gemm(cute.local_tile(A, (64, 32), (m, 0)), cute.local_tile(B, (32, 64), (0, 0)), first)
    second = cute.zeros((64, 64), cute.f32)
    cute.gemm(cute.local_tile(C, (64, 64), (m, 0)), first.to(A.dtype), second)
    third = cute.zeros((64, 64), cute.f32)
    cute.gemm(second.to(A.dtype), cute.local_tile(C, (64, 64), (0, n)), third)
    cute.copy(third, cute.local_tile(Y, (64, 64), (m, n)))


@pytest.mark.parametrize("arch", TARGETS)
def test_b_in_registers(arch):
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-1, 2, shape).astype(np.float16) for shape in ((64, 32), (32, 64)))
    c = np.eye(64, dtype=np.float16)[rng.permutation(64)]
    y = np.zeros((64, 64), np.float32)
    register_operand(a, b, c, y, arch=arch, backend="emulator")
    assert np.array_equal(y, c.astype(np.float64) @ (a.astype(np.float64) @ b) @ c)


@cute.kernel
def loop_behind_products(A, B, Y, *, tile=(64, 64, 32)):
    """A tile of A that stays, one product in front of the loop and one behind it."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    gA, gB = cute.local_tile(A, (bm, bk), (m, None)), cute.local_tile(B, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn), cute.f32)
    cute.gemm(gA[0], gB[0], acc)
    for k in cute.range(gB.tiles):
        cute.gemm(gA[0], gB[k], acc)
    cute.gemm(gA[0], gB[gB.tiles - 1], acc)
    cute.copy(acc, cute.local_tile(Y, (bm, bn), (m, n)))


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("trips", [1, 2, 3, 5])
def test_products_around_a_loop(arch, trips):
    rng = np.random.default_rng(trips)
    a, b = integers(rng, 64, 32), integers(rng, 32 * trips, 64)
    y = np.zeros((64, 64), np.float32)
    loop_behind_products(a, b, y, arch=arch, backend="emulator")
    parts = b.astype(np.float64).reshape(trips, 32, 64)
    assert np.array_equal(y, a.astype(np.float64) @ (parts.sum(0) + parts[0] + parts[-1]))


def test_what_is_read_behind_a_loop_is_loaded_for_a_barrier_of_its_own(verdicts):
    """Its load waits for room in the ring of the loop, and what is read in front waits for no such
    load, however many trips the loop has.
    """
    halves, floats = (cute.TensorSpec((None, None), dtype) for dtype in (cute.f16, cute.f32))
    kernel = cute.compile(loop_behind_products, halves, halves, floats, arch="sm_90a")
    assert set(verdicts) == {"proved"}
    assert kernel.stages["cute-synchronize"].count("pipeline.create") == 3


def test_multiplies_of_warpgroups_in_a_row_assemble():
    """Behind each wait for operands a fence begins anew: the assembler adds none of its own."""
    halves, floats = (cute.TensorSpec((None, None), dtype) for dtype in (cute.f16, cute.f32))
    for kernel, count in ((two_products, 4), (loop_behind_products, 2), (register_operand, 3)):
        found = cute.compile(kernel, *[halves] * count, floats, arch="sm_90a")
        assert found.resources.spills == 0
