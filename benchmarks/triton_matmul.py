"""A matrix multiply in Triton for comparison: one program a tile, tiles walked in groups of rows so
that neighbors share L2, tuned over a handful of configurations. Needs Triton.
"""

from typing import Any

import torch  # pyright: ignore[reportMissingImports]
import triton  # pyright: ignore[reportMissingImports]
import triton.language as tl  # pyright: ignore[reportMissingImports]

_CONFIGS = [
    triton.Config({"BM": bm, "BN": bn, "BK": bk, "GROUP": 8}, num_warps=warps, num_stages=stages)
    for bm, bn, bk, warps, stages in (
        (128, 256, 64, 8, 3),
        (128, 256, 64, 8, 4),
        (256, 128, 64, 8, 3),
        (128, 128, 64, 8, 4),
        (128, 128, 64, 4, 4),
        (128, 256, 128, 8, 3),
        (64, 128, 128, 4, 4),
        (16, 128, 128, 4, 5),
    )
]


def matmul(a: Any, b: Any, out: Any) -> None:
    """out (M, N) = a (M, K) @ b (K, N), any strides; tuned at the first call of a size and type."""
    m, k = a.shape
    n = b.shape[1]

    def grid(meta: dict[str, int]) -> tuple[int]:
        return (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)

    _kernel[grid](  # pyright: ignore[reportIndexIssue]
        a,
        b,
        out,
        m,
        n,
        k,
        *a.stride(),
        *b.stride(),
        *out.stride(),
        majors=f"{a.stride(1) == 1}{b.stride(0) == 1}",
        integers=a.dtype == torch.int8,
        whole=k % 128 == 0,
    )


@triton.autotune(configs=_CONFIGS, key=["m", "n", "k", "majors"])
@triton.jit
def _kernel(
    a,
    b,
    out,
    m,
    n,
    k,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_om,
    stride_on,
    majors: tl.constexpr,
    integers: tl.constexpr,
    whole: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
):
    number = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    first = number // (GROUP * tiles_n) * GROUP
    height = min(tiles_m - first, GROUP)
    inside = number % (GROUP * tiles_n)
    row = (first + inside % height) * BM
    column = inside // height * BN
    rows, columns, depth = row + tl.arange(0, BM), column + tl.arange(0, BN), tl.arange(0, BK)
    # Rows and columns past the edge read those at the start; what they give is not stored.
    from_a = a + (rows % m)[:, None].to(tl.int64) * stride_am + depth[None, :] * stride_ak
    from_b = b + depth[:, None] * stride_bk + (columns % n)[None, :].to(tl.int64) * stride_bn
    acc = tl.zeros((BM, BN), dtype=tl.int32 if integers else tl.float32)
    for start in range(0, k, BK):
        if whole:
            x, y = tl.load(from_a), tl.load(from_b)
        else:
            x = tl.load(from_a, mask=depth[None, :] < k - start, other=0)
            y = tl.load(from_b, mask=depth[:, None] < k - start, other=0)
        acc = tl.dot(x, y, acc, out_dtype=tl.int32 if integers else tl.float32)
        from_a += BK * stride_ak
        from_b += BK * stride_bk
    at = out + rows[:, None].to(tl.int64) * stride_om + columns[None, :] * stride_on
    inside_out = (rows < m)[:, None] & (columns < n)[None, :]
    tl.store(at, acc.to(out.dtype.element_ty), mask=inside_out)
