"""How the values of a thread-value layout lie in a memory tile: which of them one load or store
moves, and which may lie outside of the tensor. Of a tile whose rows a register tile numbers, each
row that a thread has values of is a tile of its own, at an address of its own; a row that the
tensor does not have is neither loaded nor stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import gcd
from typing import Any

from xdsl.ir import SSAValue

from cutedialect.atoms import WARP_SIZE
from cutedialect.layout import Layout
from cutedialect.passes.analysis.coordinates import Digit, ThreadValue, thread_value

from .addresses import (
    Address,
    Offset,
    byte_digits,
    digit_value,
    global_addresses,
    granularity,
    shared_addresses,
    thread_coord,
    value_offsets,
)
from .context import Context
from .scalar_builder import Scalar
from .views import IndexedTile, Tile, View

# Units that a load or store moves (PTX ISA 9.7.9).
_MOST_UNITS = 4
# Bytes of a line of L1, of which L2 keeps two together.
_LINE = 128


@dataclass(frozen=True)
class Vector:
    """Units that one instruction moves: the first value of each, in address order."""

    offset: Offset
    values: tuple[int, ...]


@dataclass
class TileAccess:
    """A memory tile seen through a thread-value layout.

    `pack` values share a register; `limit_bytes` is the widest instruction allowed, of up to
    `most_units` units. `mask` is an array with a predicate for each value, where only some elements
    are stored.
    """

    context: Context
    view: View
    tv: Layout
    pack: int = 1
    limit_bytes: int = 16
    mask: SSAValue | None = None
    most_units: int = _MOST_UNITS

    @property
    def is_uniform(self) -> bool:
        """Whether all threads have the same tile, so that they branch alike at its edges."""
        return True

    @cached_property
    def layout(self) -> ThreadValue:
        """The layout on the leaves of the view; `LayoutMismatchError` when it does not fit."""
        return thread_value(self.tv, self.view.leaf_shape)

    @cached_property
    def coords(self) -> list[tuple[int, ...]]:
        return self.layout.value_coords()

    @cached_property
    def offsets(self) -> list[Offset]:
        return value_offsets(self.view, self.coords)

    @cached_property
    def aligned_to(self) -> int:
        """Bytes that divide all addresses but for the static part of the value offset."""
        grain = granularity(self.view, self.layout.threads, self.coords)
        grain = min(grain & -grain, self.limit_bytes, 16)
        if self.view.swizzle is not None and self.view.swizzle.bits:
            grain = min(grain, 1 << self.view.swizzle.base)
        return grain

    @cached_property
    def unit(self) -> int:
        """Values in one unit: as much of a register as lies together in memory."""
        size = self.view.element_bytes
        unit = self.pack
        while unit > 1:
            if self.aligned_to % (unit * size) == 0 and all(
                self.offsets[first].static * size % (unit * size) == 0
                and self.is_run(range(first, first + unit))
                for first in range(0, len(self.offsets), unit)
            ):
                break
            unit //= 2
        return unit

    def is_run(self, values: Sequence[int], step: int = 1) -> bool:
        """Whether all of some values are there, each so many elements behind the one before."""
        if values[-1] >= len(self.offsets):
            return False
        start = self.offsets[values[0]]
        return all(
            self.offsets[v].dynamic == start.dynamic
            and self.offsets[v].static == start.static + i * step
            for i, v in enumerate(values)
        )

    @cached_property
    def vectors(self) -> list[Vector]:
        """The widest legal instructions, in address order."""
        size = self.view.element_bytes
        unit = self.unit
        order = sorted(range(0, len(self.offsets), unit), key=lambda v: self.offsets[v])
        widest = min(self.most_units, max(1, self.aligned_to // (unit * size)))
        result = []
        at = 0
        while at < len(order):
            width = widest
            start = self.offsets[order[at]]
            while width > 1:
                group = order[at : at + width]
                is_aligned = start.static * size % (width * unit * size) == 0
                if len(group) == width and is_aligned and self.is_run(group, unit):
                    break
                width //= 2
            result.append(Vector(start, tuple(order[at : at + width])))
            at += width
        return result

    @cached_property
    def leaves_lines(self) -> bool:
        """Whether neighboring lanes move a small part of a line of memory together, of which other
        lanes move the rest.
        """
        size, strides = self.view.element_bytes, self.view.leaf_strides
        along = next((leaf for leaf, stride in enumerate(strides) if stride == 1), None)
        if along is None or self.view.space != "gmem" or not self.vectors:
            return False
        first, run = self.vectors[0].offset, 1
        mine = set(self.offsets)
        while replace(first, static=first.static + run) in mine:
            run += 1
        for digit in self.layout.threads:
            lanes = min(digit.extent, WARP_SIZE // digit.divisor)
            others = [step for leaf, step in enumerate(digit.steps) if leaf != along]
            if lanes > 1 and digit.steps[along] == run and not any(others):
                run *= lanes
        return run * size < _LINE <= self.view.leaf_shape[along] * size // 2

    @cached_property
    def bounded(self) -> list[int]:
        """Modes in which the tile may hang over the edge."""
        shape = self.view.shape
        return [
            mode
            for mode, bound in enumerate(self.view.bounds)
            if bound is not None
            and not (
                isinstance(bound.limit, int) and bound.limit >= shape[mode] and bound.floor is None
            )
        ]

    @property
    def is_bounded(self) -> bool:
        """Whether any of the tile may be outside."""
        return bool(self.bounded) or self.view.guard is not True

    def masked(self, vector: Vector, guard: Scalar) -> Scalar:
        """`guard`, and the mask's predicate for a vector, which is then of one value."""
        if self.mask is None:
            return guard
        builder = self.context.builder
        (value,) = vector.values
        return builder.both(guard, builder.get(self.mask, value))

    def leaf_of(self, mode: int) -> int:
        return self.view.leaf_modes.index(mode)

    def span(self, vector: Vector, mode: int) -> tuple[int, int]:
        """First and last coordinate of a vector in a bounded mode."""
        leaf = self.leaf_of(mode)
        at = [self.coords[v + i][leaf] for v in vector.values for i in range(self.unit)]
        return min(at), max(at)

    def never_straddles(self, first: int, last: int, mode: int) -> bool:
        """Whether the edge never cuts first..last (coordinates in a bounded mode)."""
        count = last - first + 1
        if count == 1:
            return True
        bound = self.view.bound(mode)
        if bound.floor is not None:
            return False
        return self._grain(mode, bound.divisor) % count == 0 and first % count == 0

    def _grain(self, mode: int, start: int) -> int:
        """What divides `start` and the first coordinates of all threads in a mode."""
        leaf = self.leaf_of(mode)
        return gcd(start, *(digit.steps[leaf] for digit in self.layout.threads))

    def never_straddling(self) -> TileAccess:
        """This access, or one of single elements where the edge may cut one of the vectors."""
        if all(
            self.never_straddles(*self.span(vector, mode), mode)
            for mode in self.bounded
            for vector in self.vectors
        ):
            return self
        return replace(self, limit_bytes=self.view.element_bytes)

    def keeps_vectors(self) -> Scalar:
        """Whether the edges of the tensor cut none of the vectors: the same for all threads."""
        builder = self.context.builder
        tests: list[Scalar] = []
        for mode in self.bounded:
            spans = [self.span(vector, mode) for vector in self.vectors]
            count = max(last - first + 1 for first, last in spans)
            if count & (count - 1) or self._grain(mode, count) % count:
                return False
            if any(first % count for first, last in spans if last > first):
                return False
            bound = self.view.bound(mode)
            rests = [bound.rest(builder, count)]
            if bound.floor is not None:
                rests.append(builder.pure("and.b32", bound.floor, count - 1))
            tests += [builder.pure("setp.eq.s32", rest, 0) for rest in rests]
        return builder.both(*tests)

    def remaining(self, mode: int) -> Scalar:
        """Elements from this thread's first coordinate to the edge (b32, may be negative)."""
        bound = self.view.bound(mode)
        builder = self.context.builder
        coord = thread_coord(builder, self.layout.threads, self.leaf_of(mode), self.context.threads)
        return builder.pure("sub.s32", bound.limit, coord)

    def inside(self) -> Scalar:
        """Whether the whole tile lies in the tensor: the same for all threads."""
        builder = self.context.builder
        shape = self.view.shape
        tests = [self.view.guard]
        for mode in self.bounded:
            bound = self.view.bound(mode)
            if bound.most is not None and bound.most < shape[mode]:
                return False
            tests.append(builder.pure("setp.ge.s32", bound.limit, shape[mode]))
            if bound.floor is not None:
                tests.append(builder.pure("setp.le.s32", bound.floor, 0))
        return builder.both(*tests)

    def within(self, mode: int, coord: int) -> Scalar:
        """Whether this thread's element at value coordinate `coord` of a mode exists."""
        return self.touches(mode, coord, coord)

    def holds(self, mode: int, first: int, last: int) -> Scalar:
        """Whether all of this thread's coordinates first..last of a mode exist."""
        bound = self.view.bound(mode)
        last_exists = self.within(mode, last)
        if first == last or bound.floor is None:
            return last_exists
        return self.context.builder.both(last_exists, self.within(mode, first))

    def touches(self, mode: int, first: int, last: int) -> Scalar:
        """Whether any of this thread's coordinates first..last of a mode may exist."""
        builder = self.context.builder
        bound = self.view.bound(mode)
        is_in_front = builder.pure("setp.gt.s32", self.remaining(mode), first)
        if bound.floor is None:
            return is_in_front
        start = thread_coord(builder, self.layout.threads, self.leaf_of(mode), self.context.threads)
        at = builder.pure("add.s32", start, last)
        return builder.both(is_in_front, builder.pure("setp.ge.s32", at, bound.floor))

    def addresses(self, offsets: Sequence[Offset]) -> list[Address]:
        builder = self.context.builder
        threads = self.layout.threads
        if self.view.space == "gmem":
            return global_addresses(builder, self.view, threads, offsets, self.context.threads)
        size = self.view.element_bytes
        return shared_addresses(
            builder,
            self.view,
            byte_digits(self.view, threads),
            [offset.static * size for offset in offsets],
            self.context.threads,
        )

    def owner(self) -> Scalar:
        """Whether this thread is the one that writes its elements: of replicas only the first."""
        return owner(self.context, self.layout.threads, self.layout.thread_count)


