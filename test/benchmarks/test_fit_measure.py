"""Timings are taken by processes that compile and one that times: here with a timer without a
device, whose kernels hang and lose it by their tiles.
"""

from __future__ import annotations

import json
import sys
from functools import partial

import pytest

from benchmarks import fit, fit_timings
from benchmarks.fit_timings import drawn, keep, measured, minutes_of, problem_of, read
from benchmarks.schedule_worker import candidates
from benchmarks.supervisor import NoDeviceError

# A kernel takes what its schedule's text says; a problem of 8 rows hangs, one of 16 loses the
# device when its second schedule runs.
WORKER = """
import sys, time
from benchmarks import fit_timings, schedule_worker
from cutedialect.backend.runtime.timing import DeviceLostError

class Timer(schedule_worker.NoMemory):
    device = "a stand-in"
    rows = seen = assembled = 0
    def assemble(self, kernel):
        self.assembled += 1
        if self.rows == 200 and self.assembled == 1 and sys.argv[1] == "compile":
            raise RuntimeError("no machine code")
    def random(self, shape, strides, dtype, align):
        self.rows = self.rows or shape[0]
        return super().random(shape, strides, dtype, align)
    def prepare(self, kernel, arguments):
        kernel._checker.bind(arguments)
        self.seen += 1
        if self.rows == 8:
            time.sleep(60)
        if self.rows == 16 and self.seen == 2:
            raise DeviceLostError("an illegal address")
        return len(kernel.schedule)
    def time(self, prepared):
        return [float(each) for each in prepared]

schedule_worker._FIRST, schedule_worker._OTHERS = 2, 1
fit_timings._PATIENCE = 3.0
sys.exit(schedule_worker.main(sys.argv[1:], Timer))
"""
COMMAND = (sys.executable, "-c", WORKER)
NAMES = ["8x64x64 bf16 TN", "16x256x64 bf16 TN", "200x320x64 bf16 TN", "136x72x64 e4m3 TN"]


@pytest.fixture
def few(monkeypatch, tmp_path):
    monkeypatch.setattr(fit_timings, "drawn", lambda seed, scale: NAMES)
    monkeypatch.setattr(fit_timings, "_PATIENCE", 3.0)
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "")


@pytest.mark.long
def test_a_problem_that_hangs_or_loses_the_device_costs_itself(few, tmp_path, capsys):
    timed = partial(measured, 7, 5.0, command=COMMAND)
    assert fit._measure(tmp_path, "gemm-fake", 7, timed) == 0
    out = capsys.readouterr().out
    assert "no sign of life for 3 s" in out
    records = read(tmp_path, "gemm-fake")
    by_case = {}
    for record in records:
        assert (record["run"], record["us"]) == (7, record["us"])
        by_case.setdefault(record["case"], []).append(record["schedule"])
    assert sorted(by_case) == sorted(NAMES[1:])
    assert len(by_case[NAMES[1]]) < 3
    assert minutes_of(records) < 5
    assert out.count("no machine code") == 1
    assert len(by_case[NAMES[3]]) == len(by_case[NAMES[2]]) + 1


def test_minutes_that_are_over_end_a_run(few):
    assert list(measured(1, 0.0, lambda text: None, COMMAND)) == []


def test_without_a_device_nothing_is_measured(few, tmp_path, capsys):
    script = 'print(\'{"missing": "a CUDA device, got none"}\')'
    with pytest.raises(NoDeviceError, match="expected a CUDA device"):
        list(measured(1, 1.0, lambda text: None, (sys.executable, "-c", script)))
    timed = partial(measured, 1, 1.0, command=(sys.executable, "-c", script))
    assert fit._measure(tmp_path, "gemm-fake", 1, timed) == 1
    assert "expected a CUDA device" in capsys.readouterr().err


def test_a_run_that_was_cut_keeps_whole_lines(tmp_path):
    record = {"case": NAMES[2], "schedule": "", "us": 1.5, "run": 3, "at": 90}
    line = json.dumps(record) + "\n"
    (tmp_path / "gemm-x.3.jsonl").write_text(line + line[:20])
    keep(tmp_path, "gemm-x", [record | {"run": 2, "at": 60}])
    records = read(tmp_path, "gemm-x")
    assert [each["run"] for each in records] == [3, 2]
    assert minutes_of(records) == 2.5
    assert read(tmp_path, "gemm") == []


def test_one_packed_file_takes_the_place_of_runs(tmp_path):
    record = {"case": NAMES[2], "schedule": "", "us": 1.5, "at": 90}
    keep(tmp_path, "gemm-x", [record | {"run": 1}])
    for run in (2, 3):
        line = json.dumps(record | {"run": run}) + "\n"
        (tmp_path / f"gemm-x.{run}.jsonl").write_text(line)
    (tmp_path / "gemm-xy.1.jsonl").write_text("{}\n")
    before = read(tmp_path, "gemm-x")
    fit.main(["--space", "gemm", "--device", "x", "--timings", str(tmp_path), "--pack"])
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "gemm-x.jsonl.xz",
        "gemm-xy.1.jsonl",
    ]
    assert sorted(each["run"] for each in before) == [1, 2, 3]
    assert read(tmp_path, "gemm-x") == before


def test_problems_and_schedules_follow_from_the_seed():
    names = drawn(5, 0.1)
    assert names == drawn(5, 0.1)
    assert names != drawn(6, 0.1)
    first = candidates(names[0], 5)
    assert first == candidates(names[0], 5)
    assert len(set(first)) == len(first) > 3
    assert problem_of(names[0]).batch == 1
