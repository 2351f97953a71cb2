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
# Two warpgroups that take tiles in turns: one stores its results while the other multiplies.
_ALTERNATE = (128, 128)
# Tiles of two lines for what memory bounds: half as many waits on barriers, but fewer stages.
_DEEP = ((64, 112), (64, 64), (64, 32), (128, 128))
# Tiles of the transposed product, whose columns are the few rows of A: 64 rows of B^T, or 128.
_SKINNY = ((64, 8), (64, 16), (64, 32), (64, 64), (128, 64))
# A problem with more rows than this is not skinny.
_SKINNY_ROWS = 64
_LINE = 128
# H100 SXM: multiprocessors; of them all, bytes from memory for each clock cycle.
_PROCESSORS = 132
_MEMORY_BYTES = 1900
# Cycles of a multiply of 64 rows and 32 bytes of depth: for each column, at least, and bytes from
# L2 for each cycle and multiprocessor; the share of the loads that is felt beside the multiplies.
_COLUMN = 0.61
_MULTIPLY = 70
_L2_BYTES = 55
_LOADS_FELT = 0.1
# Cycles that a step of a lone warpgroup waits for its barrier, half as many where two alternate; a
# ring of fewer stages than this waits longer.
_WAIT = 20
_RING = 200 * 1024
_FEW_STAGES = 4
_SHORT_RING = 1.1
# Bytes that shared memory reads or writes in a cycle, and rows that warps transpose together.
_SHARED_BYTES = 128
_TRANSPOSED_ROWS = 32
# Cycles: the first bytes of a kernel, the start and end of a tile, and there for each accumulator
# of a thread; all of these where another warpgroup multiplies meanwhile; bytes of the last results
# stored in one.
_LAUNCH = 1500
_TILE = 200
_VALUE = 28
_HIDDEN_TILE = 150
_STORE_BYTES = 12
_RASTERS = (2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Problem:
    """Sizes of a matrix multiply and bits of an operand's and a result's element.

    most_values: accumulators that a thread may hold. blocks: what the rows, columns and depth of a
    tile have to divide, 0 for anything. transposed: whether tiles of A and of B are transposed in
    shared memory before they are multiplied.
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

    def takes(self, schedule: Schedule) -> bool:
        """Whether a schedule keeps within the limits."""
        assert schedule.tile is not None
        rows, columns, depth = schedule.tile
        groups = warpgroups(schedule)
        extents = (columns, rows) if schedule.swap_ab == "yes" else (rows, columns)
        return (
            rows * columns <= self.most_values * 128 * groups
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
    return 2 if schedule.tile[0] % 128 == 0 else 1


def gemm_schedules(bits: int) -> tuple[Schedule, ...]:
    """The schedules for operands with elements of so many bits, best large tiles first."""
    line = _LINE * 8 // bits
    listed = [
        Schedule(tile=(*tile, line), cluster=cluster, roles="specialized", swap_ab="no")
        for tile, clusters in _TILES.items()
        for cluster in clusters
    ]
    three, turns = (*_THREE_GROUPS, line), (*_ALTERNATE, line)
    listed += [
        Schedule(tile=three, warps=(12, 1), cluster=(1, 1), roles="specialized", swap_ab="no"),
        Schedule(tile=turns, cluster=(1, 1), roles="alternate", swap_ab="no"),
    ]
    listed += [
        Schedule(tile=(*tile, 2 * line), cluster=(1, 1), roles="specialized", swap_ab=swap)
        for tiles, swap in ((_DEEP, "no"), (_SKINNY, "yes"))
        for tile in tiles
    ]
    return tuple(listed)


@lru_cache(maxsize=4096)
def choose_schedule(*problems: Problem) -> Schedule:
    """The schedule with the lowest estimate for all problems together, its raster set for L2.

    Several problems are one launch, which walks over the tiles of all; they have one element type
    and the same limits.
    """
    widest = max(problems, key=lambda each: each.m)
    largest = max(problems, key=lambda each: each.m * each.n * each.k)
    listed = [each for each in gemm_schedules(widest.bits) if widest.takes(each)]
    skinny = [each for each in listed if _suits_skinny(widest, each)]
    listed = skinny or [each for each in listed if each.swap_ab == "no"]
    best = min(listed, key=lambda each: cycles(each, *problems))
    raster = raster_for(largest, best, tall=len(problems) > 1)
    return best.merged(Schedule(raster=raster))


def _suits_skinny(problem: Problem, schedule: Schedule) -> bool:
    """Whether a tile of the transposed product has all rows of a skinny problem, and few more."""
    assert schedule.tile is not None
    if schedule.swap_ab != "yes" or not problem.m <= _SKINNY_ROWS < problem.n:
        return False
    # A matrix of one element may be contiguous along either mode, and would be along the wrong one.
    if problem.k < 2:
        return False
    rows, columns, _ = schedule.tile
    if columns < problem.m or (columns >= 2 * problem.m and columns > 8):
        return False
    # 128 rows want a tile for most multiprocessors.
    has_wide = columns == 64 and problem.n * problem.batch >= 96 * 128
    return rows == (128 if has_wide else 64)


def cycles(schedule: Schedule, *problems: Problem) -> float:
    """Estimated clock cycles of a schedule on a problem, or on several in one launch."""
    assert schedule.tile is not None
    assert schedule.cluster is not None
    size = schedule.cluster[0] * schedule.cluster[1]
    resident = _PROCESSORS // size
    blocks = [_blocks(schedule, each) for each in problems]
    tiles = [_tile_cycles(schedule, each) for each in problems]
    if len(problems) == 1:
        walk = _ceil(blocks[0], resident) * tiles[0]
    else:
        work = sum(count * each for count, each in zip(blocks, tiles, strict=True))
        walk = work / resident + max(tiles) / 2
    rows, columns = schedule.tile[:2]
    last = rows * columns * problems[0].out_bits / 8 / _STORE_BYTES
    if schedule.roles == "alternate":
        last += _VALUE * rows * columns / 128
    moved = sum(
        each.batch * ((each.m + each.n) * each.k * each.bits + each.m * each.n * each.out_bits)
        for each in problems
    )
    # Memory is not busy all the time where the last wave leaves multiprocessors idle.
    waves = _ceil(sum(blocks), resident)
    idle = 1 - sum(blocks) * size / (waves * _PROCESSORS) if waves else 0
    memory = moved / 8 / _MEMORY_BYTES * (1 + idle / 10)
    return _LAUNCH + max(walk + last, memory)


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


def _tile_cycles(schedule: Schedule, problem: Problem) -> float:
    """Cycles from one tile to the next."""
    assert schedule.tile is not None
    assert schedule.cluster is not None
    (rows, columns, depth), (across, along) = schedule.tile, schedule.cluster
    groups = warpgroups(schedule)
    line = depth * problem.bits // 8
    loads = (rows / along + columns / across) * line / _L2_BYTES
    # A third warpgroup waits for its turn at the tensor cores a little.
    turns = 1.02 if groups == 3 else 1.0
    multiply = rows // 64 * (line // 32) * max(_COLUMN * columns, _MULTIPLY) * turns
    again = _transposed_extents(schedule, problem) * line
    if again:
        # Boxes arrive, are read and written once more, and every block of 64 rows reads B.
        moved = (rows + columns) * line + 2 * again + rows * line + rows // 64 * columns * line
        multiply = max(multiply, moved / _SHARED_BYTES)
    step = max(multiply, loads) + _LOADS_FELT * loads
    if groups == 1:
        step += _WAIT / 2 if schedule.roles == "alternate" else _WAIT
    stages = _RING // ((rows + columns) * line + again)
    if stages < _FEW_STAGES:
        step *= _SHORT_RING
    ends = _TILE + _VALUE * rows * columns / (128 * groups)
    if schedule.roles == "alternate":
        ends = _HIDDEN_TILE
    return _ceil(problem.k, depth) * step + ends


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
    """Rows of blocks that are walked together: the fewest (`tall`: the most) for which a wave of
    tiles, a rectangle as nearly square as it can be, reads hardly more than it must.
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
    return fitting[-1] if tall else fitting[0]


def _ceil(value: int, step: int) -> int:
    return -(-value // step)
