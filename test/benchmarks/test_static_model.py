"""What the static model is told of a case's launch."""

from __future__ import annotations

import pytest

from benchmarks.gemm_case import Gemm
from benchmarks.static_model import arguments_of


@pytest.mark.parametrize("swap", ["no", "yes"])
def test_a_product_that_is_computed_transposed_has_its_operands_turned(swap):
    case = Gemm("drawn", "bf16", (64, 1024, 512))
    kernel = case.compiled(f"swap_ab = {swap}", "sm_90a")
    found = dict(
        zip((each.name for each in kernel.signature.parameters), arguments_of(case, kernel),
            strict=True)
    )  # fmt: skip
    plain = {
        "A": ((64, 512), (512, 1)),
        "B": ((512, 1024), (1, 512)),
        "D": ((64, 1024), (1024, 1)),
    }
    turned = {
        "A": ((1024, 512), (512, 1)),
        "B": ((512, 64), (1, 512)),
        "D": ((1024, 64), (1, 1024)),
    }
    assert {name: found[name] for name in "ABD"} == (turned if swap == "yes" else plain)
