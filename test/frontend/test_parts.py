"""Parts of register tiles with constant bounds, vectors as rows and columns, other shapes."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

SHAPE = 16, 32


def computed(function, x, shape, arch="sm_90a", backend="emulator"):
    @cute.kernel
    def program(X, Y):
        tile = cute.local_tile(X, x.shape, (0, 0)).load()
        cute.copy(function(tile), cute.local_tile(Y, shape, (0, 0)))

    y = np.zeros(shape, x.dtype)
    program(x, y, arch=arch, backend=backend)
    return y


def drawn(dtype=np.float32, shape=SHAPE):
    return np.random.default_rng(0).integers(-99, 99, shape).astype(dtype)


KEYS = [
    np.s_[:, 4:12], np.s_[2:10, :], np.s_[8:], np.s_[:3, -5:], np.s_[3:4, 5:6], np.s_[:, :],
    np.s_[-2:, 31:], np.s_[1:16, 1:31], np.s_[0:8, 16:],
]  # fmt: skip


@pytest.mark.some(4)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float16])
@pytest.mark.parametrize("key", KEYS, ids=str)
def test_parts(key, dtype, arch):
    x = drawn(dtype)
    want = x[key]
    for backend in ("emulator", "interpreter"):
        assert np.array_equal(computed(lambda t: t[key], x, want.shape, arch, backend), want)


def test_a_part_of_a_sum_and_of_a_mutable_tile():
    x = drawn()

    def function(tile):
        total = cute.zeros(SHAPE)
        total += tile
        part = total[4:8, :]  # as it is now
        total += 100.0
        return part + cute.sum(total[:, 0:2], mode=1)[4:8, :]

    want = x[4:8] + (x + 100)[4:8, :2].sum(1, keepdims=True)
    for backend in ("emulator", "interpreter"):
        assert np.array_equal(computed(function, x, (4, 32), backend=backend), want)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_a_part_of_a_product(arch):
    @cute.kernel
    def program(A, B, Y):
        a, b = cute.local_tile(A, (64, 32), (0, 0)), cute.local_tile(B, (32, 64), (0, 0))
        acc = cute.zeros((64, 64))
        cute.gemm(a, b, acc)
        cute.copy(acc[16:48, 32:], cute.local_tile(Y, (32, 32), (0, 0)))

    rng = np.random.default_rng(1)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 32), (32, 64)))
    y = np.zeros((32, 32), np.float32)
    program(a, b, y, arch=arch, backend="emulator")
    assert np.array_equal(y, (a.astype(np.float32) @ b)[16:48, 32:])


def test_vectors_as_rows_and_columns():
    x = drawn()

    def function(tile):
        v, w = (cute.sum(tile, mode=mode, keepdims=False) for mode in (1, 0))
        return v[:, None] * 2.0 + w[None, :] + tile.mT.T

    want = x.sum(1)[:, None] * 2 + x.sum(0)[None, :] + x
    for backend in ("emulator", "interpreter"):
        assert np.array_equal(computed(function, x, SHAPE, backend=backend), want)


def test_other_shapes():
    x = drawn()
    row = computed(lambda t: cute.broadcast_to(t[3:4, :], (5, 32)), x, (5, 32))
    assert np.array_equal(row, np.broadcast_to(x[3:4], (5, 32)))
    turned = computed(lambda t: cute.permute(t, (1, 0)) + cute.permute(t.T, (0, 1)), x, SHAPE[::-1])
    assert np.array_equal(turned, 2 * x.T)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda t: t[3, 4], r"expected a Tile as a whole, got .* t\[2:6, :\]"),
        (lambda t: t[:, :, 1:2], "expected a slice or a number for each mode of a tile"),
        (lambda t: t[16], r"expected a part of one element or more, .* of 16, got 16:17"),
        (lambda t: t[::2], r"with step 1, of 16, got None:None:2"),
        (lambda t: t[5:5], "expected a part of one element or more"),
        (lambda t: t[:, 40:50], "expected a part of one element or more, .* of 32, got 40:50"),
        (lambda t: t[: cute.search(lambda n: n, 3, 1)], r"that Python knows, got Scalar; .*slice"),
        (lambda t: t[cute.search(lambda n: n, 3, 1), :], "expected a Tile as a whole"),
        (lambda t: t + t[:, None], r"expected tiles of as many modes, got .* t\[None, :, :\]"),
        (lambda t: cute.broadcast_to(t, (16, 33)), r"expected tiles whose modes agree"),
        (lambda t: cute.broadcast_to(t, (16, 1)), r"\(16, 32\) broadcasts to, got \(16, 1\)"),
        (lambda t: cute.permute(t, (0, 2)), r"the modes 0 to 1 in some order, got \(0, 2\)"),
    ],
)  # fmt: skip
def test_what_is_refused(function, message):
    with pytest.raises(CompileError, match=message):
        computed(function, drawn(), SHAPE)
