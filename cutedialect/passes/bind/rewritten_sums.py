"""Accumulators in tensor memory that threads write anew before they read them: sums that CTAs share
come back from memory to where the products were.

    gemm a, b, t; copy t, P; if last { fill t, 0; for j { copy t + load P[j], t } }; y = f(t)
    =>
    gemm a, b, t
    for each line of columns { copy t', x; copy x, P' }
    if last { for each line { fill x, 0; for j { copy x + load P'[j], x }; copy x, t' } }
    for each line { copy t', x; y' = f(x) }

A thread holds some columns at a time, so that a tile may have more of them than its registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import TmemLoadType, TmemStoreType
from cutedialect.dialects.effects import is_pure, written
from cutedialect.dialects.walks import walk
from cutedialect.passes.bind.thread_layouts import columns_of
from cutedialect.passes.rewriting import erase
from cutedialect.passes.shifted_coordinates import shift_coordinates

Insert = Callable[[Operation, Operation], Operation]

# Registers of a thread beside those for elements: as many of the sums as of what is added to them.
_OTHERS = 72
# Columns of such a part, most first.
_COLUMNS = (64, 32, 16, 8)


@dataclass(frozen=True)
class Rewrites:
    """The runs of ops that write an accumulator anew, each in one block and in order; and how many
    columns of them are done at a time.
    """

    runs: tuple[tuple[Operation, ...], ...]
    columns: int


def rewrites_of(
    accumulator: SSAValue, block: Block, readers: list[Operation], registers: int
) -> Rewrites | None:
    """How an accumulator that is written anew by `readers`, inside of `block`, can stay in tensor
    memory; None where threads of so many registers hold it as well, or where something else than
    loads, stores and elementwise ops makes it.
    """
    type_ = cute.fragment_of(accumulator)
    most = (registers - _OTHERS) // 2
    if type_.values <= most:  # pyright: ignore[reportOperatorIssue]
        return None
    parts = [part for columns in _COLUMNS if (part := _part(type_, columns)) is not None]
    if not parts:
        return None
    narrow = [part for part in parts if part.values <= most]  # pyright: ignore[reportOperatorIssue]
    columns = (narrow or parts[-1:])[0].shape[1]
    assert isinstance(columns, int)
    writers = {_in_loops(op, block) for op in readers if accumulator in written(op)}
    runs: list[tuple[Operation, ...]] = []
    for inner in dict.fromkeys(op.parent for op in writers):
        assert inner is not None
        closed = _closed({op for op in writers if op.parent is inner}, inner)
        run = sorted(closed, key=inner.get_operation_index)
        if not _begins_anew(run[0], accumulator) or not all(_is_cut(op, type_) for op in run):
            return None
        runs.append(tuple(run))
    return Rewrites(tuple(runs), columns)


def fill_in_columns(
    accumulator: SSAValue,
    tensor: SSAValue,
    value: SSAValue,
    columns: int,
    insert: Insert,
    before: Operation,
) -> None:
    """Write a number to all of an accumulator in tensor memory."""
    type_ = cute.fragment_of(accumulator)
    held = _Columns(0, columns, insert, before).held(accumulator)
    insert(cute.FillOp(held, value), before)
    for first in range(0, type_.shape[1], columns):  # pyright: ignore[reportArgumentType]
        view = _Columns(first, columns, insert, before).view(tensor)
        insert(cute.CopyOp(held, view, atom=TmemStoreType.get(type_.element)), before)


def rewrite_in_columns(
    accumulator: SSAValue, tensor: SSAValue, rewrites: Rewrites, insert: Insert
) -> None:
    """Let the ops that write an accumulator do so in tensor memory, some columns at a time."""
    type_ = cute.fragment_of(accumulator)
    for run in rewrites.runs:
        after = run[-1].next_op
        assert after is not None
        for first in range(0, type_.shape[1], rewrites.columns):  # pyright: ignore[reportArgumentType]
            piece = _Columns(first, rewrites.columns, insert, after)
            held = piece.held(accumulator)
            piece.copy(run)
            view = piece.view(tensor)
            insert(cute.CopyOp(held, view, atom=TmemStoreType.get(type_.element)), after)
        erase(*reversed(run))


def read_in_columns(
    reader: Operation, accumulator: SSAValue, tensor: SSAValue, columns: int, insert: Insert
) -> bool:
    """Let a store or an atomic op take some columns of an accumulator at a time; False for others,
    which need it as a whole.
    """
    type_ = cute.fragment_of(accumulator)
    is_store = isinstance(reader, cute.CopyOp | cute.AtomicOp) and accumulator not in written(
        reader
    )
    if not is_store or not _is_cut(reader, type_):
        return False
    for first in range(0, type_.shape[1], columns):  # pyright: ignore[reportArgumentType]
        piece = _Columns(first, columns, insert, reader)
        piece.load(tensor, piece.held(accumulator))
        piece.copy((reader,))
    erase(reader)
    return True


def _in_loops(op: Operation, block: Block) -> Operation:
    """The outermost loop around an op inside of a block with nothing but loops between, or it."""
    while op.parent is not block and isinstance(around := op.parent_op(), scf.ForOp):
        op = around
    return op


def _closed(ops: set[Operation], block: Block) -> set[Operation]:
    """Ops of a block with those that compute register tiles for them or use ones that they do."""
    found = set(ops)
    pending = list(ops)
    while pending:
        op = pending.pop()
        near = [each.owner for inner in walk(op) for each in inner.operands if _is_tile(each)]
        near += [use.operation for each in op.results if _is_tile(each) for use in each.uses]
        for each in near:
            place = each if isinstance(each, Operation) else None
            place = None if place is None else block.find_ancestor_op_in_block(place)
            if place is None or place in found or isinstance(place, cute.AllocFragmentOp):
                continue
            found.add(place)
            pending.append(place)
    return found


def _is_tile(value: SSAValue) -> bool:
    return isinstance(value.type, cute.FragmentType)


def _is_cut(op: Operation, like: cute.FragmentType) -> bool:
    """Whether some columns of what an op does are what it does with some columns."""
    if isinstance(op, scf.ForOp):
        return not op.results and all(
            _is_cut(each, like) or is_pure(each) or isinstance(each, scf.YieldOp)
            for each in op.body.block.ops
        )
    tiles = [each for each in (*op.operands, *op.results) if _is_tile(each)]
    if isinstance(op, cute.CopyOp | cute.AtomicOp | cute.LoadOp):
        memory = [each.type for each in op.operands if isinstance(each.type, cute.MemRefType)]
        if any(each.space != "gmem" or len(each.shape) != 2 for each in memory):
            return False
        if isinstance(op, cute.CopyOp) and (op.mask is not None or op.descriptor is not None):
            return False
    elif not isinstance(op, cute.FillOp | cute.MapOp):
        return False
    return all(
        isinstance(each.type, cute.FragmentType)
        and each.type.shape == like.shape
        and each.type.tv == like.tv
        for each in tiles
    )


def _begins_anew(op: Operation, accumulator: SSAValue) -> bool:
    """Whether the first op of a run makes what is written without what the accumulator held."""
    return isinstance(op, cute.LoadOp) or (
        isinstance(op, cute.FillOp) and op.fragment is accumulator
    )


def _part(type_: cute.FragmentType, columns: int) -> cute.FragmentType | None:
    """Some columns of a tile's type, where every thread holds as much of each such part."""
    rows, wide = type_.shape
    if type_.tv is None or wide % columns:  # pyright: ignore[reportOperatorIssue]
        return None
    tv = columns_of(type_.tv, rows, columns)  # pyright: ignore[reportArgumentType]
    return None if tv is None else cute.FragmentType.get(type_.element, (rows, columns), tv)


