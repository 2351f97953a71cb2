"""A kernel written in the ptx dialect by hand, assembled and run on the emulator: two stages of
cp.async, ldmatrix, mma, an unrolled epilogue and predicated stores.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cutedialect.backend.emulator import launch

SOURCE = Path(__file__).with_name("pipelined_gemm.mlir")


@pytest.mark.some(11)
@pytest.mark.parametrize("k", [0, 8, 16, 24, 32, 48, 80])
@pytest.mark.parametrize("m", [16, 11, 1])
def test_gemm_agrees_with_numpy(m, k, parse, assembled):
    rng = np.random.default_rng(k + m)
    a = rng.integers(-4, 5, (m, k)).astype(np.float16)
    b = rng.integers(-4, 5, (8, k)).astype(np.float16)
    c = np.full((m, 8), -7, np.float32)
    ptx = assembled(parse(SOURCE.read_text()))
    buffers = [x if x.size else np.zeros(8, np.float16) for x in (a, b)]
    args = [*buffers, c, np.int32(m), np.int32(k), np.float32(0.5)]
    launch(ptx, "gemm", 1, 32, args, dynamic_smem=1536)
    expected = np.maximum(a.astype(np.float32) @ b.astype(np.float32).T * np.float32(0.5), 0)
    np.testing.assert_array_equal(c, expected)


def test_origins_are_comments(parse, assembled):
    lines = assembled(parse(SOURCE.read_text())).split("\n")
    [mma] = [line for line in lines if line.startswith("\tmma.")]
    assert mma.endswith("// ir: ptx.mma")
