"""`cute.attention` on numbers of 8 bits, on the emulator: tensor cores multiply e4m3 and e5m2, with
v transposed in shared memory and the exponentials in 8 bits; beside 16 bits of q, k and v are
converted. The error is at most twice that of the same rounding of exponentials and results; scales
are one for each head.
"""

from __future__ import annotations

import itertools
import math
import re
import subprocess
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator
from cutedialect.backend.runtime import ptxas

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
SHIFT = 8
# What many rows get, on few.
THREE = "tile = (192,96), warps = (12,1)"


def operands(b, h, hk, sq, sk, d, dv=None, dtype=E4M3, size=1.0, of_q=None) -> Any:
    generator = np.random.default_rng(d + sk)
    shapes = (b, h, sq, d), (b, hk, sk, d), (b, hk, sk, dv or d)
    q, k, v = (generator.standard_normal(each) * size for each in shapes)
    return q.astype(of_q or dtype), k.astype(dtype), v.astype(dtype)


def for_heads(scale, array):
    """A scale that broadcasts over an array (B, H, S, D)."""
    scale = np.asarray(scale, np.float64)
    return np.broadcast_to(scale, array.shape[: scale.ndim and 2])[..., None, None]


def reference(q, k, v, scales=(1, 1, 1), causal=False, window=(-1, -1), softcap=None, rounds=True):
    """(output, lse) in float64 of the scaled numbers; with `rounds`, of exponentials in e4m3 and a
    result in bf16, or both in the type of q where that has 16 bits.
    """
    is_short = q.dtype.itemsize == 2
    q_, k_, v_ = (
        x.astype(np.float64) * for_heads(scale, x)
        for x, scale in zip((q, k, v), scales, strict=True)
    )
    group = q.shape[1] // k.shape[1]
    k_, v_ = np.repeat(k_, group, 1), np.repeat(v_, group, 1)
    s = q_ @ k_.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    s = softcap * np.tanh(s / softcap) if softcap else s
    behind = np.arange(k.shape[2]) - np.arange(q.shape[2])[:, None] - (k.shape[2] - q.shape[2])
    left, right = window[0], 0 if causal else window[1]
    seen = ((right < 0) | (behind <= right)) & ((left < 0) | (behind >= -left))
    s = np.where(seen, s, -np.inf)
    top = s.max(-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isinf(top), 0, top)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    if rounds and not is_short:
        p = np.ldexp(np.ldexp(p, SHIFT).astype(E4M3).astype(np.float64), -SHIFT)
    elif rounds:
        p = p.astype(q.dtype).astype(np.float64)
    out = np.where(total == 0, 0, p @ v_ / np.where(total == 0, 1, total))
    out = out.astype(q.dtype if is_short else ml_dtypes.bfloat16) if rounds else out
    with np.errstate(divide="ignore"):
        return out.astype(np.float64), (top + np.log(total))[..., 0]


def check(out, lse, q, k, v, **given):
    exact, exact_lse = reference(q, k, v, rounds=False, **given)
    same, _ = reference(q, k, v, **given)
    error, allowed = (np.abs(x.astype(np.float64) - exact) for x in (out, same))
    assert error.max() <= 2 * allowed.max() + 1e-6
    assert error.mean() <= 2 * allowed.mean() + 1e-6
    empty = np.isneginf(exact_lse)
    np.testing.assert_array_equal(np.isneginf(lse), empty)
    assert not out[empty].any()
    # Tensor cores add products of 8-bit numbers in some 13 bits of the largest.
    np.testing.assert_allclose(lse[~empty], exact_lse[~empty], rtol=2e-4, atol=1e-3)


def run(q, k, v, scales=(None, None, None), **options) -> tuple[Any, Any]:
    named = dict(zip(("scale_q", "scale_k", "scale_v"), scales, strict=True))
    options = {"arch": "sm_90a", "return_lse": True, "backend": "emulator"} | named | options
    return cute.attention(q, k, v, **options)


CASES = {
    "full": (operands(1, 1, 1, 113, 211, 64), {}),
    "causal_shared_heads": (operands(1, 4, 2, 130, 257, 128), {"causal": True}),
    "window": (operands(1, 1, 1, 70, 300, 128), {"window": (64, 5)}),
    "softcap": (operands(1, 2, 1, 65, 129, 64, size=2.0), {"softcap": 2.5}),
    "wide": (operands(1, 1, 1, 70, 100, 256), {"causal": True}),
    "odd_head_dimensions": (operands(1, 1, 1, 66, 140, 96, 80), {}),
    "unaligned": (operands(1, 1, 1, 40, 70, 33), {"causal": True}),
    "e5m2": (operands(1, 1, 1, 64, 130, 64, dtype=E5M2), {"causal": True}),
    "more_rows_than_keys": (operands(1, 1, 1, 211, 113, 64), {"causal": True}),
    "large_scores": (operands(1, 1, 1, 64, 130, 64, size=20.0), {}),
    "one_row": (operands(2, 4, 2, 1, 67, 64), {"causal": True}),
}


