"""Exponentials that are polynomials in part (`polynomials` of a schedule): their errors, what they
give beyond the range of a float, which of them are meant, and which programs take them by default.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect import ScheduleError
from cutedialect.atoms import usual_device
from cutedialect.choosing.attention_problem import AttentionProblem
from cutedialect.choosing.attention_space import ATTENTION
from cutedialect.choosing.choose import choose
from cutedialect.frontend.elementwise import rough_exp2
from cutedialect.passes.bind.exponential_shares import is_polynomial, period
from cutedialect.schedule import SHARES

BF16 = ml_dtypes.bfloat16
# By degree, the relative errors that docs/schedules.md states.
ERRORS = {3: 2**-13.2, 4: 2**-18.4, 5: 2**-22.4}
WIDTH = 512


@cute.kernel
def powers(X, Y, *, function, width=WIDTH):
    i = cute.tile_index(X, (width,))
    x = cute.local_tile(X, (width,), (i,)).load()
    cute.copy(function(x).to(Y.dtype), cute.local_tile(Y, (width,), (i,)))


def computed(x, polynomials, function=cute.exp2, dtype=np.float32, arch="sm_80"):
    """Two to the power of x, where a thread has 16 values."""
    x = x.astype(dtype)
    out = np.zeros_like(x)
    schedule = f"polynomials = {polynomials}, warps = (1,1)"
    powers(x, out, function=function, arch=arch, schedule=schedule, backend="emulator")
    return out.astype(np.float64)


def drawn(low, high, seed, count=4 * WIDTH):
    return np.random.default_rng(seed).uniform(low, high, count).astype(np.float32)


@pytest.mark.parametrize("degree", ERRORS)
def test_errors_are_those_of_the_fit(degree):
    x = np.concatenate([drawn(-125.9, 127.4, degree), drawn(-1, 1, degree + 8)])
    wanted = 2.0 ** x.astype(np.float64)
    found = np.abs(computed(x, (16, degree)) / wanted - 1)
    assert found.max() <= ERRORS[degree]
    assert degree == 5 or found.max() > ERRORS[degree] / 1.3


@pytest.mark.parametrize("share", [1, 4, 6, 11, 16])
def test_a_share_of_the_values_of_a_thread(share):
    """Errors of the lowest degree tell which they are: none of the others is off by as much."""
    x = np.full(4 * WIDTH, 0.21, np.float32)
    is_off = np.abs(computed(x, (share, 3)) / 2**0.21 - 1) > 2**-16
    assert is_off.mean() == share / 16
    chosen = [is_polynomial(share, value) for value in range(16)]
    assert sum(chosen) == share
    assert all(chosen[v] == chosen[v % period(share)] for v in range(16))


@pytest.mark.some(2)
@pytest.mark.parametrize("arch", ["sm_75", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("share", [16, 4])
def test_beyond_the_range_of_floats(share, arch):
    exact = {0: 1, 1: 2, -3: 0.125, -126: 2**-126, 127: 2**127, 128: np.inf, 1e30: np.inf}
    exact |= {np.inf: np.inf, -np.inf: 0, -1e30: 0, -151: 0, np.nan: np.nan}
    for x, wanted in exact.items():
        got = computed(np.full(WIDTH, x, np.float32), (share, 3), arch=arch)
        np.testing.assert_array_equal(got, np.full(WIDTH, wanted, np.float64), str(x))
    small = drawn(-151, -126, 3)
    assert np.abs(computed(small, (share, 3), arch=arch) - 2.0**small).max() < 2**-126
    # All but the last half of a power of two.
    assert np.isfinite(computed(drawn(127, 127.49, 4), (share, 3), arch=arch)).all()


def test_pairs_are_as_exact_as_one_by_one():
    x = drawn(-125, 126, 9)
    for share in (16, 11, 4):
        one, two = (computed(x, (share, 3), arch=arch) for arch in ("sm_90a", "sm_100a"))
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(("dtype", "degree"), [(np.float16, 4), (BF16, 3)])
def test_e_to_the_power_of_x_in_16_bits(dtype, degree):
    x = drawn(-8, 8, 5).astype(dtype)
    got = computed(x, (16, degree), cute.exp, dtype)
    wanted = np.exp(x.astype(np.float64))
    unit = float(ml_dtypes.finfo(dtype).eps)
    assert np.abs(got / wanted - 1).max() <= unit / 2 + ERRORS[degree] + 1e-6


def attended(q, k, v):
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True)


@pytest.mark.some(1)
@pytest.mark.parametrize("maxima", ["exact", "lazy", "guessed"])
@pytest.mark.parametrize(("dtype", "degree"), [(np.float16, 4), (BF16, 3)])
def test_attention_is_as_accurate(dtype, degree, maxima):
    rng = np.random.default_rng(7)
    q, k, v = (rng.standard_normal((1, 1, n, 64)).astype(dtype) for n in (64, 150, 150))
    q *= dtype(3)
    # What no row sees is hidden, whatever the exponentials make of it.
    k[:, :, 130:], v[:, :, 130:] = np.nan, np.nan
    wanted = attended(q, k[:, :, :130], v[:, :, :130])
    lengths = np.array([130], np.int32)
    errors = []
    for share in (0, 4):
        schedule = f"tile = (64,64), maxima = {maxima}, polynomials = ({share},{degree})"
        options = {"schedule": schedule, "arch": "sm_90a", "backend": "emulator"}
        out = cute.attention(q, k, v, lengths=lengths, **options)
        errors.append(np.abs(out.astype(np.float64) - wanted))
    assert errors[1].max() <= 1.2 * errors[0].max()
    assert errors[1].mean() <= 1.05 * errors[0].mean()


def test_nan_stays():
    q, k, v = (np.ones((1, 1, 64, 64), np.float16) for _ in range(3))
    q[:, :, 5] = np.nan
    schedule = "tile = (64,64), polynomials = (16,3), maxima = exact"
    out = cute.attention(q, k, v, schedule=schedule, arch="sm_90a", backend="emulator")
    assert np.isnan(out[0, 0, 5]).all()
    assert np.isfinite(np.delete(out[0, 0], 5, 0)).all()


@cute.kernel
def weights(X, Y, scale, *, width=WIDTH):
    """Powers of what a multiply and an add give, as attention's are."""
    i = cute.tile_index(X, (width,))
    x = cute.local_tile(X, (width,), (i,)).load()
    y = rough_exp2(x * scale - 1.0)
    cute.copy(y.to(Y.dtype), cute.local_tile(Y, (width,), (i,)))


