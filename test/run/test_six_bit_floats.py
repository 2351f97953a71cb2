"""Products of floats of 6 bits, a byte each: by `mma.sync` with kind::f8f6f4 on sm_120a and its
family, beside each other and beside floats of 8 bits; refused elsewhere with what is as good.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

TYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
}
PAIRS = [(a, b) for a in TYPES for b in TYPES if {a, b} & {"e3m2", "e2m3"}]


def operands(a, b, shape=(70, 90, 100)):
    draw, (m, n, k) = np.random.default_rng(0), shape
    return (
        draw.integers(-3, 4, (m, k)).astype(TYPES[a]),
        draw.integers(-3, 4, (n, k)).astype(TYPES[b]),
    )


@pytest.mark.some(4)
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_products(a, b):
    left, right = operands(a, b)
    got = cute.gemm(left, right.T, arch="sm_120a", backend="emulator", out_dtype="f32")
    assert np.array_equal(got, left.astype(np.float32) @ right.astype(np.float32).T)


@pytest.mark.some(2)
@pytest.mark.parametrize("majors", ["FC", "CF", "FF"])
def test_operands_across_the_depth(majors):
    left, right = operands("e2m3", "e3m2", (128, 96, 64))
    given = np.array(left, order=majors[0]), np.array(right, order=majors[1]).T
    got = cute.gemm(*given, arch="sm_120a", backend="emulator", out_dtype="f32")
    assert np.array_equal(got, left.astype(np.float32) @ right.astype(np.float32).T)
    assert cute.gemm(*given, arch="sm_120a", backend="emulator").dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_103a", "sm_120"])
def test_other_targets_say_what_is_as_good(arch):
    left, right = operands("e4m3", "e2m3")
    with pytest.raises(
        ValueError, match=f"b: expected e4m3 on {arch}, which has all numbers of e2"
    ):
        cute.gemm(left, right.T, arch=arch, backend="emulator")
    with pytest.raises(ValueError, match="on sm_80 "):
        cute.gemm(left, right.T, arch="sm_80", backend="emulator")


def test_e4m3_has_all_of_their_numbers():
    for name in ("e3m2", "e2m3"):
        numbers = np.arange(64, dtype=np.uint8).view(TYPES[name]).astype(np.float32)
        assert np.array_equal(numbers.astype(TYPES["e4m3"]).astype(np.float32), numbers)


@pytest.mark.parametrize("format", ["mxfp6_e2m3", "mxfp6_e3m2"])
def test_e4m3_takes_their_scales_elsewhere(format):
    """What is named on sm_100a gives the product of sm_120a, bit by bit."""
    x = np.random.default_rng(0).integers(-50, 50, (128, 128)).astype(np.float32)
    elements, scales = cute.quantize(x, format, swizzled=True, backend="emulator")
    found: list[np.ndarray] = []
    for arch, held in (("sm_120a", elements), ("sm_100a", elements.astype(TYPES["e4m3"]))):
        given: dict[str, Any] = {"arch": arch, "backend": "emulator", "out_dtype": "f32"}
        found.append(cute.gemm(held, held.T, scale_a=scales, scale_b=scales, **given))
    assert np.array_equal(found[0], found[1])


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_120a", "sm_120f", "sm_121a"])
def test_assembly(arch, assembles):
    a, b = cute.TensorSpec((512, 512), "e2m3"), cute.TensorSpec((512, 512), "e3m2", (1, 512))
    kernel = cute.compile(cute.gemm, a, b, arch=arch, backend="emulator")
    name = "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m3.e3m2.f32 "
    assert kernel.ptx.count(name) == 2 * 4 * 8
    assert assembles(kernel.ptx, arch)
