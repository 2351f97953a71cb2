"""The two commands, from their arguments to what they print, with a worker that the test plays."""

import json

import pytest

from benchmarks import gemm, sweep
from benchmarks.contenders import OURS
from benchmarks.gemm_case import CUBLAS, Gemm
from benchmarks.rows import row_of
from benchmarks.supervisor import NoDeviceError, WorkerError
from benchmarks.telemetry import Telemetry, sample_of
from benchmarks.worker import serve

CASE = "4096^3 bf16 TN"


class FakeSupervisor:
    """Times of 1 ms for cuBLAS and `ours` ms for everybody else, unless a reason is given."""

    machine = {"device": "H100"}

    def __init__(self, ours=1.0, hang=(), refuse=(), during=None):
        self.ours, self.hang, self.refuse, self.during = ours, hang, refuse, during
        self.asked = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def ask(self, request, hear=lambda what: None):
        self.asked.append(request)
        for name in request["schedules"]:
            if name in self.hang:
                raise WorkerError("no sign of life for 1 s", self.during or name)
        names = [CUBLAS, *request["schedules"]]
        return {"results": [self.result(name, request["plan"]["rounds"]) for name in names]}

    def result(self, name, rounds):
        refused = name in self.refuse
        ms = 1.0 if name == CUBLAS else self.ours
        return {
            "name": name, "ms": [] if refused else [ms] * rounds, "errors": [] if refused else [1],
            "later_errors": [], "allowance": [], "failure": "ValueError: no" if refused else None,
            "launches": 1, "captured": True, "started": 0, "stopped": 0,
        }  # fmt: skip


@pytest.mark.parametrize(
    ("ours", "options", "code"),
    [(0.9, ["--check"], 0), (1.1, ["--check"], 1), (1.1, [], 0)],
)
def test_check_fails_when_a_gate_is_missed(capsys, ours, options, code):
    assert gemm.main(["--only", "4096.3 bf16 TN", *options], FakeSupervisor(ours)) == code
    out = capsys.readouterr().out
    assert f"{1 / ours:.3f}" in out
    assert ("MISSED" in out) == (ours > 1)


def test_files_are_written(tmp_path, capsys):
    data, plot = tmp_path / "a.json", tmp_path / "a.svg"
    worker = FakeSupervisor(0.5)
    arguments = ["--only", "skinny", "--json", str(data), "--plot", str(plot), "--runs", "2"]
    assert gemm.main([*arguments, "--rounds", "4", "--schedule", "stages = 3"], worker) == 0
    rows = json.loads(data.read_text())["results"]
    assert len(rows) == 8
    assert {len(row["ours_ms"]) for row in rows} == {8}
    assert "16x4096x4096" in plot.read_text()
    assert {request["schedules"][OURS] for request in worker.asked} == {"stages = 3"}


def test_rows_without_gates_pass_where_they_are_right(tmp_path, capsys):
    plot = tmp_path / "a.svg"
    arguments = ["--only", "extra .* align", "--plot", str(plot), "--check"]
    assert gemm.main(arguments, FakeSupervisor(20)) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("4096^3 bf16 TT align 2")]
    assert "  0.050 " in line
    assert line.split()[-1] == "right"
    assert lines[-1] == "6 of 6 rows pass their gate"
    assert "align 8" in plot.read_text()


def test_a_hang_is_a_row(capsys):
    worker = FakeSupervisor(hang=[OURS])
    assert gemm.main(["--only", "fp8", "--check"], worker) == 1
    assert capsys.readouterr().out.count("FAILED  no sign of life for 1 s") == 3


def test_quick_asks_for_less(capsys):
    quick, whole = FakeSupervisor(0.5), FakeSupervisor(0.5)
    gemm.main(["--quick"], quick)
    gemm.main([], whole)
    assert len(quick.asked) < len(whole.asked)
    assert quick.asked[0]["plan"]["rounds"] < whole.asked[0]["plan"]["rounds"]


def test_wrong_arguments_are_one_line(capsys):
    for arguments in (["--only", "f17"], ["--only", "("], ["--rounds", "0"]):
        with pytest.raises(SystemExit):
            gemm.main(arguments, FakeSupervisor())
    assert "expected to match a case, got 'f17'" in capsys.readouterr().err


