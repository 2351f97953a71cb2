"""The columns of results that leave at one time: what is computed and loaded for these alone, and
how many registers that takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd, prod

from xdsl.dialects import scf
from xdsl.ir import BlockArgument, Operation, SSAValue

from cutedialect.dialects.cute import (
    CopyOp,
    ExtractOp,
    FillOp,
    FragmentType,
    GemmOp,
    LoadOp,
    LocalTileOp,
    MapOp,
    MemberOp,
    MemRefType,
    SubviewOp,
    TransposeOp,
    fragment_of,
    memref_of,
    shape_of,
)
from cutedialect.dialects.effects import is_pure, written
from cutedialect.dialects.walks import walk
from cutedialect.passes.bind.thread_layouts import columns_of, modes_of

# Operations of a formula that needs no registers beside its operand and its result.
_SHORT_FORMULA = 4


@dataclass
class Pieces:
    """The values of which a group's stores want some columns: the ops that are cut, and what has
    been made of each for the columns from a first one on.
    """

    columns: int
    chunk: int
    before: Operation
    loads_ahead: bool = False
    cut: set[Operation] = field(default_factory=set)
    made: dict[tuple[SSAValue, int], SSAValue] = field(default_factory=dict)

    @property
    def places(self) -> tuple[int, ...]:
        """The first column of each part. Where parts do not divide the columns, the last one begins
        inside of the one before, so that all are lines of one width.
        """
        return tuple(
            min(first, self.columns - self.chunk) for first in range(0, self.columns, self.chunk)
        )


def find_cut(pieces: Pieces, ops: Sequence[CopyOp]) -> None:
    """The maps and loads that nothing but the stores needs, and that may wait for them."""
    users: set[Operation] = set(ops)
    changed: set[SSAValue] = set()
    memory_changes = False
    op: Operation | None = ops[-1]
    while op is not None:
        if op in users:
            pass
        elif isinstance(op, MapOp | LoadOp):
            readers = {use.operation for use in op.results[0].uses}
            stays = isinstance(op, MapOp) or (
                not memory_changes
                and space_of_tile(op.source) == "gmem"
                and all(_is_apart(op.source, store.destination) for store in ops)
            )
            inputs = op.inputs if isinstance(op, MapOp) else (op.result,)
            if (
                readers
                and readers <= users
                and stays
                and not changed & set(op.operands)
                and shape_of(op.results[0].type)[1:] == (pieces.columns,)
                and all(_can_part(each, pieces.chunk) for each in inputs)
            ):
                users.add(op)
                pieces.cut.add(op)
        else:
            for inner in walk(op):
                changed.update(written(inner))
                memory_changes |= _may_write_memory(inner)
        op = op.prev_op


def has_places(pieces: Pieces, ops: Sequence[CopyOp]) -> bool:
    """Whether there are such parts. Those that do not divide the columns are computed twice in
    part: none of it from a tile that is loaded, which may be the one that is stored, and every
    thread has to hold as much of a part wherever it begins.
    """
    step = gcd(pieces.chunk, pieces.columns)
    if step == pieces.chunk:
        return True
    values = [op.source for op in ops] + [op.results[0] for op in pieces.cut]
    return all(_can_part(value, step) for value in values) and not any(
        isinstance(op, LoadOp) and shape_of(op.result.type)[0] != 1 for op in pieces.cut
    )


def registers_of_pieces(
    pieces: Pieces, ops: Sequence[CopyOp], elsewhere: set[SSAValue], beside: bool
) -> int:
    """Registers of a thread that hold tiles while columns are stored: what they are taken from,
    what is loaded for two parts (and the addresses of its rows), and what is computed for one. Of
    values that are kept `elsewhere` it is one part, too. What is scaled or converted takes the
    place of what it is made from, unless it waits `beside` that for addresses.
    """
    whole = {op.source for op in ops if op.source.owner not in pieces.cut}
    parts = 0
    if beside or elsewhere or not all(map(is_short, pieces.cut)):
        parts = max(_registers_of(op.source, pieces.chunk) for op in ops)
    for op in pieces.cut:
        if isinstance(op, LoadOp):
            parts += 2 * _registers_of(op.result, pieces.chunk) + 2 * rows_of(op.result)
            continue
        whole.update(each for each in op.operands if each.owner not in pieces.cut)
        if len({use.operation for use in op.results[0].uses}) > 1:
            parts += _registers_of(op.results[0], pieces.chunk)
    return parts + sum(
        _registers_of(each, pieces.chunk if each in elsewhere else pieces.columns) for each in whole
    )


def is_short(op: Operation) -> bool:
    """Whether an op makes of each element of a tile another one, by few operations."""
    if not isinstance(op, MapOp) or len(op.body.block.ops) > _SHORT_FORMULA:
        return False
    return sum(isinstance(each.type, FragmentType) for each in op.inputs) == 1


def rows_of(value: SSAValue) -> int:
    """How many rows of a tile a thread holds."""
    type_ = fragment_of(value)
    assert type_.tv is not None
    rows: int = type_.shape[0]  # pyright: ignore[reportAssignmentType]
    return prod(extent for extent, stride in modes_of(type_.tv[1]) if stride < rows)


def _registers_of(value: SSAValue, columns: int) -> int:
    """Registers of so many columns of a tile."""
    type_ = fragment_of(value)
    if len(type_.shape) == 2 and type_.shape[1] != 1:
        return -(-type_.values * columns // type_.shape[1] * type_.bits // 32)  # pyright: ignore[reportOperatorIssue]
    return -(-type_.values * type_.bits // 32)


def _may_write_memory(op: Operation) -> bool:
    """Whether an op may change global memory, or tell that others have."""
    if isinstance(op, CopyOp):
        return isinstance(op.destination.type, MemRefType) and op.destination.type.space == "gmem"
    reads_only = MapOp | LoadOp | ExtractOp | FillOp | GemmOp | scf.ForOp | scf.IfOp | scf.YieldOp
    return not isinstance(op, reads_only) and not is_pure(op)


def _is_apart(read: SSAValue, stored: SSAValue) -> bool:
    """Whether storing some columns of one tile leaves the others of another as they are: they
    belong to two tensors, or are one tile.
    """
    one, other = argument_of(read), argument_of(stored)
    if one is None or other is None:
        return False
    if one is not other:
        return True
    first, second = read.owner, stored.owner
    return (
        isinstance(first, LocalTileOp)
        and isinstance(second, LocalTileOp)
        and list(first.operands) == list(second.operands)
        and first.tile == second.tile
    )


def argument_of(tile: SSAValue) -> SSAValue | None:
    """The kernel's argument of which this is a part: a tensor, or a group of them."""
    while isinstance(tile.owner, LocalTileOp | SubviewOp | TransposeOp | MemberOp):
        tile = tile.owner.operands[0]
    return tile if isinstance(tile, BlockArgument) else None


def _can_part(value: SSAValue, chunk: int) -> bool:
    shape = shape_of(value.type)
    return len(shape) != 2 or shape[1] == 1 or type_of_part(value, chunk) is not None


def type_of_part(value: SSAValue, chunk: int) -> FragmentType | None:
    """The type of `chunk` columns of a tile, if every thread holds as much of each such part."""
    type_ = fragment_of(value)
    assert type_.tv is not None
    rows: int = type_.shape[0]  # pyright: ignore[reportAssignmentType]
    tv = columns_of(type_.tv, rows, chunk)
    return None if tv is None else FragmentType.get(type_.element, (rows, chunk), tv)


def space_of_tile(value: SSAValue) -> str:
    type_ = memref_of(value)
    return type_.space
