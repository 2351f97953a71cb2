"""Attention of few rows on the emulator against float64: the rows of heads that share keys in one
tile.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.frontend.attention_splits import choose_parts

BF16 = ml_dtypes.bfloat16
ARCHS = ["sm_80", "sm_90a"]


def normal(*shape, dtype=np.float16, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def operands(b, h, hk, sq, sk, d, dtype=np.float16):
    shapes = (b, h, sq, d), (b, hk, sk, d), (b, hk, sk, d)
    return tuple(normal(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes))


def reference(q, k, v, precision, causal=False, window=(-1, -1)):
    """(output, lse) computed in `precision`, what is multiplied and stored in the type of q."""
    store = (lambda x: x) if precision is np.float64 else lambda x: x.astype(q.dtype)
    group, rows, keys = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    q_, k_, v_ = (x.astype(precision) for x in (q, np.repeat(k, group, 1), np.repeat(v, group, 1)))
    behind = np.arange(keys)[None] - np.arange(rows)[:, None] - (keys - rows)
    left, right = window[0], 0 if causal else window[1]
    seen = ((right < 0) | (behind <= right)) & ((left < 0) | (behind >= -left))
    s = np.where(seen, q_ @ k_.swapaxes(-1, -2) / precision(math.sqrt(q.shape[-1])), -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isinf(top), precision(0), top)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    out = store(p).astype(precision) @ v_ / np.where(total == 0, precision(1), total)
    with np.errstate(divide="ignore"):
        return store(np.where(total == 0, precision(0), out)), (top + np.log(total))[..., 0]


def check(out, lse, q, k, v, **masks):
    """FlashAttention's rule, and the logarithms."""
    exact, exact_lse = reference(q, k, v, np.float64, **masks)
    same, _ = reference(q, k, v, np.float32, **masks)
    error, allowed = (np.abs(x.astype(np.float64) - exact) for x in (out, same))
    assert error.max(initial=0) <= 2 * allowed.max(initial=0) + 1e-7
    assert error.mean() <= 2 * allowed.mean() + 1e-7
    empty = np.isneginf(exact_lse)
    np.testing.assert_array_equal(np.isneginf(lse), empty)
    assert not out[empty].any()
    np.testing.assert_allclose(lse[~empty], exact_lse[~empty], rtol=2e-6, atol=4e-6)


def run(q, k, v, **options):
    return cute.attention(q, k, v, return_lse=True, backend="emulator", **options)


FEW = [
    (2, 1, {"causal": True}, np.float16),
    (8, 2, {"causal": True}, BF16),
    (4, 3, {"causal": True, "window": (20, -1)}, np.float16),
    (1, 4, {"window": (50, 1)}, np.float16),
    (8, 8, {}, BF16),
    (4, 1, {"window": (9, 0)}, BF16),
]


@pytest.mark.some(2)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("group", "rows", "masks", "dtype"), FEW)
def test_rows_of_heads_that_share_keys_are_one_tile(group, rows, masks, dtype, arch):
    q, k, v = operands(1, 2 * group, 2, rows, 149, 64, dtype)
    check(*run(q, k, v, arch=arch, **masks), q, k, v, **masks)


def test_more_rows_of_heads_than_a_tile_has():
    q, k, v = operands(1, 18, 1, 8, 100, 32)
    check(*run(q, k, v, causal=True, arch="sm_90a"), q, k, v, causal=True)


def rows_apart(q):
    """The same values, heads next to each other in memory as (B, Sq, H, D) has them."""
    return np.ascontiguousarray(q.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("arch", "parts", "d", "rows"),
    [("sm_80", 2, 40, 3), ("sm_90a", 1, 64, 8), ("sm_90a", 3, 40, 9)],
)
def test_rows_that_do_not_follow_each_other_are_gathered(arch, parts, d, rows):
    q, k, v = operands(2, 8, 2, rows, 170, d)
    options = {"causal": True, "arch": arch, "schedule": f"split_k = {parts}"}
    check(*run(rows_apart(q), k, v, **options), q, k, v, causal=True)
    kernel = cute.compile(cute.attention, rows_apart(q), k, v, **options)
    assert ".entry gather(" in kernel.ptx
    assert (".entry combine(" in kernel.ptx) == (parts > 1)


