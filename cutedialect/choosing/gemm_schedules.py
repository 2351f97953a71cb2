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

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from heapq import nsmallest
from itertools import product
from math import exp
from operator import itemgetter
from typing import TypeAlias

from cutedialect.choices import Reduction
from cutedialect.schedule import Schedule

from .choose import choose
from .gemm_price import (
    LINE,
    Estimate,
    GemmPrice,
    facts_of,
    gemm_price,
    knows,
    parts_readers,
    scatters,
    shifts_apart,
    stages_of,
)
from .gemm_problem import (
    MOST_BESIDE,
    SWAPPED_AT_ONCE,
    Problem,
    Tiling,
    ceil_div,
    tiling_of,
    warpgroups,
)
from .need import Limits, Need

# (rows, columns) of CTA tiles, each with the clusters that it is tried in; best first among equals.
# A tile is one line of 128 bytes deep, the widest swizzle. 192 rows are three warpgroups.
_TILES = {
    (128, 256): ((2, 1), (1, 1)),
    (256, 128): ((1, 2),),
    (192, 192): ((1, 2), (1, 1)),
    (192, 176): ((1, 1),),
    (192, 160): ((1, 2), (1, 1)),
    (128, 224): ((2, 1), (1, 1)),
    (128, 192): ((2, 1), (1, 1)),
    (192, 128): ((1, 2), (1, 1)),
    (128, 160): ((1, 1),),
    (128, 128): ((1, 1), (1, 2)),
    (128, 96): ((1, 2), (1, 1)),
    (128, 80): ((1, 1),),
    (64, 192): ((2, 1),),
    (64, 160): ((2, 1),),
    (128, 64): ((1, 1), (1, 2)),
    (64, 128): ((1, 1), (2, 1)),
    (64, 64): ((1, 1),),
    (64, 32): ((1, 1),),
    (64, 16): ((1, 1),),
    (64, 8): ((1, 1),),
}
# Two warpgroups that take tiles in turns: one stores its results while the other multiplies.
_ALTERNATE = ((128, 128), (64, 256), (64, 128), (64, 64))
# Tiles of two lines: half as many waits on barriers, but fewer stages.
_DEEP = (
    (64, 160),
    (64, 128),
    (64, 112),
    (64, 96),
    (64, 80),
    (64, 64),
    (64, 48),
    (64, 32),
    (64, 16),
)
# Tiles of the transposed product, whose columns are the few rows of A, of one line and of two.
_SWAPPED = (
    (128, 208), (128, 192), (128, 176), (128, 160), (128, 144), (128, 128), (128, 96), (128, 64),
    (128, 48), (128, 32), (64, 16),
)  # fmt: skip
_SWAPPED_DEEP = ((64, 96), (64, 64), (64, 48), (64, 32), (64, 16), (64, 8))
# A problem with more rows than this keeps its product as it is.
_MOST_SWAPPED = 512
# Parts of the depth that CTAs share, as many as have this many steps each, and no more of them all
# than so many for each multiprocessor.
_PARTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
_LEAST_STEPS = 2
_MOST_SHARES = 2
# Each CTA of a cluster that shares a tile has room for a tile beside so many stages, or the first
# has for those of the others, where parts are no columns of an atom.
_LEAST_STAGES = 3
# Fields with which the CTAs of a cluster may not be able to share tiles.
_BESIDE_CLUSTERS = ("cluster", "split_k", "reduction", "scheduler", "roles", "stages")
_CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4))
# What an estimate with shared tiles has to be better by, which is less certain, and that of the
# transposed product of many rows.
_SHARED_MARGIN, _SWAPPED_MARGIN = 1.03, 1.01
# Cycles up to which CTAs start while the launch in front of theirs ends, in clusters of no more
# than two; larger ones always do. Of 306 and 117 pairs the early launch takes 0.65 of 2.5 us, 0.82
# of 5, 0.9 of 8 and 0.94 of 11; beyond that 1.02 (1.08 at worst), in larger clusters 0.96 to 75 us.
_EARLY = 60000.0
# The same of tiles that fit a problem of many in a batch, and of tiles smaller than the largest
# where several problems are one launch: such took 10 to 20 % longer than their estimates said.
_FITTED_MARGIN, _GROUP_MARGIN, _LARGEST = 1.05, 0.13, 128 * 256
# The same of warpgroups that take tiles of a batch in turns, where these have so few steps: what
# one stores hides behind no more than a few multiplies of the other (93 batches).
_TURNS_MARGIN, _FEW_STEPS = 1.5, 3
# Of schedules that are estimated to take so many times as long as the best at most, and of no more
# than so many, that one is chosen that is the fastest with what estimates miss, if that takes no
# more than such a share of the time of the best.
_NEAR, _MOST_NEAR, _GAIN = 1.12, 48, 0.985
# Where nothing but the warps of one warpgroup loads and prepares operands.
_ONE_GROUP = Schedule(roles="specialized")
# What a scheduler that is given leaves of other choices: work items are claimed by one CTA for one
# team, and teams take turns over several.
_BELOW_SCHEDULERS = {
    "single": _ONE_GROUP,
    "dynamic": _ONE_GROUP.merged(Schedule(cluster=(1, 1))),
}
_RASTERS = (1, 2, 4, 8, 16, 32)
_FEW_COLUMNS = 4
# Tiles, into how many parts CTAs split their depth, and how these are added.
_Choice: TypeAlias = tuple[Tiling, int, Reduction | None]
# Heights of tiles, and the widest of them. The lowest ones are one or two lines of 128 bytes deep.
_HEIGHTS, _WIDEST = (64, 128, 192, 256), 256
_DEEP_HEIGHT, _WIDEST_DEEP = 64, 128
_LINE_BITS = 1024
# Of tiles that are taken in turns, of a problem alone.
_TURNS_HEIGHT, _TURNS_WIDTHS = 128, (96, 176)
# Bytes to which rows are aligned that TMA copies; widths are multiples of so many columns, and of
# more where boxes of the operand lie across the depth.
_ALIGN, _UNIT, _UNIT_ACROSS = 16, 8, 16


