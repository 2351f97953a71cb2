"""The sketch of a program: what decides which way its teams go, and which numbers their accesses
and barriers take, without the accesses and barriers themselves. Two cases in which all teams go one
way have the same steps. And rounds that repeat in straight lines: a loop that was unrolled, such as
that of the pieces of an epilogue, does the same to memory again and again, and a few of its rounds
stand for all. What is left of a straight line is walked as lines of events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from .events import Does, Engine
from .nodes import (
    INSTANCE,
    Advance,
    Branch,
    Event,
    Line,
    Loop,
    Node,
    Number,
    Part,
    Place,
    Sum,
    While,
)
from .steps import WAITS

_Kind = TypeVar("_Kind")
# What gives a number, or sends one, or says where those that meet go on.
_NUMBERS = frozenset((Does.SEND, Does.RECEIVE, Does.RESPOND, Does.CLAIM, Does.GATHER))
_ACTS = (Event, Advance)
_MESSAGES = frozenset((Does.SEND, Does.RECEIVE))
# What a role does by itself, and the same each time.
_OF_ONE_ROLE = frozenset((Does.NOTHING, Does.BARRIER, Does.PROXY_FENCE, Does.TENSOR_FENCE))
# Rounds that stay at least: one behind what is in front of all of them, and one behind a round.
_ROUNDS_THAT_STAY = 2
# Events of a round, which is one of a few pieces of a tile.
_MOST_EVENTS = 64
_GROUPS = frozenset((Does.GROUP_COMMIT, Does.GROUP_WAIT))
_ENGINES = frozenset((Engine.THREADS, Engine.BULK_STORE))
# All that a run asks of an event. What is told of it names its op.
_ASKED = attrgetter(
    *(
        attribute.name
        for attribute in fields(Event)
        if attribute.name not in ("op", "told", "asked", "key", "steps", "perform", "users")
    )
)


def sketched(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes that the ways of all teams depend on."""
    every = list(_all(nodes))
    stages = {INSTANCE, *(node.stage for node in every if type(node) is Place)}
    read = {slot for node in every for slot in _read(node, stages)}
    places = [
        node
        for node in every
        if type(node) is Place and not read.isdisjoint((node.stage, node.position))
    ]
    return _kept(nodes, stages, set(map(id, places)), {node.state for node in places})


def acts(nodes: Iterable[Node]) -> bool:
    """Whether there are events in some nodes, however deep."""
    return any(type(node) in _ACTS or any(map(acts, bodies_of(node))) for node in nodes)


def repeats(body: Iterable[Node]) -> bool:
    """Whether each trip of a loop that carries nothing does the same: accesses of threads at places
    that the trip does not say, fences, and barriers of their own role. What orders such trips is
    the same from one to the next.
    """
    every = list(_all(body))
    made = {slot for node in every for slot in _made_by(node)}
    return all(_is_repeated(node, made) for node in every)


def _made_by(node: Node) -> tuple[int, ...]:
    """The slots that a node without nodes in it, or a loop, assigns."""
    match node:
        case Sum() | Number():
            return (node.slot,)
        case Place():
            return node.stage, node.position
        case Loop():
            return node.index, node.trip
        case _:
            return ()


def _is_repeated(node: Node, made: set[int]) -> bool:
    match node:
        case Sum() | Number() | Place():
            return True
        case Loop():
            return not node.carried and made.isdisjoint(node.bounds)
        case Event():
            if node.does not in _OF_ONE_ROLE or node.engine is not Engine.THREADS:
                return False
            is_of_others = node.pred >= 0 or node.value >= 0 or bool(node.role_names)
            places = {slot for touch in node.touches for slot, _ in touch.terms}
            return not is_of_others and places.isdisjoint(made)
        case _:
            return False


def nodes_in(nodes: Iterable[Node], kind: type[_Kind]) -> Iterator[_Kind]:
    """The nodes of a kind, however deep."""
    return (node for node in _all(nodes) if isinstance(node, kind))


