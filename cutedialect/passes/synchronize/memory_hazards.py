"""Where the threads of one role have to wait for each other, or for copies in flight: found from
the order of the ops alone, and put in front of the first op that depends on it.

    copy a, s {cp.async}; copy b, t {cp.async}; gemm s, t
    =>
    copy a, s; copy b, t; commit; wait 0; barrier; gemm s, t

What is pending (who writes or reads which buffer, how many groups were committed since) flows
through branches and around loops until nothing new comes. An op inside of a loop that depends only
on what was before it waits in front of the loop. One barrier serves every dependence across it, but
for two: what an asynchronous unit reads needs a proxy fence in front of the barrier as well, and
reads of multiplies go on behind it until their group is waited for.
Stages of a ring are told apart by `ahead`, on `cute.stage`: how many trips ahead of the loop's
present one a stage is used. A copy for a trip ahead is made only if the loop has that trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.dialects.cute import (
    AllocSmemOp,
    AtomicOp,
    BarrierOp,
    CopyOp,
    FragmentType,
    GemmOp,
    KernelOp,
    LoadOp,
    StageOp,
    memref_of,
)
from cutedialect.dialects.cute.storage import AHEAD
from cutedialect.dialects.cute_nvgpu import (
    CpAsyncCommitOp,
    CpAsyncWaitOp,
    ProxyFenceOp,
    TmaStoreType,
    TmaStoreWaitOp,
    WgmmaCommitOp,
    WgmmaFenceOp,
    WgmmaWaitOp,
)
from cutedialect.dialects.effects import ALL, NONE, Unit, effects_of, is_in_memory, space_of
from cutedialect.dialects.pipeline import CompleteOp
from cutedialect.dialects.walks import ops_around, ops_of, walk
from cutedialect.layout import Layout, flatten
from cutedialect.passes.analysis.memory_views import (
    are_apart,
    constant_of,
    expression_of,
    in_place_of,
    is_work_loop,
    ordering_atomic,
    overlaps,
    root_of,
    roots_of,
    shares_storage,
    varies,
)
from cutedialect.passes.analysis.role_plan import is_preparing
from cutedialect.passes.analysis.smem_layouts import OPERAND
from cutedialect.passes.rewriting import erase, insert_after, insert_before

# How many trips of a loop with constant bounds are walked one by one.
_FEW_TRIPS = 64
# A number of groups that no kernel commits: of what is not in flight.
_LANDED = 1 << 20
# What reads shared memory through the async proxy (PTX ISA 8.9).
_PROXIED = frozenset({Unit.WGMMA, Unit.TCGEN05, Unit.TMA_STORE})


@dataclass(frozen=True)
class Slot:
    """The stage of a ring that is used `ahead` trips ahead of the present one of a loop, or a
    constant one.
    """

    loop: Operation | None
    ahead: int


@dataclass(frozen=True)
class Access:
    """A read or write of memory: what lies where, by which unit, and in which threads."""

    root: SSAValue
    view: SSAValue
    writes: bool
    unit: Unit
    slot: Slot | None = None
    tv: Layout | None = None
    is_atomic: bool = False


@dataclass(frozen=True)
class _Pending:
    """An access that later ones may depend on. `outside` are the loops that began since, `carried`
    is the outermost one of which it was in an earlier trip. Behind `met`, all threads know of the
    access, but asynchronous units do not: these alone still depend on it. `is_fenced` is what
    threads have written and fenced since.
    """

    access: Access
    outside: frozenset[Operation] = frozenset()
    carried: Operation | None = None
    met: Operation | None = None
    is_fenced: bool = False


# How many groups of its unit were committed since: -1 in the group that is not committed yet,
# `_LANDED` for what is not asynchronous.
_State = dict[_Pending, int]


@dataclass(frozen=True)
class _Sync:
    """What stands in front of an op: a barrier, behind a wait for all but `pending` groups of
    copies, one for the TMA stores of the threads that issue for so many warps, and a fence where
    an asynchronous unit reads what threads wrote (PTX ISA 8.9).
    """

    pending: int = _LANDED
    stores: frozenset[int | None] = frozenset()
    fences: bool = False


class MemoryHazards:
    """The dependences through memory of one role's program."""

    def __init__(self, block: Block, spaces: Sequence[str] = ("gmem", "smem")) -> None:
        self.block = block
        self.spaces = spaces
        self.syncs: dict[Operation, _Sync] = {}
        # Ops at which threads meet as it is, and which a proxy fence goes in front of.
        self.fenced: dict[Operation, None] = {}
        self.commits: dict[Operation, None] = {}
        self.trips: dict[Operation, int] = {}
        self.open: Operation | None = None
        self.changes = 0
        # What ops inside of a loop wait for that the loop can wait for as well.
        self.hoists: dict[Operation, dict[Access, None]] = {}
        # Buffers that cross roles have rings; those of multiplies of one role do not.
        gemms = ops_of(block, GemmOp)
        read = roots_of(value for op in gemms for value in effects_of(op).reads)
        self.proxied = roots_of(
            value
            for op in walk(block)
            if (effects := effects_of(op)).unit in _PROXIED
            for value in effects.reads
            if space_of(value) == "smem"
        )
        self.written = {
            root
            for op in walk(block)
            for value in effects_of(op).writes
            if is_in_memory(value)
            and (not _is_scratch(root := root_of(value)) or shares_storage(root))
            and (space_of(value) in spaces or (root in read and _holds_operand(root, op)))
        }
        # Arguments that are read, each with one that is written and may be the same array.
        self.in_place = {
            (read, stored)
            for kernel in ops_around(block)
            if isinstance(kernel, KernelOp)
            for read, stored in in_place_of(kernel)
            if stored in self.written
        }
        self.overwritten = {read for read, _ in self.in_place}
        # Tensors that atomics of an order are in order with.
        self.ordered = _ordered(block)
        self.written |= {*self.ordered}

    def synchronize(self) -> None:
        """Find what is missing, and insert it."""
        if self.written:
            self._block(self.block, {})
        for op in self.commits:
            insert_after(op, CpAsyncCommitOp())
        for op, sync in self.syncs.items():
            waits = [CpAsyncWaitOp(sync.pending)] if sync.pending != _LANDED else []
            stores = [TmaStoreWaitOp(0, False, warps) for warps in sync.stores]
            fences = [ProxyFenceOp()] if sync.fences else []
            place = op
            while isinstance(place.prev_op, WgmmaFenceOp):
                place = place.prev_op
            insert_before(place, *waits, *stores, *fences, BarrierOp())
        for op in self.fenced:
            insert_before(op, ProxyFenceOp())
        erase(*ops_of(self.block, CompleteOp))

    # Ops

    def _block(self, block: Block, state: _State) -> _State:
        for op in block.ops:
            if op.regions:
                state = self._commit(state)
                state = self._control(op, state)
            else:
                state = self._op(op, state)
        return self._commit(state)

    def _op(self, op: Operation, state: _State) -> _State:
        effects = effects_of(op)
        if effects is NONE and op not in self.syncs:
            return state
        is_complete = type(op) is CompleteOp  # `isinstance` is slow of xDSL's abstract classes
        if is_complete or effects.meets == ALL:
            state = self._commit(state)
        accesses = self._accesses(op)
        if is_complete:
            landing = [pending for pending in state if self._lands(pending, accesses)]
            self._demand(op, landing, state)
            return self._synced(op, state)
        state = self._behind_conflicts(op, accesses, state)
        if effects.meets == ALL:
            state = self._behind_meeting(op, effects.shows, state)
        state = _behind(op, state)
        for access in accesses:
            is_copy = access.unit is Unit.CP_ASYNC and access.writes
            in_flight = is_copy or (access.unit is Unit.WGMMA and not access.writes)
            state[_Pending(access)] = -1 if in_flight else _LANDED
            if is_copy:
                self.open = op
        return self._commit(state) if op in self.commits else state

    def _behind_conflicts(self, op: Operation, accesses: Sequence[Access], state: _State) -> _State:
        """What is pending when an op begins, which waits for what its accesses conflict with."""
        conflicts = [
            pending
            for pending in state
            if any(self._conflict(pending, access) for access in accesses)
        ]
        if self.open is not None and any(state[pending] < 0 for pending in conflicts):
            state = self._commit(state)
        self._demand(op, conflicts, state)
        return self._synced(op, state)

    def _behind_meeting(self, op: Operation, space: str, state: _State) -> _State:
        """What is pending behind an op at which all threads meet and see what was done in a space,
        in each where it is "".
        """
        shown = {
            pending: age
            for pending, age in state.items()
            if age == _LANDED and space in ("", space_of(pending.access.view))
        }
        state = {pending: age for pending, age in state.items() if pending not in shown}
        return state if op in self.fenced else state | self._met(op, shown)

    def _accesses(self, op: Operation) -> list[Access]:
        effects = effects_of(op)
        if not (effects.reads or effects.writes):
            return []
        threads, is_atomic = _threads(op), isinstance(op, AtomicOp)
        if isinstance(op, AtomicOp) and op.order is not None:
            return [Access(root, root, True, Unit.THREADS) for root in self.ordered]
        return [
            Access(root, value, writes, effects.unit, self._slot(value), threads, is_atomic)
            for values, writes in ((effects.reads, False), (effects.writes, True))
            for value in values
            if is_in_memory(value)
            and ((root := root_of(value)) in self.written or root in self.overwritten)
        ]

    def _slot(self, view: SSAValue) -> Slot | None:
        """The stage of its ring that a view lies in; None where that is not known."""
        owner = view.owner
        while isinstance(owner, Operation) and owner.operands and not isinstance(owner, StageOp):
            owner = owner.operands[0].owner
        if not isinstance(owner, StageOp):
            return None
        index = constant_of(owner.index)
        if index is not None:
            return Slot(None, index)
        ahead = owner.attributes.get(AHEAD)
        loop = next((op for op in ops_around(owner) if isinstance(op, scf.ForOp)), None)
        if not isinstance(ahead, IntegerAttr) or loop is None:
            return None
        trip = self.trips.get(loop)
        if trip is not None:
            return Slot(None, trip + ahead.value.data)
        return Slot(loop, ahead.value.data)

    # Dependences

    def _lands(self, pending: _Pending, tiles: Iterable[Access]) -> bool:
        """Whether a write is one of those that `pipeline.complete` waits for."""
        access = pending.access
        return (
            access.writes
            and pending.met is None
            and any(access.root is tile.root and _same_slot(access, tile) for tile in tiles)
        )

    def _conflict(self, pending: _Pending, access: Access) -> bool:
        """Whether an access has to come behind a pending one in all threads."""
        before = pending.access
        if (before.root, access.root) in self.in_place:
            return self._overwrites(pending, access)
        if pending.met is not None and (access.writes or access.unit not in _PROXIED):
            return False
        if not overlaps(before.root, access.root) or not (before.writes or access.writes):
            return False
        if before.root is not access.root:
            return True
        if before.is_atomic and access.is_atomic:
            return False
        if not _same_slot(before, access):
            return False
        if space_of(access.view) == "smem":
            return True
        if are_apart(before.view, access.view, pending.carried):
            return False
        # A thread sees what it did itself; of threads that hold the same, one stores.
        return not (
            before.tv is not None
            and before.tv == access.tv
            and not _is_replicated(before.tv)
            and expression_of(before.view) == expression_of(access.view)
            and not (pending.carried is not None and varies(access.view, pending.carried))
        )

    def _overwrites(self, pending: _Pending, access: Access) -> bool:
        """Whether a store may come in front of a load of what is there, where both arguments are
        one array: several threads hold an element, or others than those that store it. Loads of
        another trip are of other tiles, and those by TMA are waited for as a whole.
        """
        before = pending.access
        return (
            access.writes
            and not before.writes
            and pending.carried is None
            and before.unit is not Unit.TMA_LOAD
            and (before.tv is None or before.tv != access.tv or _is_replicated(before.tv))
        )

    def _demand(self, op: Operation, found: Sequence[_Pending], state: _State) -> None:
        """Let an op, or the loop around it, wait for pending accesses; what threads have met behind
        needs a fence alone, where they met.
        """
        for place in dict.fromkeys(each.met for each in found):
            if place is not None:
                self._fence(place)
        found = [each for each in found if each.met is None]
        if not found:
            return
        place = op if isinstance(op, CompleteOp) else self._outermost(op, found)
        if place is op:
            self._wait(op, found, state)
            return
        wanted = self.hoists.setdefault(place, {})
        for access in self._accesses(op):
            if access not in wanted:
                wanted[access] = None
                self.changes += 1

    def _wait(self, op: Operation, found: Sequence[_Pending], state: _State) -> None:
        """Let an op wait for pending accesses."""
        stores = {
            _issuing_warps(each.access)
            for each in found
            if each.access.unit is Unit.TMA_STORE and each.access.writes
        }
        reads = {access.unit for access in self._accesses(op) if not access.writes}
        fences = bool(reads & _PROXIED) and any(
            _is_of_threads(each) and not each.is_fenced for each in found
        )
        old = self.syncs.get(op, _Sync())
        groups = [state[each] for each in found if each.access.unit is Unit.CP_ASYNC]
        sync = _Sync(min(old.pending, *groups, _LANDED), old.stores | stores, old.fences or fences)
        if self.syncs.get(op) != sync:
            self.syncs[op] = sync
            self.changes += 1

    def _fence(self, place: Operation) -> None:
        """Let threads fence what they wrote in front of where they meet."""
        sync = self.syncs.get(place)
        if sync is None and place not in self.fenced:
            self.fenced[place] = None
            self.changes += 1
        elif sync is not None and not sync.fences:
            self.syncs[place] = replace(sync, fences=True)
            self.changes += 1

    def _met(self, place: Operation, state: _State) -> _State:
        """What is pending behind a place where all threads meet without a fence: what they wrote
        and asynchronous units read.
        """
        return {
            replace(each, met=each.met or place): age
            for each, age in state.items()
            if each.access.root in self.proxied and _is_of_threads(each) and not each.is_fenced
        }

    def _outermost(self, op: Operation, found: Sequence[_Pending]) -> Operation:
        """The outermost loop around an op that is the same to wait in front of: all that the op
        waits for was before it, and nothing inside of it would be waited for again.
        """
        place = op
        for loop in ops_around(op):
            if loop is self.block.parent_op():
                break
            if isinstance(loop, scf.ForOp | scf.WhileOp):
                if not all(loop in each.outside for each in found) or self._recurs(op, loop):
                    break
                place = loop
        return place

    def _recurs(self, op: Operation, loop: Operation) -> bool:
        """Whether an op may depend on what an earlier trip of a loop does."""
        mine = self._accesses(op)
        present = self.trips.get(loop)
        if present is None:
            return self._touches(loop, mine)
        others = [each for each in range(_constant_trips(loop) or 0) if each != present]
        found = False
        for self.trips[loop] in others:
            found = found or self._touches(loop, mine)
        self.trips[loop] = present
        return found

    def _touches(self, loop: Operation, accesses: Sequence[Access]) -> bool:
        """Whether something in another trip of a loop conflicts with accesses."""
        return any(
            self._conflict(_Pending(other, carried=loop), access)
            for inner in walk(loop)
            if not inner.regions
            for other in self._accesses(inner)
            for access in accesses
        )

    def _synced(self, op: Operation, state: _State) -> _State:
        """What is pending behind the barrier in front of an op, if there is one."""
        sync = self.syncs.get(op)
        if sync is None:
            return dict(state)
        if sync.fences:
            state = _fenced(state)
        kept = {each: age for each, age in state.items() if age < _ended(each, sync)}
        gone = {each: age for each, age in state.items() if each not in kept}
        return kept if sync.fences else kept | self._met(op, gone)

    def _commit(self, state: _State) -> _State:
        """End the group of the copies before here, if there are any."""
        if self.open is None:
            return state
        self.commits[self.open] = None
        self.open = None
        return _aged(state)

    # Control

    def _control(self, op: Operation, state: _State) -> _State:
        if isinstance(op, scf.IfOp):
            sides = [
                self._block(region.block, dict(state)) if region.blocks else state
                for region in op.regions
            ]
            return _joined(*sides)
        if not isinstance(op, scf.ForOp | scf.WhileOp):
            return state
        while True:
            wanted = list(self.hoists.get(op, ()))
            found = [each for each in state if any(self._conflict(each, a) for a in wanted)]
            if found:
                self._wait(op, found, state)
            entry = self._synced(op, state)
            trips = _constant_trips(op)
            result = (
                self._unrolled(op, entry, trips)
                if isinstance(op, scf.ForOp) and trips is not None
                else self._looped(op, entry)
            )
            if len(self.hoists.get(op, {})) == len(wanted):
                return result

    def _unrolled(self, loop: scf.ForOp, entry: _State, trips: int) -> _State:
        """A loop with few trips, one after the other."""
        state = {replace(e, outside=e.outside | {loop}): age for e, age in entry.items()}
        for trip in range(trips):
            self.trips[loop] = trip
            state = self._block(loop.body.block, state)
            state = _seen(state, lambda each: _next_trip(each, loop))
        self.trips.pop(loop, None)
        return _seen(state, lambda each: _left(each, loop))

    def _looped(self, loop: scf.ForOp | scf.WhileOp, entry: _State) -> _State:
        """A loop with any number of trips: until what a trip leaves to the next is known."""
        rings = _rings(loop)
        first: _State = {}
        for each, age in entry.items():
            access = each.access
            if access.root in rings and access.slot is not None and access.slot.loop is None:
                access = replace(access, slot=replace(access.slot, loop=loop))
            first[replace(each, access=access, outside=each.outside | {loop})] = age
        carried: _State = {}
        while True:
            before = self.changes
            state = _joined(first, carried)
            ends: list[_State] = []
            for region in loop.regions:
                state = self._block(region.block, dict(state))
                ends.append(state)
            # Work items share no tile that they store.
            apart = "gmem" if is_work_loop(loop) else None
            kept = {e: age for e, age in state.items() if space_of(e.access.view) != apart}
            leaves = _joined(carried, _seen(kept, lambda each: _next_trip(each, loop)))
            if before != self.changes:
                # What now waits leaves less behind.
                carried = {}
            elif leaves == carried:
                break
            else:
                carried = leaves
        # A `for` ends behind its body, if there is a trip, a `while` behind its condition.
        found = _exit(ends[0], loop, 1)
        if isinstance(loop, scf.ForOp):
            found = _joined(found, _exit(first, loop, 0))
        return found


