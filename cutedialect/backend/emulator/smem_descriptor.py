"""The 64-bit matrix descriptor of wgmma (PTX ISA 9.7.15.5.1), read bit by bit, and the 16-byte
chunks of shared memory that an operand covers. A chunk never straddles a swizzle, so an operand is
fully told by the numbers (address / 16) of its chunks.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from .errors import EmulatorError
from .lanes import Array, distinct

CHUNK = 16
K_BYTES = 32  # what one instruction takes along K, of every type
_SPANS = (0, 128, 64, 32)
_RESERVED = (1 << 64) - 1 & ~(0x3FFF | 0x3FFF << 16 | 0x3FFF << 32 | 7 << 49 | 3 << 62)


@dataclass(frozen=True)
class MatrixDescriptor:
    """``start`` is an address in the CTA's shared memory, ``leading`` and ``stride`` are steps, all
    in bytes; ``span`` is the swizzle's 128, 64 or 32 bytes, 0 for none.
    """

    start: int
    leading: int
    stride: int
    base_offset: int
    span: int

    def __str__(self) -> str:
        mode = f"{self.span}B swizzle" if self.span else "no swizzle"
        return (
            f"start {self.start:#x}, leading {self.leading} B, stride {self.stride} B, "
            f"base offset {self.base_offset}, {mode}"
        )


def decode(bits: int) -> MatrixDescriptor:
    """The fields of a descriptor. CD-F2 if a reserved bit is set."""
    if bits & _RESERVED:
        raise EmulatorError(
            f"matrix descriptor {bits:#018x} has reserved bits {bits & _RESERVED:#018x} set: "
            "expected (address & 0x3ffff) >> 4 in bits 0-13, byte offsets / 16 in 16-29 and 32-45, "
            "the base offset in 49-51, the swizzle in 62-63",
            code="CD-F2",
        )
    return MatrixDescriptor(
        (bits & 0x3FFF) << 4,
        (bits >> 16 & 0x3FFF) << 4,
        (bits >> 32 & 0x3FFF) << 4,
        bits >> 49 & 7,
        _SPANS[bits >> 62],
    )


@dataclass(frozen=True, eq=False)
class Footprint:
    """``chunks`` are chunk numbers: ``[extent, 2]`` for a K-major operand (two chunks along K),
    ``[extent / 8, 16]`` for an MN-major one of 16-bit elements (a chunk holds 8 consecutive rows of
    one k). ``distinct`` has each of them once, ascending.
    """

    descriptor: MatrixDescriptor
    chunks: Array
    distinct: Array


@functools.lru_cache(maxsize=4096)
def footprint(bits: int, extent: int, mn_major: bool) -> Footprint:
    """What an operand of ``extent`` rows (M or N) covers (PTX ISA 9.7.15.5.1, canonical layouts).

    K-major: 8 rows lie one swizzle span (16 bytes without swizzle) apart, groups of 8 rows
    ``stride`` apart; the two chunks along K are neighbors, or ``leading`` apart without swizzle.
    MN-major: 8 k lie one span apart, groups of 8 k ``stride`` apart and blocks of one span along MN
    ``leading`` apart; without swizzle the two steps change their roles.
    """
    descriptor = decode(bits)
    span, leading, stride = descriptor.span, descriptor.leading, descriptor.stride
    if mn_major:
        block, k = np.arange(extent // 8)[:, None], np.arange(16)[None, :]
        if span:
            across = span // CHUNK
            offset = block % across * CHUNK + block // across * leading
            offset = offset + k % 8 * span + k // 8 * stride
        else:
            offset = block * stride + k % 8 * CHUNK + k // 8 * leading
    else:
        row, half = np.arange(extent)[:, None], np.arange(2)[None, :]
        pitch, step = (span, CHUNK) if span else (CHUNK, leading)
        offset = row % 8 * pitch + row // 8 * stride + half * step
    address = offset + descriptor.start
    if span:
        # The pattern repeats over address bits 7 and up, wherever the operand starts.
        phase = ((address >> 7) - descriptor.base_offset) & (span // CHUNK - 1)
        address = address ^ phase << 4
    chunks = address >> 4
    return Footprint(descriptor, chunks, distinct(chunks))


def rows_of(raw: Array, mn_major: bool) -> Array:
    """Chunks as loaded, ``[operands, *footprint shape, 4]`` of 32 bits, to the 32 bytes of each
    row: ``[operands, extent, 32]`` of 8 bits.
    """
    count = len(raw)
    if not mn_major:
        return raw.view(np.uint8).reshape(count, -1, K_BYTES)
    halves = raw.view(np.uint16).reshape(count, -1, 16, 8)
    rows = np.ascontiguousarray(np.swapaxes(halves, 2, 3))
    return rows.view(np.uint8).reshape(count, -1, K_BYTES)
