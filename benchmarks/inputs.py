"""Operands of a case as torch tensors on the current CUDA device, in as many sets as it takes to
rotate past L2: a call never finds its inputs in the cache, as in a network it would not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .cases import Case

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


@dataclass(frozen=True)
class Operands:
    """a (M, K) and b (K, N) as `cute.gemm` takes them, and the output; a tuple of each for a
    grouped case.
    """

    a: Any
    b: Any
    out: Any

    @property
    def products(self) -> tuple[tuple[Any, Any, Any], ...]:
        """(a, b, out) of each product."""
        if isinstance(self.a, tuple):
            return tuple(zip(self.a, self.b, self.out, strict=True))
        return ((self.a, self.b, self.out),)


def rotation(torch: Any, case: Case) -> int:
    """How many sets keep L2 cold."""
    cache = getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0) or _L2_BYTES
    return 1 + -(-_L2_TURNS * cache // case.bytes)


def make_operands(torch: Any, case: Case, seed: int) -> Operands:
    """Random operands in the majors of the case, and an output in rows."""
    generator = torch.Generator(device="cuda")
    generator.manual_seed(seed)
    batch = (case.batch,) if case.batch > 1 else ()

    def one(sizes: tuple[int, int, int]) -> tuple[Any, Any, Any]:
        m, n, k = sizes
        a = _matrix(torch, case, (*batch, m, k), generator, rows=case.majors[0] == "T")
        b = _matrix(torch, case, (*batch, k, n), generator, rows=case.majors[1] == "T")
        kind = getattr(torch, TYPES[case.dtype][1])
        return a, b, torch.empty((*batch, m, n), dtype=kind, device="cuda")

    if not case.group:
        return Operands(*one(case.sizes))
    made = [one(sizes) for sizes in case.group]
    return Operands(*(tuple(part) for part in zip(*made, strict=True)))


def poison(operands: Operands) -> None:
    """Fill the outputs with what no product gives."""
    for _, _, out in operands.products:
        out.fill_(float("nan") if out.is_floating_point() else _POISON)


def poisoned(operands: Operands) -> bool:
    """Whether an element of an output was never written, or is no number."""
    return any(
        bool((out != out if out.is_floating_point() else out == _POISON).any())
        for _, _, out in operands.products
    )


def _matrix(torch: Any, case: Case, shape: tuple[int, ...], generator: Any, *, rows: bool) -> Any:
    """A random matrix, contiguous along its rows or along its columns."""
    stored = shape if rows else (*shape[:-2], shape[-1], shape[-2])
    kind = getattr(torch, TYPES[case.dtype][0])
    if case.values == "integers":
        made = torch.randint(-2, 3, stored, generator=generator, device="cuda")
    else:
        made = torch.randn(stored, generator=generator, device="cuda")
        if case.dtype == "s8":
            made = (made * 32).round().clamp(-127, 127)
    made = made.to(kind)
    return made if rows else made.transpose(-1, -2)
