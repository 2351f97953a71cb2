"""What each team does in one case, step by step: its control flow on integers, and its events with
the places of their accesses. Barriers and clocks are the machine's (`machine.py`): where two cases
have the same steps, one of them stands for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from xdsl.ir import Operation

from .events import Does, Engine
from .nodes import (
    INSTANCE,
    LAST,
    OF_NO_STATE,
    Advance,
    Body,
    Branch,
    Event,
    Line,
    Loop,
    Number,
    Part,
    Place,
    Skeleton,
    Sum,
    TeamPlan,
    Touch,
    While,
)

# Trips of a loop whose trips do the same to memory that are gone: the first one, one behind another
# one, and one that shows that this goes on.
_TRIPS_THAT_REPEAT = 3
# Asks a case how many work items a CTA gets by its claims.
CLAIMS = ("claims", "work items")
Numbers = Callable[[Any], int]
Way = Iterator[None]
"""Stops where a message has not come yet."""


class Case(NamedTuple):
    """One case: what inputs are. `numbers` gives the integer of a term. With loops of more than
    `most_trips`, or more than `most_steps` of a team, it is not run to its end. One with a `period`
    leaves multiples of so many trips out of the middle of such loops, and ends `scf.while` there.
    """

    name: str
    numbers: Numbers
    most_trips: int = 400
    most_steps: int = 20_000
    period: int = 0


@dataclass(slots=True, eq=False)
class Reach:
    """What a touch of an event reaches where a team stands: granules of all warps from a place on,
    the ring and position of its stage, if it has one, the coordinates, and whether the innermost
    loop around it is in its last trip.
    """

    event: Event
    touch: Touch
    engine: Engine
    writes: bool
    place: int
    mask: int
    ring: int = -1
    position: int | None = None
    at: tuple[int, ...] = ()
    is_last: bool = False
    # Those of some warps, by the first one and their number.
    of_warps: dict[tuple[int, int], int] | None = None

    def part(self, warp: int) -> int:
        """The granules of a warp of all of its role."""
        parts = self.touch.parts
        if parts is None:
            return self.mask
        return parts[warp] << self.place if warp < len(parts) else 0

    def of(self, first: int, warps: int) -> int:
        """The granules of so many warps."""
        parts = self.touch.parts
        if parts is None or (not first and warps >= len(parts)):
            return self.mask
        if self.of_warps is None:
            self.of_warps = {}
        mask = self.of_warps.get((first, warps))
        if mask is None:
            mask = 0
            for warp in range(first, first + warps):
                mask |= self.part(warp)
            self.of_warps[first, warps] = mask
        return mask


@dataclass(slots=True, eq=False)
class Step:
    """An event where a team stands: the position of its state, a number (whether a multiply keeps
    what it adds to, the CTAs that meet), and what it reaches. What a copy that `is_absent` would
    have done does not take place.
    """

    event: Event
    position: int = 0
    value: int = 1
    reaches: tuple[Reach, ...] = ()
    is_absent: bool = False


class Walks(NamedTuple):
    """The steps of all teams in a case; the trips that loops had; by body how many steps a team had
    gone where it entered it, (team, steps); by body that a term kept a team from entering that
    term; the ways that they went; by team that did not come to its end, in which loop; how many
    trips were left out of loops, -1 for those of an `scf.while`; and of each team, by loop, the
    steps in front of it each time, and its trips.
    """

    steps: tuple[tuple[Step, ...], ...]
    trips: dict[Operation, set[int]]
    entered: dict[Body, tuple[int, int]]
    shut: dict[Body, Any]
    ways: tuple[tuple[int, ...], ...]
    cut: dict[int, Operation]
    left_out: frozenset[int]
    runs: tuple[dict[Operation, list[tuple[int, int]]], ...]

    @property
    def is_whole(self) -> bool:
        """Whether all teams came to their ends."""
        return not self.cut


class _TooLong(Exception):  # noqa: N818 - control flow of this file
    """A case has more trips of a loop, or more steps in it, than are run."""

    def __init__(self, op: Operation) -> None:
        super().__init__()
        self.op = op


class _Messages:
    """What was sent, by arena and position of a ring, or place; what lies at each place; and
    whether nothing more comes.
    """

    def __init__(self) -> None:
        self.boxes: dict[tuple[int, int], list[Any]] = {}
        self.last: dict[tuple[int, int], Any] = {}
        self.count = 0
        self.is_over = False


_END = object()
_INTEGERS = {int}
WAITS = frozenset((Does.ACQUIRE, Does.WAIT))
"""What waits for a stage, to fill or to read it."""


def walks_of(skeleton: Skeleton, case: Case, is_sketch: bool = False) -> Walks:
    """The steps of all teams, or, in a sketch, nothing but their ways. A team that asks for a
    message waits until it was sent.
    """
    slots: list[Any] = [0] * skeleton.slots
    for slot, constant in skeleton.constants.items():
        slots[slot] = constant
    for slot, argument in skeleton.inputs.items():
        slots[slot] = ("input", argument.index)
    nodes, kind = (skeleton.sketch, _Sketch) if is_sketch else (skeleton.nodes, _Walk)
    sent = _Messages()
    walks = [kind(at, plan, slots, case, sent) for at, plan in enumerate(skeleton.teams)]
    waiting = [(walk, walk.run(nodes)) for walk in walks]
    while waiting:
        known = sent.count
        rest = [(walk, way) for walk, way in waiting if next(way, _END) is not _END]
        # Nobody sends what these ask for, where none has gone on.
        sent.is_over = len(rest) == len(waiting) and sent.count == known
        waiting = rest
    trips: dict[Operation, set[int]] = {}
    entered: dict[Body, tuple[int, int]] = {}
    shut: dict[Body, Any] = {}
    for walk in walks:
        for op, counts in walk.trips.items():
            trips.setdefault(op, set()).update(counts)
        entered = walk.entered | entered
        shut |= walk.shut
    cut = {walk.team: walk.cut for walk in walks if walk.cut is not None}
    steps = tuple(tuple(walk.steps) for walk in walks)
    ways = tuple(tuple(walk.way) for walk in walks)
    left_out = frozenset[int]().union(*(walk.left_out for walk in walks))
    runs = tuple(walk.runs for walk in walks)
    return Walks(steps, trips, entered, shut, ways, cut, left_out, runs)


class _Walk:
    """One team on its way through the program."""

    def __init__(
        self, number: int, plan: TeamPlan, slots: list[Any], case: Case, sent: _Messages
    ) -> None:
        self.team, self.plan, self.case, self.sent = number, plan, case, sent
        self.slots = slots[:]
        self.slots[INSTANCE] = plan.instance
        self.steps: list[Step] = []
        self.trips: dict[Operation, set[int]] = {}
        self.entered: dict[Body, tuple[int, int]] = {}
        self.shut: dict[Body, Any] = {}
        # Which side of each branch, and how many trips of each loop.
        self.way: list[int] = []
        self.cut: Operation | None = None
        self.left_out: set[int] = set()
        self.runs: dict[Operation, list[tuple[int, int]]] = {}
        self.claims = 0
        # By ring: the position of the last stage that the team waited for, to fill or to read it.
        self.waited: dict[int, int] = {}
        self.received: dict[tuple[int, int], int] = {}

    def run(self, nodes: Iterable[Any]) -> Way:
        """Walk to the end."""
        try:
            yield from self.play(nodes)
        except _TooLong as cut:
            self.cut = cut.op

    def number(self, value: Any) -> int:
        return value if type(value) is int else self.case.numbers(value)

    # Control.

    def play(self, nodes: Iterable[Any]) -> Way:
        slots, steps, waited = self.slots, self.steps, self.waited
        number = self.number
        for node in nodes:
            kind = type(node)
            if kind is Line:
                key = node.key(slots)
                taken = node.steps.get(key)
                if taken is None:
                    taken = self.first_steps(node, key)
                steps += taken
                for at, ring in node.waits:
                    waited[ring] = taken[at].position
            elif kind is Event:
                if self.event(node):
                    yield from self.receive(node)
            elif kind is Advance:
                slots[node.state] += 1
            elif kind is Sum:
                one, other = slots[node.one], slots[node.other]
                if type(one) is not int:
                    one = number(one)
                if type(other) is not int:
                    other = number(other)
                slots[node.slot] = node.function(one, other)
            elif kind is Place:
                slots[node.position] = position = slots[node.state]
                slots[node.stage] = position % node.stages
            elif kind is Number:
                slots[node.slot] = node.step([slots[at] for at in node.operands], number)
            elif kind is Loop:
                yield from self.loop(node)
            elif kind is Branch:
                yield from self.branch(node)
            elif kind is While:
                yield from self.rounds(node)
            elif kind is Part and node.role == self.plan.role:
                yield from self.play(node.body)

    def enter(self, op: Operation, region: int) -> None:
        self.entered.setdefault((id(op), region), (self.team, len(self.steps)))

    def branch(self, node: Branch) -> Way:
        condition = self.slots[node.condition]
        side = 0 if self.number(condition) else 1
        if type(condition) is not int:
            self.shut[id(node.op), 1 - side] = condition
        self.way.append(side)
        self.enter(node.op, side)
        body, given = node.sides[side]
        if body:
            yield from self.play(body)
        if given:
            _move(self.slots, given)

    def loop(self, node: Loop) -> Way:
        slots = self.slots
        lower, upper, step = map(self.number, [slots[at] for at in node.bounds])
        trips: Sequence[int] = range(lower, upper, max(1, step))
        self.trips.setdefault(node.op, set()).add(len(trips))
        if node.repeats:
            trips = trips[:_TRIPS_THAT_REPEAT]
        elif len(trips) > self.case.most_trips:
            trips = self.shortened(node.op, trips)
        self.way.append(len(trips))
        self.runs.setdefault(node.op, []).append((len(self.steps), len(trips)))
        if trips:
            self.enter(node.op, 0)
        carried = node.carried
        for argument, first, _, _ in carried:
            slots[argument] = slots[first]
        around, last = slots[LAST], trips[-1] if trips else 0
        following = [(following, argument) for argument, _, following, _ in carried]
        for index in trips if node.body else ():
            if len(self.steps) > self.case.most_steps:
                raise _TooLong(node.op)
            slots[node.index] = index
            slots[node.trip] += 1
            slots[LAST] = int(index == last)
            yield from self.play(node.body)
            if carried:
                _move(slots, following)
        slots[LAST] = around
        if carried:
            _move(slots, [(argument, result) for argument, _, _, result in carried])

    def shortened(self, op: Operation, trips: Sequence[int]) -> Sequence[int]:
        """The first trips of a long loop and its last ones: rings come round in the others."""
        if not self.case.period:
            raise _TooLong(op)
        left_out = self.leave_out(len(trips))
        first = (len(trips) - left_out) // 2
        return [*trips[:first], *trips[first + left_out :]]

    def leave_out(self, trips: int) -> int:
        """How many of some trips are left out."""
        most, period = self.case.most_trips, self.case.period
        left_out = (trips - most) // period * period if period and trips > most else 0
        self.left_out |= {left_out} if left_out else set()
        return left_out

    def advance(self, event: Event) -> int:
        """How far a state goes on: as many stages as another role's loop has trips."""
        count = self.number(self.slots[event.value])
        count -= self.leave_out(count)
        self.way.append(count)
        return count

    def tell(self, event: Event, value: int) -> None:
        """Tell the number of an event, and what says where its accesses are."""
        slots, told = self.slots, event.told
        assert told is not None
        self.way += [value, *[self.number(slots[slot]) for slot in told]]

    def is_absent(self, event: Event) -> bool:
        """Whether the condition of an event does not hold."""
        is_absent = not self.number(self.slots[event.pred])
        self.way.append(int(is_absent))
        return is_absent

    def rounds(self, node: While) -> Way:
        slots, case = self.slots, self.case
        _move(slots, node.firsts)
        count, around = 0, slots[LAST]
        # Which round is the last one nobody knows ahead.
        slots[LAST] = 0
        while True:
            yield from self.play(node.before)
            if not self.number(slots[node.condition]):
                break
            if case.period and count >= case.most_trips:
                self.left_out.add(-1)
                break
            _move(slots, node.passed)
            self.way.append(1)
            self.enter(node.op, 1)
            slots[node.trip] += 1
            yield from self.play(node.after)
            _move(slots, node.nexts)
            count += 1
            if count > case.most_trips or len(self.steps) > case.most_steps:
                raise _TooLong(node.op)
        self.way.append(0)
        slots[LAST] = around
        self.trips.setdefault(node.op, set()).add(count)
        _move(slots, node.results)

    # Events.

    def event(self, event: Event) -> bool:
        """Take the step of an event; whether a message is to be received."""
        slots, does = self.slots, event.does
        if event.pred >= 0 and self.is_absent(event):
            if event.touches:
                self.steps.append(Step(event, reaches=self.reaches(event), is_absent=True))
            return False
        if event.is_of_cta and self.team:
            return False  # All threads of the CTA do it, once.
        if does is Does.ADVANCE:
            slots[event.state] += self.advance(event)
            return False
        step = self.step(event)
        if does in WAITS:
            self.waited[event.ring] = step.position
        if event.told is not None:
            self.tell(event, step.value)
        if event.touches or does is not Does.CLAIM:
            self.steps.append(step)
        if does is Does.SEND:
            self.send(event)
        return does is Does.RECEIVE

    def first_steps(self, line: Line, key: Any) -> Sequence[Step]:
        """The steps of a line of events, which are those in other cases, and of other teams, too,
        where slots have integers.
        """
        taken = [self.first_step(event) for event in line.events]
        if type(key) is int or {*map(type, key)} == _INTEGERS:
            line.steps[key] = taken
        return taken

    def first_step(self, event: Event) -> Step:
        """The same of one event."""
        assert event.key is not None
        key = event.key(self.slots)
        step = event.steps.get(key)
        if step is None:
            step = self.step(event)
            if type(key) is int or {*map(type, key)} == _INTEGERS:
                event.steps[key] = step
        return step

    def step(self, event: Event) -> Step:
        """The step of an event where the team stands."""
        position = self.slots[event.state] if event.state >= 0 else 0
        value = self.value(event) if event.is_numeric else 1
        return Step(event, position, value, self.reaches(event) if event.touches else ())

    def reaches(self, event: Event) -> tuple[Reach, ...]:
        """What the touches of an event reach."""
        slots, touches = self.slots, event.touches
        at, is_last = tuple([slots[slot] for slot in event.coordinates]), bool(slots[LAST])
        return tuple(
            [
                Reach(
                    event, touch, event.engine, touch.writes, place, touch.mask << place,
                    -1 if touch.stage is None else touch.stage.ring, self.stage(touch), at, is_last,
                )
                for touch, place in zip(touches, self.places(touches), strict=True)
            ]
        )  # fmt: skip

    def value(self, event: Event) -> int:
        """The number of a step; what an op gives of itself is in its slot then."""
        slots, does = self.slots, event.does
        value = 1 if event.value < 0 else self.number(slots[event.value])
        if does is Does.RESPOND or does is Does.CLAIM:
            slots[event.result] = self.claimed(value)
            return 1
        if does is Does.GATHER:
            # Who is alone is the last one, and meets nobody.
            is_alone = event.value >= 0 and value == 1
            if event.result >= 0:
                slots[event.result] = 1 if is_alone else ("condition", event.op.name)
            return int(is_alone)
        return int(bool(value))

    def claimed(self, total: int) -> int:
        """The next work item of a CTA, as often as the case says, then none."""
        self.claims += 1
        if total < 2 or self.claims >= self.number(CLAIMS):
            return total
        return self.number(("claims", "item", total))

    def mailbox(self, event: Event) -> tuple[tuple[int, int], tuple[int, int]]:
        """Where a message lies: at a position of a ring, if at one, and at a place."""
        (touch,) = event.touches
        stage, (place,) = self.stage(touch), self.places(event.touches)
        return (touch.arena, place if stage is None else -1 - stage), (touch.arena, place)

    def send(self, event: Event) -> None:
        mailbox, place = self.mailbox(event)
        message = self.slots[event.value]
        self.sent.boxes.setdefault(mailbox, []).append(message)
        self.sent.last[place] = message
        self.sent.count += 1

    def receive(self, event: Event) -> Way:
        """Take the next message at a place, in the order of their sending; the last one that lies
        there where no other comes.
        """
        mailbox, place = self.mailbox(event)
        count = self.received.get(mailbox, 0)
        messages = self.sent.boxes.setdefault(mailbox, [])
        while count >= len(messages) and not self.sent.is_over:
            yield
        has_come = count < len(messages)
        self.slots[event.result] = messages[count] if has_come else self.sent.last.get(place, 0)
        self.received[mailbox] = count + 1

    def places(self, touches: Iterable[Touch]) -> list[int]:
        """Where accesses begin, in granules."""
        slots, places = self.slots, []
        for touch in touches:
            place = touch.start
            for slot, factor in touch.terms:
                value = slots[slot]
                place += (value if type(value) is int else self.number(value)) * factor
            places.append(place)
        return places

    def stage(self, touch: Touch) -> int | None:
        """The position in its ring of the stage that an access is to."""
        stage = touch.stage
        if stage is None:
            return None
        return self.waited.get(stage.ring) if stage.slot == OF_NO_STATE else self.slots[stage.slot]


