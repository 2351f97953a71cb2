"""What follows the last multiply of a tile and does not need its result stands before the wait for
it: both sides of the branch that decides whether there is a multiply hold it.
"""

from __future__ import annotations

import re
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator

MARKS = re.compile(
    r"rmem|\} else \{|scf\.if|divf|cute\.barrier|cute\.any|stsm|fence_proxy_async|local_tile %out|"
    r"cute_nvgpu\.(?:tma_store_wait|tma_store_commit|wgmma_wait \{pending = 0 : i32\} after)|"
    r"tma %tout"
)
WAIT, COMMIT = "cute_nvgpu.tma_store_wait", "cute_nvgpu.tma_store_commit"
MEETING = [WAIT, "cute.barrier", "divf"]
STORES = ["stsm", "stsm", "fence_proxy_async", "cute.barrier", "tma %tout", "tma %tout", COMMIT]


def marks(schedule="overlap = turns", **masks):
    specs = [cute.TensorSpec((2, 4, None, 128), cute.bf16)] * 3
    kernel = cute.compile(cute.attention, *specs, arch="sm_90a", schedule=schedule, **masks)
    text = (
        kernel.stages["cute-overlap-tiles"].split('pipeline.role "main"')[1].split("func.func")[0]
    )
    text = text[text.rindex("a = rmem") :]
    return [mark.group() for mark in MARKS.finditer(text)]


def test_both_sides_of_the_branch_meet_before_the_wait():
    found = marks()
    wait = "cute_nvgpu.wgmma_wait {pending = 0 : i32} after"
    branch = ["rmem", *MEETING, wait, "} else {", *MEETING]
    assert found == [*branch, "local_tile %out", *STORES, WAIT]


def test_stores_in_a_branch_meet_before_the_branch():
    found = marks(causal=True)
    assert found[1:4] == MEETING
    assert found[found.index("} else {") + 1 :][:3] == MEETING
    rest = found[found.index("cute.any") :]
    assert rest[-len(STORES) - 1 :] == [*STORES, WAIT]
    assert rest.count(WAIT) == 1


def test_in_program_order_the_first_half_leaves_before_the_second_is_written():
    found = marks("overlap = no")
    half = ["stsm", "fence_proxy_async", WAIT, "cute.barrier", "tma %tout", COMMIT]
    assert found[-2 * len(half) - 1 :] == [*half, *half, WAIT]


@pytest.mark.parametrize("masks", [{}, {"causal": True}], ids=["full", "causal"])
@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        (r"cp\.async\.bulk\.wait_group\.read 0;", "CD-E7"),
        (r"bar\.sync \d+, 128;", "CD-A1"),
    ],
    ids=["wait", "barrier"],
)
def test_the_meeting_is_needed(pattern, code, masks, monkeypatch):
    """Without the waits, or the barriers, a tile overwrites what is stored of the one before."""
    launch = emulator.launch

    def changed(ptx, *arguments):
        text, count = re.subn(pattern, "", ptx)
        assert count
        return launch(text, *arguments)

    monkeypatch.setattr(emulator, "launch", changed)
    with pytest.raises(emulator.EmulatorError) as caught:
        several_tiles(**masks)
    assert caught.value.code == code


@pytest.mark.parametrize("seed", [3, 4])
def test_several_tiles_with_stores_that_are_late(seed, monkeypatch):
    monkeypatch.setattr(emulator, "launch", partial(emulator.launch, seed=seed))
    several_tiles()
    several_tiles(causal=True)


def several_tiles(**masks):
    """More tiles than there are CTAs, checked against float64."""
    rng = np.random.default_rng(5)
    q, k, v = (
        rng.standard_normal((1, heads, 130, 128)).astype(ml_dtypes.bfloat16) for heads in (4, 1, 1)
    )
    scheduler = "dynamic" if masks else "persistent"
    schedule = f"tile = (64,128), overlap = yes, scheduler = {scheduler}"
    out = cute.attention(q, k, v, arch="sm_90a", backend="emulator", schedule=schedule, **masks)
    scores = q.astype(float) @ k.astype(float).swapaxes(-1, -2) / np.sqrt(128)
    if masks:
        scores = np.where(np.tri(130, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ v.astype(float)
    np.testing.assert_allclose(out.astype(float), wanted, rtol=0.02, atol=0.01)
