"""`cute.attention` on the emulator against float64: lengths that no tile divides, heads that share
keys, masks, padding, packed sequences. By FlashAttention's rule the error is at most twice that of
the same computation in the same precision.
"""

from __future__ import annotations

import math
import random
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator
from cutedialect.choosing import attention_problem
from cutedialect.choosing.rules import Rule, Table

BF16 = ml_dtypes.bfloat16
ARCHS = ["sm_80", "sm_90a"]
# A table that tells the same of all problems.
ALWAYS = Table((Rule({}, (), True),))


def normal(*shape, dtype=np.float16, seed=0, size=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * size).astype(dtype)


def operands(b, h, hk, sq, sk, d, dv=None, dtype=np.float16, size=1.0):
    return (
        normal(b, h, sq, d, dtype=dtype, seed=1, size=size),
        normal(b, hk, sk, d, dtype=dtype, seed=2, size=size),
        normal(b, hk, sk, dv or d, dtype=dtype, seed=3),
    )


def visible(sq, sk, causal, window):
    left, right = window or (-1, -1)
    right = 0 if causal else right
    behind = np.arange(sk)[None] - np.arange(sq)[:, None] - (sk - sq)
    return ((right < 0) | (behind <= right)) & ((left < 0) | (behind >= -left))


def reference(q, k, v, precision, causal=False, window=None, softcap=None, scale=None):
    """(output, lse) computed in `precision`, what is multiplied and stored in the type of q."""
    store = (lambda x: x) if precision is np.float64 else lambda x: x.astype(q.dtype)
    group = q.shape[1] // k.shape[1]
    q_, k_, v_ = (x.astype(precision) for x in (q, np.repeat(k, group, 1), np.repeat(v, group, 1)))
    s = q_ @ k_.swapaxes(-1, -2) * precision(1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if softcap:
        s = precision(softcap) * np.tanh(s / precision(softcap))
    seen = visible(q.shape[2], k.shape[2], causal, window)
    s = np.where(seen, s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isinf(top), precision(0), top)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    out = store(p).astype(precision) @ v_ / np.where(total == 0, precision(1), total)
    with np.errstate(divide="ignore"):
        return store(np.where(total == 0, precision(0), out)), (top + np.log(total))[..., 0]


def check(out, lse, q, k, v, **masks):
    exact, exact_lse = reference(q, k, v, np.float64, **masks)
    same, _ = reference(q, k, v, np.float32, **masks)
    error, allowed = (np.abs(x.astype(np.float64) - exact) for x in (out, same))
    tiny = 1e-7
    assert error.max() <= 2 * allowed.max() + tiny
    assert error.mean() <= 2 * allowed.mean() + tiny
    empty = np.isneginf(exact_lse)
    np.testing.assert_array_equal(np.isneginf(lse), empty)
    assert not out[empty].any()
    np.testing.assert_allclose(lse[~empty], exact_lse[~empty], rtol=2e-6, atol=4e-6)


def run(q, k, v, **options):
    return cute.attention(q, k, v, return_lse=True, backend="emulator", **options)


CASES = {
    "full": (operands(1, 2, 2, 113, 211, 64), {}),
    "causal_shared_heads": (operands(2, 4, 2, 113, 211, 64), {"causal": True}),
    "more_rows_than_keys": (operands(1, 1, 1, 211, 113, 64), {"causal": True}),
    "one_head_of_keys_window": (
        operands(1, 3, 1, 257, 513, 32, 48, BF16),
        {"window": (70, 5)},
    ),
    "causal_window_128": (operands(1, 1, 1, 257, 300, 128), {"causal": True, "window": (64, -1)}),
    "softcap": (operands(1, 1, 1, 65, 129, 96, dtype=BF16), {"softcap": 2.5}),
    "wide": (operands(1, 1, 1, 70, 100, 256), {"causal": True}),
    "values_narrower": (operands(1, 1, 1, 70, 150, 192, 128, BF16), {"scale": 0.2}),
    "negative_scale": (operands(1, 1, 1, 33, 65, 64), {"scale": -0.3}),
    "scale_of_zero": (operands(1, 1, 1, 33, 20, 64), {"scale": 0.0, "causal": True}),
    "large_scores": (operands(1, 1, 1, 64, 130, 64, size=30.0), {}),
    "one_row": (operands(2, 6, 2, 1, 67, 64), {"causal": True}),
    "one_row_window": (operands(1, 2, 1, 1, 67, 64), {"causal": True, "window": (9, -1)}),
    "one_key": (operands(1, 1, 1, 5, 1, 40), {}),
    "unaligned": (operands(1, 1, 1, 40, 70, 33), {"causal": True}),
}


# Cases in which the two targets run the same code but for what others test.
ONCE = {
    "more_rows_than_keys": "sm_90a",
    "softcap": "sm_80",
    "wide": "sm_90a",
    "negative_scale": "sm_80",
    "scale_of_zero": "sm_90a",
    "large_scores": "sm_80",
    "one_key": "sm_90a",
    "one_row_window": "sm_80",
    "unaligned": "sm_80",
}


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("name", "arch"),
    [(name, arch) for name in CASES for arch in ARCHS if ONCE.get(name, arch) == arch],
)
def test_against_float64(name, arch):
    (q, k, v), masks = CASES[name]
    check(*run(q, k, v, arch=arch, **masks), q, k, v, **masks)


