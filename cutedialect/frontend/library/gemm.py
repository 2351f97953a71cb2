"""The matrix multiply as a tile program: D = activation(alpha A B + beta C + bias), batched.

Tensors are (batch..., rows, columns); a batch stride of 0 broadcasts. With `swapped` the tensors
are the transposed ones of B^T A^T, and the bias runs along the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from cutedialect.frontend.dtypes import DType, f32
from cutedialect.frontend.kernel import KernelFunction, kernel

if TYPE_CHECKING:
    from cutedialect.frontend.scalar import Scalar
    from cutedialect.frontend.tile import Tensor, Tile

Activation = Callable[["Tile"], "Tile"]


@lru_cache(maxsize=64)
def program_for(activation: str | Activation | None) -> KernelFunction:
    """The program with an activation: a name, a function of a tile, or none."""

    @kernel
    def gemm(
        A: Tensor,
        B: Tensor,
        C: Tensor | None,
        bias: Tensor | None,
        D: Tensor,
        alpha: Scalar | None,
        beta: Scalar | None,
        *,
        tile: tuple[int, int, int] = (128, 128, 32),
        acc_dtype: DType = f32,
        swapped: bool = False,
    ) -> None:
        # Imported at tracing, since they need xDSL and a kernel found in the cache does not.
        from cutedialect.frontend import functions as cute
        from cutedialect.frontend.loops import range_
        from cutedialect.frontend.tile import local_tile

        bm, bn, bk = tile
        *batch, m, n = cute.tile_index(D, (1,) * (D.rank - 2) + (bm, bn))
        a_tiles = local_tile(A, (bm, bk), (*batch, m, None))
        b_tiles = local_tile(B, (bk, bn), (*batch, None, n))
        acc = cute.zeros((bm, bn), acc_dtype)
        for k in range_(a_tiles.tiles):
            cute.tile_gemm(a_tiles[k], b_tiles[k], acc)
        out = acc.to(f32) if acc_dtype.bits == 16 else acc
        if alpha is not None:
            out = out * alpha
        if C is not None:
            out = out + local_tile(C, (bm, bn), (*batch, m, n)).to(out.dtype) * beta
        if bias is not None:
            vector = cute.column_vector(bias, m, bm) if swapped else cute.row_vector(bias, n, bn)
            out = out + vector.to(out.dtype)
        if activation is not None:
            apply = getattr(cute, activation) if isinstance(activation, str) else activation
            out = apply(out)
        cute.copy(out.to(D.dtype), local_tile(D, (bm, bn), (*batch, m, n)))

    return gemm
