"""Attention by CTAs of one warpgroup that share a processor: where it pays, and how many do. One of
them computes while others begin, end, or wait, and tiles of 64 rows compute less that no row sees;
but each loads its own keys and values, more often the more there are.
"""

from __future__ import annotations

from cutedialect.schedule import Schedule

from .attention_parameters import beside
from .attention_problem import GROUP_ROWS, PRICE, RULES, AttentionProblem

# What a warpgroup multiplies at once of keys, and dimensions of narrow heads.
_UNIT_KEYS, _NARROW = 16, {32, 64}


def resident_schedule(problem: AttentionProblem, is_soon_over: bool) -> Schedule | None:
    """The schedule of CTAs that share a processor, but for the order of tiles; None where a CTA
    has one for itself. CTAs start early where all `is_soon_over`.
    """
    if not problem.rows or not problem.sequences:
        return None
    tiles = problem.sequences * -(-problem.rows // GROUP_ROWS)
    turns = -(-tiles // problem.processors)
    seen = problem.keys
    if seen is not None and problem.has_window:
        seen = None if problem.sees is None else min(seen, problem.sees + GROUP_ROWS - 1)
    may_be_narrow = set(problem.dims) <= _NARROW and problem.rows > GROUP_ROWS
    found = RULES.resident.first(problem, is_narrow=may_be_narrow, turns=turns, seen=seen)
    if found is None:
        return None
    ctas, keys, is_narrow = found
    if is_narrow and not problem.is_packed:
        # No more than it takes: where there is room for another one, more share a processor.
        ctas = min(ctas, max(2, turns))
    if problem.keys is not None:
        keys = min(keys, max(_UNIT_KEYS, -(-problem.keys // _UNIT_KEYS) * _UNIT_KEYS))
    loads = RULES.resident_registers.first(problem, is_narrow=is_narrow, ctas=ctas)
    is_dealt, ends_alike = _dealt(problem, tiles, ctas * problem.processors, is_narrow)
    starts_early = ends_alike or not is_dealt or problem.has_window
    return Schedule(
        tile=(GROUP_ROWS, keys),
        early_launch="yes" if is_soon_over and starts_early else None,
        ctas=ctas,
        registers=beside(loads, groups=1, ctas=ctas),
        overlap="yes",
        scheduler="persistent" if is_dealt else "dynamic",
        # One loop, whose trips ask for a mask: a window's are few.
        split_loops="no" if problem.has_window else None,
        split_loads="no",
    )


def _dealt(problem: AttentionProblem, tiles: int, slots: int, is_narrow: bool) -> tuple[bool, bool]:
    """Whether tiles are dealt to CTAs in `slots`, not claimed, and whether these end alike. Claims
    leave processors alike, too, and cost less than to start late with wide heads.
    """
    ends_alike = tiles <= slots or -tiles % slots <= slots // PRICE.even_share
    is_dealt = tiles <= PRICE.few_tiles * slots and not problem.is_packed
    return is_dealt and (ends_alike or is_narrow), ends_alike


def _seen(problem: AttentionProblem) -> int | None:
    """The keys that a tile sees at most."""
    if problem.keys is None or not problem.has_window:
        return problem.keys
    return None if problem.sees is None else min(problem.keys, problem.sees + GROUP_ROWS - 1)
