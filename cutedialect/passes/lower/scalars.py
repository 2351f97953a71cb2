"""Scalar code: what each arith and math op on one element becomes. 16-bit floats are computed as
PTX does where it has the instruction, else in f32, 8-bit floats in f32; the rest is a table from op
and type to mnemonic.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects import math as mathd
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType, i1
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Attribute, Operation, SSAValue

from . import eight_bit_floats
from .context import Context, fail, float_name
from .scalar_builder import Scalar, ScalarBuilder

Values = dict[SSAValue, Scalar]

_INTEGER = {
    arith.AddiOp: "add.s{0}",
    arith.SubiOp: "sub.s{0}",
    arith.MuliOp: "mul.lo.s{0}",
    arith.DivSIOp: "div.s{0}",
    arith.DivUIOp: "div.u{0}",
    arith.RemSIOp: "rem.s{0}",
    arith.RemUIOp: "rem.u{0}",
    arith.AndIOp: "and.b{0}",
    arith.OrIOp: "or.b{0}",
    arith.XOrIOp: "xor.b{0}",
    arith.ShLIOp: "shl.b{0}",
    arith.ShRSIOp: "shr.s{0}",
    arith.ShRUIOp: "shr.u{0}",
    arith.MinSIOp: "min.s{0}",
    arith.MaxSIOp: "max.s{0}",
    arith.MinUIOp: "min.u{0}",
    arith.MaxUIOp: "max.u{0}",
}
_PREDICATE = {
    arith.AndIOp: "and.pred",
    arith.OrIOp: "or.pred",
    arith.XOrIOp: "xor.pred",
    arith.MuliOp: "and.pred",
    arith.AddiOp: "xor.pred",
}
# By op: mnemonic for f32, f64, f16, bf16; None computes in f32.
_FLOAT: dict[type, tuple[str, str, str | None, str | None]] = {
    arith.AddfOp: ("add.rn.f32", "add.rn.f64", "add.rn.f16", None),
    arith.SubfOp: ("sub.rn.f32", "sub.rn.f64", "sub.rn.f16", None),
    arith.MulfOp: ("mul.rn.f32", "mul.rn.f64", "mul.rn.f16", None),
    arith.DivfOp: ("div.rn.f32", "div.rn.f64", None, None),
    arith.MaximumfOp: ("max.NaN.f32", "", "max.NaN.f16", "max.NaN.bf16"),
    arith.MinimumfOp: ("min.NaN.f32", "", "min.NaN.f16", "min.NaN.bf16"),
    arith.MaxnumfOp: ("max.f32", "max.f64", "max.f16", "max.bf16"),
    arith.MinnumfOp: ("min.f32", "min.f64", "min.f16", "min.bf16"),
    arith.NegfOp: ("neg.f32", "neg.f64", "neg.f16", "neg.bf16"),
    mathd.AbsFOp: ("abs.f32", "abs.f64", "abs.f16", "abs.bf16"),
    mathd.FmaOp: ("fma.rn.f32", "fma.rn.f64", "fma.rn.f16", "fma.rn.bf16"),
    mathd.Exp2Op: ("ex2.approx.ftz.f32", "", None, None),
    mathd.Log2Op: ("lg2.approx.f32", "", None, None),
    mathd.SqrtOp: ("sqrt.rn.f32", "sqrt.rn.f64", None, None),
    mathd.RsqrtOp: ("rsqrt.approx.f32", "rsqrt.approx.f64", None, None),
    mathd.SinOp: ("sin.approx.f32", "", None, None),
    mathd.CosOp: ("cos.approx.f32", "", None, None),
    mathd.TanhOp: ("tanh.approx.f32", "", None, None),
}
# Types of 16 bits whose arithmetic some targets have not.
_NEEDED = ("f16", "bf16")
_EXTREME = {arith.MaximumfOp: "max", arith.MinimumfOp: "min"}
# arith.cmpi predicates 0..9 and arith.cmpf predicates 0..15, in their order.
_CMPI = ("eq", "ne", "lt", "le", "gt", "ge", "lt", "le", "gt", "ge")
_CMPF = (
    "", "eq", "gt", "ge", "lt", "le", "ne", "num",
    "equ", "gtu", "geu", "ltu", "leu", "neu", "nan", "",
)  # fmt: skip
_COLUMN = {"f32": 0, "f64": 1, "f16": 2, "bf16": 3}
_EIGHT_BITS = tuple(eight_bit_floats.FORMATS)
# Floats that live in 16-bit registers.
_SHORT = ("f16", "bf16", *_EIGHT_BITS)


def does_not_wrap(op: Operation) -> bool:
    """Whether a signed integer op says that its result is in range."""
    flags = op.properties.get("overflowFlags")
    return isinstance(flags, arith.IntegerOverflowAttr) and bool(
        {arith.IntegerOverflowFlag.NSW} & set(flags.data)
    )


def lower_scalar(context: Context, op: Operation, values: Values) -> bool:
    """Lower one scalar op and bind its result; False when it is not one of arith or math."""
    builder = context.builder
    kind = type(op)
    if kind is arith.ConstantOp:
        values[op.results[0]] = _constant(context, op)
        return True
    if kind in _INTEGER:
        type_ = op.results[0].type
        operands = [values[each] for each in op.operands]
        result = _integer(context, op, kind, type_, operands)
        grows = kind in (arith.AddiOp, arith.MuliOp) and does_not_wrap(op)
        if grows and all(builder.is_nonnegative(each) for each in operands):
            builder.assume_nonnegative(result)
        values[op.results[0]] = result
        return True
    if kind in _FLOAT:
        operands = [values[each] for each in op.operands]
        values[op.results[0]] = _float(context, op, _FLOAT[kind], op.results[0].type, operands)
        return True
    if kind is arith.MulUIExtendedOp:
        if _width(context, op, op.results[0].type) not in (32, 64):
            raise fail(op, f"expected an integer of 32 or 64 bits, got {op.results[0].type}")
        bits = _width(context, op, op.results[0].type)
        operands = [values[each] for each in op.operands]
        values[op.results[0]] = builder.pure(f"mul.lo.s{bits}", *operands)
        values[op.results[1]] = builder.pure(f"mul.hi.u{bits}", *operands)
        return True
    special = _SPECIAL.get(kind)
    if special is None:
        return False
    values[op.results[0]] = special(context, op, builder, [values[each] for each in op.operands])
    return True


def _width(context: Context, op: Operation, type_: Attribute) -> int:
    del context
    if isinstance(type_, IndexType):
        return 32
    if isinstance(type_, IntegerType):
        return type_.width.data
    raise fail(op, f"expected an integer type, got {type_}")


def _integer(
    context: Context, op: Operation, kind: type, type_: Attribute, operands: list[Scalar]
) -> Scalar:
    builder = context.builder
    bits = _width(context, op, type_)
    if bits == 1:
        if kind not in _PREDICATE:
            raise fail(op, "expected and, or, xor on i1")
        a, b = operands
        if kind in (arith.XOrIOp, arith.AddiOp):
            for this, other in ((a, b), (b, a)):
                constant = builder.constant(this)
                if constant is not None:
                    return builder.pure("not.pred", other) if constant else other
        return builder.pure(_PREDICATE[kind], a, b)
    if bits not in (8, 16, 32, 64):
        raise fail(op, f"expected an integer of 8, 16, 32 or 64 bits, got {type_}")
    if bits == 8:
        return _narrow(builder, kind, operands)
    if bits == 64 and kind in (arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp):
        operands = (
            [operands[0], builder.pure("cvt.u32.u64", operands[1])]
            if isinstance(operands[1], SSAValue)
            else operands
        )
    if (
        bits == 16
        and kind in (arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp)
        and isinstance(operands[1], SSAValue)
    ):
        operands = [operands[0], builder.pure("cvt.u32.u16", operands[1])]
    return builder.pure(_INTEGER[kind].format(bits), *operands)


def _narrow(builder: ScalarBuilder, kind: type, operands: list[Scalar]) -> Scalar:
    """8-bit arithmetic in 16-bit registers."""
    mnemonic = _INTEGER[kind].format(16)
    signed = ".s" in mnemonic
    extended = [
        builder.pure("cvt.s16.s8" if signed else "cvt.u16.u8", each)
        if isinstance(each, SSAValue)
        else each
        for each in operands
    ]
    if kind in (arith.ShLIOp, arith.ShRSIOp, arith.ShRUIOp) and isinstance(extended[1], SSAValue):
        extended[1] = builder.pure("cvt.u32.u16", extended[1])
    return builder.pure(mnemonic, *extended)


def _float(
    context: Context,
    op: Operation,
    row: tuple[str, str, str | None, str | None],
    type_: Attribute,
    operands: list[Scalar],
) -> Scalar:
    builder = context.builder
    name = float_name(type_)
    if name in _EIGHT_BITS:
        eight_bit_floats.check_target(op, context.arch, name)
    elif name not in _COLUMN:
        raise fail(op, f"expected f16, bf16, f32 or f64, got {type_}")
    mnemonic = None if name in _EIGHT_BITS else row[_COLUMN[name]]
    if name == "f64" and type(op) in _EXTREME:
        return extreme(builder, _EXTREME[type(op)], name, *operands)
    if mnemonic is not None and name in _NEEDED and not _exists(builder, mnemonic):
        mnemonic = None
    if mnemonic == "":
        raise fail(op, f"expected f32 (PTX has no such f64 instruction), got {type_}")
    if mnemonic is None:
        wide = [to_f32(builder, each, name) for each in operands]
        if type(op) in _EXTREME:
            return from_f32(builder, extreme(builder, _EXTREME[type(op)], "f32", *wide), name)
        return from_f32(builder, _single(context, op, row[0], wide), name)
    if type(op) in _EXTREME and name == "f32":
        return extreme(builder, _EXTREME[type(op)], name, *operands)
    return _single(context, op, mnemonic, operands)


def _single(context: Context, op: Operation, mnemonic: str, operands: list[Scalar]) -> Scalar:
    """One instruction, or a faster one where the flags of an f32 division allow it: `arcp` the one
    of 2 ulp over the full range, `afn` a product with the reciprocal, normal numbers only; both
    together that product, only in kernels without a multiply.

    Beside accumulators the exact quotient stays: `ptxas` computes many of the inline ones at once,
    for which it spills, and the exact one is a call.
    """
    builder = context.builder
    allows_inverse = context.is_streaming or not _allows(op, FastMathFlag.ALLOW_RECIP)
    if mnemonic == "div.rn.f32" and _allows(op, FastMathFlag.APPROX_FUNC) and allows_inverse:
        inverse = builder.pure("rcp.approx.ftz.f32", operands[1])
        return inverse if operands[0] == 1.0 else builder.pure("mul.f32", operands[0], inverse)
    inlines = _allows(op, FastMathFlag.ALLOW_RECIP) and context.is_streaming
    if mnemonic == "div.rn.f32" and inlines:
        mnemonic = "div.full.f32"
    return builder.pure(mnemonic, *operands)


def _allows(op: Operation, flag: FastMathFlag) -> bool:
    """Whether an op of floats has a fast-math flag."""
    flags = op.properties.get("fastmath")
    return isinstance(flags, arith.FastMathFlagsAttr) and flag in flags.data


def _exists(builder: ScalarBuilder, mnemonic: str) -> bool:
    """Whether the target computes in 16 bits what an instruction does."""
    family, _, rest = mnemonic.partition(".")
    if rest.endswith("bf16"):
        return builder.has("fma.rn.bf16")
    return family not in ("max", "min") or builder.has("max.f16")


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


def to_f32(builder: ScalarBuilder, value: Scalar, name: str) -> Scalar:
    """A float of 8 or 16 bits as f32, exactly; others stay as they are."""
    if name in _EIGHT_BITS:
        return eight_bit_floats.to_f32(builder, value, name)
    if name in _SHORT and not isinstance(value, SSAValue):
        return _decode(int(value), name)
    if name == "f16":
        return builder.pure("cvt.f32.f16", value)
    if name == "bf16":
        # sm_80 has no cvt.f32.bf16: the bits are the upper half of an f32.
        return builder.pack(0, value, cls="f32")
    return value


def _check_float(context: Context, op: Operation, name: str) -> None:
    """Refuse an 8-bit float where the target has no conversions of it."""
    if name in _EIGHT_BITS:
        eight_bit_floats.check_target(op, context.arch, name)


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


def from_f32(builder: ScalarBuilder, value: Scalar, name: str) -> Scalar:
    if name in _EIGHT_BITS:
        return eight_bit_floats.from_f32(builder, value, name)
    if name in ("f16", "bf16"):
        if not isinstance(value, SSAValue):
            return encode(float(value), name)
        if name == "bf16" and not builder.has("cvt.rn.bf16.f32"):
            return _rounded_by_bits(builder, value)
        return builder.pure(f"cvt.rn.{name}.f32", value)
    return value


def _rounded_by_bits(builder: ScalarBuilder, value: Scalar) -> Scalar:
    """f32 to the nearest bf16, ties to even, where no instruction does it: half a unit more of the
    upper half, less one bit where that is even; a NaN keeps its upper half and is quiet.
    """
    bits = builder.pure("mov.b32", value)
    odd = builder.pure("and.b32", builder.pure("shr.u32", bits, 16), 1)
    rounded = builder.pure("add.s32", bits, builder.pure("add.s32", odd, 0x7FFF))
    quiet = builder.pure("or.b32", bits, 0x400000)
    is_nan = builder.pure("setp.nan.f32", value, value)
    high = builder.pure("shr.u32", builder.pure("selp.b32", quiet, rounded, is_nan), 16)
    return builder.pure("cvt.u16.u32", high)


def encode(value: float, name: str) -> int:
    """The bits of a float constant that lives in a 16-bit register."""
    if name in _EIGHT_BITS:
        return eight_bit_floats.encode(value, name)
    if name == "f16":
        try:
            return struct.unpack("<H", struct.pack("<e", value))[0]
        except OverflowError:
            return 0x7C00 if value > 0 else 0xFC00
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    if math.isnan(value):
        return (bits >> 16) | 0x40
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _decode(bits: int, name: str) -> float:
    if name in _EIGHT_BITS:
        return eight_bit_floats.decode(bits, name)
    bits &= 0xFFFF
    if name == "f16":
        return struct.unpack("<e", struct.pack("<H", bits))[0]
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def _constant(context: Context, op: Operation) -> Scalar:
    assert isinstance(op, arith.ConstantOp)
    attribute = op.value
    if isinstance(attribute, IntegerAttr):
        value = attribute.value.data
        if attribute.type == i1:
            return bool(value)
        return value
    if isinstance(attribute, FloatAttr):
        name = float_name(attribute.type)
        value = attribute.value.data
        return encode(value, name) if name in _SHORT else float(value)
    raise fail(op, f"expected a scalar constant, got {attribute}")


def _cmpi(context: Context, op: Operation, builder: ScalarBuilder, args: list[Scalar]) -> Scalar:
    assert isinstance(op, arith.CmpiOp)
    predicate = op.predicate.value.data
    bits = _width(context, op, op.lhs.type)
    sign = "u" if predicate >= 6 else "s"
    if bits == 1:
        if predicate > 1:
            raise fail(op, "expected eq or ne on i1")
        different = _integer(context, op, arith.XOrIOp, op.lhs.type, args)
        return different if predicate == 1 else builder.pure("not.pred", different)
    if bits == 8:
        convert = f"cvt.{sign}16.{sign}8"
        args = [builder.pure(convert, a) if isinstance(a, SSAValue) else a for a in args]
        bits = 16
    return builder.pure(f"setp.{_CMPI[predicate]}.{sign}{bits}", *args)


def _cmpf(context: Context, op: Operation, builder: ScalarBuilder, args: list[Scalar]) -> Scalar:
    assert isinstance(op, arith.CmpfOp)
    predicate = op.predicate.value.data
    if predicate in (0, 15):
        return predicate == 15
    name = float_name(op.lhs.type)
    _check_float(context, op, name)
    args = [to_f32(builder, each, name) for each in args]
    name = "f32" if name in _SHORT else name
    registers = [builder.value(args[0], name), args[1]]
    return builder.pure(f"setp.{_CMPF[predicate]}.{name}", *registers)


def _select(context: Context, op: Operation, builder: ScalarBuilder, args: list[Scalar]) -> Scalar:
    type_ = op.results[0].type
    condition, yes, no = args
    name = float_name(type_)
    if name == "s1":
        inverted = builder.pure("not.pred", condition)
        return builder.pure(
            "or.pred",
            builder.pure("and.pred", condition, yes),
            builder.pure("and.pred", inverted, no),
        )
    if name in ("f32", "f64"):
        return builder.pure(f"selp.{name}", yes, no, condition)
    bits = 16 if name in (*_SHORT, "s8") else _width(context, op, type_)
    chosen = builder.pure(f"selp.b{bits}", yes, no, condition)
    if bits >= 32 and all(builder.is_nonnegative(each) for each in (yes, no)):
        builder.assume_nonnegative(chosen)
    return chosen


def _float_cast(
    context: Context, op: Operation, builder: ScalarBuilder, args: list[Scalar]
) -> Scalar:
    source, target = float_name(op.operands[0].type), float_name(op.results[0].type)
    value = args[0]
    if source == target:
        return value
    if source == "f64" and target == "f16" and isinstance(value, SSAValue):
        return builder.pure("cvt.rn.f16.f64", value)
    _check_float(context, op, target)
    if source in _EIGHT_BITS and not eight_bit_floats.has_conversions(context.arch):
        value, source = eight_bit_floats.to_f32_by_bits(builder, value, source), "f32"
        if target == "f32":
            return value
    if source == "f64" and target in _SHORT and isinstance(value, SSAValue):
        value, source = _round_to_odd(builder, value), "f32"
    if not isinstance(value, SSAValue):
        number = _decode(int(value), source) if source in _SHORT else float(value)
        if target in _SHORT:
            return encode(number, target)
        if target == "f32":
            return struct.unpack("<f", struct.pack("<f", number))[0]
        return number
    if target in _SHORT:
        return from_f32(builder, to_f32(builder, value, source), target)
    if source in _SHORT:
        value = to_f32(builder, value, source)
        return value if target == "f32" else builder.pure("cvt.f64.f32", value)
    if (source, target) in (("f32", "f64"), ("f64", "f32")):
        return builder.pure("cvt.f64.f32" if target == "f64" else "cvt.rn.f32.f64", value)
    raise fail(op, f"expected f16, bf16, f32 or f64 on both sides, got {source} to {target}")


def _integer_cast(
    context: Context, op: Operation, builder: ScalarBuilder, args: list[Scalar]
) -> Scalar:
    source = _width(context, op, op.operands[0].type)
    target = _width(context, op, op.results[0].type)
    value = args[0]
    signed = not isinstance(op, arith.ExtUIOp)
    constant = builder.constant(value)
    if source == target:
        return value
    if target == 1:
        bits = max(source, 16)
        low = builder.pure(f"and.b{bits}", value, 1)
        return builder.pure(f"setp.ne.s{bits}", low, 0)
    if constant is not None:
        number = int(constant)
        if source == 1:
            return (-1 if signed else 1) * int(bool(number))
        return number if signed or target < source else number & ((1 << source) - 1)
    if source == 1:
        if target <= 16:
            return builder.pure("selp.b16", -1 if signed else 1, 0, value)
        return builder.pure(f"selp.b{target}", -1 if signed else 1, 0, value)
    letter = "s" if signed else "u"
    return (
        builder.pure(f"cvt.{letter}{max(target, 8)}.{letter}{source}", value)
        if (target > 8)
        else (value if source == 16 else builder.pure(f"cvt.u16.u{source}", value))
    )


def _int_to_float(
    context: Context, op: Operation, builder: ScalarBuilder, args: list[Scalar]
) -> Scalar:
    bits = _width(context, op, op.operands[0].type)
    letter = "u" if isinstance(op, arith.UIToFPOp) else "s"
    name = float_name(op.results[0].type)
    value = args[0]
    constant = builder.constant(value)
    if constant is not None:
        number = int(constant) & ((1 << bits) - 1) if letter == "u" else int(constant)
        return encode(float(number), name) if name in _SHORT else float(number)
    if bits == 1:
        one = from_f32(builder, -1.0 if letter == "s" else 1.0, name)
        kind = f"selp.{name}" if name in ("f32", "f64") else "selp.b16"
        return builder.pure(kind, one, from_f32(builder, 0.0, name), value)
    if name in ("bf16", *_EIGHT_BITS):
        _check_float(context, op, name)
        return from_f32(builder, builder.pure(f"cvt.rn.f32.{letter}{bits}", value), name)
    return builder.pure(f"cvt.rn.{name}.{letter}{bits}", value)


def _float_to_int(
    context: Context, op: Operation, builder: ScalarBuilder, args: list[Scalar]
) -> Scalar:
    bits = _width(context, op, op.results[0].type)
    letter = "u" if isinstance(op, arith.FPToUIOp) else "s"
    name = float_name(op.operands[0].type)
    value = args[0]
    if name in _SHORT:
        _check_float(context, op, name)
        value, name = to_f32(builder, value, name), "f32"
    return builder.pure(f"cvt.rzi.{letter}{bits}.{name}", value)


def _exp(context: Context, op: Operation, builder: ScalarBuilder, args: list[Scalar]) -> Scalar:
    name = float_name(op.results[0].type)
    if name == "f64":
        raise fail(op, "expected f16, bf16 or f32 (PTX has no f64 exponential), got f64")
    value = to_f32(builder, args[0], name)
    scaled = builder.pure("mul.f32", value, math.log2(math.e))
    return from_f32(builder, builder.pure("ex2.approx.ftz.f32", scaled), name)


def _log(context: Context, op: Operation, builder: ScalarBuilder, args: list[Scalar]) -> Scalar:
    name = float_name(op.results[0].type)
    if name == "f64":
        raise fail(op, "expected f16, bf16 or f32 (PTX has no f64 logarithm), got f64")
    two = builder.pure("lg2.approx.f32", to_f32(builder, args[0], name))
    return from_f32(builder, builder.pure("mul.f32", two, math.log(2.0)), name)


def _ceil_divide(
    context: Context, op: Operation, builder: ScalarBuilder, operands: list[Scalar]
) -> Scalar:
    """a / b rounded up: one more than the truncated quotient where the remainder agrees with b."""
    bits = _width(context, op, op.results[0].type)
    a, b = operands
    if builder.is_nonnegative(a) and builder.is_nonnegative(b):
        # Extents are below 2^31, so the sum is exact as an unsigned number.
        above = builder.pure(f"add.s{bits}", a, builder.pure(f"sub.s{bits}", b, 1))
        return builder.assume_nonnegative(builder.pure(f"div.u{bits}", above, b))
    power = _power_of_two(builder, b)
    if bits >= 32 and power is not None:
        some = builder.pure(
            f"setp.ne.s{bits}", builder.pure(f"and.b{bits}", a, (1 << power) - 1), 0
        )
        up = builder.pure(f"selp.b{bits}", 1, 0, some)
        return builder.pure(f"add.s{bits}", builder.pure(f"shr.s{bits}", a, power), up)
    quotient = builder.pure(f"div.s{bits}", a, b)
    rest = builder.pure(f"rem.s{bits}", a, b)
    exact = builder.pure(f"setp.eq.s{bits}", rest, 0)
    agrees = builder.pure(f"setp.ge.s{bits}", builder.pure(f"xor.b{bits}", rest, b), 0)
    up = builder.pure("and.pred", builder.pure("not.pred", exact), agrees)
    one = builder.pure(f"selp.b{bits}", 1, 0, up)
    return builder.pure(f"add.s{bits}", quotient, one)


def _power_of_two(builder: ScalarBuilder, value: Scalar) -> int | None:
    """The exponent of a constant power of two: an arithmetic shift by it rounds down."""
    constant = builder.constant(value)
    if isinstance(constant, int) and constant > 0 and constant & (constant - 1) == 0:
        return constant.bit_length() - 1
    return None


def _floor_divide(
    context: Context, op: Operation, builder: ScalarBuilder, operands: list[Scalar]
) -> Scalar:
    """a / b rounded down: one less than the truncated quotient where a remainder and b differ in
    sign."""
    bits = _width(context, op, op.results[0].type)
    if bits < 32:
        operands = [builder.pure(f"cvt.s32.s{bits}", each) for each in operands]
    width = max(bits, 32)
    a, b = operands
    if builder.is_nonnegative(a) and builder.is_nonnegative(b):
        return builder.assume_nonnegative(builder.pure(f"div.u{width}", a, b))
    power = _power_of_two(builder, b)
    if power is not None:
        floor = builder.pure(f"shr.s{width}", a, power)
        return builder.pure("cvt.u16.u32", floor) if bits < 32 else floor
    quotient = builder.pure(f"div.s{width}", a, b)
    rest = builder.pure(f"sub.s{width}", a, builder.pure(f"mul.lo.s{width}", quotient, b))
    inexact = builder.pure(f"setp.ne.s{width}", rest, 0)
    differs = builder.pure(f"setp.lt.s{width}", builder.pure(f"xor.b{width}", rest, b), 0)
    down = builder.pure("and.pred", inexact, differs)
    one = builder.pure(f"selp.b{width}", 1, 0, down)
    floor = builder.pure(f"sub.s{width}", quotient, one)
    return builder.pure("cvt.u16.u32", floor) if bits < 32 else floor


_SPECIAL: dict[type, Callable[[Context, Operation, ScalarBuilder, list[Scalar]], Scalar]] = {
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
    arith.SIToFPOp: _int_to_float,
    arith.UIToFPOp: _int_to_float,
    arith.FPToSIOp: _float_to_int,
    arith.FPToUIOp: _float_to_int,
    mathd.ExpOp: _exp,
    mathd.LogOp: _log,
}
