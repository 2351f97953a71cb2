"""The gradient of attention's queries multiplied transposed, in tiles of 80 rows, which are none of
a warpgroup's, so that each thread adds columns of it to memory.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from benchmarks.attention_gradients import ALLOWED, gradients, shares
from cutedialect.schedule import Schedule

TILE = "tile = (128,80)"


def operands(heads, rows, keys, d, seed=0) -> Any:
    """dO, Q, K, V in f16, of `heads` (those of Q, those of K)."""
    rng = np.random.default_rng(seed)
    of_q, of_k = heads
    shapes = ((of_q, rows), (of_q, rows), (of_k, keys), (of_k, keys))
    return tuple(rng.standard_normal((1, *shape, d)).astype(np.float16) for shape in shapes)


def largest(given: Any, **options: Any) -> float:
    """The largest error, in units of what the same precision has."""
    masks = {name: options[name] for name in ("causal", "window") if name in options}
    do, q, k, v = given
    out, lse, _ = gradients(do, q, k, v, np.float64, **masks)
    results = cute.attention_backward(
        do, q, k, v, out.astype(np.float16), lse.astype(np.float32), schedule=TILE, arch="sm_90a",
        backend="emulator", **options,
    )  # fmt: skip
    return max(shares(results, do, q, k, v, **masks).values())


@pytest.mark.some(3)
@pytest.mark.parametrize("rows", [1, 79, 80, 81, 160, 161, 240, 410])
def test_rows_around_tiles_and_stages(rows):
    """One, two, three and six tiles, for two stages."""
    assert largest(operands((1, 1), rows, 130, 128, seed=rows)) <= ALLOWED


@pytest.mark.parametrize(
    ("heads", "d", "options"),
    [((4, 2), 128, {}), ((1, 1), 64, {}), ((1, 1), 128, {"causal": True}),
     pytest.param((1, 1), 128, {"window": (40, 9)}, marks=pytest.mark.long)],
)  # fmt: skip
def test_heads_that_share_keys_and_masks(heads, d, options):
    assert largest(operands(heads, 170, 150, d), **options) <= ALLOWED


def cut(arrays: Any, rows: slice) -> Any:
    return tuple(x[:, :, rows] for x in arrays)


def test_packed_sequences_begin_at_tiles():
    """Each of some sequences against the gradients of it alone."""
    offsets = np.cumsum([0, 90, 1, 170])
    total = int(offsets[-1])
    whole = operands((2, 2), total, total, 128)
    do, q, k, v = whole
    out, lse = np.zeros_like(q), np.zeros((1, 2, total), np.float32)
    own = [slice(*ends) for ends in pairwise(offsets)]
    for rows in own:
        do_, q_, k_, v_ = cut(whole, rows)
        of_rows, logarithms, _ = gradients(do_, q_, k_, v_, np.float64)
        out[:, :, rows], lse[:, :, rows] = of_rows, logarithms
    results = cute.attention_backward(
        do, q, k, v, out, lse, cu_seqlens=(offsets, offsets), schedule=TILE, arch="sm_90a",
        backend="emulator",
    )  # fmt: skip
    for rows in own:
        do_, q_, k_, v_ = cut(whole, rows)
        assert max(shares(cut(results, rows), do_, q_, k_, v_).values()) <= ALLOWED


def test_full_heads_of_many_rows_have_tiles_of_80():
    q = cute.TensorSpec((1, 16, 4096, 128), "bf16")
    lse = cute.TensorSpec((1, 16, 4096), "f32")
    kernel = cute.compile(
        cute.attention_backward, q, q, q, q, q, lse, dq=q, dk=q, dv=q, arch="sm_90a"
    )
    assert Schedule.parse(kernel.schedule).tile == (128, 80)
    assert kernel.ptx.count("wgmma.mma_async.sync.aligned.m64n80k16") == 24
    # Each of a thread's 40 sums of a tile leaves beside three others.
    assert kernel.ptx.count("red.relaxed.gpu.global.add.v4.f32") == 10
