"""What `cute.gemm` chooses on sm_90a for problems that nobody listed: that it follows the rules of
the list, and that the product is exact where CTAs share tiles or compute the transposed product.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.atoms import usual_device
from cutedialect.choosing import gemm_schedules as listed_schedules
from cutedialect.choosing.choose import Rejection, choose
from cutedialect.choosing.gemm_price import Facts, cycles, facts_of, gemm_price
from cutedialect.choosing.gemm_problem import Problem, tiles_of
from cutedialect.choosing.gemm_schedules import (
    GEMM_SPACE,
    fits,
    gemm_schedules,
)
from cutedialect.choosing.price import Price, Trees
from cutedialect.frontend.declarations import GEMM
from cutedialect.frontend.gemm import GemmCall

PROCESSORS = 132


def drawn(seed: int, count: int, most: int = 6200) -> list[Problem]:
    """Problems of all widths and alignments, their extents spread evenly over the logarithm."""
    rng = random.Random(seed)
    problems: list[Problem] = []
    for _ in range(count):
        m, n, k = (round(math.exp(rng.uniform(0, math.log(most)))) for _ in range(3))
        bits = rng.choice((16, 16, 8, 32))
        align = rng.choice((16, 16, 16, 8, 4, max(1, bits // 8)))
        pitches = (rng.choice((16, 32, 64, 128)), rng.choice((16, 32, 64, 128)))
        out = rng.choice((16, 8, 4, 2))
        batch = rng.choice((1, 1, 1, 7))
        problems.append(
            Problem(m, n, k, batch, bits, 32 if bits == 32 else 16,
                    align=align, out_align=out, pitches=pitches)
        )  # fmt: skip
    return problems


def tiles(problem: Problem, schedule: cute.Schedule) -> int:
    assert schedule.tile is not None
    m, n = problem.m, problem.n
    if schedule.swap_ab == "yes":
        m, n = n, m
    return problem.batch * -(-m // schedule.tile[0]) * -(-n // schedule.tile[1])


def is_timed(problem: Problem) -> bool:
    """Whether trees know problems of this kind."""
    return Facts(tiles_of(), problem, gemm_price(problem.device))["is_timed"]


def choose_schedule(*problems: Problem) -> cute.Schedule:
    """What is chosen for a problem, or for several in one launch."""
    return choose(GEMM_SPACE, problems)


def is_narrowest(problem: Problem, schedule: cute.Schedule) -> bool:
    """Whether no narrower tile covers the columns with as many beside each other, and clusters of
    more than two have room at one time.
    """
    assert schedule.tile is not None
    assert schedule.cluster is not None
    rows, columns, _ = schedule.tile
    m, n = (problem.m, problem.n) if schedule.swap_ab == "no" else (problem.n, problem.m)
    count = -(-n // columns)
    down, right = -(-m // (rows * schedule.cluster[0])), -(-count // schedule.cluster[1])
    size = schedule.cluster[0] * schedule.cluster[1]
    units = (8,) if schedule.swap_ab == "no" else (8, 16)
    return (
        problem.align == problem.out_align == 16
        and columns in [unit * -(-n // (unit * count)) for unit in units]
        and (size <= 2 or problem.batch * down * right * size <= 120)
    )


def takes_few_steps(problem):
    """Whether tiles of a batch have so few steps that teams which take turns took longer."""
    return problem.batch > 1 and problem.k * problem.bits <= 3 * 1024


def test_choices_keep_to_the_rules():
    split = swapped = fitted = 0
    for problem in drawn(0, 300):
        chosen = choose_schedule(problem)
        assert choose_schedule(replace(problem)) == chosen
        listed = gemm_schedules(problem.bits)
        if chosen.roles == "shifting":
            # Some entries of the list get a warpgroup more.
            chosen = chosen.merged(cute.Schedule(roles="specialized"))
        is_fitted = all(chosen.merged(each) != chosen for each in listed)
        if is_fitted:
            fitted += 1
            assert is_narrowest(problem, chosen)
        assert fits(chosen, problem)
        if chosen.swap_ab == "yes":
            swapped += 1
            assert problem.n > 1
            assert problem.k > 1
        if chosen.split_k is not None:
            split += 1
            steps = -(-problem.k // chosen.tile[2])
            assert steps >= 2 * chosen.split_k
            assert chosen.reduction in (None, "ordered", "cluster"), "equal calls give equal bits"
            assert tiles(problem, chosen) * chosen.split_k <= 2 * PROCESSORS
        # Nothing that may be chosen is estimated to be faster than by the margin of shared tiles.
        best = min(
            cycles(each, problem)
            for each in listed
            if fits(each, problem) and (each.swap_ab == "no" or problem.m < problem.n)
            and (each.swap_ab == "no" or (problem.m <= 512 and problem.k > 1))
            and not (each.roles == "alternate" and takes_few_steps(problem))
        )  # fmt: skip
        missed = 1.16 if is_timed(problem) else 1.0
        assert cycles(chosen, problem) <= missed * best
    assert split > 20
    assert swapped > 20
    assert fitted > 15


@pytest.mark.parametrize(
    ("sizes", "tile", "cluster", "swap", "raster"),
    [
        ((528, 4096, 14336), (128, 160), (1, 1), "no", 8),
        ((776, 2048, 8192), (128, 128), (1, 1), "no", 8),
        ((1224, 24576, 1536), (128, 192), (1, 1), "no", 16),
        ((5992, 1616, 832), (128, 128), (1, 1), "no", 2),
        ((152, 2560, 2560), (64, 64), (1, 1), "no", 4),
        ((152, 2560, 2560), (64, 64), (1, 1), "yes", 1),
        ((136, 8192, 3584), (128, 96), (1, 1), "yes", 1),
        ((776, 2048, 8192), (128, 128), (1, 2), "no", 8),
        ((192, 5120, 25600), (64, 128), (1, 4), "no", 4),
        ((280, 5120, 13824), (128, 96), (4, 1), "yes", 1),
        ((8192, 8192, 8192), (128, 256), (2, 1), "no", 8),
    ],
)
def test_a_panel_of_the_longer_operand_is_shared_by_neighbors(sizes, tile, cluster, swap, raster):
    """Where all orders read the same, the one that was fastest on an H100, by up to 1.7 times."""
    schedule = cute.Schedule(tile=(*tile, 64), cluster=cluster, swap_ab=swap)
    assert facts_of(schedule, Problem(*sizes, 1, 16, 16))[0]["raster"] == raster


def test_clusters_that_share_the_longer_operand_are_estimated_to_be_faster():
    """Few rows with much to read: where each panel of the longer operand goes to several clusters,
    those of two took 1.26 times as long on an H100 as CTAs alone.
    """
    problem = Problem(192, 5120, 13824, 1, 16, 16)

    def estimate(cluster):
        return cycles(cute.Schedule(tile=(128, 96, 64), cluster=cluster, swap_ab="yes"), problem)

    assert estimate((2, 1)) > 1.05 * estimate((1, 1))
    assert estimate((1, 2)) < 1.05 * estimate((1, 1))


@pytest.mark.parametrize(
    "sizes", [(48, 576, 7168), (32, 152, 5640), (128, 256, 8192), (256, 256, 8192), (8, 8, 6000)]
)
def test_few_tiles_with_a_long_depth_are_shared(sizes):
    chosen = choose_schedule(Problem(*sizes, 1, 16, 16))
    assert chosen.split_k is not None
    whole = cute.Schedule.parse(", ".join(
        part for part in chosen.text().split(", ") if not part.startswith("split_k")
    ))  # fmt: skip
    assert cycles(chosen, Problem(*sizes, 1, 16, 16)) < cycles(whole, Problem(*sizes, 1, 16, 16))


def test_a_warpgroup_shifts_operands_beside_few_accumulators_alone():
    shifted = 0
    for problem in drawn(2, 120):
        chosen = choose_schedule(problem)
        if chosen.roles == "shifting":
            shifted += 1
            assert problem.bits == 16
            assert problem.align < 4
            assert math.prod(chosen.tile[:2]) <= 64 * 128 * min(2, chosen.tile[0] // 64)
            assert chosen.reduction != "cluster"
            spill = Rejection(chosen, "registers", "spills")
            again = choose(GEMM_SPACE, (problem,), None, [spill])
            assert again.roles != "shifting", "a choice before had too few registers"
        given = choose(GEMM_SPACE, (problem,), cute.Schedule(stages=2))
        assert given.roles != "shifting", "what is given may want the warps"
    assert shifted > 3


def test_fields_that_clusters_cannot_do_with_leave_them_out():
    a, b = np.zeros((48, 7168), np.float16), np.zeros((7168, 576), np.float16)
    b = np.asfortranarray(b)

    def chosen(**options):
        return cute.compile(cute.gemm, a, b, arch="sm_90a", **options).schedule

    assert "reduction = cluster" in chosen()
    for schedule in ("cluster = (2,1)", "scheduler = dynamic", "stages = 9"):
        assert "reduction" not in chosen(schedule=schedule)
    assert "reduction" not in chosen(acc_dtype="f16")


def test_large_problems_and_groups_share_nothing():
    for extent in (2048, 4096, 8192):
        assert choose_schedule(Problem(extent, extent, extent, 1, 16, 16)).split_k is None
    for few in drawn(1, 30):
        group = [replace(few, batch=1), replace(few, batch=1, m=few.m + 8)]
        assert choose_schedule(*group).split_k is None


def test_a_problem_knows_the_pitch_of_its_rows():
    def pitches(a, b):
        call = GemmCall.of(GEMM.given(a, b))
        return call.problem().pitches

    a = np.zeros((64, 96), np.float16)  # 192 bytes
    b = np.zeros((96, 72), np.float16)  # 144 bytes
    assert pitches(a, b) == (64, 16)
    assert pitches(np.asfortranarray(a), np.asfortranarray(b)) == (128, 64)
    wide = np.zeros((64, 128), np.float16)[:, :96]
    assert pitches(wide, b) == (128, 16)
    assert pitches(np.zeros((1, 96), np.float16), b)[0] == 128
    known = cute.TensorSpec((64, 24), "bf16", (None, 1))
    free = cute.TensorSpec((None, None), "bf16", (None, 1))
    assert pitches(known, free) == (16, 128)


def operands(sizes, dtype, majors="TN"):
    m, n, k = sizes
    rng = np.random.default_rng(k)
    a = rng.integers(-2, 3, (m, k)).astype(dtype)
    b = rng.integers(-2, 3, (n, k)).astype(dtype).T
    return (
        a if majors[0] == "T" else np.asfortranarray(a),
        b if majors[1] == "N" else np.ascontiguousarray(b),
    )


# Sizes, type and majors; each is shared by CTAs, with a last part that is shorter than the others.
SHARED = [
    ((40, 72, 1800), ml_dtypes.bfloat16, "TN"),
    ((72, 40, 1111), np.float16, "TN"),
    ((24, 136, 2056), np.float16, "NT"),
    ((64, 48, 2100), np.int8, "TN"),
]


@pytest.mark.some(1)
@pytest.mark.parametrize(("sizes", "dtype", "majors"), SHARED)
def test_the_default_is_exact_where_tiles_are_shared(sizes, dtype, majors):
    a, b = operands(sizes, dtype, majors)
    bias = np.arange(sizes[1]).astype(np.float32) % 5
    options = {"arch": "sm_90a", "backend": "emulator"}
    if dtype is np.int8:
        options["out_dtype"] = "f32"
    kernel = cute.compile(cute.gemm, a, b, **options)
    assert cute.Schedule.parse(kernel.schedule).split_k is not None
    first, again = (cute.gemm(a, b, bias=bias, **options) for _ in range(2))
    want = a.astype(np.float64) @ b.astype(np.float64) + bias
    assert np.array_equal(first.astype(np.float64), want.astype(first.dtype).astype(np.float64))
    assert np.array_equal(first, again)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("sizes", "majors"),
    [
        ((152, 72, 264), "TN"),
        ((56, 424, 520), "TN"),
        pytest.param((616, 408, 264), "TN", marks=pytest.mark.long),
        pytest.param((272, 520, 200), "TT", marks=pytest.mark.long),
        pytest.param((440, 328, 136), "NT", marks=pytest.mark.long),
    ],
)
def test_tiles_that_fit_are_exact_in_clusters(sizes, majors):
    a, b = operands(sizes, np.float16, majors)
    kernel = cute.compile(cute.gemm, a, b, arch="sm_90a", backend="emulator")
    cluster = cute.Schedule.parse(kernel.schedule).cluster
    assert cluster is not None
    assert cluster[0] * cluster[1] > 2
    got = cute.gemm(a, b, arch="sm_90a", backend="emulator")
    want = (a.astype(np.float64) @ b.astype(np.float64)).astype(got.dtype)
    assert np.array_equal(got.astype(np.float64), want.astype(np.float64))


@pytest.mark.some(1)
@pytest.mark.parametrize("seed", range(3))
def test_the_default_is_exact_at_random_sizes(seed):
    rng = random.Random(seed)
    sizes = rng.randint(1, 150), rng.randint(1, 150), rng.randint(1, 500)
    dtype = rng.choice((np.float16, ml_dtypes.bfloat16))
    a, b = operands(sizes, dtype, rng.choice(("TN", "NN", "NT", "TT")))
    got = cute.gemm(a, b, arch="sm_90a", backend="emulator")
    want = (a.astype(np.float64) @ b.astype(np.float64)).astype(got.dtype)
    assert np.array_equal(got.astype(np.float64), want.astype(np.float64))


@pytest.mark.some(5)
@pytest.mark.parametrize("sizes", [(48, 208, 0), (1, 1, 0), (136, 8, 0), (0, 64, 128), (64, 0, 0)])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.float8_e5m2])
def test_the_default_takes_extents_of_zero(sizes, dtype):
    """Whatever B's pitch; a product without depth is its bias."""
    m, n, k = sizes
    for padding in (0, 8, 16):
        a, b = np.zeros((m, k), dtype), np.zeros((k, n + padding), dtype)[:, :n]
        bias = np.arange(n).astype(np.float16)
        got = cute.gemm(a, b, bias=bias, out_dtype="f16", arch="sm_90a", backend="emulator")
        assert np.array_equal(got, np.broadcast_to(bias, (m, n)))


