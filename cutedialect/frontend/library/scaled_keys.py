"""Blocks of keys, or of values, as attention multiplies them: of 8 bits they become wider on their
way, and each row of a block may have a scale.
"""

from __future__ import annotations

from cutedialect.frontend.dtypes import DType, f32
from cutedialect.frontend.local_tiles import local_tile
from cutedialect.frontend.scalar import Scalar
from cutedialect.frontend.tile import Tensor, Tile, View

_WARPGROUP_ROWS = 64


def parted_scales(
    K: Tensor, *factors: Tensor | None
) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """Scales of each key of K, and those of its heads: each factor is in one of the lists, and None
    in its place in the other.
    """
    of_keys = [x if x is not None and x.rank == K.rank - 1 else None for x in factors]
    of_heads = [x if key is None else None for x, key in zip(factors, of_keys, strict=True)]
    return of_keys, of_heads


class ScaledKeys:
    """The blocks of `tile` (keys, D) rows and columns of a tensor (batch, heads..., keys, D) with
    `scales` (batch, heads..., keys), if there are some, for a multiply of elements of `dtype` with
    so many `rows_beside`.
    """

    def __init__(
        self,
        rows: Tensor,
        scales: Tensor | None,
        batch: tuple[Scalar | int, ...],
        tile: tuple[int, int],
        dtype: DType,
        rows_beside: int,
    ) -> None:
        # Warps multiply few rows, and convert what they load where they multiply it; for
        # warpgroups 8-bit floats become wider in shared memory, once for all of them.
        self.in_registers = rows_beside < _WARPGROUP_ROWS
        self.rows = local_tile(rows, tile, (*batch, None, 0))
        self.scales = None if scales is None else local_tile(scales, tile[:1], (*batch, None))
        self.dtype = dtype

    def elements(self, j: Scalar) -> View | Tile:
        """Those of a block, without scales: integers become floats, in which all of them have a
        place; the multiply of warpgroups takes floats as they are.
        """
        block = self.rows[j]
        is_ready = block.dtype == self.dtype
        if is_ready or (block.dtype.kind == "f" and not self.in_registers):
            return block
        return block.load().to(self.dtype)

    def scaled(self, j: Scalar) -> View | Tile:
        """Those of a block times their scales, rounded once."""
        if self.scales is None:
            return self.elements(j)
        return (self.rows[j].to(f32) * self.scales[j].load()[:, None]).to(self.dtype)

    def scale_columns(self, s: Tile, j: Scalar) -> None:
        """Multiply the columns of a tile, one for each key of a block, by their scales."""
        if self.scales is not None:
            s.assign(s * self.scales[j].load()[None, :])
