"""Scales and zeros of groups of weights come to shared memory with the weights of their step, and
with what few columns are multiplied by them.
"""

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute


@pytest.mark.parametrize(("zero", "bytes_of_row"), [(8, 4), (cute.TensorSpec((32, 4096), "u8"), 5)])
def test_one_barrier_waits_for_all_of_them(zero, bytes_of_row):
    specs = cute.TensorSpec((16, 4096), "bf16"), cute.TensorSpec((2048, 4096), "u8", (1, None))
    scale = cute.TensorSpec((32, 4096), "f32")
    kernel = cute.gemm.compile(*specs, scale_b=scale, zero_b=zero, packed_b="u4 -2", arch="sm_90a")
    tile = cute.Schedule.parse(kernel.schedule).tile
    assert tile is not None
    rows, columns, depth = tile
    expected = rows * (depth // 2 + bytes_of_row) + 2 * columns * depth
    assert f", {expected}; // ir: pipeline.expect" in kernel.ptx
    assert "ld.global" not in kernel.ptx


@pytest.mark.parametrize("m", [256, 4096])
def test_scales_of_groups_stay_in_their_ring_beside_many_columns(m):
    """Sums leave threads no registers for those of the next step."""
    specs = cute.TensorSpec((m, 5120), "bf16"), cute.TensorSpec((2560, 13824), "u8", (1, None))
    scale = cute.TensorSpec((40, 13824), "f32")
    kernel = cute.gemm.compile(*specs, scale_b=scale, packed_b="u4 -2", arch="sm_90a")
    tile = cute.Schedule.parse(kernel.schedule).tile
    assert tile is not None
    assert tile[1] == 128
    assert "ld.global" not in kernel.ptx


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_four_warpgroups_multiply_by_groups(steps):
    m, n, k = 20, 272, 128 * steps
    rng = np.random.default_rng(steps)
    x = rng.integers(-2, 3, (m, k)).astype(ml_dtypes.bfloat16)
    q, scale = rng.integers(0, 16, (k, n)), rng.choice([0.5, 1, 2], (steps, n)).astype(np.float32)
    packed = (q[::2] | q[1::2] << 4).astype(np.uint8)
    weights = np.ascontiguousarray(packed.T).T
    schedule = (
        "tile = (256,24,128), swap_ab = yes, warps = (16,1), registers = (24,112), stages = 2"
    )
    y = cute.gemm(
        x, weights, scale_b=scale, zero_b=8, packed_b="u4 -2", out_dtype="f32", arch="sm_90a",
        backend="emulator", schedule=schedule,
    )  # fmt: skip
    wide = (q - 8) * np.repeat(scale, 128, 0)
    assert np.array_equal(y, x.astype(np.float32) @ wide.astype(np.float32))
