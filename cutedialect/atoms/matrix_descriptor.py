"""The shared-memory matrix descriptors of `wgmma` and `tcgen05`, read off a tile's layout. A tile
is (rows, depth) elements, a row being one m of A or one n of B; it is canonical when every operand
of an instruction in it lies at start + what the descriptor's two strides say, before the swizzle of
byte addresses. Sources: PTX ISA 9.1, "Asynchronous warpgroup level matrix: shared memory matrix
layout, strides, matrix descriptor" and "TensorCore 5th Generation: matrix descriptors".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from cutedialect.atoms.smem_layouts import ATOM_32B, MODES, SWIZZLE_32B, span_of, swizzle_mode
from cutedialect.layout import Layout, Swizzle

# The units that read descriptors. For each: where the swizzle lies and its codes, and what other
# bits are constant.
UNITS = ("wgmma", "tcgen05")
MAJORS = ("K", "MN")
_SWIZZLE_AT = {"wgmma": 62, "tcgen05": 61}
_MODE_CODES = {
    "wgmma": {"none": 0, "128B": 1, "64B": 2, "32B": 3},
    "tcgen05": {"none": 0, ATOM_32B: 1, "128B": 2, "64B": 4, "32B": 6},
}
_CONSTANT = {"wgmma": 0, "tcgen05": 0b001 << 46}
_CHUNK = 16
# Bytes of k in one instruction, whatever the type.
_STEP = 32
# Addresses and strides have 14 bits in units of 16 bytes.
_LIMIT = 1 << 18
# What an unused stride is set to; the hardware ignores it.
_UNUSED = 16


@dataclass(frozen=True)
class MatrixDescriptor:
    """Everything of a descriptor but the address: `major` is `K` or `MN`, `mode` the swizzle.

    `lbo` (leading) and `sbo` (stride) are byte offsets. K-major: `sbo` leads to the next 8 rows,
    `lbo` (only without a swizzle) to the next 16 bytes of k. MN-major: with a swizzle `lbo` leads
    to the next span of rows and `sbo` to the next 8 of k (4 of k with swizzle `128B_32B`); without
    one the two change places, the span being 16 bytes. `unit` is `wgmma` or `tcgen05`. Without an
    `lbo` it comes with the address.
    """

    major: str
    lbo: int | None
    sbo: int
    mode: str
    unit: str = "wgmma"

    @property
    def constant(self) -> int:
        """The 64 bits with start address 0.

        >>> hex(MatrixDescriptor("K", 16, 1024, "128B").constant)
        '0x4000004000010000'
        >>> hex(MatrixDescriptor("K", 16, 1024, "128B", "tcgen05").constant)
        '0x4000404000010000'
        """
        strides = ((self.lbo or 0) // _CHUNK) << 16 | (self.sbo // _CHUNK) << 32
        mode = _MODE_CODES[self.unit][self.mode] << _SWIZZLE_AT[self.unit]
        return strides | mode | _CONSTANT[self.unit]

    def check(self) -> None:
        """Raise ValueError for a descriptor that no unit reads."""
        if self.unit not in UNITS:
            raise ValueError(f"expected {' or '.join(UNITS)} as the unit, got {self.unit}")
        if self.major not in MAJORS:
            raise ValueError(f"expected {' or '.join(MAJORS)} as the major, got {self.major}")
        modes = _MODE_CODES[self.unit]
        if self.mode not in modes:
            raise ValueError(
                f"expected a swizzle of {self.unit} ({', '.join(modes)}), got {self.mode}"
            )
        if self.mode == ATOM_32B and self.major == "K":
            raise ValueError(f"expected an MN-major matrix with swizzle {ATOM_32B}, got K")
        for what, stride in (("leading", self.lbo), ("stride", self.sbo)):
            if stride is not None and (stride % _CHUNK or not 0 < stride < _LIMIT):
                raise ValueError(
                    f"expected a {what} offset that is a positive multiple of {_CHUNK} below "
                    f"{_LIMIT}, got {stride}"
                )

    def at(self, address: int) -> int:
        """The 64 bits for an operand at a shared-memory address, a multiple of 16.

        The base offset stays 0: the tile's own address has to be a multiple of eight spans.
        """
        if address % _CHUNK or not 0 <= address < _LIMIT:
            raise ValueError(
                f"expected a shared-memory address that is a multiple of 16 below {_LIMIT}, "
                f"got {address}"
            )
        return self.constant | address // _CHUNK


def matrix_descriptor(
    layout: Layout,
    swizzle: Swizzle | None,
    bits: int,
    instruction_rows: int | None = None,
    unit: str = "wgmma",
) -> MatrixDescriptor:
    """The descriptor of a (rows, depth) tile of `bits`-bit elements, `swizzle` on byte addresses.

    `instruction_rows` are the rows that one instruction reads (64 of A, N of B), all of the tile's
    when left out; `unit` is `wgmma` or `tcgen05`. `ValueError` when the tile is not canonical for
    the unit, or MN-major with elements for which the unit has no such operands.

    >>> found = matrix_descriptor(Layout((128, 64), (64, 1)), Swizzle(3, 4, 3), 16)
    >>> found.major, found.lbo, found.sbo, found.mode
    ('K', 16, 1024, '128B')
    """
    tile = _read(layout, swizzle, bits, unit)
    return _describe(tile, instruction_rows or len(tile.rows), 8 * _STEP // bits)


def operand_addends(
    layout: Layout,
    swizzle: Swizzle | None,
    bits: int,
    instruction_rows: int,
    instruction_k: int,
    unit: str = "wgmma",
) -> tuple[tuple[int, ...], ...]:
    """What to add to the start-address field, in units of 16 bytes: `[r][s]` for block r of
    `instruction_rows` rows and step s of `instruction_k` elements of k.

    `ValueError` as `matrix_descriptor` gives it.

    >>> operand_addends(Layout((128, 64), (64, 1)), Swizzle(3, 4, 3), 16, 64, 16)
    ((0, 2, 4, 6), (512, 514, 516, 518))
    """
    tile = _read(layout, swizzle, bits, unit)
    _describe(tile, instruction_rows, instruction_k)
    return tuple(
        tuple(
            (tile.rows[row] + tile.depth[step]) // _CHUNK
            for step in range(0, len(tile.depth), instruction_k)
        )
        for row in range(0, len(tile.rows), instruction_rows)
    )


@dataclass(frozen=True)
class _Tile:
    """Byte offsets of the rows (at depth 0) and of the depth (at row 0); the offset of an element
    is the sum of the two, because each leaf of the layout belongs to one of the modes."""

    text: str
    unit: str
    major: str
    mode: str
    bits: int
    rows: tuple[int, ...]
    depth: tuple[int, ...]


@lru_cache(maxsize=256)
def _read(layout: Layout, swizzle: Swizzle | None, bits: int, unit: str) -> _Tile:
    if unit not in UNITS:
        raise ValueError(f"expected {' or '.join(UNITS)} as the unit, got {unit!r}")
    if bits not in (8, 16, 32):
        raise ValueError(f"expected elements of 8, 16 or 32 bits for {unit}, got {bits}")
    wide = unit == "tcgen05" and swizzle == SWIZZLE_32B
    mode = ATOM_32B if wide else swizzle_mode(swizzle)
    if len(layout) != 2 or not layout.is_static():
        raise ValueError(f"expected the static layout of a tile of (rows, depth), got {layout}")
    offsets: list[tuple[int, ...]] = []
    for part in layout:
        size, end = part.size(), part.cosize()
        if max(size, end) * bits > 8 * _LIMIT:
            raise ValueError(f"expected a tile that fits in shared memory, got {layout}")
        offsets.append(tuple(part(i) * bits // 8 for i in range(size)))
    rows, depth = offsets
    size = bits // 8
    swizzle_text = f"{swizzle} o " if mode != "none" else ""
    text = f"{swizzle_text}{layout} of {bits}-bit elements"
    contiguous = [
        major
        for major, part in (("MN", rows), ("K", depth))
        if len(part) > 1 and part[1] == part[0] + size
    ]
    if len(contiguous) != 1:
        raise ValueError(
            f"expected one contiguous mode of a {unit} operand, rows or depth, got {text}"
        )
    if contiguous == ["MN"] and bits != 16 and unit == "wgmma":
        raise ValueError(
            f"expected a K-major wgmma operand (only 16-bit types may be MN-major), got {text}"
        )
    if (mode == ATOM_32B) != (contiguous == ["MN"] and bits == 32):
        raise ValueError(
            f"expected swizzle S<2,5,2> for MN-major tcgen05 operands of 32 bits, and for them "
            f"alone, got {text}"
        )
    return _Tile(text, unit, contiguous[0], mode, bits, rows, depth)


def _describe(tile: _Tile, rows: int, k: int) -> MatrixDescriptor:
    """Compare every row block and k step with the canonical layout, once along each mode."""
    unit = tile.bits // 8
    if k * unit != _STEP:
        raise ValueError(
            f"expected k steps of {_STEP // unit} elements ({_STEP} bytes) for {tile.bits}-bit "
            f"types, got {k}"
        )
    if rows < 8 or rows % 8 or len(tile.rows) % rows:
        raise ValueError(
            f"expected whole blocks of rows, a multiple of 8 each, got {len(tile.rows)} rows in "
            f"blocks of {rows}: {tile.text}"
        )
    if len(tile.depth) % k:
        raise ValueError(
            f"expected a depth that is a multiple of {k}, got {len(tile.depth)}: {tile.text}"
        )
    span = 128 if tile.mode == ATOM_32B else span_of(tile.mode)
    if tile.major == "K":
        # With a swizzle the step lies within one row of the pattern.
        chunk = _CHUNK if tile.mode == "none" else _STEP
        lbo = _stride(tile, "k", tile.depth, k, chunk // unit, unit)
        sbo = _stride(tile, "row", tile.rows, rows, 8, span)
    else:
        between_rows = _stride(tile, "row", tile.rows, rows, span // unit, unit)
        between_k = _stride(tile, "k", tile.depth, k, 4 if tile.mode == ATOM_32B else 8, span)
        lbo, sbo = (between_rows, between_k) if tile.mode != "none" else (between_k, between_rows)
    for offset in (*tile.rows[::rows], *tile.depth[::k]):
        if offset % _CHUNK:
            raise ValueError(
                f"expected operands at multiples of 16 bytes, got offset {offset}: {tile.text}"
            )
    return MatrixDescriptor(tile.major, lbo, sbo, tile.mode, tile.unit)


def _stride(
    tile: _Tile, what: str, offsets: Sequence[int], block: int, group: int, unit: int
) -> int:
    """The bytes from one group to the next, where groups of `group` places `unit` bytes apart make
    up each block of `block` places; every block must have the same shape."""
    stride = offsets[group] - offsets[0] if block > group else _UNUSED
    for start in range(0, len(offsets), block):
        for i in range(block):
            expected = i % group * unit + i // group * stride
            got = offsets[start + i] - offsets[start]
            if got != expected:
                origin = f"{what} {start}" if start else "the start"
                fitting = next((m for m in MODES if span_of(m) == got and unit != got), None)
                hint = f"; that distance needs swizzle {fitting}" if i == 1 and fitting else ""
                raise ValueError(
                    f"expected {what} {start + i} {expected} bytes from {origin} (the canonical "
                    f"{tile.major}-major layout with swizzle {tile.mode}), got {got}{hint}: "
                    f"{tile.text}"
                )
    if stride % _CHUNK or not 0 < stride < _LIMIT:
        raise ValueError(
            f"expected a stride that is a positive multiple of 16 below {_LIMIT}, got {stride} "
            f"between groups of {group} along {what}: {tile.text}"
        )
    return stride
