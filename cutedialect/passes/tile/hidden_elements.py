"""Elements of a tile that a reduction does not see: those behind the end of what is there."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cutedialect.dialects.cute import CoordOp, MapOp, YieldOp, fragment_of


def hidden(
    before: Operation,
    source: SSAValue,
    limits: dict[int, int],
    other: Attribute,
    start: SSAValue | None = None,
) -> SSAValue:
    """A tile with another value where coordinates, counted from `start` on, reach their limits. A
    map that nothing else reads does it itself.
    """
    made = source.owner
    if isinstance(made, MapOp) and len(list(source.uses)) == 1:
        end = made.body.block.last_op
        assert isinstance(end, YieldOp)
        value = _choose(made.body.block, end, end.value, limits, other, start)
        end.operands[0] = value
        return source
    type_ = fragment_of(source)
    block = Block(arg_types=[type_.element])
    end = YieldOp(block.args[0])
    end.location = before.location
    block.add_op(end)
    end.operands[0] = _choose(block, end, block.args[0], limits, other, start)
    hidden = MapOp([source], type_, block)
    hidden.location = before.location
    Rewriter.insert_op(hidden, InsertPoint.before(before))
    return hidden.result


def _choose(
    block: Block,
    end: Operation,
    value: SSAValue,
    limits: dict[int, int],
    other: Attribute,
    start: SSAValue | None,
) -> SSAValue:
    for mode, extent in limits.items():
        at, limit = CoordOp(mode), arith.ConstantOp(IntegerAttr(extent, i32))
        ops: list[Operation] = [at, limit]
        place = at.result
        if start is not None:
            flags = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])
            ops.append(arith.AddiOp(place, start, overflow=flags))
            place = ops[-1].results[0]
        is_there = arith.CmpiOp(place, limit.result, "slt")
        none = arith.ConstantOp(other)  # pyright: ignore[reportArgumentType]
        chosen = arith.SelectOp(is_there.result, value, none.result)
        for each in (*ops, is_there, none, chosen):
            each.location = end.location
            block.insert_op_before(each, end)
        value = chosen.result
    return value


def neutral(kind: str, element: Attribute) -> Attribute:
    """What a reduction does not notice."""
    if isinstance(element, IntegerType):
        top = 1 << element.width.data - 1
        return IntegerAttr({"add": 0, "mul": 1, "max": -top, "min": top - 1}[kind], element)
    assert isinstance(element, AnyFloat)
    number = {"add": 0.0, "mul": 1.0, "max": float("-inf"), "min": float("inf")}[kind]
    return FloatAttr(number, element)
