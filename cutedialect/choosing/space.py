"""`Space`: the schedules that a kind of problem may be computed with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from cutedialect.schedule import Schedule

from .need import Limits, Need


class Candidate(Protocol):
    """A schedule, or one with the values of a program's open parameters."""

    def text(self) -> str: ...


Problem_contra = TypeVar("Problem_contra", contravariant=True)
CandidateT = TypeVar("CandidateT", bound=Candidate)
Entry = TypeVar("Entry")


class Space(Protocol[Problem_contra, CandidateT]):
    """The candidates of a kind of problem, on one target."""

    @property
    def name(self) -> str:
        """What prices and rejections are kept under."""
        ...

    def ranked(
        self, problem: Problem_contra, given: Schedule | None, limits: Limits
    ) -> Iterator[CandidateT]:
        """The candidates that have the fields of `given` and keep within limits, the least price
        first; each is priced when its turn can come.
        """
        ...

    def need(self, problem: Problem_contra, schedule: CandidateT) -> Need:
        """What one of them takes of a device."""
        ...


def in_order(priced: Iterable[tuple[float, Entry]], margin: float = 1.0) -> Iterator[Entry]:
    """What has prices, plain entries first: a later one comes before an earlier one where that
    costs more than `margin` times as much.

    >>> list(in_order([(103.0, "plain"), (100.0, "odd"), (90.0, "odder")], 1.05))
    ['odder', 'plain', 'odd']
    """
    left = list(priced)
    if margin == 1.0:
        left.sort(key=lambda entry: entry[0])
        yield from (entry for _, entry in left)
        return
    while left:
        best = 0
        for place, (price, _) in enumerate(left):
            if price * margin < left[best][0]:
                best = place
        yield left.pop(best)[1]
