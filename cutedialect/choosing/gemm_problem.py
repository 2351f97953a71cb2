"""A matrix multiply as the choice of its schedule sees it on sm_90a, and how tiles lie in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from cutedialect.atoms import H100, Device, target
from cutedialect.schedule import Schedule

# A number, or an array of numbers: one for each candidate.
Counts: TypeAlias = Any
BYTE, WORD, VECTOR, LINE, THREADS = 8, 4, 16, 128, 128
# Lines of results of a row that leave at once, at most; rows of a block that is transposed.
_CHUNKS, _TRANSPOSED_ROWS = 2, 32
MOST_VALUES, MOST_BESIDE = 128, 64
"""Accumulators of a thread, and where a warpgroup does nothing but shift operands: threads start
with fewer registers there."""
OVERLAPPED = 256
"""Columns from which on warpgroups widen an operand while they multiply that of the step before."""
# Accumulators that a thread has room for, more or fewer: where three warpgroups share registers;
# where these read words of an operand into registers, too; where lines of the output begin at any
# element; of a transposed product whose columns are no multiple of those that leave at once; of the
# tallest tiles, which are stored otherwise; of one of two warpgroups that take tiles of so many
# rows in turns, where nothing is added to sums, and results of so many bits are stored.
_OF_THREE, _READ, _ALIGNED, _SWAPPED, _TALLEST, _IN_TURNS = -32, -24, -16, -32, 32, 48
_ROWS_IN_TURNS, _NARROW = 128, 16
# The most sums of a thread that are added up beside the next multiply: more of them take as long as
# another warpgroup multiplies meanwhile (64 sums by 1.15 to 1.25 times longer so, an H200).
_ADDED = 32
# Columns from which on packed weights become wider beside the multiply of those before, and the
# most rows of a product for which those of a byte do.
_WIDENED_COLUMNS, _MOST_IN_TURNS = 128, 512
# Bytes of scales that a column of tensor memory holds: a word in each of 32 lanes.
_SCALES_OF_A_COLUMN = 128
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
    do nothing but shift operands. weight_bits: those of B's elements in memory, where they become
    as wide as A's in registers, as the first operand of the transposed product, if there is one; 0
    where B is multiplied as it is. packed: whether elements of B lie in the order in which a thread
    multiplies them. scaled: elements along the depth that share a scale, which
    tensor cores multiply from panels of 128 rows; 0 without. may_swap: whether the transposed
    product can be computed. device: that it is computed on.
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
    device: Device = H100

    def takes(self, tiling: Tiling, registers: float = 0.0) -> Counts:
        """Whether tiles keep within the limits, and leave so many registers of a thread."""
        rows, columns = tiling.rows, tiling.columns
        takes = self.room(tiling, registers == 0) - tiling.values >= registers
        if self.align < VECTOR:
            # Threads that copy operands bring them to one CTA, and leave teams that take turns too
            # few registers. So do large tiles that are stored few columns at a time.
            crowded = (columns % _FEW_AT_ONCE != 0) & (rows * columns > _MOST_COPIED)
            if self.shifts:
                crowded |= tiling.ctas > 1
            takes &= np.logical_not(tiling.teams | crowded)
        if self.out_align < WORD:
            takes &= rows < TALLEST
        across, along = self._by_sides(tiling, (rows, columns))
        for block, extent in zip(self.blocks, (across, along, tiling.depth), strict=True):
            takes &= block % extent == 0
        return takes & self.transposes(tiling)

    def transposes(self, tiling: Tiling) -> Counts:
        """Whether warps can transpose the tiles that have to be, block by block."""
        rows, columns = self._sides(tiling)
        return np.logical_not(
            rows & (tiling.rows % _TRANSPOSED_ROWS != 0)
            | columns & (tiling.columns % _TRANSPOSED_ROWS != 0)
        )

    def room(self, tiling: Tiling, has_more: bool) -> Counts:
        """Accumulators that a thread may hold; where nothing is added to sums, some tiles were
        found to have room for more.
        """
        of_three = _OF_THREE + (_READ if self.bits == 8 * WORD and any(self.transposed) else 0)
        most = self.most_values + np.where(tiling.groups == 3, of_three, 0)
        most += _ALIGNED if self.out_align < VECTOR else 0
        more = 0
        if has_more and self.most_values == MOST_VALUES and not any(self.transposed):
            in_turns = _IN_TURNS if self.is_plain and self.out_bits <= _NARROW else 0
            more = np.where(tiling.teams & (tiling.rows == _ROWS_IN_TURNS), in_turns, 0)
            more = np.where(tiling.rows >= TALLEST, _TALLEST, more)
        is_odd = tiling.swapped & (tiling.columns % SWAPPED_AT_ONCE != 0)
        return most + np.where(is_odd, _SWAPPED, more)

    def adds_beside(self, tiling: Tiling) -> Counts:
        """Whether threads add up what a step has multiplied while the next one does."""
        return self.promotes & (tiling.values <= _ADDED)

    def takes_turns(self, tiling: Tiling) -> Counts:
        """Whether register tiles of two steps take turns beside each other's multiplies: products
        that are added up, and weights of less than a byte that become wider for many columns (1.02
        to 1.11 times as fast so; those of a byte up to 1.15 times slower, an H200, but for a few
        hundred rows where they are packed: 0.96 of cuBLAS's time to 0.83 to 0.90).
        """
        is_short = 0 < self.weight_bits < BYTE
        is_packed = self.packed and _WIDENED_COLUMNS < self.m <= _MOST_IN_TURNS
        widens = (is_short or is_packed) and not self.blocks[2]
        return self.adds_beside(tiling) | (widens & (tiling.columns >= _WIDENED_COLUMNS))

    def extents(self, swapped: Counts) -> tuple[Counts, Counts]:
        """Rows and columns of the product as the tiles see it."""
        return np.where(swapped, self.n, self.m), np.where(swapped, self.m, self.n)

    def blocks_of(self, tiling: Tiling) -> Counts:
        """Blocks of tiles, each for the CTAs of a cluster."""
        down, right = self.blocks_along(tiling)
        return self.batch * down * right

    def blocks_along(self, tiling: Tiling) -> tuple[Counts, Counts]:
        """Blocks below and beside each other."""
        m, n = self.extents(tiling.swapped)
        height, width = tiling.rows * tiling.down, tiling.columns * tiling.right
        return ceil_div(m, height), ceil_div(n, width)

    def transposed_extents(self, tiling: Tiling) -> Counts:
        """Rows of A's tile and columns of B's, of those that are transposed in shared memory."""
        rows, columns = self._sides(tiling)
        return rows * tiling.rows + columns * tiling.columns

    def _sides(self, tiling: Tiling) -> tuple[Counts, Counts]:
        """Whether the rows and the columns of a tile are transposed. Threads read words of A
        wherever they lie.
        """
        rows, columns = self._by_sides(tiling, self.transposed)
        return rows & (self.bits != 8 * WORD), columns

    @staticmethod
    def _by_sides(tiling: Tiling, pair: tuple[Counts, Counts]) -> tuple[Counts, Counts]:
        """What is said of A and B, of the operands as tiles of a transposed product have them."""
        one, other = pair
        return np.where(tiling.swapped, other, one), np.where(tiling.swapped, one, other)

    @property
    def widens(self) -> bool:
        """Whether elements of B become wider on their way."""
        return self.weight_bits > 0

    def lines(self, tiling: Tiling) -> tuple[Counts, Counts]:
        """Bytes of a row of A's tile and of a column of B's, as memory has them."""
        bits = self.bits, self.weight_bits or self.bits
        rows, columns = self._by_sides(tiling, bits)
        return tiling.depth * rows // 8, tiling.depth * columns // 8

    @property
    def in_tensor_memory(self) -> bool:
        """Whether tcgen05 multiplies."""
        return target(self.device.arch).tmem_columns > 0

    def scale_bytes(self, tiling: Tiling) -> Counts:
        """Bytes of the scales of a step, all of which each CTA of a pair has."""
        if not self.scaled:
            return 0
        return (tiling.rows + tiling.columns) * tiling.depth // self.scaled

    def tensor_columns(self, tiling: Tiling, accumulators: int = 1) -> Counts:
        """Columns of tensor memory of accumulators and scales; these lie in it four times."""
        return accumulators * tiling.columns + self.scale_bytes(tiling) // _SCALES_OF_A_COLUMN

    def held_columns(self, tiling: Tiling) -> Counts:
        """Columns of B of a CTA: half of a tile's where two are a pair in tensor memory."""
        return tiling.columns // tiling.down if self.in_tensor_memory else tiling.columns

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

    def shared_use(self, tiling: Tiling) -> tuple[Counts, Counts]:
        """Bytes of shared memory of a stage, and of the results that leave through it."""
        rows, columns = tiling.rows, self.held_columns(tiling)
        line = tiling.depth * self.bits // 8
        of_rows, of_columns = self.lines(tiling)
        stage = rows * of_rows + columns * of_columns + self.transposed_extents(tiling) * line
        stage += self.scale_bytes(tiling)
        if self.shifts:
            stage += (rows + columns) * (line + VECTOR)
        row = np.minimum(tiling.columns * self.out_bits // 8, _CHUNKS * LINE)
        if self.out_align < VECTOR:
            # Lines that begin at any element have room for a vector more.
            row += VECTOR
        return stage, np.where(tiling.teams, 2, 1) * rows * row


class Tiling(NamedTuple):
    """What a schedule says of tiles: their extents, the CTAs of a cluster along either mode,
    whether teams take them in turns, whether they are of the transposed product, how many CTAs
    share one by its depth, and whether these are a cluster. Numbers, or arrays of them: a row for
    each candidate.
    """

    rows: Counts
    columns: Counts
    depth: Counts
    down: Counts = 1
    right: Counts = 1
    teams: Counts = False
    swapped: Counts = False
    parts: Counts = 1
    in_cluster: Counts = False

    @property
    def ctas(self) -> Counts:
        """CTAs of a cluster that multicast."""
        return self.down * self.right

    @property
    def groups(self) -> Counts:
        """Warpgroups that multiply a tile."""
        return np.where(self.teams, 1, groups_of(self.rows))

    @property
    def values(self) -> Counts:
        """Accumulators of a thread."""
        return self.rows * self.columns / (128 * self.groups)

    @classmethod
    def table(cls, tilings: Iterable[Tiling]) -> Tiling:
        """Several as one table."""
        return cls(*map(np.array, zip(*tilings, strict=True)))

    @classmethod
    def joined(cls, *tables: Tiling) -> Tiling:
        """The rows of several tables."""
        return cls(*map(np.concatenate, zip(*tables, strict=True)))

    def taken(self, places: Counts) -> Tiling:
        """Some rows of a table, by their numbers or by whether they are taken."""
        return Tiling(*(column[places] for column in self))

    def each(self) -> Iterator[Tiling]:
        """The rows of a table."""
        return map(self.row, range(len(self.rows)))

    def row(self, place: int) -> Tiling:
        """One row of a table."""
        return Tiling(*(column[place].item() for column in self))

    def crossed(self, **columns: Sequence[int]) -> Tiling:
        """Each row of a table with each of some values of other columns."""
        (count,) = {len(values) for values in columns.values()}
        rows = Tiling(*(np.repeat(column, count) for column in self))
        return rows._replace(
            **{
                name: np.tile(np.array(values, getattr(self, name).dtype), len(self.rows))
                for name, values in columns.items()
            }
        )


def tiling_of(schedule: Schedule) -> Tiling:
    """The tiles of a schedule."""
    assert schedule.tile is not None
    rows, columns, depth = schedule.tile
    swapped = schedule.swap_ab == "yes"
    cluster = schedule.cluster or (1, 1)
    teams, parts = schedule.plan.teams > 1, schedule.split_k or 1
    in_cluster = schedule.reduction == "cluster"
    return Tiling(rows, columns, depth, *cluster, teams, swapped, parts, in_cluster)


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
