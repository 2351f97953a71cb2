"""Attention on sm_100a in blocks of 128 keys, which two roles compute and a third corrects."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

BF16 = ml_dtypes.bfloat16
LONG = "tile = (256,128), roles = split"
GIVEN: Any = {"arch": "sm_100a", "backend": "emulator"}


def attended(q, k, v, causal):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    rows, keys = s.shape[-2:]
    seen = np.arange(keys) <= np.arange(rows)[:, None] + keys - rows
    p = np.exp(np.where(seen | (not causal), s, -np.inf))
    p /= p.sum(-1, keepdims=True)
    return np.einsum("bhrk,bhkd->bhrd", p, np.nan_to_num(v))


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("rows", "keys", "broken"),
    [(130, 257, False), (24, 24, True),
     *(pytest.param(*rows, False, marks=pytest.mark.long) for rows in ((300, 300), (256, 128)))],
)  # fmt: skip
def test_causal_rows_see_what_they_may(rows, keys, broken):
    """A key of NaN in V hides no row in front of it: these take the slow way, key by key."""
    rng = np.random.default_rng(rows)
    d = 16 if broken else 64
    q, k, v = (rng.standard_normal((1, 1, n, d)).astype(BF16) for n in (rows, keys, keys))
    if broken:
        v[0, 0, -3] = np.nan
    found = cute.attention(q, k, v, causal=True, schedule=f"{LONG}, scheduler = cancel", **GIVEN)
    first = rows - 3 if broken else rows
    error = np.abs(found.astype(np.float64) - attended(q, k, v, causal=True))[:, :, :first]
    assert np.nanmax(error) < 0.02
    assert not np.isnan(error[:, :, max(0, rows - keys) :]).any()
    if broken:
        assert np.isnan(found[:, :, first:]).all()


@pytest.mark.parametrize(
    ("depth", "masks", "keys"),
    [(128, {"causal": True}, 128), (192, {"causal": True}, 64), (160, {"causal": True}, 64),
     (32, {}, 128),
     *(pytest.param(depth, {"causal": True, **masks}, keys, marks=pytest.mark.long)
       for depth, masks, keys in (
           (64, {}, 128), (80, {}, 64), (96, {}, 64), (64, {"softcap": 20.0}, 64)))],
)  # fmt: skip
def test_rows_do_not_spill(depth, masks: Any, keys, spills_of):
    q = cute.TensorSpec((1, 16, 8192, depth), "f16")
    kernel = cute.compile(cute.attention, q, q, q, arch="sm_100a", **masks)
    assert cute.Schedule.parse(kernel.schedule).tile == (256, keys)
    assert spills_of(kernel) == 0


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("masks", "group", "keys", "chosen"),
    [({}, 1, 4096, 80), ({"causal": True}, 1, 4096, 80), ({"causal": True}, 4, 4096, 64),
     ({}, 1, 1024, 64), ({"window": (300, 0)}, 1, 4096, 64)],
)  # fmt: skip
def test_wide_heads_have_longer_blocks_where_two_stages_fit(masks: Any, group, keys, chosen):
    q = cute.TensorSpec((1, 16, keys, 256), "bf16")
    k = cute.TensorSpec((1, 16 // group, keys, 256), "bf16")
    kernel = cute.compile(
        cute.attention, q, k, k, arch="sm_100a", schedule="cluster = (1,1)", **masks
    )
    schedule = cute.Schedule.parse(kernel.schedule)
    assert (schedule.tile, schedule.stages) == ((128, chosen), 2)


@pytest.mark.some(2)
@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("dims", "rows", "keys"), [((256, 256), 128, (96, 96)), ((192, 128), 256, (128, 96))]
)
def test_pairs_have_longer_blocks_of_wide_heads(dims, rows, keys, causal, group, spills_of):
    q = cute.TensorSpec((1, 16, 4096, dims[0]), "bf16")
    k, v = (cute.TensorSpec((1, 16 // group, 4096, each), "bf16") for each in dims)
    kernel = cute.compile(cute.attention, q, k, v, causal=causal, arch="sm_100a")
    schedule = cute.Schedule.parse(kernel.schedule)
    assert (schedule.tile, schedule.cluster) == ((rows, keys[causal]), (2, 1))
    assert schedule.stages == (2 if keys[causal] == 128 else 3)
    assert "tcgen05.mma.cta_group::2" in kernel.ptx
    assert "tcgen05.mma.cta_group::1" not in kernel.ptx
    assert spills_of(kernel) == 0


@pytest.mark.parametrize("causal", [True, pytest.param(False, marks=pytest.mark.long)])
def test_wide_heads_of_longer_blocks(causal):
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((1, 1, n, 256)).astype(BF16) for n in (130, 170, 170))
    schedule = "tile = (128,80), roles = corrected, epilogue = direct"
    found = cute.attention(q, k, v, causal=causal, schedule=schedule, **GIVEN)
    assert np.abs(found.astype(np.float64) - attended(q, k, v, causal)).max() < 0.02


@pytest.mark.parametrize(
    ("tile", "stages"), [("(256,128)", 2), pytest.param("(256,64)", 3, marks=pytest.mark.long)]
)
def test_results_have_one_stage_where_keys_lack_one(tile, stages):
    """Of 128 columns: Q takes 64 KB, two stages of K and V 128, and two of a result 32."""
    q = cute.TensorSpec((1, 16, 4096, 128), "bf16")
    schedule = f"tile = {tile}, roles = split"
    kernel = cute.compile(cute.attention, q, q, q, causal=True, arch="sm_100a", schedule=schedule)
    assert cute.Schedule.parse(kernel.schedule).stages == stages
    text = kernel.stages["cute-schedule-loops"]
    assert ("one_stage" in text) is (tile == "(256,128)")
    assert not any("ahead" in remark.message for remark in kernel.remarks)


def test_what_a_rare_branch_needs_is_computed_there():
    """Its addresses, in front of the loop over keys, would take registers that scores need. The
    role that is told of it has the branch behind what it receives.
    """
    q = cute.TensorSpec((1, 16, 4096, 128), "bf16")
    kernel = cute.compile(cute.attention, q, q, q, causal=True, arch="sm_100a")
    lines = kernel.ptx.splitlines()
    raised = [at for at, line in enumerate(lines) if "setmaxnreg.inc" in line]
    exponential = next(at for at in range(raised[0], len(lines)) if "ex2.approx" in lines[at])
    assert not any("cute.load" in line for line in lines[raised[0] : exponential])
    assert any("cute.load" in line for line in lines[exponential : raised[1]])
