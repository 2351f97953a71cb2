"""Which tile attention computes at once, by head dimensions and target."""

from __future__ import annotations

from cutedialect.atoms import target
from cutedialect.schedule import Schedule

_WARPGROUP_TARGETS = ("sm_90a",)
# Shared memory beside a tile of q and two stages of k and v, of 16-bit elements.
_MEETING_BYTES = 4096
# A warp multiplies 16 rows at once, a warpgroup 64.
_ROWS, _GROUP_ROWS = 16, 64


def choose_schedule(
    dims: tuple[int, int], rows: int | None, arch: str, loads_boxes: bool, bits: int = 16
) -> Schedule:
    """The default for head dimensions (of q and k, of v), so many rows (None: many) and elements of
    so many bits. Where TMA
    does not load the operands, the threads that do take registers from those that multiply.

    Rows are few where the sequence is short. Keys are as many as leave the accumulators (the
    output's columns and the scores) and the operand made of them in a thread's registers.
    """
    widest = max(dims)
    if arch in _WARPGROUP_TARGETS:
        most, unit = (128 if loads_boxes or widest <= 192 else 64), _GROUP_ROWS
        keys = 128 if widest <= 128 else 96 if widest <= 192 else 64 if loads_boxes else 32
    else:
        most, unit = 128, _ROWS
        keys = 64 if widest <= 128 else 32
    needed = most if rows is None else -(-max(rows, 1) // unit) * unit
    bq = unit
    while bq < min(most, needed):
        bq *= 2
    free = target(arch).smem_per_cta - _MEETING_BYTES
    # Keys and values of 8 bits are there as they were loaded, and as they are multiplied.
    columns = sum(dims) if bits == 16 else dims[0] + 2 * dims[1]
    while bq > unit and bits // 8 * (bq * dims[0] + 2 * keys * columns) > free:
        bq //= 2
    if arch in _WARPGROUP_TARGETS and widest > 192:
        # The output alone takes half of a thread's registers: none are left for an operand that
        # waits for the next trip.
        return Schedule(tile=(bq, keys), overlap="no")
    if arch in _WARPGROUP_TARGETS and widest <= 128:
        return Schedule(tile=(bq, keys), overlap="turns")
    return Schedule(tile=(bq, keys))
