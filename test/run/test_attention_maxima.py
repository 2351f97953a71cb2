"""The three ways in which `cute.attention` keeps what a row's exponentials count from give the same
results, and errors that do not grow with the scores.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect import ScheduleError

BF16 = ml_dtypes.bfloat16
WAYS = ("exact", "lazy", "guessed")


def problem(kind, dtype, rows=64, keys=384, d=64, seed=0):
    """q, k and v whose scores have a deviation, or a shape along the keys."""
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((1, 1, n, d)) for n in (rows, keys, keys))
    along = np.linspace(0, 1, keys)[:, None]
    if kind == "rise":
        k *= 12 * along + 0.1
    elif kind == "drift":
        k += 8 * along * rng.standard_normal(d) / np.sqrt(d)
    elif kind == "sink":
        k[:, :, :4] *= 8
    elif kind == "shared sink":
        direction = rng.integers(0, 2, d) * 2 - 1
        q += direction
        k[:, :, :4] += 11 * direction / np.sqrt(d)
    elif kind == "late":
        k[:, :, -7] *= 30
    else:
        q *= kind
    return tuple(each.astype(dtype) for each in (q, k, v))


def exact(q, k, v):
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True)


def attend(q, k, v, way, lse=False):
    schedule = f"tile = (64,64), maxima = {way}, split_k = 1"
    return cute.attention(
        q, k, v, schedule=schedule, arch="sm_90a", backend="emulator", return_lse=lse
    )


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", [BF16, np.float16])
@pytest.mark.parametrize("kind", [4, "rise", "drift", "sink", "late"])
def test_errors_are_those_of_exponentials_up_to_1(kind, dtype):
    """Where one key has nearly all of the weight, its exponential is 1 if it counts from the
    largest score. Another base rounds it, and the sum that it is divided by likewise.
    """
    given = problem(kind, dtype)
    wanted = exact(*given)
    errors = {way: np.abs(attend(*given, way).astype(np.float64) - wanted) for way in WAYS}
    unit = float(ml_dtypes.finfo(dtype).eps) * 2 ** np.floor(np.log2(np.abs(wanted).max()))
    for way in ("lazy", "guessed"):
        assert errors[way].mean() <= 1.3 * errors["exact"].mean()
        # Half a unit is the result's own rounding, as much that of a sum of 16 bits.
        assert errors[way].max() <= max(1.3 * errors["exact"].max(), 1.1 * unit)


def test_small_weights_of_many_keys_are_not_lost_beside_those_of_few_large_ones():
    """Four keys have most of the weight, 1,900 the rest: below 2^-14 f16 has fewer bits."""
    given = problem("shared sink", np.float16, keys=1920, seed=1)
    wanted = exact(*given)
    errors = {way: np.abs(attend(*given, way).astype(np.float64) - wanted) for way in WAYS}
    for way in ("lazy", "guessed"):
        assert errors[way].mean() <= 1.2 * errors["exact"].mean()
        assert errors[way].max() <= 1.3 * errors["exact"].max()


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", [BF16, np.float16])
def test_rows_of_few_keys_are_divided_by_exact_sums(dtype):
    """Under a causal mask values of 1 give 1: the block that the mask cuts adds in f32 what it
    multiplies. In 16 bits two keys beside a larger one were lost now and then.
    """
    q, k, v = problem(4, dtype, rows=128, keys=128, d=96, seed=3)
    v[:] = 1
    options: Any = {"arch": "sm_90a", "backend": "emulator"}
    out = cute.attention(q, k, v, causal=True, schedule="tile = (128,128)", **options)
    assert (out == 1).all()


@pytest.mark.some(1)
@pytest.mark.parametrize("dtype", [BF16, np.float16])
def test_logarithms_are_those_of_sums_before_rounding(dtype):
    """One key has all of the weight: its exponential counts from a guess, and is rounded."""
    q, k, v = problem(1, dtype, keys=192)
    q[:], k[:] = 0, 0
    q[..., 0], k[:, :, 150, 0] = 8, np.linspace(3, 4, 1).astype(dtype)
    wanted = np.log(191 + np.exp(q[0, 0, 0, 0].astype(float) * k[0, 0, 150, 0].astype(float) / 8))
    for way in WAYS:
        _, lse = attend(q, k, v, way, lse=True)
        np.testing.assert_allclose(lse, wanted, rtol=2e-6)


@pytest.mark.some(2)
@pytest.mark.parametrize("dtype", [BF16, np.float16])
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.parametrize("way", WAYS)
def test_rows_do_not_depend_on_their_neighbors(way, d, dtype):
    """Guesses for some rows of a warp fail, by more than f16 and bf16 have room for."""
    rng = np.random.default_rng(5)
    q, k, v = problem(2, dtype, d=d, seed=5)
    k[:, :, -40] *= 6
    before = attend(q, k, v, way)
    changed = rng.random(q.shape[2]) < 0.3
    q[:, :, changed] *= dtype(8)
    after = attend(q, k, v, way)
    assert np.array_equal(before[:, :, ~changed], after[:, :, ~changed])
    error = np.abs(after.astype(np.float64) - exact(q, k, v))
    assert error.max() < (5e-2 if dtype is BF16 else 5e-3)


def counted(scores, dtype, way):
    """Of how many blocks, on average, warps look for largest scores and compute exponentials, where
    scores (blocks,) are those of 64 keys each; errors are checked.
    """
    q, k, v = problem(1, dtype, keys=64 * len(scores))
    q[:], k[:] = 0, 0
    q[..., 0] = 8
    k[..., 0] = np.repeat(scores, 64) * np.log(2)
    out, specs = np.empty_like(q), [cute.TensorSpec(each.shape, each.dtype) for each in (q, k, v)]
    options: Any = {
        "arch": "sm_90a",
        "backend": "emulator",
        "schedule": f"tile = (64,64), maxima = {way}, split_k = 1",
    }
    kernel = cute.compile(cute.attention, *specs, out=specs[0], **options)
    kernel.launch(q, k, v, out, math.log2(math.e) / 8)
    assert np.abs(out.astype(np.float64) - exact(q, k, v)).max() < 2e-2
    # Each lane of four warps has 32 scores of a block.
    counts = kernel.reports[0].instructions
    return tuple(counts[name] / (4 * 32) for name in ("max.NaN.f32", "ex2.approx.ftz.f32"))


def test_warps_of_f16_change_their_way_where_scores_grow():
    """Scores that do not grow are not looked at behind the second block; those that rise by 2^9 in
    each block are in all, and those that rise slowly once sums tell: nothing is computed twice. One
    that comes unawares costs a block.
    """
    blocks, block = 12, np.arange(12)
    looks, exponentials = counted(np.zeros(blocks), np.float16, "guessed")
    assert looks < 4
    assert exponentials < blocks + 0.5
    looks, exponentials = counted(9.0 * block, np.float16, "guessed")
    assert looks > blocks
    assert exponentials < blocks + 1.5  # factors of rows are some
    looks, exponentials = counted(3.0 * np.minimum(block, 7), np.float16, "guessed")
    assert 6 < looks < blocks + 1
    assert exponentials < blocks + 0.5
    looks, exponentials = counted(np.where(block < 9, 0.0, 30.0), np.float16, "guessed")
    assert 5 < looks < 8
    assert blocks + 1 < exponentials < blocks + 1.5


@pytest.mark.parametrize(("dtype", "is_scaled"), [(BF16, False), (np.float16, True)])
def test_lazy_scales_where_the_type_has_no_room(dtype, is_scaled):
    """A largest score that grows by 2^9 in each of six blocks: bf16 has room for 2^64."""
    q, k, v = problem(1, dtype, keys=64 * 6)
    q[:], k[:] = 0, 0
    out, specs = np.empty_like(q), [cute.TensorSpec(each.shape, each.dtype) for each in (q, k, v)]
    options: Any = {
        "arch": "sm_90a",
        "backend": "emulator",
        "schedule": "tile = (64,64), maxima = lazy",
    }
    kernel = cute.compile(cute.attention, *specs, out=specs[0], **options)
    counts = []
    for rise in (0, 9 * np.log(2)):
        q[..., 0] = 8
        k[..., 0] = np.repeat(np.arange(6), 64) * rise
        kernel.launch(q, k, v, out, math.log2(math.e) / 8)
        counts.append(kernel.reports[0].total_instructions)
        assert np.abs(out.astype(np.float64) - exact(q, k, v)).max() < 2e-2
    assert (counts[1] > counts[0]) == is_scaled


def test_ways_are_words():
    with pytest.raises(ScheduleError, match="expected maxima to be one of exact, lazy, guessed"):
        cute.Schedule.parse("maxima = guess")
