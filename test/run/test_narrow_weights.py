"""`cute.gemm` of f16 and bf16 by weights of 8 bits, which become such on their way."""

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

ARCHS = ("sm_80", "sm_90a", "sm_100a")
BF16 = ml_dtypes.bfloat16


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def drawn(rng, m, n, k, weights=np.int8, type_=BF16):
    low, high = (0, 256) if weights is np.uint8 else (-128, 128)
    x = rng.integers(-2, 3, (m, k)).astype(type_)
    return x, rng.integers(low, high, (n, k)).astype(weights).T


def product(x, w):
    return x.astype(np.float32) @ w.astype(np.float32)


@pytest.mark.parametrize("arch", ARCHS)
def test_columns_of_weights_have_scales(arch, rng):
    x, w = drawn(rng, 20, 136, 320)
    scale = rng.choice([0.5, 1, 2], 136).astype(np.float32)
    bias = rng.integers(-9, 9, 136).astype(BF16)
    options = {"scale_b": scale, "bias": bias, "arch": arch, "backend": "emulator"}
    y = cute.gemm(x, w, out_dtype="f32", **options)
    assert np.array_equal(y, product(x, w) * scale + bias.astype(np.float32))


@pytest.mark.parametrize("arch", ARCHS)
def test_weights_without_signs_lie_in_rows_too(arch, rng):
    x, w = drawn(rng, 70, 48, 96, np.uint8, np.float16)
    rows = np.ascontiguousarray(w)
    y = cute.gemm(x, rows, out_dtype="f32", activation="relu", arch=arch, backend="emulator")
    assert np.array_equal(y, np.maximum(product(x, w), 0))


@pytest.mark.parametrize("arch", ["sm_90a"])
def test_blocks_of_weights_have_scales(arch, rng):
    x, w = drawn(rng, 16, 136, 192)
    scale = rng.choice([0.5, 1, 2], (2, 2)).astype(np.float32)
    y = cute.gemm(x, w, scale_b=scale, out_dtype="f32", arch=arch, backend="emulator")
    wide = np.kron(scale, np.ones((128, 128)))[:192, :136] * w
    assert np.array_equal(y, x.astype(np.float32) @ wide.astype(np.float32))


@pytest.mark.parametrize("k", [126, 398])
def test_threads_bring_both_operands_and_tma_lines_of_scales(k, rng):
    """A barrier counts the bytes of the scales alone, in front of which operands are listed."""
    x, w = drawn(rng, 70, 168, k, type_=np.float16)
    scale = rng.choice([0.5, 1, 2], (-(-k // 128), 168)).astype(np.float16)
    options = {"scale_b": scale, "out_dtype": "f32", "schedule": "split_k = 2", "arch": "sm_90a"}
    kernel = cute.compile(cute.gemm, x, np.ascontiguousarray(w), **options)
    assert kernel.ptx.count("cp.async.bulk.tensor") >= 1
    y = cute.gemm(x, np.ascontiguousarray(w), backend="emulator", **options)
    assert np.array_equal(y, product(x, np.repeat(scale, 128, 0)[:k] * w))


def test_ctas_of_a_cluster_share_deep_tiles(rng):
    x, w = drawn(rng, 16, 128, 516)
    schedule = "tile = (128,16,256), swap_ab = yes, split_k = 2, reduction = cluster"
    options = {"schedule": schedule, "arch": "sm_90a", "backend": "emulator"}
    assert np.array_equal(cute.gemm(x, w, out_dtype="f32", **options), product(x, w))


@pytest.mark.parametrize("k", [64, 512, 1028, 2560])
def test_deep_steps(k, rng):
    x, w = drawn(rng, 12, 72, k)
    options = {"schedule": "tile = (64,16,512), swap_ab = yes, stages = 2", "arch": "sm_90a"}
    y = cute.gemm(x, w, out_dtype="f32", backend="emulator", **options)
    assert np.array_equal(y, product(x, w))


@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 1), (3, 5, 1), (1, 40, 33), (130, 1, 70), (8, 8, 0)]
)
def test_lines_of_one_element(m, n, k, rng):
    x, w = drawn(rng, m, n, k)
    y = cute.gemm(x, w, out_dtype="f32", arch="sm_90a", backend="emulator")
    assert np.array_equal(y, product(x, w))


def test_several_products_in_a_launch(rng):
    pairs = [drawn(rng, m, 72, 64) for m in (20, 130)]
    xs, ws = map(list, zip(*pairs, strict=True))
    ys = cute.grouped_gemm(xs, ws, out_dtype="f32", arch="sm_90a", backend="emulator")
    for x, w, y in zip(xs, ws, ys, strict=True):
        assert np.array_equal(y, product(x, w))


@pytest.mark.parametrize("rows", [1, 64, 4096])
def test_warpgroups_take_weights_from_registers(rows):
    specs = cute.TensorSpec((rows, 8192), "bf16"), cute.TensorSpec((8192, 8192), "i8", (1, None))
    kernel = cute.gemm.compile(*specs, arch="sm_90a")
    assert "swap_ab = yes" in kernel.schedule
    assert "wgmma" in kernel.ptx
    assert "ld.global" not in kernel.ptx


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        (np.float32, np.int8, "b: expected f32 as in a, got i8"),
        (np.int8, BF16, "b: expected i8 as in a, got bf16"),
    ],
)
def test_other_mixed_types_are_refused(a, b, message):
    with pytest.raises(TypeError, match=message):
        cute.gemm(np.zeros((16, 16), a), np.zeros((16, 16), b), backend="emulator")
