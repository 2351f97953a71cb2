"""The price file of a space on a device, made from kept timings: constants first, then trees for
what they miss. The same timings give the same file, bit by bit.

    python -m benchmarks.fit --space gemm --device h100 [--constants] [--write]
    python -m benchmarks.fit --space gemm --device h200 --measure --minutes 10 [--seed S]
    python -m benchmarks.fit --space gemm --device b200 --predict --minutes 25 [--seed S]
    python -m benchmarks.fit --space gemm --device h200 --pack

`--space program` does the same for tiles of programs (`program_tiles.py`), with constants alone.

Timings are kept in `--timings` (benchmarks/timings), as `fit_timings.py` says: of each problem some
schedules, those that may be the best. `--measure` draws problems and appends what the device at
hand takes for them to SPACE-DEVICE.SEED.jsonl, a problem at a time, until the minutes are over: a
run that is cut keeps what it has. `--predict` does the same with what the static model says of a
device that nobody lends (`predicted.py`), and the file says so. `--pack` makes one compressed file
in their place. Printed is by how much what is chosen among them takes longer than the best of them,
in the geometric mean: by the nearest device's file, by the constants as they were, fitted, and with
trees that were fitted to other problems. `--write` puts the fit to all into the
package.

With `--constants` these are fitted, too, before the trees: they are changed one at a time, by 10 %
and by 3 %, as long as that leaves less of the logarithm of the time over the estimate, of which
only what schedules of one problem differ in counts, those near the best one most. Trees are fitted
one after the other to what is left of it.
"""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutedialect.atoms import DEVICES, H100, Device
from cutedialect.choosing import gemm_price, price
from cutedialect.choosing.gemm_price import Facts, estimated, facts_of
from cutedialect.choosing.gemm_problem import Problem, Tiles, tiles_of
from cutedialect.choosing.price import NO_TREES, Price, named
from cutedialect.schedule import Schedule

from . import program_tiles
from .fit_timings import KEPT, Record, is_timed, measured, minutes_of, pack, problem_of, read
from .predicted import predicted
from .supervisor import NoDeviceError

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
# More trees than this are no better on problems that they were not fitted to.
_TREES = 48
_FEWEST = 2
_SOURCES = {False: "a device", True: "the static model, which predicted them: no device was timed"}
_NONE = (0, 1e9)
# What trees may compare (`prices/README.md`).
COMPARED = (
    "log_estimate", "memory_share", "ctas", "cluster_long", "cluster_short", "readers", "panels",
    "rounds", "last_round_empty", "active", "results_share", "log_rereads", "step_bytes",
    "edge_bytes", "step_bytes_of_all", "steps", "log_depth", "rows", "columns", "area", "values",
    "lines", "swapped", "teams", "early", "signed_parts", "within_sectors", "within_lines", "bits",
    "operands_across", "narrow_boxes", "pitch", "most_stages", "raster_rows",
)  # fmt: skip
# In which leaves are written.
_UNIT = 1e-4


