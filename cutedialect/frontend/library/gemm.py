"""The matrix multiply as a tile program: C = activation(alpha A B + beta C + bias), batched.

Tensors have rank 3, (batch, rows, columns); a batch stride of 0 broadcasts.
"""

from __future__ import annotations

from collections.abc import Callable

from cutedialect.frontend import functions as cute
from cutedialect.frontend.dtypes import DType, f32
from cutedialect.frontend.kernel import kernel
from cutedialect.frontend.loops import range_
from cutedialect.frontend.scalar import Scalar
from cutedialect.frontend.tile import Tensor, Tile, local_tile


@kernel
def gemm(
    A: Tensor,
    B: Tensor,
    C: Tensor | None,
    bias: Tensor | None,
    D: Tensor,
    alpha: Scalar,
    beta: Scalar | None,
    *,
    tile: tuple[int, int, int] = (128, 128, 32),
    acc_dtype: DType = f32,
    activation: Callable[[Tile], Tile] | None = None,
) -> None:
    """D = activation(alpha A B + beta C + bias), one CTA for each tile of D."""
    bm, bn, bk = tile
    b, m, n = cute.tile_index(D, (1, bm, bn))
    a_tiles = local_tile(A, (bm, bk), (b, m, None))
    b_tiles = local_tile(B, (bk, bn), (b, None, n))
    acc = cute.zeros((bm, bn), acc_dtype)
    for k in range_(a_tiles.tiles):
        cute.tile_gemm(a_tiles[k], b_tiles[k], acc)
    out = acc if acc_dtype.kind == "i" and D.dtype == acc_dtype else acc * alpha
    if C is not None:
        out = out + local_tile(C, (bm, bn), (b, m, n)).to(out.dtype) * beta
    if bias is not None:
        out = out + cute.row_vector(bias, n, bn).to(out.dtype)
    if activation is not None:
        out = activation(out)
    cute.copy(out.to(D.dtype), local_tile(D, (bm, bn), (b, m, n)))
