"""The candidates of a program: values of the compile-time parameters that it declares open, and
schedules whose own choices no pass has made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, product

from cutedialect.schedule import Schedule

from .need import Limits, Need
from .price import in_order, table_of


@cache
def _rows() -> dict[Schedule, Need]:
    """Of each schedule: registers of a thread that it leaves over, and shared memory that it takes,
    compared with what the passes choose.
    """
    return {
        Schedule.parse(row["then"]): Need(room=row["room"], smem=row["smem"])
        for row in table_of("program-candidates")
    }


@dataclass(frozen=True)
class Options:
    """Compile-time parameters by name, and the schedule they go with; None is what is chosen."""

    parameters: tuple[tuple[str, object], ...]
    schedule: Schedule | None = None

    def text(self) -> str:
        """What records and messages call it."""
        named = ", ".join(f"{name} = {value!r}" for name, value in self.parameters)
        return named if self.schedule is None else f"{named}; {self.schedule.text()}"

    def call(self) -> dict[str, object]:
        """The keyword arguments of a call: `kernel(*args, **options.call())`."""
        made = dict(self.parameters)
        return made if self.schedule is None else made | {"schedule": self.schedule}


# Values of each open parameter by its name, those of the least price first where none is known.
OpenParameters = Mapping[str, Sequence[object]]
MOST_LISTED = 48
"""Combinations of values that are compared, or timed, at most."""
MARGIN = 1.03
"""What comes later has to be so many times as fast to come before what a program names first."""


@dataclass(frozen=True)
class OpenProblem:
    """A call that leaves parameters open: `price` has the time and the need of a combination of
    values, in any unit; without one they come as the program names them.
    """

    parameters: OpenParameters
    price: Callable[[Options], tuple[float, Need]] | None = None


class ProgramSpace:
    """What a program without open parameters may be compiled with; its problem is what passes make
    of a schedule that is all open, where that is known.
    """

    name = "a program"

    def ranked(
        self, problem: Schedule | None, given: Schedule | None, limits: Limits
    ) -> Iterator[Schedule]:
        """The rows within the limits: all open first, then what takes less shared memory, and what
        leaves threads more registers; last of all what passes choose anyway. What is given stands
        alone.
        """
        if given is not None and given != Schedule():
            yield given
            return
        for schedule in sorted(_rows(), key=lambda row: _is_chosen(row, problem)):
            if _rows()[schedule].leaves(limits):
                yield schedule

    def need(self, problem: Schedule | None, schedule: Schedule) -> Need:
        """What one takes more or less than the others."""
        return _rows().get(schedule, Need())


def _is_chosen(schedule: Schedule, by_passes: Schedule | None) -> bool:
    """Whether passes choose what a schedule names of the whole kernel: warps may differ between
    multiplies.
    """
    if by_passes is None or schedule == Schedule() or schedule.warps is not None:
        return False
    return by_passes.merged(schedule) == by_passes


class OpenSpace:
    """What a program with open parameters may be compiled with."""

    name = "a program with open parameters"

    def ranked(
        self, problem: OpenProblem, given: Schedule | None, limits: Limits
    ) -> Iterator[Options]:
        """The values that take the least time of those that differ least from the first ones, those
        without the registers that they need behind all others; a schedule that is given goes with
        each.
        """
        listed = islice(_combinations(problem.parameters, given), MOST_LISTED)
        if problem.price is None:
            yield from listed
            return
        priced = [(problem.price(each), each) for each in listed]
        fits = [(time, each) for (time, need), each in priced if need.leaves(limits)]
        yield from in_order(fits, MARGIN)
        yield from (each for (_, need), each in priced if not need.leaves(limits))

    def need(self, problem: OpenProblem, schedule: Options) -> Need:
        """What is known ahead."""
        return Need() if problem.price is None else problem.price(schedule)[1]


def _combinations(parameters: OpenParameters, given: Schedule | None) -> Iterator[Options]:
    """All values, those that differ least from the first ones first."""
    places = product(*(range(len(values)) for values in parameters.values()))
    for numbers in sorted(places, key=sum):
        named = zip(parameters.items(), numbers, strict=True)
        yield Options(tuple((name, values[number]) for (name, values), number in named), given)


PROGRAM_SPACE = ProgramSpace()
OPEN_SPACE = OpenSpace()
