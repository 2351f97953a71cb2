"""Pickles of programs and kernels, as pools of processes and schedulers of tasks send them, and
what they print as.
"""

from __future__ import annotations

import io
import marshal
import pickle
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import cutedialect as cute

ROOT = Path(__file__).parents[2]
MODULE = '''
import numpy as np
import cutedialect as cute

@cute.kernel(spills="allow")
def tripled(X, Y, *, factor=3.0):
    at = cute.tile_index(Y, (8, 8))
    cute.copy(cute.load(cute.local_tile(X, (8, 8), at)) * factor, cute.local_tile(Y, (8, 8), at))

@cute.host
def launched(X, Y):
    cute.launch(tripled, X, Y)

@cute.autotuned([{"factor": 5.0}])
@cute.kernel
def tuned(X, Y, *, factor):
    at = cute.tile_index(Y, (8, 8))
    cute.copy(cute.load(cute.local_tile(X, (8, 8), at)) * factor, cute.local_tile(Y, (8, 8), at))

def result(program, *args):
    """Of a program, or of what was compiled of it."""
    x, y = np.ones((8, 8), np.float32), np.zeros((8, 8), np.float32)
    if isinstance(program, cute.Kernel):
        program.launch(x, y, *args)
    else:
        program(x, y, *args, backend="emulator")
    return float(y[0, 0])
'''
READER = """
import pickle, sys
from tripling import launched, result, tripled
made, kernel, host, tuned = pickle.load(sys.stdin.buffer)
assert made is tripled and host is launched
assert result(made) == result(kernel) == result(host) == 3 and result(tuned) == 5
assert tuned.chosen == {("a", "b"): {"factor": 5.0}}
assert list(kernel.stages)[0] == "trace" and "cute.kernel @tripled" in str(kernel.traced())
assert kernel.remarks == pickle.loads(pickle.dumps(kernel)).remarks
"""


@pytest.fixture
def tripling(tmp_path, monkeypatch):
    (tmp_path / "tripling.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("tripling")
    del sys.modules["tripling"]


def compiled(program):
    x = np.ones((8, 8), np.float32)
    return cute.compile(program, x, x, arch="sm_80", backend="emulator")


def test_another_process_has_the_same_programs(tripling, tmp_path):
    tripling.tuned.chosen["a", "b"] = {"factor": 5.0}
    sent = (tripling.tripled, compiled(tripling.tripled), tripling.launched, tripling.tuned)
    done = subprocess.run(
        [sys.executable, "-c", READER],
        input=pickle.dumps(sent),
        env={"PYTHONPATH": f"{ROOT}:{tmp_path}", "CUTEDIALECT_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()


def test_a_module_has_its_own_program_again(tripling):
    assert pickle.loads(pickle.dumps(tripling.tripled)) is tripling.tripled
    assert pickle.loads(pickle.dumps(tripling.launched)) is tripling.launched
    assert pickle.loads(pickle.dumps(tripling.tuned)).kernel is tripling.tuned.kernel


class ByValue(pickle.Pickler):
    """Sends the code of functions, as cloudpickle does for those that no module has."""

    def reducer_override(self, obj):
        if not isinstance(obj, types.FunctionType) or "<locals>" not in obj.__qualname__:
            return NotImplemented
        return rebuilt, (marshal.dumps(obj.__code__), obj.__name__, obj.__qualname__)


def rebuilt(code, name, qualname):
    made = types.FunctionType(marshal.loads(code), {"cute": cute, "__name__": "sent"}, name)
    made.__qualname__ = qualname
    return made


def test_a_local_program_goes_by_value():
    @cute.kernel(in_bounds=True)
    def quadrupled(X, Y):
        at = cute.tile_index(Y, (8, 8))
        x = cute.load(cute.local_tile(X, (8, 8), at))
        cute.copy(x * 4.0, cute.local_tile(Y, (8, 8), at))

    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(quadrupled)
    sent = io.BytesIO()
    ByValue(sent).dump(quadrupled)
    program = pickle.loads(sent.getvalue())
    assert program is not quadrupled
    assert program.in_bounds
    assert program.__qualname__ == quadrupled.__qualname__
    x, y = np.ones((8, 8), np.float32), np.zeros((8, 8), np.float32)
    program(x, y, backend="emulator")
    assert (y == 4).all()
    # What it was compiled to needs no function.
    kernel = pickle.loads(pickle.dumps(compiled(quadrupled)))
    y[:] = 0
    kernel.launch(x, y)
    assert (y == 4).all()
    assert kernel.stages == {}
    with pytest.raises(RuntimeError, match="expected the tile program of 'quadrupled'"):
        kernel.traced()


def test_they_print_as_what_they_are(tripling, tmp_path):
    place = f"at {tmp_path}/tripling.py"
    assert repr(tripling.tripled) == f"<@cute.kernel tripled(X, Y, *, factor=3.0) {place}:5>"
    assert repr(tripling.launched) == f"<@cute.host launched(X, Y) {place}:10>"
    assert repr(tripling.tuned) == (
        f"<@cute.autotuned of 1 candidates: <@cute.kernel tuned(X, Y, *, factor) {place}:14>>"
    )
    assert repr(compiled(tripling.tripled)).startswith("<Kernel tripled for sm_80 (X: f32, ")
