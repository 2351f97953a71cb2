"""Sorts of words of 64 bits of which nobody reads the low halves: of elements with their places
behind them, where the elements alone are asked for.

    w = map k { k << 32 | coord }; s = sort w; y = map s { trunc (s >> 32) }
    =>
    w = map k { k }; s = sort w; y = map s { s }
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cutedialect.dialects import cute
from cutedialect.passes.analysis.memory_views import constant_of
from cutedialect.passes.rewriting import ScalarBuilder, erase

_HALF_BITS = 32


def sort_high_words(op: cute.SortOp) -> None:
    """Sort the high halves of the words of one tile, where nobody reads the low ones."""
    for result in op.results:
        _erase_unread(result)
    made = op.source.owner
    if len(op.tiles) > 1 or cute.fragment_of(op.source).element != i64:
        return
    if not isinstance(made, cute.MapOp) or {use.operation for use in made.result.uses} != {op}:
        return
    args = list(_read_in_maps(op.results[0]))
    if None in args:
        return
    shifts = [(arg, use.operation) for arg in args if arg is not None for use in arg.uses]
    if not shifts or not all(_gives_high_word(shift) for _, shift in shifts):
        return
    _yield_high_word(made)
    _narrow(made.result)
    for arg in args:
        assert arg is not None
        for shift in [use.operation for use in arg.uses]:
            for cut in [use.operation for use in shift.results[0].uses]:
                Rewriter.replace_op(cut, [], new_results=[arg])
            erase(shift)
        Rewriter.replace_value_with_new_type(arg, i32)


def _erase_unread(tile: SSAValue) -> None:
    """Erase the maps and parts of a tile that nobody reads."""
    for reader in [use.operation for use in tile.uses]:
        if isinstance(reader, cute.MapOp | cute.ExtractOp):
            _erase_unread(reader.result)
            if not reader.result.uses.get_length():
                erase(reader)


def _read_in_maps(tile: SSAValue) -> Iterator[SSAValue | None]:
    """What maps of a tile, or of parts of it, have for its elements; None for any other reader."""
    for use in tile.uses:
        reader = use.operation
        if isinstance(reader, cute.ExtractOp):
            yield from _read_in_maps(reader.result)
        else:
            yield reader.body.block.args[use.index] if isinstance(reader, cute.MapOp) else None


def _gives_high_word(op: Operation) -> bool:
    """Whether an op shifts the high half of a word down, of which all that is read is that."""
    return (
        isinstance(op, arith.ShRSIOp)
        and constant_of(op.rhs) == _HALF_BITS
        and all(
            isinstance(use.operation, arith.TruncIOp) and use.operation.result.type == i32
            for use in op.result.uses
        )
    )


def _yield_high_word(op: cute.MapOp) -> None:
    """Let a map give the high halves of its words."""
    end = op.body.block.last_op
    assert isinstance(end, cute.YieldOp)
    (word,) = end.operands
    made = word.owner
    high = made.lhs.owner if isinstance(made, arith.OrIOp) else None
    below = made.rhs.owner if isinstance(made, arith.OrIOp) else None
    if (
        isinstance(high, arith.ShLIOp)
        and constant_of(high.rhs) == _HALF_BITS
        and isinstance(high.lhs.owner, arith.ExtSIOp | arith.ExtUIOp)
        and high.lhs.owner.input.type == i32
        and _leaves_high_half(below)
    ):
        end.operands[0] = high.lhs.owner.input
        return
    build = ScalarBuilder(InsertPoint.before(end), end)
    half = build.value(arith.ConstantOp(IntegerAttr(_HALF_BITS, i64)))
    end.operands[0] = build.value(arith.TruncIOp(build.value(arith.ShRSIOp(word, half)), i32))


def _leaves_high_half(op: Operation | Block | None) -> bool:
    """Whether the high half of what an op widens is 0. Coordinates are never negative."""
    if isinstance(op, arith.ExtSIOp):
        return isinstance(op.input.owner, cute.CoordOp)
    return isinstance(op, arith.ExtUIOp)


def _narrow(tile: SSAValue) -> None:
    """Let a tile, what is sorted of it and the parts of that have words of 32 bits."""
    type_ = cute.FragmentType.get(i32, cute.fragment_of(tile).shape)
    tile = Rewriter.replace_value_with_new_type(tile, type_)
    for use in list(tile.uses):
        if isinstance(use.operation, cute.SortOp | cute.ExtractOp):
            _narrow(use.operation.results[0])
