"""Bank conflicts of one shared-memory access of a warp.

32 banks of 4 bytes answer once per wavefront; lanes that ask for the same 4-byte word are served
together. 8- and 16-byte accesses go in two and four phases of 16 and 8 lanes; `ldmatrix` reads
eight 16-byte rows per phase. Source: CUDA C++ Best Practices Guide, "Shared Memory and Memory
Banks".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .composed_layout import AnyLayout
from .errors import LayoutError
from .swizzle import Swizzle

BANKS = 32
BANK_BYTES = 4


@dataclass(frozen=True)
class Wavefronts:
    """How many wavefronts an access takes, and how many its bytes need at least."""

    wavefronts: int
    minimum: int

    @property
    def conflicts(self) -> int:
        """Wavefronts beyond the minimum: 0 is free of conflicts."""
        return self.wavefronts - self.minimum


def bank_conflicts(addresses: Sequence[int | None], bytes_per_thread: int) -> Wavefronts:
    """Wavefronts of one access: a byte address per lane, `None` for a lane that does not take part.

    Accesses are 1, 2, 4, 8 or 16 bytes and aligned to their size, at most 32 lanes. The minimum is
    the number of phases that have a lane, or of 128-byte lines that the distinct words fill.

    >>> bank_conflicts([lane * 4 for lane in range(32)], 4)
    Wavefronts(wavefronts=1, minimum=1)
    >>> bank_conflicts([lane * 128 for lane in range(32)], 4).conflicts
    31
    """
    if bytes_per_thread not in (1, 2, 4, 8, 16):
        raise LayoutError(f"expected 1, 2, 4, 8 or 16 bytes per thread, got {bytes_per_thread}")
    if len(addresses) > 32:
        raise LayoutError(f"expected the addresses of at most 32 threads, got {len(addresses)}")
    for lane, address in enumerate(addresses):
        if address is not None and address % bytes_per_thread:
            raise LayoutError(
                f"expected addresses aligned to {bytes_per_thread} bytes, got {address} in "
                f"thread {lane}"
            )
    lanes = 128 // max(bytes_per_thread, 4)
    phases = [addresses[i : i + lanes] for i in range(0, len(addresses), lanes)]
    total = least = 0
    for phase in phases:
        words = {
            (address + at) // BANK_BYTES
            for address in phase
            if address is not None
            for at in range(0, bytes_per_thread, BANK_BYTES)
        }
        if words:
            per_bank = [0] * BANKS
            for word in words:
                per_bank[word % BANKS] += 1
            total += max(per_bank)
            least += -(-len(words) // BANKS)
    return Wavefronts(total, least)


def access_conflicts(
    layout: AnyLayout,
    element_bits: int,
    coordinate: Callable[[int], Any],
    *,
    vector: int = 1,
    threads: int = 32,
    swizzle: Swizzle | None = None,
) -> Wavefronts:
    """Wavefronts when thread t reads `vector` elements from `coordinate(t)` on.

    The layout gives element offsets; `swizzle`, if any, acts on byte addresses, as on a memref. The
    `vector` elements of a thread are taken to lie together from its coordinate on.

    >>> from cutedialect.layout import Layout
    >>> rows = Layout((8, 64), (64, 1))
    >>> read = lambda t: (t % 8, t // 8 * 8)
    >>> access_conflicts(rows, 16, read, vector=8).conflicts
    28
    >>> access_conflicts(rows, 16, read, vector=8, swizzle=Swizzle(3, 4, 3)).conflicts
    0
    """
    if vector < 1 or vector * element_bits % 8:
        raise LayoutError(
            f"expected accesses of whole bytes, got {vector} elements of {element_bits} bits"
        )
    addresses: list[int | None] = []
    for thread in range(threads):
        bits = layout(coordinate(thread)) * element_bits
        if bits % 8:
            raise LayoutError(f"expected byte addresses, got bit {bits} in thread {thread}")
        addresses.append(swizzle(bits // 8) if swizzle else bits // 8)
    return bank_conflicts(addresses, vector * element_bits // 8)


def ldmatrix_conflicts(row_addresses: Sequence[int]) -> Wavefronts:
    """Wavefronts of `ldmatrix` or `stmatrix`: 8, 16 or 32 addresses of 16-byte rows.

    >>> ldmatrix_conflicts([row * 128 for row in range(8)])
    Wavefronts(wavefronts=8, minimum=1)
    """
    if len(row_addresses) not in (8, 16, 32):
        raise LayoutError(f"expected 8, 16 or 32 row addresses, got {len(row_addresses)}")
    return bank_conflicts(row_addresses, 16)
