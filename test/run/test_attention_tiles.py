"""Tiles of attention that follow each other in one CTA."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import emulated

BF16 = ml_dtypes.bfloat16


@pytest.mark.long
@pytest.mark.parametrize("masks", [{"causal": True}, {"window": (130, 0)}])
def test_tiles_with_nan_behind_others_and_before(masks, monkeypatch):
    """Some tiles of a CTA take the slow way, on what was written to be stored by those before."""
    monkeypatch.setattr(emulated, "SM_COUNT", 1)
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((1, 1, 700, 64)).astype(BF16) for _ in range(3))
    v[0, 0, 260] = np.nan
    v[0, 0, 699, 3] = np.inf
    options = {"arch": "sm_90a", "backend": "emulator", **masks}
    schedule = "tile = (128,64), scheduler = dynamic, split_loads = yes"
    got = cute.attention(q, k, v, schedule=schedule, **options)[0, 0].astype(np.float32)
    clean = np.nan_to_num(v.astype(np.float32), posinf=0).astype(BF16)
    expected = cute.attention(q, k, clean, **options)[0, 0].astype(np.float32)
    last = 391 if "window" in masks else 700
    assert np.isnan(got[260:last]).all()
    assert not np.isfinite(got[699, 3])
    fine = [row for row in range(699) if not 260 <= row < last]
    assert np.abs(got[fine] - expected[fine]).max() < 0.02
