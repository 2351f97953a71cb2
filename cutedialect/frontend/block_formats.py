"""Formats of numbers that share scales: the elements, the type of scales, how many elements share
one, and how a scale is rounded. Data alone, without xDSL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .dtypes import DType, e2m1, e2m3, e3m2, e4m3, e5m2, f32, ue4m3, ue8m0

# Rows and columns of scales that lie together where tensor cores read them: a panel.
PANEL = (128, 4)
# Words of 64 bits in a panel.
PANEL_WORDS = 64
# A panel's rows as (row groups, rows): row r is row r % 32 of group r / 32.
PANEL_ROWS = (4, 32)


@dataclass(frozen=True)
class BlockFormat:
    """`block` are the rows and columns that share a scale. `largest` is the largest element, and
    `roundings` how scales may be rounded, the default first: "up" and "down" to a power of two, or
    to the "nearest" number of their type.
    """

    name: str
    element: DType
    scale: DType
    block: tuple[int, int]
    largest: float
    roundings: tuple[str, ...]
    takes_global_scale: bool = False

    @property
    def columns(self) -> int:
        """Elements of a row that share a scale."""
        return self.block[1]

    @property
    def packed(self) -> int:
        """Elements of a byte."""
        return 2 if self.element == e2m1 else 1

    @property
    def is_packable(self) -> bool:
        """Whether elements have 6 bits, of which `cute.pack` puts four in three bytes."""
        return self.element in (e2m3, e3m2)

    @property
    def stored(self) -> str:
        """The type of the array of elements: two of 4 bits are in a byte, the first one low."""
        return "u8" if self.packed > 1 else self.element.name


_POWERS = ("up", "down")
FORMATS = {
    each.name: each
    for each in (
        BlockFormat("mxfp8", e4m3, ue8m0, (1, 32), 448.0, _POWERS),
        BlockFormat("mxfp8_e5m2", e5m2, ue8m0, (1, 32), 57344.0, _POWERS),
        BlockFormat("mxfp6_e2m3", e2m3, ue8m0, (1, 32), 7.5, _POWERS),
        BlockFormat("mxfp6_e3m2", e3m2, ue8m0, (1, 32), 28.0, _POWERS),
        BlockFormat("mxfp4", e2m1, ue8m0, (1, 32), 6.0, _POWERS),
        BlockFormat("nvfp4", e2m1, ue4m3, (1, 16), 6.0, ("nearest",), takes_global_scale=True),
        BlockFormat("fp8_block", e4m3, f32, (1, 128), 448.0, ("nearest", "up")),
        BlockFormat("fp8_square", e4m3, f32, (128, 128), 448.0, ("nearest", "up")),
    )
}


def panels(rows: int | None, columns: int | None) -> tuple[int | None, int | None, int, int, int]:
    """The shape of scales in panels of 128 rows and 4 columns: (panels of rows, panels of columns,
    32, 4, 4), where row r and column c are at [r // 128, c // 4, r % 32, r % 128 // 32, c % 4].

    >>> panels(200, 5)
    (2, 2, 32, 4, 4)
    """
    extents: Iterator[int | None] = (
        None if extent is None else -(-extent // whole)
        for extent, whole in zip((rows, columns), PANEL, strict=True)
    )
    row_panels, column_panels = extents
    groups, group = PANEL_ROWS
    return row_panels, column_panels, group, groups, PANEL[1]
