"""The edges between roles: which buffers one role fills and another one reads. Buffers that one op
reads together are one edge, and become one ring.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Block, Operation
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import AllocTmemOp, CopyOp, KernelOp, LoadOp, fragment_of
from cutedialect.dialects.effects import RMEM, Unit, effects_of, space_of
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.rewriting import block_of
from cutedialect.passes.roles.crossings import role_of
from cutedialect.passes.roles.resource_plan import Buffer
from cutedialect.passes.roles.role_plan import MAIN, is_corrected
from cutedialect.passes.roles.tensor_columns import tensor_overlays, tensor_stages
from cutedialect.passes.synchronize.memory_views import uses_of

FILLS = "fills"
READS = "reads"
"""The attributes of ops that fill a ring, and of those that read some: their numbers."""
READS_EARLY = "reads_early"
"""The same of ops behind which others still read the trip's stage, while the next trip runs."""
_COMPUTED_STAGES = 2


@dataclass
class Edge:
    """Buffers that one role, the producer, fills and another, the consumer, reads together."""

    buffers: list[Buffer]
    writers: list[CopyOp]
    readers: list[Operation]
    block: Block
    producer: str
    consumer: str

    @property
    def crosses(self) -> bool:
        """Whether what one role has computed goes to another one."""
        return all(space_of(writer.source) == RMEM for writer in self.writers)


def edges_of(kernel: KernelOp) -> list[Edge]:
    """The edges, in program order of their first writer."""
    edges: list[Edge] = []
    overlays = tensor_overlays(kernel)
    for writer in ops_of(kernel.body.block, CopyOp):
        alloc = writer.destination.owner
        if not isinstance(alloc, Buffer):
            continue
        if isinstance(alloc, AllocTmemOp) and (is_corrected(alloc) or alloc in overlays):
            # Two roles have it in turn (`tensor_rings.py`).
            continue
        users = _readers(alloc, writer)
        if any(effects_of(op).unit is Unit.TMA_STORE for op in users):
            # A result (`tma_stores.py`).
            continue
        producer = role_of(writer) or MAIN
        consumers = {role_of(op) or MAIN for op in users}
        if consumers == {producer}:
            continue
        block = block_of(writer)
        if len(consumers) != 1:
            raise PassFailedException(
                writer,
                "expected one role to read a tile that another one writes, got "
                f"{', '.join(sorted(consumers)) or 'none'}",
            )
        readers = _places(block, users)
        edge = Edge([alloc], [writer], readers, block, producer, consumers.pop())
        for other in [each for each in edges if each.block is block]:
            if other.producer == edge.producer and set(other.readers) & set(edge.readers):
                edges.remove(other)
                edge = _joined(other, edge)
        edges.append(edge)
    return _with_rows(edges)


def _joined(one: Edge, other: Edge) -> Edge:
    """One edge in the place of two of a block."""
    readers = sorted({*one.readers, *other.readers}, key=one.block.get_operation_index)
    buffers, writers = one.buffers + other.buffers, one.writers + other.writers
    return Edge(buffers, writers, readers, one.block, one.producer, one.consumer)


def _with_rows(edges: list[Edge]) -> list[Edge]:
    """Let a row that lanes share come with a tile that the same roles fill and read, from before
    the row is read until behind it: one barrier and one place in a ring serve both.
    """
    found: list[Edge] = []
    rows = [
        e for e in edges if any(isinstance(o, LoadOp) and is_shared_by_lanes(o) for o in e.readers)
    ]
    for edge in [each for each in edges if each not in rows]:
        for row in list(rows):
            at = [row.block.get_operation_index(op) for op in row.readers]
            if (edge.block, edge.producer, edge.consumer) == (
                row.block,
                row.producer,
                row.consumer,
            ):
                around = [edge.block.get_operation_index(op) for op in edge.readers]
                if min(around) < min(at) and max(at) < max(around):
                    edge = _joined(edge, row)
                    rows.remove(row)
        found.append(edge)
    return [*found, *rows]


def _readers(alloc: Buffer, writer: CopyOp) -> list[Operation]:
    """The ops that read a buffer, beside who fills it."""
    found: list[Operation] = []
    for op in [use.operation for use in uses_of(alloc.result)]:
        if op is writer:
            continue
        found.append(op)
        if isinstance(op, LoadOp) and is_shared_by_lanes(op):
            # Elements that all rows need are read where they are used, not held from here on.
            found += [use.operation for use in op.result.uses if use.operation.parent is op.parent]
    return found


def is_shared_by_lanes(op: LoadOp) -> bool:
    """Whether lanes hold the same elements of a tile."""
    type_ = fragment_of(op.result)
    return type_.values * type_.threads > prod(type_.shape)


def _places(block: Block, readers: Sequence[Operation]) -> list[Operation]:
    """The ops of `block` that are some readers, or hold them."""
    found: set[Operation] = set()
    for op in readers:
        inside = block.find_ancestor_op_in_block(op)
        if inside is None:
            raise PassFailedException(
                op, "expected a staged tile to be read in the block that loads it"
            )
        found.add(inside)
    return sorted(found, key=block.get_operation_index)


def stages_of(edge: Edge, stages: int) -> int:
    """Stages of an edge's ring where loads have so many: what a role computes for another one it
    computes a trip ahead at most, in tensor memory in as many stages as accumulators have.
    """
    if any(isinstance(alloc, AllocTmemOp) for alloc in edge.buffers):
        kernel = edge.buffers[0].parent_op()
        assert isinstance(kernel, KernelOp)
        stages = min(tensor_stages(kernel), stages)
    return min(_COMPUTED_STAGES, stages) if edge.crosses else stages


def depth(block: Block) -> int:
    """How many loops are around a block."""
    return sum(isinstance(op, scf.ForOp | scf.WhileOp) for op in _around(block))


def _around(block: Block) -> Iterator[Operation]:
    """The ops around a block, up to the kernel."""
    op = block.parent_op()
    while op is not None and not isinstance(op, KernelOp):
        yield op
        op = op.parent_op()


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
    if given is None:  # as on most ops
        return ()
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
    for op in walk(block):
        if number in numbers_of(op, name) and op.parent is not None:
            found.setdefault(op.parent, []).append(op)
    nested = sorted(found, key=lambda each: len([*_around(each)]), reverse=True)
    return [found[each] for each in nested]
