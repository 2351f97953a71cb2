"""Weights packed once, and those of GPTQ, AWQ and compressed-tensors, against dequantizers that are
written from what the formats say.
"""

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

BF16 = ml_dtypes.bfloat16
K, N, GROUP = 192, 64, 64
GROUPS = K // GROUP
# The column that each nibble of a word of AWQ has, the lowest first.
AWQ_COLUMNS = (0, 2, 4, 6, 1, 3, 5, 7)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def words(values, bits=4):
    """Neighbors along the last mode in words of 32 bits, the first one lowest."""
    per = 32 // bits
    parts = values.reshape(*values.shape[:-1], -1, per).astype(np.uint64)
    return (
        (parts << (bits * np.arange(per, dtype=np.uint64))).sum(-1).astype(np.uint32).view(np.int32)
    )


def word_by_word(packed, bits=4):
    """What words hold, one after the other: the inverse of `words`, by a loop."""
    rows = []
    for row in packed.view(np.uint32).tolist():
        rows.append([word >> at & (1 << bits) - 1 for word in row for at in range(0, 32, bits)])
    return np.array(rows)


def scales_of(rng, shape):
    return rng.choice([0.25, 0.5, 1, 2], shape).astype(np.float16)


def product(weights, x):
    return cute.gemm(
        weights.rows_of(x), weights.b, out_dtype="f32", arch="sm_90a", backend="emulator",
        **weights.options,
    )  # fmt: skip


def inputs(rng, k=K):
    return rng.integers(-2, 3, (16, k)).astype(BF16)


@pytest.mark.parametrize("dtype", ["u4", "i4"])
@pytest.mark.parametrize(("k", "order"), [(64, None), (100, None), (100, "2:1")])
def test_weights_are_packed_once(dtype, k, order, rng):
    low = 0 if dtype == "u4" else -8
    q = rng.integers(low, low + 16, (k, 40)).astype(np.int8)
    w = cute.pack(q, dtype, order) if order else cute.pack(q, dtype)
    assert w.shape == (-(-k // 64) * 64, 40)
    assert w.array.nbytes == w.shape[0] * 40 // 2
    x = inputs(rng, k)
    y = cute.gemm(x, w, out_dtype="f32", arch="sm_90a", backend="emulator")
    assert np.array_equal(y, x.astype(np.float32) @ q.astype(np.float32))


@pytest.mark.parametrize(("bits", "offset"), [(4, 1), (4, 0), (8, 1)])
@pytest.mark.parametrize("sorts", [False, True])
def test_gptq(bits, offset, sorts, rng):
    high = 1 << bits
    q, z = rng.integers(0, high, (K, N)), rng.integers(0, high, (GROUPS, N))
    qweight, qzeros, scales = words(q.T, bits).T.copy(), words(z, bits), scales_of(rng, (GROUPS, N))
    g_idx = rng.permutation(K) // GROUP if sorts else None
    weights = cute.from_gptq(qweight, qzeros, scales, g_idx, bits=bits, zero_offset=offset)
    group = np.arange(K) // GROUP if g_idx is None else g_idx
    zeros = word_by_word(qzeros, bits)[group] + offset
    wide = scales[group].astype(np.float64) * (word_by_word(qweight.T.copy(), bits).T - zeros)
    x = inputs(rng)
    assert np.array_equal(product(weights, x), x.astype(np.float64) @ wide)


@pytest.mark.parametrize("group", [32, 64])
def test_awq(group, rng):
    q, z = rng.integers(0, 16, (K, N)), rng.integers(0, 16, (K // group, N))

    def held(values):
        return words(values.reshape(len(values), -1, 8)[..., AWQ_COLUMNS].reshape(values.shape))

    qweight, qzeros, scales = held(q), held(z), scales_of(rng, (K // group, N))
    weights = cute.from_awq(qweight, qzeros, scales)
    wide = np.empty((K, N))
    for n in range(N):
        word, nibble = n // 8, AWQ_COLUMNS.index(n % 8)
        values = qweight.view(np.uint32)[:, word] >> 4 * nibble & 15
        zeros = qzeros.view(np.uint32)[:, word] >> 4 * nibble & 15
        difference = values.astype(int) - np.repeat(zeros.astype(int), group)
        wide[:, n] = difference * np.repeat(scales[:, n], group).astype(float)
    x = inputs(rng)
    assert np.array_equal(product(weights, x), x.astype(np.float64) @ wide)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("kind", ["channel", "group", "asymmetric", "sorted"])
def test_compressed_tensors(bits, kind, rng):
    half, k = 1 << bits - 1, 188 if kind == "channel" else K
    q = rng.integers(-half, half, (N, k))
    padded = np.pad(q + half, ((0, 0), (0, -k % (32 // bits))))
    count = 1 if kind == "channel" else GROUPS
    scale, zeros, options = scales_of(rng, (N, count)), np.zeros((N, count), int), {}
    if kind == "asymmetric":
        zeros = rng.integers(-half, half, (N, count))
        options["weight_zero_point"] = words((zeros + half).T, bits).T.copy()
    group = np.arange(k) // (k if kind == "channel" else GROUP)
    if kind == "sorted":
        options["g_idx"] = group = rng.permutation(k) // GROUP
    packed = words(padded, bits)
    weights = cute.from_compressed_tensors(packed, scale, k=k, bits=bits, **options)
    values = word_by_word(packed, bits)[:, :k] - half
    wide = (values - zeros[:, group]) * scale[:, group].astype(np.float64)
    x = inputs(rng, k)
    assert np.array_equal(product(weights, x), x.astype(np.float64) @ wide.T)


WORDS, SCALES = np.zeros((24, 64), np.int32), np.zeros((3, 64), np.float16)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cute.pack(np.zeros((64, 8), np.int32)), TypeError, "q: expected i8 or u8"),
        (lambda: cute.pack(np.zeros(64, np.int8)), ValueError, r"q: expected 2 modes \(K, N\)"),
        (lambda: cute.pack(np.zeros((64, 8), np.int8), "i16"), TypeError, "expected u4, i4, u8 or"),
        (lambda: cute.pack(np.zeros((64, 8), np.int8), order="(3,2):(2,1)"), ValueError,
         "blocks whose size divides 64, got 6"),
        (lambda: cute.from_gptq(WORDS, np.zeros((3, 8), np.int32), SCALES, bits=3), ValueError,
         "bits: expected 4 or 8, got 3; the nearest is 4"),
        (lambda: cute.from_gptq(WORDS, np.zeros((5, 8), np.int32), np.zeros((5, 64))), ValueError,
         r"scales: expected \(2, 64\), \(3, 64\), \(6, 64\) for groups of 128, 64, 32 rows"),
        (lambda: cute.from_gptq(WORDS, np.zeros((2, 8), np.int32), SCALES), ValueError,
         r"zeros: expected shape \(3, 64\) as of the scales, got \(2, 64\)"),
    ],
)  # fmt: skip
def test_what_is_no_such_layer_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
