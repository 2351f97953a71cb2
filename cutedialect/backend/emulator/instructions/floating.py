"""Arithmetic on f32, pairs of f32 and f64 (PTX ISA 9.7.3). f32 results that are NaN are the one NaN
of the hardware, 0x7fffffff; f64 keeps payloads. Approximate forms give the correctly rounded value,
which is within the documented error; rounding modes are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..lanes import Array, anywhere, where
from ..module import Instruction, Modifiers
from ..rounding import (
    NAN32,
    add_exactly,
    add_f64,
    divide_f64,
    fma_f32,
    fma_f64,
    sqrt_f64,
    to_f32,
)  # fmt: skip
from ..types import TYPES, ScalarType
from .compare import flush
from .integer import by_type, simple
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Compute, Machine, Step

_MODES = ("rn", "rz", "rm", "rp")


def canonical(values: Array) -> Array:
    """f32 NaN to 0x7fffffff."""
    wrong = np.isnan(values)
    return where(wrong, NAN32, values) if anywhere(wrong) else values


def _saturate(values: Array) -> Array:
    return where(np.isnan(values), values.dtype.type(0), np.clip(values, 0, 1)) + values.dtype.type(
        0
    )


def finish_f32(compute: Compute, ftz: bool, sat: bool) -> Compute:
    """Flush operands and result, saturate, canonicalize NaN."""

    def run(*operands: Array) -> Array:
        if ftz:
            operands = tuple(flush(o) for o in operands)
        value = compute(*operands)
        if sat:
            return _saturate(value)
        if ftz:
            value = flush(value)
        return canonical(value)

    return run


def _options(mods: Modifiers) -> tuple[str, bool, bool]:
    mode = mods.take(*_MODES) or "rn"
    return mode, mods.has("ftz"), mods.has("sat")


def _float_op(
    head: str, f32: Callable[[str], Compute], f64: Callable[[str], Compute], count: int
) -> None:
    @by_type(head, "f32", "f64")
    def build(ins: Instruction, machine: Machine) -> Step:
        mods = ins.modifiers(head)
        mode, ftz, sat = _options(mods)
        type = mods.type("f32", "f64")
        mods.done()
        if type.bits == 64:
            if ftz or sat:
                raise ins.unsupported(".ftz or .sat with .f64")
            return simple(ins, machine, type, f64(mode), count)
        return simple(ins, machine, type, finish_f32(f32(mode), ftz, sat), count)


def _wide(a: Array) -> Array:
    return a.astype(np.float64)


def _pair_op(head: str, f32: Callable[[str], Compute], count: int) -> None:
    """Two f32 in a register of 64 bits, either rounded as one alone is (PTX ISA 9.7.3)."""

    @by_type(head, "f32x2")
    def build(ins: Instruction, machine: Machine) -> Step:
        mods = ins.modifiers(head)
        mode, ftz, _ = _options(mods)
        type = mods.type("f32x2")
        mods.done()
        compute = finish_f32(f32(mode), ftz, False)

        def run(*operands: Array) -> Array:
            halves = (np.ascontiguousarray(each).view(np.float32) for each in operands)
            found = np.asarray(compute(*halves), np.float32)
            return np.ascontiguousarray(found).view(np.uint64)

        return simple(ins, machine, type, run, count)


def _add32(sign: int) -> Callable[[str], Compute]:
    def make(mode: str) -> Compute:
        if mode == "rn":
            return np.add if sign > 0 else np.subtract
        return lambda a, b: to_f32(_directed_zero(a, sign * _wide(b), mode), mode)

    return make


def _directed_zero(a: Array, b: Array, mode: str) -> Array:
    total = add_exactly(_wide(a), b)
    if mode == "rm":
        total = where((total == 0) & (np.signbit(a) | np.signbit(b)), -0.0, total)
    return total


def _mul32(mode: str) -> Compute:
    if mode == "rn":
        return np.multiply
    return lambda a, b: to_f32(_wide(a) * _wide(b), mode)


_float_op("add", _add32(1), lambda mode: lambda a, b: add_f64(a, b, mode), 2)
_float_op("sub", _add32(-1), lambda mode: lambda a, b: add_f64(a, -b, mode), 2)
_float_op(
    "mul", _mul32, lambda mode: np.multiply if mode == "rn" else
    lambda a, b: fma_f64(a, b, np.copysign(0.0, a) * np.copysign(1.0, b), mode), 2,
)  # fmt: skip
_float_op(
    "fma", lambda mode: lambda a, b, c: fma_f32(a, b, c, mode),
    lambda mode: lambda a, b, c: fma_f64(a, b, c, mode), 3,
)  # fmt: skip
_float_op(
    "mad", lambda mode: lambda a, b, c: fma_f32(a, b, c, mode),
    lambda mode: lambda a, b, c: fma_f64(a, b, c, mode), 3,
)  # fmt: skip


_pair_op("add", _add32(1), 2)
_pair_op("sub", _add32(-1), 2)
_pair_op("mul", _mul32, 2)
_pair_op("fma", lambda mode: lambda a, b, c: fma_f32(a, b, c, mode), 3)


@by_type("div", "f32", "f64")
def _div(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("div")
    mods.take("approx", "full")
    mode, ftz, sat = _options(mods)
    type = mods.type("f32", "f64")
    mods.done()
    if type.bits == 64:
        return simple(ins, machine, type, lambda a, b: divide_f64(a, b, mode), 2)
    return simple(
        ins, machine, type, finish_f32(lambda a, b: to_f32(_wide(a) / _wide(b), mode), ftz, sat), 2
    )


def _sign_op(head: str, mask: Callable[[Array], Array]) -> None:
    @by_type(head, "f32", "f64")
    def build(ins: Instruction, machine: Machine) -> Step:
        mods = ins.modifiers(head)
        ftz = mods.has("ftz")
        type = mods.type("f32", "f64")
        mods.done()

        def compute(a: Array) -> Array:
            value = mask(flush(a) if ftz else a)
            return canonical(value) if type.bits == 32 else value

        return simple(ins, machine, type, compute, 1)


_sign_op("abs", np.abs)
_sign_op("neg", np.negative)


def pick(a: Array, b: Array, largest: bool, keep_nan: bool) -> Array:
    """min or max by IEEE 754-2019 rules: -0 < +0; a NaN loses, or wins with ``keep_nan``."""
    less = (a < b) | ((a == b) & np.signbit(a) & ~np.signbit(b))
    value = where(less, b, a) if largest else where(less, a, b)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    if keep_nan:
        return where(nan_a | nan_b, a.dtype.type(np.nan), value)
    return where(nan_a, b, where(nan_b, a, value))


def _float_min_max(head: str) -> None:
    @by_type(head, "f32", "f64")
    def build(ins: Instruction, machine: Machine) -> Step:
        mods = ins.modifiers(head)
        ftz, keep = mods.has("ftz"), mods.has("NaN")
        xor = mods.has("xorsign")
        magnitude = mods.has("abs")
        type = mods.type("f32", "f64")
        mods.done()
        if xor != magnitude:
            raise ins.unsupported("expected .xorsign.abs together")

        def compute(a: Array, b: Array, *more: Array) -> Array:
            if ftz:
                a, b = flush(a), flush(b)
            if xor:
                sign = np.signbit(a) ^ np.signbit(b)
                value = pick(np.abs(a), np.abs(b), head == "max", keep)
                value = where(np.isnan(value), value, where(sign, -value, value))
            else:
                value = pick(a, b, head == "max", keep)
                for c in more:
                    value = pick(value, flush(c) if ftz else c, head == "max", keep)
            return canonical(value) if type.bits == 32 else value

        return simple(ins, machine, type, compute, 3 if len(ins.operands) == 4 else 2)


_float_min_max("min")
_float_min_max("max")


@instruction("copysign")
def _copysign(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("copysign")
    type = mods.type("f32", "f64")
    mods.done()
    return simple(ins, machine, type, lambda a, b: np.copysign(b, a), 2)


@instruction("testp")
def _testp(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("testp")
    name = mods.take("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    type = mods.type("f32", "f64")
    mods.done()
    if name is None:
        raise ins.unsupported("unknown test")
    tiny = np.finfo(type.dtype).tiny
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        # The hardware takes zero for a normal number.
        "normal": lambda a: np.isfinite(a) & ((np.abs(a) >= tiny) | (a == 0)),
        "subnormal": lambda a: (np.abs(a) < tiny) & (a != 0),
    }
    return machine.pure(
        ins, [(ins.operands[0], TYPES["pred"])], [(ins.operands[1], type)], tests[name]
    )


def _function(
    head: str, f64: Callable[[Array], Array], exact: Callable[[Array, str], Array] | None
) -> None:
    @by_type(head, "f32", "f64")
    def build(ins: Instruction, machine: Machine) -> Step:
        mods = ins.modifiers(head)
        approximate = mods.has("approx")
        mode, ftz, _ = _options(mods)
        type: ScalarType = mods.type("f32", "f64")
        mods.done()
        if type.bits == 64:
            if approximate and ftz:
                return simple(ins, machine, type, lambda a: _upper(f64(_upper(a))), 1)
            if approximate and head == "rsqrt":
                return simple(ins, machine, type, f64, 1)
            if approximate or exact is None:
                raise ins.unsupported("expected .approx.ftz or a rounding mode")
            in_mode = exact
            return simple(ins, machine, type, lambda a: in_mode(a, mode), 1)
        if not approximate and exact is None:
            raise ins.unsupported("expected .approx")
        return simple(
            ins, machine, type, finish_f32(lambda a: to_f32(f64(_wide(a)), mode), ftz, False), 1
        )


def _upper(values: Array) -> Array:
    """The .approx.ftz.f64 forms use the upper 32 bits only; rsqrt.approx.f64 is a full one."""
    bits = values.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)
    cut = bits.view(np.float64)
    small = np.abs(cut) < np.finfo(np.float64).tiny
    return where(small, np.copysign(0.0, cut), cut)


_function("rcp", lambda a: 1.0 / a, lambda a, mode: divide_f64(np.ones(1), a, mode))
_function("sqrt", np.sqrt, sqrt_f64)
_function("rsqrt", lambda a: 1.0 / np.sqrt(a), None)
