"""SIMD video instructions on the two halves or four bytes of a register (PTX ISA 9.7.18), in the
form without operand selectors or masks, in which every part of the result is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..lanes import Array
from ..module import Instruction
from ..types import TYPES
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Step

_COMPUTE: dict[str, Callable[[Array, Array], Array]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}


@instruction(*(f"{head}{parts}" for head in _COMPUTE for parts in (2, 4)))
def _simd(ins: Instruction, machine: Machine) -> Step:
    """``d = op(a, b)`` part by part, wrapped or with ``.sat`` clamped to the type of d; with
    ``.add``, ``d = c + sum of the parts``."""
    head = ins.opcode.split(".")[0]
    mods = ins.modifiers(head)
    saturate, accumulate = mods.has("sat"), mods.has("add")
    kinds = mods.types()
    mods.done()
    ins.expect(4)
    if len(kinds) != 3 or any(k.name not in ("u32", "s32") for k in kinds):
        raise ins.unsupported("expected three of .u32, .s32")
    if saturate and accumulate:
        raise ins.unsupported("expected .sat or .add, not both")
    operation, parts = _COMPUTE[head[:-1]], int(head[-1])
    size = 4 // parts
    d_type, a_type, b_type = kinds
    a_part, b_part, d_part = (
        np.dtype(f"{'i' if kind.is_signed else 'u'}{size}") for kind in (a_type, b_type, d_type)
    )

    def compute(a: Array, b: Array, c: Array) -> Any:
        left: Array = a.view(a_part).reshape(-1, parts).astype(np.int64)
        right: Array = b.view(b_part).reshape(-1, parts).astype(np.int64)
        result: Array = operation(left, right)
        if accumulate:
            return (c.astype(np.int64) + result.sum(axis=1)).astype(d_type.dtype)
        if saturate:
            limits = np.iinfo(d_part)
            result = result.clip(limits.min, limits.max)
        return np.ascontiguousarray(result.astype(d_part)).view(d_type.dtype)[:, 0]

    d, a, b, c = ins.operands
    u32 = TYPES["u32"]
    return machine.pure(ins, [(d, d_type)], [(a, u32), (b, u32), (c, d_type)], compute)
