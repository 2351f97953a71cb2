"""Scales and zeros of groups of weights come to shared memory with the weights of their step."""

import pytest

import cutedialect as cute


@pytest.mark.parametrize(("zero", "bytes_of_row"), [(8, 4), (cute.TensorSpec((32, 4096), "u8"), 5)])
def test_one_barrier_waits_for_all_of_them(zero, bytes_of_row):
    specs = cute.TensorSpec((16, 4096), "bf16"), cute.TensorSpec((2048, 4096), "u8", (1, None))
    scale = cute.TensorSpec((32, 4096), "f32")
    kernel = cute.gemm.compile(*specs, scale_b=scale, zero_b=zero, packed_b="u4 -2", arch="sm_90a")
    tile = cute.Schedule.parse(kernel.schedule).tile
    assert tile is not None
    rows, _, depth = tile
    expected = rows * (depth // 2 + bytes_of_row)
    assert f", {expected}; // ir: pipeline.expect" in kernel.ptx
    assert "ld.global" not in kernel.ptx
