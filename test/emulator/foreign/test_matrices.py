"""Foreign kernels on matrices and grids: wmma, mma.sync, tiled and sparse products, stencils."""

import ml_dtypes
import numpy as np


def test_transpose(launch, rng):
    x = rng.standard_normal((37, 21)).astype(np.float32)
    out = np.zeros((21, 37), np.float32)
    launch("transpose", (2, 3), (16, 4), x, out, np.int32(37), np.int32(21))
    np.testing.assert_array_equal(out, x.T)


def test_stencil(launch, rng):
    height, width = 13, 19
    x = rng.standard_normal((height, width)).astype(np.float32)
    out = np.zeros_like(x)
    launch("stencil", (3, 2), (8, 8), x, out, np.int32(width), np.int32(height))
    row = np.array([1, 4, 6, 4, 1]) / 16
    padded = np.pad(x.astype(np.float64), 2, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (5, 5))
    np.testing.assert_allclose(out, np.einsum("yxij,i,j->yx", windows, row, row), atol=1e-6)


def test_sgemm(launch, rng):
    m, n, k = 40, 37, 19
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    a, b = a.astype(np.float32), b.astype(np.float32)
    c = rng.standard_normal((m, n)).astype(np.float32)
    expected = 0.5 * (a.astype(np.float64) @ b) - 2.0 * c
    sizes = np.int32(m), np.int32(n), np.int32(k)
    launch("sgemm", (2, 2), (16, 16), a, b, c, *sizes, np.float32(0.5), np.float32(-2))
    np.testing.assert_allclose(c, expected, atol=1e-5)


def test_csr_matvec(launch, rng):
    rows, columns = 10, 80
    dense = rng.standard_normal((rows, columns)) * (rng.random((rows, columns)) < 0.3)
    dense[3], dense[5] = 0.0, 1.0
    starts = np.append(0, np.cumsum((dense != 0).sum(axis=1))).astype(np.int32)
    x, y = rng.standard_normal(columns), np.full(rows, np.nan)
    where = np.nonzero(dense)[1].astype(np.int32)
    launch("csr_matvec", 3, 128, starts, where, dense[dense != 0], x, y, np.int32(rows))
    np.testing.assert_allclose(y, dense @ x, atol=1e-12)


def test_wmma_gemm(launch, rng):
    m, n, k = 32, 64, 48
    a, b = rng.standard_normal((m, k)), rng.standard_normal((n, k))
    a, b = a.astype(np.float16), b.astype(np.float16)
    c, d = rng.standard_normal((m, n)).astype(np.float32), np.zeros((m, n), np.float32)
    launch("wmma_gemm", (2, 2), (32, 2), a, b, c, d, np.int32(n), np.int32(k))
    expected = 0.5 * (c + a.astype(np.float64) @ b.T.astype(np.float64))
    np.testing.assert_allclose(d, expected, atol=2e-5)


def test_wmma_half_through_shared(launch, rng):
    a, b = rng.integers(-4, 5, (32, 16)), rng.integers(-4, 5, (16, 8))
    d = np.zeros((8, 32), np.float16)
    column_major = np.ascontiguousarray(a.T.astype(np.float16))
    launch("wmma_shapes", 1, 32, column_major, b.astype(np.float16), d, entry="wmma_half")
    np.testing.assert_array_equal(d.T, a @ b + 1)


def test_wmma_int8(launch, rng):
    a = rng.integers(-128, 128, (8, 16)).astype(np.int8)
    b = rng.integers(-128, 128, (32, 16)).astype(np.int8)
    d = np.zeros((8, 32), np.int32)
    launch("wmma_shapes", 1, 32, a, b, d, entry="wmma_int")
    np.testing.assert_array_equal(d, 2 * (a.astype(np.int32) @ b.T.astype(np.int32)) - 7)


def test_mma_pipeline(launch, rng):
    m, n, k = 64, 32, 96
    a = rng.standard_normal((m, k)).astype(np.float16)
    b = rng.standard_normal((k, n)).astype(np.float16)
    c = np.zeros((m, n), np.float32)
    launch("mma_pipeline", (1, 2), 128, a, b, c, np.int32(m), np.int32(n), np.int32(k))
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=5e-5)


def test_mma_bf16(launch, rng):
    a = rng.standard_normal((16, 16)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((8, 16)).astype(ml_dtypes.bfloat16)
    d = np.zeros((16, 8), np.float32)
    # Passed as bits: the GPU's array library has no bfloat16.
    launch("mma_types", 1, 32, a.view(np.uint16), b.view(np.uint16), d, entry="mma_bf16")
    np.testing.assert_allclose(d, a.astype(np.float64) @ b.T.astype(np.float64), atol=1e-5)


def test_mma_tf32(launch, rng):
    a, b = rng.standard_normal((16, 8)), rng.standard_normal((8, 8))
    a, b = a.astype(np.float32), b.astype(np.float32)
    d = np.zeros((16, 8), np.float32)
    launch("mma_types", 1, 32, a, b, d, entry="mma_tf32")

    def tf32(x: np.ndarray) -> np.ndarray:  # to nearest, ties away from zero
        bits = (x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
        return bits.view(np.float32).astype(np.float64)

    np.testing.assert_allclose(d, tf32(a) @ tf32(b).T + 1, atol=2e-6)


def test_mma_f64(launch, rng):
    a, b, d = rng.standard_normal((8, 4)), rng.standard_normal((8, 4)), np.zeros((8, 8))
    launch("mma_types", 1, 32, a, b, d, entry="mma_f64")
    np.testing.assert_allclose(d, a @ b.T + np.tile([0.5, -0.5], 4), atol=1e-15)


def test_mma_s8(launch, rng):
    a = rng.integers(-128, 128, (16, 32)).astype(np.int8)
    b = rng.integers(-128, 128, (8, 32)).astype(np.int8)
    d = np.zeros((16, 8), np.int32)
    launch("mma_types", 1, 32, a, b, d, entry="mma_s8")
    np.testing.assert_array_equal(d, a.astype(np.int32) @ b.T.astype(np.int32) + 3)


def test_mma_f16_accumulator(launch, rng):
    a = rng.integers(-8, 9, (16, 8)).astype(np.float16)
    b = rng.integers(-8, 9, (8, 8)).astype(np.float16)
    d = np.zeros((16, 4), np.uint32)
    launch("mma_types", 1, 32, a, b, d, entry="mma_f16")
    np.testing.assert_array_equal(d.view(np.float16), a @ b.T)
