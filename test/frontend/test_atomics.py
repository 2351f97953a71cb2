"""`cute.atomic_add`: every element of the tensor once, ragged edges, nothing beside it."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError


def guarded(rows, columns, dtype, margin=3):
    """A matrix inside a larger buffer of sevens, and the buffer."""
    whole = np.full((rows + 2 * margin, columns + 2 * margin), 7, dtype)
    inner = whole[margin : margin + rows, margin : margin + columns]
    inner[...] = 0
    return inner, whole


@cute.kernel
def add_once(X, Y, *, tile=(16, 32)):
    """Y += X."""
    at = cute.tile_index(X, tile)
    cute.atomic_add(cute.load(cute.local_tile(X, tile, at)), cute.local_tile(Y, tile, at))


@cute.kernel
def add_all(X, Y, *, tile=(16, 32)):
    """Y[:16,:32] += the sum of all tiles of X, from as many CTAs."""
    at = cute.tile_index(X, tile)
    cute.atomic_add(cute.load(cute.local_tile(X, tile, at)), cute.local_tile(Y, tile, (0, 0)))


@pytest.mark.parametrize("shape", [(16, 32), (17, 33), (5, 100), (31, 7), (1, 1), (40, 70)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_a_ragged_matrix(shape, dtype):
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)
    y, whole = guarded(*shape, dtype)  # pyright: ignore[reportCallIssue]
    y += 100
    add_once(x, y, backend="emulator")
    assert np.array_equal(y, x + dtype(100))
    y[...] = 7
    assert (whole == 7).all()


@pytest.mark.parametrize(
    ("dtype", "arch"),
    [
        (np.float16, "sm_80"),
        (ml_dtypes.bfloat16, "sm_90"),
        (np.float64, "sm_80"),
        (np.int64, "sm_80"),
    ],
)
def test_other_types(dtype, arch):
    x = np.random.default_rng(1).integers(-9, 9, (19, 35)).astype(dtype)
    y, whole = guarded(19, 35, dtype)
    add_once(x, y, backend="emulator", arch=arch)
    assert np.array_equal(y.astype(np.float64), x.astype(np.float64))
    y[...] = 7
    assert (whole == 7).all()


def test_many_ctas_add_to_one_tile():
    x = np.random.default_rng(2).integers(-9, 9, (50, 90)).astype(np.float32)
    y = np.ones((16, 32), np.float32)
    padded = np.zeros((64, 96), np.float32)
    padded[:50, :90] = x
    add_all(x, y, backend="emulator")
    assert np.array_equal(y, 1 + padded.reshape(4, 16, 3, 32).sum(axis=(0, 2)))


@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (70, 90), (3, 65), (129, 1)])
def test_sums_of_rows_count_each_thread_once(rows, columns):
    """A row's sum is held by several threads: only one of them may add it."""

    @cute.kernel
    def program(X, sums, *, tile=(32, 64)):
        m, n = cute.tile_index(X, tile)
        part = cute.row_sum(cute.load(cute.local_tile(X, tile, (m, n))))
        cute.atomic_add(part, cute.local_tile(sums, (tile[0],), (m,)))

    x = np.random.default_rng(3).integers(-9, 9, (rows, columns)).astype(np.float32)
    buffer = np.full(rows + 40, 7, np.float32)
    sums = buffer[8 : 8 + rows]
    sums[...] = 0.5
    program(x, sums, backend="emulator")
    assert np.array_equal(sums, x.sum(axis=1) + 0.5)
    sums[...] = 7
    assert (buffer == 7).all()


def test_a_strided_destination():
    x = np.arange(20 * 40, dtype=np.float32).reshape(20, 40)
    whole = np.zeros((40, 20), np.float32)
    add_once(x, whole.T, backend="emulator")
    assert np.array_equal(whole, x.T)


@pytest.mark.parametrize(
    ("dtype", "out", "arch", "message"),
    [
        (np.float32, np.float16, "sm_80", r"expected a source of f16, got f32; .*\.to\(cute.f16\)"),
        (
            ml_dtypes.bfloat16,
            ml_dtypes.bfloat16,
            "sm_80",
            "expected sm_90 or later .* got sm_80; add to a tensor of f32",
        ),
        (np.int8, np.int8, "sm_80", "atomic"),
    ],
)
def test_what_is_refused(dtype, out, arch, message):
    x, y = np.ones((16, 32), dtype), np.zeros((16, 32), out)
    with pytest.raises(CompileError, match=message):
        add_once(x, y, backend="emulator", arch=arch)
    assert not y.any()


COMBINE = {
    "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "add": np.add,
}  # fmt: skip


