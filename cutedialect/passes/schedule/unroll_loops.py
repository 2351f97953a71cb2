"""`cute-unroll-loops`: a loop whose trips end with a copy of a register tile, for a multiply of the
next one, becomes one of two trips each, between which the tile and its copy take turns.

    for j in a..b { o += kept v[j - 1]; p = f(j); copy p, kept }
    =>
    y = a + (b - a) / 2 * 2
    for j in a..y by 2 {
        o += kept v[j - 1]; p = f(j)
        o += p v[j]; kept = f(j + 1)
    }
    if y < b { o += kept v[y - 1]; p = f(y); copy p, kept }

The same where the tile is one that a multiply of the trip has written (`products_ahead.py`).

A multiply that takes an operand from registers reads them while the next trip's operand is
computed, which needs others, and a copy where the multiply is complete (`expand_stages.py`). In the
second of two trips the multiply of the first is complete, and so what it has read is free again
(modulo variable expansion). Trips are whole when they end: this pass comes behind
`cute-synchronize`, and each of both keeps its waits and steps of rings.

Loops that have only a few first or last trips of one (`cute-split-loops`) stay.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from cutedialect.dialects.cute import AllocFragmentOp, CopyOp, FragmentType, GemmOp, KernelOp
from cutedialect.dialects.effects import used_by, written_by
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.analysis.memory_views import constant_of
from cutedialect.passes.analysis.mma_choice import is_warpgroup_multiply
from cutedialect.passes.anchors import Anchors, KernelPass
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import ScalarBuilder, cloned, erase
from cutedialect.passes.schedule.split_loops import FEW_TRIPS

_TRIPS = 2


@dataclass(frozen=True)
class UnrollLoopsPass(KernelPass):
    """Unroll the loops of kernels whose schedule says `unroll = 2`."""

    name = "cute-unroll-loops"
    anchors = Anchors(ops=(GemmOp,), asked={"unroll": _TRIPS})

    def run(self, kernel: KernelOp) -> None:
        loops = [op for op in ops_of(kernel, scf.ForOp) if FEW_TRIPS not in op.attributes]
        found = [(loop, copies) for loop in loops if (copies := _kept(loop))]
        # Inner loops first: what holds them is copied as a whole.
        for loop, copies in reversed(found):
            _unroll(loop, copies)
        if not found:
            remark(
                self.name,
                kernel,
                "no loop unrolled: expected one whose trips end with a copy of a register tile "
                "that a warpgroup multiply of the next trip reads",
            )


def _kept(loop: scf.ForOp) -> list[CopyOp]:
    """The copies that end the trips of a loop: of a tile of the trip to an equal one, which nothing
    else writes, where a warpgroup multiply of the next trip reads that, or one of the trip has
    written the tile.
    """
    if loop.iter_args or constant_of(loop.step) != 1:
        return []
    *trip, _ = loop.body.block.ops
    multiplies = [op for op in trip if is_warpgroup_multiply(op)]
    found: list[CopyOp] = []
    for at, op in enumerate(trip):
        # A copy under a condition leaves what is kept in some trips.
        if not isinstance(op, CopyOp) or op.pred is not None or op.source.owner not in trip:
            continue
        kept, made = op.destination, op.source
        if not isinstance(made.type, FragmentType) or kept.type != made.type:
            continue
        if not any(kept in used_by(each) or made in written_by(each) for each in multiplies):
            continue
        # Both are the same from here to the next trip's multiply.
        others = trip[:at] + trip[at + 1 :]
        behind = {value for each in trip[at + 1 :] for value in used_by(each) | written_by(each)}
        if not any(kept in written_by(each) for each in others) and behind.isdisjoint((kept, made)):
            found.append(op)
    return found


def _unroll(loop: scf.ForOp, copies: list[CopyOp]) -> None:
    """Replace a loop by one of two trips each, and one trip more where their number is odd."""
    build = ScalarBuilder(InsertPoint.before(loop), loop)
    trips = build.max(build.sub(loop.ub, loop.lb), 0)
    whole = build.sub(trips, build.rem(trips, _TRIPS))
    end = build.add(loop.lb, whole)
    *trip, last = loop.body.block.ops
    index = loop.body.block.args[0]
    body = Block(arg_types=loop.body.block.arg_types)
    first: dict[SSAValue, SSAValue] = {index: body.args[0]}
    body.add_ops([cloned(op, first) for op in trip if op not in copies])
    # The second trip reads the tiles of the first, and makes its own where that has read.
    second: dict[SSAValue, SSAValue] = {copy.destination: first[copy.source] for copy in copies}
    inner = ScalarBuilder(InsertPoint.at_end(body), loop)
    second[index] = inner.add(body.args[0], 1)
    ending = {copy.source.owner: copy for copy in copies}
    for op in (*trip, last):
        copy = ending.get(op)
        if copy is not None and isinstance(op, AllocFragmentOp):
            second[copy.source] = copy.destination
        elif op not in copies:
            body.add_op(cloned(op, second))
            if copy is not None:
                inner.insert(CopyOp(second[copy.source], copy.destination))
                second[copy.source] = copy.destination
    build.insert(scf.ForOp(loop.lb, end, build.constant(_TRIPS), [], body))
    odd: dict[SSAValue, SSAValue] = {index: end}
    rest = Block([cloned(op, odd) for op in (*trip, last)])
    is_odd = build.compare("slt", end, loop.ub)
    build.insert(scf.IfOp(is_odd, [], Region(rest), Region(Block([scf.YieldOp()]))))
    erase(loop)
