"""The schedules of convolutions whose pixels TMA brings: those of the products that they are, by
the same price, as far as tiles of pixels go with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cutedialect.schedule import Schedule

from .gemm_problem import LINE, Problem, tiling_of
from .gemm_schedules import GEMM_SPACE
from .need import Limits, Need


@dataclass(frozen=True)
class ConvProblem:
    """The product that a convolution is. `depth` is that of a tap, whose pixels are the rows of A;
    None where the depth of the product is pixels, of both operands, and taps find those of B.
    """

    product: Problem
    depth: int | None = None

    def takes(self, schedule: Schedule) -> bool:
        """Whether tiles of pixels go with a schedule: each CTA of a cluster loads its own, so that
        a cluster lies along the other operand; a deep tile fills the depth of a tap.
        """
        tiling = tiling_of(schedule)
        shares = tiling.down if self.depth is None else tiling.right
        line = LINE * 8 // self.product.bits
        is_full = self.depth is None or tiling.depth <= line or self.depth % tiling.depth == 0
        return shares == 1 and is_full


class ConvSpace:
    """What a convolution may be compiled with."""

    name = "a convolution"

    def ranked(
        self, problem: ConvProblem, given: Schedule | None, limits: Limits
    ) -> Iterator[Schedule]:
        """Those of the product in its order."""
        ranked = GEMM_SPACE.ranked((problem.product,), given, limits)
        return filter(problem.takes, ranked)

    def need(self, problem: ConvProblem, schedule: Schedule) -> Need:
        """That of the product."""
        return GEMM_SPACE.need((problem.product,), schedule)


CONV_SPACE = ConvSpace()
