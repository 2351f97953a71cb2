"""Products of floats of 6 bits that bytes hold without gaps (mxfp6 on sm_100a and its family): TMA
spreads them where `tcgen05.mma` reads them, against NumPy, exact on small integers.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.emulator import tensor_map

TYPES: dict[str, Any] = {"e2m3": ml_dtypes.float6_e2m3fn, "e3m2": ml_dtypes.float6_e3m2fn}
OPTIONS: dict[str, Any] = {"arch": "sm_100a", "backend": "emulator", "out_dtype": "f32"}
FORMATS = [("e2m3", "e2m3"), ("e2m3", "e3m2"), ("e3m2", "e3m2")]


def packed(elements):
    """Rows (rows, depth) as the manual has them: four elements in three bytes, low bits first."""
    bits = np.unpackbits(elements.view(np.uint8)[..., None], axis=-1, bitorder="little")[..., :6]
    whole = -elements.shape[-1] % 128
    bits = np.pad(bits, [(0, 0)] * (elements.ndim - 1) + [(0, whole), (0, 0)])
    return np.packbits(bits.reshape(*elements.shape[:-1], -1), axis=-1, bitorder="little")


def drawn(name, shape, seed, scaled=True):
    """An operand (..., rows, depth): what it holds packed, panels of scales or None, and what both
    stand for.
    """
    draw = np.random.default_rng(seed)
    *batch, rows, depth = shape
    values = draw.integers(-3, 4, shape).astype(TYPES[name])
    operand = cute.packed(packed(values), name)
    if not scaled:
        return operand, None, values.astype(np.float64)
    count, across, down = -(-depth // 32), -(-depth // 128), -(-rows // 128)
    numbers = np.ones((*batch, down * 128, 4 * across))
    numbers[..., :rows, :count] = np.exp2(draw.integers(-3, 4, (*batch, rows, count)))
    laid = numbers.reshape(*batch, down, 4, 32, across, 4)
    modes = [*range(len(batch)), *(len(batch) + mode for mode in (0, 3, 2, 1, 4))]
    panels = np.ascontiguousarray(laid.transpose(modes)).astype(ml_dtypes.float8_e8m0fnu)
    wide = values.astype(np.float64) * numbers[..., :rows, :count].repeat(32, -1)[..., :depth]
    return operand, panels, wide


def holds(m, n, k, formats=("e2m3", "e3m2"), scaled=True, batch=(), **options):
    a, scale_a, left = drawn(formats[0], (*batch, m, k), 0, scaled)
    b, scale_b, right = drawn(formats[1], (*batch, n, k), 1, scaled)
    given: dict[str, Any] = OPTIONS | {"scale_a": scale_a, "scale_b": scale_b} | options
    got: Any = cute.gemm(a, b.T, **given)
    return np.array_equal(got, (left @ right.swapaxes(-1, -2)).astype(np.float32))


@pytest.mark.parametrize("name", TYPES)
def test_pack_has_the_order_of_the_manual(name):
    codes = np.random.default_rng(0).integers(0, 64, (5, 200)).astype(np.uint8)
    for given in (codes, codes.view(TYPES[name])):
        held = cute.pack(given.T, name)
        assert np.array_equal(held.array.T, packed(codes))
        assert held.shape == (256, 5)
        assert held.T.text == f"{name} -1 4:1"


# With two stages: none, a part of a trip, one, as many as stages, one more, many.
@pytest.mark.some(2)
@pytest.mark.parametrize("k", [0, 32, 100, 128, 256, 384, 640])
@pytest.mark.parametrize("scaled", [True, False])
def test_trips(k, scaled):
    assert holds(130, 140, k, scaled=scaled, schedule="tile = (128,128,128), stages = 2")


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("shape", "schedule"),
    [
        ((1, 1, 128), None),
        ((200, 300, 416), "tile = (128,256,256)"),
        ((300, 100, 256), "tile = (256,128,128), cluster = (2,1)"),
        ((300, 520, 640), "cluster = (2,2)"),
        ((300, 260, 640), "split_k = 2"),
        ((300, 100, 288), "swap_ab = yes"),
        ((300, 260, 160), "scheduler = persistent, stages = 2"),
    ],
)
@pytest.mark.parametrize("formats", FORMATS)
def test_shapes_and_schedules(formats, shape, schedule):
    m, n, k = shape
    assert holds(m, n, k, formats, schedule=schedule)


@pytest.mark.some(2)
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("formats", FORMATS)
def test_every_stage_means_the_same(formats, scaled):
    assert holds(140, 130, 288, formats, scaled, backend="interpreter")


def test_batches():
    assert holds(140, 150, 160, batch=(2,))


@pytest.mark.parametrize("name", TYPES)
def test_what_quantize_gives(name: Any):
    """The product of bytes by e4m3, bit by bit: that has all of their numbers."""
    draw = np.random.default_rng(1)
    left, right = (draw.standard_normal((rows, 416)).astype(np.float32) for rows in (200, 140))
    format: Any = f"mxfp6_{name}"
    (a, scale_a), (b, scale_b) = (
        cute.quantize(each, format, swizzled=True, backend="emulator") for each in (left, right)
    )
    given: dict[str, Any] = OPTIONS | {"scale_a": scale_a, "scale_b": scale_b}
    got: Any = cute.gemm(cute.pack(a.T, name).T, cute.pack(b.T, name), **given)
    e4m3 = ml_dtypes.float8_e4m3fn
    bytes_: Any = cute.gemm(a.astype(e4m3), b.astype(e4m3).T, **given)
    assert np.array_equal(got, bytes_)
    step = 2.0 ** -(3 if name == "e2m3" else 2)
    assert (np.abs(got - left @ right.T) <= 2 * step * (np.abs(left) @ np.abs(right).T)).all()


@cute.kernel
def program(A, B, SA, SB, D):
    m, n = cute.tile_index(D, (128, 128))
    acc = cute.zeros((128, 128))
    a, b = cute.local_tile(A, (128, 96), (m, None)), cute.local_tile(B, (96, 128), (None, n))
    sa, sb = cute.local_tile(SA, (1, 128), (m, None)), cute.local_tile(SB, (1, 128), (n, None))
    for k in cute.range(a.tiles):
        cute.scaled_gemm(a[k], b[k], acc, sa[k], sb[k], "mxfp6_e2m3")
    cute.copy(acc, cute.local_tile(D, (128, 128), (m, n)))


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
def test_a_program(backend):
    a, scale_a, left = drawn("e2m3", (200, 384), 0)
    b, scale_b, right = drawn("e2m3", (140, 384), 1)
    d = np.zeros((200, 140), np.float32)
    words = cute.scale_words(scale_a), cute.scale_words(scale_b)
    program(a.array, b.array.T, *words, d, arch="sm_100a", backend=backend)
    assert np.array_equal(d, (left @ right.T).astype(np.float32))


def test_gaps_and_what_lies_outside():
    """A box has 12 bytes of each 16, zeros behind the last row, and counts no gaps."""
    held = np.arange(5 * 192, dtype=np.uint8).reshape(5, 192)
    facts: dict[str, Any] = {"dtype": "b6x16_p32", "dims": (256, 5), "strides": (192,)}
    facts |= {"box": (128, 4), "swizzle": "128B", "array": held}
    map_ = tensor_map.from_argument("A", facts, 0, held.nbytes)
    box = map_.fetch(map_.elements(held.reshape(-1), 0), (128, 3)).reshape(4, 8, 16)
    assert np.array_equal(box[:2, :, :12].reshape(2, 96), held[3:, 96:])
    assert not box[2:, :, :12].any()
    assert box[..., 12:].all()
    assert map_.copy_bytes == 4 * 96
    for wrong, message in (
        ({"dims": (192, 5)}, "dims"),
        ({"box": (64, 4)}, "box"),
        ({"swizzle": "64B"}, "swizzle"),
        ({"strides": (208,)}, "multiple of 32"),
    ):
        with pytest.raises(Exception, match=message):
            tensor_map.from_argument("A", facts | wrong, 0, held.nbytes)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a half of what TMA brings": ({"schedule": "tile = (128,128,64)"}, "multiple"),
    "threads": ({"schedule": "loads = threads"}, "that TMA brings"),
    "every warp": ({"schedule": "roles = uniform"}, "tcgen05"),
    "sm_120a": ({"arch": "sm_120a"}, "expected a byte for each element on sm_120a"),
    "sm_90a": ({"arch": "sm_90a"}, "expected a byte for each element on sm_90a"),
}


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("which", REFUSED)
def test_refusals(which, scaled):
    options, message = REFUSED[which]
    with pytest.raises((ValueError, cute.CompileError), match=message):
        holds(130, 140, 256, scaled=scaled, **options)


def test_refused_operands():
    a, b = (drawn("e2m3", (rows, 256), rows, scaled=False)[0] for rows in (130, 140))
    with pytest.raises(TypeError, match="both are packed"):
        cute.gemm(np.ones((130, 256), ml_dtypes.float8_e4m3fn), b.T, **OPTIONS)
    with pytest.raises(ValueError, match="packed along K"):
        cute.gemm(a, cute.packed(b.array.T, "e2m3"), **OPTIONS)
    with pytest.raises(ValueError, match="packed_a: expected elements of 6 bits"):
        cute.gemm(a.array, b.array.T, packed_a="u4 -1", packed_b="e2m3 -2", **OPTIONS)
    with pytest.raises(ValueError, match="order: expected None"):
        cute.packed(a.array, "e2m3", order="awq")
    with pytest.raises(TypeError, match="q: expected u8 or e2m3"):
        cute.pack(np.ones((4, 4), np.float32), "e2m3")
    elements = np.ones((130, 256), TYPES["e2m3"])
    with pytest.raises(ValueError, match="puts four in three bytes"):
        cute.gemm(elements, elements.T, **OPTIONS)


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a", "sm_100f", "sm_110a"])
@pytest.mark.parametrize("scaled", [True, False])
def test_assembly(arch, scaled, assembles):
    a, scale_a, _ = drawn("e2m3", (512, 512), 0, scaled)
    b, scale_b, _ = drawn("e3m2", (512, 512), 1, scaled)
    kernel = cute.compile(
        *(cute.gemm, a, b.T),
        scale_a=scale_a,
        scale_b=scale_b,
        arch=arch,
        backend="emulator",
        schedule="tile = (128,256,128)",
    )
    kind = "mxf8f6f4.block_scale.block32" if scaled else "f8f6f4"
    assert kernel.ptx.count(f"tcgen05.mma.cta_group::1.kind::{kind} ") == 128 // 32
    # Three quarters of a byte each, and panels of scales.
    brought = (128 + 256) * 96 + (512 + 1024) * scaled
    assert f", {brought};" in kernel.ptx
    assert assembles(kernel.ptx, arch)
