"""Numbers and arrays on their way into a kernel: each arrives as it is, or is refused by name."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

SHAPE = (16, 16)


def whole(tensor):
    return cute.local_tile(tensor, SHAPE, (0, 0))


@cute.kernel
def fill(Y, s):
    cute.copy(cute.full(SHAPE, s, Y.dtype), whole(Y))


@cute.kernel
def scale(X, Y, s):
    cute.copy(cute.load(whole(X)) * s, whole(Y))


def filled(value, dtype):
    y = np.zeros(SHAPE, dtype)
    fill(y, value, backend="emulator")
    assert (y == y[0, 0]).all()
    return y[0, 0]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (2**31 - 1, np.int64),
        (2**31, np.int64),
        (-(2**31), np.int64),
        (-(2**31) - 1, np.int64),
        (2**40 + 3, np.int64),
        (2**63 - 1, np.int64),
        (-(2**63), np.int64),
        (2**31, np.float64),
        (np.int64(2**33), np.int64),
        (np.uint8(200), np.uint8),
        (np.uint8(200), np.int32),
        (np.int8(-3), np.int32),
        (np.float64(0.1), np.float64),
        (0.1, np.float64),
        (1e300, np.float64),
        (np.float16(0.5), np.float32),
        (ml_dtypes.bfloat16(0.5), np.float32),
        (True, np.int32),
        (np.bool_(True), np.float32),
    ],
)
def test_a_number_arrives_as_it_is(value, dtype):
    assert filled(value, dtype) == dtype(value)


def test_integers_of_one_kernel_choose_their_type_by_value():
    """A kernel made for i32 is not given an i64 behind its back, nor the other way round."""
    values = [1, 2**31, -1, -(2**31), 2**31 - 1, 2**62]
    assert [filled(value, np.int64) for value in values] == values
    kernel = cute.compile(fill, np.zeros(SHAPE, np.int64), 1, backend="emulator")
    with pytest.raises(ValueError, match=r"s: expected an i32 in .*, got 2147483648"):
        kernel.launch(np.zeros(SHAPE, np.int64), 2**31)
    with pytest.raises(ValueError, match="expected s to be an integer that i64 holds, got 9223"):
        filled(2**63, np.int64)


def test_floats_are_wide_beside_f64_and_f32_elsewhere():
    x = np.full(SHAPE, 3.0)
    y = np.zeros_like(x)
    scale(x, y, 0.1, backend="emulator")
    assert (y == 3.0 * 0.1).all()
    x, y = x.astype(np.float32), y.astype(np.float32)
    kernel = cute.compile(scale, x, y, 0.1, backend="emulator")
    assert [parameter.type for parameter in kernel.signature.parameters[2:]] == ["f32"]
    scale(x, y, np.float64(0.1), backend="emulator")
    assert (y == np.float32(3) * np.float32(0.1)).all()


@pytest.mark.parametrize("dtype", [">f4", ">i4", ">f2", ">f8"])
def test_foreign_byte_order_is_refused(dtype):
    x = np.ones(SHAPE, dtype)
    y = np.zeros(SHAPE, x.dtype.newbyteorder("="))
    with pytest.raises(ValueError, match=rf"X: expected elements in the machine's .* got {dtype}"):
        scale(x, y, 1.0, backend="emulator")
    with pytest.raises(ValueError, match=f"Y: expected elements in the machine's .* got {dtype}"):
        scale(y, x, 1.0, backend="emulator")
    if dtype == ">f2":
        with pytest.raises(ValueError, match="b: expected elements in the machine's byte order"):
            cute.gemm(y, x, backend="emulator")


def refused(function, message, *arrays):
    """A program of one or more tiles, refused at a line of this file."""
    store = arrays[-1]

    @cute.kernel
    def program(X, Y, s):
        function(cute.load(whole(X)), Y, s)
        cute.copy(cute.zeros(SHAPE, Y.dtype), whole(Y))

    with pytest.raises(CompileError, match=message) as caught:
        program(arrays[0], store, 1.5, backend="emulator")
    assert caught.value.location is not None
    assert caught.value.location.startswith(__file__)


F16, F32, I32 = (np.ones(SHAPE, dtype) for dtype in (np.float16, np.float32, np.int32))
I8 = np.ones(SHAPE, np.int8)


@pytest.mark.parametrize(
    ("function", "message", "array"),
    [
        (lambda x, Y, s: x * 1e6, r"of at most 65504 for a value of f16, got 1000000.0; .*to", F16),
        (lambda x, Y, s: x < -7e4, "of at most 65504 for a value of f16", F16),
        (lambda x, Y, s: x + 1e-9, "of at least 5.96e-08 for a value of f16, got 1e-09", F16),
        (lambda x, Y, s: x * 1e39, "of at most 3.40282e[+]38 for a value of f32", F32),
        (lambda x, Y, s: x * 10**400, "of at most 3.40282e[+]38 for a value of f32", F32),
        (lambda x, Y, s: x / 1e-60, "of at least 1.4e-45 for a value of f32", F32),
        (lambda x, Y, s: cute.full(SHAPE, cute.inf, cute.e4m3), "of at most 448 .* of e4m3", F32),
        (lambda x, Y, s: s * 1e39, "of at most 3.40282e[+]38 for a value of f32", F32),
        (lambda x, Y, s: x + s.to(cute.i32) * 1, "expected a scalar that i8 holds .* of i32", I8),
        (lambda x, Y, s: cute.zeros(SHAPE, cute.i32).assign(x), "a tile of i32 holds, .* f32", F32),
        (lambda x, Y, s: cute.zeros(SHAPE, cute.f16).assign(x), "a tile of f16 holds, .* f32", F32),
        (lambda x, Y, s: cute.zeros(SHAPE, cute.i32).assign(whole(Y)), "i32 holds, .* f32", F32),
        (lambda x, Y, s: cute.zeros(SHAPE, cute.i32).assign(s), "a tile of i32 holds, .* f32", F32),
        (lambda x, Y, s: cute.zeros(SHAPE, cute.i8).__iadd__(x), "a tile of i8 holds, .* i32", I32),
        (lambda x, Y, s: cute.zeros(SHAPE, cute.i32).__imul__(s), "i32 holds, .* f32", F32),
        (lambda x, Y, s: cute.zeros(SHAPE, cute.f16).__isub__(x), "f16 holds, .* f32", F32),
    ],
)  # fmt: skip
def test_what_a_type_does_not_hold_is_refused(function, message, array):
    refused(function, message, array, array)


def test_numbers_at_the_edges_are_taken():
    @cute.kernel
    def program(Y):
        cute.copy(cute.full(SHAPE, 3.4028235e38) + 0.0, whole(Y))

    y = np.zeros(SHAPE, np.float32)
    program(y, backend="emulator")
    assert (y == np.finfo(np.float32).max).all()

    @cute.kernel
    def short(Y):
        tile = cute.full(SHAPE, 65519.0, cute.f16) * 1.0
        cute.copy(cute.where(tile > cute.inf, tile * 2**-24, tile), whole(Y))

    y = np.zeros(SHAPE, np.float16)
    short(y, backend="emulator")
    assert (y == 65504).all()


def test_a_scalar_of_floats_makes_floats_of_integers():
    y = np.zeros(SHAPE, np.float32)
    scale(I32 * 3, y, 0.5, backend="emulator")
    assert (y == 1.5).all()


def test_full_takes_the_type_of_a_scalar():
    @cute.kernel
    def program(Y, s):
        tile = cute.full(SHAPE, s)
        assert tile.dtype == s.dtype
        assert cute.full(SHAPE, 1).dtype == cute.f32
        cute.copy(tile + 1, whole(Y))

    for value, dtype in ((2**24 + 1, np.int32), (2**53 + 1, np.int64)):
        y = np.zeros(SHAPE, dtype)
        program(y, value, backend="emulator")
        assert (y == value + 2 - 1).all()


def test_what_holds_more_is_assigned():
    @cute.kernel
    def program(X, Y, s):
        acc = cute.zeros(SHAPE, cute.f32)
        acc += cute.load(whole(X)) * 2
        acc += s
        acc /= 2.0
        wide = cute.zeros(SHAPE, cute.i64)
        wide.assign(cute.coord(wide, 0))
        wide //= 2
        wide %= 3
        cute.copy(acc + wide.to(cute.f32), whole(Y))

    y = np.zeros(SHAPE, np.float32)
    program(F16, y, np.float64(1.0), backend="emulator")
    assert np.array_equal(y, np.broadcast_to(1.5 + (np.arange(16) // 2 % 3)[:, None], SHAPE))


def test_augmented_assignment_of_a_computed_tile_makes_a_new_one():
    @cute.kernel
    def program(X, Y):
        t = cute.load(whole(X))
        old = t
        t += 1
        t *= 3
        t -= old
        cute.copy(t, whole(Y))

    y = np.zeros(SHAPE, np.float32)
    program(F32, y, backend="emulator")
    assert (y == 5).all()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_conversion_to_the_own_type_is_a_value(arch):
    """What a tile holds now, whatever is assigned to it later; and no op where nothing is."""

    @cute.kernel
    def program(X, Y, Z):
        i, j = cute.tile_index(Y, (16, 16))
        acc = cute.zeros((16, 16))
        for _ in cute.range(2):
            acc += cute.local_tile(X, (16, 16), (i, j)).load()
            old = acc.to(cute.f32)
            acc.assign(acc * 2)
            cute.copy(old, cute.local_tile(Y, (16, 16), (i, j)))
        cute.copy(acc.to(Z.dtype), cute.local_tile(Z, (16, 16), (i, j)))

    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    y, z = np.zeros_like(x), np.zeros_like(x)
    program(x, y, z, arch=arch, backend="emulator")
    assert np.array_equal(y, 3 * x)
    assert np.array_equal(z, 6 * x)
    kernel = cute.compile(program, x, y, z, arch=arch)
    before, after = (kernel.stages[name].count("cute.map") for name in ("trace", "cute-fuse"))
    assert after == before - 1


@pytest.mark.parametrize("kind", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_reductions_of_8_bit_floats(kind):
    """Sums are f32; the largest and the least have the tile's type."""

    @cute.kernel
    def program(X, S, M):
        i, _ = cute.tile_index(X, (16, 16))
        x = cute.local_tile(X, (16, 16), (i, 0)).load()
        cute.copy(cute.row_sum(x), cute.local_tile(S, (16, 1), (i, 0)))
        cute.copy(cute.row_max(x), cute.local_tile(M, (16, 1), (i, 0)))

    x = np.random.default_rng(0).integers(-4, 5, (32, 16)).astype(kind)
    s, m = np.zeros((32, 1), np.float32), np.zeros((32, 1), kind)
    program(x, s, m, arch="sm_90a", backend="emulator")
    wide = x.astype(np.float32)
    assert np.array_equal(s, wide.sum(1, keepdims=True))
    assert np.array_equal(m.astype(np.float32), wide.max(1, keepdims=True))


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("dtype", "most"), [(ml_dtypes.float8_e4m3fn, 448), (ml_dtypes.float8_e5m2, 57344)]
)
def test_conversions_to_eight_bits_saturate(source, dtype, most, backend):
    """PTX ISA, cvt: with .satfinite, which these have to have, infinity is the largest number."""

    @cute.kernel
    def convert(X, Y):
        cute.copy(whole(X).to(Y.dtype), whole(Y))

    x = np.zeros(SHAPE, source)
    x[0, :5] = np.inf, -np.inf, np.nan, 60000, 3
    y = np.zeros(SHAPE, dtype)
    convert(x, y, arch="sm_90a", backend=backend)
    narrow = y.astype(np.float32)
    assert np.isnan(narrow[0, 2])
    assert narrow[0, [0, 1, 3, 4]].tolist() == [most, -most, most, 3]
    assert not narrow[1:].any()


@pytest.mark.parametrize("backend", ["emulator", "interpreter"])
def test_an_infinite_maximum_of_e5m2_is_its_largest_number(backend):
    @cute.kernel
    def largest(X, Y):
        cute.copy(cute.row_max(whole(X).load()), cute.local_tile(Y, (SHAPE[0], 1), (0, 0)))

    x = np.zeros(SHAPE, ml_dtypes.float8_e5m2)
    x[0, 3], x[1, 3] = np.inf, 2
    y = np.zeros((SHAPE[0], 1), ml_dtypes.float8_e5m2)
    largest(x, y, arch="sm_90a", backend=backend)
    assert y[:3, 0].astype(np.float32).tolist() == [57344, 2, 0]
