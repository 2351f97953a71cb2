"""The table of wgmma against the manual: fragments written out a second time, shapes, immediates,
and every spelling with A in either place shown to ptxas and to the table of statements."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cutedialect import atoms
from cutedialect.atoms.block_scaled_atoms import block_scaled
from cutedialect.atoms.wgmma_atoms import WgmmaAtom, find_wgmma, wgmma, wgmma_atom

ATOMS = wgmma()
BITS = {"f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16}
# One of each type combination, at the edges and in the middle of the range of N.
COVER = [atom for i, atom in enumerate(ATOMS) if atom.shape_mnk[1] in (8, 96, 256) or i % 29 == 0]


def bits_of(kind: str) -> int:
    return BITS.get(kind, 8)


@pytest.mark.some(32)
@pytest.mark.parametrize("atom", COVER, ids=lambda atom: atom.name)
def test_fragments_follow_the_manual(atom: WgmmaAtom) -> None:
    """PTX ISA, "Register Fragments for wgmma.mma_async": warp w holds rows 16w to 16w + 15."""
    m, n, k = atom.shape_mnk
    each = 32 // bits_of(atom.types.a)
    seen_a: set[int] = set()
    seen_c: set[int] = set()
    for thread in range(128):
        warp, group, quad = thread // 32, thread % 32 // 4, thread % 4
        for i in range(m * k // 128):
            register, inside = divmod(i, each)
            row = 16 * warp + group + 8 * (register % 2)
            column = each * quad + inside + 4 * each * (register // 2)
            assert atom.a_layout(thread, i) == row + m * column
            seen_a.add(row + m * column)
        for i in range(m * n // 128):
            row = 16 * warp + group + 8 * (i // 2 % 2)
            column = 8 * (i // 4) + 2 * quad + i % 2
            assert atom.c_layout(thread, i) == row + m * column
            seen_c.add(row + m * column)
    assert seen_a == set(range(m * k))
    assert seen_c == set(range(m * n))
    for thread in (0, 77, 127):
        assert [atom.b_layout(thread, i) for i in range(n * k)] == list(range(n * k))
        assert [atom.a_smem_layout(thread, i) for i in range(m * k)] == list(range(m * k))


def test_every_shape_and_type() -> None:
    by_types: dict[tuple[str, str, str], list[WgmmaAtom]] = {}
    for atom in ATOMS:
        by_types.setdefault(atom.types[:3], []).append(atom)
    floats = {("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "f32")}
    floats |= {("tf32", "tf32", "f32")}
    floats |= {
        (a, b, d) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for d in ("f16", "f32")
    }
    integers = {(a, b, "s32") for a in ("s8", "u8") for b in ("s8", "u8")}
    assert set(by_types) == floats | integers
    for types, found in by_types.items():
        n = sorted(atom.shape_mnk[1] for atom in found if not atom.kind)
        clamped = sorted(atom.shape_mnk[1] for atom in found if atom.kind == "satfinite")
        assert clamped == ([] if types in floats else n)
        if types in floats:
            assert n == list(range(8, 257, 8))
        else:
            assert n == [8, 16, 24] + list(range(32, 257, 16))
        k = 256 // bits_of(types[0])
        assert {(atom.shape_mnk[0], atom.shape_mnk[2]) for atom in found} == {(64, k)}


@pytest.mark.parametrize("atom", COVER, ids=lambda atom: atom.name)
def test_entry_is_consistent(atom: WgmmaAtom) -> None:
    _, n, _ = atom.shape_mnk
    assert (atom.threads, atom.thr_id.size(), atom.targets) == (128, 128, ("sm_90a",))
    assert atom.registers_a == 4
    assert atom.registers_b == 0
    assert atom.registers_c == atom.registers_d == (n // 4 if atom.types.d == "f16" else n // 2)
    assert [atom.a_layout[mode].size() for mode in (0, 1)] == [128, atom.values[0]]
    assert [atom.b_layout[mode].size() for mode in (0, 1)] == [128, atom.values[1]]
    assert [atom.c_layout[mode].size() for mode in (0, 1)] == [128, atom.values[2]]
    assert atom.spaces == ("smem", "smem", "rmem")


def test_names_and_spellings_are_unique_in_the_whole_registry() -> None:
    every = atoms.mma()
    assert set(ATOMS) < set(every)
    known = set(atoms.mma_sync()) | set(block_scaled()) | set(ATOMS) | set(atoms.tcgen05())
    assert known == set(every)
    assert len({atom.name for atom in every}) == len(every)
    spelled = [atom for atom in every if not isinstance(atom, atoms.Tcgen05Atom)]
    assert len({atom.ptx for atom in spelled}) == len(spelled)
    found = atoms.mma_atom("wgmma_m64n256k16_f32_bf16_bf16")
    assert found is wgmma_atom(found.name)
    assert atoms.mma_atom(found.ptx) is found


def statement(atom: WgmmaAtom, a_space: str, **options: str | bool) -> str:
    kind = "f" if atom.types.d == "f32" else "r"
    d = ", ".join(f"%{kind}{i}" for i in range(atom.registers_d))
    a = "%rd0" if a_space == "smem" else "{%r200, %r201, %r202, %r203}"
    tail = "".join(f", {i}" for i in atom.immediates(a_space=a_space, **options))  # type: ignore[arg-type]
    return f"{atom.ptx} {{{d}}}, {a}, %rd1, %p0{tail};"


def statements() -> list[str]:
    """Every atom with A in shared memory and in registers, and with all its immediates."""
    lines = [statement(atom, space) for atom in ATOMS for space in ("smem", "rmem")]
    for atom in COVER:
        if atom.scales:
            lines.append(statement(atom, "smem", negate_a=True, negate_b=True))
        if atom.transposes:
            lines.append(statement(atom, "smem", a_major="MN", b_major="MN"))
            lines.append(statement(atom, "rmem", b_major="MN", negate_b=True))
    return lines


def find_ptxas() -> str | None:
    wheels = Path(sys.prefix).glob("lib/python*/site-packages/nvidia/cu*/bin/ptxas")
    return next((str(path) for path in sorted(wheels, reverse=True)), None) or shutil.which("ptxas")


def refused(lines: list[str], version: tuple[int, int], folder: Path) -> set[str]:
    """The statements in which ptxas finds an error."""
    text = [f".version {version[0]}.{version[1]}", ".target sm_90a", ".address_size 64"]
    for start in range(0, len(lines), 200):
        text += [
            f".visible .entry k{start}()",
            "{",
            ".reg .pred %p<1>; .reg .b32 %r<204>; .reg .f32 %f<128>; .reg .b64 %rd<2>;",
            *lines[start : start + 200],
            "ret;",
            "}",
        ]
    path = folder / "statements.ptx"
    path.write_text("\n".join(text) + "\n")
    # A virtual architecture: parse and check only.
    command = [find_ptxas() or "", "-arch", "compute_90a", str(path), "-o", "/dev/null"]
    run = subprocess.run(command, capture_output=True, text=True)
    at = {int(line) for line in re.findall(r"line (\d+); error", run.stdout + run.stderr)}
    assert (run.returncode == 0) is (not at), run.stderr[-2000:]
    return {text[line - 1] for line in at}


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas found")
def test_ptxas_takes_every_entry_from_its_version_on(tmp_path: Path) -> None:
    every = statements()
    # One that must fail, so that silence means something.
    wrong = every[0].replace("n8k16", "n12k16")
    assert refused([*every, wrong], (8, 4), tmp_path) == {wrong}
    later = [atom for atom in ATOMS if atom.ptx_version > (8, 0)]
    assert {atom.ptx_version for atom in later} == {(8, 4)}
    early = {statement(atom, "smem") for atom in later}
    assert refused([statement(atom, "smem") for atom in ATOMS], (8, 0), tmp_path) == early


def test_the_table_of_statements_takes_every_entry_on_its_target_only() -> None:
    for line in statements()[::7]:
        verdict = atoms.legal(line, "sm_90a")
        assert verdict, verdict.reason
        for other in ("sm_80", "sm_90", "sm_100a", "sm_120a"):
            verdict = atoms.legal(line, other)
            assert not verdict
            assert "needs sm_90a" in verdict.reason


def test_immediates() -> None:
    half, tf32 = wgmma_atom("wgmma_m64n64k16_f32_f16_f16"), find_wgmma(*_TF32)[0]
    assert half.immediates() == (1, 1, 0, 0)
    assert half.immediates(b_major="MN", negate_a=True) == (-1, 1, 0, 1)
    assert half.immediates(a_major="MN") == (1, 1, 1, 0)
    assert half.immediates(a_space="rmem", b_major="MN", negate_b=True) == (1, -1, 1)
    assert tf32.immediates() == tf32.immediates(a_space="rmem") == (1, 1)
    assert find_wgmma("s8", "u8", "s32", "sm_90a")[0].immediates() == ()


_TF32 = ("tf32", "tf32", "f32", "sm_90a")


@pytest.mark.parametrize(
    ("types", "options", "reason"),
    [
        (_TF32, {"b_major": "MN"}, "expected a K-major B .*, got MN-major tf32"),
        (("e4m3", "e5m2", "f32", "sm_90a"), {"a_major": "MN"}, "K-major A .*, got MN-major e4m3"),
        (("f16", "f16", "f32", "sm_90a"), {"a_space": "tmem"}, "A in smem or rmem, got 'tmem'"),
        (("f16", "f16", "f32", "sm_90a"), {"a_major": "T"}, "A K- or MN-major, got 'T'"),
        (
            ("f16", "f16", "f32", "sm_90a"),
            {"a_space": "rmem", "a_major": "MN"},
            "K-major A in registers",
        ),
        (("s8", "s8", "s32", "sm_90a"), {"negate_a": True}, "no negation with integer types"),
    ],
)
def test_what_an_instruction_cannot_do(
    types: tuple[str, str, str, str], options: dict[str, str], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        find_wgmma(*types)[0].immediates(**options)  # type: ignore[arg-type]


def test_lookup() -> None:
    found = find_wgmma("bf16", "bf16", "f32", "sm_90a")
    assert [atom.shape_mnk[1] for atom in found] == list(range(256, 0, -8))
    assert len(find_wgmma("u8", "s8", "s32", "sm_90a")) == 18
    # mma.sync keeps its own search.
    assert atoms.find_mma("bf16", "bf16", "f32", "sm_90a")[0].name.startswith("mma_m16n8k16")
    assert all(atom.threads <= 32 for atom in atoms.find_mma("f16", "f16", "f32", "sm_90a"))


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (("f16", "f16", "f32", "sm_90"), "on sm_90; only sm_90a has wgmma"),
        (("f16", "f16", "f32", "sm_100a"), "only sm_90a has wgmma"),
        (("bf16", "bf16", "f16", "sm_90a"), "accumulators for these types: f32"),
        (("f16", "bf16", "f32", "sm_90a"), "operand types: .*bf16 x bf16, e4m3 x e4m3"),
    ],
)
def test_lookup_names_the_nearest_legal_choice(asked: tuple[str, ...], reason: str) -> None:
    a, b, c, on = asked
    with pytest.raises(ValueError, match=reason):
        find_wgmma(a, b, c, on)


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match=r"did you mean .*wgmma_m64n128k16_f32_f16_f16"):
        wgmma_atom("wgmma_m64n128k16_f32_f16")
