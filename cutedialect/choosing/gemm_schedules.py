"""The schedules from which `cute.gemm` chooses on sm_90a, by what they are estimated to take
(`gemm_price.py`).

The list is short enough to compile whole (`python -m cutedialect schedules` prints it). Where TMA
copies operands and results, tiles whose width fits the problem compete with it, in clusters of up
to eight CTAs that multicast: of all that are so many beside each other, the narrowest, so that what
is computed behind the end of the columns is as little as can be, and a round of tiles as full as it
can be. Beside either it is chosen into how many parts the depth of a tile is split (`split_k`,
added in order), and whether the CTAs that share it are a cluster. Where there is more than one
round of tiles, two warpgroups may take such of 128 rows in turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from cutedialect.schedule import Schedule

from .gemm_price import (
    GemmPrice,
    estimated,
    facts_of,
    gemm_price,
    knows,
    parts_readers,
    scatters,
    shared_bytes,
    shifts_apart,
    stages_of,
)
from .gemm_problem import (
    LINE,
    MOST_BESIDE,
    SWAPPED_AT_ONCE,
    VECTOR,
    Counts,
    Problem,
    Tiling,
    ceil_div,
    tiling_of,
    warpgroups,
)
from .need import NONE, Limits, Need
from .price import candidates

# A problem with more rows than this keeps its product as it is.
_MOST_SWAPPED = 512
# Parts of the depth that CTAs share, as many as have this many steps each, and no more of them all
# than so many for each multiprocessor.
_PARTS = (2, 3, 4, 5, 6, 8, 10, 12, 16)
_LEAST_STEPS = 2
_MOST_SHARES = 2
# Each CTA of a cluster that shares a tile has room for a tile beside so many stages, or the first
# has for those of the others, where parts are no columns of an atom.
_LEAST_STAGES = 3
# Fields with which the CTAs of a cluster may not be able to share tiles.
_BESIDE_CLUSTERS = ("cluster", "split_k", "reduction", "scheduler", "roles", "stages")
_CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4))
# Tiles of a batch that two warpgroups take in turns hide stores behind no more than this few steps.
_FEW_STEPS = 3
# The largest tile, and how many schedules near the best are compared with what estimates miss.
_LARGEST, _MOST_NEAR = 128 * 256, 48
# Where nothing but the warps of one warpgroup loads and prepares operands.
_ONE_GROUP = Schedule(roles="specialized")
# What a scheduler that is given leaves of other choices: work items are claimed by one CTA for one
# team, and teams take turns over several.
_BELOW_SCHEDULERS = {
    "single": _ONE_GROUP,
    "dynamic": _ONE_GROUP.merged(Schedule(cluster=(1, 1))),
}
# Schedules of a problem that are kept, best first.
_KEPT = 96
_RASTERS = (1, 2, 4, 8, 16, 32)
_FEW_COLUMNS = 4
# What a wave of tiles may read more than it must.
_READ_MARGIN = 1.05
# CTAs of a multiprocessor that compute tiles of so many steps at once, each from the start.
_CTAS_AT_ONCE, _STEPS_AT_ONCE = 3, 16
_AT_ONCE = Schedule(roles="specialized", scheduler="single", ctas=_CTAS_AT_ONCE, early_launch="yes")
# Rows of the lowest tile, and columns of the widest; widths are multiples of so many, and of more
# where boxes of the operand lie across the depth.
_LEAST_ROWS, _WIDEST, _UNIT, _UNIT_ACROSS = 64, 256, 8, 16


@lru_cache(maxsize=8)
def _listed(bits: int) -> Tiling:
    """The tiles that are listed for elements of so many bits, best large ones first: of one line of
    128 bytes, the widest swizzle, or of two, which wait half as often but have fewer stages.
    """
    line = LINE * 8 // bits
    rows = candidates("gemm")
    return Tiling.table(Tiling(**row | {"depth": row["depth"] * line}) for row in rows)


@lru_cache(maxsize=8)
def gemm_schedules(bits: int) -> tuple[Schedule, ...]:
    """The schedules for operands with elements of so many bits, best large tiles first."""
    return tuple(map(_schedule_of, _listed(bits).each()))


def _schedule_of(tiling: Tiling) -> Schedule:
    return Schedule(
        tile=tiling[:3],
        cluster=(tiling.down, tiling.right),
        roles="alternate" if tiling.teams else "specialized",
        swap_ab="yes" if tiling.swapped else "no",
    )


class GemmSpace:
    """The schedules of one product, or of several in one launch, which have one element type and
    the same limits: their CTAs walk over the tiles of all, and share none.
    """

    name = "gemm"

    def ranked(
        self, problem: Sequence[Problem], given: Schedule | None, limits: Limits
    ) -> Iterator[Schedule]:
        """The schedules by their estimates for all problems together, the raster set for L2; where
        it is known what estimates miss, the lowest ones by both.
        """
        problems = tuple(problem)
        if limits.registers > 0:
            # Threads start with fewer where some do nothing but shift operands.
            problems = tuple(replace(each, may_shift=False) for each in problems)
        if given is not None and any(getattr(given, name) is not None for name in _BESIDE_CLUSTERS):
            problems = tuple(replace(each, takes_clusters=False) for each in problems)
        for choice in _ranking(problems, limits.registers):
            schedule = choice.schedule()
            if limits.smem == NONE.smem or self.need(problem, schedule).smem < limits.smem:
                yield _below(given, schedule)

    def need(self, problem: Sequence[Problem], schedule: Schedule) -> Need:
        """The accumulators of a thread, how many it has room for, and the shared memory of two
        stages, or as many as are given.
        """
        tiling, groups = tiling_of(schedule), warpgroups(schedule)
        values = tiling.rows * tiling.columns / (128 * groups)
        room = min(float(each.room(tiling, False)) for each in problem)
        if values > room:
            room = min(float(each.room(tiling, True)) for each in problem)
        if schedule.plan.has_preparing_group:
            room = min(room, MOST_BESIDE)
        smem = max(shared_bytes(tiling, each, schedule.stages or 2) for each in problem)
        return Need(values, room, smem, threads=128 * groups)


GEMM_SPACE = GemmSpace()


class _Choice(NamedTuple):
    """Tiles with all that goes with them."""

    tiling: Tiling
    raster: int
    is_early: bool
    shifts_apart: bool
    takes_turns: bool
    at_once: bool

    def schedule(self) -> Schedule:
        tiling = self.tiling
        if self.at_once:
            # No team has a tile to store while another multiplies.
            return _schedule_of(tiling._replace(teams=False)).merged(_AT_ONCE)
        is_split, in_cluster = tiling.parts > 1, tiling.parts > 1 and tiling.in_cluster
        whole = Schedule(
            raster=self.raster,
            roles="shifting" if self.shifts_apart else None,
            early_launch="yes" if self.is_early else None,
            overlap="yes" if self.takes_turns else None,
            unroll=2 if self.takes_turns else None,
            split_k=tiling.parts if is_split else None,
            reduction="cluster" if in_cluster else None,
        )
        return _schedule_of(tiling).merged(whole).merged(_ONE_GROUP if in_cluster else None)


@lru_cache(maxsize=1024)
def _ranking(problems: tuple[Problem, ...], registers: float) -> tuple[_Choice, ...]:
    """The best choices that leave so many registers of a thread over, the best one first."""
    price = gemm_price(problems[0].device)
    is_known = len(problems) == 1 and knows(problems[0])
    tilings, is_fitted = _candidates(problems, registers, price)
    cycles = estimated(tilings, problems, price)
    ranks = cycles * _margins(tilings, is_fitted, problems, price)
    # A tile of the list may fit as well.
    known: dict[Tiling, int] = {}
    for place in np.argsort(ranks, kind="stable"):
        known.setdefault(tilings.row(place), place)
        if len(known) == _KEPT:
            break
    if not known:
        return ()
    order = np.array(list(known.values()))
    kept, cycles, ranks = tilings.taken(order), cycles[order], ranks[order]
    largest = max(problems, key=lambda each: each.m * each.n * each.k)
    raster = _rasters(largest, kept, price, tall=len(problems) > 1)
    latest = price.early_widened if problems[0].widens else price.early
    early = (cycles <= latest) | (kept.ctas > 2)
    apart = np.broadcast_to(shifts_apart(kept, largest), early.shape)
    turns = problems[0].takes_turns(kept)
    at_once = _are_at_once(kept, problems, price)
    columns = raster, early, apart, turns, at_once
    choices = [
        _Choice(*row) for row in zip(known, *(each.tolist() for each in columns), strict=True)
    ]
    if is_known:
        near = ranks[:_MOST_NEAR] <= price.near * ranks[0]
        count = int(near.sum())
        facts = facts_of(kept, largest, price, cycles, raster, early)
        missed = price.trees.sums({name: column[:count] for name, column in facts.items()})
        prices = ranks[:count] * np.exp(missed)
        # The plainest by the estimate alone stays where others gain less.
        prices[0] *= price.gain
        choices[:count] = [choices[place] for place in np.argsort(prices, kind="stable")]
    return tuple(choices)


def _are_at_once(tilings: Tiling, problems: Sequence[Problem], price: GemmPrice) -> Counts:
    """Whether all tiles of few steps are computed at once, by three CTAs of each multiprocessor,
    instead of by teams that take them in turns: where threads scale and add up, that takes 0.86 of
    the time (64 x 24576 x 1536, an H200), and the same where tiles are fewer than multiprocessors.
    """
    problem = problems[0]
    tiles = problem.blocks_of(tilings) / price.processors
    is_few = ceil_div(problem.k, tilings.depth) <= _STEPS_AT_ONCE
    is_alone = problem.promotes and len(problems) == 1
    return is_alone & tilings.teams & is_few & (ceil_div(tiles, 1) == _CTAS_AT_ONCE)


def _below(given: Schedule | None, chosen: Schedule) -> Schedule:
    """A schedule of which some fields are given, on top of what is chosen."""
    if given is None:
        return chosen
    if chosen.plan.has_preparing_group:
        # What is given may want the warps that shift.
        chosen = chosen.merged(_ONE_GROUP)
    if given.reduction == "cluster":
        # The CTAs that share a tile are the cluster, of one warpgroup or team each.
        chosen = chosen.merged(_ONE_GROUP.merged(Schedule(cluster=(1, 1))))
    return chosen.merged(_BELOW_SCHEDULERS.get(given.scheduler or "")).merged(given)


def _margins(
    tilings: Tiling, is_fitted: Counts, problems: Sequence[Problem], price: GemmPrice
) -> Counts:
    """What estimates count as many times as."""
    problem, margins = problems[0], price.margins
    shared = 1.0 if problem.widens else margins["shared"]
    if problem.promotes and not problem.widens:
        shared = np.where(tilings.in_cluster, margins["joined"], shared)
    factors = np.where(tilings.parts > 1, shared, 1.0)
    if problem.m > _MOST_SWAPPED and not problem.turns:
        factors *= np.where(tilings.swapped, margins["swapped"], 1.0)
    if problem.batch > 1:
        factors *= np.where(is_fitted, margins["fitted"], 1.0)
        if problem.k * problem.bits <= _FEW_STEPS * LINE * 8:
            factors *= np.where(tilings.teams, margins["turns"], 1.0)
    if len(problems) > 1:
        size = tilings.rows * tilings.columns
        factors *= 1 + margins["group"] * np.maximum(0.0, 1 - size / _LARGEST)
    return factors


def _candidates(
    problems: Sequence[Problem], registers: float, price: GemmPrice
) -> tuple[Tiling, Counts]:
    """The entries of the list that suit some problems, with all parts into which they may split
    tiles; tiles whose width fits a problem alone, in all clusters; and which of all are of these.
    """
    widest = max(problems, key=lambda each: each.m)
    tilings = _listed(widest.bits)
    if not _may_swap(widest):
        tilings = tilings.taken(np.logical_not(tilings.swapped))
    tilings = tilings.taken(widest.takes(tilings, registers))
    count = len(tilings.rows)
    tables = [tilings]
    if len(problems) == 1:
        fitted = fitted_tiles(widest, price)
        fitted = fitted.taken(widest.takes(fitted, registers))
        tables = [
            _in_parts(tilings, widest, price),
            _in_clusters(fitted, widest, price),
            # Parts through memory are what the list has.
            _parts_of_clusters(fitted, widest, price),
        ]
        count = len(tables[0].rows)
    tilings = Tiling.joined(*tables)
    is_fitted = np.arange(len(tilings.rows)) >= count
    if widest.widens and tilings.swapped.any():
        return tilings.taken(tilings.swapped), is_fitted[tilings.swapped]
    return tilings, is_fitted


def _in_clusters(tilings: Tiling, problem: Problem, price: GemmPrice) -> Tiling:
    """Tiles in all clusters that find room: more than two CTAs in one round only, since no two
    devices hold alike many.
    """
    down, right = zip(*_CLUSTERS, strict=True)
    tilings = tilings.crossed(down=down, right=right)
    m, n = problem.extents(tilings.swapped)
    size = tilings.ctas
    has_tiles = (tilings.down <= ceil_div(m, tilings.rows)) & (
        tilings.right <= ceil_div(n, tilings.columns)
    )
    is_one_round = problem.blocks_of(tilings) * size <= price.resident_ctas(size)
    fits = has_tiles & ((size <= 2) | is_one_round)
    return tilings.taken(fits & np.logical_not(tilings.teams & (size > 2)))


def _may_swap(problem: Problem) -> bool:
    """Whether the transposed product of a problem may be computed: of one that has fewer rows than
    columns, or whose operands are read more cheaply so. A matrix of one element may be contiguous
    along either mode, and would be along the wrong one.
    """
    is_wide = problem.m <= _MOST_SWAPPED and problem.m < problem.n
    is_right = is_wide or problem.turns or problem.widens
    return problem.may_swap and is_right and problem.k >= 2


def _in_parts(tilings: Tiling, problem: Problem, price: GemmPrice) -> Tiling:
    """Tiles whole, in parts that are added through memory, and in those of clusters."""
    parts = tilings.crossed(parts=_PARTS)
    has_steps = parts.parts * _LEAST_STEPS <= ceil_div(problem.k, parts.depth)
    tiles = problem.blocks_of(parts) * parts.ctas
    is_few = parts.parts * tiles <= _MOST_SHARES * price.processors
    parts = parts.taken(has_steps & is_few & np.logical_not(parts.teams))
    return Tiling.joined(tilings, parts, _parts_of_clusters(tilings, problem, price))


def _parts_of_clusters(tilings: Tiling, problem: Problem, price: GemmPrice) -> Tiling:
    """Tiles in parts whose CTAs are a cluster."""
    counts = list(price.cluster_parts) if problem.takes_clusters else []
    parts = tilings.crossed(parts=counts, in_cluster=[True] * len(counts))
    has_steps = parts.parts * _LEAST_STEPS <= ceil_div(problem.k, parts.depth)
    has_room = parts.parts * problem.blocks_of(parts) <= price.blocks_at_once(parts)
    is_alone = (parts.ctas == 1) & np.logical_not(parts.teams)
    parts = parts.taken(has_steps & has_room & is_alone)
    sent = np.where(scatters(parts), 1, parts.parts - 1)
    return parts.taken(stages_of(parts, problem, sent) >= _LEAST_STAGES)


def raster_for(problem: Problem, schedule: Schedule, tall: bool = False) -> int:
    """Rows of blocks that are walked together, for which a wave of tiles, a rectangle as nearly
    square as it can be, reads hardly more than it must: the fewest (`tall`: the most) of them.

    Where CTAs of one wave compute all columns, or all rows, each height reads the same. But those
    that start one after the other share a panel of the longer operand best: then all rows of a wide
    output are walked together, or one of a tall output, two of one with more than a few columns.
    """
    return int(_rasters(problem, tiling_of(schedule), gemm_price(problem.device), tall)[0])


def _rasters(problem: Problem, tilings: Tiling, price: GemmPrice, tall: bool) -> Counts:
    """`raster_for` of each row of a table."""
    height, width = tilings.rows * tilings.down, tilings.columns * tilings.right
    resident = price.processors // tilings.ctas
    rows, columns = (np.maximum(1, each) for each in problem.blocks_along(tilings))
    rasters = np.array(_RASTERS)
    heights = rasters[:, None]
    group = np.minimum(heights, rows)
    of_wave = group * height + resident / group * width
    of_all = np.minimum(rows, resident / columns) * height + columns * width
    read = np.where(group * columns >= resident, of_wave, of_all)
    fits = read <= read.min(0) * _READ_MARGIN
    fewest = rasters[fits.argmax(0)]
    if tall:
        return rasters[len(rasters) - 1 - fits[::-1].argmax(0)]
    m, n = problem.extents(tilings.swapped)
    has_all, is_more = fits & (heights >= rows), fits & ((heights > 1) | (columns <= _FEW_COLUMNS))
    of_wide = np.where(has_all.any(0), rasters[has_all.argmax(0)], fewest)
    in_order = np.where(m <= n, of_wide, rasters[is_more.argmax(0)])
    is_apart = parts_readers(tilings, problem) & (problem.batch * rows * columns <= resident)
    return np.where((tilings.ctas > 1) & np.logical_not(is_apart), fewest, in_order)


def fitted_tiles(problem: Problem, price: GemmPrice) -> Tiling:
    """Tiles whose width fits a problem, of the kinds in `prices/gemm_fitted-candidates.json`; there
    are some where TMA copies operands and results.
    """
    if min(problem.align, problem.out_align) < VECTOR:
        return _listed(problem.bits).taken(slice(0))
    line = LINE * 8 // problem.bits
    tables: list[Tiling] = []
    for swapped in (False, True) if _may_swap_fitted(problem) else (False,):
        m, n = (problem.n, problem.m) if swapped else (problem.m, problem.n)
        units = [_UNIT_ACROSS if problem.across[not swapped] else _UNIT]
        if swapped:
            units.append(SWAPPED_AT_ONCE)
        widths = np.unique(np.concatenate([_widths(n, unit) for unit in units]))
        kinds = [
            kind
            for kind in candidates("gemm_fitted")
            if kind["rows"] < max(2 * m, _LEAST_ROWS + 1) and kind["widened"] <= problem.widens
        ]
        table = Tiling.table(
            Tiling(kind["rows"], 0, kind["lines"] * line, teams=kind["teams"], swapped=swapped)
            for kind in kinds
        ).crossed(columns=widths.tolist())
        least, most = (
            np.repeat([kind[name] for kind in kinds], len(widths))
            for name in ("narrowest", "widest")
        )
        tables.append(table.taken((least <= table.columns) & (table.columns <= most)))
    tilings = Tiling.joined(*tables)
    # Two warpgroups take tiles in turns of which each processor has more than one.
    has_rounds = (problem.blocks_of(tilings) > price.processors) & (problem.batch == 1)
    tilings = tilings.taken(has_rounds | np.logical_not(tilings.teams))
    if not problem.widens:
        return tilings
    has_stages = stages_of(tilings, problem) >= _LEAST_STAGES
    return tilings.taken(has_stages | (tilings.depth == line))


def _may_swap_fitted(problem: Problem) -> bool:
    """Whether tiles of the transposed product are fitted. A matrix of one element may be contiguous
    along either mode, and would be along the wrong one. Kernels of square products take their
    operands as they are, and scales of blocks take more registers: wide problems alone. Weights
    that become wider are rows of tiles in any case.
    """
    is_square = problem.m == problem.n and not (problem.turns or problem.widens)
    if min(problem.n, problem.k) <= 1 or is_square or not problem.may_swap:
        return False
    return not any(problem.blocks) or problem.m < problem.n or problem.widens


def _widths(columns: int, unit: int) -> Counts:
    """The least multiples of a unit for each number of tiles beside each other."""
    most, fewest = ceil_div(columns, unit), ceil_div(columns, _WIDEST)
    counts = np.arange(max(1, fewest), most + 1)
    return unit * ceil_div(columns, unit * counts)
