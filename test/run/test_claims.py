"""The scheduler dynamic: every work item is computed once, by whichever CTA claims it, launch after
launch.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator
from cutedialect.backend.runtime import ptxas

TILES = {"sm_80": "tile = (64,64,32)", "sm_90a": "tile = (64,64,64)"}


def operands(m, n, k):
    rng = np.random.default_rng(m + n + k)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (m, n))
    return a, b.T


@pytest.mark.some(4)
@pytest.mark.parametrize("arch", TILES)
@pytest.mark.parametrize("sizes", [(8, 8, 64), (64, 256, 64), (328, 264, 72), (64, 64, 0)])
def test_every_tile_is_computed_by_one_cta(sizes, arch):
    """With fewer tiles than multiprocessors, as many, and more."""
    a, b = operands(*sizes)
    schedule = f"{TILES[arch]}, scheduler = dynamic"
    for _ in range(2):  # the counter is left as it was found
        got = cute.gemm(a, b, out_dtype="f32", arch=arch, schedule=schedule, backend="emulator")
        np.testing.assert_array_equal(got, a.astype(np.float64) @ b.astype(np.float64))


def test_order_of_events_does_not_matter(monkeypatch):
    a, b = operands(328, 264, 136)
    want = a.astype(np.float64) @ b.astype(np.float64)
    launch = emulator.launch
    for seed in range(4):
        monkeypatch.setattr(emulator, "launch", partial(launch, seed=seed))
        got = cute.gemm(
            a,
            b,
            out_dtype="f32",
            arch="sm_90a",
            schedule="tile = (64,64,64), scheduler = dynamic",
            backend="emulator",
        )
        np.testing.assert_array_equal(got, want)


def test_roles_hear_of_the_next_item_through_a_ring():
    a, b = operands(128, 128, 64)
    options = {"arch": "sm_90a", "schedule": "scheduler = dynamic", "backend": "emulator"}
    kernel = cute.compile(cute.gemm, a, b, **options)
    after = kernel.stages["cute-synchronize"]
    assert after.count("cute.claim ") == after.count("pipeline.send ") == 1
    assert after.count("pipeline.receive ") == 1
    if ptxas.find() is not None:
        assert kernel.resources.spills == 0


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("cluster = (2,1), scheduler = dynamic", r"cluster = \(1,1\) with the scheduler dynamic"),
        ("roles = alternate, scheduler = dynamic, cluster = (1,1)", "one team computes"),
    ],
)
def test_what_cannot_claim_is_refused(schedule, message):
    a, b = operands(256, 256, 64)
    with pytest.raises(cute.CompileError, match=message):
        cute.compile(cute.gemm, a, b, arch="sm_90a", schedule=schedule, backend="emulator")


def test_loading_threads_cannot_claim():
    """Rows of 132 bytes are no boxes of TMA: four warps load them."""
    a, b = operands(128, 66, 66)
    with pytest.raises(cute.CompileError, match=r"one thread loads every tile.*persistent"):
        cute.compile(
            cute.gemm, a, b, arch="sm_90a", schedule="scheduler = dynamic", backend="emulator"
        )


@pytest.mark.parametrize("scheduler", ["dynamic", "single"])
def test_what_is_chosen_suits_a_scheduler_that_is_given(scheduler):
    """Clusters and teams that take turns are left out where they would be refused."""
    for m, n, k in ((776, 1592, 64), (1272, 1272, 912), (160, 40, 1376)):
        a, b = operands(m, n, k)
        kernel = cute.compile(cute.gemm, a, b, arch="sm_90a", schedule=f"scheduler = {scheduler}")
        assert f"scheduler = {scheduler}" in str(kernel.schedule)