def test_rows_of_a_result_that_do_not_follow_each_other_are_tiles_of_their_own():
    q, k, v = operands(1, 4, 2, 3, 70, 64)
    out = rows_apart(q)
    assert out.strides != q.strides
    check(*run(q, k, v, causal=True, out=out), q, k, v, causal=True)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("shape", "strides", "folds"),
    [
        ((2, 8, 4, 64), None, True),
        ((2, 8, 4, 64), (2048, 64, 512, 1), True),
        ((2, 8, 1, 64), (2048, 64, 512, 1), True),
        ((2, 8, 16, 64), None, True),
        ((2, 8, 17, 64), None, False),
    ],
)
def test_which_rows_are_folded(shape, strides, folds):
    q = cute.TensorSpec(shape, cute.f16, strides)
    k = cute.TensorSpec((2, 2, None, 64), cute.f16)
    kernel = cute.compile(cute.attention, q, k, k, arch="sm_90a", causal=True)
    attention = kernel.stages["cute-tile"].partition("@attention(")[2].partition("\n")[0]
    assert ("?,?,?,?,?" in attention) != folds
    assert kernel.resources.spills == 0


SPLITS = [
    (2, 4, {}, "sm_80"),
    (3, 8, {"causal": True}, "sm_90a"),
    (7, 2, {"causal": True, "window": (200, -1)}, "sm_80"),
    (7, 1, {}, "sm_90a"),
]


@pytest.mark.some(1)
@pytest.mark.parametrize(("parts", "rows", "masks", "arch"), SPLITS)
def test_split_keys(parts, rows, masks, arch):
    q, k, v = operands(1, 4, 1, rows, 429, 32)
    found = run(q, k, v, arch=arch, schedule=f"split_k = {parts}", **masks)
    check(*found, q, k, v, **masks)


@pytest.mark.parametrize("arch", ARCHS)
def test_split_keys_of_different_lengths(arch):
    q, k, v = operands(4, 4, 1, 1, 230, 64, BF16)
    lengths = np.array([230, 0, 65, 3], np.int32)
    for entry, length in enumerate(lengths):
        k[entry, :, length:], v[entry, :, length:] = np.nan, np.inf
    out, lse = run(q, k, v, lengths=lengths, arch=arch, schedule="split_k = 3")
    for entry, length in enumerate(lengths):
        at = slice(entry, entry + 1)
        check(out[at], lse[at], q[at], k[at, :, :length], v[at, :, :length])


def test_more_parts_than_blocks_and_parts_without_keys():
    q, k, v = operands(1, 6, 2, 70, 100, 32)
    masks = {"causal": True, "window": (10, -1)}
    schedule = "tile = (32,32), split_k = 9"
    out = np.empty((1, 70, 6, 32), np.float32).transpose(0, 2, 1, 3)
    found, lse = run(rows_apart(q), k, v, schedule=schedule, arch="sm_80", out=out, **masks)
    assert found is out
    check(found, lse, q, k, v, **masks)
    none = cute.attention(q, k[:, :, :0], v[:, :, :0], schedule=schedule, backend="emulator")
    assert not none.any()


def test_what_no_row_sees_does_not_leak_from_a_part():
    q, k, v = operands(1, 2, 1, 4, 200, 64)
    v[0, 0, 197:, 5] = np.nan
    found, _ = run(q, k, v, causal=True, arch="sm_90a", schedule="split_k = 2")
    clean = np.nan_to_num(v)
    exact, _ = reference(q, k, clean, np.float64, causal=True)
    assert np.abs(found[:, :, 0] - exact[:, :, 0]).max() < 2e-3
    assert np.isnan(found[:, :, 1:, 5]).all()
    assert np.isfinite(np.delete(found, 5, 3)).all()


