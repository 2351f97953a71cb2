"""Five multiplies of one trip, as attention's backward pass has: each with a grid of warps of its
own, operands from memory, from registers, and transposed from registers.
"""

import re

import numpy as np
import pytest

import cutedialect as cute
from benchmarks.chains import backward


def operands(queries, keys, dim):
    rng = np.random.default_rng(queries + keys + dim)
    q, g = ((rng.standard_normal((queries, dim)) * 0.3).astype(np.float16) for _ in range(2))
    k, v = ((rng.standard_normal((keys, dim)) * 0.3).astype(np.float16) for _ in range(2))
    s = q.astype(np.float64) @ k.T
    lse = np.log(np.exp(s).sum(1))
    p = np.exp(s - lse[:, None])
    d = (p @ v * g).sum(1)
    ds = p * (g.astype(np.float64) @ v.T - d[:, None])
    vectors = (lse.astype(np.float32), d.astype(np.float32))
    results = [np.zeros((rows, dim), np.float32) for rows in (queries, keys, keys)]
    return (q, k, v, g, *vectors, *results), (ds @ k, ds.T @ q, p.T @ g.astype(np.float64))


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("arch", "shape"),
    [
        ("sm_80", (64, 64, 64)),
        ("sm_90a", (64, 64, 64)),
        ("sm_90a", (64, 64, 128)),
        ("sm_90a", (64, 128, 128)),
        ("sm_90a", (128, 128, 64)),
    ],
)
def test_gradients_of_attention(arch, shape):
    bq, bk, dim = shape
    args, expected = operands(2 * bq + 5, bk + 3, dim)
    backward(*args, tile=shape, arch=arch, backend="emulator")
    for got, exact in zip(args[6:], expected, strict=True):
        assert np.abs(got - exact).max() <= 1e-3 * np.abs(exact).max()


def test_every_multiply_is_one_of_warpgroups_and_works_beside_another():
    args, _ = operands(128, 128, 128)
    kernel = cute.compile(
        backward, *args, tile=(64, 64, 128), arch="sm_90a", schedule="overlap = no"
    )
    text = kernel.stages["cute-synchronize"].split('role "main"')[1]
    multiplies = [line for line in text.splitlines() if "cute.gemm" in line]
    assert len(multiplies) == 5
    assert all("sm90.mma" in line for line in multiplies)
    lines = [line.strip().split(" ")[0] for line in text.splitlines()]
    second = [at for at, line in enumerate(lines) if line == "cute.gemm"][1]
    first_wait = lines.index("cute_nvgpu.wgmma_wait")
    assert first_wait > second


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("shape", "rows"),
    [((64, 64, 64), 0), ((64, 128, 128), 2), ((128, 128, 64), 2), ((128, 64, 64), 2)],
)
def test_rows_for_which_registers_lack_are_read_from_shared_memory(shape, rows):
    """LSE and D, of which each thread needs all that its columns have: they come with Q."""
    args, expected = operands(shape[0] + 3, 2 * shape[1], shape[2])
    kernel = cute.compile(backward, *args, tile=shape, arch="sm_90a", schedule="overlap = no")
    text = kernel.stages["cute-synchronize"]
    assert len(re.findall(r"cute\.load %\w+ .*<f32, smem", text)) == rows
    assert len(re.findall(r"pipeline\.create", text)) == 3
    assert kernel.resources.spills in (None, 0)
    kernel.launch(*args)
    for got, exact in zip(args[6:], expected, strict=True):
        assert np.abs(got - exact).max() <= 1e-3 * np.abs(exact).max()


def test_rows_that_tma_does_not_take_stay_in_registers():
    args, _ = operands(128, 128, 64)
    specs = [cute.TensorSpec(arg.shape, arg.dtype) for arg in args]
    specs[4] = cute.TensorSpec((None,), cute.f32, (2,))
    kernel = cute.compile(
        backward, *specs, tile=(128, 128, 64), arch="sm_90a", schedule="overlap = no"
    )
    assert len(re.findall(r"cute\.load %\w+ .*<f32, smem", kernel.stages["cute-synchronize"])) == 1


