"""Swizzles, composed layouts, and the bank conflicts that they are for."""

import random

import pytest

from cutedialect.layout import (
    ComposedLayout,
    Layout,
    LayoutError,
    Swizzle,
    access_conflicts,
    bank_conflicts,
    coalesce,
    composition,
    ldmatrix_conflicts,
    logical_divide,
    parse,
    recast,
    slice_and_offset,
)

SWIZZLES = [
    Swizzle(bits, base, shift)
    for bits in range(4)
    for base in range(3)
    for shift in range(-4, 5)
    if abs(shift) >= bits
]


def test_a_swizzle_is_its_own_inverse_and_a_permutation():
    for swizzle in SWIZZLES:
        period = 1 << (swizzle.bits + swizzle.base + abs(swizzle.shift))
        image = [swizzle(i) for i in range(period)]
        assert sorted(image) == list(range(period))
        assert [swizzle(i) for i in image] == list(range(period))


def test_a_swizzle_xors_bit_by_bit():
    for swizzle in SWIZZLES:
        low = swizzle.base + max(0, -swizzle.shift)
        high = swizzle.base + max(0, swizzle.shift)
        source, target = (high, low) if swizzle.shift >= 0 else (low - -swizzle.shift, low)
        for offset in range(256):
            expected = offset
            for bit in range(swizzle.bits):
                expected ^= (offset >> (source + bit) & 1) << (target + bit)
            assert swizzle(offset) == expected, f"{swizzle} of {offset}"


@pytest.mark.parametrize("fields", [(-1, 0, 0), (3, -1, 3), (3, 4, 2), (3, 4, -2)])
def test_bad_swizzles_are_refused(fields):
    with pytest.raises(LayoutError, match="expected bits >= 0"):
        Swizzle(*fields)


def test_no_bits_are_the_identity():
    assert [Swizzle(0, 4, 0)(i) for i in range(64)] == list(range(64))


def test_composition_with_a_layout_on_either_side():
    layout, swizzle = Layout((8, 64), (64, 1)), Swizzle(3, 3, 3)
    smem = composition(swizzle, layout)
    assert str(smem) == "S<3,3,3> o 0 o (8,64):(64,1)"
    assert composition(swizzle, smem) == layout
    tile = composition(smem, Layout((8, 8), (8, 64)))
    assert tile.offsets() == [smem(i) for i in Layout((8, 8), (8, 64)).offsets()]
    divided = logical_divide(smem, (8, 16))
    assert sorted(divided.offsets()) == sorted(smem.offsets())
    assert coalesce(smem, (1, 1)) == smem


def test_slices_of_a_swizzled_layout_are_right_everywhere():
    smem = parse("S<3,3,3> o 0 o (16,64):(64,1)")
    for row in range(16):
        assert smem(row, None).offsets() == [smem(row, i) for i in range(64)]
        sub, offset = slice_and_offset((row, None), smem)
        assert offset == 0
        assert [sub(i) for i in range(64)] == [smem(row, i) for i in range(64)]


def test_recast_of_a_swizzled_layout_keeps_byte_addresses():
    halves = parse("S<3,3,3> o 0 o (8,64):(64,1)")
    addresses = recast(halves, 16, 8)
    assert str(addresses) == "S<3,4,3> o 0 o (8,128):(128,1)"
    for row in range(8):
        for column in range(64):
            assert addresses(row, 2 * column) == 2 * halves(row, column)


def test_cosize_counts_what_the_swizzle_moves():
    smem = ComposedLayout(Swizzle(1, 0, 1), 0, Layout(3, 1))
    assert smem.cosize() == max(smem.offsets()) + 1 == 4


def by_brute_force(addresses, width):
    """Wavefronts of each phase: per bank, how many different words are asked for."""
    wavefronts = minimum = 0
    lanes = {16: 8, 8: 16}.get(width, 32)
    for start in range(0, len(addresses), lanes):
        banks = {}
        for address in addresses[start : start + lanes]:
            for byte in range(address, address + width) if address is not None else ():
                banks.setdefault(byte // 4 % 32, set()).add(byte // 128)
        words = sum(map(len, banks.values()))
        wavefronts += max(map(len, banks.values()), default=0)
        minimum += (words + 31) // 32
    return wavefronts, minimum


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_bank_conflicts_are_those_of_brute_force(width):
    choose = random.Random(width)
    for span in (8, 40, 200):
        for _ in range(40):
            addresses = [choose.randrange(span) * width for _ in range(32)]
            for lane in choose.sample(range(32), choose.choice((0, 0, 5, 31))):
                addresses[lane] = None
            got = bank_conflicts(addresses, width)
            assert (got.wavefronts, got.minimum) == by_brute_force(addresses, width)


def test_known_accesses():
    assert bank_conflicts([4 * t for t in range(32)], 4).wavefronts == 1
    assert bank_conflicts([0] * 32, 4).wavefronts == 1
    assert bank_conflicts([8 * t for t in range(32)], 4).wavefronts == 2
    assert bank_conflicts([16 * t for t in range(32)], 16).wavefronts == 4
    assert ldmatrix_conflicts([128 * t for t in range(32)]).conflicts == 28
    rows, swizzle = Layout((8, 64), (64, 1)), Swizzle(3, 4, 3)
    address = [swizzle(rows(t % 8, t // 8 * 8) * 2) for t in range(32)]
    assert ldmatrix_conflicts(address).conflicts == 0
    smem = composition(Swizzle(3, 3, 3), rows)
    assert access_conflicts(smem, 16, lambda t: (t % 8, t // 8 * 8), vector=8).conflicts == 0


def test_bad_accesses_are_refused():
    with pytest.raises(LayoutError, match="aligned to 4 bytes, got 2 in thread 1"):
        bank_conflicts([0, 2], 4)
    with pytest.raises(LayoutError, match="1, 2, 4, 8 or 16 bytes"):
        bank_conflicts([0], 3)
    with pytest.raises(LayoutError, match="at most 32 threads"):
        bank_conflicts([0] * 33, 4)
    with pytest.raises(LayoutError, match="8, 16 or 32 row"):
        ldmatrix_conflicts([0] * 5)