@dataclass
class RowAccess(TileAccess):
    """One row of a tile seen through the thread-value layout of the tile: `whole` has its threads,
    `columns` where in the row each of a thread's values is.
    """

    whole: ThreadValue = field(kw_only=True)
    columns: tuple[int, ...] = field(kw_only=True)

    @property
    def is_uniform(self) -> bool:
        return False

    @cached_property
    def layout(self) -> ThreadValue:
        rank = len(self.view.leaf_shape)
        threads = tuple(
            Digit(each.divisor, each.extent, each.steps[1 : 1 + rank])
            for each in self.whole.threads
        )
        count = len(self.columns)
        return ThreadValue(self.view.leaf_shape, threads, (), self.whole.thread_count, count)

    @cached_property
    def coords(self) -> list[tuple[int, ...]]:
        rank = len(self.view.leaf_shape)
        return [(column,)[:rank] for column in self.columns]

    def owner(self) -> Scalar:
        return owner(self.context, self.whole.threads, self.whole.thread_count)


@dataclass(frozen=True)
class Row:
    """A row that a thread has values of, which they are, in what columns, and which one of the
    thread's row numbers is its own.
    """

    values: tuple[int, ...]
    columns: tuple[int, ...]
    place: int


def rows_of(tile: IndexedTile, tv: Layout) -> list[Row]:
    """The rows of a tile in which a thread has values, in the order of these."""
    numbers = thread_value(tile.rows.tv, tile.rows.type.shape).value_coords()
    places = {row: at for at, (row, _) in enumerate(numbers)}
    coords = thread_value(tv, tile.shape).value_coords()
    values: dict[int, list[int]] = {}
    for value, (row, _) in enumerate(coords):
        values.setdefault(row, []).append(value)
    return [
        Row(tuple(held), tuple(coords[value][1] for value in held), places[row])
        for row, held in values.items()
    ]


