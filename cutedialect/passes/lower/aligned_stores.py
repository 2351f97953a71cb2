"""Tiles whose lines begin at any element in global memory, stored from shared memory in vectors: a
thread reads two neighboring vectors, shifts what belongs to aligned 16 bytes out of both (`shf`,
PTX ISA 9.7.8.7), and stores these. What is left at both ends of a line, 16 bytes in all, goes in
the widest pieces that the alignment of lines allows, a piece of each thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import gcd

from cutedialect.dialects import ptx
from cutedialect.layout import Layout

from .addresses import Address, memory_op
from .context import Context
from .memory_copies import copy_tile
from .scalar_builder import Scalar
from .tile_access import TileAccess
from .unaligned_tiles import UnalignedTile
from .views import View

_BYTES = 16
# The widest piece of what is left at the ends of a line, and vectors of a thread at one time.
_PIECE = 8
_AT_ONCE = 2
# Threads that meet where warpgroups store rows of their own.
_GROUP = 128


def store_aligned(context: Context, source: View, target: View, tv: Layout, groups: int) -> None:
    """Store a tile in shared memory, of which there is room for a vector behind each line: vectors
    as `tv` gives them to threads, the ends of lines by the same `groups` of threads.
    """
    tile = UnalignedTile(context, target, tv)
    written = TileAccess(context, source, tv)
    if not (tile.is_in_vectors(tile.access) and tile.is_in_vectors(written)):
        copy_tile(context, source, target, tv, target.element_bytes)
        return
    lines = _Lines(context, source, target, groups)

    def run(is_inside: bool) -> None:
        for some in tile.parts(_AT_ONCE):
            _store_vectors(some, source, is_inside)
        lines.store_ends(is_inside)

    # Neither side leaves registers to the loop of multiplies, as what is computed before it would.
    is_inside = tile.access.inside()
    context.when(context.builder.pure("not.pred", is_inside), partial(run, False), is_rare=True)
    context.when(is_inside, partial(run, True), is_rare=True)


def _store_vectors(tile: UnalignedTile, source: View, is_inside: bool) -> None:
    """Store the aligned vectors that lie in the lines of a tile whole: as many of a line as it has
    vectors, less one, where it lies in the tensor.
    """
    context, access, builder = tile.context, tile.access, tile.context.builder
    line, unit = tile.contiguous, tile.unit
    size, columns = source.element_bytes, tile.columns()
    last = access.view.shape[line] - unit
    goes_on = [builder.pure("setp.ne.s32", at, last) for at in columns]
    ahead = [_ahead(tile, shift) for shift in tile.shifts]
    words = tile.read(source, goes_on, fills=not is_inside)
    found = tile.moved(words, ahead, [_BYTES] * len(columns), tile.grain, False)
    guards: list[Scalar] = []
    for number, at in enumerate(columns):
        exists = goes_on[number]
        if not is_inside:
            end = builder.pure("mul.lo.s32", builder.pure("add.s32", at, unit), size)
            end = builder.pure("add.s32", end, ahead[number])
            exists = builder.pure("setp.le.s32", end, _line_bytes(access, line))
            exists = builder.both(exists, tile.exists(number))
        guards.append(builder.both(access.owner(), exists))
    places = access.addresses([access.offsets[first] for first in tile.firsts])
    moved = [
        Address(builder.total([place.base, builder.widen(each)], "s64"), place.immediate)
        for place, each in zip(places, ahead, strict=False)
    ]
    memory_op(context, ptx.StOp, "global.v4.b32", found, moved, guards=guards)


def _ahead(tile: UnalignedTile, shift: Scalar) -> Scalar:
    """Bytes from what begins so many behind aligned 16 bytes to the next ones."""
    builder = tile.context.builder
    return builder.pure("and.b32", builder.pure("sub.s32", 0, shift), _BYTES - 1)


def _line_bytes(access: TileAccess, line: int) -> Scalar:
    """Bytes of the tile's lines that lie in the tensor."""
    builder, view = access.context.builder, access.view
    extent = view.shape[line]
    if line not in access.bounded:
        return extent * view.element_bytes
    bound = view.bound(line)
    left = builder.pure("max.s32", builder.pure("min.s32", bound.limit, extent), 0)
    return builder.pure("mul.lo.s32", left, view.element_bytes)


