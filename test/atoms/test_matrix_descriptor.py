"""Descriptors against a second reading of the manual: the 64 bits are taken apart here and every
element of an operand is placed by the tables of canonical layouts; its address must be where the
tile's own layout and swizzle put it."""

from __future__ import annotations

import pytest

from cutedialect.atoms.matrix_descriptor import (
    MatrixDescriptor,
    matrix_descriptor,
    operand_addends,
)
from cutedialect.atoms.smem_layouts import SmemLayoutAtom
from cutedialect.layout import Layout, Swizzle

SW32, SW64, SW128 = Swizzle(1, 4, 3), Swizzle(2, 4, 3), Swizzle(3, 4, 3)


def permuted(address: int, code: int) -> int:
    """PTX ISA, "Tensor swizzling modes", as XORs of address bits; `code` is the descriptor's."""
    row = address >> 7
    bits = {0: 0, 1: row & 7, 2: row & 3, 3: row & 1}[code]
    return address ^ bits << 4


def operand_address(descriptor: int, transposed: bool, row: int, k: int, size: int) -> int:
    """Where hardware finds one element of `size` bytes: PTX ISA, "Strides" and "Canonical
    layouts" of the shared-memory matrix."""
    assert descriptor < 1 << 64
    assert not descriptor & ~(0x3FFF | 0x3FFF << 16 | 0x3FFF << 32 | 3 << 62)
    start = (descriptor & 0x3FFF) << 4
    leading = (descriptor >> 16 & 0x3FFF) << 4
    stride = (descriptor >> 32 & 0x3FFF) << 4
    code = descriptor >> 62
    t = 16 // size
    # Chunks of 16 bytes in one row of the pattern.
    chunks = {0: 1, 3: 2, 2: 4, 1: 8}[code]
    if not transposed:
        # ((8,m),(T,2)) : ((chunks*T, stride), (1, leading without a swizzle, else T))
        within, group = row % 8, row // 8
        j, second = k % t, k // t
        assert second in (0, 1), "one instruction reads 32 bytes of k"
        offset = within * chunks * 16 + group * stride + j * size
        offset += second * (leading if code == 0 else 16)
    else:
        # ((T,chunks,m),(8,k)) : ((1,T,block), (chunks*T, next 8 of k))
        block, next_k = (stride, leading) if code == 0 else (leading, stride)
        i, chunk, m = row % t, row // t % chunks, row // t // chunks
        offset = i * size + chunk * 16 + m * block
        offset += (k % 8) * chunks * 16 + k // 8 * next_k
    return permuted(start + offset, code)


def check_tile(
    layout: Layout, swizzle: Swizzle | None, bits: int, rows: int, base: int = 1 << 14
) -> MatrixDescriptor:
    """Every element of every operand of `rows` rows in the tile; the base is a multiple of 1024."""
    size, k = bits // 8, 256 // bits
    found = matrix_descriptor(layout, swizzle, bits, rows)
    addends = operand_addends(layout, swizzle, bits, rows, k)
    assert len(addends) * rows == layout[0].size()
    assert {len(steps) * k for steps in addends} == {layout[1].size()}
    for r, steps in enumerate(addends):
        for s, addend in enumerate(steps):
            descriptor = found.at(base) + addend
            for row in range(rows):
                for step in range(k):
                    got = operand_address(descriptor, found.major == "MN", row, step, size)
                    byte = base + layout(r * rows + row, s * k + step) * size
                    assert got == (swizzle(byte) if swizzle else byte), (r, s, row, step)
    return found


