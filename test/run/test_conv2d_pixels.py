"""Convolutions whose pixels TMA brings in im2col mode: which do, beside NumPy at all numbers of
trips, with schedules that cut the tiles in other ways, and what a program of a user sees of it.
"""

from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.choosing.choose import choose
from cutedialect.choosing.gemm_problem import Problem, tiles_of
from cutedialect.choosing.gemm_schedules import GEMM_SPACE
from cutedialect.choosing.need import NONE
from cutedialect.frontend.taps import Phases, Taps


def integers(shape, seed=0, dtype: Any = np.float16):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


def spans(extents, padding, stride, taps):
    """For each tap the pixels that it finds in images with a border."""
    counts = [
        (extent + 2 * padding - count) // stride + 1
        for extent, count in zip(extents, taps, strict=True)
    ]
    for tap in np.ndindex(*taps):
        yield (
            tap,
            tuple(
                slice(at, at + stride * (count - 1) + 1, stride)
                for at, count in zip(tap, counts, strict=True)
            ),
        )


def results(x, w, dy=None, padding=0, stride=1) -> Any:
    """The convolution, and the gradients of x and w for one of it."""
    border = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    whole = np.pad(x.astype(np.float64), border)
    found = list(spans(x.shape[1:3], padding, stride, w.shape[1:3]))
    y = sum(whole[:, a, b] @ w[:, r, s].T.astype(np.float64) for (r, s), (a, b) in found)
    if dy is None:
        return y
    dx, dw = np.zeros(whole.shape), np.zeros(w.shape)
    for (r, s), (a, b) in found:
        dx[:, a, b] += dy @ w[:, r, s].astype(np.float64)
        dw[:, r, s] = np.einsum("npqf,npqc->fc", dy, whole[:, a, b])
    return y, dx[:, padding : padding + x.shape[1], padding : padding + x.shape[2]], dw


# N, H, W, C, F, taps, padding, stride.
TRIPS = {f"{count} trips": ((1, 6, 5, 64 * count), 16, 1, 0, 1) for count in (1, 2, 3, 4, 5, 9)} | {
    "channels that fill no tile": ((2, 7, 9, 40), 24, 3, 1, 1),
    "images that end in tiles": ((4, 5, 7, 16), 72, 3, 1, 1),
    "steps": ((2, 11, 9, 72), 40, 3, 1, 2),
    "more steps than taps": ((2, 7, 9, 24), 8, 2, 0, 3),
    "steps of 3": ((1, 13, 14, 16), 8, 5, 2, 3),
    "no pixel": ((0, 5, 5, 16), 8, 3, 1, 1),
}
FOUR = "tile = (64,64,64), stages = 4"
CASES = [(name, FOUR) for name in TRIPS] + [
    ("images that end in tiles", schedule)
    for schedule in (
        None,
        "tile = (128,64,64), cluster = (2,1)",
        "tile = (64,64,32), roles = alternate",
        "tile = (256,64,64)",
        "tile = (64,64,64), split_k = 3",
        "loads = threads",
    )
]


@pytest.mark.some(5)
@pytest.mark.parametrize(("name", "schedule"), CASES)
def test_results(name, schedule):
    shape, filters, taps, padding, stride = TRIPS[name]
    x, w = integers(shape), integers((filters, taps, taps, shape[3]), 1)
    dy = integers(results(x, w, None, padding, stride).shape, 2, np.float64)
    want = results(x, w, dy, padding, stride)
    given = {"arch": "sm_90a", "backend": "emulator", "schedule": schedule, "out_dtype": "f32"}
    given |= {"padding": padding, "stride": stride}
    dy = dy.astype(np.float16)
    np.testing.assert_array_equal(cute.conv2d(x, w, **given), want[0])
    np.testing.assert_array_equal(cute.conv2d_dgrad(dy, w, shape[1:3], **given), want[1])
    np.testing.assert_array_equal(cute.conv2d_wgrad(x, dy, taps, **given), want[2])


def ptx_of(call, *given, **options):
    specs = [cute.TensorSpec(x, "f16") if isinstance(x, tuple) else x for x in given]
    return cute.compile(call, *specs, arch="sm_90a", **options).ptx


