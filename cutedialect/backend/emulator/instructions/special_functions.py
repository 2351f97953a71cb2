"""ex2, lg2, sin, cos, tanh (PTX ISA 9.7.3 and 9.7.4): formed in f64 and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..lanes import Array, where
from ..module import Instruction
from ..rounding import NAN16
from ..types import ScalarType
from .floating import finish_f32
from .integer import simple
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Step


def _function(head: str, compute: Callable[[Array], Array], *types: str) -> None:
    @instruction(head)
    def build(ins: Instruction, machine: Machine) -> Step:
        mods = ins.modifiers(head)
        if not mods.has("approx"):
            raise ins.unsupported("expected .approx")
        ftz = mods.has("ftz")
        type: ScalarType = mods.type(*types)
        mods.done()
        if type.name == "f32":
            return simple(
                ins, machine, type,
                finish_f32(lambda a: compute(a.astype(np.float64)).astype(np.float32), ftz, False),
                1,
            )  # fmt: skip
        half = np.dtype(np.float16)
        if type.name.startswith("bf16"):
            import ml_dtypes

            half = np.dtype(ml_dtypes.bfloat16)

        def narrow(a: Array) -> Array:
            values = np.ascontiguousarray(a).view(half)
            out = compute(values.astype(np.float64)).astype(np.float32).astype(half)
            bits = where(np.isnan(out), NAN16, out.view(np.uint16)).astype(np.uint16)
            return bits.view(type.dtype)

        return simple(ins, machine, type, narrow, 1)


_function("ex2", np.exp2, "f32", "f16", "f16x2", "bf16", "bf16x2")
_function("lg2", np.log2, "f32")
_function("sin", np.sin, "f32")
_function("cos", np.cos, "f32")
_function("tanh", np.tanh, "f32", "f16", "f16x2", "bf16", "bf16x2")
