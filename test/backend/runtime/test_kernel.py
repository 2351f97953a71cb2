"""`Kernel` as users hold it, without a GPU: the emulator runs, and what it says of itself."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from cutedialect.backend.runtime import kernel as kernel_module
from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.program import CompiledProgram, cached_program, program_key

needs_ptxas = pytest.mark.skipif(not ptxas.candidates(), reason="no ptxas")


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_module, "gpu_available", lambda: False)


@pytest.mark.parametrize("shape", [(1, 1), (5, 100), (3, 64), (2, 65), (0, 8), (8, 0)])
def test_the_emulator_runs_the_same_program(scale: CompiledProgram, shape: tuple[int, int]) -> None:
    padded = np.ones((shape[0], -(-shape[1] // 4) * 4), np.float32)
    padded[:] = np.arange(padded.size).reshape(padded.shape)
    before = padded.copy()
    kernel = Kernel(scale)
    kernel.launch(padded[:, : shape[1]], 2.5)
    assert (padded[:, : shape[1]] == before[:, : shape[1]] * np.float32(2.5)).all()
    assert (padded[:, shape[1] :] == before[:, shape[1] :]).all()
    assert len(kernel.reports) == (0 if 0 in shape else 1)


def test_nothing_is_touched_by_a_wrong_call(scale: CompiledProgram) -> None:
    array = np.ones((4, 8), np.float32)
    kernel = Kernel(scale)
    for arguments in [(array,), (array, "2"), (array.T, 2), (array.astype("f8"), 2)]:
        with pytest.raises((TypeError, ValueError)):
            kernel.launch(*arguments)
    assert (array == 1).all()


def test_backends(scale: CompiledProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.ones((4, 8), np.float32)
    with pytest.raises(ValueError, match=r"backend: expected 'auto', .* or 'cupy-cubin', got 'g"):
        Kernel(scale, backend="gpu")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="backend: expected a CUDA device with"):
        Kernel(scale, backend="cuda").launch(array, 2)
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "cuda")
    with pytest.raises(RuntimeError, match="backend: expected a CUDA device with"):
        Kernel(scale).launch(array, 2)
    Kernel(scale, backend="emulator").launch(array, 2)
    assert (array == 2).all()
    with pytest.raises(ValueError, match="stream: expected None with the emulator"):
        Kernel(scale, backend="emulator").launch(array, 2, stream=1)


def test_stages_are_made_once_and_late(scale: CompiledProgram) -> None:
    made: list[int] = []

    def stages() -> dict[str, str]:
        made.append(1)
        return {"cute-tile": "ir"}

    kernel = Kernel(scale, stages)
    assert made == []
    assert kernel.stages == kernel.stages == {"cute-tile": "ir"}
    assert made == [1]
    assert Kernel(scale).stages == {}


@needs_ptxas
def test_what_a_kernel_says_of_itself(scale: CompiledProgram) -> None:
    kernel = Kernel(scale).warmup()
    assert kernel.ptx == scale.ptx
    assert kernel.cubin.startswith(b"\x7fELF")
    assert kernel.schedule == "tile = (1,64)"
    assert (kernel.name, kernel.arch) == ("scale", "sm_80")
    resources = kernel.resources
    assert 4 <= resources.registers <= 32
    assert (resources.spills, resources.smem, resources.barriers) == (0, 0, 0)
    assert resources.ops == {"uniform": 17}
    assert repr(kernel).startswith("<Kernel scale for sm_80 (x: f32")


def test_a_warm_start_imports_no_xdsl(scale: CompiledProgram) -> None:
    key = program_key(len, "", "", "sm_80")
    cached_program(key, lambda: scale)
    script = f"""
import sys
import numpy as np
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.program import program_key, read_program
key = program_key(len, "", "", "sm_80")
assert key == {key!r}, key
kernel = Kernel(read_program(key), backend="emulator")
array = np.ones((2, 8), np.float32)
kernel.launch(array, 2)
assert (array == 2).all()
assert not [name for name in sys.modules if name.partition(".")[0] in ("xdsl", "cupy")]
assert not [name for name in sys.modules if name.startswith(("cutedialect.dialects",
                                                             "cutedialect.passes"))]
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
