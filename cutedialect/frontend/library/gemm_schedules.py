"""The schedules from which `cute.gemm` chooses on sm_90a, and the estimate that it chooses by.

The list is short enough to compile whole (`python -m cutedialect schedules` prints it). Beside an
entry the estimate chooses into how many parts the depth of a tile is split (`split_k`, added in
order), and whether the CTAs that share it are a cluster. It counts cycles: of a step of the main
loop, of what a tile does besides, of the waves of tiles, and of memory; its constants are a fit to
13,300 timings of 980 random problems on H100s (benchmarks/NOTES.md). On problems that a fit did not
see what it chooses takes 1.026 of the best time of those that were timed in the geometric mean:
layers of language models 1.017, other majors and odd sizes 1.04, 1.5 at worst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd

from cutedialect.choices import Reduction, Switch
from cutedialect.schedule import Schedule

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
_CLUSTER_PARTS = {2: 132, 3: 120, 4: 120, 6: 102, 8: 96}
_LEAST_STAGES = 3
# Fields with which the CTAs of a cluster may not be able to share tiles.
_BESIDE_CLUSTERS = ("cluster", "split_k", "reduction", "scheduler", "roles", "stages")
_LINE = 128
# H100 SXM: multiprocessors.
_PROCESSORS = 132
# Cycles of a multiply of 64 rows and 32 bytes of depth: for each column, and at least. Shared
# memory meanwhile reads the rows, so many cycles, and takes what is loaded, so many bytes in one.
_COLUMN, _MULTIPLY = 0.167, 6.1
_ROWS_READ, _SHARED_BYTES = 6.7, 128
# Bytes in a cycle that one multiprocessor gets from L2, and all of them. Rows that begin at
# multiples of no more than so many bytes take that many times as long; operands that are contiguous
# across the depth take so many cycles more for each step.
_L2_BYTES, _L2_ALL = 194.3, 19081.6
_PITCHES = {128: 1.0, 64: 2.1, 32: 2.77, 16: 4.87}
_ACROSS_STEP = 36.7
# What a box of an operand across the depth takes more that is half as wide as a line of 128 bytes.
_NARROW_BOX = 0.36
# Cycles for each byte that threads copy, and for each step, by the alignment of rows in bytes.
_COPIES = {
    16: (0.0, 0.0),
    8: (0.0753, 0.0),
    4: (0.0864, 1211.0),
    2: (0.1806, 1559.0),
}
# The exponents with which the parts of a step, the two teams that take turns, and multiprocessors
# and memory, add up.
_STEP_NORM, _TEAMS_NORM, _MEMORY_NORM = 2.21, 10.0, 0.96
# Cycles that a step of a lone warpgroup waits, half as many where two take turns; that it waits for
# the other CTAs of a cluster, alone or beside others; a ring of few stages waits longer.
_WAIT = 48.6
_CLUSTER_WAITS = (83.7, 87.3)
_CLUSTER = 1.023
_FEW_STAGES, _SHORT_RING = 4, 1.112
# Cycles of a tile besides its steps: at least, for each accumulator of a thread, and for each where
# rows of the output are aligned to less than 16 bytes, or to less than 4: through shared memory in
# the order of memory, or one by one.
_TILE, _VALUE = 2.8, 20.9
_NARROW_VALUE, _REORDERED_VALUE, _SINGLE_VALUE = 50.7, 2.0, 48.5
# Cycles of each line of 128 bytes, or less, that TMA stores, and of each time that it is told to;
# of a value of the transposed product so many times as much.
_LINE_STORED, _STORE, _SWAPPED_VALUE = 1.64, 48.9, 0.98
# And where CTAs share the tile: in all, for each accumulator, and for each of each part.
_SHARE, _SHARE_VALUE, _PART_VALUE = 2806.8, 33.4, 37.1
# The same of a cluster.
_SUM, _SUM_VALUE, _SUM_PART_VALUE = 337.4, 16.7, 16.9
_SCATTER, _SCATTER_VALUE = 700.0, 70.0
_ATOM_COLUMNS = 8
# What an estimate with shared tiles has to be better by: it is less certain.
_SHARED_MARGIN = 1.03
# The last tile's stores, for each accumulator, where multiplies hide those of the others.
_LAST_VALUE = 11.0
# What of a last wave that is not full is not felt, since CTAs are not in step.
_STRAGGLERS = 0.173
# Cycles up to which CTAs start while the launch in front of theirs ends: of 121 pairs below that
# the early launch takes 0.89 of the time, 1.14 at worst, of those up to twice as much 0.98, 1.34.
_EARLY = 29000.0
# Cycles of a launch; bytes from memory in one.
_LAUNCH, _MEMORY_BYTES = 3978.2, 1286.6
# What is left of the fit for a tile: its steps and ends take so many times as long; the same where
# two take turns.
_FACTORS = {
    (64, 8): 0.755, (64, 16): 0.733, (64, 24): 0.758, (64, 32): 0.738, (64, 48): 0.762,
    (64, 64): 0.758, (64, 80): 0.818, (64, 96): 0.791, (64, 112): 0.844, (64, 128): 0.808,
    (64, 160): 0.838, (64, 192): 0.838, (64, 256): 0.861, (128, 32): 0.969, (128, 48): 0.983,
    (128, 64): 0.974, (128, 80): 0.939, (128, 96): 1.022, (128, 112): 1.055, (128, 128): 1.055,
    (128, 144): 1.039, (128, 160): 1.09, (128, 176): 1.116, (128, 192): 1.122, (128, 208): 1.153,
    (128, 224): 1.169, (128, 256): 1.23, (192, 64): 1.122, (192, 96): 1.093, (192, 128): 1.182,
    (192, 160): 1.243, (192, 176): 1.186, (192, 192): 1.202, (256, 64): 1.099, (256, 96): 1.116,
    (256, 128): 1.182,
}  # fmt: skip
_ALTERNATE_FACTORS = {
    (64, 64): 0.899, (64, 96): 0.844, (64, 128): 0.91, (64, 160): 1.018, (64, 192): 1.054,
    (64, 256): 1.046, (128, 96): 1.112, (128, 128): 1.051,
}  # fmt: skip
# Bytes of shared memory for a ring, beside barriers and the results of two chunks of columns.
_RING = 226 * 1024
_CHUNK = 64
_SUM_BYTES = _WORD = 4
_TRANSPOSED_ROWS = 32
# By so many fewer accumulators has a thread room where three warpgroups share the registers.
_FEWER_OF_THREE = 32
_FEW_AT_ONCE, _MOST_COPIED, _TALLEST = 32, 128 * 128, 256
_RASTERS = (1, 2, 4, 8, 16, 32)
_FEW_COLUMNS = 4


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
    most_values: int = 128
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
        # Threads that copy operands leave teams that take turns too few registers.
        # So do large tiles that are stored few columns at a time, and the tallest in any order.
        is_copied = self.align < 16 and (
            schedule.roles == "alternate"
            or (columns % _FEW_AT_ONCE != 0 and rows * columns > _MOST_COPIED)
        )
        most = self.most_values - (_FEWER_OF_THREE if groups == 3 else 0)
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
    best, parts, reduction = min(_choices(problems), key=lambda each: _ranked(*each, problems))
    shares = Schedule(split_k=parts, reduction=reduction) if parts > 1 else None
    estimate = _estimate(best, parts, reduction, problems)
    return completed(best, largest, estimate, tall=len(problems) > 1).merged(shares)


def completed(
    schedule: Schedule, problem: Problem, estimate: float, tall: bool = False
) -> Schedule:
    """An entry of the list with its raster (`raster_for`), and what is not estimated."""
    raster = raster_for(problem, schedule, tall)
    epilogue = "smem" if _reorders(schedule, problem) else None
    early: Switch | None = "yes" if estimate <= _EARLY else None
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
    return _estimate(schedule, parts, reduction, problems) * margin


def _choices(problems: tuple[Problem, ...]) -> Iterator[tuple[Schedule, int, Reduction | None]]:
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
    if not problem.takes_clusters or schedule.cluster != (1, 1):
        return
    for parts, resident in _CLUSTER_PARTS.items():
        tiles_sent = 1 if _scatters(schedule, parts) else parts - 1
        fits = _stages(schedule, problem, tiles_sent) >= _LEAST_STAGES
        if fits and parts * _LEAST_STEPS <= steps and parts * tiles <= resident:
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
    resident = _PROCESSORS // size
    items = [_blocks(schedule, each) * parts for each in problems]
    active = min(sum(items), resident) * size
    tiles = [_tile_cycles(schedule, each, parts, active) for each in problems]
    if len(problems) == 1:
        waves = _ceil(items[0], resident)
        felt = waves + _STRAGGLERS * (items[0] / resident - waves)
        walk = felt * tiles[0]
    else:
        waves = 1
        work = sum(count * each for count, each in zip(items, tiles, strict=True))
        walk = work / resident + max(tiles) / 2
    values = _values(schedule)
    if parts > 1 and reduction == "cluster" and _scatters(schedule, parts):
        walk += waves * (_SCATTER + _SCATTER_VALUE * values)
    elif parts > 1 and reduction == "cluster":
        walk += waves * (_SUM + (_SUM_VALUE + _SUM_PART_VALUE * parts) * values)
    elif parts > 1:
        walk += waves * (_SHARE + (_SHARE_VALUE + _PART_VALUE * parts) * values)
    if schedule.roles == "alternate":
        walk += _LAST_VALUE * values
    walk *= (_CLUSTER if size > 1 else 1.0) * _factor(schedule)
    moved = sum(
        each.batch * ((each.m + each.n) * each.k * each.bits + each.m * each.n * each.out_bits)
        for each in problems
    )
    memory = moved / 8 / _MEMORY_BYTES
    return _LAUNCH + _norm(_MEMORY_NORM, walk, memory)


def _factor(schedule: Schedule) -> float:
    assert schedule.tile is not None
    rows, columns, _ = schedule.tile
    factors = _ALTERNATE_FACTORS if schedule.roles == "alternate" else _FACTORS
    return factors.get((rows, columns), 1.0)


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


def _tile_cycles(schedule: Schedule, problem: Problem, parts: int, active: int) -> float:
    """Cycles from one tile, or one of the parts of one, to the next, on so many multiprocessors."""
    assert schedule.tile is not None
    trips = _ceil(_ceil(problem.k, schedule.tile[2]), parts)
    steps = trips * _step_cycles(schedule, problem, active)
    whole = steps + _end_cycles(schedule, problem)
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
    width = _LINE * 8 // problem.bits
    if is_across[1]:
        b *= 1 + _NARROW_BOX * (width / max(8, gcd(columns, width)) - 1)
    read = (rows * a / along + columns * b / across) * line
    each, step = _COPIES[max(2, min(16, problem.align))]
    found = _norm(
        _STEP_NORM,
        atoms * max(_COLUMN * columns, _MULTIPLY),
        shared,
        read * (1 / _L2_BYTES + active / _L2_ALL),
        each * loaded + step,
    )
    found += sum(is_across) * _ACROSS_STEP
    is_alone = warpgroups(schedule) == 1
    if is_alone:
        found += _WAIT / 2 if schedule.roles == "alternate" else _WAIT
    if across * along > 1:
        found += _CLUSTER_WAITS[0 if is_alone else 1]
    return found * (_SHORT_RING if _stages(schedule, problem) < _FEW_STAGES else 1.0)


def _stages(schedule: Schedule, problem: Problem, others: int = 0) -> int:
    """Stages of the ring, beside results and the sums of so many other CTAs."""
    assert schedule.tile is not None
    rows, columns, depth = schedule.tile
    stage = (rows + columns + _transposed_extents(schedule, problem)) * depth * problem.bits // 8
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
