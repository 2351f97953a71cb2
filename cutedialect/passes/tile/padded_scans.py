"""Scans in reverse of lines that were padded: what is behind the end of a line is in front of it
then.

    y = scan x { a + b } reverse : (4,264)
    =>
    z = map x { coord < 264 ? x : 0 } : (4,320)
    y = scan z { a + b } reverse : (4,320)

A body that adds, multiplies or takes the greater or the smaller number finds what changes nothing.
Any other one gets a flag for each element, whether it is there: `f ? body(a, b) : b, f | g`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cutedialect.dialects import cute
from cutedialect.passes.rewriting import ScalarBuilder, clone_block, insert_before
from cutedialect.passes.tile.resized_tiles import hide

_KINDS: dict[type[Operation], str] = {
    arith.AddfOp: "add", arith.AddiOp: "add", arith.MulfOp: "mul", arith.MuliOp: "mul",
    arith.MaximumfOp: "max", arith.MaxSIOp: "max", arith.MinimumfOp: "min", arith.MinSIOp: "min",
}  # fmt: skip


def hide_from_scan(op: cute.ScanOp, extent: int) -> None:
    """Let a scan in reverse begin with the last of so many elements."""
    kind = _kind(op)
    if kind is None:
        op = _flagged(op, extent)
    else:
        hide(op, {op.mode.value.data: extent}, kind=kind)
    # The element that nothing is in front of has what is behind the end in front of it.
    for result, initial in zip(op.results, op.initial, strict=False):
        _begin(op, result, initial, extent)


def _kind(op: cute.ScanOp) -> str | None:
    """The kind of the reduction that a body of one op is; None of any other."""
    first, *others = op.body.block.ops
    is_whole = len(others) == 1 and tuple(first.operands) == tuple(op.body.block.args)
    return _KINDS.get(type(first)) if is_whole and first.results == others[0].operands else None


def _flagged(op: cute.ScanOp, extent: int) -> cute.ScanOp:
    """The same scan with flags of the elements that are there."""
    source = cute.fragment_of(op.source)
    block = Block(arg_types=[source.element])
    build = ScalarBuilder(InsertPoint.at_end(block), op)
    is_there = _compared(build, "slt", op, extent)
    flag = build.select(is_there, build.constant(1), build.constant(0))
    build.insert(cute.YieldOp(flag))
    flags = cute.MapOp([op.source], cute.FragmentType.get(i32, source.shape), block)
    insert_before(op, flags)
    initial = list(op.initial)
    if initial:
        initial.append(ScalarBuilder(InsertPoint.before(op), op).constant(0))
    tiles = [*op.tiles, flags.result]
    made = cute.ScanOp(tiles, op.mode.value.data, _body(op), initial, reverse=True)
    insert_before(op, made)
    Rewriter.replace_op(op, [], new_results=made.results[:-1])
    return made


def _body(op: cute.ScanOp) -> Block:
    """The body of a scan with a flag behind the elements of either side."""
    old = op.body.block
    count = len(op.tiles)
    block = clone_block(old, {})
    earlier = block.insert_arg(i32, count)
    later = block.insert_arg(i32, 2 * count + 1)
    end = block.last_op
    assert isinstance(end, cute.YieldOp)
    build = ScalarBuilder(InsertPoint.before(end), op)
    is_there = build.compare("ne", earlier, 0)
    mine: Sequence[SSAValue] = block.args[count + 1 : 2 * count + 1]
    pairs = zip(end.operands, mine, strict=True)
    chosen = [build.select(is_there, made, value) for made, value in pairs]
    build.insert(cute.YieldOp(*chosen, build.value(arith.OrIOp(earlier, later))))
    Rewriter.erase_op(end)
    return block


def _begin(op: cute.ScanOp, result: SSAValue, initial: SSAValue, extent: int) -> None:
    """Give the last of so many elements of an exclusive scan its initial value."""
    type_ = cute.fragment_of(result)
    uses = list(result.uses)
    block = Block(arg_types=[type_.element])
    build = ScalarBuilder(InsertPoint.at_end(block), op)
    is_first = _compared(build, "eq", op, extent - 1)
    if initial.type != type_.element:  # of 16-bit floats in f32
        initial = build.value(arith.TruncFOp(initial, type_.element))  # pyright: ignore
    build.insert(cute.YieldOp(build.select(is_first, initial, block.args[0])))
    made = cute.MapOp([result], cute.FragmentType.get(type_.element, type_.shape), block)
    ScalarBuilder(InsertPoint.after(op), op).insert(made)
    for use in uses:
        use.operation.operands[use.index] = made.result


def _compared(build: ScalarBuilder, predicate: str, op: cute.ScanOp, number: int) -> SSAValue:
    """How an element's place along the line compares with a number."""
    return build.compare(predicate, build.value(cute.CoordOp(op.mode.value.data)), number)
