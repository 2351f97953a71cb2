"""A user's program, for pyright in strict mode against the installed package: what stands here has
the types that it asserts, and every line with an ignored error is one.
"""

from collections.abc import Sequence
from typing import Any, assert_type

import numpy as np

import cutedialect as cute
from cutedialect import atoms
from cutedialect.layout import Layout


@cute.kernel(spills="refuse")
def product(
    A: cute.Tensor,
    B: cute.Tensor,
    C: cute.Tensor,
    bias: cute.Tensor | None,
    scale: cute.Scalar,
    *,
    tile: tuple[int, int, int] = (64, 64, 32),
) -> None:
    bm, bn, bk = tile
    m, n = cute.tile_index(C, (bm, bn))
    assert_type(m, cute.Scalar)
    gA = cute.local_tile(A, (bm, bk), (m, None))
    assert_type(gA, cute.Views)
    gB = cute.local_tile(B, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn), cute.f32)
    for k in cute.range(gA.tiles):
        assert_type(k, cute.Scalar)
        assert_type(cute.gemm(gA[k], gB[k], acc), None)
    if bias is not None:
        acc += cute.row_vector(bias, n, bn)
    with cute.when(m < 1):
        acc.assign(cute.maximum(acc, 0.0))
    into = cute.local_tile(C, (bm, bn), (m, n))
    assert_type(into, cute.View)
    result = cute.where(acc > 0, cute.exp(acc) * scale, acc)
    assert_type(result, cute.Tile)
    assert_type(cute.exp(1.0), float)
    cute.copy(result.to(C.dtype), into)


def compiled(target: cute.Arch, shapes: Sequence[int]) -> cute.Kernel:
    spec = cute.TensorSpec(tuple(shapes), cute.f16)
    schedule = cute.Schedule(roles="uniform", warps=(2, 2), stages=3)
    kernel = cute.compile(product, spec, spec, spec, None, 1.0, arch=target, schedule=schedule)
    assert_type(kernel, cute.Kernel)
    assert_type(kernel.ptx, str)
    assert_type(kernel.remarks, tuple[cute.Remark, ...])
    assert_type(kernel.reports, tuple[cute.Report, ...])
    return kernel


def calls(a: np.ndarray[Any, np.dtype[np.float16]]) -> None:
    cute.gemm(a, a.T, activation="gelu", backend="emulator", schedule="stages = 3")
    cute.attention(a, a, a, causal=True, window=(128, 0))
    assert_type(cute.attention(a, a, a, return_lse=True), tuple[Any, Any])
    cute.gemm(a, a, activation="gela")  # pyright: ignore[reportArgumentType]
    cute.gemm(a, a, arch="sm90")  # pyright: ignore[reportArgumentType]
    cute.Schedule(scheduler="persist")  # pyright: ignore[reportArgumentType]
    cute.Schedule(stage=3)  # pyright: ignore[reportCallIssue]
    try:
        compiled("sm_90a", (128, 128))
    except cute.CompileError as error:
        assert_type(error.code, str)


assert_type(str(Layout((4, 8))), str)
assert_type(atoms.target("sm_80").name, str)

# Submodules are there without an import of their own, and a name that there is not is an error.
row_major: cute.layout.Layout = cute.layout.Layout((4, 8), (8, 1))
misspelled = cute.gem  # pyright: ignore