def test_the_tallest_tiles_hold_more_where_operands_take_no_registers():
    """Those of both operands of words across the depth, one in registers and one transposed, leave
    the assembler too few for 160 accumulators.
    """
    schedule = cute.Schedule(tile=(256, 160, 32), cluster=(1, 1), swap_ab="no")
    problem = Problem(8192, 1280, 8192, 1, 32, 32)
    assert fits(schedule, problem)
    assert not fits(schedule, replace(problem, transposed=(True, True), across=(True, True)))


def test_teams_take_no_turns_in_batches_of_few_steps():
    """What one stores would hide behind next to nothing; of single problems and deeper ones the
    estimates are right.
    """

    def roles(batch, k):
        a = cute.TensorSpec((batch, 336, k), "bf16")
        b = cute.TensorSpec((batch, k, 368), "bf16", (None, 1, None))
        schedule = cute.compile(cute.gemm, a, b, arch="sm_90a", backend="emulator").schedule
        return cute.Schedule.parse(schedule).roles

    assert {roles(1255, k) for k in (64, 128, 192)} == {"specialized"}
    assert roles(1255, 256) == "alternate"


def test_teams_take_wider_tiles_in_turns_where_nothing_is_added():
    """Of problems with some rounds of tiles; a sum that is more than stored has fewer values."""
    wide = Problem(65536, 1024, 1024, 1, 16, 16)
    chosen = choose_schedule(wide)
    assert chosen.roles == "alternate"
    assert chosen.tile[:2] > (128, 128)
    with_bias = choose_schedule(replace(wide, is_plain=False))
    assert with_bias.roles != "alternate" or math.prod(with_bias.tile[:2]) <= 128 * 128
    schedule = cute.Schedule(tile=(128, 176, 64), cluster=(1, 1), roles="alternate", swap_ab="no")
    assert fits(schedule, wide)
    assert not fits(schedule, replace(wide, is_plain=False))
    assert not fits(schedule, replace(wide, most_values=104))
    for problem in drawn(3, 200):
        chosen = choose_schedule(problem)
        if chosen.roles == "alternate" and chosen.tile[1] > 128:
            assert problem.is_plain
            assert tiles(problem, chosen) > PROCESSORS


