"""The schedules from which products choose where tcgen05 multiplies (sm_100a and its family): tiles
of 128 rows, by CTAs alone or in pairs, of which each holds half of B, whole or in parts that are
added through memory. Prices are fitted to predictions of the static model, since no timing was
taken (`prices/README.md`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from cutedialect.schedule import Schedule

from .gemm_price import estimated, facts_of, gemm_price, knows, shared_bytes
from .gemm_problem import LINE, VECTOR, Problem, Tiling, ceil_div, tiling_of
from .need import Limits, Need
from .space import in_order

_ROWS = 128
_COLUMNS = (256, 192, 128, 96, 64, 32, 16)
# Those of whole panels of scales, which have 128 rows of an operand.
_WHOLE_PANELS = (256, 128)
_LEAST_COLUMNS = 32
# A problem with at most so many rows is also tried transposed: they become columns, of which a tile
# may have few, while rows of a tile always take all lanes of tensor memory.
_MOST_SWAPPED = 256
_PARTS, _LEAST_STEPS = (1, 2, 4, 8), 4


class TensorMemorySpace:
    """The schedules of one product, or of several in one launch, whose operands TMA brings.

    >>> from cutedialect.atoms import usual_device
    >>> from cutedialect.choosing.choose import choose
    >>> for size in (8192, 100):
    ...     problem = Problem(size, size, size, 1, 16, 16, device=usual_device("sm_100a"))
    ...     print(choose(TENSOR_SPACE, (problem,)).text())
    tile = (128,256,64), cluster = (2,1), swap_ab = no
    tile = (128,64,64), cluster = (1,1), swap_ab = no, early_launch = yes
    """

    name = "gemm in tensor memory"

    def ranked(
        self, problem: Sequence[Problem], given: Schedule | None, limits: Limits
    ) -> Iterator[Schedule]:
        """The schedules by their prices, plainer ones first among equals."""
        # Only CTAs by themselves claim tiles from a counter, and those of a cluster that adds up a
        # tile are the cluster.
        alone = given is not None and (
            given.cluster is not None
            or given.scheduler == "dynamic"
            or given.reduction == "cluster"
        )
        for schedule in _ranking(tuple(problem), alone):
            if self.need(problem, schedule).leaves(limits):
                yield schedule.merged(given)

    def need(self, problem: Sequence[Problem], schedule: Schedule) -> Need:
        """The columns of an accumulator, of which a thread has those of a row of the tile where it
        leaves, and the shared memory of two stages, or as many as are given.
        """
        tiling = tiling_of(schedule)
        smem = max(shared_bytes(tiling, each, schedule.stages or 2) for each in problem)
        columns = problem[0].tensor_columns(tiling)
        return Need(registers=tiling.columns, room=_COLUMNS[0], smem=smem, columns=columns)


TENSOR_SPACE = TensorMemorySpace()


def takes_tensor_schedules(problem: Problem, given: Schedule | None) -> bool:
    """Whether the choice is that of the space: not where threads copy operands, nor where it is
    given how they are multiplied.
    """
    return problem.align >= VECTOR and (given is None or given.leaves_multiplies)


@lru_cache(maxsize=512)
def _ranking(problems: tuple[Problem, ...], alone: bool) -> tuple[Schedule, ...]:
    """All that is compared; `alone`: CTAs make no pairs."""
    price = gemm_price(problems[0].device)
    tilings = tensor_tilings(problems, alone)
    prices = estimated(tilings, problems, price)
    if len(problems) == 1 and knows(problems[0]):
        ones = np.ones_like(tilings.rows)
        facts = facts_of(tilings, problems[0], price, prices, ones, ones < 0)
        prices = prices * np.exp(price.trees.sums(facts))
    # What a launch costs is hidden behind the end of the one before it.
    early = (prices <= price.early).tolist()
    schedules = map(_schedule_of, tilings.each(), early)
    return tuple(in_order(zip(prices.tolist(), schedules, strict=True), price.margins["plain"]))


def tensor_schedules(*problems: Problem) -> list[Schedule]:
    """What is compared, plainer schedules first among equals."""
    return list(map(_schedule_of, tensor_tilings(problems).each()))


def _schedule_of(tiling: Tiling, is_early: bool = False) -> Schedule:
    return Schedule(
        tile=tiling[:3],
        cluster=(tiling.down, tiling.right),
        split_k=tiling.parts if tiling.parts > 1 else None,
        swap_ab="yes" if tiling.swapped else "no",
        early_launch="yes" if is_early else None,
    )


def tensor_tilings(problems: Sequence[Problem], alone: bool = False) -> Tiling:
    """The tiles of `tensor_schedules`; several problems share none of theirs."""
    problem = max(problems, key=lambda each: each.m)
    is_flat = problem.m <= _MOST_SWAPPED and problem.n > problem.m
    depth = LINE * 8 // problem.bits
    swaps = (False, True) if is_flat else (False,)
    widths = _WHOLE_PANELS if problem.scaled else _COLUMNS
    listed = [Tiling(_ROWS, wide, depth, swapped=way) for way in swaps for wide in widths]
    tilings = Tiling.table(listed).crossed(down=(1,) if alone else (1, 2))
    tilings = tilings.crossed(parts=_PARTS[:1] if len(problems) > 1 else _PARTS)
    wide, parts, alike = tilings.columns, tilings.parts, tilings._replace(down=1)
    rows, columns = problem.extents(tilings.swapped)
    # Words across the depth are read 32 columns at a time, by each CTA of a pair too.
    has_words = problem.bits == 32 and any(problem.across)
    least = _LEAST_COLUMNS if has_words else widths[-1]
    # No tile is far wider than there are columns, nor one of the least width part of them.
    fits = (wide < 2 * columns) | (wide <= least)
    fits &= (wide >= _LEAST_COLUMNS) | (columns <= wide) & (not has_words)
    # Each CTA of a pair brings half of the columns of B.
    fits &= (tilings.down == 1) | (rows > _ROWS) & (wide % (2 * _LEAST_COLUMNS) == 0)
    shares = ceil_div(problem.k, depth) >= parts * _LEAST_STEPS
    shares &= problem.blocks_of(alike) * parts <= problem.device.processors
    return tilings.taken(fits & ((parts == 1) | shares))
