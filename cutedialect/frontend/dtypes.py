"""Element types of the language: names, NumPy types and IR types in one table.

Nothing here imports xDSL until an IR type is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from xdsl.ir import Attribute


_BYTE_BITS, _NIBBLE_BITS = 8, 4


@dataclass(frozen=True)
class DType:
    """An element type; `kind` is "f" (float), "i" (signed), "u" (unsigned) or "b" (bool).

    `bits` are those of an element in memory: floats of 4 and 6 bits take the low bits of a byte, as
    ml_dtypes has them. So do integers of 4 bits, which have a byte each in memory and in registers
    and are computed as those of 8; their `bits` are 4.
    """

    name: str
    kind: str
    bits: int

    @property
    def numpy(self) -> np.dtype:
        """The NumPy (or ml_dtypes) type with the same bytes."""
        import ml_dtypes
        import numpy as np

        special = {
            "bf16": ml_dtypes.bfloat16,
            "e4m3": ml_dtypes.float8_e4m3fn,
            "ue4m3": ml_dtypes.float8_e4m3fn,
            "e5m2": ml_dtypes.float8_e5m2,
            "e2m3": ml_dtypes.float6_e2m3fn,
            "e3m2": ml_dtypes.float6_e3m2fn,
            "e2m1": ml_dtypes.float4_e2m1fn,
            "ue8m0": ml_dtypes.float8_e8m0fnu,
            "i1": np.bool_,
            "i4": ml_dtypes.int4,
            "u4": ml_dtypes.uint4,
        }
        if self.name in special:
            return np.dtype(special[self.name])
        return np.dtype(f"{self.kind}{self.bits // 8}")

    @property
    def in_memory(self) -> DType:
        """The type of the same values in memory, where a condition is a byte that is 0 or not, and
        integers of 4 bits are those of 8.
        """
        return self if self.bits >= _BYTE_BITS else u8 if self.kind == "b" else self.computed

    @property
    def computed(self) -> DType:
        """The type that numbers of this type are computed in."""
        return self if self.bits != _NIBBLE_BITS else i8 if self.kind == "i" else u8

    @property
    def mlir(self) -> str:
        """MLIR's name of a type that IR has as bytes; "" of others."""
        if self.bits >= _BYTE_BITS:
            return ""
        return f"ui{self.bits}" if self.kind == "u" else f"i{self.bits}"

    @property
    def ir(self) -> Attribute:
        """The IR type."""
        held = self.computed
        return _ir_type(held.name, held.kind, held.bits)

    def __repr__(self) -> str:
        return f"cute.{self.name}"


@cache
def _ir_type(name: str, kind: str, bits: int) -> Attribute:
    from xdsl.dialects import builtin

    floats = {
        "f16": builtin.Float16Type,
        "bf16": builtin.BFloat16Type,
        "f32": builtin.Float32Type,
        "f64": builtin.Float64Type,
        "e4m3": builtin.Float8E4M3FNType,
        "ue4m3": builtin.Float8E4M3FNType,
        "e5m2": builtin.Float8E5M2Type,
        "e2m3": builtin.Float6E2M3FNType,
        "e3m2": builtin.Float6E3M2FNType,
        "e2m1": builtin.Float4E2M1FNType,
        "ue8m0": builtin.Float8E8M0FNUType,
    }
    if name in floats:
        return floats[name]()
    if kind == "u":
        return builtin.IntegerType(bits, builtin.Signedness.UNSIGNED)
    return builtin.IntegerType(bits)


f16: DType = DType("f16", "f", 16)
bf16: DType = DType("bf16", "f", 16)
f32: DType = DType("f32", "f", 32)
f64: DType = DType("f64", "f", 64)
e4m3: DType = DType("e4m3", "f", 8)
e5m2: DType = DType("e5m2", "f", 8)
e2m3: DType = DType("e2m3", "f", 8)
e3m2: DType = DType("e3m2", "f", 8)
e2m1: DType = DType("e2m1", "f", 8)
# Types of scales: powers of two from 2^-127 to 2^127, and e4m3 without negative numbers.
ue8m0: DType = DType("ue8m0", "f", 8)
ue4m3: DType = DType("ue4m3", "f", 8)
i4: DType = DType("i4", "i", 4)
u4: DType = DType("u4", "u", 4)
i8: DType = DType("i8", "i", 8)
u8: DType = DType("u8", "u", 8)
i16: DType = DType("i16", "i", 16)
u16: DType = DType("u16", "u", 16)
i32: DType = DType("i32", "i", 32)
u32: DType = DType("u32", "u", 32)
i64: DType = DType("i64", "i", 64)
u64: DType = DType("u64", "u", 64)
i1: DType = DType("i1", "b", 1)

NARROW = (e2m3, e3m2, e2m1, ue8m0)
# An IR type is the first of these: that of ue4m3 is e4m3's, those of i4 and u4 i8's and u8's.
ALL = (
    f16, bf16, f32, f64, e4m3, e5m2, *NARROW, ue4m3,
    i8, u8, i16, u16, i32, u32, i64, u64, i1, i4, u4,
)  # fmt: skip
_BY_NAME = {dtype.name: dtype for dtype in ALL}
_NUMPY_NAMES = {
    "float16": f16,
    "bfloat16": bf16,
    "float32": f32,
    "float64": f64,
    "float8_e4m3fn": e4m3,
    "float8_e5m2": e5m2,
    "float6_e2m3fn": e2m3,
    "float6_e3m2fn": e3m2,
    "float4_e2m1fn": e2m1,
    "float8_e8m0fnu": ue8m0,
    "int4": i4,
    "uint4": u4,
    "int8": i8,
    "uint8": u8,
    "int16": i16,
    "uint16": u16,
    "int32": i32,
    "uint32": u32,
    "int64": i64,
    "uint64": u64,
    "bool": i1,
    "bool_": i1,
}


def as_dtype(value: object, what: str = "dtype") -> DType:
    """The element type that a name, a NumPy type or a torch type stands for.

    >>> as_dtype("float16"), as_dtype(f32)
    (cute.f16, cute.f32)
    """
    if isinstance(value, DType):
        return value
    name = value if isinstance(value, str) else getattr(value, "name", None)
    if name is None:
        name = getattr(value, "__name__", None) or str(value)
    name = name.removeprefix("torch.")
    found = _BY_NAME.get(name) or _NUMPY_NAMES.get(name)
    if found is None:
        import difflib

        near = difflib.get_close_matches(name, [*_BY_NAME, *_NUMPY_NAMES], 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise TypeError(f"expected {what} to be one of {', '.join(_BY_NAME)}, got {name}{hint}")
    return found


def signed(dtype: DType) -> DType:
    """The signed integer of the width of an integer.

    >>> signed(u32), signed(i8)
    (cute.i32, cute.i8)
    """
    return _BY_NAME[f"i{dtype.bits}"]


@cache
def of_ir(type_: Attribute) -> DType:
    """The element type of an IR type."""
    for dtype in ALL:
        if dtype.ir == type_:
            return dtype
    raise TypeError(f"expected an element type of the language, got {type_}")