def test_few_tiles_and_many_keys_are_split_by_default():
    q, k, v = operands(1, 2, 1, 1, 1100, 32)
    kernel = cute.compile(cute.attention, q, k, v, arch="sm_90a")
    assert kernel.name == "split_attention"
    assert "split_k" not in kernel.schedule
    check(*run(q, k, v, arch="sm_90a"), q, k, v)
    assert (
        cute.compile(cute.attention, q, k[:, :, :800], k[:, :, :800], arch="sm_90a").name
        == "attention"
    )
    whole = cute.compile(cute.attention, q, k, v, arch="sm_90a", schedule="split_k = 1")
    assert whole.name == "attention"


@pytest.mark.parametrize(
    ("tiles", "blocks", "parts"),
    [(128, 512, 1), (8, 512, 15), (8, 16, 4), (64, 512, 2), (80, 512, 3), (1, 9, 2), (0, 9, 1)],
)
def test_number_of_parts(tiles, blocks, parts):
    assert choose_parts(tiles, blocks, 132) == parts


@pytest.mark.some(2)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("d", "masks"), [(64, {}), (128, {"causal": True}), (256, {})])
def test_split_kernels_assemble_without_spills(d, masks, arch):
    q, k = cute.TensorSpec((2, 8, 4, d), cute.bf16), cute.TensorSpec((2, 2, None, d), cute.bf16)
    options = {"return_lse": True, "schedule": "split_k = 4", "arch": arch}
    kernel = cute.compile(cute.attention, q, k, k, **options, **masks)
    assert kernel.resources.spills == 0


