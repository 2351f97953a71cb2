"""`cute.pack`: weights as `cute.gemm` reads them the fastest, once before they are used. The arrays
are those of NumPy, torch or CuPy, and results live where they do.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from cutedialect.layout import flatten
from cutedialect.layout.text import parse_layout

from .dtypes import as_dtype
from .packed import ELEMENTS, SIXES, Packed, packing_of

FRAGMENTS = "(2,4,2,(2,2)):(4,16,2,(1,8))"
"""The order in which a thread of a warpgroup, or of `mma.sync`, has what it multiplies of 64 rows
in 8 bytes beside each other.
"""
HALF_FRAGMENTS = "(2,4,2,2):(2,8,4,1)"
"""The same of 32 rows and 4 bytes, for groups of 32."""
BYTE_FRAGMENTS, HALF_BYTE_FRAGMENTS = "(2,4,2,4):(1,16,2,4)", "(2,4,2,2):(1,8,2,4)"
"""The same of elements of 8 bits, in 16 and 8 bytes."""
_BITS, _BYTE, _BLOCK = 4, 8, 64
# Codes of 6 bits, and how many of a row are brought at once.
_SIX_MASK, _SIX_BLOCK = 63, 128


def pack(q: Any, dtype: object = "u4", order: str | None = None) -> Packed:
    """Weights of 4 or 8 bits, one in each element of q (..., K, N), as the packed operand of a
    product.

    q: int8 or uint8 of NumPy, torch or CuPy, 0 to 15 for "u4", -8 to 7 for "i4", any for "i8" and
    "u8". The result holds bytes (..., N, ceil(K / 64) 32), of 8 bits (..., N, ceil(K / 64) 64), as
    their transpose, filled up with zeros; it lives where q does. `order` is a layout as in
    `cute.packed`, of a block whose size divides 64; the default one, (2,4,2,(2,2)):(4,16,2,(1,8)),
    of 8 bits (2,4,2,4):(1,16,2,4), is read by one load where others take up to eight. Groups of 32
    rows, which a block of 64 does not divide, take "(2,4,2,2):(2,8,4,1)", of 8 bits
    "(2,4,2,2):(1,8,2,4)". Do it once, when weights are loaded:

        w = cute.pack(q)
        y = cute.gemm(x, w, scale_b=scales, zero_b=zeros)

    Elements of 6 bits, a byte each as `cute.quantize` gives them (or their codes as uint8), are
    packed with dtype "e2m3" or "e3m2": four in three bytes, low bits first, rows of K filled up
    with zeros to multiples of 128 elements. sm_100a and its family multiply them, a and b alike:

        a, b = cute.pack(elements_a.T, "e2m3").T, cute.pack(elements_b.T, "e2m3")
        y = cute.gemm(a, b, scale_a=scales_a, scale_b=scales_b)

    Raises TypeError for other types, ValueError for fewer modes or another order.
    """
    element = as_dtype(dtype)
    if element not in (*ELEMENTS, *SIXES):
        raise TypeError(
            "dtype: expected u4, i4, u8 or i8 of packed elements, or e2m3 or e3m2, got "
            f"{element.name}"
        )
    holder = as_dtype(q.dtype, "q")
    codes = ("u8", element.name) if element in SIXES else ("i8", "u8")
    if holder.name not in codes:
        raise TypeError(f"q: expected {' or '.join(codes)}, an element each, got {holder.name}")
    rank = len(q.shape)
    if rank < 2:
        raise ValueError(f"q: expected 2 modes (K, N) or more, got shape {tuple(q.shape)}")
    if element in SIXES:
        packing = packing_of(as_dtype("u8"), rank, element, -2, order)
        codes = q.view(np.uint8) if holder == element else q
        return Packed(_sixes(codes.swapaxes(-1, -2)).swapaxes(-1, -2), packing)
    order = order or (FRAGMENTS if element.bits == _BITS else BYTE_FRAGMENTS)
    packing = packing_of(as_dtype("u8"), rank, element, -2, order)
    if _BLOCK % packing.block:
        raise ValueError(
            f"order: expected blocks whose size divides {_BLOCK}, got {packing.block} in {order}"
        )
    places = packing.order.offsets()
    elements = sorted(range(packing.block), key=places.__getitem__)
    rows = padded(as_bytes(q).swapaxes(-1, -2) & (1 << element.bits) - 1)
    *batch, k = rows.shape
    blocks = rows.reshape(*batch, k // packing.block, packing.block)[..., elements]
    if element.bits == _BYTE:
        return Packed(blocks.reshape(*batch, k).swapaxes(-1, -2), packing)
    pairs = blocks.reshape(*batch, k // 2, 2)
    packed = pairs[..., 0] | pairs[..., 1] << _BITS
    return Packed(packed.swapaxes(-1, -2), packing)


def _sixes(codes: Any) -> Any:
    """Rows of codes of 6 bits, a byte each, as bytes that hold four in three."""
    rows = padded(codes & (_SIX_MASK), _SIX_BLOCK)
    *batch, k = rows.shape
    fours = rows.reshape(*batch, k // 4, 4)
    first, second, third, fourth = (fours[..., at] for at in range(4))
    parts = [first | second << 6, second >> 2 | third << 4, third >> 4 | fourth << 2]
    return stacked(parts).reshape(*batch, k // 4 * 3)


def stacked(parts: Sequence[Any]) -> Any:
    """Arrays of one shape beside each other, along a last mode."""
    if hasattr(parts[0], "astype"):
        return library_of(parts[0]).stack(parts, -1)
    return sys.modules["torch"].stack(list(parts), -1)


def padded(rows: Any, block: int = _BLOCK) -> Any:
    """Rows of bytes, with zeros up to whole blocks."""
    missing = -rows.shape[-1] % block
    if not missing:
        return rows
    shape = (*rows.shape[:-1], rows.shape[-1] + missing)
    if hasattr(rows, "new_zeros"):
        filled = rows.new_zeros(shape)
    else:
        filled = library_of(rows).zeros(shape, rows.dtype)
    filled[..., : rows.shape[-1]] = rows
    return filled


def as_bytes(values: Any) -> Any:
    """Integers as uint8, those of 8 bits with their bits."""
    if hasattr(values, "astype"):
        return values.astype(np.uint8)
    return values.to(sys.modules["torch"].uint8)


def as_floats(values: Any) -> Any:
    """Floats as f32."""
    return values.astype(np.float32) if hasattr(values, "astype") else values.float()


def library_of(values: Any) -> Any:
    """NumPy, or the library that has its functions for an array."""
    return sys.modules[type(values).__module__.split(".")[0]]


def elements_of(integers: Any, bits: int, order: str | None = None) -> Any:
    """The elements that words of 32 bits hold along their last mode, a byte each (..., n)."""
    per = 32 // bits
    layout = parse_layout(order or f"{per}:1")
    assert prod(flatten(layout.shape)) == per  # pyright: ignore[reportArgumentType]
    shifts = [bits * place for place in layout.offsets()]
    parts = [(integers >> shift) & ((1 << bits) - 1) for shift in shifts]
    *batch, words = integers.shape
    return as_bytes(stacked(parts).reshape(*batch, words * per))
