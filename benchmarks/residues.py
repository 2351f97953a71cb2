"""Regression trees for what the estimates of GEMM's schedules miss, fitted to timings.

    python -m benchmarks.residues TIMINGS... [--write] [--trees N]

TIMINGS are files of JSON lines: {"case": "4096x1024x512 bf16 TN", "schedule": TEXT, "us": TIME}, of
some schedules each of many problems. Printed is by how much what is chosen among them takes longer
than the best of them, in the geometric mean, by the estimates alone and with trees that were fitted
to other problems; `--write` fits them to all and writes `gemm_residues.py`.

Trees are fitted one after the other to what is left of the logarithm of the time over the estimate,
of which only what schedules of one problem differ in counts, those near the best one most.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cutedialect.choosing import gemm_residues
from cutedialect.choosing.gemm_estimate import cycles, facts_of, knows
from cutedialect.choosing.gemm_problem import Problem
from cutedialect.choosing.gemm_schedules import raster_for
from cutedialect.frontend.declarations import GEMM
from cutedialect.frontend.gemm import GemmCall
from cutedialect.schedule import Schedule

from .gemm_case import Gemm
from .inputs import TYPES

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

# Splits from the root to a leaf, what a tree's fit counts, and into how many groups the values of a
# fact are sorted.
_DEPTH, _RATE, _GROUPS = 4, 0.14, 24
# Weight that a side of a split has at least, and that pulls leaves to zero.
_LEAST, _PULL = 4.0, 4.0
# A timing counts exp(-5 x) where it is x longer, of a logarithm, than the best of its problem.
_NEARNESS, _FARTHEST = 5.0, 0.6
_FOLDS = 6
_FEWEST = 2
_NONE = (0, 1e9)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.residues",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("timings", metavar="TIMINGS", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="the trees to the package")
    parser.add_argument("--trees", type=int, default=96, metavar="N")
    options = parser.parse_args(arguments)
    timings = Timings(*(path.open(encoding="utf-8") for path in options.timings))
    print(f"{len(timings.times)} timings of {timings.problems} problems")
    print(f"by estimates: {timings.longer(timings.estimates):.4f} of the best of them")
    apart = timings.predicted_apart(options.trees)
    print(f"with trees fitted to others: {timings.longer(timings.estimates + apart):.4f}")
    if options.write:
        trees = Trees.fitted(timings, np.ones(len(timings.times), bool), options.trees)
        path = Path(gemm_residues.__file__)
        path.write_text(trees.text(timings, timings.longer(timings.estimates + apart)), "utf-8")
        print(f"written: {path}")
    return 0


class Timings:
    """What was measured in some runs, a row for each schedule of each problem: `facts`, logarithms
    of `times` and `estimates`, and the number of the problem (`of`), another one in each run.
    """

    def __init__(self, *runs: Iterable[str]) -> None:
        by_case: dict[tuple[int, str], dict[str, float]] = {}
        for run, lines in enumerate(runs):
            for record in map(json.loads, lines):
                if "us" in record:
                    times = by_case.setdefault((run, record["case"]), {})
                    times[record["schedule"]] = record["us"]
        rows: list[tuple[tuple[float, ...], float, float, int]] = []
        number = 0
        for (_, name), times in by_case.items():
            problem = problem_of(name)
            of_problem = []
            for text, us in times.items():
                schedule = Schedule.parse(text)
                if _is_choice(schedule, problem):
                    estimate = cycles(schedule, problem)
                    facts = facts_of(schedule, problem, estimate)
                    of_problem.append((facts, np.log(us), np.log(estimate), number))
            if knows(problem) and len(of_problem) >= _FEWEST:
                rows += of_problem
                number += 1
        self.problems = number
        facts, times_, estimates, of = zip(*rows, strict=True)
        self.facts: Array = np.array(facts, float)
        self.times: Array = np.array(times_)
        self.estimates: Array = np.array(estimates)
        self.of: Numbers = np.array(of)
        self.best: Array = np.full(number, np.inf)
        np.minimum.at(self.best, self.of, self.times)

    def longer(self, predicted: Array) -> float:
        """How many times the best what is predicted to be fastest takes, in the mean."""
        found = [
            self.times[rows[np.argmin(predicted[rows])]] - self.best[number]
            for number in range(self.problems)
            for rows in (np.flatnonzero(self.of == number),)
        ]
        return float(np.exp(np.mean(found)))

    def predicted_apart(self, count: int) -> Array:
        """What trees predict that were fitted to other problems."""
        order = list(range(self.problems))
        random.Random(1).shuffle(order)
        fold = np.empty(self.problems, int)
        fold[order] = np.arange(self.problems) % _FOLDS
        found = np.zeros(len(self.times))
        for each in range(_FOLDS):
            others = fold[self.of] != each
            found[~others] = Trees.fitted(self, others, count).predicted(self.facts[~others])
        return found


def problem_of(name: str) -> Problem:
    """The problem that a case is, by its name."""
    size, dtype, majors = name.split()[:3]
    edges = size.split("x") if "x" in size else [size.removesuffix("^3")] * 3
    m, n, k = map(int, edges)
    ((a, b),) = Gemm("timed", dtype, (m, n, k), majors).specs
    out_dtype = TYPES[dtype][1]
    return GemmCall.of(GEMM.given(a, b, out_dtype=out_dtype)).problem()


def _is_choice(schedule: Schedule, problem: Problem) -> bool:
    """Whether the default may be this schedule: its raster is that of the rule, and fields that it
    never has are not given.
    """
    others = (schedule.scheduler, schedule.ctas, schedule.stages, schedule.loads, schedule.epilogue)
    whole = schedule.tile and schedule.cluster and schedule.roles and schedule.swap_ab
    return bool(whole) and not any(others) and schedule.raster == raster_for(problem, schedule)


@dataclass
class Trees:
    """`splits` of each tree, breadth first, as (fact, limit), and what its `leaves` add."""

    splits: list[list[tuple[int, float]]] = field(default_factory=list)
    leaves: list[Array] = field(default_factory=list)

    @classmethod
    def fitted(cls, timings: Timings, among: NDArray[np.bool_], count: int) -> Trees:
        """So many trees, fitted to some of the timings."""
        facts, of = timings.facts[among], timings.of[among]
        slower = timings.times[among] - timings.best[of]
        weights = np.exp(-_NEARNESS * np.minimum(slower, _FARTHEST))
        limits = [_limits(column) for column in facts.T]
        groups = np.stack(
            [np.searchsorted(each, column) for each, column in zip(limits, facts.T, strict=True)], 1
        )
        total = np.maximum(np.bincount(of, weights, timings.problems), 1e-9)

        def centered(left: Array) -> Array:
            return left - (np.bincount(of, weights * left, timings.problems) / total)[of]

        found = cls()
        left = centered(timings.times[among] - timings.estimates[among])
        for _ in range(count):
            splits, node = _tree(groups, weights, left)
            size = 2**_DEPTH
            sums = np.bincount(node, weights * left, size)
            leaf = _RATE * sums / (np.bincount(node, weights, size) + _PULL)
            found.splits.append(
                [_NONE if each is None else (each[0], limits[each[0]][each[1]]) for each in splits]
            )
            found.leaves.append(leaf)
            left = centered(left - leaf[node])
        return found

    def predicted(self, facts: Array) -> Array:
        found = np.zeros(len(facts))
        rows = np.arange(len(facts))
        for splits, leaves in zip(self.splits, self.leaves, strict=True):
            of, limits = np.array([each[0] for each in splits]), np.array([s[1] for s in splits])
            node = np.zeros(len(facts), int)
            for _ in range(_DEPTH):
                node = 2 * node + 1 + (facts[rows, of[node]] > limits[node])
            found += leaves[node - len(splits)]
        return found

    def text(self, timings: Timings, error: float) -> str:
        """The module that holds the trees."""
        words: list[str] = []
        for splits, leaves in zip(self.splits, self.leaves, strict=True):
            shown = ", ".join(f"({fact}, {limit:.6g})" for fact, limit in splits)
            added = ", ".join(str(round(1e4 * value)) for value in leaves)
            words += f"(({shown}), ({added})),".split()
        lines = [""]
        for word in words:
            if len(lines[-1]) + len(word) > 95:
                lines.append("")
            lines[-1] += f" {word}"
        body = "\n".join(f"   {line}" for line in lines)
        return _WRITTEN.format(
            count=len(timings.times), problems=timings.problems, error=error, body=body
        )


_WRITTEN = '''\
"""Regression trees for what the estimates of `gemm_estimate.py` miss of the time's logarithm,
fitted one after the other to what is left of it (boosting), as `python -m benchmarks.residues
--write` wrote them: to {count:,} timings of {problems} problems. On problems that a fit did not
see what is chosen by them takes {error:.3f} of the best time of those that were timed, in the
geometric mean.
"""

# Of each tree (fact, limit) of each split, breadth first, and what its leaves add, in so much.
LEAF_UNIT = 1e-4
# fmt: off
TREES: tuple[tuple[tuple[tuple[int, float], ...], tuple[int, ...]], ...] = (
{body}
)
'''


def _limits(values: Array) -> Array:
    """Between what values of a fact may be told apart."""
    distinct = np.unique(values)
    if len(distinct) <= _GROUPS:
        return (distinct[1:] + distinct[:-1]) / 2
    return np.unique(np.quantile(values, np.linspace(0, 1, _GROUPS + 1)[1:-1]))


def _tree(
    groups: Numbers, weights: Array, left: Array
) -> tuple[list[tuple[int, int] | None], Numbers]:
    """(fact, limit) of the splits of one tree, by number, and the leaf of each row."""
    count, facts = groups.shape
    width = int(groups.max()) + 1
    cells = groups + width * np.arange(facts)
    node = np.zeros(count, int)
    splits: list[tuple[int, int] | None] = []
    for level in range(_DEPTH):
        below = 2 * node
        for number in range(2**level):
            rows = np.flatnonzero(node == number)
            split = _split(cells[rows], weights[rows], left[rows], facts, width)
            splits.append(split)
            if split is not None:
                below[rows] += groups[rows, split[0]] > split[1]
        node = below
    return splits, node


def _split(
    cells: Numbers, weights: Array, left: Array, facts: int, width: int
) -> tuple[int, int] | None:
    """The split that leaves the least squares; None where sides would have too little weight."""
    if len(cells) == 0:
        return None

    def summed(values: Array) -> Array:
        found = np.bincount(cells.ravel(), np.repeat(values, facts), facts * width)
        return found.reshape(facts, width).cumsum(1)

    low, low_sum = summed(weights), summed(weights * left)
    high, high_sum = low[:, -1:] - low, low_sum[:, -1:] - low_sum
    gain = low_sum**2 / (low + _PULL) + high_sum**2 / (high + _PULL)
    gain -= low_sum[:, -1:] ** 2 / (low[:, -1:] + _PULL)
    gain[(low < _LEAST) | (high < _LEAST)] = -1.0
    fact, limit = np.unravel_index(np.argmax(gain), gain.shape)
    return (int(fact), int(limit)) if gain[fact, limit] > 0 else None


if __name__ == "__main__":
    sys.exit(main())
