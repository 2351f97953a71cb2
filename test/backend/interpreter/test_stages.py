"""Every family of kernels at small sizes: each stage before synchronization gives what NumPy gives,
with both extremes of what `local` leaves open.
"""

from __future__ import annotations

import runpy
import sys
from itertools import pairwise
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

pytestmark = pytest.mark.usefixtures("every_stage")
BEFORE_SYNCHRONIZATION = [
    "cute-structure-exits", "cute-fuse", "cute-tile", "cute-partition", "cute-defer-sums",
    "cute-assign-warp-roles", "cute-schedule-loops",
]  # fmt: skip
BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


def integers(shape, dtype=np.float16, seed=0):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


def product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


GEMMS = {
    "sm_80": ("sm_80", "tile = (64,64,32)"),
    "sm_80 fused copies": ("sm_80", "tile = (64,32,64), epilogue = smem"),
    "sm_90a": ("sm_90a", "tile = (64,64,64)"),
    "cluster": ("sm_90a", "tile = (64,64,64), cluster = (2,1)"),
    "alternate": ("sm_90a", "tile = (64,64,64), roles = alternate"),
    "split": ("sm_90a", "tile = (64,64,64), split_k = 3"),
    "atomic": ("sm_80", "tile = (64,64,32), split_k = 3, reduction = atomic"),
    "stream": ("sm_80", "tile = (64,64,32), scheduler = stream"),
    "dynamic": ("sm_90a", "tile = (64,64,64), scheduler = dynamic"),
    "cancel": ("sm_100a", "tile = (128,64,64), scheduler = cancel"),
    "sm_100a": ("sm_100a", "tile = (128,64,64)"),
    "sm_100a split": ("sm_100a", "tile = (128,64,64), split_k = 2"),
    "sm_100a wide split": ("sm_100a", "tile = (128,192,64), split_k = 2"),
    "sm_100a wide stream": ("sm_100a", "tile = (128,192,64), cluster = (2,1), scheduler = stream"),
    "hilbert": ("sm_80", "tile = (64,64,32), order = hilbert"),
}


SHORT = {"sm_80", "sm_90a", "sm_100a", "split", "stream", "dynamic"}


def some_long(cases, short):
    """The cases as parameters, those that are not named `short` for the long run."""
    marks = pytest.mark.long
    return [case if case in short else pytest.param(case, marks=marks) for case in cases]


@pytest.mark.some(3)
@pytest.mark.parametrize("case", some_long(GEMMS, SHORT))
def test_gemm(case, every_stage):
    arch, schedule = GEMMS[case]
    a, b = integers((3, 136, 200), seed=1), integers((3, 72, 200), seed=2).swapaxes(1, 2)
    c, bias = integers((136, 72), seed=3), integers(72, seed=4)
    got = cute.gemm(
        a, b, c=c, beta=-1.0, alpha=2.0, bias=bias, activation="relu", out_dtype="f32",
        arch=arch, schedule=schedule, backend="interpreter",
    )  # fmt: skip
    np.testing.assert_array_equal(got, np.maximum(2 * product(a, b) - c + bias, 0))
    assert every_stage[:7] == BEFORE_SYNCHRONIZATION


@pytest.mark.some(6)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    "kinds", [(np.int8, np.uint8), (E4M3, E5M2), (BF16, BF16), (np.float32, np.float32)], ids=str
)
def test_types(kinds, arch):
    if kinds[0] is E4M3 and arch == "sm_80":
        arch = "sm_89"
    low = 0 if kinds[1] is np.uint8 else -2
    a = integers((72, 160), kinds[0])
    b = np.random.default_rng(1).integers(low, 3, (160, 48)).astype(kinds[1])
    out = "i32" if kinds[0] is np.int8 else "f32"
    got = cute.gemm(a, b, out_dtype=out, arch=arch, backend="interpreter")
    np.testing.assert_array_equal(got, product(a, b))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_f64_and_f16_sums(arch):
    a, b = integers((40, 72), np.float64), integers((72, 24), np.float64, 1)
    np.testing.assert_array_equal(cute.gemm(a, b, arch=arch, backend="interpreter"), a @ b)
    a, b = a.astype(np.float16), b.astype(np.float16)
    got = cute.gemm(a, b, acc_dtype="f16", arch=arch, backend="interpreter")
    np.testing.assert_array_equal(got, product(a, b))


def test_scales_of_blocks():
    a, b = integers((72, 256), E4M3), integers((128, 256), E4M3, 1).T
    scale_a = 2.0 ** np.random.default_rng(2).integers(-1, 2, (72, 2)).astype(np.float32)
    scale_b = 2.0 ** np.random.default_rng(3).integers(-1, 2, (2, 1)).astype(np.float32)
    got = cute.gemm(
        a, b, scale_a=scale_a, scale_b=scale_b, out_dtype="f32", arch="sm_90a",
        backend="interpreter",
    )  # fmt: skip
    wide = a.astype(np.float64) * scale_a.repeat(128, 1), b.astype(np.float64)
    np.testing.assert_array_equal(got, wide[0] @ (wide[1] * scale_b.repeat(128, 0)))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_grouped_gemm(arch):
    shapes = [(40, 72, 64), (136, 8, 200), (8, 64, 0)]
    as_ = [integers((m, k), seed=m) for m, _, k in shapes]
    bs = [integers((n, k), seed=n).T for _, n, k in shapes]
    for got, a, b in zip(
        cute.grouped_gemm(as_, bs, out_dtype="f32", arch=arch, backend="interpreter"),
        as_,
        bs,
        strict=True,
    ):
        np.testing.assert_array_equal(got, product(a, b))


