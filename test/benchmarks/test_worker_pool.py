"""Requests go to several workers; one that hangs or dies costs its own answer."""

import os
import sys
import time

import pytest

from benchmarks.supervisor import NoDeviceError, WorkerError
from benchmarks.worker_pool import answers

# "hang" starts a process that would outlive its parent.
WORKER = """
import json, os, subprocess, sys, time
print(json.dumps({"machine": {}}), flush=True)
for line in sys.stdin:
    case = json.loads(line)["case"]
    if case == "hang":
        child = subprocess.Popen(["sleep", "60"])
        print(json.dumps({"doing": str(child.pid)}), flush=True)
        child.wait()
    if case == "crash":
        sys.exit(7)
    print(json.dumps({"case": case, "process": os.getpid()}), flush=True)
"""


def asked(*cases, patience=5.0, workers=2, script=WORKER):
    requests = [{"case": case} for case in cases]
    return answers(requests, (sys.executable, "-c", script), workers, patience)


def is_alive(process):
    """Whether it runs: what its parent has not waited for yet is a zombie."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_every_request_has_an_answer():
    got = dict(asked(*"abcdef", "crash", *"gh"))
    assert sorted(got) == list(range(9))
    assert all(got[n]["case"] == case for n, case in enumerate("abcdef"))
    assert isinstance(got[6], WorkerError)
    assert "ended with 7" in str(got[6])
    assert got[8]["case"] == "h"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes in /proc")
def test_a_hang_ends_with_all_that_it_started():
    got = dict(asked("hang", "a", "b", patience=1.0))
    assert "no sign of life for 1 s" in str(got[0])
    end = time.perf_counter() + 10
    while is_alive(got[0].doing) and time.perf_counter() < end:
        time.sleep(0.02)
    assert not is_alive(got[0].doing)
    assert got[2]["case"] == "b"


def test_who_stops_listening_waits_for_nobody():
    began = time.perf_counter()
    came = asked("a", "hang", "hang", patience=50.0)
    assert next(came)[0] == 0
    came.close()
    assert time.perf_counter() - began < 20


def test_no_device():
    with pytest.raises(NoDeviceError, match="expected a device"):
        list(asked("a", script='print(\'{"missing": "a device"}\')'))
