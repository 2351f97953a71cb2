"""Shifts, bits and whole numbers of tiles and scalars, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

ARCHES = ["sm_80", "sm_90a", "sm_100a"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
COLUMNS = 64


def computed(function, arch, *arrays, out, backend="emulator"):
    """A function of tiles of arrays of one shape."""

    @cute.kernel
    def program(Y, A, B):
        at = cute.tile_index(Y, (1, COLUMNS))
        tiles = [cute.local_tile(v, (1, COLUMNS), at).load() for v in (A, B)]
        cute.copy(function(*tiles[: len(arrays)]), cute.local_tile(Y, (1, COLUMNS), at))

    y = np.zeros(arrays[0].shape, out)
    given = (*arrays, *arrays)[:2]
    program(y, *given, arch=arch, backend=backend)
    return y


def integers(dtype, seed=0):
    info = np.iinfo(dtype)
    x = np.random.default_rng(seed).integers(info.min, info.max, (2, COLUMNS), dtype, endpoint=True)
    x[0, :4] = info.min, info.max, 0, 1
    return x


def both(function, arch, *arrays, out):
    """What the emulator gives; the interpreter has to agree."""
    y = computed(function, arch, *arrays, out=out)
    again = computed(function, arch, *arrays, out=out, backend="interpreter")
    wide = np.float64 if y.dtype.kind not in "iu" else y.dtype
    np.testing.assert_array_equal(y.astype(wide), again.astype(wide))
    return y


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_a_tile(dtype, arch):
    """By more than the width too, which leaves nothing, or the sign."""
    x, bits = integers(dtype), 8 * np.dtype(dtype).itemsize
    n = np.resize(np.array([0, 1, 3, bits - 1, bits, bits + 1, 70, 100]), x.shape).astype(dtype)
    assert np.array_equal(both(lambda x, n: x << n, arch, x, n, out=dtype), x << n)
    assert np.array_equal(both(lambda x, n: x >> n, arch, x, n, out=dtype), x >> n)


def test_shifts_by_negative_and_by_huge_numbers():
    for dtype in ("int32", "int64"):
        x = integers(dtype)
        n = np.resize(np.array([-1, -32, np.iinfo(dtype).min, np.iinfo(dtype).max]), x.shape)
        n = n.astype(dtype)
        zero = np.zeros_like(x)
        assert np.array_equal(both(lambda x, n: x << n, "sm_80", x, n, out=dtype), zero)
        assert np.array_equal(both(lambda x, n: x >> n, "sm_80", x, n, out=dtype), zero - (x < 0))


@pytest.mark.some(4)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_numbers_and_of_numbers(dtype):
    x = integers(dtype) & np.array(7, dtype)
    assert np.array_equal(both(lambda x: x << 2 | x >> 1, "sm_80", x, out=dtype), x << 2 | x >> 1)
    one = np.array(1, dtype)
    assert np.array_equal(both(lambda x: 1 << x, "sm_80", x, out=dtype), one << x)
    kept = both(lambda x: (6 & x) | (1 ^ x), "sm_80", x, out=dtype)
    assert np.array_equal(kept, (np.array(6, dtype) & x) | (one ^ x))


def test_shifts_of_mixed_types_as_numpy():
    x, n = integers("uint8"), integers("int32") & 15
    assert np.array_equal(both(lambda x, n: x << n, "sm_80", x, n, out="int32"), x << n)
    assert np.array_equal(both(lambda x, n: n >> x, "sm_80", x & 7, n, out="int32"), n >> (x & 7))
    taken = both(lambda x: (x > 3) << 2, "sm_80", x, out="int32")
    assert np.array_equal(taken, (x > 3).astype(np.int32) << 2)


@pytest.mark.parametrize("arch", ARCHES)
def test_scalars_in_place_and_numbers_of_numpy(arch):
    @cute.kernel
    def program(Y, n):
        tile = cute.full((1, 8), n)
        tile <<= 3
        tile >>= 1
        total = tile + (n << 1) + (n >> 1) + (1 << n) + np.int64(3) + (~n & 5) + (5 ^ n)
        total += cute.popc(n) + cute.clz(n) + (cute.brev(n) >> 24)
        cute.copy(
            total + (np.int32(2) << n) + np.left_shift(1, n), cute.local_tile(Y, (1, 8), (0, 0))
        )

    y, n = np.zeros((1, 8), np.int32), 5
    for backend in ("emulator", "interpreter"):
        program(y, n, arch=arch, backend=backend)
        bits = (n << 1) + (n >> 1) + (1 << n) + 3 + (~n & 5) + (5 ^ n)
        want = (n << 3 >> 1) + bits + 2 + 29 + (0xA0 - 256) + (2 << n) + (1 << n)
        assert (y == want).all()


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits(dtype, arch):
    x, kind = integers(dtype), np.dtype(dtype)
    bits = 8 * kind.itemsize
    texts = [[f"{int(v) & (1 << bits) - 1:0{bits}b}" for v in row] for row in x]
    counts = [[text.count("1") for text in row] for row in texts]
    zeros = [[len(text) - len(text.lstrip("0")) for text in row] for row in texts]
    turned = np.array([[int(text[::-1], 2) for text in row] for row in texts], np.uint64)
    assert np.array_equal(both(cute.popc, arch, x, out="int32"), counts)
    assert np.array_equal(both(cute.clz, arch, x, out="int32"), zeros)
    assert np.array_equal(
        both(cute.brev, arch, x, out=dtype), turned.astype(f"u{kind.itemsize}").view(dtype)
    )


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_upper_half_of_a_product(dtype):
    x, y = integers(dtype), integers(dtype, 1)
    want = (x.astype(object) * y.astype(object)) >> (8 * x.itemsize)
    assert np.array_equal(both(cute.mulhi, "sm_80", x, y, out=dtype), want.astype(dtype))


NUMBERS = [0.5, 1.5, 2.5, -0.5, 0.49999997, -2.5, 3.5, 8388609.0, 4194304.5, -1e30, 3e9, -7.0]
NUMBERS += [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40, -1e-40, 2.0**31 + 0.5]


def floats(dtype):
    x = np.resize(np.array(NUMBERS), (2, COLUMNS))
    x[1, 20:] = np.random.default_rng(1).standard_normal(COLUMNS - 20) * 100
    with np.errstate(over="ignore"):
        return x.astype(dtype)


@pytest.mark.some(8)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
def test_whole_numbers(name, dtype, arch):
    """Of 16 bits in f32; signs of zeros as in NumPy."""
    x = floats(dtype)
    wide = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
    y = both(getattr(cute, name), arch, x, out=wide.dtype)
    want = {"round": np.rint}.get(name, getattr(np, name))(wide)
    np.testing.assert_array_equal(y, want)
    assert np.array_equal(np.signbit(y), np.signbit(want) & ~np.isnan(want))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite"])
def test_classes_of_numbers(name, dtype):
    x = floats(dtype)
    y = both(lambda x: getattr(cute, name)(x).to(cute.i32), "sm_90a", x, out="int32")
    assert np.array_equal(y, getattr(np, name)(x.astype(np.float64)))


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_classes_of_small_floats(dtype):
    """One of the two types has infinities, both have NaN, and the largest number is neither."""
    x = np.arange(256, dtype=np.uint8).view(dtype).reshape(4, 64)
    for name in ("isnan", "isinf", "isfinite"):
        y = both(lambda x, name=name: getattr(cute, name)(x).to(cute.i32), "sm_90a", x, out="int32")
        assert np.array_equal(y, getattr(np, name)(x.astype(np.float32)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_signs(dtype):
    x = floats(dtype)
    y = np.roll(x, 5, 1)
    out = both(cute.copysign, "sm_80", x, y, out=dtype)
    want = np.copysign(x, y)
    np.testing.assert_array_equal(out, want)
    known = ~np.isnan(want)
    assert np.array_equal(np.signbit(out)[known], np.signbit(want)[known])
    np.testing.assert_array_equal(both(cute.sign, "sm_80", x, out=dtype), np.sign(x))
    clamped = both(lambda x: cute.clamp(x, -2.0, 3.0), "sm_80", x, out=dtype)
    np.testing.assert_array_equal(clamped, np.clip(x, -2, 3))


def test_signs_of_integers():
    for dtype in INTEGERS:
        x = integers(dtype)
        assert np.array_equal(both(cute.sign, "sm_80", x, out=dtype), np.sign(x))


@pytest.mark.some(6)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("dtype", "other"),
    [("float32", "int32"), ("float32", "uint32"), ("float64", "int64"), ("float16", "int16"),
     ("float16", "uint16"), ("int32", "uint32"), (ml_dtypes.bfloat16, "int16")],
)  # fmt: skip
def test_bits_as_another_type(dtype, other, arch):
    x = floats(dtype) if np.dtype(dtype).kind != "i" else integers(dtype)
    y = both(lambda x: x.bitcast(other), arch, x, out=other)
    assert np.array_equal(y, x.view(other))
    back = both(
        lambda y: cute.bitcast(y, dtype if isinstance(dtype, str) else "bf16"), arch, y, out=dtype
    )
    assert np.array_equal(back.view(other), y)
    # Of numbers that the program knows, and of a scalar.

    @cute.kernel
    def program(Y, s):
        part = cute.full((1, 8), 1.5).bitcast(cute.i32) + cute.full((1, 8), s).bitcast(cute.i32)
        one = cute.full((1, 8), 1065353216, cute.i32).bitcast(cute.f32).to(cute.i32)
        cute.copy(part + s.bitcast(cute.i32) + one, cute.local_tile(Y, (1, 8), (0, 0)))

    z = np.zeros((1, 8), np.int32)
    program(z, np.float32(-2.0), arch=arch, backend="emulator")
    bits = [int(np.float32(v).view(np.int32)) for v in (1.5, -2.0, -2.0)]
    assert (z == np.int64(sum(bits) + 1).astype(np.int32)).all()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_products_and_sums_rounded_once(dtype, arch):
    rng = np.random.default_rng(3)
    x, y = (rng.standard_normal((2, COLUMNS)).astype(dtype) for _ in range(2))
    z = -(x * y)  # all that is left is what a product rounds away
    for backend in ("emulator", "interpreter"):
        got = computed(
            lambda x, y: cute.fma(x, y, -(x * y)), arch, x, y, out=dtype, backend=backend
        )
        if dtype == "float64":
            from fractions import Fraction

            want = [
                [
                    float(Fraction(a) * Fraction(b) + Fraction(c))
                    for a, b, c in zip(*rows, strict=True)
                ]
                for rows in zip(x.tolist(), y.tolist(), z.tolist(), strict=True)
            ]
        else:
            want = (x.astype(np.float64) * y + z).astype(dtype)
        np.testing.assert_array_equal(got, want)
        assert np.any(got)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, n: x >> 3, r"expected integers for '>>', got f32"),
        (lambda x, n: n << 1.5, "expected an integer for a value of i32, got 1.5"),
        (lambda x, n: cute.popc(x), r"tile of integers, got f32; .*\.bitcast\(dtype\)"),
        (lambda x, n: cute.floor(n), r"tile of floats, got i32; convert .*\.to\(cute\.f32\)"),
        (lambda x, n: x.bitcast(cute.i16), r"of 32 bits \(f32, i32, u32\), got i16; \.to\(\)"),
        (lambda x, n: cute.fma(n, n, n), r"expected floats, got i32; convert"),
        (lambda x, n: cute.mulhi(n.to(cute.i8), n.to(cute.i8)), "of 32 or 64 bits, got i8"),
        (lambda x, n: cute.copysign(1.0, 2.0), "among the arguments, got numbers"),
        (lambda x, n: cute.isnan(n), "tile of floats, got i32"),
    ],
)  # fmt: skip
def test_what_is_refused(function, message):
    @cute.kernel
    def program(X):
        x = cute.local_tile(X, (8, 8), (0, 0)).load()
        function(x, x.to(cute.i32))

    with pytest.raises(CompileError, match=message):
        program(np.zeros((8, 8), np.float32), backend="emulator", arch="sm_80")


def test_whole_numbers_of_numbers():
    assert (cute.floor(-1.5), cute.ceil(-1.5), cute.trunc(-1.5), cute.round(2.5)) == (-2, -1, -1, 2)
