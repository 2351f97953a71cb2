"""What `cute.attention` does where the assembler finds too few registers for a default."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.frontend import fitting
from cutedialect.frontend.fitting import schedules_near


def operands(rows, keys, d):
    return [cute.TensorSpec((1, 1, n, d), "f16") for n in (rows, keys, keys)]


def keys_of(kernel):
    tile = cute.Schedule.parse(kernel.schedule).tile
    assert tile is not None
    return tile[1]


@pytest.fixture
def refusing(monkeypatch):
    """Machine code of kernels whose blocks have more than some keys spills."""
    tried = []

    # What is known to spill is not tried again.
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")

    def install(most):
        monkeypatch.setattr(fitting, "gpu_available", lambda: True)

        def fits(kernel):
            tried.append(keys_of(kernel))
            return tried[-1] <= most

        monkeypatch.setattr(Kernel, "fits", property(fits))
        return tried

    return install


def test_a_default_that_spills_gives_way_to_fewer_keys(refusing):
    tried = refusing(100)
    kernel = cute.compile(cute.attention, *operands(70, 400, 128), arch="sm_90a")
    assert tried == [128, 112, 96]
    assert keys_of(kernel) == 96


def test_no_more_than_three_are_compiled(refusing):
    """The error lists each."""
    tried = refusing(0)
    with pytest.raises(cute.CompileError, match="without spills, got none: ") as caught:
        cute.compile(cute.attention, *operands(70, 400, 128), arch="sm_90a")
    assert tried == [128, 112, 96]
    assert caught.value.code == "CD-SPILL"
    assert str(caught.value).count("tile = ") == 3


def test_what_is_known_to_spill_is_not_compiled_again(refusing, monkeypatch, tmp_path):
    """Of problems of one class, whatever their extents are."""
    monkeypatch.delenv("CUTEDIALECT_NO_CACHE", raising=False)
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", str(tmp_path))
    tried = refusing(100)
    for rows in (70, 90):
        assert keys_of(cute.compile(cute.attention, *operands(rows, 400, 128), arch="sm_90a")) == 96
    assert tried == [128, 112, 96, 96]


def test_fields_that_are_given_stay_where_others_give_way(refusing):
    tried = refusing(100)
    options = {"arch": "sm_90a", "schedule": "stages = 2, maxima = lazy"}
    kernel = cute.compile(cute.attention, *operands(70, 400, 128), **options)
    assert tried == [128, 112, 96]
    assert "stages = 2" in kernel.schedule
    assert "maxima = lazy" in kernel.schedule


@pytest.mark.parametrize("options", [{"schedule": "tile = (128,128)"}, {"backend": "emulator"}])
def test_what_is_given_and_what_no_gpu_runs_is_not_assembled(options, refusing):
    tried = refusing(0)
    kernel = cute.compile(cute.attention, *operands(70, 400, 128), arch="sm_90a", **options)
    assert (tried, keys_of(kernel)) == ([], 128)


@pytest.mark.skipif(not ptxas.candidates(), reason="no ptxas")
def test_the_error_names_the_nearest_schedule_that_fits():
    """128 scores, and as many columns of the output, of 32 rows in each warp."""
    arrays = operands(256, 512, 128)
    given = "tile = (128,128), warps = (4,1)"
    with pytest.raises(cute.CompileError, match="no spills in kernel 'attention'") as caught:
        cute.compile(cute.attention, *arrays, arch="sm_80", schedule=given).cubin  # noqa: B018
    named = "tile = (128,128), warps = (8,1)"
    advice = f"the nearest schedule that fits the registers: schedule='{named}'"
    assert caught.value.notes[0] == advice
    assert cute.compile(cute.attention, *arrays, arch="sm_80", schedule=named).cubin


def test_blocks_have_fewer_keys_nearby():
    given = cute.Schedule(tile=(64, 256))
    assert [each.tile for each in schedules_near(given, given)][:5] == [
        (64, 224), (64, 192), (64, 160), (64, 128), (64, 208),
    ]  # fmt: skip


def packed(heads, shared):
    """Packed causal sequences of heads of 128 dimensions, whose logarithms are asked for."""
    q, k = (np.empty((1, h, 2048, 128), np.float16) for h in (heads, shared))
    ends = np.array([0, 1000, 2048], np.int32)
    options = {"cu_seqlens": (ends, ends), "causal": True, "return_lse": True, "arch": "sm_90a"}
    return (q, k, k), options


@pytest.mark.skipif(not ptxas.candidates(), reason="no ptxas")
def test_logarithms_of_packed_heads_that_share_keys_fit_at_once():
    arrays, options = packed(8, 2)
    kernel = cute.compile(cute.attention, *arrays, **options)
    assert (keys_of(kernel), kernel.fits) == (112, True)
    arrays, options = packed(2, 2)
    assert keys_of(cute.compile(cute.attention, *arrays, **options)) == 128


@pytest.mark.some(1)
@pytest.mark.skipif(not ptxas.candidates(), reason="no ptxas")
@pytest.mark.parametrize("rows", [128, 192])
def test_what_the_error_names_fits_when_it_is_given(rows):
    """How maxima are kept, what adds up sums and registers go with the schedule."""
    arrays, options = packed(8, 2)
    kernel = cute.compile(cute.attention, *arrays, schedule=f"tile = ({rows},128)", **options)
    with pytest.raises(cute.CompileError, match="schedule that fits the registers") as caught:
        kernel.cubin  # noqa: B018
    named = re.search(r"schedule='(.*)'", caught.value.notes[0])
    assert named is not None
    assert cute.compile(cute.attention, *arrays, schedule=named[1], **options).fits


def test_rows_of_attention_are_fewer_nearby():
    given = cute.Schedule(tile=(192, 64))
    assert cute.Schedule(tile=(128, 64)) in list(schedules_near(given, given))


@pytest.mark.some(1)
@pytest.mark.skipif(not ptxas.candidates(), reason="no ptxas")
@pytest.mark.parametrize(
    ("dtype", "depth", "columns", "rows", "keys"),
    [("f16", 113, 111, 700, 8192), ("f16", 171, 171, 700, 300), ("bf16", 321, 319, 1, 60),
     ("f16", 575, 511, 1024, 2048), ("e5m2", 117, 117, 384, 1024), ("e4m3", 67, 67, 128, 128)],
)  # fmt: skip
def test_threads_that_shift_rows_into_place_have_registers(dtype, depth, columns, rows, keys):
    element = getattr(cute, dtype)
    q, k, v = (
        cute.TensorSpec((2, 8, length, width), element, align=element.bits // 8)
        for length, width in ((rows, depth), (keys, depth), (keys, columns))
    )
    options: dict[str, Any] = {"scale": -0.1} if element.bits == 8 else {}
    kernel = cute.compile(cute.attention, q, k, v, arch="sm_90a", return_lse=True, **options)
    assert kernel.fits


@pytest.mark.some(2)
@pytest.mark.skipif(not ptxas.candidates(), reason="no ptxas")
@pytest.mark.parametrize(
    ("arch", "dtype", "rows"),
    [("sm_80", "bf16", 4), ("sm_89", "e4m3", 32), ("sm_100a", "e4m3", 4), ("sm_120a", "f16", 4)],
)
def test_warps_that_shift_few_rows_have_registers(arch, dtype, rows):
    element = getattr(cute, dtype)
    align = element.bits // 8
    q = cute.TensorSpec((16, 16, rows, 245), element, align=align)
    k = cute.TensorSpec((None, 4, 64, 245), element, align=align)
    lengths, table = cute.TensorSpec((16,), cute.i32), cute.TensorSpec((16, 16), cute.i32)
    options = {"lengths": lengths, "block_table": table, "window": (1024, 30)}
    assert cute.compile(cute.attention, q, k, k, arch=arch, **options).fits


def test_warps_may_be_left_to_the_compiler_nearby():
    given = cute.Schedule(tile=(128, 96), warps=(1, 1))
    assert cute.Schedule(tile=(128, 96)) in list(schedules_near(given, given))[:8]


@pytest.mark.skipif(not ptxas.candidates(), reason="no ptxas")
def test_the_error_names_loops_of_single_blocks():
    """Two blocks of 192 keys have twice the exponentials of one."""
    spec = cute.TensorSpec((2, 4, 4096, 64), cute.bf16)
    given = "tile = (128,192), unroll = 2"
    kernel = cute.compile(cute.attention, spec, spec, spec, arch="sm_90a", schedule=given)
    with pytest.raises(cute.CompileError, match="C7512") as caught:
        kernel.cubin  # noqa: B018
    assert caught.value.notes[0].endswith("registers: schedule='tile = (128,192), unroll = 1'")


def test_few_blocks_of_keys_leave_registers_on_blackwell():
    """Rows decide by themselves when to scale what another role has, however few keys there are."""
    q = cute.TensorSpec((4, 16, 1024, 128), "bf16")
    kernel = cute.attention.compile(q, q, q, arch="sm_100a")
    assert keys_of(kernel) == 128
    assert ptxas.assemble(kernel.ptx, "sm_100a").spill_stores == 0
