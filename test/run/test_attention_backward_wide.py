"""`cute.attention_backward` of wide heads in the emulator. On sm_90a one warpgroup has the gradient
of values and another one that of keys, on sm_100a tensor memory has both, and the pass over the
keys has tiles of 128 rows beside blocks of 64.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute
from benchmarks.attention_gradients import ALLOWED, gradients, shares

DEPTH, NARROW = 160, 32
PIPELINED = (
    "tile = (64,64), warps = (4,1), roles = pipelined, scheduler = single, split_loops = no, "
    "epilogue = direct"
)


def operands(heads, shared, rows, keys, depth=DEPTH):
    rng = np.random.default_rng(rows + keys)
    shapes = (heads, rows), (heads, rows), (shared, keys), (shared, keys)
    do, q, k, v = (rng.standard_normal((1, *shape, depth)).astype(np.float16) for shape in shapes)
    return do, q, k, v


def results(given, **masks):
    do, q, k, v = given
    out, lse, _ = gradients(do, q, k, v, np.float64, **masks)
    return out.astype(np.float16), lse.astype(np.float32)


def run(given, made, **options):
    return cute.attention_backward(
        *given, *made, backend="emulator", **{"arch": "sm_90a", **options}
    )


@pytest.mark.some(1)
@pytest.mark.parametrize("depth", [160, 256])
@pytest.mark.parametrize(
    ("rows", "keys", "masks"),
    [
        (1, 3, {}),
        (128, 70, {}),
        (330, 64, {"causal": True}),
        (200, 230, {"causal": True}),
        (140, 150, {"window": (40, 10)}),
    ],
)
def test_against_float64(depth, rows, keys, masks):
    """0, 1, S, S + 1 and more trips for blocks of keys."""
    given = operands(2, 1, rows, keys, depth)
    found = run(given, results(given, **masks), **masks)
    figures = shares(found, *given, **masks)
    assert max(figures.values()) <= ALLOWED, figures


@pytest.mark.parametrize(
    ("depth", "width", "rows", "keys", "masks"),
    [
        (192, 128, 1, 3, {}),
        (192, 128, 330, 150, {"causal": True}),
        (192, 192, 64, 129, {"window": (40, 10), "softcap": 3.0}),
        (256, 128, 200, 70, {}),
        (256, 256, 130, 150, {"causal": True}),
        (256, 224, 65, 129, {}),
    ],
)
def test_tensor_memory_against_float64(depth, width, rows, keys, masks):
    """Blocks of 128 keys; both gradients of the widest heads would take all columns of tensor
    memory, and have a kernel each.
    """
    do, q, k, v = operands(2, 1, rows, keys, depth)
    given = do[..., :width], q, k, v[..., :width]
    found = run(given, results(given, **masks), arch="sm_100a", **masks)
    figures = shares(found, *given, **masks)
    assert max(figures.values()) <= ALLOWED, figures


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_packed_sequences(arch):
    """Sequences begin at whole tiles of the pass over the keys, for blocks of fewer rows, too."""
    rows, keys = [70, 0, 130, 1], [70, 5, 65, 9]
    offsets = [np.cumsum([2, *each], dtype=np.int64) for each in (rows, keys)]
    totals = [each[-1] + 3 for each in offsets]
    do, q, k, v = (
        np.full((1, heads, totals[of_keys], DEPTH), np.nan, np.float16)
        for heads, of_keys in ((2, 0), (2, 0), (1, 1), (1, 1))
    )
    out, lse = np.full_like(q, np.nan), np.full(q.shape[:3], np.nan, np.float32)
    parts = []
    for s, (m, n) in enumerate(zip(rows, keys, strict=True)):
        given = operands(2, 1, m, n)
        of_rows, of_keys = (slice(each[s], each[s + 1]) for each in offsets)
        for x, part in zip((do, q, out, lse), (*given[:2], *results(given)), strict=True):
            x[:, :, of_rows] = part
        k[:, :, of_keys], v[:, :, of_keys] = given[2:]
        parts.append((given, (of_rows, of_keys, of_keys)))
    found = run((do, q, k, v), (out, lse), cu_seqlens=tuple(offsets), arch=arch)
    for given, places in parts:
        mine = [x[:, :, at] for x, at in zip(found, places, strict=True)]
        if 0 in given[1].shape:
            assert not any(x.any() for x in mine)
        else:
            figures = shares(mine, *given)
            assert max(figures.values()) <= ALLOWED, figures


def test_what_a_mask_hides_may_be_no_number():
    """A role tells the others that a gradient is to be computed again pair by pair."""
    given = operands(1, 1, 20, 20, NARROW)
    made = results(given, causal=True)
    exact = gradients(*given, np.float64, causal=True)[2]
    do, q, k, v = (x.copy() for x in given)
    q[:, :, 2], do[:, :, 3] = np.nan, np.inf
    with np.errstate(all="ignore"):
        dq, dk, dv = run((do, q, k, v), made, causal=True, schedule=PIPELINED)
    assert np.abs(dq[:, :, 4:] - exact[0][:, :, 4:]).max() < 1e-2
    for mine, wanted in zip((dk, dv), exact[1:], strict=True):
        assert np.abs(mine[:, :, 5:] - wanted[:, :, 5:]).max() < 1e-2
        assert np.isnan(mine[:, :, :3]).any(-1).all()


@pytest.mark.some(1)
@pytest.mark.parametrize("wanted", ["k", "v"])
def test_a_gradient_alone(wanted):
    given = operands(1, 1, 70, 70, NARROW)
    whole = run(given, results(given), schedule=PIPELINED)
    found = run(given, results(given), wanted=wanted, schedule=PIPELINED)
    place = {"k": 1, "v": 2}[wanted]
    assert np.array_equal(found[place], whole[place])
    assert all(found[other] is None for other in {0, 1, 2} - {place})
