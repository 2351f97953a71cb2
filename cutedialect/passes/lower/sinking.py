"""Scalar code and views that only what follows a loop needs move behind it: there they overlap with
multiplies that are still at work, where before the loop everything would wait for them.
"""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import Block, Operation

from cutedialect.dialects.effects import is_pure


def sink_past_loops(block: Block) -> None:
    """Do so in a block and in the blocks of its loops and branches."""
    for loop in [op for op in block.ops if op.regions and isinstance(op, scf.ForOp)]:
        _sink_past(block, loop)
    for op in block.ops:
        if op.regions and isinstance(op, scf.ForOp | scf.IfOp | scf.WhileOp):
            for region in op.regions:
                for inner in region.blocks:
                    sink_past_loops(inner)


def _sink_past(block: Block, loop: Operation) -> None:
    behind: set[Operation] = set()
    op = loop.next_op
    while op is not None:
        behind.add(op)
        op = op.next_op
    op = loop.prev_op
    while op is not None:
        before = op.prev_op
        if not op.regions and op.results and is_pure(op) and _is_used_in(op, behind):
            op.detach()
            block.insert_op_after(op, loop)
            behind.add(op)
        op = before


def _is_used_in(op: Operation, places: set[Operation]) -> bool:
    """Whether ops of `places`, and no others of the block, use a result."""
    block = op.parent
    assert block is not None
    users = [use.operation for result in op.results for use in result.uses]
    return bool(users) and all(block.find_ancestor_op_in_block(user) in places for user in users)
