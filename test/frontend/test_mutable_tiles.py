"""What is made of a mutable tile has the value of then, whatever is assigned to the tile later: the
PTX and the interpreter agree.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute

ARCHES = ["sm_80", "sm_90a", "sm_100a"]
SHAPE = (16, 16)
VIEWS = {
    "T": lambda m: m.T,
    "T.T": lambda m: m.T.T,
    "columns": lambda m: m.columns(0, 16),
    "columns of T": lambda m: m.T.columns(0, 16),
    "to": lambda m: m.to(m.dtype),
    "power": lambda m: m**1,
    "where": lambda m: cute.where(m == m, m, 0.0),
    "broadcast": lambda m: cute.row_max(m).T + m,
}


@pytest.mark.some(4)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_has_the_value_of_then(view, arch):
    @cute.kernel
    def program(X, Y, n):
        m = cute.zeros(SHAPE)
        m.assign(cute.local_tile(X, SHAPE, (0, 0)))
        straight, looped, branched = VIEWS[view](m), cute.zeros(SHAPE), cute.zeros(SHAPE)
        m += 1.0
        for _ in cute.range(n):
            before = VIEWS[view](m)
            m *= 2.0
            looped += before
        late = VIEWS[view](m)
        with cute.when(n > 1):
            branched.assign(late)
            m += 5.0
            branched += late
        for _ in cute.range(n):
            branched += late
            m -= 1.0
        for number, tile in enumerate((straight, looped, branched, m)):
            cute.copy(tile * 1.0, cute.local_tile(Y, SHAPE, (number, 0)))

    x = np.random.default_rng(0).integers(-4, 5, SHAPE).astype(np.float32)
    found = {}
    for backend in ("interpreter", "emulator"):
        found[backend] = np.zeros((64, 16), np.float32)
        program(x, found[backend], 2, arch=arch, backend=backend)
    want = {"T": x.T, "columns of T": x.T, "broadcast": x.max(1)[None] + x}.get(view, x)
    assert np.array_equal(found["interpreter"][:16], want)
    assert np.array_equal(*found.values())


@pytest.mark.parametrize("arch", ARCHES)
def test_a_row_of_old_maxima(arch):
    """The maximum so far as a row, beside the one that takes its place."""

    @cute.kernel
    def program(X, Y):
        most, out = cute.zeros((16, 1)), cute.zeros(SHAPE)
        for k in cute.range(2):
            old = most.T
            new = cute.row_max(cute.local_tile(X, SHAPE, (k, 0)))
            most.assign(cute.maximum(most, new))
            out += most - old
        cute.copy(out, cute.local_tile(Y, SHAPE, (0, 0)))

    x = np.random.default_rng(1).integers(0, 50, (32, 16)).astype(np.float32)
    y = np.zeros(SHAPE, np.float32)
    program(x, y, arch=arch, backend="emulator")
    most, want = np.zeros(16, np.float32), np.zeros(SHAPE, np.float32)
    for rows in (x[:16], x[16:]):
        old, most = most, np.maximum(most, rows.max(1))
        want += most[:, None] - old[None]
    assert np.array_equal(y, want)


@pytest.mark.parametrize("arch", ARCHES)
def test_a_transposed_operand(arch):
    """A multiply reads what the tile was, also where it adds to the tile itself."""

    @cute.kernel
    def program(X, Y):
        m, acc = cute.zeros((64, 64)), cute.zeros((64, 64))
        m.assign(cute.local_tile(X, (64, 64), (0, 0)))
        before = m.T
        m += 1.0
        cute.gemm(before.to(cute.bf16), m.T.to(cute.bf16), acc)
        cute.gemm(acc.T.to(cute.bf16), before.to(cute.bf16), acc)
        cute.copy(acc, cute.local_tile(Y, (64, 64), (0, 0)))

    x = np.random.default_rng(2).integers(-1, 2, (64, 64)).astype(np.float32)
    x[8:] = 0
    y = np.zeros_like(x)
    program(x, y, arch=arch, backend="emulator")
    acc = x.T @ (x + 1).T
    assert np.array_equal(y, acc + acc.T @ x.T)


def test_the_size_of_unsigned_elements_is_a_value():
    @cute.kernel
    def program(Y):
        m = cute.full(SHAPE, 3, cute.u8)
        before = abs(m)
        m += 1
        cute.copy(before, cute.local_tile(Y, SHAPE, (0, 0)))

    y = np.zeros(SHAPE, np.uint8)
    program(y, backend="emulator")
    assert (y == 3).all()


def test_a_second_name_is_the_same_tile():
    @cute.kernel
    def program(Y):
        m = cute.zeros(SHAPE)
        same, kept = m, m.to(m.dtype)
        m += 1.0
        cute.copy(same + kept, cute.local_tile(Y, SHAPE, (0, 0)))

    y = np.zeros(SHAPE, np.float32)
    program(y, backend="emulator")
    assert (y == 1).all()
