"""Which keys the rows of a tile see, by masks and by where the sequence ends; and rows that touch
no other key.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from cutedialect.frontend import functions as cute
from cutedialect.frontend.loops import when
from cutedialect.frontend.scalar import Scalar
from cutedialect.frontend.tile import Tensor, Tile


@dataclass
class SeenKeys:
    """Row r of a tile of `bq` sees the keys from `left` before the key that it is aligned with to
    `right` behind it; None is unbounded. The first row is aligned with the key `diagonal`, the last
    one with `diagonal` + `more`. `i` is the number of the tile; with `queries` rows are those of
    several heads, so many of each. `begin` and `end` are those of the keys that some row sees.
    """

    bq: int
    i: Scalar
    keys: Scalar | int
    left: Scalar | None
    right: Scalar | None
    queries: Scalar | None
    diagonal: Scalar | int
    more: Scalar | int
    begin: Scalar | int
    end: Scalar | int

    @staticmethod
    def of(
        Q: Tensor,
        K: Tensor,
        bq: int,
        i: Scalar,
        left: Scalar | None,
        right: Scalar | None,
        queries: Scalar | None,
    ) -> SeenKeys:
        """What tile number `i` of the rows of Q (batch, heads..., rows, D) sees of K."""
        rows, keys, more = Q.dim(Q.rank - 2), K.dim(K.rank - 2), bq - 1
        if queries is None:
            diagonal = i * bq + (keys - rows)
        else:
            diagonal, more = keys - queries, queries - 1
        begin, end = 0, keys
        if right is not None:
            end = cute.minimum(diagonal + right + more + 1, keys)
        if left is not None:
            begin = cute.maximum(diagonal - left, 0)
        return SeenKeys(bq, i, keys, left, right, queries, diagonal, more, begin, end)

    @property
    def is_masked(self) -> bool:
        """Whether a mask hides keys."""
        return self.left is not None or self.right is not None

    def take_part(self, part: Scalar, parts: Scalar | int, bk: int) -> None:
        """Let only a part of the keys be seen: whole blocks, as many for each but the last ones."""
        first = self.begin // bk
        share = ((self.end + (bk - 1)) // bk - first + (parts - 1)) // parts
        self.begin = cute.maximum((first + part * share) * bk, self.begin)
        self.end = cute.minimum((first + (part + 1) * share) * bk, self.end)

    def hides_behind(self, at: Scalar, bk: int) -> Scalar:
        """Whether some row does not see the last key of the block that begins there."""
        keys, right = self.keys, self.right
        return at + bk > (keys if right is None else cute.minimum(self.diagonal + right + 1, keys))

    def hides_before(self, at: Scalar) -> Scalar:
        """Whether some row does not see the first key of the block that begins there."""
        assert self.left is not None
        return at < self.diagonal - self.left + self.more

    def cuts(self, at: Scalar, bk: int) -> Scalar:
        """Whether some row does not see all of the block that begins there."""
        is_behind = self.hides_behind(at, bk)
        return is_behind if self.left is None else is_behind | self.hides_before(at)

    def _aligned(self) -> Tile:
        """The key that each row is aligned with."""
        if self.queries is None:
            return cute.coord(cute.zeros((self.bq, 1)), 0, self.diagonal)
        return (
            cute.coord(cute.zeros((self.bq, 1)), 0, self.i * self.bq) % self.queries + self.diagonal
        )

    def is_not_behind(self, s: Tile, at: Scalar) -> Tile:
        """Where keys are not behind what a row sees."""
        keys, right = self.keys, self.right
        end = keys if right is None else cute.minimum(self._aligned() + right + 1, keys)
        return cute.coord(s, 1, at) < end

    def is_not_before(self, s: Tile, at: Scalar) -> Tile:
        """Where keys are not before what a row sees."""
        assert self.left is not None
        return cute.coord(s, 1, at) >= self._aligned() - self.left

    def sees(self, s: Tile, at: Scalar) -> Tile:
        """Where rows see keys of the block of scores that begins there."""
        seen = self.is_not_behind(s, at)
        return seen if self.left is None else seen & self.is_not_before(s, at)

    def hide(self, s: Tile, at: Scalar) -> None:
        """Let -inf be what a mask hides of the scores of the block of keys that begins there. One
        side of it at a time: few blocks have both.
        """
        with nullcontext() if self.left is None else when(self.hides_behind(at, s.shape[1])):
            s.assign(cute.where(self.is_not_behind(s, at), s, -cute.inf))
        if self.left is not None:
            with when(self.hides_before(at)):
                s.assign(cute.where(self.is_not_before(s, at), s, -cute.inf))
