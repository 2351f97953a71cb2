"""The model of attention's errors computes what the kernel does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from benchmarks.accuracy_model import (
    Plan,
    Sample,
    attended,
    errors,
    exact,
    plan_of,
    samples,
)
from benchmarks.attention_draws import ACCURACY, drawn

torch = pytest.importorskip("torch")
ROWS = 192


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_model_has_the_bits_of_the_kernel(dtype):
    """Hardly an element differs, by the order in which products are added up; with sums of other
    trees many do.
    """
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn((1, ROWS, 96), generator=generator) for _ in range(3))
    q, k, v = (each.to(getattr(torch, dtype)) for each in (q * 3, k, v))
    sample = Sample(torch.arange(ROWS), q, k, v, True)
    options: Any = {"arch": "sm_90a", "backend": "emulator", "schedule": "tile = (128,64)"}
    given = [each[None].float().numpy().astype(cute.bf16.numpy if dtype == "bfloat16" else "f2")
             for each in (q, k, v)]  # fmt: skip
    found = cute.attention(*given, causal=True, **options)[0].astype(np.float32)
    plan = Plan(128, 64, "guessed", (2, 1))
    differing = {
        packed: float((attended(torch, sample, replace(plan, packed=packed)).float().numpy()
                       != found).mean())
        for packed in ((2, 1), (8, 8))
    }  # fmt: skip
    assert differing[2, 1] < 0.003
    assert differing[8, 8] > 10 * differing[2, 1]


def test_draws_have_the_plans_of_the_kernels_and_small_errors():
    case = next(each for each in drawn(2313) if each.section == ACCURACY and each.depth == 96)
    case = replace(case, draws=1, batch=1, heads=(1, 1), rows=128, keys=128)
    (sample,) = samples(torch, case, 0)
    wanted = exact(torch, sample)
    found = attended(torch, sample, plan_of(case))
    largest, mean, units = errors([found], [wanted])
    assert mean < largest < 0.05
    assert units < 2
