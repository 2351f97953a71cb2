"""The figures of `python -m benchmarks.budgets`: counts keep their gates, times can be taken."""

import pytest

from benchmarks import budgets

GATES = {figure.__name__: gate for _, _, gate, figure in budgets.FIGURES}


@pytest.mark.parametrize("figure", [budgets.last_stage_ops, budgets.extra_wavefronts])
def test_counts(figure):
    assert figure() <= GATES[figure.__name__]


@pytest.mark.parametrize("figure", [budgets.compile_ms, budgets.emulated_seconds])
def test_times_are_taken(figure):
    assert figure() > 0
