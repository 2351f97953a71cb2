"""Kernels of tables and examples are proved: none is refused, nothing is undecided of one, and some
case enters each body that some input does.
"""

import runpy
from pathlib import Path

import pytest

from benchmarks.cases import CASES, EXTRAS
from cutedialect.passes.protocol import check_protocol

EXAMPLES = Path(__file__).parents[3] / "examples"
TARGETS = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
TABLES = [(arch, case) for arch in TARGETS for case in (*CASES, *EXTRAS)]


@pytest.fixture
def verdicts(monkeypatch):
    """What the check says of each kernel that a test compiles, a string each."""
    says, check = [], check_protocol.verdict_of

    def verdict_of(kernel):
        try:
            verdict = check(kernel)
        except check_protocol.Undecided as undecided:
            says.append(f"undecided: {undecided}")
            raise
        says.extend(finding.text() for finding in verdict.findings)
        says.extend(f"no case enters {op.name}" for op in verdict.missed)
        says.extend(f"{op.name} with {case} is not run to its end" for op, case in verdict.unended)
        says.append("checked")
        return verdict

    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    monkeypatch.setattr(check_protocol, "verdict_of", verdict_of)
    return says


@pytest.mark.some(2)
@pytest.mark.parametrize(("arch", "case"), TABLES)
def test_a_kernel_of_a_table_is_proved(arch, case, verdicts):
    if arch == "sm_80" and case.dtype == "e4m3":
        pytest.skip("no multiplies of 8-bit floats")
    case.compiled(None, arch)
    assert set(verdicts) <= {"checked"}


@pytest.mark.long
@pytest.mark.parametrize("name", ["attention", "gated_mlp", "gemm_gelu_row_sums"])
def test_kernels_of_an_example_are_proved(name, verdicts, monkeypatch):
    monkeypatch.chdir(EXAMPLES)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert not ended.value.code
    assert set(verdicts) == {"checked"}
