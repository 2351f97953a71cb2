"""A multiply behind a loop of multiplies into the same accumulator is right when the loop has no
trip: the zeros that are then written come in front of the multiply's fence.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute


@cute.kernel
def product(A, B, Y, trips):
    acc = cute.zeros((64, 64))
    for k in cute.range(trips):
        a = cute.local_tile(A, (64, 64), (0, k))
        cute.gemm(a, cute.local_tile(B, (64, 64), (k, 0)), acc)
    a, b = (cute.local_tile(X, (64, 64), (0, 0)) for X in (A, B))
    cute.gemm(a, b, acc)
    cute.copy(acc, cute.local_tile(Y, (64, 64), (0, 0)))


@pytest.mark.parametrize("trips", [0, 1, 2])
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_any_number_of_trips(arch, trips) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-1, 2, shape).astype(np.float16) for shape in ((64, 128), (128, 64)))
    y = np.zeros((64, 64), np.float32)
    product(a, b, y, trips, arch=arch, backend="emulator")
    deep = 64 * trips
    wanted = a[:, :deep].astype(np.float32) @ b[:deep] + a[:, :64].astype(np.float32) @ b[:64]
    np.testing.assert_array_equal(y, wanted)
