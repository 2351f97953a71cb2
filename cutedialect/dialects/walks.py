"""Walks over ops and all that they hold, in program order, on a stack of their own: xDSL's `walk` is
a generator for each level, so that an op deep inside of a kernel passes through all of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation


def walk(root: Operation | Block) -> Iterator[Operation]:
    """An op, or nothing for a block, and each op inside of it in front of those that it holds.

    An op may be erased or moved once it was given, as with xDSL's `walk`.
    """
    if isinstance(root, Operation):
        yield root
    levels: list[Iterator[Operation]] = [
        _inside(root) if isinstance(root, Operation) else iter(root.ops)
    ]
    while levels:
        for op in levels[-1]:
            yield op
            if op.regions:
                levels.append(_inside(op))
                break
        else:
            levels.pop()


def _inside(op: Operation) -> Iterator[Operation]:
    """The ops of an op's regions, without those that they hold."""
    return (inner for region in op.regions for block in region.blocks for inner in block.ops)
