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
_MOST_WARPS = 32
# Vectors of all tensors together that a thread loads at a time, and those of a lane up to which one
# warp takes a row that is reduced.
_MOST_LOADED, _ROW_VECTORS = 8, 4
# By how much each of them may exceed that before a row has twice the warps.
_MORE_WARPS = 1.2
# Registers of a thread, those that do not hold tiles, those of one that computes anything, and
# beside tiles that fill the registers, what is loaded and computed for the next vectors.
_MOST_REGISTERS, _OTHER_REGISTERS, _LEAST_REGISTERS, _SPARE_REGISTERS = 255, 24, 40, 16
# Bytes of an SM's tiles that keep its share of the memory's bandwidth busy for as long as a row
# takes that is reduced twice (3.5 us on an H100).
_RESIDENT_BYTES = 64 << 10
# Results have so many times fewer bits at least where a thread has so many vectors: places and
# scales take about as many instructions as those of half of them. CTAs where a tile is one block.
_NARROWER, _NARROWED_VECTORS, _OF_SQUARES = 4, 8, 3
# Vectors of a thread of lines that are sorted, and registers of a word of theirs.
_SORTED_VECTORS, _SORTED_REGISTERS = 8, 1.25
# Threads of an SM that hide the arithmetic of what is not reduced.
_BUSY_THREADS = 1024


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

    def held(self, threads: int) -> float:
        """Registers of a thread for tiles."""
        return (self.most_live + self.common) * self.elements / threads

    @property
    def most_live(self) -> float:
        """Registers of an element, also where it is sorted beside some of another lane."""
        return max(self.live, _SORTED_REGISTERS * self.sorted_bits / 32)


