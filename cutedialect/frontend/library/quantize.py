"""Blocks of numbers as narrow ones that share scales: the step of a tile, and the program of
`cute.quantize`. All is computed in f32 and in integers, so that every target gives the same bits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cutedialect.frontend.block_formats import FORMATS, PANEL, BlockFormat
from cutedialect.frontend.dtypes import (
    DType,
    bf16,
    e4m3,
    f32,
    i32,
    u8,
    u16,
    u32,
    ue4m3,
    ue8m0,
)
from cutedialect.frontend.kernel import kernel

if TYPE_CHECKING:
    from cutedialect.frontend.tile import Tile

_MANTISSA, _BYTE = 23, 8
_VECTOR_BITS = 128
_INFINITY = 0x7F800000
# Exponents of ue8m0 that are numbers; 255 is NaN.
_MOST, _NAN = 254, 255
# 2^-127 in f32, which is subnormal.
_LEAST_POWER = 0x400000
_NAN_F32 = 0x7FC00000


def scaled_blocks(
    parts: Sequence[Tile],
    kind: BlockFormat,
    rounding: str,
    global_scale: Any = None,
) -> tuple[list[Tile], Tile]:
    """The elements of blocks one below the other, and a scale for each.

    parts: tiles (rows, columns) of f32 that together have the columns of a block; of bf16 where
    scales are powers of two. Returns as many
    tiles of the element type, and one (rows, 1) of the scales' type; with a format whose blocks
    have rows, (1, 1).
    """
    from cutedialect.frontend import elementwise, functions
    from cutedialect.frontend.exact import divide
    from cutedialect.frontend.reductions import max_

    sizes = [elementwise.abs_(part) for part in parts]
    largest = sizes[0]
    for size in sizes[1:]:
        largest = elementwise.maximum(largest, size)  # type: ignore[assignment]
    most = max_(largest.to(f32), -1).bitcast(i32)
    if kind.block[0] > 1:
        most = max_(most, 0)
    is_finite = most < _INFINITY
    if rounding == "nearest":
        numbers = functions.where(is_finite, most, _NAN_F32).bitcast(f32)
        inverse_global = None
        if global_scale is not None:
            inverse_global = divide(functions.full(numbers.shape, 1.0, f32), global_scale)
            numbers = numbers * inverse_global
        scales = numbers * _inverse_of(kind.largest)
        # None is negative: one conversion less where a type without a sign refuses these.
        scales = scales.to(e4m3).bitcast(ue4m3) if kind.scale == ue4m3 else scales.to(kind.scale)
        factors = scales.to(f32)
        one = functions.full(numbers.shape, 1.0, f32) if inverse_global is None else inverse_global
        is_zero = factors == 0.0
        divisors = functions.where(is_zero, 1.0, factors)
        if inverse_global is None and kind.scale.bits == _BYTE:
            inverse = _few_bits_inverse(divisors)
        else:
            inverse = divide(one, divisors)
        inverse = functions.where(is_zero, 0.0, inverse)
    else:
        power = (most + _carry(kind.largest, rounding)) >> _MANTISSA
        power = power - _exponent(kind.largest)
        power = elementwise.minimum(elementwise.maximum(power, 0), _MOST)
        power = functions.where(is_finite, power, _NAN)
        inverse = _power(_MOST - power).bitcast(f32)
        scales = power.to(u8).bitcast(ue8m0)
        if kind.scale != ue8m0:
            scales = scales.to(f32).to(kind.scale)
    inverse = inverse.to(parts[0].dtype)
    return [(part * inverse).to(kind.element) for part in parts], scales


def _few_bits_inverse(factors: Tile) -> Tile:
    """1 / x, rounded to nearest even, of normal numbers with few bits: what an approximation that
    is off by one unit leaves corrects it (P. Markstein, IBM J. Res. Dev. 34-1, 1990).
    """
    from cutedialect.frontend.elementwise import fma
    from cutedialect.frontend.functions import reciprocal

    near = reciprocal(factors)
    return fma(fma(-factors, near, 1.0), near, near)


def _power(exponent: Tile) -> Tile:
    """The bits of 2^(n - 127) in f32, for n from 0 on; below, of 2^-127."""
    from cutedialect.frontend.elementwise import maximum

    return maximum(exponent << _MANTISSA, _LEAST_POWER)  # type: ignore[return-value]


def _inverse_of(largest: float) -> float:
    """1 / largest, rounded to f32."""
    return struct.unpack("<f", struct.pack("<f", 1.0 / largest))[0]


def _exponent(largest: float) -> int:
    return math.frexp(largest)[1] - 1


def _carry(largest: float, rounding: str) -> int:
    """What, added to the bits of the largest number of a block, makes the exponent that of the
    least power of two by which it is no larger than the largest element ("up"), or leaves it.
    """
    if rounding == "down":
        return 0
    mantissa = math.ldexp(largest, -_exponent(largest)) - 1.0
    return (1 << _MANTISSA) - 1 - int(math.ldexp(mantissa, _MANTISSA))


def halves(words: Tile, element: DType, is_exact: bool) -> list[Tile]:
    """The two elements in each word: the first in the low half. As f32, or as they are where
    products with scales are exact.
    """
    if element == f32:
        return [part.to(u32).bitcast(f32) for part in (words, words >> 32)]
    if element == bf16 and not is_exact:  # the upper half of f32
        return [part.bitcast(f32) for part in (words << 16, words & 0xFFFF0000)]
    numbers = [part.to(u16).bitcast(element) for part in (words, words >> 16)]
    return numbers if is_exact else [number.to(f32) for number in numbers]


def pair(low: Tile, high: Tile) -> Tile:
    """Elements of 4 bits, two in a byte."""
    first, second = (each.bitcast(u8).to(i32) for each in (low, high))
    return (first + second * 16).to(u8)


@kernel(spills="refuse")
def quantize(
    X: Any,
    Q: Any,
    S: Any,
    global_scale: Any,
    *,
    format: str,
    rounding: str,
    element: DType,
    rows: int,
    blocks: int,
    owned: bool = False,
) -> None:
    """X is (M, K), or where two elements go to a byte (M, K / 2) of words with two `element`s each,
    or (2, M, K / 2); Q is (M, K) or (M, K / 2). S is (M, K / block), or of panels of scales words
    of four (panels of rows, panels of columns, rows, row groups); or as many as there are rows,
    which are blocks then. A tile has so many `rows` and `blocks` one beside the other. Blocks that
    a thread has whole are `owned`: it loads a vector of them at a time.
    """
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.local_tiles import local_tile
    from cutedialect.frontend.tile import Tensor

    kind = FORMATS[format]
    width = kind.columns // kind.packed
    place: Any = None
    if S.rank == 1:
        m = cute.tile_index(S, (rows,))
        n = 0
    elif S.rank == 2:
        m, n = cute.tile_index(Q, (rows, width * blocks))
    else:  # panels have rows and columns that the tensor has not
        place = cute.tile_index(S, (1, 1, rows, 1))
        m, n = place[0] * (PANEL[0] // rows) + place[3], place[1]
    factor = global_scale
    if isinstance(factor, Tensor):
        factor = local_tile(factor, (1, 1), (0, 0)).load()
    words = None
    across = _VECTOR_BITS // X.dtype.bits if owned else width
    for block in range(blocks):
        at = n * blocks + block
        columns = _columns(at, width // across)
        parts = _numbers(X, kind, element, rounding, (rows, across), m, columns)
        elements, scales = scaled_blocks(parts, kind, rounding, factor)
        if kind.packed > 1:
            elements = [pair(*both) for both in zip(elements[::2], elements[1::2], strict=True)]
        for column, stored in zip(columns, elements, strict=True):
            cute.copy(stored, local_tile(Q, (rows, across), (m, column)))
        if S.rank == 1:
            cute.copy(scales[:, 0], local_tile(S, (rows,), (m,)))
        elif S.rank == 2:
            cute.copy(scales, local_tile(S, scales.shape, (m, at)))
        else:
            byte = scales.bitcast(u8).to(i32) << 8 * block
            words = byte if words is None else words | byte
    if words is not None:
        cute.copy(words, local_tile(S, (rows, 1), place))


def _columns(at: Any, pieces: int) -> list[Any]:
    """The places of a block's pieces along a row."""
    return [at] if pieces == 1 else [at * pieces + piece for piece in range(pieces)]


def _numbers(
    X: Any,
    kind: BlockFormat,
    element: DType,
    rounding: str,
    tile: tuple[int, int],
    m: Any,
    columns: Sequence[Any],
) -> list[Tile]:
    """The numbers of blocks, two tiles for each piece where two elements go to a byte."""
    from cutedialect.frontend.local_tiles import local_tile

    if X.rank > 2:
        halved = [(half, m, columns[0]) for half in range(kind.packed)]
        return [local_tile(X, tile, place).load().to(f32) for place in halved]
    loaded = [local_tile(X, tile, (m, column)).load() for column in columns]
    if kind.packed == 1:
        return [vector.to(f32) for vector in loaded]
    # Products of bf16 with powers of two are exact, or next to 0.
    is_exact = element == bf16 and rounding != "nearest"
    return [half for vector in loaded for half in halves(vector, element, is_exact)]
