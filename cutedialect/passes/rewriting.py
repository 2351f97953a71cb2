"""What passes do to ops: insert them beside another one, whose location they take, copy them, erase
them, give conditions a form for memory, and build scalar code about extents, coordinates and
counts. xDSL's `clone` sets the operands
of all that an op holds in a walk of its own, for the sake of blocks that refer to later ones, which
structured control flow does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partialmethod
from typing import TypeVar

from xdsl.builder import Builder
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, UnknownLoc, i1, i8, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from cutedialect.dialects.cute import (
    AllocSmemOp,
    AllocTmemOp,
    DimOp,
    FragmentType,
    MapOp,
    YieldOp,
    fragment_of,
)
from cutedialect.dialects.cute.storage import ring_type
from cutedialect.dialects.definition import created
from cutedialect.dialects.effects import is_pure
from cutedialect.dialects.walks import ops_in

_OpT = TypeVar("_OpT", bound=Operation)
_NO_WRAP = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])
_SUMS = (arith.AddiOp, arith.SubiOp, arith.MuliOp)


def block_of(op: Operation) -> Block:
    """The block in which an op stands."""
    assert op.parent is not None
    return op.parent


def insert_before(place: Operation, *ops: Operation) -> None:
    """Insert ops in front of another one, in their order."""
    block = block_of(place)
    for op in ops:
        _locate(op, place)
        block.insert_op_before(op, place)


def insert_after(place: Operation, *ops: Operation) -> None:
    """Insert ops behind another one, in their order."""
    block = block_of(place)
    last = place
    for op in ops:
        _locate(op, place)
        block.insert_op_after(op, last)
        last = op


def erase(*ops: Operation) -> None:
    """Take ops out of their blocks, for good: nothing uses what they give."""
    for op in ops:
        op.detach()
        op.erase()


def sweep(block: Block, is_pure: Callable[[Operation], bool] = is_pure) -> None:
    """Erase pure ops without uses in a block and in those that it holds."""
    for op in reversed(ops_in(block)):
        if op.regions and not isinstance(op, MapOp):
            for region in op.regions:
                for inner in region.blocks:
                    sweep(inner, is_pure)
        if op.results and not any(result.first_use for result in op.results) and is_pure(op):
            erase(op)


def cloned(
    op: _OpT,
    values: dict[SSAValue, SSAValue] | None = None,
    keeps: Callable[[Operation], bool] | None = None,
) -> _OpT:
    """A copy of an op and of what it holds, all of it or what is kept, which uses what `values` has
    for its operands; the results and block arguments of the copy are added to `values`.
    """
    values = {} if values is None else values
    results = op.results
    made = created(
        type(op),
        [values.get(operand, operand) for operand in op.operands],
        [result.type for result in results],
        op.properties,
        op.attributes,
        op.location,
        [Region() for _ in op.regions],
    )
    for mine, theirs in zip(made.results, results, strict=True):
        values[theirs] = mine
        if theirs.name_hint is not None:
            mine.name_hint = theirs.name_hint
    for region, into in zip(op.regions, made.regions, strict=True):
        for block in region.blocks:
            into.add_block(clone_block(block, values, keeps))
    return made


def clone_block(
    block: Block,
    values: dict[SSAValue, SSAValue],
    keeps: Callable[[Operation], bool] | None = None,
) -> Block:
    """A copy of a block and of what it holds, all of it or what is to be kept."""
    made = Block(arg_types=block.arg_types)
    for mine, theirs in zip(made.args, block.args, strict=True):
        mine.name_hint = theirs.name_hint
        values[theirs] = mine
    for op in ops_in(block):
        if keeps is None or keeps(op):
            made.add_op(cloned(op, values, keeps))
    return made


def as_bytes(conditions: SSAValue) -> MapOp:
    """The bytes as which conditions in registers go through memory: 1 where one holds, else 0."""
    type_ = fragment_of(conditions)
    bytes_ = FragmentType.get(i8, type_.shape, type_.tv)
    return MapOp.of(lambda each: arith.ExtUIOp(each, i8), [conditions], bytes_)


def as_conditions(values: SSAValue) -> MapOp:
    """The conditions that a register tile of bytes stands for: which of them are not 0."""
    type_ = fragment_of(values)
    body = Block(arg_types=[i8])
    zero = arith.ConstantOp(IntegerAttr(0, i8))
    differ = arith.CmpiOp(body.args[0], zero.results[0], "ne")
    body.add_ops([zero, differ, YieldOp(differ.results[0])])
    return MapOp([values], FragmentType.get(i1, type_.shape, type_.tv), body)


def _locate(op: Operation, place: Operation) -> None:
    if isinstance(op.location, UnknownLoc):
        op.location = place.location


class ScalarBuilder:
    """Builds i32 scalar ops in order at one place, all with one location."""

    def __init__(self, point: InsertPoint, like: Operation) -> None:
        self._builder = Builder(point)
        self._like = like
        self._location = like.location

    def at(self, point: InsertPoint) -> ScalarBuilder:
        """One at another place, with the same location."""
        return ScalarBuilder(point, self._like)

    def insert(self, op: _OpT) -> _OpT:
        op.location = self._location
        return self._builder.insert(op)

    def value(self, op: Operation) -> SSAValue:
        """What an op gives that is inserted here."""
        return self.insert(op).results[0]

    def constant(self, value: int) -> SSAValue:
        properties = {"value": IntegerAttr(value, i32)}
        made = created(arith.ConstantOp, result_types=[i32], properties=properties)
        return self.value(made)

    def dim(self, memref: SSAValue, mode: int) -> SSAValue:
        return self.value(DimOp(memref, mode))

    def binary(self, kind: type[Operation], lhs: SSAValue, rhs: SSAValue | int) -> SSAValue:
        """An integer op; extents and counts are below 2^31, so that sums do not wrap."""
        rhs = self.constant(rhs) if isinstance(rhs, int) else rhs
        properties = {"overflowFlags": _NO_WRAP} if kind in _SUMS else {}
        made = created(kind, [lhs, rhs], [lhs.type], properties)
        return self.value(made)

    add = partialmethod(binary, arith.AddiOp)
    sub = partialmethod(binary, arith.SubiOp)
    mul = partialmethod(binary, arith.MuliOp)
    div = partialmethod(binary, arith.DivSIOp)
    rem = partialmethod(binary, arith.RemSIOp)
    ceil_div = partialmethod(binary, arith.CeilDivSIOp)
    min = partialmethod(binary, arith.MinSIOp)
    max = partialmethod(binary, arith.MaxSIOp)

    def compare(self, predicate: str, lhs: SSAValue, rhs: SSAValue | int) -> SSAValue:
        """Whether two integers compare so, like "slt"."""
        rhs = self.constant(rhs) if isinstance(rhs, int) else rhs
        return self.value(arith.CmpiOp(lhs, rhs, predicate))

    def select(self, condition: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
        return self.value(arith.SelectOp(condition, yes, no))

    def tiles(self, memref: SSAValue, mode: int, extent: int) -> SSAValue:
        """How many tiles of `extent` cover a mode; -1 is the whole mode in one tile."""
        if extent < 0:
            return self.constant(1)
        size = self.dim(memref, mode)
        if extent == 1:
            return size
        return self.ceil_div(size, extent)


_AllocT = TypeVar("_AllocT", bound=AllocSmemOp | AllocTmemOp)


def ring_of(alloc: _AllocT, stages: int, type_: Attribute | None = None) -> _AllocT:
    """A ring of buffers, of another one's type or of a part of it, in front of that one."""
    made = type(alloc)(ring_type(type_ or alloc.result.type, stages))
    made.location = alloc.location
    made.result.name_hint = alloc.result.name_hint
    insert_before(alloc, made)
    return made