def combined(word, x, y, arch, backend, rows=None, scope="gpu"):
    """Combine tiles of x into y by `cute.atomic_WORD`, all at one place, or rows that are named."""

    @cute.kernel
    def program(X, R, Y, *, tile=(16, 32)):
        m, n = cute.tile_index(X, tile)
        x = cute.load(cute.local_tile(X, tile, (m, n)))
        place = cute.local_tile(Y, tile, (0, 0))
        if rows is not None:
            numbers = cute.local_tile(R, (tile[0],), (m,)).load()
            place = cute.local_tile(Y, tile, (numbers, 0))
        getattr(cute, f"atomic_{word}")(x, place, scope=scope)

    given = np.zeros(x.shape[0], np.int32) if rows is None else rows
    program(x, given, y, arch=arch, backend=backend)


@pytest.mark.some(9)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("word", COMBINE)
def test_combinations_of_integers(word, dtype, arch):
    """Of many tiles at one place, ragged ones among them."""
    info = np.iinfo(dtype)
    rng = np.random.default_rng(4)
    x = rng.integers(info.min, info.max, (50, 32), dtype, endpoint=True)
    start = rng.integers(info.min, info.max, (16, 32), dtype, endpoint=True)
    want = start.copy()
    for row in range(50):
        want[row % 16] = COMBINE[word](want[row % 16], x[row])
    padded = {"min": 0, "max": 0, "and": 0}
    if word in padded:  # rows beyond the tensor load as 0
        for row in range(50 % 16, 16):
            want[row] = COMBINE[word](want[row], np.array(0, dtype))
    for backend in ("emulator", "interpreter"):
        y = start.copy()
        combined(word, x, y, arch, backend)
        assert np.array_equal(y, want)


@pytest.mark.parametrize("word", ["max", "xor"])
def test_combinations_of_rows_that_are_named(word):
    rng = np.random.default_rng(5)
    x = rng.integers(-99, 99, (32, 32)).astype(np.int32)
    rows = rng.integers(0, 20, 32).astype(np.int32)
    want = rng.integers(-99, 99, (20, 32)).astype(np.int32)
    start = want.copy()
    for row, into in enumerate(rows):
        want[into] = COMBINE[word](want[into], x[row])
    for backend in ("emulator", "interpreter"):
        y = start.copy()
        combined(word, x, y, "sm_90a", backend, rows)
        assert np.array_equal(y, want)


@pytest.mark.parametrize("scope", ["cta", "cluster", "gpu", "sys"])
def test_scopes(scope):
    x = np.arange(16 * 32, dtype=np.int32).reshape(16, 32)
    y = np.ones((16, 32), np.int32)
    combined("or", x, y, "sm_90a", "emulator", scope=scope)
    assert np.array_equal(y, x | 1)
    spec = cute.TensorSpec((None, None), cute.i32)

    @cute.kernel
    def program(X, Y):
        at = cute.tile_index(X, (8, 16))
        x = cute.load(cute.local_tile(X, (8, 16), at))
        cute.atomic_xor(x, cute.local_tile(Y, (8, 16), at), scope=scope)

    assert (
        f"red.relaxed.{scope}.global.xor.b32"
        in cute.compile(program, spec, spec, arch="sm_90a").ptx
    )
    if scope == "cluster":
        with pytest.raises(CompileError, match=r'sm_90 or later for the scope .* take "gpu"'):
            cute.compile(program, spec, spec, arch="sm_80")


@pytest.mark.parametrize(
    ("word", "dtype", "scope", "message"),
    [
        ("max", np.float32, "gpu", r"integers of 32 or 64 for cute.atomic_max, got f32; combine"),
        ("xor", np.int16, "gpu", r"for cute.atomic_xor, got i16; combine in another array"),
        ("add", np.int8, "gpu", r"floats of 16 bits or more, or of integers .* got i8; add up"),
        ("min", np.int32, "block", "scope to be one of cta, cluster, gpu, sys, got 'block'"),
    ],
)
def test_combinations_that_are_refused(word, dtype, scope, message):
    x = np.ones((16, 32), dtype)
    with pytest.raises(CompileError, match=message):
        combined(word, x, x.copy(), "sm_80", "emulator", scope=scope)


@pytest.mark.parametrize("order", ["sc", "later"])
def test_orders_that_are_refused(order):
    @cute.kernel
    def program(X):
        view = cute.local_tile(X, (16,), (0,))
        cute.atomic_exchange(cute.atomic_add(view.load(), view, order="relaxed"), view, order=order)

    message = f"order to be one of relaxed, acquire, release, acq_rel, got '{order}'"
    with pytest.raises(CompileError, match=message):
        program(np.zeros(16, np.int32), backend="interpreter")
