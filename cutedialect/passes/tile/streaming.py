"""How a program without a multiply is bound: the grid of warps over its largest tile, and how many
CTAs an SM holds at a time.

Such a program waits for memory. What it needs is bytes in flight: every thread loads some vectors
of 16 bytes before it uses the first of them, and several CTAs on an SM load while others compute
and store. A tile is cut into so few warps that each thread has about four vectors of it, and the
registers of a thread are held low enough for the CTAs that keep 64 KB of an SM's tiles at work.
Warps go along the mode that is contiguous in memory, so that a warp reads whole lines. Where rows
are reduced along that mode, one warp takes a row as long as the row is short: lanes then exchange
what they have by shuffles, and no warp waits for another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import log, prod
from typing import Literal

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.atoms import REGISTER_FILE, WARP_SIZE, target
from cutedialect.dialects import cute
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.analysis.layout_inference import MemoryVectors, contiguous_mode
from cutedialect.passes.tile.pad_tiles import vector_elements
from cutedialect.passes.tile.resized_tiles import kept_modes, moved_by, size_of

_MOST_WARPS = 32
_MOST_ROW_WARPS = 8
_VECTOR_BITS = 128
# Vectors of a thread, those of all tensors together that it loads at a time, and those of a lane up
# to which one warp takes a row that is reduced.
_VECTORS = 4
_MOST_LOADED = 8
_ROW_VECTORS = 4
# By how much each of them may exceed that before a row has twice the warps.
_MORE_WARPS = 1.2
# Registers of an SM and of a thread, and those of a thread that do not hold tiles.
_MOST_REGISTERS = 255
_OTHER_REGISTERS = 24
# Registers of a thread that computes anything.
_LEAST_REGISTERS = 40
# Beside tiles that fill the registers, what is loaded and computed for the next vectors.
_SPARE_REGISTERS = 16
# Bytes of an SM's tiles that keep its share of the memory's bandwidth busy for as long as a row
# takes that is reduced twice (3.5 us on an H100).
_RESIDENT_BYTES = 64 << 10
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
# Threads of an SM that hide the arithmetic of what is not reduced.
_BUSY_THREADS = 1024
RUN_THREADS = 256
"""Threads of a CTA that goes through a matrix as one row; an SM holds as many as it can."""
# The share of a tile's registers that is live where it is computed vector by vector.
_PASSING = 0.25


@dataclass(frozen=True)
class Traffic:
    """What a program moves at a time: the shape of its largest tile, the mode of it that is
    contiguous in memory, the widest element, the bits loaded for each element of the tile, the
    registers that an element takes where most are live, the modes that are reduced, the elements of
    a thread's block if the tile is contiguous along either mode somewhere, else 0, the registers of
    an element that all work items load alike, the elements of an access, and whether the tile is
    the part of a row that the CTAs of a cluster share.
    """

    shape: tuple[int, int]
    contiguous: int
    bits: int
    loaded_bits: int
    live: float
    reduced: frozenset[int]
    block: int = 0
    common: float = 0.0
    access: int = 0
    is_part: bool = False

    @property
    def elements(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True)
class Residence:
    """The grid of warps over the modes of the tile, and the CTAs on an SM."""

    warps: tuple[int, int]
    ctas: int


def is_common(view: SSAValue) -> bool:
    """Whether a tile of memory is the same for all work items (or for all CTAs of one rank of those
    that share them), so that L2 has it.
    """
    tile = cute.tile_behind(view)
    return tile is not None and all(
        isinstance(coord.owner, arith.ConstantOp | cute.ClusterRankOp) for coord in tile.coords
    )


def residence_of(kernel: cute.KernelOp, arch: str) -> Residence:
    """How a kernel is bound on a target."""
    index = next(iter(ops_of(kernel, cute.TileIndexOp)), None)
    if index is not None and index.run is not None:
        return Residence(
            (RUN_THREADS // WARP_SIZE, 1), target(arch).max_threads_per_sm // RUN_THREADS
        )
    traffic = traffic_of(kernel)
    return Residence((4, 1), 1) if traffic is None else residence_for(traffic, arch)


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
        vectors = -(-part * widest // _VECTOR_BITS)
        warps = _few_warps(vectors / (WARP_SIZE * _VECTORS), reduces=True)
        lanes = WARP_SIZE * min(warps, _MOST_ROW_WARPS)
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
        traffic = traffic_of(kernel)
        return "tall" if traffic is not None and traffic.block else "short"
    type_ = index.memref.type
    nearest = contiguous_mode(type_) if isinstance(type_, cute.MemRefType) else None
    apart = [mode for mode, extent in enumerate(index.tile.get_values()) if extent >= 0]
    return "memory" if nearest is not None and len({*apart} - {nearest}) > 1 else None


def registers_of_tile(block: Block, size: int) -> float:
    """Registers that a block's tiles of so many elements take where most are live, with those that
    all work items load alike.
    """
    return (_live(block, size) + _common(block.ops, size)) * size


def traffic_of(kernel: cute.KernelOp) -> Traffic | None:
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
    sorts = [cute.fragment_of(op.source).shape for op in ops_of(kernel, cute.SortOp)]
    rows, columns = map(max, zip((*largest.shape, 1)[:2], *sorts, strict=True))
    return Traffic(
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
    )


def residence_for(traffic: Traffic, arch: str = "sm_90a") -> Residence:
    """How such traffic is bound on a target.

    >>> residence_for(Traffic((4, 1024), 1, 16, 16, 1.25, frozenset({1})))
    Residence(warps=(4, 1), ctas=8)
    >>> residence_for(Traffic((1, 8192), 1, 16, 16, 0.75, frozenset({1})))
    Residence(warps=(1, 8), ctas=4)
    >>> residence_for(Traffic((24, 176), 1, 16, 16, 2.0, frozenset({1}), access=4)).warps
    (3, 1)
    >>> residence_for(Traffic((20, 256), 1, 16, 16, 1.0, frozenset({1}))).warps
    (5, 1)
    """
    mode = traffic.contiguous
    vector = max(1, _VECTOR_BITS // traffic.bits)
    total = _warps(traffic, vector)
    along = -(-traffic.shape[mode] // vector)
    across = traffic.shape[1 - mode]
    # Warps share rows evenly, and the vectors of a row.
    vectors = max(1, traffic.shape[mode] // (traffic.access or vector))
    shared = vectors & -vectors
    most, rows_of_warp = max(1, shared // WARP_SIZE), max(1, WARP_SIZE // shared)
    # Among how many warps the rows can be shared: any divisor of it.
    turns = max(1, across // rows_of_warp) if across % rows_of_warp == 0 else 1
    if traffic.reduced == {mode} and along <= WARP_SIZE * _ROW_VECTORS:
        # Rows of a warp each; more of them than warps follow each other in a thread.
        share = _share(traffic, vector)
        # As few as are enough, unless registers want more of them.
        enough = [each for each in _divisors(turns) if share <= _MORE_WARPS * each]
        is_free = enough and enough[0] <= total <= 2 * share
        on_rows = enough[0] if is_free else _divisor(turns, total, _MOST_WARPS)
        on_line = max(1, total // on_rows)
        grid = (min(on_line, most, _power_of_two(along // WARP_SIZE)), on_rows)
    else:
        on_line = min(total, most, _power_of_two(along // WARP_SIZE))
        most_rows = _MOST_WARPS // on_line
        if 1 - mode in traffic.reduced:
            # Warps that share columns exchange a number of each through shared memory.
            line_bytes = traffic.shape[mode] * max(traffic.bits, 32) // 8
            most_rows = min(most_rows, max(1, target(arch).smem_per_cta // line_bytes))
        grid = (on_line, _divisor(turns, total // on_line, most_rows))
    ctas = _ctas(traffic, WARP_SIZE * prod(grid), arch)
    return Residence(grid if mode == 0 else (grid[1], grid[0]), ctas)


def _share(traffic: Traffic, vector: int) -> float:
    """Among how many warps a tile is shared when a thread has some vectors of it."""
    loads = max(1, -(-traffic.loaded_bits // traffic.bits))
    values = vector * max(1, min(_VECTORS, _MOST_LOADED // loads))
    return traffic.elements / (WARP_SIZE * max(values, traffic.block))


def _warps(traffic: Traffic, vector: int) -> int:
    """So few warps that a thread has some vectors, or more where registers want that."""
    share = _share(traffic, vector)
    warps = _few_warps(share, bool(traffic.reduced))

    def fits(count: int) -> bool:
        threads = WARP_SIZE * count
        room = min(_MOST_REGISTERS, REGISTER_FILE // threads)
        held = (traffic.live + traffic.common) * traffic.elements / threads
        return held <= room - _OTHER_REGISTERS - _SPARE_REGISTERS

    if traffic.reduced:
        # CTAs of many threads load and compute in turns, and few of them fit on an SM; sums of
        # columns that are loaded element by element take the registers of more.
        is_narrow = traffic.contiguous not in traffic.reduced and traffic.access * traffic.bits < 32
        warps = min(warps, 16 if traffic.access and is_narrow else _MOST_ROW_WARPS)
    warps = min(warps, _MOST_WARPS)
    while warps < _MOST_WARPS and not fits(warps):
        warps *= 2
    return warps


def _few_warps(share: float, reduces: bool) -> int:
    """Warps that share a tile, at least so many that a thread has about what it should."""
    warps = _power_of_two(int(share))
    return 2 * warps if reduces and share > _MORE_WARPS * warps else warps


def _ctas(traffic: Traffic, threads: int, arch: str) -> int:
    """The CTAs that keep enough bytes at work, as far as registers reach; 1 leaves them to the
    assembler.
    """
    loaded = max(1, traffic.elements * traffic.loaded_bits // 8)
    chip = target(arch)
    held = min(chip.max_threads_per_sm // threads, chip.max_ctas_per_sm)
    wanted = min(-(-_RESIDENT_BYTES // loaded), held)
    if not traffic.reduced and not traffic.block:
        # What is computed of each element may take as long as its bytes: some CTAs compute while
        # others wait, also where rows leave half of a tile empty.
        wanted = min(max(wanted, _BUSY_THREADS // threads), held)
    # Elements that are loaded one by one have a register each at first.
    live = max(traffic.live, 1.0) if traffic.access * traffic.bits in range(1, 32) else traffic.live
    registers = live * traffic.elements / threads + _OTHER_REGISTERS
    fit = int(REGISTER_FILE // (threads * registers))
    if traffic.is_part:
        # The estimate is careful; CTAs that wait for others of their cluster want company, and the
        # assembler takes back what would spill.
        return max(1, min(wanted, held, REGISTER_FILE // (threads * _LEAST_REGISTERS)))
    if traffic.reduced and held > 1:
        # Of two rows one is loaded while the other one is computed, and what the estimate does not
        # quite hold often fits: worth a try, which the assembler takes back where it would spill.
        fit = max(fit + 1, 2)
    return max(1, min(wanted, fit, held))


def _divisor(number: int, wanted: int, most: int) -> int:
    """The divisor of a number, up to `most`, that is nearest to what is wanted, by their ratio."""
    wanted = max(1, wanted)
    divisors = [each for each in _divisors(number) if each <= most]
    return min(divisors, key=lambda each: max(each / wanted, wanted / each))


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


def _power_of_two(number: int) -> int:
    """The largest power of two up to a number, from 1 on."""
    return 1 << max(1, number).bit_length() - 1


def _blocks(kernel: cute.KernelOp) -> Iterator[Block]:
    """The kernel's block, and those of its loops and branches."""
    yield kernel.body.block
    for op in walk(kernel):
        if isinstance(op, scf.ForOp | scf.IfOp | scf.WhileOp):
            for region in op.regions:
                yield from region.blocks


def _reductions(block: Block, size: int) -> list[cute.ReduceOp | cute.ScanOp | cute.SortOp]:
    """The reductions, scans and sorts of whole tiles in a block."""
    return [
        op
        for op in block.ops
        if isinstance(op, cute.ReduceOp | cute.ScanOp | cute.SortOp) and size_of(op.source) == size
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
