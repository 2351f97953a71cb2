"""Prices as data: for a device and a space a file with constants, and with regression trees over
named facts (boosting: each was fitted to what the ones before it left).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutedialect.atoms import DEVICES, Device
from cutedialect.remarks import Remark

FOLDER = Path(__file__).parent / "prices"
Tree = tuple[Sequence[tuple[int, float]], Sequence[int]]


@dataclass(frozen=True)
class Trees:
    """`rows` of (splits, leaves), all of one depth: splits are (number of a fact, limit), breadth
    first, leaves are added up in units of `unit`.
    """

    facts: tuple[str, ...]
    unit: float
    rows: tuple[Tree, ...]

    @cached_property
    def _tables(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The facts and limits of the splits of all trees, and their leaves."""
        splits, leaves = (np.array(each) for each in zip(*self.rows, strict=True))
        return splits[..., 0].astype(int), splits[..., 1], leaves

    def sums(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        """What the trees add up to, for columns of facts by name."""
        count = len(next(iter(columns.values())))
        if not self.rows:
            return np.zeros(count)
        facts, limits, leaves = self._tables
        values = np.array([columns[name] for name in self.facts], float)
        trees, rows = np.arange(len(facts)), np.arange(count)[:, None]
        node = np.zeros((count, len(facts)), int)
        for _ in range(leaves.shape[1].bit_length() - 1):
            above = values[facts[trees, node], rows] > limits[trees, node]
            node = 2 * node + 1 + above
        return self.unit * leaves[trees, node - facts.shape[1]].sum(1)


NO_TREES = Trees((), 0.0, ())


@dataclass(frozen=True)
class Price:
    """What is known of a device: `constants` by name, `trees`, and `timings`, which says what both
    were fitted to.
    """

    constants: Mapping[str, Any]
    trees: Trees
    timings: Mapping[str, Any]


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


@lru_cache(maxsize=8)
def candidates(space: str) -> list[dict[str, Any]]:
    """The rows of a space's table of candidates, the best first among equals."""
    return json.loads((FOLDER / f"{space}-candidates.json").read_text(encoding="utf-8"))


@lru_cache(maxsize=8)
def load(space: str, device: str) -> Price:
    """The price of a space on a device. Raises FileNotFoundError where there is no such file."""
    data = json.loads((FOLDER / f"{space}-{device}.json").read_text(encoding="utf-8"))
    trees = data.get("trees")
    return Price(data["constants"], _trees(trees) if trees else NO_TREES, data["timings"])


def _trees(trees: Mapping[str, Any]) -> Trees:
    """Trees as a file has them."""
    rows = tuple((tuple(map(tuple, splits)), tuple(leaves)) for splits, leaves in trees["rows"])
    return Trees(tuple(trees["facts"]), trees["unit"], rows)
