"""Cases of trips: what extents, scalars, elements of tensors and conditions are, so that loops run
0, 1, S - 1, S, S + 1 and 2 S + 1 times for rings of S stages (the last for the most stages alone),
one varied at a time, a CTA gets two work items, and both sides of conditions run. All numbers of a
case come from the same inputs, so that what belongs together in the program does in the case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import lcm
from typing import TYPE_CHECKING, Any, NamedTuple

from xdsl.dialects import scf
from xdsl.ir import Operation

from .bounds import Bounds
from .findings import Finding, place_of
from .inputs import ITEMS, Inputs, key_of, name_of
from .machine import Machine
from .nodes import Body, Event, Skeleton
from .scalars import WORK_ITEMS
from .sketch import nodes_in
from .steps import CLAIMS, Case, Walks, walks_of

if TYPE_CHECKING:
    from .parted_loops import PartedLoops

_SOME_TILES = 3
_FEW_ELEMENTS = 2
# Trips that one tile along each extent makes at most, where an extent counts elements.
_MOST_OF_A_TILE = 8
# Trips of one loop, or rounds of one `scf.while`, after which a case is run shortened: usually, and
# where conditions hold, while which a loop may go on; and trips that are run where that is not
# conclusive.
_MOST_TRIPS, _MOST_TRIPS_THAT_HOLD, _MOST_TRIPS_AT_ALL = 100, 40, 400
# Steps of a team after which a case is not run to its end: of the usual ones, and of those for
# bodies that these have not entered.
_MOST_STEPS, _MOST_STEPS_FURTHER = 20_000, 2_000
# Trips of a loop, beside what is left of a period of all rings, of a case that is run shortened.
_FEW_TRIPS = 12
# More than several tiles have elements, and more than two; and tiles that are more than the first.
_LARGE_NUMBERS, _MANY_TILES = (1000, 300), 13
# Cases of which a condition is another one, so that a team enters a body from which it kept it.
_MOST_SHUT = 4
# Conditions that are tried one by one.
_MOST_CONDITIONS = 16
# Extents and scalars that part a loop at least, and what each of its parts gets then.
_PARTS = 2
_ONE_TILE = "one tile of each extent"
# What elements of tensors are, times their index and so many more: lengths, offsets, numbers of
# blocks. The large ones are several tiles.
_ELEMENTS = ((1, 1), (3, 1), (300, 1), (300, 0))
Trips = Mapping[Operation, set[int]]
"""The trips that loops had."""


class _Ran(NamedTuple):
    """A case that has run: what it asked for, and its trips."""

    asked: Mapping[Any, int]
    trips: Trips

    def is_like(self, inputs: Inputs) -> bool:
        """Whether all that the case asked for is what other inputs say."""
        answer = inputs.answer
        return all(answer(term) == number for term, number in self.asked.items())


class _Runs:
    """Runs cases, until one finds something. A case that answers all that an earlier one asked for
    as that one did is that one, and is not run again.
    """

    def __init__(self, skeleton: Skeleton) -> None:
        self.skeleton = skeleton
        self.count = 0
        self.found: list[Finding] = []
        # The loop in which a case was not run to its end, and the case, where nothing else shows
        # that its waits end.
        self.unended: list[tuple[Operation, str]] = []
        # Trips after which all rings are where they were, their barriers in the same phase, and
        # what else comes round too.
        self._period = 2 * lcm(*(ring.stages for ring in skeleton.rings), *skeleton.rests)
        self._ran: list[_Ran] = []
        self.parted = _parted(skeleton)
        # Whether steps tell the way as their sketch does: what all threads do, one team alone does.
        self._is_told = not any(
            event.told is not None and event.is_of_cta for event in nodes_in(skeleton.sketch, Event)
        )
        # The stages of rings that move on in some work items, and those that came round.
        self.rounds = {at: skeleton.rings[at].stages for at in skeleton.some_item_rings}
        self.round: set[int] = set()
        self.entered: set[Body] = set()
        # The ways that teams went, and, by body, the cases in which a term kept a team from it.
        self._went: set[tuple[int, bool]] = set()
        self._shut: dict[Body, list[tuple[str, Inputs, Any]]] = {}

    @property
    def missed(self) -> list[Operation]:
        """The ops that have a body that no case has entered."""
        bodies = self.skeleton.bodies.items()
        return list(dict.fromkeys(op for body, op in bodies if body not in self.entered))

    def leave_out(self) -> None:
        """Leave out bodies that no input enters."""
        bounds, bodies = Bounds(self.skeleton.kernel), self.skeleton.bodies
        rest = [body for body in bodies if body not in self.entered]
        for body in rest:
            if bounds.never_enters(bodies[body], body[1]):
                del bodies[body]

    @property
    def blocks(self) -> list[Any]:
        """The coordinates of the block that some case asked for."""
        asked = dict.fromkeys(term for ran in self._ran for term in ran.asked)
        return [term for term in asked if term[1] == "cute.block_idx"]

    @property
    def conditions(self) -> dict[Any, int]:
        """The conditions that some case asked for, and what it got."""
        return {
            term: number
            for ran in self._ran
            for term, number in ran.asked.items()
            if term[0] == "condition"
        }

    @property
    def shut(self) -> Iterator[tuple[str, Inputs]]:
        """Cases as earlier ones, but for a condition that kept a team from a body that no case has
        entered.
        """
        for body in self.skeleton.bodies:
            cases = self._shut.get(body, [])
            while cases and body not in self.entered:
                name, inputs, term = cases.pop(0)
                number = 1 - inputs.answer(term)
                yield f"{name}, and {term[1]} that is {number}", inputs.but(values={term: number})

    def trips(
        self,
        name: str,
        inputs: Inputs,
        most_trips: int = _MOST_TRIPS,
        most_steps: int = _MOST_STEPS,
        is_further: bool = False,
        is_new: bool = False,
    ) -> _Ran:
        """Run a case: the trips of its loops, none where some loop has too many. One that is
        further is run if a team enters a body that no case has entered. One that surely is new
        needs no sketch, which tells of others that they are not.
        """
        for ran in self._ran:
            if ran.is_like(inputs):
                return ran
        case = Case(name, inputs, most_trips, most_steps)
        walks = walks_of(self.skeleton, case) if is_new and self._is_told else None
        if walks is not None and not walks.is_whole:
            walks = None
        sketch = walks or walks_of(self.skeleton, case, is_sketch=True)
        self._note_shut(name, inputs, sketch)
        short = case._replace(most_trips=_FEW_TRIPS, most_steps=_MOST_STEPS, period=self._period)
        ways = sketch.ways
        if not sketch.is_whole:
            ways += walks_of(self.skeleton, short, is_sketch=True).ways
        key = hash(ways), sketch.is_whole
        is_new = any(body not in self.entered for body in sketch.entered)
        if key not in self._went and (is_new or not is_further):
            self._went.add(key)
            trips = self._run(case, inputs, walks or walks_of(self.skeleton, case), short)
        else:
            trips = sketch.trips if sketch.is_whole else {}
        ran = _Ran(inputs.asked, trips)
        self._ran.append(ran)
        return ran

    def _note_shut(self, name: str, inputs: Inputs, sketch: Walks) -> None:
        """Note what kept teams from bodies in a case."""
        for body, term in sketch.shut.items():
            cases = self._shut.setdefault(body, [])
            if body in self.skeleton.bodies and len(cases) < _MOST_SHUT:
                cases.append((name, inputs, term))

    def _run(self, case: Case, inputs: Inputs, walks: Walks, short: Case) -> Trips:
        """Run a case, or, where it is too long, one that is short. Gives the trips of all loops,
        none where that is too long.
        """
        self.count += 1
        if not self.round.issuperset(self.rounds):
            self.round |= {
                step.event.ring
                for steps in walks.steps
                for step in steps
                if step.position >= self.rounds.get(step.event.ring, step.position + 1)
            }
        machine = Machine(self.skeleton, case.name, walks)
        # What is found while two work items are looked for stays.
        self.found = self.found or machine.run()
        self.entered |= machine.entered()
        if self.parted is not None:
            self.parted.note(machine)
        if not walks.is_whole and not self.found:
            loop = next(iter(walks.cut.values()))
            return self._run_short(short, inputs, loop, case.most_trips)
        return walks.trips if walks.is_whole else {}

    def _run_short(self, case: Case, inputs: Inputs, loop: Operation, most_trips: int) -> Trips:
        """Run a case of which a loop is too long without what repeats of it, and, where that is too
        long, with one work item of a CTA. What is found is of the program where all loops were
        shortened by as much, as they are where an extent is less; where they were not, it proves
        nothing. Gives the trips of all loops, none where it is too long.
        """
        walks = walks_of(self.skeleton, case)
        if not walks.is_whole:
            one_item = inputs.but(grid=ITEMS * inputs.grid, claims=1)
            case = case._replace(name=f"{case.name}, one work item", numbers=one_item)
            walks = walks_of(self.skeleton, case)
        machine = Machine(self.skeleton, case.name, walks)
        found = machine.run() if walks.is_whole else []
        is_parted = len(walks.left_out) > 1 or -1 in walks.left_out
        if walks.is_whole and not (found and is_parted):
            self.found = found
            self.entered |= machine.entered()
            return walks.trips
        if most_trips == _MOST_TRIPS:
            case = Case(case.name, inputs, _MOST_TRIPS_AT_ALL, _MOST_STEPS)
            walks = walks_of(self.skeleton, case)
            if walks.is_whole:
                machine = Machine(self.skeleton, case.name, walks)
                self.found = machine.run()
                self.entered |= machine.entered()
                return walks.trips
        self.unended.append((loop, case.name))
        return walks.trips if walks.is_whole else {}


class Checked(NamedTuple):
    """What all cases say: the findings of the first that has some, and how many cases ran. Where
    there are no findings: the ops with a body that no case has entered, and the loops (with the
    names of cases) in which cases were not run to their ends, and what they do does not repeat.
    """

    findings: list[Finding]
    cases: int
    missed: list[Operation]
    unended: list[tuple[Operation, str]]


def check(skeleton: Skeleton) -> Checked:
    """Run all cases."""
    runs = _Runs(skeleton)
    for _ in _cases(runs):
        if runs.found:
            return Checked(runs.found, runs.count, [], [])
    strays = [] if runs.parted is None else [*runs.parted.strays()]
    return Checked(strays, runs.count, runs.missed, runs.unended)


def _parted(skeleton: Skeleton) -> PartedLoops | None:
    """What compares cases of loops that begin where others end, if there are some. What roles send
    each other is in rings, at positions that are compared in each case.
    """
    loops = [op for op in skeleton.bodies.values() if isinstance(op, scf.ForOp)]
    ends = {loop.ub for loop in loops}
    if skeleton.roles or not any(loop.lb in ends for loop in loops):
        return None
    from .parted_loops import PartedLoops

    return PartedLoops(skeleton)


def first_case(skeleton: Skeleton) -> Case:
    """A case in which a CTA has two work items, if one tile along each extent, or two along one of
    them, give it so many.
    """
    return Case(_ONE_TILE, _with_two_items(_Runs(skeleton))[0])


def one_item(skeleton: Skeleton) -> Case:
    """A case in which a CTA has one work item."""
    inputs = first_case(skeleton).numbers
    return Case(_ONE_TILE, inputs.but(grid=ITEMS * inputs.grid, claims=1))


def _cases(runs: _Runs) -> Iterator[None]:
    """Run all cases, those that look for inputs first; asks after each whether to go on."""
    skeleton = runs.skeleton
    _find_smaller_units(runs)
    base, asked, items = _with_two_items(runs)
    two = runs.trips(_ONE_TILE, base)
    # With other trips than one and some, one instance of a role has two items, and others have one.
    instances = max((role.teams for role in skeleton.roles), default=1)
    fewer = {} if items is None else {items: base.tiles[items] * (instances + 1) // (2 * instances)}
    yield
    for name, inputs in _item_by_item(runs, base, list(two.asked), items):
        runs.trips(name, inputs, is_new=True)
        yield
    runs.trips("no tiles", base.but(tiles={"all": 0}), is_new=True)
    yield
    stages = sorted({ring.stages for ring in skeleton.rings} | {2, 3})
    # Behind 2 S + 1 trips barriers are in the phase in which they are behind one, and have come
    # round before: with those of the ring of most stages, all have.
    most = 2 * stages[-1] + 1
    counts = sorted({0, 1, most} | {n for s in stages for n in (s - 1, s, s + 1)})
    inner: list[Any] = []
    for key in filter(None, map(key_of, asked)):
        if key[0] != "input" and key not in skeleton.varied:
            yield from _of_items(runs, base, key)
        else:
            yield from _of_extent(runs, base, key, counts, fewer, inner)
    yield from _together(runs, base, asked, counts[-1], inner)
    yield from _of_data(runs, base, asked, items, inner)
    yield from _of_the_rest(runs, base, asked, counts, inner)


def _of_the_rest(
    runs: _Runs, base: Inputs, asked: Sequence[Any], counts: Sequence[int], inner: Sequence[Any]
) -> Iterator[None]:
    """Run cases for bodies that the usual ones have not entered."""
    scalars = [term for term in asked if term[0] == "input"]
    extents = [key for key in inner if key not in scalars]
    if runs.missed:
        runs.leave_out()
    every = dict.fromkeys(filter(None, (*extents, *map(key_of, asked))), _SOME_TILES)
    tiles = every | dict.fromkeys(scalars, _LARGE_NUMBERS[0])
    many = base.but(tiles=dict.fromkeys(extents, counts[-1]))
    bases = [many, base.but(tiles=tiles)]
    if any(term[1] == "cute.read" for term in asked):
        # Lengths between offsets need two elements to move at once: by one, or by many tiles.
        data, above = _ELEMENTS[0]
        bases.append(base.but(data=data, above=above))
        bases.append(base.but(tiles=tiles, data=_LARGE_NUMBERS[0], above=0))
    rest = chain(
        _led(runs, bases),
        _further(runs, base, extents, scalars, counts),
        _led(runs, bases, is_signed=True),
    )
    while runs.missed:
        name, inputs = next(runs.shut, None) or next(rest, ("", None))
        if inputs is None:
            return
        # A loop may go on while a condition holds, which some cases say that it always does.
        holds = bool(inputs.has_values or inputs.values)
        most = _MOST_TRIPS_THAT_HOLD if holds else _MOST_TRIPS
        runs.trips(name, inputs, most, _MOST_STEPS_FURTHER, is_further=True)
        yield


def _of_items(runs: _Runs, base: Inputs, key: Any) -> Iterator[None]:
    """An extent that says only how many work items there are: as many for a CTA as before, and
    none.
    """
    grid = base.grid * max(1, _SOME_TILES // base.tiles.get(key, 1))
    for tiles, changes in ((_SOME_TILES, {"grid": grid}), (0, {})):
        inputs = base.but(tiles={key: tiles}, **changes)
        runs.trips(name_of(runs.skeleton, key, tiles), inputs)
        yield


def _of_extent(
    runs: _Runs,
    base: Inputs,
    key: Any,
    counts: Sequence[int],
    fewer: Mapping[Any, int],
    inner: list[Any],
) -> Iterator[None]:
    """An extent, or a scalar, on which loops depend: `inner` gets it where their trips change.
    What is `fewer` makes fewer items, which is enough where one and some tiles were run with all.
    """
    skeleton = runs.skeleton
    instances = max((role.teams for role in skeleton.roles), default=1)

    def vary(tiles: int, is_new: bool) -> dict[Operation, frozenset[int]]:
        name = name_of(skeleton, key, tiles)
        is_usual = tiles in (1, _SOME_TILES, counts[-1])
        inputs = base.but(tiles={**({} if is_usual else fewer), key: tiles})
        if tiles == counts[-1]:
            # Another item of an instance would begin in a state of the rings in which one does with
            # fewer trips, go on as that one and then as this item does.
            inputs = inputs.but(grid=ITEMS * inputs.grid, claims=instances)
        return _inner(runs.trips(name, inputs, is_new=is_new).trips)

    usual = _inner(runs.trips(_ONE_TILE, base).trips)
    # What changes no more with many than with some is done with some and with none.
    some = many = vary(_SOME_TILES, is_new=False)
    yield
    if some != usual:
        inner.append(key)
        many = vary(counts[-1], is_new=True)
        yield
    for tiles in counts if many != some else (0,):
        vary(tiles, is_new=many != some)
        yield
    if some != usual and skeleton.units.get(key, 1) > 1:
        # The last tile may be a part of one, and its loop another one.
        name = f"{name_of(skeleton, key, counts[-1])} but for an element"
        rest = base.but(tiles={key: counts[-1]}, absent=1)
        runs.trips(name, rest, is_further=True)
        yield


def _together(
    runs: _Runs, base: Inputs, asked: Sequence[Any], most: int, inner: Sequence[Any]
) -> Iterator[None]:
    """Scalars may part the trips of one loop among several: all trips are the first one's, or each
    has some.
    """
    scalars = [term for term in asked if term[0] == "input"]
    if not scalars or not inner or len({*scalars, *inner}) < _PARTS:
        return
    instances = max((role.teams for role in runs.skeleton.roles), default=1)
    one = base.but(grid=ITEMS * base.grid, claims=instances)
    for scalar in (most, most // _PARTS):
        tiles = dict.fromkeys(inner, most) | dict.fromkeys(scalars, scalar)
        several = f"{most} tiles along each extent and scalars of {scalar}"
        runs.trips(several, one.but(tiles=tiles))
        yield


def _of_data(
    runs: _Runs, base: Inputs, asked: Sequence[Any], items: Any, inner: Sequence[Any]
) -> Iterator[None]:
    """Conditions that hold, elements of tensors, and other blocks."""
    cluster = runs.skeleton.cluster
    kinds = {term[0] for term in asked}
    if "condition" in kinds:
        # Code that only they reach may go through tiles element by element.
        elements = base.but(holds=True, has_tiles=False, tiles=dict.fromkeys(inner, _FEW_ELEMENTS))
        runs.trips("conditions that hold, and extents of some elements", elements)
        yield
        # What they do in one trip meets what others do in the next one.
        holding = base.but(holds=True, tiles=dict.fromkeys(inner, _SOME_TILES))
        runs.trips("conditions that hold", holding, most_trips=_MOST_TRIPS_THAT_HOLD)
        yield
    if "number" in kinds:
        for data, above in _ELEMENTS:
            runs.trips(f"elements of {data}", base.but(data=data, above=above))
            yield
        runs.trips("the next block", base.but(block=cluster))
        yield
        if cluster > 1:
            # One that has no tile where those of its cluster before it have one.
            fewer = {} if items is None else {items: base.tiles[items] - cluster + 1}
            block = (cluster if items is None else base.grid) - 1
            last = base.but(block=block, tiles=fewer)
            runs.trips("the last block of a cluster", last)
            yield


def _led(
    runs: _Runs, bases: Sequence[Inputs], is_signed: bool = False
) -> Iterator[tuple[str, Inputs]]:
    """Cases for bodies that no case has entered, by what leads there from some inputs, at last with
    scalars below zero: those around a body first, and none of those inside of one into which
    nothing leads.
    """
    from .paths import inputs_into, regions_around

    around = {
        body: [(id(outer), at) for outer, at in regions_around(op, body[1])]
        for body, op in runs.skeleton.bodies.items()
        if body not in runs.entered
    }
    closed: set[Body] = set()
    for body in sorted(around, key=lambda body: len(around[body])):
        op = runs.skeleton.bodies[body]
        if body in runs.entered or not closed.isdisjoint(around[body]):
            continue
        inputs = inputs_into(runs.skeleton, op, body[1], *bases, is_signed=is_signed)
        if inputs is None:
            closed.add(body)
        else:
            yield f"inputs that lead into {op.name}{place_of(op)}", inputs


def _further(
    runs: _Runs,
    base: Inputs,
    extents: Sequence[Any],
    scalars: Sequence[Any],
    counts: Sequence[int],
) -> Iterator[tuple[str, Inputs]]:
    """Cases for what the usual ones have not entered: the rest of a tile, several extents that vary
    together, other blocks, conditions one by one.
    """
    units = runs.skeleton.units
    for tiles, absent in ((_SOME_TILES, 0), (_SOME_TILES, 1), (2, 1), (1, 1)):
        some = base.but(tiles=dict.fromkeys(extents, tiles), absent=absent)
        name = f"{tiles} tile{'s' * (tiles > 1)}" + " but for an element" * absent
        yield name, some
        yield f"{name}, and registers that some value is in", some.but(has_values=True)
    for name, values in _flipped(runs):
        yield name, base.but(values=values)
    for key in extents:
        for tiles in counts[1:]:
            name = f"{name_of(runs.skeleton, key, tiles)} but for an element"
            yield name, base.but(tiles={key: tiles}, absent=1)
    together = dict.fromkeys((*extents, *(key for key, unit in units.items() if unit > 1)))
    several = base
    for tiles in (_SOME_TILES, max(counts[-1], _MANY_TILES)):
        for number in (1, *_LARGE_NUMBERS) if scalars else (1,):
            numbers = dict.fromkeys(together, tiles) | dict.fromkeys(scalars, number)
            for absent in (0, 1):
                several = base.but(tiles=numbers, absent=absent)
                name = f"{tiles} tiles along each extent" + " but for an element" * absent
                yield name + f" and scalars of {number}" * (number > 1), several
    # Work that all CTAs share goes to several, and who comes last of these adds up what they did.
    for clusters in range(2, _SOME_TILES + 1):
        shared = dict.fromkeys(extents, counts[-1])
        inputs = base.but(tiles=shared, grid=clusters * runs.skeleton.cluster)
        yield f"{clusters} clusters", inputs
        yield f"{clusters} clusters, and conditions that hold", inputs.but(holds=True)
    for term in runs.blocks:
        for block in range(1, _SOME_TILES + 1):
            values = {term: block * runs.skeleton.cluster}
            for inputs in (base, several):
                yield f"block {block}", inputs.but(values=values)
    for name, values in _flipped(runs):
        yield name, several.but(values=values)
        for inputs in (base, several):
            for data, above in _ELEMENTS:
                elements = inputs.but(values=values, data=data, above=above)
                yield f"{name} and elements of {data}", elements


def _flipped(runs: _Runs) -> Iterator[tuple[str, dict[Any, int]]]:
    """One condition after the other that some case asked for, as the other thing than there."""
    flipped: set[Any] = set()
    while len(flipped) < _MOST_CONDITIONS:
        rest = [(term, number) for term, number in runs.conditions.items() if term not in flipped]
        if not rest:
            return
        term, number = rest[0]
        flipped.add(term)
        yield f"{term[1]} that is {1 - number}", {term: 1 - number}


def _find_smaller_units(runs: _Runs) -> None:
    """Extents may count more than elements, such as pages of so many rows: where one tile along one
    of them makes many trips, so many less of it are a tile.
    """
    units = runs.skeleton.units
    most = _most(runs.trips(_ONE_TILE, Inputs(runs.skeleton), is_new=True).trips)
    for key, unit in list(units.items()):
        if most > _MOST_OF_A_TILE and unit % most == 0:
            units[key] = unit // most
            fewer = _most(runs.trips(_ONE_TILE, Inputs(runs.skeleton)).trips)
            if fewer == most:
                units[key] = unit
            most = fewer


def _most(trips: Trips) -> int:
    """The most trips of a loop that is not over work items."""
    return max((max(counts) for counts in _inner(trips).values()), default=0)


def _inner(trips: Trips) -> dict[Operation, frozenset[int]]:
    """How often loops ran that are not over work items."""
    return {
        op: frozenset(counts) for op, counts in trips.items() if WORK_ITEMS not in op.attributes
    }


def _item_by_item(
    runs: _Runs, base: Inputs, asked: Sequence[Any], items: Any
) -> Iterator[tuple[str, Inputs]]:
    """Cases of more work items, where a ring that moves on by one stage an item has so many stages
    that two items do not come round. What moves on only in some items, as their coordinates say,
    does in all that are the same one, or that lie along another extent.
    """
    skeleton = runs.skeleton
    count = skeleton.item_stages + 1
    if count <= ITEMS:
        return
    name = f"{count} work items"
    if CLAIMS in asked:
        yield name, base.but(claims=count)
        if not skeleton.some_item_rings <= runs.round:
            yield f"{name} that are the first one", base.but(claims=count, claimed=0)
    elif items is not None:
        more = -(-count // ITEMS)
        yield name, base.but(tiles={items: base.tiles[items] * more})
        if not skeleton.some_item_rings <= runs.round:
            for key in filter(None, map(key_of, asked)):
                if key[0] != "input" and key != items:
                    tiles = {items: 1, key: base.tiles[items] * more}
                    yield f"{name}, {name_of(skeleton, key, tiles[key])}", base.but(tiles=tiles)


def _with_two_items(runs: _Runs) -> tuple[Inputs, list[Any], Any]:
    """Inputs with which a CTA has two work items, if it may; the terms that control asks for; and
    the extent that has more tiles for it than one, if one has.
    """
    cluster = runs.skeleton.cluster
    instances = max((role.teams for role in runs.skeleton.roles), default=1)
    base = Inputs(runs.skeleton)
    first = runs.trips(_ONE_TILE, base, is_new=True)
    asked = list(first.asked)
    count = _items(first.trips)
    if count is None:
        return base, asked, None
    if count > 2:
        return base.but(grid=_half(count) * cluster), asked, None
    for term in asked:
        key = key_of(term)
        if count < 2 and key is not None and key[0] != "input":
            # Along one extent a cluster may take that many tiles at once, for each instance.
            tiles = ITEMS * cluster * instances
            other = base.but(tiles={key: tiles})
            name = name_of(runs.skeleton, key, tiles)
            count = _items(runs.trips(name, other, is_new=True).trips) or 0
            if count >= 2:
                # With two clusters an item is not the one behind the item before.
                other = base.but(tiles={key: 2 * tiles}, grid=_half(2 * count) * cluster)
                return other, asked, key
    return base, asked, None


def _half(count: int) -> int:
    """Clusters, so that one of them has two of some work items."""
    return -(-count // 2)


def _items(trips: Trips) -> int | None:
    """The work items of a CTA in a case, or those of the instance of a role that takes every so
    many-th one; None where the kernel has no loop over them.
    """
    counts = [max(numbers) for op, numbers in trips.items() if WORK_ITEMS in op.attributes]
    return min(counts, default=None)
