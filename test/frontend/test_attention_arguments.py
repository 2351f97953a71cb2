"""Wrong arguments of `cute.attention` are refused by name before anything is written."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute


def zeros(*shape, dtype=np.float16):
    return np.zeros(shape, dtype)


E4M3 = ml_dtypes.float8_e4m3fn
Q, K = zeros(2, 4, 8, 64), zeros(2, 2, 16, 64)
OFFSETS = np.array([0, 8], np.int32)

REFUSED = {
    "k: expected 4 dimensions (batch, heads, sequence, head dimension), got shape (2, 16, 64)": {
        "k": K[:, 0]
    },
    "q: expected f16, bf16, e4m3 or e5m2, got f32": {"q": Q.astype(np.float32)},
    "q: expected f16 or bf16 on sm_80 (multiplies of e4m3 need sm_89), got e4m3": {
        "q": Q.astype(E4M3), "k": K.astype(E4M3), "v": K.astype(E4M3), "arch": "sm_80"
    },
    "k: expected e4m3 as in q, got f16": {"q": Q.astype(E4M3), "arch": "sm_90a"},
    "v: expected e4m3 as in k, got f16": {"k": K.astype(E4M3)},
    "scale_q: expected a positive number, got 0.0": {"scale_q": 0},
    "scale_k: expected f32, got f16": {"scale_k": zeros(2)},
    "scale_k: expected a number, (2,) or (2, 2) for each head, (2, 2, 16) or (2, 2, 1) for keys, "
    "got shape (4,)": {
        "scale_k": zeros(4, dtype=np.float32)
    },
    "scale_v: expected a number, (2,) or (2, 2) for each head, (2, 2, 16) or (2, 2, 1) for keys, "
    "got shape (1, 2, 1)": {
        "scale_v": zeros(1, 2, 1, dtype=np.float32)
    },
    "scale_q: expected an array, got str": {"scale_q": "1"},
    "v: expected f16 as in k, got bf16": {"v": cute.bf16},
    "k: expected head dimension 64 as in q, got 32": {"k": K[..., :32].copy()},
    "k: expected a contiguous last dimension, got stride 2": {"k": zeros(2, 2, 16, 128)[..., ::2]},
    "v: expected a head dimension of 1 to 512, got 520": {"v": zeros(2, 2, 16, 520)},
    "k: expected batch 2 as in q, got 1": {"k": K[:1]},
    "v: expected 2 heads as in k, got 1": {"v": K[:, :1]},
    "v: expected 16 keys as in k, got 15": {"v": K[:, :, :15]},
    "k: expected a number of heads that divides the 4 of q, got 3": {
        "k": zeros(2, 3, 16, 64),
        "v": zeros(2, 3, 16, 64),
    },
    "v: expected an array, or how many columns of k it is, got bool": {"v": True},
    "is_causal: expected causal=, got an argument of another library": {"is_causal": True},
    "attn_mask: expected causal=, window=(left, right), lengths= or cu_seqlens=, since masks": {
        "attn_mask": Q
    },
    "attention() got an unexpected keyword argument 'casual'": {"casual": True},
    "window: expected (left, right), two ints, got 5": {"window": 5},
    "window: expected numbers of keys or -1, got (-2, 0)": {"window": (-2, 0)},
    "scale: expected a number, got str": {"scale": "1"},
    "scale: expected a finite number, got inf": {"scale": float("inf")},
    "softcap: expected a positive number, got -1.0": {"softcap": -1.0},
    "lengths: expected one dimension, got shape (1, 2)": {"lengths": zeros(1, 2, dtype=np.int32)},
    "lengths: expected i32 or i64, got f16": {"lengths": zeros(2)},
    "lengths: expected 2 numbers, got 3": {"lengths": zeros(3, dtype=np.int32)},
    "cu_seqlens: expected None with lengths, got both": {
        "lengths": zeros(2, dtype=np.int32),
        "cu_seqlens": (OFFSETS, OFFSETS),
    },
    "cu_seqlens: expected (q_offsets, k_offsets), got ndarray": {"cu_seqlens": OFFSETS},
    "q: expected batch 1 with cu_seqlens": {"cu_seqlens": (OFFSETS, OFFSETS)},
    "cu_seqlens[1]: expected 2 numbers, got 1": {
        "q": Q[:1], "k": K[:1], "v": K[:1], "cu_seqlens": (OFFSETS, OFFSETS[:1])
    },
    "cu_seqlens[0]: expected the offsets of one or more sequences and their end, got 1 numbers": {
        "q": Q[:1], "k": K[:1], "v": K[:1], "cu_seqlens": (OFFSETS[:1], OFFSETS[:1])
    },
    "out: expected shape (2, 4, 8, 64), got (2, 4, 8, 32)": {"out": zeros(2, 4, 8, 32)},
    "out: expected f32, got f16": {"out": zeros(2, 4, 8, 64), "out_dtype": cute.f32},
    "schedule: expected a tile (rows, keys), got (128, 64, 64)": {
        "schedule": "tile = (128,64,64)"
    },
    "arch: ": {"arch": "sm_81"},
    "block_table: expected (batch, pages), got shape (2,)": {
        "block_table": zeros(2, dtype=np.int32)
    },
    "block_table: expected a page or more, got shape (2, 0)": {
        "block_table": zeros(2, 0, dtype=np.int32)
    },
    "block_table: expected i32 or i64, got f16": {"block_table": zeros(2, 3)},
    "block_table: expected batch 2 as in q, got 3": {"block_table": zeros(3, 1, dtype=np.int32)},
    "k: expected (pages, heads, page size, head dimension) with a page size that is a power of two "
    "from 8 on, got shape (9, 2, 24, 64)": {
        "k": zeros(9, 2, 24, 64), "block_table": zeros(2, 3, dtype=np.int32)
    },
    "v: expected pages of 16 keys as in k, got 32": {
        "v": zeros(2, 2, 32, 64), "block_table": zeros(2, 3, dtype=np.int32)
    },
    "v: expected 2 pages as in k, got 3": {
        "v": zeros(3, 2, 16, 64), "block_table": zeros(2, 3, dtype=np.int32)
    },
    "cu_seqlens: expected None with block_table, got both": {
        "q": Q[:1], "k": K[:1], "v": K[:1], "block_table": zeros(1, 3, dtype=np.int32),
        "cu_seqlens": (OFFSETS, OFFSETS),
    },
    "schedule: expected split_k = 1 with cu_seqlens, got 2": {
        "q": Q[:1], "k": K[:1], "v": K[:1], "cu_seqlens": (OFFSETS, OFFSETS),
        "schedule": "split_k = 2",
    },
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message):
    given = {"q": Q, "k": K, "v": K} | REFUSED[message]
    if isinstance(given["v"], type(cute.bf16)):
        given["v"] = K.astype(given["v"].numpy)
    with pytest.raises((TypeError, ValueError)) as caught:
        cute.attention(given.pop("q"), given.pop("k"), given.pop("v"), backend="emulator", **given)
    assert str(caught.value).startswith(message)


def test_offsets_of_a_wrong_kind_are_seen_after_a_call_that_looks_the_same():
    q, k = Q[:1], K[:1]
    cute.attention(q, k, k, backend="emulator")
    for wrong in (OFFSETS, (OFFSETS,), (OFFSETS, OFFSETS, OFFSETS), "ab", 3):
        with pytest.raises(TypeError, match=r"^cu_seqlens: expected \(q_offsets, k_offsets\), got"):
            cute.attention(q, k, k, cu_seqlens=wrong, backend="emulator")


def test_rows_of_an_output_may_be_unknown():
    """Heads that share keys are the rows of one, however many its output has."""
    q, k = (cute.TensorSpec((1, heads, 2, 64), "f16") for heads in (8, 2))
    out = cute.TensorSpec((1, 8, None, 64), "f16")
    kernel = cute.compile(cute.attention, q, k, k, out=out, arch="sm_80")
    assert kernel.parameters["dims"] == (64, 64)
