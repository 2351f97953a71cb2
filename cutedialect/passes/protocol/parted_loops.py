"""Loops that follow one another as parts of one, such as those for blocks of keys without a mask
and with one. A part of two trips reads ahead for another trip once, which says in no case how far
ahead. Across cases it does: counted from the first part on, the trip that wrote what one reads
lies always as far behind, wherever the parts meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects import scf
from xdsl.ir import Operation

from .findings import TRIP, Finding
from .nodes import Event, Loop, Skeleton
from .sketch import nodes_in

if TYPE_CHECKING:
    from .machine import Machine


class PartedLoops:
    """What single reads of parts behind others got in the cases so far: by read, write and their
    teams the distances from its trip, with a case for each, and the places that were written.
    """

    def __init__(self, skeleton: Skeleton) -> None:
        # By the name of a loop's trips the parts in front of it.
        self._in_front = dict(_parts_in_front(skeleton))
        self._distances: dict[tuple[Event, int, Event, int], dict[tuple[int, ...], str]] = {}
        self._places: dict[tuple[Event, int], set[int]] = {}
        self._names: dict[tuple[Event, int, Event, int], str] = {}

    def note(self, machine: Machine) -> None:
        """Note the reads of a case that has run."""
        runs = {team.column: team.runs for team in machine.teams}
        for key, places in machine.versions.places():
            self._places.setdefault(key, set()).update(places)
        for key, pair in machine.versions.once():
            write, writer, read, reader = key
            counted: list[int] = []
            for (one, other), distance in pair.once.items():
                front = self._in_front.get(read.names[other])
                if front is None:
                    continue
                behind = self._in_front.get(write.names[one], ())
                trips = [
                    sum(of_team[part][0][1] for part in parts if part in of_team)
                    for parts, of_team in ((front, runs[reader]), (behind, runs[writer]))
                ]
                counted.append(distance + trips[0] - trips[1])
            if counted:
                self._names[key] = pair.name
                self._distances.setdefault(key, {}).setdefault(tuple(counted), machine.name)

    def strays(self) -> Iterator[Finding]:
        """The reads that get now this, now that trip's data."""
        for (write, writer, read, reader), cases in self._distances.items():
            if len(cases) < 2 or len(self._places.get((write, writer), ())) < 2:
                continue
            first, second, *_ = cases.values()
            yield Finding(
                TRIP,
                read.op,
                f"reads {self._names[write, writer, read, reader]} as other trips than its own "
                "wrote it: expected, of parts of one loop, always the stage of as many trips "
                "before",
                write.op,
                f"{first}, and otherwise with {second}",
            )


def _parts_in_front(skeleton: Skeleton) -> Iterator[tuple[int, Sequence[Operation]]]:
    """The loops that are parts behind others, by the name of their trips, and those others."""
    loops = {node.op: node for node in nodes_in(skeleton.nodes, Loop)}
    before: dict[Operation, Operation] = {}
    for loop in loops:
        for other in loops:
            assert isinstance(loop, scf.ForOp)
            assert isinstance(other, scf.ForOp)
            if other.ub is loop.lb and other.step is loop.step and other.parent is loop.parent:
                before[loop] = other
    for loop in before:
        front = [loop]
        while front[-1] in before:
            front.append(before[front[-1]])
        yield -loops[loop].trip, front[1:]
