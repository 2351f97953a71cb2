"""`cute.scaled_gemm` in tile programs: products of blocks that share scales on sm_100a and sm_120a,
exact on small integers, and what it refuses.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

# Elements, scales, elements that share one, elements of a byte.
FORMATS: dict[str, tuple[Any, Any, int, int]] = {
    "mxfp8": (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, 32, 1),
    "mxfp6_e3m2": (ml_dtypes.float6_e3m2fn, ml_dtypes.float8_e8m0fnu, 32, 1),
    "mxfp4": (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu, 32, 2),
    "nvfp4": (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, 16, 2),
}


@cute.kernel
def product(
    A: cute.Tensor,
    B: cute.Tensor,
    SA: cute.Tensor,
    SB: cute.Tensor,
    D: cute.Tensor,
    *,
    format: str,
    rows: int = 128,
    columns: int = 128,
    depth: int = 128,
    words: int = 128,
) -> None:
    """Twice the product, less one."""
    m, n = cute.tile_index(D, (rows, columns))
    acc = cute.zeros((rows, columns))
    a, b = (
        cute.local_tile(A, (rows, depth), (m, None)),
        cute.local_tile(B, (depth, columns), (None, n)),
    )
    sa = cute.local_tile(SA, (-(-rows // 128), words), (m, None))
    sb = cute.local_tile(SB, (-(-columns // 128), words), (n, None))
    for k in cute.range(a.tiles):
        cute.scaled_gemm(a[k], b[k], acc, sa[k], sb[k], format)
    cute.copy(2 * acc - 1, cute.local_tile(D, (rows, columns), (m, n)))


def drawn(format, rows, depth, seed):
    """Elements, panels, and what both stand for."""
    element, scale, block, packed = FORMATS[format]
    draw = np.random.default_rng(seed)
    values = draw.integers(-3, 4, (rows, depth)).astype(element)
    count, across = -(-depth // block), -(-depth // (4 * block))
    numbers = np.ones((-(-rows // 128) * 128, 4 * across))
    numbers[:rows, :count] = np.exp2(draw.integers(-3, 4, (rows, count)))
    panels = numbers.reshape(-1, 4, 32, across, 4).transpose(0, 3, 2, 1, 4)
    wide = values.astype(np.float64) * numbers[:rows, :count].repeat(block, 1)[:, :depth]
    if packed == 2:
        codes = values.view(np.uint8)
        values = codes[:, ::2] | codes[:, 1::2] << 4
    return values, np.ascontiguousarray(panels).astype(scale), wide


def run(format, m, n, k, arch, dtype="i32", **options):
    """What a program makes, and what it has to."""
    a, scale_a, left = drawn(format, m, k, 0)
    b, scale_b, right = drawn(format, n, k, 1)
    words = [cute.scale_words(each, dtype) for each in (scale_a, scale_b)]
    d = np.zeros((m, n), np.float32)
    options = {"format": format, "backend": "emulator"} | options
    product(a, b.T, *words, d, arch=arch, **options)
    return d, (2 * (left @ right.T) - 1).astype(np.float32)


@pytest.mark.some(3)
@pytest.mark.parametrize("k", [32, 128, 288, 640])
@pytest.mark.parametrize("arch", ["sm_100a", "sm_120a"])
@pytest.mark.parametrize("format", ["mxfp8", "mxfp4", "nvfp4"])
def test_products(format, arch, k):
    packed, block = FORMATS[format][3], FORMATS[format][2]
    shape: dict[str, Any] = {"depth": 128 // packed, "words": 128 * 128 // (4 * block)}
    got, want = run(format, 130, 140, k, arch, **shape)
    assert np.array_equal(got, want)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("format", "arch", "options"),
    [
        ("mxfp6_e3m2", "sm_120a", {}),
        ("mxfp8", "sm_100a", {"dtype": "i64", "words": 64}),
        ("nvfp4", "sm_100a", {"dtype": "i64", "depth": 128, "words": 256}),
        ("mxfp8", "sm_100a", {"columns": 256}),
        ("mxfp8", "sm_120a", {"columns": 256, "schedule": "warps = (2,4)"}),
        ("mxfp8", "sm_100a", {"rows": 256}),
        ("mxfp8", "sm_100a", {"backend": "interpreter"}),
        ("nvfp4", "sm_120a", {"depth": 64, "words": 256, "backend": "interpreter"}),
    ],
)
def test_tiles_and_words(format, arch, options):
    got, want = run(format, 260, 140, 288, arch, **options)
    assert np.array_equal(got, want)


REFUSED = {
    "a format": ("sm_100a", {"format": "fp8_block"}, "expected mxfp8, mxfp8_e5m2, mxfp6_e2m3"),
    "other elements": ("sm_100a", {"format": "nvfp4"}, "expected pairs of e2m1 in u8 in nvfp4"),
    "half of a panel": ("sm_100a", {"rows": 64}, "expected a tile of multiples of 128 rows"),
    "a part of a trip": ("sm_120a", {"depth": 64, "words": 64}, "and 128 elements along K"),
    "other words": ("sm_120a", {"words": 64}, r"i32 of shape \(1, 128\) or i64 of shape \(1, 64\)"),
    "words of 64 bits": (
        *("sm_120a", {"dtype": "i64", "words": 64}),
        "got words of 64 bits where threads read those of 32",
    ),
    "another target": ("sm_90a", {}, "expected a multiply of tcgen05"),
    "floats of 6 bits": (
        *("sm_100a", {"element": "mxfp6_e3m2"}),
        "e3m2 packed, where memory has a byte of each; e4m3 has all of its numbers",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
def test_refusals(which):
    arch, options, message = REFUSED[which]
    format = options.get("format", "mxfp8")
    a, scale_a, _ = drawn(options.get("element", "mxfp8"), 128, 256, 0)
    words = [cute.scale_words(scale_a, options.get("dtype", "i32"))] * 2
    taken = "dtype", "format", "element"
    more = {name: value for name, value in options.items() if name not in taken}
    with pytest.raises((cute.CompileError, ValueError, TypeError), match=message):
        product(
            *(a, a.T, *words, np.zeros((128, 128), np.float32)),
            format=format,
            arch=arch,
            backend="emulator",
            **more,
        )


def test_what_words_are_of():
    panels = np.arange(2 * 3 * 512, dtype=np.uint8).reshape(2, 3, 32, 4, 4)
    words = cute.scale_words(panels)
    assert words.shape == (2, 384)
    assert np.shares_memory(words, panels)
    assert words[1, 128 + 4 * 7 + 2] == panels[1, 1, 7, 2].view(np.int32)[0]
    assert cute.scale_words(panels, "i64").shape == (2, 192)
    with pytest.raises(ValueError, match=r"expected panels .*, got shape \(2, 3\)"):
        cute.scale_words(np.zeros((2, 3), np.uint8))
    with pytest.raises(TypeError, match="expected a type of 8 bits, got f32"):
        cute.scale_words(panels.astype(np.float32))
    with pytest.raises(TypeError, match="dtype: expected i32 or i64, got f16"):
        cute.scale_words(panels, "f16")
