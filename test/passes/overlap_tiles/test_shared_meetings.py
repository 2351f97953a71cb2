"""Conditions that warps decide where they meet before their stores: in the passes' text and run."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import emulated

BF16 = ml_dtypes.bfloat16
STEPS = re.compile(
    r"wgmma_wait \{pending = \d|stsm<|fence_proxy_async|cute\.barrier|cute\.any(?=.*warps = 4)|"
    r"atom\.tma_store<|\} else \{"
)


def steps(choice="yes", depth=128, **options) -> list[str]:
    """What the computing role does behind the loop of a tile."""
    x = cute.TensorSpec((1, 2, None, depth), "bf16")
    schedule = f"overlap = yes, scheduler = dynamic, overlap_tiles = {choice}"
    kernel = cute.compile(
        cute.attention, x, x, x, arch="sm_90a", backend="emulator", schedule=schedule, **options
    )
    text = kernel.stages["cute-overlap-tiles"].split('pipeline.role "main"')[1]
    found = [match.group() for match in STEPS.finditer(text)]
    return found[found.index("wgmma_wait {pending = 1") + 1 :]


@pytest.mark.parametrize("depth", [64, 128])
def test_one_meeting_decides_and_precedes_the_stores(depth):
    found = steps(depth=depth, causal=True)
    decision = found.index("cute.any")
    assert found[decision - 1] == "fence_proxy_async"
    store = found.index("atom.tma_store<", decision)
    # The other side of the branch, with loops and meetings, comes before.
    otherwise = max(at for at in range(store) if found[at] == "} else {")
    assert otherwise > decision
    assert found[otherwise + 1 : store] == []


@pytest.mark.parametrize(("choice", "masks"), [("no", {"causal": True}), ("yes", {})])
def test_other_results_are_written_where_they_are_stored(choice, masks):
    found = steps(choice, **masks)
    store = len(found) - found[::-1].index("atom.tma_store<")
    written = len(found) - found[::-1].index("stsm<")
    assert "cute.any" not in found[written:store]
    assert "cute.barrier" in found[written:store]


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
    schedule = "tile = (128,64), scheduler = dynamic, split_loads = yes, overlap_tiles = yes"
    got = cute.attention(q, k, v, schedule=schedule, **options)[0, 0].astype(np.float32)
    clean = np.nan_to_num(v.astype(np.float32), posinf=0).astype(BF16)
    expected = cute.attention(q, k, clean, **options)[0, 0].astype(np.float32)
    last = 391 if "window" in masks else 700
    assert np.isnan(got[260:last]).all()
    assert not np.isfinite(got[699, 3])
    fine = [row for row in range(699) if not 260 <= row < last]
    assert np.abs(got[fine] - expected[fine]).max() < 0.02
