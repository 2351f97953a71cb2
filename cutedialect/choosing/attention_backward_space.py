"""The schedules from which the backward pass of attention chooses: tiles of rows and keys as data,
by warpgroups or by warps that multiply alone, and what goes with each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cutedialect.allocation import RoleUse, registers_of_roles
from cutedialect.atoms import WARP_SIZE
from cutedialect.choices import Epilogue, Overlap
from cutedialect.schedule import Schedule

from .attention_backward_problem import AttentionBackwardProblem
from .need import NONE, Limits, Need

# Bytes of barriers and of rows of f32 beside the tiles.
_BESIDE_BYTES = 4096
# Registers of a thread for addresses, bounds and coordinates.
_BESIDE = 24
_MOST_REGISTERS = 255
# Keys that a warp multiplies at once.
_KEYS_OF_WARP = 16
# Keys of a block where rows stay, and of heads wider than this.
_STREAMED_KEYS, _FEW_STREAMED_KEYS, _WIDE = 64, 32, 192
# Heads of more dimensions fill the registers of warps that multiply alone, with a row of f32.
_FILLING_WARPS = 160
# Heads of more dimensions fill the registers of a warpgroup.
_FILLING = 128
_THREADS_OF_GROUP = 128
# Rows, or keys, of a warpgroup.
_GROUP_ROWS_EACH = 64
# Heads that begin with their longest blocks together, where blocks see unequal numbers of rows.
_HEADS_OF_SECTION = 32
# Heads of more dimensions leave L2 for fewer.
_WIDEST_IN_SECTIONS = 128
# Of 16 exponentials of narrow heads, which bound a trip, those that are polynomials, and degrees
# whose errors are a small part of what results of each type round.
_NARROW_SHARE = 6
_DEGREE, _DEGREE_OF_F16 = 3, 4
_ELEMENT_BYTES = 2
_WEIGHTS_OF_REGISTER = 2
# Tangents of capped scores, as a share of the scores.
_CAPPED = 1


@dataclass(frozen=True)
class _Row:
    """A tile (keys, rows) for heads of up to so many dimensions, and the warps that compute over
    (keys, rows). Of problems with one of the facts `without` it is no tile: its threads have no
    registers for them. With one of the facts `apart` they have none for the scores of the next
    trip. `overlap`, `epilogue`, `stages` and `roles` are those of the schedule; `polynomials` are
    how many of 16 exponentials are polynomials.
    """

    widest: int
    tile: tuple[int, int]
    warps: tuple[int, int]
    without: tuple[str, ...] = ()
    apart: tuple[str, ...] = ("is_sliced", "shares")
    overlap: Overlap | None = None
    epilogue: Epilogue | None = None
    stages: int | None = None
    roles: str | None = None
    polynomials: int | None = None

    def suits(self, problem: AttentionBackwardProblem) -> bool:
        lacks = any(getattr(problem, name) for name in self.without)
        return problem.widest <= self.widest and not lacks

    def schedule(self, problem: AttentionBackwardProblem) -> Schedule:
        """Of warpgroups: what a loop over work items, or several loops, would hold beside has no
        registers.
        """
        if not problem.on_groups:
            return Schedule(tile=self.tile, warps=self.warps, stages=self.stages, roles=self.roles)
        is_apart = any(getattr(problem, name) for name in self.apart)
        is_uneven = problem.is_masked and not (problem.has_window or problem.is_sliced)
        in_sections = is_uneven and problem.widest <= _WIDEST_IN_SECTIONS
        degree = _DEGREE_OF_F16 if problem.is_f16 else _DEGREE
        share = None if problem.is_sliced else self.polynomials
        polynomials = None if share is None else (share, degree)
        return Schedule(
            tile=self.tile,
            warps=self.warps,
            scheduler="single",
            split_loops="no",
            overlap="no" if is_apart else self.overlap,
            epilogue=self.epilogue,
            stages=self.stages,
            roles=self.roles,
            polynomials=polynomials,
            order="sections" if in_sections else None,
            raster=_HEADS_OF_SECTION if in_sections else None,
        )


# Of warpgroups: those first that multiply most for each row that is loaded. A thread holds both
# gradients of its keys beside the scores and their slopes. The next trip's scores beside the sums
# took 1.4 % more than P in two types, with which dV is multiplied beside the slopes; with two
# stages slopes of heads of 64 have two buffers. Wide heads have a role for each gradient, unless
# scores are capped: the tangents would go from one to the other.
_GROUP_ROWS = (
    _Row(
        64,
        (128, 128),
        (8, 1),
        without=("has_window", "orders_more"),
        overlap="no",
        stages=2,
        polynomials=_NARROW_SHARE,
    ),
    _Row(128, (128, 64), (8, 1), without=("slices_more",), overlap="no", stages=2),
    _Row(128, (128, 64), (8, 1), overlap="no", stages=2, epilogue="direct"),
    _Row(128, (64, 64), (4, 1), apart=("is_sliced", "shares", "is_capped")),
    _Row(
        256,
        (64, 64),
        (4, 1),
        without=("is_capped", "lacks_boxes"),
        epilogue="direct",
        roles="pipelined",
    ),
    _Row(192, (64, 64), (4, 2)),
    _Row(256, (64, 64), (4, 2), without=("caps_shared",), epilogue="direct"),
    _Row(256, (64, 32), (4, 2)),
)


@dataclass(frozen=True)
class _StreamedRow:
    """Keys of a block and rows of a tile that stays, for heads of up to so many dimensions."""

    widest: int
    keys: int
    rows: int
    overlap: Overlap | None = None


# Two warpgroups take what they load once; one alone took 1.15 to 1.9 times as long (H200). A
# CTA for each tile leaves the registers for what is added up. Of the widest heads a block of 32 has
# three stages, and took 0.7 of the time with each multiply in its own trip.
_STREAMED_ROWS = (
    _StreamedRow(128, 64, 128),
    _StreamedRow(192, 48, 128),
    _StreamedRow(256, 32, 128, overlap="no"),
)
# Of warps alone, whose operands pass through registers: more stages would take some for addresses.
# Where a loop keeps more, and of wide heads, two warps share the columns of 16 keys; beside a role
# that loads those would have too few registers. Of 64 rows the bounds of a mask spill (sm_80, 12
# bytes), those of 64 with heads of 64 (68 bytes) and of 32 with heads of 96 (52 bytes), and heads
# of 112 with two stages (8 bytes), not with three; of 64 keys of wide heads
# the bounds of a mask, of a slice, and of heads that share keys (24 bytes).
_WARP_ROWS = (
    _Row(48, (64, 64), (4, 1), without=("keeps_more", "is_masked"), stages=2),
    _Row(96, (64, 32), (4, 1), without=("keeps_more", "fills_warps"), stages=2),
    _Row(112, (64, 32), (4, 1), without=("keeps_more", "fills_warps"), stages=3),
    _Row(96, (64, 64), (4, 2), stages=2),
    _Row(128, (64, 32), (4, 2), without=("is_odd",), stages=2),
    _Row(128, (32, 32), (2, 2), stages=2),
    _Row(256, (64, 16), (4, 2), without=("slices_shared",), roles="uniform"),
    _Row(256, (32, 32), (2, 4), roles="uniform"),
    _Row(256, (32, 16), (2, 2)),
)


class AttentionBackwardSpace:
    """The schedules of the kernel that has the gradients of keys and values."""

    name = "attention_backward"

    def ranked(
        self, problem: AttentionBackwardProblem, given: Schedule | None, limits: Limits
    ) -> Iterator[Schedule]:
        """The schedules with the fields of `given`, in the order of the rows of the target, those
        that need more registers than there are behind all others.
        """
        given = given or Schedule()
        if given.is_complete and given.tile is not None:
            yield given
            return
        listed = [each.merged(given) for each in _candidates(problem)]
        listed = list(dict.fromkeys(listed))
        fits = [each for each in listed if self.need(problem, each).fits(problem.target, limits)]
        yield from fits
        yield from (each for each in listed if each not in fits)

    def need(self, problem: AttentionBackwardProblem, schedule: Schedule) -> Need:
        """Registers of a thread that computes, and bytes of the block of keys, two stages of rows
        and what multiplies exchange.
        """
        assert schedule.tile is not None
        keys, rows = schedule.tile
        warps = schedule.warps or (keys // _KEYS_OF_WARP, 1)
        slices = schedule.plan.main.slices
        threads = WARP_SIZE * warps[0] * warps[1] * slices
        depth, width = problem.dims
        # Both gradients, and scores with their slopes.
        values = (2 + _CAPPED * problem.is_capped) * rows * keys
        if problem.adds:
            # Slopes as an operand, and what is added, for which both have made room.
            values = max(values, 0.5 * rows * keys + rows * depth)
        values += keys * (depth + width)
        stages = schedule.stages or 2
        size = _ELEMENT_BYTES * (depth + width)
        # Warpgroups keep weights in registers, and add up through shared memory.
        exchanged = 1 if problem.on_groups and slices == 1 else 2
        smem = size * (keys + stages * rows) + exchanged * _ELEMENT_BYTES * rows * keys
        smem += _BESIDE_BYTES
        return Need(values / threads + _BESIDE, _room(problem, threads), smem, threads=threads)


ATTENTION_BACKWARD = AttentionBackwardSpace()


def tuned_tiles(problem: AttentionBackwardProblem) -> list[Schedule]:
    """The schedules of the tiles of a target that may suffice, others than heads suit among them,
    as far as is counted.
    """
    listed = (row.schedule(problem) for row in _rows(problem))
    return [
        each for each in listed if ATTENTION_BACKWARD.need(problem, each).fits(problem.target, NONE)
    ]


def streamed(problem: AttentionBackwardProblem, schedule: Schedule) -> Schedule:
    """The schedule of the pass over the keys beside one of the kernel that has the gradients of
    these: two warpgroups with 64 rows each where that kernel's tile is one of many, else its rows.
    """
    assert schedule.tile is not None
    if not problem.on_groups or not _has_many(schedule) or problem.lacks_boxes:
        rows = schedule.tile[1]
        split_loops = "no" if rows > _GROUP_ROWS_EACH else None
        keys = streamed_keys(problem, schedule)
        return Schedule(tile=(keys, rows), split_loops=split_loops)
    row = next(row for row in _STREAMED_ROWS if problem.widest <= row.widest)
    rows = row.rows
    if problem.rows is not None and problem.sequences is not None:
        tiles = -(-problem.rows // _GROUP_ROWS_EACH) * problem.sequences * max(1, problem.group)
        if tiles <= problem.processors:
            rows = _GROUP_ROWS_EACH
    rows = max(rows, schedule.tile[1])
    return Schedule(tile=(row.keys, rows), scheduler="single", overlap=row.overlap)


def multiplies_values_early(problem: AttentionBackwardProblem, schedule: Schedule) -> bool:
    """Whether dV is multiplied beside the slopes: of one role of warpgroups that have registers for
    weights in two types.
    """
    if not problem.on_groups or schedule.plan.main.slices > 1 or schedule.overlap != "no":
        return False
    need = ATTENTION_BACKWARD.need(problem, schedule)
    assert schedule.tile is not None
    weights = schedule.tile[0] * schedule.tile[1] / _WEIGHTS_OF_REGISTER / need.threads
    return need.spare >= weights and not problem.slices_more


def _has_many(schedule: Schedule) -> bool:
    """Whether two warpgroups share what a tile has of gradients, each with all registers."""
    assert schedule.tile is not None
    return schedule.plan.main.slices > 1 or schedule.tile[0] > _GROUP_ROWS_EACH


def streamed_keys(problem: AttentionBackwardProblem, schedule: Schedule) -> int:
    """Keys of a block where rows stay: a thread holds their scores and slopes beside all columns of
    a row of the gradient.
    """
    assert schedule.tile is not None
    most = _FEW_STREAMED_KEYS if problem.widest > _WIDE else _STREAMED_KEYS
    if problem.widest > _FILLING and _keeps_much(problem):
        most //= 2
    bounds = problem.is_masked or problem.is_sliced
    if bounds and not problem.on_groups and _FILLING_WARPS < problem.widest <= _WIDE:
        # With 64 keys such loops spilled 4 to 16 bytes, with 32 where heads share them 8.
        most = max(most // 2, _KEYS_OF_WARP)
    return min(schedule.tile[0], most)


def _keeps_much(problem: AttentionBackwardProblem) -> bool:
    """Whether what a loop over keys keeps beside a row of the gradient takes the registers of half
    of them: a mask's bounds where heads share keys, or the tangents of scores, of the widest heads
    beside the bounds of a mask and of a slice.
    """
    if problem.is_masked and problem.shares:
        return True
    if problem.widest <= _WIDE:
        return problem.is_capped and (problem.is_masked or problem.on_groups)
    is_bound = problem.is_masked and problem.is_sliced
    return problem.is_capped and is_bound and problem.on_groups


def _room(problem: AttentionBackwardProblem, threads: int) -> float:
    """The registers of a thread that computes."""
    if not problem.on_groups:
        return _MOST_REGISTERS
    pair = registers_of_roles(RoleUse(computing=threads // _THREADS_OF_GROUP, multiplies=5))
    return pair[1] if pair else _MOST_REGISTERS


def _candidates(problem: AttentionBackwardProblem) -> Iterator[Schedule]:
    """The rows of a target that heads fit."""
    return (row.schedule(problem) for row in _rows(problem) if row.suits(problem))


def _rows(problem: AttentionBackwardProblem) -> tuple[_Row, ...]:
    return _GROUP_ROWS if problem.on_groups else _WARP_ROWS
