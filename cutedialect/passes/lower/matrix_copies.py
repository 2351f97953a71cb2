"""`ldmatrix` and `stmatrix`: between shared memory and the fragments of MMA operands. A fragment's
own thread-value layout says which lane holds what; the rows that lanes supply follow from it, and
a layout that the instruction cannot produce is an error.

Transposed `ldmatrix` gives lane 4g+q the bytes (2q, 2g), (2q, 2g+1), (2q+1, 2g), (2q+1, 2g+1) of
eight rows of 16 bytes. Of two such registers `prmt` makes one for row 2g of the transposed tile and
one for row 2g+1, with four bytes each that follow one another, as `stmatrix` writes them. So that
the eight rows of a matrix lie in different banks, the lanes of its second half have the rows of the
other matrix of a pair, which costs but another choice of bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise

from xdsl.ir import Operation, SSAValue

from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects import ptx
from cutedialect.dialects.cute import FragmentType
from cutedialect.dialects.cute_nvgpu import LdsmType, MatrixCopyType
from cutedialect.passes.analysis.coordinates import split_digits, thread_value

from .addresses import (
    Address,
    ByteDigit,
    byte_digits,
    granularity,
    lane_offset,
    meet,
    memory_op,
    shared_addresses,
    value_offsets,
    xor_addresses,
)
from .context import Context
from .scalar_builder import Scalar
from .views import View

_CHUNK = 16
# What one pair of instructions moves: 16 rows, and two chunks of the depth.
_DEPTH = 2 * _CHUNK
# Matrices that a thread holds before it writes them: enough to hide the latency of shared memory.
_AT_ONCE = 4
# Bytes 0 and 2, or 1 and 3, of two registers, or of the second and the first.
_EVEN, _ODD = (0x6420, 0x2064), (0x7531, 0x3175)
_BANK_ROWS = 8
_TRANSPOSED = "sync.aligned.m8n8.x4.trans.shared.b16"
_AS_THEY_ARE = "sync.aligned.m8n8.x4.shared.b16"


def move_matrices(
    context: Context,
    view: View,
    array: SSAValue,
    type_: FragmentType,
    atom: MatrixCopyType,
) -> None:
    """Fill a fragment from a shared tile: lane 4g+q gets a piece of row or column g (`ldmatrix`);
    or the reverse (`stmatrix`).
    """
    instruction = ptx.LdMatrixOp if isinstance(atom, LdsmType) else ptx.StMatrixOp
    layout = thread_value(type_.tv, view.leaf_shape)
    size = view.element_bytes
    pack = 4 // size if size <= 4 else 0
    if pack == 0 or (atom.transpose and size != 2):
        raise ValueError(
            f"expected {'16-bit' if atom.transpose else '8-, 16- or 32-bit'} elements for "
            f"{atom}, got {view.element}",
        )
    digits = byte_digits(view, split_digits(layout.threads, (4, 32)))
    offsets = [each.static * size for each in value_offsets(view, layout.value_coords())]
    registers = [offsets[v] for v in range(0, len(offsets), pack)]
    lanes = [lane_offset(digits, lane) for lane in range(32)]
    if atom.transpose:
        rows = _transposed_rows(digits, lanes, offsets)
    else:
        rows = _plain_rows(digits, lanes, offsets, pack, size)
    grain = granularity(view, (), ())
    steps = [*(weight for _, _, weight in rows), *registers]
    if grain % 16 or any(step % 16 for step in steps):
        raise ValueError(
            f"expected rows aligned to 16 bytes for {atom}, got {view.shape} tile rows"
        )
    chosen = _register_bits(registers)[: {1: 0, 2: 1, 4: 2}[atom.num_matrices]]
    extra = [(8 << i, 2, step) for i, (_, step) in enumerate(chosen)]
    groups = _groups_of(len(registers), [stride for stride, _ in chosen])
    starts = [registers[group[0]] for group in groups]
    addresses = shared_addresses(context.builder, view, rows + extra, starts, context.threads)
    form = ".trans" if atom.transpose else ""
    modifiers = f"sync.aligned.m8n8.x{1 << len(chosen)}{form}.shared.b16"
    memory_op(context, instruction, modifiers, array, addresses, list(chain(*groups)))


def _groups_of(count: int, strides: Sequence[int]) -> list[list[int]]:
    """Register numbers up to `count`, in groups of those that one instruction fills: each stride
    leads from one half of a group to the other.
    """
    firsts = [
        number for number in range(count) if not any(number // stride % 2 for stride in strides)
    ]
    offsets = [
        sum(stride for place, stride in enumerate(strides) if member >> place & 1)
        for member in range(1 << len(strides))
    ]
    return [[first + offset for offset in offsets] for first in firsts]


def _plain_rows(
    digits: list[ByteDigit],
    lanes: list[int],
    offsets: list[int],
    pack: int,
    size: int,
) -> list[ByteDigit]:
    """Lane L supplies the row that lanes 4(L%8) .. 4(L%8)+3 hold."""
    if any(lanes[lane] != lanes[lane & ~3] + 4 * (lane & 3) for lane in range(32)) or any(
        offsets[v] != offsets[v - v % pack] + v % pack * size for v in range(len(offsets))
    ):
        raise ValueError(
            "expected four neighboring lanes to hold 16 bytes in a row for ldmatrix, "
            f"got lane offsets {lanes[:5]} and value offsets {offsets[: pack + 1]}",
        )
    return [
        (divisor // 4, extent, weight) if divisor < 32 else (divisor, extent, weight)
        for divisor, extent, weight in digits
        if divisor >= 4
    ]


def _transposed_rows(
    digits: list[ByteDigit], lanes: list[int], offsets: list[int]
) -> list[ByteDigit]:
    """Lane L supplies the row with element i = L%2 of the lanes q = L/2%4."""
    pair = offsets[1] - offsets[0]
    if any(lanes[lane] != lanes[lane & 3] + 2 * (lane >> 2) for lane in range(32)) or any(
        offsets[v] != offsets[v - 1] + pair for v in range(1, len(offsets), 2)
    ):
        raise ValueError(
            "expected the eight lanes 4g to hold 16 bytes in a row for transposed ldmatrix, "
            f"got lane offsets {lanes[::4]} and value offsets {offsets[:2]}",
        )
    rows = [(1, 2, pair)]
    for divisor, extent, weight in digits:
        if divisor < 4:
            rows.append((divisor * 2, extent, weight))
        elif divisor >= 32:
            rows.append((divisor, extent, weight))
    return rows


def _register_bits(registers: list[int]) -> list[tuple[int, int]]:
    """(stride, byte step) of the powers of two of a register index with linear addresses."""
    result = []
    stride, count = 1, len(registers)
    while stride < count and count % (2 * stride) == 0:
        step = registers[stride] - registers[0]
        if all(
            registers[r + stride] == registers[r] + step
            for r in range(count)
            if not (r // stride) % 2
        ):
            result.append((stride, step))
        stride *= 2
    return result


class TransposedBytes:
    """A tile of bytes (rows, depth) with contiguous rows, and one with contiguous depth, of bytes
    in any order of the depth within its chunks of 16 bytes, as matrices that the warps of a role
    share.

    Raises `ValueError` where so many warps do not divide it into 16 rows by 32 of the depth.
    """

    def __init__(self, context: Context, op: Operation, source: View, target: View) -> None:
        tile = _ByteTile(op, source, target)
        warps = context.threads // WARP_SIZE
        split = _split(tile, warps)
        if split is None:
            raise ValueError(
                f"expected a tile that {warps} warps divide into 16 rows by 32 of the depth, got "
                f"{source.shape}",
            )
        self.context = context
        (reads, read_step), (writes, write_step) = split
        read_digits = [*tile.read_digits, (WARP_SIZE, warps, read_step)]
        write_digits = [*tile.write_digits, (WARP_SIZE, warps, write_step)]
        self.read_at = _crossed(context, source, read_digits, reads, tile.crosses)
        self.write_at = _crossed(context, target, write_digits, writes, True)
        self.choices = _choices(context, tile.crosses)

    def parts(self) -> Iterator[slice]:
        """The matrices that a thread reads before it writes them."""
        for first in range(0, len(self.read_at), _AT_ONCE):
            yield slice(first, first + _AT_ONCE)

    def read(self, part: slice) -> SSAValue:
        """Four registers of each matrix."""
        places = self.read_at[part]
        loaded = self.context.registers("b32", 4 * len(places))
        memory_op(self.context, ptx.LdMatrixOp, _TRANSPOSED, loaded, places)
        return loaded

    def regrouped(self, loaded: SSAValue) -> SSAValue:
        """The same registers with the bytes of rows of the transposed tile."""
        context = self.context
        count: int = loaded.type.count  # type: ignore[union-attr]
        moved = context.registers("b32", count)
        pairs = range(count // 2)

        def regroup(args: list[SSAValue]) -> list[Scalar]:
            return [context.builder.pure("prmt.b32", *args, choice) for choice in self.choices]

        sources, targets = (
            [(array, [2 * i + each for i in pairs]) for each in range(2)]
            for array in (loaded, moved)
        )
        context.foreach(len(pairs), sources, targets, regroup)
        return moved

    def write(self, part: slice, moved: SSAValue) -> None:
        """Write the matrices."""
        memory_op(self.context, ptx.StMatrixOp, _AS_THEY_ARE, moved, self.write_at[part])


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


def _crossed(
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


class _ByteTile:
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


def _split(tile: _ByteTile, warps: int) -> list[tuple[list[int], int]] | None:
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
