"""Sets of threads that step together. A lane is one thread of the resident batch; lane numbers run
CTA by CTA, warps of 32 padded, so ``lane // 32`` is a warp of exactly one CTA.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any
# ``np.where`` without its overloads, which know nothing of arrays of any type.
where: Callable[..., Array] = np.where


# A step asks many small arrays. The methods `any` and `all` go through Python code of NumPy, and
# `np.unique` through a table of hashes: they take 3 to 8 times as long on a few hundred values.


def anywhere(values: Array) -> bool:
    """Whether some element is not zero."""
    return bool(np.count_nonzero(values))


def everywhere(values: Array) -> bool:
    """Whether no element is zero."""
    return np.count_nonzero(values) == values.size


def begins(ordered: Array) -> Array:
    """Where a run of equal elements begins: one bool an element of ``[n]``."""
    first: Array = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def distinct(values: Array) -> Array:
    """The elements in ascending order, every value once: ``[n]`` of an array of any shape."""
    ordered: Array = np.sort(values, axis=None)
    return ordered[begins(ordered)]


class Lanes:
    """A non-empty sorted set of lanes. ``sel`` indexes per-lane arrays: a slice where lanes are
    contiguous (views, no copies), otherwise an index array. ``full`` means every lane of the batch.
    """

    __slots__ = ("_warps", "_whole", "count", "full", "groups", "index", "sel")

    def __init__(self, index: Array, total: int) -> None:
        self.index: Array = index
        self.count = len(index)
        first = int(index[0])
        contiguous = int(index[-1]) - first + 1 == self.count
        self.sel: Any = slice(first, first + self.count) if contiguous else index
        self.full = self.count == total
        self._warps: Array = None
        self._whole: bool | None = None
        # The warpgroups that make these lanes up (``Warpgroups.of``), False if there are none.
        self.groups: Any = None

    @staticmethod
    def of(index: Array, total: int) -> Lanes:
        """From a sorted array of distinct lane numbers."""
        return Lanes(index, total)

    @property
    def warps(self) -> Array:
        """Numbers of the warps that have a lane here, ascending."""
        if self._warps is None:
            warps: Array = self.index >> 5
            self._warps = warps[begins(warps)]
        return self._warps

    @property
    def whole(self) -> bool:
        """True when all 32 lanes of each of ``warps`` are here."""
        if self._whole is None:
            self._whole = self.count == 32 * len(self.warps)
        return self._whole

    def where(self, mask: Array, total: int) -> Lanes | None:
        """The lanes for which ``mask`` (one bool a lane, in order) holds; None if there is none."""
        count = np.count_nonzero(mask)
        if count == self.count:
            return self
        return Lanes.of(self.index[mask], total) if count else None

    def union(self, other: Lanes, total: int) -> Lanes:
        index = np.concatenate((self.index, other.index))
        index.sort(kind="stable")  # two ascending runs: a merge
        return Lanes.of(index, total)
