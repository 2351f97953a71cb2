"""A matrix multiply as the choice of its schedule sees it on sm_90a, and how tiles lie in it."""

from __future__ import annotations

from dataclasses import dataclass

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

    def takes(self, schedule: Schedule, registers: float = 0.0) -> bool:
        """Whether a schedule keeps within the limits, and leaves so many registers of a thread."""
        assert schedule.tile is not None
        rows, columns, depth = schedule.tile
        extents = (columns, rows) if schedule.swap_ab == "yes" else (rows, columns)
        # Threads that copy operands bring them to one CTA, and leave teams that take turns too few
        # registers. So do large tiles that are stored few columns at a time, and the tallest ones.
        is_copied = self.align < VECTOR and (
            schedule.plan.teams > 1
            or (self.shifts and schedule.cluster != (1, 1))
            or (columns % _FEW_AT_ONCE != 0 and rows * columns > _MOST_COPIED)
        )
        return (
            not is_copied
            and not (self.out_align < WORD and rows >= TALLEST)
            and self.room(schedule, registers == 0) - values_of(schedule) >= registers
            and all(
                block % extent == 0
                for block, extent in zip(self.blocks, (*extents, depth), strict=True)
            )
            and self.transposes(schedule)
        )

    def room(self, schedule: Schedule, has_more: bool) -> float:
        """Accumulators that a thread of a schedule may hold; where nothing is added to sums, some
        were found to have room for more.
        """
        assert schedule.tile is not None
        rows, columns, _ = schedule.tile
        groups = warpgroups(schedule)
        most = self.most_values - (_FEWER_OF_THREE if groups == 3 else 0)
        if groups == 3 and self.bits == 8 * WORD and any(self.transposed):
            most -= _FEWER_READ
        most -= _FEWER_ALIGNED if self.out_align < VECTOR else 0
        if schedule.swap_ab == "yes" and columns % SWAPPED_AT_ONCE:
            most -= _FEWER_SWAPPED
        elif has_more and self.most_values == MOST_VALUES and not any(self.transposed):
            if rows >= TALLEST:
                most += _MORE_OF_TALLEST
            elif self.is_plain and self.out_bits <= _NARROW:
                most += _MORE_IN_TURNS * (schedule.plan.teams > 1 and rows == _IN_TURNS)
        return min(most, MOST_BESIDE) if schedule.plan.has_preparing_group else most

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

    def transposes(self, schedule: Schedule) -> bool:
        """Whether warps can transpose the tiles that have to be."""
        assert schedule.tile is not None
        return all(
            extent % _TRANSPOSED_ROWS == 0
            for extent, transposed in zip(schedule.tile[:2], sides_of(schedule, self), strict=True)
            if transposed
        )


def warpgroups(schedule: Schedule) -> int:
    """Warpgroups that multiply one tile."""
    assert schedule.tile is not None
    if schedule.plan.teams > 1:
        return 1
    if schedule.warps is not None:
        return schedule.warps[0] * schedule.warps[1] // 4
    return next((groups for groups in (2, 3) if schedule.tile[0] % (64 * groups) == 0), 1)


def values_of(schedule: Schedule) -> float:
    """Accumulators of a thread."""
    assert schedule.tile is not None
    return schedule.tile[0] * schedule.tile[1] / (128 * warpgroups(schedule))


def blocks_of(schedule: Schedule, problem: Problem) -> int:
    """Blocks of tiles of a problem, each for the CTAs of a cluster."""
    height, width = block_of(schedule)
    m, n = extents_of(schedule, problem)
    return problem.batch * ceil_div(m, height) * ceil_div(n, width)


def block_of(schedule: Schedule) -> tuple[int, int]:
    """Rows and columns of the output that a cluster computes at once."""
    assert schedule.tile is not None
    assert schedule.cluster is not None
    return schedule.tile[0] * schedule.cluster[0], schedule.tile[1] * schedule.cluster[1]


def extents_of(schedule: Schedule, problem: Problem) -> tuple[int, int]:
    """Rows and columns of the product as the tiles see it."""
    m, n = problem.m, problem.n
    return (n, m) if schedule.swap_ab == "yes" else (m, n)


def sides_of(schedule: Schedule, problem: Problem) -> tuple[bool, bool]:
    """Whether the rows and the columns of a schedule's tile are transposed. Threads read words of
    A wherever they lie.
    """
    rows, columns = problem.transposed
    if schedule.swap_ab == "yes":
        rows, columns = columns, rows
    return rows and problem.bits != 8 * WORD, columns


def ceil_div(value: int, step: int) -> int:
    return -(-value // step)
