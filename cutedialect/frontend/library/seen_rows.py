"""Which rows see a block of keys, by masks and by where the sequence ends."""

from __future__ import annotations

from dataclasses import dataclass

from cutedialect.frontend import functions as cute
from cutedialect.frontend.loops import when
from cutedialect.frontend.scalar import Scalar
from cutedialect.frontend.tile import Tile


@dataclass(frozen=True)
class SeenRows:
    """Row r sees the keys from `left` before the key that it is aligned with, r + keys - rows, to
    `right` behind it; None is unbounded. The block has the keys from `at` on. `begin` and `end` are
    those of the rows that see some key of it.
    """

    at: Scalar
    bk: int
    rows: Scalar | int
    keys: Scalar | int
    left: Scalar | None
    right: Scalar | None

    @property
    def is_masked(self) -> bool:
        """Whether a mask hides keys."""
        return self.left is not None or self.right is not None

    @property
    def _shift(self) -> Scalar | int:
        return self.keys - self.rows

    def tiles(self, bq: int) -> tuple[Scalar | int, Scalar | int]:
        """The first tile of `bq` rows that sees some key, and how many do."""
        begin: Scalar | int = 0
        end = self.rows
        if self.right is not None:
            begin = cute.maximum(self.at - self._shift - self.right, 0)
        if self.left is not None:
            last = cute.minimum(self.at + self.bk, self.keys) - 1
            end = cute.minimum(last - self._shift + self.left + 1, end)
        first = begin // bq
        # No row sees what is behind the last key.
        end = cute.where(self.at < self.keys, end, 0)
        return first, cute.maximum((end + (bq - 1)) // bq - first, 0)

    def cuts(self, row: Scalar, bq: int) -> Scalar:
        """Whether some of the `bq` rows from `row` on does not see all of the block: the first of
        a sequence, or all where the block hangs over the end of the keys.
        """
        first = 0
        if self.right is not None:
            first = self.at + (self.bk - 1) - self._shift - self.right
        cut = row < cute.where(self.at + self.bk > self.keys, self.rows, first)
        if self.left is not None:
            cut = cut | (row > self.at - self._shift + self.left - (bq - 1))
        return cut

    def hide(self, s: Tile, row: Scalar, hides: Scalar) -> None:
        """Let what rows do not see be 0 in a tile of those from `row` on, where some `hides`."""
        with when(hides):
            s.assign(cute.where(self.sees(s, row), s, 0.0))

    def sees(self, s: Tile, row: Scalar, first: Scalar | int = 0) -> Tile:
        """Where rows, along mode 1 of a tile from `row` on, see keys, along mode 0 from number
        `first` of the block on.
        """
        # The rows between which each key is seen: a thread has few keys, and many of the rows.
        key = cute.coord(cute.zeros((s.shape[0], 1)), 0, self.at + first)
        row_of, seen = cute.coord(s, 1, row), key < self.keys
        if self.right is not None:
            begin = key - (self.right + self._shift)
            seen = row_of >= cute.where(seen, begin, self.rows)
        if self.left is not None:
            seen = seen & (row_of <= key - (self._shift - self.left))
        return seen
