"""Weights of 8 bits in an order of their own: `cute.pack`, and words of 32 bits that hold them."""

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

ARCHS = ("sm_80", "sm_90a", "sm_100a")
BF16 = ml_dtypes.bfloat16
HALVES = "(2,4,2,2):(1,8,2,4)"


@pytest.fixture
def rng():
    return np.random.default_rng(27)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_packed_bytes_are_multiplied(arch, dtype, rng):
    q = rng.integers(-128, 128, (203, 72)).astype(np.int8)
    q = q if dtype == "i8" else q.view(np.uint8)
    x = rng.integers(-2, 3, (20, 203)).astype(BF16)
    scale = rng.choice([0.5, 1, 2], 72).astype(np.float32)
    w = cute.pack(q, dtype)
    y = cute.gemm(x, w, scale_b=scale, out_dtype="f32", arch=arch, backend="emulator")
    assert np.array_equal(y, x.astype(np.float64) @ q.astype(np.float64) * scale)


@pytest.mark.parametrize(("group", "order"), [(64, None), (32, HALVES)])
def test_groups_of_packed_bytes_have_scales_and_zeros(group, order, rng):
    q = rng.integers(0, 256, (128, 64)).astype(np.uint8)
    zero = rng.integers(0, 256, (128 // group, 64)).astype(np.uint8)
    scale = rng.choice([0.5, 1, 2], zero.shape).astype(np.float32)
    x = rng.integers(-2, 3, (16, 128)).astype(BF16)
    wide = q.astype(np.float64) - np.repeat(zero, group, 0)
    options = {"scale_b": scale, "zero_b": zero, "arch": "sm_90a", "backend": "emulator"}
    y = cute.gemm(x, cute.pack(q, "u8", order), out_dtype="f32", **options)
    assert np.array_equal(y, x.astype(np.float64) @ (wide * np.repeat(scale, group, 0)))


def test_words_hold_four_bytes(rng):
    q = rng.integers(0, 256, (64, 64)).astype(np.uint8)
    x = rng.integers(-2, 3, (16, 64)).astype(BF16)
    places = np.arange(4, dtype=np.uint32)
    words = (q.T.reshape(64, 16, 4).astype(np.uint32) << 8 * places).sum(-1, dtype=np.uint32)
    w = cute.packed(words.view(np.int32), "u8", axis=1).T
    y = cute.gemm(x, w, out_dtype="f32", arch="sm_90a", backend="emulator")
    assert np.array_equal(y, x.astype(np.float64) @ q.astype(np.float64))


def test_vectors_of_four_words_bring_what_a_thread_multiplies():
    specs = cute.TensorSpec((256, 4096), "bf16"), cute.TensorSpec((4096, 4096), "i8", (1, None))
    order = "(2,4,2,4):(1,16,2,4)"
    schedule = "tile = (128,128,128), swap_ab = yes"
    kernel = cute.gemm.compile(*specs, packed_b=f"i8 -2 {order}", arch="sm_90a", schedule=schedule)
    lines = kernel.ptx.splitlines()
    loads = [line.split()[0] for line in lines if "ld.shared" in line and "cute.load" in line]
    assert loads == ["ld.shared.v4.b32"]
    assert kernel.ptx.count("ld.shared.v4.b32") == 4


@pytest.mark.parametrize(("bits", "permutes"), [(8, 8), (4, 0)])
def test_conversions_of_packed_weights(bits, permutes):
    """A product for two, and of 4 bits no permute, since pairs are 16 bits apart."""
    m, n, k = 256, 4096, 4096
    specs = (
        cute.TensorSpec((m, k), "bf16"),
        cute.TensorSpec((k * bits // 8, n), "u8" if bits == 4 else "i8", (1, None)),
    )
    order = "u4 -2 (2,4,2,(2,2)):(4,16,2,(1,8))" if bits == 4 else "i8 -2 (2,4,2,4):(1,16,2,4)"
    zero = {"zero_b": 8} if bits == 4 else {}
    schedule = "tile = (128,128,128), swap_ab = yes, overlap = yes, unroll = 1"
    kernel = cute.gemm.compile(*specs, packed_b=order, arch="sm_90a", schedule=schedule, **zero)
    lines = kernel.ptx.splitlines()
    multiplies = [at for at, line in enumerate(lines) if "wgmma.mma_async" in line]
    found: dict[str, int] = {}
    # Conversions of a part, which is two multiplies of four registers each.
    part = lines[multiplies[-3] : multiplies[-2]]
    found = [sum(f"\t{kind}." in line for line in part) for kind in ("fma", "prmt")]
    assert found == [8, permutes]