def rising(dtype, rows=70, d=64):
    """Operands with keys in blocks of 64, whose largest scores (base 2) are about those of `tops`
    times a factor of the row: they grow by less than 8 at once or in several steps, and by more.
    """
    tops = np.array([0, 5, 10, 17, 16, 40, 41, 47.5, 48.5, 120, 127.75, 128.25])
    factors = np.array([1, 0.5, 0.25, 0, -1, -0.125, 0.75])
    q, k, v = operands(1, 1, 1, rows, 64 * len(tops), d, dtype=dtype, size=0.25)
    q[..., 0] = np.resize(factors, rows)
    k[..., 0] = np.repeat(tops, 64) * math.log(2)
    return q, k, v


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("dtype", "arch", "schedule"),
    [
        (np.float16, "sm_80", "tile = (64,64)"),
        (BF16, "sm_80", "tile = (32,64), warps = (1,2)"),
        (np.float16, "sm_90a", "tile = (64,64), overlap = yes"),
        (BF16, "sm_90a", "tile = (128,64), overlap = turns"),
        (BF16, "sm_90a", "tile = (64,64), overlap = no"),
    ],
)
@pytest.mark.parametrize("causal", [False, True])
def test_largest_scores_that_grow_by_more_or_less_than_2_to_the_8(
    dtype, arch, schedule, causal, monkeypatch
):
    """What was added up is scaled only for more: exponentials up to 2^8 are as exact as up to 1."""
    monkeypatch.setattr(attention_problem.RULES, "has_many_keys", ALWAYS)
    q, k, v = rising(dtype)
    options = {"causal": causal, "scale": 1.0}
    check(*run(q, k, v, arch=arch, schedule=schedule, **options), q, k, v, **options)


