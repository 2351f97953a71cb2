"""The matrix multiply of f32 with operands split into two tf32 numbers (3xTF32): one kernel for
each operand writes a = high + low, another adds up low B_high + high B_low + high B_high.

Of a number's 24 bits high has the first 11 and low, rounded, the next 11: a product is off by some
2^-21 of itself. Sums leave the tensor cores every 32 of the depth. The parts lie in panels of so
much of it, a line of 128 bytes, whatever the operand is contiguous along, so that warpgroups can
multiply them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cutedialect.frontend.dtypes import DType, f32
from cutedialect.frontend.host import HostFunction, host
from cutedialect.frontend.kernel import kernel
from cutedialect.schedule import Schedule

from .gemm import Activation, finish

if TYPE_CHECKING:
    from cutedialect.frontend.scalar import Scalar
    from cutedialect.frontend.tile import Tensor

DEPTH = 32
_ROWS = 32
# Veltkamp's factor for 24 = 11 + 13 bits. Larger numbers than _LARGE are scaled first: their
# product with it would be infinite.
_FACTOR = 2.0**13 + 1
_LARGE, _SCALE = 2.0**100, 2.0**-20
_LARGEST_TF32 = float.fromhex("0x1.ffcp127")


@kernel(in_bounds=True, spills="refuse")
def split(X: Tensor, high: Tensor, low: Tensor) -> None:
    """The tf32 parts of X (batch..., rows, K) in panels (batch..., K / 32, rows, 32), 0 behind K.

    Of an infinite number the low part is that number and the high one 0.
    """
    # Imported at tracing, since they need xDSL and a kernel found in the cache does not.
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.local_tiles import local_tile

    *batch, panel, row = cute.tile_index(high, (1,) * (high.rank - 2) + (_ROWS, DEPTH))[:-1]
    x = local_tile(X, (_ROWS, DEPTH), (*batch, row, panel)).load()
    is_large = cute.abs_(x) >= _LARGE
    y = x * cute.where(is_large, _SCALE, 1.0)
    c = y * _FACTOR
    # Both uses keep the product from being rounded together with a sum.
    first = (c - (c - y)) * cute.where(is_large, 1 / _SCALE, 1.0)
    first = cute.minimum(cute.maximum(first, -_LARGEST_TF32), _LARGEST_TF32)
    first = cute.where(cute.abs_(x) == cute.inf, 0.0, first)
    place = (*batch, panel, row, 0)
    cute.copy(first, local_tile(high, (_ROWS, DEPTH), place))
    cute.copy(x - first, local_tile(low, (_ROWS, DEPTH), place))


@lru_cache(maxsize=64)
def split_program_for(activation: str | Activation | None) -> HostFunction:
    """The program with an activation: a name, a function of a tile, or none."""

    @kernel(in_bounds=True, spills="refuse")
    def multiply(
        A: Tensor,
        A_low: Tensor,
        B: Tensor,
        B_low: Tensor,
        C: Any,
        bias: Any,
        D: Any,
        alpha: Scalar | None,
        beta: Scalar | None,
        aux: Any,
        *,
        tile: tuple[int, int, int] = (128, 128, DEPTH),
        swapped: bool = False,
    ) -> None:
        """`gemm` of the panels of A and of B^T."""
        from cutedialect.frontend import functions as cute
        from cutedialect.frontend.local_tiles import local_tile
        from cutedialect.frontend.loops import range_

        bm, bn, _ = tile
        *batch, m, n = cute.tile_index(D, (1,) * (D.rank - 2) + (bm, bn))
        acc = cute.zeros((bm, bn), f32)
        for k in range_(A.dim(A.rank - 3)):
            a, a_low = (local_tile(each, (bm, DEPTH), (*batch, k, m, 0)) for each in (A, A_low))
            b, b_low = (local_tile(each, (bn, DEPTH), (*batch, k, n, 0)).T for each in (B, B_low))
            # Tensor cores cut their sums off at each step, these are rounded.
            part = cute.zeros((bm, bn), f32)
            cute.tile_gemm(a_low, b, part)
            cute.tile_gemm(a, b_low, part)
            cute.tile_gemm(a, b, part)
            acc += part
        finish(acc, C, bias, D, alpha, beta, aux, (*batch, m, n), activation, swapped)

    @host
    def split_gemm(
        A: Tensor,
        B: Tensor,
        C: Any,
        bias: Any,
        D: Any,
        alpha: Scalar | None,
        beta: Scalar | None,
        scale_a: Any,
        scale_b: Any,
        zeros: Any,
        aux: Any,
        *,
        tile: tuple[int, int, int] = (128, 128, DEPTH),
        acc_dtype: DType = f32,
        epilogue_dtype: DType = f32,
        swapped: bool = False,
        promotes: bool = False,
        spans: object = None,
    ) -> None:
        """`gemm` of A (batch..., M, K) and of B^T (batch..., N, K), both f32, without scales."""
        from cutedialect.frontend.host import launch, workspace

        plan = Schedule(roles="uniform", scheduler="single", epilogue="direct")
        parts: list[Tensor] = []
        for X in (A, B):
            *batch, rows, depth = (X.dim(mode) for mode in range(X.rank))
            panels = (depth + (DEPTH - 1)) // DEPTH
            shape = (*batch, panels, rows, DEPTH)
            high, low = workspace(shape, f32), workspace(shape, f32)
            launch(split, X, high, low, schedule=plan)
            parts += [high, low]
        launch(multiply, *parts, C, bias, D, alpha, beta, aux, tile=tile, swapped=swapped)

    return split_gemm
