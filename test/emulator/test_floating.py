"""Floating-point arithmetic against exact fractions, rounded here in every mode."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

# precision, smallest exponent, largest exponent
FORMATS = {
    "f16": (11, -14, 15),
    "bf16": (8, -126, 127),
    "f32": (24, -126, 127),
    "f64": (53, -1022, 1023),
}
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
MODES = ["rn", "rz", "rm", "rp"]


def round_exact(value: Fraction, format: str, mode: str) -> float:
    """The nearest number of the format in the mode, by integer arithmetic; zero gives +0."""
    precision, low, high = FORMATS[format]
    if value == 0:
        return 0.0
    sign, value = (-1 if value < 0 else 1), abs(value)
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if Fraction(2) ** exponent > value:
        exponent -= 1
    ulp = Fraction(2) ** (max(exponent, low) - precision + 1)
    whole, rest = divmod(value, ulp)
    up = {
        "rn": rest * 2 > ulp or (rest * 2 == ulp and whole % 2 == 1),
        "rz": False, "rm": sign < 0 and rest > 0, "rp": sign > 0 and rest > 0,
    }[mode]  # fmt: skip
    result = (whole + up) * ulp
    if result >= Fraction(2) ** (high + 1):
        stays = mode == "rz" or (mode == "rm" and sign > 0) or (mode == "rp" and sign < 0)
        if not stays:
            return sign * math.inf
        result = (Fraction(2) - Fraction(2) ** (1 - precision)) * Fraction(2) ** high
    return sign * float(result)


def samples(format: str, seed: int, count: int = 120) -> np.ndarray:
    """Finite numbers of wildly and of closely differing size, subnormals and zeros among them."""
    rng = np.random.default_rng(seed)
    precision, low, high = FORMATS[format]
    near = np.ldexp(rng.uniform(1, 2, count), rng.integers(-6, 7, count))
    far = np.ldexp(rng.uniform(1, 2, count), rng.integers(low - precision, high + 1, count))
    values = np.where(rng.random(count) < 0.6, near, far) * rng.choice([-1, 1], count)
    values[:4] = [0.0, 1.0, -1.0, float(np.ldexp(1.0, low))]
    return rng.permutation(values.astype(np.float32).astype(DTYPES[format])
                           if format != "f64" else values)  # fmt: skip


def same(found: np.ndarray, expected: list[float], what: str) -> None:
    got = found.astype(np.float64)
    want = np.array(expected)
    wrong = ~((got == want) | (np.isnan(got) & np.isnan(want)))
    assert not wrong.any(), (what, np.flatnonzero(wrong)[:4], got[wrong][:4], want[wrong][:4])


@pytest.mark.parametrize("ftz", ["", ".ftz"])
@pytest.mark.parametrize("mode", MODES)
def test_a_pair_is_two_of_f32(elementwise, mode, ftz):
    """Subnormals, infinities and NaN among them: PTX gives either half what one number has."""
    a, b, c = (samples("f32", s) for s in (1, 2, 3))
    a[:6] = [np.nan, np.inf, np.inf, 1e-42, -1e-40, 3e38]
    b[:6] = [1.0, -np.inf, 0.0, 2e-42, 1e-40, 3e38]
    types = [np.uint64] * 4
    code = [
        f"add.{mode}{ftz}.{{0}} %d0, %a0, %a1;",
        f"sub.{mode}{ftz}.{{0}} %d1, %a0, %a1;",
        f"mul.{mode}{ftz}.{{0}} %d2, %a0, %a1;",
        f"fma.{mode}{ftz}.{{0}} %d3, %a0, %a1, %a2;",
    ]
    one = elementwise(" ".join(code).format("f32"), [a, b, c], [np.float32] * 4)
    wide = [np.ascontiguousarray(each).view(np.uint64) for each in (a, b, c)]
    two = elementwise(" ".join(code).format("f32x2"), wide, types, "sm_100")
    for single, pair in zip(one, two, strict=True):
        np.testing.assert_array_equal(single.view(np.uint32), pair.view(np.uint32))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("type", ["f32", "f64"])
def test_add_mul_fma(elementwise, type, mode):
    a, b, c = (samples(type, s) for s in (1, 2, 3))
    a[5:40] = -b[5:40] * DTYPES[type](1 + 2.0**-10)
    c[40:80] = -(a[40:80].astype(np.float64) * b[40:80].astype(np.float64)).astype(DTYPES[type])
    with np.errstate(all="ignore"):
        finite = np.isfinite(c.astype(np.float64))
    c[~finite] = 1
    add, sub, mul, fma = elementwise(
        f"add.{mode}.{type} %d0, %a0, %a1; sub.{mode}.{type} %d1, %a0, %a1;"
        f"mul.{mode}.{type} %d2, %a0, %a1; fma.{mode}.{type} %d3, %a0, %a1, %a2;",
        [a, b, c], [DTYPES[type]] * 4,
    )  # fmt: skip
    fa, fb, fc = ([Fraction(float(x)) for x in v] for v in (a, b, c))
    same(add, [round_exact(x + y, type, mode) for x, y in zip(fa, fb, strict=True)], "add")
    same(sub, [round_exact(x - y, type, mode) for x, y in zip(fa, fb, strict=True)], "sub")
    same(mul, [round_exact(x * y, type, mode) for x, y in zip(fa, fb, strict=True)], "mul")
    exact = [x * y + z for x, y, z in zip(fa, fb, fc, strict=True)]
    same(fma, [round_exact(x, type, mode) for x in exact], "fma")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("type", ["f32", "f64"])
def test_div_sqrt_rcp(elementwise, type, mode):
    a, b = samples(type, 4), samples(type, 5)
    b[b == 0] = 3
    div, rcp, root = elementwise(
        f"div.{mode}.{type} %d0, %a0, %a1; rcp.{mode}.{type} %d1, %a1;"
        f"abs.{type} %d2, %a1; sqrt.{mode}.{type} %d2, %d2;",
        [a, b], [DTYPES[type]] * 3,
    )  # fmt: skip
    fa, fb = ([Fraction(float(x)) for x in v] for v in (a, b))
    same(div, [round_exact(x / y, type, mode) for x, y in zip(fa, fb, strict=True)], "div")
    same(rcp, [round_exact(1 / y, type, mode) for y in fb], "rcp")
    for x, y in zip(b, root, strict=True):
        exact, found = abs(Fraction(float(x))), Fraction(float(y))
        up = Fraction(float(np.nextafter(y, DTYPES[type](np.inf))))
        down = Fraction(float(np.nextafter(y, DTYPES[type](0))))
        if mode == "rn":
            assert ((found + down) / 2) ** 2 <= exact <= ((found + up) / 2) ** 2
        elif mode == "rp":
            assert down**2 < exact <= found**2
        else:
            assert found**2 <= exact < up**2


@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_half_arithmetic(elementwise, type):
    a, b, c = (samples(type, s) for s in (6, 7, 8))
    with np.errstate(over="ignore"):
        product = a[10:60].astype(np.float32) * b[10:60].astype(np.float32)
        c[10:60] = -product.astype(DTYPES[type])
    c[~np.isfinite(c.astype(np.float32))] = 0.5
    raw = [v.view(np.uint16) for v in (a, b, c)]
    pairs = [np.stack((v, v[::-1]), axis=1).view(np.uint32)[:, 0] for v in raw]
    add, mul, fma = elementwise(
        f"add.{type} %d0, %a0, %a1; mul.{type} %d1, %a0, %a1; fma.rn.{type} %d2, %a0, %a1, %a2;",
        raw, [np.uint16] * 3,
    )  # fmt: skip
    add2, fma2 = elementwise(
        f"add.{type}x2 %d0, %a0, %a1; fma.rn.{type}x2 %d1, %a0, %a1, %a2;", pairs, [np.uint32] * 2
    )
    fa, fb, fc = ([Fraction(float(x)) for x in v] for v in (a, b, c))
    numbers = [v.view(DTYPES[type]) for v in (add, mul, fma)]
    same(numbers[0], [round_exact(x + y, type, "rn") for x, y in zip(fa, fb, strict=True)], "add")
    same(numbers[1], [round_exact(x * y, type, "rn") for x, y in zip(fa, fb, strict=True)], "mul")
    exact = [x * y + z for x, y, z in zip(fa, fb, fc, strict=True)]
    same(numbers[2], [round_exact(x, type, "rn") for x in exact], "fma")
    for pair, single in ((add2, add), (fma2, fma)):
        assert (pair & 0xFFFF == single).all()
        assert (pair >> 16 == single[::-1]).all()


def bits32(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


def test_nan_is_canonical_and_minimum_rules(elementwise):
    nan, inf = 0x7FC12345, 0x7F800000
    a = bits32(nan, 0x3F800000, nan, 0x80000000, 0x00000000, inf, inf)
    b = bits32(0x3F800000, 0xFFC00001, nan, 0x00000000, 0x80000000, 0xFF800000, 0)
    add, low, high, low_nan, mul = elementwise(
        "add.f32 %d0, %a0, %a1; min.f32 %d1, %a0, %a1; max.f32 %d2, %a0, %a1;"
        "min.NaN.f32 %d3, %a0, %a1; mul.f32 %d4, %a0, %a1;",
        [a, b], [np.uint32] * 5,
    )  # fmt: skip
    canonical = 0x7FFFFFFF
    assert add[[0, 1, 2, 5]].tolist() == [canonical] * 4
    assert low.tolist() == [
        0x3F800000,
        0x3F800000,
        canonical,
        0x80000000,
        0x80000000,
        0xFF800000,
        0,
    ]
    assert high.tolist() == [0x3F800000, 0x3F800000, canonical, 0, 0, inf, inf]
    assert low_nan[:3].tolist() == [canonical] * 3
    assert mul[6] == canonical


def test_flush_to_zero_and_saturation(elementwise):
    tiny = struct.unpack("<f", struct.pack("<I", 0x00400000))[0]
    a = np.array([tiny, -tiny, 1.5, -2.0, 0.25, np.nan], np.float32)
    one = np.ones(6, np.float32)
    kept, flushed, clamped, signed = elementwise(
        "mul.f32 %d0, %a0, %a1; mul.ftz.f32 %d1, %a0, %a1; mul.sat.f32 %d2, %a0, %a1;"
        "neg.ftz.f32 %d3, %a0;",
        [a, one], [np.float32] * 4,
    )  # fmt: skip
    assert kept[:5].tolist() == a[:5].tolist()
    assert flushed[:2].tolist() == [0, 0]
    assert np.signbit(flushed[:2]).tolist() == [False, True]
    assert clamped[2:].tolist() == [1.0, 0.0, 0.25, 0.0]
    assert np.signbit(signed[:2]).tolist() == [True, False]


APPROXIMATE = {
    "ex2.approx.f32": (lambda x: 2.0**x, -20, 20),
    "lg2.approx.f32": (np.log2, 0.01, 1000),
    "sin.approx.f32": (np.sin, -3, 3),
    "cos.approx.f32": (np.cos, -3, 3),
    "tanh.approx.f32": (np.tanh, -4, 4),
    "rcp.approx.f32": (lambda x: 1 / x, 0.1, 50),
    "rsqrt.approx.f32": (lambda x: 1 / np.sqrt(x), 0.01, 1000),
    "sqrt.approx.f32": (np.sqrt, 0.01, 1000),
}


@pytest.mark.parametrize("op", sorted(APPROXIMATE))
def test_approximate_functions(elementwise, op, rng):
    function, low, high = APPROXIMATE[op]
    a = rng.uniform(low, high, 200).astype(np.float32)
    (d,) = elementwise(f"{op} %d0, %a0;", [a], [np.float32])
    exact = function(a.astype(np.float64))
    assert (np.abs(d - exact) <= 1e-7 * np.abs(exact) + 1e-30).all()


def test_tests_signs_and_selection(elementwise):
    a = np.array([0.0, -1.0, np.inf, np.nan, 1e-40, 5.0], np.float32)
    b = np.array([-2.0, 3.0, -1.0, 1.0, -0.0, -7.0], np.float32)
    names = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"]
    body = "".join(
        f"testp.{n}.f32 %p{i}, %a0; selp.b32 %d{i}, 1, 0, %p{i};" for i, n in enumerate(names)
    )
    outs = elementwise(body, [a], [np.uint32] * 6)
    expected = [
        np.isfinite(a), np.isinf(a), ~np.isnan(a), np.isnan(a),
        np.isfinite(a) & ((np.abs(a) >= 1.2e-38) | (a == 0)), (a != 0) & (np.abs(a) < 1.17e-38),
    ]  # fmt: skip
    for found, want in zip(outs, expected, strict=True):
        assert (found == want).all()
    (copied,) = elementwise("copysign.f32 %d0, %a1, %a0;", [a, b], [np.uint32])
    assert (copied == np.copysign(a, b).view(np.uint32)).all()
    (chosen,) = elementwise("slct.f32.f32 %d0, %a0, %a1, %a1;", [a, b], [np.uint32])
    assert (chosen == np.where(b >= 0, a, b).view(np.uint32)).all()


COMPARE = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y and x == x and y == y,
    "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y, "equ": lambda x, y: x == y or x != x or y != y,
    "neu": lambda x, y: x != y, "ltu": lambda x, y: not x >= y, "leu": lambda x, y: not x > y,
    "gtu": lambda x, y: not x <= y, "geu": lambda x, y: not x < y,
    "num": lambda x, y: x == x and y == y, "nan": lambda x, y: x != x or y != y,
}  # fmt: skip


@pytest.mark.parametrize("type", ["f16", "f32", "f64"])
def test_comparisons(elementwise, type):
    pool = [0.0, -0.0, 1.0, 2.5, -1.0, math.inf, -math.inf, math.nan]
    a = np.array([x for x in pool for _ in pool], DTYPES[type])
    b = np.array([y for _ in pool for y in pool], DTYPES[type])
    body = "".join(
        f"setp.{n}.{type} %p{i}, %a0, %a1; selp.b32 %d{i}, 1, 0, %p{i};"
        for i, n in enumerate(COMPARE)
    )
    outs = elementwise(body, [a, b], [np.uint32] * len(COMPARE))
    for found, (name, compare) in zip(outs, COMPARE.items(), strict=True):
        assert found.tolist() == [
            int(compare(float(x), float(y))) for x, y in zip(a, b, strict=True)
        ], name


def test_integer_comparisons_combine(elementwise):
    a = np.array([1, 5, -3, 7, 2**31 - 1, -(2**31)], np.int32)
    b = np.array([2, 5, 4, -7, -1, 1], np.int32)
    lt, lo, both, other, stored = elementwise(
        """setp.lt.s32 %p1, %a0, %a1; selp.b32 %d0, 1, 0, %p1;
        setp.lo.u32 %p2, %a0, %a1; selp.b32 %d1, 1, 0, %p2;
        setp.gt.and.s32 %p3|%p4, %a0, 0, !%p1; selp.b32 %d2, 1, 0, %p3; selp.b32 %d3, 1, 0, %p4;
        set.le.u32.s32 %d4, %a0, %a1;""",
        [a, b], [np.uint32] * 5,
    )  # fmt: skip
    assert (lt == (a < b)).all()
    assert (lo == (a.view(np.uint32) < b.view(np.uint32))).all()
    assert (both == ((a > 0) & ~(a < b))).all()
    assert (other == (~(a > 0) & ~(a < b))).all()
    assert (stored == np.where(a <= b, 0xFFFFFFFF, 0)).all()
