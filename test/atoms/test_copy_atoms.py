"""The table of copy atoms: coverage, addresses and registers, lookup."""

from __future__ import annotations

import pytest

from cutedialect import atoms
from cutedialect.atoms import CopyAtom

ATOMS = atoms.copy()
MATRIX = [atom for atom in ATOMS if atom.kind in ("ldmatrix", "stmatrix")]


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: atom.name)
def test_both_sides_cover_the_same_tile(atom: CopyAtom) -> None:
    values = atom.bits // atom.unit_bits
    elements = atom.threads * values
    for layout in (atom.src_layout, atom.dst_layout):
        assert layout[0].size() == atom.threads
        image = {layout(t, v) for t in range(atom.threads) for v in range(layout[1].size())}
        assert image == set(range(elements))
    registers = atom.dst_layout if atom.dst_space == "rmem" else atom.src_layout
    assert registers[1].size() == values
    if "rmem" in (atom.src_space, atom.dst_space):
        assert registers.size() == elements, "registers hold every element exactly once"


@pytest.mark.parametrize("atom", MATRIX, ids=lambda atom: atom.name)
def test_matrix_rows_and_fragments_follow_the_manual(atom: CopyAtom) -> None:
    load = atom.kind == "ldmatrix"
    rows = atom.src_layout if load else atom.dst_layout
    fragment = atom.dst_layout if load else atom.src_layout
    for lane in range(8 * atom.matrices):
        for column in range(8):
            assert rows(lane, column) == lane % 8 + 8 * column + 64 * (lane // 8)
    for lane in range(32):
        group, quad = lane >> 2, lane & 3
        for value in range(2 * atom.matrices):
            matrix, inside = divmod(value, 2)
            row, column = (
                (2 * quad + inside, group) if atom.transposes else (group, 2 * quad + inside)
            )
            assert fragment(lane, value) == row + 8 * column + 64 * matrix
    assert atom.registers == atom.matrices
    assert (".trans" in atom.ptx) is atom.transposes


def test_plain_copies() -> None:
    load = atoms.copy_atom("ld_global_128")
    assert load.ptx == "ld.global.v4.b32"
    assert (load.bytes, load.alignment, load.registers, load.threads) == (16, 16, 4, 1)
    assert load.element_bits == (8, 16, 32, 64, 128)
    assert atoms.copy_atom("st_shared_8").element_bits == (8,)
    sizes = {atom.bytes for atom in ATOMS if atom.kind == "cp.async"}
    assert sizes == {4, 8, 16}
    assert all(a.zero_fills and a.asynchronous for a in ATOMS if a.kind == "cp.async")
    assert [a.bytes for a in ATOMS if a.kind == "cp.async" and ".cg" in a.ptx] == [16]


def test_lookup() -> None:
    assert [a.bits for a in atoms.find_copy("gmem", "rmem", "sm_80")] == [128, 64, 32, 16, 8]
    assert atoms.find_copy("gmem", "rmem", "sm_100")[0].bits == 128
    assert atoms.find_copy("gmem", "rmem", "sm_100", alignment=32)[0].bits == 256
    assert [a.bits for a in atoms.find_copy("gmem", "smem", "sm_80", alignment=8)] == [64, 32]
    found = atoms.find_copy("smem", "rmem", "sm_80", element_bits=16, transposes=True)
    assert [a.name for a in found] == [
        "ldmatrix_x4_trans",
        "ldmatrix_x2_trans",
        "ldmatrix_x1_trans",
    ]
    found = atoms.find_copy("rmem", "smem", "sm_90", kind="stmatrix", transposes=False)
    assert [a.matrices for a in found] == [4, 2, 1]


@pytest.mark.parametrize(
    ("arguments", "options", "reason"),
    [
        (("gmem", "smem", "sm_75"), {}, "expected a copy on sm_75, got none among cp_async"),
        (("gmem", "smem", "sm_80"), {"alignment": 2}, "at an alignment of 2 bytes"),
        (
            ("smem", "rmem", "sm_80"),
            {"element_bits": 8, "transposes": True},
            "of 8-bit elements, got none among ldmatrix_x1_trans",
        ),
        (("rmem", "smem", "sm_80"), {"kind": "stmatrix"}, "on sm_80"),
        (("smem", "gmem", "sm_80"), {}, "from smem to gmem"),
    ],
)
def test_lookup_says_which_condition_refused(
    arguments: tuple[str, str, str], options: dict[str, int], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        atoms.find_copy(*arguments, **options)


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: atom.name)
def test_targets_agree_with_the_table_of_statements(atom: CopyAtom) -> None:
    data = f"{{{', '.join(f'%r{i}' for i in range(atom.registers))}}}"
    if atom.kind in ("ld", "st") and atom.bits <= 32:
        data = "%r0"
    statement = {
        "ld": f"{atom.ptx} {data}, [%rd0];",
        "st": f"{atom.ptx} [%rd0], {data};",
        "cp.async": f"{atom.ptx} [%r0], [%rd0], {atom.bytes}, %r1;",
        "ldmatrix": f"{atom.ptx} {data}, [%r0];",
        "stmatrix": f"{atom.ptx} [%r0], {data};",
        "movmatrix": f"{atom.ptx} %r0, %r1;",
    }[atom.kind]
    for name in atoms.targets():
        verdict = atoms.legal(statement, name)
        assert bool(verdict) is (name in atom.targets), (name, verdict.reason)


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match="did you mean ldmatrix_x4"):
        atoms.copy_atom("ldmatrix_x8")