# By how much a constant is changed at once, in turns, and what a change has to leave less.
_CHANGES, _PASSES, _LESS = (1.1, 1 / 1.1, 1.03, 1 / 1.03), 3, 1e-6


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fit",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--space", choices=("gemm", "program"), required=True)
    parser.add_argument("--device", required=True, help="as in the file's name: h100, h200")
    parser.add_argument("--write", action="store_true", help="the file of prices to the package")
    parser.add_argument("--measure", action="store_true", help="add timings of the device at hand")
    parser.add_argument("--predict", action="store_true", help="add what the static model says")
    parser.add_argument("--minutes", type=float, default=10.0, help="of the device (default 10)")
    parser.add_argument("--seed", type=int, default=1, help="of the problems that are measured")
    parser.add_argument("--timings", type=Path, default=KEPT, help="the folder of timings")
    parser.add_argument("--pack", action="store_true", help="make one compressed file of timings")
    parser.add_argument("--trees", type=int, default=_TREES, metavar="N")
    parser.add_argument("--constants", action="store_true", help="fit the constants, too")
    options = parser.parse_args(arguments)
    stem = f"{options.space}-{options.device}"
    if options.measure or options.predict:
        source = measured if options.measure else partial(predicted, _device(options.device))
        if options.space == "program":
            source = program_tiles.measured
        timed = partial(source, options.seed, options.minutes)
        return _measure(options.timings, stem, options.seed, timed)
    records = read(options.timings, stem)
    if not records:
        print(
            f"expected timings in {options.timings / stem}.jsonl.xz, got none: take them on a "
            "device with --measure",
            file=sys.stderr,
        )
        return 1
    if options.pack:
        path = pack(options.timings, stem)
        print(f"{len(records)} timings, {path.stat().st_size} bytes: {path}")
        return 0
    if options.space == "program":
        device = _device(options.device)
        text = program_tiles.fitted_file(device, records, print, minutes_of(records))
    else:
        text = fitted_file(
            options.space, options.device, records, options.trees, print, options.constants
        )
    if options.write:
        target = price.FOLDER / f"{options.space}-{options.device}.json"
        target.write_text(text, "utf-8")
        print(f"written: {target}")
    return 0


def _measure(
    folder: Path, stem: str, seed: int, timed: Callable[[Callable[[str], None]], Iterator[Any]]
) -> int:
    """Append timings to the file of a seed as they come."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}.{seed}.jsonl"
    problems = count = 0
    say = partial(print, flush=True)
    try:
        with path.open("a", encoding="utf-8") as file:
            for records in timed(say):
                file.write("".join(json.dumps(record) + "\n" for record in records))
                file.flush()
                problems, count = problems + 1, count + len(records)
                if records:
                    best = min(records, key=lambda record: record["us"])
                    say(
                        f"{best['at']:4} s, {problems} problems, {count} timings; {best['case']}: "
                        f"{best['us']:.1f} us, {best['schedule']}"
                    )
    except NoDeviceError as error:
        print(error, file=sys.stderr)
        return 1
    say(f"{count} timings of {problems} problems: {path}")
    return 0


def fitted_file(
    space: str,
    device: str,
    records: Sequence[Record],
    trees: int,
    say: Callable[[str], None],
    fits_constants: bool,
) -> str:
    """The text of a price file, fitted to some timings: its trees, and constants if these are."""
    data = json.loads(
        (price.FOLDER / f"{space}-{_known(space, device)}.json").read_text(encoding="utf-8")
    )
    # What a fit began with stays, so that it can be made again.
    start = data.get("start", data["constants"])
    if data["device"] != device:
        start = _scaled(start, _device(data["device"]), _device(device))
    timings = Timings(records, price_of(start), _device(device))
    say(f"{len(timings.times)} timings of {timings.problems} problems")
    say(f"by the constants that were there: {timings.longer(timings.estimates):.4f} of the best")
    constants = start
    if fits_constants:
        constants = fitted_constants(timings, start)
        timings.estimate(price_of(constants))
        say(f"by constants fitted to all: {timings.longer(timings.estimates):.4f}")
    apart = timings.longer(timings.estimates + timings.predicted_apart(trees))
    say(f"with trees fitted to others: {apart:.4f}")
    data = {
        "space": space,
        "device": device,
        "timings": {
            "of": _SOURCES[any(record.get("predicted") for record in records)],
            "kept": True,
            "count": len(timings.times),
            "problems": timings.problems,
            "minutes": round(minutes_of(records), 1),
            "longer_than_best": round(apart, 4),
        },
        "source": source_hash(),
        "start": start,
        "constants": constants,
    }
    return text_of(data, Trees.fitted(timings, np.ones(len(timings.times), bool), trees), timings)


def _known(space: str, device: str) -> str:
    """A device whose file a fit begins with: its own, or that of an H100."""
    return device if (price.FOLDER / f"{space}-{device}.json").exists() else "h100"


def price_of(constants: Mapping[str, Any]) -> Price:
    """A price with constants as a file has them."""
    return Price(**named(constants), trees=NO_TREES)


def _scaled(constants: Mapping[str, Any], of: Device, device: Device) -> dict[str, Any]:
    """The constants of one device for another, as a file has them."""
    scaled = vars(gemm_price.scaled(price_of(constants), of, device))
    return json.loads(json.dumps({name: scaled[name] for name in constants}))


def _device(name: str) -> Device:
    """The device that a file's name says; an H100 where the table has none of it."""
    return next((device for device in DEVICES if device.file == name), H100)