def stepping(tops, rows, d, dtype):
    """Operands whose scores (base 2) are about `tops`, each of 64 keys: but for the rows that see
    half of that, or the opposite.
    """
    q, k, v = operands(1, 1, 1, rows, 64 * len(tops), d, dtype=dtype, size=0.25)
    q[..., 0] = np.resize([1, 1, 1, 0.5, 1, 1, 1, -1], rows)
    k[..., 0] = np.repeat(tops, 64) * math.log(2)
    return q, k, v


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "tops",
    [
        # The 32 columns of a thread add up to less than 2^12, or to more.
        [0, 0, 6.5, 6.5, 7.5, 7.5],
        # Exponentials of what is above the largest score so far are as large as floats go, or not.
        [0, 3, 126, 127, 260, 386, 389, 515],
        [0, 20, 2000, 3, 4000, -4000, 9000, 9001],
        # No score comes near 0, which rows that see none of the first blocks must not count from.
        [-9000, -9000, -9000, -9001, -8000, -9000],
    ],
)
@pytest.mark.parametrize(
    ("d", "dtype", "rows", "schedule", "masks"),
    [
        (64, np.float16, 200, "tile = (192,96)", {}),
        (64, BF16, 70, "tile = (128,128)", {"causal": True}),
        (128, np.float16, 130, "tile = (128,128)", {"causal": True, "window": (100, -1)}),
        (112, BF16, 70, "tile = (192,64)", {"window": (130, 20)}),
        (32, np.float16, 60, "tile = (64,64)", {"causal": True}),
    ],
)
def test_scores_that_exponentials_are_not_expected_to_exceed(tops, d, dtype, rows, schedule, masks):
    q, k, v = stepping(tops, rows, d, dtype)
    options = {"scale": 1.0, **masks}
    check(*run(q, k, v, arch="sm_90a", schedule=schedule, **options), q, k, v, **options)


def test_tiles_of_windows_look_for_larger_scores_too():
    schedule = "scheduler = dynamic, overlap = yes, tile = (64,64)"
    q, k, v = stepping([0, 3, 126, 127, 260, 2000], 300, 128, BF16)
    options = {"scale": 1.0, "causal": True, "window": (100, -1)}
    check(*run(q, k, v, arch="sm_90a", schedule=schedule, **options), q, k, v, **options)


@pytest.mark.some(2)
@pytest.mark.parametrize("window", [(300, 0), (40, 0), (200, 150)])
def test_tiles_of_windows_that_begin_at_a_multiple_of_blocks(window):
    """Blocks of 128 keys: the first tile begins with block 8, and ends with those before it."""
    q, k, v = operands(1, 1, 1, 140, 1400, 128, dtype=BF16)
    check(*run(q, k, v, window=window, arch="sm_90a"), q, k, v, window=window)


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ARCHS)
def test_rows_do_not_depend_on_those_beside_them(arch, monkeypatch):
    """A row keeps what its exponentials count from where another one of its warp grows, or has no
    number.
    """
    monkeypatch.setattr(attention_problem.RULES, "has_many_keys", ALWAYS)
    q, k, v = rising(np.float16, 64)
    changed = q.copy()
    changed[:, :, 1::2] = -2 * q[:, :, 1::2]
    changed[:, :, 5] = np.nan
    (one, one_lse), (other, other_lse) = (
        run(each, k, v, scale=1.0, arch=arch, schedule="tile = (64,64)") for each in (q, changed)
    )
    np.testing.assert_array_equal(one[:, :, ::2], other[:, :, ::2])
    np.testing.assert_array_equal(one_lse[:, :, ::2], other_lse[:, :, ::2])
    assert np.isnan(other[:, :, 5]).all()
    assert np.isnan(other_lse[:, :, 5]).all()
    assert np.isfinite(np.delete(other, 5, 2)).all()


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_copies_that_complete_late(seed, monkeypatch):
    monkeypatch.setattr(emulator, "launch", partial(emulator.launch, seed=seed))
    q, k, v = operands(1, 3, 1, 200, 300, 64)
    for schedule in ("stages = 1", "tile = (192,64), warps = (12,1)"):
        out, lse = run(q, k, v, window=(100, 5), arch="sm_90a", schedule=schedule)
        check(out, lse, q, k, v, window=(100, 5))
    test_packed_sequences("sm_90a")


