"""What operators on tiles compute: types, conversions, NaN, division, broadcasting, conditions."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

NAN, INF = float("nan"), float("inf")
FLOATS = (cute.e4m3, cute.e5m2, cute.f16, cute.bf16, cute.f32, cute.f64)
INTEGERS = (cute.i8, cute.u8, cute.i32, cute.i64)


def evaluate(function, *arrays, out):
    """`function` of whole tiles of the arrays (rank 2, one shape), as an array of type `out`."""
    shape = np.broadcast_shapes(*(array.shape for array in arrays))

    def store(tensors, Y):
        tiles = [
            cute.load(cute.local_tile(X, array.shape, (0, 0)))
            for X, array in zip(tensors, arrays, strict=True)
        ]
        result = function(*tiles)
        assert result.dtype.numpy == np.dtype(out), result.dtype
        cute.copy(result, cute.local_tile(Y, shape, (0, 0)))

    @cute.kernel
    def one(A, Y):
        store((A,), Y)

    @cute.kernel
    def two(A, B, Y):
        store((A, B), Y)

    @cute.kernel
    def three(A, B, C, Y):
        store((A, B, C), Y)

    y = np.zeros(shape, out)
    (one, two, three)[len(arrays) - 1](*arrays, y, backend="emulator")
    return y


def row(*values, dtype=np.float32):
    """The values as a (1, n) array, n a power of two."""
    room = 1 << max(2, (len(values) - 1).bit_length())
    return np.array([[*values, *[values[-1]] * (room - len(values))]], dtype)


def same(got, want):
    """Equal bits, but for the sign and payload of NaN."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    with np.errstate(invalid="ignore"):  # a signaling NaN
        wide = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(*wide)
    zeros = wide[1] == 0
    np.testing.assert_array_equal(*(np.signbit(each)[zeros] for each in wide))


def traced(function):
    """Run the body of a kernel at trace time only; the kernel itself copies one number."""

    @cute.kernel
    def program(Y):
        function()
        cute.copy(cute.zeros((4, 4)), cute.local_tile(Y, (4, 4), (0, 0)))

    program(np.zeros((4, 4), np.float32), backend="emulator", arch="sm_90a")


@pytest.fixture
def quiet():
    with np.errstate(all="ignore"):
        yield