def softmax_reference(q, k, v, mask):
    groups = q.shape[1] // k.shape[1]
    wide = [x.astype(np.float64) for x in (q, k.repeat(groups, 1), v.repeat(groups, 1))]
    scores = wide[0] @ wide[1].swapaxes(2, 3) / np.sqrt(q.shape[-1])
    scores = np.where(mask, scores, -np.inf)
    most = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(most), most, 0))
    total = weights.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        logs = (np.log(total) + most)[..., 0]
    return weights / np.where(total == 0, 1, total) @ wide[2], logs


def attended(rows, keys, dtype=np.float16, heads=(2, 1), d=64, seed=0):
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((2, heads[0], rows, d)).astype(dtype)
    k, v = (rng.standard_normal((2, heads[1], keys, d)).astype(dtype) for _ in range(2))
    return q, k, v


ATTENTIONS = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window": (20, 10)},
    "softcap": {"softcap": 3.0},
}


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("case", some_long(ATTENTIONS, {"causal"}))
def test_attention(case, arch):
    q, k, v = attended(72, 150)
    rows, keys = np.mgrid[0:72, 0:150]
    mask = {
        "causal": keys <= rows + 78,
        "window": (keys >= rows + 58) & (keys <= rows + 88),
    }.get(case, np.ones((72, 150), bool))
    out, logs = cute.attention(
        q, k, v, return_lse=True, arch=arch, backend="interpreter", **ATTENTIONS[case]
    )
    if case == "softcap":
        return  # the stages agree; the formula has its own test
    want, want_logs = softmax_reference(q, k, v, mask)
    assert np.abs(out - want).max() < 4e-3
    assert np.abs(logs - want_logs).max() < 1e-3


@pytest.mark.parametrize("arch", some_long(["sm_80", "sm_90a"], {"sm_90a"}))
def test_attention_with_lengths_pages_and_parts(arch):
    q, k, v = attended(1, 256, heads=(8, 2))
    lengths = np.array([256, 70], np.int32)
    mask = (np.arange(256) < lengths[:, None])[:, None, None]
    want, _ = softmax_reference(q, k, v, mask)
    options = {"lengths": lengths, "arch": arch, "backend": "interpreter"}
    assert np.abs(cute.attention(q, k, v, **options) - want).max() < 4e-3
    parts = cute.attention(q, k, v, schedule="split_k = 3", **options)
    assert np.abs(parts - want).max() < 4e-3
    pages = np.random.default_rng(5).permutation(8).astype(np.int32).reshape(2, 4)
    paged = [np.empty((8, 2, 64, 64), np.float16) for _ in range(2)]
    for store, source in zip(paged, (k, v), strict=True):
        store[pages] = source.reshape(2, 2, 4, 64, 64).swapaxes(1, 2)
    got = cute.attention(q, *paged, block_table=pages, **options)
    assert np.abs(got - want).max() < 4e-3


@pytest.mark.parametrize("arch", some_long(["sm_80", "sm_90a"], {"sm_80"}))
def test_attention_of_packed_sequences(arch):
    starts = np.array([0, 40, 40, 130], np.int32)
    rng = np.random.default_rng(6)
    q, k, v = (rng.standard_normal((1, 2, 130, 64)).astype(np.float16) for _ in range(3))
    got = cute.attention(
        q, k, v, cu_seqlens=(starts, starts), causal=True, arch=arch, backend="interpreter"
    )
    for low, high in pairwise(starts):
        part = (slice(None), slice(None), slice(low, high))
        mask = np.tri(high - low, dtype=bool)
        if low < high:
            want, _ = softmax_reference(q[part], k[part], v[part], mask)
            assert np.abs(got[part] - want).max() < 4e-3


@pytest.mark.parametrize("large", some_long([False, True], {True}))
def test_scores_that_grow_take_the_branches_of_rows(large):
    """Scores that outgrow the first block's maximum, in some rows only."""
    q, k, v = attended(64, 384)
    k[:, :, 128 * np.arange(1, 3)] *= 40 if large else 1
    q[:, :, ::3] *= 20
    want, _ = softmax_reference(q, k, v, np.ones((64, 384), bool))
    got = cute.attention(q, k, v, arch="sm_90a", backend="interpreter")
    assert np.abs(got - want).max() < 8e-3


# All but one that launches what was compiled, and has no tile program any more.
FOLDER = Path(__file__).parents[3] / "examples"
EXAMPLES = sorted(set(FOLDER.glob("*.py")) - {FOLDER / "from_json.py"})


@pytest.mark.long
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples(example, every_stage, monkeypatch, tmp_path):
    """What they compute by NumPy they compare themselves."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "emulator")
    monkeypatch.setattr(sys, "argv", [str(example)])
    monkeypatch.syspath_prepend(str(example.parent))
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(example), run_name="__main__")
    assert not end.value.code
    assert "cute-partition" in every_stage
