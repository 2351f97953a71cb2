"""Tiled copies and MMAs: every element of a tile has its thread, and pictures show which."""

from dataclasses import dataclass
from xml.etree import ElementTree

import pytest

from cutedialect.layout import (
    Layout,
    LayoutError,
    Swizzle,
    TiledCopy,
    TiledMMA,
    invert_tv,
    is_bijective,
    is_injective,
    is_surjective,
    layout_text,
    make_cotiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_copy_C,
    make_tiled_copy_tv,
    parse,
    tv_text,
)
from cutedialect.layout.draw_svg import banks_svg, layout_svg, swizzle_svg, tv_svg


@dataclass(frozen=True)
class Atom:
    """The m16n8k16 instruction of 16-bit types (PTX ISA, "Matrix Fragments for mma.m16n8k16")."""

    shape_mnk: tuple[int, int, int] = (16, 8, 16)
    thr_id: Layout = Layout(32, 1)  # noqa: RUF009
    a_layout: Layout = Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128)))  # noqa: RUF009
    b_layout: Layout = Layout(((4, 8), (2, 2)), ((16, 1), (8, 64)))  # noqa: RUF009
    c_layout: Layout = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))  # noqa: RUF009


WARPS = [
    Layout((1, 1, 1), (0, 0, 0)),
    Layout((2, 2, 1), (1, 2, 0)),
    Layout((2, 2, 1), (2, 1, 0)),
    Layout((4, 1, 1), (1, 0, 0)),
    Layout((1, 2, 2), (0, 1, 2)),
]


@pytest.mark.parametrize("warps", WARPS, ids=str)
def test_an_mma_gives_each_warp_its_block_of_the_instruction(warps):
    mma = TiledMMA(Atom(), warps)
    assert mma.threads == 32 * warps.size()
    m, n, k = (2 * size for size in mma.tile_mnk)
    counts = [mode.size() for mode in warps]
    for operand, tile, modes in (
        ("A", (m, k), (0, 2)),
        ("B", (n, k), (1, 2)),
        ("C", (m, n), (0, 1)),
    ):
        tv = mma.tv_layout(operand, tile)
        atom = getattr(Atom(), f"{operand.lower()}_layout")
        rows, columns = (Atom().shape_mnk[mode] for mode in modes)
        assert tv[0].size() == mma.threads
        assert is_surjective(tv, tile[0] * tile[1])
        for warp in range(warps.size()):
            place = next(
                (i, j, h)
                for i in range(counts[0])
                for j in range(counts[1])
                for h in range(counts[2])
                if warps(i, j, h) == warp
            )  # fmt: skip
            for lane in range(32):
                for value in range(atom[1].size()):
                    at = atom(lane, value)
                    row = at % rows + place[modes[0]] * rows
                    column = at // rows + place[modes[1]] * columns
                    assert tv(lane + 32 * warp, value) == row + column * tile[0]


def test_a_permutation_moves_instructions_over_the_tile():
    warps = Layout((2, 2, 1), (2, 1, 0))
    mma = TiledMMA(Atom(), warps, (None, Layout((8, 2, 2), (1, 16, 8)), None))
    assert mma.tile_mnk == (32, 32, 16)
    tv = mma.tv_layout("C", (32, 32))
    assert is_bijective(tv)
    # Warp 1 is the second along N: the permutation puts it at columns 16 to 23.
    columns = {tv(32 + lane, value) // 32 for lane in range(32) for value in range(4)}
    assert columns == set(range(16, 24))


def test_an_mma_partitions_a_tensor():
    mma = TiledMMA(Atom(), WARPS[1])
    tensor = Layout((32, 64), (64, 1))
    seen = []
    for thread in range(mma.threads):
        mine, offset = mma.partition("C", tensor, thread)
        seen += [offset + at for at in mine.offsets()]
    assert sorted(seen) == list(range(32 * 64))


def test_a_copy_gives_vectors_to_neighboring_threads():
    threads, values = Layout((4, 8), (8, 1)), Layout((2, 4), (4, 1))
    tiler, tv = make_tiled_copy_tv(threads, values)
    assert tiler == (8, 32)
    assert is_bijective(tv)
    for thread in range(32):
        for value in range(8):
            row = thread // 8 * 2 + value // 4
            column = thread % 8 * 4 + value % 4
            assert tv(thread, value) == row + column * 8
    copy = TiledCopy.of(threads, values)
    tensor = Layout((16, 64), (64, 1))
    seen = []
    for thread in range(copy.threads):
        mine, offset = copy.partition(tensor, thread)
        seen += [offset + at for at in mine.offsets()]
    assert sorted(seen) == list(range(16 * 64))


def test_inverse_of_a_tv_layout():
    for tv in (Atom().a_layout, Atom().b_layout, Atom().c_layout):
        inverse = invert_tv(tv)
        assert [inverse(at) for at in tv.offsets()] == list(range(tv.size()))
    with pytest.raises(LayoutError, match="bijective"):
        invert_tv(Layout((4, 2), (1, 2)))


def test_injective_and_surjective():
    assert is_injective(Layout((4, 8), (1, 5)))
    assert not is_surjective(Layout((4, 8), (1, 5)), 32)
    assert is_surjective(Layout((4, 8), (1, 2)), 18)
    assert not is_injective(Layout((4, 8), (1, 2)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TiledMMA(Atom(), Layout((2, 2))), "of rank 3"),
        (lambda: TiledMMA(Atom(), Layout((2, 2, 1), (0, 1, 0))), "bijective layout of instr"),
        (lambda: TiledMMA(Atom(), WARPS[1], (16, None, None)), "multiple of 32 in mode M"),
        (lambda: TiledMMA(Atom()).tv_layout("D", (16, 8)), "operand A, B or C"),
        (lambda: TiledMMA(Atom()).tv_layout("C", (24, 8)), r"that \(16,8\) divides"),
        (lambda: TiledCopy(Layout((32, 4)), (4, 8)), "inside the tile"),
        (lambda: TiledCopy.of(Layout(32), Layout(4)).tv_layout((130,)), "that .* divides"),
        (lambda: make_tiled_copy_tv(Layout(4, 2), Layout(4)), "bijective"),
    ],
)
def test_bad_constructions_are_refused(make, message):
    with pytest.raises(LayoutError, match=message):
        make()


