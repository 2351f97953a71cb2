"""Both kernels of a pair in turns: launches on a device, and compilations."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from .pairs import Pair, Process, Trees, asked, with_processes

_ROUNDS = 9
_OF = "the base's", "this tree's"
# Relative to the largest element: results of 16 bits, of sums in another order.
TOLERANCE = 0.02


def timed(trees: Trees, pairs: Sequence[Pair], folder: Path, seconds: float) -> Iterator[Pair]:
    """Launch both kernels of each pair in turns, as long as there is time: `us` has the medians,
    the base's first, `ratio` the median of the rounds' ratios, and `deviation` is of results, 0
    where all bits are equal.
    """
    end = time.monotonic() + seconds
    for pair, both in with_processes(trees, pairs):
        if time.monotonic() > end:
            pair.figures["not timed"] = "no time left"
        else:
            _launch(pair, both, folder)
        yield pair


def _launch(pair: Pair, both: tuple[Process, Process], folder: Path) -> None:
    rounds: list[list[float]] = []
    results: list[dict[str, Any]] = []
    sides = tuple(zip(_OF, both, strict=True))
    try:
        for process in sides:
            results.append(_asked(process, "prepare", folder=str(folder), **pair.request))
        for number in range(_ROUNDS):
            order = sides if number % 2 == 0 else sides[::-1]
            ms = [_asked(process, "round")["ms"] for process in order]
            rounds.append(ms if number % 2 == 0 else ms[::-1])
    except RuntimeError as error:
        pair.figures["not timed"] = str(error)
        return
    pair.figures["us"] = [1e3 * median(side) for side in zip(*rounds, strict=True)]
    pair.figures["ratio"] = median(old / new for old, new in rounds)
    pair.figures["deviation"] = _deviation(*results)


def _asked(side: tuple[str, Process], do: str, **request: Any) -> dict[str, Any]:
    """An answer of a tree's process; an error says which tree's it is."""
    of, process = side
    try:
        return asked(process, do, **request)
    except RuntimeError as error:
        raise RuntimeError(f"{of}: {error}") from None


def _deviation(old: dict[str, Any], new: dict[str, Any]) -> float:
    """The largest deviation of results, over the largest element of each; infinite where they are
    not alike.
    """
    if old["digests"] == new["digests"]:
        return 0.0
    worst = 0.0
    with np.load(old["samples"]) as one, np.load(new["samples"]) as other:
        for name in one.files:
            want, got = one[name], other[name]
            if want.shape != got.shape:
                return float("inf")
            is_finite = np.isfinite(want)
            largest = np.abs(want[is_finite]).max(initial=1e-30)
            same = (want == got) | (np.isnan(want) & np.isnan(got))
            with np.errstate(invalid="ignore"):
                apart = np.where(same, 0.0, np.abs(want - got))
            worst = max(worst, float(np.nan_to_num(apart, nan=np.inf).max(initial=0) / largest))
    return worst


def compiled(trees: Trees, pairs: Sequence[Pair], turns: int) -> None:
    """Compile both programs of each pair in turns: `whole` and `check` have the least milliseconds,
    the base's first.
    """
    for pair, both in with_processes(trees, pairs):
        _compile(pair, both, turns)


def _compile(pair: Pair, both: tuple[Process, Process], turns: int) -> None:
    rows: list[list[dict[str, float]]] = [[], []]
    try:
        for number in range(turns):
            for side in (0, 1) if number % 2 == 0 else (1, 0):
                rows[side].append(asked(both[side], "time", **pair.request))
    except RuntimeError as error:
        pair.figures["not compiled again"] = str(error)
        return
    pair.figures["check"] = [min(row["check"] for row in side) for side in rows]
    pair.figures["before check"] = [
        min(row["whole"] - row["check"] for row in side) for side in rows
    ]
