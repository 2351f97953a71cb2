"""The draw of streaming problems, their kernels, and the table, with a worker that a test plays."""

import json

import pytest

from benchmarks import streaming
from benchmarks.cases import case_of, described
from benchmarks.streaming_case import COMPILED, TORCH, TUNED, Streaming
from benchmarks.streaming_workloads import WORKLOADS
from benchmarks.supervisor import NoDeviceError

COPIED = 2.9e12


class FakeSupervisor:
    """The peers take as long as their bytes at 2.5 TB/s; ours `factor(case)` times that."""

    machine = {"device": "H100"}

    def __init__(self, factor):
        self.factor = factor
        self.asked = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def ask(self, request, hear=lambda what: None):
        if request.get("copy"):
            return {"bytes_per_second": COPIED}
        case = case_of(json.loads(json.dumps(request["case"])))
        self.asked.append(case)
        theirs = 1e3 * case.bytes / 2.5e12
        ms = {TORCH: 2 * theirs, COMPILED: theirs, TUNED: 1.1 * theirs}
        if not request["yardsticks"]:
            ms = {}
        ms |= dict.fromkeys(request["schedules"], self.factor(case) * theirs)
        results = [
            {"name": name, "ms": [one] * 4, "errors": [1], "later_errors": [], "allowance": [1],
             "failure": None, "launches": 1, "captured": True, "started": 0, "stopped": 0}
            for name, one in ms.items()
        ]  # fmt: skip
        return {"results": results, "resources": dict.fromkeys(request["schedules"], "warps = ?")}


def test_a_seed_is_one_list_and_seeds_differ():
    first = streaming.cases(3, 10)
    assert first == streaming.cases(3, 10)
    assert first != streaming.cases(4, 10)
    assert len({case.name for case in first}) == len(first)
    assert {case.workload for case in first} == set(WORKLOADS)
    for case in first:
        assert case_of(json.loads(json.dumps(described(case)))) == case
        # Nothing stays in L2.
        assert case.bytes > 2 * 50e6


def test_rows_pass_by_the_peer_or_by_the_copy(capsys):
    fake = FakeSupervisor(lambda case: {"add": 0.9, "softmax": 1.02, "cast": 1.2}[case.workload])
    arguments = ["--only", "listed (add|softmax|cast) 8192x8192", "--check", "--shapes", "0"]
    assert streaming.main(arguments, fake) == 1
    text = capsys.readouterr().out
    lines = {line.split()[0]: line for line in text.splitlines() if "8192x8192" in line}
    assert " copy, to torch.compile" in lines["add"] or " peer, to torch.compile" in lines["add"]
    assert " peer, to torch.compile" in lines["softmax"]
    assert " MISSED, to torch.compile" in lines["cast"]
    assert "2 of 3 rows pass" in text
    assert "the least ratio is 0.833" in text


def test_peers_of_missed_rows_compile_side_by_side_and_the_slowest_come_first(capsys, monkeypatch):
    class Compiled:
        """All cases but the last are ready in time."""

        def __init__(self, cases):
            self.cases = list(cases)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def ready(self, seconds):
            assert seconds > 0
            return self.cases[:-1]

    monkeypatch.setattr(streaming, "PeerCompilation", Compiled)
    factors = {"add": 0.8, "softmax": 1.3, "cast": 1.1, "transpose": 1.2}
    fake = FakeSupervisor(lambda case: factors[case.workload])
    only = "listed (add|softmax|cast|transpose) 8192x8192"
    assert streaming.main(["--only", only, "--shapes", "0", "--peers", "missed"], fake) == 0
    text = capsys.readouterr().out
    names = [case.workload for case in fake.asked]
    assert sorted(names[:4]) == ["add", "cast", "softmax", "transpose"]
    assert names[4:] == ["softmax", "transpose"]
    assert "peers of 2 rows of 3 that miss the copy compiled ahead" in text
    assert "1 rows miss the copy without a peer that was timed" in text


def test_a_spent_budget_leaves_rows_out(capsys):
    fake = FakeSupervisor(lambda case: 1.0)
    assert streaming.main(["--budget", "1", "--shapes", "1"], fake) == 0
    assert "rows left out: the budget was spent" in capsys.readouterr().out
    assert not fake.asked


def test_bad_arguments_and_no_device(capsys):
    for arguments in (["--only", "("], ["--only", "nothing"]):
        with pytest.raises(SystemExit):
            streaming.main(arguments)

    class Missing(FakeSupervisor):
        def __enter__(self):
            raise NoDeviceError("expected a device")

    assert streaming.main(["--only", "add"], Missing(lambda case: 1.0)) == 2
    assert "expected a device" in capsys.readouterr().err


@pytest.mark.parametrize("workload", ["add", "strided copy", "RoPE", "sum of all", "top-k"])
def test_kernels_compile_from_shapes_alone(workload):
    pytest.importorskip("torch")
    shape = (1000, 1003) if workload in ("add", "strided copy") else (1024, 1024)
    kernel = Streaming("listed", "bf16", workload, shape).compiled(None, "sm_90a")
    assert ".target sm_90a" in kernel.ptx
