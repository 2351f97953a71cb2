"""The line that shows how far a search is, and a search that is interrupted while it shows."""

import io
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.__main__ import main
from cutedialect.backend.runtime import emulated, progress_line
from cutedialect.backend.runtime.progress_line import ProgressLine
from cutedialect.tools.reducer import Reduction, reduce_text


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress_line.time, "monotonic", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "20")
    return now


def test_it_replaces_itself_and_is_wiped(clock):
    stream = Terminal()
    line = ProgressLine(stream)
    line.clear()
    assert stream.getvalue() == ""
    line.show("one")
    clock[0] += 0.2
    line.show("a line that is longer than the terminal")
    line.clear()
    line.clear()
    assert stream.getvalue() == "\r\x1b[Kone\r\x1b[Ka line that is long\r\x1b[K"


def test_ten_times_a_second_is_enough(clock):
    stream = Terminal()
    line = ProgressLine(stream)
    for number in range(100):
        line.show(str(number))
        clock[0] += 0.02
    assert 16 <= stream.getvalue().count("\r") <= 21


def test_a_log_gets_no_line(clock):
    stream = io.StringIO()
    ProgressLine(stream).show("text")
    assert stream.getvalue() == ""


def test_a_set_of_kernels_says_which_one_is_compiled(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(progress_line, "_INTERVAL", 0)
    stream = Terminal()
    (tmp_path / "doubling.py").write_text(
        "import cutedialect as cute\n\n\n@cute.kernel\ndef doubled(X, Y):\n"
        "    i, j = cute.tile_index(X, (8, 64))\n"
        "    x = cute.local_tile(X, (8, 64), (i, j)).load()\n"
        "    cute.copy(x + x, cute.local_tile(Y, (8, 64), (i, j)))\n"
    )
    variants = [f"--variant={name}: ?x?:{name} ?x?:{name}" for name in ("f16", "bf16")]
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        command = ["compile", f"{tmp_path / 'doubling.py'}:doubled", *variants]
        assert main([*command, "-o", str(tmp_path)]) == 0
    assert "doubled.manifest.json" in capsys.readouterr().out
    said = stream.getvalue()
    assert "\r\x1b[Kcompiling f16 for sm_80: 1 of 2\r\x1b[Kcompiling bf16 for sm_80: 2 of 2" in said
    assert said.index("2 of 2\r\x1b[Kdoubled_f16 for sm_80: ") > 0  # wiped before anything is said


def test_a_reduction_says_how_far_it_is():
    said: list[str] = []
    reduction = Reduction("a\nb\nc\n", lambda text: "b" in text, said.append)
    reduce_text(reduction)
    assert reduction.text.strip() == "b"
    assert said[0] == "reducing: 1 inputs tried, 3 lines are left"
    assert len(said) == reduction.runs


@cute.kernel
def doubled(X, Y, *, tile=(8, 64)):
    i, j = cute.tile_index(X, tile)
    x = cute.local_tile(X, tile, (i, j)).load()
    cute.copy(x + x, cute.local_tile(Y, tile, (i, j)))


def test_a_long_run_of_the_emulator_says_how_far_it_is(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    x = np.ones((2048, 128), np.float32)
    y = np.zeros_like(x)

    def shown():
        stream = Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            doubled(x, y, arch="sm_80", backend="emulator")
        assert (y == 2).all()
        return stream.getvalue()

    assert shown() == ""
    monkeypatch.setattr(emulated, "_SHOWN_AFTER_SECONDS", 0.0)
    launch = sys.modules["cutedialect.backend.emulator.launch"]
    monkeypatch.setattr(launch, "_TOLD_EVERY_SECONDS", 0.0)
    text = shown()
    line = r"\r\x1b\[Kemulator: doubled, \d+ of \d+ CTAs done, [\d,]+ instructions, \d+ s"
    assert re.match(line, text)
    assert text.endswith("\r\x1b[K")


# `tune` on a device where a round takes a while; it says when the first is done.
SEARCH = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
import sys, time
from cutedialect.__main__ import main
from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.buffers import DeviceTensor
from cutedialect.frontend import autotune

class Timer:
    device, arch, rounds = "Slow GPU", "sm_80", 0
    def random(self, shape, strides, dtype, align):
        return DeviceTensor(TensorArgument(1 << 20, shape, strides, dtype, 0, None))
    def assemble(self, kernel): pass
    def prepare(self, kernel, arguments): return kernel.schedule
    def time(self, prepared):
        Timer.rounds += len(prepared) > 1
        if Timer.rounds:
            print("timing", file=sys.stderr, flush=True)
            time.sleep(0.05)
        return [3.0 if "warps = (2,1)" in each else 5.0 for each in prepared]
    def close(self): print("closed", file=sys.stderr, flush=True)

autotune.DeviceTimer = lambda check: Timer()
sys.exit(main(["tune", sys.argv[1], "64x128:f32", "64x128:f32", "--rounds", "1000",
               "--schedule", "warps = (4,1)", "--schedule", "warps = (2,1)"]))
"""
KERNEL = """
import cutedialect as cute

@cute.kernel
def double(X, Y, *, tile=(8, 64)):
    i, j = cute.tile_index(X, tile)
    x = cute.load(cute.local_tile(X, tile, (i, j)))
    cute.copy(x + x, cute.local_tile(Y, tile, (i, j)))
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_in_a_real_process(tmp_path):
    (tmp_path / "doubling.py").write_text(KERNEL)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("CUTEDIALECT_")} | {
        "PYTHONPATH": ":".join(sys.path),
        "CUTEDIALECT_CACHE_DIR": str(tmp_path / "cache"),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", SEARCH, f"{tmp_path}/doubling.py:double"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stderr is not None
    limit = time.monotonic() + 60
    while process.stderr.readline() != "timing\n":
        assert process.poll() is None
        assert time.monotonic() < limit
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    lines = out.splitlines()
    assert lines[0] == "double for sm_80 on Slow GPU"
    assert lines[2].split()[0] == "3.00"
    assert lines[2].endswith("warps = (2,1)")
    assert "closed" in err
    assert err.endswith("stopped before the last round: the best so far\n")
    assert "Traceback" not in err
    assert list((tmp_path / "cache").glob("*/schedule/*/*"))
