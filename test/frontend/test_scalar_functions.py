"""Elementwise functions on run-time scalars and on numbers, and loops with steps."""

from __future__ import annotations

import math

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

FUNCTIONS = {
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "log": math.log,
    "log2": math.log2,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "tanh": math.tanh,
    "abs": abs,
    "reciprocal": lambda x: 1 / x,
    "relu": lambda x: max(x, 0.0),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "erf": math.erf,
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_functions_of_scalars(arch, dtype):
    @cute.kernel
    def program(Y, s):
        for row, name in enumerate(FUNCTIONS):
            value = getattr(cute, name)(s)
            assert value.dtype == cute.f32 or name in ("abs", "relu")
            at = cute.local_tile(Y, (1, 8), (row, 0))
            cute.copy(cute.full((1, 8), value, cute.f32), at)

    y = np.zeros((len(FUNCTIONS), 8), np.float32)
    for value in (0.75, 2.5):
        program(y, dtype(value), backend="emulator", arch=arch)
        want = [function(value) for function in FUNCTIONS.values()]
        np.testing.assert_allclose(y[:, 0], want, rtol=2e-3)
        assert (y == y[:, :1]).all()


def test_functions_of_numbers_are_numbers():
    @cute.kernel
    def program(Y):
        for name in ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "abs"):
            value = getattr(cute, name)(1.5)
            assert isinstance(value, float)
            assert value == pytest.approx(FUNCTIONS[name](1.5))
        assert cute.log(0) == -math.inf
        assert cute.abs(-3) == 3
        cute.copy(cute.full((8, 8), cute.exp2(3)), cute.local_tile(Y, (8, 8), (0, 0)))

    y = np.zeros((8, 8), np.float32)
    program(y, backend="emulator")
    assert (y == 8).all()


@pytest.mark.parametrize("value", [3, -4])
def test_where_of_scalars(value):
    @cute.kernel
    def program(Y, n):
        clamped = cute.where(n < 0, 0, n)
        tile = cute.full((8, 8), clamped)
        chosen = cute.where(n < 0, tile - 1, 7)
        cute.copy(cute.where(n == clamped, chosen, chosen * 2), cute.local_tile(Y, (8, 8), (0, 0)))

    y = np.zeros((8, 8), np.int32)
    program(y, value, backend="emulator")
    assert (y == (-2 if value < 0 else 7)).all()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda n: cute.exp(n), r"a scalar of floats, got i32; convert it with \.to\(cute\.f32\)"),
        (lambda n: cute.sqrt("2"), "expected a tile or a scalar, got str"),
        (lambda n: cute.where(True, n, 1), "tile of conditions or a scalar one, got True"),
        (lambda n: cute.where(n < 1, n, "x"), "expected tiles, scalars or numbers, got str"),
        (lambda n: cute.range(0, 4, 0), "expected a step other than 0"),
        (lambda n: cute.range(0, 4, 0.5), "a step to be an int or a scalar, got float"),
        (lambda n: cute.range(2**31), "expected a loop bound that i32 holds"),
        (lambda n: cute.when(n > 1 or True).__enter__(), "expected a Python bool, got a run-time"),
        (lambda n: cute.when(True).__enter__(), "got True, known while .*; use Python's if"),
        (lambda n: cute.range(n.to(cute.i64)), r"got i64; convert .*\.to\(cute.i32"),
    ],
)  # fmt: skip
def test_what_is_refused(function, message):
    @cute.kernel
    def program(Y, n):
        function(n)
        cute.copy(cute.zeros((8, 8)), cute.local_tile(Y, (8, 8), (0, 0)))

    with pytest.raises(CompileError, match=message):
        program(np.zeros((8, 8), np.float32), 3, backend="emulator")


RANGES = [
    (0, 8, 2), (0, 7, 2), (1, 8, 3), (8, 0, -2), (7, -1, -1), (3, 3, 1), (0, 5, -1), (5, 0, 2),
    (-7, 9, 5), (9, -7, -5), (2, 3, 100), (0, 4, 1),
]  # fmt: skip


def indices(loop):
    """What each trip of a loop adds to a row of its own, and how many trips there are."""

    @cute.kernel
    def program(Y, a, b, c):
        trip = cute.zeros((1, 8))
        total = cute.zeros((1, 8))
        for i in loop(a, b, c):
            trip += 1
            total += trip * i
        cute.copy(trip, cute.local_tile(Y, (1, 8), (0, 0)))
        cute.copy(total, cute.local_tile(Y, (1, 8), (1, 0)))

    return program


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_steps_at_run_time(arch):
    program = indices(lambda a, b, c: cute.range(a, b, c))
    y = np.zeros((2, 8), np.float32)
    for bounds in RANGES:
        program(y, *bounds, backend="emulator", arch=arch)
        want = list(range(*bounds))
        assert (y[0] == len(want)).all(), bounds
        assert (y[1] == sum(n * i for n, i in enumerate(want, 1))).all(), bounds
    program(y, 0, 4, 0, backend="emulator", arch=arch)
    assert (y == 0).all()


@pytest.mark.parametrize("bounds", RANGES)
def test_steps_of_the_program(bounds):
    program = indices(lambda a, b, c: cute.range(*bounds))
    y = np.zeros((2, 8), np.float32)
    program(y, 1, 2, 3, backend="emulator")
    want = list(range(*bounds))
    assert (y[0] == len(want)).all()
    assert (y[1] == sum(n * i for n, i in enumerate(want, 1))).all()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_multiply_in_a_loop_with_a_step(arch):
    """Every other block of K."""

    @cute.kernel
    def program(A, B, C):
        a, b = cute.local_tile(A, (64, 16), (0, None)), cute.local_tile(B, (16, 64), (None, 0))
        acc = cute.zeros((64, 64))
        for k in cute.range(1, a.tiles, 2):
            cute.gemm(a[k], b[k], acc)
        cute.copy(acc, cute.local_tile(C, (64, 64), (0, 0)))

    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (64, 112)).astype(np.float16)
    b = rng.integers(-3, 4, (112, 64)).astype(np.float16)
    c = np.zeros((64, 64), np.float32)
    program(a, b, c, backend="emulator", arch=arch)
    odd = np.arange(112) // 16 % 2 == 1
    assert np.array_equal(c, a[:, odd].astype(np.float32) @ b[odd].astype(np.float32))


def test_the_index_of_one_mode_is_one_number():
    @cute.kernel
    def unpacked(Y):
        (i,) = cute.tile_index(Y, (16,))
        cute.copy(cute.full((16,), i, cute.f32), cute.local_tile(Y, (16,), (i,)))

    with pytest.raises(CompileError, match=r"iteration over it; .* i = cute.tile_index"):
        unpacked(np.zeros(16, np.float32), arch="sm_80", backend="emulator")
