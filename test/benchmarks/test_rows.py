"""From the worker's answer to a line of the table and a verdict."""

import json
import math
import xml.etree.ElementTree as ElementTree

import pytest

from benchmarks.gemm_case import Gemm
from benchmarks.plot import svg
from benchmarks.report import line_of, summary, write_json
from benchmarks.rows import Row, geometric_mean, row_of

CASE = Gemm("main", "bf16", (4096, 4096, 4096), gate=0.97, goal=1.05)
SKINNY = Gemm("skinny", "bf16", (16, 4096, 4096), gate=1.0, goal=1.2)


def result(name, ms=(), errors=(0.5,), later=(0.5,), failure=None):
    return {
        "name": name, "ms": list(ms), "errors": list(errors), "later_errors": list(later),
        "allowance": [], "failure": failure, "launches": 7, "captured": True, "started": 1.0,
        "stopped": 2.0,
    }  # fmt: skip


def row(ours, theirs=(0.2, 0.2, 0.2), case=CASE, right=True):
    return Row(case, list(ours), list(theirs), 0.5, 0.5, right)


def test_the_ratio_is_the_median_of_the_pairs():
    made = row([0.1, 0.2, 0.4], [0.11, 0.24, 0.4])
    assert made.ratios == pytest.approx([1.1, 1.2, 1.0])
    assert made.ratio == pytest.approx(1.1)
    assert made.tflops == pytest.approx(CASE.flops / 0.2e-3 / 1e12)


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (row([0.19] * 3), "goal"),
        (row([0.2] * 3), "gate"),
        (row([0.21] * 3), "MISSED"),
        (row([0.1] * 3, right=False), "WRONG"),
        (row([0.1] * 3, right=None), "WRONG"),
        (Row(CASE, failure="no"), "FAILED"),
        (Row(CASE, right=True), "MISSED"),
    ],
)
def test_verdicts(made, verdict):
    assert made.verdict == verdict
    assert made.passed == (verdict in ("goal", "gate"))


def test_the_goal_of_a_skinny_row_is_bandwidth_too():
    fast, slow = 1e3 * SKINNY.bytes / 3.0e12, 1e3 * SKINNY.bytes / 2.0e12
    assert row([fast], [2 * fast], SKINNY).verdict == "goal"
    assert row([slow], [2 * slow], SKINNY).verdict == "gate"


def test_a_row_from_an_answer():
    answer = {
        "results": [
            result("cuBLAS", [0.2, 0.3]),
            result("cutedialect", [0.1, 0.1], errors=(0.6,), later=(0.7,)),
            result("Triton", [0.4, 0.4]),
            result("broken", failure="ImportError: no module"),
            result("crooked", [0.1, 0.1], errors=(5.0,)),
        ],
        "resources": {"cutedialect": "168 registers"},
    }
    made = row_of(CASE, answer)
    assert made.ratio == pytest.approx(2.5)
    assert made.right
    assert made.error == 0.7
    assert made.resources == "168 registers"
    assert made.peers == {
        "Triton": pytest.approx(0.625),
        "broken": "ImportError: no module",
        "crooked": "wrong",
    }


@pytest.mark.parametrize(
    ("errors", "later", "right"),
    [((1.0,), (1.0,), True), ((1.1,), (0.5,), False), ((0.5,), (1.1,), False)],
)
def test_errors_up_to_twice_those_of_cublas_are_right(errors, later, right):
    answer = {"results": [result("cuBLAS", [1]), result("cutedialect", [1], errors, later)]}
    assert row_of(CASE, answer).right is right


def test_each_product_of_a_group_is_judged_by_its_own_error():
    answer = {
        "results": [
            result("cuBLAS", [1], (0.1, 9.0), (0.1, 9.0)),
            result("cutedialect", [1], (0.5, 0.5), (0.5, 0.5)),
        ]
    }
    assert row_of(CASE, answer).right is False


def test_failures_keep_their_reasons():
    ours = result("cutedialect", failure="TypeError: no e4m3", errors=(), later=())
    made = row_of(CASE, {"results": [result("cuBLAS", [0.2]), ours]})
    assert (made.verdict, made.failure) == ("FAILED", "TypeError: no e4m3")
    assert made.yardstick_tflops is not None
    assert "no e4m3" in line_of(made)
    theirs = result("cuBLAS", failure="out of memory", errors=(), later=())
    made = row_of(CASE, {"results": [theirs, result("cutedialect", [0.2])]})
    assert made.failure == "cuBLAS: out of memory"
    assert (
        row_of(CASE, {"results": [], "failure": "OutOfMemoryError"}).failure == "OutOfMemoryError"
    )
    assert row_of(CASE, {"results": [result("cuBLAS")]}).failure == "not reached"


def test_runs_are_pooled():
    joined = row([0.2], [0.2]).joined(row([0.1, 0.1], [0.2, 0.2]))
    assert joined.ratios == pytest.approx([1, 2, 2])
    assert joined.ratio == 2
    assert row([0.2]).joined(row([0.2], right=False)).right is False
    assert row([0.2]).joined(Row(CASE, failure="hang")).failure == "hang"


def test_the_summary_names_what_did_not_pass():
    rows = [row([0.1] * 3), row([0.4] * 3), Row(CASE, failure="hang"), row([0.1], right=False)]
    lines = summary(rows)
    mean = math.exp((math.log(2) + math.log(0.5) + math.log(2)) / 3)
    assert lines[0] == f"geometric mean, main: {mean:.3f} of 3/4 rows (goal 1.05)"
    assert lines[1] == "1 of 4 rows pass their gate"
    assert [line.split()[0] for line in lines[2:]] == ["MISSED", "FAILED", "WRONG"]
    assert geometric_mean([]) is None


def test_json_holds_the_figures_and_the_pairs(tmp_path):
    path = tmp_path / "rows.json"
    rows = [row([0.19] * 3), Row(CASE, failure="hang", error=math.inf)]
    write_json(str(path), {"device": "H100"}, {"rounds": 3}, rows)
    data = json.loads(path.read_text())
    assert data["machine"] == {"device": "H100"}
    first, second = data["results"]
    assert first["case"] == "4096^3 bf16 TN"
    assert first["ours_ms"] == [0.19] * 3
    assert first["ratio"] == pytest.approx(0.2 / 0.19)
    assert (first["verdict"], first["gate"], first["goal"]) == ("goal", 0.97, 1.05)
    assert (second["verdict"], second["failure"]) == ("FAILED", "hang")
    assert data["geometric_means"]["main"] == pytest.approx(0.2 / 0.19)


def test_the_plot_is_an_svg_with_every_row():
    rows = [row([0.1] * 3), Row(SKINNY, failure="a < b & c")]
    root = ElementTree.fromstring(svg(rows, "H100 <x>"))
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "4096^3 bf16 TN" in texts
    assert "a < b & c" in texts
    assert any(text.startswith("2.000") for text in texts)
