"""The CTA tile of `cute.gemm` where no schedule gives one and every warp does everything."""

from __future__ import annotations

from cutedialect.atoms import usual_device

from .dtypes import DType

# A device of this size has full waves of the largest tile from this many tiles on.
_WAVE = usual_device("sm_90a").processors


def default_tile(
    dtype: DType, m: int | None, n: int | None, smem: int, align: int, adds: bool = False,
    has_tensor_memory: bool = False,
) -> tuple[int, int, int]:  # fmt: skip
    """CTA tile for an element type and a problem, on a target with `smem` bytes for a CTA.

    The largest tile moves the fewest bytes for a product; it is taken where enough tiles remain to
    fill a device, and three stages of it fit. Run-time extents (None) count as large enough for
    the tile in the middle. Operands aligned to less than 16 bytes take as many more copies, whose
    addresses want registers: they get the small tile. A tile that is added to the products (`adds`:
    c, or the sums of other CTAs) lies in registers beside them, for which the largest tile leaves
    no room. Where accumulators are in tensor memory, a trip takes the 128 bytes of a row that one
    swizzle spans.
    """
    depth = {64: 16, 32: 32, 16: 32, 8: 64}[dtype.bits]
    if align < 16:
        return 64, 64, depth
    if has_tensor_memory and dtype.bits <= 32:
        depth = 1024 // dtype.bits
    if dtype.bits == 16 and not adds and m is not None and n is not None:
        rows, columns = 128, 256
        tiles = -(-m // rows) * -(-n // columns)
        if tiles >= _WAVE and 3 * 2 * (rows + columns) * 64 <= smem:
            return rows, columns, 64
    largest = 64 if dtype.bits == 64 else 128
    return (
        largest if m is None or m > 64 else 64,
        largest if n is None or n > 64 else 64,
        depth,
    )
