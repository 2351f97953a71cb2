"""The schedules from which `cute.gemm` chooses on sm_90a, and the estimate that it chooses by.

The list is short enough to compile whole (`python -m cutedialect schedules` prints it). Where TMA
copies operands and results, tiles whose width fits the problem compete with it (`fitted_tiles.py`),
in clusters of up to eight CTAs that multicast. Beside either the estimate chooses into how many
parts the depth of a tile is split (`split_k`, added in order), and whether the CTAs that share it
are a cluster. It counts cycles: of a step of the main loop, of what a tile does besides, of the
waves of tiles, and of memory; its constants are a fit to 17,200 timings of 1,390 random problems on
H100s (benchmarks/NOTES.md). On problems that a fit did not see what it chooses takes 1.027 of the
best time of those that were timed in the geometric mean: layers of language models 1.018, other
majors and sizes 1.03, odd sizes 1.045, 1.5 at worst.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd, log2
from typing import TypeAlias

from cutedialect.choices import Reduction, Switch
from cutedialect.schedule import Schedule

from .fitted_tiles import fitted_tiles

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
# The same where they are a cluster, and how many CTAs of such run at one time in GPCs of 14, 16 or
# 18 multiprocessors, of which no two devices have alike many. Each CTA has room for a tile beside
# so many stages, or the first has for those of the others, where parts are no columns of an atom.
_CLUSTER_PARTS = {2: 132, 3: 108, 4: 120, 5: 100, 6: 96, 8: 120, 10: 70, 12: 84, 16: 64}
_LEAST_STAGES = 3
# Fields with which the CTAs of a cluster may not be able to share tiles.
_BESIDE_CLUSTERS = ("cluster", "split_k", "reduction", "scheduler", "roles", "stages")
# Multiprocessors of an H100 SXM on which clusters of so many CTAs that multicast find room at one
# time; of more than two they share one round of tiles.
_RESIDENT = {1: 132, 2: 132, 4: 120, 8: 120}
_PROCESSORS = _RESIDENT[1]
_CLUSTERS = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (2, 4))
_LINE = 128
# Of how much of a round at least is felt, and of how much at most its tiles may be shared.
_LEAST_FELT, _SHARED_ROUND = 0.9, 0.5
# Cycles of a multiply of 64 rows and 32 bytes of depth: for each column, and at least. Shared
# memory meanwhile reads the rows, so many cycles, and takes what is loaded, so many bytes in one.
_COLUMN, _MULTIPLY = 0.787, 7.8
_ROWS_READ, _SHARED_BYTES = 1.0, 128
# Bytes in a cycle that one multiprocessor gets from L2, and all of them. Rows that begin at
# multiples of no more than so many bytes take that many times as long; operands that are contiguous
# across the depth take so many cycles more for each step.
_L2_BYTES, _L2_ALL = 70.6, 6331.2
_PITCHES = {128: 1.0, 64: 1.56, 32: 1.86, 16: 3.14}
_ACROSS_STEP = 8.6
# What a box of an operand across the depth takes more that is half as wide as a line of 128 bytes.
_NARROW_BOX = 0.482
# Cycles for each byte that threads copy, and for each step, by the alignment of rows in bytes.
_COPIES = {
    16: (0.0, 0.0),
    8: (0.0907, 0.0),
    4: (0.1213, 1673.0),
    2: (0.08, 0.0),
}
# How many times as long they take from L2 as rows at multiples of 128 bytes.
_COPIED_PITCH = 2.0
_VECTOR = 16
# The exponents with which the parts of a step, the two teams that take turns, and multiprocessors
# and memory, add up.
_STEP_NORM, _TEAMS_NORM, _MEMORY_NORM = 2.72, 10.0, 1.14
# Cycles that a step of a lone warpgroup waits, half as many where two take turns; that it waits for
# the other CTAs of a cluster, alone or beside others, and more for each doubling of the cluster; a
# ring of few stages waits longer.
_WAIT = 78.3
_CLUSTER_WAITS, _CLUSTER_DOUBLED = (95.2, 72.2), 0.2
_CLUSTER = 1.026
_FEW_STAGES, _SHORT_RING = 4, 1.138
# Cycles of a tile besides its steps: at least, for each accumulator of a thread, and for each where
# rows of the output are aligned to less than 16 bytes, or to less than 4: through shared memory in
# the order of memory, or one by one.
_TILE, _VALUE = 6.6, 24.7
_NARROW_VALUE, _REORDERED_VALUE, _SINGLE_VALUE = 50.0, 3.9, 98.3
# Cycles of each line of 128 bytes, or less, that TMA stores, and of each time that it is told to;
# of a value of the transposed product so many times as much.
_LINE_STORED, _STORE, _SWAPPED_VALUE = 4.67, 4.8, 0.82
# And where CTAs share the tile: in all, for each accumulator, and for each of each part.
_SHARE, _SHARE_VALUE, _PART_VALUE = 4867.2, 47.1, 60.0
# The same of a cluster, and of one whose CTAs have parts of the columns each.
_SUM, _SUM_VALUE, _SUM_PART_VALUE = 1194.9, 6.0, 35.8
_SCATTER, _SCATTER_VALUE = 508.8, 144.7
_ATOM_COLUMNS = 8
# What an estimate with shared tiles, or of the transposed product of many rows, has to be better
# by: it is less certain.
_SHARED_MARGIN, _SWAPPED_MARGIN = 1.03, 1.04
# The last tile's stores, for each accumulator, where multiplies hide those of the others.
_LAST_VALUE = 19.0
# What of a last wave that is not full is not felt, since CTAs are not in step.
_STRAGGLERS = 0.066
# Cycles up to which CTAs start while the launch in front of theirs ends, those of clusters of no
# more than two and others. Of 306 and 117 pairs the early launch takes 0.65 of 2.5 us, 0.82 of 5,
# 0.9 of 8 and 0.94 of 11; beyond that 1.02 (1.08 at worst), in larger clusters 0.96 to 22 us.
_EARLY = (38000.0, 88000.0)
# Cycles of a launch; bytes from memory in one.
_LAUNCH, _MEMORY_BYTES = 6839.3, 821.2
# What is left of the fit for tiles of so many rows, and columns up to so many: steps and ends take
# so many times as long; the same where two take turns.
_BANDS = (8, 16, 32, 64, 96, 128, 160, 192, 224, 256)
_FACTORS = {
    (64, 8): 0.836, (64, 16): 0.796, (64, 32): 0.789, (64, 64): 0.818, (64, 96): 0.847,
    (64, 128): 0.851, (64, 160): 0.907, (64, 192): 0.911, (64, 224): 0.922, (64, 256): 0.899,
    (128, 8): 1.0, (128, 16): 1.112, (128, 32): 1.074, (128, 64): 1.016, (128, 96): 1.01,
    (128, 128): 0.986, (128, 160): 1.019, (128, 192): 1.023, (128, 224): 1.04, (128, 256): 1.034,
    (192, 16): 1.002, (192, 32): 1.605, (192, 64): 1.137, (192, 96): 1.089, (192, 128): 1.054,
    (192, 160): 1.061, (192, 192): 0.956, (256, 32): 1.0, (256, 64): 1.178, (256, 96): 1.083,
    (256, 128): 0.984, (256, 160): 0.955,
}  # fmt: skip
_ALTERNATE_FACTORS = {
    (64, 64): 0.95, (64, 96): 0.856, (64, 128): 0.9, (64, 160): 1.037, (64, 192): 1.062,
    (64, 256): 1.0, (128, 96): 1.092, (128, 128): 0.972,
}  # fmt: skip
# Bytes of shared memory for a ring, beside barriers and the results of two chunks of columns.
_RING = 226 * 1024
_CHUNK = 64
_SUM_BYTES = _WORD = 4
_TRANSPOSED_ROWS = 32
# By so many fewer accumulators has a thread room where three warpgroups share the registers.
_FEWER_OF_THREE = 32
# By so many where columns of the transposed product are no multiple of those that leave at once; by
# so many more has one where the tallest tiles are stored as they are.
_FEWER_SWAPPED, _MORE_OF_TALLEST = 32, 24
_MOST_VALUES = 128
_FEW_AT_ONCE, _MOST_COPIED, _TALLEST, _SWAPPED_AT_ONCE = 32, 128 * 128, 256, 16
_RASTERS = (1, 2, 4, 8, 16, 32)
_FEW_COLUMNS = 4


# A schedule, into how many parts it splits the depth of a tile, and how these are added.
_Choice: TypeAlias = tuple[Schedule, int, Reduction | None]


@dataclass(frozen=True)
class Problem:
    """Sizes of a matrix multiply and bits of an operand's and a result's element.

    most_values: accumulators that a thread may hold. blocks: what the rows, columns and depth of a
    tile have to divide, 0 for anything. transposed: whether tiles of A and of B are transposed in
    shared memory before they are multiplied. across: whether A and B are contiguous along another
    dimension than the depth. align, out_align: bytes, up to 16, of which the rows of the operands
    and of the output begin at multiples. pitches: the same, up to 128, of A and B. takes_clusters:
    whether the CTAs of a cluster can share tiles.
    """

    m: int
    n: int
    k: int
    batch: int
    bits: int
    out_bits: int
    most_values: int = _MOST_VALUES
    blocks: tuple[int, int, int] = (0, 0, 0)
    transposed: tuple[bool, bool] = (False, False)
    across: tuple[bool, bool] = (False, False)
    align: int = 16
    out_align: int = 16
    pitches: tuple[int, int] = (128, 128)
    takes_clusters: bool = True

    def takes(self, schedule: Schedule) -> bool:
        """Whether a schedule keeps within the limits."""
        assert schedule.tile is not None
        rows, columns, depth = schedule.tile
        groups = warpgroups(schedule)
        extents = (columns, rows) if schedule.swap_ab == "yes" else (rows, columns)
        # Threads that copy operands bring them to one CTA, and leave teams that take turns too few
        # registers. So do large tiles that are stored few columns at a time, and the tallest ones.
        is_copied = self.align < _VECTOR and (
            schedule.roles == "alternate"
            or (self.shifts and schedule.cluster != (1, 1))
            or (columns % _FEW_AT_ONCE != 0 and rows * columns > _MOST_COPIED)
        )
        most = self.most_values - (_FEWER_OF_THREE if groups == 3 else 0)
        if schedule.swap_ab == "yes":
            most -= _FEWER_SWAPPED if columns % _SWAPPED_AT_ONCE else 0
        elif rows >= _TALLEST and self.most_values == _MOST_VALUES:
            most += _MORE_OF_TALLEST
        return (
            not is_copied
            and not (self.out_align < _WORD and rows >= _TALLEST)
            and rows * columns <= most * 128 * groups
            and all(
                block % extent == 0
                for block, extent in zip(self.blocks, (*extents, depth), strict=True)
            )
            and self.transposes(schedule)
        )

    @property
    def shifts(self) -> bool:
        """Whether operands are shifted into place: no asynchronous copy takes them, or f32 is
        rounded on its way.
        """
        return self.align < (_VECTOR if self.bits == 8 * _WORD else _WORD)

    def transposes(self, schedule: Schedule) -> bool:
        """Whether warps can transpose the tiles that have to be."""
        assert schedule.tile is not None
        return all(
            extent % _TRANSPOSED_ROWS == 0
            for extent, transposed in zip(schedule.tile[:2], _sides(schedule, self), strict=True)
            if transposed
        )


def warpgroups(schedule: Schedule) -> int:
    """Warpgroups that multiply one tile."""
    assert schedule.tile is not None
    if schedule.roles == "alternate":
        return 1
    if schedule.warps is not None:
        return schedule.warps[0] * schedule.warps[1] // 4
    return next((groups for groups in (2, 3) if schedule.tile[0] % (64 * groups) == 0), 1)


@lru_cache(maxsize=8)
def gemm_schedules(bits: int) -> tuple[Schedule, ...]:
    """The schedules for operands with elements of so many bits, best large tiles first."""
    line = _LINE * 8 // bits
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


@lru_cache(maxsize=4096)
def choose_schedule(*problems: Problem) -> Schedule:
    """The schedule with the lowest estimate for all problems together, its raster set for L2.

    Several problems are one launch, which walks over the tiles of all; they have one element type
    and the same limits, and CTAs share none of their tiles.
    """
    largest = max(problems, key=lambda each: each.m * each.n * each.k)
    best = min(_choices(problems), key=lambda each: _ranked(*each, problems))
    if len(problems) == 1:
        best = _fitted(problems[0], best)
    schedule, parts, reduction = best
    shares = Schedule(split_k=parts, reduction=reduction) if parts > 1 else None
    estimate = _estimate(schedule, parts, reduction, problems)
    return completed(schedule, largest, estimate, tall=len(problems) > 1).merged(shares)


def completed(
    schedule: Schedule, problem: Problem, estimate: float, tall: bool = False
) -> Schedule:
    """An entry of the list with its raster (`raster_for`), and what is not estimated."""
    raster = raster_for(problem, schedule, tall)
    epilogue = "smem" if _reorders(schedule, problem) else None
    assert schedule.cluster is not None
    is_large = schedule.cluster[0] * schedule.cluster[1] > 2
    early: Switch | None = "yes" if estimate <= _EARLY[is_large] else None
    return schedule.merged(Schedule(raster=raster, epilogue=epilogue, early_launch=early))


def choose_below(given: Schedule | None, problem: Problem) -> Schedule:
    """A schedule of which some fields are given, on top of what is chosen for a problem."""
    if given is not None and any(getattr(given, name) is not None for name in _BESIDE_CLUSTERS):
        problem = replace(problem, takes_clusters=False)
    return choose_schedule(problem).merged(given)


def _ranked(
    schedule: Schedule, parts: int, reduction: Reduction | None, problems: tuple[Problem, ...]
) -> float:
    """By what the choices are compared."""
    margin = _SHARED_MARGIN if parts > 1 else 1.0
    if schedule.swap_ab == "yes" and problems[0].m > _MOST_SWAPPED:
        margin *= _SWAPPED_MARGIN
    return _estimate(schedule, parts, reduction, problems) * margin


def _fitted(problem: Problem, best: _Choice) -> _Choice:
    """What is estimated to be faster than the best of the list among the tiles whose width fits
    the problem, in all clusters; `best` where nothing is.
    """
    least = _ranked(*best, (problem,))
    for bound, tile, swap in sorted(fitted_tiles(problem, _bound)):
        if bound >= least:
            break
        if not problem.takes(_schedule_of(tile, (1, 1), swap)):
            continue
        for cluster in _CLUSTERS:
            schedule = _schedule_of(tile, cluster, swap)
            if not _fits_cluster(schedule, problem):
                continue
            # Parts through memory are what the list has.
            whole: list[tuple[int, Reduction | None]] = [(1, None)]
            for parts, reduction in [*whole, *_parts_of_clusters(schedule, problem)]:
                found = _ranked(schedule, parts, reduction, (problem,))
                if found < least:
                    least, best = found, (schedule, parts, reduction)
    return best


@lru_cache(maxsize=4096)
def _schedule_of(tile: tuple[int, int, int], cluster: tuple[int, int], swap: Switch) -> Schedule:
    return Schedule(tile=tile, cluster=cluster, roles="specialized", swap_ab=swap)


def _bound(problem: Problem, rows: int, columns: int, count: int) -> float:
    """Cycles, fewer than what is estimated for so many tiles of a problem in any cluster."""
    # Few tiles are shared by the CTAs that are left.
    rounds = count / _PROCESSORS
    rounds = _ceil(count, _PROCESSORS) * _LEAST_FELT if rounds > _SHARED_ROUND else rounds
    line = _LINE * 8 // problem.bits
    step = rows // 64 * _LINE // 32 * max(_COLUMN * columns, _MULTIPLY)
    walk = rounds * _ceil(problem.k, line) * max(step, rows + columns)
    walk *= _factor_of(rows, columns, _FACTORS)
    return _LAUNCH + _norm(_MEMORY_NORM, walk, _memory_cycles((problem,)))


def _fits_cluster(schedule: Schedule, problem: Problem) -> bool:
    """Whether clusters of a schedule find room: more than two CTAs in one round only, since no two
    devices hold alike many.
    """
    assert schedule.tile is not None
    assert schedule.cluster is not None
    m, n = _extents(schedule, problem)
    rows, columns, _ = schedule.tile
    down, right = schedule.cluster
    size = down * right
    if down > _ceil(m, rows) or right > _ceil(n, columns):
        return False
    return size <= 2 or _blocks(schedule, problem) * size <= _RESIDENT[size]


def _choices(problems: tuple[Problem, ...]) -> Iterator[_Choice]:
    """What suits some problems: entries of the list, into how many parts they split tiles, and how
    these are added.
    """
    widest = max(problems, key=lambda each: each.m)
    listed = [each for each in gemm_schedules(widest.bits) if widest.takes(each)]
    for schedule in listed:
        if schedule.swap_ab == "yes" and not _may_swap(widest):
            continue
        yield from ((schedule, *shared) for shared in _parts(schedule, problems))


def _may_swap(problem: Problem) -> bool:
    """Whether the transposed product of a problem, which has fewer rows than columns, may be
    computed. A matrix of one element may be contiguous along either mode, and would be along the
    wrong one.
    """
    return problem.m <= _MOST_SWAPPED and problem.m < problem.n and problem.k >= 2


def _parts(
    schedule: Schedule, problems: tuple[Problem, ...]
) -> Iterator[tuple[int, Reduction | None]]:
    """Into how many parts the depth may be split, and how they are added."""
    assert schedule.tile is not None
    assert schedule.cluster is not None
    yield 1, None
    if len(problems) != 1 or schedule.roles == "alternate":
        return
    problem = problems[0]
    steps = _ceil(problem.k, schedule.tile[2])
    tiles = _blocks(schedule, problem) * schedule.cluster[0] * schedule.cluster[1]
    for parts in _PARTS:
        if parts * _LEAST_STEPS <= steps and parts * tiles <= _MOST_SHARES * _PROCESSORS:
            yield parts, None
    yield from _parts_of_clusters(schedule, problem)


def _parts_of_clusters(schedule: Schedule, problem: Problem) -> Iterator[tuple[int, Reduction]]:
    """The same where the CTAs that share a tile are a cluster."""
    assert schedule.tile is not None
    if not problem.takes_clusters or schedule.cluster != (1, 1):
        return
    steps, tiles = _ceil(problem.k, schedule.tile[2]), _blocks(schedule, problem)
    for parts, resident in _CLUSTER_PARTS.items():
        if parts * _LEAST_STEPS > steps or parts * tiles > resident:
            continue
        tiles_sent = 1 if _scatters(schedule, parts) else parts - 1
        if _stages(schedule, problem, tiles_sent) >= _LEAST_STAGES:
            yield parts, "cluster"


def _scatters(schedule: Schedule, parts: int) -> bool:
    """Whether each of the CTAs that share a tile of a cluster goes on with columns of their own."""
    assert schedule.tile is not None
    return schedule.tile[1] % (_ATOM_COLUMNS * parts) == 0


def cycles(schedule: Schedule, *problems: Problem) -> float:
    """Estimated clock cycles of a schedule on a problem, or on several in one launch."""
    return _estimate(schedule, schedule.split_k or 1, schedule.reduction, problems)


def _estimate(
    schedule: Schedule, parts: int, reduction: Reduction | None, problems: tuple[Problem, ...]
) -> float:
    assert schedule.tile is not None
    assert schedule.cluster is not None
    size = schedule.cluster[0] * schedule.cluster[1]
    resident = _RESIDENT[size] // size
    scattered = reduction == "cluster" and _scatters(schedule, parts)
    if reduction == "cluster":
        resident = _CLUSTER_PARTS.get(parts, _PROCESSORS) // parts * parts
    items = [_blocks(schedule, each) * parts for each in problems]
    active = min(sum(items), resident) * size
    tiles = [_tile_cycles(schedule, each, parts, active, scattered) for each in problems]
    if len(problems) == 1:
        waves = _ceil(items[0], resident)
        felt = waves + _STRAGGLERS * (items[0] / resident - waves)
        walk = felt * tiles[0]
    else:
        waves = 1
        work = sum(count * each for count, each in zip(items, tiles, strict=True))
        walk = work / resident + max(tiles) / 2
    values = _values(schedule)
    if parts > 1 and scattered:
        walk += waves * (_SCATTER + _SCATTER_VALUE * values)
    elif parts > 1 and reduction == "cluster":
        walk += waves * (_SUM + (_SUM_VALUE + _SUM_PART_VALUE * parts) * values)
    elif parts > 1:
        walk += waves * (_SHARE + (_SHARE_VALUE + _PART_VALUE * parts) * values)
    if schedule.roles == "alternate":
        walk += _LAST_VALUE * values
    walk *= (_CLUSTER if size > 1 else 1.0) * _factor(schedule)
    return _LAUNCH + _norm(_MEMORY_NORM, walk, _memory_cycles(problems))


def _memory_cycles(problems: tuple[Problem, ...]) -> float:
    """Cycles in which memory moves the operands and results of some problems once."""
    moved = sum(
        each.batch * ((each.m + each.n) * each.k * each.bits + each.m * each.n * each.out_bits)
        for each in problems
    )
    return moved / 8 / _MEMORY_BYTES


def _factor(schedule: Schedule) -> float:
    assert schedule.tile is not None
    rows, columns, _ = schedule.tile
    factors = _ALTERNATE_FACTORS if schedule.roles == "alternate" else _FACTORS
    return _factor_of(rows, columns, factors)


def _factor_of(rows: int, columns: int, factors: Mapping[tuple[int, int], float]) -> float:
    band = next((each for each in _BANDS if columns <= each), _BANDS[-1])
    return factors.get((rows, band), 1.0)


def _values(schedule: Schedule) -> float:
    """Accumulators of a thread."""
    assert schedule.tile is not None
    return schedule.tile[0] * schedule.tile[1] / (128 * warpgroups(schedule))


def _norm(exponent: float, *parts: float) -> float:
    """More than the largest of some times, and less than their sum."""
    largest = max(parts)
    if largest == 0:
        return 0.0
    total = sum((part / largest) ** exponent for part in parts)
    return largest * total ** (1 / exponent)


def _blocks(schedule: Schedule, problem: Problem) -> int:
    """Blocks of tiles of a problem, each for the CTAs of a cluster."""
    height, width = _block(schedule)
    m, n = _extents(schedule, problem)
    return problem.batch * _ceil(m, height) * _ceil(n, width)


def _block(schedule: Schedule) -> tuple[int, int]:
    """Rows and columns of the output that a cluster computes at once."""
    assert schedule.tile is not None
    assert schedule.cluster is not None
    return schedule.tile[0] * schedule.cluster[0], schedule.tile[1] * schedule.cluster[1]


def _extents(schedule: Schedule, problem: Problem) -> tuple[int, int]:
    """Rows and columns of the product as the tiles see it."""
    m, n = problem.m, problem.n
    return (n, m) if schedule.swap_ab == "yes" else (m, n)


def _tile_cycles(
    schedule: Schedule, problem: Problem, parts: int, active: int, scattered: bool
) -> float:
    """Cycles from one tile, or one of the parts of one, to the next, on so many multiprocessors;
    of a sum that is `scattered` each part has some of the columns.
    """
    assert schedule.tile is not None
    trips = _ceil(_ceil(problem.k, schedule.tile[2]), parts)
    steps = trips * _step_cycles(schedule, problem, active)
    end = _end_cycles(schedule, problem)
    whole = steps + (_TILE + (end - _TILE) / parts if scattered else end)
    # Of two that take turns one stores while the other multiplies.
    return _norm(_TEAMS_NORM, steps, whole / 2) if schedule.roles == "alternate" else whole


def _step_cycles(schedule: Schedule, problem: Problem, active: int) -> float:
    """Cycles of a step of the main loop."""
    assert schedule.tile is not None
    assert schedule.cluster is not None
    (rows, columns, depth), (across, along) = schedule.tile, schedule.cluster
    line = depth * problem.bits // 8
    atoms = rows // 64 * (line // 32)
    loaded = (rows + columns) * line
    again = _transposed_extents(schedule, problem) * line
    shared = atoms * _ROWS_READ + loaded / _SHARED_BYTES
    if again:
        # Boxes arrive, are read and written once more, and every block of 64 rows reads B.
        moved = loaded + 2 * again + rows * line + rows // 64 * columns * line
        shared = max(shared, moved / _SHARED_BYTES)
    pitches = problem.pitches[::-1] if schedule.swap_ab == "yes" else problem.pitches
    is_across = problem.across[::-1] if schedule.swap_ab == "yes" else problem.across
    a, b = (_PITCHES[max(16, min(128, pitch))] for pitch in pitches)
    if problem.shifts:
        a = b = _COPIED_PITCH
    width = _LINE * 8 // problem.bits
    if is_across[1]:
        b *= 1 + _NARROW_BOX * (width / max(8, gcd(columns, width)) - 1)
    read = (rows * a / along + columns * b / across) * line
    each, step = _COPIES[2 if problem.shifts else min(16, problem.align)]
    found = _norm(
        _STEP_NORM,
        atoms * max(_COLUMN * columns, _MULTIPLY),
        shared,
        read / _L2_BYTES,
        read * active / _L2_ALL,
        each * loaded + step,
    )
    found += sum(is_across) * _ACROSS_STEP
    is_alone = warpgroups(schedule) == 1
    if is_alone:
        found += _WAIT / 2 if schedule.roles == "alternate" else _WAIT
    if across * along > 1:
        found += _CLUSTER_WAITS[0 if is_alone else 1]
        found += _CLUSTER_DOUBLED * log2(across * along / 2)
    return found * (_SHORT_RING if _stages(schedule, problem) < _FEW_STAGES else 1.0)


def _stages(schedule: Schedule, problem: Problem, others: int = 0) -> int:
    """Stages of the ring, beside results and the sums of so many other CTAs."""
    assert schedule.tile is not None
    rows, columns, depth = schedule.tile
    line = depth * problem.bits // 8
    stage = (rows + columns + _transposed_extents(schedule, problem)) * line
    if problem.shifts:
        stage += (rows + columns) * (line + _VECTOR)
    teams = 2 if schedule.roles == "alternate" else 1
    staged = teams * rows * min(columns * problem.out_bits // 8, 4 * _CHUNK)
    return (_RING - staged - others * rows * columns * _SUM_BYTES) // stage


def _end_cycles(schedule: Schedule, problem: Problem) -> float:
    """Cycles of a tile besides its steps."""
    assert schedule.tile is not None
    rows, columns, _ = schedule.tile
    values, swapped = _values(schedule), schedule.swap_ab == "yes"
    each = _VALUE * (_SWAPPED_VALUE if swapped else 1.0)
    if _reorders(schedule, problem):
        return _TILE + (each + _VALUE + _REORDERED_VALUE) * values
    if problem.out_align < 16:
        beside = _NARROW_VALUE if problem.out_align >= _WORD else _SINGLE_VALUE
        return _TILE + (each + _VALUE + beside) * values
    chunk = _LINE * 8 // problem.out_bits
    while columns % chunk if swapped else columns < chunk:
        chunk //= 2
    steps = _ceil(columns, chunk)
    lines = steps * chunk * max(1, rows // 64) if swapped else steps * rows
    return _TILE + each * values + _LINE_STORED * lines + _STORE * steps


def _reorders(schedule: Schedule, problem: Problem) -> bool:
    """Whether results go through shared memory, so that neighboring threads store neighbors."""
    is_plain = schedule.roles == "specialized" and schedule.swap_ab == "no"
    return is_plain and problem.out_align < _WORD


def _transposed_extents(schedule: Schedule, problem: Problem) -> int:
    """Rows of A's tile and columns of B's, of those that are transposed in shared memory."""
    assert schedule.tile is not None
    sides = _sides(schedule, problem)
    return sum(each for each, is_again in zip(schedule.tile[:2], sides, strict=True) if is_again)


def _sides(schedule: Schedule, problem: Problem) -> tuple[bool, bool]:
    """Whether the rows and the columns of a schedule's tile are transposed."""
    rows, columns = problem.transposed
    return (columns, rows) if schedule.swap_ab == "yes" else (rows, columns)


