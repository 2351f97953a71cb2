"""Attention drawn by lot: some problems here, the same ones each time."""

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
