"""Attention on sm_100a by clusters, which share keys and values by multicast."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

BF16 = ml_dtypes.bfloat16


def attended(q, k, v, causal):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    rows, keys = s.shape[-2:]
    seen = np.arange(keys) <= np.arange(rows)[:, None] + keys - rows
    p = np.exp(np.where(seen | (not causal), s, -np.inf))
    return p @ v / p.sum(-1, keepdims=True)


@pytest.mark.some(1)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "plan",
    ["tile = (128,64), roles = corrected",
     pytest.param("tile = (256,64), roles = split", marks=pytest.mark.long)],
)  # fmt: skip
def test_a_cluster_has_more_tiles_than_rows(plan, causal):
    """Of three tiles the second cluster has one, and nothing of another."""
    rows = 520 if "split" in plan else 300
    rng = np.random.default_rng(rows)
    q, k, v = (rng.standard_normal((1, 1, n, 32)).astype(BF16) for n in (rows, rows, rows))
    given: Any = {"arch": "sm_100a", "backend": "emulator", "causal": causal}
    found = cute.attention(q, k, v, schedule=f"{plan}, cluster = (2,1)", **given)
    assert np.abs(found.astype(np.float64) - attended(q, k, v, causal)).max() < 0.02


@pytest.mark.some(2)
@pytest.mark.parametrize("depth", [64, 128, 256])
@pytest.mark.parametrize("causal", [False, True])
def test_results_are_stored_some_columns_at_a_time(depth, causal):
    """Behind the question whether there is a tile at all: whole rows do not fit in registers."""
    q = cute.TensorSpec((1, 16, 8192, depth), "bf16")
    kernel = cute.compile(
        cute.attention, q, q, q, causal=causal, arch="sm_100a", schedule="cluster = (2,1)"
    )
    assert "multicast" in kernel.ptx
    assert "roles = uniform" not in kernel.schedule
    assert kernel.resources.spills == 0
