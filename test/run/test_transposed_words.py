"""f32 operands that are contiguous along another dimension than the depth, on sm_90a: warpgroups
multiply them as tf32, A out of registers, B after a copy that transposes it in shared memory.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute


def multiplied(sizes, majors, schedule=None, seed=0):
    """(result, what is right) of small integers, which tf32 holds."""
    rng = np.random.default_rng(seed)
    m, n, k = sizes
    a, b = (
        rng.integers(-3, 4, shape if rows else shape[::-1]).astype(np.float32)
        for shape, rows in (((m, k), majors[0] == "T"), ((k, n), majors[1] == "T"))
    )
    a = a if majors[0] == "T" else a.T
    b = b if majors[1] == "T" else b.T
    return cute.gemm(a, b, arch="sm_90a", backend="emulator", schedule=schedule), a @ b


@pytest.mark.some(2)
@pytest.mark.parametrize("majors", ["TT", "NN", "NT"])
@pytest.mark.parametrize(
    "schedule", [None, "tile = (64,32,64)", "tile = (128,64,32)", "tile = (64,64,32), stages = 2"]
)
@pytest.mark.parametrize("sizes", [(68, 72, 100), (33, 61, 77), (5, 130, 31)])
def test_each_major(majors, schedule, sizes):
    out, right = multiplied(sizes, majors, schedule)
    assert np.array_equal(out, right)


def compiled(majors, sizes=(512, 512, 512), schedule=None):
    """The kernel for operands of given majors, and arrays of ones for it."""
    m, n, k = sizes
    a = np.ones((m, k), np.float32) if majors[0] == "T" else np.ones((k, m), np.float32).T
    b = np.ones((k, n), np.float32) if majors[1] == "T" else np.ones((n, k), np.float32).T
    options = {"arch": "sm_90a", "backend": "emulator", "schedule": schedule}
    return cute.compile(cute.gemm, a, b, **options), a, b


@pytest.mark.parametrize("majors", ["TT", "NN", "NT"])
def test_warpgroups_multiply(majors):
    """A from registers, that of the transposed product where B alone is across the depth; where
    both are, B in vectors of four words on either side of the transposition.
    """
    kernel, _, _ = compiled(majors)
    assert "wgmma.mma_async" in kernel.ptx
    assert "mma.sync" not in kernel.ptx
    assert f"swap_ab = {'yes' if majors == 'TT' else 'no'}" in kernel.schedule
    lines = kernel.ptx.splitlines()
    assert all("}, {" in line for line in lines if "wgmma.mma_async" in line)
    assert ("ld.shared.v4.b32" in kernel.ptx) == (majors == "NT")


@pytest.mark.parametrize("tile", ["(128,64,32)", "(64,32,64)", "(192,64,32)"])
def test_threads_read_words_without_conflicts(tile):
    """Half of the lanes take the second of two words first."""
    kernel, a, b = compiled("NN", (192, 64, 64), f"tile = {tile}, roles = specialized")
    out = np.empty((192, 64), np.float32)
    kernel.launch(a, b, out, np.float32(1))
    assert np.all(out == 64)
    lines = kernel.ptx.splitlines()
    read = [
        access
        for report in kernel.reports
        for line, access in report.shared.items()
        if "ld.shared.b32" in lines[line - 1]
    ]
    assert len(read) >= 16
    assert sum(access.conflicts for access in read) == 0


def test_stages_are_free_when_multiplies_have_what_is_loaded():
    """An arrival may overtake loads for which nothing has waited."""
    kernel, _, _ = compiled("NN", (128, 64, 128), "tile = (128,64,32), roles = specialized")
    lines = kernel.ptx.splitlines()
    last = max(number for number, line in enumerate(lines) if "ld.shared.b32" in line)
    behind = [line for line in lines[last:] if "wgmma.commit" in line or "arrive" in line]
    assert "wgmma.commit" in behind[0]
    assert "mbarrier.arrive" in behind[1]
