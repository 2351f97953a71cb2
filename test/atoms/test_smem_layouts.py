"""Shared-memory layout atoms: where a tensor copy puts each element of a box, worked out from the
manual, is where the layout and its swizzle say; sizes and choices."""

from __future__ import annotations

import pytest

from cutedialect.atoms.smem_layouts import (
    MODES,
    SmemLayoutAtom,
    find_smem_layout,
    smem_layout_atoms,
    span_of,
    swizzle_mode,
    swizzle_of,
)
from cutedialect.layout import Swizzle

# PTX ISA, "Tensor swizzling modes": 16-byte chunk c of 128-byte line r goes to chunk
# c ^ (r & mask), where the mask covers the bits inside the span.
MASKS = {"none": 0, "32B": 1, "64B": 3, "128B": 7}
ATOMS = [
    SmemLayoutAtom(mode, major, bits)
    for mode in MODES
    for major in ("K", "MN")
    for bits in (8, 16, 32)
]


def deposit(mode: str, box: tuple[int, int], size: int) -> dict[tuple[int, int], int]:
    """Byte address of each (inner, outer) element of a box that starts at address 0."""
    out: dict[tuple[int, int], int] = {}
    for outer in range(box[1]):
        for inner in range(box[0]):
            byte = outer * box[0] * size + inner * size
            out[inner, outer] = byte ^ (byte >> 7 & MASKS[mode]) << 4
    return out


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: f"{atom.name}_{atom.bits}")
def test_a_tile_lies_as_tensor_copies_leave_it(atom: SmemLayoutAtom) -> None:
    size, across = atom.bits // 8, 24
    shape = (across, 2 * atom.width) if atom.major == "K" else (2 * atom.width, across)
    layout = atom.tile(shape)
    assert (layout[0].size(), layout[1].size()) == shape
    # One box of a span and all of the other mode after the other.
    box = deposit(atom.mode, (atom.width, across), size)
    for block in range(2):
        base = block * atom.width * across * size
        # Boxes start at a multiple of the pattern, so that the swizzle sees the same address bits.
        assert base % (8 * atom.span if atom.mode != "none" else 16) == 0
        for (inner, outer), byte in box.items():
            along = block * atom.width + inner
            at = layout(outer, along) if atom.major == "K" else layout(along, outer)
            address = at * size
            assert (atom.swizzle(address) if atom.swizzle else address) == base + byte
    assert sorted(layout.offsets()) == list(range(shape[0] * shape[1]))


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: f"{atom.name}_{atom.bits}")
def test_an_atom_is_eight_rows_of_one_span(atom: SmemLayoutAtom) -> None:
    assert atom.layout.size() * atom.bits == 8 * 8 * atom.span
    assert str(atom.tile(atom.shape)) == str(atom.layout)
    assert atom.alignment == {"none": 128, "32B": 256, "64B": 512, "128B": 1024}[atom.mode]
    assert atom.fits(atom.shape)
    assert not atom.fits((atom.shape[0], atom.shape[1] // 2))
    assert not atom.fits((0, atom.shape[1]))


def test_modes_and_swizzles() -> None:
    for mode, span in (("none", 16), ("32B", 32), ("64B", 64), ("128B", 128)):
        assert swizzle_mode(swizzle_of(mode)) == mode
        assert span_of(mode) == span
    assert swizzle_mode(Swizzle(0, 4, 3)) == "none"
    for wrong in (Swizzle(3, 3, 3), Swizzle(2, 5, 2), Swizzle(4, 4, 4)):
        with pytest.raises(ValueError, match=f"S<3,4,3> or none\\), got {wrong}"):
            swizzle_mode(wrong)
    with pytest.raises(ValueError, match="swizzle mode of none, 32B, 64B, 128B, got '96B'"):
        swizzle_of("96B")


def test_the_widest_that_fits_is_chosen() -> None:
    assert [atom.name for atom in smem_layout_atoms("K", 16)] == [
        "K_SW128",
        "K_SW64",
        "K_SW32",
        "K_INTER",
    ]
    for shape, major, bits, mode in (
        ((128, 64), "K", 16, "128B"),
        ((128, 32), "K", 16, "64B"),
        ((128, 16), "K", 16, "32B"),
        ((128, 8), "K", 16, "none"),
        ((128, 96), "K", 8, "32B"),
        ((128, 32), "K", 32, "128B"),
        ((128, 32), "MN", 16, "128B"),
        ((96, 64), "MN", 16, "64B"),
        ((8, 64), "MN", 16, "none"),
    ):
        assert find_smem_layout(shape, major, bits).mode == mode
    with pytest.raises(ValueError, match="multiple of 8x8 elements of 16 bits, got 100x64"):
        find_smem_layout((100, 64), "K", 16)
    with pytest.raises(ValueError, match="multiple of 64x8 elements for MN_SW128"):
        SmemLayoutAtom("128B", "MN", 16).tile((96, 64))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("128", "K", 16), "expected a swizzle mode"),
        (("128B", "M", 16), "expected major K or MN, got 'M'"),
        (("128B", "K", 4), "expected elements of 8, 16 or 32 bits, got 4"),
    ],
)
def test_what_is_no_atom(arguments: tuple[str, str, int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        SmemLayoutAtom(*arguments)
