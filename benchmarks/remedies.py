"""What errors advise, tried: schedules of `gemm` and `attention` drawn by lot, many of which passes
refuse. Compiles only.

    python -m benchmarks.remedies [--count N] [--seed S] [--only NUMBER]

A remedy is what a message says behind its last semicolon: a field of the schedule with a value, a
field to leave out, or a direction (a smaller tile, fewer warps). It is wrong where the schedule
that follows it is refused for the same reason. A refusal is unanswered where the call compiles
without a schedule, but no note names the nearest one that does; what such a note names has to
compile. The exit status is 1 where one is wrong, or a call ends in another error than a refusal.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

import cutedialect as cute

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
TARGETS = ("sm_80", "sm_90a", "sm_100a")
_ROLES = ("uniform", "specialized", "alternate", "shifting", "corrected", "split")
_SCHEDULERS = ("single", "persistent", "dynamic", "cancel", "stream", "tail")
_EPILOGUES = ("direct", "smem", "tma")
# Name, how often it is given, and its values.
_FIELDS: tuple[tuple[str, float, tuple[Any, ...]], ...] = (
    ("roles", 0.6, _ROLES),
    ("scheduler", 0.35, _SCHEDULERS),
    ("epilogue", 0.25, _EPILOGUES),
    ("stages", 0.3, (1, 2, 3, 5, 8, 16)),
    ("split_k", 0.2, (1, 2, 3, 4, 8, 16)),
    ("ctas", 0.15, (1, 2, 3, 4)),
    ("registers", 0.15, ((24, 240), (40, 232), (40, 152))),
    ("early_launch", 0.1, ("yes", "no")),
    ("order", 0.1, ("columns", "snake", "hilbert", "sections", "tall", "memory")),
    ("raster", 0.1, (1, 4, 16, 64)),
    ("split_loops", 0.1, ("no", "yes")),
    ("polynomials", 0.05, ((4, 3),)),
    ("loads", 0.1, ("threads",)),
    ("instances", 0.1, (1, 2, 3)),
)
_OF_GEMM: tuple[tuple[str, float, tuple[Any, ...]], ...] = (
    ("warps", 0.5, ((1, 1), (2, 2), (4, 1), (4, 2), (8, 1), (12, 1), (2, 4), (16, 1))),
    ("cluster", 0.3, ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (16, 1), (3, 1))),
    ("reduction", 0.25, ("ordered", "atomic", "cluster")),
    ("swap_ab", 0.1, ("yes",)),
)
_OF_ATTENTION: tuple[tuple[str, float, tuple[Any, ...]], ...] = (
    ("warps", 0.5, ((1, 1), (2, 1), (4, 1), (8, 1), (12, 1), (4, 2))),
    ("maxima", 0.3, ("exact", "lazy", "guessed")),
    ("overlap", 0.3, ("no", "yes", "turns")),
)
_ROWS = (64, 128, 128, 192, 256)
_COLUMNS, _KEYS = (16, 32, 48, 64, 96, 128, 192, 256), (16, 32, 48, 64, 96, 128, 160, 192, 256)
_DEPTHS = (16, 32, 64, 64, 128)
# What a tile may become where none is given, and the least extent of a mode.
_SMALL_TILES = {3: ((128, 64, 32), (64, 64, 32), (64, 32, 16)), 2: ((64, 64), (64, 32), (64, 16))}
_LEAST = 16


@dataclass(frozen=True)
class Case:
    """A call that is compiled with a schedule."""

    number: int
    arch: str
    function: Any
    arrays: tuple[np.ndarray, ...]
    options: dict[str, Any]
    schedule: cute.Schedule

    @property
    def text(self) -> str:
        """The case in one line."""
        arrays = " ".join(f"{x.dtype.name}{'x'.join(map(str, x.shape))}" for x in self.arrays)
        name = "attention" if self.is_attention else "gemm"
        return f"{self.number} {self.arch} {name} {arrays} [{self.schedule.text()}]"

    @property
    def is_attention(self) -> bool:
        return self.function is cute.attention

    def refusal(self, schedule: cute.Schedule | None) -> Exception | None:
        """The error of the call with a schedule; None where it compiles."""
        given = {"arch": self.arch, "backend": "emulator", **self.options}
        try:
            cute.compile(self.function, *self.arrays, schedule=schedule, **given)
        except (cute.CompileError, ValueError) as error:
            return error
        return None


def draw(seed: int, number: int) -> Case:
    """The case of this number of a seed."""
    rng = np.random.default_rng((seed, number))

    def one(choices: Sequence[Any]) -> Any:
        return choices[int(rng.integers(len(choices)))]

    arch, is_attention = one(TARGETS), bool(rng.random() < 0.35)
    types = (np.float16, BF16) if is_attention else (np.float16, BF16, np.float32, np.int8)
    dtype = one(types if arch == "sm_80" else (*types, E4M3))
    given: dict[str, Any] = {}
    if rng.random() < 0.8:
        rest = (one(_KEYS),) if is_attention else (one(_COLUMNS), one(_DEPTHS))
        given["tile"] = (one(_ROWS), *rest)
    for name, share, values in (*_FIELDS, *(_OF_ATTENTION if is_attention else _OF_GEMM)):
        if rng.random() < share:
            given[name] = one(values)
    options: dict[str, Any] = {"out_dtype": cute.f16} if dtype is E4M3 else {}
    if is_attention:
        heads, shared, rows, keys = one((4, 8)), one((1, 4)), one((128, 1000)), one((1000, 4096))
        dim = one((64, 80, 128, 192, 256))
        q, k = (np.empty((1, h, n, dim), dtype) for h, n in ((heads, rows), (shared, keys)))
        options["causal"] = bool(rng.random() < 0.5)
        return Case(number, arch, cute.attention, (q, k, k), options, cute.Schedule(**given))
    m, n, k = one(((1024, 1024, 1024), (1000, 520, 264), (77, 130, 200), (512, 4096, 2048)))
    a = np.empty((m, k), dtype) if one("NT") == "N" else np.empty((k, m), dtype).T
    b = np.empty((k, n), dtype) if one("NT") == "N" else np.empty((n, k), dtype).T
    return Case(number, arch, cute.gemm, (a, b), options, cute.Schedule(**given))


def faults(case: Case) -> list[str]:
    """What is wrong with the advice for a case; nothing where its schedule compiles."""
    error = case.refusal(case.schedule)
    if error is None:
        return []
    told = str(error).splitlines()
    found: list[str] = []
    if isinstance(error, cute.CompileError):
        named = re.search(r"nearest schedule that compiles.*schedule='(.*)'", str(error))
        if named is not None:
            if case.refusal(cute.Schedule.parse(named[1])) is not None:
                found.append(f"the nearest schedule is refused: {named[1]}")
        elif "it compiles without a schedule" not in str(error) and case.refusal(None) is None:
            found.append(f"unanswered: {told[0]}")
    for words, schedules in _remedies(told[0], case):
        if not any(_helps(case.refusal(each), told[0]) for each in schedules):
            found.append(f"'{words}' does not help: {told[0]}")
    return found


def _helps(error: Exception | None, before: str) -> bool:
    """Whether a schedule compiles, or is refused for another reason, whatever the numbers are."""
    return error is None or _reason(str(error).splitlines()[0]) != _reason(before)


def _reason(message: str) -> str:
    return re.sub(r"\d+", "#", message.partition("error[")[2].partition(";")[0] or message)


def _remedies(message: str, case: Case) -> Iterator[tuple[str, Iterable[cute.Schedule]]]:
    """Each remedy that a message names, and the schedules that follow it."""
    _, semicolon, advice = message.rpartition("; ")
    if not semicolon:
        return
    given, known = case.schedule, {each.name for each in fields(case.schedule)}
    for part in re.split(r",? or |, and ", advice):
        values = re.findall(r"(\w+) = (\([\d,]+\)|\w+)", part)
        chosen = ", ".join(f"{name} = {value}" for name, value in values if name in known)
        left = re.search(r"leave (\w+) out", part)
        if chosen:
            yield part, [given.merged(cute.Schedule.parse(chosen))]
        elif left is not None and left[1] in known:
            yield part, [_with(given, **{left[1]: None})]
        for pattern, follow in _DIRECTIONS:
            if not chosen and re.search(pattern, part):
                yield part, follow(given, case)


def _with(schedule: cute.Schedule, **values: Any) -> cute.Schedule:
    made = {each.name: getattr(schedule, each.name) for each in fields(schedule)} | values
    return cute.Schedule(**{name: value for name, value in made.items() if value is not None})


def _smaller(given: cute.Schedule, case: Case) -> Iterator[cute.Schedule]:
    """Smaller tiles, the largest first."""
    if given.tile is None:
        yield from (_with(given, tile=tile) for tile in _SMALL_TILES[2 if case.is_attention else 3])
        return
    tiles = {given.tile}
    for _ in range(4):
        halves = {
            (*tile[:mode], tile[mode] // 2, *tile[mode + 1 :])
            for tile in tiles
            for mode in range(len(tile))
        }
        tiles = set(sorted((tile for tile in halves if min(tile) >= _LEAST), key=prod)[-6:])
        yield from (_with(given, tile=tile) for tile in tiles)


def _fewer_warps(given: cute.Schedule, case: Case) -> Iterator[cute.Schedule]:
    warps = given.warps or (8, 1)
    yield from (
        _with(given, warps=(m, n))
        for m in (8, 4, 2, 1)
        for n in (4, 2, 1)
        if m * n < prod(warps) and m <= warps[0] and n <= warps[1]
    )


def _more_warps(given: cute.Schedule, case: Case) -> Iterator[cute.Schedule]:
    m, n = given.warps or (4, 1)
    yield from (_with(given, warps=each) for each in ((2 * m, n), (m, 2 * n), (3 * m, n)))


def _fewer_registers(given: cute.Schedule, case: Case) -> Iterator[cute.Schedule]:
    yield from (_with(given, registers=(24, each)) for each in (168, 128, 96, 64, 40, 24))


def _fewer_stages(given: cute.Schedule, case: Case) -> Iterator[cute.Schedule]:
    yield from (_with(given, stages=each) for each in range((given.stages or 4) - 1, 0, -1))


_DIRECTIONS: tuple[tuple[str, Callable[[cute.Schedule, Case], Iterable[cute.Schedule]]], ...] = (
    (r"(smaller|narrower) tile", _smaller),
    (r"fewer warps", _fewer_warps),
    (r"more warps", _more_warps),
    (r"fewer registers", _fewer_registers),
    (r"fewer stages", _fewer_stages),
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.remedies", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    given = parser.parse_args(arguments)
    numbers = range(given.count) if given.only is None else [given.only]
    started, wrong = time.perf_counter(), 0
    for number in numbers:
        case = draw(given.seed, number)
        found = faults(case)
        wrong += bool(found)
        for each in found:
            print(f"{case.text}\n    {each}", flush=True)
    seconds = time.perf_counter() - started
    print(f"{len(numbers)} cases in {seconds:.0f} s: {wrong} with wrong advice")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
