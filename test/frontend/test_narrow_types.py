"""Floats of 8, 6 and 4 bits and scales: conversions on every target against ml_dtypes and against
the definition of `cvt`, in the emulator and the interpreter.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

FLOATS = (cute.e4m3, cute.e5m2, cute.e2m3, cute.e3m2, cute.e2m1)
TARGETS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")
SHAPE = (8, 128)


@cute.kernel
def there_and_back(X, Y, Z, *, tile=(4, 64)):
    at = cute.tile_index(X, tile)
    narrow = cute.local_tile(X, tile, at).load().to(Y.dtype)
    cute.copy(narrow, cute.local_tile(Y, tile, at))
    cute.copy(narrow.to(cute.f32), cute.local_tile(Z, tile, at))


@cute.kernel
def scale_there_and_back(X, Y, Z, *, tile=(4, 64)):
    at = cute.tile_index(X, tile)
    narrow = cute.local_tile(X, tile, at).load().to(cute.ue4m3)
    cute.copy(narrow, cute.local_tile(Y, tile, at))
    cute.copy(narrow.to(cute.f32), cute.local_tile(Z, tile, at))


def drawn() -> Any:
    """Numbers of all sizes, ties, both zeros, the ends of every format, powers and their heirs."""
    rng = np.random.default_rng(35)
    exponents = rng.integers(-12, 12, SHAPE)
    x = np.ldexp(rng.standard_normal(SHAPE), exponents).astype(np.float32)
    x[1, :100] = (np.arange(100) - 50) * 0.125
    x[2, :100] = (np.arange(100) - 50) * 2.0**-10
    x[3] = 2.0 ** rng.integers(-127, 127, SHAPE[1])
    x[4] = x[3] * np.float32(1.0000001)
    x[0, :10] = [0, -0.0, np.inf, -np.inf, 448, 464, 465, 1e-40, 2.0**-127, 3e38]
    return x


def converted(program: Any, x: Any, dtype: Any, arch: str, backend: str = "emulator") -> Any:
    y, z = np.zeros(x.shape, dtype.numpy), np.zeros_like(x)
    program(x, y, z, arch=arch, backend=backend)
    return y.view(np.uint8), z


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda each: each.name)
def test_floats_are_rounded_alike_everywhere(dtype: Any, arch: str) -> None:
    x = drawn()
    largest = float(ml_dtypes.finfo(dtype.numpy).max)
    expected = np.clip(x, -largest, largest).astype(dtype.numpy)
    bits, back = converted(there_and_back, x, dtype, arch)
    assert np.array_equal(bits, expected.view(np.uint8))
    assert np.array_equal(back, expected.astype(np.float32))
    simulated, again = converted(there_and_back, x, dtype, arch, "interpreter")
    assert np.array_equal(bits, simulated)
    assert np.array_equal(back, again)


@pytest.mark.parametrize("arch", TARGETS)
def test_scales_are_powers_no_smaller(arch: str) -> None:
    x = drawn()
    bits, back = converted(there_and_back, x, cute.ue8m0, arch)
    size = np.minimum(np.abs(x).astype(np.float64), 2.0**127)
    assert (back >= size).all()
    assert ((back / 2 < size) | (bits == 0)).all()
    assert np.array_equal(np.log2(back.astype(np.float64)), bits.astype(np.float64) - 127)
    simulated, again = converted(there_and_back, x, cute.ue8m0, arch, "interpreter")
    assert np.array_equal(bits, simulated)
    assert np.array_equal(back, again)


@pytest.mark.parametrize("arch", TARGETS)
def test_what_is_no_number(arch: str) -> None:
    """NaN stays where there is one, or is the largest number, whatever its sign."""
    x = np.full(SHAPE, np.nan, np.float32)
    x[::2] = -x[::2]
    assert np.signbit(x[0]).all()
    codes = {"e4m3": 0x7F, "e5m2": 0x7F, "e2m3": 0x1F, "e3m2": 0x1F, "e2m1": 0x07, "ue8m0": 0xFF}
    for dtype in (*FLOATS, cute.ue8m0):
        bits, back = converted(there_and_back, x, dtype, arch)
        assert (bits == codes[dtype.name]).all(), dtype
        assert np.isnan(back).all() == (dtype.name in ("e4m3", "e5m2", "ue8m0"))


def test_scales_of_e4m3_have_no_sign() -> None:
    x = drawn()
    bits, back = converted(scale_there_and_back, x, cute.e4m3, "sm_90a")
    expected = np.clip(np.where(x > 0, x, 0), 0, 448).astype(ml_dtypes.float8_e4m3fn)
    assert np.array_equal(bits, expected.view(np.uint8))
    assert np.array_equal(back, expected.astype(np.float32))


@pytest.mark.parametrize("dtype", [cute.ue8m0, cute.ue4m3], ids=lambda each: each.name)
def test_negative_scales_are_refused(dtype: Any) -> None:
    @cute.kernel
    def filled(Y):
        cute.copy(cute.full((4, 64), -1.0, dtype), cute.local_tile(Y, (4, 64), (0, 0)))

    with pytest.raises(cute.CompileError, match="expected a number that is not negative"):
        filled(np.zeros((4, 64), dtype.numpy), backend="emulator")
