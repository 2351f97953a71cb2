"""The trait of ops that use no value from outside of them, checked in one walk: that of xDSL climbs
from each operand to the op.
"""

from __future__ import annotations

from xdsl.ir import Block, Operation, Region
from xdsl.traits import IsolatedFromAbove


class Isolated(IsolatedFromAbove):
    """`IsolatedFromAbove`, with its messages."""

    def verify(self, op: Operation) -> None:
        inside: set[int] = set()
        ops: list[Operation] = []
        regions: list[Region] = list(op.regions)
        while regions:
            for block in regions.pop().blocks:
                inside.add(id(block))
                for child in block.ops:
                    ops.append(child)
                    if child.regions and not child.has_trait(IsolatedFromAbove):
                        regions += child.regions
        for child in ops:
            for operand in child.operands:
                owner = operand.owner
                block = owner if isinstance(owner, Block) else owner.parent
                if id(block) not in inside:
                    super().verify(op)
