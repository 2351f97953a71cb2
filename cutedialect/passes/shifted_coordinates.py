"""Coordinates of a part of a tile that count from the whole tile's first element."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block

from cutedialect.dialects.cute import CoordOp
from cutedialect.passes.anchors import anchored
from cutedialect.passes.rewriting import insert_after


@anchored(CoordOp)
def shift_coordinates(body: Block, mode: int, first: int) -> None:
    """Let the coordinates along a mode in a map's body count from `first`."""
    for op in list(body.ops):
        if first and isinstance(op, CoordOp) and op.mode.value.data == mode:
            start = arith.ConstantOp(IntegerAttr(first, i32))
            moved = arith.AddiOp(op.result, start.result)
            op.result.replace_uses_with_if(
                moved.result, lambda use, moved=moved: use.operation is not moved
            )
            insert_after(op, start, moved)
