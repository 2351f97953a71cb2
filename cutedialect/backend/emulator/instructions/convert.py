"""cvt between all scalar types and the packed conversions (PTX ISA 9.7.9.21). NaN to an integer
gives 0, except from f64 and to 64-bit integers: the lone sign bit. NaN to a float is the type's one
NaN.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ..lanes import Array, where
from ..module import Imm, Instruction, Operand
from ..rounding import NAN16, NAN32, add_exactly, narrow, round_fraction
from ..types import STORAGE, TYPES, ScalarType
from .compare import flush
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Step

_INTEGER_MODES = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_FLOAT_MODES = ("rn", "rna", "rz", "rm", "rp")
_FP8 = {
    "e4m3": (ml_dtypes.float8_e4m3fn, 0x7F),
    "e5m2": (ml_dtypes.float8_e5m2, 0x7F),
    "e2m3": (ml_dtypes.float6_e2m3fn, 0),
    "e3m2": (ml_dtypes.float6_e3m2fn, 0),
    "e2m1": (ml_dtypes.float4_e2m1fn, 0),
}


def encode(values: Array, type: ScalarType, mode: str, saturate: bool = False) -> Array:
    """f64 numbers to a float type's storage bits."""
    nan = np.isnan(values)
    if type.name == "f64":
        return values.view(np.uint64)
    rounded = narrow(values, type.name, mode, saturate)
    if type.name in ("f32", "tf32"):
        return where(nan, NAN32, rounded.astype(np.float32)).astype(np.float32).view(np.uint32)
    bits = rounded.astype(np.float32).astype(type.dtype).view(np.uint16)
    return where(nan, NAN16, bits).astype(np.uint16)


def encode_narrow(values: Array, format: str) -> Array:
    """f64 numbers to fp8, fp6 or fp4 bits, nearest even, saturating to the largest finite
    number.
    """
    dtype, nan_bits = _FP8[format]
    rounded = narrow(values, format, "rn", saturate=True)
    if format.startswith("e2") or format == "e3m2":
        rounded = where(np.isnan(values), narrow(np.full(1, np.inf), format, "rn", True), rounded)
    bits = rounded.astype(np.float32).astype(dtype).view(np.uint8)
    if nan_bits:
        bits = where(np.isnan(values), np.uint8(nan_bits), bits)
    return bits.astype(np.uint8)


def _float_to_integer(values: Array, type: ScalarType, source: ScalarType) -> Array:
    """f64 numbers, already integral, clamped to the integer type."""
    bits = type.bits
    low, high = (
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type.is_signed else (0, (1 << bits) - 1)
    )
    nan = np.isnan(values)
    top, bottom = float(high), float(low)
    over, under = values >= top, values <= bottom
    inside = where(nan | over | under, 0.0, values)
    if type.is_signed or bits < 64:
        out = inside.astype(np.int64).astype(np.uint64)
    else:
        out = inside.astype(np.uint64)
    out = where(over, np.uint64(high), out)
    out = where(under, np.uint64(low & (1 << 64) - 1), out)
    wide = source.bits == 64 or bits == 64
    out = where(nan, np.uint64(1 << (bits - 1) if wide else 0), out)
    return out.astype(STORAGE[bits]).view(type.dtype)


def _integer_to_integer(values: Array, type: ScalarType, saturate: bool) -> Array:
    if not saturate:
        return values.astype(type.dtype)
    bits = type.bits
    low, high = (
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type.is_signed else (0, (1 << bits) - 1)
    )
    info = np.iinfo(values.dtype)
    return np.clip(values, max(low, info.min), min(high, info.max)).astype(type.dtype)


def _u64_to_f64(values: Array) -> Array:
    """64-bit integers to f64: exact halves, summed with the lost part in the last bit."""
    high = (values >> values.dtype.type(32)).astype(np.float64) * 4294967296.0
    low = (values & values.dtype.type(0xFFFFFFFF)).astype(np.float64)
    return add_exactly(high, low)


