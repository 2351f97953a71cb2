"""`cute.any` of 16-bit floats that are not within -2 and 2: one bit of all registers together."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
ROWS, WIDTH = 64, 128


def compiled(dtype, arch, limit=2.0):
    @cute.kernel
    def program(x, y):
        tile = cute.local_tile(x, (ROWS, WIDTH), (0, 0)).load()
        found = cute.zeros((ROWS,))
        with cute.when(cute.any(~(cute.abs(tile) < limit))):
            found.assign(1.0)
        cute.copy(found, cute.local_tile(y, (ROWS,), (0,)))

    specs = cute.TensorSpec((ROWS, WIDTH), dtype), cute.TensorSpec((ROWS,), "f32")
    return cute.compile(program, *specs, arch=arch, backend="emulator")


def drawn(rng, dtype):
    """Elements within the limits, as close to them as can be now and then."""
    below = np.nextafter(TYPES[dtype](2), TYPES[dtype](0))
    x = rng.uniform(-2, 2, (ROWS, WIDTH)).astype(TYPES[dtype])
    x[np.abs(x) >= 2] = below
    return np.where(rng.random(x.shape) < 0.1, np.copysign(below, x), x).astype(TYPES[dtype])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", TYPES)
def test_one_large_element_is_found(dtype, arch):
    rng, kernel = np.random.default_rng(3), compiled(dtype, arch)
    for large in (None, 2.0, -2.0, 3e4, -np.inf, np.nan):
        x, y = drawn(rng, dtype), np.full(ROWS, np.nan, np.float32)
        if large is not None:
            x[rng.integers(ROWS), rng.integers(WIDTH)] = large
        kernel.launch(x, y)
        np.testing.assert_array_equal(y, np.full(ROWS, float(large is not None)))


@pytest.mark.parametrize("dtype", TYPES)
def test_no_element_is_looked_at_alone(dtype):
    one, other = (compiled(dtype, "sm_90a", limit).ptx for limit in (2.0, 3.0))
    assert "abs.f" not in one
    # Of another limit there is no such bit.
    assert other.count("setp") >= one.count("setp") + 31
