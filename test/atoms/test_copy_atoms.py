"""The table of copy atoms: coverage, addresses and registers, lookup."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cutedialect import atoms
from cutedialect.atoms import BulkCopyAtom, CopyAtom

# Tensor memory has a file of its own: test_tmem_copy_atoms.py.
ATOMS = [atom for atom in atoms.copy() if not isinstance(atom, atoms.TmemCopyAtom)]
BULK = [atom for atom in ATOMS if isinstance(atom, BulkCopyAtom)]
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


def statement(atom: CopyAtom) -> str:
    data = f"{{{', '.join(f'%r{i}' for i in range(atom.registers))}}}"
    if atom.kind in ("ld", "st") and atom.bits <= 32:
        data = "%r0"
    if isinstance(atom, BulkCopyAtom):
        return bulk_statement(atom)
    return {
        "ld": f"{atom.ptx} {data}, [%rd0];",
        "st": f"{atom.ptx} [%rd0], {data};",
        "cp.async": f"{atom.ptx} [%r0], [%rd0], {atom.bytes}, %r1;",
        "ldmatrix": f"{atom.ptx} {data}, [%r0];",
        "stmatrix": f"{atom.ptx} [%r0], {data};",
        "movmatrix": f"{atom.ptx} %r0, %r1;",
    }[atom.kind]


def bulk_statement(atom: BulkCopyAtom, policy: str = "") -> str:
    coordinates = 5 if atom.kind == "tma_gather" else atom.rank
    place = f"[%rd0, {{{', '.join(f'%r{i}' for i in range(coordinates))}}}]"
    operands = {
        "bulk_load": "[%r0], [%rd0], %r1, [%r2]",
        "bulk_store": "[%rd0], [%r0], %r1",
        "bulk_send": "[%r0], [%r1], %r2, [%r3]",
        "bulk_prefetch": "[%rd0], %r1",
        "bulk_reduce": "[%rd0], [%r0], %r1",
        "tma_load": f"[%r8], {place}, [%r9]",
        "tma_gather": f"[%r8], {place}, [%r9]",
        "tma_store": f"{place}, [%r8]",
        "tma_reduce": f"{place}, [%r8]",
        "tma_prefetch": place,
    }[atom.kind]
    mask = ", %rs0" if atom.multicasts else ""
    head = atom.ptx
    if policy and atom.kind == "bulk_reduce":
        # The type comes last.
        head = atom.ptx.replace(".bulk_group", ".bulk_group.L2::cache_hint")
    elif policy:
        head += ".L2::cache_hint"
    return f"{head} {operands}{mask}{policy};"


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: atom.name)
def test_targets_agree_with_the_table_of_statements(atom: CopyAtom) -> None:
    for name in atoms.targets():
        verdict = atoms.legal(statement(atom), name)
        assert bool(verdict) is (name in atom.targets), (name, verdict.reason)


@pytest.mark.parametrize(("arch", "version"), [("90", "8.0"), ("100f", "8.8")])
def test_ptxas_takes_every_bulk_copy(tmp_path: Path, arch: str, version: str) -> None:
    ptxas = find_ptxas()
    if ptxas is None:
        pytest.skip("no ptxas found")
    had = [atom for atom in BULK if f"sm_{arch}" in atom.targets]
    rows = [atom for atom in BULK if atom.kind == "tma_gather"]
    assert [atom for atom in BULK if atom not in had] == (rows if arch == "90" else [])
    every = [bulk_statement(atom) for atom in had]
    every += [
        bulk_statement(atom, ", %rd1")
        for atom in had
        if atom.takes_cache_hint and atom.kind != "bulk_reduce"
    ]
    wrong = every[0].replace("complete_tx", "complete")
    text = [
        f".version {version}",
        f".target sm_{arch}",
        ".address_size 64",
        ".visible .entry copies()",
        "{",
        ".reg .b16 %rs<1>; .reg .b32 %r<16>; .reg .b64 %rd<2>;",
        *every,
        wrong,
        "ret;",
        "}",
    ]
    path = tmp_path / "copies.ptx"
    path.write_text("\n".join(text) + "\n")
    # A virtual architecture: parse and check only.
    command = [ptxas, "-arch", f"compute_{arch}", str(path), "-o", "/dev/null"]
    run = subprocess.run(command, capture_output=True, text=True)
    at = {int(line) for line in re.findall(r"line (\d+); error", run.stdout + run.stderr)}
    assert {text[line - 1] for line in at} == {wrong}, run.stderr[-2000:]


def find_ptxas() -> str | None:
    wheels = Path(sys.prefix).glob("lib/python*/site-packages/nvidia/cu*/bin/ptxas")
    return next((str(path) for path in sorted(wheels, reverse=True)), None) or shutil.which("ptxas")


def test_bulk_copies() -> None:
    kinds = {atom.kind for atom in BULK}
    assert kinds == {
        *("bulk_load", "bulk_store", "bulk_send", "bulk_prefetch", "bulk_reduce"),
        *("tma_load", "tma_gather", "tma_store", "tma_reduce", "tma_prefetch"),
    }
    for atom in BULK:
        assert atom.asynchronous
        assert (atom.bytes, atom.threads, atom.registers) == (16, 1, 0)
        assert (".tensor." in atom.ptx) is (atom.rank > 0) is atom.kind.startswith("tma")
        assert (".multicast::cluster" in atom.ptx) is atom.multicasts
        assert ("mbarrier" in atom.ptx) is (atom.completion == "mbarrier")
        assert ("bulk_group" in atom.ptx) is (atom.completion == "bulk_group")
        assert atom.zero_fills is (atom.kind in ("tma_load", "tma_gather"))
    for rank in range(1, 6):
        assert atoms.copy_atom(f"tma_load_{rank}d").ptx == (
            f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        )
        adding = atoms.copy_atom(f"tma_reduce_add_{rank}d")
        assert ".add.tile.bulk_group" in adding.ptx
        assert (adding.src_space, adding.dst_space, adding.alignment) == ("smem", "gmem", 128)


def test_bulk_copies_are_found_by_kind_only() -> None:
    assert not any(isinstance(a, BulkCopyAtom) for a in atoms.find_copy("gmem", "smem", "sm_90a"))
    found = atoms.find_copy("gmem", "smem", "sm_90a", kind="tma_load", alignment=128)
    assert len(found) == 10
    assert atoms.find_copy("smem", "gmem", "sm_120a", kind="bulk_store")[0].name == "bulk_store"
    with pytest.raises(ValueError, match="on sm_80, got none among tma_load_1d"):
        atoms.find_copy("gmem", "smem", "sm_80", kind="tma_load")
    with pytest.raises(ValueError, match="at an alignment of 16 bytes"):
        atoms.find_copy("gmem", "smem", "sm_90", kind="tma_load")
    with pytest.raises(
        ValueError, match="from smem to gmem that needs no kind named, got none among bulk_store"
    ):
        atoms.find_copy("smem", "gmem", "sm_90a")


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match="did you mean ldmatrix_x4"):
        atoms.copy_atom("ldmatrix_x8")
