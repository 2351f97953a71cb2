"""Attention by CTAs of one warpgroup that share a processor: where it pays, and how many do. One of
them computes while others begin, end, or wait, and tiles of 64 rows compute less that no row sees;
but each loads its own keys and values, more often the more there are.
"""

from __future__ import annotations

from cutedialect.schedule import Schedule

from .attention_parameters import beside
from .attention_problem import AttentionProblem

# What a warpgroup multiplies at once, of rows and of keys.
_ROWS, _UNIT_KEYS = 64, 16
# How many CTAs share a processor, by the widest heads, and keys of a block.
_RESIDENT = {32: (4, 64), 64: (3, 64)}
# Registers of a thread that loads, by the CTAs of a processor, of narrow heads and of others; and
# of packed sequences whose heads share keys: those that load look for both.
_NARROW_LOADS, _LOADS, _MORE_LOADS = {3: 24, 4: 24}, {2: 40, 3: 32}, 56
# It pays where rows see so many keys at most: by a window, by a causal mask alone, or all; and with
# up to so many tiles for each CTA, claims cost more than they even out (measured on an H100).
_SEEN_BY_WINDOW, _SEEN_BY_MASK, _SEEN_BY_ALL, _FEW_TILES = 4097, 2048, 1024, 6
# Of heads of 64, two CTAs with as many keys of a block as registers hold are faster than three for
# up to so many tiles of each processor.
_TILES_OF_TWO, _KEYS_OF_TWO = 4, 128
# The most CTAs of wider heads, and of few rows: for as many tiles of each processor or, where rows
# see few keys, any number.
_MORE_CTAS, _NARROW, _HALF = {96: 3, 192: 2}, 64, 128
# How many keys may be seen, of heads of up to 128 dimensions where all tiles are computed at once,
# and where not; and of wider ones.
_SEEN_AT_ONCE, _SEEN_BY_TWO, _WIDE_SEEN = 320, 224, 160
# Keys of a block, and where so few are seen.
_BLOCK, _FEW_SEEN, _FEW_BLOCK = 64, 96, 32
# CTAs that start early land anywhere, so that those with a tile more may share a processor, unless
# no more than one of so many has none.
_EVEN = 8


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
    narrow_loads = None if narrow is None else _NARROW_LOADS.get(ctas)
    loads = narrow_loads or (_MORE_LOADS if _loads_more(problem) else _LOADS[ctas])
    slots = ctas * problem.processors
    is_even = tiles <= slots or -tiles % slots <= slots // _EVEN
    # Claims, too, leave processors alike, and cost less than to start late with wide heads.
    is_dealt = tiles <= _FEW_TILES * slots and not problem.is_packed
    is_dealt = is_dealt and (is_even or narrow is not None)
    return Schedule(
        tile=(_ROWS, keys),
        early_launch="yes" if is_soon_over and (is_even or not is_dealt) else None,
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
    if not set(problem.dims) <= set(_RESIDENT) or (problem.rows or 0) <= _ROWS:
        return None
    seen, most = problem.keys, _SEEN_BY_MASK if problem.is_uneven else _SEEN_BY_ALL
    if problem.has_window:
        seen, most = problem.sees, _SEEN_BY_WINDOW
    if not (problem.has_short_packs if problem.is_packed else seen is not None and seen <= most):
        return None
    is_partial = problem.is_packed or problem.has_window
    turns = -(-tiles // problem.processors)
    if problem.widest == _NARROW and turns <= _TILES_OF_TWO and not is_partial:
        return 2, _KEYS_OF_TWO
    ctas, keys = _RESIDENT[problem.widest]
    # No more than it takes: where there is room for another one, more of them share a processor.
    return (ctas if problem.is_packed else min(ctas, max(2, turns))), keys


def _of_wide_heads(problem: AttentionProblem, tiles: int) -> tuple[int, int] | None:
    """The same of wider heads, and of few rows: as many CTAs as it takes for all tiles to be
    computed at once, or two where rows see few keys, or packed sequences are short.
    """
    most = next((count for widest, count in _MORE_CTAS.items() if problem.widest <= widest), 1)
    if problem.is_packed:
        if most == 1 or not problem.has_short_packs or problem.widest <= _NARROW:
            return None
        most = 2 if _loads_more(problem) else most
        return most, _BLOCK if most > 2 else _FEW_BLOCK
    seen, turns = _seen(problem), -(-tiles // problem.processors)
    if most == 1 or turns == 1 or seen is None:
        return None
    is_wide = problem.widest > _HALF
    at_once, by_two = (_WIDE_SEEN, _WIDE_SEEN) if is_wide else (_SEEN_AT_ONCE, _SEEN_BY_TWO)
    if turns <= most and seen <= at_once:
        return turns, _FEW_BLOCK if is_wide or seen <= _FEW_SEEN else _BLOCK
    return (2, _FEW_BLOCK) if seen <= by_two else None


def _seen(problem: AttentionProblem) -> int | None:
    """The keys that a tile sees at most."""
    if problem.keys is None or (problem.has_window and problem.sees is None):
        return None
    return problem.keys if problem.sees is None else min(problem.keys, problem.sees + _ROWS - 1)
