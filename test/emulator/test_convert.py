"""cvt against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

INTEGERS = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def limits(type: str) -> tuple[int, int]:
    bits = int(type[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if type[0] == "s" else (0, (1 << bits) - 1)


def dtype(type: str) -> np.dtype:
    return np.dtype(f"{'i' if type[0] == 's' else 'u'}{int(type[1:]) // 8}")


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", INTEGERS)
def test_integer_to_integer(elementwise, source, target):
    low, high = limits(source)
    rng = np.random.default_rng(3)
    values = [low, high, 0, 1, high // 2, low // 2, 127, 100]
    values += [int(rng.integers(low, high, endpoint=True, dtype=dtype(source))) for _ in range(40)]
    a = np.array([v if low <= v <= high else 0 for v in values], dtype(source))
    wide = np.dtype(f"{'i' if target[0] == 's' else 'u'}{max(2, int(target[1:]) // 8)}")
    least, most = limits(target)
    sat = ".sat" if low < least or high > most else ""
    plain, clamped = elementwise(
        f"cvt.{target}.{source} %d0, %a0; cvt{sat}.{target}.{source} %d1, %a0;", [a], [wide] * 2
    )
    for x, p, c in zip(a.tolist(), plain.tolist(), clamped.tolist(), strict=True):
        wrapped = (x - least) % (most - least + 1) + least
        assert p == wrapped
        assert c == min(max(x, least), most)


@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
@pytest.mark.parametrize("target", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
def test_float_to_integer(elementwise, source, target):
    pool = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 3.7, -3.7, 100.25, 254.5, 255.5, -128.5, 65504.0,
            -65504.0, math.inf, -math.inf]  # fmt: skip
    if source != "f16":
        pool += [3e9, -3e9, 2.0**31, 2.0**32, -(2.0**31), 1e10, 2.0**63, -(2.0**63), 2.0**64, 1e30]
    a = np.array(pool, FLOATS[source])
    wide = np.dtype(f"{'i' if target[0] == 's' else 'u'}{max(2, int(target[1:]) // 8)}")
    modes = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
    body = "".join(f"cvt.{m}.{target}.{source} %d{i}, %a0;" for i, m in enumerate(modes))
    outs = elementwise(body, [a], [wide] * 4)
    low, high = limits(target)
    for found, mode in zip(outs, modes.values(), strict=True):
        for x, got in zip(a.astype(np.float64).tolist(), found.tolist(), strict=True):
            want = (high if x > 0 else low) if math.isinf(x) else min(max(mode(x), low), high)
            assert got == want, (x, got, want)


def test_nan_to_integer(elementwise):
    a32, a64 = np.full(32, np.nan, np.float32), np.full(32, np.nan)
    s32, u64, d32 = elementwise(
        "cvt.rzi.s32.f32 %d0, %a0; cvt.rzi.u64.f32 %d1, %a0; cvt.rzi.s32.f64 %d2, %a1;",
        [a32, a64], [np.uint32, np.uint64, np.uint32],
    )  # fmt: skip
    assert (s32[0], u64[0], d32[0]) == (0, 1 << 63, 1 << 31)


@pytest.mark.parametrize("source", ["u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_integer_to_float(elementwise, source, mode):
    low, high = limits(source)
    rng = np.random.default_rng(5)
    values = [low, high, 0, 1, (1 << 24) + 1, (1 << 25) + 2, high - 1, high // 3]
    values += [int(rng.integers(low, high, dtype=dtype(source))) >> int(rng.integers(0, 30))
               for _ in range(60)]  # fmt: skip
    a = np.array(values, dtype(source))
    single, double = elementwise(
        f"cvt.{mode}.f32.{source} %d0, %a0; cvt.{mode}.f64.{source} %d1, %a0;",
        [a], [np.float32, np.float64],
    )  # fmt: skip
    for x, f, d in zip(a.tolist(), single, double, strict=True):
        for found, type in ((f, np.float32), (d, np.float64)):
            check_rounded(Fraction(x), found, type, mode)


def check_rounded(exact: Fraction, found: float, type: type, mode: str) -> None:
    """``found`` is the number next to ``exact`` that the mode asks for."""
    value = Fraction(float(found))
    up = Fraction(float(np.nextafter(type(found), type(np.inf))))
    down = Fraction(float(np.nextafter(type(found), type(-np.inf))))
    if mode == "rn":
        assert abs(value - exact) <= min(abs(up - exact), abs(down - exact))
    elif mode == "rm" or (mode == "rz" and exact > 0):
        assert value <= exact < up
    elif mode == "rp" or (mode == "rz" and exact < 0):
        assert down < exact <= value
    else:
        assert value == exact


@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_narrowing_floats(elementwise, mode, rng):
    a = np.concatenate([
        rng.standard_normal(200) * 10.0 ** rng.integers(-9, 6, 200),
        [0.0, -0.0, 65504.0, 65519.0, 65520.0, 1e-8, 6e-8, 2.0**-25, np.inf, -np.inf, 1e38],
    ]).astype(np.float32)  # fmt: skip
    half, brain = elementwise(
        f"cvt.{mode}.f16.f32 %d0, %a0; cvt.{mode}.bf16.f32 %d1, %a0;", [a], [np.uint16] * 2
    )
    if mode == "rn":
        with np.errstate(over="ignore"):
            assert (half == a.astype(np.float16).view(np.uint16)).all()
        assert (brain == a.astype(ml_dtypes.bfloat16).view(np.uint16)).all()
    else:
        finite = np.isfinite(a)
        assert (brain[finite] == (a.view(np.uint32) >> 16).astype(np.uint16)[finite]).all()
        got = half.view(np.float16).astype(np.float64)[finite]
        assert (np.abs(got) <= np.abs(a[finite])).all()
        assert (np.abs(got) >= np.minimum(np.abs(a[finite]) * (1 - 2.0**-10) - 6e-8, 65504)).all()
    (back,) = elementwise("cvt.f32.f16 %d0, %a0;", [half], [np.float32])
    assert (back == half.view(np.float16).astype(np.float32)).all()


def test_double_to_single_and_integral(elementwise, rng):
    a = rng.standard_normal(100) * 10.0 ** rng.integers(-40, 38, 100)
    single, integral, floor = elementwise(
        "cvt.rn.f32.f64 %d0, %a0; cvt.rni.f64.f64 %d1, %a0; cvt.rmi.f64.f64 %d2, %a0;",
        [a], [np.float32, np.float64, np.float64],
    )  # fmt: skip
    assert (single == a.astype(np.float32)).all()
    assert (integral == np.rint(a)).all()
    assert (floor == np.floor(a)).all()


def test_packed_halves(elementwise, rng):
    a, b = (rng.standard_normal(100).astype(np.float32) * 100 for _ in range(2))
    f16, bf16, relu = elementwise(
        "cvt.rn.f16x2.f32 %d0, %a0, %a1; cvt.rn.bf16x2.f32 %d1, %a0, %a1;"
        "cvt.rn.relu.f16x2.f32 %d2, %a0, %a1;",
        [a, b], [np.uint32] * 3,
    )  # fmt: skip

    def bits(x: np.ndarray, type: type) -> np.ndarray:
        return x.astype(type).view(np.uint16).astype(np.uint32)

    assert (f16 == bits(a, np.float16) << 16 | bits(b, np.float16)).all()
    assert (bf16 == bits(a, ml_dtypes.bfloat16) << 16 | bits(b, ml_dtypes.bfloat16)).all()
    za, zb = np.maximum(a, 0), np.maximum(b, 0)
    assert (relu == bits(za, np.float16) << 16 | bits(zb, np.float16)).all()


def test_tf32_rounds_away(elementwise, rng):
    raw = rng.integers(0x30000000, 0x50000000, 200, dtype=np.uint32)
    raw[:3] = [0x3F801000, 0x3F800FFF, 0xBF801000]
    nearest, truncated = elementwise(
        "cvt.rna.tf32.f32 %d0, %a0; cvt.rz.tf32.f32 %d1, %a0;", [raw], [np.uint32] * 2
    )
    assert (nearest == (raw + 0x1000) & 0xFFFFE000).all()
    assert (truncated == raw & 0xFFFFE000).all()


@pytest.mark.parametrize("type", ["e4m3", "e5m2"])
def test_fp8(elementwise, type, rng):
    number = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[type]
    largest = {"e4m3": 448.0, "e5m2": 57344.0}[type]
    a = (rng.standard_normal(300) * 10.0 ** rng.integers(-6, 6, 300)).astype(np.float32)
    a[:6] = [np.inf, -np.inf, 1e30, 0.0, -0.0, largest]
    b = a[::-1].copy()
    (d,) = elementwise(f"cvt.rn.satfinite.{type}x2.f32 %d0, %a0, %a1;", [a, b], [np.uint16])

    def bits(x: np.ndarray) -> np.ndarray:
        return np.clip(x, -largest, largest).astype(number).view(np.uint8).astype(np.uint16)

    assert (d == bits(a) << 8 | bits(b)).all()
    (back,) = elementwise(f"cvt.rn.f16x2.{type}x2 %d0, %a0;", [d], [np.uint32])
    low = (d & 0xFF).astype(np.uint8).view(number).astype(np.float16).view(np.uint16)
    assert (back & 0xFFFF == low).all()


def test_pack_saturates(elementwise):
    a = np.array([40000, -40000, 5, -5], np.int32)
    b = np.array([1, 2, 70000, -70000], np.int32)
    s, u = elementwise(
        "cvt.pack.sat.s16.s32 %d0, %a0, %a1; cvt.pack.sat.u8.s32.b32 %d1, %a0, %a1, 0xabcd;",
        [a, b], [np.uint32] * 2,
    )  # fmt: skip
    sa, sb = (
        np.clip(x, -32768, 32767).astype(np.int16).view(np.uint16).astype(np.uint32) for x in (a, b)
    )
    assert (s == sa << 16 | sb).all()
    ua, ub = (np.clip(x, 0, 255).astype(np.uint32) for x in (a, b))
    assert (u == 0xABCD0000 | ua << 8 | ub).all()
