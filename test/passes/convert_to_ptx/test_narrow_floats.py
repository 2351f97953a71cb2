"""Floats of 4 to 16 bits: constants against ml_dtypes, and what older targets take."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from cutedialect.passes.lower.narrow_floats import FORMATS, decode, encode

TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}


@pytest.mark.parametrize("name", TYPES)
def test_bits_of_constants(name) -> None:
    width = FORMATS[name].bits
    bits = np.arange(0, 1 << width, 1 if width <= 8 else 7).astype(f"u{-(-width // 8)}")
    for pattern, value in zip(bits.tolist(), bits.view(TYPES[name]).tolist(), strict=True):
        got = decode(pattern, name)
        assert got == value or (math.isnan(got) and math.isnan(value))
        if math.isfinite(value):
            assert encode(value, name) == pattern


@pytest.mark.parametrize("name", TYPES)
def test_constants_are_rounded(name) -> None:
    """To the nearest number, ties to even; beyond all numbers 8 bits saturate, 16 do not."""
    rng = np.random.default_rng(5)
    values = np.ldexp(rng.standard_normal(500), rng.integers(-24, 9, 500)).astype(np.float32)
    width = FORMATS[name].bits
    largest = float(ml_dtypes.finfo(TYPES[name]).max)
    clipped = np.clip(values, -largest, largest).astype(TYPES[name]).view(f"u{-(-width // 8)}")
    assert [encode(value, name) for value in values.tolist()] == clipped.tolist()
    beyond = decode(encode(1e300, name), name)
    assert beyond == (largest if width <= 8 else math.inf)


def test_powers_as_constants() -> None:
    """ue8m0: every power of two is itself, and what lies between two becomes the larger one."""
    for power in range(255):
        value = decode(power, "ue8m0")
        assert value == math.ldexp(1.0, power - 127)
        assert encode(value, "ue8m0") == power
        assert encode(value * 1.001, "ue8m0") == min(power + 1, 254)
    assert [encode(value, "ue8m0") for value in (0.0, 1e-45, math.inf, -3.0)] == [0, 0, 254, 129]
    assert encode(math.nan, "ue8m0") == 255
    assert math.isnan(decode(255, "ue8m0"))


def test_f64_constants_beyond_f32(run_kernel) -> None:
    tile = '!cute.memref<f32, gmem, align<4>, "(1):(1)">'
    regs = '!cute.fragment<f32, "(1)", "(1,1):(1,0)">'
    text = f"""
cute.kernel @k(%a: {tile}) attributes {{threads = 32 : i32}} {{
  %x = cute.load %a : {tile} -> {regs}
  %y = cute.map (%v = %x : {regs}) -> {regs} {{
    %c = arith.constant 1.0e300 : f64
    %d = arith.truncf %c : f64 to f32
    %e = arith.addf %d, %v : f32
    cute.yield %e : f32
  }}
  cute.copy %y, %a : {regs} -> {tile}
}}"""
    given = np.ones(1, np.float32)
    run_kernel(text, 1, [given], 32)
    assert given[0] == math.inf


BYTES = "f8E4M3FN"


def mapped(result: str, body: str) -> str:
    """A kernel that maps 128 bytes to elements of another type."""
    source, target = (
        f'!cute.memref<{each}, gmem, align<16>, "(128):(1)">' for each in (BYTES, result)
    )
    given, made = (f'!cute.fragment<{each}, "(128)", "(32,4):(4,1)">' for each in (BYTES, result))
    return f"""
cute.kernel @k(%a: {source}, %b: {target}) attributes {{threads = 32 : i32}} {{
  %x = cute.load %a : {source} -> {given}
  %y = cute.map (%v = %x : {given}) -> {made} {{
    {body}
  }}
  cute.copy %y, %b : {made} -> {target}
}}"""


def test_bytes_on_older_targets(compile_ptx) -> None:
    """sm_80 reads 8-bit floats by their bits, and rounds to them without `cvt`."""
    read = f"%i = arith.fptosi %v : {BYTES} to i32\n    cute.yield %i : i32"
    text = compile_ptx(mapped("i32", read), "sm_80")
    assert "cvt.rzi.s32.f32" in text
    assert "e4m3x2" not in text
    added = f"%w = arith.addf %v, %v : {BYTES}\n    cute.yield %w : {BYTES}"
    assert "e4m3" not in compile_ptx(mapped(BYTES, added), "sm_80")
