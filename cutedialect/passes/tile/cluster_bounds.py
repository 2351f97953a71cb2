"""Numbers of which the CTAs of a cluster take the largest or the least: `cute.cluster_bound`, which
each CTA computes from the coordinates that the others have.

    %n = f(%i); %end = cute.cluster_bound "max", %n
    =>
    %n = f(2 %block + %rank); %end = max(f(2 %block), 2 %block + 1 < tiles ? f(2 %block + 1) : ...)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects import cute
from cutedialect.dialects.effects import is_pure
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.rewriting import ScalarBuilder, cloned, erase

# The mode of a work item's tile along which CTAs lie one below the other.
_MODE = -2
_COMBINED = {"max": arith.MaxSIOp, "min": arith.MinSIOp}


@dataclass(frozen=True)
class ClusterBounds:
    """The bounds of a kernel whose work items go to clusters."""

    kernel: cute.KernelOp
    index: cute.TileIndexOp
    tensor: SSAValue
    cluster: tuple[int, int]

    def compute(self, build: ScalarBuilder, coords: Sequence[SSAValue]) -> None:
        """Replace each bound where CTAs lie one below the other, of clusters at `coords`, which
        count clusters.
        """
        ctas, ops = self.cluster[0], ops_of(self.kernel, cute.ClusterBoundOp)
        if ctas == 1 or not ops:
            return
        first = build.mul(coords[_MODE], ctas)
        places = [first, *(build.add(first, rank) for rank in range(1, ctas))]
        tile = self.index.tile.get_values()
        tiles = build.tiles(self.tensor, len(tile) + _MODE, tile[_MODE])
        exists = [build.compare("slt", place, tiles) for place in places[1:]]
        for op in ops:
            at = ScalarBuilder(InsertPoint.before(op), op)
            numbers = [self._with(op, place) for place in places]
            bound = numbers[0]
            for number, is_there in zip(numbers[1:], exists, strict=True):
                # The first CTA of a cluster has a tile.
                number = at.select(is_there, number, numbers[0])
                bound = at.binary(_COMBINED[op.kind.data], bound, number)
            op.result.replace_all_uses_with(bound)
            erase(op)

    def _with(self, op: cute.ClusterBoundOp, place: SSAValue) -> SSAValue:
        """The number where the work item has another place along the mode."""
        mine = self.index.results[len(self.index.results) + _MODE]
        values: dict[SSAValue, SSAValue] = {mine: place}
        self._compute(op.source, op, values)
        return values.get(op.source, op.source)

    def _compute(
        self, value: SSAValue, op: cute.ClusterBoundOp, values: dict[SSAValue, SSAValue]
    ) -> bool:
        """Compute in front of the bound what follows from the place; whether a value does."""
        made = value.owner
        if value in values:
            return values[value] is not value
        values[value] = value
        if not isinstance(made, Operation) or made is self.index:
            return False
        inside = walk(made)
        follows = [self._compute(each, op, values) for one in inside for each in one.operands]
        if True not in follows:
            return False
        if not is_pure(made):
            raise PassFailedException(
                op,
                "expected a number that follows from cute.tile_index by arithmetic in "
                f"cute.cluster_{op.kind.data}, got one by {made.name}",
            )
        copy = cloned(made, values)
        ScalarBuilder(InsertPoint.before(op), op).insert(copy)
        return True


def drop_bounds(kernel: cute.KernelOp) -> None:
    """Let bounds be the number itself, as they are in a CTA that has no others in its cluster."""
    for op in ops_of(kernel, cute.ClusterBoundOp):
        op.result.replace_all_uses_with(op.source)
        erase(op)
