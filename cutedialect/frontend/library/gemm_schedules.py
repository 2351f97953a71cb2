"""The schedules from which `cute.gemm` chooses on sm_90a, and the estimate that it chooses by.

The list is short enough to compile whole (`python -m cutedialect schedules` prints it); an estimate
counts cycles of the four limits that a tile meets: tensor cores, L2, device memory, and what is not
overlapped at its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

from cutedialect.schedule import Schedule

# (rows, columns) of CTA tiles, each with the clusters that it is tried in. A warpgroup holds 64 x
# 256 accumulators at most; the depth of a tile is one line of 128 bytes, the widest swizzle.
_TILES = {
    (128, 256): ((2, 1), (1, 1), (1, 2)),
    (256, 128): ((1, 2), (2, 1), (1, 1)),
    (128, 192): ((2, 1), (1, 1)),
    (128, 128): ((2, 1), (1, 2), (1, 1)),
    (128, 64): ((1, 1), (2, 1), (1, 2)),
    (128, 32): ((1, 1),),
    (64, 256): ((1, 1), (2, 1)),
    (64, 128): ((1, 1), (2, 1)),
    (64, 64): ((1, 1),),
    (64, 32): ((1, 1),),
    (64, 16): ((1, 1),),
    (64, 8): ((1, 1),),
}
# Tiles of the transposed product, whose columns are the few rows of A.
_SKINNY = {
    (128, 8): ((1, 1),),
    (128, 16): ((1, 1),),
    (128, 32): ((1, 1),),
    (128, 64): ((1, 1),),
    (64, 8): ((1, 1),),
    (64, 16): ((1, 1),),
    (64, 32): ((1, 1),),
    (64, 64): ((1, 1),),
}
# A problem with more rows than this is not skinny.
_SKINNY_ROWS = 64
_LINE = 128
# H100 SXM: multiprocessors, and for each of them and clock cycle: 16-bit products and sums, bytes
# from L2 (all of them at work) and from device memory.
_PROCESSORS = 132
_FLOPS = 4096
_L2_BYTES = 46
_MEMORY_BYTES = 1900 / _PROCESSORS
# Cycles: the first bytes of a kernel, the start and end of a tile, and of one step of its loop.
_LAUNCH = 1500
_TILE = 900
_STEP = 40
_STORE_BYTES = 32


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
        groups = 2 if rows % 128 == 0 else 1
        extents = (columns, rows) if schedule.swap_ab == "yes" else (rows, columns)
        return rows * columns <= self.most_values * 128 * groups and all(
            block % extent == 0 for block, extent in zip(self.blocks, extents, strict=True)
        )


def gemm_schedules(bits: int) -> tuple[Schedule, ...]:
    """The schedules for operands with elements of so many bits, best large tiles first."""
    depth = _LINE * 8 // bits
    listed = [(_TILES, "no"), (_SKINNY, "yes")]
    return tuple(
        Schedule(tile=(*tile, depth), cluster=cluster, swap_ab=swap)
        for tiles, swap in listed
        for tile, clusters in tiles.items()
        for cluster in clusters
    )


@lru_cache(maxsize=4096)
def choose_schedule(problem: Problem) -> Schedule:
    """The schedule with the lowest estimate, its raster set for L2."""
    skinny = problem.m <= _SKINNY_ROWS < problem.n
    listed = [each for each in gemm_schedules(problem.bits) if problem.takes(each)]
    if skinny:
        # One column of tiles: B^T is read once.
        listed = [x for x in listed if x.swap_ab == "yes" and x.tile and x.tile[1] >= problem.m]
    else:
        listed = [x for x in listed if x.swap_ab == "no"]
    best = min(listed, key=lambda each: cycles(problem, each))
    assert best.tile is not None
    assert best.cluster is not None
    height, width = best.tile[0] * best.cluster[0], best.tile[1] * best.cluster[1]
    resident = _PROCESSORS // (best.cluster[0] * best.cluster[1])
    raster = max(1, min(64, round(sqrt(resident * width / height))))
    return best.merged(Schedule(raster=raster))


def cycles(problem: Problem, schedule: Schedule) -> float:
    """Estimated clock cycles of a schedule on a problem."""
    assert schedule.tile is not None
    assert schedule.cluster is not None
    (rows, columns, depth), (across, along) = schedule.tile, schedule.cluster
    size = across * along
    m, n = problem.m, problem.n
    if schedule.swap_ab == "yes":
        m, n = n, m
    blocks = problem.batch * _ceil(m, rows * across) * _ceil(n, columns * along)
    waves = _ceil(blocks, _PROCESSORS // size)
    steps = _ceil(problem.k, depth)
    multiply = 2 * rows * columns * depth * problem.bits / 16 / _FLOPS
    # Each instruction reads 64 rows of A beside its columns of B: narrow tiles wait for smem.
    multiply *= max(1.0, (64 + columns) * 2 / (3 * columns))
    loads = (rows / along + columns / across) * _LINE / _L2_BYTES
    step = max(multiply, loads) + _STEP
    tile = steps * step + _TILE + rows * columns * problem.out_bits / 8 / _STORE_BYTES
    moved = problem.batch * (
        (problem.m + problem.n) * problem.k * problem.bits
        + problem.m * problem.n * problem.out_bits
    )
    memory = moved / 8 / (_MEMORY_BYTES * _PROCESSORS)
    return _LAUNCH + max(waves * tile, memory)


def _ceil(value: int, step: int) -> int:
    return -(-value // step)