@lru_cache(maxsize=8)
def _listed(bits: int) -> tuple[Tiling, ...]:
    """The tiles that are listed for elements of so many bits, best large ones first."""
    line = LINE * 8 // bits
    listed = [
        Tiling(*tile, line, *cluster) for tile, clusters in _TILES.items() for cluster in clusters
    ]
    listed += [Tiling(*tile, line, teams=True) for tile in _ALTERNATE]
    for tiles, lines, swapped in ((_DEEP, 2, False), (_SWAPPED, 1, True), (_SWAPPED_DEEP, 2, True)):
        listed += [Tiling(*tile, lines * line, swapped=swapped) for tile in tiles]
    return tuple(listed)


@lru_cache(maxsize=8)
def gemm_schedules(bits: int) -> tuple[Schedule, ...]:
    """The schedules for operands with elements of so many bits, best large tiles first."""
    return tuple(map(_schedule_of, _listed(bits)))


@lru_cache(maxsize=4096)
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
        first, rest = _ranking(problems, limits.registers)
        yield from (_below(given, schedule) for schedule in first)
        estimate = Estimate(problems, gemm_price(_DEVICE))
        yield from (_below(given, _whole(choice, problems, estimate)) for choice in rest)

    def need(self, problem: Sequence[Problem], schedule: Schedule) -> Need:
        """The accumulators of a thread, and how many it has room for."""
        tiling, groups = tiling_of(schedule), warpgroups(schedule)
        values = tiling.rows * tiling.columns / (128 * groups)
        room = min(each.room(tiling, False) for each in problem)
        if values > room:
            room = min(each.room(tiling, True) for each in problem)
        if schedule.plan.has_preparing_group:
            room = min(room, MOST_BESIDE)
        return Need(values, room, threads=128 * groups)


GEMM_SPACE = GemmSpace()
# Whose price it is.
_DEVICE = "h100"


def choose_schedule(*problems: Problem) -> Schedule:
    """What is chosen for a problem, or for several in one launch."""
    return choose(GEMM_SPACE, problems)


