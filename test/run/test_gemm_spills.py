"""What `cute.gemm` does where the assembler finds too few registers for a schedule: it takes
another default, and of a schedule that is given it names the nearest one that fits.
"""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

import cutedialect as cute
from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.frontend import fitting, gemm_tuning
from cutedialect.frontend.fitting import schedules_near


def operands(m, n, k):
    return cute.TensorSpec((m, k), "f16"), cute.TensorSpec((k, n), "f16", (1, k))


def values(kernel):
    """Accumulators that a thread of a kernel holds."""
    schedule = cute.Schedule.parse(kernel.schedule)
    assert schedule.tile is not None
    assert schedule.warps is not None
    return prod(schedule.tile[:2]) // (32 * prod(schedule.warps))


@pytest.fixture
def refusing(monkeypatch):
    """Machine code of kernels whose threads hold more than some accumulators spills."""
    tried = []

    def install(most):
        monkeypatch.setattr(fitting, "gpu_available", lambda: True)
        monkeypatch.setattr(gemm_tuning, "kept_schedule", lambda *_: None)

        def fits(kernel):
            tried.append(values(kernel))
            return tried[-1] <= most

        monkeypatch.setattr(Kernel, "fits", property(fits))
        return tried

    return install


def test_a_default_that_spills_gives_way_to_fewer_accumulators(refusing):
    tried = refusing(80)
    kernel = cute.compile(cute.gemm, *operands(4096, 4096, 4096), arch="sm_90a")
    assert tried[0] > 80 >= tried[-1] == values(kernel)
    assert tried == sorted(tried, reverse=True)


def test_no_more_than_three_are_compiled(refusing):
    """The error lists each, and what is known of it is not compiled again."""
    tried = refusing(0)
    with pytest.raises(cute.CompileError, match="without spills, got none: ") as caught:
        cute.compile(cute.gemm, *operands(2048, 4096, 1024), arch="sm_90a")
    assert len(tried) == len(set(tried)) == 3
    assert caught.value.code == "CD-SPILL"
    assert str(caught.value).count("tile = ") == 3
    tried = refusing(128)
    cute.compile(cute.gemm, *operands(2048, 4096, 1032), arch="sm_90a")
    assert len(tried) == 4


def test_what_is_known_to_spill_is_not_compiled_again(refusing, monkeypatch, tmp_path):
    monkeypatch.delenv("CUTEDIALECT_NO_CACHE", raising=False)
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", str(tmp_path))
    tried = refusing(80)
    first = cute.compile(cute.gemm, *operands(4096, 4096, 4096), arch="sm_90a")
    count = len(tried)
    assert count > 1
    again = cute.compile(cute.gemm, *operands(4096, 4096, 4096), arch="sm_90a")
    assert again.schedule == first.schedule
    assert tried[count:] == [values(first)]


def test_fields_that_are_given_stay_where_others_give_way(refusing):
    tried = refusing(80)
    options = {"arch": "sm_90a", "schedule": "stages = 3, raster = 2"}
    kernel = cute.compile(cute.gemm, *operands(4096, 4096, 4096), **options)
    assert tried[0] > 80 >= tried[-1] == values(kernel)
    assert "stages = 3" in kernel.schedule
    assert "raster = 2" in kernel.schedule


def test_a_schedule_that_is_given_stays(refusing):
    tried = refusing(0)
    given = "tile = (128,256,64), roles = specialized"
    kernel = cute.compile(cute.gemm, *operands(512, 512, 512), arch="sm_90a", schedule=given)
    assert tried == []
    assert values(kernel) == 128


def test_groups_give_way_too(refusing):
    tried = refusing(80)
    pairs = [operands(4096, 4096, 4096), operands(2048, 4096, 512)]
    kernel = cute.compile(cute.grouped_gemm, *map(list, zip(*pairs, strict=True)), arch="sm_90a")
    assert tried[0] > 80 >= tried[-1] == values(kernel)


