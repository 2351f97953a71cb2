"""A matrix multiply as the choice of its schedule sees it on sm_90a, and how tiles lie in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cutedialect.schedule import Schedule

WORD = 4
VECTOR = 16
_TRANSPOSED_ROWS = 32
# By so many fewer accumulators has a thread room where three warpgroups share the registers.
_FEWER_OF_THREE = 32
# By so many more where these read words of an operand into registers.
_FEWER_READ = 24
# By so many where lines of the output begin at any element.
_FEWER_ALIGNED = 16
# By so many where columns of the transposed product are no multiple of those that leave at once; by
# so many more has one where the tallest tiles are stored otherwise, and operands take none.
_FEWER_SWAPPED, _MORE_OF_TALLEST = 32, 32
# By so many more has one of two warpgroups that take tiles of so many rows in turns, where nothing
# is added to sums, and results of so many bits are stored.
_MORE_IN_TURNS, _IN_TURNS, _NARROW = 48, 128, 16
MOST_VALUES = 128
# And where a warpgroup does nothing but shift operands, since threads start with fewer registers.
MOST_BESIDE = 64
_FEW_AT_ONCE, _MOST_COPIED, TALLEST, SWAPPED_AT_ONCE = 32, 128 * 128, 256, 16


@dataclass(frozen=True)
class Problem:
    """Sizes of a matrix multiply and bits of an operand's and a result's element.

    most_values: accumulators that a thread may hold. blocks: what the rows, columns and depth of a
    tile have to divide, 0 for anything. transposed: whether tiles of A and of B are transposed in
    shared memory before they are multiplied. across: whether A and B are contiguous along another
    dimension than the depth. align, out_align: bytes, up to 16, of which the rows of the operands
    and of the output begin at multiples. pitches: the same, up to 128, of A and B. takes_clusters:
    whether the CTAs of a cluster can share tiles. is_plain: whether sums are stored as they are, or
    after what takes no registers. may_shift: whether warps may have fewer registers so that others
    do nothing but shift operands.
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

    def takes(self, tiling: Tiling, registers: float = 0.0) -> bool:
        """Whether tiles keep within the limits, and leave so many registers of a thread."""
        rows, columns = tiling.rows, tiling.columns
        # Threads that copy operands bring them to one CTA, and leave teams that take turns too few
        # registers. So do large tiles that are stored few columns at a time, and the tallest ones.
        is_copied = self.align < VECTOR and (
            tiling.teams
            or (self.shifts and tiling.down * tiling.right > 1)
            or (columns % _FEW_AT_ONCE != 0 and rows * columns > _MOST_COPIED)
        )
        if is_copied or (self.out_align < WORD and rows >= TALLEST):
            return False
        if self.room(tiling, registers == 0) - tiling.values < registers:
            return False
        extents = (columns, rows) if tiling.swapped else (rows, columns)
        if any(self.blocks) and any(
            block % extent
            for block, extent in zip(self.blocks, (*extents, tiling.depth), strict=True)
        ):
            return False
        return self.transposes(tiling)

    def room(self, tiling: Tiling, has_more: bool) -> float:
        """Accumulators that a thread may hold; where nothing is added to sums, some tiles were
        found to have room for more.
        """
        rows, groups = tiling.rows, tiling.groups
        most = self.most_values - (_FEWER_OF_THREE if groups == 3 else 0)
        if groups == 3 and self.bits == 8 * WORD and any(self.transposed):
            most -= _FEWER_READ
        most -= _FEWER_ALIGNED if self.out_align < VECTOR else 0
        if tiling.swapped and tiling.columns % SWAPPED_AT_ONCE:
            return most - _FEWER_SWAPPED
        if has_more and self.most_values == MOST_VALUES and not any(self.transposed):
            if rows >= TALLEST:
                return most + _MORE_OF_TALLEST
            if self.is_plain and self.out_bits <= _NARROW and tiling.teams and rows == _IN_TURNS:
                return most + _MORE_IN_TURNS
        return most

    def extents(self, swapped: bool) -> tuple[int, int]:
        """Rows and columns of the product as the tiles see it."""
        return (self.n, self.m) if swapped else (self.m, self.n)

    def blocks_of(self, tiling: Tiling) -> int:
        """Blocks of tiles, each for the CTAs of a cluster."""
        m, n = self.extents(tiling.swapped)
        height, width = tiling.rows * tiling.down, tiling.columns * tiling.right
        return self.batch * -(-m // height) * -(-n // width)

    def transposed_extents(self, tiling: Tiling) -> int:
        """Rows of A's tile and columns of B's, of those that are transposed in shared memory."""
        rows, columns = self._sides(tiling)
        return rows * tiling.rows + columns * tiling.columns

    def _sides(self, tiling: Tiling) -> tuple[bool, bool]:
        """Whether the rows and the columns of a tile are transposed. Threads read words of A
        wherever they lie.
        """
        rows, columns = self.transposed[::-1] if tiling.swapped else self.transposed
        return rows and self.bits != 8 * WORD, columns

    @property
    def turns(self) -> bool:
        """Whether B alone is transposed, of words: A of the transposed product is read as it is."""
        return self.bits == 8 * WORD and self.transposed == (False, True)

    @property
    def shifts(self) -> bool:
        """Whether operands are shifted into place: no asynchronous copy takes them, or f32 is
        rounded on its way.
        """
        return self.align < (VECTOR if self.bits == 8 * WORD else WORD)

    def transposes(self, tiling: Tiling) -> bool:
        """Whether warps can transpose the tiles that have to be."""
        rows, columns = self._sides(tiling)
        return not (
            (rows and tiling.rows % _TRANSPOSED_ROWS)
            or (columns and tiling.columns % _TRANSPOSED_ROWS)
        )


class Tiling(NamedTuple):
    """What a schedule says of tiles: their extents, the CTAs of a cluster along either mode,
    whether teams take them in turns, and whether they are of the transposed product.
    """

    rows: int
    columns: int
    depth: int
    down: int = 1
    right: int = 1
    teams: bool = False
    swapped: bool = False

    @property
    def alone(self) -> Tiling:
        """The same tiles of CTAs in no cluster."""
        return self._replace(down=1, right=1) if self.down * self.right > 1 else self

    @property
    def groups(self) -> int:
        """Warpgroups that multiply a tile."""
        return 1 if self.teams else groups_of(self.rows)

    @property
    def values(self) -> float:
        """Accumulators of a thread."""
        return self.rows * self.columns / (128 * self.groups)


def tiling_of(schedule: Schedule) -> Tiling:
    """The tiles of a schedule."""
    assert schedule.tile is not None
    rows, columns, depth = schedule.tile
    swapped = schedule.swap_ab == "yes"
    cluster = schedule.cluster or (1, 1)
    return Tiling(rows, columns, depth, *cluster, schedule.plan.teams > 1, swapped)


def groups_of(rows: int) -> int:
    """Warpgroups that share tiles of so many rows."""
    return 2 if rows % 128 == 0 else 3 if rows % 192 == 0 else 1


def warpgroups(schedule: Schedule) -> int:
    """Warpgroups that multiply one tile."""
    assert schedule.tile is not None
    if schedule.plan.teams > 1:
        return 1
    if schedule.warps is not None:
        return schedule.warps[0] * schedule.warps[1] // 4
    return groups_of(schedule.tile[0])


def ceil_div(value: int, step: int) -> int:
    return -(-value // step)