class StreamSpace:
    """Grids of warps, each with the CTAs that registers suffice for."""

    name = "streams"

    def ranked(self, problem: Stream, given: Schedule | None, limits: Limits) -> Iterator[Schedule]:
        """The grid of so few warps that a thread has some vectors, with as many CTAs as keep memory
        busy, then half of the CTAs, whose threads have twice the registers; then the same of twice
        the warps, whose threads hold half as much. CTAs are chosen with the warps.

        >>> def first(stream): return next(STREAMS.ranked(stream, None, NONE)).text()
        >>> first(Stream((4, 1024), 1, 16, 16, 1.25, frozenset({1})))
        'warps = (4,1), ctas = 8'
        >>> first(Stream((1, 8192), 1, 16, 16, 0.75, frozenset({1})))
        'warps = (1,8), ctas = 4'
        >>> first(Stream((24, 176), 1, 16, 16, 2.0, frozenset({1}), access=4))
        'warps = (3,1), ctas = 7'
        >>> first(Stream((8, 256), 1, 32, 32, 2.0, frozenset({1}), sorted_bits=32))
        'warps = (2,1), ctas = 12'
        """
        is_open = given is None or given.warps is None
        total = _warps(problem)
        while total <= _MOST_WARPS:
            grid = _grid(problem, total)
            ctas = _ctas(problem, WARP_SIZE * prod(grid)) if is_open else None
            for fewer in (ctas,) if ctas is None else (ctas >> halves for halves in range(6)):
                if fewer == 0:
                    break
                schedule = Schedule(warps=grid, ctas=fewer).merged(given)
                if limits == NONE or self.need(problem, schedule).leaves(limits):
                    yield schedule
            total *= 2

    def need(self, problem: Stream, schedule: Schedule) -> Need:
        """Registers of a thread for tiles and what is beside them."""
        assert schedule.warps is not None
        threads = WARP_SIZE * prod(schedule.warps)
        room = min(_MOST_REGISTERS, REGISTER_FILE // (threads * (schedule.ctas or 1)))
        return Need(problem.held(threads) + _OTHER_REGISTERS, room, threads=threads)


STREAMS = StreamSpace()


def _vector(traffic: Stream) -> int:
    """Elements of a vector."""
    return max(1, VECTOR_BITS // traffic.bits)


def _grid(traffic: Stream, total: int) -> tuple[int, int]:
    """So many warps over the modes of the tile, or as many as share it evenly."""
    mode = traffic.contiguous
    vector = _vector(traffic)
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
        share = _share(traffic)
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
            most_rows = min(most_rows, max(1, target(traffic.arch).smem_per_cta // line_bytes))
        grid = (on_line, _divisor(turns, total // on_line, most_rows))
    return grid if mode == 0 else (grid[1], grid[0])


def _share(traffic: Stream) -> float:
    """Among how many warps a tile is shared when a thread has some vectors of it."""
    loads = max(1, -(-traffic.loaded_bits // traffic.bits))
    vectors = _NARROWED_VECTORS if traffic.narrows else VECTORS
    if traffic.sorted_bits:
        # What a thread has of a line it compares without a shuffle.
        vectors = _SORTED_VECTORS
    if traffic.narrows and traffic.shape[traffic.contiguous] == _vector(traffic):
        # Threads that have whole blocks find a scale once: few vectors, and many warps, are faster.
        vectors = VECTORS // loads
    values = _vector(traffic) * max(1, min(vectors, _MOST_LOADED // loads))
    return traffic.elements / (WARP_SIZE * max(values, traffic.block))


def _warps(traffic: Stream) -> int:
    """So few warps that a thread has some vectors, or more where registers want that."""
    warps = few_warps(_share(traffic), bool(traffic.reduced))
    if traffic.reduced:
        # CTAs of many threads load and compute in turns, and few of them fit on an SM; sums of
        # columns that are loaded element by element take the registers of more.
        is_narrow = traffic.contiguous not in traffic.reduced and traffic.access * traffic.bits < 32
        warps = min(warps, 16 if traffic.access and is_narrow else MOST_ROW_WARPS)
    warps = min(warps, _MOST_WARPS)
    beside = _OTHER_REGISTERS + _SPARE_REGISTERS
    while warps < _MOST_WARPS:
        threads = WARP_SIZE * warps
        if traffic.held(threads) <= min(_MOST_REGISTERS, REGISTER_FILE // threads) - beside:
            break
        warps *= 2
    return warps


def few_warps(share: float, reduces: bool) -> int:
    """Warps that share a tile, at least so many that a thread has about what it should."""
    warps = _power_of_two(int(share))
    return 2 * warps if reduces and share > _MORE_WARPS * warps else warps


def _ctas(traffic: Stream, threads: int) -> int:
    """The CTAs that keep enough bytes at work, as far as registers reach; 1 leaves them to the
    assembler.
    """
    loaded = max(1, traffic.elements * traffic.loaded_bits // 8)
    chip = target(traffic.arch)
    held = min(chip.max_threads_per_sm // threads, chip.max_ctas_per_sm)
    # Of CTAs that compute for as long as their bytes take, half have bytes on their way.
    wanted = -(-_RESIDENT_BYTES * (2 if traffic.narrows else 1) // loaded)
    if traffic.is_one_block:
        # One loads, one waits for its largest element, and one stores.
        wanted = max(wanted, _OF_SQUARES)
    if traffic.sorted_bits or (not traffic.reduced and not traffic.block):
        # What is computed of each element may take as long as its bytes: some CTAs compute while
        # others wait, also where rows leave half of a tile empty.
        wanted = max(wanted, _BUSY_THREADS // threads)
    # Elements that are loaded one by one have a register each at first.
    live = traffic.most_live
    live = max(live, 1.0) if traffic.access * traffic.bits in range(1, 32) else live
    registers = live * traffic.elements / threads + _OTHER_REGISTERS
    fit = int(REGISTER_FILE // (threads * registers))
    if traffic.is_part or traffic.narrows:
        # The estimate is careful; CTAs that wait for others of their cluster, and those that
        # compute, want company, and the assembler takes back what would spill.
        fit = REGISTER_FILE // (threads * _LEAST_REGISTERS)
    elif traffic.reduced:
        # Of two rows one is loaded while the other one is computed, and what the estimate does not
        # quite hold often fits: worth a try, which the assembler takes back where it would spill.
        fit = max(fit + 1, _OF_SQUARES if traffic.is_one_block else 2)
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
