"""Elementary functions of f32 against float64, in units in the last place, of drawn numbers and of
zeros, infinities, NaN, the least and the largest.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

WIDTH = 1024
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 2, -2, 1e-40, -1e-40, 3e38, -3e38]
SPECIAL += [88.72, 88.73, -88.73, 89.4, -104, 0.25, -0.25, 1.5, 2.5, 3.5, 4, -3, -2.457024, 1e-30]


def computed(function, *arrays, backend="emulator", arch="sm_90a"):
    @cute.kernel
    def program(Y, A, B):
        at = cute.tile_index(Y, (1, WIDTH))
        tiles = [cute.local_tile(v, (1, WIDTH), at).load() for v in (A, B)]
        cute.copy(function(*tiles[: len(arrays)]), cute.local_tile(Y, (1, WIDTH), at))

    count = arrays[0].size
    given = [np.resize(a, (-(-count // WIDTH), WIDTH)) for a in arrays]
    y = np.zeros_like(given[0])
    program(y, *(given * 2)[:2], arch=arch, backend=backend)
    return y.ravel()[:count]


def worst(got, want):
    """The largest error in units in the last place; other than finite numbers have to agree."""
    with np.errstate(over="ignore"):
        single = want.astype(np.float32)
    known = np.isfinite(single) & np.isfinite(got)
    np.testing.assert_array_equal(got[~known], single[~known])
    assert np.array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    unit = np.spacing(np.abs(single[known])).astype(np.float64)
    return (np.abs(got[known] - want[known]) / unit).max()


def spread(count, low, high, seed=0):
    """Numbers of both signs, evenly over the binades from 2^low to 2^high, and special ones."""
    rng = np.random.default_rng(seed)
    size = 2.0 ** rng.uniform(low, high, count) * rng.choice([-1, 1], count)
    return np.concatenate([size, SPECIAL]).astype(np.float32)


def near(center, low, high):
    return (center + np.float64(spread(400, low, high))).astype(np.float32)


def gamma(x):
    return np.array([math.inf if v <= 0 and v == math.floor(v) else math.lgamma(v) for v in x])


ANGLES = spread(900, -20, 20)
ANGLES = ANGLES[(np.abs(ANGLES) <= 2.0**20) | ~np.isfinite(ANGLES)]
SMALL = np.concatenate([spread(500, -30, 3), np.linspace(-95, 95, 400, dtype=np.float32)])
POSITIVE = np.concatenate([np.abs(spread(500, -140, 127)), near(1, -23, -2), near(2, -22, -2)])
POSITIVE = POSITIVE[POSITIVE >= 0]
UNITS = np.concatenate([spread(500, -20, 0), near(1, -23, -2), near(-1, -23, -2)])
# The name, what NumPy computes, numbers to try, and the units that the docstring states. The second
# of the angles of `exact` is the one nearest to a multiple of pi / 2.
FUNCTIONS = {
    "sin": (np.sin, ANGLES, 2),
    "cos": (np.cos, ANGLES, 2),
    "tan": (np.tan, ANGLES, 4),
    "atan": (np.arctan, spread(900, -30, 30), 2),
    "asin": (np.arcsin, UNITS, 2),
    "acos": (np.arccos, UNITS, 2),
    "sinh": (np.sinh, SMALL, 0.51),
    "cosh": (np.cosh, SMALL, 0.51),
    "expm1": (np.expm1, SMALL, 0.51),
    "log1p": (np.log1p, np.concatenate([SMALL, POSITIVE]), 0.51),
    "log10": (np.log10, np.concatenate([POSITIVE, SMALL]), 0.51),
    "asinh": (np.arcsinh, np.concatenate([SMALL, spread(400, -30, 127)]), 0.51),
    "acosh": (np.arccosh, np.concatenate([1 + POSITIVE, near(1, -23, -2), SMALL]), 0.51),
    "atanh": (np.arctanh, UNITS, 0.51),
    "cbrt": (np.cbrt, np.concatenate([POSITIVE, SMALL]), 0.51),
    "exp10": (lambda x: np.power(10.0, x), np.concatenate([SMALL, spread(400, -30, 6)]), 0.51),
    "lgamma": (gamma, POSITIVE[~np.isnan(POSITIVE)], 0.51),
    "exact.sin": (np.sin, np.append(spread(900, -20, 127), np.float32(16367173 * 2.0**72)), 0.6),
    "exact.cos": (np.cos, np.append(spread(900, -20, 127), np.float32(16367173 * 2.0**72)), 0.6),
    "exact.log": (np.log, np.concatenate([POSITIVE, SMALL]), 0.51),
    "exact.log2": (np.log2, np.concatenate([POSITIVE, SMALL]), 0.51),
}


def function_of(name):
    found = cute
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.some(15)
@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_in_units(name, backend):
    exact, x, units = FUNCTIONS[name]
    assert f"{units} ulp" in function_of(name).__doc__
    with np.errstate(all="ignore"):
        want = exact(x.astype(np.float64))
    assert worst(computed(function_of(name), x, backend=backend), want) <= units


@pytest.mark.some(5)
@pytest.mark.parametrize("arch", ["sm_80", "sm_100a"])
@pytest.mark.parametrize("name", ["sin", "atan", "sinh", "lgamma", "exact.cos"])
def test_equal_bits_on_other_targets(name, arch):
    _, x, _ = FUNCTIONS[name]
    x = x[::7]
    first, other = (computed(function_of(name), x, arch=a) for a in ("sm_90a", arch))
    np.testing.assert_array_equal(first, other)


def test_lgamma_left_of_zero():
    x = np.concatenate([-np.linspace(0, 12, 1500), [-2.457024, -2.7476826, -1e-30, -1e30, -np.inf]])
    x = x.astype(np.float32)
    want = np.array([math.inf if math.isinf(v) else gamma([v])[0] for v in x.astype(np.float64)])
    got = computed(cute.lgamma, x)
    known = np.isfinite(want)
    assert np.array_equal(got[~known], want[~known])
    unit = np.spacing(np.abs(want[known]).astype(np.float32)).astype(np.float64)
    assert (np.abs(got[known] - want[known]) <= np.maximum(0.51 * unit, 2.0**-34)).all()
    assert np.isnan(computed(cute.lgamma, np.full(4, np.nan, np.float32))).all()


def test_angles_beyond_what_is_stated_are_nan():
    x = np.array([2.0**20 * 1.01, -(2.0**30), 3e38], np.float32)
    for function in (cute.sin, cute.cos, cute.tan):
        assert np.isnan(computed(function, x)).all()


GRID = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 2, -2, 3, -3, 1e-40, 3e38, -3e38, 33554433]


def pairs(count=600):
    one, other = (v.ravel() for v in np.meshgrid(GRID, GRID))
    return np.append(one, spread(count, -20, 20)), np.append(other, spread(count, -20, 20, 1))


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
def test_angles_of_points(backend):
    y, x = (v.astype(np.float32) for v in pairs())
    want = np.arctan2(y.astype(np.float64), x.astype(np.float64))
    got = computed(cute.atan2, y, x, backend=backend)
    assert np.array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    assert worst(got, want) <= 3
    assert "3 ulp" in cute.atan2.__doc__


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
def test_lengths(backend):
    x, y = (v.astype(np.float32) for v in pairs())
    want = np.hypot(x.astype(np.float64), y.astype(np.float64))
    assert worst(computed(cute.hypot, x, y, backend=backend), want) <= 0.51
    assert "0.51 ulp" in cute.hypot.__doc__


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
def test_powers(backend):
    x, y = pairs(0)
    rng = np.random.default_rng(5)
    x = np.concatenate([x, np.abs(spread(600, -20, 20)), -np.abs(spread(200, -3, 3))])
    y = np.concatenate([y, rng.uniform(-6, 6, 629), rng.integers(-9, 9, 229)])
    x = np.concatenate([x, near(1, -23, -2)]).astype(np.float32)
    y = np.concatenate([y, spread(400, -3, 20)]).astype(np.float32)
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64))
    assert worst(computed(cute.pow, x, y, backend=backend), want) <= 0.51
    assert "0.51 ulp" in cute.pow.__doc__


def test_instructions_that_approximate():
    x = np.linspace(-math.pi, math.pi, 1000, dtype=np.float32)
    for name in ("sin", "cos"):
        got = computed(getattr(cute.fast, name), x)
        assert np.abs(got - getattr(np, name)(x.astype(np.float64))).max() <= 2.0**-20.5
    spec = cute.TensorSpec((None,), cute.f32)

    @cute.kernel
    def program(X, Y):
        i = cute.tile_index(Y, (256,))
        x = cute.local_tile(X, (256,), (i,)).load()
        cute.copy(cute.fast.sin(x) + cute.fast.cos(x), cute.local_tile(Y, (256,), (i,)))

    ptx = cute.compile(program, spec, spec, arch="sm_90a").ptx
    assert {"sin.approx.f32", "cos.approx.f32"} <= set(ptx.split())


def test_lgamma_that_approximates():
    rng = np.random.default_rng(8)
    left = -(2.0 ** rng.uniform(-40, 20, 900))
    x = np.concatenate([rng.uniform(-9, 9, 3000), 2.0 ** rng.uniform(-126, 120, 999), left])
    x = np.append(x, [0.0, -0.0, -3.0, np.inf, 1.0, 2.0, 4.0]).astype(np.float32)
    want = gamma(x.astype(np.float64))
    got = computed(cute.fast.lgamma, x)
    finite = np.isfinite(want)
    error = np.abs(got[finite] - want[finite]) / np.maximum(1, np.abs(want[finite]))
    assert error.max() <= 2.0**-18
    assert (got[~finite] == np.inf).all()
    assert np.isnan(computed(cute.fast.lgamma, np.full(4, np.nan, np.float32))).all()
    assert cute.fast.lgamma(5.0) == pytest.approx(math.log(24))
    assert "2^-18" in cute.fast.lgamma.__doc__


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_scalars_narrow_floats_and_numbers(arch):
    names = [name for name in FUNCTIONS if name not in ("acos", "asin", "acosh", "atanh")]

    @cute.kernel
    def program(Y, X, s, h):
        for row, name in enumerate(names):
            function = function_of(name)
            value = function(s) + function(h)
            assert isinstance(function(0.75), float)
            x = cute.local_tile(X, (1, 8), (0, 0)).load()
            assert function(x).dtype == cute.f32
            cute.copy(function(x) + value, cute.local_tile(Y, (1, 8), (row, 0)))
        both = cute.pow(s, h) + cute.pow(s, 2.0) + cute.atan2(s, 1.0) + cute.atan2(1.0, s)
        cute.copy(cute.full((1, 8), both), cute.local_tile(Y, (1, 8), (len(names), 0)))

    y = np.zeros((len(names) + 1, 8), np.float32)
    x = np.full((1, 8), 1.25, np.float16)
    program(y, x, np.float32(0.75), np.float16(2.5), arch=arch, backend="emulator")
    want = []
    for name in names:
        exact = FUNCTIONS[name][0]
        want.append(sum(float(exact(np.array([v]))[0]) for v in (0.75, 2.5, 1.25)))
    want.append(0.75**2.5 + 0.75**2 + math.atan2(0.75, 1) + math.atan2(1, 0.75))
    np.testing.assert_allclose(y, np.repeat(want, 8).reshape(-1, 8), rtol=2e-6)


@pytest.mark.parametrize("name", ["sin", "pow", "exact.log", "fast.cos", "lgamma"])
def test_what_is_refused(name):
    @cute.kernel
    def program(X):
        x = cute.local_tile(X, (8, 8), (0, 0)).load()
        function_of(name)(*[x] * (2 if name == "pow" else 1))

    for dtype in (np.float64, np.int32):
        with pytest.raises(CompileError, match=r"of at most 32 bits, got .*\.to\(cute\.f32\)"):
            program(np.zeros((8, 8), dtype), backend="emulator", arch="sm_80")
