"""Loads of a program without a multiply come first: before any arithmetic of their block, so that
they are in flight together.

    x = load X; s = reduce x; g = load G; y = map(x, s, g)
    =>
    x = load X; g = load G; s = reduce x; y = map(x, s, g)

Only loads that read nothing that the kernel has stored move, with the scalar code and the views
that they need, and no more of them than a thread has registers for. What all work items load alike
comes from L2, and is loaded where it is used if a reduction stands before. Of two loads of one view
the second reads the registers of the first.
"""

from __future__ import annotations

from math import prod

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.dialects import cute
from cutedialect.dialects.effects import is_pure
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.analysis.memory_views import TensorDependences, expression_of
from cutedialect.passes.rewriting import erase
from cutedialect.passes.tile.streaming import is_common

# Registers of a thread that loads may wait in, and those that keep memory busy where no row is held
# that is reduced.
_MOST_REGISTERS = 96
_BUSY_REGISTERS = 32
_VIEWS = (cute.LocalTileOp, cute.SliceOp, cute.TransposeOp, cute.MakeViewOp, cute.MemberOp)


def load_early(kernel: cute.KernelOp, threads: int, stored: TensorDependences) -> None:
    """Move the loads of every block of a kernel to its front."""
    for op in ops_of(kernel, cute.KernelOp, scf.ForOp, scf.IfOp, scf.WhileOp):
        for block in [block for region in op.regions for block in region.blocks]:
            _share_loads(block, stored)
            _hoist(block, stored, threads)


def _share_loads(block: Block, stored: TensorDependences) -> None:
    """Let a load of a view that stands before it in the block use those registers."""
    known: dict[object, SSAValue] = {}
    for op in list(block.ops):
        if not isinstance(op, cute.LoadOp) or not _is_constant(op, stored):
            continue
        first = known.setdefault((expression_of(op.source), *op.operands[1:]), op.result)
        if first is not op.result:
            op.result.replace_all_uses_with(first)
            erase(op)


def _hoist(block: Block, stored: TensorDependences, threads: int) -> None:
    """Move loads, in order, in front of the first op of the block that computes on tiles."""
    first = next((op for op in block.ops if _works(op)), None)
    if first is None:
        return
    ops = list(block.ops)
    behind = set(ops[ops.index(first) :])
    reduces = any(isinstance(op, cute.ReduceOp) for op in block.ops)
    most, registers = _MOST_REGISTERS if reduces else _BUSY_REGISTERS, 0.0
    for op in ops:
        if op not in behind or not isinstance(op, cute.LoadOp):
            continue
        if reduces and is_common(op.source):
            continue
        needed = _needed(op, behind)
        type_ = op.result.type
        registers += max(1.0, prod(type_.shape) * type_.bits / 32 / threads)
        if needed is None or registers > most or not _is_constant(op, stored):
            continue
        for each in needed:
            each.detach()
            block.insert_op_before(each, first)
        behind.difference_update(needed)


def _needed(load: cute.LoadOp, behind: set[Operation]) -> list[Operation] | None:
    """The load and what it needs of the ops behind a place, in order; None where that computes on
    tiles.
    """
    found: dict[Operation, None] = {}

    def visit(op: Operation) -> bool:
        for value in op.operands:
            owner = value.owner
            if not isinstance(owner, Operation) or owner not in behind or owner in found:
                continue
            moves = is_pure(owner) or isinstance(owner, (*_VIEWS, cute.ReadOp))
            if _works(owner) or not moves or owner.regions or not visit(owner):
                return False
        found[op] = None
        return True

    return list(found) if visit(load) else None


def _works(op: Operation) -> bool:
    """Whether an op computes on tiles, or has effects: what loads go before."""
    if isinstance(op, cute.MapOp | cute.ReduceOp | cute.CopyOp | cute.AtomicOp):
        return True
    if op.regions:
        return True
    return isinstance(op, cute.TransposeOp) and isinstance(op.source.type, cute.FragmentType)


def _is_constant(op: cute.LoadOp, stored: TensorDependences) -> bool:
    """Whether the kernel has stored nothing before that a load reads."""
    type_ = op.source.type
    return type_.space == "gmem" and not stored.reads_stored(op, op.source)
