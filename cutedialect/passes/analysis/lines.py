"""How threads hold the lines of a register tile along a mode: the digits of a place in a line, from
the fastest one on, each of a thread's values or of the threads; and what threads exchange through
shared memory for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation

from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects.cute import (
    LINE_OPS,
    FetchOp,
    LineOp,
    PutOp,
    ReduceOp,
    ScanOp,
    SortOp,
    TakeOp,
    fragment_of,
)
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.analysis.coordinates import (
    Digit,
    ThreadValue,
    split_digits,
    thread_value,
)

# Bytes of a word and of a long one, up to whose bits a word reaches.
_WORD, _LONG, _WORD_BITS = 4, 8, 32


@dataclass(frozen=True)
class Level:
    """One digit of the places in a line: of the values of a thread, the lanes of a warp, or warps;
    and how many values of a thread differ in others than the digits up to this one.
    """

    digit: Digit
    of_threads: bool
    count: int

    @property
    def of_warps(self) -> bool:
        return self.of_threads and self.digit.divisor >= WARP_SIZE


def levels_along(layout: ThreadValue, mode: int) -> list[Level]:
    """The digits of lines along a mode, the fastest first. `ValueError` where one of them goes
    along two modes of the tile.
    """
    threads = split_digits(layout.threads, (WARP_SIZE,))
    found = [(digit, True) for digit in threads] + [(digit, False) for digit in layout.values]
    mine = [(digit, is_thread) for digit, is_thread in found if digit.steps[mode]]
    for digit, _ in mine:
        if sum(map(bool, digit.steps)) > 1:
            raise ValueError(f"expected threads and values along one tile mode each, got {layout}")
    levels: list[Level] = []
    count = layout.value_count
    for digit, is_thread in sorted(mine, key=lambda each: each[0].steps[mode]):
        count //= 1 if is_thread else digit.extent
        levels.append(Level(digit, is_thread, count))
    return levels


def others_of(layout: ThreadValue, mode: int, levels: list[Level]) -> list[Digit]:
    """The digits of threads that hold different lines, or parts of one behind some levels."""
    threads = split_digits(layout.threads, (WARP_SIZE,))
    known = [level.digit for level in levels]
    return [digit for digit in threads if not digit.is_replica and digit not in known]


def bytes_of(bits: int) -> int:
    """What an element of so many bits takes where threads exchange it."""
    return _LONG if bits > _WORD_BITS else _WORD


def scratch_of_scan(op: ScanOp) -> int:
    """What warps of a bound scan exchange their sums in."""
    tiles = [fragment_of(tile) for tile in op.tiles]
    layout, mode = thread_value(tiles[0].bound, tiles[0].shape), op.mode.value.data
    levels = levels_along(layout, mode)
    size = sum(bytes_of(tile.bits) for tile in tiles)
    return max(
        (
            size
            * level.count
            * level.digit.extent
            * prod(digit.extent for digit in others_of(layout, mode, levels[: at + 1]))
            for at, level in enumerate(levels)
            if level.of_warps
        ),
        default=0,
    )


def scratch_of_sort(op: SortOp) -> int:
    """What threads of a bound sort exchange elements in: all of them, where a line has warps."""
    tiles = [fragment_of(tile) for tile in op.tiles]
    layout = thread_value(tiles[0].bound, tiles[0].shape)
    if not any(level.of_warps for level in levels_along(layout, op.mode.value.data)):
        return 0
    size = sum(bytes_of(tile.bits) for tile in tiles)
    return size * layout.value_count * layout.thread_count


def scratch_of_places(op: TakeOp | PutOp) -> int:
    """What a tile takes whose elements threads find by their places."""
    tile = fragment_of(op.source)
    return prod(tile.shape) * bytes_of(tile.bits)


def scratch_of_fetch(op: FetchOp) -> int:
    """What the threads that hold the same elements are told in what was in memory."""
    tile = fragment_of(op.source)
    threads = thread_value(tile.bound, tile.shape).threads
    is_shared = any(digit.is_replica and digit.extent > 1 for digit in threads)
    return prod(tile.shape) * bytes_of(tile.bits) if is_shared else 0


def scratch_across_warps(digits: tuple[Digit, ...], mode: int, rows: int, size: int) -> int:
    """Bytes in which warps exchange what they hold of rows along a mode: so many `rows` of a
    thread, of elements of `size` bytes; 0 where no row is shared by warps.
    """
    warps = [each.extent for each in digits if each.steps[mode] and each.divisor >= WARP_SIZE]
    others = prod(each.extent for each in digits if not each.steps[mode])
    return rows * prod(warps) * others * size if warps else 0


def scratch_of_reduction(op: ReduceOp) -> int:
    """What a reduction of a bound tile takes."""
    if op.local is not None:
        return 0
    source, result = fragment_of(op.source), op.result.type
    threads = thread_value(source.bound, source.shape).threads
    return scratch_across_warps(
        split_digits(threads, (WARP_SIZE,)),
        op.mode.value.data,
        result.values,  # pyright: ignore[reportAttributeAccessIssue]
        bytes_of(source.bits),
    )


def scratch_of(op: ReduceOp | LineOp | FetchOp) -> int:
    """Bytes of shared memory in which threads exchange what an op on lines needs."""
    match op:
        case ReduceOp():
            return scratch_of_reduction(op)
        case ScanOp():
            return scratch_of_scan(op)
        case SortOp():
            return scratch_of_sort(op)
        case FetchOp():
            return scratch_of_fetch(op)
        case _:
            return scratch_of_places(op)


def masks(bits: int) -> Iterator[int]:
    """The digits in which elements differ that a sort compares, for a line of 2^bits elements.

    >>> list(masks(2)), list(masks(3))
    ([1, 3, 1], [1, 3, 1, 7, 2, 1])
    """
    for size in range(1, bits + 1):
        yield (1 << size) - 1
        for digit in range(size - 2, -1, -1):
            yield 1 << digit


@dataclass(frozen=True)
class Exchange:
    """A step of a sort: it compares elements whose places differ in the digits of a mask. Where it
    `drops`, only the lesser one of each pair is asked for behind it, in front.
    """

    mask: int
    drops: bool = False


def exchanges(levels: Sequence[Level], leading: int | None) -> Iterator[Exchange]:
    """The steps of a sort of lines with some digits. For the first `leading` elements alone runs of
    the next power of two are sorted; of two of them, whose places differ in one digit, the lesser
    half is kept and sorted, until one is left: first those that a thread has, which leave fewer
    values to compare, and last those of warps, which exchange through shared memory.

    Runs of a row that one thread has, the first one or two of eight elements:

    >>> row = [Level(Digit(1, 8, (0, 1)), False, 1)]
    >>> [(step.mask, step.drops) for step in exchanges(row, 1)]
    [(1, True), (2, True), (4, True)]
    >>> [(step.mask, step.drops) for step in exchanges(row, 2)]
    [(1, False), (3, True), (1, False), (5, True), (1, False)]
    """
    kinds = [
        (level.of_warps, level.of_threads)
        for level in levels
        for _ in range(level.digit.extent.bit_length() - 1)
    ]
    kept = len(kinds) if leading is None else min((leading - 1).bit_length(), len(kinds))
    yield from map(Exchange, masks(kept))
    for digit in sorted(range(kept, len(kinds)), key=kinds.__getitem__):
        yield Exchange((1 << kept) - 1 | 1 << digit, drops=True)
        yield from (Exchange(1 << below) for below in reversed(range(kept)))


def rounds_of(op: ReduceOp | LineOp | FetchOp) -> int:
    """How often threads store what others load for an op on lines."""
    if not isinstance(op, ScanOp | SortOp):
        return int(scratch_of(op) > 0)
    tile = fragment_of(op.tiles[0])
    levels = levels_along(thread_value(tile.bound, tile.shape), op.mode.value.data)
    if isinstance(op, ScanOp):
        return sum(level.of_warps for level in levels)
    of_warps = 0
    bits = 0
    for level in levels:
        count = level.digit.extent.bit_length() - 1
        of_warps |= ((1 << count) - 1 << bits) * level.of_warps
        bits += count
    return sum(bool(step.mask & of_warps) for step in exchanges(levels, op.leading_count))


def longest_exchange(around: Operation) -> int:
    """The most bytes that one of the ops on lines in a kernel or role takes."""
    return max((scratch_of(op) for op in ops_of(around, ReduceOp, FetchOp, *LINE_OPS)), default=0)