@pytest.mark.some(2)
@pytest.mark.parametrize("name", CASES)
def test_against_float64(name):
    arrays, masks = CASES[name]
    out, lse = run(*arrays, **masks)
    assert out.dtype == ml_dtypes.bfloat16
    check(out, lse, *arrays, **masks)


def test_targets_without_warpgroups():
    arrays = operands(1, 2, 1, 40, 100, 64)
    check(*run(*arrays, causal=True, arch="sm_89"), *arrays, causal=True)


@pytest.mark.parametrize("arch", ["sm_89", "sm_100a"])
def test_warps_share_rows_that_threads_shift(arch):
    arrays = operands(1, 2, 1, 4, 70, 67)
    check(*run(*arrays, arch=arch), *arrays)
    assert "warps = (1,4)" in cute.compile(cute.attention, *arrays, arch=arch).schedule


@pytest.mark.parametrize("keys", [96, 192, pytest.param(224, marks=pytest.mark.long)])
def test_tiles_of_keys(keys):
    arrays = operands(1, 1, 1, 130, 2 * keys + 33, 128)
    out, lse = run(*arrays, causal=True, schedule=f"tile = (64,{keys})")
    check(out, lse, *arrays, causal=True)


def test_scales_of_heads():
    q, k, v = operands(2, 4, 2, 40, 100, 64)
    generator = np.random.default_rng(0)
    of_q, of_k, of_v = (
        generator.uniform(0.2, 2.0, shape).astype(np.float32) for shape in ((2, 4), (2,), (2, 2))
    )
    for scales in ((of_q, of_k, of_v), (0.5, 1.5, of_v), (of_q, None, 3.0)):
        known = tuple(1 if each is None else each for each in scales)
        out, lse = run(q, k, v, scales, causal=True)
        check(out, lse, q, k, v, scales=known, causal=True)
    one = q[:, :, :1]
    check(*run(one, k, v, (of_q, of_k, of_v)), one, k, v, scales=(of_q, of_k, of_v))


@pytest.mark.parametrize("more", [{}, {"softcap": 2.5}])
def test_scales_of_heads_beside_a_negative_scale(more):
    q, k, v = operands(1, 2, 1, 20, 70, 64)
    scales = np.array([0.5, 2.0], np.float32), np.array([0.0], np.float32) + 1.5, None
    out, lse = run(q, k, v, scales, causal=True, scale=-0.125, **more)
    check(out, lse, q, -k, v, scales=(scales[0], 1.5, 1), causal=True, **more)


def test_a_head_of_zeros_with_scale_zero():
    q, k, v = operands(1, 2, 2, 20, 70, 64)
    k[:, 0] = 0
    scales = (None, np.array([0, 1], np.float32), None)
    out, lse = run(q, k, v, scales, causal=True)
    check(out, lse, q, k, v, scales=(1, [0, 1], 1), causal=True)


@pytest.mark.parametrize(("d", "schedule"), [(64, None), (128, THREE)])
def test_padding_does_not_leak(d, schedule):
    q, k, v = operands(3, 2, 1, 70, 200, d)
    lengths = np.array([150, 20, 0], np.int32)
    for entry, length in enumerate(lengths):
        k[entry, :, length:], v[entry, :, length:] = np.nan, np.nan
    out, lse = run(q, k, v, lengths=lengths, causal=True, schedule=schedule)
    for entry, length in enumerate(lengths):
        at = slice(entry, entry + 1)
        kept = k[at, :, :length], v[at, :, :length]
        check(out[at], lse[at], q[at], *kept, causal=True)