def test_changes_come_before_pairs_of_changes():
    given = cute.Schedule(tile=(128, 64, 32), warps=(8, 2), ctas=4)
    near = list(schedules_near(given, given))
    assert given not in near
    assert len(set(near)) == len(near)
    changed = [
        [name for name in ("tile", "warps", "ctas") if getattr(each, name) != getattr(given, name)]
        for each in near
    ]
    assert changed[:2] == [["ctas"], ["warps"]]
    assert near[0].ctas == 2
    # Warps: (8,1), (4,2), (16,2) and (8,4); the tile: half of its columns, depth and rows.
    assert all(len(each) == 1 for each in changed[:8])
    assert changed[8] == ["tile"]
    assert ["warps", "ctas"] in changed[9:]


needs_ptxas = pytest.mark.skipif(not ptxas.candidates(), reason="no ptxas")


@needs_ptxas
@pytest.mark.some(2)
@pytest.mark.parametrize("problem", [(500, 1024, 264), (4096, 4096, 4096)])
@pytest.mark.parametrize("arch", ["sm_80", "sm_120a"])
@pytest.mark.parametrize("schedule", ["split_k = 4, reduction = ordered", "scheduler = stream"])
def test_sums_of_other_ctas_lie_beside_those_of_a_thread(problem, arch, schedule):
    """Of 128 x 128 in four warps a thread has no registers for both, and none of 128 x 256."""
    kernel = cute.compile(cute.gemm, *operands(*problem), arch=arch, schedule=schedule)
    assert kernel.fits
    assert "warps = (4,2)" in kernel.schedule


