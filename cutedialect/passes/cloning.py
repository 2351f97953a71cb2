"""Copies of ops. xDSL's `clone` sets the operands of all that an op holds in a walk of its own, for
the sake of blocks that refer to later ones, which structured control flow does not have.
"""

from __future__ import annotations

from typing import TypeVar

from xdsl.ir import Block, Operation, SSAValue

_OpT = TypeVar("_OpT", bound=Operation)


def cloned(op: _OpT, values: dict[SSAValue, SSAValue] | None = None) -> _OpT:
    """A copy of an op and of all that it holds, which uses what `values` has for its operands; the
    results and block arguments of the copy are added to `values`.
    """
    values = {} if values is None else values
    made = op.clone_without_regions(values)
    for region, into in zip(op.regions, made.regions, strict=True):
        for block in region.blocks:
            into.add_block(clone_block(block, values))
    return made


def clone_block(block: Block, values: dict[SSAValue, SSAValue]) -> Block:
    """A copy of a block and of all that it holds."""
    made = Block(arg_types=block.arg_types)
    for mine, theirs in zip(made.args, block.args, strict=True):
        mine.name_hint = theirs.name_hint
        values[theirs] = mine
    for op in block.ops:
        made.add_op(cloned(op, values))
    return made