@pytest.mark.some(1)
@pytest.mark.parametrize(("d", "schedule"), [(64, None), (128, THREE)])
def test_packed_sequences(d, schedule):
    rows, keys = [5, 130, 0, 64], [70, 130, 3, 20]
    q_offsets, k_offsets = (np.cumsum([0, *x]).astype(np.int32) for x in (rows, keys))
    q, k, v = operands(1, 4, 2, q_offsets[-1], k_offsets[-1], d)
    of_v = np.array([[0.5, 2.0]], np.float32)
    k[:, :, k_offsets[2] : k_offsets[3]] = v[:, :, k_offsets[2] : k_offsets[3]] = np.nan
    options = {"cu_seqlens": (q_offsets, k_offsets), "causal": True, "schedule": schedule}
    out, lse = run(q, k, v, (None, None, of_v), **options)
    for s, count in enumerate(rows):
        mine, of_keys = (slice(x[s], x[s + 1]) for x in (q_offsets, k_offsets))
        if count:
            parts = q[:, :, mine], k[:, :, of_keys], v[:, :, of_keys]
            check(out[:, :, mine], lse[:, :, mine], *parts, scales=(1, 1, of_v), causal=True)


def test_what_a_row_does_not_see_does_not_leak():
    q, k, v = operands(1, 1, 1, 64, 80, 32)
    clean = v.copy()
    v[:, :, 40], v[:, :, 75, 5] = np.nan, np.nan
    out, _ = run(q, k, v, (None, None, 2.0), window=(30, 0))
    exact, _ = reference(q, k, clean, (1, 1, 2), window=(30, 0), rounds=False)
    keys, rows = np.arange(80), np.arange(64)[:, None] + 16
    sees = (keys <= rows) & (keys >= rows - 30)
    whole = ~sees[:, [40, 75]].any(1)
    assert 0 < whole.sum() < 64
    assert np.abs(out[0, 0, whole].astype(np.float64) - exact[0, 0, whole]).max() < 4e-2
    assert np.isnan(out[0, 0, sees[:, 40]]).all()
    only = sees[:, 75] & ~sees[:, 40]
    assert np.isnan(out[0, 0, only, 5]).all()
    assert np.isfinite(np.delete(out[0, 0, only], 5, 1).astype(np.float64)).all()


MIXED = {
    "bf16": (operands(1, 4, 2, 70, 257, 128, of_q=ml_dtypes.bfloat16), {"causal": True}),
    "f16": (operands(1, 1, 1, 65, 140, 64, 80, of_q=np.float16), {"window": (40, 5)}),
    "e5m2": (operands(1, 1, 1, 40, 70, 96, of_q=np.float16, dtype=E5M2), {}),
    "one_row": (operands(2, 8, 2, 1, 300, 128, of_q=ml_dtypes.bfloat16), {}),
}


@pytest.mark.some(2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", MIXED)
def test_keys_of_8_bits_beside_rows_of_16(name, arch):
    (q, k, v), masks = MIXED[name]
    scales = (None, np.linspace(0.5, 1.5, k.shape[1], dtype=np.float32), 0.5)
    out, lse = run(q, k, v, scales, arch=arch, **masks)
    assert out.dtype == q.dtype
    check(out, lse, q, k, v, scales=(1, scales[1], 0.5), **masks)


@pytest.mark.some(1)
@pytest.mark.parametrize(("d", "dv"), [(64, 161), (129, 32), (161, 161), (64, 130)])
def test_rows_of_8_bits_that_begin_anywhere_beside_others_of_16(d, dv):
    """The vectors of which blocks of 80 keys have an odd number in a row stay whole."""
    q, k, v = operands(1, 1, 1, 40, 85, d, dv, of_q=np.float16)
    check(*run(q, k, v), q, k, v)


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_every_number_of_8_bits_is_converted(arch):
    every = np.arange(256, dtype=np.uint8)
    for dtype in (E4M3, E5M2):
        v = every.view(dtype).reshape(1, 1, 1, 256)
        q, k = np.zeros((1, 1, 1, 16), np.float16), np.zeros((1, 1, 1, 16), dtype)
        out, _ = run(q, k, v, arch=arch)
        np.testing.assert_array_equal(
            out[0, 0, 0].astype(np.float32), v[0, 0, 0].astype(np.float32)
        )


@pytest.mark.some(1)
@pytest.mark.parametrize("of_q", [E4M3, np.float16])
def test_padding_and_parts_of_keys(of_q):
    q, k, v = operands(2, 4, 2, 1, 700, 64, of_q=of_q)
    lengths = np.array([650, 130], np.int32)
    for entry, length in enumerate(lengths):
        k[entry, :, length:] = v[entry, :, length:] = np.nan
    for schedule in (None, "split_k = 3"):
        out, lse = run(q, k, v, (None, None, 2.0), lengths=lengths, schedule=schedule)
        for entry, length in enumerate(lengths):
            at = slice(entry, entry + 1)
            kept = k[at, :, :length], v[at, :, :length]
            check(out[at], lse[at], q[at], *kept, scales=(1, 1, 2))


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("of_q", "arch"), [(E4M3, "sm_90a"), (np.float16, "sm_90a"), (np.float16, "sm_80")]
)
def test_pages_of_keys(of_q, arch):
    q, k, v = operands(2, 4, 2, 3, 192, 64, of_q=of_q)
    pages = np.random.default_rng(0).permutation(2 * 12)
    table = pages.reshape(2, 12).astype(np.int32)

    def paged(array):
        cut = array.reshape(2, 2, 12, 16, 64).transpose(0, 2, 1, 3, 4)
        stored = np.empty((24, 2, 16, 64), array.dtype)
        stored[table] = cut
        return stored

    out, lse = run(q, paged(k), paged(v), arch=arch, block_table=table, causal=True)
    check(out, lse, q, k, v, causal=True)


