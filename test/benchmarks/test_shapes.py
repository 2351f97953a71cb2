"""The draw of problems, and the table that compares them with cuBLAS, with a worker that the test
plays.
"""

import json
import random

import pytest

from benchmarks import shapes
from benchmarks.cases import GEMMS, case_of, described
from benchmarks.gemm_case import CUBLAS, Gemm
from benchmarks.shape_draws import LARGE, STRATA, drawn
from benchmarks.supervisor import NoDeviceError

COPIED = 2.5e12


class FakeSupervisor:
    """cuBLAS takes 1 ms; ours takes `ours(case)` ms."""

    machine = {"device": "H100"}

    def __init__(self, ours):
        self.ours = ours
        self.asked = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def ask(self, request, hear=lambda what: None):
        if request.get("copy"):
            return {"bytes_per_second": COPIED}
        case = case_of(json.loads(json.dumps(request["case"])))
        self.asked.append((case, request["plan"]))
        ms = {CUBLAS: 1.0} | dict.fromkeys(request["schedules"], self.ours(case))
        rounds = request["plan"]["rounds"]
        results = [
            {"name": name, "ms": [one] * rounds, "errors": [1], "later_errors": [], "allowance": [],
             "failure": None, "launches": 1, "captured": True, "started": 0, "stopped": 0}
            for name, one in ms.items()
        ]  # fmt: skip
        resources = dict.fromkeys(request["schedules"], "tile = ?")
        seconds = {"inputs": 0.25, "timing": 0.5}
        return {"results": results, "resources": resources, "seconds": seconds}


def test_a_seed_is_one_list_and_seeds_differ():
    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)
    for seed in random.Random(0).sample(range(10**6), 3):
        cases = drawn(seed)
        assert len({case.name for case in cases}) == len(cases)
        counts = {s.section: sum(case.section == s.section for case in cases) for s in STRATA}
        # Two draws may meet in one problem, but seldom.
        assert all(0.8 * s.count <= counts[s.section] <= s.count for s in STRATA)
        for case in cases:
            step = 1 if case.section in ("any parity", "skinny") else 8
            assert all(extent % step == 0 for extent in case.sizes)
        assert {case.majors for case in cases if case.section == "majors"} == {"NN", "NT", "TT"}
        assert any(case.sizes[2] % 2 for case in cases if case.section == "any parity")


def test_draws_cover_the_range():
    (*_, eights) = [s for s in STRATA if s.section == "eights"]
    sizes = [case.sizes for case in drawn(0) if case.section == eights.section]
    for mode in range(3):
        extents = sorted(size[mode] for size in sizes)
        assert extents[0] < 40
        assert extents[-1] > 5000
        assert 300 < extents[len(extents) // 2] < 650


def test_batches_are_drawn_small_and_shown_without_a_gate(capsys):
    batches = [case for seed in range(5) for case in drawn(seed) if case.section == "batches"]
    for case in batches:
        assert 8 <= case.batch <= 2048
        assert all(64 <= extent <= 1024 for extent in case.sizes)
        # Operands and results of a batch are read and written once.
        assert case.bytes <= 1 << 30
    assert {case.batch > 100 for case in batches} == {True, False}
    slow = FakeSupervisor(lambda case: 4.0)
    assert shapes.main(["--only", "^batches", "--scale", "0.1", "--check"], slow) == 0
    assert "batches: geometric mean 0.250 of 3/3 rows  (no gate, " in capsys.readouterr().out


def test_a_case_survives_its_description():
    for case in (*GEMMS, *drawn(5, scale=0.1)):
        assert case_of(json.loads(json.dumps(described(case)))) == case


def test_what_a_case_compiles_has_the_alignment_of_its_rows():
    # No kernel is compiled ahead for rows that the arrays do not have.
    odd = Gemm("any parity", "bf16", (33, 34, 35)).compiled("tile = (64,8,64)", "sm_90a")
    assert [each.alignment for each in odd.signature.parameters[:2]] == [2, 2]
    even = Gemm("eights", "bf16", (40, 40, 40)).compiled("tile = (64,8,64)", "sm_90a")
    assert [each.alignment for each in even.signature.parameters[:2]] == [16, 16]


def test_a_miss_is_timed_once_more_with_more_samples(capsys, tmp_path):
    path = tmp_path / "rows.json"
    slow = {"eights"}
    worker = FakeSupervisor(lambda case: 2.0 if case.section in slow else 0.5)
    arguments = ["--seed", "7", "--scale", "0.05", "--json", str(path)]
    assert shapes.main(arguments, worker) == 0
    asked = [case.name for case, _ in worker.asked]
    for case in drawn(7, 0.05):
        rounds = [plan["rounds"] for each, plan in worker.asked if each == case]
        assert len(rounds) == (2 if case.section in slow else 1), case.name
        assert rounds == [rounds[0], 5 * rounds[0]][: len(rounds)]
    out = capsys.readouterr().out
    assert "eights: geometric mean 0.500 of 3/3 rows" in out
    assert "layers: geometric mean 2.000 of 3/3 rows" in out
    assert out.count("  0.500 eights: ") == 3
    *_, spent, last = out.splitlines()
    assert last == "seed 7"
    looks = len(worker.asked)
    assert f"{0.75 * looks:.0f} of them in the worker: timing {0.5 * looks:.1f}, inputs" in spent
    assert len(json.loads(path.read_text())["results"]) == len(set(asked))


@pytest.mark.parametrize(("ms", "code"), [(0.5, 0), (1.0, 1)])
def test_check_fails_when_a_stratum_misses(capsys, ms, code):
    def ours(case):
        # As long as the work takes at one rate, so that the large rows are equally fast.
        return 1e-12 * case.flops if case.section == LARGE else ms

    assert shapes.main(["--scale", "0.05", "--check"], FakeSupervisor(ours)) == code
    out = capsys.readouterr().out
    assert ("MISSED" in out) == bool(code)
    assert "8192^3 f16 TN few integers over 6144^3 f16 TN few integers: 1.000" in out


def test_a_skinny_row_may_take_the_time_of_its_bytes(capsys):
    def ours(case):
        return 1e3 * (2e-6 + case.bytes / (0.95 * COPIED))

    worker = FakeSupervisor(ours)
    shapes.main(["--scale", "0.1", "--only", "skinny", "--check"], worker)
    assert "2 within 3 us and 0.90 of a copy's rate" in capsys.readouterr().out
    assert len(worker.asked) == 2


def test_wrong_arguments_are_one_line(capsys):
    for arguments in (["--only", "f17"], ["--only", "("], ["--seed", "x"]):
        with pytest.raises(SystemExit):
            shapes.main(arguments, FakeSupervisor(lambda case: 1.0))
    assert "--only: expected to match a row of seed 0, got none" in capsys.readouterr().err


def test_no_device_is_exit_2(capsys):
    class Missing(FakeSupervisor):
        def __enter__(self):
            raise NoDeviceError("expected torch and a CUDA device, got no device")

    assert shapes.main(["--scale", "0.05"], Missing(lambda case: 1.0)) == 2
    assert "got no device" in capsys.readouterr().err
