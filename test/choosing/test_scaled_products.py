"""What is chosen on sm_90a for products whose scales of blocks threads multiply and add up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutedialect.atoms import DEVICES
from cutedialect.choosing.choose import choose
from cutedialect.choosing.gemm_price import facts_of
from cutedialect.choosing.gemm_problem import Problem
from cutedialect.choosing.gemm_schedules import GEMM_SPACE
from cutedialect.choosing.need import NONE
from cutedialect.schedule import Schedule

SCALED = Problem(
    1024, 4096, 4096, 1, 8, 16, most_values=96, blocks=(0, 128, 128), may_shift=False, promotes=True
)


def device_named(name: str):
    return next(device for device in DEVICES if device.name == name)


def test_few_sums_are_added_up_beside_multiplies():
    """Many take as long as another warpgroup multiplies."""
    for m, n, k in ((8192, 8192, 8192), (2048, 7168, 2048), (16, 4096, 7168), (1, 512, 512)):
        problem = replace(SCALED, m=m, n=n, k=k)
        for schedule in GEMM_SPACE.ranked((problem,), None, NONE):
            values = facts_of(schedule, problem)[0]["values"].item()
            assert (schedule.unroll == 2) == (schedule.overlap == "yes") == (values <= 32)
    plain = choose(GEMM_SPACE, (replace(SCALED, promotes=False, blocks=(0, 0, 0)),))
    assert (plain.overlap, plain.unroll) == (None, None)


def test_packed_weights_become_wider_beside_multiplies_of_many_columns():
    weights = Problem(256, 28672, 4096, 1, 16, 16, may_shift=False, weight_bits=4)
    assert choose(GEMM_SPACE, (weights,)).unroll == 2
    # Tiles of 8192 columns of weights are 128 x 128.
    for other in ({"m": 16}, {"weight_bits": 8}, {"blocks": (0, 0, 128)}, {"n": 8192}):
        assert choose(GEMM_SPACE, (replace(weights, **other),)).unroll is None
    of_bytes = replace(weights, weight_bits=8, packed=True)
    for m, unroll in ((128, None), (256, 2), (4096, None)):
        assert choose(GEMM_SPACE, (replace(of_bytes, m=m),)).unroll == unroll


@pytest.mark.parametrize("size", [(4096, 4096, 4096), (4096, 1280, 8192), (4096, 8192, 8192)])
def test_groups_of_weights_are_a_step_each(size):
    """A step's product is multiplied by the scales of a group, and added up: two steps of a group
    had 0.49 to 0.65 of the speed of cuBLAS by bf16, one 0.80 to 0.89 (an H200).
    """
    m, n, k = size
    weights = Problem(m, n, k, 1, 16, 16, most_values=64, blocks=(0, 0, 128), may_shift=False)
    weights = replace(weights, weight_bits=4, packed=True, is_plain=False)
    chosen = choose(GEMM_SPACE, (weights,))
    assert chosen.tile is not None
    assert chosen.tile[2] == 128
    assert chosen.swap_ab == "yes"


# Microseconds on an H200 by size: of tiles of the product as it is, and of the transposed product.
TIMED = {
    (1192, 25600, 5120): ({(192, 128): 284, (128, 128): 327}, {(128, 176): 398}),
    (2816, 4096, 4096): ({(192, 128): 77, (128, 128): 87}, {(128, 176): 108}),
    (1024, 8192, 8192): ({(192, 128): 120, (128, 128): 119}, {(128, 176): 167}),
    (352, 10240, 8192): ({(128, 128): 57}, {(128, 120): 70}),
}


@pytest.mark.parametrize("size", TIMED)
def test_scales_of_many_columns_take_longer_than_those_of_rows(size):
    m, n, k = size
    plain, transposed = TIMED[size]
    chosen = choose(GEMM_SPACE, (replace(SCALED, m=m, n=n, k=k),))
    assert min(plain.values()) < min(transposed.values())
    assert chosen.swap_ab == "no"
    assert chosen.tile is not None
    assert chosen.tile[:2] in plain


@pytest.mark.parametrize("size", [(2048, 7168, 2048), (256, 7168, 2048), (128, 7168, 16384)])
def test_wide_products_stay_as_they_are(size):
    """Transposed ones took 1.3 to 1.5 times as long (an H200)."""
    m, n, k = size
    assert choose(GEMM_SPACE, (replace(SCALED, m=m, n=n, k=k),)).swap_ab == "no"


def test_deep_products_of_few_rows_share_tiles_in_clusters():
    problem = replace(SCALED, m=128, n=7168, k=16384, device=device_named("H200"))
    chosen = choose(GEMM_SPACE, (problem,))
    assert (chosen.tile, chosen.split_k, chosen.reduction) == ((128, 128, 128), 2, "cluster")


def test_few_steps_are_computed_at_once():
    """By three CTAs of a multiprocessor, where two of three have tiles or more."""
    problem = replace(SCALED, m=64, n=24576, k=1536, device=device_named("H200"))
    chosen = choose(GEMM_SPACE, (problem,))
    assert (chosen.ctas, chosen.scheduler, chosen.early_launch) == (3, "single", "yes")
    assert chosen.plan.teams == 1
    for other in ({"k": 4096}, {"n": 30000}, {"n": 7168}):
        assert choose(GEMM_SPACE, (replace(problem, **other),)).ctas is None


def test_four_warpgroups_share_tall_tiles_of_short_weights():
    weights = Problem(16, 28672, 8192, 1, 16, 16, may_shift=False, weight_bits=4)
    groups = replace(weights, m=40, blocks=(0, 0, 128), most_values=64)
    for problem in (weights, groups):
        found = choose(GEMM_SPACE, (problem,))
        assert (found.tile[0], found.warps, found.registers) == (256, (16, 1), (24, 112))
    for other in (
        replace(weights, m=40), replace(weights, weight_bits=8), replace(groups, m=256)
    ):  # fmt: skip
        assert choose(GEMM_SPACE, (other,)).warps is None
    given = Schedule.parse("warps = (8,1)")
    assert choose(GEMM_SPACE, (weights,), given).registers is None
