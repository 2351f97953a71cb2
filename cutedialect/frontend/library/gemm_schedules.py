"""The schedules from which `cute.gemm` chooses on sm_90a, and the estimate that it chooses by.

The list is short enough to compile whole (`python -m cutedialect schedules` prints it). An estimate
counts cycles: of a step of the main loop, of what a tile does besides, and of the waves of tiles;
its constants are a fit to timings of the list on an H100 (benchmarks/NOTES.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from cutedialect.schedule import Schedule

# (rows, columns) of CTA tiles, each with the clusters that it is tried in; best first among equals.
# A tile is one line of 128 bytes deep, the widest swizzle.
_TILES = {
    (128, 256): ((2, 1), (1, 1), (1, 2)),
    (256, 128): ((1, 2), (1, 1)),
    (128, 192): ((2, 1), (1, 1)),
    (192, 128): ((1, 2), (1, 1)),
    (128, 128): ((1, 1),),
    (64, 256): ((1, 1), (2, 1)),
    (128, 96): ((1, 1),),
    (128, 64): ((1, 1), (2, 1)),
    (128, 32): ((1, 1),),
    (64, 192): ((1, 1),),
    (64, 128): ((1, 1),),
    (64, 64): ((1, 1),),
    (64, 32): ((1, 1),),
    (64, 16): ((1, 1),),
    (64, 8): ((1, 1),),
}
# Three warpgroups on 64 rows each: a short epilogue beside few steps.
_THREE_GROUPS = (192, 128)
# Tiles of two lines for what memory bounds: half as many waits on barriers, but fewer stages.
_DEEP = ((64, 112), (64, 64), (64, 32), (128, 128))
# Tiles of the transposed product, whose columns are the few rows of A: 64 rows of B^T, or 128.
_SKINNY = ((64, 8), (64, 16), (64, 32), (64, 64), (128, 64))
# A problem with more rows than this is not skinny.
_SKINNY_ROWS = 64
_LINE = 128
# H100 SXM: multiprocessors and bytes of L2; of them all, bytes from memory for each clock cycle.
_PROCESSORS = 132
_L2_SIZE = 36e6
_MEMORY_BYTES = 1900
# Cycles of a multiply of 64 rows and 32 bytes of depth: for each column, at least, and bytes from
# L2 for each cycle and multiprocessor; the share of the loads that is felt beside the multiplies.
_COLUMN = 0.61
_MULTIPLY = 70
_L2_BYTES = 66
_LOADS_FELT = 0.03
# Cycles that a step of a lone warpgroup waits for its barrier; a ring of fewer stages than this
# waits longer.
_WAIT = 20
_RING = 200 * 1024
_FEW_STAGES = 4
_SHORT_RING = 1.1
# Cycles: the first bytes of a kernel, the start and end of a tile, and there for each accumulator
# of a thread; bytes of the last results stored in one.
_LAUNCH = 1500
_TILE = 200
_VALUE = 20
_STORE_BYTES = 20
_RASTERS = (2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Problem:
    """Sizes of a matrix multiply and bits of an operand's and a result's element.

    most_values: accumulators that a thread may hold. blocks: what the rows and columns of a tile
    have to divide, 0 for anything.
    """

    m: int
    n: int
    k: int
    batch: int
    bits: int
    out_bits: int
    most_values: int = 128
    blocks: tuple[int, int] = (0, 0)

    def takes(self, schedule: Schedule) -> bool:
        """Whether a schedule keeps within the two."""
        assert schedule.tile is not None
        rows, columns = schedule.tile[:2]
        groups = warpgroups(schedule)
        extents = (columns, rows) if schedule.swap_ab == "yes" else (rows, columns)
        return rows * columns <= self.most_values * 128 * groups and all(
            block % extent == 0 for block, extent in zip(self.blocks, extents, strict=True)
        )


def warpgroups(schedule: Schedule) -> int:
    """Warpgroups that multiply."""
    assert schedule.tile is not None
    if schedule.warps is not None:
        return schedule.warps[0] * schedule.warps[1] // 4
    return 2 if schedule.tile[0] % 128 == 0 else 1


def gemm_schedules(bits: int) -> tuple[Schedule, ...]:
    """The schedules for operands with elements of so many bits, best large tiles first."""
    line = _LINE * 8 // bits
    wide = [
        Schedule(tile=(*tile, line), cluster=cluster, swap_ab="no")
        for tile, clusters in _TILES.items()
        for cluster in clusters
    ]
    three = Schedule(tile=(*_THREE_GROUPS, line), warps=(12, 1), cluster=(1, 1), swap_ab="no")
    deep = [
        Schedule(tile=(*tile, 2 * line), cluster=(1, 1), swap_ab=swap)
        for tiles, swap in ((_DEEP, "no"), (_SKINNY, "yes"))
        for tile in tiles
    ]
    return (*wide, three, *deep)


@lru_cache(maxsize=4096)
def choose_schedule(problem: Problem) -> Schedule:
    """The schedule with the lowest estimate, its raster set for L2."""
    listed = [each for each in gemm_schedules(problem.bits) if problem.takes(each)]
    skinny = [each for each in listed if _suits_skinny(problem, each)]
    listed = skinny or [each for each in listed if each.swap_ab == "no"]
    best = min(listed, key=lambda each: cycles(problem, each))
    return best.merged(Schedule(raster=_raster(problem, best)))


def _suits_skinny(problem: Problem, schedule: Schedule) -> bool:
    """Whether a tile of the transposed product has all rows of a skinny problem, and few more."""
    assert schedule.tile is not None
    if schedule.swap_ab != "yes" or not problem.m <= _SKINNY_ROWS < problem.n:
        return False
    rows, columns, _ = schedule.tile
    if columns < problem.m or (columns >= 2 * problem.m and columns > 8):
        return False
    # 128 rows want a tile for most multiprocessors.
    has_wide = columns == 64 and problem.n * problem.batch >= 96 * 128
    return rows == (128 if has_wide else 64)


def cycles(problem: Problem, schedule: Schedule) -> float:
    """Estimated clock cycles of a schedule on a problem."""
    assert schedule.tile is not None
    assert schedule.cluster is not None
    (rows, columns, depth), (across, along) = schedule.tile, schedule.cluster
    m, n = problem.m, problem.n
    if schedule.swap_ab == "yes":
        m, n = n, m
    size = across * along
    blocks = problem.batch * _ceil(m, rows * across) * _ceil(n, columns * along)
    waves = _ceil(blocks, _PROCESSORS // size)
    line = depth * problem.bits // 8
    loads = (rows / along + columns / across) * line / _L2_BYTES
    # A third warpgroup waits for its turn at the tensor cores a little.
    turns = 1.02 if warpgroups(schedule) == 3 else 1.0
    multiply = rows // 64 * (line // 32) * max(_COLUMN * columns, _MULTIPLY) * turns
    step = max(multiply, loads) + _LOADS_FELT * loads
    if warpgroups(schedule) == 1:
        step += _WAIT
    if _RING // ((rows + columns) * line) < _FEW_STAGES:
        step *= _SHORT_RING
    values = rows * columns / (128 * warpgroups(schedule))
    tile = _ceil(problem.k, depth) * step + _TILE + _VALUE * values
    last = rows * columns * problem.out_bits / 8 / _STORE_BYTES
    moved = problem.batch * (
        (problem.m + problem.n) * problem.k * problem.bits
        + problem.m * problem.n * problem.out_bits
    )
    # Memory is not busy all the time where the last wave leaves multiprocessors idle.
    idle = 1 - blocks * size / (waves * _PROCESSORS) if blocks else 0
    memory = moved / 8 / _MEMORY_BYTES * (1 + idle / 10)
    return _LAUNCH + max(waves * tile + last, memory)


def _raster(problem: Problem, schedule: Schedule) -> int:
    """Rows of blocks that are walked together: the fewest for which a wave of tiles reads not much
    more than it must. Neighbors that share columns profit from few rows; a wave that is nearly
    square reads least, which counts where no operand stays in L2.
    """
    assert schedule.tile is not None
    assert schedule.cluster is not None
    m, n = problem.m, problem.n
    if schedule.swap_ab == "yes":
        m, n = n, m
    height = schedule.tile[0] * schedule.cluster[0]
    width = schedule.tile[1] * schedule.cluster[1]
    resident = _PROCESSORS // (schedule.cluster[0] * schedule.cluster[1])
    rows, columns = max(1, _ceil(m, height)), max(1, _ceil(n, width))

    def read(raster: int) -> float:
        group = min(raster, rows)
        if group * columns >= resident:
            return group * height + resident / group * width
        return min(rows, resident / columns) * height + columns * width

    stays = min(m, n) * problem.k * problem.bits / 8 <= _L2_SIZE or columns <= 16
    limit = min(map(read, _RASTERS)) * (1.3 if stays else 1.05)
    return next(raster for raster in _RASTERS if read(raster) <= limit)


def _ceil(value: int, step: int) -> int:
    return -(-value // step)
