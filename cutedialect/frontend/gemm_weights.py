"""Weights of a product: how its tile program finds what integers stand for."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING

from .packed import SIXES, Packed, Packing, packing_from

if TYPE_CHECKING:
    from .gemm import GemmCall

SIX_BLOCK = 128
"""Elements of 6 bits of a row that TMA brings at once."""


def unwrap(given: SimpleNamespace) -> None:
    """Take packed arrays among the arguments apart: the integers, and how they hold elements."""
    for name in "ab":
        operand = getattr(given, name, None)
        if type(operand) is Packed:
            setattr(given, name, operand.array)
            setattr(given, f"packed_{name}", operand.text)


def is_packed(call: GemmCall) -> bool:
    """Whether integers hold several elements of an operand."""
    return call.packing_text is not None or any(call.six_texts)


def split_texts(
    texts: tuple[str | None, str | None],
) -> tuple[str | None, tuple[str | None, str | None]]:
    """How integers hold weights b of 4 bits, and how bytes hold elements of 6 bits of a and b."""
    packed_a, packed_b = texts
    sixes = tuple(each.name for each in SIXES)
    is_six = isinstance(packed_b, str) and packed_b.startswith(sixes)
    if packed_a is not None and not packed_a.startswith(sixes):
        raise ValueError(
            f"packed_a: expected elements of 6 bits ({', '.join(sixes)}), got {packed_a!r}; "
            "weights of 4 bits are b"
        )
    return (None, (packed_a, packed_b)) if is_six else (packed_b, (packed_a, None))


def six_constants(call: GemmCall, tile: Sequence[int]) -> dict[str, object]:
    """The compile-time parameter of the tile program that names elements of 6 bits."""
    if tile[2] % SIX_BLOCK:
        raise ValueError(
            f"schedule: expected a tile whose depth is a multiple of {SIX_BLOCK} with elements "
            f"of 6 bits, got {tile[2]} in {tuple(tile)}"
        )
    names = call.a.dtype.name, call.b.dtype.name
    return {"held": " ".join(names[::-1] if call.swapped else names)}


def weights_of(call: GemmCall, tile: Sequence[int]) -> dict[str, object]:
    """The compile-time parameters of the tile program for weights with a number as zero, or packed
    ones. Refuses a tile without whole blocks of packed elements.
    """
    found: dict[str, object] = six_constants(call, tile) if any(call.six_texts) else {}
    if call.zero_number != 0:
        found["zero"] = call.zero_number
    if call.packing_text is None:
        return found
    rank = len(call.b.shape)
    packing = packing_from(call.packing_text, call.specs()[1].dtype, rank)
    axis = packing.axis - rank
    check_blocks(tile, 2 if axis == -2 else 1 - call.swapped, packing)
    # The transposed product has the last two modes exchanged.
    axis = -3 - axis if call.swapped else axis
    found["packed"] = packing.dtype.name, axis, str(packing.order)
    return found


def check_blocks(tile: Sequence[int], mode: int, packing: Packing, remedy: str = "") -> None:
    """Refuse a tile (M, N, K) that has parts of blocks of packed elements along a mode."""
    if tile[mode] % packing.block:
        raise ValueError(
            f"schedule: expected a tile whose {('rows', 'columns', 'depth')[mode]} are whole blocks"
            f" of {packing.block} packed elements of b, got {tile[mode]} in {tuple(tile)}{remedy}"
        )
