"""The example of attention, with functions of its own and without, for both kinds of multiply."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

import cutedialect as cute

_SPEC = importlib.util.spec_from_file_location(
    "example_attention", Path(__file__).parents[2] / "examples" / "attention.py"
)
EXAMPLE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(EXAMPLE)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("edited", [False, True])
def test_the_example(edited, arch):
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((1, 2, 137, 64)).astype(np.float16) for _ in range(3))
    out = np.empty_like(q)
    options = {"score": EXAMPLE.alibi, "mask": EXAMPLE.documents} if edited else {}
    options |= {"arch": arch, "backend": "emulator"}
    scale = math.log2(math.e) / math.sqrt(64)
    EXAMPLE.attention(q, k, v, out, scale, **options)
    assert np.abs(out - EXAMPLE.reference(q, k, v, edited)).max() < 3e-3
    kernel = cute.compile(EXAMPLE.attention, q, k, v, out, scale, **options)
    assert kernel.resources.spills == 0


def test_it_says_whether_its_results_are_right(capsys):
    assert EXAMPLE.main() == 0
    assert "documents" in capsys.readouterr().out