@pytest.mark.parametrize(("degree", "most"), [(3, 2**-13.1), (4, 2**-15.8)])
def test_an_instruction_clamps_exponents_by_itself(degree, most):
    """Below the range of floats there is 0, a NaN gives 0 in a pair of polynomials alone."""
    x = np.concatenate([drawn(-130, 30, degree), [-np.inf, -1e30, 0, np.nan] * (WIDTH // 4)])
    out = np.zeros_like(x := x.astype(np.float32))
    options = {"arch": "sm_100a", "backend": "emulator"}
    schedule = f"polynomials = (16,{degree}), warps = (1,1)"
    weights(x, out, 0.75, schedule=schedule, **options)
    ptx = cute.compile(weights, x, out, 0.75, schedule=schedule, **options).ptx
    assert "fma.rn.sat.f32" in ptx
    assert "max" not in ptx
    wanted = 2.0 ** (x.astype(np.float64) * 0.75 - 1)
    finite = np.isfinite(x) & (wanted >= 2.0**-126)
    assert np.abs(out[finite] / wanted[finite] - 1).max() <= most
    assert (out[x < -180] == 0).all()
    assert (out[np.isnan(x)] == 0).all()


def test_rows_without_numbers_and_without_keys():
    """An infinite score and a NaN make their row a NaN where half of the exponentials would lose
    it; a row that sees no key is 0.
    """
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((1, 1, n, 64)).astype(BF16) for n in (256, 100, 100))
    q[..., 0], k[..., 0] = 0, 0
    q[0, 0, 180, 3], q[0, 0, 200, 0], k[0, 0, 30:34, 0] = np.nan, 2.0**100, 2.0**90
    schedule = "tile = (256,64), roles = split, polynomials = (8,3)"
    options = {"arch": "sm_100a", "backend": "emulator", "schedule": schedule}
    out = np.asarray(cute.attention(q, k, v, causal=True, **options)).astype(np.float32)[0, 0]
    assert np.isnan(out[180]).all()
    assert np.isnan(out[200]).all()
    assert (out[:156] == 0).all()
    assert np.isfinite(np.delete(out, (180, 200), 0)).all()


# (target, head dimensions, bits, whether f16, whether with logarithms): share and degree, or None
DEFAULTS = [
    (("sm_100a", 64, 16, False, False), (4, 3)),
    (("sm_100f", 128, 16, True, False), (4, 4)),
    (("sm_100a", 128, 16, True, True), (4, 5)),
    (("sm_100a", 256, 16, False, False), None),
    (("sm_100a", 256, 8, False, False), (4, 3)),
    (("sm_103a", 64, 16, False, False), None),
    (("sm_90a", 64, 16, False, False), None),
]


@pytest.mark.parametrize(("case", "wanted"), DEFAULTS)
def test_defaults_follow_the_rates_of_units(case, wanted):
    arch, dim, bits, is_f16, returns_lse = case
    problem = AttentionProblem(
        (dim, dim), bits_q=bits, is_f16=is_f16, returns_lse=returns_lse, arch=arch
    )
    assert choose(ATTENTION, problem).polynomials == wanted


# Exponentials and results of other instructions of a multiprocessor in a cycle, by CUDA's table of
# throughputs; the exponentials of a tile wait for its scores, so that their unit is idle now and
# then. Instructions for a score beside its exponential: scale and subtract, find the largest, add
# up, round (two at once), and a part of what rows and tiles take. Of a polynomial beside its
# degree: two for the range, three to round, two for the power of two, less the exponential's own.
EXPONENTIALS, ISSUE, BUSY, BESIDE_SCORE, BESIDE_DEGREE = 16, 128, 0.75, 5.5, 6


@pytest.mark.parametrize("facts", [{}, {"is_f16": True}, {"returns_lse": True}], ids=str)
def test_shares_take_the_fewest_cycles(facts):
    """The fewest with which neither unit takes longer than it has to."""
    for depth in range(16, 257, 16):
        for columns in range(16, 257, 16):
            problem = AttentionProblem((depth, columns), arch="sm_100a", **facts)
            degree = 5 if problem.returns_lse else 4 if problem.is_f16 else 3
            tensor = (depth + columns) / usual_device("sm_100a").multiplies

            def cycles(share, tensor=tensor, degree=degree):
                part = share / SHARES
                special = (1 - part) / EXPONENTIALS / BUSY
                others = (BESIDE_SCORE + part * (degree + BESIDE_DEGREE)) / ISSUE
                return max(tensor, special, others)

            share = min(range(0, SHARES + 1, 2), key=cycles)
            wanted = (share, degree) if share else None
            assert choose(ATTENTION, problem).polynomials == wanted


def test_what_is_marked():
    """Exponentials of scores, not those of rows' own numbers; none where a schedule says so."""
    q = np.zeros((1, 1, 256, 64), BF16)
    kernel = cute.compile(cute.attention, q, q, q, arch="sm_100a")
    assert cute.Schedule.parse(kernel.schedule).polynomials == (4, 3)
    text = kernel.stages["cute-partition"]
    marked = [line for line in text.splitlines() if "polynomials = array" in line]
    exponentials = [line for line in text.splitlines() if "math.exp2" in line]
    assert 0 < len(marked) < len(exponentials)
    off = cute.compile(cute.attention, q, q, q, arch="sm_100a", schedule="polynomials = (0,3)")
    assert "{polynomials = array" not in off.stages["cute-partition"]


def test_a_wrong_schedule_is_told():
    for text in ("(17,3)", "(4,2)", "4", "(4,3,1)"):
        with pytest.raises(
            ScheduleError, match=r"expected polynomials to be \(share, degree\), of"
        ):
            cute.Schedule.parse(f"polynomials = {text}")
