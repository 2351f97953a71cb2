"""Regions of shared and tensor memory as sets of granules, each set one integer: bit i is granule i
of a buffer. Conflicts of accesses are intersections of such sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import product as combinations
from math import prod
from typing import NamedTuple

from cutedialect.layout import Layout

LANES_PER_WARP = 32
# Elements of a tile up to which one that does not split into modes is counted one by one.
_MOST_COUNTED = 1 << 16
_WORD_BITS = 32
# Words from one lane of tensor memory to the next in an address (PTX ISA 9.7.16.1.1), and the
# lanes that one warp of a warpgroup reaches (9.7.16.2.1).
_TMEM_LANE_WORDS = 1 << 16
_TMEM_COLUMNS = 512
_TMEM_LANES_PER_WARP = 32

Place = Callable[[int], int]


class Granules(NamedTuple):
    """How elements of a buffer are numbered: each takes `count` granules of shared memory, or lies
    in one with others; in tensor memory it is in a word of a column and a quarter of the lanes.
    """

    bits: int
    granule_bits: int
    is_tensor_memory: bool = False

    @property
    def count(self) -> int:
        """Granules of an element."""
        return 1 if self.is_tensor_memory else max(1, self.bits // self.granule_bits)

    def place(self, offset: int) -> int:
        """The first granule of the element at an offset."""
        if not self.is_tensor_memory:
            return offset * self.bits // self.granule_bits
        lane, column = divmod(offset * self.bits // _WORD_BITS, _TMEM_LANE_WORDS)
        return lane // _TMEM_LANES_PER_WARP * _TMEM_COLUMNS + column

    def places(self, extent: int, stride: int) -> Iterable[int]:
        """The first granules of so many elements of one stride."""
        bits = stride * self.bits
        lane_bits = _TMEM_LANE_WORDS * _WORD_BITS
        if not self.is_tensor_memory:
            return _quotients(extent, bits, self.granule_bits)
        if bits % lane_bits == 0:
            quarters = _quotients(extent, bits // lane_bits, _TMEM_LANES_PER_WARP)
            return [quarter * _TMEM_COLUMNS for quarter in quarters]
        if 0 < bits * extent <= lane_bits:
            return _quotients(extent, bits, _WORD_BITS)
        return [self.place(index * stride) for index in range(extent)]


@lru_cache(maxsize=4096)
def whole(layout: Layout, granules: Granules) -> int:
    """The granules of all elements of a tile."""
    mask = (1 << granules.count) - 1
    for shape, stride in zip(*_flat(layout), strict=True):
        mask = _spread(mask, granules.places(shape, stride))
    return mask


@lru_cache(maxsize=4096)
def by_warp(
    tv: Layout,
    shape: tuple[int, ...],
    layout: Layout,
    granules: Granules,
    warps: int,
    once: bool = False,
) -> tuple[int, ...] | None:
    """The granules that each warp touches of a tile, by a thread-value layout into its column-major
    coordinates; None where the layout does not say so for this many warps. Of warps that hold the
    same elements the first one alone touches them, where that is `once`.
    """
    modes = _of_warp(tv, warps)
    if modes is None:
        return None
    held, others = modes
    moves = [[layout(index * stride) for index in range(extent)] for extent, stride in held]
    steps = [[layout(index * stride) for index in range(extent)] for extent, stride in others]
    if not _adds_up((*held, *others), (*moves, *steps), layout):
        return None
    mask = (1 << granules.count) - 1
    for offsets in moves:
        mask = _spread(mask, map(granules.place, offsets))
    # The first mode of threads runs fastest.
    places = [tuple(reversed(at)) for at in combinations(*(range(e) for e, _ in reversed(others)))]
    copies = [once and not stride for _, stride in others]
    return tuple(
        0
        if any(index for index, is_copy in zip(at, copies, strict=True) if is_copy)
        else mask << sum(granules.place(step[i]) for step, i in zip(steps, at, strict=True))
        for at in places
    )


@lru_cache(maxsize=4096)
def split_mode(
    layout: Layout, granules: Granules, parts: int, mode: int = 0
) -> tuple[int, ...] | None:
    """The granules of equal parts of a mode of a tile, in order."""
    others = list(layout)
    split = others.pop(mode)
    if split.size() % parts:
        return None
    each = split.size() // parts
    rest = (1 << granules.count) - 1
    for other in others:
        for shape, stride in zip(*_flat(other), strict=True):
            rest = _spread(rest, granules.places(shape, stride))
    return tuple(
        _spread(rest, [granules.place(split(part * each + index)) for index in range(each)])
        for part in range(parts)
    )


@lru_cache(maxsize=4096)
def rows_by_warp(
    tv: Layout, shape: tuple[int, ...], mode: int, layout: Layout, granules: Granules, warps: int
) -> tuple[int, ...] | None:
    """The granules of the rows of an operand that the warps need for what they hold of a product:
    rows of the operand are coordinates along `mode` of the product.
    """
    modes = _of_warp(tv, warps)
    if modes is None:
        return None
    held, others = modes
    rows, *columns = layout
    width = (1 << granules.count) - 1
    for column in columns:
        for extent, stride in zip(*_flat(column), strict=True):
            width = _spread(width, granules.places(extent, stride))
    inner = prod(shape[:mode])
    reached = [
        {index * stride // inner % shape[mode] for index in range(extent)}
        for extent, stride in held
    ]
    own = {0}
    for places in reached:
        own = {one + other for one in own for other in places}
    at_rows = [granules.place(rows(row)) for row in range(rows.size())]
    masks: list[int] = []
    known: dict[int, int] = {}
    for offsets in combinations(*(range(extent) for extent, _ in reversed(others))):
        index = sum(at * stride for at, (_, stride) in zip(reversed(offsets), others, strict=True))
        first = index // inner % shape[mode]
        if first not in known:
            mine = [at_rows[first + row] for row in own if first + row < len(at_rows)]
            known[first] = _spread(width, mine)
        masks.append(known[first])
    return tuple(masks)


def _flat(layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes and strides of the innermost modes."""
    flat = layout.flat_modes()
    shape, stride = flat.shape, flat.stride
    if isinstance(shape, tuple):
        return shape, stride
    return (shape,), (stride,)


