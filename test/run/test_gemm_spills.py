"""What `cute.gemm` does where the assembler finds too few registers for a schedule: it takes
another default, and of a schedule that is given it names the nearest one that fits.
"""

from __future__ import annotations

from math import prod

import pytest

import cutedialect as cute
from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.frontend import fitting, gemm_defaults, gemm_tuning
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
        monkeypatch.setattr(gemm_defaults, "gpu_available", lambda: True)
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


def test_attempts_end_and_what_fits_is_assembled_once(refusing):
    tried = refusing(0)
    cute.compile(cute.gemm, *operands(2048, 4096, 1024), arch="sm_90a")
    assert len(tried) == 4
    tried = refusing(128)
    cute.compile(cute.gemm, *operands(2048, 4096, 1032), arch="sm_90a")
    assert len(tried) == 5


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
    assert changed[9] == ["warps", "ctas"]


needs_ptxas = pytest.mark.skipif(not ptxas.candidates(), reason="no ptxas")


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
