"""Where a trip computes on its own product, the next trip's multiplies work beside that: sums of
8-bit floats that are scaled block by block.
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

E4M3 = ml_dtypes.float8_e4m3fn
AHEAD = "tile = (128,128,128), overlap = yes, unroll = 2"


def product(sizes, schedule, seed=0):
    """A product with scales of blocks."""
    m, n, k = sizes
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(shape).astype(E4M3) for shape in ((m, k), (n, k)))
    columns, depth = (-(-extent // 128) for extent in sizes[1:])
    shapes = (m, depth), (columns, depth)
    scales = [rng.uniform(0.5, 2, shape).astype(np.float32) for shape in shapes]
    return cute.gemm(
        a, b.T, scale_a=scales[0], scale_b=scales[1].T, out_dtype="f32", schedule=schedule,
        arch="sm_90a", backend="emulator",
    )  # fmt: skip


def compiled(schedule, columns=None):
    deep = 1024
    return cute.compile(
        cute.gemm, cute.TensorSpec((None, deep), "e4m3"),
        cute.TensorSpec((deep, columns), "e4m3", (1, None)),
        scale_a=cute.TensorSpec((None, deep // 128), "f32"),
        scale_b=cute.TensorSpec((deep // 128, None), "f32", (1, None)),
        schedule=schedule, arch="sm_90a",
    )  # fmt: skip


@pytest.mark.parametrize("depth", [64, 256, 384])
def test_trips_of_any_number_give_the_same_sums(depth):
    """One trip, an even and an odd number of them, and a ragged one."""
    sizes = 128, 128, depth
    plain = product(sizes, "tile = (128,128,128)", depth)
    assert np.array_equal(product(sizes, AHEAD, depth), plain)


def test_several_tiles_follow_each_other():
    plain = product((200, 256, 640), "tile = (128,128,128)")
    assert np.array_equal(product((200, 256, 640), AHEAD), plain)


MARKS = re.compile(r"wgmma\.mma_async|wgmma\.wait_group|fma\.rn\.f32|mov\.f32 %f\d+, %f")


def loop_of(kernel):
    """What the loop over K does, in order."""
    lines = kernel.ptx.splitlines()
    labels = {line.partition(":")[0]: at for at, line in enumerate(lines) if line.startswith("$L_")}
    loops = []
    for at, line in enumerate(lines):
        branch = re.search(r"bra (\$L_\w+_body_\d+);", line)
        if branch and labels[branch[1]] < at:
            body = [
                m.group() for each in lines[labels[branch[1]] : at] if (m := MARKS.search(each))
            ]
            loops += [body] if "wgmma.mma_async" in body else []
    return min(loops, key=len)


def once(words):
    """Equal things that follow each other once."""
    return [word for at, word in enumerate(words) if at == 0 or words[at - 1] != word]


def test_both_accumulators_take_turns():
    """Nothing moves but three scales of each trip, and the assembler serializes no multiply."""
    kernel = compiled(AHEAD)
    words = loop_of(kernel)
    multiplies = [word for word in words if not word.startswith("mov")]
    assert once(multiplies) == 2 * ["wgmma.mma_async", "fma.rn.f32", "wgmma.wait_group"]
    assert len(words) - len(multiplies) <= 6
    assert kernel.resources.spills in (None, 0)
    assert not [each for each in kernel.remarks if "serialize" in each.message]


def test_without_it_sums_are_scaled_behind_their_multiplies():
    """By three scales that the trip before has loaded, so that no multiply waits for memory."""
    words = loop_of(compiled("tile = (128,128,128), overlap = no"))
    moves = [word for word in words if word.startswith("mov")]
    assert once([word for word in words if word not in moves]) == [
        "wgmma.mma_async", "wgmma.wait_group", "fma.rn.f32",
    ]  # fmt: skip
    assert words[-3:] == moves
    assert len(moves) == 3


def test_ctas_that_share_a_tile_load_the_scales_of_their_own_steps():
    whole = product((128, 128, 1024), "tile = (128,128,128), overlap = no")
    shared = product((128, 128, 1024), "tile = (128,128,128), overlap = no, split_k = 2")
    assert np.allclose(shared, whole, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("tile = (256,128,128), overlap = yes, unroll = 2", r"registers of a thread for them, got"),
        ("tile = (128,128,128), overlap = yes, unroll = 2, stages = 1", "one stage holds no trip"),
    ],
)
def test_what_does_not_fit_is_told(schedule, why):
    kernel = compiled(schedule)
    assert re.search(why, " ".join(each.message for each in kernel.remarks))
