"""Cases of trips: what extents, scalars, elements of tensors and conditions are, so that loops run
0, 1, S - 1, S, S + 1 and 2 S + 1 times for rings of S stages, one varied at a time, a CTA gets two
work items, and both sides of conditions run. All numbers of a case come from the same inputs, so
that what belongs together in the program does in the case.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from typing import Any

from xdsl.ir import Operation

from .findings import Finding
from .lost import Lost
from .machine import Case, Machine, TooLong
from .nodes import Skeleton

_WORK_ITEMS = "work_items"
_SOME_TILES = 3
_MANY_TILES = 7
_MANY_ITEMS = 5
# What elements of tensors are, times their index and so many more: lengths, offsets, numbers of
# blocks. The large ones are several tiles.
_ELEMENTS = ((1, 1), (3, 1), (300, 1), (300, 0))
# What is the first of its kind in all cases.
_FIRST = ("cute.cluster_rank", "cute.search", "cute.find")
Trips = Mapping[Operation, set[int]]
"""The trips that loops had."""


class Inputs:
    """The inputs of one case; those asked for are noted."""

    def __init__(self, skeleton: Skeleton, tiles: dict[Any, int] | None = None) -> None:
        self.skeleton = skeleton
        self.values: dict[Any, int] = {}
        self.tiles = tiles or {}
        self.grid = skeleton.cluster
        self.block = 0
        self.data = 0
        self.above = 1
        self.holds = False
        self.asked: dict[Any, int] = {}

    def __call__(self, term: Any) -> int:
        known = self.asked.get(term)
        if known is None:
            known = self.asked[term] = self._number(term)
        return known

    def _number(self, term: Any) -> int:
        if term in self.values:
            return self.values[term]
        if term[0] == "dim" and term[2][0] == "input":
            key = term[2][1], term[1]
            unit = self.skeleton.units.get(key, 1)
            return unit * self.tiles.get(key, self.tiles.get("all", 1))
        if term[0] == "input":
            return self.tiles.get(term, 1)
        if term[0] == "condition":
            return int(self.holds)
        if term[1] == "cute.block_idx":
            return self.block if term[2] and "x" in term[2][0] else 0
        if term[1] == "cute.grid_dim":
            return self.grid if term[2] and "x" in term[2][0] else 1
        if term[1] in _FIRST:
            return 0
        if term[1] == "cute.read":
            # Numbers that grow, as offsets do, from zero or from the first one on.
            at = sum(index for index in term[4:] if isinstance(index, int))
            return self.data * (at + self.above)
        return self.data

    def but(self, **changes: Any) -> Inputs:
        """The same but for some attributes."""
        other = Inputs(self.skeleton, dict(self.tiles))
        other.values = dict(self.values)
        for name in ("grid", "block", "data", "above", "holds"):
            setattr(other, name, changes.get(name, getattr(self, name)))
        other.tiles |= changes.get("tiles", {})
        return other


def check(skeleton: Skeleton) -> tuple[list[Finding], int]:
    """Run all cases; the findings of the first that has some, and how many cases ran."""
    count = 0
    running = _cases(skeleton)
    trips: Trips = {}
    lost = Lost()
    while True:
        try:
            name, inputs = running.send(trips) if count else next(running)
        except StopIteration:
            break
        machine = Machine(skeleton, Case(name, inputs))
        try:
            found = machine.run()
            lost.note(machine.shadows)
        except TooLong:
            found = []
        count += 1
        if found:
            return found, count
        trips = machine.trips
    # What may only be read where several loops run at once, or a CTA has many work items.
    for name, inputs in _large(skeleton):
        if not any(lost.findings()):
            break
        machine = Machine(skeleton, Case(name, inputs, _MANY_ITEMS))
        with suppress(TooLong):
            machine.run()
            lost.note(machine.shadows)
        count += 1
    return list(lost.findings()), count


def first_case(skeleton: Skeleton) -> Case:
    """The case that is run first: one tile along each extent, two work items if that gives them."""
    name, inputs = next(_cases(skeleton))
    return Case(name, inputs)


def _cases(skeleton: Skeleton) -> Generator[tuple[str, Inputs], Trips, None]:
    """Cases by their names, those that look for inputs first; each is told how often the loops of
    the one before ran.
    """
    base, asked = _with_two_items(skeleton)
    usual = _inner(skeleton, (yield "one tile of each extent", base))
    stages = sorted({ring.stages for ring in skeleton.rings} | {2, 3})
    counts = sorted({0, 1} | {n for s in stages for n in (s - 1, s, s + 1, 2 * s + 1)})
    yield "no tiles", base.but(tiles={"all": 0})
    for term in asked:
        if term[0] == "dim" and term[2][0] == "input":
            key: Any = (term[2][1], term[1])
        elif term[0] == "input":
            key = term
        else:
            continue
        # What changes only how many work items there are is done with some numbers of them.
        some = yield _name(skeleton, term, _SOME_TILES), base.but(tiles={key: _SOME_TILES})
        others = counts if _inner(skeleton, some) != usual else (0, 2)
        for tiles in others:
            if tiles != _SOME_TILES:
                yield _name(skeleton, term, tiles), base.but(tiles={key: tiles})
    if any(term[0] == "condition" for term in asked):
        yield "conditions that hold", base.but(holds=True)
    if any(term[0] == "number" for term in asked):
        for data, above in _ELEMENTS:
            yield f"elements of {data}", base.but(data=data, above=above)
        yield "the next block", base.but(block=skeleton.cluster)


def _large(skeleton: Skeleton) -> Iterator[tuple[str, Inputs]]:
    """Cases in which all extents, or all but one, have several tiles."""
    for tiles in (_SOME_TILES, _MANY_TILES):
        base = Inputs(skeleton, {"all": tiles})
        for holds in (False, True):
            for data, above in ((0, 1), *_ELEMENTS):
                case = base.but(holds=holds, data=data, above=above)
                yield f"{tiles} tiles of each extent", case
        for key in skeleton.units:
            yield "no tiles of an extent", base.but(holds=True, tiles={key: 0})


def _inner(skeleton: Skeleton, trips: Trips) -> dict[Operation, frozenset[int]]:
    """How often loops ran that are not over work items."""
    return {
        op: frozenset(counts) for op, counts in trips.items() if _WORK_ITEMS not in op.attributes
    }


def _name(skeleton: Skeleton, term: Any, tiles: int) -> str:
    """What a case varies."""
    number = term[2][1] if term[0] == "dim" else term[1]
    argument = skeleton.kernel.body.block.args[number]
    name = f"%{argument.name_hint or number}"
    if term[0] == "input":
        return f"{name} = {tiles}"
    return f"{tiles} tile{'s' * (tiles != 1)} along mode {term[1]} of {name}"


def _with_two_items(skeleton: Skeleton) -> tuple[Inputs, list[Any]]:
    """Inputs with which a CTA has two work items, if it may; and the terms that control asks
    for.
    """
    base = Inputs(skeleton)
    trips = _items(skeleton, base)
    asked = list(base.asked)
    if trips is None:
        return base.but(), asked
    if trips > 2:
        return base.but(grid=skeleton.cluster * -(-trips // 2)), asked
    for term in asked:
        if trips < 2 and term[0] == "dim" and term[2][0] == "input":
            other = base.but(tiles={(term[2][1], term[1]): 2 * skeleton.cluster})
            if _items(skeleton, other) == 2:
                return other.but(), asked
    return base.but(), asked


def _items(skeleton: Skeleton, inputs: Inputs) -> int | None:
    """The work items of a CTA in a case; None where the kernel has no loop over them."""
    machine = Machine(skeleton, Case("", inputs))
    try:
        machine.run()
    except TooLong:
        return None
    counts = [max(trips) for op, trips in machine.trips.items() if _WORK_ITEMS in op.attributes]
    return max(counts, default=None)
