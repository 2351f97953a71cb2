"""Every stage of a compilation can be printed, read back and carried on to the same PTX."""

from __future__ import annotations

import io

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime.ptx_text import canonical
from cutedialect.passes.cute_to_ptx import pipeline
from cutedialect.tools.cute_opt import CuteOpt

A, B, C = (
    np.ones((96, 64), np.float16),
    np.ones((64, 80), np.float16),
    np.ones((96, 80), np.float16),
)


@cute.kernel
def scaled_rows(X, Y, *, tile=(32, 64)):
    at = cute.tile_index(X, tile)
    x = cute.load(cute.local_tile(X, tile, at))
    cute.copy(x / cute.row_sum(x), cute.local_tile(Y, tile, at))


def gemm(arch, schedule=None, **options):
    return lambda: cute.compile(
        cute.gemm, A, B, arch=arch, schedule=schedule, backend="emulator", **options
    )


def attention(arch):
    q = np.ones((1, 2, 160, 64), np.float16)
    return lambda: cute.compile(cute.attention, q, q, q, arch=arch, causal=True, backend="emulator")


KERNELS = {
    "gemm on sm_80": gemm("sm_80", c=C, beta=1.0, activation="gelu"),
    "gemm on sm_90a": gemm("sm_90a", bias=np.ones(80, np.float16), activation="relu"),
    "gemm in clusters": gemm("sm_90a", "tile = (128,128,64), cluster = (2,1)"),
    "gemm of two teams": gemm("sm_90a", "tile = (128,128,64), roles = alternate"),
    "attention on sm_80": attention("sm_80"),
    "attention on sm_90a": attention("sm_90a"),
    "rows on sm_90a": lambda: cute.compile(
        scaled_rows, *[np.ones((64, 64), np.float32)] * 2, arch="sm_90a", backend="emulator"
    ),
}


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")


def carried_on(text, passes):
    out, err = io.StringIO(), io.StringIO()
    flags = ["-", "-p", ",".join(passes), "-t", "ptx"]
    assert CuteOpt(flags, io.StringIO(text), out, err).run() == 0, err.getvalue()
    return out.getvalue()


# Kernels whose passes the others go through too.
LONG = ("attention on sm_80", "gemm of two teams")


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=pytest.mark.long if each in LONG else ()) for each in KERNELS],
)
def test_stages_lead_to_the_same_ptx(name):
    kernel = KERNELS[name]()
    arch = next(line.split()[1] for line in kernel.ptx.split("\n") if line.startswith(".target"))
    names = [step.name for step in pipeline(arch)]
    assert list(kernel.stages) == ["trace", *names]
    takes_arch = {step.name for step in pipeline(arch) if hasattr(step, "arch")}
    spelled = [f"{each}{{arch={arch}}}" if each in takes_arch else each for each in names]
    for done, stage in enumerate(kernel.stages):
        # The tile level knows no schedule: cute-tile was given it.
        if done < 2:
            continue
        ptx = carried_on(kernel.stages[stage], spelled[done:])
        assert canonical(ptx) == canonical(kernel.ptx), f"from {stage} on"
