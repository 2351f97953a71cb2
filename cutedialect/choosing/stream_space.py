"""The schedules of a program without a multiply: the grid of warps over its largest tile, and how
many CTAs an SM holds at a time.

Such a program waits for memory. What it needs is bytes in flight: every thread loads some vectors
of 16 bytes before it uses the first of them, and several CTAs on an SM load while others compute
and store. A tile is cut into so few warps that each thread has about four vectors of it, and the
registers of a thread are held low enough for the CTAs that keep 64 KB of an SM's tiles at work.
Warps go along the mode that is contiguous in memory, so that a warp reads whole lines. Where rows
are reduced along that mode, one warp takes a row as long as the row is short: lanes then exchange
what they have by shuffles, and no warp waits for another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from cutedialect.atoms import REGISTER_FILE, WARP_SIZE, target
from cutedialect.schedule import Schedule

from .need import NONE, Limits, Need

MOST_ROW_WARPS, VECTOR_BITS, VECTORS = 8, 128, 4
"""Warps of a row at most, bits of a vector, and vectors of a thread."""
_WARPS = 1, 2, 4, 8, 16, 32
# Most vectors of all tensors together that a thread loads at a time, vectors of it where it has
# many of one tensor, and those of a lane up to which one warp takes a row that is reduced.
_MOST_LOADED, _MANY_VECTORS, _ROW_VECTORS = 8, 8, 4
# By how much each of them may exceed that before a row has twice the warps.
_MORE_WARPS = 1.2
# Registers of a thread, those that do not hold tiles, those of one that computes anything, and
# beside tiles that fill the registers, what is loaded and computed for the next vectors. Those of a
# word of lines that are sorted.
_MOST_REGISTERS, _OTHER_REGISTERS, _LEAST_REGISTERS, _SPARE_REGISTERS = 255, 24, 40, 16
_SORTED_REGISTERS = 1.25
# Bytes of an SM's tiles that keep its share of the memory's bandwidth busy for as long as a row
# takes that is reduced twice (3.5 us on an H100), and threads that hide the arithmetic of what is
# not reduced.
_RESIDENT_BYTES, _BUSY_THREADS = 64 << 10, 1024
# Results have so many times fewer bits at least where a thread has many vectors: places and scales
# take about as many instructions as those of half of them. CTAs where a tile is one block.
_NARROWER, _OF_SQUARES = 4, 3


@dataclass(frozen=True)
class Stream:
    """What a program moves at a time: the shape of its largest tile, the mode of it that is
    contiguous in memory, the widest element, the bits loaded for each element of the tile, the
    registers that an element takes where most are live, the modes that are reduced, the elements of
    a thread's block if the tile is contiguous along either mode somewhere, else 0, the registers of
    an element that all work items load alike, the elements of an access, whether the tile is the
    part of a row that the CTAs of a cluster share, the target, the bits that are stored for
    each element of the tile, at most, 0 for none, whether what is reduced is reduced again, and the
    bits of an element by which lines are sorted, 0 for none.
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
    arch: str = "sm_90a"
    stored_bits: int = 0
    is_one_block: bool = False
    sorted_bits: int = 0

    @property
    def narrows(self) -> bool:
        """Whether rows are reduced to scale them to elements of few bits, as quantizers do: what
        is computed of an element then takes about as long as its bytes.
        """
        return bool(self.reduced) and 0 < self.stored_bits * _NARROWER <= self.bits

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def vector(self) -> int:
        """Elements of a vector."""
        return max(1, VECTOR_BITS // self.bits)

    @property
    def most_live(self) -> float:
        """Registers of an element, also where it is sorted beside some of another lane."""
        return max(self.live, _SORTED_REGISTERS * self.sorted_bits / 32)

    def held(self, threads: int) -> float:
        """Registers of a thread for tiles."""
        return (self.most_live + self.common) * self.elements / threads


class StreamSpace:
    """Grids of warps, each with the CTAs that registers suffice for."""

    name = "streams"

    def ranked(self, problem: Stream, given: Schedule | None, limits: Limits) -> Iterator[Schedule]:
        """The grid of so few warps that a thread has some vectors, with as many CTAs as keep memory
        busy, then half of the CTAs, whose threads have twice the registers; then the same of twice
        the warps, whose threads hold half as much. CTAs are chosen with the warps.
        """
        is_open = given is None or given.warps is None
        for total in _WARPS[_WARPS.index(_warps(problem)) :]:
            grid = _grid(problem, total)
            ctas = _ctas(problem, WARP_SIZE * prod(grid)) if is_open else 0
            # All halves of a number, down to one.
            for fewer in [ctas >> halves for halves in range(ctas.bit_length())] or [None]:
                schedule = Schedule(warps=grid, ctas=fewer).merged(given)
                if limits == NONE or self.need(problem, schedule).leaves(limits):
                    yield schedule

    def need(self, problem: Stream, schedule: Schedule) -> Need:
        """Registers of a thread for tiles and what is beside them."""
        assert schedule.warps is not None
        threads = WARP_SIZE * prod(schedule.warps)
        room = min(_MOST_REGISTERS, REGISTER_FILE // (threads * (schedule.ctas or 1)))
        return Need(problem.held(threads) + _OTHER_REGISTERS, room, threads=threads)


STREAMS = StreamSpace()


def _grid(stream: Stream, total: int) -> tuple[int, int]:
    """So many warps over the modes of the tile, or as many as share it evenly."""
    mode = stream.contiguous
    line, across = stream.shape[mode], stream.shape[1 - mode]
    along = -(-line // stream.vector)
    # Warps share rows evenly, and the vectors of a row.
    vectors = max(1, line // (stream.access or stream.vector))
    shared = vectors & -vectors
    most_on_line = min(max(1, shared // WARP_SIZE), _power_of_two(along // WARP_SIZE))
    # Among how many warps the rows can be shared: any divisor of it.
    rows_of_warp = max(1, WARP_SIZE // shared)
    turns = max(1, across // rows_of_warp) if across % rows_of_warp == 0 else 1
    divisors = [each for each in range(1, turns + 1) if turns % each == 0]
    most_rows = _WARPS[-1]
    if stream.reduced == {mode} and along <= WARP_SIZE * _ROW_VECTORS:
        # Rows of a warp each; more of them than warps follow each other in a thread: as few as are
        # enough, unless registers want more of them.
        share = _share(stream)
        enough = [each for each in divisors if share <= _MORE_WARPS * each]
        is_free = enough and enough[0] <= total <= 2 * share
        on_rows = enough[0] if is_free else _nearest(divisors, total, most_rows)
        on_line = min(max(1, total // on_rows), most_on_line)
    else:
        on_line = min(total, most_on_line)
        most_rows //= on_line
        if 1 - mode in stream.reduced:
            # Warps that share columns exchange a number of each through shared memory.
            line_bytes = line * max(stream.bits, 32) // 8
            most_rows = min(most_rows, max(1, target(stream.arch).smem_per_cta // line_bytes))
        on_rows = _nearest(divisors, total // on_line, most_rows)
    return (on_line, on_rows) if mode == 0 else (on_rows, on_line)


def _nearest(numbers: list[int], wanted: int, most: int) -> int:
    """The number, up to `most`, that is nearest to what is wanted, by their ratio."""
    wanted, few = max(1, wanted), [each for each in numbers if each <= most]
    return min(few, key=lambda each: max(each / wanted, wanted / each))


def _share(stream: Stream) -> float:
    """Among how many warps a tile is shared when a thread has some vectors of it: many of what it
    compares without a shuffle, and of what takes as long to compute as to load; few where threads
    have whole blocks, whose scale they find once.
    """
    has_blocks = stream.narrows and stream.shape[stream.contiguous] == stream.vector
    vectors = _MANY_VECTORS if stream.narrows or stream.sorted_bits else VECTORS
    loads = max(1, -(-stream.loaded_bits // stream.bits))
    loaded = (VECTORS if has_blocks else _MOST_LOADED) // loads
    values = stream.vector * max(1, min(vectors, loaded))
    return stream.elements / (WARP_SIZE * max(values, stream.block))


def _warps(stream: Stream) -> int:
    """So few warps that a thread has some vectors, or more where registers want that."""
    most = _WARPS[-1]
    if stream.reduced:
        # CTAs of many threads load and compute in turns, and few of them fit on an SM; sums of
        # columns that are loaded element by element take the registers of more.
        is_narrow = stream.contiguous not in stream.reduced and stream.access * stream.bits < 32
        most = 16 if stream.access and is_narrow else MOST_ROW_WARPS
    few = min(few_warps(_share(stream), bool(stream.reduced)), most)

    def fits(warps: int) -> bool:
        free = min(_MOST_REGISTERS, REGISTER_FILE // (WARP_SIZE * warps))
        return stream.held(WARP_SIZE * warps) <= free - _OTHER_REGISTERS - _SPARE_REGISTERS

    return next((warps for warps in _WARPS if warps >= few and fits(warps)), _WARPS[-1])


def few_warps(share: float, reduces: bool) -> int:
    """Warps that share a tile, at least so many that a thread has about what it should."""
    warps = _power_of_two(int(share))
    return 2 * warps if reduces and share > _MORE_WARPS * warps else warps


def _ctas(stream: Stream, threads: int) -> int:
    """The CTAs that keep enough bytes at work, as far as registers reach; 1 leaves them to the
    assembler.
    """
    chip = target(stream.arch)
    # Of CTAs that compute for as long as their bytes take, half have bytes on their way.
    busy = _RESIDENT_BYTES * (2 if stream.narrows else 1)
    # What is computed of each element may take as long as its bytes: some CTAs compute while others
    # wait, also where rows leave half of a tile empty.
    computes = stream.sorted_bits or (not stream.reduced and not stream.block)
    wanted = max(
        -(-busy // max(1, stream.elements * stream.loaded_bits // 8)),
        _BUSY_THREADS // threads if computes else 0,
        # One loads, one waits for its largest element, and one stores.
        _OF_SQUARES if stream.is_one_block else 0,
    )
    # Elements that are loaded one by one have a register each at first.
    is_narrow = stream.access * stream.bits in range(1, 32)
    live = max(stream.most_live, 1.0) if is_narrow else stream.most_live
    fit = int(REGISTER_FILE // (live * stream.elements + threads * _OTHER_REGISTERS))
    if stream.is_part or stream.narrows:
        # The estimate is careful; CTAs that wait for others of their cluster, and those that
        # compute, want company, and the assembler takes back what would spill.
        fit = REGISTER_FILE // (threads * _LEAST_REGISTERS)
    elif stream.reduced:
        # Of two rows one is loaded while the other one is computed, and what the estimate does not
        # quite hold often fits: worth a try, which the assembler takes back where it would spill.
        fit = max(fit + 1, _OF_SQUARES if stream.is_one_block else 2)
    held = min(chip.max_threads_per_sm // threads, chip.max_ctas_per_sm)
    return max(1, min(wanted, fit, held))


def _power_of_two(number: int) -> int:
    """The largest power of two up to a number, from 1 on."""
    return 1 << max(1, number).bit_length() - 1
