"""`cute-overlap-tiles`: a role that computes tile after tile, each with a loop that `cute-overlap`
has skewed, begins a tile beside the end of the one before.

    while t {
        A(t); o = 0; m = start; wait q; if runs(t) { B(t); C(t); D }; release q; E(t); t = next
    }
    =>
    A(t)
    while t, begun, A(t), t', A(t') {
        if not begun { o = 0, m = start; wait q; if runs(t) { B(t) }; t' = next; A(t') }
        if runs(t) { C(t) }
        release q; both = runs(t) and t' is a tile and runs(t'); keep m
        if both { wait q; m = start; B(t') with D, t'' = next and A(t'') between its multiply and
                  the wait for D }
        else if runs(t) { D }
        E(t), of what was kept
        if both { o = 0, and what B(t') does to o }
        t, begun, A(t), t', A(t') = t', both, A(t'), t'', A(t'')
    }

A computes coordinates, B is the first multiply of a tile and what is computed from it, C the skewed
loop, D the last second multiply, E stores the result. The tensor cores work on D while B's values
are computed, as in a trip of the skewed loop, and the order is that of such a trip: both multiplies
begin and end in one straight piece of code. Rings are read in the order in which they were. A tile
that cannot be taken apart like this (`walked_tiles.py`) keeps its order, and so do all where the
thread that tells the next item loads the blocks as well: it would wait for the one that asks.
Of the coordinates the loop carries those that others are quickly computed from.

Of the kernels of the benchmark only those of a sliding window take this form. It is no plan of
`cute-schedule-loops`, because the next tile's first multiply reads a Q that is loaded one trip of
the work loop before: its ring is released behind the tile's last multiply, and a hold across trips
is none that `cute-synchronize` derives.

An E that decides something with all warps, such as whether to compute a result again, decides it
when they meet for their stores (`shared_meetings.py`). `shadows.py` comes behind this
pass where it applies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i1, i32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from cutedialect.dialects.cute import AllocFragmentOp, CopyOp, FragmentType, KernelOp
from cutedialect.dialects.cute_nvgpu import WgmmaWaitOp
from cutedialect.dialects.effects import used_by, written_by
from cutedialect.dialects.pipeline import TurnPassOp, TurnWaitOp
from cutedialect.passes.remarks import remark
from cutedialect.passes.roles.split_roles import sweep
from cutedialect.passes.schedule.shadows import use_shadows
from cutedialect.passes.schedule.shared_meetings import share_meetings
from cutedialect.passes.schedule.walked_tiles import Tile, body_of, tile_parts
from cutedialect.passes.synchronize.multiply_groups import last_written

# What is computed from one carried number rather than carried.
_QUICK = (
    arith.AddiOp,
    arith.AndIOp,
    arith.CmpiOp,
    arith.ExtUIOp,
    arith.FloorDivSIOp,
    arith.MaxSIOp,
    arith.MinSIOp,
    arith.MuliOp,
    arith.OrIOp,
    arith.SelectOp,
    arith.SubiOp,
)


@dataclass(frozen=True)
class OverlapTilesPass(ModulePass):
    """Overlap the tiles of kernels whose schedule says `overlap_tiles = yes`."""

    name = "cute-overlap-tiles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.ops:
            if not isinstance(kernel, KernelOp) or kernel.schedule is None:
                continue
            if kernel.schedule.data.overlap_tiles != "yes":
                if kernel.schedule.data.overlaps_multiplies:
                    use_shadows(kernel)
                continue
            loops = [each for each in kernel.walk() if isinstance(each, scf.ForOp | scf.WhileOp)]
            if not any(tile_parts(loop) is not None for loop in loops):
                remark(
                    self.name,
                    kernel,
                    "tiles not overlapped: expected a loop over work items around one loop of two "
                    "overlapped multiplies, with nothing but computing before and behind it",
                )
            for loop in loops:
                if tile_parts(loop) is not None:
                    share_meetings(loop)
                    tile = tile_parts(loop)
                    assert tile is not None
                    _Overlap(loop, tile).write()
            use_shadows(kernel)


@dataclass(frozen=True)
class _Coordinates:
    """The scalar code of a tile: what is the same for all tiles, what is not, which results of that
    the loop carries, and what is computed from those again.
    """

    same: tuple[Operation, ...]
    all: tuple[Operation, ...]
    carried: tuple[SSAValue, ...]
    again: tuple[Operation, ...]


def _coordinates(ops: Sequence[Operation], item: SSAValue) -> _Coordinates:
    roots: dict[SSAValue, frozenset[SSAValue]] = {item: frozenset((item,))}
    dependent: list[Operation] = []
    for op in ops:
        used = used_by(op)
        found = frozenset().union(*(roots.get(value, frozenset()) for value in used))
        if not found:
            continue
        dependent.append(op)
        is_cut = all(value.type in (i1, i32) for value in op.results) and not (
            isinstance(op, _QUICK) and len(found) == 1
        )
        for value in op.results:
            roots[value] = frozenset((value,)) if is_cut else found
    made: dict[SSAValue, Operation] = {value: op for op in dependent for value in op.results}
    pending = [
        value for value in made if any(not _among(use.operation, made) for use in value.uses)
    ]
    carried: set[SSAValue] = set()
    again: set[Operation] = set()
    while pending:
        value = pending.pop()
        if value not in made or value in carried:
            continue
        if roots[value] == {value}:
            carried.add(value)
            continue
        op = made[value]
        if op not in again:
            again.add(op)
            pending += used_by(op)
    return _Coordinates(
        tuple(op for op in ops if op not in dependent),
        tuple(dependent),
        tuple(value for value in made if value in carried),
        tuple(op for op in dependent if op in again),
    )


def _among(op: Operation | None, made: Mapping[SSAValue, Operation]) -> bool:
    """Whether an op is one of those that make some values, or inside of one."""
    while op is not None:
        if any(value in made for value in op.results):
            return True
        op = op.parent_op()
    return False


class _Overlap:
    """Writes the loop in which tiles overlap, in front of the old one."""

    def __init__(self, loop: scf.ForOp | scf.WhileOp, tile: Tile) -> None:
        self.loop = loop
        self.tile = tile
        old = body_of(loop)
        assert old is not None
        self.item = old.args[0]
        self.coordinates = _coordinates(tile.scalars, self.item)
        # This tile and whether it has begun, and the next one; each with its coordinates.
        count = 3 + 2 * len(self.coordinates.carried)
        self.body = Block(arg_types=[i32] * count)
        self.block, self.outer = self.body, Block()
        # Register tiles that outlive a trip, in front of the loop.
        self.place = loop.parent
        self.kept = self._kept()
        later = self._read_late()
        self.slots = {each: self._outside(each) for each in later if each.type not in (i1, i32)}
        # Numbers that the branches around give.
        self.numbers = [each for each in later if each.type in (i1, i32)]

    def write(self) -> None:
        for op in self.tile.state:
            self._move_out(op)
        first = self._first()
        begun, *args = self.body.args
        half = len(args) // 2
        args[0].name_hint = self.item.name_hint
        values = self._carried(args[:half])
        self._trip(values, begun, args[half:])
        sweep(self.body)
        self._replace(first)

    def _carried(self, args: Sequence[SSAValue]) -> dict[SSAValue, SSAValue]:
        """A tile's coordinates, of what the loop carries of them."""
        values: dict[SSAValue, SSAValue] = {self.item: args[0]}
        for value, arg in zip(self.coordinates.carried, args[1:], strict=True):
            values[value] = self._unpacked(value, arg)
        self._clone(self.coordinates.again, values)
        return values

    def _trip(
        self, values: dict[SSAValue, SSAValue], begun: SSAValue, known: Sequence[SSAValue]
    ) -> None:
        tile = self.tile
        runs = values.get(tile.branch.cond, tile.branch.cond)
        zero = self._constant(0)

        def begin() -> Sequence[SSAValue]:
            self._begin(values)
            return self._following(values[self.item])

        # Nothing waits for the next item before the first tile is at work.
        args = self._if(self._add(arith.CmpiOp(begun, zero, "eq")), begin, lambda: known)
        self._clone(tile.stages, values)
        self._if(runs, lambda: self._clone([tile.loop], values))
        self._clone(tile.releases, values)
        next_ = self._carried(args)
        exists = self._exists(args[0])
        both = self._add(arith.AndIOp(runs, exists))
        both = self._add(arith.AndIOp(both, next_.get(tile.branch.cond, runs)))
        for source, target in self.kept.items():
            self._add(CopyOp(source, target))

        def last() -> Sequence[SSAValue]:
            # What follows the next item it asks for itself.
            self._if(runs, lambda: self._end(values))
            return [*args, *(self._constant(0) for _ in self.numbers)]

        given = self._if(both, lambda: self._meet(values, next_), last)
        following, numbers = given[: len(args)], given[len(args) :]
        self._clone(tile.epilogue, {**values, **self.kept})
        late = {**next_, **self.slots}
        for number, each in zip(self.numbers, numbers, strict=True):
            late[number] = self._unpacked(number, each)
        self._if(both, lambda: self._clone((*tile.late, *tile.late_rest), late))
        self._add(scf.YieldOp(self._add(arith.ExtUIOp(both, i32)), *args, *following))

    def _kept(self) -> dict[SSAValue, SSAValue]:
        """What the epilogue reads while the next tile sets it: register tiles of their own."""
        tile = self.tile
        both = written_by(*tile.early, *tile.beside, *tile.operand) & used_by(*tile.epilogue)
        found = [op.result for op in tile.state if op.result in both]
        return {value: self._outside(value) for value in found}

    def _read_late(self) -> list[SSAValue]:
        """What the next tile computes before the epilogue and reads behind it."""
        made = {value for op in (*self.tile.beside, *self.tile.operand) for value in op.results}
        read = [
            value
            for op in self.tile.late_rest
            for inner in op.walk()
            for value in inner.operands
            if value in made
        ]
        return list(dict.fromkeys(read))

    def _outside(self, value: SSAValue) -> SSAValue:
        assert isinstance(value.type, FragmentType)
        op = AllocFragmentOp(value.type)
        op.location = value.owner.location if isinstance(value.owner, Operation) else None
        assert self.place is not None
        self.place.insert_op_before(op, self.loop)
        return op.result

    def _begin(self, around: dict[SSAValue, SSAValue]) -> None:
        """A tile that nothing stands before: all up to its loop."""
        tile, values = self.tile, dict(around)
        self._clone((*tile.early, *tile.late, *tile.waits, *tile.stages), values)
        runs = values.get(tile.branch.cond, tile.branch.cond)
        self._if(runs, lambda: self._begin_block(values))

    def _begin_block(self, values: dict[SSAValue, SSAValue]) -> None:
        first = self.tile.first
        start = (*first.before, first.fence, first.gemm, first.commit, first.wait, *first.end)
        self._clone((*start, *first.rest), values)

    def _meet(
        self, mine: dict[SSAValue, SSAValue], values: dict[SSAValue, SSAValue]
    ) -> Sequence[SSAValue]:
        """The first multiply of the next tile and the last one of this, in the order of a trip; the
        tile behind these, which is asked for while both work.
        """
        tile, first, last = self.tile, self.tile.first, self.tile.last
        warps = None if tile.turn is None or tile.turn.warps is None else tile.turn.warps.value.data
        self._clone((*tile.waits, *tile.stages, *first.before), values)
        if tile.turn is not None:
            self._add(TurnWaitOp(None, warps))
        self._clone((first.fence, first.gemm, first.commit), values)
        self._clone((*last.before, last.fence, last.gemm, last.commit), mine)
        if tile.turn is not None:
            self._add(TurnPassOp(None, warps))
        told = self._told(values[self.item])
        self._clone(tile.early, values)
        self._add(WgmmaWaitOp(1))
        self._clone((*first.end, *tile.beside), values)
        # Behind the last branch before: there the assembler mixes both.
        following = self._found(told, values[self.item])
        self._add(WgmmaWaitOp(0, last_written(tile.beside)))
        self._clone(last.end, mine)
        self._clone(tile.operand, values)
        for source, target in self.slots.items():
            self._add(CopyOp(values[source], target))
        return [*following, *(self._as_i32(values[each]) for each in self.numbers)]

    def _end(self, values: dict[SSAValue, SSAValue]) -> None:
        """The last multiply of a tile that none follows."""
        last = self.tile.last
        ops = (*last.before, last.fence, last.gemm, last.commit, last.wait, *last.end)
        self._clone(ops, values)

    def _packed(self, item: SSAValue) -> list[SSAValue]:
        """What the loop carries of the coordinates of an item."""
        values: dict[SSAValue, SSAValue] = {self.item: item}
        self._clone(self.coordinates.all, values)
        return [self._as_i32(values[value]) for value in self.coordinates.carried]

    def _as_i32(self, value: SSAValue) -> SSAValue:
        return value if value.type == i32 else self._add(arith.ExtUIOp(value, i32))

    def _unpacked(self, value: SSAValue, arg: SSAValue) -> SSAValue:
        arg.name_hint = value.name_hint
        if value.type == i32:
            return arg
        return self._add(arith.CmpiOp(arg, self._constant(0), "ne"))

    def _following(self, item: SSAValue) -> Sequence[SSAValue]:
        """What the loop carries of the item behind one."""
        return self._found(self._told(item), item)

    def _told(self, item: SSAValue) -> SSAValue:
        """The item behind one, or a number behind the last one."""
        values: dict[SSAValue, SSAValue] = {}
        self._clone(self.tile.following, values)
        if isinstance(self.loop, scf.ForOp):
            overflow = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])
            return self._add(arith.AddiOp(item, self.loop.step, overflow=overflow))
        end = self.loop.after_region.block.last_op
        assert end is not None
        return values[end.operands[0]]

    def _found(self, following: SSAValue, item: SSAValue) -> Sequence[SSAValue]:
        """A following item with its coordinates; those of an item, if there is no other one."""
        exists = self._exists(following)
        return [following, *self._packed(self._add(arith.SelectOp(exists, following, item)))]

    def _exists(self, item: SSAValue) -> SSAValue:
        """Whether there is such an item."""
        if isinstance(self.loop, scf.ForOp):
            return self._add(arith.CmpiOp(item, self.loop.ub, "slt"))
        before = self.loop.before_region.block
        check = before.last_op
        assert isinstance(check, scf.ConditionOp)
        values: dict[SSAValue, SSAValue] = {before.args[0]: item}
        self._clone([op for op in before.ops if op is not check], values)
        return values.get(check.condition, check.condition)

    def _first(self) -> list[SSAValue]:
        """What the first trip is given: only if there is an item, it has coordinates."""
        loop = self.loop
        item = loop.lb if isinstance(loop, scf.ForOp) else loop.arguments[0]
        body, self.block = self.block, self.outer
        values: dict[SSAValue, SSAValue] = {self.item: item}
        self._clone(self.coordinates.same, values)
        for op in self.coordinates.same:
            for mine, made in zip(op.results, (values[each] for each in op.results), strict=True):
                mine.replace_all_uses_with(made)
        mine = [item, *self._packed(item)]
        first = [self._constant(0), *mine, *mine]
        self.block = body
        return first

    def _replace(self, first: Sequence[SSAValue]) -> None:
        """Put the new loop in the old one's place."""
        loop, place = self.loop, self.place
        assert place is not None
        types = [i32 for _ in first]
        self.block = before = Block(arg_types=types)
        exists = self._exists(before.args[1])
        self._add(scf.ConditionOp(exists, *before.args))
        made = scf.WhileOp(first, types, Region(before), Region(self.body))
        made.location = loop.location
        self.block = self.outer
        self._add(made)
        self._add(scf.YieldOp())
        sweep(self.outer)
        ahead = self.block = Block()
        condition = self._exists(first[1])
        self._add(scf.IfOp(condition, [], Region(self.outer), Region(Block([scf.YieldOp()]))))
        for op in list(ahead.ops):
            op.detach()
            place.insert_op_before(op, loop)
        loop.detach()
        loop.erase()

    def _constant(self, value: int) -> SSAValue:
        return self._add(arith.ConstantOp(IntegerAttr(value, i32)))

    def _add(self, op: Operation) -> SSAValue:
        """Append an op; its result, if it has one."""
        op.location = op.location or self.tile.last.gemm.location
        self.block.add_op(op)
        return op.results[0] if op.results else self.body.args[0]

    def _if(
        self,
        condition: SSAValue,
        then: Callable[[], Sequence[SSAValue] | None],
        otherwise: Callable[[], Sequence[SSAValue] | None] | None = None,
    ) -> Sequence[SSAValue]:
        """A branch with what its sides give."""
        outer, sides = self.block, []
        given: Sequence[SSAValue] = ()
        for side in (then, otherwise):
            self.block = Block()
            sides.append(self.block)
            given = (side() if side is not None else None) or ()
            self._add(scf.YieldOp(*given))
        self.block = outer
        types = [each.type for each in given]
        branch = scf.IfOp(condition, types, Region(sides[0]), Region(sides[1]))
        self._add(branch)
        return branch.results

    def _move_out(self, op: Operation) -> None:
        assert self.place is not None
        op.detach()
        self.place.insert_op_before(op, self.loop)

    def _clone(self, ops: Sequence[Operation], values: dict[SSAValue, SSAValue]) -> None:
        for op in ops:
            copy = op.clone(values)
            copy.location = op.location
            self.block.add_op(copy)
