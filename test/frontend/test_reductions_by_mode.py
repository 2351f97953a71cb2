"""`cute.sum`, `max`, `argmin`, `var` and the like along modes, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

ARCHES = ["sm_80", "sm_90a", "sm_100a"]
ROWS, COLUMNS = 12, 40


def computed(function, x, shape, dtype, arch="sm_90a", backend="emulator"):
    @cute.kernel
    def program(X, Y):
        tile = cute.local_tile(X, x.shape, (0, 0)).load()
        cute.copy(function(tile), cute.local_tile(Y, shape, (0, 0)))

    y = np.zeros(shape, dtype)
    program(x, y, arch=arch, backend=backend)
    return y


def both(function, x, shape, dtype, arch="sm_90a"):
    y = computed(function, x, shape, dtype, arch)
    again = computed(function, x, shape, dtype, arch, "interpreter")
    wide = np.float64 if y.dtype.kind not in "iu" else y.dtype
    np.testing.assert_allclose(y.astype(wide), again.astype(wide), rtol=1e-5)
    return y


def drawn(dtype):
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (ROWS, COLUMNS)).astype(dtype)
    if np.dtype(dtype).kind == "u":
        x = rng.integers(0, 200, (ROWS, COLUMNS)).astype(dtype)
    x[3, 7], x[5, :] = 3, 1
    return x


def shape_of(mode):
    kept = range(2) if mode is None else (mode if isinstance(mode, tuple) else (mode,))
    return tuple(1 if n in {k % 2 for k in kept} else e for n, e in enumerate((ROWS, COLUMNS)))


def exact_of(name, x, mode):
    wide = x.astype(np.float64 if x.dtype.kind not in "iu" else np.int64)
    return getattr(np, name)(wide, axis=mode, keepdims=True)


MODES = [0, 1, -1, -2, (0, 1), None]
DTYPES = ["int8", "uint8", "int32", "uint32", "int64", "float16", "float32", "float64"]


@pytest.mark.some(6)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [*DTYPES, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["sum", "max", "min", "prod"])
def test_totals(name, dtype, mode):
    x = drawn(dtype)
    if name == "prod":
        x = np.where(np.arange(COLUMNS) % 9 == np.arange(ROWS)[:, None] % 9, 2, 1).astype(dtype)
    kind = np.dtype(dtype)
    adds = name in ("sum", "prod")
    out = np.dtype(np.int32) if adds and kind.kind in "iu" and kind.itemsize < 4 else kind
    function = getattr(cute, name)
    y = both(lambda tile: function(tile, mode=mode), x, shape_of(mode), out)
    with np.errstate(over="ignore"):
        assert np.array_equal(y, exact_of(name, x, mode).astype(out))


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("mode", [0, 1])
def test_on_each_target(mode, arch):
    x = drawn("float32")

    def function(tile):
        total = cute.sum(tile, mode=mode) + cute.max(tile, mode=mode) - cute.min(tile, mode=mode)
        total += cute.any(tile > 2, mode=mode).to(cute.f32) + cute.var(tile, mode=mode)
        return total + cute.argmin(tile, mode=mode).to(cute.f32)

    w = x.astype(np.float64)
    want = (
        w.sum(mode) + w.max(mode) - w.min(mode) + (w > 2).any(mode) + w.var(mode) + w.argmin(mode)
    )
    y = both(function, x, shape_of(mode), np.float32, arch)
    np.testing.assert_allclose(y.ravel(), want, rtol=1e-5)


@pytest.mark.parametrize("mode", [0, 1, (0, 1)])
@pytest.mark.parametrize("name", ["any", "all"])
def test_conditions(name, mode):
    x = drawn("int32")
    x[:, 4] = 3
    y = both(lambda x: getattr(cute, name)(x > 0, mode).to(cute.i32), x, shape_of(mode), np.int32)
    assert np.array_equal(y, getattr(np, name)(x > 0, axis=mode, keepdims=True))


@pytest.mark.parametrize("least", [0, 1])
def test_a_condition_of_the_whole_tile(least):
    @cute.kernel
    def program(X, Y):
        x = cute.local_tile(X, (ROWS, COLUMNS), (0, 0)).load()
        with cute.when(cute.all(x >= least)):
            cute.copy(cute.full((1, 8), 1, cute.i32), cute.local_tile(Y, (1, 8), (0, 0)))

    y = np.zeros((1, 8), np.int32)
    x = np.abs(drawn("int32"))
    for backend in ("emulator", "interpreter"):
        program(x, y, arch="sm_90a", backend=backend)
        assert (y == (1 - least)).all()


@pytest.mark.some(6)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_places(name, dtype):
    x = drawn(dtype)
    if x.dtype.kind == "f":
        x[2, 9] = x[2, 20] = np.nan
        x[6, 30], x[7, 8] = np.inf, -np.inf
    for mode in (0, 1):
        y = both(lambda tile, m=mode: getattr(cute, name)(tile, mode=m), x, shape_of(mode), "int32")
        assert np.array_equal(y, getattr(x, name)(mode, keepdims=True))


def exponentials(x, mode):
    w = x.astype(np.float64)
    top = w.max(mode, keepdims=True)
    base = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(w - base).sum(mode, keepdims=True)) + base


@pytest.mark.some(4)
@pytest.mark.parametrize("mode", [0, 1, None])
@pytest.mark.parametrize("dtype", ["float16", "float32", ml_dtypes.bfloat16])
def test_statistics(dtype, mode):
    x = (np.random.default_rng(1).standard_normal((ROWS, COLUMNS)) * 3 + 20).astype(dtype)
    w = x.astype(np.float64)
    shape = shape_of(mode)
    mean = both(lambda x: cute.mean(x, mode=mode), x, shape, np.float32)
    np.testing.assert_allclose(mean, w.mean(mode, keepdims=True), rtol=1e-6)
    var = both(lambda x: cute.var(x, mode=mode, correction=1), x, shape, np.float32)
    np.testing.assert_allclose(var, w.var(mode, ddof=1, keepdims=True), rtol=1e-5)
    lse = both(lambda x: cute.logsumexp(x, mode=mode), x, shape, np.float32)
    np.testing.assert_allclose(lse, exponentials(x, mode), rtol=1e-6)
    if mode is not None:
        shares = both(lambda x: cute.softmax(x, mode), x, x.shape, np.float32)
        e = np.exp(w - w.max(mode, keepdims=True))
        np.testing.assert_allclose(shares, e / e.sum(mode, keepdims=True), rtol=2e-5)


def test_sums_of_exponentials_of_infinities():
    x = drawn("float32")
    x[0], x[1, 3], x[2, 5], x[4, :30] = -np.inf, np.inf, np.nan, -np.inf
    y = both(lambda x: cute.logsumexp(x, mode=1), x, (ROWS, 1), np.float32)
    np.testing.assert_allclose(y, exponentials(x, 1), rtol=1e-6)


def test_of_16_bits_a_total_of_both_modes_is_rounded_once():
    x = np.full((ROWS, COLUMNS), 1, np.float16)
    x[:, 0] = 2048
    y = both(lambda x: cute.sum(x), x, (1, 1), np.float16)
    assert y[0, 0] == np.float16(ROWS * (2048 + COLUMNS - 1))


def test_what_is_left_as_a_vector():
    """Without `keepdims` it is a vector, and as each vector of today a column."""
    x = drawn("int32")
    for mode, extent in ((0, COLUMNS), (1, ROWS)):
        for name in ("sum", "argmax"):
            function = getattr(cute, name)
            y = both(lambda x: function(x, mode=mode, keepdims=False), x, (extent, 1), np.int32)  # noqa: B023
            assert np.array_equal(y[:, 0], getattr(x, name)(mode))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: cute.sum(x, mode=2), r"mode 0 \(columns\), 1 \(rows\), .* None for both, got 2"),
        (lambda x: cute.max(x, mode=(0, 0)), r"got \(0, 0\)"),
        (lambda x: cute.min(x, mode=True), "got True"),
        (lambda x: cute.argmin(x, mode=None), "expected one mode, 0 or 1, for a coordinate"),
        (lambda x: cute.mean(x.to(cute.i32)), r"floats for a mean, got i32; .*\.to\(cute\.f32\)"),
        (lambda x: cute.var(x, 1, correction=16), "correction from 0 to below 16, got 16"),
        (lambda x: cute.any(x, mode=1), "expected a tile of conditions, got f32; compare it"),
        (lambda x: cute.all(1), "expected a tile of conditions, got int"),
        (lambda x: cute.sum(3.0), "expected a tile, got float"),
    ],
)  # fmt: skip
def test_what_is_refused(function, message):
    @cute.kernel
    def program(X):
        function(cute.local_tile(X, (8, 16), (0, 0)).load())

    with pytest.raises(CompileError, match=message):
        program(np.zeros((8, 16), np.float32), backend="emulator", arch="sm_80")
