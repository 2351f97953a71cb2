"""What a schedule needs of a device, and what has to be left over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cutedialect.atoms import Target


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
