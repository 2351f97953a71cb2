"""One call chooses: the first schedule by price that has what is given and was not rejected."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import combinations, pairwise

import pytest

import cutedialect as cute
from cutedialect.atoms import DEVICES, H100, target, usual_device
from cutedialect.choosing.choose import NoScheduleError, Rejection, choose
from cutedialect.choosing.gemm_price import cycles
from cutedialect.choosing.gemm_problem import Problem
from cutedialect.choosing.gemm_schedules import GEMM_SPACE
from cutedialect.choosing.need import NONE, Limits, Need
from cutedialect.choosing.price import in_order
from cutedialect.choosing.program_space import PROGRAM_SPACE
from cutedialect.choosing.stream_space import STREAMS, Stream
from cutedialect.schedule import Schedule, replace_set

SPACES = pytest.mark.parametrize(
    ("space", "device"),
    [(GEMM_SPACE, usual_device("sm_90a")), (GEMM_SPACE, usual_device("sm_100a"))],
    ids=["gemm", "gemm in tensor memory"],
)


def problems(count, device=H100):
    rng = random.Random(count)
    for _ in range(count):
        sizes = (rng.choice((8, 100, 640, 2048, 5000)) for _ in range(3))
        yield Problem(*sizes, 1, rng.choice((8, 16, 32)), 16, device=device)


def spilling(schedule):
    return Rejection(schedule, "registers", "it spills")


@SPACES
def test_what_lacked_registers_gives_way_to_what_needs_fewer(space, device):
    for problem in problems(12, device):
        problem = (problem,)
        rejected = []
        spare = []
        for _ in range(3):
            with suppress(NoScheduleError):
                schedule = choose(space, problem, None, rejected)
                spare.append(space.need(problem, schedule).spare)
                rejected.append(spilling(schedule))
        assert all(later >= sooner + 24 for sooner, later in pairwise(spare))


@SPACES
def test_what_is_given_stays_through_rejections(space, device):
    given = Schedule(stages=3, raster=2)
    problem = Problem(2048, 4096, 1024, 1, 16, 16, device=device)
    problem = (problem,)
    rejected = []
    for _ in range(4):
        schedule = choose(space, problem, given, rejected)
        assert schedule == schedule.merged(given)
        assert all(schedule != each.schedule for each in rejected)
        rejected.append(Rejection(schedule, "", "a pass refuses it"))


def test_where_none_is_left_each_is_told_with_its_need():
    problem = (Problem(2048, 8, 64, 1, 16, 16),)
    rejected = [spilling(choose(GEMM_SPACE, problem))]
    while GEMM_SPACE.need(problem, rejected[-1].schedule).registers > 8:
        rejected.append(spilling(choose(GEMM_SPACE, problem, None, rejected)))
    match = "expected a schedule of gemm that fits"
    with pytest.raises(NoScheduleError, match=match) as caught:
        choose(GEMM_SPACE, problem, None, rejected)
    assert caught.value.rejected == tuple(rejected)
    for each in rejected:
        need = GEMM_SPACE.need(problem, each.schedule)
        assert f"'{each.schedule.text()}' needs {need.text()}: it spills" in str(caught.value)


def test_a_program_that_lacks_memory_takes_what_needs_less():
    memory = Rejection(Schedule(), "memory", "")
    registers = Rejection(Schedule(), "registers", "")
    assert choose(PROGRAM_SPACE, None, None, [memory]) == Schedule(epilogue="direct")
    assert choose(PROGRAM_SPACE, None, None, [registers]) == Schedule(roles="uniform")
    direct = Rejection(Schedule(epilogue="direct"), "registers", "")
    assert choose(PROGRAM_SPACE, None, None, [memory, direct]).warps == (4, 1)
    rows = Rejection(choose(PROGRAM_SPACE, None, None, [memory, direct]), "memory", "")
    assert choose(PROGRAM_SPACE, None, None, [memory, direct, rows]).warps == (2, 2)
    given = Schedule(stages=2)
    assert choose(PROGRAM_SPACE, None, given) == given
    with pytest.raises(NoScheduleError):
        choose(PROGRAM_SPACE, None, given, [Rejection(given, "registers", "")])


def test_what_passes_choose_anyway_is_tried_last():
    """Of what a whole kernel has; multiplies may have other warps than the first one."""
    chosen = Schedule(warps=(4, 1), stages=1, roles="uniform", epilogue="direct")
    memory, registers = (Rejection(Schedule(), lack, "") for lack in ("memory", "registers"))
    rows = Schedule(roles="uniform", warps=(4, 1))
    assert choose(PROGRAM_SPACE, chosen) == Schedule()
    assert choose(PROGRAM_SPACE, chosen, None, [memory]) == rows
    assert choose(PROGRAM_SPACE, chosen, None, [registers]) == rows
    last = [Rejection(Schedule(roles="uniform", warps=warps), "", "") for warps in ((4, 1), (2, 2))]
    assert choose(PROGRAM_SPACE, chosen, None, [memory, *last]) == Schedule(epilogue="direct")


def test_a_need_fits_within_the_target_and_the_limits():
    chip = target("sm_90a")
    need = Need(registers=100, room=128, smem=chip.smem_per_cta, threads=384)
    assert need.fits(chip, NONE)
    assert not need.fits(chip, Limits(registers=29))
    assert not need.fits(chip, Limits(smem=chip.smem_per_cta))
    assert not need.fits(target("sm_80"), NONE)
    assert not Need(columns=256).fits(chip, NONE)
    assert need.text() == "100 registers of 128, 232448 bytes of shared memory, 384 threads"


def test_plain_entries_come_first_unless_others_gain():
    priced = [(103.0, "plain"), (100.0, "odd"), (90.0, "odder")]
    assert list(in_order(priced)) == ["odder", "odd", "plain"]
    assert list(in_order(priced, 1.2)) == ["plain", "odd", "odder"]


@SPACES
def test_a_product_that_lacks_memory_takes_what_needs_less(space, device):
    for problem in problems(12, device):
        first = choose(space, (problem,))
        smem = space.need((problem,), first).smem
        with suppress(NoScheduleError):
            other = choose(space, (problem,), None, [Rejection(first, "memory", "")])
            assert space.need((problem,), other).smem < smem


@pytest.mark.parametrize("sizes", [(4096, 4096, 4096), (1040, 1584, 2256), (672, 488, 1552)])
@SPACES
def test_the_memory_that_a_product_needs_is_what_is_allocated(sizes, space, device):
    """With one more stage than a kernel has there would be too little."""
    m, n, k = sizes
    a, b = cute.TensorSpec((m, k), "bf16"), cute.TensorSpec((k, n), "bf16", (1, k))
    printed = Schedule.parse(cute.compile(cute.gemm, a, b, arch=device.arch).schedule)
    assert printed.stages is not None
    more = replace_set(printed, {"stages": printed.stages + 1})
    problem = Problem(m, n, k, 1, 16, 16, device=device)
    needs = [space.need((problem,), each).smem for each in (printed, more)]
    assert needs[0] <= target(device.arch).smem_per_cta < needs[1]


# Microseconds of tiles on an H200 by rows of X: its product by weights of int8, 8192 x 8192, calls
# of `cute.gemm` as graphs of launches over operands that rotate past three times L2.
_IN_CLUSTER = ", split_k = 2, reduction = cluster"
WEIGHTS = {
    16: {
        f"(128,16,256){_IN_CLUSTER}": 20.3,
        "(64,16,512)": 21.1,
        f"(128,16,128){_IN_CLUSTER}": 21.3,
        "(64,16,256)": 21.9,
        "(64,16,128)": 22.8,
        "(64,16,128), split_k = 2": 26.2,
        "(128,16,128)": 28.1,
    },
    64: {
        f"(128,64,128){_IN_CLUSTER}": 21.6,
        "(64,64,256)": 23.5,
        "(64,64,128)": 26.8,
        "(64,64,128), split_k = 2": 30.5,
    },
    256: {
        "(128,128,128)": 51.8,
        "(128,128,64)": 55.0,
        "(64,256,128)": 58.1,
        "(128,256,64)": 80.6,
    },
    4096: {
        "(128,256,64), cluster = (2,1)": 790.9,
        "(256,128,64)": 907.6,
        "(128,128,64)": 976.8,
    },
}


def weights(rows):
    (h200,) = (device for device in DEVICES if device.name == "H200")
    return Problem(rows, 8192, 8192, 1, 16, 16, weight_bits=8, is_plain=False, device=h200)


@pytest.mark.parametrize("rows", WEIGHTS)
def test_products_by_narrow_weights_take_the_tiles_that_were_fastest(rows):
    problem = weights(rows)
    times = {
        Schedule.parse(f"tile = {text}, swap_ab = yes"): us for text, us in WEIGHTS[rows].items()
    }
    chosen = choose(GEMM_SPACE, (problem,))
    fields = ("tile", "swap_ab", "split_k", "reduction")
    best = min(times, key=times.__getitem__)
    assert [getattr(chosen, name) for name in fields] == [getattr(best, name) for name in fields]
    assert (chosen.cluster or (1, 1)) == (best.cluster or (1, 1))
    estimates = {schedule: cycles(schedule, problem) for schedule in times}
    for one, other in combinations(times, 2):
        assert estimates[one] < estimates[other], f"{one.text()} | {other.text()}"


def test_a_stage_has_weights_as_memory_has_them():
    """With one more stage there would be too little memory."""
    specs = cute.TensorSpec((256, 8192), "bf16"), cute.TensorSpec((8192, 8192), "i8", (1, None))
    printed = Schedule.parse(cute.gemm.compile(*specs, arch="sm_90a").schedule)
    assert printed.stages is not None
    more = replace_set(printed, {"stages": printed.stages + 1})
    needs = [GEMM_SPACE.need((weights(256),), each).smem for each in (printed, more)]
    assert needs[0] <= target("sm_90a").smem_per_cta < needs[1]


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (Stream((4, 1024), 1, 16, 16, 1.25, frozenset({1})), "warps = (4,1), ctas = 8"),
        (Stream((1, 8192), 1, 16, 16, 0.75, frozenset({1})), "warps = (1,8), ctas = 4"),
        (Stream((24, 176), 1, 16, 16, 2.0, frozenset({1}), access=4), "warps = (3,1), ctas = 7"),
        (
            Stream((8, 256), 1, 32, 32, 2.0, frozenset({1}), sorted_bits=32),
            "warps = (2,1), ctas = 12",
        ),
    ],
)
def test_streams_have_few_warps_and_several_ctas(stream, text):
    assert choose(STREAMS, stream).text() == text


@pytest.mark.parametrize("reduced", [frozenset(), frozenset({1})])
def test_what_streams_and_spills_has_fewer_ctas_or_more_warps(reduced):
    """CTAs are chosen with the warps; both stay where they are given."""
    stream = Stream((2, 4096), 1, 16, 32, 2.0, reduced)
    rejected = []
    for _ in range(3):
        with suppress(NoScheduleError):
            rejected.append(spilling(choose(STREAMS, stream, None, rejected)))
    spare = [STREAMS.need(stream, each.schedule).spare for each in rejected]
    assert len(spare) > 1
    assert all(later >= sooner + 24 for sooner, later in pairwise(spare))
    first, second = (each.schedule for each in rejected[:2])
    assert (second.warps, second.ctas) == (first.warps, first.ctas // 2)
    given = Schedule(warps=(2, 4))
    assert choose(STREAMS, stream, given) == given
    assert choose(STREAMS, stream, Schedule(ctas=1)).ctas == 1
