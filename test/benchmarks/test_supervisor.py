"""A worker that hangs or dies costs one request; the next one finds a new worker."""

import sys

import pytest

from benchmarks.supervisor import NoDeviceError, Supervisor, WorkerError

# Answers with its number of requests; "hang" and "crash" are what kernels do.
WORKER = """
import json, sys, time
print(json.dumps({"machine": {"device": "fake"}}), flush=True)
for number, line in enumerate(sys.stdin):
    case = json.loads(line)["case"]
    print(json.dumps({"doing": f"{case} now"}), flush=True)
    if case == "hang":
        time.sleep(60)
    if case == "crash":
        print("first line", file=sys.stderr)
        print("CUDA error: unspecified launch failure", file=sys.stderr)
        sys.exit(7)
    print(json.dumps({"number": number}), flush=True)
"""


def supervisor(script=WORKER, patience=5.0):
    return Supervisor(patience, (sys.executable, "-c", script))


def test_requests_go_to_one_worker():
    heard = []
    with supervisor() as worker:
        assert worker.machine == {"device": "fake"}
        assert [worker.ask({"case": name}, heard.append)["number"] for name in "abc"] == [0, 1, 2]
    assert heard == ["a now", "b now", "c now"]


def test_a_hang_is_an_error_and_the_next_worker_is_new():
    with supervisor(patience=0.5) as worker:
        worker.ask({"case": "a"})
        with pytest.raises(WorkerError, match=r"no sign of life for 0\.5 s") as error:
            worker.ask({"case": "hang"})
        assert error.value.doing == "hang now"
        worker.patience = 5.0
        assert worker.ask({"case": "b"})["number"] == 0


def test_a_crash_is_an_error_with_the_last_line():
    with supervisor() as worker:
        with pytest.raises(WorkerError, match="ended with 7: CUDA error: unspecified launch"):
            worker.ask({"case": "crash"})
        assert worker.ask({"case": "b"})["number"] == 0


def test_a_worker_that_lost_its_device_is_replaced():
    script = WORKER.replace('{"number": number}', '{"number": number, "lost": case == "a"}')
    with supervisor(script) as worker:
        assert [worker.ask({"case": name})["number"] for name in "baab"] == [0, 1, 0, 0]


def test_without_a_device_there_is_nothing_to_ask():
    script = 'import json; print(json.dumps({"missing": "torch and a CUDA device, got no torch"}))'
    with (
        pytest.raises(NoDeviceError, match="expected torch and a CUDA device, got no torch"),
        supervisor(script),
    ):
        pass


def test_the_worker_itself_says_what_is_missing():
    with (
        pytest.raises(NoDeviceError, match="expected torch and a CUDA device"),
        Supervisor(
            command=(
                sys.executable,
                "-c",
                "import sys; sys.modules['torch'] = None\n"
                "import importlib.util as u; u.find_spec = lambda name: None\n"
                "from benchmarks.worker import main; sys.exit(main())",
            )
        ),
    ):
        pass