@instruction("cvt")
def _cvt(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("cvt")
    mode = mods.take(*_FLOAT_MODES, *_INTEGER_MODES)
    ftz, sat, finite, relu = (
        mods.has("ftz"),
        mods.has("sat"),
        mods.has("satfinite"),
        mods.has("relu"),
    )
    types = mods.types()
    mods.done()
    if len(types) != 2:
        raise ins.unsupported("expected two types")
    target, source = types
    if target.kind == "x" or source.kind == "x":
        return _packed(ins, machine, target, source, mode, finite, relu)
    ins.expect(2)
    for type in types:
        if type.kind == "b" or type.name in ("e4m3", "e5m2"):
            raise ins.unsupported(f".{target.name}.{source.name}")
    if source.kind != "f" and target.kind != "f":
        if mode or finite or relu or ftz:
            raise ins.unsupported("rounding of integers")
        compute: Any = functools.partial(_integer_to_integer, type=target, saturate=sat)
    elif source.kind != "f":
        compute = _from_integer(ins, target, source, mode, sat)
    elif target.kind != "f":
        compute = _to_integer(ins, target, source, mode, ftz)
    else:
        compute = _between_floats(ins, target, source, mode, ftz, sat or finite, sat, relu)
    d, a = ins.operands
    if isinstance(a, Imm) and source.kind == "f" and source.bits == 16:
        raise ins.malformed("expected a register")
    result = TYPES["b32"] if target.name == "tf32" else target
    return machine.pure(ins, [(d, result)], [(a, source)], compute, wide=True)


def _to_integer(
    ins: Instruction, target: ScalarType, source: ScalarType, mode: str | None, ftz: bool
) -> Any:
    if mode not in _INTEGER_MODES:
        raise ins.unsupported("expected .rni, .rzi, .rmi or .rpi")
    integral = _INTEGER_MODES[mode]

    def compute(a: Array) -> Array:
        values = (flush(a) if ftz else a).astype(np.float64)
        return _float_to_integer(integral(values), target, source)

    return compute


def _from_integer(
    ins: Instruction, target: ScalarType, source: ScalarType, mode: str | None, sat: bool
) -> Any:
    if mode is None or mode in _INTEGER_MODES:
        raise ins.unsupported("expected a rounding mode")

    def compute(a: Array) -> Array:
        if source.bits < 64:
            values = a.astype(np.float64)
        elif target.bits == 64:
            exact = a.astype(np.float64)
            if mode != "rn":
                exact = _directed_f64(a, mode)
            return np.clip(exact, 0, 1) if sat else exact
        else:
            values = _u64_to_f64(a)
        if sat:
            values = np.clip(values, 0.0, 1.0)
        return encode(values, target, mode).view(target.dtype)

    return compute


def _directed_f64(values: Array, mode: str) -> Array:
    return np.array([round_fraction(Fraction(int(v)), mode) if v else 0.0 for v in values])


def _between_floats(
    ins: Instruction, target: ScalarType, source: ScalarType, mode: str | None, ftz: bool,
    saturate: bool, unit: bool, relu: bool,
) -> Any:  # fmt: skip
    same = target.bits == source.bits and target.name == source.name

    def compute(a: Array) -> Array:
        if ftz and a.dtype == np.float32:
            a = flush(a)
        values = a.astype(np.float64)
        if mode in _INTEGER_MODES:
            values = np.copysign(_INTEGER_MODES[mode](values), values)
        if unit:
            values = where(np.isnan(values), 0.0, np.clip(values, 0.0, 1.0)) + 0.0
        if relu:
            values = where(values < 0, 0.0, values)
            values = where(values == 0, 0.0, values)
        if target.name == "f64":
            return values
        rounding = "rn" if mode is None or mode in _INTEGER_MODES else mode
        out = encode(values, target, rounding, saturate and not unit)
        if ftz and target.name == "f32":
            return flush(out.view(np.float32))
        return out if target.name == "tf32" else out.view(target.dtype)

    if mode is None and not same and target.bits <= source.bits and target.name != "f64":
        raise ins.unsupported("expected a rounding mode")
    if target.name == "tf32" and mode not in ("rna", "rn", "rz"):
        raise ins.unsupported("expected .rna, .rn or .rz")
    return compute


def _packed(
    ins: Instruction, machine: Machine, target: ScalarType, source: ScalarType,
    mode: str | None, saturate: bool, relu: bool,
) -> Step:  # fmt: skip
    if target.name == "ue8m0x2" and mode in ("rz", "rp") and not relu:
        return _powers(ins, machine, source, mode, saturate)
    if mode not in ("rn", "rz"):
        raise ins.unsupported("expected .rn or .rz")

    def rectify(values: Array) -> Array:
        return where(values < 0, 0.0, values) if relu else values

    base = target.name[:-2]
    if target.name in ("f16x2", "bf16x2") and source.name == "f32":
        ins.expect(3)
        half = TYPES[base]

        def pack(a: Array, b: Array) -> Array:
            high, low = (
                encode(rectify(x.astype(np.float64)), half, mode, saturate).astype(np.uint32)
                for x in (a, b)
            )
            return high << np.uint32(16) | low

        d, a, b = ins.operands
        return machine.pure(ins, [(d, TYPES["b32"])], [(a, source), (b, source)], pack)
    if base in ("e4m3", "e5m2", "e2m3", "e3m2") and saturate and mode == "rn":
        if source.name == "f32":
            ins.expect(3)

            def pack_narrow(a: Array, b: Array) -> Array:
                high, low = (
                    encode_narrow(rectify(x.astype(np.float64)), base).astype(np.uint16)
                    for x in (a, b)
                )
                return high << np.uint16(8) | low

            d, a, b = ins.operands
            return machine.pure(ins, [(d, TYPES["b16"])], [(a, source), (b, source)], pack_narrow)
        if source.name in ("f16x2", "bf16x2"):
            ins.expect(2)
            half_dtype = TYPES[source.name[:-2]].dtype

            def shrink(a: Array) -> Array:
                values = np.ascontiguousarray(a).view(half_dtype).astype(np.float64).reshape(-1, 2)
                return encode_narrow(rectify(values), base).view(np.uint16)[:, 0]

            d, a = ins.operands
            return machine.pure(ins, [(d, TYPES["b16"])], [(a, TYPES["b32"])], shrink)
    source_base = source.name[:-2]
    if (target.name, source.name, mode) == ("bf16x2", "ue8m0x2", "rn") and not relu:
        ins.expect(2)

        def raise_to(a: Array) -> Array:
            power = np.ascontiguousarray(a).view(np.uint8).astype(np.uint16)
            bits = where(power == 0, np.uint16(0x40), power << np.uint16(7))
            return where(power == 0xFF, NAN16, bits).astype(np.uint16).view(np.uint32)

        return machine.pure(
            ins, [(ins.operands[0], TYPES["b32"])], [(ins.operands[1], TYPES["b16"])], raise_to
        )
    if target.name in ("f16x2", "bf16x2") and source_base in ("e4m3", "e5m2", "e2m3", "e3m2"):
        ins.expect(2)
        half = TYPES[base]
        dtype = _FP8[source_base][0]

        def grow(a: Array) -> Array:
            raw = np.ascontiguousarray(a).view(np.uint8)
            if source_base in ("e2m3", "e3m2"):
                raw = raw & np.uint8(0x3F)
            values = raw.view(dtype).astype(np.float64).reshape(-1, 2)
            return encode(rectify(values), half, "rn").view(np.uint32)[:, 0]

        operands: list[tuple[Operand, ScalarType]] = [(ins.operands[1], TYPES["b16"])]
        return machine.pure(ins, [(ins.operands[0], TYPES["b32"])], operands, grow)
    raise ins.unsupported(f".{target.name}.{source.name}")


_INFINITY = 0x7F800000
# Of f32, the bits of 2^-127, the number of the exponent 0.
_LEAST_POWER = 0x400000


def _power(values: Array, mode: str, saturate: bool) -> Array:
    """Exponents of f32 magnitudes, the bits that they do not hold dropped or rounded up; 255 is
    NaN, which infinity is too where it does not saturate.
    """
    bits = values.astype(np.float32).view(np.uint32).astype(np.int64) & 0x7FFFFFFF
    up = where(bits <= _LEAST_POWER, 0, bits + 0x7FFFFF >> 23)
    power = up if mode == "rp" else bits >> 23
    power = np.minimum(power, 0xFE if saturate else 0xFF)
    return where(bits > _INFINITY, 0xFF, power).astype(np.uint16)


def _powers(
    ins: Instruction, machine: Machine, source: ScalarType, mode: str, saturate: bool
) -> Step:
    """`cvt.{rz|rp}.ue8m0x2` of two f32, or of a register of two bf16."""
    d, *operands = ins.operands
    if source.name == "f32":
        ins.expect(3)

        def pack(a: Array, b: Array) -> Array:
            high, low = (_power(x, mode, saturate) for x in (a, b))
            return high << np.uint16(8) | low

        given = [(operand, source) for operand in operands]
        return machine.pure(ins, [(d, TYPES["b16"])], given, pack)
    if source.name != "bf16x2":
        raise ins.unsupported(f".ue8m0x2.{source.name}")
    ins.expect(2)

    def shrink(a: Array) -> Array:
        values = np.ascontiguousarray(a).view(TYPES["bf16"].dtype)
        powers = _power(values, mode, saturate).reshape(-1, 2)
        return powers[:, 1] << np.uint16(8) | powers[:, 0]

    return machine.pure(ins, [(d, TYPES["b16"])], [(operands[0], TYPES["b32"])], shrink)


@instruction("cvt.pack")
def _cvt_pack(ins: Instruction, machine: Machine) -> Step:
    """``cvt.pack.sat.T.s32[.b32] d, a, b[, c]``: two saturated numbers, low half from b."""
    mods = ins.modifiers("cvt.pack")
    saturates = mods.has("sat")
    types = mods.types()
    mods.done()
    if not saturates or len(types) not in (2, 3) or types[1].name != "s32":
        raise ins.unsupported("unknown form")
    small = types[0]
    if small.name not in ("s16", "u16", "s8", "u8") or (small.bits == 8) != (len(types) == 3):
        raise ins.unsupported(f".{small.name}")
    storage, width = STORAGE[small.bits], np.uint32(small.bits)

    def compute(a: Array, b: Array, c: Array = None) -> Array:
        high, low = (
            _integer_to_integer(x, small, True).view(storage).astype(np.uint32) for x in (a, b)
        )
        out = high << width | low
        return out if c is None else out | c << np.uint32(16)

    operands: list[tuple[Operand, ScalarType]] = [(o, TYPES["s32"]) for o in ins.operands[1:3]]
    if len(types) == 3:
        ins.expect(4)
        operands.append((ins.operands[3], TYPES["b32"]))
    return machine.pure(ins, [(ins.operands[0], TYPES["b32"])], operands, compute)
