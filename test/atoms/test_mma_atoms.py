"""The table of MMA atoms against the formulas of the PTX manual, written out here a second time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cutedialect import atoms
from cutedialect.atoms import MmaAtom
from cutedialect.layout import Layout

ATOMS = atoms.mma_sync()
NAMES = [atom.name for atom in ATOMS]
WARP = [atom for atom in ATOMS if atom.threads == 32]
VOLTA = [atom for atom in ATOMS if atom.threads == 8]
BITS = {"f64": 64, "tf32": 32, "f16": 16, "bf16": 16, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8}
BITS |= {"s4": 4, "u4": 4, "b1": 1, "e3m2": 8, "e2m3": 8}

Coordinate = Callable[[int, int], tuple[int, int]]


def operand_a(m: int, bits: int) -> Coordinate:
    """Row and k of element `i` of A in `lane`: PTX ISA, "Matrix Fragments for mma"."""
    each = max(1, 32 // bits)

    def at(lane: int, i: int) -> tuple[int, int]:
        group, quad, register, inside = lane >> 2, lane & 3, i // each, i % each
        if m == 8:
            return group, each * quad + inside + 4 * each * register
        return group + 8 * (register % 2), each * quad + inside + 4 * each * (register // 2)

    return at


def operand_b(bits: int) -> Coordinate:
    each = max(1, 32 // bits)

    def at(lane: int, i: int) -> tuple[int, int]:
        return lane >> 2, each * (lane & 3) + i % each + 4 * each * (i // each)

    return at


def accumulator(lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2) + 8 * (i >> 1), 2 * (lane & 3) + (i & 1)


def check(layout: Layout, rows: int, columns: int, threads: int, at: Coordinate) -> None:
    values = rows * columns // threads
    seen: set[int] = set()
    for thread in range(threads):
        for value in range(values):
            row, column = at(thread, value)
            assert layout(thread, value) == row + rows * column, (thread, value)
            seen.add(row + rows * column)
    assert seen == set(range(rows * columns))


@pytest.mark.parametrize("atom", WARP, ids=lambda atom: atom.name)
def test_warp_fragments_follow_the_manual(atom: MmaAtom) -> None:
    m, n, k = atom.shape_mnk
    bits = BITS[atom.types.a]
    check(atom.a_layout, m, k, 32, operand_a(m, bits))
    check(atom.b_layout, n, k, 32, operand_b(bits))
    check(atom.c_layout, m, n, 32, accumulator)
    assert [atom.thr_id(t) for t in range(32)] == list(range(32))


@pytest.mark.parametrize("atom", VOLTA, ids=lambda atom: atom.name)
def test_quad_pair_fragments_follow_the_manual(atom: MmaAtom) -> None:
    lanes = [atom.thr_id(t) for t in range(8)]
    assert lanes == [0, 1, 2, 3, 16, 17, 18, 19]
    every = {lane + offset for lane in lanes for offset in atom.thr_offsets}
    assert every == set(range(32))

    def across(thread: int, i: int) -> tuple[int, int]:
        """The layout that holds one row of A (one column of B) in a thread."""
        return thread, i

    def along(thread: int, i: int) -> tuple[int, int]:
        return i + 4 * (thread // 4), thread % 4

    def into_f32(thread: int, i: int) -> tuple[int, int]:
        lane = lanes[thread]
        row = (lane & 1) + (i & 2) + 4 * (lane >= 16)
        return row, (i & 4) + (lane & 2) + (i & 1)

    check(atom.a_layout, 8, 4, 8, across if atom.majors[0] == "T" else along)
    check(atom.b_layout, 8, 4, 8, across if atom.majors[1] == "N" else along)
    check(atom.c_layout, 8, 8, 8, into_f32 if atom.types.c == "f32" else across)


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: atom.name)
def test_entry_is_consistent(atom: MmaAtom) -> None:
    m, n, k = atom.shape_mnk
    assert atom.name == atom.name.lower()
    assert f"m{m}n{n}k{k}" in atom.ptx
    types = ".".join((atom.types.d, *atom.types[:2], atom.types.c))
    assert atom.ptx.endswith(types + (f".{atom.kind}.popc" if atom.types.a == "b1" else ""))
    assert (atom.kind == "satfinite") == (".satfinite." in atom.ptx) == ("satfinite" in atom.name)
    sizes = [(atom.registers_a, m * k, atom.types.a), (atom.registers_b, n * k, atom.types.b)]
    sizes += [(atom.registers_c, m * n, atom.types.c), (atom.registers_d, m * n, atom.types.d)]
    wide = {"s32": 32, "f32": 32} | BITS
    for registers, elements, kind in sizes:
        width = 64 if kind == "f64" else 32
        assert registers * width * atom.threads == elements * wide[kind]
    assert atom.values == (m * k // atom.threads, n * k // atom.threads, m * n // atom.threads)
    for layout, values in zip(
        (atom.a_layout, atom.b_layout, atom.c_layout), atom.values, strict=True
    ):
        assert [layout[mode].size() for mode in (0, 1)] == [atom.threads, values]
    assert atom.targets
    assert all(atom.is_legal_on(name) for name in atom.targets)


def test_names_and_spellings_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert len({atom.ptx for atom in ATOMS}) == len(ATOMS)


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: atom.name)
def test_targets_agree_with_the_table_of_statements(atom: MmaAtom) -> None:
    """Two tables of this package say where an instruction exists; they must not drift apart."""
    counts = (atom.registers_d, atom.registers_a, atom.registers_b, atom.registers_c)
    operands = ", ".join("{" + ", ".join(f"%r{i}" for i in range(n)) + "}" for n in counts)
    for name in atoms.targets():
        verdict = atoms.legal(f"{atom.ptx} {operands};", name)
        assert bool(verdict) is (name in atom.targets), (name, verdict.reason)


def test_lookup() -> None:
    best = atoms.find_mma("f16", "f16", "f32", "sm_80")[0]
    assert best.name == "mma_m16n8k16_f32_f16"
    assert (best.registers_a, best.registers_b, best.registers_c) == (4, 2, 4)
    assert atoms.mma_atom(best.name) is best
    assert atoms.mma_atom(best.ptx) is best
    assert atoms.find_mma("f16", "f16", "f16", "sm_75")[0].shape_mnk == (16, 8, 8)
    assert atoms.find_mma("f16", "f16", "f32", "sm_70")[0].shape_mnk == (8, 8, 4)
    assert atoms.find_mma("s8", "u8", "s32", "sm_90a")[0].shape_mnk == (16, 8, 32)
    assert atoms.find_mma("f64", "f64", "f64", "sm_80")[0].shape_mnk == (8, 8, 4)
    assert atoms.find_mma("f64", "f64", "f64", "sm_90")[0].shape_mnk == (16, 8, 16)
    assert atoms.find_mma("e4m3", "e5m2", "f32", "sm_89")[0].shape_mnk == (16, 8, 32)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (("bf16", "bf16", "bf16", "sm_80"), "accumulators there: f32"),
        (("e4m3", "e4m3", "f32", "sm_80"), "the first target that has it is sm_89"),
        (("bf16", "bf16", "f16", "sm_75"), "accumulators for these types: f32"),
        (("f16", "bf16", "f32", "sm_80"), "operand types there: .*bf16 x bf16"),
        (("s8", "s8", "f32", "sm_75"), "accumulators there: s32"),
    ],
)
def test_lookup_names_the_nearest_legal_choice(asked: tuple[str, ...], reason: str) -> None:
    a, b, c, on = asked
    with pytest.raises(ValueError, match=reason):
        atoms.find_mma(a, b, c, on)


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match=r"did you mean .*mma_m16n8k16_f32_f16"):
        atoms.mma_atom("mma_m16n8k16_f32_fp16")
