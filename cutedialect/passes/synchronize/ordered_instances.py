"""Instances of a role that take turns, where the schedule asks for it (`overlap = turns`): a step
of `cute-synchronize`.

    for j { p0 = exp2 s0 (main); p1 = exp2 s1 (main_1) }
    =>
    for j { acquire; p0 = exp2 s0; commit; advance (main)
            wait; p1 = exp2 s1; release; advance (main_1) }

A ring of one stage, which holds nothing: who computes the operands of its multiplies has the units
that compute exponentials to itself, and the other one multiplies, or loads and stores, meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from xdsl.dialects import math, scf
from xdsl.ir import Block, Operation

from cutedialect.dialects.cute import CopyOp, FragmentType, GemmOp, KernelOp, MapOp
from cutedialect.dialects.effects import space_of
from cutedialect.dialects.pipeline import CreateOp
from cutedialect.dialects.walks import index_in_block, ops_of, walk
from cutedialect.passes.analysis.memory_views import root_of
from cutedialect.passes.analysis.role_plan import role_of
from cutedialect.passes.anchors import anchored
from cutedialect.passes.remarks import remark
from cutedialect.passes.roles.assign_warp_roles import Role
from cutedialect.passes.schedule.multiply_chains import TURNS
from cutedialect.passes.synchronize.ring_ends import ring_between


@anchored(asked={"overlap": TURNS})
def order_instances(kernel: KernelOp, roles: Sequence[Role]) -> None:
    """Let the instances of a role that share the rows of a tile compute operands in turns."""
    names = [row.name for row in kernel.choices.plan.rows if row.parts > 1]
    instances = [
        role for role in roles for name in names if re.fullmatch(rf"{name}(_\d+)?", role.name)
    ]
    ranges = [_range(kernel, role) for role in instances]
    if len(instances) < 2:
        return
    blocks = {found[0].parent for found in ranges if found is not None}
    if None in ranges or len(blocks) != 1:
        remark(
            "cute-synchronize",
            kernel,
            "instances take no turns: expected each to compute operands of multiplies by "
            "exponentials, in one loop",
        )
        return
    for (first, one), (second, other) in pairwise(zip(instances, ranges, strict=True)):
        assert one is not None
        assert other is not None
        _hand_over(kernel, first, second, one, other)


def _range(kernel: KernelOp, role: Role) -> tuple[Operation, Operation] | None:
    """The first op of a role in a loop that computes exponentials of a tile, and the last one there
    that writes an operand of a multiply.
    """
    operands = {
        root_of(value) for op in ops_of(kernel.body.block, GemmOp) for value in (op.a, op.b)
    }
    for loop in ops_of(kernel.body.block, scf.ForOp):
        block = loop.body.block
        mine = [op for op in walk(block) if role_of(op) == role.name]
        starts = [op for op in mine if _is_exponential(op)]
        ends = [op for op in mine if isinstance(op, CopyOp) and root_of(op.destination) in operands]
        ends = [op for op in ends if space_of(op.source) == "rmem"]
        if starts and ends and all(op.parent is block for op in ends):
            return _first(block, starts), ends[-1]
    return None


def _is_exponential(op: Operation) -> bool:
    type_ = op.result.type if isinstance(op, MapOp) else None
    if not isinstance(type_, FragmentType) or type_.shape[1:] in ((), (1,)):
        return False
    return any(isinstance(inner, math.Exp2Op) for inner in walk(op))


def _first(block: Block, ops: Sequence[Operation]) -> Operation:
    """The first op of a block that is one of some ops or holds it."""
    places = [place for op in ops if (place := block.find_ancestor_op_in_block(op)) is not None]
    return min(places, key=index_in_block)


def _hand_over(
    kernel: KernelOp,
    first: Role,
    second: Role,
    one: tuple[Operation, Operation],
    other: tuple[Operation, Operation],
) -> None:
    """Let one role begin when the other is done with the trip before, and that one behind it."""
    create = CreateOp("threads", 1, first.warps, second.warps)
    passing, taking = ring_between(kernel, create, one[0], first, second)
    passing.around(one, passing.begins(), passing.ends())
    taking.around(other, taking.begins(), taking.ends())
