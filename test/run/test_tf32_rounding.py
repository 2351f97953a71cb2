"""f32 operands are rounded to tf32, not cut off: by TMA on sm_90a, in registers on sm_80."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute


def rounded(values: np.ndarray) -> np.ndarray:
    """To nearest, ten bits of fraction."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    bits = bits + np.uint32(0xFFF) + (bits >> 13 & 1)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_error_is_that_of_rounded_operands(arch):
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal((128, 320)).astype(np.float32) for _ in range(2))
    exact = a.astype(np.float64) @ b.T.astype(np.float64)
    same_precision = np.abs(rounded(a) @ rounded(b).T - exact)
    error = np.abs(cute.gemm(a, b.T, arch=arch, backend="emulator") - exact)
    assert error.max() <= 1.2 * same_precision.max()
    assert error.mean() <= 1.05 * same_precision.mean(), "operands cut off have twice the error"


def test_precision_says_how_f32_is_multiplied():
    a = np.ones((16, 16), np.float32)
    options = {"arch": "sm_80", "backend": "emulator"}
    assert (cute.gemm(a, a, precision="tf32", **options) == 16).all()
    assert cute.compile(cute.gemm, a, a, precision="tf32", **options).name == "gemm"
    for precision, reason in (
        ("ieee", "got 'ieee'; tensor cores multiply no f32"),
        ("tf33", "got 'tf33'"),
        (32, "got 32"),
    ):
        for call in (cute.gemm, lambda *args, **more: cute.compile(cute.gemm, *args, **more)):
            with pytest.raises(
                ValueError, match=f"precision: expected None, 'tf32' or '3xtf32', {reason}"
            ):
                call(a, a, precision=precision, **options)
    half = a.astype(np.float16)
    with pytest.raises(ValueError, match="precision: expected None with operands of f16"):
        cute.gemm(half, half, precision="tf32", **options)
