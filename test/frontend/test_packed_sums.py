"""Sums of 16-bit floats that begin in their own type: `row_sum` with `packed`."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
ROWS, WIDTH = 64, 128


def compiled(packed, dtype, arch):
    @cute.kernel
    def sums(x, y):
        tile = cute.local_tile(x, (ROWS, WIDTH), (0, 0)).load()
        cute.copy(cute.row_sum(tile, packed=packed), cute.local_tile(y, (ROWS,), (0,)))

    specs = cute.TensorSpec((ROWS, WIDTH), dtype), cute.TensorSpec((ROWS,), "f32")
    return cute.compile(sums, *specs, arch=arch, backend="emulator")


def summed(x, packed, dtype, arch):
    y = np.full((ROWS,), np.nan, np.float32)
    compiled(packed, dtype, arch).launch(x, y)
    return y.astype(np.float64)


@pytest.mark.some(10)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("packed", [1, 2, 3, 8, 1000])
def test_sums_are_of_f32(packed, dtype, arch):
    rng = np.random.default_rng(packed)
    small = rng.integers(-2, 3, (ROWS, WIDTH)).astype(TYPES[dtype])
    np.testing.assert_array_equal(
        summed(small, packed, dtype, arch), small.astype(np.float64).sum(1)
    )
    x = rng.uniform(0.5, 1, (ROWS, WIDTH)).astype(TYPES[dtype])
    exact = x.astype(np.float64).sum(1)
    error = np.abs(summed(x, packed, dtype, arch) - exact) / exact
    assert error.max() <= (2e-7 if packed == 1 else float(ml_dtypes.finfo(TYPES[dtype]).eps))


def test_targets_with_packed_adds_take_fewer_instructions():
    for dtype, first in (("f16", "sm_80"), ("bf16", "sm_90a")):
        text = compiled(4, dtype, first).ptx
        assert f"add.rn.{dtype}x2" in text
        assert text.count("add.f32") < compiled(1, dtype, first).ptx.count("add.f32")
    assert "add.rn.bf16x2" not in compiled(4, "bf16", "sm_80").ptx


@pytest.mark.parametrize(
    ("packed", "dtype", "message"),
    [
        (4, "f32", "expected a tile of f16 or bf16 with packed, got f32"),
        (0, "bf16", "expected packed to be 1 or more, got 0"),
    ],
)
def test_other_sums_are_not_packed(packed, dtype, message):
    with pytest.raises(cute.CompileError, match=message):
        compiled(packed, dtype, "sm_90a")
