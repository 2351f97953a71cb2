"""Exact arithmetic and rounding. f32, f16 and bf16 results are formed in f64 with the lost part
folded into the last bit (round to odd), so that the one rounding that follows is the right one in
any mode.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from .lanes import Array, anywhere, everywhere, where

NAN32 = np.array([0x7FFFFFFF], np.uint32).view(np.float32)[0]
NAN16 = np.uint16(0x7FFF)
_SPLIT = 134217729.0  # 2**27 + 1, Veltkamp


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """``(s, e)`` with s = fl(a + b) and a + b = s + e exactly (barring overflow)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """``(p, e)`` with p = fl(a * b) and a * b = p + e exactly, for exponents of moderate size."""
    p = a * b
    t = _SPLIT * a
    ah = t - (t - a)
    t = _SPLIT * b
    bh = t - (t - b)
    al, bl = a - ah, b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def to_odd(s: Array, e: Array) -> Array:
    """s + e rounded to odd: inexact results get an odd last bit, so that no later rounding is
    fooled.
    """
    bits = s.view(np.int64)
    inexact = (e != 0) & np.isfinite(s) & (bits & 1 == 0)
    if not anywhere(inexact):
        return s
    away = where(e > 0, s >= 0, s <= 0) & inexact
    away &= s != 0
    step = where(away, 1, -1)
    out = where(inexact & (s != 0), bits + step, bits)
    return out.view(np.float64)


def add_exactly(a: Array, b: Array) -> Array:
    """a + b of f64 numbers, rounded to odd."""
    s, e = two_sum(a, b)
    return to_odd(s, where(np.isfinite(e), e, 0.0))


def to_f32(x: Array, mode: str) -> Array:
    """f64 to f32 with rounding mode rn, rz, rm or rp."""
    y = x.astype(np.float32)
    if mode == "rn":
        return y
    return _direct(x, y, y.astype(np.float64), mode)


def _direct(x: Array, y: Array, back: Array, mode: str) -> Array:
    zero, up, down = y.dtype.type(0), y.dtype.type(np.inf), y.dtype.type(-np.inf)
    if mode == "rz":
        wrong, toward = np.abs(back) > np.abs(x), zero
    elif mode == "rm":
        wrong, toward = back > x, down
    else:
        wrong, toward = back < x, up
    return where(wrong, np.nextafter(y, toward), y)


def fma_f32(a: Array, b: Array, c: Array, mode: str) -> Array:
    """a * b + c of f32 arrays with one rounding."""
    p = a.astype(np.float64) * b.astype(np.float64)
    c = c.astype(np.float64)
    s = p + c
    if mode == "rn":
        low = s.view(np.int64) & 0x1FFFFFFF
        if not anywhere((low == 0x10000000) | (np.abs(s) < 1.2e-38)):
            return s.astype(np.float32)
    exact = add_exactly(p, c)
    if mode == "rm":
        exact = where((exact == 0) & (np.signbit(p) | np.signbit(c)), -0.0, exact)
    return to_f32(exact, mode)


def quantize(x: Array, precision: int, least: int, mode: str) -> Array:
    """f64 numbers rounded to ``precision`` significant bits, with 2**least the smallest normal
    number (below it the spacing stays). Modes rn, rna, rz, rm, rp. No upper limit.
    """
    _, exponent = np.frexp(x)
    exponent = np.maximum(exponent - 1, least) - (precision - 1)
    exponent = where(np.isfinite(x), exponent, 0)
    scaled = np.ldexp(x, -exponent)
    if mode == "rn":
        rounded = np.rint(scaled)
    elif mode == "rna":
        rounded = np.trunc(scaled + np.copysign(0.5, scaled))
    else:
        rounded = {"rz": np.trunc, "rm": np.floor, "rp": np.ceil}[mode](scaled)
    return np.copysign(np.ldexp(rounded, exponent), x)


_FORMATS: dict[str, tuple[int, int, float]] = {
    "f16": (11, -14, 65504.0),
    "bf16": (8, -126, float.fromhex("0x1.fep127")),
    "tf32": (11, -126, float.fromhex("0x1.ffcp127")),
    "f32": (24, -126, float.fromhex("0x1.fffffep127")),
    "e4m3": (4, -6, 448.0),
    "e5m2": (3, -14, 57344.0),
    "e2m3": (4, 0, 7.5),
    "e3m2": (3, -2, 28.0),
    "e2m1": (2, 0, 6.0),
}


def narrow(x: Array, format: str, mode: str, saturate: bool = False) -> Array:
    """f64 numbers to the values (still f64) of a narrow format. Beyond the largest number the
    result is infinity, or the largest number where the mode or ``saturate`` says so.
    """
    precision, least, largest = _FORMATS[format]
    y = quantize(x, precision, least, mode)
    big = np.abs(y) > largest
    if anywhere(big):
        limit = np.copysign(largest, x)
        if saturate:
            y = where(big, limit, y)
        else:
            stays = {"rn": False, "rna": False, "rz": True, "rm": x > 0, "rp": x < 0}[mode]
            y = where(big, where(stays & np.isfinite(x), limit, np.copysign(np.inf, x)), y)
    return y


