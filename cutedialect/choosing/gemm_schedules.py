"""The schedules from which products choose where warpgroups multiply (sm_90a) or tcgen05 does
(sm_100a and its family), by what they are estimated to take (`gemm_price.py`).

`prices/gemm-candidates.json` lists tiles, and of which facts they may be chosen (`when`); the list
is short enough to compile whole (`python -m cutedialect schedules` prints it). On sm_90a, where TMA
copies operands and results, tiles whose width fits the problem compete with it, in clusters of up
to eight CTAs that multicast: of all that are so many beside each other, the narrowest, so that what
is computed behind the end of the columns is as little as can be, and a round of tiles as full as it
can be. Beside either it is chosen into how many parts the depth of a tile is split (`split_k`,
added in order), and whether the CTAs that share it are a cluster. Where there is more than one
round of tiles, two warpgroups may take such of 128 rows in turns. Tensor memory takes tiles of 128
rows, by CTAs alone or in pairs, of which each holds half of B.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from cutedialect.allocation import Ring, SharedUse
from cutedialect.schedule import Schedule

from .gemm_price import Facts, estimated, facts_of, gemm_price
from .gemm_problem import (
    AT_ONCE,
    LINE,
    MOST_BESIDE,
    TENSOR_COLUMNS,
    Problem,
    Tiles,
    ceil_div,
    crossed,
    table,
    warpgroups,
)
from .need import NONE, Limits, Need
from .price import Price, in_order, table_of

# Fields with which the CTAs of a cluster may not be able to share tiles.
_BESIDE_CLUSTERS = ("cluster", "split_k", "reduction", "scheduler", "roles", "stages")
# Fields that say how many threads there are, or what registers they have.
_OF_THREADS = ("warps", "registers", "ctas", "roles")
# Fields that say how large a stage is, and what lies beside the ring.
_OF_RINGS = ("tile", "split_k", "roles", "reduction")
# What a field that is given leaves of other choices: teams take turns over several work items, and
# one CTA claims them for one team; the CTAs that share a tile are the cluster, of one warpgroup or
# team each.
_BELOW = {
    ("scheduler", "single"): Schedule(roles="specialized"),
    ("scheduler", "dynamic"): Schedule(roles="specialized", cluster=(1, 1)),
    ("reduction", "cluster"): Schedule(roles="specialized", cluster=(1, 1)),
}
# Schedules of a problem that are kept, best first, and how many of these that are near the best are
# compared with what estimates miss.
_KEPT, _MOST_NEAR = 96, 48
# What a schedule follows from, beside the rules of its fields.
_CHOSEN = (
    "rows", "columns", "depth", "down", "right", "parts", "swapped", "raster", "kept_stages",
)  # fmt: skip
# Columns of the widest tile; widths are multiples of so many, and of more where boxes of the
# operand lie across the depth.
_WIDEST, _UNIT, _UNIT_ACROSS = 256, 8, 16


class GemmSpace:
    """The schedules of one product, or of several in one launch, which have one element type and
    the same limits: their CTAs walk over the tiles of all, and share none.

    >>> from cutedialect.atoms import usual_device
    >>> from cutedialect.choosing.choose import choose
    >>> for size in (8192, 100):
    ...     problem = Problem(size, size, size, 1, 16, 16, device=usual_device("sm_100a"))
    ...     print(choose(GEMM_SPACE, (problem,)).text())
    tile = (128,256,64), cluster = (2,1), swap_ab = no
    tile = (128,64,64), cluster = (1,1), swap_ab = no, early_launch = yes
    """

    name = "gemm"

    def ranked(
        self, problem: Sequence[Problem], given: Schedule | None, limits: Limits
    ) -> Iterator[Schedule]:
        """The schedules by their estimates for all problems together, the raster set for L2; where
        it is known what estimates miss, the lowest ones by both.
        """
        problems = tuple(problem)
        if limits.registers > 0 or given is not None:
            # Threads start with fewer where some do nothing but shift operands, and what is given
            # may want the warps that do.
            problems = tuple(replace(each, may_shift=False) for each in problems)
        in_tensor_memory = problems[0].in_tensor_memory
        is_alone = given is not None and _is_alone(given, in_tensor_memory)
        if is_alone and not in_tensor_memory:
            problems = tuple(replace(each, takes_clusters=False) for each in problems)
        for row in _ranking(problems, limits.registers):
            schedule = _schedule(row[: len(_CHOSEN)], row[len(_CHOSEN) :])
            if in_tensor_memory and is_alone and schedule.ctas_of_cluster > 1:
                continue
            whole = schedule.merged(given) if in_tensor_memory else _below(given, schedule)
            if problems[0].tap and not fits(whole, problems[0], "pixels"):
                continue
            if limits.smem == NONE.smem or self.need(problem, schedule).smem < limits.smem:
                yield whole

    def need(self, problem: Sequence[Problem], schedule: Schedule) -> Need:
        """The accumulators of a thread, how many it has room for, and the shared memory of two
        stages, or as many as are given. In tensor memory a thread has those of a row of the tile
        where it leaves.
        """
        sheets = facts_of(schedule, *problem)
        smem = max(_shared_bytes(f, schedule.stages or 2) for f in sheets)
        if problem[0].in_tensor_memory:
            width, columns = (sheets[0].each(name).item() for name in ("columns", "tensor_columns"))
            return Need(width, TENSOR_COLUMNS, smem, columns)
        groups = warpgroups(schedule)
        values = sheets[0]["area"].item() / (128 * groups)
        room = min(f["room"].item() for f in sheets)
        if values > room:
            room = min(f["most_room"].item() for f in sheets)
        if schedule.plan.has_preparing_group:
            room = min(room, MOST_BESIDE)
        return Need(values, float(room), smem, threads=128 * groups)


GEMM_SPACE = GemmSpace()


def _shared_bytes(f: Facts, stages: int) -> int:
    """Bytes of shared memory of a CTA with so many stages, as they are allocated later."""
    rings = (Ring(f.each("stage").item()),)
    return -SharedUse(0, kept=f.each("staged").item(), rings=rings, signaled=1).left(stages)


def fits(schedule: Schedule, problem: Problem, rules: str = "unfit") -> bool:
    """Whether tiles of warpgroups keep within the limits of a problem, by none of some rules."""
    (f,) = facts_of(schedule, problem)
    return not np.any(f.holding(table_of("gemm-candidates")[rules]))


def _is_alone(given: Schedule, in_tensor_memory: bool) -> bool:
    """Whether CTAs may not be able to share tiles of a cluster, or make pairs, with what is given:
    only CTAs by themselves claim tiles from a counter, and those of a cluster that adds up a tile
    are the cluster.
    """
    if in_tensor_memory:
        is_claimed = given.scheduler == "dynamic" or given.reduction == "cluster"
        return is_claimed or given.cluster is not None
    return any(getattr(given, name) is not None for name in _BESIDE_CLUSTERS)


def _below(given: Schedule | None, chosen: Schedule) -> Schedule:
    """A schedule of which some fields are given, on top of what is chosen."""
    for (name, value), fields in _BELOW.items():
        if given is not None and getattr(given, name) == value:
            chosen = chosen.merged(fields)
    if given is not None and any(getattr(given, name) is not None for name in _OF_THREADS):
        chosen = replace(chosen, warps=None, registers=None)
    if given is not None and any(
        getattr(given, name) not in (None, getattr(chosen, name)) for name in _OF_RINGS
    ):
        chosen = replace(chosen, stages=None)
    return chosen.merged(given)


@lru_cache(maxsize=1024)
def _ranking(problems: tuple[Problem, ...], registers: float) -> tuple[tuple[Any, ...], ...]:
    """What is `_CHOSEN` of the best tiles that leave so many registers of a thread over, and which
    rules of fields hold; the best first.
    """
    price = gemm_price(problems[0].device)
    tiles = _candidates(problems, price, registers)
    is_single = len(problems) == 1
    sheets = [Facts(tiles, each, price, is_single=is_single) for each in problems]
    cycles = sheets[0]["cycles"] = estimated(sheets)
    ranks = cycles * sheets[0]["margin"]
    order = np.argsort(ranks, kind="stable")[:_KEPT]
    if not len(order):
        return ()
    largest = max(problems, key=lambda each: each.m * each.n * each.k)
    f = Facts(tiles[order], largest, price, cycles=cycles[order], is_single=is_single)
    columns = [
        *(f.each(name) for name in _CHOSEN),
        *f.holding(table_of("gemm-candidates")["fields"]),
    ]
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    prices = ranks[order]
    count = int((prices[:_MOST_NEAR] <= price.near * prices[0]).sum())
    if f["is_timed"]:
        prices[:count] *= np.exp(price.trees.sums(f, count))
    # Those that are listed first are plainer.
    near = [(prices[place], rows[place]) for place in np.argsort(order[:count]).tolist()]
    return tuple(dict.fromkeys([*in_order(near, price.plain), *rows[count:]]))


@lru_cache(maxsize=1)
def _fields() -> list[Schedule]:
    """What the rules of fields that go with tiles say."""
    return [Schedule.parse(row["then"]) for row in table_of("gemm-candidates")["fields"]]


def _schedule(chosen: Sequence[Any], holding: Sequence[bool] = ()) -> Schedule:
    """The schedule of tiles by what is `_CHOSEN`, and the rules of fields that hold."""
    rows, columns, depth, down, right, parts, is_swapped, raster, stages = chosen
    schedule = Schedule(
        tile=(rows, columns, depth),
        cluster=(down, right),
        swap_ab="yes" if is_swapped else "no",
        split_k=parts if parts > 1 else None,
        raster=raster or None,
        stages=stages or None,
    )
    for holds, field in zip(holding, _fields(), strict=False):
        schedule = schedule.merged(field) if holds else schedule
    return schedule


@lru_cache(maxsize=8)
def _listed(kind: str, bits: int) -> Tiles:
    """The tiles of a kind for elements of so many bits, best large ones first: of one line of 128
    bytes, the widest swizzle, or of two, which wait half as often but have fewer stages.
    """
    rows = table_of("gemm-candidates")[kind]["tiles"]
    return table([row | {"depth": row["depth"] * LINE * 8 // bits} for row in rows])


@lru_cache(maxsize=8)
def gemm_schedules(bits: int) -> tuple[Schedule, ...]:
    """The schedules listed for operands with elements of so many bits, best large tiles first."""
    plain, in_turns = Schedule(roles="specialized"), Schedule(roles="alternate")
    return tuple(
        _schedule([*tile[list(_CHOSEN[:-2])].item(), 0, 0]).merged(
            in_turns if tile["teams"] else plain
        )
        for tile in _listed("listed", bits)
    )


def _candidates(problems: Sequence[Problem], price: Price, registers: float) -> Tiles:
    """The tiles that suit some problems, with the clusters and the parts that their kind may have;
    several problems share none of theirs.
    """
    widest, rules = max(problems, key=lambda each: each.m), table_of("gemm-candidates")

    def held(tiles: Tiles, when: Mapping[str, Any], never: Sequence[Mapping[str, Any]]) -> Tiles:
        f = Facts(tiles, widest, price, is_single=len(problems) == 1)
        return tiles[f.hold(when) & np.logical_not(np.any(f.holding(never), 0))]

    listed = "tensor" if widest.in_tensor_memory else "listed"
    kinds = {listed: _listed(listed, widest.bits)}
    if not widest.in_tensor_memory and len(problems) == 1:
        kinds["fitted"] = _fitted(widest)
    unfit = [] if widest.in_tensor_memory else rules["unfit"]
    spare = {"spare": [registers, None]} if registers > 0 else {}
    kinds = {
        kind: held(tiles, spare, [*unfit, *rules[kind]["never"]]) for kind, tiles in kinds.items()
    }
    variants = [
        held(crossed(kinds[row["of"]], row["tiles"]), row["when"], row.get("never", []))
        for row in rules["variants"]
        if row["of"] in kinds
    ]
    tiles = np.concatenate(variants)
    swapped = tiles["swapped"]
    # Weights become wider as rows of the transposed product, if there is one.
    return tiles[swapped] if widest.widens and swapped.any() else tiles


def _fitted(problem: Problem) -> Tiles:
    """Tiles whose width fits a problem, of each kind."""
    line = LINE * 8 // problem.bits
    rows = [
        {"rows": kind["rows"], "columns": width, "depth": kind["depth"] * line,
         "teams": kind["teams"], "swapped": swapped, "fitted": True}
        for swapped in (False, True)
        for kind in table_of("gemm-candidates")["fitted"]["tiles"]
        if kind["widened"] <= problem.widens
        for width in _widths(problem, swapped)
        if kind["columns"][0] <= width <= kind["columns"][1]
    ]  # fmt: skip
    return table(rows)


def _widths(problem: Problem, swapped: bool) -> list[int]:
    """The least multiples of a unit for each number of tiles beside each other."""
    columns = problem.m if swapped else problem.n
    least = _UNIT_ACROSS if problem.across[not swapped] else _UNIT
    widths: set[int] = set()
    for unit in (least, AT_ONCE) if swapped else (least,):
        counts = np.arange(ceil_div(columns, _WIDEST), ceil_div(columns, unit) + 1)
        widths.update((unit * ceil_div(columns, unit * counts)).tolist())
    return sorted(widths)
