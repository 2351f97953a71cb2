"""The schedules from which `cute.gemm` chooses where tcgen05 multiplies (sm_100a and its family),
and the model that it chooses by: cycles of a device from its bandwidths, since no timing was taken.

A step of the main loop, 128 bytes of depth, takes as long as the slowest of three: the tensor core,
shared memory, which every byte of an operand enters once and leaves once, and L2. In a CTA pair
each CTA brings half of B, so that it moves 2 x (rows + columns / 2) lines where one alone moves
2 x (rows + columns): a tile of 128 x 256 by itself waits for shared memory a third of the time, one
of a pair does not. Against that stands the number of tiles: those of a last wave that is not full.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import ceil

from cutedialect.schedule import Schedule

from .choose import choose
from .gemm_problem import Problem
from .need import Limits, Need
from .space import in_order

_LINE = 128
_TMA_ALIGN = 16
_ROWS = 128
_COLUMNS = (256, 192, 128, 96, 64, 32, 16)
_LEAST_COLUMNS = 32
# A problem with at most so many rows is also tried transposed: they become columns, of which a tile
# may have few, while rows of a tile always take all lanes of tensor memory.
_MOST_SWAPPED = 256
# Bytes that shared memory takes or gives in a cycle, and those of L2 for all multiprocessors.
_SHARED_BYTES = 128
_L2_BYTES = 13500
# Cycles until the first operands are there; of the two CTAs of a pair until they see each other;
# of the last tile's results, for each column; of tiles that CTAs share, in all and for each column
# of a part.
_FILL = 1500
_PAIR = 200
_COLUMN = 8
_SHARE, _SHARE_COLUMN = 3000, 20
_PARTS = (1, 2, 4, 8)
_LEAST_STEPS = 4
# What a choice that is less plain has to be better by.
_MARGIN = 1.05


class TensorMemorySpace:
    """The schedules of one product whose operands TMA brings."""

    name = "gemm in tensor memory"

    def ranked(
        self, problem: Problem, given: Schedule | None, limits: Limits
    ) -> Iterator[Schedule]:
        """The schedules by their cycles, plainer ones first among equals."""
        # Only CTAs by themselves claim tiles from a counter, and those of a cluster that adds up a
        # tile are the cluster.
        alone = given is not None and (
            given.cluster is not None
            or given.scheduler == "dynamic"
            or given.reduction == "cluster"
        )
        for schedule in _ranking(problem, alone):
            if self.need(problem, schedule).spare >= limits.registers:
                yield schedule.merged(given)

    def need(self, problem: Problem, schedule: Schedule) -> Need:
        """The columns of an accumulator, of which a thread has those of a row of the tile where it
        leaves.
        """
        assert schedule.tile is not None
        columns = schedule.tile[1]
        return Need(registers=columns, room=_COLUMNS[0], columns=columns)


TENSOR_SPACE = TensorMemorySpace()


def takes_tensor_schedules(problem: Problem, given: Schedule | None) -> bool:
    """Whether the choice is that of the space: not where threads copy operands, nor where it is
    given how they are multiplied.
    """
    return problem.align >= _TMA_ALIGN and (given is None or given.leaves_multiplies)


def choose_tensor_schedule(problem: Problem) -> Schedule:
    """The schedule with the fewest cycles.

    >>> from cutedialect.atoms import usual_device
    >>> b200 = usual_device("sm_100a")
    >>> print(choose_tensor_schedule(Problem(8192, 8192, 8192, 1, 16, 16, device=b200)).text())
    tile = (128,256,64), cluster = (2,1), swap_ab = no
    >>> print(choose_tensor_schedule(Problem(100, 100, 100, 1, 16, 16, device=b200)).text())
    tile = (128,32,64), cluster = (1,1), swap_ab = no
    """
    return choose(TENSOR_SPACE, problem)


@lru_cache(maxsize=512)
def _ranking(problem: Problem, alone: bool) -> tuple[Schedule, ...]:
    """All that is compared; `alone`: CTAs make no pairs."""
    priced = [(tensor_cycles(each, problem), each) for each in tensor_schedules(problem, alone)]
    return tuple(in_order(priced, _MARGIN))


def tensor_schedules(problem: Problem, alone: bool = False) -> Iterator[Schedule]:
    """What the model compares, plainer schedules first among equals."""
    depth = _LINE * 8 // problem.bits
    steps = ceil(problem.k / depth)
    is_flat = problem.m <= _MOST_SWAPPED and problem.n > problem.m
    for swapped in (False, True) if is_flat else (False,):
        rows, columns = problem.extents(swapped)
        for wide, cluster in product(_COLUMNS, ((1, 1),) if alone else ((1, 1), (2, 1))):
            if not _is_width(wide, columns, problem):
                continue
            # Each CTA of a pair brings half of the columns of B.
            if cluster != (1, 1) and (rows <= _ROWS or wide % (2 * _LEAST_COLUMNS)):
                continue
            tiles = _tiles(rows, columns, wide, problem.batch)
            for parts in _PARTS:
                if parts > 1 and (
                    steps < parts * _LEAST_STEPS or tiles * parts > problem.device.processors
                ):
                    continue
                yield Schedule(
                    tile=(_ROWS, wide, depth),
                    cluster=cluster,
                    split_k=parts if parts > 1 else None,
                    swap_ab="yes" if swapped else "no",
                )


def _is_width(wide: int, columns: int, problem: Problem) -> bool:
    """Whether tiles of so many columns suit a product of so many: not far more than there are."""
    # Words across the depth are read 32 columns at a time, by each CTA of a pair too.
    has_words = problem.bits == 32 and any(problem.across)
    if wide >= 2 * columns and wide > (_LEAST_COLUMNS if has_words else _COLUMNS[-1]):
        return False
    return wide >= _LEAST_COLUMNS or not (has_words or columns > wide)


def tensor_cycles(schedule: Schedule, problem: Problem) -> float:
    """Cycles of a problem by a schedule of the list."""
    assert schedule.tile is not None
    _, wide, depth = schedule.tile
    is_swapped = schedule.swap_ab == "yes"
    rows, columns = (problem.n, problem.m) if is_swapped else (problem.m, problem.n)
    ctas = (schedule.cluster or (1, 1))[0]
    parts = schedule.split_k or 1
    steps = ceil(ceil(problem.k / depth) / parts)
    tiles = ceil(rows / (ctas * _ROWS)) * ceil(columns / wide) * problem.batch * parts
    waves = ceil(tiles / (problem.device.processors // ctas))
    running = min(tiles * ctas, problem.device.processors)
    lines = _ROWS + wide / ctas
    step = max(
        _ROWS * wide * depth * problem.bits / 16 / problem.device.multiplies,
        2 * lines * _LINE / _SHARED_BYTES,
        lines * _LINE * running / _L2_BYTES,
    )
    end = _COLUMN * wide
    if parts > 1:
        end += _SHARE + _SHARE_COLUMN * wide * parts
    cycles = _FILL + waves * steps * step + end + (_PAIR if ctas > 1 else 0)
    moved = problem.batch * (
        (rows + columns) * problem.k * problem.bits + rows * columns * problem.out_bits
    )
    return max(cycles, _FILL + moved / 8 / problem.device.memory_bytes_per_cycle)


def _tiles(rows: int, columns: int, wide: int, batch: int) -> int:
    return ceil(rows / _ROWS) * ceil(columns / wide) * batch
