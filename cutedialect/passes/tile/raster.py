"""The order in which the blocks of a plane of tiles are walked: CTAs that run at one time are near
each other in it, so that they share operands in L2.

A band of `raster` rows of blocks is walked column by column, the next band behind it; where the
order is `tall`, all rows are one band if L2 holds what lies between two columns of them, else bands
are low; where it is `short`, all rows in that case, else all rows or all columns, whichever are
fewer, follow each other. `snake` walks every other band backward: at the turn it goes on with the
columns of B that were read last. `hilbert` does so too, and walks the squares of a band along
Hilbert curves, whose every part is about as high as it is wide: it shares well however many CTAs
run. The curves begin and end at the top of a square, side by side.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from cutedialect.passes.rewriting import ScalarBuilder
from cutedialect.schedule import Schedule

# Blocks of a column that lie in L2 together with what is read beside them.
_FEW_ROWS = 192
# Rows of a band where there are more.
_LOW_BAND = 16


def walk(
    build: ScalarBuilder, index: SSAValue, counts: tuple[SSAValue, SSAValue], schedule: Schedule
) -> tuple[SSAValue, SSAValue]:
    """Row and column of the block with a number, in a plane of `counts` rows and columns.

    The last band has the rows that remain. Every divisor is the same for all work items, so that
    the divisions become products.
    """
    rows, columns = counts
    if schedule.order == "short":
        return _along_a_side(build, index, counts)
    height = schedule.raster or 1
    if schedule.order == "hilbert":
        height = 1 << height.bit_length() - 1
    width, one = build.constant(height), build.constant(1)
    if schedule.order == "tall":
        is_whole = build.compare("sle", rows, _FEW_ROWS)
        width = build.select(is_whole, rows, build.constant(_LOW_BAND))
    area = build.mul(width, columns)
    band = build.div(index, area)
    first = build.mul(band, width)
    inside = build.rem(index, area)
    last = build.sub(rows, build.rem(rows, width))
    remaining = build.max(build.rem(rows, width), one)
    is_last = build.compare("sge", first, last)
    row, column = (
        build.select(is_last, split(inside, remaining), split(inside, width))
        for split in (build.rem, build.div)
    )
    if schedule.order == "hilbert" and height > 1:
        row, column = _in_squares(build, inside, columns, is_last, (row, column), height)
    if schedule.order in ("snake", "hilbert"):
        is_odd = build.compare("ne", build.binary(arith.AndIOp, band, one), 0)
        backward = build.sub(build.sub(columns, one), column)
        column = build.select(is_odd, backward, column)
    return build.add(first, row), column


def _along_a_side(
    build: ScalarBuilder, index: SSAValue, counts: tuple[SSAValue, SSAValue]
) -> tuple[SSAValue, SSAValue]:
    """All rows of a column, then the next one; or, of many rows, that along the side with fewer
    blocks.
    """
    rows, columns = counts
    has_few_rows = build.compare("sle", rows, build.max(columns, _FEW_ROWS))
    side = build.select(has_few_rows, rows, columns)
    inner, outer = build.rem(index, side), build.div(index, side)
    return build.select(has_few_rows, inner, outer), build.select(has_few_rows, outer, inner)


def _in_squares(
    build: ScalarBuilder,
    inside: SSAValue,
    columns: SSAValue,
    is_last: SSAValue,
    plain: tuple[SSAValue, SSAValue],
    side: int,
) -> tuple[SSAValue, SSAValue]:
    """The place within a band where its whole squares are walked along curves. What is right of
    them, and the last band if it is lower, keeps the `plain` order.
    """
    size, area = build.constant(side), build.constant(side * side)
    whole, square = build.div(columns, size), build.div(inside, area)
    within = build.compare("slt", square, whole)
    no = build.value(arith.ConstantOp.from_int_and_width(0, 1))
    curved = build.binary(arith.AndIOp, within, build.compare("eq", is_last, no))
    row, column = _along_curve(build, build.rem(inside, area), side)
    column = build.add(build.mul(square, size), column)
    return build.select(curved, row, plain[0]), build.select(curved, column, plain[1])


def _along_curve(build: ScalarBuilder, index: SSAValue, side: int) -> tuple[SSAValue, SSAValue]:
    """Row and column of a step on the Hilbert curve through a square of a power of two.

    From the finest scale to the coarsest, two bits of the index each say in which quarter the part
    so far lies, and with that how it is turned.
    """
    one, zero = build.constant(1), build.constant(0)
    row, column, rest = zero, zero, index
    scale = 1
    while scale < side:
        right = build.binary(arith.AndIOp, build.binary(arith.ShRUIOp, rest, 1), one)
        low = build.binary(arith.AndIOp, build.binary(arith.XOrIOp, rest, right), one)
        top = build.compare("eq", low, zero)
        far = build.compare("ne", right, zero)
        edge = build.constant(scale - 1)
        turned = [build.select(far, build.sub(edge, each), each) for each in (column, row)]
        row, column = (
            build.select(top, new, old) for new, old in zip(turned, (row, column), strict=True)
        )
        step = build.constant(scale)
        row = build.add(row, build.mul(low, step))
        column = build.add(column, build.mul(right, step))
        rest = build.binary(arith.ShRUIOp, rest, 2)
        scale *= 2
    return row, column
