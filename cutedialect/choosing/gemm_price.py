"""What tiles of a product need, and what they are estimated to take, in cycles: of a step of the
main loop, of what a tile does besides, of the waves of tiles, and of memory. `prices/` has formulas
for all devices and products (`gemm-facts.json`) and the constants of each, and says what these were
fitted to. Of 355 problems that were timed on an H100 what is chosen takes 1.032 of the best in the
geometric mean, of 829 others, of which each launch stood alone, 1.037.

What estimates miss, as a share of the time, say regression trees over such facts, where TMA copies
operands of 8 and 16 bits and results of 16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from types import CodeType
from typing import Any

import numpy as np

from cutedialect.atoms import Device
from cutedialect.schedule import Schedule

from .gemm_problem import Counts, Problem, Tiles, ceil_div, groups_of, tiles_of
from .price import Price, load, nearest, table_of

_RASTERS, _FEW_COLUMNS = np.array([1, 2, 4, 8, 16, 32]), 4
# What a wave of tiles may read more than it must.
_READ_MARGIN = 1.05
# Decimals of a cycle that are compared: what is behind them differs from machine to machine; and
# what no time is divided by.
_DECIMALS, _LEAST_CYCLES = 3, 1e-9


@lru_cache(maxsize=4)
def gemm_price(device: Device) -> Price:
    """The price of products on a device, or that of the nearest one scaled for it."""
    of = nearest("gemm", device)
    return scaled(load("gemm", of.file), of, device)


def scaled(price: Price, of: Device, device: Device) -> Price:
    """The price of one device for another."""
    more = device.processors / of.processors
    memory = device.memory_bytes_per_cycle / of.memory_bytes_per_cycle
    changed = {
        name: {ctas: int(count * more) // ctas * ctas for ctas, count in table.items()}
        for name, table in vars(price).items()
        if name in ("resident", "cluster_parts")
    }
    changed |= {"l2_all": price.l2_all * more, "memory_bytes": price.memory_bytes * memory}
    return Price(**vars(price) | changed)


def norm(exponent: float, *parts: Counts) -> Counts:
    """More than the largest of some times, and less than their sum."""
    largest = np.maximum.reduce(np.broadcast_arrays(*parts, _LEAST_CYCLES))
    total: Counts = 0.0
    for part in parts:
        total = total + (part / largest) ** exponent
    return largest * total ** (1 / exponent)


def _looked_up(known: Mapping[int, int], keys: Counts, default: int) -> Counts:
    """What a table has for each of some keys."""
    return np.array([known.get(key, default) for key in range(int(np.max(keys, initial=1)) + 1)])[
        keys
    ]


_OF_NUMPY = (
    "all", "array", "floor", "gcd", "log", "log2", "maximum", "minimum", "searchsorted", "where",
)  # fmt: skip
# What formulas call.
FUNCTIONS: dict[str, Any] = {name: getattr(np, name) for name in _OF_NUMPY} | {
    "ceil_div": ceil_div, "groups_of": groups_of, "looked_up": _looked_up, "norm": norm,
    "any": any, "len": len, "max": max, "min": min, "sum": sum,
}  # fmt: skip


@cache
def _formulas() -> dict[str, CodeType]:
    return {
        name: compile(formula, f"{name} of gemm-facts.json", "eval")
        for group in table_of("gemm-facts")
        for name, formula in group["facts"].items()
    }


class Facts(dict[str, Counts]):
    """What is known of tiles of a problem by the price of a device: the fields of the problem, the
    columns of the tiles, what is `given`, and what follows from these by formulas, each computed
    where it is asked for. Constants of the price are those of `p`.
    """

    def __init__(self, tiles: Tiles, problem: Problem, price: Price, **given: Counts) -> None:
        columns = {name: tiles[name] for name in tiles.dtype.names or ()}
        super().__init__(FUNCTIONS | vars(problem) | columns | {"p": price, "total": self.total})
        self.tiles, self.problem, self.price = tiles, problem, price
        self.update(given, rasters=lambda: _rasters(self), margins=self.margins)

    def __missing__(self, name: str) -> Counts:
        formula = _formulas().get(name)
        value = getattr(self.problem, name) if formula is None else eval(formula, {}, self)
        self[name] = value
        return value

    def each(self, name: str) -> Counts:
        """A fact of each candidate."""
        return np.broadcast_to(self[name], len(self.tiles))

    def hold(self, when: Mapping[str, Any]) -> Counts:
        """Where some facts have a value, or lie between the least and the most, null for none."""
        holds = np.ones(len(self.tiles), bool)
        for name, wanted in when.items():
            least, most = wanted if isinstance(wanted, list) else (wanted, wanted)
            holds &= True if least is None else self[name] >= least
            holds &= True if most is None else self[name] <= most
        return holds

    def holding(self, rows: Sequence[Mapping[str, Any]]) -> list[Counts]:
        """Where each of some rules holds."""
        return [self.hold(row["when"]) for row in rows]

    def total(self, name: str) -> Counts:
        """What the rules of a table of candidates add up to."""
        rows = table_of("gemm-candidates")[name]
        return np.dot([row["then"] for row in rows], self.holding(rows))

    def margins(self) -> Counts:
        """What the margins of a price that hold multiply to."""
        rows = self.price.margins
        held = np.array(self.holding(rows), float).reshape(len(rows), len(self.tiles))
        return np.prod([row["then"] for row in rows] ** held.T, 1)


def _rasters(f: Facts) -> Counts:
    """Rows of blocks that are walked together, for which a wave of tiles, a rectangle as nearly
    square as it can be, reads hardly more than it must: the fewest (of several problems the most)
    of them.

    Where CTAs of one wave compute all columns, or all rows, each height reads the same. But those
    that start one after the other share a panel of the longer operand best: then all rows of a wide
    output are walked together, or one of a tall output, two of one with more than a few columns.
    """
    resident = f["device"].processors // f["ctas"]
    rows, columns = np.maximum(1, f["below"]), np.maximum(1, f["beside"])
    heights, height, width = _RASTERS[:, None], f["rows"] * f["down"], f["columns"] * f["right"]
    group = np.minimum(heights, rows)
    of_wave = group * height + resident / group * width
    of_all = np.minimum(rows, resident / columns) * height + columns * width
    read = np.where(group * columns >= resident, of_wave, of_all)
    fits = read <= read.min(0) * _READ_MARGIN
    if not f["is_single"]:
        return _RASTERS[len(_RASTERS) - 1 - fits[::-1].argmax(0)]
    fewest = _RASTERS[fits.argmax(0)]
    has_all, is_more = fits & (heights >= rows), fits & ((heights > 1) | (columns <= _FEW_COLUMNS))
    of_wide = np.where(has_all.any(0), _RASTERS[has_all.argmax(0)], fewest)
    in_order = np.where(f["height"] <= f["width"], of_wide, _RASTERS[is_more.argmax(0)])
    is_apart = f["parts_readers"] & (f["batch"] * rows * columns <= resident)
    return np.where((f["ctas"] > 1) & np.logical_not(is_apart), fewest, in_order)


def facts_of(schedule: Schedule, *problems: Problem) -> list[Facts]:
    """What is known of the tiles of a schedule, of each of some problems."""
    tiles, price = tiles_of(schedule), gemm_price(problems[0].device)
    return [Facts(tiles, each, price, is_single=len(problems) == 1) for each in problems]


def estimated(sheets: Sequence[Facts]) -> Counts:
    """Clock cycles that candidates are estimated to take for problems that are one launch, each of
    which has its facts of them.
    """
    first, p = sheets[0], sheets[0].price
    if len(sheets) == 1:
        memory, walk = first["late_memory"], first["walk"]
    else:
        launched = sum(f["items"] for f in sheets)
        for f in sheets:
            f["launched"] = launched
        tiles = [f["tile_cycles"] for f in sheets]
        work = sum(f["items"] * each for f, each in zip(sheets, tiles, strict=True))
        walk = work / first["resident"] + np.maximum.reduce(tiles) / 2
        memory = sum(f["memory"] for f in sheets)
    walk = (walk + first["last"]) * first["factor"]
    return np.round(p.launch + norm(p.memory_norm, walk, memory), _DECIMALS)


def cycles(schedule: Schedule, *problems: Problem) -> float:
    """Estimated clock cycles of a schedule on a problem, or on several in one launch."""
    return estimated(facts_of(schedule, *problems)).item()
