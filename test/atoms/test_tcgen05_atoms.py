"""tcgen05 atoms against an outside reading: the layouts of tensor memory as CUTLASS publishes them
(tmem_frg, tmem_sf_frg), shapes and descriptors as the manual lists them, and every spelling shown
to ptxas and to the table of statements."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cutedialect import atoms
from cutedialect.atoms import tmem_layouts as tmem
from cutedialect.atoms.tcgen05_atoms import KINDS, Tcgen05Atom, find_tcgen05, tcgen05, tcgen05_atom
from cutedialect.backend.emulator.tcgen05_descriptors import decode_instruction

ATOMS = tcgen05()
SOME = random.Random(7).sample(ATOMS, 60)


def lane_and_column(address: int) -> tuple[int, int]:
    return address >> 16, address & 0xFFFF


@pytest.mark.parametrize("n", [16, 64, 256])
def test_accumulators_lie_where_cutlass_says(n: int) -> None:
    """tmem_frg_1sm<64>: ((16,4),N):((1,32),128) of lane + 128 * column, and so on."""
    for (m, group, stationary), place in {
        (128, 1, False): lambda m, n_: (m, n_),
        (64, 1, False): lambda m, n_: (m % 16 + 32 * (m // 16), n_),
        (256, 2, False): lambda m, n_: (m, n_),
        (128, 2, False): lambda m, n_: (m + 64 * (n_ // (n // 2)), n_ % (n // 2)),
        (64, 1, True): lambda m, n_: (m + 64 * (n_ // (n // 2)), n_ % (n // 2)),
        (32, 1, True): lambda m, n_: (m + 32 * (n_ // (n // 4)), n_ % (n // 4)),
    }.items():
        layout = tmem.accumulator_layout(m, n, group, stationary)
        for row in range(m // group):
            for column in range(n):
                assert lane_and_column(layout(row, column)) == place(row, column)
        columns = {layout(0, c) & 0xFFFF for c in range(n)}
        assert tmem.accumulator_columns(m, n, group, stationary) == len(columns)


def test_a_lies_beside_d() -> None:
    for m, group in ((64, 1), (128, 1), (256, 2)):
        d, a = tmem.accumulator_layout(m, 32, group), tmem.operand_layout(m, 16, 16, group)
        for row in range(m // group):
            for k in range(16):
                assert a(row, k) // 2 == d(row, k // 2)
                assert a(row, k) % 2 == k % 2
    twice = tmem.operand_layout(128, 32, 8, 2)
    # Subpartitions 0 and 2, 1 and 3 hold the same rows.
    assert {lane_and_column(twice(33, 5, copy) // 4) for copy in (0, 1)} == {(33, 1), (97, 1)}


@pytest.mark.parametrize(("rows", "factors", "halves"), [
    (128, 1, False), (256, 2, False), (96, 4, False), (64, 4, False), (128, 1, True), (256, 4, True)
])  # fmt: skip
def test_scale_factors_lie_where_cutlass_says(rows: int, factors: int, halves: bool) -> None:
    """tmem_sf_frg: ((32,MN/32),4) and the factors; 2x2: ((32,MN/2/32),2,2)."""
    layout = tmem.scale_layout(rows, factors, halves=halves)
    for row in range(rows):
        for factor in range(factors):
            copies = 2 if halves else 4
            for copy in range(copies):
                lane, column = lane_and_column(layout(row, factor, copy) // 4)
                within = row % (rows // 2) if halves else row
                start = 64 * (row // (rows // 2)) if halves else 0
                assert (lane, column) == (start + 32 * copy + within % 32, within // 32)
                assert layout(row, factor, copy) % 4 == factor


def test_allocation() -> None:
    assert [tmem.allocation(n) for n in (1, 32, 33, 200, 512)] == [32, 32, 64, 256, 512]
    for wrong in (0, 513):
        with pytest.raises(ValueError, match="1 to 512 columns"):
            tmem.allocation(wrong)


@pytest.mark.parametrize("atom", SOME, ids=lambda atom: atom.name)
def test_layouts_of_the_ctas(atom: Tcgen05Atom) -> None:
    """CUTLASS's ALayout, BLayout, CLayout: (CTA, value) to m + M * k, n + N * k, m + M * n."""
    m, n, k = atom.shape_mnk
    group = atom.cta_group
    assert atom.thr_id.size() == group
    draw = random.Random(atom.name)
    for _ in range(50):
        cta, row, column, depth = (draw.randrange(x) for x in (group, m // group, n, k))
        assert atom.a_layout(cta, row + m // group * depth) == cta * m // group + row + m * depth
        some = column % (n // group)
        assert atom.b_layout(cta, some + n // group * depth) == cta * n // group + some + n * depth
        assert atom.c_layout(cta, row + m // group * column) == cta * m // group + row + m * column
    assert atom.c_tmem_layout.size() * group == m * n
    assert atom.columns <= tmem.COLUMNS
    assert atom.a_tmem_layout[1].size() == k
    if atom.block:
        for operand in "AB":
            assert atom.scale_layout(operand)[1].size() == k // atom.block


def test_shapes_and_types() -> None:
    """PTX ISA, "Matrix shape", where CUTLASS's assertions do not narrow it."""
    assert KINDS == ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
    shapes: dict[tuple[str, int, int], set[int]] = {}
    for atom in ATOMS:
        m, n, k = atom.shape_mnk
        shapes.setdefault((atom.kind, atom.cta_group, m), set()).add(n)
        bits = 4 if atom.kind.startswith("mxf4") else {16: 16, 8: 32}.get(k, 8)
        assert k * bits == 256
    for kind in ("f16", "tf32", "f8f6f4"):
        assert shapes[kind, 1, 64] == set(range(8, 257, 8))
        assert shapes[kind, 1, 128] == set(range(16, 257, 16))
        assert shapes[kind, 2, 128] == shapes[kind, 2, 256] == set(range(16, 257, 16))
    assert shapes["i8", 1, 64] == shapes["i8", 1, 128] == set(range(16, 257, 16))
    assert shapes["i8", 2, 256] == set(range(32, 257, 32))
    for kind in ("mxf8f6f4", "mxf4", "mxf4nvf4"):
        assert {m for k, g, m in shapes if k == kind and g == 1} == {128}
    pairs = {(a.kind, *a.types[:3]) for a in ATOMS}
    narrow = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
    assert {p[1:3] for p in pairs if p[0] == "mxf8f6f4"} == {(a, b) for a in narrow for b in narrow}
    assert ("f16", "bf16", "bf16", "f16") not in pairs
    assert {a.scale for a in ATOMS if a.kind == "mxf4nvf4"} == {"ue8m0", "ue4m3"}


@pytest.mark.parametrize("atom", SOME, ids=lambda atom: atom.name)
def test_instruction_descriptors_read_back(atom: Tcgen05Atom) -> None:
    """The emulator's reading of the 32 bits, which shares no table with the writing."""
    draw = random.Random(atom.name)
    majors = [draw.choice(("K", "MN")) if allowed else "K" for allowed in atom.transposes]
    negate = [atom.negates and draw.random() < 0.5 for _ in range(2)]
    saturate = atom.saturates and draw.random() < 0.5
    step = {0: 1, 1: 1, 2: 2, 4: 4}[atom.factors]
    ids = tuple(draw.randrange(0, 4, step) for _ in range(2)) if atom.block else (0, 0)
    bits = atom.descriptor(
        a_major=majors[0], b_major=majors[1], negate_a=negate[0], negate_b=negate[1],
        saturate=saturate, scale_ids=(ids[0], ids[1]),
    )  # fmt: skip
    shape = decode_instruction(bits, atom.kind, atom.cta_group)
    assert (shape.m, shape.n, shape.k) == atom.shape_mnk
    assert (shape.a, shape.b, shape.d) == atom.types[:3]
    assert shape.transposed == (majors[0] == "MN", majors[1] == "MN")
    assert shape.negate == tuple(negate)
    assert shape.saturates == saturate
    if atom.block:
        assert (shape.scale_ids, shape.scale_type) == (ids, atom.scale)


def test_known_descriptors() -> None:
    """Values that published kernels use: DeepGEMM's and CUTLASS's bf16 and e4m3 into f32."""
    assert tcgen05_atom("tcgen05_f16_cg1_m128n128k16_f32_bf16_bf16").descriptor() == 0x8200490
    assert tcgen05_atom("tcgen05_f16_cg2_m256n256k16_f32_bf16_bf16").descriptor() == 0x10400490
    assert tcgen05_atom("tcgen05_f8f6f4_cg1_m128n128k32_f32_e4m3_e4m3").descriptor() == 0x8200010


@pytest.mark.parametrize(("name", "options", "reason"), [
    ("tcgen05_i8_cg1_m128n64k32_s32_s8_s8", {"negate_a": True}, "no negation"),
    ("tcgen05_f16_cg1_m128n64k16_f32_f16_f16", {"saturate": True}, "no saturation"),
    ("tcgen05_f16_cg1_m128n64k16_f32_f16_f16", {"a_major": "T"}, "A K- or MN-major"),
    ("tcgen05_f8f6f4_cg1_m128n64k32_f32_e2m1_e4m3", {"a_major": "MN"}, "K-major A, got MN-major"),
    ("tcgen05_mxf4_cg1_m128n64k64_f32_e2m1_e2m1_ue8m0x32", {"scale_ids": (1, 0)}, "0 or 2 on"),
])  # fmt: skip
def test_what_an_instruction_cannot_do(name: str, options: dict[str, bool], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        tcgen05_atom(name).descriptor(**options)  # type: ignore[arg-type]


def test_lookup() -> None:
    found = find_tcgen05("f16", "f16", "f32", "sm_103a", cta_group=2)
    assert found[0].shape_mnk == (256, 256, 16)
    assert {a.cta_group for a in found} == {2}
    assert atoms.mma_atom(found[0].name) is tcgen05_atom(found[0].name)
    scaled = find_tcgen05("e4m3", "e5m2", "f32", "sm_100f", kind="mxf8f6f4")
    assert {a.block for a in scaled} == {32}
    for asked, reason in (
        (("f16", "f16", "f32", "sm_90a"), "sm_100f and sm_110f have tcgen05"),
        (("s8", "s8", "s32", "sm_103a"), "sm_100a and sm_110a have it"),
        (("bf16", "bf16", "f16", "sm_100a"), "accumulators for these types: f32"),
        (("f16", "bf16", "f32", "sm_100a"), "operand types: .*bf16 x bf16"),
    ):
        with pytest.raises(ValueError, match=reason):
            find_tcgen05(*asked)
    with pytest.raises(ValueError, match=r"did you mean .*tcgen05_f16_cg1_m128n64k16_f32_f16_f16"):
        tcgen05_atom("tcgen05_f16_cg1_m128n64k16_f32_f16")


def statement(atom: Tcgen05Atom, a_space: str) -> str:
    a = "%rd0" if a_space == "smem" else "[%r1]"
    scales = "[%r3], [%r4], " if atom.block else ""
    return f"{atom.ptx} [%r0], {a}, %rd1, %r2, {scales}%p0;"


SPELLED = list({atom.ptx: atom for atom in ATOMS}.values())


@pytest.mark.parametrize("atom", SPELLED, ids=lambda atom: atom.ptx[12:])
@pytest.mark.parametrize("a_space", ["smem", "tmem"])
def test_targets_agree_with_the_table_of_statements(atom: Tcgen05Atom, a_space: str) -> None:
    for name in atoms.targets():
        verdict = atoms.legal(statement(atom, a_space), name)
        assert bool(verdict) is (name in atom.targets), (name, verdict.reason)


def find_ptxas() -> str | None:
    wheels = Path(sys.prefix).glob("lib/python*/site-packages/nvidia/cu*/bin/ptxas")
    return next((str(path) for path in sorted(wheels, reverse=True)), None) or shutil.which("ptxas")


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas found")
@pytest.mark.parametrize("target", ["100a", "100f", "103a"])
def test_ptxas_takes_every_spelling(target: str, tmp_path: Path) -> None:
    every = [statement(atom, space) for atom in SPELLED for space in ("smem", "tmem")
             if f"sm_{target}" in atom.targets]  # fmt: skip
    wrong = every[0].replace("kind::f16", "kind::f17")
    text = [
        ".version 8.8", f".target sm_{target}", ".address_size 64", ".visible .entry k()", "{",
        ".reg .pred %p<1>; .reg .b32 %r<8>; .reg .b64 %rd<2>;", *every, wrong, "ret;", "}",
    ]  # fmt: skip
    path = tmp_path / "statements.ptx"
    path.write_text("\n".join(text) + "\n")
    command = [find_ptxas() or "", "-arch", f"compute_{target}", str(path), "-o", "/dev/null"]
    run = subprocess.run(command, capture_output=True, text=True)
    at = {int(line) for line in re.findall(r"line (\d+); error", run.stdout + run.stderr)}
    assert {text[line - 1] for line in at} == {wrong}, run.stderr[-2000:]