@needs_ptxas
def test_what_fits_is_assembled_once_where_no_cache_keeps_it(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    assembled = []
    assemble = ptxas.assemble
    monkeypatch.setattr(
        ptxas, "assemble", lambda *args, **more: assembled.append(args) or assemble(*args, **more)
    )
    kernel = cute.compile(cute.gemm, *operands(64, 64, 72), arch="sm_80", backend="emulator")
    assert kernel.fits
    assert kernel.cubin
    assert len(assembled) == 1


@pytest.mark.some(1)
@needs_ptxas
@pytest.mark.parametrize("arch", ["sm_80", "sm_100a"])
def test_the_error_names_the_nearest_schedule_that_fits(arch):
    """256 accumulators in each of 128 threads are more than registers have names."""
    arrays = operands(512, 512, 512)
    given = {"arch": arch, "schedule": "tile = (128,256,32), warps = (4,1), roles = uniform"}
    with pytest.raises(cute.CompileError, match="no spills in kernel 'gemm'") as caught:
        cute.compile(cute.gemm, *arrays, **given).cubin  # noqa: B018
    named = "tile = (128,256,32), warps = (4,2), roles = uniform"
    advice = f"the nearest schedule that fits the registers: schedule='{named}'"
    assert caught.value.notes[0] == advice
    assert cute.compile(cute.gemm, *arrays, **{**given, "schedule": named}).cubin


@needs_ptxas
def test_the_error_says_where_no_schedule_near_fits(monkeypatch):
    monkeypatch.setattr(fitting, "_MOST_TRIED", 0)
    given = "tile = (128,256,32), warps = (4,1), roles = uniform"
    kernel = cute.compile(cute.gemm, *operands(512, 512, 520), arch="sm_80", schedule=given)
    with pytest.raises(cute.CompileError) as caught:
        kernel.cubin  # noqa: B018
    assert caught.value.notes[0] == "no schedule near this one fits the registers either"


# Of schedules that a user gives: (target, element, sizes, majors, of the result, schedule).
FITTING: dict[str, Any] = {
    "warpgroups that share rows": (
        "sm_103a", "f16", (384, 288, 64), "TN", "f32",
        "tile = (128,256,32), cluster = (4,2), warps = (8,2)",
    ),
    "two results by threads": (
        "sm_100a", "i8", (312, 206, 155), "NN", "i32",
        "tile = (128,192,128), warps = (8,1)",
    ),
    "operands byte by byte": (
        "sm_100f", "u8", (165, 165, 215), "NT", "i32",
        "tile = (256,16,128), cluster = (4,2)",
    ),
    "operands by halves": (
        "sm_80", "f16", (131, 139, 237), "NN", "f16",
        "tile = (128,128,64), warps = (4,2), roles = uniform",
    ),
    "more CTAs than registers": (
        "sm_100a", "u8", (179, 291, 118), "NT", "i32",
        "tile = (256,192,128), split_k = 4, ctas = 2",
    ),
}  # fmt: skip


@pytest.mark.some(2)
@needs_ptxas
@pytest.mark.parametrize("name", FITTING)
def test_results_and_operands_take_the_registers_that_there_are(name):
    arch, kind, (m, n, k), majors, out, schedule = FITTING[name]
    spec, align = cute.TensorSpec, 1 if kind.endswith("8") else 2
    a = spec((m, k), kind, (k, 1) if majors[0] == "T" else (1, m), align)
    b = spec((k, n), kind, (n, 1) if majors[1] == "T" else (1, k), align)
    given = {"bias": spec((n,), out), "aux": spec((m, n), out, align=4)}
    if out == "f32":
        given |= {"c": spec((m, n), out), "beta": -2.0}
    kernel = cute.compile(
        cute.gemm, a, b, arch=arch, schedule=schedule, out_dtype=out, backend="emulator", **given
    )
    assert kernel.fits


@pytest.mark.skipif(not ptxas.candidates(), reason="no ptxas")
def test_a_pipeline_that_lacks_registers_names_a_schedule_too():
    """Words of A, contiguous along M, go through registers beside 192 accumulators."""
    a = cute.TensorSpec((512, 512), "f32", (1, None))
    options = {"arch": "sm_90a", "schedule": "tile = (256,192,64)"}
    b = cute.TensorSpec((512, 512), "f32", (1, None))
    kernel = cute.compile(cute.gemm, a, b, **options)
    assert not kernel.fits
    with pytest.raises(cute.CompileError, match="insufficient register resources") as caught:
        kernel.cubin  # noqa: B018
    assert caught.value.code in ("C7511", "C7512")  # as the release of ptxas has it
    assert "the nearest schedule that fits the registers" in caught.value.notes[0]


PANELS = cute.TensorSpec((4, 4, 32, 4, 4), "ue8m0")


@pytest.mark.parametrize(
    ("arch", "b", "options"),
    [
        ("sm_89", ("e4m3", (1, 512)), {"scale_a": ((512, 4), "f32"), "scale_b": ((4, 4), "f32")}),
        ("sm_80", ("u8", (512, 1)), {"packed_b": "u4 -2", "scale_b": ((4, 512), "f32")}),
        ("sm_120a", ("u8", (512, 1)), {"packed_b": "u4 -2", "scale_b": ((4, 512), "f32")}),
        ("sm_120a", ("e4m3", (512, 1)), {"scale_a": PANELS, "scale_b": PANELS}),
    ],
)
def test_sums_beside_products_leave_registers(arch, b, options, spills_of):
    """Defaults of warps that multiply by `mma.sync` spilled: threads hold what a trip multiplies
    and what it adds to, scales, and operands that become wider or are put together.
    """
    spec, (type_, strides) = cute.TensorSpec, b
    is_packed = "packed_b" in options
    depth = 287 if is_packed else 512
    a = spec((512, depth), "f16" if is_packed else "e4m3", align=2 if is_packed else 16)
    held = 144 if is_packed else 512
    given = {
        name: spec((-(-depth // 128), 512) if is_packed else value[0], value[1])
        if isinstance(value, tuple)
        else value
        for name, value in options.items()
    }
    kernel = cute.gemm.compile(a, spec((held, 512), type_, strides), arch=arch, **given)
    assert spills_of(kernel) == 0
