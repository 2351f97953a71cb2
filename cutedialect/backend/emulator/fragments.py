"""Where the elements of mma.sync operands live (PTX ISA 9.7.14.5, the fragment figures of each
shape), as index arrays: element (row, column) of a matrix to its position among a warp's register
elements. With ``g = lane / 4`` and ``q = lane % 4``, a register of ``e`` elements holds consecutive
k of one row.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .lanes import everywhere

Array = Any


@functools.cache
def operand_a(m: int, k: int, bits: int) -> tuple[int, Array]:
    """``(registers, position[m, k])`` with position = (register * 32 + lane) * e + element."""
    return _operand(m, k, bits, rows_alternate=m == 16)


@functools.cache
def operand_b(n: int, k: int, bits: int) -> tuple[int, Array]:
    """``(registers, position[n, k])``."""
    return _operand(n, k, bits, rows_alternate=False)


def _operand(rows: int, k: int, bits: int, rows_alternate: bool) -> tuple[int, Array]:
    e = max(1, 32 // bits)
    registers = rows * k // (32 * e)
    lane = np.arange(32)
    g, q = lane >> 2, lane & 3
    position = np.full((rows, k), -1)
    for register in range(registers):
        row = g + 8 * (register & 1) if rows_alternate else g
        block = register >> 1 if rows_alternate else register
        for element in range(e):
            column = e * q + element + 4 * e * block
            position[row, column] = (register * 32 + lane) * e + element
    assert everywhere(position >= 0)
    return registers, position


@functools.cache
def accumulator(m: int, n: int) -> Array:
    """``[m, n]`` to value * 32 + lane: value i of a lane is row g + 8 (i / 2), column 2q + i %
    2.
    """
    lane = np.arange(32)
    g, q = lane >> 2, lane & 3
    position = np.full((m, n), -1)
    for value in range(m * n // 32):
        position[g + 8 * (value >> 1), 2 * q + (value & 1)] = value * 32 + lane
    assert everywhere(position >= 0)
    return position


def invert(position: Array) -> Array:
    """From matrix index (flattened) by element position to the reverse."""
    flat = position.reshape(-1)
    out = np.empty(flat.size, np.int64)
    out[flat] = np.arange(flat.size)
    return out
