"""Accumulators that start from zero: the first trip of a loop of wgmma ignores what they hold, so
that nothing has to be written to them; only a loop without a trip leaves the zeros to be written.

    fill acc, 0; for k { gemm a, b, acc }; use acc
    =>
    for k { gemm a, b, acc (scale-d: k > first) }; if no trip { fill acc, 0 }; use acc

Without a loop the multiply ignores them anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from cutedialect.dialects.cute import FillOp, GemmOp
from cutedialect.dialects.cute_nvgpu import Sm90MmaType


@dataclass(frozen=True)
class FreshAccumulator:
    """The loop (None for a multiply next to the fill), the multiply in it that comes first, and the
    first op after the loop that may read.
    """

    fill: FillOp
    loop: scf.ForOp | None
    first: GemmOp
    reader: Operation | None


def fresh_accumulator(fill: FillOp) -> FreshAccumulator | None:
    """What takes the place of a fill with zero, or None where the fill has to stay: a wgmma of the
    same block, or one loop of it, directly in which wgmma alone uses the accumulator, comes before
    all other uses.
    """
    block = fill.parent
    assert block is not None
    accumulator = fill.fragment
    users = {use.operation for use in accumulator.uses if use.operation is not fill}
    inside: dict[Operation, list[Operation]] = {}
    for user in users:
        place = block.find_ancestor_op_in_block(user)
        if place is None:
            return None
        inside.setdefault(place, []).append(user)
    start = block.get_operation_index(fill)
    order = sorted(
        (each for each in inside if block.get_operation_index(each) > start),
        key=block.get_operation_index,
    )
    if order and _multiplies_into(order[0], accumulator):
        assert isinstance(order[0], GemmOp)
        return FreshAccumulator(fill, None, order[0], None)
    if not order or not isinstance(order[0], scf.ForOp):
        return None
    loop = order[0]
    multiplies: list[GemmOp] = []
    for user in inside[loop]:
        if not _multiplies_into(user, accumulator) or user.parent is not loop.body.block:
            return None
        assert isinstance(user, GemmOp)
        multiplies.append(user)
    first = min(multiplies, key=loop.body.block.get_operation_index)
    return FreshAccumulator(fill, loop, first, order[1] if len(order) > 1 else None)


def _multiplies_into(op: Operation, accumulator: SSAValue) -> bool:
    return isinstance(op, GemmOp) and isinstance(op.atom, Sm90MmaType) and op.acc is accumulator