@pytest.mark.some(8)
@pytest.mark.parametrize("mode", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize(
    ("major", "bits"), [("K", 8), ("K", 16), ("K", 32), ("MN", 16)], ids=lambda x: str(x)
)
def test_tiles_of_every_smem_layout(mode: str, major: str, bits: int) -> None:
    atom = SmemLayoutAtom(mode, major, bits)
    depth = max(64 * 8 // bits, atom.width) if major == "K" else 32
    for shape, rows in (((128, depth), 64), ((64, 2 * depth), 64), ((192, depth), 192)):
        found = check_tile(atom.tile(shape), atom.swizzle, bits, rows)
        assert (found.major, found.mode) == (major, mode)


@pytest.mark.parametrize(
    ("text", "swizzle", "bits", "rows", "expected"),
    [
        ("(128,64):(64,1)", SW128, 16, 64, ("K", 16, 1024)),
        ("(128,32):(32,1)", SW64, 16, 64, ("K", 16, 512)),
        ("(128,16):(16,1)", SW32, 16, 64, ("K", 16, 256)),
        ("(128,128):(128,1)", SW128, 8, 64, ("K", 16, 1024)),
        ("(128,32):(32,1)", SW128, 32, 64, ("K", 16, 1024)),
        ("(256,(64,2)):(64,(1,16384))", SW128, 16, 256, ("K", 16, 1024)),
        ("((64,2),32):((1,2048),64)", SW128, 16, 64, ("MN", 16, 1024)),
        ("((64,2),32):((1,2048),64)", SW128, 16, 128, ("MN", 4096, 1024)),
        ("((64,4),64):((1,4096),64)", SW128, 16, 256, ("MN", 8192, 1024)),
        ("(64,64):(1,64)", SW128, 16, 64, ("MN", 16, 1024)),
        ("(32,32):(1,32)", SW64, 16, 32, ("MN", 16, 512)),
        # Padded groups of 8 rows, rows split into more modes, atoms along k first.
        ("((8,16),64):((64,1024),1)", SW128, 16, 128, ("K", 16, 2048)),
        ("((8,4,4),(32,2)):((64,512,2048),(1,32))", SW128, 16, 64, ("K", 16, 1024)),
        ("((8,8),(64,4)):((64,2048),(1,512))", SW128, 16, 64, ("K", 16, 4096)),
        # The two worked examples of the manual: tf32 without a swizzle, bf16 with the 64-byte one.
        ("((8,8),(4,2)):((4,32),(1,256))", None, 32, 64, ("K", 1024, 128)),
        ("((32,2),(8,2)):((1,256),(32,512))", SW64, 16, 64, ("MN", 512, 1024)),
        # Fewer rows than one span of an MN-major block.
        ("(64,32):(1,64)", SW128, 16, 32, ("MN", 16, 1024)),
        ("(64,32):(1,64)", SW128, 16, 8, ("MN", 16, 1024)),
        ("(8,64):(64,1)", SW128, 16, 8, ("K", 16, 16)),
    ],
)
def test_descriptor_and_addresses(
    text: str, swizzle: Swizzle | None, bits: int, rows: int, expected: tuple[str, int, int]
) -> None:
    found = check_tile(Layout.parse(text), swizzle, bits, rows)
    assert (found.major, found.lbo, found.sbo) == expected


def test_addresses_depend_on_the_start_of_the_pattern_only() -> None:
    layout = Layout.parse("(128,64):(64,1)")
    for base in (0, 1024, 0x1FC00, 0x3BC00):
        check_tile(layout, SW128, 16, 64, base)


def test_bits_of_the_descriptor() -> None:
    found = MatrixDescriptor("MN", 4096, 1024, "64B")
    assert found.constant == 2 << 62 | 64 << 32 | 256 << 16
    assert found.at(0x4000) == found.constant + 0x400
    assert [MatrixDescriptor("K", 16, 16, mode).constant >> 62 for mode in ("none", "32B")] == [
        0,
        3,
    ]
    for address in (8, -16, 1 << 18):
        with pytest.raises(ValueError, match=f"multiple of 16 below 262144, got {address}"):
            found.at(address)


def test_steps_inside_a_span_and_between_blocks() -> None:
    layout = Layout.parse("(128,(64,2)):(64,(1,8192))")
    first, second = operand_addends(layout, SW128, 16, 64, 16)
    assert first == (0, 2, 4, 6, 1024, 1026, 1028, 1030)
    assert second == tuple(512 + addend for addend in first)
    across = operand_addends(Layout.parse("((64,2),32):((1,2048),64)"), SW128, 16, 64, 16)
    assert across == ((0, 128), (256, 384))


@pytest.mark.parametrize(
    ("text", "swizzle", "bits", "rows", "reason"),
    [
        (
            "(128,64):(64,1)",
            SW64,
            16,
            64,
            "row 1 64 bytes from the start .*, got 128; .* needs swizzle 128B",
        ),
        (
            "(128,64):(64,1)",
            None,
            16,
            64,
            "row 1 16 bytes from the start .*, got 128; .* needs swizzle 128B",
        ),
        ("(128,64):(72,1)", SW128, 16, 64, "row 1 128 bytes from the start .*, got 144: "),
        ("(128,32):(1,128)", SW128, 16, 64, "k 1 128 bytes from the start .*, got 256: "),
        ("(96,32):(1,96)", None, 16, 96, "k 1 16 bytes from the start .*, got 192: "),
        ("((64,2),32):((1,2048),64)", SW128, 16, 128 // 3, "blocks of 42"),
        ("((64,3),32):((1,2048),64)", SW128, 16, 96, "row 128 64 bytes from row 96 .*, got 4032: "),
        (
            "((8,2,4),64):((64,1024,4096),1)",
            SW128,
            16,
            64,
            "row 16 4096 bytes from the start .*, got 8192: ",
        ),
        ("(128,64):(1,128)", SW128, 8, 64, "only 16-bit types may be MN-major"),
        ("((32,4),32):((1,1024),32)", SW128, 32, 64, "only 16-bit types may be MN-major"),
        ("(128,64):(64,1)", Swizzle(3, 3, 3), 16, 64, r"S<3,4,3> or none\), got S<3,3,3>"),
        ("(128,64):(64,1)", SW128, 4, 64, "of 8, 16 or 32 bits for wgmma, got 4"),
        ("(128,8):(64,1)", SW128, 16, 64, "depth that is a multiple of 16, got 8"),
        ("(100,64):(64,1)", SW128, 16, 100, "a multiple of 8 each, got 100 rows"),
        ("(128,64):(64,2)", SW128, 16, 64, "one contiguous mode of a wgmma operand"),
        ("(128,8,8):(64,1,8)", SW128, 16, 64, r"layout of a tile of \(rows, depth\)"),
        ("(128,?):(64,1)", SW128, 16, 64, r"static layout of a tile of \(rows, depth\)"),
        ("(4096,64):(64,1)", SW128, 16, 64, "tile that fits in shared memory"),
        ("((8,8),64):((64,0),1)", SW128, 16, 64, "positive multiple of 16 .*, got 0"),
        ("((8,8),(8,2)):((8,64),(1,0))", None, 16, 64, "positive multiple of 16 .*, got 0"),
    ],
)
def test_what_is_not_canonical(
    text: str, swizzle: Swizzle | None, bits: int, rows: int, reason: str
) -> None:
    layout = Layout.parse(text)
    with pytest.raises(ValueError, match=reason):
        matrix_descriptor(layout, swizzle, bits, rows)
    with pytest.raises(ValueError, match=reason):
        operand_addends(layout, swizzle, bits, rows, max(1, 256 // bits))


def test_k_step_of_the_instruction() -> None:
    layout = Layout.parse("(128,64):(64,1)")
    with pytest.raises(ValueError, match=r"k steps of 16 elements \(32 bytes\) .*, got 32"):
        operand_addends(layout, SW128, 16, 64, 32)


def tcgen05_address(descriptor: int, transposed: bool, row: int, k: int, size: int) -> int:
    """The same for tcgen05, whose fields are elsewhere: PTX ISA, "Shared memory descriptor"."""
    known = 0x3FFF | 0x3FFF << 16 | 0x3FFF << 32 | 7 << 46 | 7 << 61
    assert not descriptor & ~known
    assert descriptor >> 46 & 7 == 1
    code = descriptor >> 61
    fields = descriptor & (0x3FFF | 0x3FFF << 16 | 0x3FFF << 32)
    if code != 1:
        return operand_address(
            fields | {0: 0, 2: 1, 4: 2, 6: 3}[code] << 62, transposed, row, k, size
        )
    # MN-major tf32, S<2,5,2> o ((T,8,m),(4,k)):((1,T,LBO),(8T,SBO))
    start, leading, stride = ((descriptor >> at & 0x3FFF) << 4 for at in (0, 16, 32))
    at = start + row % 32 * 4 + row // 32 * leading + k % 4 * 128 + k // 4 * stride
    return at ^ (at >> 7 & 3) << 5


@pytest.mark.parametrize("mode", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize(
    ("major", "bits"), [("K", 8), ("K", 16), ("K", 32), ("MN", 8), ("MN", 16)], ids=lambda x: str(x)
)
def test_tcgen05_reads_tiles_of_every_smem_layout(mode: str, major: str, bits: int) -> None:
    atom = SmemLayoutAtom(mode, major, bits)
    rows, size, k, base = 128, bits // 8, 256 // bits, 1 << 14
    layout = atom.tile((rows, 4 * k if major == "MN" else 1024 // bits))
    found = matrix_descriptor(layout, atom.swizzle, bits, rows, "tcgen05")
    for s, addend in enumerate(operand_addends(layout, atom.swizzle, bits, rows, k, "tcgen05")[0]):
        for row in range(0, rows, 3):
            for step in range(k):
                got = tcgen05_address(found.at(base) + addend, major == "MN", row, step, size)
                byte = base + layout(row, s * k + step) * size
                assert got == (atom.swizzle(byte) if atom.swizzle else byte)


def test_tcgen05_reads_mn_major_words_in_atoms_of_32_bytes() -> None:
    layout, swizzle = Layout(((32, 4), 16), ((1, 512), 32)), Swizzle(2, 5, 2)
    found = matrix_descriptor(layout, swizzle, 32, 128, "tcgen05")
    assert (found.lbo, found.sbo) == (2048, 512)
    for s, addend in enumerate(operand_addends(layout, swizzle, 32, 128, 8, "tcgen05")[0]):
        for row in range(128):
            for k in range(8):
                got = tcgen05_address(found.at(1 << 14) + addend, True, row, k, 4)
                assert got == swizzle((1 << 14) + layout(row, 8 * s + k) * 4)
    with pytest.raises(ValueError, match="S<2,5,2> for MN-major"):
        matrix_descriptor(layout, SW128, 32, 128, "tcgen05")
    with pytest.raises(ValueError, match="expected a swizzle of byte addresses"):
        matrix_descriptor(layout, swizzle, 32, 128)
