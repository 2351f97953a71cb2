"""Arithmetic on single IR values: the type that an operator computes in, conversions, literals, and
the ops of Python's operators. Tiles apply it to each element, scalars to themselves.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import TypeGuard

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerAttr, IntegerType, Signedness, i1
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, SSAValue

from .dtypes import ALL, DType, e4m3, f32, i32, i64, ue4m3, ue8m0
from .trace import current, error

Number = int | float

_LOGIC = ("and", "or", "xor", "eq", "ne")
_INT_COMPARE = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_UNSIGNED_COMPARE = {"eq": "eq", "ne": "ne", "lt": "ult", "le": "ule", "gt": "ugt", "ge": "uge"}
_FLOAT_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
# By operator: the ops of floats, signed and unsigned integers.
_BINARY: dict[str, tuple[type | None, type | None, type | None]] = {
    "add": (arith.AddfOp, arith.AddiOp, arith.AddiOp),
    "sub": (arith.SubfOp, arith.SubiOp, arith.SubiOp),
    "mul": (arith.MulfOp, arith.MuliOp, arith.MuliOp),
    "truediv": (arith.DivfOp, None, None),
    "floordiv": (None, arith.FloorDivSIOp, arith.DivUIOp),
    "and": (None, arith.AndIOp, arith.AndIOp),
    "or": (None, arith.OrIOp, arith.OrIOp),
    "xor": (None, arith.XOrIOp, arith.XOrIOp),
    "lshift": (None, arith.ShLIOp, arith.ShLIOp),
    "rshift": (None, arith.ShRSIOp, arith.ShRUIOp),
    "maximum": (arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp),
    "minimum": (arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp),
}
# A quotient may be formed with the divisor's reciprocal, where a kernel only streams:
# `div.full.f32`, off by at most 2 ulp.
_APPROXIMATE = arith.FastMathFlagsAttr([FastMathFlag.ALLOW_RECIP])
_UNDEFINED = {
    "truediv": "floats for '/' (use // or convert with .to(cute.f32))",
    "floordiv": "integers for '//' and '%' (use / or convert with .to(cute.i32))",
    "and": "conditions or integers for '&'",
    "or": "conditions or integers for '|'",
    "xor": "conditions or integers for '^' and '~'",
    "lshift": "integers for '<<'",
    "rshift": "integers for '>>'",
}


def is_number(value: object) -> TypeGuard[Number]:
    """Whether a value is a Python or NumPy number, which becomes a literal."""
    return isinstance(value, Real)


def compares(kind: str) -> bool:
    """Whether an operator gives conditions."""
    return kind in _FLOAT_COMPARE


def promote(one: DType, other: DType) -> DType:
    """The type that holds both: the wider float, f32 for f16 with bf16; the wider integer, and
    where an unsigned one is as wide as a signed one, or wider, the signed one of 32 or 64 bits that
    holds it: i32 for i8 with u8, i64 for i32 with u32.
    """
    if one == other:
        return one
    one, other = one.computed, other.computed
    if one == other:
        return one
    if (one.kind == "f") != (other.kind == "f"):
        return one if one.kind == "f" else other
    narrow, wide = (one, other) if one.bits < other.bits else (other, one)
    if one.kind == "f":
        return f32 if one.bits == other.bits else wide
    signed = next((dtype for dtype in (one, other) if dtype.kind == "i"), None)
    unsigned = next((dtype for dtype in (one, other) if dtype.kind == "u"), None)
    if narrow.bits == 1 or signed is None or unsigned is None or signed.bits > unsigned.bits:
        return wide
    if unsigned.bits == 64:
        raise error(
            f"expected integers that one type holds, got {one.name} and {other.name}; convert one "
            f"with .to(cute.{other.name}) or .to(cute.{one.name}), which wraps",
            code="CD-P3",
        )
    return i64 if unsigned.bits == 32 else i32


def joined(dtype: DType, scalar: DType) -> DType:
    """The type that tiles of a type compute in with a scalar beside them, which takes their type:
    floats are rounded to it. With a scalar of floats integers become floats, and an integer that
    the tiles cannot hold is refused.
    """
    if scalar.kind == "f":
        return dtype if dtype.kind == "f" else scalar
    if dtype.kind != "f" and promote(dtype, scalar) != dtype:
        raise error(
            f"expected a scalar that {dtype.name} holds beside a tile of {dtype.name}, got one of "
            f"{scalar.name}; convert the scalar with .to(cute.{dtype.name}) or the tile with "
            f".to(cute.{promote(dtype, scalar).name})",
            code="CD-P3",
        )
    return dtype


def computed_in(kind: str, dtype: DType) -> DType:
    """The type that an operator computes in: numbers are made of conditions as in Python."""
    return i32 if dtype.bits == 1 and kind not in _LOGIC else dtype.computed


def literal(value: Number, dtype: DType) -> SSAValue:
    """A number of the program as a constant of a type, which has to hold it: an integer exactly, a
    float neither as an infinity nor as 0.
    """
    if dtype.kind == "f":
        return current().constant(_held(value, dtype), dtype.ir)
    if not hasattr(value, "__index__"):
        raise error(
            f"expected an integer for a value of {dtype.name}, got {value!r}; convert the other "
            "operand first, such as .to(cute.f32)",
            code="CD-P4",
        )
    number = int(value)
    low = -(1 << dtype.bits - 1) if dtype.kind == "i" else 0
    high = low + (1 << dtype.bits) - 1
    if not low <= number <= high:
        raise error(
            f"expected a number in {low}..{high} for a value of {dtype.name}, got {number}",
            code="CD-P4",
        )
    return current().constant(number, dtype.ir)


def _held(value: Number, dtype: DType) -> float:
    """A number as a float that is finite in a type if it is finite, and 0 only if it is 0."""
    if type(value) is float and dtype.bits >= 32 and (value == 0 or 1e-30 < abs(value) < 1e30):
        return value  # as nearly all are
    from ml_dtypes import finfo

    try:
        number = float(value)
    except OverflowError:
        number, is_finite = math.inf, True
    else:
        is_finite = math.isfinite(number)
    facts = finfo(dtype.numpy)
    if dtype in (ue4m3, ue8m0) and (number < 0 or math.copysign(1.0, number) < 0):
        raise error(
            f"expected a number that is not negative for a value of {dtype.name}, got {value!r}; "
            "scales of other types than cute.ue8m0 and cute.ue4m3 have a sign",
            code="CD-P4",
        )
    if dtype == ue8m0 and number <= float(facts.max):
        return number
    with np.errstate(all="ignore"):
        rounded = np.float64(number).astype(dtype.numpy)
    if is_finite and not np.isfinite(rounded):
        bound = f"of at most {float(facts.max):g}"
    elif rounded == 0 and value != 0:
        bound = f"of at least {float(facts.smallest_subnormal):.3g}"
    elif math.isinf(number) and dtype.name == "e4m3":
        bound = f"of at most {float(facts.max):g}"
    else:
        return number
    raise error(
        f"expected a number {bound} for a value of {dtype.name}, got {value!r}; compute in a wider "
        "type, such as .to(cute.f32)",
        code="CD-P4",
    )


def convert_value(value: SSAValue, source: DType, target: DType) -> SSAValue:
    """Convert one value between element types.

    Floats round to nearest even, to ue8m0 up; to integers toward zero, clamped, NaN as PTX's cvt
    gives it. Integers wrap. What is not 0 is true. What is negative is 0 in ue4m3.
    """
    source = source.computed
    if source == target:
        return value
    if target != target.computed:
        return _cut_to(value, source, target)
    trace = current()
    to = target.ir
    if target == ue4m3:
        wide = convert_value(value, source, f32)
        zero = literal(0, f32)
        is_positive = binary_value("gt", wide, zero)
        is_nan = binary_value("ne", wide, wide)
        kept = binary_value("or", is_positive, is_nan)
        wide = trace.insert(arith.SelectOp(kept, wide, zero)).results[0]
        return convert_value(wide, f32, e4m3)
    if source == ue4m3:
        return convert_value(value, e4m3, target)
    if target.bits == 1:
        return binary_value("ne", value, literal(0, source))
    if source.kind == "f" and target.kind == "f":
        if source.bits == target.bits:
            return convert_value(convert_value(value, source, f32), f32, target)
        kind = arith.ExtFOp if target.bits > source.bits else arith.TruncFOp
    elif source.kind == "f":
        kind = arith.FPToUIOp if target.kind == "u" else arith.FPToSIOp
    elif target.kind == "f":
        kind = arith.UIToFPOp if source.kind in "ub" else arith.SIToFPOp
    elif target.bits == source.bits and target.bits < 16:
        return convert_value(convert_value(value, source, i32), i32, target)
    elif target.bits == source.bits:
        kind = arith.BitcastOp
    elif target.bits < source.bits:
        kind = arith.TruncIOp
    else:
        kind = arith.ExtUIOp if source.kind in "ub" else arith.ExtSIOp
    return trace.insert(kind(value, to)).results[0]  # pyright: ignore[reportArgumentType]


def _cut_to(value: SSAValue, source: DType, target: DType) -> SSAValue:
    """A value as an integer of 4 bits, in the 8 that hold it: floats clamped, integers wrapped."""
    held = target.computed
    low = -(1 << target.bits - 1) if target.kind == "i" else 0
    high = low + (1 << target.bits) - 1
    whole = convert_value(value, source, held)
    if source.kind == "f":
        whole = binary_value("maximum", whole, literal(low, held))
        return binary_value("minimum", whole, literal(high, held))
    whole = binary_value("and", whole, literal(high - low, held))
    if target.kind == "u":
        return whole
    sign = literal(-low, held)
    return binary_value("sub", binary_value("xor", whole, sign), sign)


def binary_value(kind: str, left: SSAValue, right: SSAValue) -> SSAValue:
    """A binary operator on two values of one type; comparisons give i1.

    Division of integers rounds down and `%` has the sign of the divisor, as in Python. Shifts by
    the width and more, or by a negative number, leave 0, or the sign where a signed integer goes
    right, as in NumPy.
    """
    trace = current()
    type_ = left.type
    if isinstance(type_, AnyFloat):
        column = 0
        if compares(kind):
            return trace.insert(arith.CmpfOp(left, right, _FLOAT_COMPARE[kind])).results[0]
    else:
        column = 2 if _is_unsigned(type_) else 1
        if compares(kind):
            table = _UNSIGNED_COMPARE if column == 2 else _INT_COMPARE
            return trace.insert(arith.CmpiOp(left, right, table[kind])).results[0]
    if kind in ("floordiv", "mod") and _is_zero(right):
        raise error("expected a divisor other than 0, got 0", code="CD-P4")
    if kind == "mod":
        whole = binary_value("mul", binary_value("floordiv", left, right), right)
        return binary_value("sub", left, whole)
    made = _BINARY[kind][column]
    if made is None:
        raise error(f"expected {_UNDEFINED[kind]}, got {type_}", code="CD-P3")
    if made is arith.DivfOp:
        return trace.insert(arith.DivfOp(left, right, _APPROXIMATE)).results[0]
    return trace.insert(made(left, right)).results[0]


def same_bits(value: SSAValue, source: DType, target: DType) -> SSAValue:
    """The bits of a value as one of another type of the same width."""
    if source == target:
        return value
    if source.bits != target.bits or source.bits == 1:
        widths = ", ".join(d.name for d in ALL if d.bits == source.bits != 1) or "no other"
        raise error(
            f"expected a type of {source.bits} bits ({widths}), got {target.name}; .to() converts",
            code="CD-P3",
        )
    if target.kind != "f" and source.kind != "f":
        return convert_value(value, source, target)
    return current().insert(arith.BitcastOp(value, target.ir)).results[0]


def negated(value: SSAValue, dtype: DType) -> SSAValue:
    """-x: floats change their sign, integers wrap."""
    if dtype.kind == "f":
        return current().insert(arith.NegfOp(value)).results[0]
    return binary_value("sub", literal(0, dtype), value)


def inverted(value: SSAValue, dtype: DType) -> SSAValue:
    """~x: every bit, or a condition, turned round."""
    ones = -1 if dtype.kind == "i" else (1 << dtype.bits) - 1
    if dtype.kind == "f":
        raise error(f"expected {_UNDEFINED['xor']}, got {dtype.name}", code="CD-P3")
    return binary_value("xor", value, literal(ones, dtype))


def _is_zero(value: SSAValue) -> bool:
    """Whether a value is the integer constant 0."""
    owner = value.owner
    if isinstance(owner, arith.TruncIOp):  # a constant of an unsigned type
        owner = owner.input.owner
    number = owner.value if isinstance(owner, arith.ConstantOp) else None
    return isinstance(number, IntegerAttr) and number.value.data == 0


def _is_unsigned(type_: Attribute) -> bool:
    return type_ == i1 or (
        isinstance(type_, IntegerType) and type_.signedness.data is Signedness.UNSIGNED
    )
