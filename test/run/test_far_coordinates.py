"""Coordinates of tiles that begin 2^31 elements behind the start of a tensor or more, where no
extent reaches: they lie outside, as all others behind a tensor's end do.
"""

import numpy as np
import pytest

import cutedialect as cute

TARGETS = ("sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a")
FAR = [(1 << 31) // 64, (1 << 31) // 64 + 3, (1 << 32) // 64, (1 << 31) - 1, -1, -(1 << 31)]


@cute.kernel
def loaded(X, Y, at):
    y = cute.local_tile(Y, (64,), (0,))
    cute.copy(cute.local_tile(X, (64,), (at,)).load(), y)


@cute.kernel
def stored(X, Y, at):
    cute.copy(cute.local_tile(X, (64,), (0,)).load(), cute.local_tile(Y, (64,), (at,)))
    cute.atomic_add(cute.local_tile(X, (64,), (0,)).load(), cute.local_tile(Y, (64,), (at,)))


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
@pytest.mark.parametrize("at", FAR)
def test_numbers_that_a_launch_gives(backend, at):
    x, y = np.ones(100, np.int32), np.full(64, 7, np.int32)
    loaded(x, y, at, backend=backend)
    assert not y.any()
    y[:] = 7
    stored(x, y, at, backend=backend)
    assert (y == 7).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("at", FAR)
def test_operands_of_multiplies(target, at):
    @cute.kernel
    def product(A, B, C, at):
        m, n = cute.tile_index(C, (64, 64))
        a, b = cute.local_tile(A, (64, 64), (at, None)), cute.local_tile(B, (64, 64), (None, n))
        acc = cute.zeros((64, 64))
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], acc)
        cute.copy(acc.to(C.dtype), cute.local_tile(C, (64, 64), (m, n)))

    a, c = np.ones((64, 64), np.float16), np.ones((64, 64), np.float32)
    product(a, a, c, at, arch=target, backend="emulator")
    assert not c.any()
    product(a, a, c, 0, arch=target, backend="emulator")
    assert (c == 64).all()


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
@pytest.mark.parametrize("at", FAR[:4])
def test_constants(backend, at):
    @cute.kernel
    def program(X, Y):
        cute.copy(cute.local_tile(X, (64,), (at,)).load(), cute.local_tile(Y, (64,), (0,)))
        cute.copy(cute.local_tile(X, (64,), (0,)).load(), cute.local_tile(Y, (64,), (at,)))

    x, y = np.ones(100, np.int32), np.full(64, 7, np.int32)
    program(x, y, backend=backend)
    assert not y.any()


LONG = (1 << 31) + 5
LIMIT = (
    r"X: expected extents below 2\*\*31, got 2147483653 in dimension 0; see it with one more mode"
)


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
def test_longer_extents_are_refused_by_name(backend):
    x, y = np.broadcast_to(np.ones(1, np.int8), (LONG,)), np.zeros(64, np.int8)
    with pytest.raises(ValueError, match=LIMIT):
        loaded(x, y, 0, backend=backend)
    with pytest.raises(ValueError, match=r"expected extents below 2\*\*31, got \(2147483653,\)"):
        cute.TensorSpec((LONG,), cute.i8)
    # As many elements in two modes.
    x = np.broadcast_to(np.ones(1, np.int8), (1 << 16, 1 << 16))

    @cute.kernel
    def last(X, Y):
        at = X.shape[0] // 8 - 1
        cute.copy(
            cute.local_tile(X, (8, 64), (at, 1023)).load(), cute.local_tile(Y, (8, 64), (0, 0))
        )

    y = np.zeros((8, 64), np.int8)
    last(x, y, backend=backend)
    assert y.all()