def fma_f64(a: Array, b: Array, c: Array, mode: str = "rn") -> Array:
    """a * b + c of f64 arrays with one rounding (Boldo and Melquiond; exact fractions at the
    extremes).
    """
    a, b, c = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        p, q = two_product(a, b)
        t, u = two_sum(c, q)
        v, w = two_sum(p, t)
        z = to_odd(*two_sum(u, w))
        r, rest = two_sum(v, z)
        plain = a * b + c
        r = where((r == 0) & (z == 0), plain, r)
        fine = np.isfinite(r) & (np.abs(p) > 1e-250) & (np.abs(p) < 1e290)
        fine &= (np.abs(a) < 1e290) & (np.abs(b) < 1e290) & (np.abs(c) < 1e290)
        fine &= (np.abs(r) > 1e-250) | (r == 0)
        fine |= ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(c)
        r = where(np.isfinite(a) & np.isfinite(b) & np.isfinite(c), r, plain)
    if mode != "rn":
        up, down = np.nextafter(r, np.inf), np.nextafter(r, -np.inf)
        if mode == "rz":
            r = where((rest != 0) & (np.sign(rest) != np.sign(r)) & (r != 0),
                         where(r > 0, down, up), r)  # fmt: skip
        elif mode == "rm":
            r = where(rest < 0, down, r)
            r = where((r == 0) & (rest == 0) & (np.signbit(p) | np.signbit(c)), -0.0, r)
        else:
            r = where(rest > 0, up, r)
    if not everywhere(fine):
        r = np.array(r)
        for i in np.argwhere(~fine):
            at = tuple(i)
            r[at] = _fma_fraction(float(a[at]), float(b[at]), float(c[at]), mode)
    return _signed_zero(r, a, b, c, mode)


def _signed_zero(r: Array, a: Array, b: Array, c: Array, mode: str) -> Array:
    """An exact zero sum of opposite signs is -0 toward minus infinity, else +0."""
    zero = (r == 0) & ((a == 0) | (b == 0)) & (c == 0)
    if anywhere(zero):
        product_sign = np.signbit(a) ^ np.signbit(b)
        both = product_sign & np.signbit(c)
        mixed = product_sign ^ np.signbit(c)
        sign = both | (mixed & (mode == "rm"))
        r = where(zero, where(sign, -0.0, 0.0), r)
    return r


def _fma_fraction(a: float, b: float, c: float, mode: str) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        if mode == "rm" and a * b != 0:
            return -0.0
        return a * b + c
    return round_fraction(exact, mode)


def round_fraction(exact: Fraction, mode: str) -> float:
    """A non-zero fraction to f64 in the given mode."""
    try:
        nearest = float(exact)
    except OverflowError:
        nearest = float("inf") if exact > 0 else float("-inf")
    if mode == "rn":
        return nearest
    infinite = nearest in (float("inf"), float("-inf"))
    over = (infinite and exact > 0) or (not infinite and Fraction(nearest) > exact)
    under = (infinite and exact < 0) or (not infinite and Fraction(nearest) < exact)
    if over and (mode == "rm" or (mode == "rz" and exact > 0)):
        return float(np.nextafter(nearest, -np.inf))
    if under and (mode == "rp" or (mode == "rz" and exact < 0)):
        return float(np.nextafter(nearest, np.inf))
    return nearest


def add_f64(a: Array, b: Array, mode: str) -> Array:
    return a + b if mode == "rn" else fma_f64(a, np.ones(1), b, mode)


def divide_f64(a: Array, b: Array, mode: str) -> Array:
    q = a / b
    if mode == "rn":
        return q
    a, b, q = (np.array(x) for x in np.broadcast_arrays(a, b, q))
    for i in np.flatnonzero(np.isfinite(a) & np.isfinite(b) & (a != 0) & (b != 0)):
        q[i] = round_fraction(Fraction(float(a[i])) / Fraction(float(b[i])), mode)
    return q


def sqrt_f64(a: Array, mode: str) -> Array:
    s = np.sqrt(a)
    if mode == "rn":
        return s
    up, down = np.nextafter(s, np.inf), np.nextafter(s, -np.inf)
    out = np.array(s)
    for i in np.flatnonzero(np.isfinite(s) & (s > 0)):
        square, exact = Fraction(float(s[i])) ** 2, Fraction(float(a[i]))
        if square > exact and mode in ("rz", "rm"):
            out[i] = down[i]
        elif square < exact and mode == "rp":
            out[i] = up[i]
    return out