def _ordered(block: Block) -> tuple[SSAValue, ...]:
    """The tensors of a program in which an atomic is in order with other accesses."""
    if ordering_atomic(block) is None:
        return ()
    every = (effects_of(op) for op in walk(block))
    views = (view for effects in every for view in (*effects.reads, *effects.writes))
    return tuple(dict.fromkeys(root_of(view) for view in views if space_of(view) == "gmem"))


def _behind(op: Operation, state: _State) -> _State:
    """What is pending behind an op that ends groups, waits for some, or fences."""
    effects = effects_of(op)
    if type(op) is CpAsyncCommitOp or type(op) is WgmmaCommitOp:
        return _aged(state, effects.closes)
    if type(op) is CpAsyncWaitOp or type(op) is WgmmaWaitOp:
        pending = op.pending.value.data
        return {
            each: _LANDED if each.access.unit is effects.completes and age >= pending else age
            for each, age in state.items()
        }
    return _fenced(state) if type(op) is ProxyFenceOp else state


def _ended(pending: _Pending, sync: _Sync) -> int:
    """From which number of groups on a barrier ends an access."""
    return sync.pending if pending.access.unit is Unit.CP_ASYNC else _LANDED


def _is_of_threads(pending: _Pending) -> bool:
    """Whether threads have written it."""
    return pending.access.writes and pending.access.unit is Unit.THREADS


