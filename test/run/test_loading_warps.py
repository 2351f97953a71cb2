"""Roles whose multiplies are `mma.sync`: TMA and warps that load feed the warps that multiply, on
sm_120a and wherever else mbarriers count what copies bring; exact on small integers.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator

ROLES = "roles = specialized"
OPTIONS: dict[str, Any] = {"arch": "sm_120a", "backend": "emulator", "out_dtype": "f32"}
TYPES = (
    "float16",
    "bfloat16",
    "float32",
    "float8_e4m3fn",
    "float6_e2m3fn",
)


def operands(m, n, k, dtype="float16", majors: Any = "CF"):
    draw = np.random.default_rng(m + n + k)
    kind: Any = getattr(ml_dtypes, dtype, dtype)
    a, b = (draw.integers(-3, 4, shape).astype(kind) for shape in ((m, k), (k, n)))
    return np.array(a, order=majors[0]), np.array(b, order=majors[1])


def holds(m, n, k, dtype="float16", majors="CF", **options):
    a, b = operands(m, n, k, dtype, majors)
    given: dict[str, Any] = OPTIONS | {"schedule": ROLES} | options
    got: Any = cute.gemm(a, b, **given)
    return np.array_equal(got, a.astype(np.float32) @ b.astype(np.float32))


# None, a part of a trip, one, up to as many as stages, one more, many.
@pytest.mark.some(4)
@pytest.mark.parametrize("k", [0, 8, 64, 128, 192, 256, 448])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_trips(k, stages):
    schedule = f"{ROLES}, tile = (64,64,64), warps = (2,2), stages = {stages}"
    assert holds(130, 72, k, schedule=schedule)


@pytest.mark.some(4)
@pytest.mark.parametrize("majors", ["CC", "CF", "FC", "FF"])
@pytest.mark.parametrize("dtype", TYPES)
def test_types_and_majors(dtype, majors):
    """Operands that tensor cores of warps do not read as they lie are copied by threads that load,
    or read word by word."""
    assert holds(200, 136, 144, dtype, majors)


@pytest.mark.some(6)
@pytest.mark.parametrize(
    "schedule",
    [
        "tile = (128,128,64), warps = (2,4)",
        "tile = (128,128,32), split_k = 2",
        "tile = (128,128,32), split_k = 2, reduction = atomic",
        "scheduler = persistent",
        "scheduler = dynamic",
        "scheduler = persistent, epilogue = tma, tile = (128,128,64), warps = (2,4)",
        "cluster = (2,1)",
        "loads = threads",
        "swap_ab = yes",
    ],
)
def test_schedules(schedule):
    assert holds(300, 264, 200, schedule=f"{ROLES}, {schedule}")


@pytest.mark.some(2)
@pytest.mark.parametrize("shape", [(130, 140, 7), (131, 141, 133), (1, 1, 64)])
def test_rows_that_threads_copy(shape):
    assert holds(*shape)


@pytest.mark.some(1)
@pytest.mark.parametrize("tile", ["(64,128,64)", "(128,128,32)"])
def test_teams_in_turns(tile):
    schedule = f"roles = alternate, scheduler = persistent, tile = {tile}, warps = (2,2)"
    assert holds(300, 264, 200, schedule=schedule)


@pytest.mark.some(2)
@pytest.mark.parametrize("seed", range(4))
def test_copies_that_come_late(monkeypatch, seed):
    """Each seed lets asynchronous copies complete in another order."""
    monkeypatch.setattr(emulator, "launch", partial(emulator.launch, seed=seed))
    schedule = f"{ROLES}, tile = (64,64,32), warps = (2,2), stages = 2"
    assert holds(130, 72, 232, schedule=schedule)
    schedule = f"{schedule}, scheduler = persistent"
    assert holds(260, 200, 40, schedule=schedule)


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_90", "sm_90a", "sm_100a", "sm_103a", "sm_121a"])
def test_other_targets(arch):
    """An atom of warps that is asked for has a role that loads wherever there is one."""
    schedule = f"{ROLES}, atom = mma_m16n8k16_f32_f16, tile = (128,128,32)"
    assert holds(130, 140, 96, arch=arch, schedule=schedule)


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_targets_without_mbarriers_of_bytes(arch):
    with pytest.raises(cute.CompileError, match=f"expected the role plan uniform on {arch}"):
        holds(130, 140, 96, arch=arch)


def test_other_programs():
    """Attention computes what every warp by itself does, and a convolution too."""
    draw = np.random.default_rng(0)
    q = draw.standard_normal((1, 2, 130, 64)).astype(np.float16)
    options: dict[str, Any] = {"arch": "sm_120a", "backend": "emulator"}
    for causal in (False, True):
        want, got = (
            cute.attention(q, q, q, causal=causal, schedule=schedule, **options)
            for schedule in ("roles = uniform", ROLES)
        )
        assert np.abs(got.astype(np.float32) - want.astype(np.float32)).max() < 4e-3
    x = draw.integers(-2, 3, (1, 9, 9, 32)).astype(np.float16)
    w = draw.integers(-2, 3, (40, 3, 3, 32)).astype(np.float16)
    want, got = (
        cute.conv2d(x, w, padding=1, schedule=schedule, **options) for schedule in (None, ROLES)
    )
    assert np.array_equal(got, want)


@pytest.mark.some(4)
@pytest.mark.parametrize("arch", ["sm_120a", "sm_120f", "sm_121a"])
@pytest.mark.parametrize("format", [None, "mxfp8", "nvfp4"])
@pytest.mark.parametrize("warps", ["(2,2)", "(2,4)"])
def test_assembly(arch, format, warps, assembles):
    """Boxes go to the CTA's own memory by name, so that registers of roles count; no thread copies,
    and nothing spills.
    """
    packed = 2 if format == "nvfp4" else 1
    held, kind = 512 // packed, "f16"
    options: dict[str, Any] = {}
    if format is not None:
        kind = "u8" if packed == 2 else "e4m3"
        block, scale = (16, "e4m3") if packed == 2 else (32, "ue8m0")
        panels = cute.TensorSpec((4, 512 // (4 * block), 32, 4, 4), scale)
        options = {"scale_a": panels, "scale_b": panels}
    kernel = cute.compile(
        *(cute.gemm, cute.TensorSpec((512, held), kind)),
        cute.TensorSpec((held, 512), kind, (1, held)),
        arch=arch,
        backend="emulator",
        schedule=f"{ROLES}, warps = {warps}",
        **options,
    )
    assert re.search(r"cp\.async\.bulk\.tensor\.\dd\.shared::cta\.global", kernel.ptx)
    assert not re.search(r"cp\.async\.[\w.]*shared::cluster|cp\.async\.c[ag]", kernel.ptx)
    assert ("setmaxnreg" in kernel.ptx) == (warps == "(2,4)")
    assert assembles(kernel.ptx, arch)
