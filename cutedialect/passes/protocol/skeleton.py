"""The skeleton of a kernel: numbers, control flow and events, without data. It is taken once and
run in each case of trips (`machine.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from cutedialect.dialects import cute, cute_nvgpu, pipeline
from cutedialect.dialects.cute import FragmentType, MemRefType
from cutedialect.dialects.walks import ops_in, walk
from cutedialect.layout import Layout

from . import regions
from .events import Does, Engine, Row, operands_of, row_of
from .exchanges import IN_A_ROOM, is_in_own_room
from .findings import Undecided
from .mbarriers import AT_A_STATE, Named, note_counts, plan_of
from .nodes import (
    INSTANCE,
    LAST,
    OF_NO_STATE,
    Advance,
    Branch,
    Column,
    Event,
    Loop,
    Node,
    Number,
    Part,
    Place,
    Skeleton,
    Stage,
    Sum,
    Touch,
    View,
    While,
)
from .regions import LANES_PER_WARP, Granules
from .scalars import (
    NUMBER_AND_RESULT,
    WORK_ITEMS,
    Ops,
    constant_of,
    function_of,
    needed_in,
    rests_of,
    sources_of,
    step_of,
    units_of,
    varied_in,
)
from .shares import is_placed, memory_type, shares_of
from .sketch import acts, lined, repeats, shortened, sketched
from .steps import note_key, teams_of

# Bytes of a buffer whose granules are its elements.
_SMALL_BYTES = 512

_MESSAGES = (pipeline.SendOp, pipeline.ReceiveOp, pipeline.RequestOp, pipeline.ResponseOp)
# Accesses to memory that has no buffer in the IR.
_IN_NO_BUFFER = frozenset((pipeline.ScratchStoreOp, pipeline.ScratchLoadOp, *IN_A_ROOM))
# What takes or gives a number in each step.
_GIVE_NUMBERS = frozenset((Does.RESPOND, Does.CLAIM, Does.GATHER))


def skeleton_of(kernel: cute.KernelOp, granule_bytes: int = 0, is_short: bool = True) -> Skeleton:
    """The skeleton of a kernel behind the last pass that orders; raises `Undecided`. Granules of
    shared memory have at least so many bytes: with larger ones accesses may seem to meet that do
    not. One that is not short has all rounds of what repeats in straight lines.
    """
    return _Extraction(kernel, granule_bytes, is_short).run()


class _Extraction:
    """The state of one extraction."""

    def __init__(self, kernel: cute.KernelOp, granule_bytes: int, is_short: bool) -> None:
        self.granule_bits, self.is_short = 8 * granule_bytes, is_short
        threads = kernel.threads
        cluster = kernel.properties.get("cluster") or kernel.attributes.get("cluster")
        self.kernel = kernel
        self.found = Skeleton(
            kernel,
            -(-threads.value.data // LANES_PER_WARP) if threads is not None else 1,
            cluster.value.data if cluster is not None else 1,  # type: ignore[attr-defined]
        )
        self.slots: dict[Any, int] = {None: INSTANCE, "last": LAST}
        self.views: dict[SSAValue, View] = {}
        self.rings: dict[SSAValue, int] = {}
        self.states: dict[SSAValue, tuple[int, int]] = {}
        self.stages: dict[SSAValue, Stage] = {}
        self.barriers: dict[SSAValue, tuple[int, int]] = {}
        self.exchanges: dict[SSAValue, int] = {}
        # Tiles of ones by the type of their elements.
        self.ones: dict[Attribute, View] = {}
        # The arena of the word that says where tensor memory is.
        self.address = -1
        # Those of what threads of a role exchange, and of what CTAs send each other.
        self.shared: dict[Any, int] = {}
        self.has_roles = False
        self.registers: dict[SSAValue, int] = {}
        self.needed: set[SSAValue] = set()
        # Coordinates of the place that is looked at: states by their rings, and loops around it.
        self.positions: dict[int, list[int]] = {}
        self.loops: list[int] = []
        # Arenas that have stages: the rings that say which, where rings do.
        self.staged: dict[int, set[int]] = {}
        self.touching: list[Event] = []
        self.role = -1
        self.warps = self.found.warps

    def run(self) -> Skeleton:
        ops: Ops = {}
        for op in walk(self.kernel.body):
            ops.setdefault(type(op), []).append(op)
        self._find_registers(ops)
        self._find_arenas(ops)
        self.has_roles = pipeline.RoleOp in ops
        self.needed = needed_in(ops)
        self.found.units = units_of(ops)
        self.found.varied = varied_in(ops)
        self.found.rests = rests_of(ops)
        for argument in self.kernel.body.block.args:
            self.found.inputs[self.slot(argument)] = argument
        self.found.nodes = self.block(self.kernel.body.block)
        self.found.slots = len(self.slots)
        self._find_item_stages(ops)
        self.found.teams = list(teams_of(self.found))
        self._narrow()
        if self.is_short:
            self.found.nodes = shortened(self.found.nodes)
        self.found.sketch = sketched(self.found.nodes)
        self.found.nodes = lined(self.found.nodes)
        return self.found

    def _narrow(self) -> None:
        """Leave to events the coordinates that tell stages apart: of the rings that do, where every
        role that touches a buffer has a place in one. A buffer that nothing writes that moves has
        no other trip's data to tell apart.
        """
        moving, apart = set[int](), set[int]()
        arenas = [{touch.arena for touch in event.touches} for event in self.touching]
        for event, touched in zip(self.touching, arenas, strict=True):
            event.touches = tuple(map(self._staged, event.touches))
            written = [touch for touch in event.touches if touch.writes]
            event.moves = len(written) > 1 or any(map(_moves, written))
            if event.moves:
                moving |= {touch.arena for touch in written}
            apart |= {
                at
                for at in touched
                if at in self.staged and self.staged[at].isdisjoint(event.names)
            }
        for event, touched in zip(self.touching, arenas, strict=True):
            event.is_still = touched.isdisjoint(moving)
            if event.is_still:
                event.coordinates = event.names = ()
            elif not touched & apart:
                rings = set[int]().union(*(self.staged.get(at, ()) for at in touched))
                kept = [at for at, name in enumerate(event.names) if name in rings]
                event.coordinates = tuple(event.coordinates[at] for at in kept)
                event.names = tuple(event.names[at] for at in kept)
            note_key(event)

    def _staged(self, touch: Touch) -> Touch:
        """A touch of a stage whose index is of no state is one of the ring that stages its buffer,
        where one alone does.
        """
        if touch.stage is None or touch.stage.slot != OF_NO_STATE:
            return touch
        rings = self.staged[touch.arena]
        stage = Stage(next(iter(rings)), OF_NO_STATE) if len(rings) == 1 else None
        return touch._replace(stage=stage)

    def slot(self, value: SSAValue) -> int:
        return self.slots.setdefault(value, len(self.slots))

    # What is asked of the whole kernel first.

    def _find_registers(self, ops: Ops) -> None:
        """Number the register tiles that asynchronous multiplies use."""
        for op in ops.get(cute.GemmOp, ()):
            if isinstance(op.atom, cute_nvgpu.Sm90MmaType):
                for value in (op.a, op.b, op.acc):
                    if isinstance(value.type, FragmentType):
                        self.registers.setdefault(_root(value), len(self.registers))

    def _find_arenas(self, ops: Ops) -> None:
        """Buffers that share storage are one arena, whose granule is their smallest element."""
        buffers = ops.get(cute.AllocSmemOp, ())
        shared = [memory_type(op.result).bits for op in buffers if op.offset is not None]
        if any(memory_type(op.source).space != "gmem" for op in ops.get(cute.MakeViewOp, ())):
            # Through another layout elements of one granule may lie in several.
            self.granule_bits = 0
        bits = max(self.granule_bits, min(shared, default=8))
        overlay = -1
        for op in buffers:
            type_ = memory_type(op.result)
            if op.offset is None:
                # Slots of a few bytes lie side by side.
                is_small = op.bytes < _SMALL_BYTES
                granule = type_.bits if is_small else max(self.granule_bits, type_.bits)
                at, start = self._arena(op), 0
            else:
                overlay = self._arena(op) if overlay < 0 else overlay
                at, start, granule = overlay, op.offset.value.data * 8 // bits, bits
            granules = Granules(type_.bits, granule)
            self.views[op.result] = View(at, type_.layout, granules, start, ())
        for op in ops.get(cute.AllocTmemOp, ()):
            type_ = memory_type(op.result)
            under = None if op.over is None else self.views[op.over].arena
            at = self._arena(op) if under is None else under
            granules = Granules(type_.bits, type_.bits, True)
            self.views[op.result] = View(at, type_.layout, granules, 0, ())
        for _ in ops.get(cute_nvgpu.TmemAllocOp, ()):
            self.address = len(self.found.arenas)
            self.found.arenas.append(("the address of tensor memory", False))
        for op in ops.get(cute_nvgpu.WriteOnesOp, ()):
            if op.tile in self.views:
                self.ones[memory_type(op.tile).element] = self.views[op.tile]

    def _find_item_stages(self, ops: Ops) -> None:
        """How many stages the rings have that move on by one for each work item, or for some; those
        that move on by the trips of a loop come round where these vary.
        """
        for op in ops.get(pipeline.AdvanceOp, ()):
            count = None if op.count is None else op.count.owner
            if isinstance(count, Operation) and constant_of(count) is None:
                continue
            loop = op.parent_op()
            is_in_some = isinstance(loop, scf.IfOp)
            while isinstance(loop, scf.IfOp):
                loop = loop.parent_op()
            if loop is None or WORK_ITEMS not in loop.attributes:
                continue
            ring, _ = self.states[op.state]
            stages = self.found.rings[ring].stages
            self.found.item_stages = max(self.found.item_stages, stages)
            if is_in_some:
                self.found.some_item_rings.add(ring)

    def _arena(self, op: Operation) -> int:
        is_tensor_memory = isinstance(op, cute.AllocTmemOp)
        name = "a buffer in tensor memory" if is_tensor_memory else "a buffer in shared memory"
        hint = op.results[0].name_hint
        self.found.arenas.append((f"%{hint}" if hint else name, is_tensor_memory))
        return len(self.found.arenas) - 1

    # Blocks, in order.

    def block(self, block: Block) -> tuple[Node, ...]:
        nodes: list[Node] = []
        for op in ops_in(block):
            if type(op) is pipeline.StepsOp:
                nodes += self._steps(op)
                continue
            node = self.node(op)
            if node is not None:
                nodes.append(node)
        return tuple(nodes)

    def body(self, op: Operation, block: Block) -> tuple[Node, ...]:
        """The block of an op that may be left out."""
        nodes = self.block(block)
        if acts(nodes):
            region = block.parent_region()
            assert region is not None
            self.found.bodies[id(op), op.regions.index(region)] = op
        return nodes

    def node(self, op: Any) -> Node | None:
        kind = type(op)
        if kind in _CONTROL:
            return _CONTROL[kind](self, op)
        row = row_of(op)
        if row is None:
            raise Undecided(op, f"no row says what {op.name} does")
        return _DOES.get(row.does, _Extraction._event)(self, op, row)

    def _holds(self, op: Operation, row: Row) -> None:
        """What control flow there is belongs to the ops of `_CONTROL`."""

    def _advance(self, op: pipeline.AdvanceOp, row: Row) -> Node | None:
        return Advance(self.states[op.state][1]) if op.count is None else self._event(op, row)

    def _does_nothing(self, op: Operation, row: Row) -> Node | None:
        return None if self._is_in_registers(op) else self._event(op, row)

    def _gives(self, op: Operation, row: Row) -> Node | None:
        """A number or a view; an event where an op reads registers in flight beside."""
        if type(op) is cute.AnyOp and _root(op.source) in self.registers:
            return self._event(op, row)
        return self._given(op)

    def _is_in_registers(self, op: Operation) -> bool:
        """Whether an op is about register tiles alone, none of which a multiply at work uses."""
        if self.registers or type(op) in _IN_NO_BUFFER:
            return False
        types = [value.type for value in op.operands]
        return not any(type(type_) is MemRefType and type_.space != "gmem" for type_ in types)

    def _ends(self, op: Operation) -> None:
        """What ends a block belongs to the op around it."""

    def _pairs(
        self, values: Sequence[SSAValue], targets: Sequence[SSAValue]
    ) -> tuple[tuple[int, int], ...]:
        return tuple(
            (self.slot(value), self.slot(target))
            for value, target in zip(values, targets, strict=True)
            if target in self.needed
        )

    def _loop(self, op: scf.ForOp) -> Loop | None:
        """A loop; None for one that neither has events nor carries what others need."""
        block = op.body.block
        index, *arguments = block.args
        trip, body = self._trips(op, block)
        last = block.last_op
        assert last is not None
        carried = tuple(
            (self.slot(argument), self.slot(first), self.slot(following), self.slot(result))
            for argument, first, following, result in zip(
                arguments, op.iter_args, last.operands, op.results, strict=True
            )
            if argument in self.needed or result in self.needed
        )
        if not carried and not acts(body):
            return None
        bounds = (self.slot(op.lb), self.slot(op.ub), self.slot(op.step))
        repeated = not carried and repeats(body)
        return Loop(op, self.slot(index), trip, bounds, carried, body, repeated)

    def _trips(self, op: Operation, block: Block) -> tuple[int, tuple[Node, ...]]:
        """The slot that counts a loop's trips, and what is in them."""
        trip = self.slots[("trip", op)] = len(self.slots)
        self.loops.append(trip)
        body = self.body(op, block)
        self.loops.pop()
        return trip, body

    def _branch(self, op: scf.IfOp) -> Branch | None:
        """A condition; None for one that neither has events nor gives what others need."""
        sides = []
        for region in op.regions:
            if not region.blocks:
                sides.append(((), ()))
                continue
            block = region.block
            body = self.body(op, block)
            last = block.last_op
            given = last.operands if isinstance(last, scf.YieldOp) else ()
            sides.append((body, self._pairs(given, op.results) if op.results else ()))
        if not any(pairs or acts(body) for body, pairs in sides):
            return None
        return Branch(op, self.slot(op.cond), tuple(sides))

    def _while(self, op: scf.WhileOp) -> While:
        before, after = op.before_region.block, op.after_region.block
        first = self.block(before)
        condition = before.last_op
        assert isinstance(condition, scf.ConditionOp)
        trip, second = self._trips(op, after)
        last = after.last_op
        assert last is not None
        return While(
            op,
            trip,
            self._pairs(op.arguments, before.args),
            first,
            self.slot(condition.condition),
            self._pairs(condition.args, after.args),
            self._pairs(condition.args, op.results),
            second,
            self._pairs(last.operands, before.args),
        )

    def _steps(self, op: pipeline.StepsOp) -> list[Node]:
        """What threads do for the op behind: always, on a condition, or as the rank says."""
        if op.condition is None and op.otherwise is None:
            return [*self.block(op.body.block)]
        others = () if op.otherwise is None else self.body(op, op.otherwise.block)
        sides = ((self.body(op, op.body.block), ()), (others, ()))
        if op.condition is not None:
            return [Branch(op, self.slot(op.condition), sides)]
        # The op behind gives whether it is the first CTA's.
        assert op.next_op is not None
        rank = self.slots["rank", op] = len(self.slots)
        term = "condition", op.next_op.name
        return [Number(rank, lambda values, number: term, ()), Branch(op, rank, sides)]

    def _role(self, op: pipeline.RoleOp) -> Part:
        outer = self.warps
        self.role = len(self.found.roles)
        self.found.roles.append(op)
        self.warps = len(op.warp_range) // op.teams
        shared = {ring: [*slots] for ring, slots in self.positions.items()}
        body = self.block(op.body.block)
        part = Part(self.role, body)
        self.role, self.warps, self.positions = -1, outer, shared
        return part

    # Ops without accesses.

    def _made(self, op: Operation, row: Row) -> Number | None:
        if isinstance(op, pipeline.CreateOp):
            self.rings[op.ring] = len(self.found.rings)
            self.found.rings.append(plan_of(op, self.found.cluster))
            return None
        if isinstance(op, pipeline.ExchangeOp):
            self.exchanges[op.exchange] = len(self.exchanges)
            return None
        assert isinstance(op, pipeline.StateOp)
        slot = self.slot(op.state)
        ring = self.rings[op.ring]
        self.states[op.state] = ring, slot
        self.positions.setdefault(ring, []).append(slot)
        # How far the state has gone: stage and phase are its rest and its quotient.
        return Number(slot, lambda values, number: 0, ()) if self.loops else None

    def _given(self, op: Operation) -> Number | Sum | Place | None:
        kind = type(op)
        if kind is pipeline.BarrierOp:
            self.barriers[op.barrier] = self.states[op.state]
            return None
        if kind is pipeline.InstanceOp:
            self.slots[op.index] = INSTANCE
            return None
        if kind is pipeline.IndexOp:
            ring, state = self.states[op.state]
            position = self.slots[("position", op)] = len(self.slots)
            self.stages[op.index] = Stage(ring, position)
            return Place(self.slot(op.index), position, state, self.found.rings[ring].stages)
        result = op.results[0]
        type_ = result.type
        if type(type_) is MemRefType and type_.space != "gmem":
            self._view(op)
            return None
        if result not in self.needed:
            return None
        constant = constant_of(op)
        if constant is not None:
            self.found.constants[self.slot(result)] = constant
            return None
        operands = tuple(self.slot(value) for value in sources_of(op))
        function = function_of(op)
        if function is not None:
            one, other = operands
            return Sum(self.slot(result), function, one, other)
        return Number(self.slot(result), step_of(op), operands)

    def _view(self, op: Operation) -> None:
        result = op.results[0]
        if isinstance(op, cute.AllocSmemOp | cute.AllocTmemOp):
            return
        source = self.views.get(op.operands[0])
        type_ = memory_type(result)
        if source is None:
            raise Undecided(op, "the buffer of its operand is not known")
        arena, _, granules, start, terms, stage = source
        layout = source.layout
        if isinstance(op, cute.StageOp):
            step = granules.place(memory_type(op.source).stride[-1])
            index = self.slot(op.index)
            rings = self.staged.setdefault(arena, set())
            stage = self.stages.get(op.index)
            if stage is None:
                stage = Stage(OF_NO_STATE, OF_NO_STATE)
            else:
                rings.add(stage.ring)
            number = self.found.constants.get(index)
            if number is None:
                terms = (*terms, (index, step))
            else:
                start += number * step
        elif isinstance(op, cute.SubviewOp):
            start += granules.place(layout(*op.origin.get_values()))
        elif isinstance(op, cute.MakeViewOp):
            first, moving = self._first_of(op, granules)
            start, terms = start + first, (*terms, *moving)
        elif not isinstance(op, cute.TransposeOp):
            raise Undecided(op, f"no row says which part of a buffer {op.name} gives")
        self.views[result] = View(arena, type_.layout, granules, start, terms, stage)

    def _first_of(
        self, op: cute.MakeViewOp, granules: Granules
    ) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Where a view begins in its buffer, in granules: a number, and slots with factors."""
        offset = op.offset
        if granules.is_tensor_memory or not is_placed(op):
            raise Undecided(op, "no row says which part of a buffer its layout gives")
        if offset is None:
            return 0, ()
        slot = self.slot(offset)
        number = self.found.constants.get(slot)
        return (0, ((slot, granules.count),)) if number is None else (granules.place(number), ())

    # Events.

    def _event(self, op: Operation, row: Row) -> Event | None:
        assert row.engine is not None
        event = Event(op, row.does, row.engine)
        self._synchronizing(event)
        if row.reads or row.writes or op.results:
            self._tiles(event, row)
        event.touches += self._beside(op, row)
        if event.touches:
            self._locate(event)
        for column in self._columns(event):
            self.found.columns.add((self.role, column))
        event.is_numeric = event.does in _GIVE_NUMBERS or (
            event.value >= 0
            and (
                event.does in (Does.COMMIT, Does.RELEASE)
                or any(touch.keeps for touch in event.touches)
            )
        )
        if event.does in (Does.NOTHING, Does.GIVES) and not (
            event.touches or event.reads or event.writes
        ):
            return None
        if not event.touches:
            note_key(event)
        return event

    def _tiles(self, event: Event, row: Row) -> None:
        """Fill in what an event does to the tiles that its op takes and gives."""
        op = event.op
        read, written = operands_of(op, row.reads), operands_of(op, row.writes)
        written += [value for value in op.results if type(value.type) is FragmentType]
        event.reads = self._in_registers(read)
        event.writes = self._in_registers(written)
        # A tile that is read and written counts as written; what it held is asked for beside.
        both = set(read) & set(written)
        event.touches = tuple(
            touch._replace(keeps=True) if value in both else touch
            for values, writes in (([v for v in read if v not in both], False), (written, True))
            for value in values
            if (touch := self._touch(op, row, value, writes)) is not None
        )

    def _locate(self, event: Event) -> None:
        """Fill in where the role of an event is when it happens."""
        slots, names = [], []
        for ring, states in self.positions.items():
            slots += states
            names += [ring] * len(states)
        event.coordinates = (*slots, *self.loops)
        event.names = (*names, *[-trip for trip in self.loops])
        event.is_of_cta = self.has_roles and self.role < 0
        self.touching.append(event)

    def _beside(self, op: Operation, row: Row) -> tuple[Touch, ...]:
        """What an op touches that is no operand of it: the ones that add up rows, the address of
        tensor memory, and, where that is given back, all of it.
        """
        kind = type(op)
        if kind is cute.GemmOp and row.engine is Engine.WGMMA and op.sums is not None:
            ones = self.ones.get(cute.element_of(op.a.type))
            if ones is None:
                raise Undecided(op, "the tile of ones that it reads is not known")
            mask = regions.whole(ones.layout, ones.granules)
            return (Touch(ones.arena, mask, None, ones.start, (), False),)
        if kind is pipeline.ScratchStoreOp or kind is pipeline.ScratchLoadOp:
            # Each instance of a role has a part of its own, any of which each thread may touch.
            writes = kind is pipeline.ScratchStoreOp
            return (self._shared(self.role, "what threads exchange in shared memory", writes),)
        if kind in IN_A_ROOM and is_in_own_room(op):
            writes = kind is not pipeline.ExchangeLoadOp
            return (self._shared(op.exchange, "what CTAs send each other", writes),)
        if row.does in (Does.TAKE, Does.FIND):
            if self.address < 0:
                raise Undecided(op, "nothing takes tensor memory")
            return (Touch(self.address, 1, None, 0, (), row.does is Does.TAKE),)
        if row.does is not Does.GIVE_BACK:
            return ()
        masks: dict[int, int] = {}
        for view in self.views.values():
            if self.found.arenas[view.arena][1] and not view.terms:
                mask = regions.whole(view.layout, view.granules) << view.start
                masks[view.arena] = masks.get(view.arena, 0) | mask
        idle = (0,) * (self.warps - 1)
        return tuple(Touch(at, mask, (mask, *idle), 0, (), True) for at, mask in masks.items())

    def _shared(self, key: Any, name: str, writes: bool) -> Touch:
        """An access to memory that has no buffer in the IR, of which each instance has a part."""
        if key not in self.shared:
            self.shared[key] = len(self.found.arenas)
            self.found.arenas.append((name, False))
        return Touch(self.shared[key], 1, None, 0, ((INSTANCE, 1),), writes)

    def _columns(self, event: Event) -> Iterator[Column]:
        """Whose times an event of a team moves, beside those of its threads."""
        does, engine = event.does, event.engine
        kinds = self.found.rings[event.ring].kinds if does is Does.COMMIT else ()
        if (
            engine is Engine.TCGEN05
            or "tcgen05" in kinds
            or (does is Does.RELEASE and event.is_read)
        ):
            yield Column.CORE
        if engine is Engine.CP_ASYNC or "cp_async" in kinds:
            yield Column.COPIES
        if does is Does.TENSOR_FENCE or (
            engine is Engine.THREADS and any(self.found.arenas[t.arena][1] for t in event.touches)
        ):
            yield Column.TENSOR_MEMORY

    def _in_registers(self, values: Sequence[Any]) -> tuple[int, ...]:
        if not self.registers:
            return ()
        roots = (_root(value) for value in values)
        return tuple(self.registers[root] for root in roots if root in self.registers)

    def _synchronizing(self, event: Event) -> None:
        """Fill in what an op names beside its tiles."""
        op = event.op
        if type(op) in AT_A_STATE:
            event.ring, event.state = self.states[op.state]  # type: ignore[attr-defined]
        kind = type(op)
        if event.does is not Does.GIVES and _has_pred(kind):
            pred = op.pred  # type: ignore[attr-defined]
            if pred is not None:
                event.pred = self.slot(pred)
        warps = op.properties.get("warps")
        if warps is not None:
            event.warps = warps.value.data  # type: ignore[attr-defined]
        number, result = NUMBER_AND_RESULT.get(kind, ("", ""))
        if number:
            value = getattr(op, number)
            event.value = -1 if value is None else self.slot(value)
        if result:
            event.result = self.slot(getattr(op, result))
        note_counts(event, Named(self.found, self.barriers, self.exchanges, self.role))

    def _touch(self, op: Operation, row: Row, value: Any, writes: bool) -> Touch | None:
        type_ = value.type
        if type(type_) is not MemRefType or type_.space == "gmem":
            return None
        view = self.views.get(value)
        if view is None:
            raise Undecided(op, "the buffer of its operand is not known")
        start, terms = view.start, view.terms
        if type(op) in _MESSAGES:
            stride = type_.stride[-1]
            slot = Layout(type_.modes[:-1], type_.stride[:-1]) if type_.rank > 1 else Layout(1, 0)
            mask = regions.whole(slot, view.granules)
            terms = (*terms, (self.slot(op.index), view.granules.place(stride)))
            first = (mask, *(0 for _ in range(self.warps - 1)))
            parts = first if isinstance(op, pipeline.SendOp) else None
            stage = self.stages.get(op.index)
            return Touch(view.arena, mask, parts, start, terms, writes, stage=stage)
        mask = regions.whole(view.layout, view.granules)
        parts = shares_of(op, row, value, view, self.warps)
        if parts is not None:
            mask = 0
            for part in parts:
                mask |= part
        return Touch(view.arena, mask, parts, start, terms, writes, stage=view.stage)


_CONTROL: dict[type[Operation], Callable[[_Extraction, Any], Node | None]] = {
    scf.ForOp: _Extraction._loop,
    scf.IfOp: _Extraction._branch,
    scf.WhileOp: _Extraction._while,
    scf.YieldOp: _Extraction._ends,
    scf.ConditionOp: _Extraction._ends,
    pipeline.RoleOp: _Extraction._role,
}
_DOES: dict[Does, Callable[[_Extraction, Any, Row], Node | None]] = {
    Does.HOLDS: _Extraction._holds,
    Does.MAKES: _Extraction._made,
    Does.GIVES: _Extraction._gives,
    Does.ADVANCE: _Extraction._advance,
    Does.NOTHING: _Extraction._does_nothing,
}


def _moves(touch: Touch) -> bool:
    """Whether a team touches other places with it in other trips, or stages of a ring."""
    return touch.stage is not None or any(slot != INSTANCE for slot, _ in touch.terms)


@cache
def _has_pred(kind: type[Operation]) -> bool:
    """Whether ops of a class may have a condition."""
    return any("pred" in vars(base) for base in kind.__mro__)


def _root(value: Any) -> Any:
    """The register tile that a value is a view of."""
    while isinstance(value, OpResult) and isinstance(value.op, cute.TransposeOp):
        value = value.op.source
    return value
