"""`cute.gemm` with scales of blocks on sm_120a and its family, whose warps multiply them by
`mma.sync`: mxfp8, mxfp6, mxfp4 and nvfp4 against NumPy, exact on small integers.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

# Elements, scales, elements that share one, elements of a byte, and the instruction.
FORMATS: dict[str, tuple[Any, Any, int, int, str]] = {
    "mxfp8": (
        *(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, 32, 1),
        "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e4m3.f32.ue8m0",
    ),
    "mxfp8_e5m2": (
        *(ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu, 32, 1),
        "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e5m2.e5m2.f32.ue8m0",
    ),
    "mxfp6_e2m3": (
        *(ml_dtypes.float6_e2m3fn, ml_dtypes.float8_e8m0fnu, 32, 1),
        "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e2m3.e2m3.f32.ue8m0",
    ),
    "mxfp6_e3m2": (
        *(ml_dtypes.float6_e3m2fn, ml_dtypes.float8_e8m0fnu, 32, 1),
        "m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e3m2.e3m2.f32.ue8m0",
    ),
    "mxfp4": (
        *(ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu, 32, 2),
        "m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0",
    ),
    "nvfp4": (
        *(ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, 16, 2),
        "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
    ),
}
OPTIONS: dict[str, Any] = {"arch": "sm_120a", "backend": "emulator", "out_dtype": "f32"}


def drawn(format, shape, seed):
    """Elements (..., rows, depth) as arrays have them, their panels, and what both stand for: small
    integers times powers of two, each scale another one.
    """
    element, scale, block, packed, _ = FORMATS[format]
    draw = np.random.default_rng(seed)
    *batch, rows, depth = shape
    values = draw.integers(-3, 4, shape).astype(element)
    count, across = -(-depth // block), -(-depth // (4 * block))
    down = -(-rows // 128)
    numbers = np.ones((*batch, down * 128, 4 * across))
    numbers[..., :rows, :count] = np.exp2(draw.integers(-3, 4, (*batch, rows, count)))
    laid = numbers.reshape(*batch, down, 4, 32, across, 4)
    modes = [*range(len(batch)), *(len(batch) + mode for mode in (0, 3, 2, 1, 4))]
    panels = np.ascontiguousarray(laid.transpose(modes)).astype(scale)
    wide = values.astype(np.float64) * numbers[..., :rows, :count].repeat(block, -1)[..., :depth]
    if packed == 2:
        codes = values.view(np.uint8)
        values = codes[..., ::2] | codes[..., 1::2] << 4
    return values, panels, wide


def differs(format, m, n, k, **options):
    """How many elements of a product are not those of NumPy."""
    a, scale_a, left = drawn(format, (m, k), 0)
    b, scale_b, right = drawn(format, (n, k), 1)
    got = cute.gemm(a, b.T, scale_a=scale_a, scale_b=scale_b, **(OPTIONS | options))
    return int((got != (left @ right.T).astype(np.float32)).sum())


# Two stages of mxfp8, four of the others, of 128 elements: none, part of a trip, one, up to as many
# as stages, one more, many.
@pytest.mark.some(8)
@pytest.mark.parametrize("k", [0, 32, 96, 128, 256, 512, 640, 1184])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("roles", ["uniform", "specialized"])
def test_trips(format, k, roles):
    assert differs(format, 130, 140, k, schedule=f"roles = {roles}") == 0


@pytest.mark.some(6)
@pytest.mark.parametrize(
    ("shape", "schedule"),
    [
        ((1, 1, 128), None),
        ((392, 184, 0), "tile = (128,256,256), warps = (2,4)"),
        ((200, 300, 416), None),
        ((200, 300, 416), "warps = (1,4)"),
        ((200, 300, 416), "warps = (4,1)"),
        ((200, 130, 288), "warps = (8,1)"),
        ((130, 200, 288), "warps = (1,8)"),
        ((130, 200, 288), "warps = (1,16)"),
        ((300, 260, 288), "tile = (256,128,256), warps = (4,2)"),
        ((100, 300, 544), "tile = (128,256,128), warps = (2,4), stages = 2"),
        ((300, 100, 288), "swap_ab = yes"),
        ((130, 140, 544), "split_k = 2"),
        ((300, 260, 160), "scheduler = persistent"),
        ((200, 300, 544), "roles = specialized, warps = (2,4)"),
        ((300, 260, 160), "roles = specialized, scheduler = persistent"),
        ((130, 140, 544), "roles = specialized, split_k = 2"),
    ],
)
@pytest.mark.parametrize("format", FORMATS)
def test_shapes_and_schedules(format, shape, schedule):
    """Warps share panels by 8 to 256 rows each."""
    assert differs(format, *shape, schedule=schedule) == 0


@pytest.mark.parametrize("format", FORMATS)
def test_every_stage_means_the_same(format):
    assert differs(format, 140, 130, 288, backend="interpreter") == 0


@pytest.mark.some(2)
@pytest.mark.parametrize("format", FORMATS)
def test_batches_and_what_follows(format):
    a, scale_a, left = drawn(format, (2, 140, 160), 0)
    b, scale_b, right = drawn(format, (150, 160), 1)
    bias, c = np.arange(150, dtype=np.float32), np.ones((2, 140, 150), np.float32)
    more: dict[str, Any] = {"alpha": 0.5, "c": c, "beta": 2.0, "bias": bias, "activation": "relu"}
    got = cute.gemm(a, b.T, scale_a=scale_a, scale_b=scale_b, **OPTIONS, **more)
    assert np.array_equal(got, np.maximum(0.5 * left @ right.T + 2 + bias, 0).astype(np.float32))


def test_several_products():
    drawn_a = [drawn("nvfp4", (m, 160), m) for m in (100, 0, 260)]
    b, scale_b, right = drawn("nvfp4", (140, 160), 1)
    got = cute.grouped_gemm(
        [a for a, _, _ in drawn_a],
        [b.T] * 3,
        scale_a=[scale for _, scale, _ in drawn_a],
        scale_b=[scale_b] * 3,
        **OPTIONS,
    )
    for result, (_, _, left) in zip(got, drawn_a, strict=True):
        assert np.array_equal(result, (left @ right.T).astype(np.float32))


@pytest.mark.parametrize("depths", [(160, 0), (0, 0)])
def test_several_products_of_which_some_have_no_depth(depths):
    rows, columns = ([drawn("mxfp8", (extent, k), k) for k in depths] for extent in (100, 140))
    got = cute.grouped_gemm(
        [a for a, _, _ in rows],
        [b.T for b, _, _ in columns],
        scale_a=[scale for _, scale, _ in rows],
        scale_b=[scale for _, scale, _ in columns],
        **OPTIONS,
    )
    for result, (_, _, left), (_, _, right) in zip(got, rows, columns, strict=True):
        assert np.array_equal(result, (left @ right.T).astype(np.float32))


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "formats",
    [("mxfp8", "mxfp8_e5m2"), ("mxfp8", "mxfp6_e2m3"), ("mxfp6_e3m2", "mxfp8_e5m2")],
)
def test_mixed_elements(formats):
    one, other = formats
    a, scale_a, left = drawn(one, (130, 160), 0)
    b, scale_b, right = drawn(other, (140, 160), 1)
    got = cute.gemm(a, b.T, scale_a=scale_a, scale_b=scale_b, **OPTIONS)
    assert np.array_equal(got, (left @ right.T).astype(np.float32))


@pytest.mark.some(1)
@pytest.mark.parametrize("format", FORMATS)
def test_what_quantize_gives(format):
    """Random numbers: sums in f32 are off by no more than twice what NumPy's are."""
    draw, (element, _, block, packed, _) = np.random.default_rng(1), FORMATS[format]
    made: list[Any] = []
    for rows in (200, 140):
        x = draw.standard_normal((rows, 416)).astype(np.float32)
        elements, scales = cute.quantize(
            x, format, swizzled=True, arch="sm_120a", backend="emulator"
        )
        plain = scales.transpose(0, 3, 2, 1, 4).reshape(-1, 4 * scales.shape[1])[:rows]
        held = elements
        if packed == 2:
            codes = np.stack([elements & 15, elements >> 4], -1).reshape(rows, -1)
            held = codes.view(element)
        wide = held.astype(np.float64) * plain.astype(np.float64).repeat(block, 1)[:, :416]
        made.append((elements, scales, wide))
    (a, scale_a, left), (b, scale_b, right) = made
    got = cute.gemm(a, b.T, scale_a=scale_a, scale_b=scale_b, **OPTIONS)
    want = left @ right.T
    near = np.abs(left.astype(np.float32) @ right.astype(np.float32).T - want).max()
    assert np.abs(got - want).max() <= max(2 * near, 1e-6 * np.abs(want).max())


