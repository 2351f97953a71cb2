"""Kernels whose CTAs start while the launch in front of theirs ends (`early_launch = yes`)."""

from __future__ import annotations

import re

import numpy as np
import pytest

import cutedialect as cute

# Whatever reads or writes global memory, or waits for what does.
_GLOBAL = re.compile(
    r"\b(?:ld\.global|st\.global|atom\.|red\.|cp\.async|cp\.reduce|ld\.relaxed|ld\.acquire)"
)
_RNG = np.random.default_rng(22)


def _lines(ptx: str) -> list[str]:
    body = ptx[ptx.index("{") :].splitlines()
    return [line.strip() for line in body if line.strip() and ".loc" not in line]


@pytest.mark.parametrize(
    ("arch", "schedule"),
    [
        ("sm_90a", "tile = (64,64,64), cluster = (1,1), roles = specialized"),
        ("sm_90a", "tile = (128,64,64), cluster = (2,1), roles = specialized"),
        ("sm_90a", "tile = (64,64,64), roles = alternate"),
        ("sm_90a", "tile = (64,64,64), roles = specialized, split_k = 3"),
        ("sm_90a", "tile = (64,64,32), roles = uniform"),
        ("sm_100a", "tile = (128,64,64), roles = specialized"),
    ],
)
def test_memory_is_touched_behind_the_wait(arch: str, schedule: str) -> None:
    m, n, k = (int(each) for each in _RNG.integers(1, 200, 3))
    a = _RNG.integers(-2, 3, (m, 8 * k)).astype(np.float16)
    b = _RNG.integers(-2, 3, (8 * k, 8 * n)).astype(np.float16)
    schedule += ", early_launch = yes"
    kernel = cute.compile(cute.gemm, a, b, arch=arch, schedule=schedule, out_dtype="f32")
    lines = _lines(kernel.ptx)
    waits = [at for at, line in enumerate(lines) if line.startswith("griddepcontrol.wait")]
    starts = [at for at, line in enumerate(lines) if "griddepcontrol.launch_dependents" in line]
    touches = [at for at, line in enumerate(lines) if _GLOBAL.search(line)]
    assert len(waits) == len(starts) == 1
    assert touches
    assert starts[0] < waits[0] < touches[0]
    # Barriers are made while the launch in front is at work.
    made = [at for at, line in enumerate(lines) if line.startswith("mbarrier.init")]
    assert not made or made[0] < waits[0]
    assert arch != "sm_90a" or all(at < waits[0] for at in made)
    # No thread goes around it.
    assert not any("bra" in line and "$L_gemm_else" not in line for line in lines[: waits[0]])


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 7])
def test_products_are_the_same(steps: int) -> None:
    m, n = (int(each) for each in _RNG.integers(1, 150, 2))
    k = 64 * steps - (8 if steps else 0)
    a = _RNG.integers(-2, 3, (m, k)).astype(np.float16)
    b = _RNG.integers(-2, 3, (k, n)).astype(np.float16)
    schedule = "tile = (64,64,64), stages = 3, roles = specialized, early_launch = yes"
    made = cute.gemm(a, b, out_dtype="f32", arch="sm_90a", schedule=schedule, backend="emulator")
    np.testing.assert_array_equal(made, a.astype(np.float32) @ b.astype(np.float32))


def test_targets_without_it_refuse() -> None:
    a = np.zeros((64, 64), np.float16)
    with pytest.raises(cute.CompileError, match="expected a target from sm_90 on"):
        cute.compile(cute.gemm, a, a, arch="sm_80", schedule="early_launch = yes")