def raster_for(problem: Problem, schedule: Schedule, tall: bool = False) -> int:
    """Rows of blocks that are walked together, for which a wave of tiles, a rectangle as nearly
    square as it can be, reads hardly more than it must: the fewest (`tall`: the most) of them.

    Where CTAs of one wave compute all columns, or all rows, each height reads the same. But those
    that start one after the other share a panel of the longer operand best: then all rows of a wide
    output are walked together, or one of a tall output, two of one with more than a few columns.
    """
    (height, width), (m, n) = _block(schedule), _extents(schedule, problem)
    assert schedule.cluster is not None
    resident = _PROCESSORS // (schedule.cluster[0] * schedule.cluster[1])
    rows, columns = max(1, _ceil(m, height)), max(1, _ceil(n, width))

    def read(raster: int) -> float:
        group = min(raster, rows)
        if group * columns >= resident:
            return group * height + resident / group * width
        return min(rows, resident / columns) * height + columns * width

    limit = min(map(read, _RASTERS)) * 1.05
    fitting = [raster for raster in _RASTERS if read(raster) <= limit]
    if tall:
        return fitting[-1]
    if schedule.cluster != (1, 1):
        return fitting[0]
    if m <= n:
        return next((raster for raster in fitting if raster >= rows), fitting[0])
    return next(raster for raster in fitting if raster > 1 or columns <= _FEW_COLUMNS)


def _ceil(value: int, step: int) -> int:
    return -(-value // step)