class _Sketch(_Walk):
    """One team on its way through the sketch of the program."""

    def event(self, event: Event) -> bool:
        slots, does = self.slots, event.does
        if event.pred >= 0 and self.is_absent(event):
            return False
        if does is Does.ADVANCE:
            slots[event.state] += self.advance(event)
            return False
        self.tell(event, self.value(event) if event.is_numeric else 1)
        if does is Does.SEND:
            self.send(event)
        return does is Does.RECEIVE


# What does more than take a step, or gives a number.
_KEEPS_NO_STEPS = frozenset(
    (Does.ADVANCE, Does.CLAIM, Does.GATHER, Does.RESPOND, Does.SEND, Does.RECEIVE)
)


def note_key(event: Event) -> None:
    """Fill in which slots say what the steps of an event are, where slots alone do."""
    stages = [touch.stage.slot for touch in event.touches if touch.stage is not None]
    if event.pred >= 0 or event.is_of_cta or event.does in _KEEPS_NO_STEPS:
        return
    if OF_NO_STATE in stages:
        return
    places = [slot for touch in event.touches for slot, _ in touch.terms]
    asked = {*event.coordinates, *stages, *places}
    asked |= {LAST} if event.touches and not event.is_still else set()
    asked |= {event.value} if event.is_numeric else set()
    asked |= {event.state} if event.state >= 0 else set()
    event.asked = frozenset(asked - {-1})
    event.key = itemgetter(*event.asked or (INSTANCE,))


def _move(slots: list[Any], pairs: Iterable[tuple[int, int]]) -> None:
    """Assign at once."""
    values = [(target, slots[source]) for source, target in pairs]
    for target, value in values:
        slots[target] = value


def teams_of(skeleton: Skeleton) -> Iterator[TeamPlan]:
    """The teams of a kernel: the instances and turns of each role, or all of its warps."""
    if not skeleton.roles:
        yield TeamPlan(-1, "main", skeleton.warps)
    for at, role in enumerate(skeleton.roles):
        warps = len(role.warp_range) // role.teams
        size = skeleton.turns.get(at) or warps
        is_elected, is_paired = role.elect is not None, role.pair is not None
        for instance in range(role.teams):
            for turn in range(warps // size):
                name = role.role.data
                if role.teams > 1:
                    name += f" #{instance}"
                if size < warps:
                    name += f".{turn}"
                yield TeamPlan(at, name, size, turn * size, instance, turn, is_elected, is_paired)
