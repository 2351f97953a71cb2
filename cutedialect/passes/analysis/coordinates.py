"""Thread-value layouts as sums of digits: thread (or value) index i contributes, for each digit
`(i / divisor) % extent`, that many steps in each mode of the tile. Everything that addresses memory
or places registers reads this form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product as cartesian
from math import prod

from cutedialect.layout import Layout, flatten, idx2crd


class LayoutMismatchError(ValueError):
    """A thread-value layout does not fit the tile that it is used on."""


@dataclass(frozen=True)
class Digit:
    """`(index / divisor) % extent` steps of `steps` (one entry for each tile mode)."""

    divisor: int
    extent: int
    steps: tuple[int, ...]

    @property
    def is_replica(self) -> bool:
        """Whether the digit moves nowhere: different threads hold the same elements."""
        return not any(self.steps)


@dataclass(frozen=True)
class ThreadValue:
    """A thread-value layout on a tile of `shape`: digits of the thread and of the value index."""

    shape: tuple[int, ...]
    threads: tuple[Digit, ...]
    values: tuple[Digit, ...]
    thread_count: int
    value_count: int

    def value_coords(self) -> list[tuple[int, ...]]:
        """Coordinate of each value of thread 0, in value order."""
        return list(_enumerate(self.values, len(self.shape), self.value_count))

    def thread_coords(self) -> list[tuple[int, ...]]:
        """Coordinate of value 0 of each thread."""
        return list(_enumerate(self.threads, len(self.shape), self.thread_count))


@lru_cache(maxsize=1024)
def _enumerate(digits: tuple[Digit, ...], rank: int, count: int) -> tuple[tuple[int, ...], ...]:
    coords = [(0,) * rank]
    for digit in digits:
        steps = digit.steps
        coords = [
            tuple([at + i * step for at, step in zip(coord, steps, strict=True)]) if i else coord
            for i in range(digit.extent)
            for coord in coords
        ]
    assert len(coords) == count
    return tuple(coords)


@lru_cache(maxsize=4096)
def thread_value(tv: Layout, shape: tuple[int, ...]) -> ThreadValue:
    """`tv` (onto column-major coordinates) on a tile of `shape`, which may be flattened finer.

    Raises `LayoutMismatchError` when a mode of `tv` runs over the edge of a tile mode.
    """
    thread_shape, value_shape = tv.shape  # type: ignore[misc]
    thread_stride, value_stride = tv.stride  # type: ignore[misc]
    threads = _digits(flatten(thread_shape), flatten(thread_stride), shape, tv)
    values = _digits(flatten(value_shape), flatten(value_stride), shape, tv)
    for mode, extent in enumerate(shape):
        reach = sum((each.extent - 1) * each.steps[mode] for each in threads + values)
        if reach >= extent:
            raise LayoutMismatchError(
                f"expected the modes of {tv} to stay inside the modes of the tile {shape}, "
                f"got reach {reach} in mode {mode}"
            )
    return ThreadValue(
        shape, threads, values, prod(flatten(thread_shape)), prod(flatten(value_shape))
    )


def _digits(
    extents: Sequence, strides: Sequence, shape: tuple[int, ...], tv: Layout
) -> tuple[Digit, ...]:
    digits: list[Digit] = []
    divisor = 1
    for extent, stride in zip(extents, strides, strict=True):
        if not isinstance(extent, int) or not isinstance(stride, int):
            raise LayoutMismatchError(f"expected a static thread-value layout, got {tv}")
        while extent > 1:
            coord = idx2crd(stride, shape)
            piece = extent
            moving = [mode for mode, at in enumerate(coord) if at]
            if len(moving) == 1:
                mode = moving[0]
                room, rest = divmod(shape[mode], coord[mode])
                if rest == 0 and extent > room and extent % room == 0 and room > 1:
                    piece = room
                elif rest == 0 and room == 1:
                    raise LayoutMismatchError(f"expected {tv} to stay inside {shape}")
            digits.append(Digit(divisor, piece, coord))
            divisor *= piece
            extent //= piece
            stride *= piece
    return tuple(digits)


def split_digits(digits: Sequence[Digit], boundaries: Sequence[int]) -> tuple[Digit, ...]:
    """The same digits, cut so that none crosses a power-of-two boundary such as a warp's 32."""
    result: list[Digit] = []
    for digit in digits:
        divisor, extent, steps = digit.divisor, digit.extent, digit.steps
        for boundary in boundaries:
            if divisor < boundary < divisor * extent and boundary % divisor == 0:
                room = boundary // divisor
                if extent % room == 0:
                    result.append(Digit(divisor, room, steps))
                    steps = tuple(step * room for step in steps)
                    divisor, extent = boundary, extent // room
        result.append(Digit(divisor, extent, steps))
    return tuple(result)


def subset_sums(terms: Sequence[tuple[int, int]], modulus: int) -> set[int]:
    """All sums of i * step modulo `modulus`, i below the extent, for terms (extent, step)."""
    sums = {0}
    for extent, step in terms:
        sums = {(at + i * step) % modulus for at, i in cartesian(sums, range(extent))}
    return sums
