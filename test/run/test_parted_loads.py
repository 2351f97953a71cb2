"""Loops of several rings, of which each is loaded by a warp of its own, on the emulator: the claims
that they share, the order in which copies come, and which kernels have them.
"""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator

HEADS = 2


def loading_roles(kernel):
    found = re.findall(r'pipeline.role "(load\w*)"', kernel.stages["cute-synchronize"])
    return tuple(found)


def operands(rows, keys, d=32):
    rng = np.random.default_rng(rows + keys)
    shapes = ((1, HEADS, rows, d), (1, HEADS, keys, d), (1, HEADS, keys, d))
    return tuple(rng.standard_normal(shape).astype(np.float16) for shape in shapes)


def exact(q, k, v, first=None):
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    behind = np.arange(k.shape[2])[None] - np.arange(q.shape[2])[:, None]
    hidden = behind > 0 if first is None else (behind > 0) | (behind < -first)
    p = np.exp(np.where(hidden, -np.inf, s))
    return p @ v / p.sum(-1, keepdims=True)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("scheduler", "stages"), [("dynamic", 1), ("dynamic", 2), ("persistent", 2), ("single", 2)]
)
def test_loads_in_any_order(monkeypatch, scheduler, stages):
    """Tiles of one block and of several, more than there are CTAs."""
    q, k, v = operands(330, 330)
    schedule = f"tile = (64,64), warps = (4,1), stages = {stages}, scheduler = {scheduler}"
    launch = emulator.launch
    for seed, window in ((0, None), (1, 40)):
        monkeypatch.setattr(emulator, "launch", partial(launch, seed=seed))
        masks = {"causal": True} if window is None else {"causal": True, "window": (window, 0)}
        got = cute.attention(q, k, v, schedule=schedule, arch="sm_90a", backend="emulator", **masks)
        np.testing.assert_allclose(got, exact(q, k, v, window), atol=4e-3)


def test_one_thread_claims_and_tells_the_others():
    spec = cute.TensorSpec((1, 8, None, 128), cute.bf16)
    kernel = cute.compile(cute.attention, *[spec] * 3, arch="sm_90a", causal=True)
    after = kernel.stages["cute-synchronize"]
    assert loading_roles(kernel) == ("load", "load_1", "load_2")
    assert after.count("cute.claim ") == after.count("pipeline.send ") == 1
    assert after.count("pipeline.receive ") == 3
    assert '{kind = "threads", producers = 1 : i32, consumers = 10 : i32}' in after
    claiming = after[after.index('role "load"') : after.index('role "load_1"')]
    assert claiming.index("cute.copy") < claiming.index("cute.claim")


def test_rings_share_a_warp_where_two_prepare():
    """Values of 8 bits are transposed in shared memory by the last two warps of the group."""
    spec = cute.TensorSpec((1, 8, None, 128), cute.e4m3)
    given = {"arch": "sm_90a", "schedule": "scheduler = persistent"}
    kernel = cute.compile(cute.attention, *[spec] * 3, **given)
    assert loading_roles(kernel) == ("load", "load_1")
    after = kernel.stages["cute-synchronize"]
    assert 'role "prepare" attributes {first = 2 : i32, warps = 2 : i32' in after
    first = after[after.index('role "load"') : after.index('role "load_1"')]
    assert first.count("pipeline.producer_acquire") == 2


def test_one_ring_or_loads_by_threads_stay_in_one_role():
    a, b = (cute.TensorSpec((None, None), cute.bf16) for _ in range(2))
    assert loading_roles(cute.compile(cute.gemm, a, b, arch="sm_90a")) == ("load",)
    odd = cute.TensorSpec((1, 4, 130, 64), cute.bf16, (None, None, None, 1), 2)
    kernel = cute.compile(cute.attention, odd, odd, odd, arch="sm_90a")
    assert loading_roles(kernel) == ("load",)
