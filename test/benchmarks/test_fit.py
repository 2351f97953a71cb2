"""Price files: fitted to made-up timings whose error is known."""

from __future__ import annotations

import json
import math
import random
from itertools import islice

import numpy as np
import pytest

from benchmarks import fit
from benchmarks.fit import Timings, Trees, fitted_constants, problem_of
from benchmarks.fit_timings import KEPT, read
from cutedialect.atoms import usual_device
from cutedialect.choosing import price
from cutedialect.choosing.gemm_price import Facts, cycles, estimated, gemm_price
from cutedialect.choosing.gemm_problem import tiles_of
from cutedialect.choosing.gemm_schedules import GEMM_SPACE, gemm_schedules
from cutedialect.choosing.need import NONE

H100 = gemm_price(usual_device("sm_90a"))


def made_up(seed, error, count=60):
    """Timings: estimates, off by what `error` says of a schedule and a problem."""
    rng = random.Random(seed)
    records = []
    for _ in range(count):
        sizes = [8 * round(math.exp(rng.uniform(3, 6.5))) for _ in range(3)]
        name = f"{'x'.join(map(str, sizes))} bf16 TN"
        problem = problem_of(name)
        ranked = list(islice(GEMM_SPACE.ranked((problem,), None, NONE), 30))
        for schedule in rng.sample(ranked, 12):
            us = (
                cycles(schedule, problem) * error(schedule, problem) * rng.uniform(0.99, 1.01) / 1e3
            )
            records.append({"case": name, "schedule": schedule.text(), "us": us})
    return records


CLUSTERS = made_up(5, lambda schedule, _: 1.3 if schedule.cluster != (1, 1) else 1.0)


@pytest.fixture(scope="module")
def timings():
    return Timings(CLUSTERS, H100)


def test_what_estimates_miss_is_found_on_other_problems(timings):
    before = timings.longer(timings.estimates)
    after = timings.longer(timings.estimates + timings.predicted_apart(24))
    assert before > 1.03
    assert after - 1 < (before - 1) / 3


def test_a_share_that_all_schedules_of_a_problem_have_is_no_error():
    alike = Timings(made_up(6, lambda _, problem: 1 + problem.m % 7), H100)
    trees = Trees.fitted(alike, np.ones(len(alike.times), bool), 8)
    assert np.abs(trees.predicted(alike.facts)).max() < 0.02


def test_a_constant_that_is_off_is_found(monkeypatch):
    """Clusters take 1.3 times as long as the constant for them says."""
    monkeypatch.setattr(fit, "_places", lambda constants: [("cluster",)])
    few = Timings(CLUSTERS[:240], H100)
    start = price.table_of("gemm-h100")["constants"]
    constants = fitted_constants(few, start)
    assert constants["cluster"] / start["cluster"] == pytest.approx(1.3, rel=0.12)


def test_the_same_timings_give_the_same_file_that_the_package_reads(monkeypatch, tmp_path):
    monkeypatch.setattr(fit, "_places", lambda constants: [("cluster",)])
    said = []
    text = fit.fitted_file("gemm", "h100", CLUSTERS[:240], 6, said.append, True)
    assert text == fit.fitted_file("gemm", "h100", CLUSTERS[:240], 6, said.append, True)
    shipped = price.FOLDER
    monkeypatch.setattr(price, "FOLDER", tmp_path)
    (tmp_path / "gemm-h100.json").write_text(text, "utf-8")
    # Fitted again, it begins where it began.
    assert text == fit.fitted_file("gemm", "h100", CLUSTERS[:240], 6, said.append, True)
    price.table_of.cache_clear()
    read = price.load("gemm", "h100")
    price.table_of.cache_clear()
    assert read.timings["count"] == 240
    assert (
        json.loads(text)["start"]
        == json.loads((shipped / "gemm-h100.json").read_text("utf-8"))["constants"]
    )
    problem = problem_of("1024x2048x512 bf16 TN")
    tiles = tiles_of(*gemm_schedules(16)[:30])
    estimates = estimated([Facts(tiles, problem, H100)])
    facts = Facts(tiles, problem, H100, cycles=estimates)
    trees = Trees(
        [[tuple(split) for split in splits] for splits, _ in read.trees.rows],
        [read.trees.unit * np.array(leaves) for _, leaves in read.trees.rows],
    )
    rows = np.array([facts.each(name) for name in read.trees.facts], float).T
    assert read.trees.sums(facts) == pytest.approx(trees.predicted(rows))
    assert any(read.trees.sums(facts))


def test_a_new_device_begins_with_what_is_scaled_for_it(monkeypatch):
    monkeypatch.setattr(fit, "_places", lambda constants: [])
    made = json.loads(fit.fitted_file("gemm", "h200", CLUSTERS[:240], 1, lambda told: None, False))
    known = price.table_of("gemm-h100")["constants"]
    grown = made["start"]["memory_bytes"] / known["memory_bytes"]
    assert grown == pytest.approx(4.8 / 3.35, rel=1e-3)
    assert made["start"].keys() == known.keys()
    assert made["start"]["column"] == known["column"]


@pytest.mark.long
def test_the_shipped_file_follows_from_what_is_kept():
    """`python -m benchmarks.fit --space gemm --device b200 --constants --write` makes it anew."""
    records = read(KEPT, "gemm-b200")
    text = fit.fitted_file("gemm", "b200", records, fit._TREES, lambda told: None, True)
    shipped = (price.FOLDER / "gemm-b200.json").read_text("utf-8")
    made, known = json.loads(text), json.loads(shipped)
    assert made | {"source": known["source"]} == known
    assert sum(path.stat().st_size for path in KEPT.iterdir()) < 5 << 20


def test_without_timings_the_command_says_how_they_are_taken(capsys):
    assert fit.main(["--space", "gemm", "--device", "none"]) == 1
    assert "take them on a device with --measure" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "sizes"),
    [("4096^3 e4m3 TN", (4096, 4096, 4096)), ("24x72x40 bf16 NT", (24, 72, 40))],
)
def test_a_problem_is_found_by_its_name(name, sizes):
    problem = problem_of(name)
    assert (problem.m, problem.n, problem.k) == sizes
    assert problem.bits == (8 if "e4m3" in name else 16)
    assert problem.across == (("NT" in name),) * 2