REFUSED = {
    "half of a panel": ({"schedule": "tile = (64,128,128)"}, "expected a tile of multiples of"),
    "a part of a panel of columns": (
        {"schedule": "tile = (128,128,64)"},
        "expected a tile of multiples of",
    ),
    "an atom": (
        {"schedule": "atom = mma_m16n8k32_f32_e4m3"},
        "expected no atom or TiledMMA with scales of blocks",
    ),
    "an atom with scales": (
        {"schedule": "atom = mma_m16n8k32_f32_e4m3_mxf8f6f4", "scale_a": None, "scale_b": None},
        "expected one without scales of blocks",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refusals(which):
    options, message = REFUSED[which]
    a, scale_a, _ = drawn("mxfp8", (130, 160), 0)
    b, scale_b, _ = drawn("mxfp8", (140, 160), 1)
    given = {"scale_a": scale_a, "scale_b": scale_b} | OPTIONS | options
    with pytest.raises((ValueError, cute.CompileError), match=message):
        cute.gemm(a, b.T, **given)


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ["sm_120a", "sm_120f", "sm_121a"])
@pytest.mark.parametrize("format", FORMATS)
def test_assembly(arch, format, assembles):
    """A trip of the default has a multiply for each 16 rows, 8 columns and instruction's depth of a
    warp, and loads words of scales in vectors; nothing spills.
    """
    _, _, block, packed, name = FORMATS[format]
    shape = 4, 512 // (4 * block), 32, 4, 4
    panels = cute.TensorSpec(shape, "ue8m0" if block == 32 else "e4m3")
    kind = "u8" if packed == 2 else "e4m3" if format == "mxfp8" else format.partition("_")[2]
    held = 512 // packed
    kernel = cute.compile(
        *(
            cute.gemm,
            cute.TensorSpec((512, held), kind),
            cute.TensorSpec((held, 512), kind, (1, held)),
        ),
        scale_a=panels,
        scale_b=panels,
        arch=arch,
        backend="emulator",
    )
    depth = 32 * packed
    assert len(re.findall(re.escape(f"mma.sync.aligned.{name} "), kernel.ptx)) == (
        4 * 8 * 128 // depth
    )
    assert assembles(kernel.ptx, arch)
