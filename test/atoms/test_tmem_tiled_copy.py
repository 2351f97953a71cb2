"""Tiled copies of tensor memory: each element of a tile in one register of one thread, where the
manual's figures of the shapes put it, written out a second time.
"""

from __future__ import annotations

import pytest

from cutedialect.atoms import make_tmem_copy
from cutedialect.atoms.tmem_copy_atoms import SHAPES, find_tmem_copy, tmem_copies
from cutedialect.atoms.tmem_layouts import LANE, accumulator_layout, operand_layout
from cutedialect.layout import Layout, LayoutError
from cutedialect.passes.analysis.thread_layouts import tensor_accumulator, tensor_rows

TILES = {
    "m128": accumulator_layout(128, 64),
    "m64": accumulator_layout(64, 64),
    "m256 of a pair": accumulator_layout(256, 32, cta_group=2),
    "m128 of a pair": accumulator_layout(128, 64, cta_group=2),
    "blocks of rows": Layout(((128, 2), 32), ((LANE, 32), 1)),
    "an odd number of columns": accumulator_layout(128, 96),
}


def place(shape, repeat, lane, register):
    """(lane, column) of a register of a thread of a warp, relative to the instruction's corner."""
    quad, group = lane % 4, lane // 4
    return {
        "32x32b": (lane, register),
        "16x64b": (group + 8 * (quad % 2), quad // 2 + 2 * register),
        "16x128b": (group + 8 * (register % 2), quad + 4 * (register // 2)),
        "16x256b": (
            group + 8 * (register // 2 % 2), 2 * quad + register % 2 + 8 * (register // 4)
        ),
        "16x32bx2": (lane % 16, register + repeat * (lane // 16)),
    }[shape]  # fmt: skip


def columns_of(tile):
    return max(tile(i) % LANE for i in range(tile.size())) + 1


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", TILES)
def test_every_shape_and_layout(name, shape):
    tile = TILES[name]
    columns = columns_of(tile)
    atom = find_tmem_copy(True, columns, shape)
    is_half = name == "m64"
    if is_half and atom.lanes == 32:
        with pytest.raises(LayoutError, match="expected a tile"):
            make_tmem_copy(atom, tile)
        return
    copy = make_tmem_copy(atom, tile)
    assert copy.threads == 128
    assert copy.values * 128 == tile.size()
    halves = 1 if is_half or atom.lanes == 32 else 2
    for thread in (0, 1, 5, 17, 31, 32, 70, 127):
        warp, lane = divmod(thread, 32)
        elements, start = copy.partition(tile, thread)
        for value in range(0, copy.values, max(1, copy.values // 37)):
            instruction, register = divmod(value, atom.registers)
            step, half = divmod(instruction, halves)
            row, column = place(shape, atom.repeat, lane, register)
            want = (32 * warp + 16 * half + row) * LANE + step * atom.columns + column
            assert start + elements(value) == want, (thread, value)


@pytest.mark.parametrize("shape", ["32x32b", "16x128b"])
def test_operands_have_two_elements_in_a_word(shape):
    tile = operand_layout(128, 64, 16)
    atom = find_tmem_copy(False, 32, shape)
    copy = make_tmem_copy(atom, tile, bits=16)
    halves = 32 // atom.lanes
    for thread in (0, 9, 33, 127):
        warp, lane = divmod(thread, 32)
        elements, start = copy.partition(tile, thread)
        for value in range(copy.values):
            word, part = divmod(value, 2)
            instruction, register = divmod(word, atom.registers)
            step, half = divmod(instruction, halves)
            row, column = place(shape, atom.repeat, lane, register)
            address = (32 * warp + 16 * half + row) * LANE + step * atom.columns + column
            assert start + elements(value) == 2 * address + part


@pytest.mark.parametrize("rows", [64, 128])
def test_threads_of_the_compiler_hold_what_the_copy_gives_them(rows):
    tile = accumulator_layout(rows, 64)
    copy = make_tmem_copy(find_tmem_copy(True, 64, "16x256b"), tile)
    compiled = tensor_accumulator((rows, 64), (4, 1))
    assert all(
        copy.tv(thread, value) == compiled(thread, value)
        for thread in range(128)
        for value in range(copy.values)
    )


def test_threads_with_whole_rows_hold_what_the_copy_gives_them():
    copy = make_tmem_copy(find_tmem_copy(True, 64), accumulator_layout(128, 64))
    compiled = tensor_rows((128, 64), 4)
    assert all(
        copy.tv(thread, value) == compiled(thread, value)
        for thread in range(128)
        for value in range(64)
    )


def test_stores_have_the_layout_of_loads():
    tile = accumulator_layout(128, 32)
    for shape in SHAPES:
        load, store = (find_tmem_copy(is_load, 32, shape) for is_load in (True, False))
        assert make_tmem_copy(load, tile).tv == make_tmem_copy(store, tile).tv


def test_what_no_atom_reaches_is_refused():
    load = find_tmem_copy(True, 32, "32x32b")
    with pytest.raises(LayoutError, match="expected whole instructions of 32 columns"):
        make_tmem_copy(load, accumulator_layout(128, 48))
    with pytest.raises(LayoutError, match="expected a tile"):
        make_tmem_copy(load, Layout((32, 32), (LANE, 1)))
    cp = next(atom for atom in tmem_copies() if atom.kind == "tcgen05.cp")
    with pytest.raises(LayoutError, match="expected an atom between tensor memory and registers"):
        make_tmem_copy(cp, accumulator_layout(128, 32))