def _all(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        for body in bodies_of(node):
            yield from _all(body)


def bodies_of(node: Node) -> tuple[tuple[Node, ...], ...]:
    """The nodes inside of one."""
    match node:
        case Loop() | Part():
            return (node.body,)
        case Branch():
            return tuple(body for body, _ in node.sides)
        case While():
            return node.before, node.after
        case _:
            return ()


def _read(node: Node, stages: set[int]) -> tuple[int, ...]:
    """The slots that a node reads, but for stages of rings of which it takes the place."""
    match node:
        case Sum():
            return node.one, node.other
        case Number():
            return node.operands
        case Event():
            return tuple(_read_by(node, stages))
        case Loop():
            return (*node.bounds, *(slot for pair in node.carried for slot in (pair[1], pair[2])))
        case Branch():
            return (node.condition, *(slot for _, pairs in node.sides for slot, _ in pairs))
        case While():
            moves = (node.firsts, node.passed, node.results, node.nexts)
            return (node.condition, *(slot for pairs in moves for slot, _ in pairs))
        case _:
            return ()


def _read_by(event: Event, stages: set[int]) -> Iterator[int]:
    yield event.pred
    yield event.value
    yield from _places_of(event, stages)


def _places_of(event: Event, stages: set[int]) -> Iterator[int]:
    """The slots that say where accesses are, but for stages of rings."""
    for touch in event.touches:
        for slot, _ in touch.terms:
            if slot not in stages or event.does in _MESSAGES:
                yield slot


def _counts(event: Event, stages: set[int]) -> bool:
    """Whether an event takes or gives a number that the way to it does not say."""
    if event.does is Does.ADVANCE or event.pred >= 0 or event.value >= 0 or event.does in _NUMBERS:
        return True
    return any(slot not in stages for touch in event.touches for slot, _ in touch.terms)


def _kept(
    nodes: Iterable[Node], stages: set[int], places: set[int], states: set[int]
) -> tuple[Node, ...]:
    """Nodes without those that decide nothing."""
    result: list[Node] = []

    def inside(body: tuple[Node, ...]) -> tuple[Node, ...]:
        return _kept(body, stages, places, states)

    for node in nodes:
        match node:
            case Event():
                if _counts(node, stages):
                    # Its steps are taken one by one, so that those who go tell the way.
                    node.told, node.key = tuple(_places_of(node, stages)), None
                    result.append(node)
            case Advance():
                if node.state in states:
                    result.append(node)
            case Place():
                if id(node) in places:
                    result.append(node)
            case Loop():
                body = inside(node.body)
                if not node.carried and all(type(one) in (Sum, Number, Place) for one in body):
                    body = ()
                result.append(node._replace(body=body))
            case Branch():
                sides = tuple((inside(body), pairs) for body, pairs in node.sides)
                result.append(node._replace(sides=sides))
            case While():
                before, after = inside(node.before), inside(node.after)
                result.append(node._replace(before=before, after=after))
            case Part():
                result.append(node._replace(body=inside(node.body)))
            case _:
                result.append(node)
    return tuple(result)


def shortened(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Nodes without most rounds of what repeats in straight lines.

    A round is what one role does by itself: accesses of threads and bulk stores at places that are
    the same in each round, fences, groups, and barriers of the role. Behind the first round, and as
    many more as waits let groups stay at work, each one finds the state that the round before it
    found, but for times, which all are later. So what orders two rounds orders all of them; what
    another role does in front of or behind them is ordered with those that are left out where it is
    with the first and the last one, which touch the same and are earlier and later. A round of
    which anything is unlike the others repeats none of them, and stays.
    """
    result: list[Node] = []
    line: list[Event] = []
    for node in nodes:
        if type(node) is Event and _is_of_one_role(node):
            line.append(node)
            continue
        result += _without_repetitions(line)
        line = []
        result.append(with_bodies(node, shortened))
    return (*result, *_without_repetitions(line))


def _is_of_one_role(event: Event) -> bool:
    if event.pred >= 0 or event.value >= 0 or event.role_names or event.is_of_cta:
        return False
    is_of_group = event.does in _GROUPS and event.engine is Engine.BULK_STORE
    return event.engine in _ENGINES and (event.does in _OF_ONE_ROLE or is_of_group)


def _without_repetitions(line: list[Event]) -> list[Event]:
    """Events of one role without rounds that repeat those before."""
    if len(line) < _ROUNDS_THAT_STAY:
        return line
    numbers: dict[Any, int] = {}
    keys = [numbers.setdefault(_ASKED(event), len(numbers)) for event in line]
    kept: list[Event] = []
    at, count = 0, len(line)
    while at < count:
        for period in range(1, min(_MOST_EVENTS, (count - at) // _ROUNDS_THAT_STAY) + 1):
            if keys[at] != keys[at + period]:
                continue
            end = at + period
            while end < count and keys[end] == keys[end - period]:
                end += 1
            rounds = (end - at) // period
            stay = _rounds_that_stay(line[at : at + period])
            if rounds > stay:
                at += (rounds - stay) * period
                kept += line[at:end]
                at = end
                break
        else:
            kept.append(line[at])
            at += 1
    return kept


def _rounds_that_stay(events: Sequence[Event]) -> int:
    """How many rounds of some events do what those behind them do: groups of those in front are at
    work, until as many have come as a wait lets stay.
    """
    commits = sum(event.does is Does.GROUP_COMMIT for event in events)
    most = max((event.count for event in events if event.does is Does.GROUP_WAIT), default=0)
    return _ROUNDS_THAT_STAY - 1 + max(1, -(-most // max(1, commits)))


def lined(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Nodes with events in a row that have keys as lines: of what asks for the same as another, or
    for less, so that the steps of a line come again where those of its events do.
    """
    result: list[Node] = []
    line: list[Event] = []
    asked = frozenset[int]()
    for node in nodes:
        event = node if type(node) is Event and node.key is not None else None
        if line and (event is None or not (event.asked <= asked or event.asked >= asked)):
            result.append(_line(line, asked))
            line, asked = [], frozenset[int]()
        if event is not None:
            line.append(event)
            asked |= event.asked
        else:
            result.append(with_bodies(node, lined))
    return (*result, _line(line, asked)) if line else tuple(result)


def _line(events: Sequence[Event], asked: frozenset[int]) -> Line:
    key = itemgetter(*asked or (INSTANCE,))
    waits = ((at, event.ring) for at, event in enumerate(events) if event.does in WAITS)
    return Line(tuple(events), key, {}, tuple(waits))


def with_bodies(node: Node, change: Callable[[tuple[Node, ...]], tuple[Node, ...]]) -> Node:
    """A node with what a function makes of the nodes inside of it."""
    match node:
        case Loop() | Part():
            return node._replace(body=change(node.body))
        case Branch():
            return node._replace(sides=tuple((change(body), to) for body, to in node.sides))
        case While():
            return node._replace(before=change(node.before), after=change(node.after))
        case _:
            return node
