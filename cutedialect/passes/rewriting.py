"""What passes do to ops: insert them beside another one, whose location they take, copy them, and
erase them. xDSL's `clone` sets the operands of all that an op holds in a walk of its own, for the
sake of blocks that refer to later ones, which structured control flow does not have.
"""

from __future__ import annotations

from typing import TypeVar

from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.dialects.cute import MapOp
from cutedialect.dialects.effects import is_pure

_OpT = TypeVar("_OpT", bound=Operation)


def insert_before(place: Operation, *ops: Operation) -> None:
    """Insert ops in front of another one, in their order."""
    block = place.parent
    assert block is not None
    for op in ops:
        _locate(op, place)
        block.insert_op_before(op, place)


def insert_after(place: Operation, *ops: Operation) -> None:
    """Insert ops behind another one, in their order."""
    block = place.parent
    assert block is not None
    last = place
    for op in ops:
        _locate(op, place)
        block.insert_op_after(op, last)
        last = op


def erase(*ops: Operation) -> None:
    """Take ops out of their blocks, for good: nothing uses what they give."""
    for op in ops:
        op.detach()
        op.erase()


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


def _locate(op: Operation, place: Operation) -> None:
    if isinstance(op.location, UnknownLoc):
        op.location = place.location
