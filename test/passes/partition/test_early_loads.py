"""How many loads of a program without a multiply come before its arithmetic."""

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

BF16 = ml_dtypes.bfloat16


@cute.kernel
def scaled_heads(X, S, Y, *, heads, tile=(16, 64)):
    """One work item turns all heads of some rows, one after the other."""
    i, _ = cute.tile_index(S, tile)
    s = cute.local_tile(S, tile, (i, 0)).to(cute.f32)
    for head in range(heads):
        x = cute.local_tile(X, tile, (head, i, 0)).to(cute.f32)
        cute.copy((x * s).to(Y.dtype), cute.local_tile(Y, tile, (head, i, 0)))


@pytest.mark.some(1)
@pytest.mark.parametrize(("heads", "ahead"), [(4, 5), (64, 18)])
def test_as_many_as_keep_memory_busy(heads, ahead):
    """Of 256 threads each has two registers of a head: 32 of them beside the first two loads, which
    stand there.
    """
    x = np.zeros((heads, 32, 64), BF16)
    s = np.zeros((32, 64), np.float32)
    kernel = cute.compile(scaled_heads, x, s, x.copy(), heads=heads, arch="sm_90a")
    body = str(kernel.stages["cute-partition"])
    assert body[: body.index("cute.map")].count("cute.load ") == ahead
