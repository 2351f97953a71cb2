"""Sets of threads that step together. A lane is one thread of the resident batch; lane numbers run
CTA by CTA, warps of 32 padded, so ``lane // 32`` is a warp of exactly one CTA.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


class Lanes:
    """A non-empty sorted set of lanes. ``sel`` indexes per-lane arrays: a slice where lanes are
    contiguous (views, no copies), otherwise an index array. ``full`` means every lane of the batch.
    """

    __slots__ = ("_index", "_warps", "_whole", "count", "full", "sel")

    def __init__(self, sel: Any, count: int, full: bool) -> None:
        self.sel = sel
        self.count = count
        self.full = full
        self._index: Array = None
        self._warps: Array = None
        self._whole: bool | None = None

    @staticmethod
    def of(index: Array, total: int) -> Lanes:
        """From a sorted array of distinct lane numbers."""
        count = len(index)
        first = int(index[0])
        if int(index[-1]) - first + 1 == count:
            lanes = Lanes(slice(first, first + count), count, count == total)
        else:
            lanes = Lanes(index, count, False)
        lanes._index = index
        return lanes

    @property
    def index(self) -> Array:
        """Lane numbers, ascending."""
        if self._index is None:
            self._index = np.arange(self.sel.start, self.sel.stop)
        return self._index

    @property
    def warps(self) -> Array:
        """Numbers of the warps that have a lane here, ascending."""
        if self._warps is None:
            if isinstance(self.sel, slice):
                self._warps = np.arange(self.sel.start >> 5, (self.sel.stop + 31) >> 5)
            else:
                self._warps = np.unique(self._index >> 5)
        return self._warps

    @property
    def whole(self) -> bool:
        """True when all 32 lanes of each of ``warps`` are here."""
        if self._whole is None:
            self._whole = self.count == 32 * len(self.warps)
        return self._whole

    @property
    def warp_sel(self) -> Any:
        """Indexes arrays of shape ``[warps, ...]`` at ``warps``; a slice where possible."""
        if isinstance(self.sel, slice):
            return slice(self.sel.start >> 5, (self.sel.stop + 31) >> 5)
        return self.warps

    def where(self, mask: Array, total: int) -> Lanes | None:
        """The lanes for which ``mask`` (one bool a lane, in order) holds; None if there is none."""
        count = np.count_nonzero(mask)
        if count == self.count:
            return self
        return Lanes.of(self.index[mask], total) if count else None

    def union(self, other: Lanes, total: int) -> Lanes:
        index = np.concatenate((self.index, other.index))
        index.sort()
        return Lanes.of(index, total)
