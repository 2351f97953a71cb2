"""How a program without a multiply is bound, from the ops that it has: what it moves at a time
(`choosing/stream_space.py` chooses warps and CTAs for that), in what order work items follow each
other, and how many CTAs share a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import log, prod
from typing import Literal

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.atoms import WARP_SIZE, target
from cutedialect.choosing.choose import choose
from cutedialect.choosing.stream_space import (
    MOST_ROW_WARPS,
    STREAMS,
    VECTOR_BITS,
    VECTORS,
    Stream,
    few_warps,
)
from cutedialect.dialects import cute
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.analysis.layout_inference import MemoryVectors, contiguous_mode
from cutedialect.passes.tile.pad_tiles import vector_elements
from cutedialect.passes.tile.resized_tiles import kept_modes, moved_by, size_of
from cutedialect.schedule import Schedule

# Elements of a row that is reduced up to which a CTA takes it whole, since an SM holds two of them;
# of a longer one the CTAs of a cluster load so many bytes each, as far as clusters are portable.
_WHOLE_ROW = 16384
_PART_BYTES = (5 << 10, 20 << 10)
_BEST_BYTES = 12 << 10
_MOST_PARTS = 8
# Elements of a part are a multiple of this: vectors of 16 bytes of any type begin there.
_UNIT = 16
# As many elements as all lanes have a vector of, and how much longer than the row parts may be.
_MOST_UNIT = 2048
_MORE = 1.06
# What of a part's rate is left where it hides what lies behind the row, and which shares of busy
# lanes count as one.
_HIDDEN = 0.9
_ALIKE = 0.02
RUN_THREADS = 256
"""Threads of a CTA that goes through a matrix as one row; an SM holds as many as it can."""
# The share of a tile's registers that is live where it is computed vector by vector.
_PASSING = 0.25


def is_common(view: SSAValue) -> bool:
    """Whether a tile of memory is the same for all work items (or for all CTAs of one rank of those
    that share them), so that L2 has it.
    """
    tile = cute.tile_behind(view)
    return tile is not None and all(
        isinstance(coord.owner, arith.ConstantOp | cute.ClusterRankOp) for coord in tile.coords
    )


def residence_of(kernel: cute.KernelOp, given: Schedule, arch: str) -> Schedule:
    """The warps of a kernel and the CTAs of an SM, of which some may be given."""
    index = next(iter(ops_of(kernel, cute.TileIndexOp)), None)
    if index is not None and index.run is not None:
        warps, ctas = RUN_THREADS // WARP_SIZE, target(arch).max_threads_per_sm // RUN_THREADS
        return Schedule(warps=(warps, 1), ctas=None if given.warps else ctas)
    stream = stream_of(kernel, arch)
    if stream is None:
        return Schedule(warps=(4, 1), ctas=None if given.warps else 1)
    return choose(STREAMS, stream, Schedule(warps=given.warps, ctas=given.ctas))


def parts_of_rows(kernel: cute.KernelOp, row: int) -> int:
    """How many CTAs of a cluster are to share the rows of a kernel, which reduces so many elements
    of each.
    """
    widest = max(map(_bits, _loads(ops_of(kernel, cute.LoadOp), row)), default=16)
    # Rows that all work items load alike, and rows that nobody loads, are stored at least.
    bits = max(_loaded(block, row) for block in _blocks(kernel)) or widest
    return parts_for(row, bits, widest)


def parts_for(row: int, bits: int, widest: int = 16) -> int:
    """How many CTAs of a cluster are to share rows of so many elements, of each of which so many
    bits are loaded, of the widest tensor so many.

    Of the numbers that leave each about as many bytes, the one whose parts leave the fewest lanes
    idle, and are equal if any are: what lies behind the end of a row is hidden from reductions.

    >>> [parts_for(row, 16) for row in (1000, 16384, 20480, 32768, 131072)]
    [1, 1, 5, 4, 8]
    >>> [parts_for(row, 16) for row in (21016, 22224, 26880, 28896)]
    [7, 3, 7, 6]
    >>> [parts_for(row, 32, 32) for row in (16384, 20480, 32768)]
    [1, 5, 8]
    """
    if row <= _WHOLE_ROW:
        return 1
    least, most = (row * bits / (8 * each) for each in _PART_BYTES[::-1])
    numbers = [n for n in range(2, _MOST_PARTS + 1) if least <= n <= most] or [_MOST_PARTS]

    def busy(parts: int) -> float:
        part = part_of(row, parts)
        vectors = -(-part * widest // VECTOR_BITS)
        warps = few_warps(vectors / (WARP_SIZE * VECTORS), reduces=True)
        lanes = WARP_SIZE * min(warps, MOST_ROW_WARPS)
        share = vectors / (-(-vectors // lanes) * lanes) * row / (parts * part)
        return share if part * parts == row else _HIDDEN * share

    def distance(parts: int) -> float:
        return abs(log(row * bits / (8 * parts) / _BEST_BYTES))

    best = max(map(busy, numbers))
    return min((n for n in numbers if busy(n) >= best - _ALIKE), key=distance)


def part_of(row: int, parts: int) -> int:
    """The elements of a part: equal parts where there are such, so that no reduction has to look
    for the end of the row; else as many as lanes share evenly, where the last part is not much
    shorter for it.

    >>> [part_of(32768, 4), part_of(18944, 4), part_of(23416, 4), part_of(27583, 4)]
    [8192, 4736, 6144, 7168]
    >>> part_of(300, 4)
    80
    """
    if row % (parts * _UNIT) == 0:
        return row // parts
    unit = _MOST_UNIT
    while unit > _UNIT and -(-row // (parts * unit)) * parts * unit > _MORE * row:
        unit //= 2
    return -(-row // (parts * unit)) * unit


def order_of_stores(kernel: cute.KernelOp) -> Literal["tall", "short", "memory"] | None:
    """How work items follow each other where the tiles that they store lie beside each other in
    memory along the last mode but one, and none along the last: those of a transpose; and where
    more modes than one have tiles apart, such as heads and tokens, of which either may be nearer.

    Along what is stored where vectors are whole both ways. Else, what two tiles write of a sector
    meets in L2 in either order, and what is read and what is written lie together if the side with
    fewer tiles comes first.
    """
    index = next(iter(ops_of(kernel, cute.TileIndexOp)), None)
    if index is None or len(index.results) < 2:
        return None
    along: set[SSAValue] = set()
    for op in ops_of(kernel, cute.CopyOp, cute.AtomicOp):
        if isinstance(op.destination.type, cute.MemRefType):
            view, mode = op.destination, contiguous_mode(op.destination.type)
            while isinstance(view.owner, cute.TransposeOp) and mode is not None:
                view, mode = view.owner.source, 1 - mode
            if isinstance(view.owner, cute.LocalTileOp) and mode is not None:
                # A work item's place in a tensor, without the modes of one element that it drops.
                kept = kept_modes(view.owner)
                if len(kept) > 1:
                    along.add(view.owner.coords[kept[mode]])
    if index.results[-2] in along and index.results[-1] not in along:
        return "tall" if _largest_block(kernel) else "short"
    type_ = index.memref.type
    nearest = contiguous_mode(type_) if isinstance(type_, cute.MemRefType) else None
    apart = [mode for mode, extent in enumerate(index.tile.get_values()) if extent >= 0]
    return "memory" if nearest is not None and len({*apart} - {nearest}) > 1 else None


def registers_of_tile(block: Block, size: int) -> float:
    """Registers that a block's tiles of so many elements take where most are live, with those that
    all work items load alike.
    """
    return (_live(block, size) + _common(block.ops, size)) * size


def stream_of(kernel: cute.KernelOp, arch: str) -> Stream | None:
    """What a kernel moves; None where it moves no tile."""
    moved = [type_ for op in walk(kernel) for type_ in moved_by(op)]
    if not moved:
        return None
    largest = max(moved, key=lambda type_: prod(type_.shape))
    size = prod(largest.shape)
    whole = [type_ for type_ in moved if prod(type_.shape) == size]
    contiguous, widest = contiguous_mode(largest), max(type_.bits for type_ in whole)
    blocks = list(_blocks(kernel))
    # What is sorted may be longer than what is loaded: as long as a power of two.
    sorts = [[cute.fragment_of(tile) for tile in op.tiles] for op in ops_of(kernel, cute.SortOp)]
    shapes = [tiles[0].shape for tiles in sorts]
    rows, columns = map(max, zip((*largest.shape, 1)[:2], *shapes, strict=True))
    return Stream(
        (rows, columns),
        1 if contiguous is None else contiguous,
        widest,
        max(_loaded(block, size) for block in blocks),
        max(_live(block, size) for block in blocks),
        frozenset(op.mode.value.data for block in blocks for op in _reductions(block, size)),
        _block(kernel, size),
        _common(ops_of(kernel, cute.LoadOp), size),
        min(vector_elements(type_, contiguous or 0, widest) for type_ in whole),
        bool(ops_of(kernel, cute.ClusterRankOp)),
        arch,
        max(_stored(kernel, size), default=0),
        any(size_of(op.source) < size for op in ops_of(kernel, cute.ReduceOp)),
        max((sum(tile.bits for tile in tiles) for tiles in sorts), default=0),
    )


def _stored(kernel: cute.KernelOp, size: int) -> Iterator[int]:
    """Bits of an element of each whole tile that a kernel stores."""
    for op in ops_of(kernel, cute.CopyOp):
        type_ = op.destination.type
        if isinstance(type_, cute.MemRefType) and prod(type_.shape) == size:
            yield type_.bits


def _blocks(kernel: cute.KernelOp) -> Iterator[Block]:
    """The kernel's block, and those of its loops and branches."""
    yield kernel.body.block
    for op in walk(kernel):
        if isinstance(op, scf.ForOp | scf.IfOp | scf.WhileOp):
            for region in op.regions:
                yield from region.blocks


