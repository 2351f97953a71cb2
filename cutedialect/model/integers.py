"""Integer instructions of the ptx dialect on Python numbers, as far as control of a kernel needs
them; None is a value that is not known before a kernel runs, and so is all that is made of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_MASK = (1 << 32) - 1
# Types of which nothing is known here.
_FLOATS = re.compile("f32|f16|f64")

Value = int | bool | None


def _signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _bits(kind: str) -> int:
    return 64 if "64" in kind else 16 if "16" in kind else 32


def _divided(a: int, b: int, kind: str) -> int | None:
    if b == 0:
        return None
    if "u" in kind:
        mask = (1 << _bits(kind)) - 1
        return (a & mask) // (b & mask)
    return int(a / b) if abs(a) < 1 << 52 else a // b


def _multiplied(a: int, b: int, kind: str) -> int:
    if "hi" in kind:
        mask = (1 << _bits(kind)) - 1
        return ((a & mask) * (b & mask)) >> _bits(kind) if "u" in kind else (a * b) >> _bits(kind)
    if "wide" in kind:
        return (a & _MASK) * (b & _MASK) if "u32" in kind else a * b
    return a * b


def _compared(a: int, b: int, kind: str) -> bool:
    name, _, type_ = kind.partition(".")
    if type_.startswith(("u", "b")) and name not in ("eq", "ne"):
        mask = (1 << _bits(type_)) - 1
        a, b = a & mask, b & mask
    return {
        "eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b,
        "lo": a < b, "ls": a <= b, "hi": a > b, "hs": a >= b,
    }[name]  # fmt: skip


def _shifted(a: int, b: int, kind: str) -> int:
    if "u" in kind or "b" in kind:
        a &= (1 << _bits(kind)) - 1
    return a >> min(b, 64)


_TWO: dict[str, Callable[[int, int, str], Value]] = {
    "add": lambda a, b, kind: a + b,
    "sub": lambda a, b, kind: a - b,
    "mul": _multiplied,
    "div": _divided,
    "rem": lambda a, b, kind: None if b == 0 else a - b * (_divided(a, b, kind) or 0),
    "shl": lambda a, b, kind: a << min(b, 64),
    "shr": _shifted,
    "and": lambda a, b, kind: (a and b) if kind == "pred" else a & b,
    "or": lambda a, b, kind: (a or b) if kind == "pred" else a | b,
    "xor": lambda a, b, kind: (a != b) if kind == "pred" else a ^ b,
    "min": lambda a, b, kind: min(a, b),
    "max": lambda a, b, kind: max(a, b),
}


def evaluate(family: str, kind: str, values: list[Value]) -> Value:
    """The result of a scalar instruction.

    >>> evaluate("mul", "hi.u32", [-1, 3]), evaluate("setp", "lt.u32", [2, -1])
    (2, True)
    """
    if family == "selp":
        chosen = values[2]
        return None if chosen is None else values[0 if chosen else 1]
    numbers = [value for value in values if value is not None]
    if len(numbers) < len(values):
        # One side of a condition may decide alone.
        decides = family == "or"
        is_condition = family in ("and", "or") and kind == "pred"
        is_decided = is_condition and any(bool(value) is decides for value in numbers)
        return decides if is_decided else None
    return None if _FLOATS.search(kind) else _of_integers(family, kind, numbers)


def _of_integers(family: str, kind: str, numbers: list[int]) -> Value:
    """The result for numbers that are all known."""
    if family == "setp":
        return _compared(int(numbers[0]), int(numbers[1]), kind)
    if family in ("mov", "cvt", "cvta"):
        return numbers[0]
    if family == "not":
        return not numbers[0] if kind == "pred" else ~numbers[0]
    if family == "mad" and len(numbers) == 3:
        return _wrapped(_multiplied(int(numbers[0]), int(numbers[1]), kind) + numbers[2], kind)
    if family not in _TWO:
        return None
    found = _TWO[family](numbers[0], numbers[1], kind)
    if found is None or kind == "pred":
        return found
    return _wrapped(int(found), kind)


def _wrapped(value: int, kind: str) -> int:
    return _signed(value, 64 if "64" in kind or "wide" in kind else 32)
