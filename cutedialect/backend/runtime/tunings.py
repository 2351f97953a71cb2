"""What tuning found, as data and on disk: for a kernel, a target, a device and a class of problems
the time of every schedule that was tried. Records are kept in the disk cache under the version of
this package, since another compiler makes other kernels of the same schedule.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace

from cutedialect import environment
from cutedialect.backend.runtime import cache

_KIND = "schedule"
# What a schedule takes of the default's time where it is worth to be named.
_GAIN = 0.99


@dataclass(frozen=True)
class Timing:
    """One schedule, as text ("" is the default). `microseconds` has a figure for each round it was
    in, `full` is the schedule with what it leaves open filled in, `failure` why it does not run.
    """

    schedule: str
    microseconds: tuple[float, ...] = ()
    full: str = ""
    failure: str | None = None

    @property
    def median(self) -> float | None:
        """The median time, None where nothing was timed."""
        # Not above: a call whose kernel is on disk needs no decimals and fractions.
        from statistics import median

        return median(self.microseconds) if self.microseconds else None


@dataclass(frozen=True)
class Tuning:
    """The timings of one problem on one device. `complete` says that no round was left out, `kept`
    that it was read from disk.
    """

    kernel: str
    arch: str
    device: str
    problem: str
    timings: tuple[Timing, ...] = field(default=())
    complete: bool = True
    kept: bool = False

    @property
    def best(self) -> Timing | None:
        """The timing with the least median, the earlier of equals; the default where that takes
        hardly more, since medians of equals differ by as much. None where nothing runs.
        """

        def took(timing: Timing) -> float:
            return (timing.median or 0.0) * (1.0 if timing.schedule else _GAIN)

        return min((each for each in self.timings if each.microseconds), key=took, default=None)

    @property
    def failures(self) -> tuple[Timing, ...]:
        """What does not run."""
        return tuple(timing for timing in self.timings if timing.failure is not None)

    def only(self, schedules: Iterable[str]) -> Tuning | None:
        """The timings of these schedules; None where one of them was never tried."""
        found = {timing.schedule: timing for timing in self.timings}
        wanted = list(dict.fromkeys(schedules))
        if not all(schedule in found for schedule in wanted):
            return None
        return replace(self, timings=tuple(found[schedule] for schedule in wanted))

    def over(self, older: Tuning | None) -> Tuning:
        """These timings, and of `older` those of other schedules."""
        if older is None:
            return self
        mine = {timing.schedule for timing in self.timings}
        rest = tuple(timing for timing in older.timings if timing.schedule not in mine)
        complete = self.complete and (older.complete or not rest)
        return replace(self, timings=self.timings + rest, complete=complete)

    def to_json(self) -> dict[str, object]:
        """Plain lists and dicts."""
        return asdict(self)


def tuning_key(kernel: str, problem: str, arch: str, device: str) -> str:
    """The key of a record: `kernel` is a fingerprint, `problem` the class of the problem."""
    return cache.key(_KIND, cache.package_stamp(), kernel, problem, arch, device)


def has_tunings() -> bool:
    """Whether anything was ever kept; without it no key has to be computed."""
    return environment.cache_enabled() and (cache.folder() / _KIND).is_dir()


def best_schedule(kernel: str, problem: str, arch: str, device: str) -> str | None:
    """The text of the fastest schedule that tuning found; None where nothing was tuned, "" where
    nothing is faster than what is chosen.
    """
    found = read_tuning(tuning_key(kernel, problem, arch, device))
    best = None if found is None else found.best
    return None if best is None else best.schedule


def read_tuning(key: str) -> Tuning | None:
    """The record kept under a key."""
    raw = cache.read(_KIND, key)
    if raw is None:
        return None
    data = json.loads(raw)
    timings = tuple(
        Timing(**(timing | {"microseconds": tuple(timing["microseconds"])}))
        for timing in data.pop("timings")
    )
    return replace(Tuning(**data, timings=timings), kept=True)


def keep_tuning(key: str, tuning: Tuning) -> bool:
    """Keep a record beside what was known of other schedules; returns whether it was kept."""
    merged = tuning.over(read_tuning(key))
    return cache.write(_KIND, key, json.dumps(replace(merged, kept=False).to_json()).encode())


def extent_class(extent: int) -> int:
    """The nearest extent with three leading bits: problems of like size share their schedule.

    >>> [extent_class(n) for n in (1, 7, 15, 4095, 4097, 4700, 14336)]
    [1, 7, 16, 4096, 4096, 5120, 14336]
    """
    low = max(0, extent.bit_length() - 3)
    return (extent + (1 << low >> 1)) >> low << low
