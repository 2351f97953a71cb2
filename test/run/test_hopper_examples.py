"""The examples for sm_90a: one set of passes gives them TMA loads and stores and, where they
multiply, warpgroups. Each runs on ragged sizes, with asynchronous copies that complete late in
several orders, and assembles with nothing lost.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from math import erf
from pathlib import Path

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator
from cutedialect.backend.runtime import ptxas

EXAMPLES = Path(__file__).parents[2] / "examples"
LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global"
STORE = "cp.async.bulk.tensor.2d.global.shared::cta"
SEEDS = range(4)


def example(name):
    """The tile program of an example."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


SOFTMAX, TRANSPOSE = example("softmax"), example("transpose")
ROW_SUMS, GATED = example("gemm_gelu_row_sums"), example("gated_mlp")


def compiled(program, *args, **options):
    options.setdefault("arch", "sm_90a")
    return cute.compile(program, *args, backend="emulator", **options)


def check_assembly(kernel):
    if ptxas.candidates():
        assembly = ptxas.assemble(kernel.ptx, kernel.arch)
        assert [message for message in assembly.messages if message.is_loss] == []
        assert (assembly.spill_stores, assembly.spill_loads, assembly.stack) == (0, 0, 0)


@pytest.fixture(params=SEEDS)
def late(request, monkeypatch):
    """Asynchronous copies complete late, each time in another order."""
    monkeypatch.setattr(emulator, "launch", partial(emulator.launch, seed=request.param))


def halves(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def in_columns(array):
    """The same values, column-major."""
    return np.ascontiguousarray(array.T).T


# Softmax and transpose, no multiply: tiles stream through shared memory where a schedule says so

SPECIALIZED = {"schedule": "roles = specialized"}


def softmax(shape, **options):
    x = (4 * np.random.default_rng(0).standard_normal(shape)).astype(np.float32)
    y = np.full_like(x, np.nan)
    kernel = compiled(SOFTMAX, x, y, **options)
    kernel.launch(x, y)
    exact = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    assert np.abs(y - exact / exact.sum(1, keepdims=True)).max() < 1e-6
    return kernel


@pytest.mark.parametrize("shape", [(48, 384), (37, 300), (5, 4), (1, 1300), (200, 128)])
def test_softmax(shape):
    text = softmax(shape, **SPECIALIZED).ptx
    assert LOAD in text
    assert STORE in text


def test_softmax_when_copies_are_late(late):
    softmax((70, 516), **SPECIALIZED)


def test_transpose_when_copies_are_late(late):
    check_transpose((200, 132), np.float32, **SPECIALIZED)


def check_transpose(shape, dtype, **options):
    x = np.random.default_rng(1).integers(-100, 100, shape).astype(dtype)
    y = np.zeros(shape[::-1], dtype)
    kernel = compiled(TRANSPOSE, x, y, **options)
    kernel.launch(x, y)
    assert np.array_equal(y, x.T)
    return kernel


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.float64])
@pytest.mark.parametrize("shape", [(128, 192), (80, 144), (16, 16)])
def test_transpose(shape, dtype):
    text = check_transpose(shape, dtype, **SPECIALIZED).ptx
    assert LOAD in text
    assert STORE in text


@pytest.mark.some(5)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("shape", [(70, 133), (66, 132), (72, 66)])
def test_transpose_by_alignment(shape, dtype):
    """Rows of 4 and 8 bytes come by `cp.async`, less by plain loads; each side as it can."""
    text = check_transpose(shape, dtype, **SPECIALIZED).ptx
    rows, columns = (extent * np.dtype(dtype).itemsize for extent in shape)
    assert (LOAD in text) == (columns % 16 == 0)
    assert ("cp.async.ca" in text) == (columns % 16 != 0 and columns % 4 == 0)
    assert (STORE in text) == (rows % 16 == 0 and columns % 4 == 0)


@pytest.mark.some(6)
@pytest.mark.parametrize("columns", [301, 302, 1])
def test_softmax_by_alignment(columns, late):
    text = softmax((37, columns), **SPECIALIZED).ptx
    assert ("cp.async.ca" in text) == (columns > 1)


# A multiply with an epilogue that reduces


def row_sums(m, n, k):
    a, b, bias = halves((m, k), 1), halves((k, n), 2), halves((n,), 3)
    c, sums = np.empty((m, n), np.float16), np.zeros(m, np.float32)
    kernel = compiled(ROW_SUMS, a, b, c, bias, sums)
    kernel.launch(a, b, c, bias, sums)
    x = a.astype(np.float64) @ b.astype(np.float64) + bias.astype(np.float64)
    exact = 0.5 * x * (1 + np.vectorize(erf)(x / 2**0.5))
    assert np.abs(c - exact).max() < 1e-3 * np.abs(exact).max()
    assert np.abs(sums - exact.sum(1)).max() < 1e-5 * np.abs(exact.sum(1)).max()
    return kernel


