"""Tensor memory as data: 128 lanes of 512 columns of 32 bits for each CTA, allocated by columns.
An address is ``lane << 16 | column``, so that a layout of accumulators maps (m, n) to an address,
and adding the address of the allocation gives the place. Source: PTX ISA 9.1, "Tensor Memory",
"Data Path Layout Organization", "Packing formats", "Block Scaling".
"""

from __future__ import annotations

from cutedialect.layout import Layout

LANES = 128
COLUMNS = 512
# What one lane adds to an address.
LANE = 1 << 16
# Lanes that one warp of four reaches: those of a quarter.
WARP_LANES = 32
ALLOCATIONS = (32, 64, 128, 256, 512)


def allocation(columns: int) -> int:
    """The columns to allocate for `columns` that are needed; `ValueError` above 512.

    >>> allocation(1), allocation(96), allocation(257)
    (32, 128, 512)
    """
    found = next((size for size in ALLOCATIONS if size >= columns > 0), None)
    if found is None:
        raise ValueError(f"expected 1 to {COLUMNS} columns of tensor memory, got {columns}")
    return found


def accumulator_layout(m: int, n: int, cta_group: int = 1, stationary: bool = False) -> Layout:
    """(m, n) of one CTA's part of D to its address; D is never packed, one element a word.

    `m` is that of the instruction: of a CTA pair each CTA has half of the rows. M = 64 uses half of
    the lanes (base lane 0 or 16); M = 128 of a pair, and M below 128 of a weight-stationary
    product (`.ws`), fold the columns over the lanes.

    >>> print(accumulator_layout(128, 256), accumulator_layout(64, 8))
    (128,256):(65536,1) ((16,4),8):((65536,2097152),1)
    >>> print(accumulator_layout(128, 64, cta_group=2))
    (64,(32,2)):(65536,(1,4194304))
    """
    rows = m // cta_group
    if rows == LANES:
        return Layout((rows, n), (LANE, 1))
    if cta_group == 1 and m == 64 and not stationary:
        return Layout(((16, 4), n), ((LANE, WARP_LANES * LANE), 1))
    folds = LANES // rows
    if rows not in (32, 64) or (rows == 32 and not stationary) or n % folds:
        raise ValueError(
            f"expected M = 64 or 128 (32 with .ws; 128 or 256 of a CTA pair) and N that folds over "
            f"the lanes, got m{m}n{n} with cta_group {cta_group}"
        )
    return Layout((rows, (n // folds, folds)), (LANE, (1, rows * LANE)))


def accumulator_columns(m: int, n: int, cta_group: int = 1, stationary: bool = False) -> int:
    """Columns that D takes in each CTA.

    >>> accumulator_columns(128, 256), accumulator_columns(128, 256, cta_group=2)
    (256, 128)
    """
    folded = accumulator_layout(m, n, cta_group, stationary)[1]
    return max(folded(i) % LANE for i in range(n)) + 1


def operand_layout(m: int, k: int, bits: int, cta_group: int = 1) -> Layout:
    """(m, k) of one CTA's part of A in tensor memory to an offset in elements of `bits` bits: a
    lane is 65536 words of 32 bits. Types of 4 and 6 bits that are not packed in pairs count as 8.

    For M = 128 of a CTA pair the 64 rows lie twice: the last mode is the copy.

    >>> print(operand_layout(128, 16, 16))
    (128,16):(131072,1)
    >>> print(operand_layout(128, 16, 16, cta_group=2))
    (64,16,2):(131072,1,8388608)
    """
    lane = LANE * 32 // bits
    rows = m // cta_group
    if rows == LANES:
        return Layout((rows, k), (lane, 1))
    if rows != 64:
        raise ValueError(f"expected M = 64 or 128 (of a CTA pair 128 or 256), got {m}")
    if cta_group == 1:
        return Layout(((16, 4), k), ((lane, WARP_LANES * lane), 1))
    return Layout((rows, k, 2), (lane, 1, rows * lane))


def scale_layout(rows: int, factors: int, *, halves: bool = False) -> Layout:
    """(row, factor, copy) of the scale factors of A or B to an offset in bytes of tensor memory:
    row r lies in lane r % 32 of column r / 32, the factors of one row side by side in a word, all
    of it in every quarter of the lanes. `halves`: B for M = 128 of a CTA pair, where the lower two
    quarters have the first half of the rows and the upper two the second.

    >>> print(scale_layout(128, 1))
    ((32,4),1,4):((262144,4),1,8388608)
    >>> print(scale_layout(256, 2, halves=True))
    ((32,4,2),2,2):((262144,4,16777216),1,8388608)
    """
    if factors not in (1, 2, 4):
        raise ValueError(f"expected 1, 2 or 4 scale factors along K, got {factors}")
    parts = 2 if halves else 1
    if rows % (WARP_LANES * parts):
        raise ValueError(f"expected a multiple of {WARP_LANES * parts} rows, got {rows}")
    lane, quarter = 4 * LANE, 4 * LANE * WARP_LANES
    each = rows // parts // WARP_LANES
    if halves:
        shape, stride = ((32, each, 2), factors, 2), ((lane, 4, 2 * quarter), 1, quarter)
        return Layout(shape, stride)
    return Layout(((32, each), factors, 4), ((lane, 4), 1, quarter))


def scale_smem_layout(factors: int) -> Layout:
    """((row % 32, row / 32), (element, factor)) of 128 rows of scale factors, four along K, to the
    byte of the 512 in shared memory or global memory that `tcgen05.cp ... 32x128b.warpx4` brings to
    four columns: the layout that cuBLAS and CUTLASS use. `factors` are elements to one factor.

    >>> print(scale_smem_layout(32))
    ((32,4),(32,4)):((16,4),(0,1))
    """
    return Layout(((32, 4), (factors, 4)), ((16, 4), (0, 1)))
