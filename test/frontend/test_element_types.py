"""Integers of every width and sign, and conditions, as elements of arrays and as scalars: loads,
stores, conversions, operators and reductions against NumPy, in the emulator and the interpreter.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

INTEGERS = ("int16", "uint16", "uint32", "uint64")
ELEMENTS = ("bool", "int8", "uint8", *INTEGERS, "int32", "int64")
TARGETS = ("sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a")
BACKENDS = ("emulator", "interpreter")
DRAW = np.random.default_rng(27)


def drawn(dtype: str, shape: tuple[int, ...]) -> Any:
    """Numbers of the whole range, the least and the greatest among them."""
    if dtype == "bool":
        return DRAW.integers(0, 2, shape).astype(bool)
    limits = np.iinfo(dtype)
    x = DRAW.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    x.flat[:2] = limits.min, limits.max
    return x


@cute.kernel
def operators(X, Y, S, L, M, factor, *, tile=(4, 48)):
    """S: X + Y * factor, L: X < Y, M: the larger one."""
    i, j = cute.tile_index(X, tile)
    x, y = (cute.local_tile(each, tile, (i, j)).load() for each in (X, Y))
    for out, value in ((S, x + y * factor), (L, x < y), (M, cute.maximum(x, y))):
        cute.copy(value, cute.local_tile(out, tile, (i, j)))


@pytest.mark.some(5)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_operators_wrap_and_compare_as_numpy_does(dtype: str, arch: str, backend: str):
    x, y = drawn(dtype, (7, 50)), drawn(dtype, (7, 50))
    s, less, m = np.zeros_like(x), np.zeros(x.shape, bool), np.zeros_like(x)
    factor = x.dtype.type(np.iinfo(dtype).max - 2)
    operators(x, y, s, less, m, factor, arch=arch, backend=backend)
    assert np.array_equal(s, x + y * factor)
    assert np.array_equal(less, x < y)
    assert np.array_equal(m, np.maximum(x, y))


@cute.kernel
def divided(X, Y, Q, R, *, tile=(4, 48)):
    i, j = cute.tile_index(X, tile)
    x, y = (cute.local_tile(each, tile, (i, j)).load() for each in (X, Y))
    y = cute.maximum(y, 1)
    cute.copy(x // y, cute.local_tile(Q, tile, (i, j)))
    cute.copy((x % y) ^ ~x, cute.local_tile(R, tile, (i, j)))


@pytest.mark.some(3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_quotients_and_bits(dtype: str, backend: str):
    x, y = drawn(dtype, (7, 50)), drawn(dtype, (7, 50))
    q, r = np.zeros_like(x), np.zeros_like(x)
    divided(x, y, q, r, arch="sm_90a", backend=backend)
    y = np.maximum(y, 1)
    assert np.array_equal(q, x // y)
    assert np.array_equal(r, (x % y) ^ ~x)


@cute.kernel
def converted(X, Y, *, tile=(4, 48)):
    i, j = cute.tile_index(X, tile)
    cute.copy(cute.local_tile(X, tile, (i, j)).to(Y.dtype), cute.local_tile(Y, tile, (i, j)))


@pytest.mark.some(2)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("source", ELEMENTS)
def test_conversions_between_integers(source: str, backend: str):
    x = drawn(source, (3, 50))
    for target in ELEMENTS:
        y = np.zeros(x.shape, target)
        converted(x, y, arch="sm_90a", backend=backend)
        assert np.array_equal(y, x.astype(target)), target


@pytest.mark.some(3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_conversions_from_and_to_floats(dtype: str, backend: str):
    x = drawn(dtype, (3, 50))
    for target in ("float32", "float64", "float16", ml_dtypes.bfloat16):
        small = (x % 1000).astype(dtype)
        y, back = np.zeros(x.shape, target), np.zeros_like(x)
        converted(small, y, arch="sm_90a", backend=backend)
        assert np.array_equal(y, small.astype(np.float32).astype(target))
        converted(y, back, arch="sm_90a", backend=backend)
        assert np.array_equal(back, y.astype(np.float64).astype(dtype))
    # Clamped, as `cvt` does.
    limits = np.iinfo(dtype)
    y = np.array([[-1e30, -1.5, 1e30, 2.75]], np.float32)
    back = np.zeros(y.shape, dtype)
    converted(y, back, arch="sm_90a", backend=backend)
    assert back.tolist() == [[limits.min, max(-1, limits.min), limits.max, 2]]


@cute.kernel
def reduced(X, A, L, G, P, C, *, tile):
    """Sums, minima, maxima and products of rows, and maxima of columns."""
    i, _ = cute.tile_index(X, (tile[0], None))
    x = cute.local_tile(X, tile, (i, 0)).load()
    for out, kind in ((A, "add"), (L, "min"), (G, "max"), (P, "mul")):
        value = cute.reduce(x, 1, kind).to(out.dtype)
        cute.copy(value, cute.local_tile(out, (tile[0], 1), (i, 0)))
    cute.copy(cute.reduce(x, 0, "max"), cute.local_tile(C, (1, tile[1]), (i, 0)))


# One row in a thread's registers, padded ones, rows of several warps, ones that a cluster shares.
SHAPES = [(4, 8), (3, 50), (1, 3000)]


@pytest.mark.some(5)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_reductions(dtype: str, shape: tuple[int, int], backend: str):
    x = drawn(dtype, shape)
    # NumPy adds narrow integers in 64 bits; the sums of the kernel wrap in 32.
    wide = np.dtype(dtype) if np.dtype(dtype).itemsize > 2 else np.dtype(np.int32)
    a, p = (np.zeros((shape[0], 1), wide) for _ in range(2))
    least, most = (np.zeros((shape[0], 1), dtype) for _ in range(2))
    c = np.zeros((1, shape[1]), dtype)
    reduced(x, a, least, most, p, c, tile=shape, arch="sm_90a", backend=backend)
    assert np.array_equal(a[:, 0], x.sum(1, dtype=wide))
    assert np.array_equal(p[:, 0], x.prod(1, dtype=wide))
    assert np.array_equal(least[:, 0], x.min(1))
    assert np.array_equal(most[:, 0], x.max(1))
    assert np.array_equal(c[0], x.max(0))


@cute.kernel
def extremes(X, L, G, *, tile):
    i, _ = cute.tile_index(X, (tile[0], None))
    x = cute.local_tile(X, tile, (i, 0)).load()
    cute.copy(cute.reduce(x, 1, "min"), cute.local_tile(L, (tile[0], 1), (i, 0)))
    cute.copy(cute.reduce(x, 1, "max"), cute.local_tile(G, (tile[0], 1), (i, 0)))


@pytest.mark.parametrize("columns", [20_001, 70_001])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_long_rows_that_are_shared_or_walked(arch: str, columns: int):
    """All numbers lie above 2^31: what hides the end of a row may not be a signed extreme."""
    x = DRAW.integers(1 << 31, 1 << 32, (1, columns), np.uint32)
    least, most = (np.zeros((1, 1), np.uint32) for _ in range(2))
    extremes(x, least, most, tile=(1, columns), arch=arch, backend="emulator")
    assert (least[0, 0], most[0, 0]) == (x.min(), x.max())


@cute.kernel
def masked(X, M, Y, N, keep, bias, *, tile=(4, 48)):
    """Y: X where M and `keep` hold; N: not M."""
    i, j = cute.tile_index(X, tile)
    x, m = (cute.local_tile(each, tile, (i, j)).load() for each in (X, M))
    cute.copy(cute.where(m & keep, x, bias.to(x.dtype)), cute.local_tile(Y, tile, (i, j)))
    cute.copy(~m, cute.local_tile(N, tile, (i, j)))


@pytest.mark.some(3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("arch", TARGETS)
def test_conditions_in_memory(arch: str, backend: str):
    x, m = drawn("uint16", (7, 50)), drawn("bool", (7, 50))
    y, n = np.zeros_like(x), np.zeros_like(m)
    for keep in (True, False):
        masked(x, m, y, n, keep, np.uint16(65535), arch=arch, backend=backend)
        assert np.array_equal(y, np.where(m & keep, x, 65535))
        assert np.array_equal(n, ~m)
    # Any byte that is not 0 is true, and true is stored as 1.
    raw = np.full(m.shape, 4, np.uint8)
    masked(x, raw.view(bool), y, n, True, np.uint16(0), arch=arch, backend=backend)
    assert np.array_equal(y, x)
    assert not n.any()


@cute.kernel
def chosen(M, N, Y, *, rows=4):
    """Y: how many of the conditions of each row hold, 0 where N[0] does not."""
    i, _ = cute.tile_index(M, (rows, None))
    count = cute.row_sum(cute.local_tile(M, (rows, 64), (i, 0)).load())
    count = cute.where(N[0], count, 0)
    cute.copy(count, cute.local_tile(Y, (rows, 1), (i, 0)))


@cute.host
def through_memory(M, N, Y):
    kept = cute.workspace((M.shape[0], 64), cute.i1)
    cute.launch(inverted, M, kept)
    cute.launch(chosen, kept, N, Y)


@cute.kernel
def inverted(M, K, *, rows=4):
    i, _ = cute.tile_index(M, (rows, None))
    cute.copy(
        ~cute.local_tile(M, (rows, 64), (i, 0)).load(), cute.local_tile(K, (rows, 64), (i, 0))
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_conditions_are_read_one_by_one_and_through_a_workspace(backend: str):
    m, y = drawn("bool", (8, 64)), np.zeros((8, 1), np.int32)
    for first in (True, False):
        n = np.array([first, True])
        chosen(m, n, y, arch="sm_80", backend=backend)
        assert np.array_equal(y[:, 0], m.sum(1) * first)
        through_memory(m, n, y, arch="sm_80", backend=backend)
        assert np.array_equal(y[:, 0], (~m).sum(1) * first)


def test_conditions_keep_their_type_in_a_signature():
    m = drawn("bool", (7, 50))
    x, y = np.zeros(m.shape, np.uint16), np.zeros(m.shape, np.uint16)
    kernel = cute.compile(masked, x, m, y, m, True, np.uint16(0), arch="sm_80", backend="emulator")
    with pytest.raises(TypeError, match=r"M: expected .*bool, got uint8"):
        kernel.launch(x, m.view(np.uint8), y, m, True, 0)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_atomic_sums_of_unsigned_integers(dtype: str, arch: str):
    @cute.kernel
    def program(X, Y):
        i, _ = cute.tile_index(X, (4, None))
        x = cute.local_tile(X, (4, 48), (i, 0)).load()
        cute.atomic_add(cute.column_sum(x), cute.local_tile(Y, (1, 48), (0, 0)))

    x, y = drawn(dtype, (9, 48)), np.zeros((1, 48), dtype)
    program(x, y, arch=arch, backend="emulator")
    assert np.array_equal(y[0], x.sum(0, dtype=dtype))


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [("int16", "uint16", "int32"), ("uint16", "int8", "int32"), ("uint8", "int16", "int16"),
     ("uint32", "int32", "int64"), ("uint32", "uint16", "uint32"), ("bool", "uint64", "uint64")],
)  # fmt: skip
def test_two_types_meet_in_one_that_holds_both(one: str, other: str, both: str):
    @cute.kernel
    def program(X, Y, Z):
        x, y = (cute.local_tile(each, (4, 32), (0, 0)).load() for each in (X, Y))
        cute.copy(x + y, cute.local_tile(Z, (4, 32), (0, 0)))

    x, y = drawn(one, (4, 32)), drawn(other, (4, 32))
    z = np.zeros(x.shape, both)
    program(x, y, z, arch="sm_90a", backend="emulator")
    assert np.array_equal(z, x.astype(both) + y.astype(both))


def test_what_no_type_holds_is_refused():
    @cute.kernel
    def program(X, Y):
        x, y = (cute.local_tile(each, (4, 32), (0, 0)).load() for each in (X, Y))
        cute.copy(x + y, cute.local_tile(Y, (4, 32), (0, 0)))

    x, y = drawn("int64", (4, 32)), drawn("uint64", (4, 32))
    with pytest.raises(cute.CompileError, match=r"one type holds, got i64 and u64; convert one"):
        program(x, y, arch="sm_80", backend="emulator")


def test_conditions_are_neither_added_nor_multiplied():
    @cute.kernel
    def program(X, Y):
        y = cute.local_tile(Y, (16, 16), (0, 0))
        cute.atomic_add(cute.local_tile(X, (16, 16), (0, 0)).load(), y)

    x = drawn("bool", (16, 16))
    with pytest.raises(
        cute.CompileError, match=r"for cute\.atomic_add, got i1; .*\.to\(cute\.i32\)"
    ):
        program(x, x.copy(), arch="sm_80", backend="emulator")


def test_masked_arrays_are_refused():
    x = np.ma.masked_array(np.ones((16, 16), np.float32), mask=np.eye(16, dtype=bool))
    y = np.zeros((16, 16), np.float32)
    message = r"X: expected an array without a mask, got a masked one .*; take \.filled\(number\)"
    with pytest.raises(TypeError, match=message):
        converted(x, y, tile=(16, 16), arch="sm_80", backend="emulator")
    with pytest.raises(TypeError, match=message.replace("X", "a")):
        cute.gemm(x, y, arch="sm_80", backend="emulator")
    with pytest.raises(TypeError, match=message.replace("X", "Y")):
        converted(y, x, tile=(16, 16), arch="sm_80", backend="emulator")


@pytest.mark.parametrize("kind", ["compared", "loaded", "view"])
def test_conditions_are_multiplied_as_numbers_alone(kind: str):
    @cute.kernel
    def program(A, B, C, *, convert=False):
        a, b = cute.local_tile(A, (64, 32), (0, 0)), cute.local_tile(B, (32, 64), (0, 0))
        if kind != "view" or convert:
            a, b = (x.load() > 0 if kind == "compared" else x.load() for x in (a, b))
        if convert:
            a, b = a.to(cute.i8), b.to(cute.i8)
        acc = cute.zeros((64, 64), cute.i32)
        cute.gemm(a, b, acc)
        cute.copy(acc, cute.local_tile(C, (64, 64), (0, 0)))

    dtype = "int8" if kind == "compared" else "bool"
    a, b, c = drawn(dtype, (64, 32)), drawn(dtype, (32, 64)), np.zeros((64, 64), np.int32)
    with pytest.raises(cute.CompileError, match=r"a to be a tile of numbers, .*\.to\(cute\.i8\)"):
        program(a, b, c, arch="sm_90a", backend="emulator")
    program(a, b, c, convert=True, arch="sm_90a", backend="emulator")
    assert np.array_equal(c, (a > 0).astype(np.int32) @ (b > 0).astype(np.int32))


@cute.kernel
def of_four_bits(X, Y, Z, F, *, tile=(4, 48)):
    """Y: 3 X in X's type, which wraps, Z: in 8 bits; F: its whole numbers, clamped to X's type."""
    i, j = cute.tile_index(X, tile)
    x = cute.local_tile(X, tile, (i, j)).load()
    assert x.dtype == X.dtype
    cute.copy((x * 3).to(X.dtype), cute.local_tile(Y, tile, (i, j)))
    cute.copy(x * 3, cute.local_tile(Z, tile, (i, j)))
    f = cute.local_tile(F, tile, (i, j))
    cute.copy(f.load().to(X.dtype).to(cute.f32), f)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("dtype", "low", "high"), [("int4", -8, 7), ("uint4", 0, 15)])
def test_integers_of_four_bits_have_a_byte_each(dtype: str, low: int, high: int, backend: str):
    x = DRAW.integers(low, high + 1, (7, 50)).astype(dtype)
    wide = 3 * x.astype(np.int64)
    y, z = np.zeros_like(x), np.zeros(x.shape, "int8" if low else "uint8")
    numbers = np.linspace(-20, 20, 350, dtype=np.float32).reshape(7, 50)
    f = numbers.copy()
    of_four_bits(x, y, z, f, arch="sm_90a", backend=backend)
    assert y.tobytes() == wide.astype(dtype).tobytes()
    assert np.array_equal(z, wide)
    assert np.array_equal(f, np.clip(np.trunc(numbers), low, high))