def test_a_call_that_adds_to_its_product_says_so():
    a, b = np.zeros((64, 96), np.float16), np.zeros((96, 72), np.float16)

    def problem(**given):
        beta = 1.0 if "c" in given else 0.0
        return GemmCall.of(GEMM.given(a, b, beta=beta, **given)).problem()

    assert problem().is_plain
    assert problem(activation="relu").is_plain
    assert not problem(bias=np.zeros(72, np.float16)).is_plain
    assert not problem(c=np.zeros((64, 72), np.float16)).is_plain
    assert not problem(activation="gelu").is_plain


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("sizes", "schedule", "majors"),
    [
        ((300, 312, 136), "tile = (128,160,64), swap_ab = yes", "TN"),
        ((270, 464, 136), "tile = (128,152,64)", "TN"),
        ((400, 304, 72), "tile = (128,152,64), cluster = (2,1)", "TN"),
        ((300, 312, 136), "tile = (128,176,64), swap_ab = yes, cluster = (1,2)", "NT"),
    ],
)
def test_wide_tiles_in_turns_are_exact(sizes, schedule, majors):
    a, b = operands(sizes, ml_dtypes.bfloat16, majors)
    schedule += ", roles = alternate, raster = 2"
    got = cute.gemm(a, b, arch="sm_90a", backend="emulator", schedule=schedule)
    want = (a.astype(np.float64) @ b.astype(np.float64)).astype(got.dtype)
    assert np.array_equal(got.astype(np.float64), want.astype(np.float64))


