"""Attention on sm_100a whose exponentials count from less than the largest score."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

BF16 = ml_dtypes.bfloat16


@pytest.mark.parametrize("growth", [4.015625, 1.00390625, 64.25])
def test_the_key_that_has_most_of_the_weight_is_not_rounded_alone(growth):
    """The last key's exponential counts from a smaller one of the block before. Rounded to 16 bits
    in what V is multiplied by, and not in the sum, it would be off by 2^-8 of the result.
    """
    q, k, v = (np.zeros((1, 1, n, 64), BF16) for n in (128, 129, 129))
    q[..., :2] = 1
    k[..., 0] = -40
    k[0, 0, 0, 0] = 0
    exponent = np.log2(growth)
    k[0, 0, -1, 0] = coarse = BF16(exponent)
    k[0, 0, -1, 1] = fine = BF16(exponent - float(coarse))
    v[0, 0, -1] = 1
    weight = 2.0 ** (float(coarse) + float(fine))
    schedule = "tile = (128,64), roles = corrected, maxima = lazy"
    found = cute.attention(
        q,
        k,
        v,
        scale=float(np.log(2)),
        schedule=schedule,
        out_dtype="f32",
        arch="sm_100a",
        backend="emulator",
    )
    expected = weight / (1 + weight)
    # Weights of at most a half may be rounded.
    assert np.abs(found - expected).max() <= 2.0**-9 * min(expected, 1 - expected) + 2.0**-16