def source_hash() -> str:
    """Of the source of the estimate and the facts: timings have to be fitted again where it is
    another one.
    """
    source = inspect.getsource(gemm_price) + json.dumps(price.table_of("gemm-facts"))
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def text_of(data: Mapping[str, Any], trees: Trees, timings: Timings) -> str:
    """A price file: a line for each tree."""
    rows = [
        [
            [[fact, float(f"{limit:.6g}")] for fact, limit in splits],
            [round(float(leaf) / _UNIT) for leaf in leaves],
        ]
        for splits, leaves in zip(trees.splits, trees.leaves, strict=True)
    ]
    body = ",\n".join("   " + json.dumps(row, separators=(",", ":")) for row in rows)
    head = json.dumps(data, indent=1).removesuffix("\n}")
    return (
        f'{head},\n "trees": {{\n  "unit": {_UNIT},\n  "facts": {json.dumps(COMPARED)},\n'
        f'  "rows": [\n{body}\n  ]\n }}\n}}\n'
    )


def fitted_constants(timings: Timings, start: Mapping[str, Any]) -> dict[str, Any]:
    """Constants that leave the least, one changed at a time."""
    found = json.loads(json.dumps(start))
    least = timings.left(price_of(found))
    for _ in range(_PASSES):
        for place in list(_places(found)):
            for change in _CHANGES:
                before = _at(found, place)
                _put(found, place, float(f"{before * change:.4g}"))
                left = timings.left(price_of(found))
                if left < least - _LESS:
                    least = left
                else:
                    _put(found, place, before)
    return found


# How many CTAs run at one time is counted, and what a choice has to be better by is set.
_COUNTED = ("resident", "cluster_parts", "bands", "few_stages", "margins", "group", "plain",
            "early", "early_widened", "near")  # fmt: skip
Place = tuple[str | int, ...]


def _places(constants: Any, path: Place = ()) -> Iterator[Place]:
    """Where the numbers are."""
    items = constants.items() if isinstance(constants, dict) else enumerate(constants)
    for key, value in items:
        if key in _COUNTED:
            continue
        if isinstance(value, dict | list):
            yield from _places(value, (*path, key))
        elif value:
            yield *path, key


def _at(constants: Any, place: Place) -> float:
    for key in place:
        constants = constants[key]
    return constants


def _put(constants: Any, place: Place, value: float) -> None:
    for key in place[:-1]:
        constants = constants[key]
    constants[place[-1]] = value


@dataclass(frozen=True)
class _Group:
    """The schedules of problems that differ in their sizes alone: those of `problem` are arrays, a
    size for each schedule.
    """

    problem: Problem
    tiles: Tiles
    raster: Numbers
    early: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: Iterable[tuple[Problem, Schedule]]) -> _Group:
        problems, schedules = zip(*rows, strict=True)
        sizes: Any = {
            name: np.array([getattr(each, name) for each in problems]) for name in ("m", "n", "k")
        }
        raster = np.array([schedule.raster or 1 for schedule in schedules])
        early = np.array([schedule.early_launch == "yes" for schedule in schedules])
        return cls(replace(problems[0], **sizes), tiles_of(*schedules), raster, early)

    def facts(self, price: Price, **given: Any) -> Facts:
        """What is known of them by a price."""
        given |= {"raster": self.raster, "early": self.early}
        return Facts(self.tiles, self.problem, price, **given)


def _alike(row: tuple[Problem, Any]) -> str:
    """What problems of a group have in common."""
    return repr(replace(row[0], m=0, n=0, k=0))