def test_no_device_is_exit_2(capsys):
    class Missing(FakeSupervisor):
        def __enter__(self):
            raise NoDeviceError("expected torch and a CUDA device, got no device")

    for command, arguments in ((gemm.main, []), (sweep.main, ["8192"])):
        assert command(arguments, Missing()) == 2
    assert capsys.readouterr().err.count("got no device") == 2


def test_an_interrupt_keeps_the_rows_so_far(capsys):
    class Interrupted(FakeSupervisor):
        def ask(self, request, hear=lambda what: None):
            if len(self.asked) == 2:
                raise KeyboardInterrupt
            return super().ask(request, hear)

    assert gemm.main(["--only", "skinny"], Interrupted(0.5)) == 130
    assert "2 of 2 rows pass" in capsys.readouterr().out


def test_a_sweep_compares_schedules(capsys, tmp_path):
    path = tmp_path / "sweep.json"
    worker = FakeSupervisor(0.8, refuse=["stages = 9"])
    arguments = ["4096.3 bf16 TN", "stages = 3", "stages = 9", "default", "--json", str(path)]
    assert sweep.main(arguments, worker) == 0
    assert worker.asked[0]["schedules"] == {
        "stages = 3": "stages = 3", "stages = 9": "stages = 9", "default": None,
    }  # fmt: skip
    out = capsys.readouterr().out
    assert out.count("1.250") >= 2
    assert "FAILED  stages = 9: ValueError: no" in out
    assert [row["schedule"] for row in json.loads(path.read_text())] == [
        "stages = 3", "stages = 9", "default",
    ]  # fmt: skip


@pytest.mark.parametrize("during", [None, "timing"])
def test_a_schedule_that_hangs_does_not_stop_the_others(capsys, during):
    worker = FakeSupervisor(0.8, hang=["b"], during=during)
    assert sweep.main(["4096.3 bf16 TN", "a", "b", "c"], worker) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["1.250", "1.250", "FAILED"]
    assert "b: no sign of life" in lines[-1]


def test_schedules_come_from_a_file(tmp_path, capsys):
    path = tmp_path / "schedules"
    path.write_text("stages = 2\nstages = 4\n")
    worker = FakeSupervisor()
    assert sweep.main(["4096.3 bf16 TN", f"@{path}"], worker) == 0
    assert list(worker.asked[0]["schedules"]) == ["stages = 2", "stages = 4"]


def test_the_worker_answers_a_request(torch, device, monkeypatch, contender):
    """From a request to a row, with everything real but the device."""
    import cutedialect as cute
    from benchmarks import cases

    case = Gemm("main", "f16", (40, 24, 16), batch=2)
    monkeypatch.setattr(cases, "CASES", (case,))
    device.l2 = 1 << 12
    call = contender("ours", 5e-7)()

    def gemm_(a, b, *, out, schedule):
        assert schedule == "stages = 3"
        call(type("Operands", (), {"products": [(a, b, out)]}))

    monkeypatch.setattr(cute, "gemm", gemm_)
    said = []
    request = {
        "case": case.name, "schedules": {OURS: "stages = 3"}, "peers": False,
        "plan": {"rounds": 4, "batch_ms": 1.0, "cool_down": 0.0}, "resources": True,
    }  # fmt: skip
    assert serve(torch, json.loads(json.dumps(request)), said.append)
    assert [message["doing"] for message in said[:-1]] == [
        "inputs", "reference", CUBLAS, OURS, "graphs", "timing", "later errors", "resources",
        "freeing",
    ]  # fmt: skip
    row = row_of(case, json.loads(json.dumps(said[-1])))
    assert row.ratio == pytest.approx(1e-3 / 5e-7, rel=0.01)
    assert row.right
    assert row.failure is None


def test_samples_of_nvidia_smi():
    assert sample_of("not supported, [N/A], 3") is None
    one = sample_of("2026/11/21 07:00:00.250, 1755, 512.25, 48\n")
    two = sample_of("2026/11/21 07:00:00.500, 1575, 700.75, 50\n")
    assert (one.mhz, two.watts) == (1755, 700.75)
    telemetry = Telemetry()
    telemetry.samples = [one, two]
    assert telemetry.between(one.time - 1, one.time + 0.1) == (1755, 512.25)
    assert telemetry.between(one.time, two.time) == (1665, 606.5)
    assert telemetry.between(0, 1) is None