def _fenced(state: _State) -> _State:
    """The state behind a proxy fence of all threads: of what they have met behind, none is left."""
    return {
        replace(each, is_fenced=True) if _is_of_threads(each) else each: age
        for each, age in state.items()
        if each.met is None
    }


def _exit(state: _State, loop: Operation, first: int) -> _State:
    """A state, seen from behind a loop: copies for trips ahead, from `first` on, were not made,
    since the loop does not have them.
    """
    kept = {
        each: age
        for each, age in state.items()
        if age == _LANDED
        or (slot := each.access.slot) is None
        or slot.loop is not loop
        or slot.ahead < first
    }
    return _seen(kept, lambda each: _left(each, loop))


def _next_trip(pending: _Pending, loop: Operation) -> _Pending:
    """An access, seen from the next trip of a loop."""
    access, carried = pending.access, pending.carried
    if access.slot is not None and access.slot.loop is loop:
        ahead = access.slot.ahead - 1
        access = replace(access, slot=Slot(loop, ahead) if ahead > -_stages(access) else None)
    is_outermost = carried is None or loop.is_ancestor(carried)
    return replace(pending, access=access, carried=loop if is_outermost else carried)


def _left(pending: _Pending, loop: Operation) -> _Pending:
    """An access, seen from behind a loop."""
    access = pending.access
    if access.slot is not None and access.slot.loop is loop:
        access = replace(access, slot=None)
    return replace(pending, access=access, outside=pending.outside - {loop})


