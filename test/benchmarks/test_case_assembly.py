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


def test_forms_of_attention_have_every_head_dimension(capsys):
    listed = case_assembly.forms().values()
    assert {each.columns[0] for each in listed} == set(range(32, 257, 16))
    assert {each.dtype for each in listed} == {"bf16", "f16", "e4m3"}
    command = ["--forms", "16/4x64/64 full f16", "--target", "sm_103a", "--jobs", "1"]
    assert case_assembly.main(command) == 0
    told = re.findall(r"ptxas [\d.]+: (\d) kernels, (\d) with a loss", capsys.readouterr().out)
    assert told == [("1", "0")] * len(releases())
