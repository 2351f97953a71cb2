"""Operands on their way drawn by lot: some of them here, the same ones each time."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import random_operands
from benchmarks.operand_draws import FORMS

ALL = random_operands.TARGETS


@pytest.mark.parametrize("number", [*range(4), *(pytest.param(n, marks=pytest.mark.long)
                                                  for n in range(4, 100))])  # fmt: skip
def test_results(number):
    target, problem = random_operands.draw(35, number, ALL, tuple(FORMS))
    found, _ = random_operands.outcome(target, problem, (), True)
    assert found.kind in ("right", "refused"), (problem.text, found)


def test_another_result_is_wrong():
    target, problem = random_operands.draw(35, 0, ALL, ("weights",))
    other = replace(problem, want=problem.want + np.eye(*problem.want.shape))
    found, _ = random_operands.outcome(target, other, (), True)
    assert found.kind == "wrong"
    assert "first at (0, 0)" in found.reason


def test_every_form_compiles_for_blackwell():
    for form in FORMS:
        target, problem = random_operands.draw(36, 1, ("sm_100a",), (form,))
        found, unit = random_operands.outcome(target, problem, (), False)
        assert (found.kind, unit) == ("right", "tcgen05"), (form, found)
