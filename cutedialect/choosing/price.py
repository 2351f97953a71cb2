"""Prices as data: for a device and a space a file with constants, and with regression trees over
named facts (boosting: each was fitted to what the ones before it left).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from math import log
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from cutedialect.atoms import DEVICES, Device
from cutedialect.remarks import Remark

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDER = Path(__file__).parent / "prices"
Entry = TypeVar("Entry")
Tree = tuple[Sequence[tuple[int, float]], Sequence[int]]


@dataclass(frozen=True)
class Trees:
    """`rows` of (splits, leaves), all of one depth: splits are (number of a fact, limit), breadth
    first, leaves are added up in units of `unit`.
    """

    facts: Sequence[str]
    unit: float
    rows: Sequence[Tree]

    @cached_property
    def _tables(self) -> list[NDArray[Any]]:
        """The splits of all trees, and their leaves."""
        return [np.array(each) for each in zip(*self.rows, strict=True)]

    def sums(self, columns: Mapping[str, Any], count: int | None = None) -> NDArray[np.float64]:
        """What the trees add up to, for columns of facts by name, or for so many of their rows."""
        if not self.rows:
            return np.zeros(1)
        splits, leaves = self._tables
        facts, limits = splits[..., 0].astype(int), splits[..., 1]
        values = np.array(np.broadcast_arrays(*(columns[name] for name in self.facts)), float)
        values = values[:, :count]
        trees, rows = np.arange(len(facts)), np.arange(values.shape[1])[:, None]
        node = np.zeros((values.shape[1], len(facts)), int)
        for _ in range(leaves.shape[1].bit_length() - 1):
            above = values[facts[trees, node], rows] > limits[trees, node]
            node = 2 * node + 1 + above
        return self.unit * leaves[trees, node - facts.shape[1]].sum(1)


NO_TREES = Trees((), 0.0, ())


class Price(SimpleNamespace):
    """What is known of a device: constants by their names (`prices/README.md`), `trees`, and
    `timings`, which says what both were fitted to.
    """


def nearest(space: str, device: Device) -> Device:
    """The device whose prices hold for another one: itself where it has a file, else that whose
    numbers differ least.
    """

    def distance(known: Device) -> float:
        names = "processors", "clock", "multiplies", "memory_bytes"
        return sum(abs(log(getattr(known, name) / getattr(device, name))) for name in names)

    known = [each for each in DEVICES if (FOLDER / f"{space}-{each.file}.json").exists()]
    return min(known, key=lambda each: (each != device, distance(each)))


def remark_on(space: str, device: Device) -> Remark | None:
    """What is said where a device has no prices of its own."""
    of = nearest(space, device)
    if of == device:
        return None
    return Remark(
        "choosing",
        f"no timings of {device.name} are known: the schedule follows from those of {of.name}, "
        f"scaled to {device.processors} multiprocessors and {device.memory_bytes / 1e12:g} TB/s",
    )


def named(constants: Mapping[str, Any]) -> dict[str, Any]:
    """Constants as a file has them, in whose tables numbers are keys."""

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {int(key) if key.isdigit() else key: each for key, each in value.items()}

    return {name: read(value) for name, value in constants.items()}


@cache
def table_of(name: str) -> Any:
    """A file of prices as it is."""
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def load(space: str, device: str) -> Price:
    """The price of a space on a device. Raises FileNotFoundError where there is no such file."""
    data = table_of(f"{space}-{device}")
    trees = Trees(**data["trees"]) if "trees" in data else NO_TREES
    return Price(**named(data["constants"]), trees=trees, timings=data["timings"])


def in_order(priced: Iterable[tuple[float, Entry]], margin: float = 1.0) -> Iterator[Entry]:
    """What has prices, plain entries first: a later one comes before an earlier one where that
    costs more than `margin` times as much.

    >>> list(in_order([(103.0, "plain"), (100.0, "odd"), (90.0, "odder")], 1.05))
    ['odder', 'plain', 'odd']
    """
    left = list(priced)
    if margin == 1.0:
        left.sort(key=itemgetter(0))
        yield from (entry for _, entry in left)
        return
    while left:
        best = 0
        for place, (price, _) in enumerate(left):
            if price * margin < left[best][0]:
                best = place
        yield left.pop(best)[1]
