"""`Options`: a candidate of tuning that sets a kernel's compile-time parameters, its schedule, or
both; in text `tile = (4, 1024); warps = (4,1)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutedialect.schedule import Schedule

from .kernel import OPTIONS
from .launch import as_schedule


@dataclass(frozen=True)
class Options:
    """Compile-time parameters by name, and the schedule they go with; None is what is chosen."""

    parameters: tuple[tuple[str, object], ...]
    schedule: Schedule | None = None

    @staticmethod
    def of(given: Mapping[str, object]) -> Options:
        """The candidate of a mapping, `{"tile": (4, 1024), "schedule": "warps = (4,1)"}`."""
        parameters = {name: value for name, value in given.items() if name != "schedule"}
        for name, value in parameters.items():
            if name in OPTIONS:
                raise TypeError(f"configs: expected compile-time parameters, got the option {name}")
            try:
                hash(value)
            except TypeError:
                raise TypeError(
                    f"configs: expected a value of {name} that can be a key (a number, a string, "
                    f"a tuple), got {type(value).__name__}"
                ) from None
        return Options(tuple(parameters.items()), as_schedule(given.get("schedule")))

    def text(self) -> str:
        """What records and messages call it."""
        named = ", ".join(f"{name} = {value!r}" for name, value in self.parameters)
        return named if self.schedule is None else f"{named}; {self.schedule.text()}"

    def call(self) -> dict[str, object]:
        """The keyword arguments of a call: `kernel(*args, **options.call())`."""
        made = dict(self.parameters)
        return made if self.schedule is None else made | {"schedule": self.schedule}


Candidate = Schedule | Options | None
