"""setp and set (PTX ISA 9.7.5 to 9.7.7): comparisons, ordered and unordered, combined with a
predicate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..lanes import Array, where
from ..module import Instruction, Operand, Pair
from ..types import STORAGE, TYPES, ScalarType
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Step

_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
_UNORDERED = {"equ": "eq", "neu": "ne", "ltu": "lt", "leu": "le", "gtu": "gt", "geu": "ge"}
_OPERATORS = (*_COMPARE, *_UNORDERED, "num", "nan")
_COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor,
}  # fmt: skip


def flush(values: Array) -> Array:
    """Subnormal f32 (or f16) numbers to zero of the same sign."""
    tiny = np.float32(1.1754944e-38) if values.dtype == np.float32 else np.float16(6.104e-05)
    small = np.abs(values) < tiny
    return where(small, np.copysign(values.dtype.type(0), values), values)


def comparison(name: str, type: ScalarType, ftz: bool) -> Callable[[Array, Array], Array]:
    """The comparison as a function of two arrays of the type."""
    if type.kind != "f":
        return _COMPARE[name]

    def compare(a: Array, b: Array) -> Array:
        if type.name == "bf16":
            a, b = a.astype(np.float32), b.astype(np.float32)
        if ftz:
            a, b = flush(a), flush(b)
        if name in ("eq", "lt", "le", "gt", "ge"):
            return _COMPARE[name](a, b)
        unordered = np.isnan(a) | np.isnan(b)
        if name == "ne":
            return (a != b) & ~unordered
        if name == "num":
            return ~unordered
        if name == "nan":
            return unordered
        return _COMPARE[_UNORDERED[name]](a, b) | unordered

    return compare


def _check(ins: Instruction, name: str | None, type: ScalarType) -> str:
    integer = ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")
    floats = ("eq", "ne", "lt", "le", "gt", "ge", "num", "nan", *_UNORDERED)
    allowed = floats if type.kind in "fx" else ("eq", "ne") if type.kind == "b" else integer
    if name is None or name not in allowed:
        raise ins.unsupported(f"comparison {name} of .{type.name}")
    return name


@instruction("setp")
def _setp(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("setp")
    name = mods.take(*_OPERATORS)
    combine = mods.take(*_COMBINE)
    ftz = mods.has("ftz")
    type = mods.type()
    mods.done()
    name = _check(ins, name, type)
    ins.expect(4 if combine else 3)
    pred = TYPES["pred"]
    results: list[tuple[Operand, ScalarType]]
    if isinstance(ins.operands[0], Pair):
        results = [(ins.operands[0].first, pred), (ins.operands[0].second, pred)]
    else:
        results = [(ins.operands[0], pred)]
    if type.kind == "x":
        return _setp_pair(ins, machine, name, combine, ftz, type, results)
    compare = comparison(name, type, ftz)
    operands: list[tuple[Operand, ScalarType]] = [(o, type) for o in ins.operands[1:3]]
    if combine:
        operands.append((ins.operands[3], pred))
    join = _COMBINE.get(combine or "")

    def settle(step: Step) -> Step:
        if combine not in ("and", "or"):
            return step
        targets = [result for result, _ in results]
        sources = list(ins.operands[1:])
        return machine.settled(ins, step, targets, sources, sources[2:], combine == "or")

    if len(results) == 1:
        if join is None:
            return machine.pure(ins, results, operands, compare)
        return settle(machine.pure(ins, results, operands, lambda a, b, c: join(compare(a, b), c)))

    def both(a: Array, b: Array, c: Array = None) -> tuple[Array, Array]:
        first = compare(a, b)
        return (first, ~first) if join is None else (join(first, c), join(~first, c))

    return settle(machine.pure(ins, results, operands, both))


def _setp_pair(
    ins: Instruction,
    machine: Machine,
    name: str,
    combine: str | None,
    ftz: bool,
    type: ScalarType,
    results: list[tuple[Operand, ScalarType]],
) -> Step:
    """f16x2 and bf16x2: one predicate for each half."""
    half = TYPES.get(type.name[:-2])
    if half is None or half.kind != "f" or len(results) != 2:
        raise ins.unsupported(f".{type.name}")
    compare, join = comparison(name, half, ftz), _COMBINE.get(combine or "")

    def compute(a: Array, b: Array, c: Array = None) -> tuple[Array, Array]:
        a, b = np.broadcast_arrays(a, b)
        rows = compare(
            np.ascontiguousarray(a).view(half.dtype).reshape(-1, 2),
            np.ascontiguousarray(b).view(half.dtype).reshape(-1, 2),
        )
        pair = rows[:, 0], rows[:, 1]
        return pair if join is None else (join(pair[0], c), join(pair[1], c))

    operands: list[tuple[Operand, ScalarType]] = [(o, type) for o in ins.operands[1:3]]
    if combine:
        operands.append((ins.operands[3], TYPES["pred"]))
    return machine.pure(ins, results, operands, compute)


@instruction("set")
def _set(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("set")
    name = mods.take(*_OPERATORS)
    combine = mods.take(*_COMBINE)
    ftz = mods.has("ftz")
    types = mods.types()
    mods.done()
    ins.expect(4 if combine else 3)
    if len(types) != 2:
        raise ins.unsupported("expected two types")
    result, type = types
    if type.kind == "x" or result.kind == "x":
        return _set_pair(ins, machine, name, ftz, result, type)
    compare = comparison(_check(ins, name, type), type, ftz)
    join = _COMBINE.get(combine or "")
    if result.kind == "f":
        true, false = np.array(1.0).astype(result.dtype), np.array(0.0).astype(result.dtype)
    else:
        true = np.array(-1).astype(np.int64).astype(result.dtype)
        false = np.zeros((), result.dtype)

    def compute(a: Array, b: Array, c: Array = None) -> Array:
        found = compare(a, b)
        return where(found if join is None else join(found, c), true, false)

    operands: list[tuple[Operand, ScalarType]] = [(o, type) for o in ins.operands[1:3]]
    if combine:
        operands.append((ins.operands[3], TYPES["pred"]))
    return machine.pure(ins, [(ins.operands[0], result)], operands, compute)


def _set_pair(
    ins: Instruction, machine: Machine, name: str | None, ftz: bool, result: ScalarType,
    type: ScalarType,
) -> Step:  # fmt: skip
    half = TYPES.get(type.name[:-2])
    if half is None or half.kind != "f" or (result.kind == "x" and result is not type):
        raise ins.unsupported(f".{result.name}.{type.name}")
    compare = comparison(_check(ins, name, type), half, ftz)
    if result.kind == "x":
        true = int(np.array([1.0]).astype(half.dtype).view(np.uint16)[0])
    else:
        true = 0xFFFF

    def compute(a: Array, b: Array) -> Array:
        a, b = np.broadcast_arrays(a, b)
        rows = compare(
            np.ascontiguousarray(a).view(half.dtype).reshape(-1, 2),
            np.ascontiguousarray(b).view(half.dtype).reshape(-1, 2),
        )
        return where(rows, np.uint16(true), np.uint16(0)).view(STORAGE[32])[:, 0]

    ins.expect(3)
    operands: list[tuple[Operand, ScalarType]] = [(o, type) for o in ins.operands[1:3]]
    return machine.pure(ins, [(ins.operands[0], TYPES["b32"])], operands, compute)
