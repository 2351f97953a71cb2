"""`cute.autotune` and `python -m cutedialect tune` with a timer that makes its figures up: what is
chosen, what is kept and found again, what failures and Ctrl-C leave. Compilation is real.
"""

import importlib
import json
import threading

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.__main__ import main
from cutedialect.backend.runtime import cache, tunings
from cutedialect.backend.runtime import timing as timing_module
from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.buffers import DeviceTensor
from cutedialect.backend.runtime.driver import gpu_available
from cutedialect.backend.runtime.errors import CompileError, PtxasNotFoundError
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.timing import DeviceLostError, NoDeviceError
from cutedialect.backend.runtime.tunings import Timing, Tuning, extent_class
from cutedialect.frontend import autotune as autotune_module
from cutedialect.frontend import fitting, gemm_tuning
from cutedialect.frontend import gemm as gemm_module
from cutedialect.frontend.autotune import tune
from cutedialect.frontend.declarations import GEMM as DECLARED
from cutedialect.frontend.gemm import schedule_of
from cutedialect.frontend.gemm_tuning import TunableGemm
from cutedialect.frontend.tunable import extents_and_strides

DEVICE = "Fake GPU"


class FakeTimer:
    """`cost(schedule)` gives the microseconds of a round; an exception in its place is raised where
    the kernel is prepared. `log` has the schedules of every call of `time`.
    """

    def __init__(self, cost, *, arch="sm_80", device=DEVICE):
        self.cost, self.arch, self.device = cost, arch, device
        self.log = []
        self.assembled = []
        self.closed = 0
        self.next_address = 1 << 30

    def random(self, shape, strides, dtype, align):
        self.next_address += 1 << 30
        place = align if align < 16 else 0
        address = self.next_address + place
        return DeviceTensor(TensorArgument(address, shape, strides, dtype, 0, None))

    def copied(self, tensor):
        return self.random(tensor.shape, tensor.strides, tensor.dtype, 16)

    def assemble(self, kernel):
        self.assembled.append((kernel.schedule, threading.current_thread()))

    def prepare(self, kernel, arguments):
        kernel._checker.bind(arguments)
        assert all(isinstance(each, DeviceTensor | float) for each in arguments)
        schedule = cute.Schedule.parse(kernel.schedule)
        cost = self.cost(schedule)
        if isinstance(cost, BaseException):
            raise cost
        return schedule

    def time(self, prepared):
        self.log.append(list(prepared))
        return [self.cost(schedule) for schedule in prepared]

    def close(self):
        self.closed += 1


@cute.kernel
def double(X, Y, *, tile=(8, 64), factor=2):
    i, j = cute.tile_index(X, tile)
    x = cute.load(cute.local_tile(X, tile, (i, j)))
    cute.copy(x * factor, cute.local_tile(Y, tile, (i, j)))


SPEC = cute.TensorSpec((64, 128), "f32")
WARPS = [f"warps = ({n},1)" for n in (1, 2, 4, 8)]