@pytest.mark.parametrize("shape", [(128, 128, 64), (104, 88, 40), (5, 8, 8), (200, 72, 328)])
def test_gemm_gelu_row_sums(shape):
    text = row_sums(*shape).ptx
    assert LOAD in text
    assert STORE in text
    assert "wgmma.mma_async" in text


@pytest.mark.some(2)
def test_gemm_gelu_row_sums_when_copies_are_late(late):
    row_sums(200, 136, 104)


# Two multiplies with an operand in common


def gated(m, n, k, majors="N", **options):
    x = halves((m, k), 4)
    w1, w2 = (halves((k, n), seed) / np.float16(8) for seed in (5, 6))
    if majors == "N":
        w1, w2 = in_columns(w1), in_columns(w2)
    y = np.full((m, n), np.nan, np.float16)
    kernel = compiled(GATED, x, w1, w2, y, **options)
    kernel.launch(x, w1, w2, y)
    gate, up = (x.astype(np.float64) @ w.astype(np.float64) for w in (w1, w2))
    exact = gate / (1 + np.exp(-gate)) * up
    assert np.abs(y - exact).max(initial=0) <= 1e-3 * np.abs(exact).max(initial=0)
    return kernel


def test_gated_mlp_by_default():
    """One ring holds the three tiles of a step; nothing is lost on the way to machine code."""
    kernel = gated(200, 136, 200)
    made = cute.Schedule.parse(kernel.schedule)
    assert (made.roles, made.stages, made.warps) == ("specialized", 4, (8, 1))
    staged = kernel.stages["cute-synchronize"]
    assert staged.count("pipeline.create") == 1
    assert f"bytes = {3 * 128 * 64 * 2} : i32" in staged
    assert staged.count("tma_load") == 3
    assert STORE in kernel.ptx
    check_assembly(kernel)


@pytest.mark.some(4)
@pytest.mark.parametrize("majors", ["N", "T"])
@pytest.mark.parametrize("shape", [(128, 128, 64), (1, 8, 8), (72, 264, 136), (136, 8, 200)])
def test_gated_mlp_on_ragged_sizes(shape, majors):
    kernel = gated(*shape, majors=majors, tile=(64, 64, 32))
    assert LOAD in kernel.ptx
    assert STORE in kernel.ptx


@pytest.mark.some(3)
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("ragged", [0, 8])
def test_gated_mlp_trip_counts(stages, ragged):
    """Trips 0, 1, S-1, S, S+1, 2S+1 of a ring of S stages, whole and ragged in k."""
    for trips in sorted({0, 1, stages - 1, stages, stages + 1, 2 * stages + 1}):
        depth = max(0, 16 * trips - ragged)
        gated(72, 40, depth, tile=(64, 32, 16), schedule=f"stages = {stages}")


@pytest.mark.some(4)
@pytest.mark.parametrize("schedule", ["stages = 3", "stages = 2, cluster = (2,1)", "stages = 1"])
def test_gated_mlp_when_copies_are_late(schedule, late):
    gated(136, 72, 104, tile=(64, 64, 32), schedule=schedule)


@cute.kernel
def two_views(X, W, Y, *, tile=(64, 32, 16)):
    """Y = (X W) ** 2 in two multiplies, each of which names the tiles that it reads."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    x, w = cute.local_tile(X, (bm, bk), (m, None)), cute.local_tile(W, (bk, bn), (None, n))
    one, other = cute.zeros((bm, bn), cute.f32), cute.zeros((bm, bn), cute.f32)
    for k in cute.range(x.tiles):
        cute.gemm(x[k], w[k], one)
        cute.gemm(x[k], w[k], other)
    cute.copy((one * other).to(Y.dtype), cute.local_tile(Y, (bm, bn), (m, n)))


def test_tiles_named_twice_are_loaded_once():
    x, w, y = halves((72, 40), 1), halves((40, 40), 2), np.empty((72, 40), np.float16)
    kernel = compiled(two_views, x, w, y)
    kernel.launch(x, w, y)
    exact = (x.astype(np.float64) @ w.astype(np.float64)) ** 2
    assert np.abs(y - exact).max() <= 1e-3 * np.abs(exact).max()
    assert kernel.stages["cute-synchronize"].count("tma_load") == 2


def test_gated_mlp_for_warps():
    """The same program on sm_80: two accumulators leave a thread registers to work with."""
    check_assembly(gated(100, 70, 90, arch="sm_80"))


@pytest.mark.parametrize("options", [{}, SPECIALIZED], ids=["default", "specialized"])
@pytest.mark.parametrize("name", ["softmax", "transpose", "gemm_gelu_row_sums"])
def test_assembly(name, options):
    """Registers, stack and barriers as `ptxas` reports them show no loss."""
    if name == "softmax":
        kernel = softmax((16, 128), **options)
    elif name == "transpose":
        kernel = check_transpose((64, 64), np.float32, **options)
    else:
        kernel = row_sums(64, 64, 64)
    check_assembly(kernel)
