"""The edges between roles: which buffers one role fills and another one reads. Buffers that one op
reads together are one edge, and become one ring.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, i64
from xdsl.ir import Block, Operation
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import (
    AllocSmemOp,
    CopyOp,
    FragmentType,
    KernelOp,
    MemRefType,
    SubviewOp,
    TransposeOp,
)
from cutedialect.dialects.cute_nvgpu import TransposeCopyType, WidenCopyType

FILLS = "fills"
READS = "reads"
"""The attributes of ops that fill a ring, and of those that read some: their numbers."""
READS_EARLY = "reads_early"
"""The same of ops behind which others still read the trip's stage, while the next trip runs."""
MAIN = "main"
"""The role that computes; of whatever has no role of its own."""
_COMPUTED_STAGES = 2


@dataclass
class Edge:
    """Buffers that one role, the producer, fills and another, the consumer, reads together."""

    buffers: list[AllocSmemOp]
    writers: list[CopyOp]
    readers: list[Operation]
    block: Block
    producer: str
    consumer: str


def is_preparing(op: Operation) -> bool:
    """Whether an op brings a tile from shared memory to shared memory, transposed or converted."""
    return isinstance(op, CopyOp) and isinstance(op.atom, TransposeCopyType | WidenCopyType)


def is_load(op: Operation) -> bool:
    """Whether an op brings a tile from global to shared memory, by whatever atom."""
    if not isinstance(op, CopyOp):
        return False
    source, destination = op.source.type, op.destination.type
    return (
        isinstance(source, MemRefType)
        and isinstance(destination, MemRefType)
        and (source.space, destination.space) == ("gmem", "smem")
    )


def edges_of(kernel: KernelOp) -> list[Edge]:
    """The edges, in program order of their first writer."""
    edges: list[Edge] = []
    for writer in [op for op in kernel.body.block.walk() if isinstance(op, CopyOp)]:
        alloc = writer.destination.owner
        if not isinstance(alloc, AllocSmemOp):
            continue
        if not (is_load(writer) or is_preparing(writer) or crosses(writer)):
            continue
        block = writer.parent
        assert block is not None
        readers = _readers(alloc, writer, block)
        if not readers:
            raise PassFailedException(writer, "expected a reader of what is loaded, got none")
        consumer = next(iter(_reading_roles(alloc, writer)), _role_of(readers[0]))
        edge = Edge([alloc], [writer], readers, block, _role_of(writer), consumer)
        for other in [each for each in edges if each.block is block]:
            if other.producer == edge.producer and set(other.readers) & set(edge.readers):
                edges.remove(other)
                merged = sorted({*other.readers, *edge.readers}, key=block.get_operation_index)
                edge = Edge(
                    other.buffers + edge.buffers,
                    other.writers + edge.writers,
                    merged,
                    block,
                    edge.producer,
                    edge.consumer,
                )
        edges.append(edge)
    return edges


def crosses(op: Operation) -> bool:
    """Whether an op writes a register tile to shared memory for another role to read."""
    if not isinstance(op, CopyOp) or not isinstance(op.source.type, FragmentType):
        return False
    alloc = op.destination.owner
    if not isinstance(alloc, AllocSmemOp):
        return False
    return any(role != _role_of(op) for role in _reading_roles(alloc, op))


def _reading_roles(alloc: AllocSmemOp, writer: CopyOp) -> list[str]:
    """The roles of the ops that read a buffer, each once."""
    found: dict[str, None] = {}
    pending = [use.operation for use in alloc.result.uses if use.operation is not writer]
    while pending:
        op = pending.pop()
        if isinstance(op, SubviewOp | TransposeOp):
            pending += [use.operation for use in op.results[0].uses]
        elif "role" in op.attributes:
            found[_role_of(op)] = None
    return list(found)


def _role_of(op: Operation) -> str:
    """The role that an op was given; control around several ops is the main program's."""
    given = op.attributes.get("role")
    return given.data if isinstance(given, StringAttr) else MAIN


def _readers(alloc: AllocSmemOp, writer: CopyOp, block: Block) -> list[Operation]:
    """The ops of `block` that read a buffer, or that hold ops which do."""
    found: set[Operation] = set()
    pending = [use.operation for use in alloc.result.uses if use.operation is not writer]
    while pending:
        op = pending.pop()
        if isinstance(op, SubviewOp | TransposeOp):
            pending += [use.operation for use in op.results[0].uses]
            continue
        inside = block.find_ancestor_op_in_block(op)
        if inside is None:
            raise PassFailedException(
                op, "expected a staged tile to be read in the block that loads it"
            )
        found.add(inside)
    return sorted(found, key=block.get_operation_index)


def stages_of(edge: Edge, stages: int) -> int:
    """Stages of an edge's ring where loads have so many: what a role computes for another one it
    computes a trip ahead at most.
    """
    return min(_COMPUTED_STAGES, stages) if edge.producer == MAIN else stages


def depth(block: Block) -> int:
    """How many loops and branches are around a block."""
    around = 0
    op = block.parent_op()
    while op is not None and not isinstance(op, KernelOp):
        around += 1
        op = op.parent_op()
    return around


def mark_reader(op: Operation, number: int) -> None:
    """Say that an op reads a ring."""
    op.attributes[READS] = DenseArrayBase.from_list(i64, [*numbers_of(op), number])


def fills(op: Operation, number: int) -> bool:
    """Whether an op fills a ring."""
    given = op.attributes.get(FILLS)
    return isinstance(given, IntegerAttr) and given.value.data == number


def numbers_of(op: Operation, name: str = READS) -> tuple[int, ...]:
    """The rings that an op reads, or that what it holds does."""
    given = op.attributes.get(name)
    values = given.get_values() if isinstance(given, DenseArrayBase) else ()
    return tuple(each for each in values if isinstance(each, int))


def read_early(op: Operation, numbers: set[int]) -> None:
    """Say of some rings that an op reads them while others of its trip are still to read them."""
    mine = numbers_of(op)
    if numbers & {*mine}:
        rest = [each for each in mine if each not in numbers]
        early = [each for each in mine if each in numbers]
        op.attributes[READS] = DenseArrayBase.from_list(i64, rest)
        op.attributes[READS_EARLY] = DenseArrayBase.from_list(i64, early)


def reading_sites(block: Block, number: int, name: str = READS) -> list[list[Operation]]:
    """The ops that read a ring in each place where a trip does, the innermost place first."""
    found: dict[Block, list[Operation]] = {}
    for op in block.walk():
        if number in numbers_of(op, name) and op.parent is not None:
            found.setdefault(op.parent, []).append(op)
    return sorted(found.values(), key=lambda ops: depth(ops[0].parent), reverse=True)  # pyright: ignore[reportArgumentType]
