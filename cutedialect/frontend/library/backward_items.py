"""Which blocks of keys, and which tiles of rows, a CTA of attention's backward pass computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cutedialect.frontend import functions as cute
from cutedialect.frontend.dtypes import i32
from cutedialect.frontend.loops import range_
from cutedialect.frontend.scalar import Scalar
from cutedialect.frontend.tile import Tensor


def ends_of(offsets: Tensor, sequence: Scalar) -> tuple[Scalar, Scalar]:
    """Where a packed sequence begins and ends."""
    return offsets[sequence].to(i32), offsets[sequence + 1].to(i32)


def packed_tile(offsets: Tensor, item: Scalar, extent: int) -> tuple[Scalar, Scalar]:
    """(packed sequence, tile of so many of its rows) of a work item: sequence s has the items from
    number offsets[s] // extent + s on.
    """

    def first_item(s: Scalar) -> Scalar:
        return offsets[s].to(i32) // extent + s

    sequence = cute.search(first_item, offsets.extent - 1, item)
    return sequence, item - first_item(sequence)


@dataclass(frozen=True)
class KeyItem:
    """Block number `n` of the keys of a head (batch entry, head), and the tensors of its sequence,
    of which `tile` is the first tile in what is laid out by tiles of `bq` rows.
    """

    do: Tensor
    Q: Tensor
    K: Tensor
    V: Tensor
    dk: Tensor | None
    dv: Tensor | None
    bq: int
    heads: tuple[Scalar | int, ...]
    n: Scalar
    tile: Scalar | int = 0

    @property
    def shares(self) -> bool:
        """Whether several heads of rows share the keys."""
        return self.Q.rank > self.K.rank

    @property
    def members(self) -> Scalar | int:
        """How many heads of rows share the keys."""
        return self.Q.dim(2) if self.shares else 1

    def row_heads(self) -> Iterator[tuple[Scalar | int, ...]]:
        """The heads of rows that share the keys: a loop of the program where they do."""
        if not self.shares:
            yield self.heads
            return
        for member in range_(self.members):
            yield (*self.heads, member)

    @property
    def rows(self) -> Scalar | int:
        return self.Q.dim(self.Q.rank - 2)

    @property
    def keys(self) -> Scalar | int:
        return self.K.dim(2)

    @staticmethod
    def of(
        tensors: tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None, Tensor | None],
        tile: tuple[int, int],
        packing: tuple[Tensor | None, Tensor | None, Tensor | None],
        unit: int,
    ) -> KeyItem:
        """That of this CTA. `packing` and `unit` are those of `key_gradients`."""
        do, Q, K, V, dk, dv = tensors
        bk, bq = tile
        items, q_offsets, k_offsets = packing
        if items is None or q_offsets is None or k_offsets is None:
            result = dk if dv is None else dv
            assert result is not None
            *heads, n = cute.tile_index(result, (1, 1, bk))
            return KeyItem(*tensors, bq, tuple(heads), n)
        item, head = cute.tile_index(items, (1, 1))
        sequence, n = packed_tile(k_offsets, item, bk)
        rows, keys = ends_of(q_offsets, sequence), ends_of(k_offsets, sequence)
        along = Q.rank - 2
        do, Q = do.slice(along, *rows), Q.slice(along, *rows)
        K, V = K.slice(2, *keys), V.slice(2, *keys)
        dk = None if dk is None else dk.slice(2, *keys)
        dv = None if dv is None else dv.slice(2, *keys)
        return KeyItem(
            do, Q, K, V, dk, dv, bq, (0, head), n, (rows[0] // unit + sequence) * (unit // bq)
        )

    def up_to(self, lengths: Tensor | None) -> KeyItem:
        """As many keys as `lengths`, if given, says of the batch entry."""
        if lengths is None:
            return self
        count = lengths[self.heads[0]].to(i32)
        return replace(self, K=self.K.slice(2, 0, count), V=self.V.slice(2, 0, count))


@dataclass(frozen=True)
class RowItem:
    """Tile number `i` of the rows of a head in the tensors of its sequence, and its `place` in what
    is laid out by tiles of rows. Tensors are those of rows, then those of keys.
    """

    of_rows: tuple[Tensor | None, ...]
    of_keys: tuple[Tensor | None, ...]
    head: tuple[Scalar | int, ...]
    i: Scalar
    place: tuple[Scalar | int, ...]

    @property
    def key_head(self) -> tuple[Scalar | int, ...]:
        """(batch entry, head) of keys."""
        return self.head[:2]

    @staticmethod
    def of(
        by_tiles: Tensor,
        bq: int,
        of_rows: tuple[Tensor | None, ...],
        of_keys: tuple[Tensor | None, ...],
        q_offsets: Tensor | None,
        k_offsets: Tensor | None,
        latest_first: bool = False,
    ) -> RowItem:
        """That of this CTA: one for each `bq` rows of a tensor (batch, heads..., rows)."""
        along = by_tiles.rank - 1
        *head, item = cute.tile_index(by_tiles, (1,) * along + (bq,))
        if q_offsets is None:
            if latest_first:
                item = by_tiles.dim(along) // bq - 1 - item
            return RowItem(of_rows, of_keys, tuple(head), item, (*head, item))
        sequence, i = packed_tile(q_offsets, item, bq)
        rows = ends_of(q_offsets, sequence)
        of_rows = tuple(each if each is None else each.slice(along, *rows) for each in of_rows)
        if k_offsets is not None:
            keys = ends_of(k_offsets, sequence)
            of_keys = tuple(each if each is None else each.slice(2, *keys) for each in of_keys)
        head = (0, *head[1:])
        return RowItem(of_rows, of_keys, head, i, (*head, item))

    def up_to(self, lengths: Tensor | None) -> RowItem:
        """As many keys as `lengths`, if given, says of the batch entry."""
        if lengths is None:
            return self
        count = lengths[self.head[0]].to(i32)
        cut = tuple(each if each is None else each.slice(2, 0, count) for each in self.of_keys)
        return replace(self, of_keys=cut)
