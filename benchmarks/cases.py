"""The problems of `benchmarks.gemm` as data: sizes, types, majors, gates and goals.

Sizes are MxNxK, majors as in BLAS: TN has both operands contiguous along K. A gate is the least
ratio to cuBLAS that passes, a goal the ratio aimed at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

# Bytes of an element of the inputs and of the output.
_BYTES = {"bf16": (2, 2), "f16": (2, 2), "tf32": (4, 4), "e4m3": (1, 2), "s8": (1, 4)}


@dataclass(frozen=True)
class Case:
    """One row: `sizes` is (M, N, K); `batch` problems of it, or the uneven problems of `group`.

    `values` is "normal" or "integers", those in -2..2, on which the multipliers draw little power.
    """

    section: str
    dtype: str
    sizes: tuple[int, int, int] = (0, 0, 0)
    majors: str = "TN"
    batch: int = 1
    group: tuple[tuple[int, int, int], ...] = ()
    values: str = "normal"
    gate: float = 0.97
    goal: float = 1.05
    quick: bool = False

    @property
    def name(self) -> str:
        if self.group:
            size = f"{len(self.group)} uneven problems"
        else:
            m, n, k = self.sizes
            size = f"{m}^3" if m == n == k else f"{m}x{n}x{k}"
            size = size if self.batch == 1 else f"{self.batch} x {size}"
        integers = " integers" if self.values == "integers" else ""
        return f"{size} {self.dtype} {self.majors}{integers}"

    @property
    def problems(self) -> tuple[tuple[int, int, int], ...]:
        """(M, N, K) of each product that one call computes."""
        return self.group or (self.sizes,) * self.batch

    @property
    def flops(self) -> int:
        return sum(2 * prod(sizes) for sizes in self.problems)

    @property
    def bytes(self) -> int:
        """The least traffic of one call: inputs read once, the output written once."""
        read, written = _BYTES[self.dtype]
        return sum(read * (m * k + k * n) + written * m * n for m, n, k in self.problems)

    @property
    def starved(self) -> bool:
        """Whether memory bounds the time; such a row is judged by its bandwidth as well."""
        return self.flops < 200 * self.bytes


def _cube(edge: int) -> tuple[int, int, int]:
    return (edge, edge, edge)


_SIZES = (
    (_cube(1024), True),
    (_cube(2048), True),
    (_cube(4096), True),
    (_cube(8192), True),
    (_cube(16384), False),
    ((4096, 14336, 4096), True),
    ((4096, 4096, 14336), True),
    ((8192, 1280, 8192), True),
    ((65536, 1024, 1024), True),
    ((2048, 2048, 16384), True),
    ((4095, 4097, 4104), False),
)
_UNEVEN = (
    (2048, 2048, 2048),
    (1024, 4096, 2048),
    (512, 4096, 4096),
    (3072, 1536, 2048),
    (256, 8192, 1024),
    (776, 2312, 4096),
    (1536, 1024, 8192),
    (128, 4096, 4096),
)

CASES: tuple[Case, ...] = (
    *[Case("main", "bf16", sizes, quick=quick) for sizes, quick in _SIZES],
    *[Case("main", "f16", sizes) for sizes, _ in _SIZES],
    Case("integers", "f16", _cube(4096), values="integers", gate=1.0, goal=1.03, quick=True),
    Case("integers", "f16", _cube(8192), values="integers", gate=1.1, goal=1.2, quick=True),
    *[
        Case("majors", "bf16", _cube(edge), majors, quick=edge == 4096)
        for edge in (4096, 8192)
        for majors in ("TT", "NT", "NN")
    ],
    *[
        Case("skinny", "bf16", (m, n, 4096), gate=1.0, goal=1.2, quick=n == 14336 and m != 64)
        for n in (14336, 4096)
        for m in (1, 16, 64, 128)
    ],
    *[
        Case("fp8", "e4m3", sizes, quick=quick)
        for sizes, quick in (
            (_cube(4096), False),
            (_cube(8192), True),
            ((4096, 14336, 4096), False),
        )
    ],
    Case("other", "s8", _cube(8192), gate=1.0, goal=1.1, quick=True),
    Case("other", "tf32", _cube(4096), gate=1.0, goal=1.1, quick=True),
    Case("other", "bf16", _cube(2048), batch=16, gate=1.0, goal=1.1, quick=True),
    Case("other", "bf16", group=_UNEVEN, gate=1.0, goal=1.1, quick=True),
)


def select(only: str | None = None, *, quick: bool = False) -> tuple[Case, ...]:
    """The cases whose name, or `section name`, matches a regular expression.

    Raises ValueError for a bad expression and for one that nothing matches.
    """
    try:
        pattern = re.compile(only or "")
    except re.error as error:
        raise ValueError(f"expected a regular expression, got '{only}': {error}") from None
    chosen = tuple(
        case
        for case in CASES
        if pattern.search(f"{case.section} {case.name}") and (case.quick or not quick)
    )
    if not chosen:
        names = "\n  ".join(case.name for case in CASES if case.quick or not quick)
        raise ValueError(f"expected to match a case, got '{only}'; the cases are\n  {names}")
    return chosen


def named(name: str) -> Case:
    """The case of that name."""
    return next(case for case in CASES if case.name == name)
