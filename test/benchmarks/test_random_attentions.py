"""Attention drawn by lot: some problems here, the same ones each time."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import random_attentions
from cutedialect.backend import emulator


@pytest.mark.parametrize(
    "number",
    [*range(3), *(pytest.param(n, marks=pytest.mark.long) for n in range(3, 70))],
)
def test_blackwell(number):
    problem = random_attentions.draw(5, number)
    found, _ = random_attentions.outcome(problem)
    assert found.kind in ("right", "refused"), (problem.text, found)


def test_every_form_has_its_turn():
    drawn = [random_attentions.draw(1, number) for number in range(14)]
    assert [each.form for each in drawn] == [*random_attentions.FORMS] * 2
    assert all(random_attentions.operands_of(each).sequences for each in drawn)


@pytest.mark.parametrize(
    "number", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 24))]
)
def test_defaults_of_many_rows(number):
    """Extents that are not known are many: wide heads are multiplied in CTA pairs."""
    forms = ("plain", "causal")
    problem = random_attentions.draw(7, number, forms=forms, is_open=True)
    found, unit = random_attentions.outcome(problem)
    assert found.kind in ("right", "refused"), (problem.text, found)
    is_wide = problem.depths in ((256, 256), (192, 128))
    if is_wide and problem.dtype is not random_attentions.E4M3 and not problem.returns_lse:
        assert unit == "tcgen05 pair", problem.text


def test_calls_behind_one_of_open_extents_choose_by_theirs():
    problem = random_attentions.Problem(
        *(0, "sm_100a", "plain", random_attentions.BF16, (1, 1), (256, 256), ((130, 200),), 1.0),
        is_open=True,
    )
    alone = replace(problem, is_open=False)
    units = [random_attentions.outcome(each, runs=False)[1] for each in (alone, problem, alone)]
    assert units == ["tcgen05", "tcgen05 pair", "tcgen05"]


def test_a_result_that_is_off_is_wrong(monkeypatch):
    original = emulator.launch

    def launch(ptx, entry, grid, block, arguments, *rest):
        result = original(ptx, entry, grid, block, arguments, *rest)
        for each in arguments:
            if isinstance(each, np.ndarray) and each.ndim == 4:
                each *= each.dtype.type(1.25)
        return result

    monkeypatch.setattr(emulator, "launch", launch)
    problem = random_attentions.draw(5, 0)
    found, _ = random_attentions.outcome(problem)
    assert found.kind == "wrong"
    assert "expected errors of at most" in found.reason


def test_the_command_tells_what_it_drew(capsys):
    assert random_attentions.main(["--count", "1", "--seed", "3", "--dry"]) == 0
    assert "1 problems in" in capsys.readouterr().out
    command = ["--count", "1", "--form", "causal", "--open", "--dry", "--target", "sm_103a"]
    assert random_attentions.main(command) == 0
    assert "1 by tcgen05" in capsys.readouterr().out
