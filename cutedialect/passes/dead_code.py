"""Scalar code and views that nothing uses, which passes leave where they copy or move ops."""

from __future__ import annotations

from xdsl.ir import Block

from cutedialect.dialects.cute import MapOp
from cutedialect.dialects.effects import is_pure


def sweep(block: Block) -> None:
    """Erase pure ops without uses in a block and in those that it holds."""
    for op in reversed(list(block.ops)):
        if op.regions and not isinstance(op, MapOp):
            for region in op.regions:
                for inner in region.blocks:
                    sweep(inner)
        if op.results and not any(result.first_use for result in op.results) and is_pure(op):
            op.detach()
            op.erase()
