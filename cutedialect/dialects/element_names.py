"""Element types of the IR and their names in the atom registry."""

from __future__ import annotations

from xdsl.dialects.builtin import (
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
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException


def operand_name(element: Attribute) -> str:
    """Name of an MMA operand's type: tensor cores read f32 as tf32."""
    return "tf32" if isinstance(element, Float32Type) else element_name(element)


def element_name(element: Attribute) -> str:
    """PTX's name of an element type: f16, bf16, f32, f64, e4m3, e5m2, e2m3, e3m2, e2m1,
    ue8m0, s8, u8, s4, b1, s32.
    """
    match element:
        case Float16Type():
            return "f16"
        case BFloat16Type():
            return "bf16"
        case Float32Type():
            return "f32"
        case Float64Type():
            return "f64"
        case Float8E4M3FNType():
            return "e4m3"
        case Float8E5M2Type():
            return "e5m2"
        case Float6E2M3FNType():
            return "e2m3"
        case Float6E3M2FNType():
            return "e3m2"
        case Float4E2M1FNType():
            return "e2m1"
        case Float8E8M0FNUType():
            return "ue8m0"
        case IntegerType() if element.width.data == 1:
            return "b1"
        case IntegerType():
            sign = "u" if element.signedness.data is Signedness.UNSIGNED else "s"
            return f"{sign}{element.width.data}"
        case _:
            raise VerifyException(f"expected an element type of an MMA atom, got {element}")
