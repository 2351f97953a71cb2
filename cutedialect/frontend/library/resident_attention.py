"""Attention by CTAs of one warpgroup that share a processor: where it pays, and how many do. One of
them computes while others begin, end, or wait, and tiles of 64 rows compute less that no row sees;
but each loads its own keys and values, more often the more there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutedialect.schedule import Schedule

if TYPE_CHECKING:
    from .attention_work import AttentionWork

# What a warpgroup multiplies at once, of rows and of keys.
_ROWS, _UNIT_KEYS = 64, 16
# How many CTAs share a processor, by the widest heads, and keys of a block.
_RESIDENT = {32: (4, 64), 64: (3, 64)}
# Registers of a thread that loads and of one that computes, of those that ptxas gives both at
# first, by the CTAs of a processor; and of narrow heads.
_REGISTERS = {2: (40, 216), 3: (32, 128)}
_NARROW_REGISTERS = {3: (24, 136), 4: (24, 104)}
# Of packed sequences whose heads share keys: those that load look for both.
_MORE_REGISTERS = (56, 200)
# It pays where rows see so many keys at most: by a window, by a causal mask alone, or all; and with
# up to so many tiles for each CTA, claims cost more than they even out (measured on an H100).
_SEEN_BY_WINDOW, _SEEN_BY_MASK, _SEEN_BY_ALL = 4097, 2048, 1024
_FEW_TILES = 6
# Packed sequences of so many rows, on average: a long one among them may see many.
_SEEN_IN_PACKS = 256
# Of heads of 64, two CTAs with as many keys of a block as registers hold are faster than three for
# up to so many tiles of each processor.
_TILES_OF_TWO, _KEYS_OF_TWO = 4, 128
# The most CTAs of wider heads, and of few rows: for as many tiles of each processor or, where rows
# see few keys, any number.
_MORE_CTAS = {96: 3, 192: 2}
_NARROW, _HALF = 64, 128
# How many keys may be seen, of heads of up to 128 dimensions where all tiles are computed at once,
# and where not; and of wider ones.
_SEEN_AT_ONCE, _SEEN_BY_TWO, _WIDE_SEEN = 320, 224, 160
# Keys of a block, and where so few are seen.
_BLOCK, _FEW_SEEN, _FEW_BLOCK = 64, 96, 32
# CTAs that start early land anywhere, so that those with a tile more may share a processor, unless
# no more than one of so many has none.
_EVEN = 8


def resident_schedule(work: AttentionWork, is_soon_over: bool) -> Schedule | None:
    """The schedule of CTAs that share a processor, but for the order of tiles; None where a CTA
    has one for itself. CTAs start early where all `is_soon_over`.
    """
    if not work.rows or not work.sequences:
        return None
    tiles = work.sequences * -(-work.rows // _ROWS)
    narrow = _of_narrow_heads(work, tiles)
    found = narrow or _of_wide_heads(work, tiles)
    if found is None:
        return None
    ctas, keys = found
    if work.keys is not None:
        keys = min(keys, max(_UNIT_KEYS, -(-work.keys // _UNIT_KEYS) * _UNIT_KEYS))
    registers = None if narrow is None else _NARROW_REGISTERS.get(ctas)
    if registers is None:
        registers = _MORE_REGISTERS if _loads_more(work) else _REGISTERS[ctas]
    slots = ctas * work.processors
    is_even = tiles <= slots or -tiles % slots <= slots // _EVEN
    # Claims, too, leave processors alike, and cost less than to start late with wide heads.
    is_dealt = tiles <= _FEW_TILES * slots and not work.is_packed
    is_dealt = is_dealt and (is_even or narrow is not None)
    return Schedule(
        tile=(_ROWS, keys),
        early_launch="yes" if is_soon_over and (is_even or not is_dealt) else None,
        ctas=ctas,
        registers=registers,
        overlap="yes",
        scheduler="persistent" if is_dealt else "dynamic",
        # One loop, whose trips ask for a mask: a window's are few.
        split_loops="no" if work.has_window else None,
        split_loads="no",
    )


def are_short_packs(work: AttentionWork) -> bool:
    """Whether packed sequences have few rows, on average: half of a tile is empty then, which of
    64 rows is less.
    """
    return work.is_packed and work.rows is not None and work.rows <= _SEEN_IN_PACKS


def _loads_more(work: AttentionWork) -> bool:
    """Whether those that load look for a sequence and for the head that shares its keys."""
    return work.is_packed and work.group > 1


def _of_narrow_heads(work: AttentionWork, tiles: int) -> tuple[int, int] | None:
    """How many CTAs with heads of up to 64 dimensions share a processor, and keys of a block."""
    if not set(work.dims) <= set(_RESIDENT) or work.rows is None or work.rows <= _ROWS:
        return None
    if work.is_packed:
        pays = are_short_packs(work)
    elif work.has_window:
        pays = work.sees is not None and work.sees <= _SEEN_BY_WINDOW
    else:
        most = _SEEN_BY_MASK if work.is_uneven else _SEEN_BY_ALL
        pays = work.keys is not None and work.keys <= most
    if not pays:
        return None
    widest = max(work.dims)
    is_partial = work.is_packed or work.has_window
    if widest == _NARROW and tiles <= _TILES_OF_TWO * work.processors and not is_partial:
        return 2, _KEYS_OF_TWO
    ctas, keys = next(each for widths, each in _RESIDENT.items() if widest <= widths)
    turns = -(-tiles // work.processors)
    # No more than it takes: where there is room for another one, more of them share a processor.
    return (ctas if work.is_packed else min(ctas, max(2, turns))), keys


def _of_wide_heads(work: AttentionWork, tiles: int) -> tuple[int, int] | None:
    """The same of wider heads, and of few rows: as many CTAs as it takes for all tiles to be
    computed at once, or two where rows see few keys.
    """
    widest = max(work.dims)
    most = next((each for widths, each in _MORE_CTAS.items() if widest <= widths), 1)
    if most == 1:
        return None
    if work.is_packed:
        if not are_short_packs(work) or widest <= _NARROW:
            return None
        most = 2 if _loads_more(work) else most
        return most, _BLOCK if most > 2 else _FEW_BLOCK
    turns = -(-tiles // work.processors)
    if turns == 1 or work.keys is None or (work.has_window and work.sees is None):
        return None
    seen = work.keys if work.sees is None else min(work.keys, work.sees + _ROWS - 1)
    is_wide = widest > _HALF
    if turns <= most and seen <= (_WIDE_SEEN if is_wide else _SEEN_AT_ONCE):
        return turns, _FEW_BLOCK if is_wide or seen <= _FEW_SEEN else _BLOCK
    return (2, _FEW_BLOCK) if seen <= (_WIDE_SEEN if is_wide else _SEEN_BY_TWO) else None