class TestTypes:
    def test_two_tiles_give_the_type_that_holds_both(self):
        mixed = {
            frozenset((cute.f16, cute.bf16)): cute.f32,
            frozenset((cute.e4m3, cute.e5m2)): cute.f32,
            frozenset((cute.i8, cute.u8)): cute.i32,
        }

        def wanted(one, other):
            if one == other:
                return one
            if (one in FLOATS and other in FLOATS) or (one in INTEGERS and other in INTEGERS):
                found = mixed.get(frozenset((one, other)))
                return found or max(one, other, key=lambda dtype: dtype.bits)
            return one if one in FLOATS else other

        def body():
            tiles = {dtype: cute.full((4, 4), 1, dtype) for dtype in FLOATS + INTEGERS}
            for one, other in itertools.product(tiles, repeat=2):
                assert (tiles[one] + tiles[other]).dtype == wanted(one, other), (one, other)
            for one, other in itertools.pairwise(tiles):
                left, right = tiles[one], tiles[other]
                condition = left < right
                assert condition.dtype == cute.i1
                assert cute.maximum(left, right).dtype == wanted(one, other)
                assert cute.where(condition, left, right).dtype == wanted(one, other)

        traced(body)

    def test_numbers_take_the_type_of_the_tile(self):
        def body():
            for dtype in FLOATS + INTEGERS:
                tile = cute.full((4, 4), 1, dtype)
                for result in (tile + 1, 1 - tile, tile * np.int64(2), np.int8(3) + tile):
                    assert result.dtype == dtype
            for dtype in FLOATS:
                tile = cute.full((4, 4), 1, dtype)
                assert (tile * 0.5).dtype == (np.float64(2) - tile).dtype == dtype

        traced(body)

    @pytest.mark.some(4)
    @pytest.mark.parametrize(
        "dtype",
        [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int8, np.uint8, np.int32],
    )
    def test_numbers_beside_tiles(self, dtype):
        x = row(1, 2, 3, 4, 100, 101, 0, dtype=dtype)
        for function in (
            lambda x: x + 3,
            lambda x: 100 - x,
            lambda x: x * 2,
        ):
            same(evaluate(function, x, out=dtype), function(x).astype(dtype))
        same(evaluate(lambda x: cute.maximum(x, 3), x, out=dtype), np.maximum(x, x.dtype.type(3)))
        for function in (
            lambda x: x > 1,
            lambda x: x <= 3,
            lambda x: x == 100,
            lambda x: x != 2,
            lambda x: x < 4,
        ):
            got = evaluate(lambda x, f=function: f(x).to(cute.i32), x, out=np.int32)
            assert np.array_equal(got, function(x))

    def test_conditions_count_as_integers(self):
        x = row(1.0, -1.0, 2.0, 0.0)
        assert evaluate(lambda x: (x > 0) + (x > 1), x, out=np.int32).tolist() == [[1, 0, 2, 0]]
        assert evaluate(lambda x: -(x > 0), x, out=np.int32).tolist() == [[-1, 0, -1, 0]]

    def test_functions_of_narrow_floats_are_computed_in_f32(self):
        x = row(0.5, 1.0, 2.0, 9.0, dtype=np.float16)
        got = evaluate(lambda x: cute.sqrt(x), x, out=np.float32)
        assert np.allclose(got, np.sqrt(x.astype(np.float32)), rtol=1e-6)

    @pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
    def test_reciprocals_are_off_by_a_unit_in_the_last_place(self, dtype):
        x = row(0.5, 3.0, -7.0, 1e-3, 60000.0, np.inf, -np.inf, dtype=dtype)
        exact = 1 / x.astype(np.float64)
        got = evaluate(lambda x: cute.reciprocal(x), x, out=np.float32)
        assert np.allclose(got, exact, rtol=2.0**-23, atol=0)
        y = row(0.0, -0.0, 1e-40, np.nan, dtype=np.float32)
        inverse = evaluate(lambda x: cute.reciprocal(x), y, out=np.float32)
        np.testing.assert_array_equal(inverse, row(np.inf, -np.inf, np.inf, np.nan))

    @pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
    def test_arithmetic_rounds_to_the_type_of_the_tiles(self, dtype):
        rng = np.random.default_rng(0)
        x, y = (rng.standard_normal((8, 16)).astype(dtype) for _ in range(2))
        exact = x.astype(np.float64) * y.astype(np.float64)
        same(evaluate(lambda x, y: x * y, x, y, out=dtype), exact.astype(dtype))
        exact = x.astype(np.float64) + y.astype(np.float64)
        same(evaluate(lambda x, y: x + y, x, y, out=dtype), exact.astype(dtype))

    def test_mixed_floats_meet_in_f32(self):
        x, y = row(1.0, 3.0, dtype=np.float16), row(0.00390625, 257.0, dtype=ml_dtypes.bfloat16)
        want = x.astype(np.float32) + y.astype(np.float32)
        same(evaluate(lambda x, y: x + y, x, y, out=np.float32), want)

    def test_an_integer_meets_a_float_in_the_float(self):
        x, y = row(3, -5, dtype=np.int32), row(0.5, 0.25, dtype=np.float16)
        same(evaluate(lambda x, y: x * y, x, y, out=np.float16), x.astype(np.float16) * y)