@pytest.mark.parametrize("arch", ARCHS)
def test_padding_does_not_leak(arch):
    q, k, v = operands(3, 2, 1, 70, 200, 64)
    lengths = np.array([150, 20, 0], np.int32)
    for entry, length in enumerate(lengths):
        k[entry, :, length:], v[entry, :, length:] = np.nan, np.inf
    out, lse = run(q, k, v, lengths=lengths, causal=True, arch=arch)
    for entry, length in enumerate(lengths):
        at = slice(entry, entry + 1)
        kept = k[at, :, :length], v[at, :, :length]
        check(out[at], lse[at], q[at], *kept, causal=True)


@pytest.mark.parametrize("arch", ARCHS)
def test_packed_sequences(arch):
    rows, keys = [5, 130, 0, 64, 1], [70, 130, 3, 20, 0]
    q_offsets, k_offsets = (np.cumsum([0, *x]) for x in (rows, keys))
    total = q_offsets[-1] + 3
    q, k, v = operands(1, 4, 2, total, k_offsets[-1] + 2, 64)
    # Between sequences 1 and 3 lie the keys of one without rows: nobody sees them.
    k[:, :, k_offsets[2] : k_offsets[3]] = v[:, :, k_offsets[2] : k_offsets[3]] = np.nan
    out = np.full((1, 4, total, 64), 7, np.float16)
    out, lse = run(
        q, k, v, out=out, cu_seqlens=(q_offsets, k_offsets.astype(np.int32)), causal=True, arch=arch
    )
    for s, count in enumerate(rows):
        mine, of_keys = (slice(x[s], x[s + 1]) for x in (q_offsets, k_offsets))
        if count:
            parts = q[:, :, mine], k[:, :, of_keys], v[:, :, of_keys]
            check(out[:, :, mine], lse[:, :, mine], *parts, causal=True)
    assert (out[:, :, q_offsets[-1] :] == 7).all()


@pytest.mark.parametrize("name", ["q", "k", "v", "lengths"])
def test_an_out_that_shares_memory_is_refused(name):
    memory = np.zeros((1, 4, 64, 32), np.float16)
    arrays = dict(zip("qkv", operands(1, 2, 2, 64, 64, 32), strict=True))
    arrays["lengths"] = np.array([64], np.int32)
    arrays[name] = memory[:, 1:3] if name in "qkv" else memory.reshape(-1)[:2].view(np.int32)
    with pytest.raises(ValueError, match=rf"(out.*{name}|{name}.*out)"):
        cute.attention(**arrays, out=memory[:, :2], arch="sm_80")
    assert not memory.any()
    out = memory[:, ::2]
    cute.attention(*operands(1, 2, 2, 64, 64, 32), out=out, arch="sm_80")
    assert out.any()
    assert not memory[:, 1::2].any()


def with_inf(array, key):
    changed = array.copy()
    changed[:, :, key] = np.inf
    return changed


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ARCHS)
def test_what_a_row_does_not_see_does_not_leak(arch):
    q, k, v = operands(1, 1, 1, 64, 80, 32)
    clean = v.copy()
    v[:, :, 3], v[:, :, 40], v[:, :, 75, 5] = np.nan, np.nan, -np.inf
    out, _ = run(q, with_inf(k, 78), v, window=(30, 0), arch=arch)
    exact, _ = reference(q, k, clean, np.float64, window=(30, 0))
    keys, rows = np.arange(80), np.arange(64)[:, None] + 16
    sees = (keys <= rows) & (keys >= rows - 30)
    whole = ~sees[:, [3, 40, 75, 78]].any(1)
    assert whole.sum() == 10
    assert np.abs(out[0, 0, whole] - exact[0, 0, whole]).max() < 2e-3
    assert np.isnan(out[0, 0, sees[:, 40]]).all()
    only = sees[:, 75] & ~sees[:, 78]
    assert only.sum() == 3
    assert np.isneginf(out[0, 0, only, 5]).all()
    assert np.isfinite(np.delete(out[0, 0, only], 5, 1)).all()


