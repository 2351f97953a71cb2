"""SIMD video instructions on the two halves or four bytes of a register (PTX ISA 9.7.18), in the
form without operand selectors or masks, in which every part of the result is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..lanes import Array
from ..module import Instruction
from ..types import TYPES, ScalarType
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Step

Combine = Callable[[Array, Array], Array]


def _rounded_average(a: Array, b: Array) -> Array:
    total = a + b
    return (total + (total >= 0)) >> 1


_ARITHMETIC: dict[str, Combine] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
    "vavrg": _rounded_average,
}
_COMPARISONS: dict[str, Combine] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less,
    "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip


@instruction(*(f"{head}{parts}" for head in _ARITHMETIC for parts in (2, 4)))
def _arithmetic(ins: Instruction, machine: Machine) -> Step:
    """``d = op(a, b)`` part by part, wrapped or with ``.sat`` clamped to the type of d; with
    ``.add``, ``d = c + sum of the parts``."""
    head = ins.opcode.split(".")[0]
    mods = ins.modifiers(head)
    saturate, accumulate = mods.has("sat"), mods.has("add")
    kinds = mods.types()
    mods.done()
    if len(kinds) != 3 or any(k.name not in ("u32", "s32") for k in kinds):
        raise ins.unsupported("expected three of .u32, .s32")
    if saturate and accumulate:
        raise ins.unsupported("expected .sat or .add, not both")
    d_type, a_type, b_type = kinds
    return _build(
        ins, machine, _ARITHMETIC[head[:-1]], (d_type, a_type, b_type), accumulate, saturate
    )


@instruction("vset2", "vset4")
def _set(ins: Instruction, machine: Machine) -> Step:
    """1 or 0 in each part, as the comparison holds there; with ``.add``, c plus how often."""
    mods = ins.modifiers(ins.opcode.split(".")[0])
    comparison = mods.take(*_COMPARISONS)
    accumulate = mods.has("add")
    kinds = mods.types()
    mods.done()
    if comparison is None:
        raise ins.unsupported(f"expected one of {', '.join(_COMPARISONS)}")
    if len(kinds) != 2 or any(k.name not in ("u32", "s32") for k in kinds):
        raise ins.unsupported("expected two of .u32, .s32")
    a_type, b_type = kinds
    types = (TYPES["u32"], a_type, b_type)
    return _build(ins, machine, _COMPARISONS[comparison], types, accumulate, False)


def _build(
    ins: Instruction,
    machine: Machine,
    combine: Combine,
    types: tuple[ScalarType, ScalarType, ScalarType],
    accumulate: bool,
    saturate: bool,
) -> Step:
    ins.expect(4)
    parts = int(ins.opcode.split(".")[0][-1])
    d_type = types[0]
    d_part, a_part, b_part = (
        np.dtype(f"{'i' if kind.is_signed else 'u'}{4 // parts}") for kind in types
    )

    def compute(a: Array, b: Array, c: Array) -> Any:
        left: Array = a.view(a_part).reshape(-1, parts).astype(np.int64)
        right: Array = b.view(b_part).reshape(-1, parts).astype(np.int64)
        result: Array = combine(left, right)
        if accumulate:
            return (c.astype(np.int64) + result.sum(axis=1)).astype(d_type.dtype)
        if saturate:
            limits = np.iinfo(d_part)
            result = result.clip(limits.min, limits.max)
        return np.ascontiguousarray(result.astype(d_part)).view(d_type.dtype)[:, 0]

    d, a, b, c = ins.operands
    u32 = TYPES["u32"]
    return machine.pure(ins, [(d, d_type)], [(a, u32), (b, u32), (c, d_type)], compute)