def _reductions(block: Block, size: int) -> list[cute.ReduceOp | cute.ScanOp | cute.SortOp]:
    """The reductions, scans and sorts of whole tiles in a block. Lines are sorted as ones of the
    next power of two.
    """
    return [
        op
        for op in block.ops
        if (isinstance(op, cute.ReduceOp | cute.ScanOp) and size_of(op.source) == size)
        or (isinstance(op, cute.SortOp) and size_of(op.source) >= size)
    ]


def _loads(ops: Iterable[Operation], size: int) -> list[cute.LoadOp]:
    """The loads of whole tiles among some ops."""
    return [op for op in ops if isinstance(op, cute.LoadOp) and size_of(op.result) == size]


def _bits(op: cute.LoadOp) -> int:
    return cute.fragment_of(op.result).bits


def _loaded(block: Block, size: int) -> int:
    """Bits of each element that the loads of a block bring in which wait for memory."""
    return sum(_bits(op) for op in _loads(block.ops, size) if not is_common(op.source))


def _common(ops: Iterable[Operation], size: int) -> float:
    """Registers of each element of what all work items load alike."""
    return sum(_bits(op) / 32 for op in _loads(ops, size) if is_common(op.source))


def _live(block: Block, size: int) -> float:
    """Registers for each element of the tile where most of them are live in a block."""
    order = {op: at for at, op in enumerate(block.ops)}
    last: dict[SSAValue, Operation] = {}
    for op in block.ops:
        for inner in walk(op):
            for value in inner.operands:
                last[value] = op
    reduces = bool(_reductions(block, size))

    def taken(value: SSAValue) -> float:
        if size_of(value) != size:
            return 0.0
        made = value.owner
        if reduces and isinstance(made, cute.LoadOp) and is_common(made.source):
            return 0.0
        bits = max(cute.fragment_of(value).bits, 8)
        readers = {use.operation for use in value.uses}
        passes = isinstance(made, cute.MapOp) and all(
            isinstance(each, cute.ReduceOp | cute.CopyOp) for each in readers
        )
        return (_PASSING if passes and reduces else 1.0) * bits / 32

    ends: dict[Operation, float] = {}
    for value, op in last.items():
        ends[op] = ends.get(op, 0.0) + taken(value)
    now = most = sum(taken(value) for value in last if value.owner not in order)
    for op in block.ops:
        now += sum(taken(value) for value in op.results)
        most = max(most, now)
        now -= ends.get(op, 0.0) + sum(taken(each) for each in op.results if each not in last)
    return most


def _block(kernel: cute.KernelOp, size: int) -> int:
    """Elements of a thread's block of a tile that is contiguous along either mode somewhere."""
    ops = list(walk(kernel.body.block))
    vectors = MemoryVectors(ops)
    found = (vectors.block(op.result, _bits(op)) for op in _loads(ops, size))
    return next((prod(block) for block in found if block is not None), 0)


def _largest_block(kernel: cute.KernelOp) -> int:
    """The same of the largest tile that a kernel moves."""
    sizes = [prod(type_.shape) for op in walk(kernel) for type_ in moved_by(op)]
    return _block(kernel, max(sizes)) if sizes else 0