@dataclass
class _Lines:
    """The ends of a tile's lines: in front of the first aligned vector, and behind the last."""

    context: Context
    source: View
    target: View
    groups: int

    def store_ends(self, is_inside: bool) -> None:
        """Store what no aligned vectors hold."""
        piece = self._piece(is_inside)
        tv, is_spare = self._layout(piece)
        rows = UnalignedTile(self.context, self.target, tv, elements=1)
        access = rows.access
        builder, line = self.context.builder, rows.contiguous
        total = self.target.shape[line] * self.target.element_bytes
        at = builder.pure("rem.u32", builder.thread_index(), _BYTES // piece)
        mine = builder.pure("mul.lo.s32", builder.assume_nonnegative(at), piece)
        to = access.addresses(access.offsets)
        read = TileAccess(self.context, self.source, tv)
        places = read.addresses(read.offsets)
        for number, (place, from_) in enumerate(zip(to, places, strict=True)):
            ahead = _ahead(rows, rows.shifts[number])
            is_in_front = builder.pure("setp.lt.s32", mine, ahead)
            guard = builder.both(is_spare, rows.exists(number) if not is_inside else True)
            if is_inside:
                behind = builder.pure("add.s32", mine, total - _BYTES)
                self._move(
                    place, from_, builder.pure("selp.b32", mine, behind, is_in_front), piece, guard
                )
                continue
            length = _line_bytes(access, line)
            exists = builder.pure("setp.lt.s32", mine, length)
            self._move(place, from_, mine, piece, builder.both(guard, is_in_front, exists))
            whole = builder.pure("and.b32", builder.pure("sub.s32", length, ahead), -_BYTES)
            start = builder.pure("add.s32", ahead, builder.pure("max.s32", whole, 0))
            behind = builder.pure("add.s32", start, mine)
            exists = builder.pure("setp.lt.s32", behind, length)
            self._move(place, from_, behind, piece, builder.both(guard, exists))

    def _piece(self, is_inside: bool) -> int:
        """Bytes of a piece: what divides where lines begin, and where the tensor ends them."""
        size = self.target.element_bytes
        _, line = self._modes
        whole = TileAccess(self.context, self.target, self._layout(size)[0])
        piece = min(_PIECE, whole.aligned_to)
        bound = self.target.bounds[line]
        if not is_inside and bound is not None and line in whole.bounded:
            piece = gcd(piece, bound.divisor * size)
        return max(piece, size)

    @property
    def _modes(self) -> tuple[int, int]:
        """The mode across lines, and the one along them."""
        line = self.target.leaf_modes[self.target.leaf_strides.index(1)]
        return 1 - line, line

    def _layout(self, piece: int) -> tuple[Layout, Scalar]:
        """Which thread has pieces of which lines, as a layout of the first elements of lines, and
        whether a thread is one of those that have some.
        """
        builder, groups = self.context.builder, self.groups
        other, _ = self._modes
        per, threads = _BYTES // piece, self.context.threads // groups
        lines = self.target.shape[other] // groups
        together = gcd(lines, threads // per)
        spare = threads // (per * together)
        step = 1 if other == 0 else self.target.shape[0]
        shape = ((per, together, spare, groups), (lines // together,))
        stride = ((0, step, 0, step * lines), (step * together,))
        is_mine: Scalar = True
        if spare > 1:
            place = builder.pure("rem.u32", builder.thread_index(), threads)
            is_mine = builder.pure("setp.lt.u32", place, per * together)
        return Layout(shape, stride), is_mine

    def _move(
        self, place: Address, from_: Address, offset: Scalar, piece: int, guard: Scalar
    ) -> None:
        """Copy a piece so many bytes behind the start of its line."""
        context, builder = self.context, self.context.builder
        cls = {1: "b16", 2: "b16", 4: "b32", 8: "b64"}[piece]
        array = context.registers(cls, 1)
        read = Address(builder.total([from_.base, offset]), from_.immediate)
        memory_op(context, ptx.LdOp, f"shared.b{8 * piece}", array, [read], guards=[guard])
        to = Address(builder.total([place.base, builder.widen(offset)], "s64"), place.immediate)
        memory_op(context, ptx.StOp, f"global.b{8 * piece}", array, [to], guards=[guard])
