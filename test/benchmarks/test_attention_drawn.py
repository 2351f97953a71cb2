"""The problems of attention that a seed draws, the scores that they have, and their table, with a
worker that the test plays.
"""

import json
import random

import numpy as np
import pytest

import cutedialect as cute
from benchmarks import attention
from benchmarks.attention_case import CUDNN, Attention
from benchmarks.attention_draws import ACCURACY, STRATA, drawn
from benchmarks.attention_values import VALUES
from benchmarks.cases import case_of, described
from benchmarks.contenders import OURS, make_contenders
from benchmarks.measurement import measure
from benchmarks.rows import row_of
from benchmarks.timing import Plan


class FakeSupervisor:
    """Yardsticks take 1 ms; ours takes `ours(case, schedule)` ms, and errs like `error` says."""

    machine = {"device": "H100"}

    def __init__(self, ours, error=1.0):
        self.ours, self.error = ours, error

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def ask(self, request, hear=lambda what: None):
        if request.get("copy"):
            return {"bytes_per_second": 3e12}
        case = case_of(json.loads(json.dumps(request["case"])))
        times = {name: self.ours(case, each) for name, each in request["schedules"].items()}
        results = [
            {"name": name, "ms": [] if case.draws else [one] * 4,
             "errors": [1.0 if name in case.yardsticks else self.error] * (3 if case.draws else 2),
             "later_errors": [], "allowance": [], "failure": None, "launches": 1,
             "captured": True, "started": 0, "stopped": 0}
            for name, one in (dict.fromkeys(case.yardsticks, 1.0) | times).items()
        ]  # fmt: skip
        return {"results": results, "resources": {}}


def test_a_seed_is_one_list_and_seeds_differ():
    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)
    for seed in random.Random(1).sample(range(10**6), 3):
        cases = drawn(seed)
        assert len({case.name for case in cases}) == len(cases)
        for case in cases:
            assert case_of(json.loads(json.dumps(described(case)))) == case
        inside = {
            section: [case for case in cases if case.section == section]
            for section in (*(stratum.section for stratum in STRATA), ACCURACY)
        }
        for stratum in STRATA:
            # Two draws may meet in one problem, but seldom.
            assert 0.8 * stratum.count <= len(inside[stratum.section]) <= stratum.count
        scores = inside["scores"]
        assert {case.values for case in scores} == set(VALUES)
        assert {case.depth for case in scores} == {64, 96, 128, 192, 256}
        assert {case.causal for case in scores} == {False, True}
        short = inside["short"]
        assert max(case.rows for case in short) <= 1024
        assert any(case.packed for case in short)
        assert any(case.window for case in short)
        assert any(case.group > 1 for case in short)
        assert all(case.draws for case in inside[ACCURACY])


@pytest.mark.parametrize("values", VALUES)
def test_scores_are_distributed_as_their_name_says(torch, values):
    case = Attention("d", "f16", 2, (2, 2), 400, 400, 64, values=values, size=8.0)
    made = case.make_operands(torch, 0)
    q, k = (each.array.astype(np.float64) for each in (made.q, made.k))
    scores = q @ k.swapaxes(-1, -2) / 8
    half = scores[..., :200].std(), scores[..., 200:].std()
    if values == "normal":
        assert scores.std() == pytest.approx(8, rel=0.1)
    elif values in ("drift", "rise"):
        assert half[1] > 1.7 * half[0]
    else:
        places = slice(0, 4) if values == "sink" else slice(360, 361)
        others = np.delete(scores, np.r_[places], -1)
        assert scores[..., places].mean() == pytest.approx(8, rel=0.3)
        assert abs(others.mean()) < 0.5


@pytest.mark.parametrize(
    ("ours", "code"),
    [
        (lambda case, schedule: 0.7, 0),
        (lambda case, schedule: 1.0, 1),
        (lambda case, schedule: 0.7 if schedule != "maxima = lazy" else 0.65, 1),
    ],
)
def test_the_table_judges_all_rows_together(capsys, tmp_path, ours, code):
    file = tmp_path / "rows.json"
    arguments = ["--seed", "5", "--scale", "0.2", "--check", "--json", str(file)]
    arguments += ["--only", "scores|short|accuracy"]
    assert attention.main(arguments, FakeSupervisor(ours)) == code
    printed = capsys.readouterr().out
    assert "scores: geometric mean" in printed
    assert "below 0.96 of the best way" in printed
    assert "accuracy: 4 problems" in printed
    assert printed.rstrip().endswith("seed 5")
    assert len(json.loads(file.read_text())["results"]) == 20


@pytest.mark.parametrize(("error", "right"), [(1.29, True), (1.31, False)])
def test_errors_that_are_pooled_are_judged_by_both_figures(error, right):
    case = next(case for case in drawn(0) if case.draws)
    answer = FakeSupervisor(lambda case, schedule: 1.0, error).ask(
        {"case": described(case), "schedules": {OURS: None}}
    )
    row = row_of(case, answer)
    assert row.right is right
    assert row.passed is right
    assert row.pooled == (error, error, error)


def test_errors_of_all_draws_count(torch, device, attended, monkeypatch):
    """The largest of one draw, and the mean of all."""
    wrong = iter([0.0, 0.25, 0.0])

    def ours(q, k, v, *, out, **options):
        for one in range(len(q.array)):
            exact = attended(q.array[one], k.array[one], v.array[one], False)
            out.array[one] = (exact + next(wrong)).astype(out.array.dtype)

    monkeypatch.setattr(cute, "attention", ours)
    case = Attention("d", "f16", 1, (2, 2), 70, 70, 16, against=(CUDNN,), draws=3)
    makers = make_contenders(torch, case, {OURS: None}, peers=False)
    results = {each.name: each for each in measure(torch, case, makers, Plan())}
    largest, mean, units = results[OURS].errors
    assert largest == pytest.approx(0.25, rel=0.01)
    assert mean == pytest.approx(0.25 / 3, rel=0.05)
    assert units > 100
    largest, mean, units = results[CUDNN].errors
    assert largest < 1e-3
    assert units <= 0.5
    assert mean < largest
