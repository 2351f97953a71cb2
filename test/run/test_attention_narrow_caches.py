"""`cute.attention` over a cache of 8 bits beside queries of 16: integers and e4m3, with scales for
each head, key or page, in decoding and prefill. The error is at most twice that of values rounded
to the type of q, with the rounding of exponentials and results.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

E4M3, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16
LARGEST = {np.int8: 127.0, E4M3: 448.0}
TARGETS = ("sm_80", "sm_90a", "sm_100a")


def cached(rng, shape, dtype, modes=3):
    """Numbers in 8 bits and their scales for the first so many modes, of very different sizes."""
    numbers = rng.standard_normal(shape) * np.exp2(
        rng.integers(-3, 4, (*shape[:modes], *[1] * (4 - modes)))
    )
    axes = tuple(range(modes, 4))
    scales = np.maximum(np.abs(numbers).max(axes, initial=0), 1e-3) / LARGEST[dtype]
    scaled = numbers / scales.reshape(*scales.shape, *[1] * (4 - modes))
    return (np.round(scaled) if dtype == np.int8 else scaled).astype(dtype), scales.astype(
        np.float32
    )


def reference(q, k, v, scale_k, scale_v, causal, rounds):
    """In float64, each scale a factor of a row; with `rounds` values, exponentials and results have
    the type of q.
    """

    def rounded(x):
        return x.astype(q.dtype).astype(np.float64) if rounds else x

    group = q.shape[1] // k.shape[1]
    keys = np.repeat(k.astype(np.float64) * scale_k[..., None], group, 1)
    values = np.repeat(rounded(v.astype(np.float64) * scale_v[..., None]), group, 1)
    s = q.astype(np.float64) @ keys.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        rows, count = s.shape[-2:]
        s = np.where(np.arange(count) <= np.arange(rows)[:, None] + count - rows, s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return rounded(rounded(p) @ values / p.sum(-1, keepdims=True))


def check(out, q, *given, causal=False):
    exact = reference(q, *given, causal, rounds=False)
    same = reference(q, *given, causal, rounds=True)
    error, allowed = (np.abs(x.astype(np.float64) - exact) for x in (out, same))
    assert error.max() <= 2 * allowed.max() + 1e-6
    assert error.mean() <= 2 * allowed.mean() + 1e-6


def of_keys(scales, keys):
    """Scales of heads or batch entries as those of each key."""
    return np.broadcast_to(scales.reshape(*scales.shape, *[1] * (3 - scales.ndim)), keys.shape[:3])


def queries(rng, *shape, dtype=np.float16):
    return rng.standard_normal(shape).astype(dtype)


CASES = {
    "decoding": ((2, 4, 2, 1, 200, 64), np.int8, np.float16, False),
    "several rows of heads": ((1, 4, 1, 5, 131, 128), E4M3, BF16, True),
    "prefill": ((1, 2, 1, 150, 300, 64), np.int8, BF16, True),
    "no whole block": ((1, 1, 1, 70, 7, 128), np.int8, np.float16, False),
    "prefill of wide heads": ((1, 1, 1, 64, 257, 256), E4M3, np.float16, False),
}


@pytest.mark.some(2)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_scales_of_keys(name, arch):
    (b, h, hk, rows, keys, d), dtype, of_q, causal = CASES[name]
    rng = np.random.default_rng(keys)
    q = queries(rng, b, h, rows, d, dtype=of_q)
    (k, of_k), (v, of_v) = (cached(rng, (b, hk, keys, d), dtype) for _ in range(2))
    out = cute.attention(
        q, k, v, scale_k=of_k, scale_v=of_v, causal=causal, arch=arch, backend="emulator"
    )
    check(out, q, k, v, of_k, of_v, causal=causal)


@pytest.mark.some(3)
@pytest.mark.parametrize("blocks", [0, 1, 3, 4, 5, 9])
def test_blocks_around_the_stages_of_a_ring(blocks):
    rng = np.random.default_rng(blocks)
    keys, schedule = 64 * blocks + 1, "tile = (64,64), stages = 4"
    q = queries(rng, 1, 1, 64, 64)
    (k, of_k), (v, of_v) = (cached(rng, (1, 1, keys, 64), np.int8) for _ in range(2))
    out = cute.attention(
        q, k, v, scale_k=of_k, scale_v=of_v, arch="sm_90a", schedule=schedule, backend="emulator"
    )
    check(out, q, k, v, of_k, of_v)


@pytest.mark.some(2)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("modes", [1, 2], ids=["of a batch entry", "of a head"])
def test_one_scale_for_many_keys(modes, arch):
    rng = np.random.default_rng(modes)
    q = queries(rng, 2, 4, 3, 64)
    (k, of_k), (v, of_v) = (cached(rng, (2, 2, 90, 64), np.int8, modes=2) for _ in range(2))
    if modes == 1:
        scales = {"scale_k": of_k[..., None], "scale_v": of_v[..., None]}
    else:
        scales = {"scale_k": of_k, "scale_v": of_v}
    out = cute.attention(q, k, v, **scales, arch=arch, backend="emulator")
    check(out, q, k, v, of_keys(of_k, k), of_keys(of_v, v))


def in_pages(array, table, size):
    """(B, Hk, Sk...) as pages (pages, Hk, size...) in the order of a table."""
    entries, count = table.shape
    cut = array.reshape(entries, array.shape[1], count, size, *array.shape[3:]).swapaxes(1, 2)
    stored = np.empty((table.size, *cut.shape[2:]), array.dtype)
    stored[table] = cut
    return stored


@pytest.mark.some(2)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("is_page", [False, True], ids=["of each key", "of a page"])
@pytest.mark.parametrize(("dtype", "rows"), [(np.int8, 1), (E4M3, 40)])
def test_pages(dtype, rows, is_page, arch):
    rng, size = np.random.default_rng(rows), 16
    q = queries(rng, 2, 2, rows, 64)
    table = rng.permutation(2 * 8).reshape(2, 8).astype(np.int32)
    parts = [
        [cached(rng, (1, 1, size, 64), dtype, modes=2 if is_page else 3) for _ in range(32)]
        for _ in range(2)
    ]
    (k, of_k), (v, of_v) = (
        (
            np.concatenate([x for x, _ in part], 2).reshape(2, 2, 128, 64),
            np.concatenate([of_keys(s, x) for x, s in part], 2).reshape(2, 2, 128),
        )
        for part in parts
    )
    stored = [in_pages(scale, table, size)[..., : 1 if is_page else size] for scale in (of_k, of_v)]
    lengths = np.array([128, 75], np.int32)
    out = cute.attention(
        q, in_pages(k, table, size), in_pages(v, table, size), block_table=table, lengths=lengths,
        scale_k=stored[0], scale_v=stored[1], causal=True, arch=arch, backend="emulator",
    )  # fmt: skip
    for entry, length in enumerate(lengths):
        at = slice(entry, entry + 1)
        kept = (x[at, :, :length] for x in (k, v, of_k, of_v))
        check(out[at], q[at], *kept, causal=True)


def test_packed_sequences():
    rng, ends = np.random.default_rng(0), np.array([0, 37, 37, 120], np.int32)
    q = queries(rng, 1, 2, 120, 64)
    (k, of_k), (v, of_v) = (cached(rng, (1, 1, 120, 64), np.int8) for _ in range(2))
    out = cute.attention(
        q, k, v, scale_k=of_k, scale_v=of_v, cu_seqlens=(ends, ends), causal=True, arch="sm_90a",
        backend="emulator",
    )  # fmt: skip
    for first, end in ((0, 37), (37, 120)):
        at = slice(first, end)
        check(out[:, :, at], q[:, :, at], k[:, :, at], v[:, :, at], of_k[:, :, at], of_v[:, :, at],
              causal=True)  # fmt: skip


@pytest.mark.parametrize("arch", ["sm_90a", pytest.param("sm_80", marks=pytest.mark.long)])
def test_scales_of_hidden_keys_do_not_leak(arch):
    """NaN in the scale of a key that a row does not see, be it padding or behind a causal mask."""
    rng = np.random.default_rng(3)
    q = queries(rng, 1, 1, 40, 64)
    (k, of_k), (v, of_v) = (cached(rng, (1, 1, 90, 64), np.int8) for _ in range(2))
    of_k[..., 69:], of_v[..., 69:] = np.nan, np.nan
    out = cute.attention(
        q, k, v, scale_k=of_k, scale_v=of_v, lengths=np.array([70]), causal=True, arch=arch,
        backend="emulator",
    )  # fmt: skip
    assert np.isnan(out[0, 0, 39]).all()
    kept = (x[:, :, :69] for x in (k, v, of_k, of_v))
    check(out[:, :, :39], q[:, :, :39], *kept, causal=True)


def test_raw_bytes_go_through_a_ring():
    """Bytes come by TMA as they are, and become wider behind the ring."""
    spec = cute.TensorSpec
    q, k = spec((1, 8, 512, 128), "f16"), spec((1, 8, 1024, 128), "i8")
    scales = spec((1, 8, 1024), "f32")
    kernel = cute.compile(cute.attention, q, k, k, scale_k=scales, scale_v=scales, arch="sm_90a")
    copies = [line for line in kernel.ptx.splitlines() if "cp.async.bulk.tensor" in line]
    assert len([line for line in copies if "shared::cluster.global" in line]) >= 3
    assert "wgmma.mma_async" in kernel.ptx


Q, KEYS = np.zeros((2, 2, 4, 16), np.float16), np.zeros((2, 2, 5, 16), np.int8)
REFUSED = {
    "q: expected f16, bf16, e4m3 or e5m2, got i8": {"q": Q.astype(np.int8)},
    "k: expected e4m3 as in q, got i8": {"q": Q.astype(E4M3)},
    "scale_v: expected a number, (2,) or (2, 2) for each head, (2, 2, 5) or (2, 2, 1) for keys, "
    "got shape (2, 2, 4)": {"scale_v": np.ones((2, 2, 4), np.float32)},
    "scale_k: expected a number, (2,) or (2, 2) for each head, got shape (2, 2, 5)": {
        "q": Q.astype(E4M3), "k": KEYS.astype(E4M3), "v": KEYS.astype(E4M3),
        "scale_k": np.ones((2, 2, 5), np.float32),
    },
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message):
    given = {"q": Q, "k": KEYS, "v": KEYS, "backend": "emulator", "arch": "sm_90a"}
    with pytest.raises((TypeError, ValueError)) as caught:
        cute.attention(**(given | REFUSED[message]))
    assert str(caught.value).split(" (CD-")[0] == message
