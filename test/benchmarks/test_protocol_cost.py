"""`benchmarks.protocol_cost` tells what the check of a kernel costs, and what it says."""

import json

import pytest

from benchmarks import protocol_cost
from cutedialect.passes.protocol import check_protocol

ONE = ["--target", "sm_80", "--only", r"^1024\^3 bf16 TN$", "--repeat", "1"]


@pytest.mark.parametrize("is_proved", [True, False])
def test_what_a_check_costs_and_says(is_proved, monkeypatch, tmp_path, capsys):
    if not is_proved:
        check = check_protocol.verdict_of

        def verdict_of(kernel):
            check(kernel)
            return check_protocol.Verdict((), 1, (kernel,))

        monkeypatch.setattr(check_protocol, "verdict_of", verdict_of)
    monkeypatch.setitem(protocol_cost._MOST_MS, False, 10_000)
    monkeypatch.setattr(protocol_cost, "_MOST_SHARE", 1)
    file = tmp_path / "rows.json"
    assert protocol_cost.main([*ONE, "--json", str(file)]) == (0 if is_proved else 1)
    (row,) = json.loads(file.read_text())
    assert 0 < row["check"] < row["whole"]
    assert row["says"] == ([] if is_proved else ["no case enters cute.kernel"])
    assert len(row["ptx"]) == 16
    assert ("MISSED" in capsys.readouterr().out) != is_proved
