"""Prices as data: for a device and a space a file with constants, and with regression trees over
named facts (boosting: each was fitted to what the ones before it left).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "prices"
Tree = tuple[Sequence[tuple[int, float]], Sequence[int]]


@dataclass(frozen=True)
class Trees:
    """`rows` of (splits, leaves): splits are (number of a fact, limit), breadth first, leaves are
    added up in units of `unit`.
    """

    facts: tuple[str, ...]
    unit: float
    rows: tuple[Tree, ...]

    def sums(self, rows: Sequence[Mapping[str, float]]) -> list[float]:
        """What the trees add up to for rows of facts by name, all of one problem: facts that are
        the same in each are compared once.
        """
        columns = [[row[name] for row in rows] for name in self.facts]
        totals = [0] * len(rows)
        everyone = range(len(rows))
        for splits, leaves in self.rows:
            groups: list[tuple[int, Sequence[int]]] = [(0, everyone)]
            while groups:
                node, group = groups.pop()
                if node >= len(splits):
                    leaf = leaves[node - len(splits)]
                    for row in group:
                        totals[row] += leaf
                    continue
                fact, limit = splits[node]
                column = columns[fact]
                above = [row for row in group if column[row] > limit]
                if above:
                    groups.append((2 * node + 2, above))
                if len(above) < len(group):
                    below = [row for row in group if column[row] <= limit] if above else group
                    groups.append((2 * node + 1, below))
        return [self.unit * total for total in totals]


NO_TREES = Trees((), 0.0, ())


@dataclass(frozen=True)
class Price:
    """What is known of a device: `constants` by name, `trees`, and `timings`, which says what both
    were fitted to.
    """

    space: str
    device: str
    constants: Mapping[str, Any]
    trees: Trees
    timings: Mapping[str, Any]


@lru_cache(maxsize=8)
def load(space: str, device: str) -> Price:
    """The price of a space on a device. Raises FileNotFoundError where there is no such file."""
    data = json.loads((FOLDER / f"{space}-{device}.json").read_text(encoding="utf-8"))
    trees = data["trees"]
    rows = tuple((tuple(map(tuple, splits)), tuple(leaves)) for splits, leaves in trees["rows"])
    return Price(
        data["space"],
        data["device"],
        data["constants"],
        Trees(tuple(trees["facts"]), trees["unit"], rows),
        data["timings"],
    )
