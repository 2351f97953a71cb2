"""`choose`: the first schedule of a space that was not rejected. A default, fields that a user
gives, a kernel whose registers spill, and a schedule that a pass refuses are the same call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from cutedialect.schedule import Schedule

from .need import NONE, Limits
from .space import Candidate, CandidateT, Space

_Problem = TypeVar("_Problem")
MOST_COMPILED = 3
"""How many schedules are compiled for one call that leaves some choices open."""
# Registers of a thread that a schedule leaves over, more than one that lacked some.
_MORE_REGISTERS = 24
Lack = Literal["registers", "memory", ""]


@dataclass(frozen=True)
class Rejection:
    """A schedule that is not right: `lacks` says whether it has too few registers or too little
    shared memory, where it is one of these, and `why` says it in words.
    """

    schedule: Candidate | None
    lacks: Lack
    why: str


class NoScheduleError(Exception):
    """No schedule of a space is left. `rejected` are those that were tried."""

    def __init__(self, name: str, rejected: Sequence[Rejection], needs: Sequence[str]) -> None:
        tried = "; ".join(
            f"'{'' if each.schedule is None else each.schedule.text()}' needs {need}: {each.why}"
            for each, need in zip(rejected, needs, strict=True)
        )
        super().__init__(
            f"expected a schedule of {name} that fits, got none; tried {tried or 'none'}"
        )
        self.rejected = tuple(rejected)


def choose(
    space: Space[_Problem, CandidateT],
    problem: _Problem,
    given: Schedule | None = None,
    rejected: Sequence[Rejection] = (),
) -> CandidateT:
    """The schedule of the least price that has the fields of `given` and was not rejected, nor
    leaves as little over as one that lacked registers or memory. Raises `NoScheduleError`, which
    lists what was tried with its need.
    """
    known = {each.schedule for each in rejected}
    limits = _limits(space, problem, rejected) if rejected else NONE
    for schedule in space.ranked(problem, given, limits):
        if schedule not in known:
            return schedule
    raise NoScheduleError(space.name, rejected, _needs(space, problem, rejected))


def _needs(space: Space[Any, Any], problem: object, rejected: Sequence[Rejection]) -> list[str]:
    return [
        "" if each.schedule is None else space.need(problem, each.schedule).text()
        for each in rejected
    ]


def _limits(space: Space[Any, Any], problem: object, rejected: Sequence[Rejection]) -> Limits:
    """What some rejections leave."""
    lacking = [
        (each.lacks, space.need(problem, each.schedule))
        for each in rejected
        if each.schedule is not None and each.lacks
    ]
    spare = [max(0.0, need.spare) for lack, need in lacking if lack == "registers"]
    smem = [need.smem for lack, need in lacking if lack == "memory"]
    registers = max(spare) + _MORE_REGISTERS if spare else NONE.registers
    return Limits(registers, min(smem, default=NONE.smem))
