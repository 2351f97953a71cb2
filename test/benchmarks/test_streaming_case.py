"""Errors of streaming rows."""

import pytest

from benchmarks.streaming_case import Arrays, Streaming


def test_infinities_of_both_are_no_deviation():
    """The logarithm of the gamma function is infinite at 0."""
    torch = pytest.importorskip("torch")
    x = torch.tensor([[0.0, 0.5, 2.5, torch.nan]])
    case = Streaming("others", "bf16", "log-gammas", (1, 4))
    operands = Arrays((x,), (torch.lgamma(x),), ())
    exact = case.exact(torch, operands)
    assert case.errors(torch, operands, exact) == case.allowance(torch, operands, exact) == (1e-6,)
    for wrong in (torch.nan, torch.inf, -torch.inf, 3.0):
        for place in range(4):
            y = operands.outputs[0].clone()
            y[0, place] = wrong
            (error,) = case.errors(torch, Arrays((x,), (y,), ()), exact)
            is_same = (place, wrong) == (0, torch.inf) or (place == 3 and wrong is torch.nan)
            assert (error <= 1e-6) == is_same
