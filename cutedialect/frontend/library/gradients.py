"""The gradients of keys and values of attention's backward pass as they add up in registers. A call
may not ask for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutedialect.frontend import functions as cute
from cutedialect.frontend.local_tiles import local_tile
from cutedialect.frontend.scalar import Scalar
from cutedialect.frontend.tile import Tensor, Tile, View

from .backward_items import KeyItem


@dataclass(frozen=True)
class Scales:
    """The factors of heads of Q, K and V, if arrays have them."""

    q: Tensor | None
    k: Tensor | None
    v: Tensor | None


@dataclass(frozen=True)
class Sums:
    """A gradient that adds up in registers; None where nobody asks for it."""

    tile: Tile | None

    @staticmethod
    def of(out: Tensor | None, shape: tuple[int, int]) -> Sums:
        """0, for the tiles of a tensor that has such a shape."""
        return Sums(None if out is None else cute.zeros(shape))

    def multiply(self, a: Tile, b: View) -> None:
        """Add the product of two tiles, the first one in the type of the second."""
        if self.tile is not None:
            cute.tile_gemm(a.to(b.dtype), b, self.tile)


@dataclass(frozen=True)
class Gradient:
    """Sums in registers, the tensor that they are stored in, what multiplies them, and how many
    columns they have.
    """

    sums: Tile
    out: Tensor
    by: Scalar | None
    width: int

    @property
    def is_broken(self) -> Tile:
        """Where a thread has some that is no number."""
        return cute.row_sum(self.sums, local=True) * 0.0 != 0.0

    def store(self, place: Sequence[Scalar | int]) -> None:
        """Write them as a tile of `out`."""
        rows = self.sums if self.by is None else self.sums * self.by
        cute.copy(rows.to(self.out.dtype), local_tile(self.out, (rows.shape[0], self.width), place))


@dataclass(frozen=True)
class KeyGradients:
    """Those of a block of keys and of its values, of which a call asks for one at least."""

    of_keys: Gradient | None
    of_values: Gradient | None

    @staticmethod
    def of(
        work: KeyItem,
        sums: tuple[Sums, Sums],
        factors: tuple[Scalar, Scalar | None],
        scales: Scales,
        dims: tuple[int, int],
    ) -> KeyGradients:
        """Sums with their factors: those of the heads, if arrays have them."""
        by_k, by_v = factors
        by_k = by_k if scales.k is None else by_k * scales.k[work.heads]
        by_v = by_v if scales.v is None else scales.v[work.heads]
        dk, dv = (each.tile for each in sums)
        return KeyGradients(
            None if dk is None or work.dk is None else Gradient(dk, work.dk, by_k, dims[0]),
            None if dv is None or work.dv is None else Gradient(dv, work.dv, by_v, dims[1]),
        )

    @property
    def _asked(self) -> list[Gradient]:
        return [each for each in (self.of_keys, self.of_values) if each is not None]

    @property
    def are_broken(self) -> Tile:
        """Where a thread has some that is no number."""
        first, *others = [each.is_broken for each in self._asked]
        for other in others:
            first = first | other
        return first

    def store(self, place: Sequence[Scalar | int]) -> None:
        """Write them as tiles."""
        for each in self._asked:
            each.store(place)
