"""Matrix multiplies drawn by lot: some of them here, the same ones each time."""

import numpy as np
import pytest

from benchmarks import random_gemms
from cutedialect.backend import emulator


@pytest.mark.parametrize("number", [*range(3), *(pytest.param(n, marks=pytest.mark.long)
                                                  for n in range(3, 100))])  # fmt: skip
def test_blackwell(number):
    problem = random_gemms.draw(5, number)
    found, _ = random_gemms.outcome(problem)
    assert found.kind in ("right", "refused"), (problem.text, found)


def test_the_command_tells_what_it_drew(capsys):
    assert random_gemms.main(["--count", "2", "--seed", "3", "--target", "sm_100a"]) == 0
    assert "2 problems in" in capsys.readouterr().out


def test_a_kernel_that_stores_nothing_is_not_right(monkeypatch):
    original = emulator.launch

    def launch(ptx, entry, grid, block, arguments, *rest):
        given = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
        return original(ptx, entry, grid, block, given, *rest)

    monkeypatch.setattr(emulator, "launch", launch)
    problems = [random_gemms.draw(5, number) for number in range(2)]
    assert "right" not in {random_gemms.outcome(each)[0].kind for each in problems}
