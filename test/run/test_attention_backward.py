"""`cute.attention_backward` on the emulator against float64: lengths that no tile divides,
heads that share keys, masks, padding, packed sequences, and what is hidden. The error is at most
twice that of the same computation in the same precision.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from benchmarks.attention_gradients import ALLOWED, NAMES, gradients, shares

BF16 = ml_dtypes.bfloat16


def normal(*shape: int, dtype: Any = np.float16, seed: int = 0, size: float = 1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * size).astype(dtype)


def operands(
    b: int,
    h: int,
    hk: int,
    sq: int,
    sk: int,
    d: int,
    dv: int | None = None,
    dtype: Any = np.float16,
    size: float = 1.0,
) -> Any:
    return (
        normal(b, h, sq, dv or d, dtype=dtype, seed=4),
        normal(b, h, sq, d, dtype=dtype, seed=1, size=size),
        normal(b, hk, sk, d, dtype=dtype, seed=2, size=size),
        normal(b, hk, sk, dv or d, dtype=dtype, seed=3),
    )


def check(found, *given, **masks):
    figures = shares(found, *given, **masks)
    assert max(figures.values()) <= ALLOWED, figures


def results(do, q, k, v, **masks):
    """What the forward pass gives, as exact as its types are."""
    out, lse, _ = gradients(do, q, k, v, np.float64, **masks)
    return out.astype(q.dtype), lse.astype(np.float32)


def run(*given: Any, **options: Any) -> Any:
    do, q, k, v, out, lse = given
    return cute.attention_backward(do, q, k, v, out, lse, backend="emulator", **options)


CASES: dict[str, Any] = {
    "full": (operands(1, 2, 2, 113, 211, 64), {}),
    "causal_shared_heads": (operands(2, 4, 2, 113, 211, 64), {"causal": True}),
    "more_rows_than_keys": (operands(1, 1, 1, 211, 113, 64), {"causal": True}),
    "one_head_of_keys_window": (operands(1, 3, 1, 130, 257, 32, 48, BF16), {"window": (70, 5)}),
    "causal_window_128": (operands(1, 1, 1, 150, 200, 128), {"causal": True, "window": (64, -1)}),
    "softcap": (operands(1, 1, 1, 65, 129, 96, dtype=BF16), {"softcap": 2.5, "causal": True}),
    "wide": (operands(1, 1, 1, 70, 100, 256), {"causal": True}),
    "values_narrower": (operands(1, 1, 1, 70, 150, 192, 128, BF16), {"scale": 0.2}),
    "negative_scale": (operands(1, 1, 1, 33, 65, 64), {"scale": -0.3}),
    "large_scores": (operands(1, 1, 1, 64, 130, 64, size=4.0), {}),
    "one_row": (operands(2, 6, 2, 1, 67, 64), {"causal": True}),
    "one_key": (operands(1, 1, 1, 5, 1, 40), {}),
    "unaligned": (operands(1, 1, 1, 40, 70, 33), {"causal": True}),
}


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", CASES)
def test_against_float64(name, arch):
    given, masks = CASES[name]
    check(run(*given, *results(*given, **masks), arch=arch, **masks), *given, **masks)


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", ["causal_shared_heads", "one_head_of_keys_window", "softcap"])
def test_a_pass_over_the_keys_gives_equal_bits(name, arch):
    given, masks = CASES[name]
    made = results(*given, **masks)
    found = [run(*given, *made, arch=arch, deterministic=True, **masks) for _ in range(2)]
    check(found[0], *given, **masks)
    for one, other in zip(*found, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.some(2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("blocks", [0, 1, 2, 3, 5])
def test_trips_around_the_stages(arch, blocks):
    """Small whole numbers, whose sums are exact."""
    rows, keys, d = 64 * blocks, 65, 64
    rng = np.random.default_rng(blocks)
    do, q, k, v = (
        rng.integers(-1, 2, (1, 1, n, d)).astype(np.float16) for n in (rows, rows, keys, keys)
    )
    out, lse = np.zeros_like(do), np.zeros((1, 1, rows), np.float32)
    _, dk, dv = run(do, q, k, v, out, lse, arch=arch, scale=2.0**-20)
    # Weights are 1 then, and their slopes those along them.
    assert np.array_equal(dv[0, 0], np.repeat(do.sum(2)[0], keys, 0))
    slopes = do[0, 0].astype(np.float64) @ v[0, 0].T
    assert np.allclose(dk[0, 0], slopes.T @ q[0, 0] * 2.0**-20, rtol=2e-3, atol=1e-7)


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_padding_gets_no_gradient(arch):
    do, q, k, v = operands(2, 2, 1, 70, 150, 64)
    lengths = np.array([97, 0], np.int32)
    parts = [tuple(x[b : b + 1] for x in (do, q)) for b in range(2)]
    cut = [(*parts[b], *(x[b : b + 1, :, :n] for x in (k, v))) for b, n in enumerate(lengths)]
    made = [results(*each) for each in cut]
    out, lse = (np.concatenate(each) for each in zip(*made, strict=True))
    for x in (k, v):
        x[0, :, 97:], x[1] = np.nan, np.inf
    dq, dk, dv = run(do, q, k, v, out, lse, arch=arch, lengths=lengths, causal=False)
    check((dq[:1], dk[:1, :, :97], dv[:1, :, :97]), *cut[0])
    assert not dq[1].any()
    for x in (dk, dv):
        assert not x[0, :, 97:].any()
        assert not x[1].any()


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_packed_sequences(arch, deterministic):
    rows, keys = [70, 0, 1, 129], [70, 5, 65, 0]
    offsets = [np.cumsum([2, *each], dtype=np.int64) for each in (rows, keys)]
    totals = [each[-1] + 3 for each in offsets]
    do, q, k, v = (
        np.full((1, heads, total, 64), np.nan, np.float16)
        for heads, total in ((2, totals[0]), (2, totals[0]), (1, totals[1]), (1, totals[1]))
    )
    out, lse = np.full_like(q, np.nan), np.full(q.shape[:3], np.nan, np.float32)
    cut = []
    for s, (m, n) in enumerate(zip(rows, keys, strict=True)):
        given = operands(1, 2, 1, m, n, 64)
        own = [slice(each[s], each[s + 1]) for each in offsets]
        made = results(*given, causal=True)
        for x, part in zip((do, q, out, lse), (*given[:2], *made), strict=True):
            x[:, :, own[0]] = part
        for x, part in zip((k, v), given[2:], strict=True):
            x[:, :, own[1]] = part
        cut.append((given, own))
    found = run(
        do, q, k, v, out, lse, arch=arch, cu_seqlens=tuple(offsets), causal=True,
        deterministic=deterministic,
    )  # fmt: skip
    for given, (of_rows, of_keys) in cut:
        mine = [x[:, :, at] for x, at in zip(found, (of_rows, of_keys, of_keys), strict=True)]
        if 0 in given[1].shape or 0 in given[2].shape:
            assert not any(x.any() for x in mine)
        else:
            check(mine, *given, causal=True)


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_what_a_mask_hides_may_be_no_number(arch, deterministic):
    """Keys that the first rows do not see, and rows that do not see the last keys."""
    given = operands(1, 1, 1, 40, 40, 32)
    out, lse = results(*given, causal=True)
    rows, keys = np.arange(40), slice(5, 35)
    broken_rows = [2, 3, 4]
    do, q, k, v = (x.copy() for x in given)
    k[:, :, 35], v[:, :, 36] = np.nan, np.inf
    q[:, :, 2], do[:, :, 3], out[:, :, 4] = np.nan, np.inf, np.nan
    lse[:, :, 35:] = np.nan
    with np.errstate(all="ignore"):
        found = run(do, q, k, v, out, lse, arch=arch, causal=True, deterministic=deterministic)
    dq, dk, dv = found
    # The other rows that see a broken key have a broken gradient, and no key but those up to row 4
    # is seen by a broken row.
    fine = [row for row in rows if row < 35 and row not in broken_rows]
    assert np.isfinite(dq[:, :, fine]).all()
    assert np.isnan(dq[:, :, [*broken_rows, *range(36, 40)]]).any(-1).all()
    exact = gradients(given[0], given[1], given[2], given[3], np.float64, causal=True)[2]
    assert np.abs(dq[:, :, fine] - exact[0][:, :, fine]).max() < 1e-2
    # Rows from 35 on see a broken key: what keys get of them is broken, too.
    assert np.isnan(dk[:, :, keys]).any(-1).all()
    first = slice(0, 30)
    whole = [x[:, :, first] for x in given]
    do, q, k, v, out, lse = (x[:, :, first] for x in (do, q, k, v, out, lse))
    _, dk, dv = run(do, q, k, v, out, lse, arch=arch, causal=True, deterministic=deterministic)
    exact = gradients(whole[0], whole[1], whole[2], whole[3], np.float64, causal=True)[2]
    for mine, wanted in zip((dk, dv), exact[1:], strict=True):
        assert np.abs(mine[:, :, 5:] - wanted[:, :, 5:]).max() < 1e-2
        assert np.isnan(mine[:, :, :3]).any(-1).all()


def test_rows_that_see_no_key_give_zero():
    given = operands(1, 1, 1, 100, 30, 64)
    made = results(*given, causal=True)
    assert np.isneginf(made[1][0, 0, :70]).all()
    dq, dk, dv = run(*given, *made, arch="sm_90a", causal=True)
    check((dq, dk, dv), *given, causal=True)
    assert not dq[:, :, :70].any()


def test_slopes_of_any_strides_or_none():
    _, q, k, v = operands(1, 2, 2, 70, 90, 64)
    ones = np.ones(q.shape, q.dtype)
    made = results(ones, q, k, v)
    views = {
        "stride_0": np.broadcast_to(np.float16(1), q.shape),
        "turned": np.ascontiguousarray(ones.swapaxes(2, 3)).swapaxes(2, 3),
        "f32": ones.astype(np.float32),
    }
    for do in views.values():
        check(run(do, q, k, v, *made, arch="sm_90a"), ones, q, k, v)
    assert not any(x.any() for x in run(None, q, k, v, *made, arch="sm_90a"))
    dlse = normal(1, 2, 70, dtype=np.float32, seed=9)
    found = run(None, q, k, v, *made, arch="sm_80", dlse=dlse)
    check(found, np.zeros_like(ones), q, k, v, dlse=dlse[..., None])


def test_some_gradients_alone_and_arrays_of_the_caller():
    given = operands(1, 2, 1, 70, 90, 64)
    made = results(*given)
    whole = run(*given, *made, arch="sm_80")
    for wanted in ("q", "kv", "qv"):
        found = run(*given, *made, arch="sm_80", wanted=wanted)
        for name, mine, all_ in zip("qkv", found, whole, strict=True):
            assert (mine is None) == (name not in wanted)
            assert mine is None or np.allclose(mine, all_, atol=2e-3)
    outs = {f"d{name}": np.zeros(x.shape, np.float32) for name, x in zip("qkv", whole, strict=True)}
    found = run(*given, *made, arch="sm_80", **outs)
    for name, mine, all_ in zip(NAMES, found, whole, strict=True):
        assert mine is outs[name]
        assert np.allclose(mine, all_, atol=2e-3)


def test_scales_of_heads():
    do, q, k, v = operands(2, 4, 2, 40, 70, 64)
    of_q, of_k, of_v = (
        np.random.default_rng(at).uniform(0.5, 2, shape).astype(np.float32)
        for at, shape in enumerate(((4,), (2, 2), (2,)))
    )
    scaled = (
        q.astype(np.float64) * of_q[:, None, None],
        k.astype(np.float64) * of_k[..., None, None],
        v.astype(np.float64) * of_v[:, None, None],
    )
    out, lse, exact = gradients(do, *scaled, np.float64)
    exact = [
        x * by
        for x, by in zip(
            exact, (of_q[:, None, None], of_k[..., None, None], of_v[:, None, None]), strict=True
        )
    ]
    found = run(
        do, q, k, v, out.astype(np.float16), lse.astype(np.float32), arch="sm_80", scale_q=of_q,
        scale_k=of_k, scale_v=of_v,
    )  # fmt: skip
    for mine, wanted in zip(found, exact, strict=True):
        assert np.abs(mine - wanted).max() <= 2e-3 * np.abs(wanted).max()


def test_empty_batches_rows_and_keys():
    for shape in ((0, 2, 2, 30, 40, 64), (1, 2, 2, 0, 40, 64), (1, 2, 2, 30, 0, 64)):
        given = operands(*shape)
        found = run(*given, *results(*given), arch="sm_90a")
        for mine, x in zip(found, given[1:], strict=True):
            assert mine.shape == x.shape
            assert not mine.any()


WRONG = {
    "lse": ({"lse": np.zeros((1, 2, 71), np.float32)}, r"lse: expected shape \(1, 2, 70\)"),
    "lse_type": ({"lse": np.zeros((1, 2, 70), np.float64)}, "lse: expected f32, got f64"),
    "do": ({"do": np.zeros((1, 2, 70, 63), np.float16)}, r"do: expected shape \(1, 2, 70, 64\)"),
    "out": ({"out": np.zeros((1, 2, 64), np.float16)}, "out: expected shape"),
    "wanted": ({"wanted": "qx"}, "wanted: expected some of the letters 'qkv', got 'qx'"),
    "dk": ({"dk": np.zeros((1, 2, 90, 65), np.float16)}, "dk: expected shape"),
    "unwanted": (
        {"wanted": "q", "dk": np.zeros((1, 2, 90, 64), np.float16)},
        "dk: expected None without 'k' in wanted",
    ),
    "pages": ({"block_table": np.zeros((1, 2), np.int32)}, "block_table: expected None, got"),
    "columns": ({"v": 32}, "v: expected an array, got a number of columns"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_named(name):
    do, q, k, v = operands(1, 2, 2, 70, 90, 64)
    out, lse = results(do, q, k, v)
    given = {"do": do, "q": q, "k": k, "v": v, "out": out, "lse": lse}
    change, message = WRONG[name]
    with pytest.raises((TypeError, ValueError), match=message):
        cute.attention_backward(**(given | change), arch="sm_80", backend="emulator")


def test_eight_bits_and_outputs_that_overlap_are_refused():
    do, q, k, v = operands(1, 1, 1, 20, 20, 64)
    out, lse = results(do, q, k, v)
    small = [x.astype(ml_dtypes.float8_e4m3fn) for x in (q, k, v)]
    with pytest.raises(TypeError, match="q: expected f16 or bf16, got e4m3"):
        run(do, *small, out, lse, arch="sm_90a")
    before = k.copy()
    with pytest.raises(ValueError, match="dq: expected memory of its own"):
        run(do, q, k, v, out, lse, arch="sm_80", dq=k)
    assert np.array_equal(k, before)
    both = np.zeros_like(k)
    with pytest.raises(ValueError, match=r"d[kv]: expected memory of its own"):
        run(do, q, k, v, out, lse, arch="sm_80", dk=both, dv=both)
    assert not both.any()


def test_kernels_are_compiled_without_arrays():
    spec = cute.TensorSpec((2, 4, None, 64), "bf16")
    lse = cute.TensorSpec((2, 4, None), "f32")
    kernel = cute.compile(
        cute.attention_backward, spec, spec, spec, spec, spec, lse, causal=True, arch="sm_90a"
    )
    assert "wgmma" in kernel.ptx
    assert "red.relaxed.gpu.global.add.v4.f32" in kernel.ptx


def test_descent_along_the_gradients_lowers_the_loss(monkeypatch):
    path = Path(__file__).parents[2] / "examples" / "attention_backward.py"
    spec = importlib.util.spec_from_file_location("example_attention_backward", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "emulator")
    monkeypatch.setattr(example, "STEPS", 2)
    assert example.main() == 0


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("d", "causal", "tile"),
    [
        (64, True, "(128,128)"),
        (128, False, "(128,80)"),
        (128, True, "(128,64)"),
        (256, True, "(64,64)"),
    ],
)
def test_defaults_have_registers_for_all_values(d, causal, tile):
    spec, lse = cute.TensorSpec((2, 8, 4096, d), "bf16"), cute.TensorSpec((2, 8, 4096), "f32")
    kernel = cute.compile(
        cute.attention_backward, spec, spec, spec, spec, spec, lse, causal=causal, arch="sm_90a"
    )
    assert kernel.resources.spills in (None, 0)
    assert f'"tile = {tile}' in kernel.stages["cute-synchronize"]


def test_rows_that_threads_read_beside_multiplies_are_fenced_before_they_are_loaded_again():
    """Without dq nothing else fences in a trip, and the check of the protocol refused the tile."""
    spec, lse = cute.TensorSpec((2, 8, 4096, 128), "bf16"), cute.TensorSpec((2, 8, 4096), "f32")
    arguments = spec, spec, spec, spec, spec, lse
    kernel = cute.compile(cute.attention_backward, *arguments, wanted="kv", arch="sm_90a")
    stage = kernel.stages["cute-synchronize"]
    assert '"tile = (128,64)' in stage
    loop = stage[stage.index('pipeline.role "main"') :]
    loop = loop[loop.index("scf.for") :]
    released = [at for at in range(len(loop)) if loop.startswith("pipeline.consumer_release", at)]
    read = loop.rindex("cute.load", 0, released[1])
    assert "cute_nvgpu.fence_proxy_async" in loop[read : released[1]]


def test_rows_are_read_while_multiplies_work_where_registers_suffice():
    """Logarithms and delta before the multiplies end whose sums they change."""
    spec, lse = cute.TensorSpec((2, 8, 4096, 128), "bf16"), cute.TensorSpec((2, 8, 4096), "f32")
    arguments = spec, spec, spec, spec, spec, lse
    schedule = "tile = (128,64), overlap = yes, stages = 2"
    kernel = cute.compile(cute.attention_backward, *arguments, arch="sm_90a", schedule=schedule)
    stage = kernel.stages["cute-partition"]
    loop = stage[stage.index("@key_gradients") :]
    loop = loop[loop.index("cute.gemm") :]
    order = re.findall(r"(?:cute|pipeline)\.(gemm|load|complete) ", loop)
    assert order[:7] == ["gemm", "gemm", "load", "complete", "load", "complete", "gemm"]


def test_values_are_multiplied_beside_the_slopes_where_registers_suffice():
    """Of heads of 128 weights have two types, of heads of 64 a tile has twice as many of them."""
    orders = {}
    for depth, tile in ((64, "(128,128)"), (128, "(128,64)")):
        spec = cute.TensorSpec((2, 8, 4096, depth), "bf16")
        lse = cute.TensorSpec((2, 8, 4096), "f32")
        arguments = spec, spec, spec, spec, spec, lse
        kernel = cute.compile(
            cute.attention_backward, *arguments, arch="sm_90a", schedule=f"tile = {tile}"
        )
        stage = kernel.stages["cute-partition"]
        loop = stage[stage.index("@key_gradients") :]
        order = re.findall(r"(?:cute|pipeline)\.(gemm|complete) ", loop)
        orders[depth] = order[: order.index("complete", order.index("complete") + 1) + 2]
    assert orders[128] == ["gemm", "gemm", "complete", "gemm", "complete", "gemm"]
    assert orders[64] == ["gemm", "gemm", "complete", "complete", "gemm"]


def test_the_gradient_of_keys_comes_a_trip_later_where_loads_have_three_stages():
    """The sums of trips leave from the registers of the multiply, and take no shared memory."""
    schedule = "tile = (128,64), warps = (8,1), stages = 3, overlap = yes"
    given = operands(1, 2, 1, 192, 128, 128, dtype=BF16)
    made = results(*given, causal=True)
    check(run(*given, *made, arch="sm_90a", causal=True, schedule=schedule), *given, causal=True)
    spec, lse = cute.TensorSpec((1, 2, 512, 128), "bf16"), cute.TensorSpec((1, 2, 512), "f32")
    arguments = spec, spec, spec, spec, spec, lse
    kernel = cute.compile(cute.attention_backward, *arguments, arch="sm_90a", schedule=schedule)
    stage = kernel.stages["cute-synchronize"]
    assert "{ahead = -1 : i32}" in stage
    assert "reduce = add" not in stage
    assert 'cute.atomic "add"' in stage
    assert kernel.resources.spills in (None, 0)
