"""`cute-fuse`: adjacent elementwise ops become one `cute.map`, equal views of a tensor one view.

    %y = map(%x) { f }; %z = map(%y) { g }   =>   %z = map(%x) { g(f) }
    x * y + z                                =>   math.fma x, y, z

A map that only copies goes where nothing writes its source before its readers read it.
A map moves into its reader when that is its only reader, both stand in one block, and nothing in
between writes a register tile that it reads. In a program without a multiply, a map of a few cheap
ops moves into each of its readers that is a map if fewer registers then wait between them: a tile
that is converted when it is loaded stays in its 16 bits until it is used. Two views of one block
that say the same become one, so that what several ops read is brought to them once. A product that
one sum of the map takes is rounded with it, once: whoever assembles the kernel then has nothing
left to choose.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import BFloat16Type, ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from cutedialect.dialects.cute import (
    CoordOp,
    FragmentType,
    GemmOp,
    KernelOp,
    LocalTileOp,
    MapOp,
    MemRefType,
    TransposeOp,
    YieldOp,
)
from cutedialect.dialects.effects import written
from cutedialect.dialects.walks import holds, ops_of, walk
from cutedialect.passes.rewriting import cloned, erase

# What takes an instruction or two for each element, and how many such ops are computed again.
_CHEAP = (
    CoordOp,
    YieldOp,
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
        for copied in [o for o in ops_of(op, MapOp) if _is_copy(o)]:
            _forward(copied)
        for consumer in ops_of(op, MapOp):
            while (producer := _fusible(consumer)) is not None:
                _fuse(producer, consumer)
        for kernel in ops_of(op, KernelOp):
            if not holds(kernel, GemmOp):
                for producer in ops_of(kernel, MapOp):
                    _repeat(producer)
        for sum_ in ops_of(op, arith.AddfOp, arith.SubfOp):
            if _is_in_map(sum_):
                _contract(sum_)
        _share_views(op)


def _is_in_map(op: Operation) -> bool:
    above = op.parent_op()
    while above is not None and type(above) is not MapOp:
        above = above.parent_op()
    return above is not None


def _is_copy(op: MapOp) -> bool:
    """Whether a map gives what it is given."""
    last = op.body.block.last_op
    return (
        isinstance(last, YieldOp)
        and list(last.operands) == list(op.body.block.args)
        and _shape(op.inputs[0]) == _shape(op.result)
    )


def _forward(copied: MapOp) -> None:
    """Let the readers of a copy read what it was copied from, if nothing writes that before."""
    readers = [use.operation for use in copied.result.uses]
    both = {copied.result, copied.inputs[0]}
    for reader in readers:
        if reader.parent is not copied.parent or not both.isdisjoint(written(reader)):
            return
        if _overwritten(copied, reader):
            return
    Rewriter.replace_op(copied, (), (copied.inputs[0],))


def _fusible(consumer: MapOp) -> MapOp | None:
    shape = _shape(consumer.result)
    for value in consumer.inputs:
        producer = value.owner
        if not isinstance(producer, MapOp) or producer.parent is not consumer.parent:
            continue
        if _shape(producer.result) != shape:
            # Inlined, it would be computed again along the modes it broadcasts to.
            continue
        readers = {use.operation for use in value.uses}
        if readers == {consumer} and not _overwritten(producer, consumer):
            return producer
    return None


def _repeat(producer: MapOp) -> None:
    """Compute a cheap map again in the maps that read it, and leave it to its other readers."""
    if not all(isinstance(op, _CHEAP) for op in producer.body.block.ops):
        return
    if len(list(producer.body.block.ops)) > _MOST_REPEATED:
        return
    readers = [use.operation for use in producer.result.uses]
    maps: list[MapOp] = []
    for reader in readers:
        if (
            isinstance(reader, MapOp)
            and reader not in maps
            and reader.parent is producer.parent
            and _shape(reader.result) == _shape(producer.result)
            and not _overwritten(producer, reader)
        ):
            maps.append(reader)
    if not maps or _kept_for(producer, maps[-1]) >= producer.result.type.bits:  # pyright: ignore
        return
    for reader in maps:
        _inline_into(producer, reader)
    if not producer.result.uses:
        erase(producer)


def _kept_for(producer: MapOp, last: MapOp) -> int:
    """Bits for each element of what has to wait for the last reader of a map if that computes the
    map again, and need not otherwise.
    """
    block = last.parent
    assert block is not None
    bits = 0
    for value in dict.fromkeys(producer.inputs):
        type_ = value.type
        assert isinstance(type_, FragmentType)
        readers = [block.find_ancestor_op_in_block(use.operation) for use in value.uses]
        waits = any(
            each is None or each is last or last.is_before_in_block(each) for each in readers
        )
        if type_.shape == _shape(producer.result) and not waits:
            bits += type_.bits
    return bits


def _shape(value: SSAValue) -> tuple[int, ...]:
    assert isinstance(value.type, FragmentType)
    return value.type.shape


def _overwritten(producer: MapOp, consumer: Operation) -> bool:
    """Whether an input of `producer` changes before `consumer` runs."""
    inputs = set(producer.inputs)
    between = producer.next_op
    while between is not None and between is not consumer:
        if any(value in inputs for op in walk(between) for value in written(op)):
            return True
        between = between.next_op
    return between is None


def _fuse(producer: MapOp, consumer: MapOp) -> None:
    """Move `producer` into `consumer`, its only reader."""
    _inline_into(producer, consumer)
    erase(producer)


def _inline_into(producer: MapOp, consumer: MapOp) -> None:
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
    end = YieldOp(final)
    end.location = consumer.location
    block.add_op(end)
    consumer.body.detach_block(consumer.body.block).erase()
    consumer.body.add_block(block)
    consumer.operands = inputs


def _inline(op: MapOp, block: Block, args: dict[SSAValue, SSAValue]) -> SSAValue:
    """Append the body of `op` to `block`; gives the yielded value."""
    values: dict[SSAValue, SSAValue] = {
        arg: args[value] for arg, value in zip(op.body.block.args, op.inputs, strict=True)
    }
    for inner in op.body.block.ops:
        if isinstance(inner, YieldOp):
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
        if sum(1 for _ in product.result.uses) > 1:
            continue
        block, x = op.parent, product.lhs
        assert block is not None
        if isinstance(op, arith.SubfOp):
            negative = arith.NegfOp(other if factor is op.lhs else x)
            negative.location = op.location
            block.insert_op_before(negative, op)
            other = negative.result if factor is op.lhs else other
            x = x if factor is op.lhs else negative.result
        fma = math.FmaOp(x, product.rhs, other)
        fma.location = op.location
        block.insert_op_before(fma, op)
        op.result.replace_all_uses_with(fma.result)
        erase(op)
        erase(product)
        return


def _share_views(module: ModuleOp) -> None:
    """Replace each view by an equal one that stands before it in its block."""
    known: dict[tuple[object, ...], SSAValue] = {}
    for op in ops_of(module, LocalTileOp, TransposeOp):
        view = op.results[0]
        if not isinstance(view.type, MemRefType):
            continue
        said = tuple(sorted(op.properties.items(), key=lambda item: item[0]))
        key = (op.parent, type(op), tuple(op.operands), said, view.type)
        first = known.setdefault(key, view)
        if first is not view:
            view.replace_all_uses_with(first)
            erase(op)