def by_warps(**costs):
    return lambda schedule: costs[f"w{schedule.warps[0]}"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CUTEDIALECT_NO_CACHE", raising=False)
    monkeypatch.delenv("CUTEDIALECT_BACKEND", raising=False)


def tuned(timer, *, args=(SPEC, SPEC), configs=WARPS, op=double, options=None, **more):
    return tune(op, args, options or {}, configs=configs, timer=timer, **more)


def test_the_fastest_is_chosen():
    found = tuned(FakeTimer(by_warps(w1=9.0, w2=7.0, w4=8.0, w8=11.0)))
    assert found.best.schedule == "warps = (2,1)"
    assert [timing.schedule for timing in found.timings] == WARPS
    assert found.best.median == 7.0
    assert found.complete
    assert not found.kept
    assert (found.kernel, found.arch, found.device) == ("double", "sm_80", DEVICE)
    assert "warps = (2,1)" in found.best.full
    assert "stages" in found.best.full


@pytest.mark.parametrize(
    ("default", "other", "best"), [(10.0, 9.95, ""), (10.0, 9.8, "raster = 1")]
)
def test_the_default_stays_where_others_gain_hardly_anything(default, other, best):
    timings = (Timing("", (default,)), Timing("raster = 1", (other,)))
    assert Tuning("k", "sm_90a", "GPU", "p", timings).best.schedule == best


def test_a_round_times_all_in_turns_and_the_slow_leave():
    timer = FakeTimer(by_warps(w1=10.0, w2=10.5, w4=12.0, w8=30.0))
    found = tuned(timer, rounds=20)
    looks, rounds = timer.log[:4], timer.log[4:]
    assert all(len(look) == 1 for look in looks)
    assert [[s.warps[0] for s in r] for r in rounds[:3]] == [
        [1, 2, 4, 8],
        [8, 4, 2, 1],
        [1, 2, 4, 8],
    ]
    assert [len(r) for r in rounds] == [4] * 3 + [3] * 7 + [2] * 10
    assert [len(timing.microseconds) for timing in found.timings] == [20, 20, 10, 3]
    assert timer.closed == 1


def test_medians_decide_and_not_the_luckiest_round():
    calls = {1: 0, 2: 0}

    def cost(schedule):
        warps = schedule.warps[0]
        calls[warps] += 1
        return 5.0 if (warps, calls[warps] % 5) == (1, 0) else {1: 10.0, 2: 9.5}[warps]

    assert tuned(FakeTimer(cost), configs=WARPS[:2], rounds=10).best.schedule == WARPS[1]


def test_machine_code_is_made_in_other_threads_once_for_equal_kernels():
    timer = FakeTimer(by_warps(w1=1.0, w2=2.0, w4=3.0, w8=4.0))
    found = tuned(timer, configs=[*WARPS, "warps = (4,1), stages = 2"])
    assert len(timer.assembled) == 4
    assert all(thread is not threading.main_thread() for _, thread in timer.assembled)
    assert found.timings[4].microseconds == found.timings[2].microseconds
    assert all(len(round_) <= 4 for round_ in timer.log)


def test_failures_are_listed_and_not_fatal():
    costs = by_warps(
        w1=RuntimeError("too many resources\nrequested"),
        w2=7.0,
        w4=8.0,
        w8=PtxasNotFoundError("no"),
    )
    found = tuned(FakeTimer(costs), configs=["tile = (3,3,3), warps = (3,1)", *WARPS])
    assert found.best.schedule == "warps = (2,1)"
    said = {timing.schedule: timing.failure for timing in found.failures}
    assert said.pop(WARPS[0]) == "RuntimeError: too many resources"
    assert said.pop(WARPS[3]) == "error[CD-COMPILE]: no"
    ((schedule, failure),) = said.items()
    assert schedule == "tile = (3,3,3), warps = (3,1)"
    assert failure


def test_machine_code_that_ptxas_refuses_is_a_failure():
    class Refuses(FakeTimer):
        def assemble(self, kernel):
            if "warps = (2,1)" in kernel.schedule:
                raise CompileError("spills 4 bytes", code="C7511")

    found = tuned(Refuses(by_warps(w1=2.0, w2=1.0, w4=3.0, w8=4.0)))
    assert found.best.schedule == WARPS[0]
    assert [f.failure for f in found.failures] == ["error[C7511]: spills 4 bytes"]


def test_nothing_runs():
    timer = FakeTimer(lambda schedule: RuntimeError("no such thing"))
    with pytest.raises(
        CompileError, match="'double' that runs, got 4 that do not; the first: Runt"
    ):
        tuned(timer)
    assert list(cache.entries()) == [e for e in cache.entries() if e.kind != "schedule"]


def test_a_lost_device_ends_the_search_with_what_there_is():
    costs = by_warps(w1=9.0, w2=7.0, w4=DeviceLostError("illegal address"), w8=1.0)
    found = tuned(FakeTimer(costs))
    assert not found.complete
    assert found.best.schedule == WARPS[1]
    assert [f.failure for f in found.failures] == [
        "DeviceLostError: illegal address",
        "not timed: the device was lost to warps = (4,1)",
    ]


@pytest.mark.parametrize("after", [3, 6])
def test_ctrl_c_keeps_the_best_so_far(after):
    """In the first look (two are timed) and in a later round."""

    class Interrupted(FakeTimer):
        def time(self, prepared):
            if len(self.log) == after - 1:
                raise KeyboardInterrupt
            return super().time(prepared)

    timer = Interrupted(by_warps(w1=9.0, w2=7.0, w4=5.0, w8=8.0))
    found = tuned(timer)
    assert not found.complete
    assert found.best.schedule == (WARPS[1] if after == 3 else WARPS[2])
    assert timer.closed == 1
    # The next search finds it unfinished, and goes through.
    again = FakeTimer(by_warps(w1=9.0, w2=7.0, w4=5.0, w8=4.0))
    assert tuned(again).best.schedule == WARPS[3]
    assert again.log


def test_ctrl_c_before_anything_was_timed():
    class Interrupted(FakeTimer):
        def prepare(self, kernel, arguments):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned(Interrupted(by_warps()))


def test_results_are_kept_and_found():
    costs = by_warps(w1=9.0, w2=7.0, w4=8.0, w8=11.0)
    first = tuned(FakeTimer(costs))
    silent = FakeTimer(lambda schedule: pytest.fail("timed again"))
    found = tuned(silent)
    assert found.kept
    assert silent.assembled == []
    assert found.timings == first.timings
    # Of a part of what was tried, the best of that part.
    assert tuned(silent, configs=WARPS[2:]).best.schedule == WARPS[2]
    # A new one among them has to be timed, and the old ones stay known.
    more = tuned(FakeTimer(lambda schedule: 1.0), configs=["warps = (16,1)"])
    assert not more.kept
    assert tuned(silent, configs=[*WARPS, "warps = (16,1)"]).best.schedule == "warps = (16,1)"
    assert not tuned(FakeTimer(costs), again=True).kept


@pytest.mark.parametrize(
    "change",
    [
        {"options": {"factor": 3}},
        {"options": {"arch": "sm_86"}},
        {"args": (cute.TensorSpec((64, 256), "f32"), cute.TensorSpec((64, 256), "f32"))},
        {"args": (cute.TensorSpec((64, 128), "f16"), cute.TensorSpec((64, 128), "f16"))},
        {"args": (SPEC, cute.TensorSpec((64, 128), "f32", (1, 64)))},
        {"device": "Another GPU"},
    ],
    ids=str,
)
def test_other_problems_are_tuned_anew(change):
    costs = by_warps(w1=9.0, w2=7.0, w4=8.0, w8=11.0)
    tuned(FakeTimer(costs))
    device = change.pop("device", DEVICE)
    assert not tuned(FakeTimer(costs, device=device), **change).kept


def test_a_like_size_shares_the_result():
    costs = by_warps(w1=9.0, w2=7.0, w4=8.0, w8=11.0)
    tuned(FakeTimer(costs))
    near = cute.TensorSpec((62, 132), "f32")
    assert tuned(FakeTimer(costs), args=(near, near)).kept


def test_without_a_disk_cache_nothing_is_kept(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    costs = by_warps(w1=9.0, w2=7.0, w4=8.0, w8=11.0)
    tuned(FakeTimer(costs))
    assert not tuned(FakeTimer(costs)).kept


def test_another_version_of_the_package_tunes_anew(monkeypatch):
    costs = by_warps(w1=9.0, w2=7.0, w4=8.0, w8=11.0)
    tuned(FakeTimer(costs))
    monkeypatch.setattr(tunings.cache, "package_stamp", lambda: "another")
    assert not tuned(FakeTimer(costs)).kept


def test_without_configs_a_kernel_varies_what_the_heuristic_takes():
    timer = FakeTimer(lambda schedule: 1.0 + (schedule.warps != (4, 1)))
    found = tuned(timer, configs=None, rounds=1)
    tried = [timing.schedule for timing in found.timings]
    assert tried[0] == ""
    assert {"warps = (4,1)", "warps = (2,2)", "scheduler = persistent"} <= set(tried)
    assert found.best.schedule == "warps = (4,1)"
    best = autotune(timer, double, SPEC, SPEC)
    assert best == cute.Schedule(warps=(4, 1))


def autotune(timer, op, *args, **options):
    """`cute.autotune` where `timer` is the device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(autotune_module, "DeviceTimer", lambda check: timer)
        return cute.autotune(op, *args, **options)


def test_autotune_gives_a_schedule_and_leaves_arrays_alone(capsys):
    x, y = np.ones((64, 128), np.float32), np.zeros((64, 128), np.float32)

    class Copies(FakeTimer):
        def copied(self, tensor):
            copies.append(tensor.owner)
            return super().copied(tensor)

    copies = []
    timer = Copies(by_warps(w1=3.0, w2=RuntimeError("no"), w4=2.0, w8=4.0))
    assert autotune(timer, double, x, y, configs=WARPS) == cute.Schedule(warps=(4, 1))
    assert copies[0] is x
    assert copies[1] is y
    assert not y.any()
    assert capsys.readouterr().err == "autotune: warps = (2,1): RuntimeError: no\n"
    # Kept: nothing is said again, and text is taken as well as schedules and None.
    assert autotune(timer, double, x, y, configs=[cute.Schedule(warps=(1, 1)), WARPS[2]]) == (
        cute.Schedule(warps=(4, 1))
    )
    assert capsys.readouterr().err == ""


def test_the_default_comes_back_written_out():
    best = autotune(FakeTimer(lambda schedule: 1.0), double, SPEC, SPEC, configs=[None])
    assert best.warps is not None
    assert best.stages is not None


@pytest.mark.parametrize(
    ("arguments", "options", "error", "said"),
    [
        ((SPEC,), {}, TypeError, "expected 2 arguments for double"),
        ((cute.TensorSpec((None, 8), "f32"), SPEC), {}, ValueError, "X: expected given extents"),
        ((SPEC, SPEC), {"configs": []}, ValueError, "configs: expected one schedule or more"),
        ((SPEC, SPEC), {"configs": ["stagez = 3"]}, ValueError, "stagez"),
        ((SPEC, SPEC), {"configs": [3]}, TypeError, "expected schedule to be a cute.Schedule"),
        ((SPEC, SPEC), {"rounds": 0}, ValueError, "rounds: expected 1 or more, got 0"),
        ((SPEC, SPEC), {"backend": "emulator"}, ValueError, "emulated time says nothing"),
        ((SPEC, SPEC), {"schedule": "stages = 3"}, TypeError, "'configs' lists those to try"),
    ],
)
def test_wrong_calls(arguments, options, error, said):
    with pytest.raises(error, match=said):
        autotune(FakeTimer(lambda schedule: 1.0), double, *arguments, **options)


def test_a_forced_emulator_is_not_tuned_for(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "emulator")
    with pytest.raises(ValueError, match="expected 'auto', 'cuda' or 'cupy' to tune, got"):
        tuned(FakeTimer(lambda schedule: 1.0))
    assert tuned(FakeTimer(lambda schedule: 1.0), options={"backend": "cuda"}).complete


def test_what_cannot_be_tuned():
    for op, said in ((3, "int"), (cute.grouped_gemm, "grouped_gemm")):
        with pytest.raises(
            TypeError, match=f"cute.attention or a @cute.kernel function, got {said}"
        ):
            autotune(FakeTimer(lambda schedule: 1.0), op)


def test_without_a_device(monkeypatch):
    monkeypatch.setattr(timing_module, "find_driver", lambda: None)
    with pytest.raises(NoDeviceError, match="expected a CUDA device to time"):
        cute.autotune(double, SPEC, SPEC)


# cute.gemm

A, B = cute.TensorSpec((512, 256), "bf16"), cute.TensorSpec((256, 512), "bf16", (1, None))
TILES = ["tile = (128,128,64)", "tile = (128,64,64)"]


def by_columns(schedule):
    """The default of the problem, 64 rows to a tile, is slow here."""
    return float(schedule.tile[1]) if schedule.tile[0] == 128 else 500.0


def on_the_fake(monkeypatch):
    monkeypatch.setattr(fitting, "gpu_available", lambda: True)
    monkeypatch.setattr(Kernel, "assembly", None)
    monkeypatch.setattr(gemm_tuning, "device_name", lambda: DEVICE)


def compiled(*args, **options):
    return cute.Schedule.parse(cute.compile(cute.gemm, *args, arch="sm_90a", **options).schedule)


def test_gemm_uses_what_was_tuned(monkeypatch):
    on_the_fake(monkeypatch)
    before = compiled(A, B)
    timer = FakeTimer(by_columns, arch="sm_90a")
    best = autotune(timer, cute.gemm, A, B, configs=TILES)
    assert best == cute.Schedule(tile=(128, 64, 64))
    assert before.tile != best.tile
    assert compiled(A, B).tile == (128, 64, 64)
    # Not where a schedule is given, for the emulator, another class, type, epilogue or device.
    assert compiled(A, B, schedule="tile = (64,64,64)").tile == (64, 64, 64)
    assert compiled(A, B, backend="emulator") == before
    assert compiled(cute.TensorSpec((4096, 256), "bf16"), B).tile != (128, 64, 64)
    other = cute.TensorSpec((512, 256), "f16"), cute.TensorSpec((256, 512), "f16", (1, None))
    assert compiled(*other) == before
    assert compiled(A, B, activation="relu") == before
    assert compiled(A, B, out_dtype="f32").tile == before.tile
    monkeypatch.setattr(gemm_tuning, "device_name", lambda: "Another GPU")
    assert compiled(A, B) == before


def test_a_default_that_wins_stays_the_default(monkeypatch):
    on_the_fake(monkeypatch)
    before = compiled(A, B)
    timer = FakeTimer(lambda schedule: 1.0 if schedule.tile == before.tile else 2.0, arch="sm_90a")
    best = autotune(timer, cute.gemm, A, B, configs=[None, *TILES])
    assert best == before
    assert compiled(A, B) == before


def test_a_warm_call_hears_of_the_result(monkeypatch):
    """Calls are kept ready by the look of their arguments: tuning has to forget them."""
    a = np.ones((64, 64), np.float16)
    ready = gemm_module.door.calls
    ready.clear()
    cute.gemm(a, a, backend="emulator", arch="sm_80")
    assert len(ready) == 1
    spec = cute.TensorSpec((64, 64), "f16")
    autotune(FakeTimer(lambda schedule: 1.0), cute.gemm, spec, spec, configs=["stages = 2"])
    assert len(ready) == 0


def test_a_kept_schedule_that_does_not_fit_is_passed_over(monkeypatch):
    on_the_fake(monkeypatch)
    monkeypatch.setattr(fitting, "has_tunings", lambda: True)
    monkeypatch.setattr(
        gemm_tuning, "kept_schedule", lambda call, arch: cute.Schedule(tile=(63, 1, 7))
    )
    assert compiled(A, B).tile not in (None, (63, 1, 7))


@pytest.mark.some(6)
@pytest.mark.parametrize(
    ("a", "b", "options"),
    [
        (A, B, {}),
        (A, B, {"bias": cute.TensorSpec((512,), "f32"), "activation": "gelu", "alpha": 0.5}),
        (A, B, {"c": cute.TensorSpec((512, 512), "bf16"), "beta": 1.0}),
        (
            cute.TensorSpec((3, 16, 64), "bf16"),
            cute.TensorSpec((64, 512), "bf16", (1, None)),
            {"aux": cute.TensorSpec((3, 16, 512), "f32")},
        ),
        (
            cute.TensorSpec((256, 256), "e4m3"),
            cute.TensorSpec((256, 256), "e4m3", (1, None)),
            {"scale_a": cute.TensorSpec((256, 2), "f32"), "scale_b": 0.5},
        ),
        (
            cute.TensorSpec((256, 256), "i8"),
            cute.TensorSpec((256, 256), "i8", (1, None)),
            {"scale_a": cute.TensorSpec((1,), "f32")},
        ),
    ],
)
@pytest.mark.parametrize("swap", ["no", "yes"])
def test_every_epilogue_binds(a, b, options, swap):
    """The arguments of the launch fit the kernel of the schedule, transposed product or not."""
    timer = FakeTimer(lambda schedule: 1.0, arch="sm_90a")
    depth = 128 if a.dtype.bits == 8 else 64
    config = cute.Schedule(tile=(64, 64, depth), swap_ab=swap)
    found = tuned(timer, op=cute.gemm, args=(a, b), options=options, configs=[config], rounds=1)
    assert found.failures == ()


def tunable(a, b, arch="sm_90a", **options):
    return TunableGemm((a, b), options | {"arch": arch}, FakeTimer(by_columns))


@pytest.mark.parametrize(
    "options",
    [
        {"bias": cute.TensorSpec((512,), "f32")},
        {"bias": cute.TensorSpec((512,), "bf16")},
        {"c": cute.TensorSpec((512, 512), "bf16"), "beta": 1.0},
        {"aux": cute.TensorSpec((512, 512), "bf16")},
        {"out": cute.TensorSpec((512, 512), "bf16", (1, None))},
        {"out": cute.TensorSpec((512, 512), "bf16", (513, 1))},
        {"out_dtype": "f16"},
        {"scale_a": cute.TensorSpec((512,), "f32")},
        {"scale_b": cute.TensorSpec((512,), "f32")},
        {"scale_b": cute.TensorSpec((1,), "f32")},
        {"acc_dtype": "f32"},
    ],
    ids=lambda options: "-".join(options),
)
def test_the_epilogue_is_part_of_the_class(options):
    """Every option makes a class of its own, but for one that says what holds anyway."""
    plain, given = tunable(A, B), tunable(A, B, **options)
    assert (plain.problem == given.problem) == ("acc_dtype" in options)
    assert plain.fingerprint == given.fingerprint
    assert tunable(A, B, activation="gelu").fingerprint != plain.fingerprint


def test_gemm_tries_the_list_first_what_the_estimate_likes():
    tried = tunable(A, B).candidates()
    assert tried[0] is None
    assert len(tried) <= 64
    assert len(set(tried)) == len(tried)
    assert all(schedule.tile is not None for schedule in tried[1:])
    assert {schedule.raster for schedule in tried[1:]} >= {1, 4, 8, 32}
    assert {schedule.order for schedule in tried[1:]} == {None, "snake", "hilbert"}
    assert "alternate" in {schedule.roles for schedule in tried[1:]}
    # The default is among them: what is tuned is never worse.
    default = schedule_of(gemm_module.GemmCall.of(DECLARED.given(A, B)), None, "sm_90a")
    assert default in tried
    skinny = tunable(cute.TensorSpec((16, 4096), "bf16"), cute.TensorSpec((4096, 14336), "bf16"))
    assert any(schedule.swap_ab == "yes" for schedule in skinny.candidates()[1:])


def test_gemm_without_warpgroup_multiplies_tries_what_shared_memory_holds():
    tried = tunable(A, B, "sm_80").candidates()
    assert tried[0] is None
    assert 10 < len(tried) <= 60
    for schedule in tried[1:]:
        m, n, k = schedule.tile
        assert schedule.stages * (m + n) * k * 2 <= 166_912
    found = tuned(
        FakeTimer(lambda s: 1.0), op=cute.gemm, args=(A, B), configs=[tried[1], tried[-1]], rounds=1
    )
    assert found.failures == ()


@pytest.mark.parametrize(
    ("shape", "strides", "want"),
    [
        ((4, 6), None, (6, 1)),
        ((4, 6), (1, None), (1, 4)),
        ((2, 4, 6), (None, 1, None), (24, 1, 4)),
        ((2, 4, 6), (None, None, 1), (24, 6, 1)),
        ((4, 6), (100, 1), (100, 1)),
        ((2, 4, 6), (None, 100, 1), (400, 100, 1)),
    ],
)
def test_open_strides_become_compact(shape, strides, want):
    assert extents_and_strides(cute.TensorSpec(shape, "f16", strides), "x") == (shape, want)


def test_extents_of_a_class_are_near_each_other():
    for extent in range(1, 5000):
        assert abs(extent_class(extent) - extent) <= extent / 8
        assert extent_class(extent_class(extent)) == extent_class(extent)


@pytest.mark.gpu
@pytest.mark.skipif(not gpu_available(), reason="no GPU")
def test_on_a_device():
    """Real times, a result that `cute.gemm` takes, and arrays that stay as they are."""
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (512, 256)).astype(np.float16)
    b = rng.integers(-2, 3, (512, 256)).astype(np.float16).T
    wide, narrow = cute.Schedule(tile=(128, 128, 64)), cute.Schedule(tile=(64, 64, 64))
    found = tune(cute.gemm, (a, b), {}, configs=[None, wide, narrow, "tile = (63,1,1)"])
    assert found.complete
    assert [timing.failure is None for timing in found.timings] == [True, True, True, False]
    assert all(1.0 < timing.median < 1000.0 for timing in found.timings[:3])
    assert tune(cute.gemm, (a, b), {}, configs=[wide, narrow]).kept
    assert np.array_equal(cute.gemm(a, b), (a.astype(np.float32) @ b).astype(np.float16))
    best = cute.autotune(cute.gemm, a, b, configs=[wide, narrow])
    assert cute.Schedule.parse(cute.compile(cute.gemm, a, b).schedule).tile == (
        best.tile if found.best.schedule else cute.Schedule.parse(found.best.full).tile
    )


# python -m cutedialect tune


def command(timer, monkeypatch, *arguments):
    monkeypatch.setattr(autotune_module, "DeviceTimer", lambda check: timer)
    return main(["tune", *arguments])


GEMM = ["cute.gemm", "512x256:bf16", "256x512:bf16:1,?"]
BOTH = [text for tile in TILES for text in ("--schedule", tile)]


def test_the_command_prints_a_table(monkeypatch, capsys):
    timer = FakeTimer(by_columns, arch="sm_90a")
    more = ["--schedule", "tile = (63,8,64)", "--schedule", ""]
    assert command(timer, monkeypatch, *GEMM, *BOTH, *more) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"gemm for sm_90a on {DEVICE}"
    assert "512x512x256" in lines[1]
    figures = [float(line.split(" us")[0]) for line in lines[2:-1]]
    assert figures == sorted(figures)
    assert figures[0] == 64.0
    assert lines[2].endswith("tile = (128,64,64)")
    assert sum("default: tile = " in line for line in lines) == 1
    assert lines[-1].startswith("    FAILED  tile = (63,8,64): ")
    assert command(timer, monkeypatch, *GEMM, *BOTH) == 0
    assert "as kept from an earlier run" in capsys.readouterr().out


def test_the_command_prints_json(monkeypatch, capsys):
    timer = FakeTimer(by_columns, arch="sm_90a")
    assert command(timer, monkeypatch, *GEMM, *BOTH, "--json", "--rounds", "4") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["best"] == "tile = (128,64,64)"
    assert found["complete"] is True
    assert [timing["median_us"] for timing in found["timings"]] == [64.0, 128.0]
    assert len(found["timings"][0]["microseconds"]) == 4


def test_ctrl_c_ends_the_command_in_order(monkeypatch, capsys):
    class Interrupted(FakeTimer):
        def time(self, prepared):
            if len(self.log) == 4:
                raise KeyboardInterrupt
            return super().time(prepared)

    timer = Interrupted(by_columns, arch="sm_90a")
    assert command(timer, monkeypatch, *GEMM, *BOTH) == 130
    said = capsys.readouterr()
    assert "tile = (128,64,64)" in said.out.splitlines()[2]
    assert said.err == "stopped before the last round: the best so far\n"
    entries = [entry for entry in cache.entries() if entry.kind == "schedule"]
    assert len(entries) == 1

    class AtOnce(FakeTimer):
        def prepare(self, kernel, arguments):
            raise KeyboardInterrupt

    assert command(AtOnce(by_columns), monkeypatch, *GEMM, *BOTH, "--again") == 130
    assert capsys.readouterr().err == "interrupted before anything was timed\n"


def test_the_command_without_a_device(capsys, monkeypatch):
    monkeypatch.setattr(timing_module, "find_driver", lambda: None)
    assert main(["tune", *GEMM]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: expected a CUDA device to time")
    assert said.count("\n") == 1


def test_a_problem_that_does_not_fit_is_one_line(monkeypatch, capsys):
    class Small(FakeTimer):
        def random(self, shape, strides, dtype, align):
            raise MemoryError("Out of memory allocating 262,144 bytes")

    assert command(Small(by_columns, arch="sm_90a"), monkeypatch, *GEMM) == 1
    assert capsys.readouterr().err == "error: Out of memory allocating 262,144 bytes\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["cute.gem"], "did you mean 'cute.gemm'?"),
        (["cute.gemm", "?x256:bf16", "256x512:bf16"], "a: expected given extents"),
        (["cute.gemm", "4x4:bf16", "8x4:bf16"], "b: expected 4 rows"),
        ([*GEMM, "--schedule", "tile = 3"], "expected tile to be a tuple"),
        ([*GEMM, "--set", "biass=3"], "biass"),
    ],
)
def test_bad_input_is_one_line(monkeypatch, capsys, arguments, said):
    assert command(FakeTimer(by_columns, arch="sm_90a"), monkeypatch, *arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error
    assert error.count("\n") == 1


# Compile-time parameters


CONFIGS = [{"tile": (8, 64)}, {"tile": (4, 128), "schedule": "warps = (2,1)"}, {"tile": (16, 32)}]


class TileTimer(FakeTimer):
    """`cost` is asked with the kernel."""

    def prepare(self, kernel, arguments):
        super().prepare(kernel, arguments)
        return kernel

    def time(self, prepared):
        self.log.append(list(prepared))
        return [self.cost(kernel) for kernel in prepared]


def by_tile(kernel):
    if isinstance(kernel, cute.Schedule):
        return 1.0
    text = kernel.stages["trace"]
    costs = {"[8, 64]": 3.0, "[4, 128]": 2.0, "[16, 32]": 4.0}
    return next(cost for tile, cost in costs.items() if tile in text)


def test_compile_time_parameters_are_candidates():
    found = tuned(TileTimer(by_tile), configs=CONFIGS)
    assert [timing.schedule for timing in found.timings] == [
        "tile = (8, 64)",
        "tile = (4, 128); warps = (2,1)",
        "tile = (16, 32)",
    ]
    assert found.best.schedule == "tile = (4, 128); warps = (2,1)"
    # The record is found again, and knows these candidates only.
    again = tuned(TileTimer(by_tile), configs=CONFIGS[:2])
    assert again.kept
    assert again.best.schedule == found.best.schedule


def test_autotune_gives_the_keywords_of_the_fastest_call(monkeypatch):
    monkeypatch.setattr(autotune_module, "DeviceTimer", lambda check: TileTimer(by_tile))
    best = cute.autotune(double, SPEC, SPEC, configs=CONFIGS)
    assert best == {"tile": (4, 128), "schedule": cute.Schedule(warps=(2, 1))}


def test_what_configurations_are_refused():
    with pytest.raises(TypeError, match="expected compile-time parameters, got the option arch"):
        tuned(TileTimer(by_tile), configs=[{"arch": "sm_80"}])
    with pytest.raises(TypeError, match=r"a value of tile that can be a key .* got list"):
        tuned(TileTimer(by_tile), configs=[{"tile": [8, 64]}])
    with pytest.raises(TypeError, match=r"expected schedules of .*gemm.*, got compile-time"):
        tuned(TileTimer(by_tile), op=cute.gemm, configs=[{"tile": (8, 64)}])


def test_a_kernel_is_tuned_at_its_first_call_for_each_class(monkeypatch):
    calls = []

    def found(kernel, *args, configs, rounds, **options):
        calls.append(args[0].shape)
        return configs[1]

    module = importlib.import_module("cutedialect.frontend.autotuned")
    kernel = cute.autotuned(CONFIGS, key=["X"])(double)
    x = np.ones((9, 70), np.float32)
    y = np.empty_like(x)
    kernel(x, y, backend="emulator")
    assert (y == 2).all()
    monkeypatch.setattr(module, "gpu_available", lambda: True)
    monkeypatch.setattr(module, "autotune", found)
    expected = {"tile": (4, 128), "schedule": cute.Schedule(warps=(2, 1))}
    for shape in ((64, 128), (64, 128), (65, 128), (640, 128)):
        assert kernel.options(cute.TensorSpec(shape, "f32"), SPEC) == expected
    # 64 and 65 rows are one class.
    assert calls == [(64, 128), (640, 128)]


def test_what_the_decorator_refuses():
    with pytest.raises(TypeError, match=r"above @cute\.kernel, got function"):
        cute.autotuned(CONFIGS)(lambda X: None)
    with pytest.raises(ValueError, match=r"key: expected arguments of double \(X, Y\), got 'Z'"):
        cute.autotuned(CONFIGS, key=["Z"])(double)
    with pytest.raises(ValueError, match="one candidate or more"):
        cute.autotuned([])(double)
