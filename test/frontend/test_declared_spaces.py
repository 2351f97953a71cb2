"""A program that names the space of attention: a user's copy of the program's text, and nothing
else, has the kernels of `cute.attention`.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.ptx_text import canonical
from cutedialect.frontend import declared_spaces, fitting
from cutedialect.frontend.attention import AttentionCall
from cutedialect.frontend.attention_variants import tuned_schedules
from cutedialect.frontend.autotune import tune
from cutedialect.frontend.declarations import ATTENTION
from cutedialect.frontend.library import attention as library
from cutedialect.frontend.tunable import TunableKernel

LOG2_E = math.log2(math.e)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The program of a module whose text is that of the library's, elsewhere."""
    path = tmp_path_factory.mktemp("user") / "my_attention.py"
    path.write_text(Path(library.__file__).read_text())
    spec = importlib.util.spec_from_file_location("my_attention", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["my_attention"] = module
    spec.loader.exec_module(module)
    return module.attention


def arguments(q, k, v, out, lse=None, causal=False, window=None, softcap=None):
    """What a user hands to the program: heads that share keys are a mode of their own."""
    scale, cap = LOG2_E / math.sqrt(q.shape[-1]), None
    if softcap is not None:
        scale, cap = 1 / math.sqrt(q.shape[-1]) / softcap, softcap * LOG2_E
    left, right = window or (None, None)
    right = 0 if causal else right
    numbers = (None if each is None else np.float32(each) for each in (scale, cap))
    keys = (None if each is None else np.int32(each) for each in (left, right))
    return [q, k, v, out, lse, *numbers, *keys, *[None] * 8]


def drawn(number):
    """Specs of a problem, the options of a call of `cute.attention`, and its target."""
    rng = random.Random(f"copied {number}")
    arch = rng.choice(("sm_90a", "sm_90a", "sm_90a", "sm_100a", "sm_80"))
    dtype, depth = rng.choice(("bf16", "f16")), rng.choice((64, 80, 96, 128, 192, 256))
    rows, keys = (rng.choice((64, 300, 1024, 4096)) for _ in range(2))
    group, align = rng.choice((1, 1, 4)), rng.choice((16, 16, 8))
    mask = rng.choice(({}, {"causal": True}, {"window": (256, 0)}))
    options = mask | rng.choice(({}, {}, {"softcap": 30.0}, {"return_lse": True}))
    batch, heads = 8, 16
    q = cute.TensorSpec((batch, heads * group, rows, depth), dtype, align=align)
    k = cute.TensorSpec((batch, heads, keys, depth), dtype, align=align)
    return q, k, options, group, arch


@pytest.mark.some(2)
@pytest.mark.parametrize("number", range(20))
def test_a_copy_of_the_program_has_the_same_kernels(copy, number):
    q, k, options, group, arch = drawn(number)
    ours = cute.compile(cute.attention, q, k, k, arch=arch, **options)
    given = dict(options)
    lse = None
    batch, heads, rows, depth = q.shape
    if given.pop("return_lse", False):
        lse = cute.TensorSpec((batch, heads, rows), "f32", align=4)
    out = cute.TensorSpec(q.shape, q.dtype)
    if group > 1:
        split = batch, heads // group, group, rows
        q = cute.TensorSpec((*split, depth), q.dtype, align=q.align)
        out = cute.TensorSpec((*split, depth), q.dtype)
        shape = *k.shape[:2], group, *k.shape[2:]
        k = cute.TensorSpec(shape, k.dtype, align=k.align)
        lse = None if lse is None else cute.TensorSpec(split, "f32", align=4)
    scaled = {"is_scaled_first": "softcap" in options}
    theirs = cute.compile(copy, *arguments(q, k, k, out, lse, **given), arch=arch, **scaled)
    assert theirs.schedule == ours.schedule
    assert theirs.parameters == ours.parameters
    assert canonical(theirs.ptx) == canonical(ours.ptx)


def small(dtype=np.float16):
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(1, 2, 64, 32)).astype(dtype) for _ in range(3))
    return q, k, v, np.zeros_like(q)