class TestIntegers:
    @pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
    def test_wrap_around(self, dtype, quiet):
        ends = np.iinfo(dtype)
        x, y = row(ends.max, ends.min, 7, dtype=dtype), row(1, ends.max, 100, dtype=dtype)
        for function in (lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y):
            same(evaluate(function, x, y, out=dtype), function(x, y))

    @pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
    def test_division_rounds_down_as_in_python(self, dtype):
        values = [7, 8, 1, 0, 100] + ([-7, -8, -1, -100] if np.iinfo(dtype).min < 0 else [])
        pairs = [(x, y) for x in values for y in values if y]
        x, y = (row(*(pair[side] for pair in pairs), dtype=dtype) for side in (0, 1))
        same(evaluate(lambda x, y: x // y, x, y, out=dtype), x // y)
        same(evaluate(lambda x, y: x % y, x, y, out=dtype), x % y)

    @pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
    def test_order_follows_the_sign_of_the_type(self, dtype):
        ends = np.iinfo(dtype)
        x = row(ends.max, ends.min, 0, 1, dtype=dtype)
        y = row(ends.min, ends.max, 1, 0, dtype=dtype)
        same(evaluate(cute.maximum, x, y, out=dtype), np.maximum(x, y))
        same(evaluate(cute.minimum, x, y, out=dtype), np.minimum(x, y))
        less = evaluate(lambda x, y: (x < y).to(cute.i32), x, y, out=np.int32)
        assert np.array_equal(less, x < y)

    def test_signed_and_unsigned_bytes_compare_by_value(self):
        x, y = row(-1, 127, dtype=np.int8), row(255, 127, dtype=np.uint8)
        less = evaluate(lambda x, y: (x < y).to(cute.i32), x, y, out=np.int32)
        assert less.tolist() == [[1, 0, 0, 0]]

    def test_bits(self):
        x, y = row(0b1100, 7, dtype=np.int32), row(0b1010, -1, dtype=np.int32)
        for function in (lambda x, y: x & y, lambda x, y: x | y, lambda x, y: x ^ y):
            same(evaluate(function, x, y, out=np.int32), function(x, y))
        same(evaluate(lambda x: ~x, x, out=np.int32), ~x)


class TestNaN:
    x, y = row(NAN, 1.0, NAN, -2.0, 0.0, INF), row(1.0, NAN, NAN, 3.0, 0.0, -INF)

    @pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
    def test_maximum_and_minimum_keep_it(self, dtype, quiet):
        x, y = self.x.astype(dtype), self.y.astype(dtype)
        same(evaluate(cute.maximum, x, y, out=dtype), np.maximum(x, y))
        same(evaluate(cute.minimum, x, y, out=dtype), np.minimum(x, y))

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_comparisons_are_false_but_for_unequal(self, dtype):
        x, y = self.x.astype(dtype), self.y.astype(dtype)
        for function in (
            lambda x, y: x < y,
            lambda x, y: x <= y,
            lambda x, y: x > y,
            lambda x, y: x >= y,
            lambda x, y: x == y,
            lambda x, y: x != y,
        ):
            got = evaluate(lambda x, y, f=function: f(x, y).to(cute.i32), x, y, out=np.int32)
            assert np.array_equal(got, function(x, y))

    def test_a_choice_leaves_it_behind(self):
        got = evaluate(lambda x: cute.where(x == x, x, 0.0), self.x, out=np.float32)
        same(got, np.where(np.isnan(self.x), np.float32(0), self.x))

    def test_relu_keeps_it(self):
        got = evaluate(cute.relu, self.x, out=np.float32)
        assert np.isnan(got[0, 0])
        assert got[0, 3] == 0

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_the_maximum_of_a_row_is_nan_where_one_is(self, dtype):
        x = np.arange(8 * 64, dtype=dtype).reshape(8, 64)
        x[3, 17] = NAN
        x[5] = -INF

        @cute.kernel
        def program(X, Y):
            whole = cute.row_max(cute.load(cute.local_tile(X, (8, 64), (0, 0))))
            cute.copy(whole, cute.local_tile(Y, (8,), (0,)))

        y = np.zeros(8, dtype)
        program(x, y, backend="emulator")
        same(y, np.max(x, axis=1))

    def test_in_a_sum(self):
        x = np.ones((4, 64), np.float32)
        x[2, 63] = NAN

        @cute.kernel
        def program(X, Y):
            whole = cute.row_sum(cute.load(cute.local_tile(X, (4, 64), (0, 0))))
            cute.copy(whole, cute.local_tile(Y, (4,), (0,)))

        y = np.zeros(4, np.float32)
        program(x, y, backend="emulator")
        same(y, x.sum(axis=1))


class TestConversions:
    @pytest.mark.parametrize("source", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
    @pytest.mark.parametrize("target", [np.int8, np.uint8, np.int32])
    def test_floats_to_integers_are_cut_and_clamped(self, source, target):
        x = row(-1.75, -0.5, 0.5, 1.99, 127.9, 128.0, 300.0, -300.0, INF, -INF, dtype=source)
        ends = np.iinfo(target)
        want = np.clip(np.trunc(x.astype(np.float64)), ends.min, ends.max).astype(target)
        same(evaluate(lambda x: x.to(cute.TensorSpec((1,), target).dtype), x, out=target), want)

    def test_nan_to_an_integer(self):
        same(
            evaluate(lambda x: x.to(cute.i32), row(NAN, 2.5), out=np.int32),
            row(0, 2, dtype=np.int32),
        )

    @pytest.mark.parametrize("target", [np.float16, ml_dtypes.bfloat16])
    def test_floats_round_to_nearest_even(self, target, quiet):
        rng = np.random.default_rng(1)
        x = (rng.standard_normal((8, 32)) * np.exp2(rng.integers(-20, 17, (8, 32)))).astype("f4")
        x[0, :6] = 1 + 2.0**-11, 1 + 3 * 2.0**-11, 65519.0, 65520.0, 1e-7, -0.0
        x[1, :3] = NAN, INF, -INF
        got = evaluate(lambda x: x.to(cute.TensorSpec((1,), target).dtype), x, out=target)
        same(got, x.astype(target))

    def test_every_f16_widens_without_loss(self):
        x = np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(256, 256)

        @cute.kernel
        def program(X, Y):
            at = cute.tile_index(X, (64, 64))
            x = cute.load(cute.local_tile(X, (64, 64), at))
            cute.copy(x.to(cute.f32), cute.local_tile(Y, (64, 64), at))

        y = np.zeros((256, 256), np.float32)
        program(x, y, backend="emulator")
        same(y, x.astype(np.float32))

    def test_integers_wrap(self):
        x = row(300, -1, 128, -129, dtype=np.int32)
        same(evaluate(lambda x: x.to(cute.i8), x, out=np.int8), x.astype(np.int8))
        same(evaluate(lambda x: x.to(cute.u8), x, out=np.uint8), x.astype(np.uint8))
        same(evaluate(lambda x: x.to(cute.i64), x, out=np.int64), x.astype(np.int64))

    def test_bytes_widen_by_their_sign(self):
        x = row(0, 1, 127, 128, 255, dtype=np.uint8)
        same(evaluate(lambda x: x.to(cute.i32), x, out=np.int32), x.astype(np.int32))
        same(evaluate(lambda x: x.to(cute.f32), x, out=np.float32), x.astype(np.float32))
        signed = x.view(np.int8)
        same(evaluate(lambda x: x.to(cute.i32), signed, out=np.int32), signed.astype(np.int32))

    def test_what_is_not_zero_is_true(self):
        x = row(0.0, -0.0, 1e-30, NAN)
        got = evaluate(lambda x: x.to(cute.i1).to(cute.i32), x, out=np.int32)
        assert got.tolist() == [[0, 0, 1, 1]]


class TestShapes:
    def test_columns_and_rows_stretch(self):
        m = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)
        column, line = m[:, :1] * 3, m[:1] - 5
        got = evaluate(lambda m, c, r: m + c * r, m, column, line, out=np.float32)
        same(got, m + column * line)

    def test_a_vector_is_a_column(self):
        @cute.kernel
        def program(X, v, Y):
            x = cute.load(cute.local_tile(X, (16, 8), (0, 0)))
            cute.copy(x * cute.column_vector(v, 0, 16), cute.local_tile(Y, (16, 8), (0, 0)))

        x = np.ones((16, 8), np.float32)
        v = np.arange(16, dtype=np.float32)
        y = np.zeros_like(x)
        program(x, v, y, backend="emulator")
        same(y, x * v[:, None])

    @pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64])
    def test_conditions_of_a_row_choose_from_a_column(self, dtype):
        """The conditions go from the layout of one to that of the other, through shared memory."""
        column = np.arange(16, dtype=dtype)[:, None] - 4
        line = np.arange(8, dtype=dtype)[None] - 3
        got = evaluate(lambda c, r: cute.where(r <= 1, r, c), column, line, out=dtype)
        same(got, np.where(line <= 1, line, column))
        got = evaluate(lambda c, r: cute.where((c > 2).T.T, r, c), column, line, out=dtype)
        same(got, np.where(column > 2, line, column))

    def test_scalars_of_the_kernel(self):
        @cute.kernel
        def program(X, Y, s, n):
            at = cute.tile_index(X, (8, 8))
            x = cute.load(cute.local_tile(X, (8, 8), at))
            cute.copy(x * s + n, cute.local_tile(Y, (8, 8), at))

        x = np.arange(64, dtype=np.float32).reshape(8, 8)
        y = np.zeros_like(x)
        program(x, y, 0.5, 3, backend="emulator")
        same(y, x * np.float32(0.5) + np.float32(3))

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            (
                lambda x, y: x + y,
                r"modes agree or have an extent of 1, got \(8, 8\) and \(8, 4\)",
            ),
            (lambda x, y: x if x > 0 else y, "expected a Python bool, got a tile"),
            (lambda x, y: x.to(cute.i32) / 2, "expected floats for '/'"),
            (lambda x, y: x // 2, r"expected integers for '//' and '%' \(use / or convert"),
            (lambda x, y: x & x, "expected conditions or integers for '&'"),
            (lambda x, y: ~x, "expected conditions or integers for '\\^' and '~'"),
            (lambda x, y: x.to(cute.i8) + 200, r"expected a number in -128..127 .* got 200"),
            (lambda x, y: x.to(cute.u8) - (-1), r"expected a number in 0..255 .* got -1"),
            (lambda x, y: x.to(cute.i32) + 0.5, "expected an integer for a value of i32, got 0.5"),
            (lambda x, y: cute.exp(x.to(cute.i32)), "expected a tile of floats, got i32"),
            (lambda x, y: cute.reciprocal(x.to(cute.i32)), "floats of at most 32 bits, got i32"),
            (lambda x, y: cute.where(x, x, 0.0), "expected a tile of conditions"),
            (lambda x, y: cute.map(lambda a: a, x, x), "expected 1 tiles for .*, got 2"),
        ],
    )
    def test_what_is_refused(self, body, message):
        @cute.kernel
        def program(X, Y):
            x, y = cute.load(cute.local_tile(X, (8, 8), (0, 0))), cute.zeros((8, 4))
            body(x, y)

        with pytest.raises(CompileError, match=message) as caught:
            program(np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32), backend="emulator")
        assert "test_elementwise.py" in str(caught.value.location)