class _Columns:
    """Ops for some columns of a tile, in front of a place."""

    def __init__(self, first: int, columns: int, insert: Insert, before: Operation) -> None:
        self.first, self.columns = first, columns
        self.insert, self.before = insert, before
        self.made: dict[SSAValue, SSAValue] = {}

    def held(self, tile: SSAValue) -> SSAValue:
        """A register tile of these columns in the place of another one."""
        assert isinstance(tile.type, cute.FragmentType)
        part = _part(tile.type, self.columns)
        assert part is not None
        self.made[tile] = self.insert(cute.AllocFragmentOp(part), self.before).results[0]
        return self.made[tile]

    def view(self, memory: SSAValue) -> SSAValue:
        """These columns of a tile in memory."""
        assert isinstance(memory.type, cute.MemRefType)
        rows = memory.type.shape[0]
        view = cute.SubviewOp(memory, (0, self.first), (rows, self.columns))  # pyright: ignore[reportArgumentType]
        return self.insert(view, self.before).results[0]

    def load(self, tensor: SSAValue, held: SSAValue) -> None:
        assert isinstance(held.type, cute.FragmentType)
        atom = TmemLoadType.get(held.type.element)
        self.insert(cute.CopyOp(self.view(tensor), held, atom=atom), self.before)

    def copy(self, ops: tuple[Operation, ...]) -> None:
        """Do some ops for these columns."""
        for op in ops:
            if isinstance(op, scf.ForOp):
                self._copy_loop(op)
                continue
            if not (isinstance(op, cute.LoadOp) or any(map(_is_tile, (*op.operands, *op.results)))):
                copied = self.insert(op.clone(self.made), self.before)
                self.made.update(zip(op.results, copied.results, strict=True))
                continue
            operands = [self._of(value) for value in op.operands]
            if isinstance(op, cute.LoadOp | cute.MapOp):
                part = _part(op.results[0].type, self.columns)  # pyright: ignore[reportArgumentType]
                if isinstance(op, cute.LoadOp):
                    made: Operation = cute.LoadOp(operands[0], part)
                    made.attributes.update(op.attributes)
                else:
                    body = op.body.clone()
                    shift_coordinates(body.block, 1, self.first)
                    assert part is not None
                    made = cute.MapOp(operands, part, body)
                self.made[op.results[0]] = self.insert(made, self.before).results[0]
            else:
                mapped = dict(zip(op.operands, operands, strict=True))
                self.insert(op.clone(mapped), self.before)

    def _of(self, value: SSAValue) -> SSAValue:
        if isinstance(value.type, cute.MemRefType):
            memory = self.made.get(value, value)
            return self.view(memory)
        return self.made.get(value, value)

    def _copy_loop(self, loop: scf.ForOp) -> None:
        bounds = [self.made.get(each, each) for each in (loop.lb, loop.ub, loop.step)]
        old = loop.body.block
        body = Block(arg_types=[old.args[0].type])
        copied = self.insert(scf.ForOp(bounds[0], bounds[1], bounds[2], [], body), self.before)
        copied.attributes.update(loop.attributes)
        ending = scf.YieldOp()
        ending.location = loop.location
        body.add_op(ending)
        self.made[old.args[0]] = body.args[0]
        outer, self.before = self.before, ending
        self.copy(tuple(op for op in old.ops if not isinstance(op, scf.YieldOp)))
        self.before = outer
