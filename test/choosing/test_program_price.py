"""Prices of traced programs: what is counted of them, and which values of open parameters that puts
first.
"""

from __future__ import annotations

import pytest

import cutedialect as cute
from benchmarks.program_tiles import chained
from cutedialect.atoms import DEVICES
from cutedialect.choosing.need import NONE, Limits, Need
from cutedialect.choosing.program_price import Multiply, estimated, need
from cutedialect.choosing.program_space import OPEN_SPACE, OpenProblem
from cutedialect.passes.analysis.program_work import work_of

H200 = next(each for each in DEVICES if each.name == "H200")
TILES = (64, 64), (128, 64), (64, 128), (128, 128), (64, 256), (256, 64), (128, 256)


@cute.kernel
def seen(Q, K, out, *, tile=(64, 64)):
    """Sums over the keys up to a row's own, as rows of causal attention see them."""
    rows, keys = tile
    i, _ = cute.tile_index(out, (rows, 64))
    q, k = cute.local_tile(Q, (rows, 64), (i, 0)), cute.local_tile(K, (keys, 64), (None, 0))
    acc = cute.zeros((rows, 64))
    for j in cute.range((i * rows + rows + keys - 1) // keys):
        s = cute.zeros((rows, keys))
        cute.gemm(q, k[j].T, s)
        cute.gemm(cute.exp2(s).to(cute.f16), k[j], acc)
    cute.copy(acc.to(cute.f16), cute.local_tile(out, (rows, 64), (i, 0)))


@cute.kernel
def counted(A, N, C, *, tile=(64, 64)):
    """As many trips as a number in memory says."""
    rows, columns = tile
    i, j = cute.tile_index(C, (rows, columns))
    acc = cute.zeros((rows, columns))
    for k in cute.range(N[0]):
        a = cute.local_tile(A, (rows, 64), (i, k))
        cute.gemm(a, cute.local_tile(A, (columns, 64), (j, k)).T, acc)
    cute.copy(acc.to(cute.f16), cute.local_tile(C, (rows, columns), (i, j)))


def work(program, shapes, dtype="f16", **constants):
    specs = [cute.TensorSpec(shape, dtype) for shape in shapes]
    return work_of(program.trace(specs, constants), shapes)


def shapes_of(m, k, inner, n):
    return [(m, k), (k, inner), (inner, n), (m, n)]


def ranked(m, k, inner, n, tiles=TILES):
    def price(options):
        found = work(chained, shapes_of(m, k, inner, n), inner=inner, **dict(options.parameters))
        assert found is not None
        return estimated(found, H200), need(found)

    problem = OpenProblem({"tile": tiles}, price)
    return [dict(each.parameters)["tile"] for each in OPEN_SPACE.ranked(problem, None, NONE)]


def test_what_a_program_does_is_counted():
    (found,) = work(chained, shapes_of(1000, 256, 64, 512), tile=(128, 64))
    assert found.items == 8 * 8
    assert found.multiplies == (Multiply(128, 64, 128, 4.0), Multiply(128, 64, 128, 1.0, True))
    assert found.loaded == 4 * 2 * (128 * 64 + 64 * 64) + 2 * 64 * 64
    assert found.stored == found.results == 2 * 128 * 64
    assert (found.kept, found.stage, found.trips) == (2 * 64 * 64, 2 * 192 * 64, 4)
    assert found.moved == 2 * (1000 * 256 + 256 * 64 + 64 * 512 + 1000 * 512)
    assert found.held == 2 * 128 * 64


def test_trips_that_differ_count_as_their_mean():
    (found,) = work(seen, [(1024, 64)] * 3)
    # 1 to 16 trips; what a mean is rounded to may be half of one off.
    assert [each.times for each in found.multiplies] == [pytest.approx(8.5, abs=0.5)] * 2
    assert found.special == found.multiplies[0].times * 64 * 64
    # The same tile of keys twice in a trip is one load.
    assert found.stage == 2 * 64 * 64


def test_trips_that_memory_tells_are_not_known():
    shapes = [(256, 256), (1,), (256, 256)]
    specs = [cute.TensorSpec(shape, "i32" if shape == (1,) else "f16") for shape in shapes]
    assert work_of(counted.trace(specs), shapes) is None
    assert work(chained, [(None, 64), (64, 64), (64, None), (None, None)]) is None


# Of an H200: microseconds of the first tile and of the one that is chosen, and the least.
@pytest.mark.parametrize(
    ("sizes", "tile"),
    [
        ((8192, 4096, 64, 4096), (128, 256)),  # 766, 139 and 139
        ((1000, 1024, 128, 4096), (128, 128)),  # 29.6, 17.1 and 17.1
        ((1000, 1024, 128, 1000), (64, 128)),  # 10.7, 8.1 and 8.1
        ((1024, 4096, 64, 256), (64, 64)),  # 11.4
    ],
)
def test_the_fastest_tile_comes_first(sizes, tile):
    assert ranked(*sizes)[0] == tile


def test_tiles_without_their_registers_come_last():
    """Both spill: sums, and the operand that threads hold, leave no register."""
    assert set(ranked(8192, 4096, 128, 4096)[-2:]) == {(256, 64), (128, 256)}


def test_equal_prices_and_no_prices_leave_the_order_of_the_program():
    problem = OpenProblem({"a": (3, 1, 2)}, lambda options: (7.0, Need()))
    for each in (problem, OpenProblem({"a": (3, 1, 2)})):
        listed = OPEN_SPACE.ranked(each, None, NONE)
        assert [options.parameters[0][1] for options in listed] == [3, 1, 2]
    tight = OpenProblem(
        {"a": (1, 2)}, lambda o: (1.0, Need(8.0, 8.0 + 40 * (o.parameters[0][1] > 1)))
    )
    assert next(OPEN_SPACE.ranked(tight, None, Limits(24.0))).parameters == (("a", 2),)
