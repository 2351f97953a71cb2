"""PTX scalar types as data: width, kind and the NumPy types that hold and interpret them. Registers
hold raw bits in an unsigned type of their width; an instruction's type says how to read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

STORAGE: dict[int, Any] = {
    1: np.dtype(np.bool_),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}


@dataclass(frozen=True)
class ScalarType:
    """``kind`` is ``b`` (bits), ``u``, ``s``, ``f`` (one number) or ``x`` (packed numbers)."""

    name: str
    kind: str
    bits: int
    dtype: Any

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    @property
    def is_signed(self) -> bool:
        return self.kind == "s"


def _types() -> dict[str, ScalarType]:
    table = {"pred": ScalarType("pred", "b", 1, STORAGE[1])}
    for bits in (8, 16, 32, 64):
        table[f"b{bits}"] = ScalarType(f"b{bits}", "b", bits, STORAGE[bits])
        table[f"u{bits}"] = ScalarType(f"u{bits}", "u", bits, STORAGE[bits])
        table[f"s{bits}"] = ScalarType(f"s{bits}", "s", bits, np.dtype(f"int{bits}"))
    table["b128"] = ScalarType("b128", "b", 128, np.dtype("V16"))
    for name, bits, dtype in (
        ("f16", 16, np.float16),
        ("bf16", 16, ml_dtypes.bfloat16),
        ("f32", 32, np.float32),
        ("tf32", 32, np.float32),
        ("f64", 64, np.float64),
    ):
        table[name] = ScalarType(name, "f", bits, np.dtype(dtype))
    for name, bits in (
        ("f16x2", 32), ("bf16x2", 32), ("u16x2", 32), ("s16x2", 32), ("f32x2", 64),
        ("e4m3x2", 16), ("e5m2x2", 16), ("e4m3x4", 32), ("e5m2x4", 32), ("ue8m0x2", 16),
        ("e2m1x2", 8), ("e2m3x2", 16), ("e3m2x2", 16),
    ):  # fmt: skip
        table[name] = ScalarType(name, "x", bits, STORAGE[bits])
    table["e4m3"] = ScalarType("e4m3", "f", 8, np.dtype(ml_dtypes.float8_e4m3fn))
    table["e5m2"] = ScalarType("e5m2", "f", 8, np.dtype(ml_dtypes.float8_e5m2))
    return table


TYPES: dict[str, ScalarType] = _types()
