"""Tiles of bytes or words transposed within shared memory, for tensor cores that read
8-bit and tf32 operands with a contiguous depth alone (PTX ISA 9.7.15.5).

Transposed `ldmatrix` gives lane 4g+q the bytes (2q, 2g), (2q, 2g+1), (2q+1, 2g), (2q+1, 2g+1) of
eight rows of 16 bytes. Of two such registers `prmt` makes one for row 2g of the transposed tile and
one for row 2g+1, with four bytes each that follow one another, as `stmatrix` writes them. So that
the eight rows of a matrix lie in different banks, the lanes of its second half have the rows of the
other matrix of a pair, which costs but another choice of bytes.

Of words each thread takes blocks of 4 by 4: it loads vectors along one mode, and stores the same
registers as vectors along the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import gcd

from xdsl.ir import Operation, SSAValue

from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects import ptx
from cutedialect.layout import Layout

from .addresses import Address, ByteDigit, meet, memory_op, shared_addresses, xor_addresses
from .context import Context
from .memory_copies import copy_part
from .scalar_builder import Scalar
from .views import View, subview

_CHUNK = 16
# Bytes of a word, and words along a side of a thread's block.
_WORD = 4
_SIDE = 4
# What one pair of instructions moves: 16 rows, and two chunks of the depth.
_DEPTH = 2 * _CHUNK
# Matrices that a thread holds before it writes them: enough to hide the latency of shared memory.
_AT_ONCE = 4
# Bytes 0 and 2, or 1 and 3, of two registers, or of the second and the first.
_EVEN, _ODD = (0x6420, 0x2064), (0x7531, 0x3175)
_BANK_ROWS = 8
_TRANSPOSED = "sync.aligned.m8n8.x4.trans.shared.b16"
_AS_THEY_ARE = "sync.aligned.m8n8.x4.shared.b16"


def transpose_copy(context: Context, op: Operation, source: View, target: View) -> None:
    """Copy a tile (rows, depth) with contiguous rows to one with contiguous depth, of bytes in any
    order of the depth within its chunks of 16 bytes. The role's warps share the work.
    """
    if source.element_bytes == _WORD:
        _transpose_words(context, source, target)
        return
    tile = _Tile(op, source, target)
    warps = context.threads // WARP_SIZE
    split = _split(tile, warps)
    if split is None:
        raise ValueError(
            f"expected a tile that {warps} warps divide into 16 rows by 32 of the depth, got "
            f"{source.shape}",
        )
    (reads, read_step), (writes, write_step) = split
    read_digits = [*tile.read_digits, (WARP_SIZE, warps, read_step)]
    write_digits = [*tile.write_digits, (WARP_SIZE, warps, write_step)]
    read_at = _addresses(context, source, read_digits, reads, tile.crosses)
    write_at = _addresses(context, target, write_digits, writes, True)
    choices = _choices(context, tile.crosses)
    for first in range(0, len(reads), _AT_ONCE):
        count = len(reads[first : first + _AT_ONCE])
        part = slice(first, first + count)
        loaded, moved = (context.registers("b32", 4 * count) for _ in range(2))
        memory_op(context, ptx.LdMatrixOp, _TRANSPOSED, loaded, read_at[part])
        pairs = range(2 * count)

        def regroup(args: list[SSAValue]) -> list[Scalar]:
            return [context.builder.pure("prmt.b32", *args, choice) for choice in choices]

        sources, targets = (
            [(array, [2 * i + each for i in pairs]) for each in range(2)]
            for array in (loaded, moved)
        )
        context.foreach(len(pairs), sources, targets, regroup)
        memory_op(context, ptx.StMatrixOp, _AS_THEY_ARE, moved, write_at[part])


def _transpose_words(context: Context, source: View, target: View) -> None:
    """In parts of which a thread has one block. Eight lanes, which move vectors together, have two
    blocks of the rows beside each other and four of the depth, whose vectors are written to
    different banks, and are read from each twice.
    """
    rows, depth = source.shape
    high = gcd(rows // _SIDE, max(2, context.threads * _SIDE // depth))
    along = depth // _SIDE
    lanes = gcd(high, 2), gcd(along, 4)
    extent = high * _SIDE
    steps = (_SIDE, _SIDE * extent)
    threads = (
        (lanes[0], steps[0]),
        (lanes[1], steps[1]),
        (high // lanes[0], lanes[0] * steps[0]),
        (along // lanes[1], lanes[1] * steps[1]),
    )
    tv = Layout(
        (tuple(e for e, _ in threads), (_SIDE, _SIDE)), (tuple(s for _, s in threads), (1, extent))
    )
    for first in range(0, rows, extent):
        read, written = (
            subview(context.builder, view, (first, 0), (extent, depth)) for view in (source, target)
        )
        copy_part(context, read, written, tv, _CHUNK, is_inside=True)


def _choices(context: Context, crosses: bool) -> list[Scalar]:
    """What `prmt` takes for the two registers that are written, by what a lane has read and what it
    writes.
    """
    builder = context.builder
    thread = builder.thread_index()

    def one_of(low: Scalar, high: Scalar, bit: int) -> Scalar:
        is_high = builder.pure("setp.ne.s32", builder.pure("and.b32", thread, bit), 0)
        return builder.pure("selp.b32", high, low, is_high)

    even, odd = (one_of(*each, 2) if crosses else each[0] for each in (_EVEN, _ODD))
    return [one_of(even, odd, 16), one_of(odd, even, 16)]


def _addresses(
    context: Context,
    view: View,
    digits: Sequence[ByteDigit],
    constants: Sequence[int],
    crosses: bool,
) -> list[Address]:
    """Of matrices; where lanes cross, with the second halves of a pair's rows exchanged."""
    builder = context.builder
    outer = builder.thread
    if crosses:
        thread = builder.thread_index()
        other = builder.pure("shl.b32", builder.pure("and.b32", thread, 4), 1)
        builder.thread = builder.assume_nonnegative(builder.pure("xor.b32", thread, other))
    is_sum = view.swizzle is None or meet(digits, constants, view.swizzle.repeat)
    addresses = shared_addresses if is_sum else xor_addresses
    found = addresses(builder, view, digits, constants, context.threads)
    builder.thread = outer
    return found


