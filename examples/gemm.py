"""An fp16 matrix multiply with bias, from Python to numbers, with every stage on disk.

Runs on the GPU when there is one, else in the emulator. Writes the IR after each pass to
`build/demo/NN-pass.mlir` and the PTX to `build/demo/kernel.ptx`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import cutedialect as cute

M, N, K = 256, 192, 160


@cute.kernel
def gemm_bias(A, B, C, bias, *, tile=(128, 64, 32)):
    """C = A B + bias; every tile of C is one work item."""
    bm, bn, bk = tile
    m, n = cute.tile_index(C, (bm, bn))
    gA, gB = cute.local_tile(A, (bm, bk), (m, None)), cute.local_tile(B, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn), cute.f32)
    for k in cute.range(gA.tiles):
        cute.gemm(gA[k], gB[k], acc)
    out = acc + cute.row_vector(bias, n, bn)
    cute.copy(out.to(C.dtype), cute.local_tile(C, (bm, bn), (m, n)))


def show_stages(kernel, folder: Path) -> None:
    """Write the IR after each pass and the PTX, and show a line of each."""
    for path in cute.dump(kernel, folder):
        lines = path.read_text().splitlines()
        marks = ("cute.gemm ", "ptx.mma ", "mma.sync")
        chosen = next((line for line in lines if any(mark in line for mark in marks)), lines[0])
        print(f"  {path.name:30} {len(lines):4} lines   {' '.join(chosen.split())[:68]}")


def main() -> int:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((M, K)).astype(np.float16)
    B = rng.standard_normal((K, N)).astype(np.float16)
    bias = rng.standard_normal(N).astype(np.float16)
    C = np.empty((M, N), np.float16)

    kernel = cute.compile(gemm_bias, A, B, C, bias)
    folder = Path("build/demo")
    print(f"gemm_bias, {M} x {N} x {K}, fp16, for {kernel.arch}:")
    show_stages(kernel, folder)

    kernel.launch(A, B, C, bias)
    exact = A.astype(np.float64) @ B.astype(np.float64) + bias.astype(np.float64)
    error = np.abs(C.astype(np.float64) - exact).max()
    # One rounding of the result to fp16, and that of the f32 accumulation before it.
    bound = 2 * np.abs(exact.astype(np.float16).astype(np.float64) - exact).max() + 1e-3
    print(f"  ran on {kernel.where}; stages and PTX are in {folder}/")
    print(f"  largest error against float64: {error:.2e} (bound {bound:.2e})")
    return 0 if error <= bound else 1


if __name__ == "__main__":
    sys.exit(main())
