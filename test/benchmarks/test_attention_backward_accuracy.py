"""The sweep of scores over which attention's gradients are held against float64."""

from __future__ import annotations

import json

import numpy as np

from benchmarks.attention_backward_accuracy import main, rows_of
from benchmarks.attention_gradients import ALLOWED, gradients, shares


def test_rows_have_small_and_large_scores_of_all_kinds():
    rows = list(rows_of())
    assert {row.size for row in rows if row.values == "normal"} >= {0.5, 16}
    assert {row.values for row in rows} == {"normal", "drift", "rise", "sink", "late"}
    assert len({row.name for row in rows}) == len(rows)


def test_gradients_on_the_emulator(tmp_path, capsys):
    written = tmp_path / "figures.json"
    options = ["--backend", "emulator", "--arch", "sm_80", "--rows", "40", "--json", str(written)]
    assert main([*options, "--only", "sink 16 d64"]) == 0
    assert "1 of 1 rows within 2" in capsys.readouterr().out
    figures = json.loads(written.read_text())
    assert all(0 < each <= ALLOWED for row in figures.values() for each in row.values())


def test_wrong_gradients_are_seen():
    given = next(rows_of("normal 1 ")).operands(64)
    dq, dk, dv = gradients(*given, np.float32, causal=True)[2]
    fine = shares((dq, dk, dv), *given, causal=True)
    assert max(fine.values()) == 1
    wrong = shares((dq, dk, dv * np.float16(1.02)), *given, causal=True)
    assert min(wrong["dv max"], wrong["dv mean"]) > ALLOWED
    assert not shares((dq * np.float16("nan"), dk, dv), *given, causal=True)["dq max"] <= ALLOWED