@pytest.mark.some(1)
@pytest.mark.parametrize("rows", [128, 300])
def test_a_cluster_shares_keys(rows):
    """Below a mask, too: the loops of its CTAs run alike."""
    q, k, v = operands(1, 2, 2, rows, 150, 64)
    options = {"arch": "sm_90a", "schedule": "tile = (64,64), cluster = (2,1)"}
    for masks in ({}, {"causal": True}):
        check(*run(q, k, v, **options, **masks), q, k, v, **masks)
        kernel = cute.compile(cute.attention, q, k, v, **options, **masks)
        assert "multicast" in kernel.ptx


def test_rows_of_heads_that_share_keys_are_one_tile():
    q, k, v = operands(2, 8, 2, 1, 300, 64)
    lengths = np.array([300, 41])
    out = np.zeros((2, 1, 8, 64), np.float16).transpose(0, 2, 1, 3)
    out, lse = run(q, k, v, lengths=lengths, causal=True, arch="sm_90a", out=out)
    for entry, length in enumerate(lengths):
        at = slice(entry, entry + 1)
        check(out[at], lse[at], q[at], k[at, :, :length], v[at, :, :length])
    kernel = cute.compile(cute.attention, q, k, v, arch="sm_90a")
    assert "?,?,?,?,?" not in kernel.stages["cute-tile"]


def test_calls_with_other_arrays_that_look_alike():
    first, second = (operands(1, 2, 1, 33, 40, 32), operands(1, 2, 1, 33, 40, 32, size=2.0))
    for q, k, v in (first, second, first):
        check(*run(q, k, v, causal=True, scale=0.3), q, k, v, causal=True, scale=0.3)


def test_views_in_and_out():
    q, k, v = (x.transpose(0, 2, 1, 3) for x in operands(2, 50, 50, 4, 2, 64))
    out = np.zeros((2, 50, 4, 64), np.float16).transpose(0, 2, 1, 3)
    k, v = k[:, :2], v[:, :2]
    found, lse = run(q, k, v, out=out)
    assert found is out
    check(out, lse, q, k, v)


def test_no_rows_and_no_keys():
    q, k, v = operands(1, 2, 2, 9, 0, 64)
    for arch in ARCHS:
        out, lse = run(q, k, v, causal=True, arch=arch)
        assert not out.any()
        assert np.isneginf(lse).all()
    assert cute.attention(q[:, :, :0], q, q, backend="emulator").shape == (1, 2, 0, 64)


def default_schedule(rows=None, keys=16384, d=128, dv=None, heads=(16, 16), **options):
    """That of many sequences, for which no array of theirs is needed."""
    extents = (heads[0], rows, d), (heads[1], keys, d), (heads[1], keys, dv or d)
    specs = [cute.TensorSpec((None, *each), cute.bf16) for each in extents]
    return cute.compile(cute.attention, *specs, arch="sm_90a", **options).schedule


