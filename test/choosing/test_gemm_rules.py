"""Rules of candidates of products: each decides something of some problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cutedialect.atoms import usual_device
from cutedialect.choosing import gemm_schedules
from cutedialect.choosing.gemm_problem import Problem
from cutedialect.choosing.gemm_schedules import GEMM_SPACE
from cutedialect.choosing.need import NONE
from cutedialect.choosing.price import load, table_of
from cutedialect.schedule import Schedule

B200 = usual_device("sm_100a")
PLAIN = Problem(4096, 4096, 4096, 1, 16, 16)
THIN = replace(PLAIN, m=64)
WORDS = replace(PLAIN, bits=32, out_bits=32)
BYTES = replace(PLAIN, bits=8)
SCALED = replace(BYTES, most_values=64, blocks=(0, 128, 128), may_shift=False, promotes=True)
WEIGHTS = replace(PLAIN, m=256, weight_bits=4, packed=True)
TENSOR = replace(PLAIN, device=B200)
PANELS = replace(BYTES, device=B200, scaled=32)
PROBLEMS = (
    PLAIN,
    THIN,
    WORDS,
    SCALED,
    WEIGHTS,
    TENSOR,
    PANELS,
    replace(PLAIN, m=8192, n=2048, k=8192),
    replace(PLAIN, m=65536, n=1000, k=1024),
    replace(PLAIN, m=400, n=304, k=136),
    replace(PLAIN, batch=16, m=1000, n=200, k=64),
    replace(PLAIN, batch=300, m=336, n=368, k=128),
    replace(THIN, align=8),
    replace(PLAIN, align=2, out_align=2, n=1000),
    replace(PLAIN, out_align=2, n=1000),
    replace(PLAIN, m=48, n=576, k=7168),
    replace(PLAIN, m=8, n=8, k=6000),
    replace(PLAIN, m=72, n=1, k=1),
    replace(PLAIN, m=64, n=1, k=4096),
    replace(PLAIN, m=200, may_swap=False),
    replace(WORDS, transposed=(True, True), across=(True, True), m=300),
    replace(BYTES, transposed=(True, True), across=(True, True), m=40, n=72),
    replace(SCALED, blocks=(128, 128, 128), m=16),
    replace(SCALED, m=64, n=24576, k=1536),
    replace(WEIGHTS, m=16),
    replace(WEIGHTS, n=5120, most_values=64, blocks=(0, 0, 128), may_shift=False),
    replace(TENSOR, m=16),
    replace(TENSOR, m=16, n=4096, k=16384),
    replace(TENSOR, m=100, n=40),
    replace(WORDS, device=B200, across=(True, True), m=16, n=20),
    replace(PANELS, m=16),
    replace(PLAIN, m=72, n=136, k=1),
    replace(PLAIN, m=1000, n=20000, align=8),
    replace(SCALED, m=8192, n=1280),
    replace(PLAIN, batch=8, m=2048, n=1000),
    replace(TENSOR, m=200, n=40),
    replace(TENSOR, m=1000),
    replace(PLAIN, m=3136, n=512, k=2304, may_swap=False, tap=256),
    replace(PLAIN, m=3136, n=64, k=576, may_swap=False, tap=64),
    replace(PLAIN, m=256, n=512, k=1568, across=(True, True), may_swap=False, tap=-1),
)


def listed() -> list[tuple[str, int]]:
    """The tables of rules, and the numbers of their rows."""
    rules = table_of("gemm-candidates")
    counts = {name: len(rules[name]) for name in ("room", "more", "unfit", "pixels", "fields")}
    counts |= {
        f"{kind}.never": len(rules[kind]["never"]) for kind in ("listed", "fitted", "tensor")
    }
    return [(name, number) for name, count in counts.items() for number in range(count)]


def ranked(problem: Problem) -> list[str]:
    gemm_schedules._ranking.cache_clear()
    try:
        return [each.text() for each in GEMM_SPACE.ranked((problem,), None, NONE)]
    finally:
        gemm_schedules._ranking.cache_clear()


@pytest.fixture(scope="module")
def known() -> list[list[str]]:
    return [ranked(problem) for problem in PROBLEMS]


@pytest.mark.parametrize(("table", "number"), listed(), ids=str)
def test_each_rule_changes_what_is_compared(table, number, known, monkeypatch):
    rules = table_of("gemm-candidates")
    kind, _, name = table.rpartition(".")
    rows = (rules[kind] if kind else rules)[name]
    assert rows[number]["why"]
    monkeypatch.setitem(rows[number], "when", {"rows": -1})
    others = (ranked(problem) for problem in PROBLEMS)
    assert any(one != other for one, other in zip(known, others, strict=True))


def test_margins_and_variants_name_facts():
    from cutedialect.choosing.gemm_price import estimated, facts_of

    (f,) = facts_of(gemm_schedules.gemm_schedules(16)[0], PLAIN)
    f["cycles"] = estimated([f])
    rows = [*table_of("gemm-candidates")["variants"], *load("gemm", "h100").margins]
    assert all(f.hold(row["when"]).shape == (1,) for row in rows)


def test_small_tiles_of_scaled_sums_are_for_one_round():
    """Two of them for a multiprocessor take longer than one of 64 x 128."""
    facts = {"bits": 8, "blocks": (0, 128, 128), "promotes": True, "most_values": 96}
    for m, n, k, tile in ((152, 5120, 5120, (64, 128, 128)), (288, 1536, 7168, (64, 64, 128))):
        problem = replace(PLAIN, m=m, n=n, k=k, align=16, pitches=(128, 128), **facts)
        assert next(GEMM_SPACE.ranked((problem,), None, NONE)).tile == tile


def test_ctas_that_share_a_tile_keep_short_rings():
    """No more than 195 KB of shared memory; another tile leaves them open."""
    problem = replace(PLAIN, m=72, n=2112, k=7168)
    (schedule, *_) = GEMM_SPACE.ranked((problem,), None, NONE)
    assert schedule.reduction == "cluster"
    assert GEMM_SPACE.need((problem,), schedule).smem < 195 << 10
    assert (
        GEMM_SPACE.need((problem,), replace(schedule, stages=schedule.stages + 1)).smem > 195 << 10
    )
    for text, is_open in (("raster = 2", False), ("tile = (64,72,64)", True)):
        (given, *_) = GEMM_SPACE.ranked((problem,), Schedule.parse(text), NONE)
        assert (given.stages is None) == is_open
    (same, *_) = GEMM_SPACE.ranked((problem,), Schedule(tile=schedule.tile), NONE)
    assert same.stages == schedule.stages


def test_early_launches_end_sooner_where_memory_is_waited_for():
    """Of the same estimate, products by many columns and few rows start late."""
    from cutedialect.choosing.gemm_price import facts_of

    tile = Schedule.parse("tile = (64,8,128), cluster = (1,1)")
    early = []
    for m, n, k in ((2, 6144, 4096), (1024, 1024, 1024)):
        (f,) = facts_of(tile, replace(PLAIN, m=m, n=n, k=k))
        f["cycles"] = np.array([55000.0])
        early.append(f["early"].item())
    assert early == [False, True]
