"""Attention by CTAs of one warpgroup that share a processor: where it pays, and how many do. One of
them computes while others begin, end, or wait, and tiles of 64 rows compute less that no row sees;
but each loads its own keys and values, more often the more there are.
"""

from __future__ import annotations

from cutedialect.schedule import Schedule

from .attention_parameters import beside
from .attention_problem import PRICE, AttentionProblem

# What a warpgroup multiplies at once, of rows and of keys.
_ROWS, _UNIT_KEYS = 64, 16
# The widest of narrow heads, and of those that are not wide.
_NARROW, _HALF = 64, 128


def resident_schedule(problem: AttentionProblem, is_soon_over: bool) -> Schedule | None:
    """The schedule of CTAs that share a processor, but for the order of tiles; None where a CTA
    has one for itself. CTAs start early where all `is_soon_over`.
    """
    if not problem.rows or not problem.sequences:
        return None
    tiles = problem.sequences * -(-problem.rows // _ROWS)
    narrow = _of_narrow_heads(problem, tiles)
    ctas_and_keys = narrow or _of_wide_heads(problem, tiles)
    if ctas_and_keys is None:
        return None
    ctas, keys = ctas_and_keys
    if problem.keys is not None:
        keys = min(keys, max(_UNIT_KEYS, -(-problem.keys // _UNIT_KEYS) * _UNIT_KEYS))
    narrow_loads = None if narrow is None else PRICE.narrow_loading_registers.get(ctas)
    more_loads = PRICE.more_loading_registers if _loads_more(problem) else None
    loads = narrow_loads or more_loads or PRICE.loading_registers[ctas]
    slots = ctas * problem.processors
    is_even = tiles <= slots or -tiles % slots <= slots // PRICE.even_share
    # Claims, too, leave processors alike, and cost less than to start late with wide heads.
    is_dealt = tiles <= PRICE.few_tiles * slots and not problem.is_packed
    is_dealt = is_dealt and (is_even or narrow is not None)
    starts_early = is_even or not is_dealt or problem.has_window
    return Schedule(
        tile=(_ROWS, keys),
        early_launch="yes" if is_soon_over and starts_early else None,
        ctas=ctas,
        registers=beside(loads, groups=1, ctas=ctas),
        overlap="yes",
        scheduler="persistent" if is_dealt else "dynamic",
        # One loop, whose trips ask for a mask: a window's are few.
        split_loops="no" if problem.has_window else None,
        split_loads="no",
    )


def _loads_more(problem: AttentionProblem) -> bool:
    """Whether those that load look for a sequence and for the head that shares its keys."""
    return problem.is_packed and problem.group > 1


def _of_narrow_heads(problem: AttentionProblem, tiles: int) -> tuple[int, int] | None:
    """How many CTAs with heads of up to 64 dimensions share a processor, and keys of a block."""
    if not set(problem.dims) <= set(PRICE.resident) or (problem.rows or 0) <= _ROWS:
        return None
    seen, most = problem.keys, PRICE.seen_by_mask if problem.is_uneven else PRICE.seen_by_all
    if problem.has_window:
        seen, most = problem.sees, PRICE.seen_by_window
    if not (problem.has_short_packs if problem.is_packed else seen is not None and seen <= most):
        return None
    is_partial = problem.is_packed or problem.has_window
    turns = -(-tiles // problem.processors)
    if problem.widest == _NARROW and turns <= PRICE.tiles_of_two and not is_partial:
        return 2, PRICE.keys_of_two
    ctas, keys = PRICE.resident[problem.widest]
    # No more than it takes: where there is room for another one, more of them share a processor.
    return (ctas if problem.is_packed else min(ctas, max(2, turns))), keys


def _of_wide_heads(problem: AttentionProblem, tiles: int) -> tuple[int, int] | None:
    """The same of wider heads, and of few rows: as many CTAs as it takes for all tiles to be
    computed at once, or two where rows see few keys, or packed sequences are short.
    """
    most = next((count for widest, count in PRICE.more_ctas.items() if problem.widest <= widest), 1)
    if problem.is_packed:
        if most == 1 or not problem.has_short_packs or problem.widest <= _NARROW:
            return None
        most = 2 if _loads_more(problem) else most
        return most, PRICE.block_keys if most > 2 else PRICE.few_block_keys
    seen, turns = _seen(problem), -(-tiles // problem.processors)
    if most == 1 or turns == 1 or seen is None:
        return None
    is_wide = problem.widest > _HALF
    if turns <= most and seen <= (PRICE.wide_seen if is_wide else PRICE.seen_at_once):
        is_few = is_wide or seen <= PRICE.few_seen
        return turns, PRICE.few_block_keys if is_few else PRICE.block_keys
    by_two = PRICE.wide_seen if is_wide else PRICE.seen_by_two
    return (2, PRICE.few_block_keys) if seen <= by_two else None


def _seen(problem: AttentionProblem) -> int | None:
    """The keys that a tile sees at most."""
    if problem.keys is None or (problem.has_window and problem.sees is None):
        return None
    return problem.keys if problem.sees is None else min(problem.keys, problem.sees + _ROWS - 1)