def test_trees_are_asked_where_they_were_fitted():
    problem = Problem(1024, 1024, 1024, 1, 16, 16)
    assert is_timed(problem)
    for other in ({"batch": 7}, {"k": 0}, {"bits": 32, "out_bits": 32}, {"align": 4},
                  {"out_align": 2}, {"transposed": (True, False)}):  # fmt: skip
        assert not is_timed(replace(problem, **other))


def clusters_take(monkeypatch, more):
    """Trees by which clusters take so much more, in units of 1e-4, than CTAs alone, or less."""
    leaves = (0, more) if more else (3000, 0)
    trees = Trees(("ctas",), 1e-4, ((((0, 1.5),), leaves),))
    price = Price(**vars(gemm_price(usual_device("sm_90a"))) | {"trees": trees})
    monkeypatch.setattr(listed_schedules, "gemm_price", lambda device: price)


def test_of_near_schedules_the_one_with_the_least_error_is_chosen(monkeypatch):
    """Trees that expect all clusters to be slower leave none among those that are near."""
    problem = Problem(4096, 4096, 4096, 1, 16, 16)
    listed_schedules._ranking.cache_clear()
    try:
        clusters_take(monkeypatch, 3000)
        assert choose_schedule(problem).cluster == (1, 1)
        listed_schedules._ranking.cache_clear()
        clusters_take(monkeypatch, 0)
        assert choose_schedule(problem).cluster != (1, 1)
    finally:
        listed_schedules._ranking.cache_clear()


