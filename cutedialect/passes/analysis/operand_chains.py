"""Operands that are computed between memory and a multiply: which loads they begin at.

    for k { %w = load W[k]; %x = map %w {convert}; gemm %x, X[k], %acc }

Such a load can run ahead of its trip as that of a plain operand does, as it is in memory; what is
computed from it stays in front of the multiply.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from cutedialect.dialects.cute import (
    ConvertOp,
    ExtractOp,
    FragmentType,
    GemmOp,
    LoadOp,
    MapOp,
    TransposeOp,
    UnpackOp,
)
from cutedialect.passes.analysis.memory_views import depends_on

# Modes of an operand.
_MODES = 2
# What computes a register tile of others, element by element or by moving elements.
_LINKS = (MapOp, ConvertOp, ExtractOp, TransposeOp, UnpackOp)


def multiplies_fed(op: LoadOp) -> list[GemmOp]:
    """The multiplies in the block of a load whose operands are computed from what it loads, where
    nothing else is: empty where another op takes it, or what is computed from it, and where what
    another multiply gives is an operand's part.
    """
    found: dict[GemmOp, None] = {}
    for user, value in _users(op.result):
        if not isinstance(user, GemmOp) or user.acc is value or user.parent is not op.parent:
            return []
        if _is_of_products(value):
            return []
        found[user] = None
    return [*found]


def is_on_its_way(op: LoadOp) -> bool:
    """Whether a load begins an operand that each trip of a loop computes anew from another tile.
    Rows and columns that are computed with one, such as logarithms, begin none.
    """
    return not _is_line(op) and bool(multiplies_fed(op)) and _changes(op)


def is_beside_one_on_its_way(op: LoadOp) -> bool:
    """Whether a load brings a line, such as the scales or the zeros of a group, anew in each trip
    of a loop that computes an operand on its way: who computes has no time to wait for memory.
    """
    if op.parent is None or not _is_line(op) or not _changes(op):
        return False
    loads = (each for each in op.parent.ops if isinstance(each, LoadOp))
    return any(not _is_line(each) and multiplies_fed(each) for each in loads)


def _is_line(op: LoadOp) -> bool:
    shape = op.result.type.shape if isinstance(op.result.type, FragmentType) else ()
    return len(shape) < _MODES or 1 in shape


def _changes(op: LoadOp) -> bool:
    """Whether each trip of the loop that a load is in loads another tile."""
    loop = None if op.parent is None else op.parent.parent_op()
    if not isinstance(loop, scf.ForOp):
        return False
    return any(depends_on(op.source, number) for number in loop.body.block.args)


def _users(tile: SSAValue) -> Iterator[tuple[Operation, SSAValue]]:
    """What ends the chains that begin at a register tile: the users that are no link, and what they
    use.
    """
    pending, seen = [tile], {tile}
    while pending:
        value = pending.pop()
        for use in value.uses:
            user = use.operation
            if not isinstance(user, _LINKS):
                yield user, value
                continue
            for result in user.results:
                if isinstance(result.type, FragmentType) and result not in seen:
                    seen.add(result)
                    pending.append(result)


def _is_of_products(tile: SSAValue) -> bool:
    """Whether a register tile is computed from an accumulator of multiplies."""
    pending, seen = [tile], {tile}
    while pending:
        value = pending.pop()
        users = (use.operation for use in value.uses)
        if any(isinstance(user, GemmOp) and user.acc is value for user in users):
            return True
        owner = value.owner
        if isinstance(owner, _LINKS):
            new = [each for each in owner.operands if each not in seen]
            seen.update(new)
            pending += new
    return False