@pytest.mark.some(2)
@pytest.mark.parametrize("keys", [0, 70, 160, 230, 310, 550])
def test_three_warpgroups_of_wide_heads(keys):
    """As many blocks of keys as stages, one more or less, and twice as many and one."""
    schedule = default_schedule(d=112)
    assert "tile = (192,64), warps = (12,1), stages = 4," in schedule
    q, k, v = operands(1, 1, 1, 200, keys, 112, dtype=BF16)
    check(*run(q, k, v, arch="sm_90a", schedule=schedule), q, k, v)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("rows", "keys", "heads", "dims", "masks"),
    [
        (200, 130, (4, 2), (112, 112), {"causal": True}),
        (70, 390, (4, 1), (112, 112), {"causal": True, "scale": -0.1}),
        (390, 200, (1, 1), (112, 64), {"causal": True}),
        (150, 250, (1, 1), (64, 112), {"causal": True, "softcap": 2.5}),
        (200, 240, (4, 2), (104, 112), {}),
        (192, 250, (1, 1), (112, 72), {"softcap": 2.5}),
        (200, 250, (4, 2), (96, 96), {"causal": True}),
        (390, 300, (1, 1), (80, 80), {"causal": True, "softcap": 2.5}),
        (70, 200, (2, 1), (64, 96), {}),
    ],
)
@pytest.mark.parametrize("unroll", [1, 2])
def test_three_warpgroups_with_masks_and_shared_heads(rows, keys, heads, dims, masks, unroll):
    shared = (16, 16 * heads[1] // heads[0])
    forced = {"schedule": "unroll = 1"} if unroll == 1 else {}
    schedule = default_schedule(None, 16384, *dims, shared, **masks, **forced)
    causal = masks.get("causal", False)
    narrow = 80 if unroll == 2 and not causal else 96
    wide = 64 if unroll == 2 or (causal and heads[0] != heads[1]) else 80
    assert f"tile = (192,{narrow if max(dims) <= 96 else wide})" in schedule
    q, k, v = operands(1, *heads, rows, keys, *dims, dtype=BF16)
    check(*run(q, k, v, arch="sm_90a", schedule=schedule, **masks), q, k, v, **masks)


def test_three_warpgroups_do_not_let_hidden_keys_leak():
    """Row r sees the keys up to r + 50, so that the last ten rows see a value without a number."""
    q, k, v = operands(1, 1, 1, 40, 90, 112, 32)
    clean = v.copy()
    k[:, :, 89], v[:, :, 80] = np.nan, np.nan
    schedule = default_schedule(d=112, dv=32, causal=True)
    assert "tile = (192,64)" in schedule
    out, _ = run(q, k, v, causal=True, arch="sm_90a", schedule=schedule)
    k[:, :, 89] = 0
    exact, _ = reference(q, k, clean, np.float64, causal=True)
    assert np.abs(out[:, :, :30] - exact[:, :, :30]).max() < 2e-3
    assert np.isnan(out[:, :, 30:]).all()


def test_results_that_tma_does_not_store():
    """Masked rows are stored by all threads, whatever the alignment, in tiles of any warpgroups."""
    q, k, v = operands(1, 2, 2, 70, 70, 64)
    out = np.zeros((1, 2, 70, 66), np.float16)[..., :64]
    check(*run(q, k, v, out=out, causal=True, arch="sm_90a"), q, k, v, causal=True)


@pytest.mark.some(2)
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lse", [False, True])
def test_results_that_tma_does_not_store_spill_nothing(d, causal, lse):
    spec = cute.TensorSpec((2, 8, 16384, d), cute.bf16)
    given = cute.TensorSpec((2, 8, 16384, d), cute.bf16, (None, None, None, 1), 4)
    options = {"out": given, "causal": causal, "return_lse": lse, "arch": "sm_90a"}
    assert cute.compile(cute.attention, spec, spec, spec, **options).resources.spills == 0


def test_wide_results_fit_shared_memory():
    spec = cute.TensorSpec((2, 8, 16384, 128), cute.bf16)
    options = {"out_dtype": "f32", "causal": True, "arch": "sm_90a"}
    assert cute.compile(cute.attention, spec, spec, spec, **options).resources.spills == 0


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "dims", [(128, 128), (104, 112), (128, 64), (64, 112), (96, 96), (80, 80), (96, 64)]
)
@pytest.mark.parametrize("masks", [{}, {"causal": True}, {"causal": True, "softcap": 20.0}])
@pytest.mark.parametrize("shared", [1, 4])
def test_wide_heads_of_many_keys_assemble_without_spills(dims, masks, shared):
    """Three warpgroups have 160 registers for each thread, two have 232; logarithms and shared
    heads add what takes most beside sums, scores and exponentials.
    """
    d, dv = dims
    specs = [cute.TensorSpec((2, 16, 16384, d), cute.bf16)]
    specs += [cute.TensorSpec((2, 16 // shared, 16384, x), cute.bf16) for x in (d, dv)]
    kernel = cute.compile(cute.attention, *specs, return_lse=True, arch="sm_90a", **masks)
    tile = "(128,128)" if max(dims) > 112 else "(192,64)" if max(dims) > 96 else "(192,80)"
    assert f"tile = {tile}" in kernel.schedule
    assert kernel.resources.spills == 0


VARIANTS = [
    (64, 64, {"causal": True, "window": (100, -1), "softcap": 20.0}),
    (128, 128, {}),
    (128, 128, {"causal": True, "window": (100, -1), "softcap": 20.0}),
    (192, 128, {"causal": True}),
    (256, 256, {"causal": True, "window": (100, -1), "softcap": 20.0}),
]


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("d", "dv", "masks"), VARIANTS)
def test_default_schedules_assemble_without_spills(d, dv, masks, arch):
    specs = [cute.TensorSpec((4, 8, None, x), cute.bf16) for x in (d, d, dv)]
    kernel = cute.compile(cute.attention, *specs, return_lse=True, arch=arch, **masks)
    assert kernel.resources.spills == 0


@pytest.mark.parametrize(
    ("masks", "is_packed"), [({"causal": True}, False), ({"window": (1024, 0)}, True)]
)
def test_shared_heads_of_256_assemble_without_spills(masks, is_packed):
    offsets = cute.TensorSpec((9,), cute.i32)
    lead = 1 if is_packed else 2
    specs = [cute.TensorSpec((lead, heads, 4096, 256), cute.bf16) for heads in (8, 2, 2)]
    packing = {"cu_seqlens": (offsets, offsets)} if is_packed else {}
    options = {**masks, **packing, "return_lse": True, "arch": "sm_90a"}
    assert cute.compile(cute.attention, *specs, **options).resources.spills == 0


@pytest.mark.some(1)
@pytest.mark.parametrize("d", [64, 128])
def test_rows_of_an_odd_length_assemble_without_spills(d):
    spec = cute.TensorSpec((1, 4, 130, d), cute.bf16, (None, None, None, 1), 2)
    kernel = cute.compile(cute.attention, spec, spec, spec, arch="sm_90a", causal=True)
    assert "cp.async.bulk.tensor.4d.shared" not in kernel.ptx
    assert kernel.resources.spills == 0


@pytest.mark.some(1)
@pytest.mark.parametrize("d", [64, 256])
def test_slices_come_by_tma_and_assemble_without_spills(d):
    offsets = cute.TensorSpec((17,), cute.i32)
    packed = cute.TensorSpec((1, 16, None, d), cute.bf16)
    padded = cute.TensorSpec((8, 16, None, d), cute.bf16)
    for spec, lengths in (
        (packed, {"cu_seqlens": (offsets, offsets), "causal": True}),
        (padded, {"lengths": cute.TensorSpec((8,), cute.i32)}),
    ):
        kernel = cute.compile(cute.attention, *[spec] * 3, arch="sm_90a", **lengths)
        assert "cp.async.bulk.tensor.5d.shared" in kernel.ptx
        assert "cp.async.c" not in kernel.ptx
        assert "scheduler = dynamic" in str(kernel.schedule)
        assert kernel.resources.spills == 0


def test_the_longest_tiles_of_some_heads_go_first():
    def chosen(keys, align=16, **options):
        spec = cute.TensorSpec((1, 16, keys, 128), cute.bf16, align=align)
        kernel = cute.compile(cute.attention, *[spec] * 3, arch="sm_90a", **options)
        return cute.Schedule.parse(kernel.schedule)

    orders = [chosen(keys, causal=True).raster for keys in (1024, 4096, 16384, 65536, None)]
    assert orders == [32, 32, 8, 2, 32]
    assert chosen(16384, window=(1024, 0)).raster == 8
    claiming = chosen(None, causal=True)
    assert (claiming.scheduler, claiming.order) == ("dynamic", "sections")
    assert chosen(None, window=(5, -1)).scheduler == "dynamic"
    assert chosen(None).scheduler == "persistent"
    for given in (
        "cluster = (2,1)",
        "roles = alternate, tile = (64,128)",
        "scheduler = persistent",
    ):
        assert chosen(None, causal=True, schedule=given).scheduler == "persistent"
    assert chosen(None, align=8, causal=True).scheduler == "persistent"


@pytest.mark.parametrize("d", [96, 256])
def test_a_target_with_little_shared_memory_gets_smaller_tiles(d):
    q, k, v = operands(1, 1, 1, 40, 70, d)
    check(*run(q, k, v, causal=True, arch="sm_89"), q, k, v, causal=True)


def drawn(seed):
    """A problem whose rows see few keys, so that CTAs share a processor."""
    rng = random.Random(seed)
    kv, group, d = rng.randint(1, 3), rng.choice([1, 1, 2, 3]), rng.choice([32, 64, 64, 64])
    rows = rng.randint(65, 200)
    masks = rng.choice(
        [
            {},
            {"causal": True},
            {"window": (rng.randint(0, rows), 0)},
            {"window": (rng.randint(0, rows), rng.randint(0, rows))},
            {"window": (-1, rng.randint(0, rows))},
        ]
    )
    keys = rows + rng.choice([0, 0, rng.randint(1, 60)])
    return kv, group, d, rows, keys, rng.choice([BF16, np.float16]), masks


@pytest.mark.some(2)
@pytest.mark.parametrize("seed", range(12))
def test_ctas_that_share_a_processor_begin_early(seed):
    """Wider heads, and few rows, which take many heads to be given such schedules."""
    rng = random.Random(f"shared {seed}")
    kv, group, _, rows, keys, dtype, masks = drawn(seed)
    d, ctas = rng.choice([(32, 3), (64, 2), (80, 2), (80, 3), (96, 3), (128, 2), (192, 2)])
    block = rng.choice([32, 64]) if d < 192 else 32
    q = normal(1, kv * group, rows, d, dtype=dtype, seed=1, size=2)
    k, v = (normal(1, kv, keys, d, dtype=dtype, seed=n, size=2) for n in (2, 3))
    schedule = (
        f"tile = (64,{block}), ctas = {ctas}, registers = (24,{232 if ctas == 2 else 136}), "
        f"overlap = yes, split_loads = no, scheduler = {rng.choice(['persistent', 'dynamic'])}, "
        "early_launch = yes"
    )
    out, lse = run(q, k, v, arch="sm_90a", schedule=schedule, **masks)
    check(out, lse, q, k, v, **masks)


@pytest.mark.some(1)
@pytest.mark.parametrize("seed", range(12))
def test_problems_of_few_keys(seed):
    kv, group, d, rows, keys, dtype, masks = drawn(seed)
    q = normal(1, kv * group, rows, d, dtype=dtype, seed=1, size=2)
    k, v = (normal(1, kv, keys, d, dtype=dtype, seed=n, size=2) for n in (2, 3))
    out, lse = run(q, k, v, arch="sm_90a", **masks)
    check(out, lse, q, k, v, **masks)
    options = masks | {"arch": "sm_90a", "backend": "emulator", "return_lse": True}
    assert "ctas = " in cute.compile(cute.attention, q, k, v, **options).schedule


@pytest.mark.parametrize("d", [64, 128, 256])
@pytest.mark.parametrize(
    ("batch", "heads", "rows", "keys"),
    [(0, 2, 64, 64), (1, 0, 5, 5), (2, 2, 0, 64), (1, 2, 64, 0), (0, 0, 0, 0)],
)
def test_extents_of_zero(batch, heads, rows, keys, d):
    """Rows without a key are zeros; where there are no rows, nothing is launched."""
    q, k = normal(batch, heads, rows, d), normal(batch, heads, keys, d)
    out, lse = run(q, k, k, arch="sm_90a")
    assert out.shape == q.shape
    assert not out.any()
    assert np.isneginf(lse).all()
