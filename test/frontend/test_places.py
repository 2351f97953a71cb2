"""`cute.take_along`, `put_along`, `histogram` and tiles of other shapes against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError
from cutedialect.backend.emulator import EmulatorError

ARCHES = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"]


def computed(function, arrays, shape, dtype, arch="sm_90a", backend="emulator"):
    """What a function of tiles gives, each of a whole array."""

    @cute.kernel
    def program(Y, A, B, C):
        at = cute.tile_index(Y, shape)
        tiles = [
            cute.local_tile(v, array.shape, (0, 0)).load()
            for v, array in zip((A, B, C), arrays, strict=False)
        ]
        cute.copy(function(*tiles), cute.local_tile(Y, shape, at))

    y = np.zeros(shape, dtype)
    program(y, *(list(arrays) * 3)[:3], arch=arch, backend=backend)
    return y


def both(function, arrays, shape, dtype, arch="sm_90a"):
    y = computed(function, arrays, shape, dtype, arch)
    again = computed(function, arrays, shape, dtype, arch, "interpreter")
    np.testing.assert_array_equal(y, again)
    return y


def drawn(shape, dtype=np.int32, low=-9, high=9, seed=0):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def taken(x, numbers, mode):
    inside = (numbers >= 0) & (numbers < x.shape[mode])
    found = np.take_along_axis(x, np.where(inside, numbers, 0), mode)
    return np.where(inside, found, np.zeros((), x.dtype))


@pytest.mark.some(5)
@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "float32", ml_dtypes.bfloat16])
@pytest.mark.parametrize("mode", [0, 1])
def test_elements_by_numbers(dtype, mode):
    x = drawn((12, 20), dtype, 0, 99)
    shape = (7, 20) if mode == 0 else (12, 33)
    numbers = drawn(shape, np.int32, -3, x.shape[mode] + 3)
    y = both(lambda t, n: cute.take_along(t, n, mode), [x, numbers], shape, dtype)
    np.testing.assert_array_equal(y, taken(x, numbers, mode))


@pytest.mark.parametrize("arch", ARCHES)
def test_numbers_that_a_loop_changes(arch):
    """A linked list in each row: the place that is reached by some steps."""

    def function(following):
        place = cute.full((8, 1), 0, cute.i32)
        for _ in cute.range(5):
            place.assign(cute.take_along(following, place))
        return place

    following = np.random.default_rng(1).permuted(np.tile(np.arange(50), (8, 1)), axis=1)
    following = following.astype(np.int32)
    want = np.zeros((8, 1), np.int32)
    for _ in range(5):
        want = np.take_along_axis(following, want, 1)
    y = computed(function, [following], (8, 1), np.int32, arch)
    np.testing.assert_array_equal(y, want)


def test_one_line_for_all():
    x, numbers = drawn((1, 40)), drawn((6, 9), np.int32, 0, 40)
    y = both(cute.take_along, [x, numbers], (6, 9), np.int32)
    np.testing.assert_array_equal(y, x[0][numbers])
    x, numbers = drawn((6, 40)), drawn((1, 9), np.int32, 0, 40)
    y = both(cute.take_along, [x, numbers], (6, 9), np.int32)
    np.testing.assert_array_equal(y, x[:, numbers[0]])


@pytest.mark.parametrize("dtype", ["int16", "float32", "float64"])
@pytest.mark.parametrize("mode", [0, 1])
def test_places_that_are_written(dtype, mode):
    x, values = drawn((16, 24), dtype), drawn((16, 24), dtype, 100, 120)
    order = np.random.default_rng(2).permuted(np.indices(x.shape)[mode], axis=mode).astype(np.int32)
    numbers = np.where(order % 3 == 0, -1, order)
    want = x.copy()
    for i, j in np.ndindex(*x.shape):
        if numbers[i, j] >= 0:
            want[(numbers[i, j], j) if mode == 0 else (i, numbers[i, j])] = values[i, j]
    y = both(lambda *t: cute.put_along(*t, mode), [x, numbers, values], x.shape, dtype)
    np.testing.assert_array_equal(y, want)


def test_sums_at_places():
    x, values = drawn((4, 10)), drawn((4, 64), np.int32, 0, 5)
    numbers = drawn((4, 64), np.int32, -2, 12)
    want = x.copy()
    for i, j in np.ndindex(4, 64):
        if 0 <= numbers[i, j] < 10:
            want[i, numbers[i, j]] += values[i, j]
    for dtype in (np.int32, np.float32, np.uint8):
        arrays = [x.astype(dtype), numbers, values.astype(dtype)]
        y = both(lambda *t: cute.put_along(*t, add=True), arrays, x.shape, dtype)
        np.testing.assert_array_equal(y, want.astype(dtype))


def test_one_place_written_twice_is_found():
    def function(tile):
        return cute.put_along(tile, cute.coord(tile, 0) * 0, tile, 0)

    x = drawn((128, 64))
    with pytest.raises(EmulatorError, match="race"):
        computed(function, [x], x.shape, np.int32)


@pytest.mark.some(7)
@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("mode", [None, 0, 1])
def test_histograms(mode, arch):
    x = drawn((6, 50), np.int32, -2, 45)
    shape = {None: (1, 40), 0: (40, 50), 1: (6, 40)}[mode]
    y = computed(lambda t: cute.histogram(t, 40, mode), [x], shape, np.int32, arch)
    equal = x[..., None] == np.arange(40)
    want = {None: equal.sum((0, 1))[None], 0: equal.sum(0).T, 1: equal.sum(1)}[mode]
    np.testing.assert_array_equal(y, want)


def test_other_shapes():
    x = drawn((6, 20), np.float16)
    y = both(lambda t: cute.reshape(t, (8, 15)), [x], (8, 15), np.float16)
    np.testing.assert_array_equal(y, x.reshape(8, 15))
    for mode in (0, 1):
        y = both(lambda t, mode=mode: cute.flip(t, mode), [x], (6, 20), np.float16)
        np.testing.assert_array_equal(y, np.flip(x, mode))
    one, two = x, drawn((6, 3), np.float16, seed=4)
    y = both(lambda *t: cute.concatenate(t), [one, two], (6, 23), np.float16)
    np.testing.assert_array_equal(y, np.concatenate((one, two), 1))
    y = both(lambda a, b: cute.concatenate((a.T, b.T), 0), [one, two], (23, 6), np.float16)
    np.testing.assert_array_equal(y, np.concatenate((one, two), 1).T)


def test_elements_that_hold_where_a_scan_says():
    """Compaction: the elements of each row for which a condition holds, in order."""

    def function(tile):
        is_kept = tile > 0
        place = cute.cumsum(is_kept, exclusive=True)
        place = cute.where(is_kept, place, -1)
        return cute.put_along(cute.full(tile.shape, 0, cute.i32), place, tile)

    x = drawn((5, 60))
    want = np.zeros_like(x)
    for row, kept in zip(want, x, strict=True):
        chosen = kept[kept > 0]
        row[: len(chosen)] = chosen
    np.testing.assert_array_equal(both(function, [x], x.shape, np.int32), want)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda t: cute.take_along(t, t.to(cute.f32)),
            "expected a tile of integers to name places",
        ),
        (lambda t: cute.take_along(t, t[:4, :]), "expected numbers of as many lines"),
        (lambda t: cute.put_along(t, t[:4, :], t), "expected numbers of as many lines"),
        (lambda t: cute.put_along(t, t, t[:4, :]), "expected a value for each of the numbers"),
        (lambda t: cute.put_along(t.to(cute.i64), t, 1, add=True), "at most 32 bits to add to"),
        (lambda t: cute.histogram(t.to(cute.f16), 9), "expected a tile of integers to count"),
        (lambda t: cute.reshape(t, (4, 8)), "expected a shape with 64 elements"),
        (lambda t: cute.concatenate(()), "expected a tile or more to concatenate"),
        (lambda t: cute.concatenate((t, t[:4, :])), "expected tiles of i32 with 8 lines"),
        (lambda t: cute.flip(t, None), "expected mode 0 .columns. or 1 .rows., got None"),
    ],
)
def test_what_is_refused(function, message):
    with pytest.raises(CompileError, match=message):
        computed(function, [np.zeros((8, 8), np.int32)], (8, 8), np.int32)
