"""Compile-time parameters that a program declares open: what is given stays, what is left open is
filled, and what tuning finds is used.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.__main__ import main
from cutedialect.backend.runtime import cache
from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.buffers import DeviceTensor
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.choosing.program_space import OPEN_SPACE, OpenProblem, Options
from cutedialect.frontend import launch, open_parameters
from cutedialect.frontend.autotune import autotune, tune

DEVICE = "Fake GPU"


class Timer:
    """`cost(kernel)` gives microseconds."""

    device, arch = DEVICE, "sm_90a"

    def __init__(self, cost):
        self.cost, self.address = cost, 1 << 30

    def random(self, shape, strides, dtype, align):
        self.address += 1 << 30
        return DeviceTensor(TensorArgument(self.address, shape, strides, dtype, 0, None))

    def copied(self, tensor):
        return self.random(tensor.shape, tensor.strides, tensor.dtype, 16)

    def assemble(self, kernel):
        return None

    def prepare(self, kernel, arguments):
        kernel._checker.bind(arguments)
        return kernel

    def time(self, prepared):
        return [self.cost(kernel) for kernel in prepared]

    def close(self):
        return None


@cute.kernel
def chained(A, B, C, D, *, tile=cute.one_of((64, 64), (128, 64), (64, 32)), scale=1.0):
    """D = (A B) C, a block of rows of A B at a time."""
    rows, columns = tile
    i, j = cute.tile_index(D, (rows, columns))
    a = cute.local_tile(A, (rows, 32), (i, None))
    b = cute.local_tile(B, (32, 64), (None, 0))
    first = cute.zeros((rows, 64))
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], first)
    out = cute.zeros((rows, columns))
    cute.gemm((first * scale).to(cute.f16), cute.local_tile(C, (64, columns), (0, j)), out)
    cute.copy(out.to(cute.f16), cute.local_tile(D, (rows, columns), (i, j)))


@cute.kernel
def product(A, B, C, *, rows=cute.one_of(2048, 64, 128), way=cute.one_of("plain", "twice")):
    """Rows of A of which shared memory does not hold 2048."""
    i, j = cute.tile_index(C, (rows, 64))
    acc = cute.zeros((rows, 64))
    cute.gemm(cute.local_tile(A, (rows, 64), (i, 0)), cute.local_tile(B, (64, 64), (0, j)), acc)
    acc = acc if way == "plain" else acc * 2.0
    cute.copy(acc.to(cute.f16), cute.local_tile(C, (rows, 64), (i, j)))


SPECS = [cute.TensorSpec(shape, "f16") for shape in ((256, 96), (96, 64), (64, 128), (256, 128))]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CUTEDIALECT_NO_CACHE", raising=False)
    monkeypatch.delenv("CUTEDIALECT_BACKEND", raising=False)
    launch.forget_open(chained)
    launch.forget_open(product)


def on_a_device(monkeypatch):
    """As if a GPU were there, whose kernels have no spill but those of `spilling` tiles."""
    monkeypatch.setattr(open_parameters, "runs_on_device", lambda backend: True)
    monkeypatch.setattr(open_parameters, "device_name", lambda: DEVICE)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_what_is_left_open_is_filled_and_what_is_given_stays(arch):
    default = cute.compile(chained, *SPECS, arch=arch)
    assert default.parameters["scale"] == 1.0
    given = cute.compile(chained, *SPECS, arch=arch, tile=default.parameters["tile"])
    assert given.ptx == default.ptx
    other = cute.compile(chained, *SPECS, arch=arch, tile=(64, 32), scale=2.0)
    assert other.parameters == {"tile": (64, 32), "scale": 2.0}
    # A value that is not of the list is the user's business.
    assert cute.compile(chained, *SPECS, arch=arch, tile=(64, 16)).parameters["tile"] == (64, 16)


def test_a_program_with_open_parameters_computes():
    rng = np.random.default_rng(3)
    a, b, c = (rng.integers(-1, 2, spec.shape).astype(np.float16) for spec in SPECS[:3])
    d = np.zeros(SPECS[3].shape, np.float16)
    chained(a, b, c, d, arch="sm_90a", backend="emulator")
    assert np.array_equal(d, (a.astype(np.float32) @ b @ c).astype(np.float16))


def test_values_that_passes_refuse_give_way():
    specs = [cute.TensorSpec(shape, "f16") for shape in ((4096, 64), (64, 64), (4096, 64))]
    with pytest.raises(cute.CompileError):
        cute.compile(product, *specs, arch="sm_80", rows=2048)
    found = cute.compile(product, *specs, arch="sm_80")
    assert found.parameters == {"rows": 64, "way": "plain"}
    assert cute.compile(product, *specs, arch="sm_80", way="twice").parameters["rows"] == 64


def test_a_schedule_that_is_given_goes_with_all_values():
    kernel = cute.compile(chained, *SPECS, arch="sm_90a", schedule="stages = 2")
    assert cute.Schedule.parse(kernel.schedule).stages == 2
    assert kernel.parameters["tile"] == (64, 64)
    with pytest.raises(cute.CompileError):
        cute.compile(chained, *SPECS, arch="sm_90a", schedule="cluster = (64,1)")


def test_registers_that_spill_give_way(monkeypatch):
    on_a_device(monkeypatch)
    from cutedialect.frontend import fitting

    monkeypatch.setattr(fitting, "runs_on_device", lambda backend: True)
    monkeypatch.setattr(
        Kernel, "fits", property(lambda self: self.parameters["tile"] != (64, 64)), raising=False
    )
    assert cute.compile(chained, *SPECS, arch="sm_90a").parameters["tile"] == (128, 64)
    # The next process asks for no registers.
    monkeypatch.setattr(Kernel, "fits", property(lambda self: 1 / 0), raising=False)
    launch.forget_open(chained)
    assert cute.compile(chained, *SPECS, arch="sm_90a").parameters["tile"] == (128, 64)


def test_all_values_are_timed_and_the_fastest_is_used_from_then_on(monkeypatch):
    on_a_device(monkeypatch)

    def cost(kernel):
        return {(64, 64): 5.0, (128, 64): 3.0, (64, 32): 9.0}[kernel.parameters["tile"]]

    found = tune(chained, SPECS, {}, timer=Timer(cost), rounds=3)
    names = [each.schedule for each in found.timings]
    assert names[:4] == ["", "tile = (64, 64)", "tile = (128, 64)", "tile = (64, 32)"]
    assert "stages = 2" in names
    assert found.best.schedule == "tile = (128, 64)"
    assert cute.compile(chained, *SPECS, arch="sm_90a").parameters["tile"] == (128, 64)
    assert cute.compile(chained, *SPECS, arch="sm_90a", tile=(64, 64)).parameters["tile"] == (
        64,
        64,
    )
    # Another class of problems was not tuned.
    others = [cute.TensorSpec((1024, 96), "f16"), *SPECS[1:3], cute.TensorSpec((1024, 128), "f16")]
    assert cute.compile(chained, *others, arch="sm_90a").parameters["tile"] == (64, 64)


def test_calls_on_arrays_use_what_was_tuned_for_their_extents(monkeypatch):
    on_a_device(monkeypatch)
    tune(chained, SPECS, {}, timer=Timer(lambda kernel: -kernel.parameters["tile"][0]), rounds=1)
    timer = Timer(None)
    for rows, tile in ((256, (128, 64)), (1024, (64, 64))):
        specs = [replace(each, shape=(rows, each.shape[1])) for each in (SPECS[0], SPECS[3])]
        arrays = [
            timer.random(each.shape, (each.shape[1], 1), "float16", 16)
            for each in (specs[0], *SPECS[1:3], specs[1])
        ]
        assert launch.compile_kernel(chained, arrays, {"arch": "sm_90a"}).parameters["tile"] == tile


def test_autotune_gives_the_keywords_of_the_fastest(monkeypatch):
    on_a_device(monkeypatch)

    def cost(kernel):
        return 2.0 if kernel.parameters["tile"] == (128, 64) else 5.0

    monkeypatch.setattr("cutedialect.frontend.autotune.DeviceTimer", lambda check: Timer(cost))
    assert autotune(chained, *SPECS, rounds=1) == {"tile": (128, 64)}
    assert autotune(chained, *SPECS, rounds=1) == {"tile": (128, 64)}


def test_the_command_lists_the_values(capsys):
    specs = [f"{'x'.join(map(str, spec.shape))}:f16" for spec in SPECS]
    assert main(["schedules", "--kernel", f"{__file__}:chained", *specs, "--arch", "sm_90a"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("default: tile = (64, 64), scale = 1.0; warps = ")
    assert [line.strip() for line in lines[2:5]] == [
        "tile = (64, 64)", "tile = (128, 64)", "tile = (64, 32)",
    ]  # fmt: skip
    assert main(["schedules", "--kernel", f"{__file__}:chained", *specs, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["default"]["parameters"] == {"tile": [64, 64], "scale": 1.0}
    assert "stages = 2" in told["candidates"]


def test_a_choice_is_found_on_disk_without_xdsl(tmp_path):
    lines = (
        "import sys",
        "import cutedialect as cute",
        inspect.getsource(chained.function),
        "shapes = (256, 96), (96, 64), (64, 128), (256, 128)",
        "specs = [cute.TensorSpec(shape, 'f16') for shape in shapes]",
        "kernel = cute.compile(chained, *specs, arch='sm_90a')",
        "print(kernel.parameters['tile'], 'xdsl' in sys.modules)",
    )
    path = tmp_path / "program.py"
    path.write_text("\n".join(lines))
    command = [sys.executable, str(path)]
    told = [subprocess.run(command, capture_output=True, text=True).stdout for _ in range(2)]
    assert told == ["(64, 64) True\n", "(64, 64) False\n"]
    assert (cache.folder() / "choice").is_dir()


def test_fillings_that_differ_least_come_first():
    named = {"a": (1, 2, 3), "b": ("x", "y")}
    texts = [each.text() for each in open_parameters.listed(named)]
    assert texts[:3] == ["a = 1, b = 'x'", "a = 1, b = 'y'", "a = 2, b = 'x'"]
    assert len(set(texts)) == 6
    problem = OpenProblem(named)
    assert OPEN_SPACE.need(problem, Options((("a", 1),))).text() == "nothing that is counted"


def test_a_declaration_that_leaves_nothing_open_is_refused():
    with pytest.raises(ValueError, match="expected two different values or more, got"):
        cute.one_of((64, 64), (64, 64))
    with pytest.raises(TypeError):
        cute.one_of([1], [2])

    def argument(X, tile=cute.one_of(1, 2)): ...

    with pytest.raises(TypeError, match="one_of for a compile-time parameter, behind '\\*', got"):
        cute.kernel(argument)
