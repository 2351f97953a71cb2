"""Attention of heads of more than 256 dimensions on the emulator against float64, and of values
that are the first columns of the keys (latent attention): they are loaded once, as part of those.
"""

from __future__ import annotations

import math
import random

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

BF16 = ml_dtypes.bfloat16
ARCHS = ["sm_80", "sm_90a"]


def normal(*shape, dtype=BF16, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def reference(q, k, v, precision, causal=False, window=None):
    """(output, lse) computed in `precision`, what is multiplied rounded to the type of q."""
    store = (lambda x: x) if precision is np.float64 else lambda x: x.astype(q.dtype)
    group, rows, keys = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    q_, k_, v_ = (x.astype(precision) for x in (q, np.repeat(k, group, 1), np.repeat(v, group, 1)))
    behind = np.arange(keys)[None] - np.arange(rows)[:, None] - (keys - rows)
    seen = np.ones_like(behind, bool) if not causal and window is None else behind <= 0
    if window is not None:
        seen = seen & (behind >= -window)
    s = np.where(seen, q_ @ k_.swapaxes(-1, -2) / precision(math.sqrt(q.shape[-1])), -np.inf)
    top = s.max(-1, keepdims=True)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    return store(store(p).astype(precision) @ v_ / total), (top + np.log(total))[..., 0]


def check(out, lse, q, k, v, **masks):
    """FlashAttention's rule, and the logarithms."""
    exact, exact_lse = reference(q, k, v, np.float64, **masks)
    same, _ = reference(q, k, v, np.float32, **masks)
    error, allowed = (np.abs(x.astype(np.float64) - exact) for x in (out, same))
    assert error.max() <= 2 * allowed.max() + 1e-7
    assert error.mean() <= 2 * allowed.mean() + 1e-7
    if lse is not None:
        np.testing.assert_allclose(lse, exact_lse, rtol=2e-6, atol=4e-6)


def drawn(seed):
    """(q, k, columns of values, whether they are k's, options) of a random problem."""
    rng = random.Random(seed)
    depth = rng.choice((264, 288, 320, 384, 448, 512, 576))
    columns = min(512, rng.choice((depth, depth - 64, 8 * rng.randint(2, depth // 8))))
    group, heads = rng.choice((1, 3, 16, 40)), rng.choice((1, 2))
    rows = rng.choice((1, 1, 2, 5, 70))
    keys = max(rows, rng.choice((1, 33, 64, 100, 130)))
    options = {}
    if rng.random() < 0.4:
        options["causal"] = True
    elif rng.random() < 0.3:
        options["window"] = rng.randint(0, keys)
    dtype = rng.choice((BF16, np.float16))
    q = normal(1, heads * group, rows, depth, dtype=dtype, seed=seed)
    k = normal(1, heads, keys, depth, dtype=dtype, seed=seed + 1)
    return q, k, columns, rng.random() < 0.7, options, rng.random() < 0.3


def check_drawn(seed, arch):
    q, k, columns, is_latent, options, returns_lse = drawn(seed)
    v = k[..., :columns] if is_latent else normal(*k.shape[:-1], columns, dtype=k.dtype, seed=9)
    given = dict(options)
    if "window" in given:
        given["window"] = (given["window"], 0)
    made = cute.attention(q, k, v, arch=arch, backend="emulator", return_lse=returns_lse, **given)
    out, lse = made if returns_lse else (made, None)
    check(out, lse, q, k, v, **options)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("seed", [1])
def test_drawn_problems(seed, arch):
    check_drawn(seed, arch)


@pytest.mark.long
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("seed", [0, *range(100, 120)])
def test_more_drawn_problems(seed, arch):
    check_drawn(seed, arch)


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_89", "sm_86", "sm_120a"])
def test_targets_of_less_shared_memory_have_a_default(arch):
    """Blocks of 16 keys are what fits beside 512 dimensions: too few for four columns of warps."""
    q, k = normal(1, 2, 40, 512), normal(1, 1, 50, 512, seed=1)
    out, lse = cute.attention(q, k, k, arch=arch, backend="emulator", return_lse=True)
    check(out, lse, q, k, k)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("depth", "columns"), [(575, None), (409, None), (257, 511), (576, 512), (64, 509)]
)
def test_rows_that_begin_at_any_element_have_a_default(depth, columns):
    """They come with the words around them, and are shifted to where multiplies read them."""
    odd = depth + 1 - depth % 2
    q, k = (normal(1, 2, 40, odd, seed=s)[..., :depth] for s in (0, 1))
    v = k[..., :400] if columns is None else normal(1, 2, 40, columns, seed=2)
    out, lse = cute.attention(q, k, v, arch="sm_90a", backend="emulator", return_lse=True)
    check(out, lse, q, k, v)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("heads", [16, pytest.param(128, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("split", "way"), [(1, "lazy"), pytest.param(2, "exact", marks=pytest.mark.long)]
)
def test_latent_decoding_in_pages(arch, heads, split, way):
    """MLA: 576 dimensions of q and k, of which 512 are v, one head for all of q."""
    q = normal(2, heads, 1, 576)
    pages = normal(5, 1, 64, 576, seed=1)
    table = np.array([[3, 0], [2, 4]], np.int32)
    lengths = np.array([128, 75], np.int32)
    out = cute.attention(
        q, pages, pages[..., :512], block_table=table, lengths=lengths, arch=arch,
        backend="emulator", schedule=f"split_k = {split}, maxima = {way}",
    )  # fmt: skip
    for one, length in enumerate(lengths):
        k = np.concatenate(list(pages[table[one]]), 1)[None, :, :length]
        check(out[one : one + 1], None, q[one : one + 1], k, k[..., :512])


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ARCHS)
def test_values_that_are_columns_of_keys_are_loaded_once(arch):
    """Shared memory holds the keys alone, and a view and a number of columns are one kernel."""
    q, k = cute.TensorSpec((1, 16, 1, 576), "bf16"), cute.TensorSpec((1, 1, 256, 576), "bf16")
    v = cute.TensorSpec((1, 1, 256, 512), "bf16")
    options = {"arch": arch, "schedule": "stages = 1, split_k = 1"}
    latent = cute.compile(cute.attention, q, k, 512, **options)
    apart = cute.compile(cute.attention, q, k, v, **options)
    keys = cute.Schedule.parse(str(latent.schedule)).tile[1]
    assert cute.Schedule.parse(str(apart.schedule)).tile[1] == keys
    assert apart.resources.smem - latent.resources.smem >= 2 * 512 * keys
    assert not latent.resources.spills
    assert not any("cute-partition" in str(remark) for remark in latent.remarks)


def test_a_view_of_other_columns_is_loaded_for_itself():
    q, k = normal(1, 4, 1, 320), normal(1, 1, 40, 320, seed=1)
    v = k[..., 64:256]
    check(cute.attention(q, k, v, arch="sm_90a", backend="emulator"), None, q, k, v)


@pytest.mark.parametrize(
    ("columns", "message"),
    [(0, "from 1 to 576, got 0"), (577, "from 1 to 576, got 577"), (576, "1 to 512, got 576")],
)
def test_columns_that_are_not_there_are_refused(columns, message):
    q, k = normal(1, 4, 1, 576), normal(1, 1, 40, 576)
    with pytest.raises(ValueError, match=f"v: expected .*{message}"):
        cute.attention(q, k, columns, arch="sm_90a", backend="emulator")


def test_wide_heads_have_16_bits():
    q = np.zeros((1, 1, 4, 320), ml_dtypes.float8_e4m3fn)
    with pytest.raises(ValueError, match="q: expected a head dimension of 1 to 256, got 320"):
        cute.attention(q, q, q, arch="sm_90a", backend="emulator")
