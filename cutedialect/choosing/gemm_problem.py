"""A matrix multiply as the choice of its schedule sees it, and tables of tiles that it may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cutedialect.atoms import H100, Device, Target, target
from cutedialect.schedule import Schedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A number, or an array of numbers: one for each candidate.
Counts: TypeAlias = Any
VECTOR, LINE = 16, 128
"""Bytes that TMA and vector copies want rows to begin at, and of the widest swizzle."""
MOST_VALUES, MOST_BESIDE = 128, 64
"""Accumulators of a thread, and where a warpgroup does nothing but shift operands: threads start
with fewer registers there."""
AT_ONCE, TENSOR_COLUMNS = 16, 256
"""Columns of a transposed product that leave at once, and of the widest tile in tensor memory."""


@dataclass(frozen=True)
class Problem:
    """Sizes of a matrix multiply and bits of an operand's and a result's element.

    most_values: accumulators that a thread may hold. blocks: what the rows, columns and depth of a
    tile have to divide, 0 for anything. transposed: whether tiles of A and of B are transposed in
    shared memory before they are multiplied. across: whether A and B are contiguous along another
    dimension than the depth. align, out_align: bytes, up to 16, of which the rows of the operands
    and of the output begin at multiples. pitches: the same, up to 128, of A and B. takes_clusters:
    whether the CTAs of a cluster can share tiles, or make pairs. is_plain: whether sums are stored
    as they are, or after what takes no registers. may_shift: whether warps may have fewer registers
    so that others do nothing but shift operands. weight_bits: those of B's elements in memory,
    where they become as wide as A's in registers, as the first operand of the transposed product,
    if there is one; 0 where B is multiplied as it is. packed: whether elements of B lie in the
    order in which a thread multiplies them. scaled: elements along the depth that share a scale,
    which tensor cores multiply from panels of 128 rows; 0 without. may_swap: whether the transposed
    product can be computed. tap: of a convolution whose pixels TMA brings, the depth of a tap, of
    which pixels are the rows of A; -1 where the depth is pixels, of both operands, and taps find
    those of B; 0 of other products. device: that it is computed on.
    """

    m: int
    n: int
    k: int
    batch: int
    bits: int
    out_bits: int
    most_values: int = MOST_VALUES
    blocks: tuple[int, int, int] = (0, 0, 0)
    transposed: tuple[bool, bool] = (False, False)
    across: tuple[bool, bool] = (False, False)
    align: int = 16
    out_align: int = 16
    pitches: tuple[int, int] = (128, 128)
    takes_clusters: bool = True
    is_plain: bool = True
    may_shift: bool = True
    weight_bits: int = 0
    packed: bool = False
    promotes: bool = False
    scaled: int = 0
    may_swap: bool = True
    tap: int = 0
    device: Device = H100

    @property
    def widens(self) -> bool:
        """Whether elements of B become wider on their way."""
        return self.weight_bits > 0

    @property
    def chip(self) -> Target:
        """What its target has."""
        return target(self.device.arch)

    @property
    def in_tensor_memory(self) -> bool:
        """Whether tcgen05 multiplies."""
        return self.chip.tmem_columns > 0


TILES = np.dtype(
    [
        *((name, int) for name in ("rows", "columns", "depth", "down", "right", "parts")),
        *((name, bool) for name in ("teams", "swapped", "in_cluster", "fitted")),
    ]
)
"""What a schedule says of tiles: their extents, the CTAs of a cluster along either mode, how many
CTAs share one by its depth, whether teams take them in turns, whether they are of the transposed
product, whether the CTAs that share one are a cluster, and whether it is as wide as fits a problem.
"""
Tiles: TypeAlias = "NDArray[np.void]"
_WHOLE = dict.fromkeys(TILES.names or (), 0) | {"down": 1, "right": 1, "parts": 1}


def table(rows: Sequence[dict[str, Any]]) -> Tiles:
    """Tiles as one table; what a row leaves out is that of whole tiles of one CTA."""
    return np.array([tuple((_WHOLE | row).values()) for row in rows], TILES)


def crossed(tiles: Tiles, columns: dict[str, Counts]) -> Tiles:
    """Each row of a table with each of some values of other columns."""
    (count,) = {len(values) for values in columns.values()}
    rows = np.repeat(tiles, count)
    for name, values in columns.items():
        rows[name] = np.tile(values, len(tiles))
    return rows


def tiles_of(*schedules: Schedule) -> Tiles:
    """The tiles of schedules."""
    rows = [
        (*(each.tile or ()), *(each.cluster or (1, 1)), each.split_k or 1, each.plan.teams > 1,
         each.swap_ab == "yes", each.reduction == "cluster", False)
        for each in schedules
    ]  # fmt: skip
    return np.array(rows, TILES)


def groups_of(rows: Counts) -> Counts:
    """Warpgroups that share tiles of so many rows."""
    return np.where(rows % 128 == 0, 2, np.where(rows % 192 == 0, 3, 1))


def warpgroups(schedule: Schedule) -> int:
    """Warpgroups that multiply one tile."""
    assert schedule.tile is not None
    if schedule.plan.teams > 1:
        return 1
    if schedule.warps is not None:
        return schedule.warps[0] * schedule.warps[1] // 4
    return int(groups_of(schedule.tile[0]))


def ceil_div(value: Counts, step: Counts) -> Counts:
    return -(-value // step)