@lru_cache(maxsize=1024)
def _ranking(
    problems: tuple[Problem, ...], registers: float
) -> tuple[tuple[Schedule, ...], tuple[_Choice, ...]]:
    """The best, whole, and the others, that leave so many registers of a thread over."""
    estimate = Estimate(problems, gemm_price(_DEVICE))
    is_known = len(problems) == 1 and knows(problems[0])
    within, most = (_NEAR, _MOST_NEAR) if is_known else (1.0, 1)
    ranked = list(_priced(problems, estimate, registers))
    if len(problems) == 1 and ranked:
        best = _Best(within, most, map(itemgetter(0), ranked))
        listed = {choice for _, choice in ranked}
        for rank, choice in _fitted(problems[0], estimate, best, registers):
            if choice not in listed:
                best.add(rank)
                ranked.append((rank, choice))
    ranked.sort(key=itemgetter(0))
    # A tile of the list may fit as well.
    known: dict[_Choice, float] = {}
    for rank, choice in ranked:
        known.setdefault(choice, rank)
    choices = tuple(known)
    if not is_known or not choices:
        return (), choices
    near = [each for each in choices[:_MOST_NEAR] if known[each] <= within * known[choices[0]]]
    whole = [_whole(choice, problems, estimate) for choice in near]
    facts = [
        facts_of(schedule, problems[0], estimate.cycles(*choice), estimate)
        for schedule, choice in zip(whole, near, strict=True)
    ]
    missed = estimate.price.trees.sums(facts)
    prices = [known[choice] * exp(more) for choice, more in zip(near, missed, strict=True)]
    # The plainest by the estimate alone stays where others gain less.
    prices[0] *= _GAIN
    order = sorted(range(len(near)), key=prices.__getitem__)
    return tuple(whole[place] for place in order), choices[len(near) :]


def _whole(choice: _Choice, problems: tuple[Problem, ...], estimate: Estimate) -> Schedule:
    """A choice with all that goes with it."""
    tiling, parts, reduction = choice
    largest = max(problems, key=lambda each: each.m * each.n * each.k)
    whole = completed(
        _schedule_of(tiling), largest, estimate.cycles(*choice), tall=len(problems) > 1
    )
    if parts == 1:
        return whole
    shares = Schedule(split_k=parts, reduction=reduction)
    return whole.merged(shares.merged(_ONE_GROUP) if reduction == "cluster" else shares)


def completed(
    schedule: Schedule, problem: Problem, estimate: float, tall: bool = False
) -> Schedule:
    """An entry of the list with its raster (`raster_for`), and what is not estimated."""
    tiling = tiling_of(schedule)
    is_early = estimate <= _EARLY or tiling.down * tiling.right > 2
    return schedule.merged(
        Schedule(
            raster=raster_for(problem, schedule, tall),
            roles="shifting" if shifts_apart(tiling, problem) else None,
            early_launch="yes" if is_early else None,
        )
    )


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
    if given.scheduler is not None:
        chosen = chosen.merged(_BELOW_SCHEDULERS.get(given.scheduler))
    return chosen.merged(given)


def _margin(tiling: Tiling, parts: int, problems: tuple[Problem, ...]) -> float:
    """What an estimate counts as many times as."""
    problem = problems[0]
    margin = _SHARED_MARGIN if parts > 1 else 1.0
    if tiling.swapped and problem.m > _MOST_SWAPPED and not problem.turns:
        margin *= _SWAPPED_MARGIN
    if tiling.teams and problem.batch > 1 and problem.k * problem.bits <= _FEW_STEPS * LINE * 8:
        margin *= _TURNS_MARGIN
    if len(problems) > 1:
        margin *= 1 + _GROUP_MARGIN * max(0.0, 1 - tiling.rows * tiling.columns / _LARGEST)
    return margin


def _priced(
    problems: tuple[Problem, ...], estimate: Estimate, registers: float
) -> Iterator[tuple[float, _Choice]]:
    """By what they are compared, the entries of the list that suit some problems, with all parts
    into which they may split tiles.
    """
    widest = max(problems, key=lambda each: each.m)
    for tiling in _listed(widest.bits):
        if (tiling.swapped and not _may_swap(widest)) or not widest.takes(tiling, registers):
            continue
        for parts, reduction in _parts(tiling, problems, estimate.price):
            margin = _margin(tiling, parts, problems)
            yield (
                estimate.cycles(tiling, parts, reduction) * margin,
                (tiling, parts, reduction),
            )


