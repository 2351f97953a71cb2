"""The last multiply of a trip works beside what the next trip computes, where its A stays."""

import re

import numpy as np
import pytest

import cutedialect as cute


@cute.kernel
def gradients(Q, K, X, Y, *, tile=(64, 64)):
    """X[j] = max(Q[j] K^T, 0) K, and Y = the sum of max(K Q[j]^T, 0) Q[j]."""
    bk, bq = tile
    i, _ = cute.tile_index(Y, (bk, None))
    k = cute.local_tile(K, (bk, 64), (i, 0))
    q = cute.local_tile(Q, (bq, 64), (None, 0))
    y = cute.zeros((bk, 64), cute.f32)
    for j in cute.range(q.tiles):
        s, x = cute.zeros((bk, bq), cute.f32), cute.zeros((bq, 64), cute.f32)
        cute.gemm(k, q[j].T, s)
        p = cute.maximum(s, 0.0).to(Q.dtype)
        cute.gemm(p.T, k, x)
        cute.gemm(p, q[j], y)
        cute.copy(x, cute.local_tile(X, (bq, 64), (j, 0)))
    cute.copy(y, cute.local_tile(Y, (bk, 64), (i, 0)))


ROWS = cute.TensorSpec((None, 64), cute.f16)
WIDE = cute.TensorSpec((None, 64), cute.f32)
SCHEDULE = "scheduler = single, overlap = yes, stages = 3"


def test_trips_around_the_stages():
    """Without a trip, with one, with two (of which the first has none before it), and with more."""
    for trips in (0, 1, 2, 3, 6):
        rng = np.random.default_rng(trips)
        q, k = (rng.integers(-2, 3, (n, 64)).astype(np.float16) for n in (64 * trips, 64))
        x = np.full((64 * max(trips, 1), 64), 7, np.float32)
        y = np.full((64, 64), 7, np.float32)
        gradients(q, k, x, y, arch="sm_90a", backend="emulator", schedule=SCHEDULE)
        p = np.maximum(q.astype(np.float64) @ k.T, 0)
        assert np.array_equal(y, p.T @ q)
        assert np.array_equal(x[: 64 * trips], p @ k)


def test_it_is_issued_beside_what_is_computed_for_the_next_trip():
    kernel = cute.compile(gradients, ROWS, ROWS, WIDE, WIDE, arch="sm_90a", schedule=SCHEDULE)
    text = kernel.stages["cute-synchronize"].split('role "main"')[1]
    loop = text[text.index("scf.for") :]
    words = re.findall(r"scf\.if|a = smem|a = rmem|cute\.map|wgmma_commit|cute\.barrier|if %", loop)
    late = words.index("scf.if")
    # It takes A where it stays, and its group ends behind the branch, in front of the arithmetic.
    assert words[late : late + 4] == ["scf.if", "a = smem", "wgmma_commit", "cute.map"]
    assert "a = rmem" not in words
    # Its stage is released behind a wait, if there was a trip before.
    assert words.index("if %") < words.index("cute.barrier")
    assert kernel.resources.spills in (None, 0)
    assert kernel.assembly.messages == ()


@pytest.mark.parametrize("schedule", ["overlap = no, stages = 3", "overlap = yes, stages = 2"])
def test_other_schedules_keep_the_order(schedule):
    kernel = cute.compile(
        gradients, ROWS, ROWS, WIDE, WIDE, arch="sm_90a", schedule=f"scheduler = single, {schedule}"
    )
    assert "a = rmem" in kernel.stages["cute-synchronize"]