class Timings:
    """What was measured in some runs, a row for each schedule of each problem: `facts`, logarithms
    of `times` and of `estimates` by a price, and the number of the problem (`of`), another one in
    each run.
    """

    def __init__(self, records: Iterable[Record], constants: Price, device: Device = H100) -> None:
        by_case: dict[tuple[int, str], dict[str, float]] = {}
        for record in records:
            times = by_case.setdefault((record.get("run", 0), record["case"]), {})
            times[record["schedule"]] = record["us"]
        rows: list[tuple[Problem, list[tuple[Schedule, float]]]] = []
        for (_, name), times in by_case.items():
            problem = problem_of(name, device)
            chosen = [
                (schedule, us)
                for schedule, us in ((Schedule.parse(text), us) for text, us in times.items())
                if _is_choice(schedule, problem)
            ]
            if is_timed(problem) and len(chosen) >= _FEWEST:
                rows.append((problem, chosen))
        rows.sort(key=_alike)
        self._groups = [
            _Group.of((problem, schedule) for problem, chosen in group for schedule, _ in chosen)
            for _, group in groupby(rows, _alike)
        ]
        self.problems = len(rows)
        self.times: Array = np.log([us for _, chosen in rows for _, us in chosen])
        self.of: Numbers = np.repeat(np.arange(self.problems), [len(each) for _, each in rows])
        self.best: Array = np.full(self.problems, np.inf)
        np.minimum.at(self.best, self.of, self.times)
        self.estimate(constants)

    def estimate(self, constants: Price) -> None:
        """Take the estimates of a price, and the facts that follow from them."""
        cycles = self._cycles(constants)
        sheets = [
            group.facts(constants, cycles=each)
            for group, each in zip(self._groups, cycles, strict=True)
        ]
        columns = [np.concatenate([sheet.each(name) for sheet in sheets]) for name in COMPARED]
        self.facts: Array = np.array(columns, float).T
        self.estimates: Array = np.log(np.concatenate(cycles))

    def _cycles(self, constants: Price) -> list[Array]:
        return [estimated([group.facts(constants)]) for group in self._groups]

    def left(self, constants: Price) -> float:
        """What a price leaves of the times, squared, in the mean of the weights."""
        weights = self.weights
        left = self.times - np.log(np.concatenate(self._cycles(constants)))
        total = np.bincount(self.of, weights, self.problems)
        left = left - (np.bincount(self.of, weights * left, self.problems) / total)[self.of]
        return float((weights * left**2).sum() / weights.sum())

    @property
    def weights(self) -> Array:
        """What each timing counts."""
        slower = self.times - self.best[self.of]
        return np.exp(-_NEARNESS * np.minimum(slower, _FARTHEST))

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


def _is_choice(schedule: Schedule, problem: Problem) -> bool:
    """Whether the default may be this schedule: its raster is that of the rule, and fields that it
    never has are not given.
    """
    if problem.in_tensor_memory:
        return True  # the space's own list
    others = (schedule.scheduler, schedule.ctas, schedule.loads, schedule.epilogue)
    whole = schedule.tile and schedule.cluster and schedule.roles and schedule.swap_ab
    if not whole or any(others):
        return False
    (f,) = facts_of(schedule, problem)
    # Kept timings of CTAs that share a tile are of as many stages as fit, too.
    kept = f.each("kept_stages").item()
    return schedule.raster == f["raster"] and schedule.stages in (None, kept)


@dataclass
class Trees:
    """`splits` of each tree, breadth first, as (fact, limit), and what its `leaves` add."""

    splits: list[list[tuple[int, float]]] = field(default_factory=list)
    leaves: list[Array] = field(default_factory=list)

    @classmethod
    def fitted(cls, timings: Timings, among: NDArray[np.bool_], count: int) -> Trees:
        """So many trees, fitted to some of the timings."""
        facts, of = timings.facts[among], timings.of[among]
        weights = timings.weights[among]
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