class _Best:
    """What a price has to be below to be one of the least, of which so many count that are `within`
    times the least of all.
    """

    def __init__(self, within: float, most: int, prices: Iterable[float]) -> None:
        self._within = within
        self._prices = nsmallest(most, prices)
        self._most = most
        self.bar = self._bar()

    def _bar(self) -> float:
        bar = self._within * self._prices[0]
        return min(bar, self._prices[-1]) if len(self._prices) == self._most else bar

    def add(self, price: float) -> None:
        """Take note of one more."""
        insort(self._prices, price)
        del self._prices[self._most :]
        self.bar = self._bar()


def _fitted(
    problem: Problem, estimate: Estimate, best: _Best, registers: float
) -> Iterator[tuple[float, _Choice]]:
    """The same of tiles whose width fits the problem, in all clusters, where these may be best."""
    margin, price = _FITTED_MARGIN if problem.batch > 1 else 1.0, estimate.price
    for bound, tiling in sorted(fitted_tiles(problem, estimate.least, price)):
        if bound * margin >= best.bar:
            break
        if not problem.takes(tiling, registers):
            continue
        more, floor = _margin(tiling, 1, (problem,)), estimate.floor(tiling)
        alone = problem.blocks_of(tiling)
        is_whole = alone > price.shared_round * price.processors
        if is_whole and margin * (floor(alone, 1) * more) >= best.bar:
            continue  # No cluster shares these, and none takes fewer rounds.
        for down, right in _CLUSTERS[:3] if tiling.teams else _CLUSTERS:
            clustered = tiling._replace(down=down, right=right)
            blocks = problem.blocks_of(clustered)
            if not _fits_cluster(clustered, blocks, problem, price):
                continue
            # Most are too slow whatever they read.
            if margin * (floor(blocks, down * right) * more) < best.bar:
                rank = margin * (estimate.cycles(clustered, 1, None) * more)
                if rank < best.bar:
                    yield rank, (clustered, 1, None)
        # Parts through memory are what the list has.
        for parts, reduction in _parts_of_clusters(tiling, problem, price):
            cycles = estimate.cycles(tiling, parts, reduction)
            rank = margin * (cycles * _margin(tiling, parts, (problem,)))
            if rank < best.bar:
                yield rank, (tiling, parts, reduction)


def _fits_cluster(tiling: Tiling, blocks: int, problem: Problem, price: GemmPrice) -> bool:
    """Whether so many clusters of a tile find room: more than two CTAs in one round only, since no
    two devices hold alike many.
    """
    m, n = problem.extents(tiling.swapped)
    size = tiling.down * tiling.right
    if tiling.down > ceil_div(m, tiling.rows) or tiling.right > ceil_div(n, tiling.columns):
        return False
    return size <= 2 or blocks * size <= price.resident[size]


def _may_swap(problem: Problem) -> bool:
    """Whether the transposed product of a problem may be computed: of one that has fewer rows than
    columns, or whose operands are read more cheaply so. A matrix of one element may be contiguous
    along either mode, and would be along the wrong one.
    """
    is_wide = problem.m <= _MOST_SWAPPED and problem.m < problem.n
    return (is_wide or problem.turns) and problem.k >= 2


def _parts(
    tiling: Tiling, problems: tuple[Problem, ...], price: GemmPrice
) -> Iterator[tuple[int, Reduction | None]]:
    """Into how many parts the depth may be split, and how they are added."""
    yield 1, None
    if len(problems) != 1 or tiling.teams:
        return
    problem = problems[0]
    steps = ceil_div(problem.k, tiling.depth)
    tiles = problem.blocks_of(tiling) * tiling.down * tiling.right
    for parts in _PARTS:
        if parts * _LEAST_STEPS <= steps and parts * tiles <= _MOST_SHARES * price.processors:
            yield parts, None
    yield from _parts_of_clusters(tiling, problem, price)


def _parts_of_clusters(
    tiling: Tiling, problem: Problem, price: GemmPrice
) -> Iterator[tuple[int, Reduction]]:
    """The same where the CTAs that share a tile are a cluster."""
    if not problem.takes_clusters or tiling.down * tiling.right > 1:
        return
    steps, tiles = ceil_div(problem.k, tiling.depth), problem.blocks_of(tiling)
    for parts, resident in price.cluster_parts.items():
        if parts * _LEAST_STEPS > steps or parts * tiles > resident:
            continue
        tiles_sent = 1 if scatters(tiling, parts) else parts - 1
        if stages_of(tiling, problem, tiles_sent) >= _LEAST_STAGES:
            yield parts, "cluster"


