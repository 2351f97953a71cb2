"""A kernel without work items is one CTA, whatever its schedule says of several."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute


@cute.kernel
def product(A, B, Y):
    acc = cute.zeros((64, 64))
    for k in cute.range(2):
        a = cute.local_tile(A, (64, 64), (0, k))
        cute.gemm(a, cute.local_tile(B, (64, 64), (k, 0)), acc)
    cute.copy(acc, cute.local_tile(Y, (64, 64), (0, 0)))


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        ("split_k = 2, reduction = cluster", "split_k = 2"),
        ("split_k = 2", "split_k = 2"),
        ("cluster = (2,1)", "cluster = (2,1)"),
    ],
)
def test_what_ctas_would_share_is_not_taken(arch, schedule, told) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-1, 2, shape).astype(np.float16) for shape in ((64, 128), (128, 64)))
    y = np.zeros((64, 64), np.float32)
    product(a, b, y, arch=arch, schedule=schedule, backend="emulator")
    np.testing.assert_array_equal(y, a.astype(np.float32) @ b)
    kernel = cute.compile(product, a, b, y, arch=arch, schedule=schedule)
    why = "a kernel without cute.tile_index has one work item and one CTA"
    assert f"{told} not taken: {why}" in [each.message for each in kernel.remarks]
    chosen = cute.Schedule.parse(kernel.schedule)
    assert chosen.ctas_of_cluster == 1
    assert not chosen.shares_tiles


def test_a_schedule_of_one_cta_leaves_no_remark() -> None:
    a, b = (cute.TensorSpec((64, 64), cute.f16) for _ in range(2))
    y = cute.TensorSpec((64, 64), cute.f32)
    given = "cluster = (1,1), split_k = 1"
    kernel = cute.compile(product, a, b, y, arch="sm_90a", schedule=given)
    assert not any("one work item" in each.message for each in kernel.remarks)
