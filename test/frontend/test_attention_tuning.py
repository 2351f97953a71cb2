"""`cute.autotune` of `cute.attention` with a timer that makes its figures up: what is timed, what
is kept, and what calls then compute with. Compilation is real.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.buffers import DeviceTensor
from cutedialect.frontend import attention_backward_tuning, declared_spaces, fitting
from cutedialect.frontend.attention import AttentionCall
from cutedialect.frontend.attention_backward_tuning import TunableAttentionBackward
from cutedialect.frontend.attention_tuning import TunableAttention, problem_class
from cutedialect.frontend.attention_variants import tuned_schedules
from cutedialect.frontend.autotune import tune
from cutedialect.frontend.declarations import ATTENTION

SPEC = cute.TensorSpec((2, 4, 512, 64), "bf16")
TILES = ["tile = (128,64)", "tile = (64,64)", "tile = (192,96)"]


class Timer:
    """`cost(schedule)` gives microseconds."""

    device = "Fake GPU"

    def __init__(self, cost, arch="sm_90a"):
        self.cost, self.arch = cost, arch
        self.address = 1 << 30

    def random(self, shape, strides, dtype, align):
        self.address += 1 << 30
        place = self.address + (align if align < 16 else 0)
        return DeviceTensor(TensorArgument(place, shape, strides, dtype, 0, None))

    def copied(self, tensor):
        return self.random(tensor.shape, tensor.strides, tensor.dtype, 16)

    def assemble(self, kernel):
        return None

    def prepare(self, kernel, arguments):
        kernel._checker.bind(arguments)
        return cute.Schedule.parse(kernel.schedule)

    def time(self, prepared):
        return [self.cost(schedule) for schedule in prepared]

    def close(self):
        return None


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CUTEDIALECT_NO_CACHE", raising=False)
    monkeypatch.delenv("CUTEDIALECT_BACKEND", raising=False)


def by_rows(schedule):
    return {64: 7.0, 128: 9.0, 192: 8.0}[schedule.tile[0]]


def test_the_fastest_tile_is_kept_and_taken_by_calls_of_its_class(monkeypatch):
    shown = []
    found = tune(
        cute.attention, (SPEC,) * 3, {"causal": True}, configs=TILES, timer=Timer(by_rows),
        rounds=3, show=shown.append,
    )  # fmt: skip
    assert found.best is not None
    assert found.best.schedule == "tile = (64,64)"
    assert found.complete
    assert any("compiling 2/3" in text for text in shown)
    assert any("round 3/3" in text for text in shown)
    monkeypatch.setattr(fitting, "gpu_available", lambda: True)
    monkeypatch.setattr(declared_spaces, "device_name", lambda: Timer.device)
    near = cute.TensorSpec((2, 4, 500, 64), "bf16")
    options = {"arch": "sm_90a", "causal": True}
    assert "tile = (64,64)" in cute.compile(cute.attention, *(near,) * 3, **options).schedule
    # What is given, what another problem is, and what no device runs stays as it was.
    for arguments, more in (
        ((SPEC,) * 3, {"causal": False}),
        ((SPEC,) * 3, {"schedule": "tile = (128,64)"}),
        ((SPEC,) * 3, {"backend": "emulator"}),
        ((cute.TensorSpec((2, 4, 4096, 64), "bf16"),) * 3, {}),
    ):
        kernel = cute.compile(cute.attention, *arguments, **(options | more))
        assert "tile = (64,64)" not in kernel.schedule
    assert tune(cute.attention, (near,) * 3, options, configs=TILES, timer=Timer(by_rows)).kept


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "options",
    [
        {"lengths": np.full(2, 300, np.int32)},
        {"cu_seqlens": (np.array([0, 200, 512], np.int32),) * 2},
        {"block_table": np.zeros((2, 4), np.int32), "lengths": np.full(2, 300, np.int64)},
        {"return_lse": True, "window": (100, 0), "scale_q": 0.5, "softcap": 20.0},
        {"scale_k": cute.TensorSpec((4,), "f32")},
    ],
)
def test_calls_of_all_kinds_run_with_what_is_timed(options):
    """The arguments of each candidate are those of its kernel, split keys among them."""
    rows = cute.TensorSpec((1, 4, 512, 64) if "cu_seqlens" in options else (2, 4, 40, 64), "bf16")
    keys = rows if "cu_seqlens" in options else SPEC
    if "block_table" in options:
        keys = cute.TensorSpec((8, 4, 64, 64), "bf16")
    configs = [None, "tile = (64,32)"]
    if "cu_seqlens" not in options:
        configs.append("tile = (64,64), split_k = 2")
    found = tune(
        cute.attention, (rows, keys, keys), options, configs=configs, timer=Timer(lambda _: 1.0),
        rounds=1,
    )  # fmt: skip
    assert [timing.failure for timing in found.timings] == [None] * len(configs)


def test_the_backward_pass_is_tuned_as_the_forward_one(monkeypatch):
    """What is fastest is kept for a class of problems, and taken by its calls alone."""
    lse = cute.TensorSpec(SPEC.shape[:-1], "f32")
    specs = SPEC, SPEC, SPEC, SPEC, SPEC, lse
    options = {"causal": True, "deterministic": True}
    target = TunableAttentionBackward(specs, options | {"arch": "sm_90a"}, Timer(by_rows))
    default, *listed = target.candidates()
    assert default is None
    assert 10 <= len(listed) <= 100
    assert len({each.tile for each in listed if each.tile}) > 2
    configs = ["tile = (128,128)", "tile = (64,64)"]
    found = tune(
        cute.attention_backward, specs, options, configs=configs, timer=Timer(by_rows), rounds=2
    )
    assert found.best is not None
    assert found.best.schedule == "tile = (64,64)"
    monkeypatch.setattr(fitting, "gpu_available", lambda: True)
    monkeypatch.setattr(attention_backward_tuning, "device_name", lambda: Timer.device)
    for more, tile in (({}, (64, 64)), ({"deterministic": False}, (128, 128))):
        kernel = cute.compile(cute.attention_backward, *specs, arch="sm_90a", **(options | more))
        assert cute.Schedule.parse(kernel.schedule).tile == tile


@pytest.mark.some(2)
@pytest.mark.parametrize("options", [
    {"wanted": "q"}, {"lengths": np.full(2, 300, np.int32), "softcap": 20.0},
    {"cu_seqlens": (np.array([0, 200, 512], np.int32),) * 2, "window": (100, 0)},
])  # fmt: skip
def test_gradients_of_all_kinds_run_with_what_is_timed(options):
    shape = (1, 4, 512, 64) if "cu_seqlens" in options else (2, 4, 512, 64)
    array, lse = cute.TensorSpec(shape, "bf16"), cute.TensorSpec(shape[:-1], "f32")
    found = tune(
        cute.attention_backward, (array,) * 5 + (lse,), options, configs=["tile = (64,32)"],
        timer=Timer(lambda _: 1.0), rounds=1,
    )  # fmt: skip
    assert [timing.failure for timing in found.timings] == [None]


def test_values_may_be_columns_of_keys():
    k = cute.TensorSpec((1, 1, 128, 576), "bf16")
    q = cute.TensorSpec((1, 16, 1, 576), "bf16")
    found = tune(
        cute.attention, (q, k, 512), {}, configs=[None], timer=Timer(lambda _: 1.0), rounds=1
    )
    assert found.best is not None
    assert "512 columns" in found.problem


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_the_list_is_that_of_the_space(arch):
    target = TunableAttention((SPEC,) * 3, {"arch": arch, "causal": True}, Timer(by_rows, arch))
    default, *listed = target.candidates()
    assert default is None
    assert 10 <= len(listed) <= 100
    given = ATTENTION.given(*(SPEC,) * 3, causal=True)
    assert listed == tuned_schedules(AttentionCall(given).problem(arch, "auto"))


def test_what_is_asked_for_is_part_of_the_class():
    seen = set()
    for options in (
        {}, {"causal": True}, {"window": (64, 0)}, {"window": (32, 0)}, {"softcap": 3.0},
        {"return_lse": True}, {"scale": -1.0}, {"out_dtype": "f32"},
        {"scale_v": cute.TensorSpec((4,), "f32")}, {"lengths": cute.TensorSpec((2,), "i32")},
    ):  # fmt: skip
        seen.add(problem_class(AttentionCall(ATTENTION.given(*(SPEC,) * 3, **options))))
    assert len(seen) == 10


def test_random_numbers_are_no_indices():
    options = {"lengths": cute.TensorSpec((2,), "i32")}
    with pytest.raises(TypeError, match="lengths: expected an array to tune with, got a spec"):
        tune(cute.attention, (SPEC,) * 3, options, timer=Timer(by_rows))
