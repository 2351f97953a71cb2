"""Copies of tensor memory against CUTLASS's copy traits, written out a second time, and against the
table of statements and ptxas."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cutedialect import atoms
from cutedialect.atoms.tmem_copy_atoms import (
    COPIES,
    TmemCopyAtom,
    copy_lanes,
    find_tmem_copy,
    tmem_copies,
)

ATOMS = tmem_copies()
TRANSFERS = [atom for atom in ATOMS if atom.kind != "tcgen05.cp"]


def place(shape: str, thread: int, i: int, repeat: int) -> tuple[int, int]:
    """Lane and column of register i; the second half of 16x32bx2 follows the first."""
    quad, group = thread & 3, thread >> 2
    return {
        "32x32b": (thread, i),
        "16x64b": (group + 8 * (quad & 1), (quad >> 1) + 2 * i),
        "16x128b": (group + 8 * (i & 1), quad + 4 * (i >> 1)),
        "16x256b": (group + 8 * (i >> 1 & 1), 2 * quad + (i & 1) + 8 * (i >> 2)),
        "16x32bx2": (thread & 15, i + repeat * (thread >> 4)),
    }[shape]


@pytest.mark.parametrize(
    "atom", [a for a in TRANSFERS if a.repeat in (1, 2, 16) and a.kind == "tcgen05.ld"],
    ids=lambda atom: atom.name,
)  # fmt: skip
def test_fragments_follow_the_manual(atom: TmemCopyAtom) -> None:
    seen: set[int] = set()
    packed = 2 if atom.packed else 1
    for thread in range(32):
        for value in range(atom.registers * packed):
            i, half = divmod(value, packed)
            lane, column = place(atom.shape, thread, i, atom.repeat)
            if atom.shape == "16x32bx2" and packed == 2:
                column = 2 * (column % atom.repeat) + 2 * atom.repeat * (column // atom.repeat)
                expected = lane + 16 * (column + half)
            else:
                expected = lane + atom.lanes * (packed * column + half)
            assert atom.dst_layout(thread, value) == expected
            seen.add(expected)
    assert seen == set(range(atom.lanes * atom.columns))
    assert atom.src_layout(5, 3) == 3
    twin = atoms.copy_atom(atom.name.replace("_ld_", "_st_"))
    assert (twin.src_text, twin.dst_text) == (atom.dst_text, atom.src_text)


def test_every_shape_and_repeat() -> None:
    most = {"32x32b": 128, "16x64b": 128, "16x128b": 64, "16x256b": 32, "16x32bx2": 128}
    for shape, last in most.items():
        found = {a.repeat for a in TRANSFERS if a.shape == shape}
        assert found == {1 << i for i in range(last.bit_length())}
        assert max(a.registers for a in TRANSFERS if a.shape == shape) == 128
    assert {a.shape for a in ATOMS} == {*most, *COPIES}


@pytest.mark.parametrize(("shape", "lanes"), [
    ("128x256b", lambda r: [r]), ("4x256b", lambda r: [32 * r]), ("128x128b", lambda r: [r]),
    ("64x128b.warpx2::02_13", lambda r: [r, r + 64]),
    ("64x128b.warpx2::01_23", lambda r: [r % 32 + r // 32 * 64, r % 32 + r // 32 * 64 + 32]),
    ("32x128b.warpx4", lambda r: [r, r + 32, r + 64, r + 96]),
])  # fmt: skip
def test_lanes_of_copies(shape: str, lanes) -> None:  # type: ignore[no-untyped-def]
    layout = copy_lanes(shape)
    for row in range(layout[0].size()):
        assert [layout(row, copy) for copy in range(layout[1].size())] == lanes(row)


def test_lookup() -> None:
    assert find_tmem_copy(True, 256).repeat == 128
    assert find_tmem_copy(False, 48).name == "tcgen05_st_32x32b_x16"
    assert find_tmem_copy(True, 64, "16x256b").repeat == 8
    with pytest.raises(ValueError, match="multiple of 8 for 16x256b, got 12"):
        find_tmem_copy(True, 12, "16x256b")
    found = atoms.find_copy("tmem", "rmem", "sm_100a", element_bits=32)
    assert found[0].bits == 128 * 32
    with pytest.raises(ValueError, match="on sm_90a"):
        atoms.find_copy("tmem", "rmem", "sm_90a")


def statement(atom: TmemCopyAtom) -> str:
    data = "{" + ", ".join(f"%r{i}" for i in range(atom.registers)) + "}"
    half = ", 16" if atom.shape == "16x32bx2" else ""
    if atom.kind == "tcgen05.cp":
        return f"{atom.ptx} [%r0], %rd0;"
    if atom.kind == "tcgen05.ld":
        return f"{atom.ptx} {data}, [%r200]{half};"
    return f"{atom.ptx} [%r200]{half}, {data};"


@pytest.mark.parametrize("atom", ATOMS[::7], ids=lambda atom: atom.name)
def test_targets_agree_with_the_table_of_statements(atom: TmemCopyAtom) -> None:
    for name in atoms.targets():
        verdict = atoms.legal(statement(atom), name)
        assert bool(verdict) is (name in atom.targets), (name, verdict.reason)


def find_ptxas() -> str | None:
    wheels = Path(sys.prefix).glob("lib/python*/site-packages/nvidia/cu*/bin/ptxas")
    return next((str(path) for path in sorted(wheels, reverse=True)), None) or shutil.which("ptxas")


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas found")
def test_ptxas_takes_every_spelling(tmp_path: Path) -> None:
    every = [statement(atom) for atom in ATOMS]
    wrong = every[0].replace("%r200", "%rd0").replace("x1.b32", "x1.b64")
    text = [
        ".version 8.6", ".target sm_100a", ".address_size 64", ".visible .entry k()", "{",
        ".reg .b32 %r<204>; .reg .b64 %rd<2>;", *every, wrong, "ret;", "}",
    ]  # fmt: skip
    path = tmp_path / "statements.ptx"
    path.write_text("\n".join(text) + "\n")
    command = [find_ptxas() or "", "-arch", "compute_100a", str(path), "-o", "/dev/null"]
    run = subprocess.run(command, capture_output=True, text=True)
    at = {int(line) for line in re.findall(r"line (\d+); error", run.stdout + run.stderr)}
    assert {text[line - 1] for line in at} == {wrong}, run.stderr[-2000:]
