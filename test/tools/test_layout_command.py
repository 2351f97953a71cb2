"""`cutedialect layout find` and `cutedialect layout conflicts`."""

import itertools
import json
import random

import pytest

from cutedialect.__main__ import main
from cutedialect.atoms import mma_atom
from cutedialect.layout import Layout, Swizzle, TiledCopy, TiledMMA, parse
from cutedialect.tools.layout_search import (
    shared_layouts,
    swizzles,
    table_of,
    thread_values,
)


def run(capsys, *arguments):
    code = main(["layout", *arguments])
    out, err = capsys.readouterr()
    assert err == ""
    return code, out


def test_the_atom_of_a_map_is_found(capsys):
    atom = mma_atom("mma_m16n8k16_f32_f16")
    text = str(atom.c_layout)
    code, out = run(capsys, "find", text, "--tile", "16x8", "--arch", "sm_80", "--all")
    assert code == 0
    assert "  C of mma_m16n8k16_f32_f16\n" in out
    assert "e4m3" not in out
    code, out = run(capsys, "find", text, "--tile", "16x8")
    assert "more (--all)" in out


@pytest.mark.parametrize("operand", ["A", "B", "C"])
def test_the_tiled_mma_of_a_map_is_found(operand):
    atom = mma_atom("mma_m16n8k16_f32_f16")
    tiled = TiledMMA(atom, Layout((2, 2, 1), (1, 2, 4)))
    tile = {"A": (64, 32), "B": (32, 32), "C": (64, 32)}[operand]
    instructions, tiles, _ = thread_values(tiled.tv_layout(operand, tile), tile, "sm_80")
    assert not instructions.matches
    assert f"{operand} of {atom.name} with atoms (2,2,1):(1,2,4)" in tiles.matches


def test_warps_along_k_are_among_the_tiled_mmas():
    atom = mma_atom("mma_m16n8k16_f32_f16")
    tiled = TiledMMA(atom, Layout((1, 1, 4), (1, 1, 1)))
    tile = (16, 64)
    found = thread_values(tiled.tv_layout("A", tile), tile, "sm_80")[1]
    assert any("atoms (1,1,4)" in match for match in found.matches)


def test_the_tiled_copy_of_a_map_is_found():
    copy = TiledCopy.of(Layout((4, 8), (8, 1)), Layout((1, 4)))
    found = thread_values(copy.tv, copy.tiler)[2]
    (text,) = found.matches
    assert text == "TiledCopy(((8,4),4):((16,1),4), tiler (4,32)): 4 values a thread"


def test_a_map_that_is_no_copy_has_its_witness():
    """Thread 1 has its second value elsewhere than thread 0 has."""
    tv = parse("(2,2):(1,2)")
    twisted = [0, 1, 2, 5]
    assert thread_values(tv, (4, 2))[2].matches
    from cutedialect.tools import layout_search

    found = layout_search._tiled_copy(tuple(twisted), 2, 2, (4, 2))
    assert not found.matches
    assert found.witness.places[-1] == ("thread 1, value 1", 5)
    assert "(3, 0) (it is (1, 1))" in found.witness.why


def test_a_witness_refuses_every_candidate():
    """Of random tables: no swizzle has the witnessed places at once, and some have each alone where
    there are two."""
    random_ = random.Random(7)
    plain = Layout((8, 4))
    pairs = 0
    for _ in range(40):
        swizzle = Swizzle(*random_.choice([(1, 0, 2), (2, 0, 3), (1, 1, 2), (2, 1, 2)]))
        offsets = list(map(swizzle, table_of(plain)))
        one, other = random_.sample(range(len(offsets)), 2)
        offsets[one], offsets[other] = offsets[other], offsets[one]

        class Table:
            shape = (8, 4)

            def __init__(self, offsets):
                self.offsets = offsets

            def size(self):
                return len(self.offsets)

            def __call__(self, index):
                return self.offsets[index]

        found = swizzles(Table(offsets), plain)
        if found.matches:
            continue
        places = {int(place): offset for place, offset in found.witness.places}
        assert all(offsets[at] == wanted for at, wanted in places.items())
        tables = [
            list(map(Swizzle(bits, base, shift), table_of(plain)))
            for bits, base, shift in itertools.product(range(5), range(5), range(-4, 5))
            if abs(shift) >= bits and base + max(bits, 1) + abs(shift) <= 5
        ]
        assert not any(all(t[at] == wanted for at, wanted in places.items()) for t in tables)
        if len(places) == 2:
            pairs += 1
            assert all(any(t[at] == wanted for t in tables) for at, wanted in places.items())
    assert pairs


def test_swizzles_and_tiles_of_memory(capsys):
    code, out = run(capsys, "find", "S<3,3,3> o 0 o (16,64):(64,1)", "--bits", "16")
    assert code == 0
    assert "S<3,3,3> o 0 o (16,64):(64,1)" in out
    assert "K_SW128, 16 bits" in out
    assert shared_layouts(Layout((8, 64), (64, 1)), (8, 64), 16).matches == []
    code, out = run(capsys, "find", "(8,8):(9,1)", "--json")
    assert code == 1
    found = json.loads(out)
    assert {one["family"] for one in found} == {"swizzles", "layouts of shared-memory tiles"}
    assert all(one["witness"]["why"] for one in found)


def test_conflicts_of_a_copy(capsys):
    given = ("--bits", "16", "--threads", "(32,4):(1,32)", "--values", "(1,8)")
    code, out = run(capsys, "conflicts", "(64,64):(64,1)", *given)
    assert code == 1
    assert "conflicts: 448\nS<3,4,3> on byte addresses has none\n" in out
    assert "lanes 0 and 1 meet in bank 0" in out
    code, out = run(capsys, "conflicts", "S<3,3,3> o 0 o (64,64):(64,1)", *given)
    assert code == 0
    assert out.endswith("conflicts: 0\n")


def test_conflicts_of_matrices(capsys):
    code, out = run(capsys, "conflicts", "(16,64):(64,1)", "--atom", "ldmatrix_x4", "--json")
    assert code == 1
    told = json.loads(out)
    assert told["swizzle"] == "S<3,4,3>"
    assert told["conflicts"] == 4 * 28
    code, _ = run(capsys, "conflicts", "(16,64):(72,1)", "--atom", "ldmatrix_x4")
    assert code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("find", "(4,8):(8,1)", "--tile", "four"), "expected extents such as 16x8"),
        (("find", "S<1,2,3>"), "expected a layout, got the swizzle"),
        (("find", "(4,?):(1,4)"), "expected static extents"),
        (("find", "(999999,2)"), "at most 65,536 elements"),
        (("find", "(32,4):(1,32)", "--tile", "8x8"), "expected offsets below 64"),
        (("conflicts", "(8,8)"), "expected one of --threads, --tv and --atom, got 0"),
        (("conflicts", "(8,8)", "--atom", "ld_shared_32"), "expected a matrix instruction"),
        (("conflicts", "64", "--threads", "32", "--vector", "3"), "--vector"),
        (("conflicts", "(9,64)", "--atom", "ldmatrix_x1"), "expected a tile of 8 x 8 matrices"),
    ],
)
def test_mistakes_are_told(capsys, arguments, message):
    assert main(["layout", *arguments]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
