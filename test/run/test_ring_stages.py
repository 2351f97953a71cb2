"""Stages for each ring of its own (`ring_stages` of a schedule)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import cutedialect as cute


def operands(rows, keys, depth=64):
    rng = np.random.default_rng(rows + keys)
    return [rng.integers(-1, 2, (1, 1, n, depth)).astype(np.float16) for n in (rows, keys, keys)]


def attended(q, k, v):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    p = np.exp(q @ k.swapaxes(-1, -2) / 8)
    return p @ v / p.sum(-1, keepdims=True)


def stages_in(kernel):
    """Of the buffers that loads fill, by their names."""
    text = kernel.stages["cute-synchronize"]
    found = re.findall(r"%(s\w*) = cute.alloc_smem[^\n]*align<1024>[^\n]*\"\((.*),(\d+)\):", text)
    return {name: int(stages) for name, _, stages in found if name not in ("sout", "sD")}


@pytest.mark.parametrize(
    ("arch", "plan", "keys"),
    [("sm_90a", "tile = (128,64)", 300), ("sm_100a", "tile = (128,64), roles = corrected", 70),
     pytest.param("sm_100a", "tile = (256,64), roles = split", 450, marks=pytest.mark.long)],
)  # fmt: skip
def test_each_ring_has_its_own(arch: Any, plan, keys):
    q, k, v = operands(200, keys)
    given: Any = {"arch": arch, "backend": "emulator", "schedule": f"{plan}, ring_stages = (2,3,1)"}
    kernel = cute.compile(cute.attention, q, k, v, **given)
    assert "ring_stages = (2,3,1)" in kernel.schedule
    found = stages_in(kernel)
    halves = {"sQ_1": 2} if "split" in plan else {}
    assert found == {"sQ": 2, "s": 3, "s_1": 1} | halves
    out = cute.attention(q, k, v, **given)
    np.testing.assert_allclose(out.astype(np.float64), attended(q, k, v), atol=2e-3)


def test_what_is_printed_gives_the_same_kernel():
    q, k, v = operands(128, 256)
    given: Any = {"arch": "sm_90a", "schedule": "tile = (128,64), ring_stages = (0,2,1)"}
    kernel = cute.compile(cute.attention, q, k, v, **given)
    again = cute.compile(cute.attention, q, k, v, arch="sm_90a", schedule=kernel.schedule)
    assert (again.schedule, again.ptx) == (kernel.schedule, kernel.ptx)
    assert stages_in(kernel)["s_1"] == 1


def test_operands_of_one_multiply_share_a_ring():
    a = np.ones((256, 256), np.float16)
    schedule = "tile = (128,64,64), roles = specialized, ring_stages = (3,)"
    kernel = cute.compile(cute.gemm, a, a.T, arch="sm_90a", schedule=schedule)
    assert stages_in(kernel) == {"sA": 3, "s": 3}
    assert cute.Schedule.parse(kernel.schedule).ring_stages == (3,)
    with pytest.raises(cute.CompileError, match=r"ring_stages of 1 rings \(A\), got 2"):
        cute.compile(cute.gemm, a, a.T, arch="sm_90a", schedule=schedule.replace("(3,)", "(3,2)"))


@pytest.mark.parametrize(
    ("arch", "stages", "why"),
    [("sm_90a", (1, 2), r"expected ring_stages of 3 rings \(Q, K, V\), got 2"),
     ("sm_80", (1, 2, 2), "expected a role that loads with ring_stages"),
     ("sm_90a", (1, 16, 16), "shared memory")],
)  # fmt: skip
def test_what_cannot_be_is_refused(arch: Any, stages, why):
    q = cute.TensorSpec((1, 1, 512, 128), "f16")
    with pytest.raises(cute.CompileError, match=why):
        cute.compile(cute.attention, q, q, q, arch=arch, schedule=cute.Schedule(ring_stages=stages))


@pytest.mark.parametrize("stages", [(), (17,), (-1, 2), 3, ("2",)])
def test_numbers_of_stages(stages: Any):
    with pytest.raises(cute.ScheduleError, match=r"ring_stages to be a tuple of ints in 0\.\.16"):
        cute.Schedule(ring_stages=stages)