def test_which_pixels_come_by_tma():
    x, w, y = (4, 14, 14, 64), (64, 3, 3, 64), (4, 14, 14, 64)
    assert ".im2col." in ptx_of(cute.conv2d, x, w, padding=1)
    assert ".im2col." in ptx_of(cute.conv2d, x, w, padding=1, stride=2, dilation=2)
    assert ".im2col." in ptx_of(cute.conv2d_dgrad, y, w, 14, padding=1)
    assert ".im2col." in ptx_of(cute.conv2d_wgrad, x, y, 3, padding=1)
    assert ".im2col." in ptx_of(cute.conv2d_dgrad, (4, 7, 7, 64), w, 14, padding=1, stride=2)
    # Taps of a dilation skip pixels of a stride's result; rows of 12 bytes, corners of more than 7
    # bits, and steps of more than 8 pixels are none of TMA's.
    narrow = (cute.TensorSpec(shape, "f16", align=4) for shape in ((4, 14, 14, 6), (64, 3, 3, 6)))
    of_others = [
        ptx_of(cute.conv2d_dgrad, (4, 7, 7, 64), w, 14, padding=2, stride=2, dilation=2),
        ptx_of(cute.conv2d, *narrow, padding=1),
        ptx_of(cute.conv2d, (1, 300, 300, 64), (64, 2, 2, 64), padding=130, dilation=2),
        ptx_of(cute.conv2d, (1, 40, 40, 64), (64, 3, 3, 64), stride=9),
    ]
    assert not any(".im2col." in ptx for ptx in of_others)
    assert all("wgmma" in ptx for ptx in of_others)


def test_taps_tell_what_tma_walks_over():
    taps = Taps((3, 2), (2, 1), (2, 1), (-1, 0), ends=(-3, -1))
    assert taps.window == ((-1, 0), (-3, -1), (2, 1))
    turned = Taps((3, 2), (1, 1), (-2, -1), (1, 0), ends=(-1, 0))
    assert turned.window == ((-3, -1), (-1, 0), (1, 1))
    assert turned.before == (4, 1)
    assert Taps((3, 3), (1, 1), (1, 1), (-1, -1)).window is None
    assert Taps((3, 3), (1, 1), (1, 1), (-1, -1), (2, 2), (-1, -1)).window is None
    assert Taps((2, 2), (1, 1), (256, 1), (0, 0), ends=(-1, -1)).window is None


@pytest.mark.parametrize(
    ("count", "stride", "padding"), [(3, 2, 1), (2, 3, 0), (5, 3, 2), (1, 2, 0)]
)
def test_phases_have_all_pixels_and_taps(count, stride, padding):
    """Beside a search for the taps of each pixel."""
    phases = Phases((count, 1), (stride, 1), (padding, 0), (13, 1), (7, 1))
    found = {
        phases.pixel(0, z) + stride * i: [
            (z + stride * j, phases.first(0, z) + i - j) for j in range(phases.taps_of(0, z))
        ]
        for z in range(stride)
        for i in range(phases.places(0, 13))
    }
    for pixel in range(13):
        taps = [tap for tap in range(count) if (pixel + padding - tap) % stride == 0]
        assert found[pixel] == [(tap, (pixel + padding - tap) // stride) for tap in taps]
    assert phases.taps.starts[0] == min(
        at - pixel // stride for pixel in range(stride) for _, at in found[pixel]
    )


def test_clusters_lie_along_the_other_operand():
    forward = Problem(100352, 256, 2304, 1, 16, 16, may_swap=False, tap=256)
    chosen = choose(GEMM_SPACE, (forward,))
    assert chosen.cluster is not None
    assert chosen.cluster[1] == 1
    ranked = tiles_of(*GEMM_SPACE.ranked((forward,), None, NONE))
    assert ((ranked["down"] == 2) & (ranked["right"] == 1)).any()
    assert not (ranked["swapped"] | (ranked["right"] > 1)).any()
    of_pixels = Problem(256, 256, 100352, 9, 16, 16, across=(True, True), may_swap=False, tap=-1)
    ranked = tiles_of(*GEMM_SPACE.ranked((of_pixels,), None, NONE))
    assert (ranked["parts"] > 1).any()
    assert not (ranked["down"] > 1).any()
    narrow = Problem(100352, 64, 576, 1, 16, 16, may_swap=False, tap=64)
    assert set(tiles_of(*GEMM_SPACE.ranked((narrow,), None, NONE))["depth"]) == {64}
