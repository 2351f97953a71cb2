"""f32 operands that are contiguous along another dimension than the depth, on sm_90a: warpgroups
multiply them as tf32 after a copy that transposes them in shared memory.
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


@pytest.mark.some(4)
@pytest.mark.parametrize("majors", ["TT", "NN", "NT"])
@pytest.mark.parametrize(
    "schedule", [None, "tile = (64,32,64)", "tile = (128,64,32)", "tile = (64,64,32), stages = 2"]
)
@pytest.mark.parametrize("sizes", [(68, 72, 100), (33, 61, 77), (5, 130, 31)])
def test_each_major(majors, schedule, sizes):
    out, right = multiplied(sizes, majors, schedule)
    assert np.array_equal(out, right)


@pytest.mark.some(1)
@pytest.mark.parametrize("majors", ["TT", "NN", "NT"])
def test_warpgroups_multiply(majors):
    """In vectors of four words on either side of the transposition."""
    strides = {"T": (None, 1), "N": (1, None)}
    specs = [cute.TensorSpec((512, 512), "f32", strides[major]) for major in majors]
    kernel = cute.gemm.compile(*specs, arch="sm_90a")
    assert "wgmma.mma_async" in kernel.ptx
    assert "mma.sync" not in kernel.ptx
    assert "ld.shared.v4.b32" in kernel.ptx
    assert "st.shared.v4.b32" in kernel.ptx
