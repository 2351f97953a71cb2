"""`cute-defer-sums`: threads that share the rows of a sum keep parts of it while a loop adds to it,
and add these up once, behind the loop.

    fill total, 0                              fill parts, 0
    loop {                                     loop {
      x = reduce "add", p                        x = reduce "add", p {local}
      total = total * r + x             =>       parts = parts * r + x
    }                                          }
                                               total = reduce "add", parts

The parts are a register tile with a column for each of these threads. That the sum of the parts is
the total holds as long as the loop but adds sums over the same threads to it and scales it by what
these threads have in common: every term of the new value has one factor of the old one or of such
a sum. Shuffles leave the loop, and meetings of warps. A result differs by the rounding of a sum in
another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerAttr, IntegerType, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from cutedialect.dialects import cute
from cutedialect.dialects.effects import used_by
from cutedialect.dialects.walks import ops_around, ops_of, walk
from cutedialect.passes.analysis.memory_views import is_zero
from cutedialect.passes.analysis.thread_layouts import parts_along
from cutedialect.passes.anchors import Anchors, KernelPass
from cutedialect.passes.rewriting import erase
from cutedialect.passes.tile.resized_tiles import neutral_ops


@dataclass(frozen=True)
class DeferSumsPass(KernelPass):
    """Put the additions over threads of sums that loops carry behind these loops."""

    name = "cute-defer-sums"
    anchors = Anchors(ops=(cute.ReduceOp,))

    def run(self, kernel: cute.KernelOp) -> None:
        for alloc in ops_of(kernel, cute.AllocFragmentOp):
            for loop in _loops(alloc):
                sums = _sums(alloc.result, loop)
                if sums is not None:
                    _defer(alloc.result, loop, *sums)


def _loops(alloc: cute.AllocFragmentOp) -> list[Operation]:
    """The loops that use a register tile from around them, outer ones first."""
    found: dict[Operation, None] = {}
    for use in alloc.result.uses:
        inside = takewhile(lambda op: op is not alloc.parent_op(), ops_around(use.operation))
        loops = [op for op in inside if isinstance(op, scf.ForOp | scf.WhileOp)]
        found |= dict.fromkeys(reversed(loops))
    return list(found)


def _sums(total: SSAValue, loop: Operation) -> tuple[list[cute.ReduceOp], list[cute.MapOp]] | None:
    """What a loop adds to `total`, and the maps between that and its new value, if all that it does
    with it can be done to parts of it.
    """
    type_ = cute.fragment_of(total)
    if not isinstance(type_.element, Float32Type | Float64Type | IntegerType):
        return None  # a sum of parts would be rounded more often
    values: list[SSAValue] = [total]
    maps: list[cute.MapOp] = []
    copies: list[cute.CopyOp] = []
    for value in values:
        for use in value.uses:
            op = use.operation
            match op:
                case _ if value is total and not loop.is_ancestor(op):
                    pass
                case cute.MapOp() if op.result.type == type_:
                    if op not in maps:
                        maps.append(op)
                        values.append(op.result)
                case cute.CopyOp() if op.destination is total:
                    copies.append(op)
                case cute.FillOp() if is_zero(op.value):
                    pass
                case _:
                    return None
    terms = _terms(type_, maps, loop)
    known = {*values, *(term.result for term in terms)}
    if any(op.source not in values for op in copies) or len({*map(_parts, terms)}) != 1:
        return None
    mode = terms[0].mode.value.data
    return (terms, maps) if all(_adds(op, known, mode) for op in maps) else None


def _terms(
    type_: cute.FragmentType, maps: Sequence[cute.MapOp], loop: Operation
) -> list[cute.ReduceOp]:
    """The sums over threads that maps take and nothing else does."""
    found: list[cute.ReduceOp] = []
    for value in [each for op in maps for each in op.inputs]:
        op = value.owner
        if (
            isinstance(op, cute.ReduceOp)
            and op not in found
            and op.kind.data == "add"
            and op.local is None
            and op.result.type == type_
            and len(type_.shape) == len(cute.shape_of(op.source.type)) == 2
            and loop.is_ancestor(op)
            and all(use.operation in maps for use in value.uses)
            and _parts(op) != type_
        ):
            found.append(op)
    return found


def _parts(term: cute.ReduceOp) -> cute.FragmentType:
    """The register tile of what each thread has of a sum."""
    type_ = cute.fragment_of(term.source)
    shape, tv = parts_along(type_.bound, type_.shape, term.mode.value.data)
    return cute.FragmentType.get(cute.element_of(term.result.type), shape, tv)


def _adds(op: cute.MapOp, values: set[SSAValue], mode: int) -> bool:
    """Whether every term of a map's result has one of the values as a factor, once, and no other
    factor differs between the threads along a mode.
    """
    linear: set[SSAValue] = {
        arg for arg, value in zip(op.body.block.args, op.inputs, strict=True) if value in values
    }

    def is_term(value: SSAValue) -> bool:
        return value in linear or is_zero(value)

    for inner in op.body.block.ops:
        mine = [value in linear for value in inner.operands]
        match inner:
            case cute.YieldOp():
                return is_term(inner.value)
            case cute.CoordOp() if inner.mode.value.data == mode:
                return False
            case _ if not any(mine):
                continue
            case arith.AddfOp() | arith.AddiOp() | arith.SubfOp() | arith.SubiOp():
                keeps = all(is_term(value) for value in inner.operands)
            case arith.MulfOp() | arith.MuliOp():
                keeps = not all(mine)
            case math.FmaOp():
                keeps = mine[0] != mine[1] and is_term(inner.c)
            case arith.DivfOp():
                keeps = not mine[1]
            case arith.SelectOp():
                keeps = not mine[0] and is_term(inner.lhs) and is_term(inner.rhs)
            case _:
                keeps = isinstance(inner, arith.NegfOp)
        if not keeps:
            return False
        linear |= {*inner.results}
    raise AssertionError("a verified map ends with cute.yield")


def _defer(
    total: SSAValue, loop: Operation, terms: list[cute.ReduceOp], maps: list[cute.MapOp]
) -> None:
    """Let the loop add to parts of the sum, and add the parts up behind it."""
    mode, type_, location = terms[0].mode.value.data, _parts(terms[0]), terms[0].location
    parts = cute.AllocFragmentOp(type_)
    fill = zero_before(loop, total)
    if fill is None:
        first = _first(total, type_, mode)
        ahead = [parts, first, cute.CopyOp(first.result, parts.result)]
    else:
        ahead = [parts, cute.FillOp(parts.result, fill.value)]
    whole = cute.ReduceOp("add", parts.result, mode, cute.fragment_of(total))
    behind = [whole, cute.CopyOp(whole.result, total)]
    for op in (*ahead, *behind):
        for inner in walk(op):
            inner.location = location
    Rewriter.insert_op(ahead, InsertPoint.before(fill or loop))
    Rewriter.insert_op(behind, InsertPoint.after(loop))
    if fill is not None:
        erase(fill)
    for use in list(total.uses):
        if loop.is_ancestor(use.operation):
            use.operation.operands[use.index] = parts.result
    for op in maps:
        Rewriter.replace_value_with_new_type(op.result, type_)
    for term in terms:
        packed = None if term.packed is None else term.packed.value.data
        own = cute.ReduceOp("add", term.source, mode, type_, local=True, packed=packed)
        own.location = term.location
        Rewriter.replace_op(term, own)


def zero_before(place: Operation, total: SSAValue) -> cute.FillOp | None:
    """What sets a sum to 0 in front of an op, if nothing uses the sum between."""
    op = place.prev_op
    while op is not None and total not in used_by(op):
        op = op.prev_op
    return op if isinstance(op, cute.FillOp) and is_zero(op.value) else None


def _first(total: SSAValue, type_: cute.FragmentType, mode: int) -> cute.MapOp:
    """Parts of which the first is a whole sum and the others are 0."""
    block = Block(arg_types=[type_.element])
    at, origin = cute.CoordOp(mode), arith.ConstantOp(IntegerAttr(0, i32))
    zero = neutral_ops("add", type_.element)
    is_first = arith.CmpiOp(at.result, origin.result, "eq")
    value = arith.SelectOp(is_first.result, block.args[0], zero[-1].results[0])
    block.add_ops([at, origin, is_first, *zero, value, cute.YieldOp(value.result)])
    return cute.MapOp([total], type_, block)
