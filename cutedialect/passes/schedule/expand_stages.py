"""A step of `cute-synchronize`: a role's loop of which some ops have stage 1 becomes one whose
trips hold those of the trip before; those of stage 2 come another trip later.

    for j { s = a; x = f(s); o += x {stage = 1} }
    =>
    if there is a trip {
        s = a; x = f(s); keep x
        for j behind first { s = a; o += kept x; x = f(s); keep x }
        o += kept x
    }

    for j { s = a; x = f(s) {stage = 1}; o += x {stage = 2} }
    =>
    if there is a trip {
        s = a
        for j behind first { if j is behind the second { o += x of j - 2 }; x = f(s); s = a }
        if there was another trip { o += x of the one before the last }; x = f(s); o += x
    }

A branch in the loop takes less code than trips of their own for what it begins with. Ops of stage 2
take no register tile of their trip. Ops stand in the order of their numbers, but that in the first
trip, where nothing else is at work, a completion stands behind its issue. A register tile that a
later stage reads has a second version, the one that the trip before left: written at once where all
that reads it is done by then, else at the end of the trip. Numbers are computed again. Where
warpgroups take turns, one issues the multiplies of a trip and then lets the next one do so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import AllocFragmentOp, CopyOp, GemmOp, fragment_of
from cutedialect.dialects.cute.storage import AHEAD
from cutedialect.dialects.cute_nvgpu import WgmmaCommitOp, WgmmaFenceOp, WgmmaWaitOp
from cutedialect.dialects.effects import is_pure, used_by
from cutedialect.dialects.pipeline import CompleteOp, RoleOp, TurnPassOp, TurnWaitOp
from cutedialect.dialects.walks import index_in_block, ops_of
from cutedialect.passes.analysis.ring_edges import GUARDED, READS, numbers_of, read_early
from cutedialect.passes.analysis.trips import (
    CROWDED,
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
from cutedialect.passes.anchors import anchored
from cutedialect.passes.rewriting import ScalarBuilder, cloned, erase, insert_after, insert_before
from cutedialect.passes.schedule.multiply_chains import TURNS

_GROUP = 4
_LAST = 2
"""The stage of ops that run two trips later than those of stage 0."""
# What a loop says of its trips, in whatever order they are.
_KEPT = (TURNS, CROWDED)


@anchored(marks=(STAGE, ORDER))
def expand_stages(role: RoleOp) -> None:
    """Rewrite the loops of a role whose ops have several stages, or places in their trip."""
    for loop in [op for op in ops_of(role, scf.ForOp) if not op.iter_args]:
        trip = trip_of(loop, False)
        acting = [op for op in trip if not is_pure(op)]
        if any(stage_of(op) for op in trip):
            _check(trip)
            _Expansion(loop).write()
        elif acting and all(order_of(op) is not None for op in acting):
            _check(trip)
            _reorder(loop)
    clear_place(role)


def _reorder(loop: scf.ForOp) -> None:
    """Put the ops of a loop without stages in their order."""
    block = loop.body.block
    end = block.last_op
    assert end is not None
    orders = orders_of([op for op in block.ops if op is not end])
    for op in sorted(orders, key=lambda op: (orders[op], index_in_block(op))):
        op.detach()
        block.insert_op_before(op, end)


def _check(trip: Sequence[Operation]) -> None:
    """Refuse stages and orders with which an op would run before what it depends on."""
    for op in trip:
        if stage_of(op) not in (0, 1, 2):
            raise PassFailedException(op, f"expected stage = 0, 1 or 2, got {stage_of(op)}")
    last = [op for op in trip if stage_of(op) == _LAST]
    _, tiles = producers_of(last, trip)
    taken = used_by(*last)
    if tiles or any(tile in taken for tile in versions_of(trip)):
        raise PassFailedException(
            last[0],
            f"expected an op of stage = {_LAST} that takes no register tile of its trip, which has "
            "no version for two trips, got one",
        )
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
        self.index = loop.body.block.args[0]
        opening, trip = trip_of(loop, True), trip_of(loop, False)
        orders = orders_of(opening)
        first = [op for op in opening if not stage_of(op)]
        self.first = sorted(first, key=lambda op: orders[_issue(op, first)])
        self.orders = orders_of(trip)
        self.trip = sorted(trip, key=self.orders.__getitem__)
        self.late = [op for op in trip if stage_of(op)]
        self.last = [op for op in trip if stage_of(op) == _LAST]
        by_stage = [
            {n for op in self.late if stage_of(op) == stage for n in numbers_of(op)}
            for stage in range(1, _LAST + 1)
        ]
        for op in {*first, *trip} - {*self.last}:
            read_early(op, by_stage[stage_of(op) :])
        self.numbers, _ = producers_of(self.late, trip)
        self.kept = {tile: AllocFragmentOp(fragment_of(tile)) for tile in versions_of(trip)}
        self.at_once = {
            tile
            for tile in self.kept
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
        completes = (op for op in self.late if isinstance(op, CompleteOp))
        readers |= {op for op in completes if not accumulators.isdisjoint(op.tiles)}
        return max(self.orders[op] for op in readers)

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
        self._clone(self.first, then, {self.index: loop.lb}, {})
        build = ScalarBuilder(InsertPoint.at_end(then), loop)
        second = build.add(loop.lb, loop.step)
        body = Block(arg_types=loop.body.block.arg_types)
        again = build.insert(scf.ForOp(second, loop.ub, loop.step, [], body))
        again.attributes.update((name, UnitAttr()) for name in _KEPT if name in loop.attributes)
        inner = ScalarBuilder(InsertPoint.at_end(body), loop)
        # A trip with the late ops of the one before; then those of the last one.
        before = self._before(body, lambda: inner.sub(body.args[0], loop.step))
        guarded = None
        if self.last:
            is_later = inner.compare("ne", body.args[0], second)
            guarded = self._guarded(inner, is_later, before[self.index])
        self._clone(self.trip, body, {self.index: body.args[0]}, before, guarded)
        inner.insert(scf.YieldOp())
        last = self._before(then, lambda: self._last_index(build))
        guarded = None
        if self.last:
            is_later = build.compare("ne", last[self.index], loop.lb)
            guarded = self._guarded(build, is_later, last[self.index])
        for op in self.late:
            if guarded is not None and self.orders[op] > self.orders[self.last[0]]:
                then.add_op(guarded)
                guarded = None
            then.add_op(cloned(op, last))
        build.insert(scf.YieldOp())
        erase(loop)

    def _guarded(self, build: ScalarBuilder, is_later: SSAValue, index: SSAValue) -> Operation:
        """What the last stage does for the trip before that of an index, where there is one. Stages
        of rings are told apart by how many trips ahead they are used.
        """
        values: dict[SSAValue, SSAValue] = {self.index: build.sub(index, self.loop.step)}
        numbers, _ = producers_of(self.last, [op for op in self.trip if op not in self.last])
        block = Block()
        for op in (*numbers, *self.last):
            made = cloned(op, values)
            ahead = made.attributes.get(AHEAD)
            if isinstance(ahead, IntegerAttr):
                made.attributes[AHEAD] = IntegerAttr(ahead.value.data - 1, i32)
            block.add_op(made)
        block.add_op(scf.YieldOp())
        branch = scf.IfOp(is_later, [], Region(block), Region(Block([scf.YieldOp()])))
        branch.attributes[GUARDED] = UnitAttr()
        branch.location = self.last[0].location
        return branch

    def _before(self, into: Block, index: Callable[[], SSAValue]) -> dict[SSAValue, SSAValue]:
        """The values of the trip before: versions of tiles, and numbers, which are computed again,
        out of the index of that trip where they or late ops ask for it.
        """
        values: dict[SSAValue, SSAValue] = {t: kept.result for t, kept in self.kept.items()}
        if self.last or self.index in used_by(*self.numbers, *self.late):
            values[self.index] = index()
        into.add_ops(cloned(op, values) for op in self.numbers)
        return values

    def _last_index(self, build: ScalarBuilder) -> SSAValue:
        """The index of the last trip of a loop that has one."""
        loop = self.loop
        span = build.sub(loop.ub, loop.lb)
        trips = build.ceil_div(span, loop.step)
        whole = build.mul(trips, loop.step)
        end = build.add(loop.lb, whole)
        return build.sub(end, loop.step)

    def _clone(
        self,
        ops: Sequence[Operation],
        into: Block,
        values: dict[SSAValue, SSAValue],
        before: dict[SSAValue, SSAValue],
        guarded: Operation | None = None,
    ) -> None:
        """Copies of ops, the late ones with the values of the trip before, and those of the last
        stage as they are `guarded`; then the versions.
        """
        for op in ops:
            if op in self.last:
                if guarded is not None:
                    into.add_op(guarded)
                    guarded = None
                continue
            into.add_op(cloned(op, before if stage_of(op) else values))
            for result in [each for each in op.results if each in self.at_once]:
                self._keep(into, result, values)
        for tile in self.kept:
            if tile not in self.at_once:
                self._keep(into, tile, values)

    def _keep(self, into: Block, tile: SSAValue, values: Mapping[SSAValue, SSAValue]) -> None:
        store = CopyOp(values.get(tile, tile), self.kept[tile].result)
        made = tile.owner if isinstance(tile.owner, Operation) else self.loop
        store.location = made.location
        into.add_op(store)


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
        opens, ends = TurnPassOp(None, _GROUP, True), TurnWaitOp(None, _GROUP, True)
        opens.location = ends.location = loop.location
        body = role.body.block
        assert body.first_op is not None
        assert body.last_op is not None
        insert_before(body.first_op, opens)
        insert_after(body.last_op, ends)
