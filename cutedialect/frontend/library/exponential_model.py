"""How many of attention's exponentials are polynomials, from what units of a processor do in a
cycle: by default on targets whose tensor cores outrun the unit for special functions.
"""

from __future__ import annotations

from dataclasses import dataclass

from cutedialect.schedule import SHARES


@dataclass(frozen=True)
class Rates:
    """Of one processor: floating-point operations of 16 bits of its tensor cores in a cycle,
    exponentials in a cycle, and results of instructions in a cycle.
    """

    multiplies: int
    exponentials: int = 16
    issue: int = 128


# A B200: 2.25 PFLOP/s of 148 processors at 1.85 GHz, and CUDA's table of throughputs of arithmetic
# instructions, by which 10.3 has twice the exponentials: those are no bound there.
RATES = {arch: Rates(8192) for arch in ("sm_100a", "sm_100f")}
# Instructions for a score beside its exponential: scale and subtract, find the largest, add up,
# round (two at once), and a part of what rows and tiles take. Of a polynomial beside its degree:
# two for the range, three to round, two for the power of two, less the exponential's own.
_BESIDE, _BESIDE_DEGREE = 5.5, 6
# The exponentials of a tile wait for its scores, so that their unit is idle now and then.
_BUSY = 0.75


def polynomials(
    arch: str, dims: tuple[int, int], bits: int, is_f16: bool, returns_lse: bool
) -> tuple[int, int] | None:
    """(share, degree) for head dimensions of q and of v and elements of so many bits; None where
    the tensor cores take longer, or nothing is known of the target. The fewest pairs with which
    neither the one unit nor the others take longer than they have to.
    """
    rates = RATES.get(arch)
    if rates is None:
        return None
    # Errors below the rounding of what is multiplied by V; logarithms keep those of f32.
    degree = 5 if returns_lse else 4 if is_f16 else 3
    tensor = 2 * sum(dims) * bits / 16 / rates.multiplies

    def time(share: int) -> float:
        """Cycles for a score: those of the unit that takes longest."""
        part = share / SHARES
        special = (1 - part) / rates.exponentials / _BUSY
        return max(tensor, special, (_BESIDE + part * (degree + _BESIDE_DEGREE)) / rates.issue)

    share = min(range(0, SHARES + 1, 2), key=time)
    return (share, degree) if share else None