def _same_slot(one: Access, other: Access) -> bool:
    """Whether two accesses may be to one stage of a ring."""
    mine, theirs = one.slot, other.slot
    if mine is None or theirs is None or mine.loop is not theirs.loop:
        return True
    return (mine.ahead - theirs.ahead) % _stages(one) == 0


def _stages(access: Access) -> int:
    """The stages of the ring that an access is to."""
    return memref_of(access.root).modes[-1]


def _issuing_warps(access: Access) -> int | None:
    """For how many warps one thread issues the TMA store that an access is of."""
    atoms = [use.operation.atom for use in access.view.uses if isinstance(use.operation, CopyOp)]
    return next((atom.warps for atom in atoms if isinstance(atom, TmaStoreType)), None)


def _joined(*states: _State) -> _State:
    """What may be pending where paths meet, with the fewest groups behind it."""
    found: _State = {}
    for state in states:
        for each, age in state.items():
            found[each] = min(age, found.get(each, age))
    return found


def _seen(state: _State, how: Callable[[_Pending], _Pending]) -> _State:
    """A state as it is seen from elsewhere."""
    return _joined(*({how(each): age} for each, age in state.items()))


def _aged(state: _State, unit: Unit | None = Unit.CP_ASYNC) -> _State:
    """The state behind a commit of a unit's group."""
    return {
        each: age + 1 if age != _LANDED and each.access.unit is unit else age
        for each, age in state.items()
    }