CASES_OF_THREE = {
    "full": (operands(1, 1, 1, 193, 450, 128), {}),
    "causal_shared_heads": (operands(1, 2, 1, 193, 211, 128), {"causal": True}),
    "window": (operands(1, 1, 1, 211, 400, 128), {"window": (130, 5), "softcap": 2.5}),
    "odd_head_dimensions": (operands(1, 1, 1, 200, 211, 96, 80), {"causal": True}),
    "more_rows_than_keys": (operands(1, 1, 1, 250, 97, 128, 64), {"causal": True}),
    "few_keys": (operands(1, 1, 1, 192, 7, 80), {}),
}


@pytest.mark.some(1)
@pytest.mark.parametrize("name", CASES_OF_THREE)
def test_three_warpgroups(name):
    arrays, masks = CASES_OF_THREE[name]
    check(*run(*arrays, schedule=THREE, **masks), *arrays, **masks)


@pytest.mark.long
def test_many_rows():
    arrays = operands(1, 1, 1, 2100, 130, 128)
    check(*run(*arrays, causal=True), *arrays, causal=True)


@pytest.mark.some(1)
@pytest.mark.parametrize("schedule", ["tile = (128,96), scheduler = dynamic", "cluster = (2,1)"])
def test_schedules_give_the_same_bits(schedule):
    arrays = operands(1, 2, 1, 300, 200, 64)
    tile = "tile = (128,96)" if "96" in schedule else "tile = (64,64)"
    masks = {"causal": "dynamic" in schedule}
    given = schedule if "tile" in schedule else f"{tile}, {schedule}"
    found = [run(*arrays, schedule=each, **masks) for each in (tile, given)]
    np.testing.assert_array_equal(*(out for out, _ in found))
    check(*found[0], *arrays, **masks)


@pytest.mark.parametrize(
    "keys", [128, *(pytest.param(n, marks=pytest.mark.long) for n in (96, 192))]
)
def test_no_bank_conflicts_where_values_are_transposed(keys):
    q, k, v = operands(1, 1, 1, 64, 2 * keys, 128)
    out = np.zeros(q.shape, ml_dtypes.bfloat16)
    kernel = cute.compile(
        cute.attention,
        *(q, k, v),
        out=out,
        arch="sm_90a",
        backend="emulator",
        schedule=f"tile = (64,{keys})",
    )
    kernel.launch(q, k, v, out, np.float32(1 / math.sqrt(128)))
    lines = kernel.ptx.splitlines()
    for report in kernel.reports:
        moved = dict.fromkeys(("ldmatrix", "stmatrix"), 0)
        for line, access in report.shared.items():
            for kind in moved:
                if kind in lines[line - 1]:
                    moved[kind] += access.minimum
                    assert access.conflicts == 0
        assert all(moved.values())