def row_access(
    context: Context, tile: IndexedTile, tv: Layout, row: Row, number: Scalar, **how: Any
) -> RowAccess:
    """The access of a row with a number; `how` is what a `TileAccess` is told."""
    part, whole = tile.row(context.builder, number, row.place), thread_value(tv, tile.shape)
    return RowAccess(context, part, tv, whole=whole, columns=row.columns, **how)


def parts_of(
    context: Context, tile: Tile, tv: Layout, pack: int, limit_bytes: int
) -> list[tuple[TileAccess, Sequence[int]]]:
    """The accesses by which threads reach a tile, and which of their values each reaches: one of
    all values, or one for each row of a tile whose numbers nothing writes any more.
    """
    if isinstance(tile, View):
        access = TileAccess(context, tile, tv, pack, limit_bytes)
        return [(access, range(len(access.offsets)))]
    numbers, builder = tile.rows.array, context.builder
    return [
        (
            row_access(
                context, tile, tv, row, builder.settled(numbers, row.place),
                pack=pack, limit_bytes=limit_bytes,
            ),
            row.values,
        )
        for row in rows_of(tile, tv)
    ]  # fmt: skip


def owner(context: Context, threads: Sequence[Digit], thread_count: int) -> Scalar:
    builder = context.builder
    tests: list[Scalar] = []
    for digit in threads:
        if digit.is_replica:
            value = digit_value(builder, digit, context.threads)
            tests.append(builder.pure("setp.eq.s32", value, 0))
    if thread_count < context.threads:
        tests.append(builder.pure("setp.lt.u32", builder.thread_index(), thread_count))
    return builder.both(*tests)
