"""`cute.sort`, `argsort` and `top_k` of many against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError
from cutedialect.passes.analysis.coordinates import Digit
from cutedialect.passes.analysis.lines import Level, exchanges, masks

ARCHES = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"]


def computed(x, mode, descending, arch="sm_90a", backend="emulator"):
    """What is sorted, what is sorted with places, and the places."""

    @cute.kernel
    def program(X, Y, Z, P):
        at = cute.tile_index(X, x.shape)
        tile = cute.local_tile(X, x.shape, at).load()
        how = {"mode": mode, "descending": descending}
        found, places = cute.sort(tile, **how, values=cute.coord(tile, mode))
        for value, out in ((cute.sort(tile, **how), Y), (found, Z), (places, P)):
            cute.copy(value, cute.local_tile(out, x.shape, at))

    results = [np.zeros_like(x), np.zeros_like(x), np.zeros(x.shape, np.int32)]
    program(x, *results, arch=arch, backend=backend)
    return results


def check(x, mode, descending, **how):
    wide = x.astype(np.float64) if x.dtype == ml_dtypes.bfloat16 else x
    places = np.argsort(wide, mode, kind="stable")
    if descending:
        turned = np.argsort(np.flip(wide, mode), mode, kind="stable")
        places = x.shape[mode] - 1 - np.flip(turned, mode)
    want = np.take_along_axis(wide, places, mode)
    one, two, found = computed(x, mode, descending, **how)
    np.testing.assert_array_equal(one.astype(want.dtype), want)
    np.testing.assert_array_equal(two.astype(want.dtype), want)
    np.testing.assert_array_equal(found, places)


def drawn(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "u":
        return rng.integers(0, np.iinfo(dtype).max, shape, dtype)
    x = rng.integers(-9, 9, shape).astype(dtype)
    if np.dtype(dtype).kind not in "iu" and x.size > 8:
        x.flat[rng.choice(x.size, 4, replace=False)] = [np.nan, -np.nan, np.inf, -np.inf]
    return x


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(4, 64), (2, 100), (1, 256), (48, 12), (1, 1)])
def test_rows_and_columns(shape, mode, descending, arch):
    check(drawn(shape, np.float32), mode, descending, arch=arch)


DTYPES = ["int8", "uint8", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float64"]


@pytest.mark.some(5)
@pytest.mark.parametrize("dtype", [*DTYPES, ml_dtypes.bfloat16])
def test_types(dtype):
    for backend, descending in (("emulator", False), ("interpreter", True)):
        check(drawn((4, 20), dtype, 1), 1, descending, backend=backend)


def test_of_two_zeros_the_negative_one_comes_first():
    x = np.array([[0.0, -0.0, 1.0, -0.0]], np.float32)
    for backend in ("emulator", "interpreter"):
        one, two, places = computed(x, 1, False, backend=backend)
        assert np.signbit(one).tolist() == np.signbit(two).tolist() == [[True, True, False, False]]
        assert places.tolist() == [[1, 3, 0, 2]]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_many_of_the_largest(dtype):
    x = drawn((2, 120), dtype, 2)
    x[1, 5:] = -np.inf if np.dtype(dtype).kind == "f" else np.iinfo(dtype).min

    @cute.kernel
    def program(X, Y, P):
        at = cute.tile_index(X, x.shape)
        values, places = cute.top_k(cute.local_tile(X, x.shape, at).load(), 50)
        cute.copy(values, cute.local_tile(Y, (2, 50), (0, 0)))
        cute.copy(places, cute.local_tile(P, (2, 50), (0, 0)))

    y, p = np.zeros((2, 50), dtype), np.zeros((2, 50), np.int32)
    program(x, y, p, arch="sm_90a", backend="emulator")
    turned = np.argsort(np.flip(x, 1), 1, kind="stable")
    want = (119 - np.flip(turned, 1))[:, :50]
    np.testing.assert_array_equal(p, want)
    np.testing.assert_array_equal(y, np.take_along_axis(x, want, 1))


FIRST = [((1, 1100), 1, 17), ((2, 256), 1, 33), ((1, 2048), 1, 1000), ((256, 4), 0, 20),
         ((48, 12), 0, 40), ((16, 64), 1, 64), ((3, 33), 1, 32)]  # fmt: skip


@pytest.mark.some(6)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int16])
@pytest.mark.parametrize(("shape", "mode", "k"), FIRST)
def test_the_first_of_lines_that_threads_lanes_and_warps_share(shape, mode, k, dtype, arch):
    """With equal elements and infinities, in runs that are merged."""
    x = drawn(shape, dtype, k)
    x[1:, :5] = np.iinfo(dtype).min if np.dtype(dtype).kind == "i" else -np.inf
    kept = (shape[0], k) if mode else (k, shape[1])

    @cute.kernel
    def program(X, Y, P):
        at = cute.tile_index(X, x.shape)
        values, places = cute.top_k(cute.local_tile(X, x.shape, at).load(), k, mode)
        cute.copy(values, cute.local_tile(Y, kept, (0, 0)))
        cute.copy(places, cute.local_tile(P, kept, (0, 0)))

    turned = np.argsort(np.flip(x, mode), mode, kind="stable")
    want = (x.shape[mode] - 1 - np.flip(turned, mode)).take(range(k), mode)
    for backend in ("emulator", "interpreter"):
        y, p = np.zeros(kept, dtype), np.zeros(kept, np.int32)
        program(x, y, p, arch=arch, backend=backend)
        np.testing.assert_array_equal(p, want)
        np.testing.assert_array_equal(y, np.take_along_axis(x, want, mode))


def test_the_first_of_a_row_take_a_third_of_a_sort():
    """Of 2,048 elements 32: 6,360 lines of PTX where the whole row is sorted."""

    @cute.kernel
    def program(X, Y):
        values, _ = cute.top_k(cute.local_tile(X, (1, 2048), (0, 0)).load(), 32)
        cute.copy(values, cute.local_tile(Y, (1, 32), (0, 0)))

    specs = (cute.TensorSpec((1, columns), cute.f32) for columns in (2048, 32))
    text = cute.compile(program, *specs, arch="sm_90a", schedule="warps = (1,4)").ptx
    assert text.count("shfl.sync") < 500
    # Warps exchange once for each of the two digits that count them.
    assert text.count("bar.sync") <= 6


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(("shape", "mode", "k"), [((8, 152), 1, 32), ((48, 12), 0, 20)])
def test_elements_alone_are_sorted_without_their_places(shape, mode, k, arch):
    """By half of the bits, each line by eight lanes: 1,248 instructions of 64 threads, of 128
    threads 4,216 before.
    """
    x = drawn(shape, np.float32, k)
    kept = (shape[0], k) if mode else (k, shape[1])

    @cute.kernel
    def program(X, Y):
        values, _ = cute.top_k(cute.local_tile(X, shape, (0, 0)).load(), k, mode)
        cute.copy(values, cute.local_tile(Y, kept, (0, 0)))

    want = np.flip(np.sort(x, mode), mode).take(range(k), mode)
    for backend in ("emulator", "interpreter"):
        y = np.zeros(kept, np.float32)
        program(x, y, arch=arch, backend=backend)
        np.testing.assert_array_equal(y, want)
    specs = (cute.TensorSpec(each, cute.f32) for each in (shape, kept))
    text = cute.compile(program, *specs, arch=arch).ptx
    assert "setp.lt.s64" not in text
    if mode:
        assert text.count("shfl.sync") <= 304


def test_places_alone_and_several_values():
    x = drawn((2, 64), np.int32, 3)

    @cute.kernel
    def program(X, Y, Z):
        at = cute.tile_index(X, x.shape)
        tile = cute.local_tile(X, x.shape, at).load()
        _, (first, second) = cute.sort(tile, values=(tile * 2, tile.to(cute.f16)))
        y = cute.argsort(tile) + first + second.to(cute.i32)
        cute.copy(y, cute.local_tile(Y, x.shape, at))
        cute.copy(cute.argsort(tile, 0, descending=True), cute.local_tile(Z, x.shape, at))

    y, z = np.zeros_like(x), np.zeros_like(x)
    program(x, y, z, arch="sm_90a", backend="emulator")
    np.testing.assert_array_equal(y, np.argsort(x, 1, kind="stable") + 3 * np.sort(x, 1))
    np.testing.assert_array_equal(z, np.argsort(-x, 0, kind="stable"))


@pytest.mark.parametrize("bits", range(6))
def test_the_network_sorts_all_zeros_and_ones(bits):
    """What sorts all lines of two numbers sorts all lines (the 0-1 principle)."""
    size = 1 << bits
    lines = (np.random.default_rng(0).random((4096, size)) < 0.5).astype(int)
    if size <= 8:
        lines = (np.arange(1 << size)[:, None] >> np.arange(size)) & 1
    for mask in masks(bits):
        front = [i for i in range(size) if i < i ^ mask]
        back = [i ^ mask for i in front]
        pairs = np.sort(np.stack([lines[:, front], lines[:, back]]), 0)
        lines[:, front], lines[:, back] = pairs
    assert (np.diff(lines, axis=1) >= 0).all()


@pytest.mark.parametrize("leading", [1, 2, 3, 5, 8, 16, 31])
def test_the_merges_leave_the_first_of_all_zeros_and_ones(leading):
    """Digits are of values, of lanes, of values and of warps."""
    places = [(2, False, 1), (2, True, 1), (4, False, 2), (2, True, 32)]
    strides = np.cumprod([1] + [extent for extent, *_ in places])
    levels = [
        Level(Digit(divisor, extent, (0, int(stride))), of_threads, 1)
        for (extent, of_threads, divisor), stride in zip(places, strides[:-1], strict=True)
    ]
    size = int(strides[-1])
    lines = (np.random.default_rng(0).random((4096, size)) < 0.6).astype(int)
    want, dropped = np.sort(lines, 1)[:, :leading], np.zeros(size, bool)
    for step in exchanges(levels, leading):
        top = 1 << step.mask.bit_length() - 1
        front = [i for i in range(size) if not i & top and not dropped[i]]
        back = [i ^ step.mask for i in front]
        pairs = np.sort(np.stack([lines[:, front], lines[:, back]]), 0)
        lines[:, front], lines[:, back] = pairs
        dropped |= step.drops & ((np.arange(size) & top) != 0)
    assert (lines[:, :leading] == want).all()
    assert (~dropped).sum() == 1 << (leading - 1).bit_length()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda t: cute.sort(t, 2), "expected mode 0 .columns. or 1 .rows., got 2"),
        (lambda t: cute.sort(t, values=t[:4, :]), "expected values of the tile's shape"),
        (lambda t: cute.top_k(t, 9), "expected k in 1..8, got 9"),
    ],
)
def test_what_is_refused(function, message):
    @cute.kernel
    def program(X):
        function(cute.local_tile(X, (8, 8), (0, 0)).load())

    with pytest.raises(CompileError, match=message):
        program(np.zeros((8, 8), np.float32), backend="emulator")


def test_rows_that_lanes_do_not_share():
    """Of 100 elements, in tiles that are padded; what is sorted, counted and gathered is not."""

    @cute.kernel
    def program(X, Y, C):
        (i, _) = cute.tile_index(Y, (4, None))
        x = cute.local_tile(X, (4, 100), (i, 0)).load()
        order = cute.argsort(x)
        y = cute.take_along(x, order) * 100 + cute.take_along(cute.cumsum(x), 99 - order)
        cute.copy(y + cute.max(order, mode=1), cute.local_tile(Y, (4, 100), (i, 0)))
        counts = cute.histogram(cute.abs(x), 10, mode=1)
        cute.copy(counts, cute.local_tile(C, (4, 10), (i, 0)))

    x = drawn((10, 100), np.int32, 5)
    spec = cute.TensorSpec((None, 100), cute.i32)
    kernel = cute.compile(program, spec, spec, cute.TensorSpec((None, 10), cute.i32), arch="sm_90a")
    assert "of [4, 100]" in kernel.stages["cute-tile"]
    order = np.argsort(x, 1, kind="stable")
    sums = np.take_along_axis(np.cumsum(x, 1), 99 - order, 1)
    want = np.take_along_axis(x, order, 1) * 100 + sums + 99
    for backend in ("emulator", "interpreter"):
        y, counts = np.zeros_like(x), np.zeros((10, 10), np.int32)
        program(x, y, counts, arch="sm_90a", backend=backend)
        np.testing.assert_array_equal(y, want)
        np.testing.assert_array_equal(counts, [np.bincount(r, minlength=10) for r in np.abs(x)])
