"""Tensor copies in im2col mode against a reference that walks over pixels one by one: corners,
steps, offsets, images that end, channels that hang over, and the rules.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError

SMEM = 8192
# Shape (images..., channels), channels and pixels of a copy, lower and upper corners, steps,
# offsets, and the place of the first pixel among those of the walk. Corners, steps and offsets are
# innermost first.
CASES = {
    "a filter of 3 x 3": ((2, 5, 7, 16), (8, 40), (-1, -1), (-1, -1), (1, 1), (2, 0), 11),
    "behind the last image": ((2, 3, 4, 8), (8, 64), (0, 0), (0, 0), (1, 1), (0, 0), 5),
    "steps": ((3, 9, 8, 16), (16, 24), (-1, 0), (0, -2), (2, 3), (1, 2), 7),
    "a line": ((4, 11, 8), (8, 32), (-2,), (1,), (1,), (3,), 9),
    "volumes": ((2, 3, 4, 5, 8), (8, 64), (-1, 0, -1), (0, -1, 1), (1, 2, 1), (1, 0, 2), 3),
    "channels behind the last": ((1, 4, 4, 24), (16, 16), (0, 0), (0, 0), (1, 1), (0, 0), 0),
}


def described(
    array: np.ndarray, copied: tuple[int, int], lower: Any, upper: Any, steps: Any
) -> Any:
    """A map of the whole array."""
    return {
        "array": array, "dtype": "f16", "dims": array.shape[::-1],
        "strides": array.strides[-2::-1], "box": (*copied, *(1,) * (array.ndim - 2)),
        "element_strides": (1, *steps, 1), "swizzle": "none", "interleave": "none",
        "oob_fill": "zero", "lower": lower, "upper": upper,
    }  # fmt: skip


def walk(shape: tuple[int, ...], lower: Any, upper: Any, steps: Any) -> list[tuple[int, ...]]:
    """The pixels of all images in order, outermost first, and some behind the last image."""
    ranges = [
        range(low, extent + high, step)
        for extent, low, high, step in zip(shape[-2:0:-1], lower, upper, steps, strict=True)
    ]
    return list(itertools.product(range(shape[0] + 4), *ranges[::-1]))


def load(run_maps: Any, map_: Any, place: tuple[int, ...], offsets: tuple[int, ...]) -> np.ndarray:
    """Shared memory after a copy from a place, innermost coordinate first."""
    out, rank = np.zeros(SMEM, np.uint8), len(place)
    moves = "".join(f"mov.u32 %r{40 + i}, {at};" for i, at in enumerate(place))
    moves += "".join(f"cvt.u16.u32 %rs{i + 1}, {at};" for i, at in enumerate(offsets))
    registers = ", ".join(f"%r{40 + i}" for i in range(rank))
    moved = ", ".join(f"%rs{i + 1}" for i in range(len(offsets)))
    channels, pixels = map_["box"][:2]
    body = f"""
    .shared .align 1024 .b8 sm[{SMEM}]; .shared .align 8 .b64 bar;
    mov.u32 %r2, bar; mov.u32 %r3, sm; mov.u32 %r4, %r0; {moves}
    FILL: shl.b32 %r5, %r4, 2; add.u32 %r5, %r5, %r3; st.shared.b32 [%r5], 0;
    add.u32 %r4, %r4, 32; setp.lt.u32 %p2, %r4, {SMEM // 4}; @%p2 bra FILL;
    @%p31 mbarrier.init.shared.b64 [%r2], 1;
    fence.proxy.async;
    bar.sync 0;
    @!%p31 bra WAIT;
    mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {2 * channels * pixels};
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes LINE
    WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0;
    @!%p3 bra WAIT;
    mov.u32 %r4, %r0;
    COPY: shl.b32 %r5, %r4, 2; cvt.u64.u32 %rd5, %r5; add.s64 %rd5, %rd5, %rd0;
    add.u32 %r5, %r5, %r3; ld.shared.b32 %r6, [%r5]; st.global.b32 [%rd5], %r6;
    add.u32 %r4, %r4, 32; setp.lt.u32 %p2, %r4, {SMEM // 4}; @%p2 bra COPY;"""
    line = f"[%r3], [%rd100, {{{registers}}}], [%r2], {{{moved}}};"
    # The encoder of the driver that tests have knows tiled maps alone.
    run_maps(body.replace("LINE", line), [map_], [out], gpu=False)
    return out[: 2 * channels * pixels].view(np.float16).reshape(pixels, channels)


@pytest.mark.parametrize("name", CASES)
def test_pixels_follow_each_other(run_maps, rng, name):
    shape, copied, lower, upper, steps, offsets, first = CASES[name]
    array = rng.integers(1, 100, shape).astype(np.float16)
    pixels = walk(shape, lower, upper, steps)
    channel = 16 if name.startswith("channels") else 0
    image, *place = pixels[first]
    map_ = described(array, copied, lower, upper, steps)
    found = load(run_maps, map_, (channel, *place[::-1], image), offsets)
    expected = np.zeros(copied[::-1], np.float16)
    for number, (image, *at) in enumerate(pixels[first : first + copied[1]]):
        at = [a + b for a, b in zip(at, offsets[::-1], strict=True)]
        if image < shape[0] and all(0 <= a < n for a, n in zip(at, shape[1:-1], strict=True)):
            line = array[(image, *at)][channel : channel + copied[0]]
            expected[number, : len(line)] = line
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("place", "offsets", "what"),
    [
        ((0, -2, 0, 0), (0, 0), r"a pixel of the bounding box -1..5 in steps of 1, got -2"),
        ((0, 0, 4, 0), (0, 0), r"a pixel of the bounding box -1..3 in steps of 1, got 4"),
        ((0, 0, 0, 0), (256, 0), "expected offsets up to 255, got 256"),
        ((4, 0, 0, 0), (0, 0), "expected a multiple of 16 bytes"),
    ],
)
def test_what_the_hardware_stops_at_is_an_error(run_maps, rng, place, offsets, what):
    array = rng.integers(1, 100, (2, 5, 7, 16)).astype(np.float16)
    map_ = described(array, (8, 16), (-1, -1), (-1, -1), (1, 1))
    with pytest.raises(EmulatorError, match=what) as caught:
        load(run_maps, map_, place, offsets)
    assert caught.value.code == "CD-E6"


def test_a_map_of_the_other_mode_is_refused(run_maps, rng):
    array = rng.integers(1, 100, (2, 5, 7, 16)).astype(np.float16)
    map_ = described(array, (8, 16), (), (), (1, 1))
    with pytest.raises(EmulatorError, match="im2col mode with a tensor map of tile mode"):
        load(run_maps, map_, (0, 0, 0, 0), (0, 0))


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"lower": (-129, 0)}, r"corners in -128..127"),
        ({"lower": (0,)}, "corners of 2 dimensions"),
        ({"box": (8, 16, 2, 1)}, "a box of channels and pixels"),
    ],
)
def test_rules_of_corners(run_maps, rng, changed, what):
    array = rng.integers(1, 100, (2, 5, 7, 16)).astype(np.float16)
    map_ = described(array, (8, 16), (-1, -1), (-1, -1), (1, 1)) | changed
    with pytest.raises(EmulatorError, match=what):
        load(run_maps, map_, (0, 0, 0, 0), (0, 0))
