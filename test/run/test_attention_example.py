"""The example of attention, with functions of its own and without, for both kinds of multiply."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

import cutedialect as cute

_SPEC = importlib.util.spec_from_file_location(
    "example_attention", Path(__file__).parents[2] / "examples" / "attention.py"
)
EXAMPLE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(EXAMPLE)


def operands(n):
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((1, 2, n, 64)).astype(np.float16) for _ in range(3))
    return q, k, v, np.empty_like(q), math.log2(math.e) / math.sqrt(64)


@pytest.mark.some(2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("edited", [False, True])
def test_the_example(edited, arch):
    arrays = operands(137)
    options = {"score": EXAMPLE.alibi, "mask": EXAMPLE.documents} if edited else {}
    options |= {"arch": arch, "backend": "emulator"}
    EXAMPLE.attention(*arrays, **options)
    q, k, v, out, _ = arrays
    assert np.abs(out - EXAMPLE.reference(q, k, v, edited)).max() < 3e-3
    kernel = cute.compile(EXAMPLE.attention, *arrays, **options)
    assert kernel.resources.spills == 0


@pytest.mark.some(2)
@pytest.mark.parametrize("way", ["exact", "guessed"])
@pytest.mark.parametrize("edited", [False, True])
def test_scores_that_grow_by_more_than_a_guess_allows(edited, way):
    q, k, v, out, scale = operands(300)
    k[:, :, 200:] *= 8
    q *= np.float16(6)
    options = {"score": EXAMPLE.alibi, "mask": EXAMPLE.documents} if edited else {}
    EXAMPLE.attention(
        q, k, v, out, scale, way=getattr(EXAMPLE, way), arch="sm_90a", backend="emulator", **options
    )
    assert np.abs(out - EXAMPLE.reference(q, k, v, edited)).max() < 3e-3


@pytest.mark.some(1)
@pytest.mark.parametrize("schedule", [f"{EXAMPLE.HOPPER}, overlap = turns", EXAMPLE.TURNS])
def test_edited_with_large_tiles(schedule):
    """Rows of which some see only a part of the keys in a block, and blocks that none sees."""
    arrays = operands(330)
    EXAMPLE.attention(
        *arrays,
        score=EXAMPLE.alibi,
        mask=EXAMPLE.documents,
        tile=(128, 128, 64),
        schedule=schedule,
        arch="sm_90a",
        backend="emulator",
    )
    q, k, v, out, _ = arrays
    assert np.abs(out - EXAMPLE.reference(q, k, v, True)).max() < 3e-3


def test_what_a_score_function_has_for_columns_is_computed_before_the_loop():
    kernel = cute.compile(
        EXAMPLE.attention, *operands(330), score=EXAMPLE.alibi, arch="sm_90a", backend="emulator"
    )
    before, _, loops = kernel.stages["cute-fuse"].partition("scf.for")
    assert "math.exp2" in before
    assert before.count("cute.coord 1") == 1
    assert "cute.coord 1" not in loops[: loops.index("math.fma")]
    assert loops.count("arith.sitofp") == 1  # how far the block is


def test_what_a_score_function_has_for_columns_of_a_block_comes_before_the_scores():
    def squares(keys, head):
        def change(s, row, key):
            behind = cute.coord(cute.zeros((1, keys)), 1, key - row).to(cute.f32)
            return s - behind * behind, 0.0

        return change

    kernel = cute.compile(
        EXAMPLE.attention, *operands(330), score=squares, arch="sm_90a", backend="emulator"
    )
    wait = "cute_nvgpu.wgmma_wait {pending = 1 : i32"
    trip, _, rest = kernel.stages["cute-synchronize"].partition(wait)
    ahead = trip[trip.rindex("cute_nvgpu.wgmma_commit") :]
    assert ahead.count("arith.sitofp") == 1
    assert ahead.count("cute.coord 1") == 1
    assert "arith.sitofp" not in rest[: rest.index("cute_nvgpu.wgmma_wait")]


def test_a_mask_function_leaves_loops_with_nothing_to_hide():
    """Blocks that some rows do not see from their start on, those between, and the last ones."""
    kernel = cute.compile(
        EXAMPLE.attention, *operands(330), mask=EXAMPLE.documents, arch="sm_90a", backend="emulator"
    )
    text = kernel.stages["cute-split-loops"]
    waits = text.split("cute_nvgpu.wgmma_wait {pending = 1 : i32")[1:]
    assert len(waits) == 3
    hides = ["0xff800000 : f32" in each[: each.index("cute.reduce")] for each in waits]
    assert hides == [True, False, True]


def test_a_score_function_can_hide_any_keys():
    """Those of the other parity: each row sees its own."""

    def alike(keys, head):
        def change(s, row, key):
            row = cute.coord(cute.zeros((s.shape[0], 1)), 0, row)
            key = cute.coord(cute.zeros((1, keys)), 1, key)
            return cute.where(row % 2 == key % 2, s, -cute.inf), 0.0

        return change

    arrays = operands(137)
    EXAMPLE.attention(*arrays, score=alike, arch="sm_90a", backend="emulator")
    q, k, v, out, _ = arrays
    for parity in (0, 1):
        mine = [each[:, :, parity::2] for each in (q, k, v)]
        exact = EXAMPLE.reference(*mine, False)
        assert np.abs(out[:, :, parity::2] - exact).max() < 3e-3


def test_it_says_whether_its_results_are_right(capsys):
    assert EXAMPLE.main() == 0
    assert "documents" in capsys.readouterr().out