def _modes_of(tv: Layout, mode: int) -> list[tuple[int, int]]:
    return [(extent, stride) for extent, stride in zip(*_flat(tv[mode]), strict=True)]


def _of_warp(tv: Layout, warps: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]] | None:
    """The modes of what a warp holds, lanes and values, and those of the warps; None where the
    layout does not say so for this many warps.
    """
    threads = _modes_of(tv, 0)
    if prod(extent for extent, _ in threads) != warps * LANES_PER_WARP:
        return None
    lanes, others = _split(threads, LANES_PER_WARP)
    return None if lanes is None else ([*lanes, *_modes_of(tv, 1)], others)


def _split(
    modes: Sequence[tuple[int, int]], size: int
) -> tuple[list[tuple[int, int]] | None, list[tuple[int, int]]]:
    """The modes of the first `size` indices, and those of the others."""
    first: list[tuple[int, int]] = []
    rest: list[tuple[int, int]] = []
    for extent, stride in modes:
        if size == 1:
            rest.append((extent, stride))
        elif extent <= size:
            if size % extent:
                return None, rest
            first.append((extent, stride))
            size //= extent
        else:
            if extent % size:
                return None, rest
            first.append((size, stride))
            rest.append((extent // size, stride * size))
            size = 1
    return (first if size == 1 else None), rest


def _quotients(extent: int, step: int, divisor: int) -> Iterable[int]:
    """The different multiples of a step below so many, divided."""
    if step > 0 and step % divisor == 0:
        return range(0, extent * (step // divisor), step // divisor)
    if step > 0 and divisor % step == 0:
        return range(-(-extent * step // divisor))
    return [index * step // divisor for index in range(extent)]


def _spread(mask: int, offsets: Iterable[int]) -> int:
    if isinstance(offsets, range):
        return _repeated(mask, len(offsets), offsets.step)
    result = 0
    for offset in sorted(set(offsets)):
        result |= mask << offset
    return result


def _repeated(mask: int, count: int, step: int) -> int:
    """So many of a mask, each a step behind the one before; at most twice as many each time."""
    result, done = mask if count else 0, 1
    while done < count:
        more = min(done, count - done)
        result |= result << more * step
        done += more
    return result


def _adds_up(
    modes: Sequence[tuple[int, int]], moves: Sequence[Sequence[int]], layout: Layout
) -> bool:
    """Whether an element's offset is the sum of those along the modes: no mode of the tile carries
    into the next one.
    """
    index = sum((extent - 1) * stride for extent, stride in modes)
    if index >= layout.size() or index < 0:
        return False
    return layout(index) == sum(offsets[-1] for offsets in moves)