class _Tile:
    """Byte offsets of both sides, before their swizzles, and what lanes add to them."""

    def __init__(self, op: Operation, source: View, target: View) -> None:
        read_type, write_type = (value.type for value in op.operands[:2])
        self.rows, self.depth = source.shape
        self.read_row, self.read_depth = (_offsets(part) for part in read_type.layout)
        self.write_row, self.write_depth = (_offsets(part) for part in write_type.layout)
        order = sorted(range(self.depth), key=self.write_depth.__getitem__)
        self.chunks = [order[i : i + _CHUNK] for i in range(0, self.depth, _CHUNK)]
        if self.rows % _CHUNK or self.depth % _DEPTH or not self._is_regular():
            raise ValueError(
                "expected rows in lines of 16 bytes, and the depth in chunks of 16 bytes that are "
                f"all in one order, got {read_type.layout} and {write_type.layout}",
            )
        at = self.read_depth
        chunk = self.chunks[0]
        # Rows of one matrix, which lie in different banks unless two are a multiple of 8 apart.
        together = {chunk[place] % _BANK_ROWS for place in (0, 1, 4, 5, 8, 9, 12, 13)}
        self.crosses = len(together) < _BANK_ROWS
        step = [at[chunk[place]] for place in (1, 4, 8, 2)]
        self.read_digits = [(1 << i, 2, each) for i, each in enumerate(step)]
        self.read_digits.append((16, 2, at[self.chunks[1][0]]))
        pitch = self.write_row[1]
        self.write_digits = [
            (1, 8, 2 * pitch),
            (8, 2, pitch),
            (16, 2, self.write_depth[self.chunks[1][0]]),
        ]

    def _is_regular(self) -> bool:
        return self._has_like_chunks() and self._has_regular_rows()

    def _has_like_chunks(self) -> bool:
        """Whether all chunks are in the order of the first, which bits of a number give, are
        written one byte behind the other, and lie at one distance.
        """
        first = self.chunks[0]
        bits = [1 << i for i in range(4)]
        starts = (
            [[at[chunk[0]] for chunk in self.chunks[i::2]] for i in range(2)]
            for at in (self.read_depth, self.write_depth)
        )
        return (
            all(first[p] == sum(first[bit] for bit in bits if p & bit) for p in range(_CHUNK))
            and all([k - chunk[0] for k in chunk] == first for chunk in self.chunks)
            and all(
                self.write_depth[chunk[p]] == self.write_depth[chunk[0]] + p
                for chunk in self.chunks
                for p in range(_CHUNK)
            )
            and _is_linear(*starts)
        )

    def _has_regular_rows(self) -> bool:
        """Whether rows are read in lines, and written, and depths read, at one distance."""
        return (
            all(
                self.read_row[n] == self.read_row[n - n % _CHUNK] + n % _CHUNK
                for n in range(self.rows)
            )
            and all(at == n * self.write_row[1] for n, at in enumerate(self.write_row))
            and all(at == k * self.read_depth[1] for k, at in enumerate(self.read_depth))
        )


def _offsets(part: Callable[[int], int]) -> list[int]:
    return [part(i) for i in range(part.size())]  # type: ignore[attr-defined]


def _split(tile: _Tile, warps: int) -> list[tuple[list[int], int]] | None:
    """A way to share the work: for each side the offsets that the first warp starts at, and how far
    behind these each next warp's are.
    """
    depths = [chunk[0] for chunk in tile.chunks[::2]]
    rows = range(0, tile.rows, _CHUNK)
    for along_depth in (True, False):
        if len(depths if along_depth else rows) % warps:
            continue
        sides = [
            [
                [
                    row[n] + depth[k]
                    for n in (rows if along_depth else rows[warp::warps])
                    for k in (depths[warp::warps] if along_depth else depths)
                ]
                for warp in range(warps)
            ]
            for row, depth in (
                (tile.read_row, tile.read_depth),
                (tile.write_row, tile.write_depth),
            )
        ]
        if _is_linear(*sides):
            return [(side[0], (side[-1][0] - side[0][0]) // max(1, warps - 1)) for side in sides]
    return None


def _is_linear(*sides: list[list[int]]) -> bool:
    """Whether on each side the offsets of every warp are those of the one before plus a step."""
    return all(
        mine[i] - before[i] == side[1][0] - side[0][0]
        for side in sides
        for before, mine in pairwise(side)
        for i in range(len(mine))
    )
