"""Tiles whose width fits a problem on sm_90a: of all that are so many beside each other, the
narrowest. What is computed behind the end of the columns is then as little as can be, and a round
of tiles can be as full as it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from cutedialect.choices import Switch

from .gemm_problem import SWAPPED_AT_ONCE

if TYPE_CHECKING:
    from .gemm_problem import Problem

# Heights of tiles, and the widest of them. The lowest ones are one or two lines of 128 bytes deep.
_HEIGHTS, _WIDEST = (64, 128, 192, 256), 256
_DEEP_HEIGHT, _WIDEST_DEEP = 64, 128
_LINE_BITS = 1024
# Bytes to which rows are aligned that TMA copies; widths are multiples of so many columns, and of
# more where boxes of the operand lie across the depth.
_ALIGN, _UNIT, _UNIT_ACROSS = 16, 8, 16

Tile = tuple[int, int, int]


def fitted_tiles(
    problem: Problem, bound: Callable[[Problem, int, int, int], float]
) -> Iterator[tuple[float, Tile, Switch]]:
    """(bound, tile, swap) of each: a bound of its cycles as `bound` says for rows, columns and the
    number of tiles, the tile, and whether it is one of the transposed product.

    There are some where TMA copies operands and results.
    """
    if min(problem.align, problem.out_align) < _ALIGN:
        return
    line = _LINE_BITS // problem.bits
    # A matrix of one element may be contiguous along either mode, and would be along the wrong one.
    # Kernels of square products take their operands as they are.
    is_square = problem.m == problem.n and not problem.turns
    may_swap = min(problem.n, problem.k) > 1 and not is_square
    if any(problem.blocks):
        # Scales of blocks take more registers in the transposed product: wide problems alone.
        may_swap = may_swap and problem.m < problem.n
    swaps: tuple[Switch, ...] = ("no", "yes") if may_swap else ("no",)
    for swap in swaps:
        m, n = (problem.n, problem.m) if swap == "yes" else (problem.m, problem.n)
        units = [_UNIT_ACROSS if problem.across[swap == "no"] else _UNIT]
        if swap == "yes":
            units.append(SWAPPED_AT_ONCE)
        widths = tuple(dict.fromkeys(width for unit in units for width in _widths(n, unit)))
        for rows in _HEIGHTS:
            if rows > _HEIGHTS[0] and rows >= 2 * m:
                continue
            for columns in widths:
                count = problem.batch * -(-m // rows) * -(-n // columns)
                least = bound(problem, rows, columns, count)
                yield least, (rows, columns, line), swap
                if rows == _DEEP_HEIGHT and columns <= _WIDEST_DEEP:
                    yield least, (rows, columns, 2 * line), swap


def _widths(columns: int, unit: int) -> tuple[int, ...]:
    """The least multiples of a unit for each number of tiles beside each other."""
    most = -(-columns // unit)
    fewest = -(-columns // _WIDEST)
    counts = range(max(1, fewest), most + 1)
    return tuple(dict.fromkeys(unit * -(-columns // (unit * count)) for count in counts))