def _constant_trips(loop: Operation) -> int | None:
    """The trips of a loop that fills stages ahead of another one: from 0 to a small constant."""
    if not isinstance(loop, scf.ForOp):
        return None
    low, high, step = (constant_of(value) for value in (loop.lb, loop.ub, loop.step))
    if low != 0 or step != 1 or high is None or high > _FEW_TRIPS or not _rings(loop):
        return None
    return max(0, high)


def _rings(loop: Operation) -> set[SSAValue]:
    """The rings of which a loop's trips use stages in turn."""
    return {op.source for op in ops_of(loop, StageOp) if AHEAD in op.attributes}


def _threads(op: Operation) -> Layout | None:
    """Which thread has which element of the tile that an op reads or writes in memory."""
    if isinstance(op, LoadOp):
        type_ = op.result.type
    elif isinstance(op, CopyOp):
        in_registers = isinstance(op.source.type, FragmentType)
        type_ = op.source.type if in_registers else op.destination.type
    else:
        return None
    return type_.tv if isinstance(type_, FragmentType) else None


def _is_replicated(tv: Layout) -> bool:
    """Whether several threads hold the same elements."""
    threads = tv[0]
    modes = zip(flatten(threads.shape), flatten(threads.stride), strict=True)
    return any(extent != 1 and stride == 0 for extent, stride in modes)


def _is_scratch(root: SSAValue) -> bool:
    """Whether a buffer is one through which layouts are exchanged, with barriers of its own."""
    return isinstance(root.owner, AllocSmemOp) and "scratch" in root.owner.attributes


def _holds_operand(root: SSAValue, writer: Operation) -> bool:
    """Whether a buffer holds what threads write for multiplies: a register tile, or what they
    transpose, convert or shift within shared memory.
    """
    is_operand = isinstance(root.owner, AllocSmemOp) and OPERAND in root.owner.attributes
    return is_operand or is_preparing(writer)
