"""Multiplies on sm_100a whose operands come from registers, beside others of the same program: one
thread issues all of them, other threads make what they take, and no role waits for itself.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute

ARCH = {"arch": "sm_100a", "backend": "emulator"}


def integers(*shape, seed=0, dtype: type = np.float16):
    return np.random.default_rng([seed, *shape]).integers(-1, 2, shape).astype(dtype)


def tile(x, rows, columns):
    return cute.local_tile(x, (rows, columns), (0, 0))


def test_a_state_out_of_registers_beside_a_stored_pair():
    """The operand from registers is taken last of all: what shows it transposed is pure, and may
    stand in front of the trip.
    """

    @cute.kernel
    def kernel(X, B, C, Y, Z):
        cute.tile_index(Z, (None, None))
        x, b, c, y = (cute.local_tile(t, (64, 64), (None, 0)) for t in (X, B, C, Y))
        state = cute.zeros((64, 64))
        for t in cute.range(3):
            s, o = cute.zeros((64, 64)), cute.zeros((64, 64))
            cute.gemm(c[t], b[t].T, s)
            cute.gemm(s.to(X.dtype), x[t], o)
            cute.copy(o, y[t])
            cute.gemm((b[t].load() * 2.0).T, x[t], state)
        cute.copy(state * 1.0, tile(Z, 64, 64))

    x, b, c = (integers(192, 64, seed=seed) for seed in range(3))
    y, z = np.zeros((192, 64), np.float32), np.zeros((64, 64), np.float32)
    kernel(x, b, c, y, z, **ARCH)
    trips = [slice(64 * t, 64 * t + 64) for t in range(3)]
    x, b, c = (each.astype(np.float64) for each in (x, b, c))
    np.testing.assert_array_equal(y, np.concatenate([c[t] @ b[t].T @ x[t] for t in trips]))
    np.testing.assert_array_equal(z, 2 * b.T @ x)


@pytest.mark.parametrize("is_named", [False, True])
def test_both_operands_out_of_registers(is_named):
    """One goes through tensor memory and the other one through shared memory, in one ring."""

    @cute.kernel
    def kernel(K, V, Y):
        if is_named:
            cute.tile_index(Y, (64, 32))
        k, v = cute.local_tile(K, (64, 64), (None, 0)), cute.local_tile(V, (64, 32), (None, 0))
        o = cute.zeros((64, 32))
        for t in cute.range(2):
            s = cute.zeros((64, 64))
            cute.gemm(k[t], k[t].T, s)
            cute.gemm(cute.minimum(s, 1.0).to(K.dtype), v[t].load() * 2.0, o)
        cute.copy(o * 1.0, tile(Y, 64, 32))

    k, v, y = integers(128, 64), integers(128, 32), np.zeros((64, 32), np.float32)
    kernel(k, v, y, **ARCH)
    want = np.zeros((64, 32))
    for t in (slice(0, 64), slice(64, 128)):
        want += np.minimum(k[t].astype(np.float64) @ k[t].T, 1) @ (2.0 * v[t])
    np.testing.assert_array_equal(y, want)


def test_an_operand_of_two_multiplies_the_second_of_which_takes_the_first():
    """Newton and Schulz: what the first one takes cannot wait for what is made of its product."""

    @cute.kernel
    def kernel(X, Y):
        x = cute.zeros((64, 64))
        x.assign(tile(X, 64, 64).load())
        for _ in cute.range(2):
            h = x.to(cute.f16)
            a, b = cute.zeros((64, 64)), cute.zeros((64, 64))
            cute.gemm(h, h.T, a)
            cute.gemm(cute.minimum(a, 2.0).to(cute.f16), h, b)
            x.assign(cute.maximum(cute.minimum(x - b, 2.0), -2.0))
        cute.copy(x * 1.0, tile(Y, 64, 64))

    x, y = integers(64, 64, dtype=np.float32), np.zeros((64, 64), np.float32)
    kernel(x, y, **ARCH)
    want = x.astype(np.float64)
    for _ in range(2):
        want = np.clip(want - np.minimum(want @ want.T, 2) @ want, -2, 2)
    np.testing.assert_array_equal(y, want)


def test_a_sum_that_both_operands_are_made_of():
    @cute.kernel
    def kernel(Z, Y):
        x = cute.full((64, 64), 1.0)
        for t in cute.range(2):
            cute.copy(x * 1.0, cute.local_tile(Z, (64, 64), (t, 0)))
            p = cute.minimum(x, 1.0).to(cute.f16)
            cute.gemm(p, p, x)
        cute.copy(x * 1.0, tile(Y, 64, 64))

    z, y = np.zeros((128, 64), np.float32), np.zeros((64, 64), np.float32)
    kernel(z, y, **ARCH)
    assert (z[:64] == 1).all()
    assert (z[64:] == 65).all()
    assert (y == 129).all()


@pytest.mark.parametrize("takes_sum", [False, True])
def test_multiplies_in_a_row_through_registers(takes_sum):
    """((A^T B) C)^T D^T, added to A^T B."""

    @cute.kernel
    def kernel(A, B, C, D, Y):
        cute.tile_index(Y, (64, 64))
        first, second = cute.zeros((64, 64)), cute.zeros((64, 64))
        cute.gemm(tile(A, 64, 64).T, tile(B, 64, 64), first)
        cute.gemm(first.to(A.dtype), tile(C, 64, 64), second)
        cute.gemm(cute.minimum(second, 2.0).to(A.dtype).T, tile(D, 64, 64).T, first)
        cute.copy(first * 1.0 if takes_sum else second * 1.0, tile(Y, 64, 64))

    a, b, c, d = (integers(64, 64, seed=seed) for seed in range(4))
    y = np.zeros((64, 64), np.float32)
    kernel(a, b, c, d, y, **ARCH)
    first = a.T.astype(np.float64) @ b
    second = first @ c
    want = first + np.minimum(second, 2).T @ d.T if takes_sum else second
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_product_that_nothing_may_read(is_stored):
    @cute.kernel
    def kernel(A, B, C, D, Y, Z):
        cute.tile_index(Y, (None, 128))
        first, second, third = (cute.zeros(s) for s in ((128, 64), (128, 64), (64, 128)))
        cute.gemm(tile(A, 128, 64), tile(B, 64, 64), first)
        cute.gemm(tile(C, 128, 128), first.to(A.dtype), second)
        cute.gemm(tile(D, 64, 128), cute.full((128, 128), 1.0).to(A.dtype), third)
        if is_stored:
            cute.copy(second * 1.0, tile(Z, 128, 64))
        cute.copy(third * 1.0, tile(Y, 64, 128))

    a, b, c, d = integers(128, 64), integers(64, 64), integers(128, 128), integers(64, 128)
    y, z = np.zeros((64, 128), np.float32), np.zeros((128, 64), np.float32)
    kernel(a, b, c, d, y, z, **ARCH)
    np.testing.assert_array_equal(y, d.astype(np.float64) @ np.ones((128, 128)))
    np.testing.assert_array_equal(z, c.astype(np.float64) @ a @ b if is_stored else 0 * z)


def test_a_product_on_the_right_of_a_program_that_begins_with_it():
    """The first op of the program is the accumulator, which moves to tensor memory."""

    @cute.kernel
    def kernel(A, B, C, Y):
        first, second = cute.zeros((64, 64)), cute.zeros((64, 64))
        cute.gemm(tile(A, 64, 64), tile(B, 64, 64), first)
        cute.gemm(tile(C, 64, 64), first.to(A.dtype), second)
        cute.copy(second * 1.0, tile(Y, 64, 64))

    a, b, c = (integers(64, 64, seed=seed) for seed in range(3))
    y = np.zeros((64, 64), np.float32)
    kernel(a, b, c, y, **ARCH)
    np.testing.assert_array_equal(y, c.astype(np.float64) @ a @ b)


def test_one_accumulator_of_products_with_and_without_registers():
    """What adds to one accumulator stays together where others are issued ahead."""

    @cute.kernel
    def kernel(A, B, C, Y):
        for t in cute.range(2):
            first, second = cute.zeros((64, 64)), cute.zeros((64, 64))
            cute.gemm(tile(A, 64, 64), tile(B, 64, 64), first)
            cute.gemm(cute.minimum(first, 1.0).to(A.dtype), tile(C, 64, 64), second)
            cute.gemm(tile(A, 64, 64), tile(C, 64, 64), second)
            cute.copy(second * 1.0, cute.local_tile(Y, (64, 64), (t, 0)))

    a, b, c = (integers(64, 64, seed=seed) for seed in range(3))
    y = np.zeros((128, 64), np.float32)
    kernel(a, b, c, y, **ARCH)
    a = a.astype(np.float64)
    np.testing.assert_array_equal(y, np.tile((np.minimum(a @ b, 1) + a) @ c, (2, 1)))


@pytest.mark.parametrize("side", ["A", "B"])
def test_pairs_of_registers(side):
    """Each CTA of a pair computes its own rows of A; the halves of B come by TMA: other ones are
    multiplied by each CTA, and a remark says so.
    """

    @cute.kernel
    def kernel(A, B, C):
        m, n = cute.tile_index(C, (128, 64))
        a = cute.local_tile(A, (128, 64), (m, None))
        b = cute.local_tile(B, (64, 64), (None, n))
        acc = cute.zeros((128, 64))
        for i in cute.range(a.tiles):
            if side == "A":
                cute.gemm(a[i].load() * 2.0, b[i], acc)
            else:
                cute.gemm(a[i], b[i].load() * 2.0, acc)
        cute.copy(acc.to(C.dtype), cute.local_tile(C, (128, 64), (m, n)))

    a, b, c = integers(256, 128), integers(128, 64), np.zeros((256, 64), np.float16)
    schedule = "cluster = (2,1)"
    kernel(a, b, c, schedule=schedule, **ARCH)
    np.testing.assert_array_equal(c, 2 * a.astype(np.float64) @ b)
    compiled = cute.compile(kernel, a, b, c, arch="sm_100a", schedule=schedule)
    is_declined = any("B does not come by TMA" in each.message for each in compiled.remarks)
    assert is_declined == (side == "B")
    assert ("tcgen05.mma.cta_group::2" in compiled.ptx) == (side == "A")


@pytest.mark.parametrize("reads_last", [False, True])
def test_a_product_in_all_columns_that_is_read_behind_another(reads_last):
    """Two stages of it are too many: that of the next trip waits until this one's is read, which
    must not come behind what the multiplies of this trip still have to give.
    """

    @cute.kernel
    def kernel(A, B, X, Y, Z):
        a = cute.local_tile(A, (128, 64), (None, 0))
        for t in cute.range(2):
            s, o = cute.zeros((128, 256)), cute.zeros((128, 128))
            cute.gemm(a[t], tile(B, 64, 256), s)
            if not reads_last:
                cute.copy(s, cute.local_tile(Z, (128, 256), (t, 0)))
            cute.gemm(a[t].load() * 2.0, tile(X, 64, 128), o)
            cute.copy(o, cute.local_tile(Y, (128, 128), (t, 0)))
            if reads_last:
                cute.copy(s, cute.local_tile(Z, (128, 256), (t, 0)))

    a, b, x = integers(256, 64), integers(64, 256), integers(64, 128)
    y, z = np.zeros((256, 128), np.float32), np.zeros((256, 256), np.float32)
    kernel(a, b, x, y, z, **ARCH)
    np.testing.assert_array_equal(y, 2 * a.astype(np.float64) @ x)
    np.testing.assert_array_equal(z, a.astype(np.float64) @ b)
    remarks = cute.compile(kernel, a, b, x, y, z, arch="sm_100a").remarks
    waits = [each.message for each in remarks if "not issued ahead" in each.message]
    assert ["no second stage" in each for each in waits] == [True] * reads_last


def test_one_stage_of_what_one_thread_loads_for_both():
    """It fills what the second multiply takes before what the first one of the next trip does."""

    @cute.kernel
    def kernel(A, B, C, Y, Z):
        for t in cute.range(3):
            s, o = cute.zeros((64, 64)), cute.zeros((64, 64))
            b = cute.local_tile(B, (64, 64), (t, 0))
            cute.gemm(cute.local_tile(A, (64, 64), (t, 0)).load() * 2.0, b, o)
            cute.gemm(tile(C, 64, 64), b.T, s)
            cute.copy(o, cute.local_tile(Y, (64, 64), (t, 0)))
            cute.copy(s, cute.local_tile(Z, (64, 64), (t, 0)))

    a, b, c = integers(192, 64, seed=1), integers(192, 64), integers(64, 64)
    y, z = np.zeros((192, 64), np.float32), np.zeros((192, 64), np.float32)
    kernel(a, b, c, y, z, schedule="stages = 1", **ARCH)
    a, b, c = (each.astype(np.float64) for each in (a, b, c))
    for trip in (slice(0, 64), slice(64, 128), slice(128, 192)):
        np.testing.assert_array_equal(y[trip], 2 * a[trip] @ b[trip])
        np.testing.assert_array_equal(z[trip], c @ b[trip].T)


def test_what_is_added_to_a_product_keeps_it():
    """Of more columns than threads hold beside others: some at a time come back to registers."""

    @cute.kernel
    def kernel(A, B, Y):
        acc = cute.zeros((128, 128))
        cute.gemm(tile(A, 128, 64).load() * 2.0, tile(A, 128, 64).T, acc)
        acc += tile(B, 128, 128).T.load()
        cute.copy(acc, tile(Y, 128, 128))

    a, b = integers(128, 64), integers(128, 128, dtype=np.float32)
    y = np.zeros((128, 128), np.float32)
    kernel(a, b, y, **ARCH)
    np.testing.assert_array_equal(y, 2 * a.astype(np.float64) @ a.T + b.T)
