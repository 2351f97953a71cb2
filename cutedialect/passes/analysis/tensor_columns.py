"""Columns of tensor memory: how many stages its rings have, and which operands of multiplies lie
over accumulators that have been read by then.

    for j { gemm q, k[j], s; copy s, x; copy f(x), p; gemm p, v[j], o }

Here nothing reads `s` from where `p` is written on, and `p` is read before the next trip's product
is needed: both have the same columns, where there are too few for each to have its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block, Operation, Use

from cutedialect.atoms.tmem_layouts import COLUMNS
from cutedialect.dialects.cute import AllocTmemOp, CopyOp, FragmentType, GemmOp, KernelOp
from cutedialect.dialects.walks import index_in_block
from cutedialect.passes.analysis.memory_views import uses_of
from cutedialect.passes.analysis.role_plan import is_corrected
from cutedialect.passes.anchors import anchored

# Threads of a warpgroup: each of its warps reaches 32 lanes, with all that was in them before.
_THREADS = 128


def columns_of_each(kernel: KernelOp) -> int:
    """The columns of tensor memory of a CTA where an SM holds as many as the schedule says; powers
    of two are allocated (PTX ISA 9.7.16.7.1), and who finds too few waits until others have ended.
    """
    return COLUMNS >> ((kernel.choices.ctas or 1) - 1).bit_length()


def stages_of_columns(kernel: KernelOp, columns: int, others: int = 0) -> int:
    """How many stages so many columns of tensor memory have beside others that have one: two where
    they fit, else one.
    """
    return 2 if 2 * columns + others <= columns_of_each(kernel) else 1


def tensor_stages(kernel: KernelOp) -> int:
    """The stages of rings in tensor memory."""
    over = tensor_overlays(kernel)
    columns, others = _columns([each for each in _allocs(kernel) if each not in over])
    return stages_of_columns(kernel, columns, others)


@anchored(AllocTmemOp, otherwise=dict)
def tensor_overlays(kernel: KernelOp) -> dict[AllocTmemOp, AllocTmemOp]:
    """The operands in tensor memory that lie over an accumulator: none where each can have columns
    of its own, in two stages.
    """
    allocs = _allocs(kernel)
    columns, others = _columns(allocs)
    if 2 * columns + others <= columns_of_each(kernel):
        return {}
    lives = {alloc: life for alloc in allocs if (life := _life(alloc)) is not None}
    found: dict[AllocTmemOp, AllocTmemOp] = {}
    for alloc, life in lives.items():
        if not life.is_operand:
            continue
        under = [
            other
            for other, before in lives.items()
            if other not in found.values()
            and other.columns >= alloc.columns
            and _is_over(life, before)
        ]
        if under:
            found[alloc] = max(under, key=lambda other: lives[other].last)
    return found


@anchored(AllocTmemOp, otherwise=list)
def columns_too_many(kernel: KernelOp) -> list[AllocTmemOp]:
    """The operands in tensor memory that take columns, or a stage, from accumulators."""
    over = tensor_overlays(kernel)
    own = [each for each in _allocs(kernel) if each not in over]
    operands = [each for each in own if is_filled_by_threads(each)]
    columns, others = _columns([each for each in own if each not in operands])
    stages = stages_of_columns(kernel, columns, others)
    left = columns_of_each(kernel) - others - stages * columns
    refused: list[AllocTmemOp] = []
    for each in operands:
        taken = stages * each.columns
        if taken > left:
            refused.append(each)
        else:
            left -= taken
    return refused


def is_filled_by_threads(alloc: AllocTmemOp) -> bool:
    """Whether a copy fills the buffer, and no multiply: it is an operand of one."""
    uses = [(use.operation, use.index) for use in alloc.result.uses]
    return any(isinstance(op, CopyOp) and index == 1 for op, index in uses) and not is_corrected(
        alloc
    )


@dataclass(frozen=True)
class _Life:
    """When a buffer is in use: the block around its uses, and the places there of the first op that
    writes it, of the last one that does, and of the last one that reads it. `role` is the one that
    copies, where roles are known.
    """

    block: Block
    role: object
    is_operand: bool
    start: int
    filled: int
    last: int


def _is_over(life: _Life, before: _Life) -> bool:
    """Whether an operand is written when an accumulator of the same block has been read."""
    is_read = before.filled < before.last < life.start
    is_like = (before.block, before.role) == (life.block, life.role)
    return not before.is_operand and is_like and is_read


def _life(alloc: AllocTmemOp) -> _Life | None:
    """The life of a buffer of which a warpgroup reads or writes whole rows at once."""
    is_operand = is_filled_by_threads(alloc)
    uses = [] if is_corrected(alloc) else [*uses_of(alloc.result)]
    if not all(isinstance(use.operation, GemmOp) or _copies_rows(use) for use in uses):
        return None
    writers: list[Operation] = []
    readers: list[Operation] = []
    roles: set[object] = set()
    for use in uses:
        op = use.operation
        is_read = is_operand if isinstance(op, GemmOp) else use.index != 1
        (readers if is_read else writers).append(op)
        if isinstance(op, CopyOp):
            roles.add(op.attributes.get("role"))
    block = writers[0].parent if writers else None
    if block is None or not readers or len(roles) != 1:
        return None
    places = [[block.find_ancestor_op_in_block(op) for op in ops] for ops in (writers, readers)]
    found = [[index_in_block(op) for op in ops if op is not None] for ops in places]
    if [len(ops) for ops in found] != [len(writers), len(readers)]:
        return None
    return _Life(block, roles.pop(), is_operand, min(found[0]), max(found[0]), max(found[1]))


def _copies_rows(use: Use) -> bool:
    """Whether the threads of one warpgroup copy a buffer."""
    op = use.operation
    if not isinstance(op, CopyOp):
        return False
    held = (op.source if use.index == 1 else op.destination).type
    return isinstance(held, FragmentType) and held.threads == _THREADS


def _allocs(kernel: KernelOp) -> list[AllocTmemOp]:
    return [op for op in kernel.body.block.ops if isinstance(op, AllocTmemOp)]


def _columns(allocs: list[AllocTmemOp]) -> tuple[int, int]:
    """Columns of buffers that become rings, and of those that roles correct in place."""
    columns = [0, 0]
    for alloc in allocs:
        columns[is_corrected(alloc)] += alloc.columns
    return columns[0], columns[1]
