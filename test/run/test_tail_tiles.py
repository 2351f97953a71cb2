"""Tiles that do not fill the last round of a walk, shared along K (`scheduler = tail`): exact on
integers for any number of tiles, and again in the next launch.
"""

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

RNG = np.random.default_rng(2204)
# The emulator has 4 multiprocessors: so many CTAs walk over the tiles.
ROUND = 4


def _gemm(m, n, k, schedule):
    a, b = (RNG.integers(-2, 3, shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (n, k)))
    schedule += ", scheduler = tail"
    wanted = a.astype(np.float32) @ b.T.astype(np.float32)
    for _ in range(2):
        made = cute.gemm(
            a, b.T, schedule=schedule, out_dtype="f32", arch="sm_90a", backend="emulator"
        )
        np.testing.assert_array_equal(made, wanted)


# Fewer tiles than CTAs, and than CTAs share them; whole rounds; rounds with a rest of 1, 2 and 3,
# whose parts fill less than a round, and more; fewer steps than parts.
@pytest.mark.parametrize(
    ("tiles", "steps", "parts"),
    [
        ((1, 1), 7, 3),
        ((3, 3), 2, 4),
        *[
            pytest.param(*each, marks=pytest.mark.long)
            for each in (((1, 3), 5, 2), ((2, 4), 3, 2), ((3, 2), 5, 3), ((7, 1), 5, 2))
        ],
    ],
)
def test_products_are_exact_for_any_number_of_tiles(tiles, steps, parts):
    m, n = (64 * each - 8 * int(RNG.integers(0, 8)) for each in tiles)
    _gemm(m, n, 64 * steps - 8, f"tile = (64,64,64), roles = specialized, split_k = {parts}")


@pytest.mark.parametrize(
    "more",
    [
        "cluster = (2,1)",
        pytest.param("roles = alternate", marks=pytest.mark.long),
        pytest.param("swap_ab = yes", marks=pytest.mark.long),
        pytest.param("roles = uniform", marks=pytest.mark.long),
        pytest.param("reduction = atomic", marks=pytest.mark.long),
    ],
)
def test_tails_of_other_schedules(more):
    _gemm(64 * 6, 64 * 3 - 8, 640, f"tile = (64,64,64), {more}, split_k = 2")


def test_what_it_does_not_share_is_refused():
    a = np.zeros((64, 64), np.float16)
    for more, message in (
        ("split_k = 2, reduction = cluster", "expected the scheduler single or persistent"),
    ):
        with pytest.raises(cute.CompileError, match=message):
            cute.compile(
                cute.gemm, a, a, arch="sm_90a",
                schedule=f"tile = (64,64,64), roles = specialized, scheduler = tail, {more}",
            )  # fmt: skip
    with pytest.raises(cute.CompileError, match="expected one tensor"):
        cute.compile(
            cute.grouped_gemm, [a], [a], arch="sm_90a",
            schedule="tile = (64,64,64), roles = specialized, scheduler = tail, split_k = 2",
        )  # fmt: skip
