"""`benchmarks.protocol_cost` tells what the check of a kernel costs, and what it says."""

import json

import pytest

from benchmarks import protocol_cost
from benchmarks.cases import named
from cutedialect.passes.protocol import cases, check_protocol

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


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_inputs_of_packed_lengths_are_found_at_once(arch, monkeypatch):
    """A search from offsets that grow leads into what only some data reach, where one from offsets
    of zero tried 30 cases more.
    """
    counts = []
    trips = cases._Runs.trips

    def counted(self, name, *arguments, **options):
        counts[-1].append(name)
        return trips(self, name, *arguments, **options)

    verdict_of = check_protocol.verdict_of

    def verdict(kernel):
        counts.append([])
        verdict = verdict_of(kernel)
        assert not verdict.missed
        return verdict

    monkeypatch.setattr(cases._Runs, "trips", counted)
    monkeypatch.setattr(check_protocol, "verdict_of", verdict)
    protocol_cost.forget_calls()
    protocol_cost.forget()
    named("16 packed 16x128 causal bf16").compiled(None, arch)
    assert counts
    assert all(len(names) < 40 for names in counts)
