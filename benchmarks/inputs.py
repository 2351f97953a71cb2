"""Operands as torch tensors on the current CUDA device, in as many sets as it takes to rotate past
L2: a call never finds its inputs in the cache, as in a network it would not.
"""

from __future__ import annotations

from typing import Any

from .case import Case, Operands

# torch's types of the inputs and of the output.
TYPES = {
    "bf16": ("bfloat16", "bfloat16"),
    "f16": ("float16", "float16"),
    "tf32": ("float32", "float32"),
    "e4m3": ("float8_e4m3fn", "bfloat16"),
    "s8": ("int8", "int32"),
}
# Between two uses of a set at least this many times the L2 cache is read or written.
_L2_TURNS = 3
_L2_BYTES = 50 << 20
_POISON = -(2**31)


def rotation(torch: Any, case: Case) -> int:
    """How many sets keep L2 cold."""
    cache = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0) or _L2_BYTES
    return 1 + -(-_L2_TURNS * cache // case.bytes)


def seeded(torch: Any, seed: int) -> Any:
    """A generator of random numbers on the device."""
    generator = torch.Generator(device="cuda")
    generator.manual_seed(seed)
    return generator


def poison(operands: Operands) -> None:
    """Fill the outputs with what no problem gives."""
    for out in operands.outputs:
        out.fill_(float("nan") if out.is_floating_point() else _POISON)


def poisoned(operands: Operands) -> bool:
    """Whether an element of an output was never written, or is no number."""
    return any(
        bool((out != out if out.is_floating_point() else out == _POISON).any())
        for out in operands.outputs
    )
