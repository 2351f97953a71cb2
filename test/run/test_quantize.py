"""`cute.quantize` and `cute.quantized` against a reference in NumPy that follows the definitions:
every bit of elements and scales, on every target.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

TARGETS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")
E2M1, E4M3, UE8M0 = ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
# Elements, type of scales, block, largest element.
FORMATS: dict[str, tuple[Any, Any, tuple[int, int], float]] = {
    "mxfp8": (E4M3, UE8M0, (1, 32), 448.0),
    "mxfp8_e5m2": (ml_dtypes.float8_e5m2, UE8M0, (1, 32), 57344.0),
    "mxfp6_e2m3": (ml_dtypes.float6_e2m3fn, UE8M0, (1, 32), 7.5),
    "mxfp6_e3m2": (ml_dtypes.float6_e3m2fn, UE8M0, (1, 32), 28.0),
    "mxfp4": (E2M1, UE8M0, (1, 32), 6.0),
    "nvfp4": (E2M1, E4M3, (1, 16), 6.0),
    "fp8_block": (E4M3, np.float32, (1, 128), 448.0),
    "fp8_square": (E4M3, np.float32, (128, 128), 448.0),
}
CASES = [
    *((name, "up") for name in FORMATS if name != "nvfp4"),
    *((name, "down") for name in ("mxfp8", "mxfp4")),
    *((name, "nearest") for name in ("nvfp4", "fp8_block", "fp8_square")),
]
F32 = np.float32


def powers(most: np.ndarray, largest: float, rounding: str) -> np.ndarray:
    """Powers of two by which the largest magnitudes of blocks become the largest element or less
    ("up"), or begin with the same power as it ("down"), as exponents of ue8m0.
    """
    wide = most.astype(np.float64)
    with np.errstate(all="ignore"):
        exponent = np.ceil(np.log2(wide / largest))
        # log2 is off by an ulp where a quotient is next to a power.
        exponent = np.where(wide / largest > np.exp2(exponent), exponent + 1, exponent)
        exponent = np.where(wide / largest <= np.exp2(exponent - 1), exponent - 1, exponent)
        if rounding == "down":
            exponent = np.frexp(wide)[1] - np.frexp(largest)[1]
    exponent = np.where(most == 0, -127, exponent)
    return np.where(np.isfinite(most), np.clip(exponent, -127, 127) + 127, 255).astype(np.uint8)


def rounded(x: np.ndarray, dtype: Any) -> np.ndarray:
    largest = float(ml_dtypes.finfo(dtype).max)
    x = np.where(np.isnan(x) & (dtype not in (E4M3, ml_dtypes.float8_e5m2)), F32(largest), x)
    return np.clip(x, -largest, largest).astype(dtype)


def reference(x: Any, name: Any, rounding: str, global_scale: Any = None) -> tuple[Any, Any]:
    """Elements, one in a byte, and scales (M / block, K / block)."""
    element, scale, (height, width), largest = FORMATS[name]
    (m, k), x = x.shape, x.astype(F32)
    padded = np.zeros((-(-m // height) * height, k), F32)
    padded[:m] = x
    blocks = padded.reshape(padded.shape[0] // height, height, k // width, width)
    with np.errstate(all="ignore"):
        most = np.abs(blocks).max((1, 3))
        if rounding == "nearest":
            most = np.where(np.isfinite(most), most, F32(np.nan))
            one = F32(1)
            if global_scale is not None:
                one = F32(1) / F32(global_scale)
                most = most * one
            scales = most * F32(1 / largest)
            scales = rounded(scales, scale) if scale is not F32 else scales
            factor = scales.astype(F32)
            inverse = np.where(factor == 0, F32(0), one / np.where(factor == 0, F32(1), factor))
        else:
            power = powers(most, largest, rounding)
            scales = power.view(UE8M0)
            if scale is F32:
                scales = np.ldexp(F32(1), power.astype(np.int32) - 127)
                scales = np.where(power == 255, F32(np.nan), scales)
            inverse = np.exp2(127.0 - np.minimum(power, 254).astype(np.float64))
            inverse = np.where(power == 255, 2.0**-127, inverse)
        made = blocks * inverse.astype(F32)[:, None, :, None]
    elements = rounded(made.reshape(padded.shape)[:m], element)
    return elements, scales


def drawn(shape: tuple[int, int], dtype: Any, with_faults: bool = True) -> Any:
    """Blocks of all sizes, of zeros, of one number, and next to ties of the scale."""
    rng = np.random.default_rng(shape[0] * shape[1])
    sizes = np.exp2(rng.integers(-20, 14, (shape[0], shape[1] // 16))).repeat(16, 1)
    x = (rng.standard_normal(shape) * sizes).astype(F32)
    x[1, :128], x[2, :128] = 0, 0
    x[2, 5] = 448
    x[3, :128] = np.linspace(-6, 6, 128)
    x[4, :128] = 447.9
    if dtype is F32:
        x[5, :128], x[6, :128], x[7, :128] = 1e-44, 3e38, np.nextafter(F32(448), F32(449))
        if with_faults:
            x[8, 3], x[9, 40], x[10, 100] = np.nan, np.inf, -np.inf
    return x.astype(dtype)


def packed(elements: Any) -> Any:
    """Two elements of 4 bits in a byte, the first in the low half."""
    codes = elements.view(np.uint8)
    return codes[:, ::2] | codes[:, 1::2] << 4


def panels(scales: Any) -> Any:
    """Scales in panels of 128 rows and 4 columns, by the definition."""
    rows, columns = scales.shape
    made = np.zeros((-(-rows // 128), -(-columns // 4), 32, 4, 4), np.uint8)
    codes = scales.view(np.uint8)
    for r in range(rows):
        for c in range(columns):
            made[r // 128, c // 4, r % 32, r % 128 // 32, c % 4] = codes[r, c]
    return made


def same(one: Any, other: Any) -> bool:
    """Whether all bits are equal; any NaN of a type is one."""
    one, other = np.asarray(one), np.asarray(other)
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    equal = one.view(f"u{one.itemsize}") == other.view(f"u{one.itemsize}")
    if one.dtype.kind != "u":
        equal |= np.isnan(one.astype(F32)) & np.isnan(other.astype(F32))
    return bool(equal.all())


@pytest.mark.some(12)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize(("name", "rounding"), CASES)
def test_every_bit_is_that_of_the_reference(name: Any, rounding: Any, arch: Any) -> None:
    x = drawn((37, 256), F32 if rounding != "down" else ml_dtypes.bfloat16)
    elements, scales = cute.quantize(x, name, rounding=rounding, arch=arch, backend="emulator")
    wanted, wanted_scales = reference(x, name, rounding)
    assert same(elements, packed(wanted) if FORMATS[name][0] is E2M1 else wanted)
    assert same(scales, wanted_scales)


@pytest.mark.parametrize(
    ("name", "rounding"), [("mxfp4", "up"), ("mxfp4", "down"), ("nvfp4", None)]
)
def test_halves_of_words_on_sm_90a(name: Any, rounding: Any) -> None:
    """Elements of 16 bits without gaps, of all sizes that bf16 has, NaN and infinities too."""
    wide = drawn((48, 256), F32)
    wide[20] = np.exp2(np.linspace(-140, 127, 256)).astype(F32)
    wide[21, ::2] = -0.0
    for dtype in (ml_dtypes.bfloat16, np.float16):
        with np.errstate(over="ignore"):
            x = wide.astype(dtype)
        made = cute.quantize(x, name, rounding=rounding, arch="sm_90a", backend="emulator")
        wanted, scales = reference(x, name, rounding or "nearest")
        assert same(made[0], packed(wanted))
        assert same(made[1], scales)


@pytest.mark.parametrize("name", ["mxfp4", "nvfp4"])
def test_instructions_of_an_element(name: Any) -> None:
    """Products of bf16 with powers of two are rounded in pairs; threads that have whole blocks
    exchange nothing; permutes bring the signs of eight elements together.
    """
    x = cute.TensorSpec((4096, 4096), "bf16")
    kernel = cute.compile(cute.quantize, x, name, arch="sm_90a")
    assert ("fma.rn.bf16x2" in kernel.ptx) == (name == "mxfp4")
    assert ("fma.rn.f32" in kernel.ptx) == ("shfl" not in kernel.ptx) == (name == "nvfp4")
    assert "prmt.b32" in kernel.ptx


# Of each format the relative error of an element, and the absolute one in units of its scale:
# halves of the last place of its mantissa, and of the least step.
BOUNDS = {
    "mxfp8": (2.0**-4, 2.0**-10),
    "mxfp8_e5m2": (2.0**-3, 2.0**-17),
    "mxfp6_e2m3": (2.0**-4, 2.0**-4),
    "mxfp6_e3m2": (2.0**-3, 2.0**-5),
    "mxfp4": (2.0**-2, 2.0**-2),
    "nvfp4": (2.0**-2, 2.0**-2),
    "fp8_block": (2.0**-4, 2.0**-10),
    "fp8_square": (2.0**-4, 2.0**-10),
}


@pytest.mark.parametrize("name", FORMATS)
def test_errors_keep_within_their_bounds(name: Any) -> None:
    """Against f64, as docs/tutorial/numerics.md has it. Scales of nvfp4 are rounded, and may be too
    small for the largest element by 2^-4 of it.
    """
    rng = np.random.default_rng(8)
    x = rng.standard_normal((64, 256)).astype(F32) * np.exp2(rng.integers(-3, 4, (64, 1))).astype(
        F32
    )
    elements, scales = cute.quantize(x, name, arch="sm_90a", backend="emulator")
    if FORMATS[name][0] is E2M1:
        elements = np.stack([elements & 15, elements >> 4], -1).reshape(x.shape).view(E2M1)
    height, width = FORMATS[name][2]
    wide = scales.astype(np.float64).repeat(height, 0)[: len(x)].repeat(width, 1)
    error = np.abs(elements.astype(np.float64) * wide - x)
    relative, absolute = BOUNDS[name]
    bound = np.maximum(np.abs(x) * relative, wide * absolute) * (1 + 2.0**-20)
    assert (error <= bound).all()
    assert (error > bound / 2).any()


@pytest.mark.parametrize("name", ["mxfp8", "mxfp4", "nvfp4"])
def test_panels_of_scales(name: Any) -> None:
    """Rows and columns of panels that there are not are 0."""
    x = drawn((150, 192), np.float16)
    elements, scales = cute.quantize(x, name, swizzled=True, arch="sm_100a", backend="emulator")
    wanted, wanted_scales = reference(x, name, "nearest" if name == "nvfp4" else "up")
    assert same(elements, packed(wanted) if FORMATS[name][0] is E2M1 else wanted)
    assert np.array_equal(scales.view(np.uint8), panels(wanted_scales))


@pytest.mark.parametrize("is_array", [False, True])
def test_a_factor_of_all_elements(is_array: bool) -> None:
    x = drawn((24, 128), F32, with_faults=False)
    factor = F32(np.abs(x[:5]).max() / (448 * 6))
    given = np.array([factor]) if is_array else float(factor)
    elements, scales = cute.quantize(
        x, "nvfp4", global_scale=given, arch="sm_90a", backend="emulator"
    )
    wanted, wanted_scales = reference(x, "nvfp4", "nearest", factor)
    assert same(elements, packed(wanted))
    assert same(scales, wanted_scales)


def test_arrays_of_the_caller_and_views() -> None:
    """Columns of a larger array, in arrays that are given; nothing else is written."""
    whole = drawn((16, 384), np.float16)
    out, scales = np.full((16, 256), 7, E4M3), np.full((16, 8), 1, UE8M0)
    made = cute.quantize(whole[:, 128:], "mxfp8", out=out, scales=scales, backend="emulator")
    assert made[0] is out
    assert made[1] is scales
    wanted = reference(whole[:, 128:], "mxfp8", "up")
    assert same(out, wanted[0])
    assert same(scales, wanted[1])
    codes, few = cute.quantize(whole[:, 64:320], "nvfp4", backend="emulator")
    wanted = reference(whole[:, 64:320], "nvfp4", "nearest")
    assert same(codes, packed(wanted[0]))
    assert same(few, wanted[1])
    empty = cute.quantize(whole[:0], "mxfp8", backend="emulator")
    assert [each.shape for each in empty] == [(0, 384), (0, 12)]


@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
def test_arrays_with_gaps_behind_such_without(name: Any) -> None:
    """The same extents: blocks lie one behind the other in some arrays, and not in others."""
    x = drawn((80, 128), np.float16)
    kind, block = (E4M3, 32) if name == "mxfp8" else (np.uint8, 16)
    wanted, wanted_scales = reference(x, name, "up" if name == "mxfp8" else "nearest")
    wanted = wanted if name == "mxfp8" else packed(wanted)
    columns = wanted.shape[1]
    for gap in (0, 32):
        out = np.zeros((80, columns + gap), kind)
        scales = np.zeros((80, 128 // block + gap), wanted_scales.dtype)
        whole = np.zeros((80, 128 + gap), np.float16)
        whole[:, :128] = x
        parts = whole[:, :128], out[:, :columns], scales[:, : 128 // block]
        for given in (parts, (x, *parts[1:]), (x, out[:, :columns], None)):
            out[:] = 0
            made = cute.quantize(
                given[0], name, out=given[1], scales=given[2], arch="sm_90a", backend="emulator"
            )
            assert same(made[0], wanted)
            assert same(made[1], wanted_scales)
            assert not out[:, columns:].view(np.uint8).any()


@cute.kernel
def scaled_product(A, B, Q, S, *, format):
    """A B, leaving as narrow numbers: the step of an epilogue."""
    m, n = cute.tile_index(Q, (64, 64))
    acc = cute.zeros((64, 64))
    a, b = cute.local_tile(A, (64, 32), (m, None)), cute.local_tile(B, (32, 64), (None, n))
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], acc)
    elements, scales = cute.quantized(acc, format)
    cute.copy(elements, cute.local_tile(Q, elements.shape, (m, n)))
    cute.copy(scales, cute.local_tile(S, scales.shape, (m, n)))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", ["mxfp8", "nvfp4"])
def test_a_step_of_an_epilogue(name: Any, arch: str) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-8, 8, (64, 64)).astype(np.float16) for _ in range(2))
    element, scale, block, _ = FORMATS[name]
    q, s = np.zeros((64, 64), element), np.zeros((64, 64 // block[1]), scale)
    scaled_product(a, b, q, s, format=name, arch=arch, backend="emulator")
    exact = a.astype(F32) @ b.astype(F32)
    wanted, scales = reference(exact, name, "nearest" if name == "nvfp4" else "up")
    assert same(q, wanted)
    assert same(s, scales)


X = np.ones((16, 64), np.float16)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"format": "mxfp9"}, ValueError, "format: expected 'mxfp8', .* got 'mxfp9'"),
        ({"format": "fp8_block"}, ValueError,
         "x: expected a multiple of 128 columns, .* got 64; pad it with zeros to 128"),
        ({"rounding": "nearest"}, ValueError,
         "rounding: expected 'up' or 'down' for scales of mxfp8, got 'nearest'"),
        ({"format": "nvfp4", "rounding": "up"}, ValueError,
         "rounding: expected 'nearest' for scales of nvfp4, got 'up'; scales of 'mxfp8', .* take"),
        ({"global_scale": 2.0}, ValueError, "global_scale: expected None with mxfp8, .* 'nvfp4' t"),
        ({"x": np.ones((16, 128), np.float16), "format": "fp8_block", "swizzled": True}, ValueError,
         "swizzled: expected False with fp8_block"),
        ({"x": X[0]}, ValueError, "x: expected 2 dimensions"),
        ({"x": X.astype(np.int8)}, TypeError, "x: expected f32, f16 or bf16, got i8"),
        ({"out": np.zeros((16, 32), E4M3)}, ValueError, r"out: expected shape \(16, 64\), got"),
        ({"scales": np.zeros((16, 2), np.uint8)}, TypeError, "scales: expected ue8m0, got u8"),
        ({"format": "nvfp4", "global_scale": np.ones(3, F32)}, ValueError,
         r"global_scale: expected one element, got shape \(3,\)"),
    ],
)  # fmt: skip
def test_refusals(options: Any, error: Any, message: str) -> None:
    given = {"x": X, "format": "mxfp8", "backend": "emulator"} | options
    with pytest.raises(error, match=f"^{message}"):
        cute.quantize(**given)


def test_refusals_inside_a_kernel() -> None:
    @cute.kernel
    def wrong(A, *, calls):
        tile = cute.local_tile(A, (16, 32), (0, 0)).load()
        chosen: Any = cute.quantize if calls == "arrays" else cute.quantized
        chosen(tile, calls)

    for calls, message in (
        ("arrays", "inside a kernel take cute.quantized"),
        ("fp4", "format: expected 'mxfp8'"),
        ("fp8_block", r"expected a tile of whole blocks \(1, 128\) for fp8_block, got \(16, 32\)"),
    ):
        with pytest.raises(cute.CompileError, match=message):
            wrong(X, calls=calls, backend="emulator")
