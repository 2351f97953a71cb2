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
from cutedialect.choosing.choose import choose
from cutedialect.choosing.gemm_problem import Problem
from cutedialect.choosing.gemm_schedules import GEMM_SPACE, fits, gemm_schedules

TYPES = {
    16: (np.float16, ml_dtypes.bfloat16),
    8: (np.int8, ml_dtypes.float8_e4m3fn),
    32: (np.float32,),
}
EVERY = [
    pytest.param(
        schedule,
        TYPES[bits][number % len(TYPES[bits])],
        id=f"{bits}: {schedule.text()}",
        # Every schedule at one width, and all of them in the long run.
        marks=() if number % len(TYPES) == place else pytest.mark.long,
    )
    for place, bits in enumerate(TYPES)
    for number, schedule in enumerate(gemm_schedules(bits))
]
# Majors of operands that warps transpose in shared memory, and the types that take turns in them.
ACROSS = ("TT", "NN", "NT")
BYTES = (ml_dtypes.float8_e4m3fn, np.int8, ml_dtypes.float8_e5m2, np.uint8)
# Trips of the main loop about a ring of S stages: 0, 1, S - 1, S, S + 1, 2 S + 1.
EDGES = [(0, 0), (0, 1), (1, -1), (1, 0), (1, 1), (2, 1)]


def problem(schedule, dtype, depth, more=(0, 0), majors="TN"):
    """Operands of one cluster's tiles and `more` rows and columns."""
    rows, columns = (
        extent * ctas + beyond
        for extent, ctas, beyond in zip(schedule.tile[:2], schedule.cluster, more, strict=True)
    )
    if schedule.swap_ab == "yes":
        rows, columns = columns, rows
    rng = np.random.default_rng(depth)
    least = 0 if dtype is np.uint8 else -2
    a = rng.integers(least, 3, (rows, depth)).astype(dtype)
    b = rng.integers(least, 3, (columns, depth)).astype(dtype).T
    a = a if majors[0] == "T" else np.asfortranarray(a)
    return a, b if majors[1] == "N" else np.ascontiguousarray(b)


def check(a, b, schedule):
    got = cute.gemm(a, b, arch="sm_90a", schedule=schedule, backend="emulator")
    want = (a.astype(np.float64) @ b.astype(np.float64)).astype(got.dtype)
    assert np.array_equal(got.astype(np.float64), want.astype(np.float64))


def test_the_list_can_be_read_and_compiled_whole():
    listed = [schedule for bits in TYPES for schedule in gemm_schedules(bits)]
    assert 0 < len(listed) <= 180
    for bits in TYPES:
        assert len(set(gemm_schedules(bits))) == len(gemm_schedules(bits))
    for schedule in listed:
        assert cute.Schedule.parse(str(schedule)) == schedule
        assert 1 <= prod(schedule.cluster) <= 8  # what every device with clusters has


@pytest.mark.some(4)
@pytest.mark.parametrize("majors", ["TN", *ACROSS])
@pytest.mark.parametrize("cluster", [(1, 1), (2, 1)])
def test_threads_load_what_tma_could(cluster, majors):
    """Rows at odd multiples of 16 bytes, ragged tiles, and no tensor map of an operand."""
    schedule = cute.Schedule(tile=(128, 64, 64), cluster=cluster, loads="threads", stages=3)
    a, b = problem(schedule, np.float16, 328, (8, 8), majors)
    check(a, b, schedule)
    kernel = cute.compile(cute.gemm, a, b, arch="sm_90a", schedule=schedule)
    assert "cp.async.cg.shared.global" in kernel.ptx
    assert "cp.async.bulk.tensor.2d.shared" not in kernel.ptx
    assert kernel.assembly.spill_stores == 0