PICTURES = [
    (layout_svg(Layout((4, 8), (8, 1))), 32),
    (layout_svg(parse("S<3,3,3> o 0 o (8,64):(64,1)")), 512),
    (layout_svg(parse("(4,8):(1@0,1@1)")), 32),
    (layout_svg(Layout(5, 2)), 5),
    (banks_svg(Layout((8, 64), (64, 1)), 16, Swizzle(3, 4, 3)), 512),
    (tv_svg(Atom().c_layout, (16, 8)), 128),
    (swizzle_svg(Swizzle(3, 4, 3)), 64),
    (Layout((2, 2))._repr_svg_(), 4),
    (parse("S<1,0,1> o 0 o 4:1")._repr_svg_(), 4),
    (Swizzle(2, 4, 3)._repr_svg_(), 32),
    (TiledCopy.of(Layout((4, 8), (8, 1)), Layout((1, 4)))._repr_svg_(), 128),
    (TiledMMA(Atom())._repr_svg_(), 128),
]


@pytest.mark.parametrize(("svg", "cells"), PICTURES)
def test_pictures_are_well_formed_and_complete(svg, cells):
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall(".//{*}rect")) == cells
    assert root.find("{*}title").text


def test_pictures_show_owner_and_bank():
    svg = tv_svg(Atom().c_layout, (16, 8))
    assert "(8,1): T0V3" in svg
    banks = banks_svg(Layout((8, 64), (64, 1)), 16, Swizzle(3, 4, 3))
    assert "(1,0): byte 144, bank 4" in banks
    assert " T0V0 |  T0V1 |  T1V0" in tv_text(Atom().c_layout, (16, 8))
    assert "| 3 | 4 | 5 |" in layout_text(Layout((2, 3), (3, 1)))


@pytest.mark.parametrize("warps", WARPS, ids=str)
@pytest.mark.parametrize("operand", "ABC")
def test_a_copy_for_an_mma_gives_threads_what_they_multiply(warps, operand):
    mma = TiledMMA(Atom(), warps)
    make = {"A": make_tiled_copy_A, "B": make_tiled_copy_B, "C": make_tiled_copy_C}[operand]
    copy = make(mma)
    rows, columns = copy.tiler
    assert copy.threads == mma.threads
    data = Layout((2 * rows, 2 * columns), (2 * columns, 1))
    for thread in (0, 5, mma.threads - 1):
        mine, start = copy.partition(data, thread)
        multiplied, first = mma.partition(operand, data, thread)
        assert start + mine(0) == first + multiplied(0)
        elements = {start + at for at in mine.offsets()}
        assert elements == {first + at for at in multiplied.offsets()}


def test_a_copy_of_offsets_has_the_elements_there():
    data = Layout((16, 64), (64, 1))
    offsets = Layout(((8, 4), 8), ((8, 64), 1))  # 8 lanes along a row, 4 rows
    copy = make_cotiled_copy(offsets, data)
    assert copy.tiler == (4, 64)
    tile = Layout((4, 64), (64, 1))
    assert [tile(index) for index in copy.tv.offsets()] == offsets.offsets()
    with pytest.raises(LayoutError, match="expected the elements of a whole tile"):
        make_cotiled_copy(Layout((8, 8), (16, 1)), data)
    with pytest.raises(LayoutError, match="expected offsets of elements"):
        make_cotiled_copy(Layout((2, 2), (8, 1)), Layout((4, 4), (16, 1)))


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(LayoutError, match="static layout of at most"):
        layout_text(parse("(?,4):(4,1)"))
    with pytest.raises(LayoutError, match="inside 4x4"):
        tv_text(Layout((8, 4)), (4, 4))
    with pytest.raises(LayoutError, match="4096 units"):
        swizzle_svg(Swizzle(8, 0, 8))


@pytest.mark.parametrize(
    "value",
    [
        parse("(4,?):(?,1)"),
        parse("(4,8):(?,1)"),
        parse("S<3,3,3> o 0 o (8,?):(64,1)"),
        Layout((1 << 14, 1 << 14)),
        Layout((64, 65)),
        Swizzle(7, 4, 7),
        TiledCopy.of(Layout((64, 64)), Layout((8, 8))),
        TiledCopy.of(Layout(4), Layout((2, 2, 2))),
    ],
    ids=str,
)
def test_what_is_too_large_to_draw_or_unknown_is_shown_as_text(value):
    assert value._repr_svg_() is None
