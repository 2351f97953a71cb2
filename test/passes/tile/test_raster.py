"""The order of work items: every tile once, in bands, back and forth, and along Hilbert curves."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.parser import Parser

import cutedialect as cute
from cutedialect.backend.emulator import launch
from cutedialect.backend.ptx import ptx_text
from cutedialect.dialects import all_dialects
from cutedialect.passes.cute_to_ptx import CuteToPtxPass

MEMREF = '!cute.memref<i32, gmem, align<4>, "(?,?):(?{i64},1)">'
# Writes a number into the CTA's tile, which is one element: that of the block, or one more.
KERNEL = f"""
cute.kernel @k(%D: {MEMREF}) {{
  %m, %n = cute.tile_index %D, [1, 1] : {MEMREF}
  %f = cute.alloc_fragment : !cute.fragment<i32, "(1,1)">
  %d = cute.local_tile %D, [1, 1], (%m, %n) : {MEMREF}
    -> !cute.memref<i32, gmem, align<4>, "(1,1):(?{{i64}},1)">
  %v = VALUE
  cute.fill %f, %v : !cute.fragment<i32, "(1,1)">
  STORE
}}
"""
COPY = 'cute.copy %f, %d : !cute.fragment<i32, "(1,1)"> -> '
ATOMIC = 'cute.atomic "add", %f, %d : !cute.fragment<i32, "(1,1)">, '
TILE = '!cute.memref<i32, gmem, align<4>, "(1,1):(?{i64},1)">'


def context() -> Context:
    made = Context()
    for name, load in all_dialects().items():
        made.register_dialect(name, load)
    return made


@cache
def ptx(schedule: str) -> str:
    counted = "persistent" in schedule
    text = KERNEL.replace("VALUE", "arith.constant 1 : i32" if counted else "cute.block_idx x")
    text = text.replace("STORE", (ATOMIC if counted else COPY) + TILE)
    module = Parser(context(), text).parse_module()
    CuteToPtxPass(arch="sm_80", schedule=schedule + ", warps = (1,1)").apply(context(), module)
    return ptx_text(module)


def numbered(rows: int, columns: int, schedule: str) -> np.ndarray:
    """The number of the work item of each tile."""
    found = np.full((rows, columns), -1, np.int32)
    arguments = [found, np.int32(rows), np.int32(columns), np.int64(columns)]
    launch(ptx(schedule), "k", rows * columns, 32, arguments)
    return found


def path(rows: int, columns: int, schedule: str) -> list[tuple[int, int]]:
    """The tiles in the order of their work items, each of which is there once."""
    found = numbered(rows, columns, schedule)
    assert sorted(found.reshape(-1).tolist()) == list(range(rows * columns))
    where = np.argsort(found.reshape(-1))
    return [divmod(int(each), columns) for each in where]


SHAPES = [(1, 1), (1, 7), (7, 1), (8, 8), (9, 5), (16, 12), (13, 17), (4, 19)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("raster", [1, 3, 4, 8])
def test_columns_of_a_band(shape, raster):
    rows, columns = shape
    wanted = [
        (row, column)
        for first in range(0, rows, raster)
        for column in range(columns)
        for row in range(first, min(rows, first + raster))
    ]
    assert path(rows, columns, f"raster = {raster}") == wanted
    assert path(rows, columns, f"raster = {raster}, order = columns") == wanted


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("raster", [1, 3, 8])
def test_a_snake_turns_at_the_end_of_a_band(shape, raster):
    rows, columns = shape
    wanted = []
    for number, first in enumerate(range(0, rows, raster)):
        order = range(columns) if number % 2 == 0 else range(columns - 1, -1, -1)
        wanted += [
            (row, column) for column in order for row in range(first, min(rows, first + raster))
        ]
    assert path(rows, columns, f"raster = {raster}, order = snake") == wanted


def curve(side: int) -> list[tuple[int, int]]:
    """The Hilbert curve from the top left to the top right corner of a square, by its definition:
    two half curves in the middle, upright, between two that are turned.
    """
    if side == 1:
        return [(0, 0)]
    half, part = side // 2, curve(side // 2)
    return (
        [(column, row) for row, column in part]
        + [(row + half, column) for row, column in part]
        + [(row + half, column + half) for row, column in part]
        + [(half - 1 - column, side - 1 - row) for row, column in part]
    )


@pytest.mark.parametrize("side", [1, 2, 4, 8, 16])
def test_a_square_is_walked_along_a_hilbert_curve(side):
    assert path(side, side, f"raster = {side}, order = hilbert") == curve(side)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("raster", [1, 3, 4, 8])
def test_hilbert_covers_any_plane(shape, raster):
    rows, columns = shape
    side = 1 << raster.bit_length() - 1
    found = path(rows, columns, f"raster = {raster}, order = hilbert")
    wanted = []
    for number, first in enumerate(range(0, rows, side)):
        high = min(side, rows - first)
        whole = columns // side if high == side else 0
        band = [(row, side * square + at) for square in range(whole) for row, at in curve(side)]
        band += [(row, at) for at in range(side * whole, columns) for row in range(high)]
        if number % 2:
            band = [(row, columns - 1 - at) for row, at in band]
        wanted += [(first + row, at) for row, at in band]
    assert found == wanted


@pytest.mark.parametrize("shape", [*SHAPES, (192, 3), (193, 3), (400, 2)])
def test_a_tall_band_has_all_rows_unless_they_are_many(shape):
    rows, columns = shape
    found = path(rows, columns, "raster = 2, order = tall")
    height = rows if rows <= 192 else 16
    assert found == [
        (row, column)
        for first in range(0, rows, height)
        for column in range(columns)
        for row in range(first, min(first + height, rows))
    ]


@pytest.mark.parametrize("shape", [*SHAPES, (193, 5), (3, 200), (200, 193)])
def test_the_short_side_of_many_rows_comes_first(shape):
    rows, columns = shape
    found = path(rows, columns, "raster = 2, order = short")
    wanted = [(row, column) for column in range(columns) for row in range(rows)]
    assert found == (wanted if rows <= max(columns, 192) else sorted(wanted))


def test_steps_inside_of_squares_are_to_neighbors():
    found = path(8, 40, "raster = 8, order = hilbert")
    assert all(
        abs(row - next_row) + abs(column - next_column) == 1
        for (row, column), (next_row, next_column) in pairwise(found)
    )


@pytest.mark.parametrize("order", ["columns", "snake", "hilbert", "tall", "short"])
@pytest.mark.parametrize("shape", [(8, 8), (9, 5), (13, 17)])
def test_persistent_ctas_take_every_tile_once(order, shape):
    rows, columns = shape
    taken = np.zeros(shape, np.int32)
    arguments = [taken, np.int32(rows), np.int32(columns), np.int64(columns)]
    schedule = f"raster = 4, order = {order}, scheduler = persistent"
    launch(ptx(schedule), "k", 6, 32, arguments)
    assert (taken == 1).all()


@pytest.mark.some(1)
@pytest.mark.parametrize("order", ["snake", "hilbert"])
def test_clusters_are_walked_as_blocks(order):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (700, 64)).astype(np.float16) for _ in range(2))
    schedule = cute.Schedule(tile=(64, 64, 64), cluster=(2, 1), raster=4, order=order)
    got = cute.gemm(a, b.T, arch="sm_90a", schedule=schedule, backend="emulator")
    np.testing.assert_array_equal(got, a.astype(float) @ b.T.astype(float))


def test_an_unknown_order_names_the_near_one():
    assert (
        cute.Schedule.parse("raster = 4, order = hilbert").text() == "raster = 4, order = hilbert"
    )
    with pytest.raises(
        ValueError,
        match="hilbert, sections, tall, short, memory, got 'snakes'; did you mean 'snak",
    ):
        cute.Schedule(order="snakes")


HEADS = '!cute.memref<i32, gmem, align<16>, "(?,?,?,4):(?{i64},?{i64},4,1)">'
# Writes the number of the CTA into its row of 4 of a head.
OF_HEADS = f"""
cute.kernel @k(%D: {HEADS}) {{
  %b, %h, %i, %w = cute.tile_index %D, [1, 1, TILE, _] : {HEADS}
  %f = cute.alloc_fragment : !cute.fragment<i32, "(TILE,4)">
  %d = cute.local_tile %D, [*, *, TILE, 4], (%b, %h, %i, %w) : {HEADS}
    -> !cute.memref<i32, gmem, align<16>, "(TILE,4):(4,1)">
  %v = cute.block_idx x
  cute.fill %f, %v : !cute.fragment<i32, "(TILE,4)">
  cute.copy %f, %d : !cute.fragment<i32, "(TILE,4)">
    -> !cute.memref<i32, gmem, align<16>, "(TILE,4):(4,1)">
}}
"""


@pytest.mark.parametrize("raster", [1, 2, 4, 64])
@pytest.mark.parametrize("tile", [1, 2])
def test_sections_of_all_outer_modes(raster, tile):
    module = Parser(context(), OF_HEADS.replace("TILE", str(tile))).parse_module()
    schedule = f"order = sections, raster = {raster}, warps = (1,1)"
    CuteToPtxPass(arch="sm_80", schedule=schedule).apply(context(), module)
    found = np.full((2, 3, 5, 4), -1, np.int32)
    count = -(-5 // tile)
    numbers = np.int32(2), np.int32(3), np.int32(5), np.int64(60), np.int64(20)
    launch(ptx_text(module), "k", 6 * count, 32, [found, *numbers])
    expected = []
    heads = [(b, h) for b in range(2) for h in range(3)]
    for first in range(0, 6, raster):
        expected += [(*head, i) for i in range(count) for head in heads[first : first + raster]]
    for number, (b, h, i) in enumerate(expected):
        assert (found[b, h, i * tile : (i + 1) * tile] == number).all()


@pytest.mark.parametrize("tile", [1, 2])
@pytest.mark.parametrize("place", [(0, 1, 2), (1, 0, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_tiles_follow_each_other_as_they_lie_in_memory(place, tile):
    """Every CTA writes its number into a tensor whose modes are `place` of those in memory."""
    text = OF_HEADS.replace("?{i64},4,1)", "?{i64},?{i64},1)").replace("(4,1)", "(?{i64},1)")
    module = Parser(context(), text.replace("TILE", str(tile))).parse_module()
    CuteToPtxPass(arch="sm_80", schedule="order = memory, warps = (1,1)").apply(context(), module)
    shape, count = (2, 3, 5), -(-5 // tile)
    stored = np.full((*(shape[mode] for mode in place), 4), -1, np.int32)
    found = stored.transpose((*np.argsort(place), 3))
    numbers = (*map(np.int32, shape), *(np.int64(each // 4) for each in found.strides[:3]))
    launch(ptx_text(module), "k", 6 * count, 32, [stored, *numbers])
    firsts = found[:, :, ::tile, 0]
    in_memory = np.argsort([found.strides[mode] * (tile if mode == 2 else 1) for mode in range(3)])
    expected = np.arange(6 * count).reshape([firsts.shape[mode] for mode in in_memory[::-1]])
    assert np.array_equal(firsts.transpose(in_memory[::-1]), expected)


def test_programs_on_heads_walk_them_as_they_lie():
    @cute.kernel
    def program(X, Y, *, tile=16):
        h, i, _ = cute.tile_index(Y, (1, tile, None))
        x, y = (cute.local_tile(v, (1, tile, 32), (h, i, 0)) for v in (X, Y))
        cute.copy(x.load() + 1.0, y)

    x = np.random.default_rng(0).standard_normal((3, 40, 32)).astype(np.float32)
    for order in ((0, 1, 2), (1, 0, 2)):
        stored = np.zeros([x.shape[mode] for mode in order], np.float32)
        y = stored.transpose(order)
        assert "order = memory" in cute.compile(program, x, y, arch="sm_80").schedule
        for backend in ("interpreter", "emulator"):
            program(x, y, arch="sm_80", backend=backend)
            assert np.array_equal(y, x + 1)
            y[:] = 0