def machine_code(schedule, tmp_path):
    """Multiplies by their columns, turns, waits and exponentials of a kernel, in order; each with
    how many there are in a row.
    """
    disassembler = ptxas.find("sm_90a").with_name("nvdisasm")
    if not disassembler.exists():
        pytest.skip("needs nvdisasm beside ptxas")
    specs = [cute.TensorSpec((2, 4, None, 128), cute.e4m3)] * 3
    cubin = tmp_path / "kernel.cubin"
    kernel = cute.compile(cute.attention, *specs, arch="sm_90a", schedule=schedule)
    cubin.write_bytes(kernel.cubin)
    run = subprocess.run([disassembler, "-c", cubin], capture_output=True, text=True, check=True)
    marks = re.findall(r"QGMMA\.64x\d+|WARPGROUP\.DEPBAR|MUFU\.EX2|BAR\.(?:SYNC|ARV)", run.stdout)
    return [(mark, len(list(group))) for mark, group in itertools.groupby(marks)]


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("schedule", "keys", "multiplies"), [("tile = (128,192)", 192, 6), (None, 96, 3)]
)
def test_exponentials_lie_between_the_waits_in_machine_code(schedule, keys, multiplies, tmp_path):
    runs = machine_code(schedule, tmp_path)
    marks = [mark for mark, _ in runs]
    trip = [f"QGMMA.64x{keys}", "QGMMA.64x128", "WARPGROUP.DEPBAR", "MUFU.EX2", "WARPGROUP.DEPBAR"]
    at = next(at for at in range(len(runs)) if marks[at : at + len(trip)] == trip)
    assert [count for _, count in runs[at : at + len(trip)]][:3] == [4, multiplies, 1]
    assert runs[at + 3][1] >= keys // 2


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("of_q", [E4M3, np.float16])
def test_copies_that_complete_late(seed, of_q, monkeypatch):
    monkeypatch.setattr(emulator, "launch", partial(emulator.launch, seed=seed))
    arrays = operands(1, 2, 1, 130, 300, 64, of_q=of_q)
    out, lse = run(*arrays, causal=True, schedule="tile = (128,64), stages = 2")
    check(out, lse, *arrays, causal=True)


def test_both_multiplies_are_of_warpgroups():
    kernel = cute.compile(cute.attention, *operands(1, 1, 1, 128, 256, 128), arch="sm_90a")
    assert kernel.ptx.count("wgmma.mma_async") >= 8
    assert "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3" in kernel.ptx
    assert "mma.sync" not in kernel.ptx
    assert "operand_copy<transpose" in kernel.stages["cute-partition"]
    assert 'pipeline.role "prepare"' in kernel.stages["cute-synchronize"]


VARIANTS = [
    (64, 64, {"causal": True, "window": (100, -1), "softcap": 20.0}),
    (128, 128, {}),
    (128, 128, {"causal": True, "window": (100, -1), "softcap": 20.0}),
    (192, 128, {"causal": True}),
    (256, 256, {"causal": True, "window": (100, -1), "softcap": 20.0}),
]


def compiled(d, dv, masks, of_q, arch="sm_90a", has_lengths=False, rows=None):
    specs = [
        cute.TensorSpec((4, heads, extent, x), dtype)
        for heads, extent, x, dtype in (
            (8, rows, d, of_q),
            (2, None, d, cute.e4m3),
            (2, None, dv, cute.e4m3),
        )
    ]
    options: dict[str, Any] = dict(masks, return_lse=True, arch=arch)
    if has_lengths:
        options["lengths"] = cute.TensorSpec((4,), cute.i32)
    for name in ("scale_k", "scale_v"):
        options[name] = cute.TensorSpec((2,), cute.f32)
    return cute.compile(cute.attention, *specs, **options)


@pytest.mark.some(3)
@pytest.mark.parametrize("has_lengths", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize(("d", "dv", "masks"), VARIANTS)
def test_default_schedules_assemble_without_spills(d, dv, masks, has_lengths):
    kernel = compiled(d, dv, masks, cute.e4m3, has_lengths=has_lengths)
    assert kernel.resources.spills == 0


@pytest.mark.some(1)
@pytest.mark.parametrize("heads", [(8, 8), (8, 2)])
def test_packed_sequences_assemble_without_spills(heads):
    q, k = (cute.TensorSpec((1, count, None, 128), cute.e4m3) for count in heads)
    options: dict[str, Any] = dict(
        VARIANTS[2][2], cu_seqlens=(cute.TensorSpec((None,), cute.i32),) * 2
    )
    for name, count in zip(
        ("scale_q", "scale_k", "scale_v"), (heads[0], *heads[1:] * 2), strict=True
    ):
        options[name] = cute.TensorSpec((count,), cute.f32)
    kernel = cute.compile(cute.attention, q, k, k, arch="sm_90a", return_lse=True, **options)
    assert kernel.resources.spills == 0
    # A case enters each loop, for which offsets have to be several tiles apart.
    assert not [remark for remark in kernel.remarks if remark.pass_name == "cute-check-protocol"]


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("d", "dv", "masks"), [VARIANTS[2], VARIANTS[4]])
def test_default_schedules_of_mixed_types_assemble_without_spills(d, dv, masks, arch):
    rows = 1 if d == 128 else None
    kernel = compiled(d, dv, masks, cute.bf16, arch, rows is None, rows)
    assert kernel.resources.spills == 0
