"""Scalar code: what each arith and math op on one element becomes. 16-bit floats are computed as
PTX does where it has the instruction, else in f32, 8-bit floats in f32; the rest is a table from op
and type to mnemonic.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects import math as mathd
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType, i1
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Operation, SSAValue

from cutedialect.dialects.cute import BrevOp, InlinePtxOp

from .context import Context, fail, float_name
from .inline_instructions import lower_inline
from .narrow_floats import FORMATS, decode, from_f32, to_f32
from .scalar_builder import Scalar, ScalarBuilder

Values = dict[SSAValue, Scalar]

_INTEGER = {
    arith.AddiOp: "add.s",
    arith.SubiOp: "sub.s",
    arith.MuliOp: "mul.lo.s",
    arith.DivSIOp: "div.s",
    arith.DivUIOp: "div.u",
    arith.RemSIOp: "rem.s",
    arith.RemUIOp: "rem.u",
    arith.AndIOp: "and.b",
    arith.OrIOp: "or.b",
    arith.XOrIOp: "xor.b",
    arith.ShLIOp: "shl.b",
    arith.ShRSIOp: "shr.s",
    arith.ShRUIOp: "shr.u",
    arith.MinSIOp: "min.s",
    arith.MaxSIOp: "max.s",
    arith.MinUIOp: "min.u",
    arith.MaxUIOp: "max.u",
}
# By op: the letter of the instruction that gives the upper half of a product.
_UPPER = {arith.MulUIExtendedOp: "u", arith.MulSIExtendedOp: "s"}
_PREDICATE = {
    arith.AndIOp: "and.pred",
    arith.OrIOp: "or.pred",
    arith.XOrIOp: "xor.pred",
    arith.MuliOp: "and.pred",
    arith.AddiOp: "xor.pred",
}
# By op: the instruction and the types that it has; narrower ones are computed in f32.
_FLOAT = {
    arith.AddfOp: ("add.rn", "f32 f64 f16"),
    arith.SubfOp: ("sub.rn", "f32 f64 f16"),
    arith.MulfOp: ("mul.rn", "f32 f64 f16"),
    arith.DivfOp: ("div.rn", "f32 f64"),
    arith.MaximumfOp: ("max.NaN", "f32 f64 f16 bf16"),
    arith.MinimumfOp: ("min.NaN", "f32 f64 f16 bf16"),
    arith.MaxnumfOp: ("max", "f32 f64 f16 bf16"),
    arith.MinnumfOp: ("min", "f32 f64 f16 bf16"),
    arith.NegfOp: ("neg", "f32 f64 f16 bf16"),
    mathd.AbsFOp: ("abs", "f32 f64 f16 bf16"),
    mathd.FmaOp: ("fma.rn", "f32 f64 f16 bf16"),
    mathd.Exp2Op: ("ex2.approx.ftz", "f32"),
    mathd.Log2Op: ("lg2.approx", "f32"),
    mathd.SqrtOp: ("sqrt.rn", "f32 f64"),
    mathd.RsqrtOp: ("rsqrt.approx", "f32 f64"),
    mathd.SinOp: ("sin.approx", "f32"),
    mathd.CosOp: ("cos.approx", "f32"),
    mathd.TanhOp: ("tanh.approx", "f32"),
}
# By op: how `cvt` rounds a float to a whole one.
_WHOLE = {
    mathd.FloorOp: "rmi",
    mathd.CeilOp: "rpi",
    mathd.TruncOp: "rzi",
    mathd.RoundEvenOp: "rni",
}
# By op: the instruction on all bits of an integer, and whether it sees narrower ones from above.
_BITS = {
    mathd.CtPopOp: ("popc", False),
    mathd.CountLeadingZerosOp: ("clz", True),
    BrevOp: ("brev", True),
}
_FLOAT_NAMES = {"f32", "f64", *FORMATS}
# arith.cmpi predicates 0..9 and arith.cmpf predicates 0..15, in their order.
_CMPI = ("eq", "ne", "lt", "le", "gt", "ge", "lt", "le", "gt", "ge")
_CMPF = (
    "", "eq", "gt", "ge", "lt", "le", "ne", "num",
    "equ", "gtu", "geu", "ltu", "leu", "neu", "nan", "",
)  # fmt: skip


def does_not_wrap(op: Operation) -> bool:
    """Whether a signed integer op says that its result is in range."""
    flags = op.properties.get("overflowFlags")
    return isinstance(flags, arith.IntegerOverflowAttr) and bool(
        {arith.IntegerOverflowFlag.NSW} & set(flags.data)
    )


def lower_scalar(context: Context, op: Operation, values: Values) -> bool:
    """Lower one scalar op and bind its results; False when it is not one of arith or math."""
    builder, kind = context.builder, type(op)
    if kind not in _FLOAT and kind not in _RULES and kind is not InlinePtxOp:
        return False
    args = [values[each] for each in op.operands]
    try:
        if kind is InlinePtxOp:
            values.update(zip(op.results, lower_inline(context, op, args), strict=True))
            return True
        if kind in _FLOAT:
            values[op.results[0]] = _float(context, op, args)
        else:
            values[op.results[0]] = _RULES[kind](builder, op, args)
        if kind in _UPPER:
            high = f"mul.hi.{_UPPER[kind]}{_width(op.operands[0].type)}"
            values[op.results[1]] = builder.pure(high, *args)
    except ValueError as error:
        raise fail(op, str(error)) from error
    return True


def _width(type_: Attribute) -> int:
    if isinstance(type_, IndexType):
        return 32
    if isinstance(type_, IntegerType):
        return type_.width.data
    raise ValueError(f"expected an integer type, got {type_}")


def _constant(builder: ScalarBuilder, op: Operation, _: list[Scalar]) -> Scalar:
    assert isinstance(op, arith.ConstantOp)
    attribute = op.value
    if isinstance(attribute, IntegerAttr):
        value = attribute.value.data
        return bool(value) if attribute.type == i1 else value
    if isinstance(attribute, FloatAttr):
        return from_f32(builder, float(attribute.value.data), float_name(attribute.type))
    raise ValueError(f"expected a scalar constant, got {attribute}")


def _integer(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    kind, type_ = type(op), op.results[0].type
    bits = _width(type_)
    if bits == 1:
        if kind not in _PREDICATE:
            raise ValueError("expected and, or, xor on i1")
        return _predicate(builder, _PREDICATE[kind], *args)
    if bits not in (8, 16, 32, 64):
        raise ValueError(f"expected an integer of 8, 16, 32 or 64 bits, got {type_}")
    mnemonic = f"{_INTEGER[kind]}{max(bits, 16)}"
    args = _extended(builder, args, bits, "s" if ".s" in mnemonic else "u")
    if mnemonic.startswith("sh") and bits != 32 and isinstance(args[1], SSAValue):
        if bits == 64 and builder.constant(args[1]) is None:  # shifts by 2^32 too leave nothing
            args[1] = builder.pure("min.u64", args[1], bits)
        args[1] = builder.pure(f"cvt.u32.u{max(bits, 16)}", args[1])
    result = builder.pure(mnemonic, *args)
    grows = kind in (arith.AddiOp, arith.MuliOp) and does_not_wrap(op)
    if grows and all(builder.is_nonnegative(each) for each in args):
        builder.assume_nonnegative(result)
    return result


def _predicate(builder: ScalarBuilder, mnemonic: str, a: Scalar, b: Scalar) -> Scalar:
    if mnemonic == "xor.pred":
        for this, other in ((a, b), (b, a)):
            constant = builder.constant(this)
            if constant is not None:
                return builder.pure("not.pred", other) if constant else other
    return builder.pure(mnemonic, a, b)


def _extended(builder: ScalarBuilder, args: list[Scalar], bits: int, sign: str) -> list[Scalar]:
    """Integers of 8 bits, right in all of their 16-bit registers; wider ones as they are."""
    if bits != 8:
        return args
    convert = f"cvt.{sign}16.{sign}8"
    return [builder.pure(convert, each) if isinstance(each, SSAValue) else each for each in args]


def _low_product(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    bits = _width(op.results[0].type)
    if bits not in (32, 64):
        raise ValueError(f"expected an integer of 32 or 64 bits, got {op.results[0].type}")
    return builder.pure(f"mul.lo.s{bits}", *args)


def _float(context: Context, op: Operation, args: list[Scalar]) -> Scalar:
    builder, type_ = context.builder, op.results[0].type
    name, (mnemonic, types) = float_name(type_), _FLOAT[type(op)]
    if name not in _FLOAT_NAMES:
        raise ValueError(f"expected f16, bf16, f32 or f64, got {type_}")
    if name in types.split():
        family = mnemonic.partition(".")[0]
        # Some targets have no arithmetic of 16 bits.
        needed = "fma.rn.bf16" if name == "bf16" else "max.f16" if family in ("max", "min") else ""
        if name in ("f32", "f64") or not needed or builder.has(needed):
            return _computed(context, op, mnemonic, name, args)
    elif name == "f64":
        raise ValueError(f"expected f32 (PTX has no such f64 instruction), got {type_}")
    wide = [to_f32(builder, each, name) for each in args]
    return from_f32(builder, _computed(context, op, mnemonic, "f32", wide), name)


def _computed(
    context: Context, op: Operation, mnemonic: str, name: str, args: list[Scalar]
) -> Scalar:
    """One instruction, or a faster one where the flags of an f32 division allow it: `arcp` the one
    of 2 ulp over the full range, `afn` a product with the reciprocal, normal numbers only; both
    together that product, only in kernels without a multiply.

    Beside accumulators the exact quotient stays: `ptxas` computes many of the inline ones at once,
    for which it spills, and the exact one is a call.
    """
    builder = context.builder
    if name in ("f32", "f64") and mnemonic.endswith(".NaN"):
        return extreme(builder, mnemonic[:3], name, *args)
    if name == "f32" and mnemonic == "div.rn":
        takes_inverse = _allows(op, FastMathFlag.ALLOW_RECIP)
        if _allows(op, FastMathFlag.APPROX_FUNC) and (context.is_streaming or not takes_inverse):
            inverse = builder.pure("rcp.approx.ftz.f32", args[1])
            return inverse if args[0] == 1.0 else builder.pure("mul.f32", args[0], inverse)
        if takes_inverse and context.is_streaming:
            mnemonic = "div.full"
    return builder.pure(f"{mnemonic}.{name}", *args)


def _allows(op: Operation, flag: FastMathFlag) -> bool:
    """Whether an op of floats has a fast-math flag."""
    flags = op.properties.get("fastmath")
    return isinstance(flags, arith.FastMathFlagsAttr) and flag in flags.data


def extreme(builder: ScalarBuilder, kind: str, name: str, left: Scalar, right: Scalar) -> Scalar:
    """`max` or `min` of f32 or f64 where a NaN in either gives NaN: PTX has no such instruction for
    f64, nor for f32 before sm_80.
    """
    if name == "f32" and builder.has("max.NaN.f32"):
        return builder.pure(f"{kind}.NaN.f32", left, right)
    unordered = builder.pure(f"setp.nan.{name}", builder.value(left, name), right)
    chosen = builder.pure(f"{kind}.{name}", left, right)
    total = builder.pure(f"add.{name}", left, right)
    return builder.pure(f"selp.{name}", total, chosen, unordered)


def _round_to_odd(builder: ScalarBuilder, value: Scalar) -> Scalar:
    """f64 to f32 toward zero, with an odd last bit where that is inexact.

    A second rounding to a much narrower type then gives what one rounding would: PTX has no
    conversion from f64 to bf16 before sm_90.
    """
    short = builder.pure("cvt.rz.f32.f64", value)
    inexact = builder.pure("setp.neu.f64", builder.pure("cvt.f64.f32", short), value)
    sticky = builder.pure("selp.b32", 1, 0, inexact)
    bits = builder.pure("or.b32", builder.pure("mov.b32", short), sticky)
    return builder.pure("mov.f32", bits)


def _cmpi(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    assert isinstance(op, arith.CmpiOp)
    predicate, bits = op.predicate.value.data, _width(op.lhs.type)
    sign = "u" if predicate >= 6 else "s"
    if bits == 1:
        if predicate > 1:
            raise ValueError("expected eq or ne on i1")
        different = _predicate(builder, "xor.pred", *args)
        return different if predicate == 1 else builder.pure("not.pred", different)
    args = _extended(builder, args, bits, sign)
    return builder.pure(f"setp.{_CMPI[predicate]}.{sign}{max(bits, 16)}", *args)


def _cmpf(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    assert isinstance(op, arith.CmpfOp)
    predicate, name = op.predicate.value.data, float_name(op.lhs.type)
    if predicate in (0, 15):
        return predicate == 15
    left, right = (to_f32(builder, each, name) for each in args)
    name = "f32" if name in FORMATS else name
    return builder.pure(f"setp.{_CMPF[predicate]}.{name}", builder.value(left, name), right)


def _select(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    condition, yes, no = args
    name = float_name(op.results[0].type)
    if name == "s1":
        chosen = builder.pure("and.pred", condition, yes)
        inverted = builder.pure("not.pred", condition)
        return builder.pure("or.pred", chosen, builder.pure("and.pred", inverted, no))
    if name in ("f32", "f64"):
        return builder.pure(f"selp.{name}", yes, no, condition)
    bits = 16 if name in FORMATS else max(16, _width(op.results[0].type))
    chosen = builder.pure(f"selp.b{bits}", yes, no, condition)
    if bits >= 32 and all(builder.is_nonnegative(each) for each in (yes, no)):
        builder.assume_nonnegative(chosen)
    return chosen


def _float_cast(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    source, target = float_name(op.operands[0].type), float_name(op.results[0].type)
    (value,) = args
    if not {source, target} <= _FLOAT_NAMES:
        raise ValueError(f"expected f16, bf16, f32 or f64 on both sides, got {source} to {target}")
    if source == target:
        return value
    if not isinstance(value, SSAValue):
        number = decode(int(value), source) if source in FORMATS else float(value)
        number = ctypes.c_float(number).value if target == "f32" else number
        return from_f32(builder, number, target)
    if source == "f64" and target in ("f16", "f32"):
        return builder.pure(f"cvt.rn.{target}.f64", value)
    wide = _round_to_odd(builder, value) if source == "f64" else to_f32(builder, value, source)
    return builder.pure("cvt.f64.f32", wide) if target == "f64" else from_f32(builder, wide, target)


def _integer_cast(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    source, target = _width(op.operands[0].type), _width(op.results[0].type)
    (value,), signed = args, not isinstance(op, arith.ExtUIOp)
    constant = builder.constant(value)
    if source == target:
        return value
    if target == 1:
        bits = max(source, 16)
        return builder.pure(f"setp.ne.s{bits}", builder.pure(f"and.b{bits}", value, 1), 0)
    true = -1 if signed else 1
    if constant is not None:
        number = int(constant)
        if source == 1:
            return true * int(bool(number))
        return number if signed or target < source else number & ((1 << source) - 1)
    if source == 1:
        return builder.pure(f"selp.b{max(target, 16)}", true, 0, value)
    if target > 8:
        letter = "s" if signed else "u"
        return builder.pure(f"cvt.{letter}{target}.{letter}{source}", value)
    return value if source == 16 else builder.pure(f"cvt.u16.u{source}", value)


def _same_bits(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    """The bits of a number as one of another type. Integers and floats of up to 16 bits lie in
    registers of one class, and integers have no sign there.
    """
    source, target = (float_name(type_) for type_ in (op.operands[0].type, op.results[0].type))
    (value,), wide = args, ("f32", "f64")
    if (source in wide) == (target in wide):
        return value
    code = "fi" if "f32" in (source, target) else "dq"
    bits = 32 if code == "fi" else 64
    constant = builder.constant(value)
    if constant is None:
        return builder.pure(f"mov.{target if target in wide else f'b{bits}'}", value)
    if source in wide:
        return int(struct.unpack(f"<{code[1]}", struct.pack(f"<{code[0]}", constant))[0])
    pattern = int(constant) & (1 << bits) - 1
    return struct.unpack(f"<{code[0]}", pattern.to_bytes(bits // 8, "little"))[0]


def _whole(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    """A float rounded to a whole one; narrow ones by way of f32, which holds the result."""
    name = float_name(op.results[0].type)
    wide = "f32" if name in FORMATS else name
    value = builder.pure(f"cvt.{_WHOLE[type(op)]}.{wide}.{wide}", to_f32(builder, args[0], name))
    return from_f32(builder, value, name)


def _copysign(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    """The size of the first with the sign of the second: PTX takes the sign first."""
    name = float_name(op.results[0].type)
    wide = "f32" if name in FORMATS else name
    size, sign = (to_f32(builder, arg, name) for arg in args)
    return from_f32(builder, builder.pure(f"copysign.{wide}", sign, size), name)


def _of_bits(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    """An instruction on all bits; integers of 8 and 16 bits lie below zeros in 32."""
    name, from_above = _BITS[type(op)]
    bits, (value,) = _width(op.results[0].type), args
    if bits < 32:
        value = builder.pure(f"cvt.u32.u{bits}", value)
    result = builder.pure(f"{name}.b{max(bits, 32)}", value)
    if bits < 32 and from_above:
        missing = 32 - bits
        is_count = name == "clz"
        result = builder.pure("sub.s32" if is_count else "shr.u32", result, missing)
    if bits == 64 and name != "brev":
        return builder.pure("cvt.u64.u32", result)
    return builder.pure("cvt.u16.u32", result) if bits < 32 else result


def _int_to_float(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    bits, name = _width(op.operands[0].type), float_name(op.results[0].type)
    (value,), letter = args, "u" if isinstance(op, arith.UIToFPOp) else "s"
    constant = builder.constant(value)
    if constant is not None:
        number = int(constant) & ((1 << bits) - 1) if letter == "u" else int(constant)
        return from_f32(builder, float(number), name)
    if bits == 1:
        one, zero = (from_f32(builder, x, name) for x in (-1.0 if letter == "s" else 1.0, 0.0))
        return builder.pure(f"selp.{'b16' if name in FORMATS else name}", one, zero, value)
    if name in FORMATS and name != "f16":
        return from_f32(builder, builder.pure(f"cvt.rn.f32.{letter}{bits}", value), name)
    return builder.pure(f"cvt.rn.{name}.{letter}{bits}", value)


def _float_to_int(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    bits, name = _width(op.results[0].type), float_name(op.operands[0].type)
    letter = "u" if isinstance(op, arith.FPToUIOp) else "s"
    value = to_f32(builder, args[0], name)
    return builder.pure(f"cvt.rzi.{letter}{bits}.{'f32' if name in FORMATS else name}", value)


def _natural(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    """`exp` or `log`, by that of base 2."""
    name = float_name(op.results[0].type)
    if name == "f64":
        what = "exponential" if isinstance(op, mathd.ExpOp) else "logarithm"
        raise ValueError(f"expected f16, bf16 or f32 (PTX has no f64 {what}), got f64")
    value = to_f32(builder, args[0], name)
    if isinstance(op, mathd.ExpOp):
        scaled = builder.pure("mul.f32", value, math.log2(math.e))
        return from_f32(builder, builder.pure("ex2.approx.ftz.f32", scaled), name)
    two = builder.pure("lg2.approx.f32", value)
    return from_f32(builder, builder.pure("mul.f32", two, math.log(2.0)), name)


def _ceil_divide(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    """a / b rounded up: one more than the truncated quotient where the remainder agrees with b."""
    bits, (a, b) = _width(op.results[0].type), args
    if builder.is_nonnegative(a) and builder.is_nonnegative(b):
        # Extents are below 2^31, so the sum is exact as an unsigned number.
        above = builder.pure(f"add.s{bits}", a, builder.pure(f"sub.s{bits}", b, 1))
        return builder.assume_nonnegative(builder.pure(f"div.u{bits}", above, b))
    power = _power_of_two(builder, b)
    if bits >= 32 and power is not None:
        low = builder.pure(f"and.b{bits}", a, (1 << power) - 1)
        up = builder.pure(f"selp.b{bits}", 1, 0, builder.pure(f"setp.ne.s{bits}", low, 0))
        return builder.pure(f"add.s{bits}", builder.pure(f"shr.s{bits}", a, power), up)
    quotient = builder.pure(f"div.s{bits}", a, b)
    rest = builder.pure(f"rem.s{bits}", a, b)
    exact = builder.pure(f"setp.eq.s{bits}", rest, 0)
    agrees = builder.pure(f"setp.ge.s{bits}", builder.pure(f"xor.b{bits}", rest, b), 0)
    up = builder.pure("and.pred", builder.pure("not.pred", exact), agrees)
    return builder.pure(f"add.s{bits}", quotient, builder.pure(f"selp.b{bits}", 1, 0, up))


def _power_of_two(builder: ScalarBuilder, value: Scalar) -> int | None:
    """The exponent of a constant power of two: an arithmetic shift by it rounds down."""
    constant = builder.constant(value)
    if isinstance(constant, int) and constant > 0 and constant & (constant - 1) == 0:
        return constant.bit_length() - 1
    return None


def _floor_divide(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    """a / b rounded down: one less than the truncated quotient where a remainder and b differ in
    sign."""
    bits = _width(op.results[0].type)
    if bits < 32:
        args = [builder.pure(f"cvt.s32.s{bits}", each) for each in args]
    width, (a, b) = max(bits, 32), args
    if builder.is_nonnegative(a) and builder.is_nonnegative(b):
        return builder.pure(f"div.u{width}", a, b)
    power = _power_of_two(builder, b)
    if power is not None:
        floor = builder.pure(f"shr.s{width}", a, power)
    else:
        quotient = builder.pure(f"div.s{width}", a, b)
        rest = builder.pure(f"sub.s{width}", a, builder.pure(f"mul.lo.s{width}", quotient, b))
        inexact = builder.pure(f"setp.ne.s{width}", rest, 0)
        differs = builder.pure(f"setp.lt.s{width}", builder.pure(f"xor.b{width}", rest, b), 0)
        down = builder.pure("and.pred", inexact, differs)
        floor = builder.pure(f"sub.s{width}", quotient, builder.pure(f"selp.b{width}", 1, 0, down))
    return builder.pure("cvt.u16.u32", floor) if bits < 32 else floor


def _absolute(builder: ScalarBuilder, op: Operation, args: list[Scalar]) -> Scalar:
    bits = _width(op.results[0].type)
    if bits not in (32, 64):
        raise ValueError(f"expected an integer of 32 or 64 bits, got {op.results[0].type}")
    return builder.pure(f"abs.s{bits}", *args)


_RULES: dict[type, Callable[[ScalarBuilder, Operation, list[Scalar]], Scalar]] = {
    **dict.fromkeys(_INTEGER, _integer),
    arith.ConstantOp: _constant,
    **dict.fromkeys(_UPPER, _low_product),
    arith.CeilDivSIOp: _ceil_divide,
    arith.FloorDivSIOp: _floor_divide,
    arith.CmpiOp: _cmpi,
    arith.CmpfOp: _cmpf,
    arith.SelectOp: _select,
    arith.ExtFOp: _float_cast,
    arith.TruncFOp: _float_cast,
    arith.ExtSIOp: _integer_cast,
    arith.ExtUIOp: _integer_cast,
    arith.TruncIOp: _integer_cast,
    arith.IndexCastOp: _integer_cast,
    arith.BitcastOp: _same_bits,
    arith.SIToFPOp: _int_to_float,
    arith.UIToFPOp: _int_to_float,
    arith.FPToSIOp: _float_to_int,
    arith.FPToUIOp: _float_to_int,
    mathd.AbsIOp: _absolute,
    **dict.fromkeys(_WHOLE, _whole),
    **dict.fromkeys(_BITS, _of_bits),
    mathd.CopySignOp: _copysign,
    mathd.ExpOp: _natural,
    mathd.LogOp: _natural,
}
