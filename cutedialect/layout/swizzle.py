"""`Swizzle`: an XOR of address bits that spreads rows over the banks of shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .errors import LayoutError
from .int_tuple import Dyn

# Offsets have no more.
_ADDRESS_BITS = 64


@dataclass(frozen=True)
class Swizzle:
    """y = x ^ shift(x & YYY, shift): `bits` bits at `base` are XORed with those `shift` higher.

    >>> print(Swizzle(3, 4, 3), Swizzle(3, 4, 3)(0b10_0000000))
    S<3,4,3> 288
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        ok = self.bits >= 0 and self.base >= 0 and abs(self.shift) >= self.bits
        if not ok:
            raise LayoutError(
                f"expected bits >= 0, base >= 0 and |shift| >= bits, "
                f"got S<{self.bits},{self.base},{self.shift}>"
            )
        if self.bits + self.base + abs(self.shift) > _ADDRESS_BITS:
            raise LayoutError(
                f"expected a swizzle of at most {_ADDRESS_BITS} bits (bits + base + |shift|), got "
                f"S<{self.bits},{self.base},{self.shift}>"
            )

    def __call__(self, offset: Any) -> Any:
        mask = ((1 << self.bits) - 1) << (self.base + max(0, self.shift))
        if isinstance(offset, Dyn):
            return self._at_run_time(offset, mask)
        picked = offset & mask
        return offset ^ (picked >> self.shift if self.shift >= 0 else picked << -self.shift)

    def _at_run_time(self, offset: Any, mask: int) -> Any:
        from .expression import compute

        shift = "shift_right" if self.shift >= 0 else "shift_left"
        moved = compute(shift, compute("and", offset, mask), abs(self.shift))
        return compute("xor", offset, moved)

    @property
    def repeat(self) -> int:
        """After how many offsets the pattern repeats: `s(x + s.repeat) == s(x) + s.repeat`.

        >>> Swizzle(3, 4, 3).repeat
        1024
        """
        return 1 << (self.bits + self.base + abs(self.shift))

    @staticmethod
    def parse(text: str) -> Swizzle:
        """Read `S<3,4,3>`."""
        from .text import parse_swizzle

        return parse_swizzle(text)

    def _repr_svg_(self) -> str | None:
        from .draw_svg import picture, swizzle_svg

        return picture(swizzle_svg, self)

    def __str__(self) -> str:
        return f"S<{self.bits},{self.base},{self.shift}>"
