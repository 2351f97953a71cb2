"""f16, bf16 and their packed pairs (PTX ISA 9.7.4). Sums and products of one operation are formed
in f64 (exactly, or rounded to odd) and rounded once; a NaN result is 0x7fff.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ..lanes import Array, where
from ..module import Instruction, Operand
from ..rounding import NAN16, add_exactly, narrow
from ..types import TYPES, ScalarType
from .compare import flush
from .floating import pick
from .integer import by_type

if TYPE_CHECKING:
    from ..machine import Compute, Machine, Step

_HALVES = ("f16", "f16x2", "bf16", "bf16x2")


def number_type(type: ScalarType) -> Any:
    return np.dtype(ml_dtypes.bfloat16 if type.name.startswith("bf16") else np.float16)


def lift(ins: Instruction, machine: Machine, type: ScalarType, compute: Compute,
         ftz: bool = False) -> Step:  # fmt: skip
    """A step that applies ``compute`` (on f64 arrays, result f64) to halves or pairs of halves."""
    dtype = number_type(type)
    format = "bf16" if dtype != np.float16 else "f16"
    storage = TYPES["b32" if type.bits == 32 else "b16"]

    def run(*operands: Array) -> Array:
        values = [np.ascontiguousarray(o).view(dtype) for o in operands]
        if ftz and dtype == np.float16:
            values = [flush(v) for v in values]
        wide = [v.astype(np.float64) for v in values]
        if type.bits == 32:
            wide = [w.reshape(-1, 2) for w in wide]
        exact = compute(*wide)
        rounded = narrow(exact, format, "rn").astype(dtype)
        if ftz and dtype == np.float16:
            rounded = flush(rounded)
        bits = where(np.isnan(exact), NAN16, rounded.view(np.uint16)).astype(np.uint16)
        return np.ascontiguousarray(bits).view(storage.dtype).reshape(-1)

    operands: list[tuple[Operand, ScalarType]] = [(o, storage) for o in ins.operands[1:]]
    return machine.pure(ins, [(ins.operands[0], storage)], operands, run)


def _saturate(values: Array) -> Array:
    return where(np.isnan(values), 0.0, np.clip(values, 0.0, 1.0)) + 0.0


def _arithmetic(head: str, compute: Compute, count: int) -> None:
    @by_type(head, *_HALVES)
    def build(ins: Instruction, machine: Machine) -> Step:
        mods = ins.modifiers(head)
        mods.has("rn")
        ftz, sat, relu = mods.has("ftz"), mods.has("sat"), mods.has("relu")
        type = mods.type(*_HALVES)
        mods.done()
        ins.expect(count + 1)

        def run(*operands: Array) -> Array:
            value = compute(*operands)
            if sat:
                value = _saturate(value)
            if relu:
                value = where(value < 0, 0.0, value) + 0.0
            return value

        return lift(ins, machine, type, run, ftz)


_arithmetic("add", add_exactly, 2)
_arithmetic("sub", lambda a, b: add_exactly(a, -b), 2)
_arithmetic("mul", np.multiply, 2)
_arithmetic("fma", lambda a, b, c: add_exactly(a * b, c), 3)


def _sign(head: str, bits: Callable[[Array], Array]) -> None:
    @by_type(head, *_HALVES)
    def build(ins: Instruction, machine: Machine) -> Step:
        mods = ins.modifiers(head)
        ftz = mods.has("ftz")
        type = mods.type(*_HALVES)
        mods.done()
        return lift(ins, machine, type, bits, ftz)


_sign("abs", np.abs)
_sign("neg", np.negative)


def _min_max(head: str) -> None:
    @by_type(head, *_HALVES)
    def build(ins: Instruction, machine: Machine) -> Step:
        mods = ins.modifiers(head)
        ftz, keep = mods.has("ftz"), mods.has("NaN")
        xor, magnitude = mods.has("xorsign"), mods.has("abs")
        type = mods.type(*_HALVES)
        mods.done()
        if xor != magnitude:
            raise ins.unsupported("expected .xorsign.abs together")

        def compute(a: Array, b: Array, *more: Array) -> Array:
            if xor:
                sign = np.signbit(a) ^ np.signbit(b)
                value = pick(np.abs(a), np.abs(b), head == "max", keep)
                return where(sign, -value, value)
            value = pick(a, b, head == "max", keep)
            for c in more:
                value = pick(value, c, head == "max", keep)
            return value

        return lift(ins, machine, type, compute, ftz)


_min_max("min")
_min_max("max")
