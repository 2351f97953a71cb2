"""Which rows a CTA of attention computes, and the tensors of their sequence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from cutedialect.frontend import functions as cute
from cutedialect.frontend.dtypes import i32
from cutedialect.frontend.scalar import Scalar
from cutedialect.frontend.tile import Tensor


@dataclass(frozen=True)
class Operands:
    """The tensors (batch, heads..., sequence, D); mode `along` is the sequence. `scale_k` and
    `scale_v` (batch, heads..., sequence) are the scales of keys and values that have some each.
    """

    Q: Tensor
    K: Tensor
    V: Tensor
    out: Tensor
    lse: Tensor | None
    scale_k: Tensor | None
    scale_v: Tensor | None

    @property
    def along(self) -> int:
        return self.Q.rank - 2

    def by_keys(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same with what has a mode of keys changed."""
        names = ("K", "V", "scale_k", "scale_v")
        tensors = {name: getattr(self, name) for name in names}
        changed = {name: change(tensor) for name, tensor in tensors.items() if tensor is not None}
        return replace(self, **changed)


@dataclass(frozen=True)
class WorkItem(Operands):
    """Tile number `i` of the rows of `batch` (batch entry, heads...) in the tensors of one
    sequence; of part number `part` of the keys, if CTAs split these.
    """

    batch: tuple[Scalar | int, ...]
    i: Scalar
    part: Scalar | None = None

    @property
    def place(self) -> tuple[Scalar | int, ...]:
        """Where the result lies, in front of its rows."""
        return self.batch if self.part is None else (*self.batch, self.part)

    def latest_first(self, bq: int) -> WorkItem:
        """The tiles of a sequence from the last one on. (A cluster, or the last work item of a
        sequence, may reach beyond.)
        """
        last = (self.Q.dim(self.along) + (bq - 1)) // bq - 1
        return replace(self, i=self.i + (self.i <= last).to(i32) * (last - self.i - self.i))

    def of_heads(self, factors: Tensor | None) -> Scalar | None:
        """That of the batch entry and head among factors (batch, heads...)."""
        return None if factors is None else factors[self.batch]

    def in_pages(self, table: Tensor | None, size: int) -> WorkItem:
        """The keys in the pages of `table` (batch, pages), if there is one."""
        if table is None:
            return self
        return self.by_keys(lambda tensor: tensor.paged(self.along, table, size))

    def up_to(self, lengths: Tensor | None) -> WorkItem:
        """As many keys as `lengths`, if given, says of the batch entry."""
        if lengths is None:
            return self
        count = lengths[self.batch[0]].to(i32)
        return self.by_keys(lambda tensor: tensor.slice(self.along, 0, count))


def work_item(whole: Operands, bq: int) -> WorkItem:
    """A tile of `bq` rows of one of many sequences. An `out` with a mode more has parts of keys."""
    out = whole.out
    *batch, i = cute.tile_index(out, (1,) * (out.rank - 2) + (bq,))
    part = batch.pop() if out.rank > whole.Q.rank else None
    return WorkItem(**vars(whole), batch=tuple(batch), i=i, part=part)


def packed_work_item(
    whole: Operands, bq: int, items: Tensor, q_offsets: Tensor, k_offsets: Tensor
) -> WorkItem:
    """A tile of `bq` rows of a packed sequence s, which has the work items from number
    q_offsets[s] // bq + s on.
    """
    along, lse = whole.along, whole.lse
    item, *heads = cute.tile_index(items, (1,) * along)

    def first_item(s: Scalar) -> Scalar:
        return q_offsets[s].to(i32) // bq + s

    sequence = cute.search(first_item, q_offsets.extent - 1, item)
    i = item - first_item(sequence)
    ends = sequence, sequence + 1
    rows = [q_offsets[at].to(i32) for at in ends]
    keys = [k_offsets[at].to(i32) for at in ends]
    Q, out = whole.Q.slice(along, *rows), whole.out.slice(along, *rows)
    lse = None if lse is None else lse.slice(along, *rows)
    mine = replace(whole, Q=Q, out=out, lse=lse).by_keys(lambda tensor: tensor.slice(along, *keys))
    return WorkItem(**vars(mine), batch=(0, *heads), i=i)
