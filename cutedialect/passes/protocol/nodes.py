"""What a skeleton is made of: events with their accesses, numbers, and control flow.

Numbers live in slots of a role's list. Views of shared and tensor memory are no numbers: a view is
an arena, a layout, and a place that is a sum of a constant and of slots with factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from xdsl.ir import Operation

from cutedialect.dialects import cute, pipeline
from cutedialect.layout import Layout

from .events import Does, Engine
from .regions import Granules
from .scalars import Step

# The slots of the instance's number, and of whether the innermost loop is in its last trip.
INSTANCE, LAST = 0, 1


class Stage(NamedTuple):
    """Which stage of a ring a tile is: that of the position in a slot, or, where its index is of no
    state (`OF_NO_STATE`), that of the position which its role waited for last.
    """

    ring: int
    slot: int


OF_NO_STATE = -1


class View(NamedTuple):
    """A tile of an arena: layout in elements, and where it begins, in granules."""

    arena: int
    layout: Layout
    granules: Granules
    start: int
    terms: tuple[tuple[int, int], ...]
    stage: Stage | None = None


class Touch(NamedTuple):
    """One access: granules of all warps and of each (None: each may touch all), from a place on.
    What `keeps` is written and read, where the event says so.
    """

    arena: int
    mask: int
    parts: tuple[int, ...] | None
    start: int
    terms: tuple[tuple[int, int], ...]
    writes: bool
    keeps: bool = False
    stage: Stage | None = None


@dataclass(eq=False, slots=True)
class Event:
    """What an op does: accesses, registers (by number) that asynchronous multiplies use, and how it
    synchronizes. Its `coordinates` say where its role is: the slots of its states of rings and of
    the trips of the loops around it; `names` has the number of the ring, or that slot's below zero.
    What comes in front of the roles `is_of_cta`: all threads of the CTA do it, whatever role they
    have then. What `is_of_cluster` CTAs do together: all of a cluster, or both of a pair; a copy
    writes to other CTAs, too. One that does not `move` writes the same place each time, of no stage
    of a ring, so that no other trip's data can be there instead; one that is `still` touches
    nothing that is written by one that does.
    One whose steps are what some slots say, and nothing else, has these as `asked`, and keeps its
    `steps` by what its `key` takes of them; else it has no key.
    Its `users` are the loops that alone use what it reads, of which none may have a trip then, by
    whether it reads in the last trip of one (None: others do).
    One that decides the way has the slots that are `told` of it, beside its number. What its steps
    do to the state of a run `perform` says (None: nobody has asked yet).
    """

    op: Operation
    does: Does
    engine: Engine
    touches: tuple[Touch, ...] = ()
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    ring: int = -1
    state: int = -1
    pred: int = -1
    count: int = 0
    warps: int = 0
    is_read: bool = False
    is_before: bool = False
    is_of_cta: bool = False
    is_of_cluster: bool = False
    shows: bool = True
    exchange: int = -1
    role_names: tuple[str, ...] = ()
    value: int = -1
    result: int = -1
    is_numeric: bool = False
    coordinates: tuple[int, ...] = ()
    names: tuple[int, ...] = ()
    moves: bool = True
    is_still: bool = False
    users: dict[bool, Sequence[Operation] | None] = field(default_factory=dict)
    told: tuple[int, ...] | None = None
    asked: frozenset[int] = frozenset()
    key: Callable[[Sequence[Any]], Any] | None = None
    steps: dict[Any, Any] = field(default_factory=dict)
    perform: Callable[[Any, Any, Any], bool] | None = None


class Line(NamedTuple):
    """Events in a row that have keys: a key of them all and their steps by it, and those of them
    that wait for a stage of a ring, (number, ring).
    """

    events: tuple[Event, ...]
    key: Callable[[Sequence[Any]], Any]
    steps: dict[Any, Any]
    waits: tuple[tuple[int, int], ...]


class Number(NamedTuple):
    """A slot gets what a step makes of others."""

    slot: int
    step: Step
    operands: tuple[int, ...]


class Sum(NamedTuple):
    """A slot gets what a function makes of the integers in two others."""

    slot: int
    function: Callable[[int, int], int]
    one: int
    other: int


class Place(NamedTuple):
    """Slots get the position of a state, and its stage."""

    stage: int
    position: int
    state: int
    stages: int


class Advance(NamedTuple):
    """A state goes on by one stage."""

    state: int


class Loop(NamedTuple):
    """`scf.for`: bounds, the slot that counts its trips, and (argument, first, next, result) of
    what it carries. One that `repeats` does the same to memory in each trip, and waits for no
    other role.
    """

    op: Operation
    index: int
    trip: int
    bounds: tuple[int, int, int]
    carried: tuple[tuple[int, int, int, int], ...]
    body: tuple[Any, ...]
    repeats: bool = False


class Branch(NamedTuple):
    """`scf.if`: sides, each with the slots that it gives and those that get them."""

    op: Operation
    condition: int
    sides: tuple[tuple[tuple[Any, ...], tuple[tuple[int, int], ...]], ...]


class While(NamedTuple):
    """`scf.while`."""

    op: Operation
    trip: int
    firsts: tuple[tuple[int, int], ...]
    before: tuple[Any, ...]
    condition: int
    passed: tuple[tuple[int, int], ...]
    results: tuple[tuple[int, int], ...]
    after: tuple[Any, ...]
    nexts: tuple[tuple[int, int], ...]


class Part(NamedTuple):
    """The body of a role."""

    role: int
    body: tuple[Any, ...]


Node = Number | Sum | Place | Advance | Event | Line | Loop | Branch | While | Part


Body = tuple[int, int]
"""The identity of an op and the number of its region, of a body that has events."""


class RingPlan(NamedTuple):
    """What the barriers of a ring count. `releases` and `commits` are the arrivals at an
    empty barrier for each of this CTA's, of threads and of commits; `stores` the arrivals at a full
    barrier for each of this CTA's threads, and `copies` the bytes that come to a stage for each
    that a copy of this CTA brings.
    """

    name: str
    stages: int
    producers: int
    consumers: int
    expected_bytes: int
    kinds: frozenset[str]
    is_released: bool
    is_in_tensor_memory: bool
    is_led: bool
    tells_pair: bool
    """Whether its commits tell both CTAs of a pair."""
    tells_readers: bool
    """Whether those behind its reads do."""
    is_shared: bool
    """Whether other CTAs of the cluster signal its barriers, as this one does theirs."""
    is_signaled: bool
    """Whether its empty barriers get arrivals for which nobody waits but who fills it."""
    releases: int
    commits: int
    stores: int
    copies: int


class Column(Enum):
    """Whose times a clock tells of, for each team."""

    THREADS = "threads"
    CORE = "tensor core"
    COPIES = "cp.async"
    TENSOR_MEMORY = "accesses of threads to tensor memory"

    __hash__ = object.__hash__


class TeamPlan(NamedTuple):
    """Warps that run in step: their role (-1: none) and its name, how many they are, the first one
    among those of the instance, and the numbers of the instance and of the turn.
    """

    role: int
    name: str
    warps: int
    offset: int = 0
    instance: int = 0
    turn: int = 0
    is_elected: bool = False
    is_paired: bool = False


@dataclass
class Skeleton:
    """A kernel: its nodes, those of them that decide the ways of its teams, the number of slots,
    arenas and registers, its rings and roles, and the bodies of loops and conditions that some case
    has to enter. `columns` has the columns of clocks of each
    role, beside those of its threads, and `owned` the numbers of those of each team.
    `item_stages` are the most stages of a ring that moves on by one for each work item, or for
    some; `some_item_rings` are those that do for some. `rests` are the numbers by which rests are
    taken. By exchange, `sends` has the bytes that come to a CTA, and `tells` the one who tells.
    """

    kernel: cute.KernelOp
    warps: int
    cluster: int
    nodes: tuple[Node, ...] = ()
    sketch: tuple[Node, ...] = ()
    slots: int = 0
    arenas: list[tuple[str, bool]] = field(default_factory=list)
    rings: list[RingPlan] = field(default_factory=list)
    roles: list[pipeline.RoleOp] = field(default_factory=list)
    teams: list[TeamPlan] = field(default_factory=list)
    turns: dict[int, int] = field(default_factory=dict)
    inputs: dict[int, Any] = field(default_factory=dict)
    constants: dict[int, int] = field(default_factory=dict)
    bodies: dict[Body, Operation] = field(default_factory=dict)
    units: dict[tuple[int, int], int] = field(default_factory=dict)
    varied: set[tuple[int, int]] = field(default_factory=set)
    rests: set[int] = field(default_factory=set)
    sends: dict[int, int] = field(default_factory=dict)
    tells: set[int] = field(default_factory=set)
    columns: set[tuple[int, Column]] = field(default_factory=set)
    owned: list[dict[Column, int]] = field(default_factory=list)
    item_stages: int = 0
    some_item_rings: set[int] = field(default_factory=set)
