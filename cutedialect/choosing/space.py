"""`Space`: the schedules that a kind of problem may be computed with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeVar

from cutedialect.schedule import Schedule

from .need import Limits, Need


class Candidate(Protocol):
    """A schedule, or one with the values of a program's open parameters."""

    def text(self) -> str: ...


Problem_contra = TypeVar("Problem_contra", contravariant=True)
CandidateT = TypeVar("CandidateT", bound=Candidate)


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
