"""Chains of more than two multiplies, and what follows the last one, overlap with the next trip."""

import re

import numpy as np
import pytest

import cutedialect as cute


@cute.kernel
def three(Q, K, V, W, Y, *, tile=(64, 64)):
    """Y = sum over blocks of relu(exp(Q K^T) V) W."""
    bq, bk = tile
    i, _ = cute.tile_index(Y, (bq, None))
    q = cute.local_tile(Q, (bq, 64), (i, 0))
    k, v, w = (cute.local_tile(X, (bk, 64), (None, 0)) for X in (K, V, W))
    o = cute.zeros((bq, 64), cute.f32)
    for j in cute.range(k.tiles):
        s = cute.zeros((bq, bk), cute.f32)
        cute.gemm(q, k[j].T, s)
        t = cute.zeros((bq, 64), cute.f32)
        cute.gemm(cute.exp(s * 0.1).to(V.dtype), v[j], t)
        cute.gemm((cute.relu(t) * 0.01).to(W.dtype), w[j], o)
    cute.copy(o, cute.local_tile(Y, (bq, 64), (i, 0)))


@cute.kernel
def decayed(Q, K, V, G, Y, *, tile=(64, 64)):
    """A running state that decays behind each block, by a factor of its own for every row."""
    bq, bk = tile
    i, _ = cute.tile_index(Y, (bq, None))
    q = cute.local_tile(Q, (bq, 64), (i, 0))
    k, v = (cute.local_tile(X, (bk, 64), (None, 0)) for X in (K, V))
    g = cute.load(cute.local_tile(G, (bq,), (i,)))
    o = cute.zeros((bq, 64), cute.f32)
    for j in cute.range(k.tiles):
        s = cute.zeros((bq, bk), cute.f32)
        cute.gemm(q, k[j].T, s)
        largest = cute.row_max(s)
        cute.gemm(cute.exp(s * 0.1).to(V.dtype), v[j], o)
        o.assign(o * cute.where(largest > 0.0, g, 1.0))
    cute.copy(o, cute.local_tile(Y, (bq, 64), (i, 0)))


def operands(trips, count):
    rng = np.random.default_rng(trips)
    shapes = [(100, 64)] + [(64 * trips, 64)] * count
    return [(rng.standard_normal(shape) * 0.5).astype(np.float16) for shape in shapes]


def order(kernel):
    """What the computing role does, in order."""
    text = kernel.stages["cute-overlap"].split('role "main"')[1]
    return re.findall(r"wgmma_wait \{pending = \d|cute\.gemm|math\.exp2|scf\.for", text)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_three_multiplies(arch, trips):
    q, k, v, w = operands(trips, 3)
    o = np.full((100, 64), np.nan, np.float32)
    three(q, k, v, w, o, arch=arch, backend="emulator")
    expected = np.zeros((100, 64))
    for j in range(trips):
        part = slice(64 * j, 64 * j + 64)
        p = np.exp(q.astype(np.float64) @ k[part].T * 0.1)
        expected += np.maximum(p @ v[part], 0) * 0.01 @ w[part].astype(np.float64)
    assert np.abs(o - expected).max() <= 2e-3 * max(1, np.abs(expected).max())


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_a_decay_behind_the_last_multiply(arch, trips):
    q, k, v = operands(trips, 2)
    g = np.random.default_rng(9).uniform(0.5, 1, 100).astype(np.float32)
    o = np.full((100, 64), np.nan, np.float32)
    decayed(q, k, v, g, o, arch=arch, backend="emulator")
    expected = np.zeros((100, 64))
    for j in range(trips):
        part = slice(64 * j, 64 * j + 64)
        s = q.astype(np.float64) @ k[part].T
        expected += np.exp(s * 0.1) @ v[part]
        expected *= np.where(s.max(1) > 0, g, 1)[:, None]
    assert np.abs(o - expected).max() <= 2e-3 * max(1, np.abs(expected).max())


def test_the_last_multiply_works_beside_the_next_trip():
    specs = [cute.TensorSpec((None, 64), cute.f16)] * 4
    out, rows = cute.TensorSpec((None, 64), cute.f32), cute.TensorSpec((None,), cute.f32)
    for kernel, args in ((three, (*specs, out)), (decayed, (*specs[:3], rows, out))):
        found = cute.compile(kernel, *args, arch="sm_90a")
        assert not [each for each in found.remarks if "overlapped" in each.message]
        trip = order(found)[-12:]
        issued = trip.index("wgmma_wait {pending = 1")
        assert trip[issued - 2 : issued] == ["cute.gemm"] * 2
        assert found.resources.spills == 0
