"""`cute-fuse`: adjacent elementwise ops become one `cute.map`, equal views of a tensor one view.

    %y = map(%x) { f }; %z = map(%y) { g }   =>   %z = map(%x) { g(f) }
    x * y + z                                =>   math.fma x, y, z

A transpose of a register tile that is written before all have read it is one of a copy.
A map that only copies goes where nothing writes its source before its readers read it.
A map moves into its reader when that is its only reader, both stand in one block, and nothing in
between writes a register tile that it reads. In a program without a multiply, a map of a few cheap
ops moves into each of its readers that is a map if fewer registers then wait between them: a tile
that is converted when it is loaded stays in its 16 bits until it is used. Two views of one block
that say the same become one, so that what several ops read is brought to them once. Of words that
are sorted the halves go that nobody reads (`sorted_words.py`). A product that
one sum of the map takes is rounded with it, once: whoever assembles the kernel then has nothing
left to choose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import BFloat16Type, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from cutedialect.dialects import cute
from cutedialect.dialects.effects import written
from cutedialect.dialects.walks import holds, ops_of, walk
from cutedialect.passes.rewriting import cloned, erase, insert_before
from cutedialect.passes.tile.sorted_words import sort_high_words

# What takes an instruction or two for each element, and how many such ops are computed again.
_CHEAP = (
    cute.CoordOp,
    cute.YieldOp,
    arith.AddfOp,
    arith.AddiOp,
    arith.CmpfOp,
    arith.CmpiOp,
    arith.ConstantOp,
    arith.ExtFOp,
    arith.MaximumfOp,
    arith.MinimumfOp,
    arith.MulfOp,
    arith.SelectOp,
    arith.SubfOp,
    math.FmaOp,
)
_MOST_REPEATED = 10


@dataclass(frozen=True)
class FusePass(ModulePass):
    """Fuse maps into their one reader and products into sums; share equal views."""

    name = "cute-fuse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        _keep_turned(op)
        for copied in [o for o in ops_of(op, cute.MapOp) if _is_copy(o)]:
            _forward(copied)
        # Most tiles are values that nothing writes, for which no program is searched.
        changed = {
            _registers_of(value)
            for kernel in ops_of(op, cute.KernelOp)
            for each in walk(kernel.body.block)
            for value in written(each)
        }
        for consumer in ops_of(op, cute.MapOp):
            while (producer := _fusible(consumer, changed)) is not None:
                _inline_into(producer, consumer)
                erase(producer)
        for sort in ops_of(op, cute.SortOp):
            sort_high_words(sort)
        for kernel in ops_of(op, cute.KernelOp):
            if not holds(kernel, cute.GemmOp):
                for producer in ops_of(kernel, cute.MapOp):
                    _repeat(producer, changed)
        for made in ops_of(op, cute.MapOp):
            for sum_ in ops_of(made, arith.AddfOp, arith.SubfOp):
                _contract(sum_)
        _share_views(op)


def _keep_turned(module: ModuleOp) -> None:
    """Copy each register tile in front of its transpose that is written before all have read it:
    the transpose is the value that the tile has there, and names the same registers.
    """
    for op in ops_of(module, cute.TransposeOp):
        if not isinstance(op.source.type, cute.FragmentType):
            continue
        tile = _registers_of(op.source)
        if any(_is_written_before(op, tile, reader) for reader in _readers_of(op.result)):
            type_ = cute.fragment_of(op.source)
            block = Block(arg_types=[type_.element])
            end = cute.YieldOp(block.args[0])
            end.location = op.location
            block.add_op(end)
            kept = cute.MapOp([op.source], cute.FragmentType.get(type_.element, type_.shape), block)
            insert_before(op, kept)
            op.operands[0] = kept.result


def _registers_of(tile: SSAValue) -> SSAValue:
    """The register tile in whose registers a tile lies."""
    while isinstance(tile.owner, cute.TransposeOp):
        tile = tile.owner.source
    return tile


def _readers_of(tile: SSAValue) -> Iterator[Operation]:
    """The ops that read a register tile, or what it is where it is turned."""
    for use in tile.uses:
        if isinstance(use.operation, cute.TransposeOp):
            yield from _readers_of(use.operation.result)
        else:
            yield use.operation


def _is_written_before(made: Operation, tile: SSAValue, reader: Operation) -> bool:
    """Whether a register tile may be written behind an op and before another one, inside of the
    block of the first, has read it: by those in between, or by that one itself.
    """
    block, op = made.parent, reader
    if _writes(reader, tile):
        return True
    while op.parent is not None:
        first = made.next_op if op.parent is block else op.parent.first_op
        while first is not None and first is not op:
            if any(_writes(inner, tile) for inner in walk(first)):
                return True
            first = first.next_op
        if op.parent is block:
            return first is None
        around = op.parent_op()
        if around is None:
            break
        if isinstance(around, scf.ForOp | scf.WhileOp) and any(
            _writes(inner, tile) for inner in walk(around)
        ):
            return True
        op = around
    return True


def _writes(op: Operation, tile: SSAValue) -> bool:
    """Whether an op, those inside of it apart, changes a register tile."""
    return any(_registers_of(value) is tile for value in written(op))


def _is_copy(op: cute.MapOp) -> bool:
    """Whether a map gives what it is given."""
    last = op.body.block.last_op
    return (
        isinstance(last, cute.YieldOp)
        and list(last.operands) == list(op.body.block.args)
        and _shape(op.inputs[0]) == _shape(op.result)
    )


def _forward(copied: cute.MapOp) -> None:
    """Let the readers of a copy read what it was copied from, if nothing writes that before."""
    tile = _registers_of(copied.inputs[0])
    for reader in _readers_of(copied.result):
        if reader.parent is not copied.parent or _writes(reader, copied.result):
            return
        if _is_written_before(copied, tile, reader):
            return
    Rewriter.replace_op(copied, (), (copied.inputs[0],))


def _fusible(consumer: cute.MapOp, changed: set[SSAValue]) -> cute.MapOp | None:
    for value in consumer.inputs:
        producer = value.owner
        if (
            isinstance(producer, cute.MapOp)
            and _may_move(producer, consumer, changed)
            and {use.operation for use in value.uses} == {consumer}
        ):
            return producer
    return None


def _may_move(producer: cute.MapOp, reader: cute.MapOp, changed: set[SSAValue]) -> bool:
    """Whether a map can be computed in another one that reads it: of another shape it would be
    computed again along the modes that it broadcasts to. `changed` are the tiles that anything
    writes.
    """
    is_alike = _shape(producer.result) == _shape(reader.result)
    is_beside = is_alike and reader.parent is producer.parent
    return is_beside and not _overwritten(producer, reader, changed)


def _repeat(producer: cute.MapOp, changed: set[SSAValue]) -> None:
    """Compute a cheap map again in the maps that read it, and leave it to its other readers."""
    body = list(producer.body.block.ops)
    if len(body) > _MOST_REPEATED or not all(isinstance(op, _CHEAP) for op in body):
        return
    readers = dict.fromkeys(use.operation for use in producer.result.uses)
    maps = [op for op in readers if isinstance(op, cute.MapOp) and _may_move(producer, op, changed)]
    if not maps or _kept_for(producer, maps[-1]) >= cute.fragment_of(producer.result).bits:
        return
    for reader in maps:
        _inline_into(producer, reader)
    if not producer.result.uses:
        erase(producer)


def _kept_for(producer: cute.MapOp, last: cute.MapOp) -> int:
    """Bits for each element of what has to wait for the last reader of a map if that computes the
    map again, and need not otherwise.
    """
    block = last.parent
    assert block is not None
    bits = 0
    for value in dict.fromkeys(producer.inputs):
        type_ = cute.fragment_of(value)
        readers = [block.find_ancestor_op_in_block(use.operation) for use in value.uses]
        waits = any(
            each is None or each is last or last.is_before_in_block(each) for each in readers
        )
        if type_.shape == _shape(producer.result) and not waits:
            bits += type_.bits
    return bits


def _shape(value: SSAValue) -> tuple[int, ...]:
    return cute.fragment_of(value).shape


def _overwritten(producer: cute.MapOp, consumer: Operation, changed: set[SSAValue]) -> bool:
    """Whether an input of `producer` changes before `consumer` runs, which stands behind it."""
    inputs = changed.intersection(map(_registers_of, producer.inputs))
    if not inputs:
        return False
    between = producer.next_op
    while between is not None and between is not consumer:
        if any(_registers_of(value) in inputs for op in walk(between) for value in written(op)):
            return True
        between = between.next_op
    return between is None


def _inline_into(producer: cute.MapOp, consumer: cute.MapOp) -> None:
    """Replace `consumer`'s input by `producer`'s inputs and inline its body."""
    inputs: list[SSAValue] = []
    for value in (*producer.inputs, *consumer.inputs):
        if value is not producer.result and value not in inputs:
            inputs.append(value)
    block = Block(arg_types=[value.type.element for value in inputs])  # type: ignore[attr-defined]
    args = dict(zip(inputs, block.args, strict=True))
    for value, arg in args.items():
        arg.name_hint = value.name_hint
    result = _inline(producer, block, args)  # pyright: ignore[reportArgumentType]
    final = _inline(consumer, block, args | {producer.result: result})
    end = cute.YieldOp(final)
    end.location = consumer.location
    block.add_op(end)
    consumer.body.detach_block(consumer.body.block).erase()
    consumer.body.add_block(block)
    consumer.operands = inputs


def _inline(op: cute.MapOp, block: Block, args: dict[SSAValue, SSAValue]) -> SSAValue:
    """Append the body of `op` to `block`; gives the yielded value."""
    values: dict[SSAValue, SSAValue] = {
        arg: args[value] for arg, value in zip(op.body.block.args, op.inputs, strict=True)
    }
    for inner in op.body.block.ops:
        if isinstance(inner, cute.YieldOp):
            return values.get(inner.value, inner.value)
        clone = cloned(inner, values)
        clone.location = inner.location
        block.add_op(clone)
    raise AssertionError("a verified map ends with cute.yield")


def _contract(op: arith.AddfOp | arith.SubfOp) -> None:
    """Make a sum of a product and something else one op with one rounding."""
    if isinstance(op.result.type, BFloat16Type):
        return  # computed in f32 and rounded after each op
    for factor, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        product = factor.owner
        if not isinstance(product, arith.MulfOp) or product.parent is not op.parent:
            continue
        if len(list(product.result.uses)) > 1:
            continue
        x = product.lhs
        if isinstance(op, arith.SubfOp):
            negative = arith.NegfOp(other if factor is op.lhs else x)
            insert_before(op, negative)
            other = negative.result if factor is op.lhs else other
            x = x if factor is op.lhs else negative.result
        fma = math.FmaOp(x, product.rhs, other)
        insert_before(op, fma)
        op.result.replace_all_uses_with(fma.result)
        erase(op, product)
        return


def _share_views(module: ModuleOp) -> None:
    """Replace each view by an equal one that stands before it in its block."""
    known: dict[tuple[object, ...], SSAValue] = {}
    for op in ops_of(module, cute.LocalTileOp, cute.TransposeOp):
        view = op.results[0]
        if not isinstance(view.type, cute.MemRefType):
            continue
        said = tuple(sorted(op.properties.items(), key=lambda item: item[0]))
        key = (op.parent, type(op), tuple(op.operands), said, view.type)
        first = known.setdefault(key, view)
        if first is not view:
            view.replace_all_uses_with(first)
            erase(op)
