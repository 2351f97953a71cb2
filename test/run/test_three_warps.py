"""Results that three warps exchange through shared memory: rows of the second warp are an odd
number of steps into what a swizzle repeats after, those of the third an even one.
"""

import ml_dtypes
import numpy as np

import cutedialect as cute


@cute.kernel
def program(X, Y, B, C, U, V):
    acc = cute.zeros((96, 48), cute.f32)
    cute.gemm(cute.local_tile(Y, (96, 96), (0, 0)), cute.local_tile(X, (48, 96), (0, 0)).T, acc)
    ones = cute.minimum(cute.maximum(acc, 0), 1).to(cute.bf16)
    result = cute.zeros((96, 16), cute.f32)
    cute.gemm(ones, cute.local_tile(B, (48, 16), (0, 0)), result)
    other = cute.zeros((48, 96), cute.f32)
    cute.gemm(cute.local_tile(C, (48, 48), (0, 0)), acc.T.to(cute.bf16), other)
    cute.copy(cute.zeros((96, 16), cute.f16), cute.local_tile(U, (96, 16), (0, 0)))
    cute.copy(result, cute.local_tile(V, (96, 16), (0, 0)))


def test_a_result_beside_lanes_that_cross_rows() -> None:
    rng = np.random.default_rng(3)

    def drawn(*shape):
        return rng.integers(-1, 2, shape).astype(ml_dtypes.bfloat16)

    x, y, b, c = drawn(48, 96), drawn(96, 96), drawn(48, 16), drawn(48, 48)
    u, v = np.ones((96, 16), np.float16), np.zeros((93, 18), np.float32)
    program(x, y, b, c, u, v[:, :15], arch="sm_80", backend="emulator")
    wide = np.float32
    first = y.astype(wide) @ x.astype(wide).T
    np.testing.assert_array_equal(v[:, :15], (np.clip(first, 0, 1) @ b.astype(wide))[:93, :15])
    assert not v[:, 15:].any()
    assert not u.any()
