"""Trees for what estimates miss: fitted to made-up timings whose error is known."""

from __future__ import annotations

import json
import math
import random

import numpy as np
import pytest

from benchmarks.residues import Timings, Trees, problem_of
from cutedialect.choosing import gemm_estimate
from cutedialect.choosing.gemm_estimate import cycles
from cutedialect.choosing.gemm_schedules import completed, gemm_schedules


def made_up(seed: int, error) -> list[str]:
    """Lines of timings: estimates, off by what `error` says of a schedule and a problem."""
    rng = random.Random(seed)
    lines: list[str] = []
    for _ in range(60):
        sizes = [8 * round(math.exp(rng.uniform(3, 6.5))) for _ in range(3)]
        name = f"{'x'.join(map(str, sizes))} bf16 TN"
        problem = problem_of(name)
        fitting = [each for each in gemm_schedules(16) if problem.takes(each)]
        for listed in rng.sample(fitting, 12):
            schedule = completed(listed, problem, cycles(listed, problem))
            us = cycles(listed, problem) * error(schedule, problem) * rng.uniform(0.99, 1.01) / 1e3
            lines.append(json.dumps({"case": name, "schedule": schedule.text(), "us": us}))
    return lines


@pytest.fixture(scope="module")
def timings() -> Timings:
    return Timings(made_up(5, lambda schedule, _: 1.3 if schedule.cluster != (1, 1) else 1.0))


def test_what_estimates_miss_is_found_on_other_problems(timings):
    before = timings.longer(timings.estimates)
    after = timings.longer(timings.estimates + timings.predicted_apart(24))
    assert before > 1.03
    assert after - 1 < (before - 1) / 3


def test_a_share_that_all_schedules_of_a_problem_have_is_no_error():
    alike = Timings(made_up(6, lambda _, problem: 1 + problem.m % 7))
    trees = Trees.fitted(alike, np.ones(len(alike.times), bool), 8)
    assert np.abs(trees.predicted(alike.facts)).max() < 0.02


def test_the_package_reads_what_is_written(timings, monkeypatch):
    trees = Trees.fitted(timings, np.ones(len(timings.times), bool), 6)
    module: dict[str, object] = {}
    text = trees.text(timings, 1.01)
    assert max(map(len, text.splitlines())) <= 100
    exec(text, module)
    monkeypatch.setattr(gemm_estimate, "TREES", module["TREES"])
    monkeypatch.setattr(gemm_estimate, "LEAF_UNIT", module["LEAF_UNIT"])
    problem = problem_of("1024x2048x512 bf16 TN")
    for listed in gemm_schedules(16)[:30]:
        estimate = cycles(listed, problem)
        facts = np.array([gemm_estimate.facts_of(listed, problem, estimate)], float)
        found = gemm_estimate.residue(listed, problem, estimate)
        assert found == pytest.approx(float(trees.predicted(facts)[0]), abs=6 * 1e-4)
    assert gemm_estimate.residue(gemm_schedules(16)[0], problem, 1e5) != 0


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("4096^3 e4m3 TN", (4096, 4096, 4096)), ("24x72x40 bf16 NT", (24, 72, 40))],
)
def test_a_problem_is_found_by_its_name(name, sizes):
    problem = problem_of(name)
    assert (problem.m, problem.n, problem.k) == sizes
    assert problem.bits == (8 if "e4m3" in name else 16)
    assert problem.across == (("NT" in name),) * 2
