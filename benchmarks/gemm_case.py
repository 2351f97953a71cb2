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
# The same for 8-bit operands that it takes with a contiguous depth only.
TRANSPOSED = "cuBLAS after transposing"
# Bytes of an element of the inputs and of the output.
_BYTES = {"bf16": (2, 2), "f16": (2, 2), "tf32": (4, 4), "e4m3": (1, 2), "s8": (1, 4)}
# The least of the integers that operands have, and the first beyond the greatest.
_INTEGERS = {"integers": (-2, 3), "few integers": (-2, 2)}
_ROWS = 64
# Depth, and columns of b, for which a scale of blocks holds.
_BLOCK = 128


@dataclass(frozen=True)
class Products:
    """a (M, K) and b (K, N) as `cute.gemm` takes them, and the output; a tuple of each for a
    grouped case. `scales` are those of a and b, or None.
    """

    a: Any
    b: Any
    out: Any
    scales: tuple[Any, Any] = (None, None)

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

    `values` is "normal", "integers", those in -2..2, on which the multipliers draw little power, or
    "few integers", those in -2..1.
    `sums` of 8-bit floats are "fast", "promoted" every 128 of the depth, or of "blocks" with scales
    of their own: those of a for a row, those of b for 128 columns. The lines of the operands begin
    at multiples of `align` bytes, and of no more where that is less than 16.
    """

    sizes: tuple[int, int, int] = (0, 0, 0)
    majors: str = "TN"
    batch: int = 1
    group: tuple[tuple[int, int, int], ...] = ()
    values: str = "normal"
    sums: str = "fast"
    align: int = 16

    kind = "gemm"

    @property
    def yardsticks(self) -> tuple[str, ...]:
        return (CUBLAS, TRANSPOSED) if self._is_transposed else (CUBLAS,)

    @property
    def _is_transposed(self) -> bool:
        """Whether tensor cores take the operands after a transposition only."""
        return self.dtype in ("e4m3", "s8") and self.majors != "TN"

    @property
    def name(self) -> str:
        if self.group:
            size = f"{len(self.group)} uneven problems"
        else:
            m, n, k = self.sizes
            size = f"{m}^3" if m == n == k else f"{m}x{n}x{k}"
            size = size if self.batch == 1 else f"{self.batch} x {size}"
        integers = "" if self.values == "normal" else f" {self.values}"
        sums = "" if self.sums == "fast" else f" {self.sums}"
        align = "" if self.align == 16 else f" align {self.align}"
        return f"{size} {self.dtype} {self.majors}{integers}{sums}{align}"

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
            scales = self._scales(torch, generator) if self.sums == "blocks" else (None, None)
            return Products(*one(self.sizes), scales)
        made = [one(sizes) for sizes in self.group]
        return Products(*(tuple(part) for part in zip(*made, strict=True)))

    def exact(self, torch: Any, operands: Products) -> Sequence[Any]:
        if self.sums != "blocks":
            return [torch.matmul(_sample(torch, a), double(b)) for a, b, _ in operands.products]
        scale_a, scale_b = operands.scales
        _, n, k = self.sizes
        rows = _sample(torch, scale_a).repeat_interleave(_BLOCK, 1)[:, :k]
        block = double(scale_b).repeat_interleave(_BLOCK, 0).repeat_interleave(_BLOCK, 1)
        return [torch.matmul(_sample(torch, operands.a) * rows, double(operands.b) * block[:k, :n])]

    def errors(self, torch: Any, operands: Products, exact: Sequence[Any]) -> tuple[float, ...]:
        return tuple(
            float((_sample(torch, out) - wanted).abs().max().item())
            for (_, _, out), wanted in zip(operands.products, exact, strict=True)
        )

    def theirs(self, torch: Any) -> dict[str, Maker]:
        found: dict[str, Maker] = {CUBLAS: lambda: self._cublas(torch)}
        if self._is_transposed:
            found[TRANSPOSED] = lambda: self._cublas(torch, transposes=True)
        return found

    def ours(self, schedule: str | None) -> Call:
        """`cute.gemm`, or `cute.grouped_gemm` for a grouped case."""
        import cutedialect as cute

        if self.group:
            grouped: Any = cute.grouped_gemm

            def call_grouped(operands: Products) -> None:
                a, b, out = list(operands.a), list(operands.b), list(operands.out)
                grouped(a, b, out=out, schedule=schedule, **self._options)

            return call_grouped

        def call(operands: Products) -> None:
            scales = dict(zip(("scale_a", "scale_b"), operands.scales, strict=True))
            given = {name: scale for name, scale in scales.items() if scale is not None}
            cute.gemm(
                operands.a,
                operands.b,
                out=operands.out,
                schedule=schedule,
                **given,
                **self._options,
            )

        return call

    def peers(self, torch: Any) -> dict[str, Maker]:
        return peers_of(torch, self)

    @property
    def specs(self) -> list[tuple[Any, Any]]:
        """What is known of a and b of each product."""
        import cutedialect as cute

        inputs, _ = TYPES[self.dtype]
        batch = (self.batch,) if self.batch > 1 else ()

        def spec(rows: int, columns: int, *, contiguous_rows: bool) -> cute.TensorSpec:
            strides = (None, 1) if contiguous_rows else (1, None)
            shape = (*batch, rows, columns)
            line = (columns if contiguous_rows else rows) * _BYTES[self.dtype][0]
            align = min(self.align, line & -line)
            return cute.TensorSpec(shape, inputs, (None,) * len(batch) + strides, align)

        return [
            (
                spec(m, k, contiguous_rows=self.majors[0] == "T"),
                spec(k, n, contiguous_rows=self.majors[1] == "T"),
            )
            for m, n, k in self.group or (self.sizes,)
        ]

    def compiled(self, schedule: str | None, arch: str | None = None) -> Any:
        import cutedialect as cute

        specs, output = self.specs, TYPES[self.dtype][1]
        options: dict[str, Any] = {"out_dtype": output, "schedule": schedule, **self._options}
        if arch is not None:
            options["arch"] = arch
        if self.group:
            return cute.compile(cute.grouped_gemm, *map(list, zip(*specs, strict=True)), **options)
        if self.sums == "blocks":
            m, n, k = self.sizes
            options["scale_a"] = cute.TensorSpec((m, _blocks(k)), "f32", (1, None))
            options["scale_b"] = cute.TensorSpec((_blocks(k), _blocks(n)), "f32", (1, None))
        return cute.compile(cute.gemm, *specs[0], **options)

    @property
    def _options(self) -> dict[str, Any]:
        """What ours is told of the sums."""
        return {} if self.sums == "fast" else {"fast_accum": False}

    def _cublas(self, torch: Any, *, transposes: bool = False) -> Call:
        """The product as torch computes it: a loop of calls for a grouped case."""
        if self.dtype == "tf32":
            torch.set_float32_matmul_precision("high")
        if self.dtype == "e4m3":
            return self._scaled_mm(torch, transposes)
        multiply = _products(torch)[
            "s8" if self.dtype == "s8" else "batched" if self.batch > 1 else "plain"
        ]

        def call(operands: Products) -> None:
            for a, b, out in operands.products:
                multiply(*(_along_k(a, b) if transposes else (a, b)), out)

        return call

    def _scaled_mm(self, torch: Any, transposes: bool) -> Call:
        """8-bit floats, with scales of 1 where there are none of blocks."""
        one = torch.ones((), dtype=torch.float32, device="cuda")
        is_fast = self.sums == "fast"

        def call(operands: Products) -> None:
            scales = (one, one) if operands.scales[0] is None else operands.scales
            for a, b, out in operands.products:
                left, right = _along_k(a, b) if transposes else (a, b)
                torch._scaled_mm(
                    left, right, *scales, out_dtype=out.dtype, use_fast_accum=is_fast, out=out
                )

        return call

    def _scales(self, torch: Any, generator: Any) -> tuple[Any, Any]:
        """Scales of blocks around 1, in the order in which cuBLAS takes them: those of a contiguous
        along M, those of b along K.
        """
        m, n, k = self.sizes
        made = (
            torch.rand(stored, generator=generator, device="cuda") + 0.5
            for stored in ((_blocks(k), m), (_blocks(n), _blocks(k)))
        )
        scale_a, scale_b = (each.transpose(0, 1) for each in made)
        return scale_a, scale_b

    def _matrix(self, torch: Any, shape: tuple[int, ...], generator: Any, *, rows: bool) -> Any:
        """A random matrix, contiguous along its rows or along its columns."""
        stored = shape if rows else (*shape[:-2], shape[-1], shape[-2])
        beyond = 0 if self.align == 16 else self.align // _BYTES[self.dtype][0]
        stored = (*stored[:-1], stored[-1] + beyond)
        kind = getattr(torch, TYPES[self.dtype][0])
        if self.values in _INTEGERS:
            limits = _INTEGERS[self.values]
            made = torch.randint(*limits, stored, generator=generator, device="cuda")
        else:
            made = torch.randn(stored, generator=generator, device="cuda")
            if self.dtype == "s8":
                made = (made * 32).round().clamp(-127, 127)
        made = made.to(kind)[..., beyond:]
        return made if rows else made.transpose(-1, -2)


def _blocks(extent: int) -> int:
    return -(-extent // _BLOCK)


def _along_k(a: Any, b: Any) -> tuple[Any, Any]:
    """Copies with a contiguous depth of those operands that have none."""
    return a.contiguous(), b.transpose(-1, -2).contiguous().transpose(-1, -2)


def _products(torch: Any) -> dict[str, Callable[[Any, Any, Any], object]]:
    return {
        "plain": lambda a, b, out: torch.mm(a, b, out=out),
        "batched": lambda a, b, out: torch.bmm(a, b, out=out),
        "s8": lambda a, b, out: torch._int_mm(a, b, out=out),
    }


def _sample(torch: Any, matrix: Any) -> Any:
    rows = matrix.shape[-2]
    step = max(1, rows // _ROWS)
    # Two views, since indexing by a list is not there for every 8-bit type.
    return torch.cat([double(matrix[..., ::step, :]), double(matrix[..., rows - 1 :, :])], -2)
