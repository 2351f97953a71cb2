"""Scales and zeros of groups of weights come to shared memory with the weights of their step, and
with what few columns are multiplied by them.
"""

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
