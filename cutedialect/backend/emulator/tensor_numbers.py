"""Numbers of tcgen05 operands as they lie in memory (PTX ISA 9.7.16.10.4): types of 4 and 6 bits
are padded to 16 bytes for 16 elements in shared memory and lie one to a byte in tensor memory,
except for the 4-bit kinds, which have two to a byte in both. Scale factors are bytes.

What the manual leaves open is stated here once. ``CONTAINER_SHIFT``: where the bits of a type lie
in its byte of tensor memory. ``add``: how products are summed.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .instructions.mma import decode, round_result
from .lanes import Array

CONTAINER_SHIFT = {"e2m1": 2, "e2m3": 0, "e3m2": 0}
_NARROW = {"e2m1": 4, "e2m3": 6, "e3m2": 6}


def _table(dtype: Any, bits: int) -> Array:
    codes = np.arange(1 << bits, dtype=np.uint8)
    return codes.view(dtype).astype(np.float64)


_VALUES = {
    "e4m3": _table(ml_dtypes.float8_e4m3fn, 8),
    "e5m2": _table(ml_dtypes.float8_e5m2, 8),
    "e2m3": _table(ml_dtypes.float6_e2m3fn, 6),
    "e3m2": _table(ml_dtypes.float6_e3m2fn, 6),
    "e2m1": _table(ml_dtypes.float4_e2m1fn, 4),
    "ue8m0": _table(ml_dtypes.float8_e8m0fnu, 8),
    "ue4m3": _table(ml_dtypes.float8_e4m3fn, 8),
}


def element_bytes(type: str) -> int:
    """Bytes of an element that an MN-major operand may have; 1 for the narrow types."""
    return {"f16": 2, "bf16": 2, "tf32": 4}.get(type, 1)


def _nibbles(raw: Array) -> Array:
    pairs = np.stack((raw & np.uint8(15), raw >> np.uint8(4)), axis=-1)
    return pairs.reshape(*raw.shape[:-1], -1)


def _sixes(raw: Array) -> Array:
    """``[..., 12]`` bytes to sixteen codes of 6 bits, low bits first."""
    three = raw.reshape(*raw.shape[:-1], 4, 3).astype(np.uint32)
    word = three[..., 0] | three[..., 1] << 8 | three[..., 2] << 16
    codes = np.stack([word >> 6 * i & 63 for i in range(4)], axis=-1)
    return codes.reshape(*raw.shape[:-1], 16).astype(np.uint8)


def data_bytes(type: str, dense: bool) -> Array:
    """Which of the 32 bytes along K of a row in shared memory hold data: not the padding."""
    used = {4: 8, 6: 12}.get(_NARROW.get(type, 8), 16)
    return np.tile(np.arange(16) < (16 if dense else used), 2)


def of_shared(rows: Array, type: str, dense: bool) -> Array:
    """``[rows, 32]`` bytes along K in shared memory to f64; ``dense``: two 4-bit to a byte."""
    if dense:
        return _VALUES["e2m1"].take(_nibbles(rows))
    if type in _NARROW:
        groups = rows.reshape(len(rows), 2, 16)
        codes = _nibbles(groups[..., :8]) if type == "e2m1" else _sixes(groups[..., :12])
        return _VALUES[type].take(codes.reshape(len(rows), 32))
    return _of_bytes(rows, type)


def of_tensor(words: Array, type: str, dense: bool) -> Array:
    """``[rows, 8]`` words along K in tensor memory to f64."""
    rows = np.ascontiguousarray(words).view(np.uint8)
    if dense:
        return _VALUES["e2m1"].take(_nibbles(rows))
    if type in _NARROW:
        mask = np.uint8((1 << _NARROW[type]) - 1)
        return _VALUES[type].take(rows >> np.uint8(CONTAINER_SHIFT[type]) & mask)
    return _of_bytes(rows, type)


def _of_bytes(rows: Array, type: str) -> Array:
    if type in _VALUES:
        return _VALUES[type].take(rows)
    return decode(np.ascontiguousarray(rows).view(np.uint32), type)


def unpack(chunks: Array, bits: int) -> Array:
    """The decompression of tcgen05.cp (PTX ISA 9.7.16.8.3): 16-byte pieces of 16 padded elements of
    4 or 6 bits to one byte an element, as a multiplication finds them in tensor memory."""
    if bits == 4:
        return _nibbles(chunks[..., :8]) << np.uint8(CONTAINER_SHIFT["e2m1"])
    return _sixes(chunks[..., :12])


def scales_of(codes: Array, type: str) -> Array:
    """Bytes to scale factors."""
    return _VALUES[type].take(codes & np.uint8(0x7F) if type == "ue4m3" else codes)


def add(a: Array, b: Array, d: Array, type: str, saturates: bool) -> Array:
    """``a [m, k]`` times ``b [n, k]`` transposed, plus ``d`` (None for zero): products are exact,
    their sum with D is formed in f64 and rounded once, to nearest. The manual promises at least the
    precision of the accumulator and no order."""
    total = np.matmul(a, b.T)
    if d is not None:
        total += d
    return round_result(total, type, saturates)


def words_of(values: Array) -> Array:
    """Accumulators to words: 16-bit values in the low half, which is never packed."""
    if values.dtype == np.float16:
        return np.ascontiguousarray(values).view(np.uint16).astype(np.uint32)
    return np.ascontiguousarray(values).view(np.uint32)


def accumulators(words: Array, type: str) -> Array:
    """The reverse, as f64."""
    if type == "f16":
        return words.astype(np.uint16).view(np.float16).astype(np.float64)
    kind: Any = np.int32 if type == "s32" else np.float32
    return np.ascontiguousarray(words).view(kind).astype(np.float64)
