"""The table of `mma.sync` with scales of blocks against the manual: fragments in bytes, registers,
targets, and every spelling shown to the table of statements and to ptxas.
"""

from __future__ import annotations

import pytest

from cutedialect import atoms
from cutedialect.atoms.block_scaled_atoms import block_scaled, find_block_scaled
from cutedialect.backend.runtime import ptxas

ATOMS = block_scaled()


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: atom.name)
def test_fragments_and_registers(atom):
    """Each register has four bytes of one row; a byte has `packed` neighbors along K."""
    m, n, k = atom.shape_mnk
    in_bytes = atom.in_bytes
    assert in_bytes.shape_mnk == (m, n, k // atom.packed)
    assert (atom.registers_a, atom.registers_b, atom.registers_c) == (4, 2, 4)
    for lane in range(32):
        g, q = lane // 4, lane % 4
        for i in range(16):
            row, column = g + 8 * (i // 4 % 2), 4 * q + i % 4 + 16 * (i // 8)
            assert in_bytes.a_layout(lane, i) == row + m * column
        for i in range(8):
            assert in_bytes.b_layout(lane, i) == g + n * (4 * q + i % 4 + 16 * (i // 4))
    assert atom.factors * atom.block == k


def test_targets_and_types():
    found = find_block_scaled("e2m3", "e4m3", "sm_121a", "ue8m0x32")
    assert [atom.name for atom in found] == ["mma_m16n8k32_f32_e2m3_e4m3_mxf8f6f4"]
    assert atoms.mma_atom(found[0].name) is found[0]
    for name in ("sm_120", "sm_100a", "sm_90a"):
        assert find_block_scaled("e2m1", "e2m1", name, "ue4m3x16") == ()
    assert find_block_scaled("e2m1", "e4m3", "sm_120a", "ue8m0x32") == ()


def module(target):
    """A kernel of every instruction, with all that selectors may be of the last bytes."""
    lines = ["mov.b32 %r0, 0;"]
    for atom in ATOMS:
        byte = 4 - atom.factors
        a, b = ("{" + ", ".join(["%r0"] * count) + "}" for count in (4, 2))
        lines.append(
            f"{atom.ptx} {{%f0, %f1, %f2, %f3}}, {a}, {b}, {{%f0, %f1, %f2, %f3}}, "
            f"%r0, {{{byte}, 1}}, %r0, {{{byte}, 3}};"
        )
        assert atoms.legal(lines[-1], target)
        assert not atoms.legal(lines[-1], "sm_100a")
    stored = [f"st.global.f32 [%rd0+{4 * i}], %f{i};" for i in range(4)]
    zeros = [f"mov.f32 %f{i}, 0f00000000;" for i in range(4)]
    body = "\n".join([*zeros, *lines, *stored])
    return (
        f".version 8.8\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n"
        ".reg .b32 %r<1>; .reg .f32 %f<4>; .reg .b64 %rd<1>;\nld.param.u64 %rd0, [p];\n"
        f"{body}\nret;\n}}\n"
    )


@pytest.mark.parametrize("target", ["sm_120a", "sm_120f", "sm_121a"])
def test_assembly(target):
    text = module(target)
    if not ptxas.candidates():
        pytest.skip("needs ptxas")
    assert ptxas.assemble(text, target, strict=True).messages == ()
