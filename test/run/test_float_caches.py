"""Attention of few rows over caches of e4m3: warps convert what they load where they multiply."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

FEW_ROWS = "tile = (16,128), warps = (1,4), roles = uniform, epilogue = direct, ctas = 2"


def specs(rows, dims):
    q = cute.TensorSpec((32, 32, rows, dims), "bf16")
    keys = cute.TensorSpec((32, 8, 8192, dims), "e4m3")
    return q, keys, keys


@pytest.mark.parametrize("modes", [2, 3])
def test_scales_of_heads_and_of_keys(modes):
    rng = np.random.default_rng(modes)
    q = rng.standard_normal((1, 8, 1, 128)).astype(ml_dtypes.bfloat16)
    k, v = (rng.standard_normal((1, 2, 200, 128)).astype(ml_dtypes.float8_e4m3fn) for _ in "kv")
    scales = [rng.uniform(0.5, 2, (1, 2, 200)[:modes]).astype(np.float32) for _ in "kv"]
    got = cute.attention(
        q, k, v, scale_k=scales[0], scale_v=scales[1], schedule=FEW_ROWS, arch="sm_90a",
        backend="emulator",
    )  # fmt: skip
    wide = [
        np.repeat(x.astype(float) * s.reshape(*s.shape, *(4 - modes) * (1,)), 4, 1)
        for x, s in zip((k, v), scales, strict=True)
    ]
    scores = q.astype(float) @ wide[0].transpose(0, 1, 3, 2) / 128**0.5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    exact = weights / weights.sum(-1, keepdims=True) @ wide[1]
    assert np.abs(got.astype(float) - exact).max() < 6e-3 * np.abs(exact).max()


def test_few_rows_copy_bytes_as_they_are_in_memory():
    """No byte goes through registers on its way to shared memory, and none is converted twice."""
    kernel = cute.compile(cute.attention, *specs(1, 128), arch="sm_90a")
    assert "warps = (1,4)" in kernel.schedule
    assert "ld.global.b8" not in kernel.ptx
    assert "cp.async.ca" in kernel.ptx or "cp.async.cg" in kernel.ptx
    assert kernel.ptx.count("cvt.rn.f16x2.e4m3x2") <= 2 * 128
