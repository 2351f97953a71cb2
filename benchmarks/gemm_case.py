"""Matrix multiplies as cases: cuBLAS through torch against `cute.gemm`.

Sizes are MxNxK, majors as in BLAS: TN has both operands contiguous along K. Errors are the largest
of each product on sampled rows: every 64th part of M and the last row, all of N, so that each tile
of the output has a row in the sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from .accuracy import double
from .case import Call, Case, Maker
from .inputs import TYPES, seeded
from .peers import peers_of

CUBLAS = "cuBLAS"
# Bytes of an element of the inputs and of the output.
_BYTES = {"bf16": (2, 2), "f16": (2, 2), "tf32": (4, 4), "e4m3": (1, 2), "s8": (1, 4)}
_ROWS = 64


@dataclass(frozen=True)
class Products:
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

    @property
    def outputs(self) -> tuple[Any, ...]:
        return tuple(out for _, _, out in self.products)


@dataclass(frozen=True)
class Gemm(Case):
    """`sizes` is (M, N, K); `batch` problems of it, or the uneven problems of `group`.

    `values` is "normal" or "integers", those in -2..2, on which the multipliers draw little power.
    """

    sizes: tuple[int, int, int] = (0, 0, 0)
    majors: str = "TN"
    batch: int = 1
    group: tuple[tuple[int, int, int], ...] = ()
    values: str = "normal"

    kind = "gemm"

    @property
    def yardsticks(self) -> tuple[str, ...]:
        return (CUBLAS,)

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
        """Inputs read once, the output written once."""
        read, written = _BYTES[self.dtype]
        return sum(read * (m * k + k * n) + written * m * n for m, n, k in self.problems)

    @property
    def starved(self) -> bool:
        return self.flops < 200 * self.bytes

    @property
    def calls(self) -> int:
        return len(self.group) or 1

    def make_operands(self, torch: Any, seed: int) -> Products:
        """Random operands in the majors of the case, and an output in rows."""
        generator = seeded(torch, seed)
        batch = (self.batch,) if self.batch > 1 else ()

        def one(sizes: tuple[int, int, int]) -> tuple[Any, Any, Any]:
            m, n, k = sizes
            a = self._matrix(torch, (*batch, m, k), generator, rows=self.majors[0] == "T")
            b = self._matrix(torch, (*batch, k, n), generator, rows=self.majors[1] == "T")
            kind = getattr(torch, TYPES[self.dtype][1])
            return a, b, torch.empty((*batch, m, n), dtype=kind, device="cuda")

        if not self.group:
            return Products(*one(self.sizes))
        made = [one(sizes) for sizes in self.group]
        return Products(*(tuple(part) for part in zip(*made, strict=True)))

    def exact(self, torch: Any, operands: Products) -> Sequence[Any]:
        return [torch.matmul(_sample(torch, a), double(b)) for a, b, _ in operands.products]

    def errors(self, torch: Any, operands: Products, exact: Sequence[Any]) -> tuple[float, ...]:
        return tuple(
            float((_sample(torch, out) - wanted).abs().max().item())
            for (_, _, out), wanted in zip(operands.products, exact, strict=True)
        )

    def theirs(self, torch: Any) -> dict[str, Maker]:
        return {CUBLAS: lambda: self._cublas(torch)}

    def ours(self, schedule: str | None) -> Call:
        """`cute.gemm`, or `cute.grouped_gemm` for a grouped case."""
        import cutedialect as cute

        if self.group:
            grouped: Any = cute.grouped_gemm

            def call_grouped(operands: Products) -> None:
                a, b, out = list(operands.a), list(operands.b), list(operands.out)
                grouped(a, b, out=out, schedule=schedule)

            return call_grouped

        def call(operands: Products) -> None:
            cute.gemm(operands.a, operands.b, out=operands.out, schedule=schedule)

        return call

    def peers(self, torch: Any) -> dict[str, Maker]:
        return peers_of(torch, self)

    def compiled(self, schedule: str | None, arch: str | None = None) -> Any:
        import cutedialect as cute

        if self.group:
            return None
        inputs, output = TYPES[self.dtype]
        m, n, k = self.sizes
        batch = (self.batch,) if self.batch > 1 else ()
        outer = (None,) * len(batch)

        def spec(rows: int, columns: int, *, contiguous_rows: bool) -> cute.TensorSpec:
            strides = (None, 1) if contiguous_rows else (1, None)
            return cute.TensorSpec((*batch, rows, columns), inputs, (*outer, *strides))

        return cute.compile(
            cute.gemm,
            spec(m, k, contiguous_rows=self.majors[0] == "T"),
            spec(k, n, contiguous_rows=self.majors[1] == "T"),
            out_dtype=output,
            schedule=schedule,
            **({} if arch is None else {"arch": arch}),
        )

    def _cublas(self, torch: Any) -> Call:
        """The product as torch computes it: a loop of calls for a grouped case."""
        if self.dtype == "tf32":
            torch.set_float32_matmul_precision("high")
        multiply = _products(torch)[
            self.dtype if self.dtype in ("e4m3", "s8") else "batched" if self.batch > 1 else "plain"
        ]

        def call(operands: Products) -> None:
            for a, b, out in operands.products:
                multiply(a, b, out)

        return call

    def _matrix(self, torch: Any, shape: tuple[int, ...], generator: Any, *, rows: bool) -> Any:
        """A random matrix, contiguous along its rows or along its columns."""
        stored = shape if rows else (*shape[:-2], shape[-1], shape[-2])
        kind = getattr(torch, TYPES[self.dtype][0])
        if self.values == "integers":
            made = torch.randint(-2, 3, stored, generator=generator, device="cuda")
        else:
            made = torch.randn(stored, generator=generator, device="cuda")
            if self.dtype == "s8":
                made = (made * 32).round().clamp(-127, 127)
        made = made.to(kind)
        return made if rows else made.transpose(-1, -2)


def _products(torch: Any) -> dict[str, Callable[[Any, Any, Any], object]]:
    one = torch.ones((), dtype=torch.float32, device="cuda")
    return {
        "plain": lambda a, b, out: torch.mm(a, b, out=out),
        "batched": lambda a, b, out: torch.bmm(a, b, out=out),
        "s8": lambda a, b, out: torch._int_mm(a, b, out=out),
        "e4m3": lambda a, b, out: torch._scaled_mm(
            a, b, one, one, out_dtype=out.dtype, use_fast_accum=True, out=out
        ),
    }


def _sample(torch: Any, matrix: Any) -> Any:
    rows = matrix.shape[-2]
    step = max(1, rows // _ROWS)
    # Two views, since indexing by a list is not there for every 8-bit type.
    return torch.cat([double(matrix[..., ::step, :]), double(matrix[..., rows - 1 :, :])], -2)
