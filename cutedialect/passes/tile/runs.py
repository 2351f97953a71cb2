"""Runs of tiles: work items that take a matrix row by row, so many tiles of one row at a time, from
wherever in a row the last one has ended.

Rows of up to `_LONGEST` tiles follow each other without a gap. Of longer ones each begins a run of
its own, which costs them nothing: so no product of a run's number and its length leaves 32 bits.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from cutedialect.passes.rewriting import ScalarBuilder

_LONGEST = 1 << 20
# A row that no tensor has.
_BEYOND = 1 << 30


@dataclass(frozen=True)
class RunStart:
    """Where a run begins: the row, the place in it, both in tiles; the tiles of a row, a number
    whose product with a small place has their quotient in its high half, or one less; and how many
    rows further on the end of a row leads.
    """

    row: SSAValue
    place: SSAValue
    tiles: SSAValue
    reciprocal: SSAValue
    next_row: SSAValue


def count_runs(build: ScalarBuilder, memref: SSAValue, width: int, run: int) -> SSAValue:
    """How many runs of tiles of so many columns cover a matrix."""
    rows, tiles = build.dim(memref, 0), build.tiles(memref, 1, width)
    length = build.constant(run)
    whole, rest = build.div(rows, length), build.rem(rows, length)
    # rows * tiles / run, of which no product is too large.
    left = build.ceil_div(build.mul(rest, build.min(tiles, _LONGEST)), length)
    joined = build.add(build.mul(whole, tiles), left)
    apart = build.mul(rows, build.ceil_div(tiles, length))
    return build.select(build.compare("sgt", tiles, _LONGEST), apart, joined)


def start_of_run(
    build: ScalarBuilder, number: SSAValue, memref: SSAValue, width: int, run: int
) -> RunStart:
    """Where the run with a number begins."""
    tiles, length, one = build.tiles(memref, 1, width), build.constant(run), build.constant(1)
    zero, is_long = build.constant(0), build.compare("sgt", tiles, _LONGEST)
    step = build.select(is_long, build.ceil_div(tiles, length), tiles)
    of_step = build.binary(arith.DivUIOp, build.constant(-1), step)
    # No place in a long row, nor the end of a run that begins there, is twice as far as its end.
    reciprocal = build.select(is_long, zero, of_step)
    row, rest = _divided(build, number, step, of_step)
    row = build.mul(row, build.select(is_long, one, length))
    further, place = _divided(build, build.mul(rest, length), tiles, reciprocal)
    next_row = build.select(is_long, build.constant(_BEYOND), one)
    return RunStart(build.add(row, further), place, tiles, reciprocal, next_row)


def _divided(
    build: ScalarBuilder, number: SSAValue, divisor: SSAValue, reciprocal: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """Quotient and remainder of what is not negative, by a reciprocal: the high half of their
    product is the quotient, or one less.
    """
    below = build.insert(arith.MulUIExtendedOp(number, reciprocal)).results[1]
    rest = build.sub(number, build.mul(below, divisor))
    over = build.compare("uge", rest, divisor)
    above, less = build.add(below, 1), build.sub(rest, divisor)
    return build.select(over, above, below), build.select(over, less, rest)
