"""What tiles of attention take, from timings of an H100; and when CTA pairs pay in tensor memory.

Of these no timing was taken: their bound is that of the static model (`benchmarks/published.py`).
Q K^T reads both of its operands from shared memory, 128 bytes a cycle, and P V the second one, of
which each CTA of a pair holds half. Where rows have few keys in a block, that takes longer than the
products: the more keys, and the fewer of them each CTA has to read, the less is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from .attention_problem import GROUP_ROWS, PRICE, RULES, AttentionProblem

_UNIT_KEYS = 64
# Of a step of 32 bytes of depth shared memory reads so many rows in a cycle, and the tensor core
# multiplies 128 rows by so many columns.
_ROWS, _READ_ROWS, _MULTIPLIED_COLUMNS = 128, 4, 2
# What pairs have to save: they wait for each other.
_LEAST_SAVED = 0.03


def time_of(problem: AttentionProblem, rows: int) -> float:
    """What tiles of so many rows of warpgroups take on all processors together, in units of 64 keys
    of a tile of 128 rows; 0 where that is not known, and where threads load.
    """
    seen = keys_seen(problem, rows)
    is_timed = problem.on_groups and problem.is_plain and not problem.is_paged
    if not seen or problem.sequences is None or not is_timed:
        return 0.0
    is_half = rows == GROUP_ROWS and problem.is_uneven and RULES.is_wide_and_short.first(problem)
    unit, beside = PRICE.half_of_wide if is_half else PRICE.tile_times[rows]
    times = [unit * -(-max(keys, 0) // _UNIT_KEYS) + beside for keys in seen]
    tiles = problem.sequences * len(times)
    if not problem.is_uneven:
        return -(-tiles // problem.processors) * times[0]
    if tiles <= problem.processors:
        return max(times) - PRICE.claim_time
    mean = sum(times) / len(times)
    total = problem.sequences * sum(times)
    return max(*times, total / problem.processors + mean / 2)


def keys_seen(problem: AttentionProblem, rows: int) -> list[int]:
    """The keys that each tile of a sequence sees; none where that is not known."""
    keys = problem.all_keys
    is_open = problem.has_window and problem.sees is None
    is_part = problem.is_sliced and not problem.is_packed
    if problem.rows is None or keys is None or is_open or is_part:
        return []
    ends = range(rows, problem.rows + rows, rows)
    seen = [min(keys, end + keys - problem.rows) if problem.is_uneven else keys for end in ends]
    if problem.sees is not None:
        seen = [min(each, problem.sees + rows - 1) for each in seen]
    return seen


def pays_in_pairs(
    problem: AttentionProblem, height: int, paired: int, alone: Sequence[int]
) -> bool:
    """Whether pairs, with tiles of so many rows each and blocks of `paired` keys, take less time
    than CTAs by themselves, with blocks of one of `alone`.
    """
    if not alone:
        return True
    lost = 1.0
    if problem.rows is not None:
        # The CTA of the last pair that may have no tile.
        tiles = -(-problem.rows // height)
        lost = (tiles + tiles % 2) / tiles
    if problem.is_uneven and problem.keys is not None:
        # Below a mask both compute the keys that the later tile sees.
        lost *= 1.0 + height / max(problem.keys, 1)
    best = min(_cycles_of_keys(problem, keys, 1) for keys in alone)
    return _cycles_of_keys(problem, paired, 2) * lost < best * (1 - _LEAST_SAVED)


def _cycles_of_keys(problem: AttentionProblem, keys: int, ctas: int) -> float:
    """Cycles of the tensor core for a key of a block and 128 rows, in those of a column."""
    read = (keys / ctas + _ROWS) / _READ_ROWS
    return problem.dims[0] * max(1.0, read * _MULTIPLIED_COLUMNS / keys) + problem.columns