@pytest.mark.some(5)
@pytest.mark.parametrize(("schedule", "dtype"), EVERY)
def test_schedule(schedule, dtype):
    """Compiled as `cute.gemm` compiles it, assembled without a word, run on ragged tiles."""
    # A second cluster has 8 rows or 8 columns of results; the other mode lacks 8 of its last tile.
    more = (8, -8) if schedule.tile[0] <= schedule.tile[1] else (-8, 8)
    a, b = problem(schedule, dtype, schedule.tile[2] + 16, more)
    kernel = cute.compile(cute.gemm, a, b, arch="sm_90a", schedule=schedule, backend="emulator")
    made = cute.Schedule.parse(kernel.schedule)
    assert (made.roles, made.tile, made.cluster) == (
        schedule.roles,
        schedule.tile,
        schedule.cluster,
    )
    check(a, b, schedule)
    check_assembly(kernel)


def check_assembly(kernel):
    """Warpgroups multiply, and ptxas has nothing to say."""
    assert "wgmma.mma_async" in kernel.ptx
    if ptxas.candidates():
        assembly = ptxas.assemble(kernel.ptx, "sm_90a")
        assert [message for message in assembly.messages if message.is_loss] == []
        assert (assembly.spill_stores, assembly.spill_loads, assembly.stack) == (0, 0, 0)


def across(majors):
    return majors[0] == "N", majors[1] == "T"


@pytest.mark.some(2)
@pytest.mark.parametrize("majors", ACROSS)
@pytest.mark.parametrize("dtype", BYTES, ids=lambda dtype: np.dtype(dtype).name)
def test_tiles_of_bytes_that_are_transposed(majors, dtype):
    """What is chosen for a large problem of 8-bit operands whose depth is not contiguous."""
    chosen = choose(GEMM_SPACE, (Problem(4096, 4096, 4096, 1, 8, 16, transposed=across(majors)),))
    assert prod(chosen.tile[:2]) >= 128 * 128
    a, b = problem(chosen, dtype, 2 * chosen.tile[2] + 16, (-16, 16), majors)
    check_assembly(
        cute.compile(cute.gemm, a, b, arch="sm_90a", schedule=chosen, backend="emulator")
    )
    check(a, b, chosen)


@pytest.mark.some(6)
@pytest.mark.parametrize("majors", ACROSS)
@pytest.mark.parametrize("sizes", [(512, 512, 512), (16, 4096, 4096), (4096, 4096, 4096)])
@pytest.mark.parametrize("align", [16, 4, 2, 1])
def test_a_choice_for_bytes_of_any_major_assembles(majors, sizes, align):
    m, n, k = sizes
    a, b = (
        cute.TensorSpec(shape, "i8", (None, 1) if major == "T" else (1, None), align)
        for shape, major in zip(((m, k), (k, n)), majors, strict=True)
    )
    check_assembly(cute.compile(cute.gemm, a, b, arch="sm_90a", backend="emulator"))


@pytest.mark.some(2)
@pytest.mark.parametrize("majors", ["TN", *ACROSS])
def test_promoted_sums_get_a_depth_of_their_blocks(majors):
    """Where tiles for so few columns are otherwise two blocks deep."""
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-2, 3, shape).astype(BYTES[0]) for shape in ((512, 272), (272, 32)))
    a, b = (
        x if major == "T" else np.asfortranarray(x) for x, major in zip((a, b), majors, strict=True)
    )
    options = {"fast_accum": False, "arch": "sm_90a", "backend": "emulator"}
    kernel = cute.compile(cute.gemm, a, b, **options)
    check_assembly(kernel)
    assert cute.Schedule.parse(kernel.schedule).tile[2] == 128
    got = cute.gemm(a, b, **options)
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert np.array_equal(got.astype(np.float64), want.astype(got.dtype).astype(np.float64))


@pytest.mark.long
@pytest.mark.parametrize("majors", ACROSS)
@pytest.mark.parametrize("schedule", gemm_schedules(8), ids=cute.Schedule.text)
def test_schedule_for_transposed_bytes(schedule, majors):
    if not fits(schedule, Problem(4096, 4096, 4096, 1, 8, 16, transposed=across(majors))):
        pytest.skip("warps transpose 32 rows or columns at a time")
    a, b = problem(schedule, np.int8, 3 * schedule.tile[2] + 16, (16, 16), majors)
    check_assembly(
        cute.compile(cute.gemm, a, b, arch="sm_90a", schedule=schedule, backend="emulator")
    )
    check(a, b, schedule)


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
