"""Candidates of tuning that set a kernel's compile-time parameters, its schedule, or both; in text
`tile = (4, 1024); warps = (4,1)`.
"""

from __future__ import annotations

from collections.abc import Mapping

from cutedialect.choosing.program_space import Options
from cutedialect.schedule import Schedule

from .kernel import OPTIONS
from .launch import as_schedule

Candidate = Schedule | Options | None


def options_of(given: Mapping[str, object]) -> Options:
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
