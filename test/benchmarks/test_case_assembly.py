"""`python -m benchmarks.case_assembly`: what assemblers say of the defaults of listed cases."""

import re

import pytest

from benchmarks import attention_backward_assembly, case_assembly
from benchmarks.random_gemms import releases

if not releases():
    pytest.skip("no ptxas", allow_module_level=True)


def test_a_row_is_counted_for_each_assembler(capsys):
    assert case_assembly.main(["1024.3 bf16 TN", "--target", "sm_100a", "--jobs", "1"]) == 0
    told = re.findall(r"ptxas [\d.]+: (\d) kernels, (\d) with a loss", capsys.readouterr().out)
    assert told == [("1", "0")] * len(releases())


def test_a_loss_is_a_row(capsys, monkeypatch):
    monkeypatch.setattr(
        attention_backward_assembly, "loss", lambda assembly, text: "8 bytes spilled"
    )
    assert case_assembly.main(["1024.3 bf16 TN", "--target", "sm_100a", "--jobs", "1"]) == 1
    assert re.search(r"sm_100a ptxas [\d.]+: 8 bytes spilled \(tile", capsys.readouterr().out)