@pytest.mark.parametrize("turned", [False, True])
def test_b_from_registers_is_read_from_shared_memory(turned):
    """The product of a tile in memory and one computed in registers, in either direction."""

    @cute.kernel
    def chained(A, B, C, Y):
        m, n = cute.tile_index(Y, (64, 64))
        first = cute.zeros((64, 64), cute.f32)
        cute.gemm(cute.local_tile(A, (64, 32), (0, 0)), cute.local_tile(B, (32, 64), (0, n)), first)
        second = cute.zeros((64, 64), cute.f32)
        tile = cute.relu(first).to(A.dtype)
        cute.gemm(cute.local_tile(C, (64, 64), (m, 0)), tile.T if turned else tile, second)
        cute.copy(second, cute.local_tile(Y, (64, 64), (m, n)))

    rng = np.random.default_rng(turned)
    a, b = (rng.integers(-2, 3, shape).astype(np.float16) for shape in ((64, 32), (32, 64)))
    c = rng.integers(-2, 3, (100, 64)).astype(np.float16)
    y = np.zeros((100, 64), np.float32)
    chained(a, b, c, y, arch="sm_90a", backend="emulator")
    inner = np.maximum(a.astype(np.float64) @ b, 0)
    assert np.array_equal(y, c.astype(np.float64) @ (inner.T if turned else inner))
    kernel = cute.compile(chained, a, b, c, y, arch="sm_90a")
    assert "sm80.mma" not in kernel.stages["cute-synchronize"]


def test_a_first_multiply_of_few_rows_does_not_leave_one_warpgroup_with_too_many_sums():
    """Scores of 64 queries are the first multiply of a trip, sums of 128 keys live beside them."""

    @cute.kernel
    def by_queries(Q, K, V, G, DK, DV):
        bq, bk, dim = 64, 128, 128
        n, _ = cute.tile_index(DK, (bk, None))
        k, v = (cute.local_tile(X, (bk, dim), (n, 0)) for X in (K, V))
        q, g = (cute.local_tile(X, (bq, dim), (None, 0)) for X in (Q, G))
        dk, dv = cute.zeros((bk, dim)), cute.zeros((bk, dim))
        for j in cute.range(q.tiles):
            s, dp = cute.zeros((bq, bk)), cute.zeros((bq, bk))
            cute.gemm(q[j], k.T, s)
            cute.gemm(g[j], v.T, dp)
            p = cute.minimum(cute.maximum(s, -1), 1)
            cute.gemm(p.to(cute.f16).T, g[j], dv)
            ds = p * cute.minimum(cute.maximum(dp, -1), 1)
            cute.gemm(ds.to(cute.f16).T, q[j], dk)
        cute.copy(dk, cute.local_tile(DK, (bk, dim), (n, 0)))
        cute.copy(dv, cute.local_tile(DV, (bk, dim), (n, 0)))

    rng = np.random.default_rng(0)
    q, g, k, v = (rng.integers(-1, 2, (n, 128)).astype(np.float16) for n in (100, 100, 150, 150))
    results = [np.zeros((150, 128), np.float32) for _ in range(2)]
    kernel = cute.compile(by_queries, q, k, v, g, *results, arch="sm_90a")
    assert "warps = (8,1)" in kernel.schedule
    assert kernel.resources.spills in (None, 0)
    kernel.launch(q, k, v, g, *results)
    wide = [each.astype(np.float64) for each in (q, g, k, v)]
    p, dp = np.clip(wide[0] @ wide[2].T, -1, 1), np.clip(wide[1] @ wide[3].T, -1, 1)
    assert np.array_equal(results[0], (p * dp).T @ wide[0])
    assert np.array_equal(results[1], p.T @ wide[1])
