"""sm_75 by a path of its own: tiles through registers into the ring, `ldmatrix`, its shapes of
`mma.sync` and the conversions that it has. Every line is legal (the tests check all they print),
ptxas takes the text without a word, and the emulator, which refuses what sm_75 has not, computes
what NumPy does.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.errors import PtxasNotFoundError

ARCH = "sm_75"
RNG = np.random.default_rng(75)


def integers(*shape, dtype=np.float16, low=-2, high=3):
    return RNG.integers(low, high, shape).astype(dtype)


def launch(program, *args, **options):
    """Compile, assemble without a warning, and run in the emulator."""
    kernel = cute.compile(program, *args, arch=ARCH, **options)
    assert f".target {ARCH}" in kernel.ptx
    assert "cp.async" not in kernel.ptx
    try:
        assembly = ptxas.assemble(kernel.ptx, ARCH)
    except PtxasNotFoundError:
        pass
    else:
        ptxas.check_strict(assembly, kernel.ptx)
    return kernel


@pytest.mark.some(4)
@pytest.mark.parametrize("k", [0, 1, 32, 64, 96, 131, 193])
def test_gemm_at_edge_trip_counts(k):
    a, b = integers(70, k), integers(k, 53)
    schedule = "tile = (64, 64, 32), stages = 3"
    launch(cute.gemm, a, b, schedule=schedule)
    found = cute.gemm(a, b, arch=ARCH, schedule=schedule, backend="emulator")
    np.testing.assert_array_equal(found, (a.astype(np.float32) @ b).astype(np.float16))


@pytest.mark.some(3)
@pytest.mark.parametrize("seed", range(6))
def test_gemm_drawn_at_random(seed):
    rng = np.random.default_rng(seed)
    m, n, k = (int(x) for x in rng.integers(1, 150, 3))
    dtype = [np.float16, np.int8, np.uint8][seed % 3]
    low = 0 if dtype == np.uint8 else -3
    a, b = rng.integers(low, 4, (m, k)).astype(dtype), rng.integers(low, 4, (k, n)).astype(dtype)
    a = np.asfortranarray(a) if rng.random() < 0.5 else a
    b = np.asfortranarray(b) if rng.random() < 0.5 else b
    tile = (int(rng.choice([64, 128])), int(rng.choice([64, 128])), int(rng.choice([32, 64])))
    stages = int(rng.integers(1, 4))
    schedule = f"tile = {tile}, stages = {stages}"
    found = cute.gemm(a, b, arch=ARCH, schedule=schedule, backend="emulator")
    exact = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(found.astype(np.int64), exact)


def test_gemm_with_all_of_its_epilogue():
    a, b, c, bias = integers(65, 40), integers(40, 72), integers(65, 72), integers(72)
    options = {"c": c, "bias": bias, "activation": "relu", "alpha": 2.0, "beta": -1.0}
    found = cute.gemm(a, b, arch=ARCH, backend="emulator", **options)
    exact = np.maximum(2.0 * (a.astype(np.float64) @ b) - c + bias, 0)
    np.testing.assert_array_equal(found, exact.astype(np.float16))
    launch(cute.gemm, a, b, bias=bias, activation="gelu")


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((1, 2, 2, 37, 81, 32), {}),
        ((1, 2, 1, 66, 45, 64), {"causal": True}),
        ((1, 1, 1, 20, 50, 128), {"window": (9, 0)}),
        ((1, 1, 1, 17, 33, 256), {"causal": True}),
    ],
)
def test_attention(shape, options):
    b, h, hk, sq, sk, d = shape
    q, k, v = (
        RNG.standard_normal(extents).astype(np.float16)
        for extents in ((b, h, sq, d), (b, hk, sk, d), (b, hk, sk, d))
    )
    launch(cute.attention, q, k, v, **options)
    out = cute.attention(q, k, v, arch=ARCH, backend="emulator", **options)
    k64, v64 = (np.repeat(x.astype(np.float64), h // hk, 1) for x in (k, v))
    scores = q.astype(np.float64) @ k64.swapaxes(-1, -2) / math.sqrt(d)
    behind = np.arange(sk)[None] - np.arange(sq)[:, None] - (sk - sq)
    left, right = options.get("window", (-1, 0 if options.get("causal") else -1))
    seen = ((right < 0) | (behind <= right)) & ((left < 0) | (behind >= -left))
    scores = np.where(seen, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        exact = weights @ v64 / weights.sum(-1, keepdims=True)
    exact = np.nan_to_num(exact)
    assert np.abs(out - exact).max() < 4e-3


@cute.kernel
def softmax(X, Y, *, columns):
    (m,) = (cute.tile_index(Y, (16, columns))[0],)
    x = cute.load(cute.local_tile(X, (16, columns), (m, 0))).to(cute.f32)
    x = cute.where(cute.coord(x, 1) < X.shape[1], x, -cute.inf)
    p = cute.exp(x - cute.row_max(x))
    cute.copy((p / cute.row_sum(p)).to(Y.dtype), cute.local_tile(Y, (16, columns), (m, 0)))


@cute.kernel
def transpose(X, Y):
    m, n = cute.tile_index(Y, (32, 32))
    x = cute.load(cute.local_tile(X, (32, 32), (n, m)))
    cute.copy(x.T, cute.local_tile(Y, (32, 32), (m, n)))


@cute.kernel
def stream(X, Y, Z, s):
    m, n = cute.tile_index(Z, (16, 64))
    x, y = (cute.load(cute.local_tile(T, (16, 64), (m, n))).to(cute.f32) for T in (X, Y))
    z = cute.maximum(x * s, y) + cute.tanh(x)
    cute.copy(z.to(Z.dtype), cute.local_tile(Z, (16, 64), (m, n)))


@cute.kernel
def gated_mlp(X, W, V, Y, *, tile=(64, 32, 32)):
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    gX = cute.local_tile(X, (bm, bk), (m, None))
    gW, gV = (cute.local_tile(T, (bk, bn), (None, n)) for T in (W, V))
    gate, value = cute.zeros((bm, bn), cute.f32), cute.zeros((bm, bn), cute.f32)
    for k in cute.range(gX.tiles):
        cute.gemm(gX[k], gW[k], gate)
        cute.gemm(gX[k], gV[k], value)
    cute.copy((cute.relu(gate) * value).to(Y.dtype), cute.local_tile(Y, (bm, bn), (m, n)))


def run(program, *args, **options):
    launch(program, *args, **options)
    program(*args, arch=ARCH, backend="emulator", **options)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_softmax(dtype):
    x = RNG.standard_normal((21, 90)).astype(dtype)
    y = np.zeros_like(x)
    run(softmax, x, y, columns=96)
    exact = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    eps = {2: 2.0**-8 if dtype != np.float16 else 2.0**-10, 4: 1e-6}[x.itemsize]
    assert np.abs(y.astype(np.float64) - exact).max() <= eps
    x[3, 7] = np.nan
    run(softmax, x, y, columns=96)
    assert np.isnan(y[3].astype(np.float32)).all()
    assert not np.isnan(y[4].astype(np.float32)).any()


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float32])
def test_transpose(dtype):
    x = integers(45, 70, dtype=dtype, low=-100, high=100)
    y = np.zeros((70, 45), dtype)
    run(transpose, x, y)
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_streaming(dtype):
    x, y = (RNG.standard_normal((19, 100)).astype(dtype) for _ in range(2))
    z = np.zeros_like(x)
    run(stream, x, y, z, np.float32(0.5))
    x64, y64 = x.astype(np.float64), y.astype(np.float64)
    exact = np.maximum(x64 * 0.5, y64) + np.tanh(x64)
    assert np.abs(z.astype(np.float64) - exact).max() <= (2e-3 if dtype == np.float16 else 1.7e-2)


@pytest.mark.some(2)
@pytest.mark.parametrize("depth", [0, 32, 75, 160])
def test_gated_mlp(depth):
    x, w, v = integers(70, depth), integers(depth, 45), integers(depth, 45)
    y = np.zeros((70, 45), np.float32)
    run(gated_mlp, x, w, v, y)
    x64, w64, v64 = (t.astype(np.float64) for t in (x, w, v))
    np.testing.assert_array_equal(y, np.maximum(x64 @ w64, 0) * (x64 @ v64))


def test_bf16_is_rounded_to_nearest_even():
    bits = RNG.integers(0, 1 << 32, 4096, dtype=np.uint64).astype(np.uint32)
    bits[:6] = [0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x7F800000, 0x7FC00001, 0xFF800001]
    x = bits.view(np.float32).reshape(64, 64)
    y = np.zeros(x.shape, ml_dtypes.bfloat16)

    @cute.kernel
    def narrow(X, Y):
        m, n = cute.tile_index(Y, (16, 64))
        tile = cute.load(cute.local_tile(X, (16, 64), (m, n)))
        cute.copy(tile.to(cute.bf16), cute.local_tile(Y, (16, 64), (m, n)))

    run(narrow, x, y)
    with np.errstate(invalid="ignore", over="ignore"):
        expected = x.astype(ml_dtypes.bfloat16)
    nans = np.isnan(x)
    np.testing.assert_array_equal(np.isnan(y.astype(np.float32)), nans)
    np.testing.assert_array_equal(y.view(np.uint16)[~nans], expected.view(np.uint16)[~nans])


@pytest.mark.parametrize(
    ("dtype", "kind", "first"),
    [
        (ml_dtypes.bfloat16, "bf16", "sm_80"),
        (np.float32, "f32", "sm_80"),
        (np.float64, "f64", "sm_80"),
        (ml_dtypes.float8_e4m3fn, "e4m3", "sm_89"),
    ],
)
def test_what_its_tensor_cores_do_not_multiply(dtype, kind, first):
    a = np.zeros((64, 64), dtype)
    why = rf"a: expected f16 on {ARCH} \(multiplies of {kind} need {first}\), got {kind}"
    with pytest.raises(ValueError, match=why):
        cute.gemm(a, a, arch=ARCH, backend="emulator")
    with pytest.raises(ValueError, match=why):
        cute.grouped_gemm([a], [a], arch=ARCH, backend="emulator")


def test_attention_of_what_its_tensor_cores_do_not_multiply():
    q = np.zeros((1, 1, 64, 64), ml_dtypes.bfloat16)
    why = rf"q: expected f16 on {ARCH} \(multiplies of bf16 need sm_80\), got bf16"
    with pytest.raises(ValueError, match=why):
        cute.attention(q, q, q, arch=ARCH, backend="emulator")


@pytest.mark.parametrize("dtype", [np.float16, np.int8])
def test_operands_are_staged_by_vectors_of_16_bytes(dtype):
    """Stores of a warp take the fewest wavefronts: one for each eight lanes."""
    a, b = integers(128, 64, dtype=dtype), integers(64, 128, dtype=dtype)
    kernel = launch(
        cute.gemm, a, b, schedule="tile = (128, 128, 64), stages = 2", backend="emulator"
    )
    is_float = dtype == np.float16
    out = np.zeros((128, 128), np.float16 if is_float else np.int32)
    kernel.launch(a, b, out, *([np.float32(1)] if is_float else []))
    assert np.array_equal(out, a.astype(np.float32) @ b.astype(np.float32))
    lines = kernel.ptx.splitlines()
    (report,) = kernel.reports
    stores = [each for line, each in report.shared.items() if "st.shared" in lines[line - 1]]
    assert stores
    bytes_stored = a.nbytes + b.nbytes
    assert sum(each.minimum for each in stores) == bytes_stored // 128
    assert not any(each.conflicts for each in stores)
