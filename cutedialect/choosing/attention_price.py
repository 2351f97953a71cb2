"""What tiles of attention take, from timings of an H100."""

from __future__ import annotations

from .attention_problem import GROUP_ROWS, PRICE, AttentionProblem

_UNIT_KEYS = 64


def time_of(problem: AttentionProblem, rows: int) -> float:
    """What tiles of so many rows take on all processors together, in units of 64 keys of a tile of
    128 rows; 0 where that is not known.
    """
    seen = _keys_seen(problem, rows)
    if not seen or problem.sequences is None:
        return 0.0
    is_half = rows == GROUP_ROWS and problem.is_uneven and problem.is_wide_and_short
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


def _keys_seen(problem: AttentionProblem, rows: int) -> list[int]:
    """The keys that each tile of a sequence sees; none where that is not known."""
    keys = problem.all_keys
    if problem.rows is None or keys is None:
        return []
    if (problem.has_window and problem.sees is None) or (
        problem.is_sliced and not problem.is_packed
    ):
        return []
    ends = range(rows, problem.rows + rows, rows)
    seen = [min(keys, end + keys - problem.rows) if problem.is_uneven else keys for end in ends]
    if problem.sees is not None:
        seen = [min(each, problem.sees + rows - 1) for each in seen]
    return seen
