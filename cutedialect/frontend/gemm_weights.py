"""Weights of a product: how its tile program finds what integers stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .packed import packing_from

if TYPE_CHECKING:
    from .gemm import GemmCall


def weights_of(call: GemmCall, tile: Sequence[int]) -> dict[str, object]:
    """The compile-time parameters of the tile program for weights with a number as zero, or packed
    ones. Refuses a tile without whole blocks of packed elements.
    """
    found: dict[str, object] = {}
    if call.zero_number != 0:
        found["zero"] = call.zero_number
    if call.packing_text is None:
        return found
    rank = len(call.b.shape)
    packing = packing_from(call.packing_text, call.specs()[1].dtype, rank)
    axis = packing.axis - rank
    mode = 2 if axis == -2 else 1 - call.swapped
    if tile[mode] % packing.block:
        raise ValueError(
            f"schedule: expected a tile whose {('rows', 'columns', 'depth')[mode]} are whole blocks"
            f" of {packing.block} packed elements of b, got {tile[mode]} in {tuple(tile)}"
        )
    # The transposed product has the last two modes exchanged.
    axis = -3 - axis if call.swapped else axis
    found["packed"] = packing.dtype.name, axis, str(packing.order)
    return found
