"""The schedules from which `cute.gemm` chooses on sm_90a, by what they are estimated to take
(`gemm_estimate.py`).

The list is short enough to compile whole (`python -m cutedialect schedules` prints it). Where TMA
copies operands and results, tiles whose width fits the problem compete with it, in clusters of up
to eight CTAs that multicast: of all that are so many beside each other, the narrowest, so that what
is computed behind the end of the columns is as little as can be, and a round of tiles as full as it
can be. Beside either it is chosen into how many parts the depth of a tile is split (`split_k`,
added in order), and whether the CTAs that share it are a cluster. Where there is more than one
round of tiles, two warpgroups may take such of 128 rows in turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import exp, inf
from operator import itemgetter
from typing import TypeAlias

from cutedialect.choices import Reduction, Roles, Switch
from cutedialect.schedule import Schedule

from .choose import choose
from .gemm_estimate import (
    CLUSTER_PARTS,
    LINE,
    PROCESSORS,
    RESIDENT,
    estimated,
    knows,
    least_cycles,
    parts_readers,
    residue,
    scatters,
    shifts_apart,
    stages_of,
)
from .gemm_problem import (
    SWAPPED_AT_ONCE,
    Problem,
    block_of,
    blocks_of,
    ceil_div,
    extents_of,
    values_of,
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
# A schedule, into how many parts it splits the depth of a tile, and how these are added.
_Choice: TypeAlias = tuple[Schedule, int, Reduction | None]
# Heights of tiles, and the widest of them. The lowest ones are one or two lines of 128 bytes deep.
_HEIGHTS, _WIDEST = (64, 128, 192, 256), 256
_DEEP_HEIGHT, _WIDEST_DEEP = 64, 128
_LINE_BITS = 1024
# Of tiles that are taken in turns, of a problem alone.
_TURNS_HEIGHT, _TURNS_WIDTHS = 128, (96, 176)
# Bytes to which rows are aligned that TMA copies; widths are multiples of so many columns, and of
# more where boxes of the operand lie across the depth.
_ALIGN, _UNIT, _UNIT_ACROSS = 16, 8, 16

Tile = tuple[int, int, int]


@lru_cache(maxsize=8)
def gemm_schedules(bits: int) -> tuple[Schedule, ...]:
    """The schedules for operands with elements of so many bits, best large tiles first."""
    line = LINE * 8 // bits
    listed = [
        Schedule(tile=(*tile, line), cluster=cluster, roles="specialized", swap_ab="no")
        for tile, clusters in _TILES.items()
        for cluster in clusters
    ]
    listed += [
        Schedule(tile=(*tile, line), cluster=(1, 1), roles="alternate", swap_ab="no")
        for tile in _ALTERNATE
    ]
    others: tuple[tuple[tuple[tuple[int, int], ...], int, Switch], ...] = (
        (_DEEP, 2, "no"),
        (_SWAPPED, 1, "yes"),
        (_SWAPPED_DEEP, 2, "yes"),
    )
    listed += [
        Schedule(tile=(*tile, lines * line), cluster=(1, 1), roles="specialized", swap_ab=swap)
        for tiles, lines, swap in others
        for tile in tiles
    ]
    return tuple(listed)


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
        largest = _largest(problems)
        yield from (_below(given, schedule) for schedule in first)
        yield from (_below(given, _whole(choice, problems, largest)) for choice in rest)

    def need(self, problem: Sequence[Problem], schedule: Schedule) -> Need:
        """The accumulators of a thread, and how many it has room for."""
        values, threads = values_of(schedule), 128 * warpgroups(schedule)
        room = min(each.room(schedule, False) for each in problem)
        if values > room:
            room = min(each.room(schedule, True) for each in problem)
        return Need(values, room, threads=threads)


def choose_schedule(*problems: Problem) -> Schedule:
    """What is chosen for a problem, or for several in one launch."""
    return choose(GEMM_SPACE, problems)


GEMM_SPACE = GemmSpace()


@lru_cache(maxsize=1024)
def _ranking(
    problems: tuple[Problem, ...], registers: float
) -> tuple[tuple[Schedule, ...], tuple[_Choice, ...]]:
    """The best, whole, and the others, that leave so many registers of a thread over."""
    ranked: list[tuple[float, _Choice]] = [
        (_ranked(*each, problems), each) for each in _choices(problems, registers)
    ]
    problem = _largest(problems)
    within = _NEAR if len(problems) == 1 and knows(problem) else 1.0
    if len(problems) == 1:
        least = min(ranked, key=itemgetter(0), default=(inf, None))[0]
        ranked += _fitted(problem, least, within, registers)
    ranked.sort(key=itemgetter(0))
    # A tile of the list may fit as well.
    entries = tuple(dict.fromkeys(entry for _, entry in ranked))
    if within == 1.0 or not ranked:
        return (), entries
    near = [each for each in ranked if each[0] <= within * ranked[0][0]]
    known = {entry: rank for rank, entry in reversed(near)}
    corrected: list[tuple[float, Schedule]] = []
    for entry in entries[: min(len(known), _MOST_NEAR)]:
        whole = _whole(entry, problems, problem)
        estimate = estimated(*entry, problems)
        corrected.append((known[entry] * exp(residue(whole, problem, estimate)), whole))
    # The plainest by the estimate alone stays where others gain less.
    corrected[0] = _GAIN * corrected[0][0], corrected[0][1]
    corrected.sort(key=itemgetter(0))
    return tuple(schedule for _, schedule in corrected), entries[len(corrected) :]


def _largest(problems: Sequence[Problem]) -> Problem:
    return max(problems, key=lambda each: each.m * each.n * each.k)


def _whole(choice: _Choice, problems: tuple[Problem, ...], largest: Problem) -> Schedule:
    """A choice with all that goes with it."""
    schedule, parts, reduction = choice
    shares = Schedule(split_k=parts, reduction=reduction) if parts > 1 else None
    if shares is not None and reduction == "cluster":
        shares = shares.merged(_ONE_GROUP)
    estimate = estimated(schedule, parts, reduction, problems)
    return completed(schedule, largest, estimate, tall=len(problems) > 1).merged(shares)


def completed(
    schedule: Schedule, problem: Problem, estimate: float, tall: bool = False
) -> Schedule:
    """An entry of the list with its raster (`raster_for`), and what is not estimated."""
    raster = raster_for(problem, schedule, tall)
    assert schedule.cluster is not None
    is_early = estimate <= _EARLY or schedule.cluster[0] * schedule.cluster[1] > 2
    early: Switch | None = "yes" if is_early else None
    roles = "shifting" if shifts_apart(schedule, problem) else None
    return schedule.merged(Schedule(raster=raster, roles=roles, early_launch=early))


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


def _ranked(
    schedule: Schedule, parts: int, reduction: Reduction | None, problems: tuple[Problem, ...]
) -> float:
    """By what the choices are compared."""
    margin = _SHARED_MARGIN if parts > 1 else 1.0
    if schedule.swap_ab == "yes" and problems[0].m > _MOST_SWAPPED and not problems[0].turns:
        margin *= _SWAPPED_MARGIN
    is_short = problems[0].k * problems[0].bits <= _FEW_STEPS * LINE * 8
    if schedule.plan.teams > 1 and problems[0].batch > 1 and is_short:
        margin *= _TURNS_MARGIN
    if len(problems) > 1:
        assert schedule.tile is not None
        area = schedule.tile[0] * schedule.tile[1]
        margin *= 1 + _GROUP_MARGIN * max(0.0, 1 - area / _LARGEST)
    return estimated(schedule, parts, reduction, problems) * margin


def _fitted(
    problem: Problem, least: float, within: float, registers: float
) -> Iterator[tuple[float, _Choice]]:
    """By what they are compared, tiles whose width fits the problem, in all clusters, that may be
    estimated to take no more than `within` times the least of all that there is.
    """
    margin = _FITTED_MARGIN if problem.batch > 1 else 1.0
    for bound, tile, swap, roles in sorted(fitted_tiles(problem, least_cycles)):
        if bound * margin >= within * least:
            break
        if not problem.takes(_schedule_of(tile, (1, 1), swap, roles), registers):
            continue
        for cluster in _CLUSTERS:
            schedule = _schedule_of(tile, cluster, swap, roles)
            if not _fits_cluster(schedule, problem):
                continue
            if schedule.plan.teams > 1 and cluster[0] * cluster[1] > 2:
                continue
            # Parts through memory are what the list has.
            whole: list[tuple[int, Reduction | None]] = [(1, None)]
            for parts, reduction in [*whole, *_parts_of_clusters(schedule, problem)]:
                found = margin * _ranked(schedule, parts, reduction, (problem,))
                if found < within * least:
                    least = min(least, found)
                    yield found, (schedule, parts, reduction)


@lru_cache(maxsize=4096)
def _schedule_of(
    tile: tuple[int, int, int], cluster: tuple[int, int], swap: Switch, roles: Roles = "specialized"
) -> Schedule:
    return Schedule(tile=tile, cluster=cluster, roles=roles, swap_ab=swap)


def _fits_cluster(schedule: Schedule, problem: Problem) -> bool:
    """Whether clusters of a schedule find room: more than two CTAs in one round only, since no two
    devices hold alike many.
    """
    assert schedule.tile is not None
    assert schedule.cluster is not None
    m, n = extents_of(schedule, problem)
    rows, columns, _ = schedule.tile
    down, right = schedule.cluster
    size = down * right
    if down > ceil_div(m, rows) or right > ceil_div(n, columns):
        return False
    return size <= 2 or blocks_of(schedule, problem) * size <= RESIDENT[size]


def _choices(problems: tuple[Problem, ...], registers: float) -> Iterator[_Choice]:
    """What suits some problems: entries of the list, into how many parts they split tiles, and how
    these are added.
    """
    widest = max(problems, key=lambda each: each.m)
    listed = [each for each in gemm_schedules(widest.bits) if widest.takes(each, registers)]
    for schedule in listed:
        if schedule.swap_ab == "yes" and not _may_swap(widest):
            continue
        yield from ((schedule, *shared) for shared in _parts(schedule, problems))


def _may_swap(problem: Problem) -> bool:
    """Whether the transposed product of a problem may be computed: of one that has fewer rows than
    columns, or whose operands are read more cheaply so. A matrix of one element may be contiguous
    along either mode, and would be along the wrong one.
    """
    is_wide = problem.m <= _MOST_SWAPPED and problem.m < problem.n
    return (is_wide or problem.turns) and problem.k >= 2


def _parts(
    schedule: Schedule, problems: tuple[Problem, ...]
) -> Iterator[tuple[int, Reduction | None]]:
    """Into how many parts the depth may be split, and how they are added."""
    assert schedule.tile is not None
    assert schedule.cluster is not None
    yield 1, None
    if len(problems) != 1 or schedule.plan.teams > 1:
        return
    problem = problems[0]
    steps = ceil_div(problem.k, schedule.tile[2])
    tiles = blocks_of(schedule, problem) * schedule.cluster[0] * schedule.cluster[1]
    for parts in _PARTS:
        if parts * _LEAST_STEPS <= steps and parts * tiles <= _MOST_SHARES * PROCESSORS:
            yield parts, None
    yield from _parts_of_clusters(schedule, problem)


def _parts_of_clusters(schedule: Schedule, problem: Problem) -> Iterator[tuple[int, Reduction]]:
    """The same where the CTAs that share a tile are a cluster."""
    assert schedule.tile is not None
    if not problem.takes_clusters or schedule.cluster != (1, 1):
        return
    steps, tiles = ceil_div(problem.k, schedule.tile[2]), blocks_of(schedule, problem)
    for parts, resident in CLUSTER_PARTS.items():
        if parts * _LEAST_STEPS > steps or parts * tiles > resident:
            continue
        tiles_sent = 1 if scatters(schedule, parts) else parts - 1
        if stages_of(schedule, problem, tiles_sent) >= _LEAST_STAGES:
            yield parts, "cluster"


def raster_for(problem: Problem, schedule: Schedule, tall: bool = False) -> int:
    """Rows of blocks that are walked together, for which a wave of tiles, a rectangle as nearly
    square as it can be, reads hardly more than it must: the fewest (`tall`: the most) of them.

    Where CTAs of one wave compute all columns, or all rows, each height reads the same. But those
    that start one after the other share a panel of the longer operand best: then all rows of a wide
    output are walked together, or one of a tall output, two of one with more than a few columns.
    """
    (height, width), (m, n) = block_of(schedule), extents_of(schedule, problem)
    assert schedule.cluster is not None
    resident = PROCESSORS // (schedule.cluster[0] * schedule.cluster[1])
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
    is_apart = parts_readers(schedule, problem) and problem.batch * rows * columns <= resident
    if schedule.cluster != (1, 1) and not is_apart:
        return fitting[0]
    if m <= n:
        return next((raster for raster in fitting if raster >= rows), fitting[0])
    return next(raster for raster in fitting if raster > 1 or columns <= _FEW_COLUMNS)


def fitted_tiles(
    problem: Problem, bound: Callable[[Problem, int, int, int], float]
) -> Iterator[tuple[float, Tile, Switch, Roles]]:
    """(bound, tile, swap, roles) of each: a bound of its cycles as `bound` says for rows, columns
    and the number of tiles, the tile, whether it is one of the transposed product, and who
    multiplies it.

    There are some where TMA copies operands and results.
    """
    if min(problem.align, problem.out_align) < _ALIGN:
        return
    line = _LINE_BITS // problem.bits
    # A matrix of one element may be contiguous along either mode, and would be along the wrong one.
    # Kernels of square products take their operands as they are.
    is_square = problem.m == problem.n and not problem.turns
    may_swap = min(problem.n, problem.k) > 1 and not is_square
    if any(problem.blocks):
        # Scales of blocks take more registers in the transposed product: wide problems alone.
        may_swap = may_swap and problem.m < problem.n
    swaps: tuple[Switch, ...] = ("no", "yes") if may_swap else ("no",)
    for swap in swaps:
        m, n = (problem.n, problem.m) if swap == "yes" else (problem.m, problem.n)
        units = [_UNIT_ACROSS if problem.across[swap == "no"] else _UNIT]
        if swap == "yes":
            units.append(SWAPPED_AT_ONCE)
        widths = tuple(dict.fromkeys(width for unit in units for width in _widths(n, unit)))
        for rows in _HEIGHTS:
            if rows > _HEIGHTS[0] and rows >= 2 * m:
                continue
            for columns in widths:
                count = problem.batch * -(-m // rows) * -(-n // columns)
                least = bound(problem, rows, columns, count)
                yield least, (rows, columns, line), swap, "specialized"
                if rows == _DEEP_HEIGHT and columns <= _WIDEST_DEEP:
                    yield least, (rows, columns, 2 * line), swap, "specialized"
                narrowest, widest = _TURNS_WIDTHS
                fits = rows == _TURNS_HEIGHT and narrowest <= columns <= widest
                if fits and problem.batch == 1 and count > PROCESSORS:
                    yield least, (rows, columns, line), swap, "alternate"


def _widths(columns: int, unit: int) -> tuple[int, ...]:
    """The least multiples of a unit for each number of tiles beside each other."""
    most = -(-columns // unit)
    fewest = -(-columns // _WIDEST)
    counts = range(max(1, fewest), most + 1)
    return tuple(dict.fromkeys(unit * -(-columns // (unit * count)) for count in counts))
