"""The SSA rule that xDSL does not check: a value is defined before it is used. A definition reaches
a use when it comes earlier in the block, or its block dominates the block of the use, where an op
inside nested regions counts as standing where its enclosing op stands.

    %1 = arith.addi %0, %0 : i32      // error: operand #0 (%0) is used before its definition
    %0 = arith.constant 1 : i32
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.walks import walk


class DominanceError(VerifyException):
    """A use that its definition does not dominate: `op` is the user, `value` what it uses."""

    def __init__(self, op: Operation, index: int, value: SSAValue, reason: str) -> None:
        name = f" (%{value.name_hint})" if value.name_hint else ""
        super().__init__(f"operand #{index}{name} {reason}")
        self.op = op
        self.value = value


@dataclass(frozen=True)
class VerifyDominancePass(ModulePass):
    """Fail on the first operand that its definition does not dominate; change nothing."""

    name = "verify-dominance"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_dominance(op)


def check_dominance(top: Operation) -> None:
    """Raise `DominanceError` for the first operand under `top`, in program order, whose definition
    does not dominate it. A block that the entry cannot reach is dominated by every block, as in
    MLIR.
    """
    order: dict[Operation, int] = {}
    for number, op in enumerate(walk(top)):
        order[op] = number
    reached_without: dict[Block, set[Block]] = {}
    for op in order:
        for index, value in enumerate(op.operands):
            reason = _fault(op, value, order, reached_without)
            if reason is not None:
                raise DominanceError(op, index, value, reason)


def _fault(
    user: Operation,
    value: SSAValue,
    order: dict[Operation, int],
    reached_without: dict[Block, set[Block]],
) -> str | None:
    """Why `value` may not be used by `user`, or None. `order` numbers the ops so that the numbers
    grow along every block; `reached_without` caches `_reachable_around` per defining block.
    """
    match value:
        case OpResult():
            definition, block = value.op, value.op.parent
        case BlockArgument():
            definition, block = None, value.block
        case _:
            return "is not the result of an operation or the argument of a block"
    region = None if block is None else block.parent
    if block is None or region is None or (definition is not None and definition not in order):
        return "is defined by an operation that is not part of the module"

    standing: Operation | None = user
    while standing is not None and standing.parent_region() is not region:
        standing = standing.parent_op()
    if standing is None:
        return "is defined in a region that does not enclose its use"

    use_block = standing.parent
    if use_block is block:
        if definition is None or order[definition] < order[standing]:
            return None
        if definition is standing:
            return "is used by the operation that defines it"
        return "is used before its definition"
    if block not in reached_without:
        reached_without[block] = _reachable_around(region, block)
    if use_block in reached_without[block]:
        return "is used in a block that its definition does not dominate"
    return None


def _reachable_around(region: Region, avoided: Block) -> set[Block]:
    """The blocks of `region` that control reaches from the entry without passing `avoided`, which
    are exactly the reachable blocks that `avoided` does not dominate.
    """
    entry = region.first_block
    reached: set[Block] = set()
    pending = [entry] if entry is not None and entry is not avoided else []
    while pending:
        block = pending.pop()
        if block in reached:
            continue
        reached.add(block)
        if block.last_op is not None:
            pending += [next for next in block.last_op.successors if next is not avoided]
    return reached
