"""What a schedule needs of a device, and what has to be left over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cutedialect.atoms import Target
    from cutedialect.schedule import Schedule


@dataclass(frozen=True)
class Need:
    """registers: values that a thread of the tightest role holds, with all that it takes beside
    them; room: how many of these it has. smem: bytes of shared memory of a CTA. columns: of tensor
    memory. threads: of a CTA.
    """

    registers: float = 0.0
    room: float = 0.0
    smem: int = 0
    columns: int = 0
    threads: int = 0

    @property
    def spare(self) -> float:
        """Registers of a thread that are left over; fewer than none where they do not suffice."""
        return self.room - self.registers

    def fits(self, target: Target, limits: Limits) -> bool:
        """Whether a device has what is needed, within limits."""
        return (
            self.leaves(limits)
            and self.smem <= target.smem_per_cta
            and self.columns <= target.tmem_columns
            and self.threads <= target.max_threads_per_cta
        )

    def leaves(self, limits: Limits) -> bool:
        """Whether what is needed keeps within limits."""
        return self.spare >= limits.registers and self.smem < limits.smem

    def text(self) -> str:
        """What is known to be needed, in words."""
        words = (
            (self.registers, f"{self.registers:g} registers of {self.room:g}"),
            (self.smem, f"{self.smem} bytes of shared memory"),
            (self.columns, f"{self.columns} columns of tensor memory"),
            (self.threads, f"{self.threads} threads"),
        )
        return ", ".join(text for number, text in words if number) or "nothing that is counted"


@dataclass(frozen=True)
class Limits:
    """What others that were rejected say: `registers` of a thread have to be left over at least,
    and `smem` bytes of shared memory are too many.
    """

    registers: float = 0.0
    smem: int = 1 << 30


NONE = Limits()


def extents(schedule: Schedule) -> tuple[int, int]:
    """Rows of a tile of attention that stay while others come, and how many of these come at a
    time: of queries and of keys, in the backward pass of keys and of queries.
    """
    assert schedule.tile is not None
    return schedule.tile[0], schedule.tile[1]


def values_of_thread(tile: tuple[int, int], threads: int, sums: float, scores: float) -> float:
    """Values of a thread for a tile of attention: `sums` of each row that stays, and `scores` of it
    with each that comes.
    """
    stays, comes = tile
    return stays * (sums + scores * comes) / threads


def bytes_of_tile(
    tile: tuple[int, int], row_bytes: tuple[int, int], stages: int, exchanged: int
) -> int:
    """Bytes of shared memory for a tile of attention: of rows that stay, of those that come in
    stages, and what is exchanged for each pair.
    """
    stays, comes = tile
    return stays * row_bytes[0] + stages * comes * row_bytes[1] + exchanged * stays * comes
