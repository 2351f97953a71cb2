"""Elements as NumPy has them: the dtype of an element type in memory, the one in which its values
are held, what uninitialized memory holds, and conversions as PTX's `cvt` rounds and clamps them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float4E2M1FNType,
    Float6E2M3FNType,
    Float6E3M2FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute

_FLOATS: dict[type[Attribute], Any] = {
    Float8E4M3FNType: ml_dtypes.float8_e4m3fn,
    Float8E5M2Type: ml_dtypes.float8_e5m2,
    Float6E2M3FNType: ml_dtypes.float6_e2m3fn,
    Float6E3M2FNType: ml_dtypes.float6_e3m2fn,
    Float4E2M1FNType: ml_dtypes.float4_e2m1fn,
    Float8E8M0FNUType: ml_dtypes.float8_e8m0fnu,
    Float16Type: np.float16,
    BFloat16Type: ml_dtypes.bfloat16,
    Float32Type: np.float32,
    Float64Type: np.float64,
}
_EIGHT_BITS = (np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2))
# They have no NaN, which becomes the largest number.
_WITHOUT_NAN = tuple(
    np.dtype(each)
    for each in (ml_dtypes.float6_e2m3fn, ml_dtypes.float6_e3m2fn, ml_dtypes.float4_e2m1fn)
)
_POWERS = np.dtype(ml_dtypes.float8_e8m0fnu)
_AT_A_TIME = 1 << 14
# A pattern that no program expects, for integers that nobody wrote.
_GARBAGE = 0x5A
# Bits of 2^-127 in f32.
_LEAST_POWER = 0x400000


def dtype_of(type_: Attribute) -> np.dtype[Any]:
    """NumPy's type of an element or scalar type; raises ValueError where there is none."""
    if isinstance(type_, IndexType):
        return np.dtype(np.int64)
    if isinstance(type_, IntegerType):
        bits = type_.width.data
        if bits == 1:
            return np.dtype(np.bool_)
        if bits in (8, 16, 32, 64):
            sign = "u" if type_.signedness.data is Signedness.UNSIGNED else "i"
            return np.dtype(f"{sign}{bits // 8}")
    if type(type_) in _FLOATS:
        return np.dtype(_FLOATS[type(type_)])
    raise ValueError(f"expected an integer of 1, 8, 16, 32 or 64 bits or a float, got {type_}")


def is_float(type_: Attribute) -> bool:
    """Whether elements of this type are floats, 8-bit ones included."""
    return isinstance(type_, AnyFloat)


def held_as(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type in which values are held and computed: f32 for narrower floats."""
    return np.dtype(np.float32) if dtype.itemsize < 4 and dtype.kind not in "iub" else dtype


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Whether values of this type are floats that are held in a wider one."""
    return held_as(dtype) != dtype


def held_type(type_: Attribute) -> np.dtype[Any]:
    """The type in which values of an element or scalar type are held."""
    return held_as(dtype_of(type_))


def held(elements: np.ndarray) -> np.ndarray:
    """Elements as they are held; of narrow floats each pattern is looked up, which takes less time
    than to convert it.
    """
    dtype = elements.dtype
    if held_as(dtype) == dtype:
        return elements
    patterns = np.ascontiguousarray(elements).view(f"u{dtype.itemsize}").reshape(-1)
    result, table = np.empty(elements.shape, held_as(dtype)), _values_of_patterns(dtype)
    flat = result.reshape(-1)
    # Some at a time, since NumPy makes wide integers of what it looks up.
    for at in range(0, patterns.size, _AT_A_TIME):
        part = slice(at, at + _AT_A_TIME)
        np.take(table, patterns[part], out=flat[part], mode="clip")
    return result


@cache
def _values_of_patterns(dtype: np.dtype[Any]) -> np.ndarray:
    patterns = np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}")
    return patterns.view(dtype).astype(held_as(dtype))


def rounded(values: Any, dtype: np.dtype[Any]) -> Any:
    """The nearest floats of a type, held as such values are."""
    result = to_float(values, dtype)
    return held(result) if result.ndim else result.astype(held_as(dtype))[()]


def undefined(shape: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Elements that nobody has written: NaN, which spreads, or a conspicuous number."""
    if dtype.kind == "b":
        return np.ones(shape, dtype)
    if dtype.kind in "iu":
        return np.full(shape, _GARBAGE, dtype)
    return np.full(shape, np.nan, dtype)


def to_float(values: Any, dtype: np.dtype[Any]) -> Any:
    """Round to the nearest float, ties to even; what is too large for 8 bits becomes the largest
    (`cvt.rn.satfinite`, PTX ISA 9.7.9.21).
    """
    values = np.asarray(values)
    if dtype == _POWERS:
        return _to_power(values)
    if dtype in _EIGHT_BITS or dtype in _WITHOUT_NAN:
        most = np.float32(ml_dtypes.finfo(dtype).max)
        values = np.clip(values.astype(np.float32), -most, most)
        if dtype in _WITHOUT_NAN:
            values = np.where(np.isnan(values), most, values)
    elif dtype.itemsize == 2 and values.dtype.kind in "iu":
        values = values.astype(np.float32)
    return values.astype(dtype)


def _to_power(values: np.ndarray) -> Any:
    """The least power of two that is no smaller than the magnitude, from 2^-127 to 2^127
    (`cvt.rp.satfinite.ue8m0x2`); NaN stays.
    """
    magnitude = np.abs(values.astype(np.float32)).view(np.uint32).astype(np.int64)
    power = np.where(magnitude <= _LEAST_POWER, 0, (magnitude + 0x7FFFFF) >> 23)
    is_nan = magnitude > 0x7F800000
    return np.where(is_nan, 0xFF, np.minimum(power, 0xFE)).astype(np.uint8).view(_POWERS)


def to_integer(values: Any, dtype: np.dtype[Any]) -> Any:
    """Round toward zero and clamp (`cvt.rzi`, PTX ISA 9.7.9.21). NaN gives 0, and the lone sign bit
    from f64 and to 64 bits.
    """
    values = np.asarray(values)
    wide = values.astype(np.float64)
    limits = np.iinfo(dtype)
    lone = 1 << 8 * dtype.itemsize - 1 if dtype.itemsize == 8 or values.dtype == np.float64 else 0
    whole = np.trunc(np.where(np.isnan(wide), 0, wide))
    # The largest 64-bit integers are no floats: 2^63 is the first one beyond.
    above, below = whole >= float(limits.max), whole <= float(limits.min)
    result = np.where(above | below, 0, whole).astype(dtype)
    result = np.where(
        above, dtype.type(limits.max), np.where(below, dtype.type(limits.min), result)
    )
    sign = np.array(lone, np.uint64).astype(dtype)
    return np.where(np.isnan(wide), sign, result)
