"""A step of `cute-synchronize`: a role's loop of which some ops have stage 1 becomes one whose
trips hold those of the trip before.

    for j { s = a; x = f(s); o += x {stage = 1} }
    =>
    if there is a trip {
        s = a; x = f(s); keep x
        for j behind first { s = a; o += kept x; x = f(s); keep x }
        o += kept x
    }

Ops stand in the order of their numbers, but that in the first trip, where nothing else is at work,
a completion stands behind its issue. A register tile that a later stage reads has a second version,
the one that the trip before left: written at once where all that reads it is done by then, else at
the end of the trip. Numbers are computed again. Where warpgroups take turns, one issues the
multiplies of a trip and then lets the next one do so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import AllocFragmentOp, CopyOp, FragmentType, GemmOp
from cutedialect.dialects.cute_nvgpu import WgmmaCommitOp, WgmmaFenceOp, WgmmaWaitOp
from cutedialect.dialects.effects import is_pure, used_by
from cutedialect.dialects.pipeline import CompleteOp, RoleOp, TurnPassOp, TurnWaitOp
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.anchors import anchored
from cutedialect.passes.rewriting import cloned, erase, insert_after, insert_before
from cutedialect.passes.schedule.multiply_chains import TURNS
from cutedialect.passes.schedule.trips import (
    ORDER,
    STAGE,
    clear_place,
    order_of,
    orders_of,
    producers_of,
    stage_of,
    trip_of,
    versions_of,
    wrong_order,
)
from cutedialect.passes.synchronize.ring_edges import READS, numbers_of, read_early

_GROUP = 4


@anchored(marks=(STAGE, ORDER))
def expand_stages(role: RoleOp) -> None:
    """Rewrite the loops of a role whose ops have several stages."""
    for loop in [op for op in ops_of(role, scf.ForOp) if not op.iter_args]:
        trip = trip_of(loop, False)
        if any(stage_of(op) for op in trip):
            _check(trip)
            _Expansion(loop).write()
        elif _has_order(trip):
            _check(trip)
            _reorder(loop)
    clear_place(role)


def _has_order(trip: Sequence[Operation]) -> bool:
    """Whether every op of a trip that does something has its place in it."""
    acting = [op for op in trip if not is_pure(op)]
    return bool(acting) and all(order_of(op) is not None for op in acting)


def _reorder(loop: scf.ForOp) -> None:
    """Put the ops of a loop without stages in their order."""
    block = loop.body.block
    end = block.last_op
    assert end is not None
    orders = orders_of([op for op in block.ops if op is not end])
    for op in sorted(orders, key=lambda op: (orders[op], block.get_operation_index(op))):
        op.detach()
        block.insert_op_before(op, end)


def _check(trip: Sequence[Operation]) -> None:
    """Refuse stages and orders with which an op would run before what it depends on."""
    for op in trip:
        if stage_of(op) not in (0, 1):
            raise PassFailedException(op, f"expected stage = 0 or 1, got {stage_of(op)}")
    wrong, orders = wrong_order(trip), orders_of(trip)
    if wrong is not None:
        raise PassFailedException(
            wrong[1],
            f"expected a stage and an order behind those of {wrong[0].name}, on which "
            f"{wrong[1].name} depends, got stage = {stage_of(wrong[1])}, order = "
            f"{orders[wrong[1]]} and stage = {stage_of(wrong[0])}, order = {orders[wrong[0]]}",
        )


class _Expansion:
    """Writes what takes the place of a loop."""

    def __init__(self, loop: scf.ForOp) -> None:
        self.loop = loop
        orders = orders_of(trip_of(loop, True))
        first = [op for op in trip_of(loop, True) if not stage_of(op)]
        self.first = sorted(first, key=lambda op: orders[_issue(op, first)])
        trip = trip_of(loop, False)
        self.orders = orders_of(trip)
        self.late = [op for op in trip if stage_of(op)]
        late = {number for op in self.late for number in numbers_of(op)}
        for op in {*first, *trip} - {*self.late}:
            read_early(op, late)
        self.numbers, _ = producers_of(self.late, trip)
        tiles = versions_of(trip)
        self.trip = sorted(trip, key=self.orders.__getitem__)
        self.kept = {tile: self._version(tile) for tile in tiles}
        self.at_once = {
            tile
            for tile in tiles
            if isinstance(tile.owner, Operation)
            and tile.owner in trip
            and not isinstance(tile.owner, AllocFragmentOp)
            and self.orders[tile.owner] > self._read_until(tile)
        }

    def _read_until(self, tile: SSAValue) -> int:
        """The order up to which the version of the trip before is read: a multiply reads its
        operands until it is complete.
        """
        readers = {op for op in self.late if tile in used_by(op)}
        accumulators = {op.acc for op in readers if isinstance(op, GemmOp)}
        readers |= {
            op
            for op in self.late
            if isinstance(op, CompleteOp) and not accumulators.isdisjoint(op.tiles)
        }
        return max(self.orders[op] for op in readers)

    def _version(self, tile: SSAValue) -> AllocFragmentOp:
        assert isinstance(tile.type, FragmentType)
        return AllocFragmentOp(tile.type)

    def write(self) -> None:
        loop = self.loop
        runs = arith.CmpiOp(loop.lb, loop.ub, "slt")
        then = Block()
        branch = scf.IfOp(runs, [], Region(then), Region(Block([scf.YieldOp()])))
        ahead = (*self.kept.values(), runs, branch)
        insert_before(loop, *ahead)
        if READS in loop.attributes:
            for op in ahead:
                op.attributes[READS] = loop.attributes[READS]
        self._clone(self.first, then, {loop.body.block.args[0]: loop.lb})
        second = arith.AddiOp(loop.lb, loop.step)
        self._add(then, second)
        body = Block(arg_types=[arg.type for arg in loop.body.block.args])
        again = scf.ForOp(second, loop.ub, loop.step, [], body)
        if TURNS in loop.attributes:
            again.attributes[TURNS] = UnitAttr()
        self._add(then, again)
        self._steady(body)
        last: dict[SSAValue, SSAValue] = dict(self._versions())
        if self._counts():
            last[loop.body.block.args[0]] = self._last_index(then)
        for op in (*self.numbers, *self.late):
            self._copy(op, then, last)
        self._add(then, scf.YieldOp())
        erase(loop)

    def _steady(self, body: Block) -> None:
        """A trip with the late ops of the one before."""
        index = self.loop.body.block.args[0]
        before: dict[SSAValue, SSAValue] = dict(self._versions())
        if self._counts():
            previous = arith.SubiOp(body.args[0], self.loop.step)
            self._add(body, previous)
            before[index] = previous.result
        for op in self.numbers:
            self._copy(op, body, before)
        self._clone(self.trip, body, {index: body.args[0]}, before)
        self._add(body, scf.YieldOp())

    def _clone(
        self,
        ops: Sequence[Operation],
        into: Block,
        values: dict[SSAValue, SSAValue],
        before: dict[SSAValue, SSAValue] | None = None,
    ) -> None:
        """Copies of ops, the late ones with the values of the trip before; then the versions."""
        for op in ops:
            if stage_of(op):
                assert before is not None
                self._copy(op, into, before)
                continue
            self._copy(op, into, values)
            for result in op.results:
                if result in self.at_once:
                    self._keep(into, result, values)
        for tile in self.kept:
            if tile not in self.at_once:
                self._keep(into, tile, values)

    def _keep(self, into: Block, tile: SSAValue, values: Mapping[SSAValue, SSAValue]) -> None:
        store = CopyOp(values.get(tile, tile), self.kept[tile].result)
        store.location = tile.owner.location if isinstance(tile.owner, Operation) else None
        self._add(into, store)

    def _versions(self) -> Mapping[SSAValue, SSAValue]:
        return {tile: version.result for tile, version in self.kept.items()}

    def _counts(self) -> bool:
        """Whether what comes a trip later asks for the number of its trip."""
        index = self.loop.body.block.args[0]
        return any(
            index in inner.operands for op in (*self.numbers, *self.late) for inner in walk(op)
        )

    def _last_index(self, into: Block) -> SSAValue:
        """The index of the last trip of a loop that has one."""
        loop = self.loop
        span = arith.SubiOp(loop.ub, loop.lb)
        trips = arith.CeilDivSIOp(span.result, loop.step)
        whole = arith.MuliOp(trips.result, loop.step)
        end = arith.AddiOp(loop.lb, whole.result)
        last = arith.SubiOp(end.result, loop.step)
        for op in (span, trips, whole, end, last):
            self._add(into, op)
        return last.result

    def _copy(self, op: Operation, into: Block, values: dict[SSAValue, SSAValue]) -> None:
        copy = cloned(op, values)
        copy.location = op.location
        into.add_op(copy)

    def _add(self, into: Block, op: Operation) -> None:
        op.location = op.location or self.loop.location
        into.add_op(op)


def _issue(op: Operation, trip: Sequence[Operation]) -> Operation:
    """The last multiply that a completion is of; any other op itself."""
    if not isinstance(op, CompleteOp):
        return op
    issued = [each for each in trip if isinstance(each, GemmOp) and each.acc in op.tiles]
    return issued[-1] if issued else op


@anchored(marks=(TURNS,))
def take_turns(role: RoleOp) -> None:
    """Let the warpgroups of a role issue the multiplies of a trip one after the other."""
    loops = [op for op in ops_of(role, scf.ForOp) if TURNS in op.attributes]
    for loop in loops:
        loop.attributes.pop(TURNS)
    if len(role.warp_range) // role.teams <= _GROUP:
        return
    for loop in loops:
        ops = list(loop.body.block.ops)
        fences = [op for op in ops if isinstance(op, WgmmaFenceOp)]
        waits = [op for op in ops if isinstance(op, WgmmaWaitOp)]
        if not fences or not waits:
            continue
        issued = ops[: ops.index(waits[0])]
        commits = [op for op in issued if isinstance(op, WgmmaCommitOp)]
        insert_before(fences[0], TurnWaitOp(None, _GROUP))
        insert_after(commits[-1], TurnPassOp(None, _GROUP))
        block = role.body.block
        assert block.first_op is not None
        assert block.last_op is not None
        opens, ends = TurnPassOp(None, _GROUP, True), TurnWaitOp(None, _GROUP, True)
        opens.location = ends.location = loop.location
        block.insert_op_before(opens, block.first_op)
        block.insert_op_after(ends, block.last_op)
