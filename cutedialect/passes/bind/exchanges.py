"""The buffer in shared memory through which threads exchange a register tile for another layout of
it: which mode is contiguous, with a swizzle or with lines some elements longer, so that the fewest
accesses of a warp fall into one bank.

32 banks of 4 bytes serve a warp at a time; lanes that read or write the same word are served
together, and accesses of 8 and 16 bytes by halves and quarters of a warp.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import gcd

from cutedialect.layout import Layout, Swizzle
from cutedialect.passes.bind.smem_layouts import staging_layout
from cutedialect.passes.bind.thread_layouts import modes_of, offsets_of

Exchange = tuple[Layout, Swizzle | None, int]
_BANKS = 32
_WORD = 4
_LANES = 32
_WIDEST = 16
# Elements by which lines may be longer, and accesses of a thread that are looked at.
_PADS = (1, 2, 4, 8)
_SEEN = 16


@lru_cache(maxsize=256)
def exchange_layout(have: Layout, want: Layout, shape: tuple[int, int], bits: int) -> Exchange:
    """(layout, swizzle, alignment) of the buffer of a tile that is written as `have` says and read
    as `want` does: thread-value layouts onto its column-major coordinates.

    >>> rows = Layout((32, (2, 64)), (64, (2048, 1)))
    >>> columns = Layout((32, (2, 64)), (1, (32, 64)))
    >>> print(*exchange_layout(rows, columns, (64, 64), 16))
    (64,64):(1,66) None 4
    """
    size = max(1, bits // 8)
    choices = [staging_layout(shape, mode, bits, have, want) for mode in (0, 1)]
    for pad in _PADS:
        for strides in ((1, shape[0] + pad), (shape[1] + pad, 1)):
            line = max(strides) * size
            choices.append((Layout(shape, strides), None, gcd(line, 128)))

    def cycles(choice: Exchange) -> float:
        return sum(_cycles(tv, shape, choice, size) for tv in (have, want))

    return min(choices, key=cycles)


def _cycles(tv: Layout, shape: tuple[int, int], buffer: Exchange, size: int) -> float:
    """Turns of the banks for each element of a thread of the first warp, at 32 lanes."""
    layout, swizzle, alignment = buffer
    lanes = offsets_of(modes_of(tv[0]))[:_LANES]
    values = offsets_of(modes_of(tv[1]))
    rows = shape[0]

    def place(at: int) -> int:
        byte = layout((at % rows, at // rows)) * size
        return byte if swizzle is None else swizzle(byte)

    width = _WIDEST // size
    while width > 1 and not _takes(width, lanes, values, place, size, alignment):
        width //= 2
    starts = range(0, len(values), width)[:_SEEN]
    phases = max(1, width * size // _WORD)
    part = max(1, len(lanes) // phases)
    turns = 0
    for first in starts:
        for begin in range(0, len(lanes), part):
            words: dict[int, set[int]] = {}
            for lane in lanes[begin : begin + part]:
                byte = place(lane + values[first])
                for word in range(byte // _WORD, (byte + width * size - 1) // _WORD + 1):
                    words.setdefault(word % _BANKS, set()).add(word)
            turns += max(map(len, words.values()))
    return turns / (len(starts) * width)


def _takes(
    width: int,
    lanes: list[int],
    values: list[int],
    place: Callable[[int], int],
    size: int,
    align: int,
) -> bool:
    """Whether each access may move so many elements."""
    if len(values) % width or width * size > align:
        return False
    for first in range(0, min(len(values), _SEEN * width), width):
        for lane in lanes:
            start = place(lane + values[first])
            if start % (width * size):
                return False
            if any(place(lane + values[first + i]) != start + i * size for i in range(1, width)):
                return False
    return True