def in_pages(arrays, size, lengths, columns, seed=5):
    """(table, pages of each array): rows of (B, Hk, Sk, D) up to the lengths, in pages in any
    order; all else is NaN, or a page that does not exist.
    """
    rng = np.random.default_rng(seed)
    counts = [-(-length // size) for length in lengths]
    places = rng.permutation(sum(counts) + 3)
    table = np.full((len(lengths), columns), 1 << 20, np.int32)
    result = [np.full((len(places), x.shape[1], size, x.shape[3]), np.nan, x.dtype) for x in arrays]
    at = 0
    for entry, length in enumerate(lengths):
        for page in range(counts[entry]):
            table[entry, page] = places[at]
            rows = slice(page * size, min((page + 1) * size, length))
            for x, to in zip(arrays, result, strict=True):
                to[places[at], :, : rows.stop - rows.start] = x[entry, :, rows]
            at += 1
    return table, result


PAGED = [
    (16, 1, 4, {}, "sm_90a", 1, 64),
    (16, 4, 8, {"causal": True}, "sm_80", 2, 64),
    (64, 2, 1, {"causal": True, "window": (60, -1)}, "sm_90a", 3, 64),
    (64, 8, 4, {"causal": True}, "sm_80", 1, 32),
    (256, 1, 8, {}, "sm_90a", 2, 64),
    (32, 70, 2, {"causal": True}, "sm_90a", 1, 192),
    (8, 70, 1, {"causal": True}, "sm_80", 1, 128),
]


@pytest.mark.some(2)
@pytest.mark.parametrize(("size", "rows", "group", "masks", "arch", "parts", "d"), PAGED)
def test_pages(size, rows, group, masks, arch, parts, d):
    lengths = np.array([150, 0, 128, 33], np.int32)
    q, k, v = operands(4, group, 1, rows, 150, d)
    table, pages = in_pages((k, v), size, lengths, -(-150 // size) + 1)
    out, lse = run(
        q,
        *pages,
        block_table=table,
        lengths=lengths,
        arch=arch,
        schedule=f"split_k = {parts}",
        **masks,
    )
    for entry, length in enumerate(lengths):
        at = slice(entry, entry + 1)
        check(out[at], lse[at], q[at], k[at, :, :length], v[at, :, :length], **masks)


def test_pages_of_8_bits():
    lengths = np.array([70, 0, 150], np.int32)
    q, k, v = (x.astype(ml_dtypes.float8_e4m3fn) for x in operands(3, 4, 2, 2, 150, 64))
    table, pages = in_pages((k, v), 16, lengths, 10)
    scale = np.array([0.5, 2.0], np.float32)
    options = {"lengths": lengths, "causal": True, "scale_v": scale, "arch": "sm_90a"}
    # Sums of equal blocks of keys are equal.
    options["schedule"] = "tile = (64,128)"
    same, logs = run(q, k, v, **options)
    found, lse = run(q, *pages, block_table=table, **options)
    assert (found == same).all()
    assert (lse == logs).all()


@pytest.mark.parametrize("arch", ARCHS)
def test_no_pages(arch):
    q, k = normal(2, 4, 1, 64), np.full((0, 2, 16, 64), np.nan, np.float16)
    table, lengths = np.full((2, 3), 7, np.int32), np.zeros(2, np.int32)
    out, lse = run(q, k, k, block_table=table, lengths=lengths, arch=arch)
    assert not out.any()
    assert np.isneginf(lse).all()


def test_a_cluster_shares_pages():
    q, k, v = operands(1, 2, 1, 128, 150, 64)
    table, pages = in_pages((k, v), 16, [150], 10)
    options = {"block_table": table, "lengths": np.array([150]), "arch": "sm_90a"}
    options["schedule"] = "tile = (64,64), cluster = (2,1)"
    check(*run(q, *pages, **options), q, k, v)
    assert "multicast" in cute.compile(cute.attention, q, *pages, **options).ptx


@pytest.mark.parametrize("arch", ARCHS)
def test_full_pages_and_views_of_a_cache(arch):
    q, k, v = operands(2, 2, 2, 3, 96, 64, BF16)
    table, pages = in_pages((k, v), 32, [96, 96], 3)
    cache = np.ascontiguousarray(np.stack([x.transpose(0, 2, 1, 3) for x in pages], 1))
    views = (cache[:, i].transpose(0, 2, 1, 3) for i in range(2))
    check(*run(q, *views, block_table=table.astype(np.int64), causal=True, arch=arch), q, k, v,
          causal=True)  # fmt: skip


@pytest.mark.some(1)
@pytest.mark.parametrize("d", [64, 128, 192, 256])
def test_many_rows_of_pages_assemble_without_spills(d):
    q, k = cute.TensorSpec((4, 8, None, d), cute.bf16), cute.TensorSpec((None, 2, 16, d), cute.bf16)
    table, lengths = cute.TensorSpec((4, None), cute.i32), cute.TensorSpec((4,), cute.i32)
    options = {"block_table": table, "lengths": lengths, "causal": True, "return_lse": True}
    kernel = cute.compile(cute.attention, q, k, k, arch="sm_90a", **options)
    assert kernel.resources.spills == 0


@pytest.mark.some(2)
@pytest.mark.parametrize(("size", "d"), [(16, 128), (64, 128), (16, 64)])
@pytest.mark.parametrize("arch", ARCHS)
def test_paged_kernels_assemble_without_spills(size, d, arch):
    q, k = cute.TensorSpec((16, 32, 1, d), cute.bf16), cute.TensorSpec((99, 8, size, d), cute.bf16)
    table, lengths = cute.TensorSpec((16, 512), cute.i32), cute.TensorSpec((16,), cute.i32)
    options = {"block_table": table, "lengths": lengths, "arch": arch, "return_lse": True}
    kernel = cute.compile(cute.attention, q, k, k, **options)
    assert kernel.resources.spills == 0
    boxes = 128 // size * (2 if d == 128 else 1)
    if arch == "sm_90a":
        assert kernel.ptx.count("cp.async.bulk.tensor.5d.shared") >= 2 * boxes
        assert "cp.async.cg" not in kernel.ptx
