"""Loops without a trip are no part of the program: what their multiplies would add to stays, and a
schedule that names what only they need is not refused.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute

_SCHEDULES = (
    None,
    "roles = alternate",
    "epilogue = tma",
    "warps = (4,1), roles = specialized",
    "split_k = 2",
)


@pytest.mark.parametrize("schedule", _SCHEDULES)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_an_accumulator_keeps_what_it_is_filled_with(arch, schedule) -> None:
    @cute.kernel
    def program(A, B, Y):
        m, n = cute.tile_index(Y, (64, 64))
        acc = cute.zeros((64, 64))
        acc += 1.0
        for k in cute.range(7, 5, 2):
            a = cute.local_tile(A, (64, 64), (m, k))
            cute.gemm(a, cute.local_tile(B, (64, 64), (k, n)), acc)
        cute.copy(acc, cute.local_tile(Y, (64, 64), (m, n)))

    a, b, y = np.ones((64, 64), np.float16), np.ones((64, 64), np.float16), np.zeros((64, 64), "f4")
    program(a, b, y, arch=arch, schedule=schedule, backend="emulator")
    assert (y == 1).all()
    kernel = cute.compile(program, a, b, y, arch=arch, schedule=schedule)
    assert not any(word in kernel.ptx for word in ("mma.", "mbarrier.init"))
    told = [each.message for each in kernel.remarks]
    assert "loop dropped: its bounds are constants, and it has no trip" in told
    why = f"{schedule} not taken: the loops around all multiplies have no trip"
    assert (why in told) == (schedule is not None)


def test_a_loop_that_a_pass_leaves_without_a_trip_is_not_printed() -> None:
    """The second multiply runs a trip late, so that of one trip the loop has none."""

    @cute.kernel
    def chain(Q, K, V, Y):
        q = cute.local_tile(Q, (64, 64), (0, 0))
        acc = cute.zeros((64, 64))
        for j in cute.range(1):
            s = cute.zeros((64, 64))
            cute.gemm(q, cute.local_tile(K, (64, 64), (0, j)), s)
            cute.gemm(s.to(cute.f16), cute.local_tile(V, (64, 64), (j, 0)), acc)
        cute.copy(acc, cute.local_tile(Y, (64, 64), (0, 0)))

    one, y = np.eye(64, dtype=np.float16), np.zeros((64, 64), np.float32)
    kernel = cute.compile(chain, one, one, one, y, arch="sm_90a", schedule="roles = specialized")
    assert "stage = 1" in kernel.stages["cute-schedule-loops"]
    # A step of 64 along the depth takes four instructions, in each of the two multiplies.
    assert kernel.ptx.count("wgmma.mma_async") == 8
