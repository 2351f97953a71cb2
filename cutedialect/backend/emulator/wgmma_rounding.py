"""How wgmma adds floating-point products on an H100 and H200, found by experiment and equal to the
hardware bit for bit. All products of one instruction and the accumulator are cut, toward zero, to a
grid of ``2**(e - f)``, where e is the largest exponent among them (of a product: the sum of its
factors' exponents) and f is 25, or 13 for 8-bit floats; the sum is exact, and is cut to 24 (14)
significant bits for an f32 accumulator, rounded to nearest for f16.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .lanes import Array, anywhere, everywhere, where
from .rounding import NAN16, NAN32

_ZERO = -4000  # the exponent of zero: below any other
_LEAST, _MOST = -100, 126  # exponents for which the grid and its inverse are normal f32 numbers


@dataclass(frozen=True)
class Unit:
    """``least`` are the exponents of the smallest normal numbers of A and B: subnormal factors
    count as of these. ``fraction`` is f above.
    """

    fraction: int
    least: tuple[int, int]

    @property
    def kept(self) -> int:
        """Significant bits of an f32 result."""
        return min(self.fraction + 1, 24)


def unit(a: str, b: str) -> Unit:
    """The way to add products of types ``a`` and ``b``."""
    least = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14}
    return Unit(13 if a in ("e4m3", "e5m2") else 25, (least[a], least[b]))


def whole(numbers: Array) -> float:
    """The largest magnitude of integers; infinity if there is another number among them."""
    largest = float(np.abs(numbers).max())
    if largest > 1e9 or not everywhere(np.rint(numbers) == numbers):
        return np.inf
    return largest


def add_products(a: Array, b: Array, c: Array, how: Unit) -> Array:
    """``c [g, m, n]`` (f32 or f16) plus ``a [g, m, k]`` times ``b [g, n, k]`` transposed (both
    f64), as the hardware has it before the last rounding; f64."""
    if everywhere(np.isfinite(a)) and everywhere(np.isfinite(b)) and everywhere(np.isfinite(c)):
        return _add_finite(a, b, c, how)
    plain = np.matmul(a, np.swapaxes(b, 1, 2)) + c
    a, b, c = (where(np.isfinite(x), x, 0) for x in (a, b, c))
    return where(np.isfinite(plain), _add_finite(a, b, c, how), plain)


def _add_finite(a: Array, b: Array, c: Array, how: Unit) -> Array:
    # K first, so that the innermost loops below run over neighbors.
    a = np.ascontiguousarray(a.transpose(2, 0, 1))[..., None]
    b = np.ascontiguousarray(b.transpose(2, 0, 1))[:, :, None]
    left, right = _exponents(a, how.least[0]), _exponents(b, how.least[1])
    start = c.astype(np.float32)
    # Subnormal numbers get -127 here: the grid is finer than they are in any case.
    highest = (start.view(np.int32) >> 23 & 255).astype(np.int16) - np.int16(127)
    highest[start == 0] = _ZERO
    either = np.empty_like(highest)
    for x, y in zip(left, right, strict=True):
        np.add(x, y, out=either)
        np.maximum(highest, either, out=highest)
    real = highest > _ZERO // 2
    wide = ((highest > _MOST) | (highest < _LEAST)) & real
    fraction = how.fraction
    if anywhere(wide):
        grid = where(real, highest, 0).astype(np.int32) - fraction
        total = np.trunc(np.ldexp(start.astype(np.float64), -grid))
        for x, y in zip(a, b, strict=True):
            total += np.trunc(np.ldexp(x * y, -grid))
        return np.ldexp(total, grid)
    exponent = where(real, highest, 0).astype(np.int32)
    scale = (127 + fraction - exponent << 23).view(np.float32)
    inverse = (127 - fraction + exponent << 23).view(np.float32)
    # Exact in f32: the cut start has no more bits than the start.
    total = np.trunc(start * scale).astype(np.float64)
    factors = list(zip(a.astype(np.float32), b.astype(np.float32), strict=True))
    product = np.empty(total.shape, np.float32)
    cut = np.empty(total.shape, np.int32)
    # A cut product is below 2**(fraction + 2): eight of them fit 32 bits.
    for first in range(0, len(factors), 8):
        some = np.zeros(total.shape, np.int32)
        for x, y in factors[first : first + 8]:
            np.multiply(x, y, out=product)
            np.multiply(product, scale, out=product)
            np.copyto(cut, product, casting="unsafe")
            np.add(some, cut, out=some)
        total += some
    total *= inverse
    return total


def _exponents(numbers: Array, least: int) -> Array:
    exponent = np.frexp(numbers)[1] - 1
    return where(numbers == 0, _ZERO, np.maximum(exponent, least)).astype(np.int16)


def round_sum(total: Array, d: str, how: Unit) -> Array:
    """Sums (f64, overwritten) to the accumulator's type; NaN to the hardware's NaN, -0 to 0."""
    if d == "f16":
        half = total.astype(np.float16)
        half[half == 0] = 0
        wrong = np.isnan(half)
        if anywhere(wrong):
            half.view(np.uint16)[wrong] = NAN16
        return half
    bits = total.view(np.uint64)
    bits &= np.uint64((1 << 64) - (1 << (53 - how.kept)))
    value = total.astype(np.float32)
    value += np.float32(0)
    wrong = np.isnan(value)
    if anywhere(wrong):
        value[wrong] = NAN32
    return value
