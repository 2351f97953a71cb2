"""The figures of `python -m benchmarks.budgets`: counts keep their gates, times can be taken."""

import pytest

from benchmarks import budgets

GATES = {figure.__name__: gate for _, _, gate, _, figure in budgets.FIGURES}


@pytest.mark.some(1)
@pytest.mark.parametrize("figure", [budgets.last_stage_ops, budgets.extra_wavefronts])
def test_counts(figure):
    assert figure() <= GATES[figure.__name__]


@pytest.mark.parametrize("figure", [budgets.compile_ms, budgets.emulated_seconds])
def test_times_are_taken(figure):
    assert figure() > 0


def test_attention_is_compiled_for_its_figures():
    assert 300 < budgets.last_stage_attention_ops() < 2500


@pytest.mark.parametrize("script", [budgets._COLD_ATTENTION, budgets._COLD_BLACKWELL])
def test_scripts_print_milliseconds(script, capsys):
    exec(script, {})
    assert float(capsys.readouterr().out) > 0
