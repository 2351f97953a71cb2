"""Linear memory outside the CTA: global buffers, constants, kernel parameters. Each allocation is
one NumPy byte array at a virtual address; the space between allocations is the red zone.

Virtual addresses: parameters at ``PARAM_BASE``, constants at ``CONST_BASE``, global allocations
from ``GLOBAL_BASE``, and the generic windows of shared and local memory at ``SHARED_WINDOW`` and
``LOCAL_WINDOW``. No global address fits 32 bits, so a truncated pointer is out of bounds.
"""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np

from .errors import EmulatorError
from .lanes import Array, anywhere

PARAM_BASE = 0x0000_0004_0000_0000
CONST_BASE = 0x0000_0008_0000_0000
GLOBAL_BASE = 0x0000_0100_0000_0000
SHARED_WINDOW = 0x0010_0000_0000_0000
LOCAL_WINDOW = 0x0020_0000_0000_0000
WINDOW_SIZE = 0x0001_0000_0000
RED_ZONE = 1 << 16

_WORD: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Allocation:
    """``data`` (uint8) lies at virtual addresses ``[base, base + size)``."""

    def __init__(self, name: str, base: int, data: Array, writable: bool = True) -> None:
        self.name = name
        self.base = base
        self.data = data
        self.size = len(data)
        self.end = base + self.size
        self.writable = writable
        self._words: dict[int, tuple[int, Array]] = {}

    def words(self, width: int) -> tuple[int, Array]:
        """``(address of the first word, words)``: the aligned words of ``width`` bytes that lie
        inside; a 2-D array of 32-bit columns for more than 8 bytes."""
        found = self._words.get(width)
        if found is None:
            first = -(-self.base // width) * width
            count = max(0, (self.end - first) // width)
            skip = first - self.base
            raw = self.data[skip : skip + count * width]
            if width <= 8:
                view = raw.view(_WORD[width])
            else:
                view = raw.view(np.uint32).reshape(count, width // 4)
            found = self._words[width] = (first, view)
        return found


class LinearMemory:
    """All allocations of one address range, ordered by address."""

    def __init__(self, space: str) -> None:
        self.space = space
        self._bases: list[int] = []
        self._allocations: list[Allocation] = []
        self.read_bytes = 0
        self.written_bytes = 0

    def add(self, allocation: Allocation) -> None:
        at = bisect.bisect_left(self._bases, allocation.base)
        self._bases.insert(at, allocation.base)
        self._allocations.insert(at, allocation)

    def find(self, address: int, size: int) -> Allocation | None:
        """The allocation that holds ``[address, address + size)``."""
        at = bisect.bisect_right(self._bases, address) - 1
        while at >= 0:
            allocation = self._allocations[at]
            if address + size <= allocation.end:
                return allocation
            if allocation.end + RED_ZONE < address:
                return None
            at -= 1
        return None

    def load(self, addresses: Array, width: int) -> Array:
        """Words of ``width`` bytes at ``addresses`` (uint64); ``[n]`` up to 8 bytes, else
        ``[n, width / 4]``. ``EmulatorError`` CD-I1, CD-I2."""
        low, high = int(addresses.min()), int(addresses.max())
        self.check_alignment(addresses, width)
        self.read_bytes += width * len(addresses)
        allocation = self.find(low, width)
        if allocation is not None and high + width <= allocation.end:
            first, words = allocation.words(width)
            return words[((addresses - np.uint64(first)) // np.uint64(width)).astype(np.intp)]
        shape = (len(addresses),) if width <= 8 else (len(addresses), width // 4)
        out = np.empty(shape, _WORD[min(width, 8)] if width <= 8 else np.uint32)
        for allocation, mask in self._partition(addresses, width, "read"):
            first, words = allocation.words(width)
            at = ((addresses[mask] - np.uint64(first)) // np.uint64(width)).astype(np.intp)
            out[mask] = words[at]
        return out

    def store(self, addresses: Array, values: Array, width: int) -> None:
        """The reverse of ``load``; where lanes collide, the last one wins."""
        low, high = int(addresses.min()), int(addresses.max())
        self.check_alignment(addresses, width)
        self.written_bytes += width * len(addresses)
        allocation = self.find(low, width)
        if allocation is not None and high + width <= allocation.end and allocation.writable:
            first, words = allocation.words(width)
            at = ((addresses - np.uint64(first)) // np.uint64(width)).astype(np.intp)
            words[at] = values
            return
        for allocation, mask in self._partition(addresses, width, "write"):
            if not allocation.writable:
                raise EmulatorError(f"write to {allocation.name}, which is read-only", code="CD-I1")
            first, words = allocation.words(width)
            at = ((addresses[mask] - np.uint64(first)) // np.uint64(width)).astype(np.intp)
            words[at] = values[mask]

    def check(self, addresses: Array, width: int, verb: str) -> None:
        """Bounds and alignment of an access that happens later."""
        self.check_alignment(addresses, width)
        low, high = int(addresses.min()), int(addresses.max())
        allocation = self.find(low, width)
        if allocation is None or high + width > allocation.end:
            self._partition(addresses, width, verb)

    def check_alignment(self, addresses: Array, width: int) -> None:
        if width > 1:
            wrong = addresses & np.uint64(width - 1)
            if anywhere(wrong):
                bad = int(addresses[np.flatnonzero(wrong)[0]])
                raise EmulatorError(
                    f"misaligned {self.space} access: {width} bytes at {self.describe(bad)}, "
                    f"expected a multiple of {width}",
                    code="CD-I2",
                )

    def _partition(self, addresses: Array, width: int, verb: str) -> list[tuple[Allocation, Array]]:
        """Masks by allocation; raises CD-I1 at the first address that is in none."""
        rest = np.ones(len(addresses), np.bool_)
        found: list[tuple[Allocation, Array]] = []
        while anywhere(rest):
            first = int(addresses[np.argmax(rest)])
            allocation = self.find(first, width)
            if allocation is None:
                raise EmulatorError(
                    f"out-of-bounds {self.space} {verb} of {width} bytes at {self.describe(first)}",
                    code="CD-I1",
                )
            mask = (
                rest
                & (addresses >= np.uint64(allocation.base))
                & (addresses + np.uint64(width) <= np.uint64(allocation.end))
            )
            found.append((allocation, mask))
            rest &= ~mask
        return found

    def describe(self, address: int) -> str:
        """The address, and where it lies in or beside the nearest allocation."""
        nearest: Allocation | None = None
        distance = 0
        for allocation in self._allocations:
            if allocation.base <= address < allocation.end:
                return f"{address:#x} ({allocation.name} + {address - allocation.base})"
            gap = allocation.base - address if address < allocation.base else (
                address - allocation.end)  # fmt: skip
            if nearest is None or gap < distance:
                nearest, distance = allocation, gap
        if nearest is None or distance > 1 << 36:
            return f"{address:#x} (no allocation is near)"
        side = "before the start" if address < nearest.base else "past the end"
        return (
            f"{address:#x} ({distance} bytes {side} of {nearest.name}, {nearest.size} bytes long)"
        )