@pytest.mark.some(3)
@pytest.mark.parametrize("problem", [(4096, 4096, 4096), (512, 2048, 2048)])
@pytest.mark.parametrize("names", [("tile",), ("roles",), ("warps",), ("tile", "warps", "stages")])
@pytest.mark.parametrize("arch", ["sm_100a", "sm_90a"])
def test_what_names_the_default_is_the_default(problem, names, arch, monkeypatch) -> None:
    """A field that says what is chosen anyway takes nothing else away, such as CTA pairs."""
    # What another checkout of the same source has compiled names its files.
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    m, n, k = problem
    operands = cute.TensorSpec((m, k), "f16"), cute.TensorSpec((k, n), "f16", (1, k))
    default = cute.compile(cute.gemm, *operands, arch=arch)
    chosen = cute.Schedule.parse(default.schedule)
    assert chosen.ctas_of_cluster > 1
    given = cute.Schedule(**{name: getattr(chosen, name) for name in names})
    assert cute.compile(cute.gemm, *operands, arch=arch, schedule=given).ptx == default.ptx
    alone = cute.Schedule(tile=chosen.tile, cluster=(1, 1))
    other = cute.compile(cute.gemm, *operands, arch=arch, schedule=alone)
    assert cute.Schedule.parse(other.schedule).ctas_of_cluster == 1


def test_one_launch_reads_as_much_of_l2_as_its_problems_together():
    """Multiprocessors that one of two problems leaves to the other one compute meanwhile."""
    problem = Problem(128, 4096, 4096, 1, 16, 16)
    few = replace(problem, n=128)
    schedule = cute.Schedule.parse("tile = (128,128,64), cluster = (1,1), swap_ab = no")
    both = cycles(schedule, problem, few)
    assert both == cycles(schedule, few, problem)
    assert both < cycles(schedule, problem) + cycles(schedule, few)
