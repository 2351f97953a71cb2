"""Shared-memory layouts of tiles: which swizzle leaves no bank conflict.

Rows of the contiguous mode are cut into blocks of 128, 64 or 32 bytes, the spans of the swizzles;
16-byte chunks of a row are permuted by the row's number (PTX ISA 5.5.6, byte addresses).

Where threads exchange a register tile for another layout of it, its lines may be some elements
longer instead, so that the fewest accesses of a warp fall into one bank. 32 banks of 4 bytes serve
a warp at a time; lanes that read or write the same word are served together, and accesses of 8 and
16 bytes by halves and quarters of a warp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from math import gcd

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue

from cutedialect.atoms import WARP_SIZE
from cutedialect.atoms.smem_layouts import SWIZZLE_32B
from cutedialect.dialects.cute import HELD, GemmOp, MemRefType, TransposeOp, memref_of
from cutedialect.layout import Layout, Swizzle, coalesce, composition, right_inverse
from cutedialect.passes.analysis.thread_layouts import modes_of

_SPAN = 128
# What the swizzles span.
_LINES = (128, 64, 32)
_CHUNK = 16
# Of what TMA writes in shared memory.
_ALIGNMENT = 128
_BANKS = 32
_WORD = 4
_WIDEST = 16
# Elements by which lines of what threads exchange may be longer, and accesses of a thread that are
# looked at.
_PADS = (1, 2, 4, 8)
_SEEN = 16
OPERAND = "operand"
"""The attribute of a buffer through which threads hand a register tile to multiplies."""
LEAST_LINE_BITS = 256
"""The shortest line of columns in which results are stored, a sector of memory."""
Staging = tuple[Layout, Swizzle | None, int]
"""Layout, swizzle of byte addresses, and alignment in bytes of a tile in shared memory."""


def staging_layout(
    shape: tuple[int, ...], contiguous: int | None, bits: int, *tvs: Layout
) -> Staging:
    """(layout, swizzle of byte addresses, alignment in bytes) of a tile in shared memory; where
    threads write or read it as `tvs` say, of blocks that none of their steps crosses.

    >>> layout, swizzle, alignment = staging_layout((128, 32), 1, 16)
    >>> print(layout, swizzle, alignment)
    (128,32):(32,1) S<2,4,3> 512
    >>> print(*staging_layout((128, 32), 0, 16))
    ((64,2),32):((1,2048),64) S<3,4,3> 1024
    >>> print(*staging_layout((64, 96), 1, 16))
    (64,(32,3)):(32,(1,2048)) S<2,4,3> 512
    >>> print(*staging_layout((2, 24), 1, 32))
    (2,24):(24,1) None 128
    >>> halves = Layout(((4, 8, 4, 2), (2, 2, 5)), ((128, 1, 16, 2560), (64, 8, 512)))
    >>> print(*staging_layout((64, 80), 1, 16, halves))
    (64,(8,10)):(8,(1,512)) None 128
    """
    mode = 0 if contiguous is None else contiguous
    if len(shape) == 1:
        return Layout(shape, (1,)), None, _CHUNK
    along, across = shape[mode], shape[1 - mode]
    row = along * bits // 8
    block = along
    if row > _SPAN or row & (row - 1):
        row = _line(row, across, bits, [_steps(tv, shape, mode) for tv in tvs])
        block = row * 8 // bits
    inner: object = along
    step: object = 1
    if block != along:
        inner, step = (block, along // block), (1, block * across)
    modes = (inner, across) if mode == 0 else (across, inner)
    strides = (step, block) if mode == 0 else (block, step)
    layout = Layout(modes, strides)
    chunks = row // _CHUNK
    if row % _CHUNK or chunks < 2 or chunks & (chunks - 1):
        return layout, None, _SPAN
    bits_swizzled = chunks.bit_length() - 1
    return layout, Swizzle(bits_swizzled, 4, 3), 1 << (bits_swizzled + 7)


def _line(
    row: int, across: int, bits: int, steps_of_copies: Sequence[Sequence[tuple[int, int]]]
) -> int:
    """Bytes of a line of the blocks of `across` rows, which no step of a copy crosses; those of a
    row where there is none.
    """
    # Blocks start where TMA may write (PTX ISA 5.5): few short lines stay in one row.
    lines = [line for line in _LINES if row % line == 0 and line * across % _ALIGNMENT == 0]
    if steps_of_copies and row % _CHUNK == 0:
        lines.append(_CHUNK)
    steps = [*chain(*steps_of_copies)]
    whole = (line for line in lines if all(_stays(line * 8 // bits, *step) for step in steps))
    return next(whole, row)


def operand_layout(
    shape: tuple[int, ...], contiguous: int | None, bits: int, unit: str, *tvs: Layout
) -> Staging:
    """`staging_layout` of an operand (rows, depth) that `unit` reads by descriptors: words of 32
    bits that are contiguous along the rows have the swizzle that tcgen05 wants for them.

    >>> print(*operand_layout((64, 16), 0, 32, "tcgen05"))
    ((32,2),16):((1,512),32) S<2,5,2> 1024
    >>> print(*operand_layout((64, 16), 1, 32, "tcgen05"))
    (64,16):(16,1) S<2,4,3> 512
    """
    width = _SPAN * 8 // bits
    if unit != "tcgen05" or contiguous != 0 or bits != 32 or shape[0] % width:
        return staging_layout(shape, contiguous, bits, *tvs)
    rows, depth = shape
    blocks = rows // width
    if blocks == 1:
        layout = Layout((width, depth), (1, width))
    else:
        layout = Layout(((width, blocks), depth), ((1, width * depth), width))
    return layout, SWIZZLE_32B, 8 * _SPAN


def with_fewest_turns(
    staging: Staging, shape: tuple[int, int], bits: int, tvs: Sequence[Layout]
) -> Staging:
    """The layout of a tile that threads read as `tvs` say, of those in which they take the fewest
    turns of the banks: half a warp has four words of 64 bits in a row, for which swizzles move
    units of 32 bytes instead of 16; where its rows are not neighbors, they lie in another order.

    >>> tile = (64, 16)
    >>> rows = Layout(((4, 8), (1, 8)), ((64, 1), (0, 8)))
    >>> print(*with_fewest_turns(staging_layout(tile, 1, 64), tile, 64, (rows,)))
    (64,16):(16,1) S<2,5,2> 1024
    >>> pairs = Layout(((4, 2, 4), (1, 2, 4)), ((64, 1, 4), (0, 2, 16)))
    >>> print(*with_fewest_turns(staging_layout(tile, 1, 64), tile, 64, (pairs,)))
    ((2,2,2,8),16):((16,64,32,128),1) S<2,5,2> 1024
    """
    layout, swizzle, alignment = staging
    if swizzle is None or swizzle.repeat < SWIZZLE_32B.repeat:
        return staging
    orders = (layout, *_with_rows_in_pairs(layout))
    choices = [staging, *((order, SWIZZLE_32B, alignment) for order in orders)]
    return min(choices, key=lambda choice: sum(_cycles(tv, shape, choice, bits // 8) for tv in tvs))


def in_half_lines(staging: Staging, shape: tuple[int, int], bits: int, tv: Layout) -> Staging:
    """The layout of a tile (rows, depth) in whole lines of 128 bytes, or in halves of such lines
    where threads that read it as `tv` says take fewer turns of the banks then: four lanes that have
    16 bytes each of a row beside those of the next row.

    >>> fragments = Layout(((4, 8, 4), (16, 2)), ((1024, 1, 16), (64, 8)))
    >>> print(*in_half_lines(staging_layout((64, 128), 1, 8), (64, 128), 8, fragments))
    (64,(64,2)):(64,(1,4096)) S<2,4,3> 512
    >>> pairs = Layout(((4, 8, 4), (2, 2)), ((128, 1, 16), (64, 8)))
    >>> print(*in_half_lines(staging_layout((64, 128), 1, 8), (64, 128), 8, pairs))
    (64,128):(128,1) S<3,4,3> 1024
    """
    rows, depth = shape
    half = _SPAN // 2 * 8 // bits
    if staging[1] is None or depth * bits // 8 % _SPAN:
        return staging
    lines = Layout((rows, (half, depth // half)), (half, (1, half * rows)))
    _, swizzle, alignment = staging_layout((rows, half), 1, bits)
    choices = (staging, (lines, swizzle, alignment))
    return min(choices, key=lambda choice: _cycles(tv, shape, choice, max(1, bits // 8)))


def _with_rows_in_pairs(layout: Layout) -> list[Layout]:
    """A layout (rows, depth) with the second and third bit of a row's number in turned places."""
    rows, depth = layout
    if isinstance(rows.shape, tuple) or not isinstance(rows.shape, int) or rows.shape % 8:
        return []
    step: int = rows.stride  # pyright: ignore[reportAssignmentType]
    shape = (2, 2, 2, rows.shape // 8)
    strides = (step, 4 * step, 2 * step, 8 * step)
    return [Layout((shape, depth.shape), (strides, depth.stride))]


def _steps(tv: Layout, shape: tuple[int, ...], mode: int) -> list[tuple[int, int]]:
    """(extent, step) of the modes of threads and values that move along a mode of a tile."""
    rows = shape[0]
    moved = [(extent, stride // rows if mode else stride % rows) for extent, stride in modes_of(tv)]
    return [(extent, step) for extent, step in moved if step]


def _stays(block: int, extent: int, step: int) -> bool:
    """Whether steps go from block to block, or stay inside of one until whole blocks are done."""
    if step % block == 0:
        return True
    room = block // step
    return block % step == 0 and (room % extent == 0 or extent % room == 0)


def with_order(layout: Layout, order: Layout) -> Layout:
    """A layout (rows, depth) in which element `order(i)` of each part of the depth, of the order's
    size, stands where element i did.

    >>> print(with_order(Layout((64, 64), (64, 1)), Layout((2, 2, 4, 2), (1, 8, 2, 16))))
    (64,(2,4,2,4)):(64,(1,4,2,16))
    """
    return in_order(layout, right_inverse(order))


def in_order(layout: Layout, order: Layout) -> Layout:
    """A layout (rows, depth) read along the depth in an order of each part of the order's size."""
    rows, depth = layout
    size = order.size()
    parts = Layout((order.shape, depth.size() // size), (order.stride, size))
    moved = coalesce(composition(depth, parts))
    return Layout((rows.shape, moved.shape), (rows.stride, moved.stride))


def columns_at_once(columns: int, *bits: int, divides: bool = True) -> int:
    """Columns of results that go through shared memory together, of which an element each has so
    many bits: all of them fill the widest line, or the half or quarter of it that divides them; all
    columns where nothing does. Where parts need not divide the columns, they fill it if there are
    as many columns (to TMA a line of 128 bytes is as much work as one of 32), and if tiles, and so
    the last parts of them, begin at multiples of 16 bytes, as TMA wants them.

    >>> columns_at_once(256, 16), columns_at_once(160, 16), columns_at_once(8, 16)
    (64, 32, 8)
    >>> columns_at_once(160, 16, divides=False), columns_at_once(48, 16, divides=False)
    (64, 32)
    >>> columns_at_once(48, 8, divides=False), columns_at_once(24, 8, divides=False)
    (32, 24)
    >>> columns_at_once(256, 16, 32), columns_at_once(256, 32, 32, 8)
    (16, 16)
    """
    divides = divides or columns * min(bits) % (8 * _CHUNK) != 0
    chunk = 1
    while 2 * chunk * sum(bits) <= _SPAN * 8:
        chunk *= 2
    # TMA moves lines of 16 bytes or more; of one result alone, a sector of memory.
    least = max(1, (2 if len(bits) == 1 else 1) * _CHUNK * 8 // min(bits))
    chunk = max(chunk, least)
    while columns % chunk if divides else columns < chunk:
        chunk //= 2
    return chunk if chunk >= least else columns


@lru_cache(maxsize=256)
def exchange_layout(have: Layout, want: Layout, shape: tuple[int, int], bits: int) -> Staging:
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

    def cycles(choice: Staging) -> float:
        return sum(_cycles(tv, shape, choice, size) for tv in (have, want))

    return min(choices, key=cycles)


def _cycles(tv: Layout, shape: tuple[int, int], buffer: Staging, size: int) -> float:
    """Turns of the banks for each element of a thread of the first warp, at 32 lanes."""
    layout, swizzle, alignment = buffer
    lanes = tv[0].offsets()[:WARP_SIZE]
    values = tv[1].offsets()
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


def is_held(memory: Attribute, multiplied: Attribute) -> bool:
    """Whether bytes in memory hold elements of 6 bits that are multiplied."""
    return isinstance(memory, IntegerType) and multiplied in HELD.values()


def held_type(op: GemmOp, value: SSAValue) -> MemRefType:
    """The type of a tile in memory in the elements that its bytes hold; of others its own."""
    type_ = memref_of(value)
    element = op.held_element(value)
    if element is None:
        return type_
    rows, _ = type_.modes
    layout = Layout((rows, op.depth), type_.layout.stride)
    return MemRefType.get(element, type_.space, type_.alignment, layout, type_.swizzle)


def parts_of_rows(shape: tuple[int, ...], parts: int, is_turned: bool) -> tuple[Layout, ...]:
    """Where equal parts of the rows of an operand start, one for each warpgroup; rows are the
    second mode of an operand whose tile `is_turned`.
    """
    if parts == 1 or len(shape) != 2:
        return ()
    step = shape[0] * (shape[1] // parts) if is_turned else shape[0] // parts
    return (Layout((parts, 1), (step, 0)),)


def untransposed(tile: SSAValue) -> tuple[SSAValue, bool]:
    """The tile that another one is a transpose of, and whether it is: two transposes are none."""
    is_turned = False
    while isinstance(tile.owner, TransposeOp):
        tile, is_turned = tile.owner.source, not is_turned
    return tile, is_turned
