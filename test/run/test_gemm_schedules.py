"""Every schedule from which `cute.gemm` chooses on sm_90a assembles with nothing lost and gives the
exact product. Element types alternate, so that each width is seen with each of its types.
"""

from __future__ import annotations

from math import prod

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import ptxas
from cutedialect.frontend.library.gemm_schedules import gemm_schedules

TYPES = {
    16: (np.float16, ml_dtypes.bfloat16),
    8: (np.int8, ml_dtypes.float8_e4m3fn),
    32: (np.float32,),
}
EVERY = [
    pytest.param(schedule, TYPES[bits][number % len(TYPES[bits])], id=f"{bits}: {schedule.text()}")
    for bits in TYPES
    for number, schedule in enumerate(gemm_schedules(bits))
]
# Trips of the main loop about a ring of S stages: 0, 1, S - 1, S, S + 1, 2 S + 1.
EDGES = [(0, 0), (0, 1), (1, -1), (1, 0), (1, 1), (2, 1)]


def problem(schedule, dtype, depth, more=(0, 0)):
    """Operands of one cluster's tiles and `more` rows and columns; B is K-major."""
    rows, columns = (
        extent * ctas + beyond
        for extent, ctas, beyond in zip(schedule.tile[:2], schedule.cluster, more, strict=True)
    )
    if schedule.swap_ab == "yes":
        rows, columns = columns, rows
    rng = np.random.default_rng(depth)
    a = rng.integers(-2, 3, (rows, depth)).astype(dtype)
    b = rng.integers(-2, 3, (columns, depth)).astype(dtype).T
    return a, b


def check(a, b, schedule):
    got = cute.gemm(a, b, arch="sm_90a", schedule=schedule, backend="emulator")
    want = (a.astype(np.float64) @ b.astype(np.float64)).astype(got.dtype)
    assert np.array_equal(got.astype(np.float64), want.astype(np.float64))


def test_the_list_can_be_read_and_compiled_whole():
    listed = [schedule for bits in TYPES for schedule in gemm_schedules(bits)]
    assert 0 < len(listed) <= 150
    for bits in TYPES:
        assert len(set(gemm_schedules(bits))) == len(gemm_schedules(bits))
    for schedule in listed:
        assert cute.Schedule.parse(str(schedule)) == schedule
        assert 1 <= prod(schedule.cluster) <= 8  # what every device with clusters has


@pytest.mark.parametrize(("schedule", "dtype"), EVERY)
def test_schedule(schedule, dtype):
    """Compiled as `cute.gemm` compiles it, assembled without a word, run on ragged tiles."""
    # A second cluster has 8 rows or 8 columns of results; the other mode lacks 8 of its last tile.
    more = (8, -8) if schedule.tile[0] <= schedule.tile[1] else (-8, 8)
    a, b = problem(schedule, dtype, schedule.tile[2] + 16, more)
    kernel = cute.compile(cute.gemm, a, b, arch="sm_90a", schedule=schedule, backend="emulator")
    assert "wgmma.mma_async" in kernel.ptx
    made = cute.Schedule.parse(kernel.schedule)
    assert (made.roles, made.tile, made.cluster) == (
        schedule.roles,
        schedule.tile,
        schedule.cluster,
    )
    check(a, b, schedule)
    if ptxas.candidates():
        assembly = ptxas.assemble(kernel.ptx, "sm_90a")
        assert [message for message in assembly.messages if message.is_loss] == []
        assert (assembly.spill_stores, assembly.spill_loads, assembly.stack) == (0, 0, 0)


@pytest.mark.long
@pytest.mark.parametrize(("schedule", "dtype"), EVERY)
def test_trip_counts(schedule, dtype):
    """Every edge of the ring, with the last trip whole and ragged."""
    a, b = problem(schedule, dtype, 16)
    kernel = cute.compile(cute.gemm, a, b, arch="sm_90a", schedule=schedule, backend="emulator")
    stages = cute.Schedule.parse(kernel.schedule).stages
    ragged = 16 // np.dtype(dtype).itemsize
    for times, more in EDGES:
        depth = schedule.tile[2] * (times * stages + more)
        for less in {0, min(depth, ragged)}:
            check(*problem(schedule, dtype, depth - less), schedule)
