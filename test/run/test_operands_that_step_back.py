"""Operands of calls on arrays whose strides are below zero: TMA does not take these, and the kernel
copies their tiles otherwise.
"""

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

ARCHS = ["sm_80", "sm_90a", "sm_100a"]
VIEWS = {
    "rows": lambda x: x[::-1],
    "columns": lambda x: x[:, ::-1],
    "columns of a transpose": lambda x: x.T.copy().T[:, ::-1],
}


def ints(*shape, dtype=np.float16, seed=0):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


def product(a, b):
    return a.astype(np.float32) @ b.astype(np.float32)


@pytest.mark.some(5)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("shape", [(96, 160, 64), (33, 65, 97)])
@pytest.mark.parametrize("steps", ["a", "b", "both"])
def test_a_product(steps, shape, view, arch):
    m, n, k = shape
    a, b = ints(m, k), ints(k, n, seed=1)
    a = VIEWS[view](a) if steps in ("a", "both") else a
    b = VIEWS[view](b) if steps in ("b", "both") else b
    # With the same shapes as ahead: which kernel a warm call takes follows from the strides.
    for one in (a.copy(), a):
        out = cute.gemm(one, b, arch=arch, backend="emulator")
        np.testing.assert_array_equal(out, product(one, b).astype(np.float16))


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, np.int8])
def test_a_product_of_bytes(dtype):
    a, b = ints(64, 96, dtype=dtype)[::-1], ints(64, 96, dtype=dtype, seed=1).T
    out = cute.gemm(a, b, arch="sm_90a", backend="emulator")
    np.testing.assert_array_equal(np.asarray(out, np.float32), product(a, b))


def test_an_output_and_what_is_added_to_it():
    a, b, c = ints(64, 64), ints(64, 64, seed=1), ints(64, 64, seed=2)
    out = np.zeros((64, 64), np.float16)
    cute.gemm(a, b, c=c[::-1], beta=1.0, out=out[::-1], arch="sm_90a", backend="emulator")
    exact = product(a, b) + c[::-1].astype(np.float32)
    np.testing.assert_array_equal(out[::-1], exact.astype(np.float16))


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_attention(arch):
    q, k, v = (ints(1, 2, 128, 64, seed=seed) for seed in range(3))
    views = q[:, :, ::-1], k[:, ::-1, ::-1], v[:, ::-1, ::-1]
    out, same = (
        cute.attention(*operands, arch=arch, backend="emulator")
        for operands in (views, [x.copy() for x in views])
    )
    np.testing.assert_array_equal(out, same)
