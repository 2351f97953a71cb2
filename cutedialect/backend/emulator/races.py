"""Races inside of a cluster: two accesses by different warps, one of them a write, that no barrier,
mbarrier or flag orders. Threads of the emulator step together, so that a missing barrier changes no
number here; what tells of it are the clocks of `ordering.py`.

Every granule of shared and global memory keeps who wrote it last and two of those who have read
it since, as stamps of their warps' clocks. A reader has to know of the write, a writer of the write
and of the readers. Accesses of different clusters are not compared, atomics and flags not with each
other; two warps may write the same value.

Who writes what a bulk copy to global memory has read knows that its issuing thread has waited for
it. A bulk copy overwrites what threads have read only where a proxy fence stands behind their
reads: it comes through the async proxy (PTX ISA 8.9; an H100 was seen to write in front of loads
that an arrival followed). What a bulk copy has brought to shared memory is known to who has seen
its mbarrier's phase: others may not read it with ordinary loads. And what they have read of a
response to `try_cancel` they have to fence before the next one, which comes through the async proxy
(PTX ISA 9.7.13.17.1).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from .errors import EmulatorError
from .lanes import Array, Lanes, anywhere, distinct, everywhere, where
from .memory import Allocation
from .ordering import split

if TYPE_CHECKING:
    from .machine import Machine
    from .module import Instruction
    from .ordering import Ordering

# An entry is, from the lowest bit on: a stamp (32 bits), a cluster's number + 1 (12), the PTX line
# (19), and whether the access was atomic.
_STAMP = np.uint64(0xFFFF_FFFF)
_CLUSTER, _CLUSTERS = np.uint64(32), np.uint64(0xFFF)
_LINE, _LINES = np.uint64(44), np.uint64(0x7_FFFF)
_ATOMIC = np.uint64(63)
_COLUMN, _TIME = np.uint64(0x1FF), np.uint64(9)
# Entries that are kept of a memory at most; what is larger goes unwatched.
_MOST_ENTRIES = 1 << 25

_ACCESS = re.compile(r"(ld|ldu|st|atom|red|ldmatrix|stmatrix|cp\.async\.c[ag])\.")
_WIDTH = re.compile(r"\.(?:bf|[bsuf])(\d+)(x2)?$")
_VECTOR = re.compile(r"\.v([248])\.")


def granule(opcodes: set[str], space: str) -> int:
    """Bytes of the smallest access to a space, by ordinary instructions that may name it."""
    found = 16
    for opcode in opcodes:
        kind = _ACCESS.match(opcode)
        width = _WIDTH.search(opcode)
        others = {"shared", "global", "local", "param", "const"} - {space}
        if kind is None or (space not in opcode and any(f".{each}" in opcode for each in others)):
            continue
        if kind[1].startswith("cp"):
            found = min(found, 4)
        elif width is not None and not kind[1].endswith("matrix"):
            vector = _VECTOR.search(opcode)
            count = int(vector[1]) if vector and kind[1] in ("ld", "st") else 1
            bits = int(width[1]) * (2 if width[2] else 1)
            found = min(found, max(1, count * bits // 8))
    return found


class _Cells:
    """The granules of one range of memory: its last writer, and two readers since."""

    def __init__(self, count: int) -> None:
        self.writer = np.zeros(count, np.uint64)
        self.readers = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
        # The bulk copy that wrote last, if no thread has written since.
        self.landed = np.zeros(count, np.uint64)


class Races:
    def __init__(self, machine: Machine, ordering: Ordering) -> None:
        self._machine = machine
        self._ordering = ordering
        opcodes = {ins.opcode for ins in machine.module.code}
        # By chunk of 16 bytes that a response has come to: who has read it, by column.
        self._responses: dict[int, dict[int, tuple[int, int]]] = {}
        self._shared_granule = granule(opcodes, "shared")
        self._global_granule = granule(opcodes, "global")
        count = len(machine.shared.data) // self._shared_granule
        self._shared = _Cells(count) if count <= _MOST_ENTRIES else None
        # By chunk of 16 bytes: the last two who have learned that a bulk copy has read it.
        self._copied: tuple[Array, Array] | None = None
        # The same of the last two warpgroups whose multiplies have read it: an entry for each warp.
        self._multiplied: tuple[Array, Array] | None = None
        self._global: dict[int, tuple[Allocation, _Cells]] = {}
        self._cluster = (np.arange(len(ordering.state)) // ordering.per_cluster + 1).astype(
            np.uint64
        ) & _CLUSTERS  # fmt: skip

    # Shared memory: offsets into the shared data.

    def read_shared(self, ins: Instruction, warps: Array, at: Array, width: int) -> None:
        """Each of `warps` reads `width` bytes at its offset."""
        if self._shared is not None:
            places = _granules(at, width, self._shared_granule)
            self._demand_landing(self._shared, ins, warps, places)
            self._read(self._shared, ins, warps, places, None)
        if self._responses:
            self._note_responses(ins.line, warps, at)

    def write_shared(
        self,
        ins: Instruction,
        warps: Array,
        at: Array,
        width: int,
        words: Array = None,
        atomic: bool = False,
    ) -> None:
        """Each of `warps` writes `width` bytes at its offset, `words` where they are known."""
        if self._shared is None:
            return
        places = _granules(at, width, self._shared_granule)
        equal = None
        if words is not None:
            equal = _equal(self._machine.shared.words(width)[0][at // width], words)
        self._write(self._shared, ins, warps, places, None, atomic, equal, at, words)

    def overwrite(self, ins: Instruction, warp: int, chunks: Array) -> None:
        """A thread of a warp begins a bulk copy into chunks of 16 bytes."""
        if self._shared is not None:
            places = _granules(chunks * 16, 16, self._shared_granule)
            warps = np.full(len(chunks), warp)
            self._demand(self._shared, ins, warps, places, None, False, None)
            for readers in self._shared.readers:
                self._demand_fenced(ins, warp, readers[places], places)

    def _demand_fenced(self, ins: Instruction, warp: int, reads: Array, places: Array) -> None:
        """Who begins a bulk copy knows that a proxy fence stands behind each of some ordinary reads
        of where it goes: an arrival or a barrier orders these in front of ordinary writes alone.
        """
        stamps = reads & _STAMP
        column = (stamps & _COLUMN).astype(np.intp)
        hidden = self._ordering.fenced[warp, column] < (stamps >> _TIME).astype(np.int64)
        hidden &= reads >> _CLUSTER & _CLUSTERS == self._cluster[warp]
        if not anywhere(hidden):
            return
        at = tuple(int(i) for i in np.argwhere(hidden)[0])
        entry, place = int(reads[at]), int(places[at])
        reader = self._ordering.describe(warp, entry & int(_COLUMN))
        where_ = self._machine.describe_shared(place * self._shared_granule)
        raise EmulatorError(
            f"a bulk copy to {where_} may come before {reader} has read it at PTX line "
            f"{entry >> int(_LINE) & int(_LINES)}: expected fence.proxy.async behind the read, "
            "then an arrival or a barrier that the one who copies waits for",
            code="CD-A4",
            ptx_line=ins.line,
        )

    def land(self, ins: Instruction, warp: int, stamp: int, chunks: Array) -> None:
        """A bulk copy of a warp has replaced the chunks: whoever waits for it knows its stamp."""
        if self._shared is not None:
            places = _granules(chunks * 16, 16, self._shared_granule)
            for entries in (self._shared.writer, *self._shared.readers):
                entries[places] = 0
            line = np.uint64(min(ins.line, int(_LINES))) << _LINE
            self._shared.landed[places] = (
                (self._cluster[warp] << _CLUSTER) | np.uint64(stamp) | line
            )

    def read_by_copy(self, ins: Instruction, warp: int, chunks: Array) -> None:
        """A thread of a warp has waited until a bulk copy had read chunks: who writes them later
        has to know of that.
        """
        if self._shared is None or not len(chunks):
            return
        if self._copied is None:
            count = len(self._machine.shared.data) // 16
            self._copied = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
        warps = np.full(len(chunks), warp)
        first, second = self._copied
        before = first[chunks]
        kept = self._unordered(warps, before)
        second[chunks[kept]] = before[kept]
        first[chunks] = self._entries(ins.line, warps, False, chunks)

    def read_by_multiply(self, ins: Instruction, warps: Array, chunks: Array) -> None:
        """The four `warps` of a warpgroup have waited until its multiply had read chunks: who
        writes them later has to know of one that has, since its groups complete as a whole.
        """
        if self._shared is None or not len(chunks):
            return
        if self._multiplied is None:
            count = len(self._machine.shared.data) // 16
            self._multiplied = tuple(np.zeros((count, len(warps)), np.uint64) for _ in range(2))  # type: ignore[assignment]
        assert self._multiplied is not None
        first, second = self._multiplied
        before = first[chunks]
        mine = self._entries(ins.line, warps, False, np.empty(len(warps), np.intp))
        kept = (before != mine).any(axis=1)
        second[chunks[kept]] = before[kept]
        first[chunks] = mine

    def request(self, ins: Instruction, warp: int, chunks: Array) -> None:
        """A thread of a warp asks for responses to come to chunks, each of which may hold one that
        others have read.
        """
        for chunk in chunks.tolist():
            for column, (time, line) in self._responses.setdefault(chunk, {}).items():
                if self._ordering.fenced[warp, column] < time:
                    reader = self._ordering.describe(warp, column)
                    raise EmulatorError(
                        f"a response to try_cancel may come before {reader} has read the last "
                        f"one there (PTX line {line}): expected fence.proxy.async behind the "
                        "read, then an arrival that the one who asks waits for",
                        code="CD-A3",
                        ptx_line=ins.line,
                    )
            self._responses[chunk] = {}

    def _note_responses(self, line: int, warps: Array, at: Array) -> None:
        for chunk in distinct(at // 16).tolist():
            readers = self._responses.get(chunk)
            if readers is not None:
                for warp in distinct(warps[at // 16 == chunk]).tolist():
                    column, time = split(int(self._ordering.stamp[warp]))
                    readers[column] = time, line

    def _demand_landing(self, cells: _Cells, ins: Instruction, warps: Array, places: Array) -> None:
        """Whoever reads what a bulk copy brought has waited for it."""
        landed = cells.landed[places]
        if anywhere(landed):
            bad = self._unordered(warps, landed)
            if anywhere(bad):
                self._refuse(ins, "reads", warps, places, landed, bad, "wrote", None)

    def begin_copy(self, ins: Instruction, warps: Array, at: Array, width: int) -> None:
        """Each of `warps` begins a `cp.async` to its offset."""
        if self._shared is not None:
            places = _granules(at, width, self._shared_granule)
            self._demand(self._shared, ins, warps, places, None, False, None)

    def end_copy(self, line: int, warps: Array, at: Array, width: int) -> None:
        """The copies have landed, and `warps` know of it."""
        if self._shared is not None:
            places = _granules(at, width, self._shared_granule)
            self._shared.writer[places] = self._entries(line, warps, False, places)
            self._shared.landed[places] = 0
            for readers in self._shared.readers:
                readers[places] = 0

    # Global memory: addresses.

    def read_global(self, ins: Instruction, warps: Array, addresses: Array, width: int) -> None:
        for allocation, cells, mask in self._ranges(addresses):
            if cells is not None:
                at = self._within(allocation, addresses if mask is None else addresses[mask], width)
                self._read(cells, ins, warps if mask is None else warps[mask], at, allocation)

    def write_global(
        self,
        ins: Instruction,
        warps: Array,
        addresses: Array,
        width: int,
        words: Array = None,
        atomic: bool = False,
    ) -> None:
        for allocation, cells, mask in self._ranges(addresses):
            if cells is None:
                continue
            at = addresses if mask is None else addresses[mask]
            mine = None if words is None else words if mask is None else words[mask]
            equal = None
            if mine is not None:
                equal = _equal(self._machine.global_memory.load(at, width), mine)
                self._machine.global_memory.read_bytes -= width * len(at)
            places = self._within(allocation, at, width)
            writers = warps if mask is None else warps[mask]
            self._write(cells, ins, writers, places, allocation, atomic, equal, at, mine)

    def _ranges(self, addresses: Array) -> list[tuple[Allocation, _Cells | None, Array]]:
        """The allocations that addresses lie in, their cells, and which addresses those are."""
        memory = self._machine.global_memory
        found: list[tuple[Allocation, _Cells | None, Array]] = []
        low, high = int(addresses.min()), int(addresses.max())
        allocation = memory.find(low, 1)
        if allocation is not None and high < allocation.end:
            return [(allocation, self._cells(allocation), None)]
        rest = np.ones(len(addresses), np.bool_)
        while anywhere(rest):
            allocation = memory.find(int(addresses[np.argmax(rest)]), 1)
            if allocation is None:
                break  # The access itself is about to be refused.
            mask = rest & (addresses >= np.uint64(allocation.base)) & (
                addresses < np.uint64(allocation.end))  # fmt: skip
            found.append((allocation, self._cells(allocation), mask))
            rest &= ~mask
        return found

    def _cells(self, allocation: Allocation) -> _Cells | None:
        made = self._global.get(id(allocation))
        if made is None:
            count = allocation.size // self._global_granule + 2
            if not allocation.writable or count > _MOST_ENTRIES:
                return None
            made = self._global[id(allocation)] = allocation, _Cells(count)
        return made[1]

    def _within(self, allocation: Allocation, addresses: Array, width: int) -> Array:
        first = allocation.base // self._global_granule * self._global_granule
        offsets = (addresses - np.uint64(first)).astype(np.int64)
        return _granules(offsets, width, self._global_granule)

    # Both.

    def _entries(self, line: int, warps: Array, atomic: bool, places: Array) -> Array:
        head = np.uint64(min(line, int(_LINES))) << _LINE | np.uint64(atomic) << _ATOMIC
        made = (self._cluster[warps] << _CLUSTER) | self._ordering.stamp[warps] | head
        return made if places.ndim == 1 else np.broadcast_to(made[:, None], places.shape)

    def _unordered(self, warps: Array, entries: Array) -> Array:
        """Where the access of an entry is one of the same cluster that a warp does not know of."""
        stamps = entries & _STAMP
        column = (stamps & _COLUMN).astype(np.intp)
        rows = warps if entries.ndim == 1 else warps[:, None]
        hidden = self._ordering.known[rows, column] < (stamps >> _TIME).astype(np.int64)
        if not anywhere(hidden):
            return hidden
        return hidden & (entries >> _CLUSTER & _CLUSTERS == self._cluster[rows])

    def _read(
        self,
        cells: _Cells,
        ins: Instruction,
        warps: Array,
        places: Array,
        allocation: Allocation | None,
    ) -> None:
        written = cells.writer[places]
        if anywhere(written):
            bad = self._unordered(warps, written)
            if anywhere(bad):
                self._refuse(ins, "reads", warps, places, written, bad, "wrote", allocation)
        first, second = cells.readers
        mine = self._entries(ins.line, warps, False, places)
        before = first[places]
        if anywhere(before):
            kept = self._unordered(warps, before)
            if anywhere(kept):
                second[places[kept]] = before[kept]
        first[places] = mine
        beside = first[places] != mine
        if anywhere(beside):
            # Of those that read in this very step, one of another warp.
            second[places[beside]] = mine[beside]

    def _demand(
        self,
        cells: _Cells,
        ins: Instruction,
        warps: Array,
        places: Array,
        allocation: Allocation | None,
        atomic: bool,
        equal: Array,
    ) -> None:
        """A race unless who writes knows of the last write and of the reads since; `equal` are
        those who write what is there.
        """
        written = cells.writer[places]
        if anywhere(written):
            bad = self._unordered(warps, written)
            if atomic:
                bad &= written >> _ATOMIC == 0
            if equal is not None:
                bad &= ~(equal if bad.ndim == 1 else equal[:, None])
            if anywhere(bad):
                self._refuse(ins, "writes", warps, places, written, bad, "wrote", allocation)
        for readers in cells.readers:
            read = readers[places]
            if anywhere(read):
                bad = self._unordered(warps, read)
                if anywhere(bad):
                    self._refuse(ins, "writes", warps, places, read, bad, "read", allocation)
        if cells is self._shared and self._copied is not None:
            chunks = places // (16 // self._shared_granule)
            for readers in self._copied:
                read = readers[chunks]
                bad = self._unordered(warps, read)
                if anywhere(bad):
                    self._refuse(ins, "writes", warps, places, read, bad, "read", allocation)
        if cells is self._shared and self._multiplied is not None:
            chunks = places // (16 // self._shared_granule)
            for readers in self._multiplied:
                read = readers[chunks]
                if not anywhere(read):
                    continue
                bad = self._unordered(warps, read[..., 0])
                for other in range(1, read.shape[-1]):
                    if anywhere(bad):
                        bad &= self._unordered(warps, read[..., other])
                if anywhere(bad):
                    first = read[..., 0]
                    self._refuse(ins, "writes", warps, places, first, bad, "read", allocation)

    def _write(
        self,
        cells: _Cells,
        ins: Instruction,
        warps: Array,
        places: Array,
        allocation: Allocation | None,
        atomic: bool,
        equal: Array,
        at: Array,
        words: Array,
    ) -> None:
        self._demand(cells, ins, warps, places, allocation, atomic, equal)
        mine = self._entries(ins.line, warps, atomic, places)
        cells.writer[places] = mine
        cells.landed[places] = 0
        for readers in cells.readers:
            readers[places] = 0
        if atomic:
            return
        others = cells.writer[places]
        beside = (others != mine) & (others >> _CLUSTER & _CLUSTERS == mine >> _CLUSTER & _CLUSTERS)
        if anywhere(beside) and not _agree(at, words):
            self._refuse(ins, "writes", warps, places, others, beside, "wrote", allocation)

    def _refuse(
        self,
        ins: Instruction,
        verb: str,
        warps: Array,
        places: Array,
        entries: Array,
        bad: Array,
        before: str,
        allocation: Allocation | None,
    ) -> NoReturn:
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        warp, entry = int(warps[at[0]]), int(entries[at])
        place = int(places[at])
        if allocation is None:
            where_ = self._machine.describe_shared(place * self._shared_granule)
        else:
            base = allocation.base // self._global_granule * self._global_granule
            offset = max(0, base + place * self._global_granule - allocation.base)
            where_ = f"{allocation.name} + {offset}"
        mine = self._ordering.describe(warp, int(self._ordering.column[warp]))
        other = self._ordering.describe(warp, entry & int(_COLUMN))
        line = entry >> int(_LINE) & int(_LINES)
        raise EmulatorError(
            f"race: {mine} {verb} {where_}, which {other} {before} at PTX line {line}, and nothing "
            f"orders the two: expected a barrier between them",
            code="CD-I5",
        )


def _granules(at: Array, width: int, size: int) -> Array:
    """The granules of accesses of `width` bytes: one each, or a row of them."""
    first = at // size
    if width <= size:
        return first
    return first[:, None] + np.arange(width // size)


def _equal(old: Array, new: Array) -> Array:
    same = old == new
    return same if same.ndim == 1 else same.all(axis=1)


def _agree(at: Array, words: Array) -> bool:
    """Whether accesses to the same place write the same."""
    if words is None:
        return False
    order = np.argsort(at, kind="stable")
    same = at[order][1:] == at[order][:-1]
    equal = _equal(words[order][1:], words[order][:-1])
    return everywhere(where(same, equal, True))


def warps_of(lanes: Lanes) -> Array:
    """The warp of each lane."""
    return lanes.index >> 5