def test_the_copy_runs_without_a_word_of_a_schedule(copy, monkeypatch):
    q, k, v, out = small()
    called = arguments(q, k, v, out, causal=True)
    copy(*called, arch="sm_90a", backend="emulator")
    wanted = cute.attention(q, k, v, causal=True, arch="sm_90a", backend="emulator")
    assert np.array_equal(out, wanted)
    # The second call chooses nothing.
    monkeypatch.setattr(declared_spaces, "choose", lambda *_: 1 / 0)
    assert cute.compile(copy, *called, arch="sm_90a", backend="emulator").parameters["tile"]


def test_what_a_call_gives_stays(copy):
    specs = arguments(*[cute.TensorSpec((8, 16, 512, 64), "bf16")] * 4)
    given = cute.compile(copy, *specs, arch="sm_90a", tile=(64, 32), maxima="exact")
    assert given.parameters["tile"] == (64, 32)
    assert given.parameters["maxima"] == "exact"
    asked = cute.compile(copy, *specs, arch="sm_90a", schedule="stages = 3, overlap = no")
    schedule = cute.Schedule.parse(asked.schedule)
    assert (schedule.stages, schedule.overlap) == (3, "no")


def test_registers_that_spill_give_way_to_fewer_keys(copy, monkeypatch):
    monkeypatch.setattr(fitting, "runs_on_device", lambda backend: True)
    monkeypatch.setattr(
        Kernel, "fits", property(lambda self: self.parameters["tile"][1] <= 96), raising=False
    )
    specs = arguments(*[cute.TensorSpec((8, 16, 512, 128), "bf16")] * 4)
    kernel = cute.compile(copy, *specs, arch="sm_90a")
    assert kernel.parameters["tile"][1] <= 96


def test_a_kernel_found_on_disk_needs_no_ir(copy, tmp_path, monkeypatch):
    """A call in a new process chooses, and imports nothing of IR."""
    text = f"""
import sys; sys.path.insert(0, {str(Path(inspect.getfile(copy.function)).parent)!r})
import numpy as np, cutedialect as cute
from my_attention import attention
x = cute.TensorSpec((8, 16, 512, 64), "bf16")
kernel = cute.compile(attention, x, x, x, x, None, np.float32(1), *[None] * 11, arch="sm_90a")
print(kernel.parameters["tile"], "xdsl" in sys.modules)
"""
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CUTEDIALECT_NO_CACHE", raising=False)
    x = cute.TensorSpec((8, 16, 512, 64), "bf16")
    cute.compile(copy, x, x, x, x, None, np.float32(1), *[None] * 11, arch="sm_90a")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout.split()[-1] == "False", done.stderr


def test_tuning_of_a_copy_lists_what_that_of_attention_does(copy):
    class Timer:
        device, arch = "Fake GPU", "sm_90a"

        def random(self, shape, strides, dtype, align):
            return cute.TensorSpec(shape, dtype, strides, align)

        copied = assemble = close = lambda self, *_: None

        def prepare(self, kernel, arguments):
            return kernel

        def time(self, prepared):
            # Narrow blocks of keys are fast here.
            return [float(kernel.parameters["tile"][1]) for kernel in prepared]

    specs = arguments(*[cute.TensorSpec((8, 16, 128, 64), "bf16")] * 4)
    target = TunableKernel(copy, specs, {"arch": "sm_90a"}, Timer())
    call = AttentionCall(ATTENTION.given(*[cute.TensorSpec((8, 16, 128, 64), "bf16")] * 3))
    assert target.candidates() == (None, *tuned_schedules(call.problem("sm_90a", "auto")))
    configs = ["tile = (64,64)", "tile = (64,32)"]
    found = tune(copy, specs, {}, configs=configs, rounds=1, timer=Timer(), again=True)
    assert found.best.schedule == "tile = (64,32)"


def test_a_space_is_named_by_programs_that_have_its_arguments():
    with pytest.raises(ValueError, match="expected space to be one of attention, or None, got 'x'"):
        cute.kernel(space="x")

    with pytest.raises(TypeError, match="expected values of f's open parameter tile, or a space"):

        @cute.kernel
        def f(X, *, tile=cute.one_of()): ...

    @cute.kernel(space="attention")
    def other(X, Y, *, tile=cute.one_of()):
        cute.copy(cute.local_tile(X, tile, (0, 0)), cute.local_tile(Y, tile, (0, 0)))

    x = cute.TensorSpec((64, 64), "f32")
    with pytest.raises(TypeError, match="got none of the name Q"):
        cute.compile(other, x, x, arch="sm_90a")