def raster_for(problem: Problem, schedule: Schedule, tall: bool = False) -> int:
    """Rows of blocks that are walked together, for which a wave of tiles, a rectangle as nearly
    square as it can be, reads hardly more than it must: the fewest (`tall`: the most) of them.

    Where CTAs of one wave compute all columns, or all rows, each height reads the same. But those
    that start one after the other share a panel of the longer operand best: then all rows of a wide
    output are walked together, or one of a tall output, two of one with more than a few columns.
    """
    tiling = tiling_of(schedule)
    height, width = tiling.rows * tiling.down, tiling.columns * tiling.right
    m, n = problem.extents(tiling.swapped)
    resident = gemm_price(_DEVICE).processors // (tiling.down * tiling.right)
    rows, columns = max(1, ceil_div(m, height)), max(1, ceil_div(n, width))

    def read(raster: int) -> float:
        group = min(raster, rows)
        if group * columns >= resident:
            return group * height + resident / group * width
        return min(rows, resident / columns) * height + columns * width

    limit = min(map(read, _RASTERS)) * 1.05
    fitting = [raster for raster in _RASTERS if read(raster) <= limit]
    if tall:
        return fitting[-1]
    is_apart = parts_readers(tiling, problem) and problem.batch * rows * columns <= resident
    if tiling.down * tiling.right > 1 and not is_apart:
        return fitting[0]
    if m <= n:
        return next((raster for raster in fitting if raster >= rows), fitting[0])
    return next(raster for raster in fitting if raster > 1 or columns <= _FEW_COLUMNS)


def fitted_tiles(
    problem: Problem, bound: Callable[[int, int, int], float], price: GemmPrice
) -> Iterator[tuple[float, Tiling]]:
    """Tiles, and a bound of their cycles as `bound` says for rows, columns and how many there are.

    There are some where TMA copies operands and results.
    """
    if min(problem.align, problem.out_align) < _ALIGN:
        return
    line = _LINE_BITS // problem.bits
    narrowest, widest = _TURNS_WIDTHS
    for swapped in (False, True) if _may_swap_fitted(problem) else (False,):
        m, n = problem.extents(swapped)
        units = [_UNIT_ACROSS if problem.across[not swapped] else _UNIT]
        if swapped:
            units.append(SWAPPED_AT_ONCE)
        widths = tuple(dict.fromkeys(width for unit in units for width in _widths(n, unit)))
        for rows, columns in product(_HEIGHTS, widths):
            if rows > _HEIGHTS[0] and rows >= 2 * m:
                continue
            count = problem.batch * -(-m // rows) * -(-n // columns)
            least = bound(rows, columns, count)
            yield least, Tiling(rows, columns, line, swapped=swapped)
            if rows == _DEEP_HEIGHT and columns <= _WIDEST_DEEP:
                yield least, Tiling(rows, columns, 2 * line, swapped=swapped)
            fits = rows == _TURNS_HEIGHT and narrowest <= columns <= widest
            if fits and problem.batch == 1 and count > price.processors:
                yield least, Tiling(rows, columns, line, teams=True, swapped=swapped)


def _may_swap_fitted(problem: Problem) -> bool:
    """Whether tiles of the transposed product are fitted. A matrix of one element may be contiguous
    along either mode, and would be along the wrong one. Kernels of square products take their
    operands as they are, and scales of blocks take more registers: wide problems alone.
    """
    is_square = problem.m == problem.n and not problem.turns
    if min(problem.n, problem.k) <= 1 or is_square:
        return False
    return not any(problem.blocks) or problem.m < problem.n


def _widths(columns: int, unit: int) -> tuple[int, ...]:
    """The least multiples of a unit for each number of tiles beside each other."""
    most = -(-columns // unit)
    fewest = -(-columns // _WIDEST)
    counts = range(max(1, fewest), most + 1)
    return tuple(dict.fromkeys(unit * -(-columns // (unit * count)) for count in counts))
