"""Programs without a multiply, as their schedule is chosen: vectors straight from global memory,
rows read once, sizes drawn by lot, against float64 on both targets.
"""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import ptxas

BF16 = ml_dtypes.bfloat16
ARCHS = ("sm_80", "sm_90a")
DRAW = np.random.default_rng(19)


@cute.kernel
def swiglu(X, Y, Z, *, tile=(4, 1024)):
    i, j = cute.tile_index(Z, tile)
    x, y, z = (cute.local_tile(each, tile, (i, j)) for each in (X, Y, Z))
    cute.copy((cute.silu(x.to(cute.f32)) * y.to(cute.f32)).to(Z.dtype), z)


@cute.kernel
def softmax(X, Y, *, tile=(4, 1024)):
    i, _ = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    x = cute.where(cute.coord(x, 1) < X.shape[1], x, -cute.inf)
    e = cute.exp(x - cute.row_max(x))
    cute.copy((e / cute.row_sum(e)).to(Y.dtype), cute.local_tile(Y, tile, (i, 0)))


@cute.kernel
def layer_norm(X, G, B, Y, eps, *, tile=(4, 1024)):
    i, _ = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    d = cute.where(cute.coord(x, 1) < X.shape[1], x - cute.row_sum(x) / X.shape[1], 0.0)
    r = cute.rsqrt(cute.row_sum(d * d) / X.shape[1] + eps)
    g, b = (cute.row_vector(v, 0, tile[1]).to(cute.f32) for v in (G, B))
    cute.copy((d * r * g + b).to(Y.dtype), cute.local_tile(Y, tile, (i, 0)))


@cute.kernel
def column_sums(X, S, *, tile=(16, 256)):
    j, _ = cute.tile_index(S, (tile[1], 1))
    x = cute.local_tile(X, tile, (None, j))
    total = cute.zeros((1, tile[1]))
    for i in cute.range(x.tiles):
        total.assign(total + cute.column_sum(x[i].to(cute.f32)))
    cute.copy(total.T, cute.local_tile(S, (tile[1], 1), (j, 0)))


@cute.kernel
def turned_sum(X, Z, Y, *, tile=(32, 64)):
    """Y = X transposed + Z: Z is contiguous where Y is."""
    rows, columns = tile
    i, j = cute.tile_index(X, tile)
    x = cute.load(cute.local_tile(X, tile, (i, j)))
    z = cute.load(cute.local_tile(Z, (columns, rows), (j, i)))
    cute.copy(x.T + z, cute.local_tile(Y, (columns, rows), (j, i)))


def random(shape, dtype, pad=0):
    """Random numbers, perhaps with rows that lie apart in memory."""
    whole = DRAW.standard_normal((*shape[:-1], shape[-1] + pad)).astype(dtype)
    return whole[..., : shape[-1]]


def run(program, arch, *args, **options):
    kernel = cute.compile(program, *args, arch=arch, backend="emulator", **options)
    kernel.launch(*args)
    return kernel


def error(found, exact):
    return np.abs(found.astype(np.float64) - exact).max() / np.abs(exact).max()


def normalized(x, g, b):
    d = x - x.mean(1, keepdims=True)
    return d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * g + b


def probabilities(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def draws(count):
    """Shapes, tiles and paddings of rows, whole and ragged, aligned and not."""
    found = []
    for _ in range(count):
        tile = int(2 ** DRAW.integers(0, 4)), int(2 ** DRAW.integers(4, 11))
        shape = int(DRAW.integers(1, 20)), int(DRAW.integers(1, tile[1] + 1))
        if DRAW.integers(2):
            shape = shape[0], -(-shape[1] // 8) * 8
        found.append((shape, tile, int(DRAW.choice([0, 0, 1, 8]))))
    return found


@pytest.mark.some(3)
@pytest.mark.parametrize(("shape", "tile", "pad"), draws(6))
def test_rows_by_lot(shape, tile, pad):
    dtype = DRAW.choice([np.float16, np.float32, BF16])
    bound = 5e-6 if dtype == np.float32 else 2e-3 if dtype == np.float16 else 1e-2
    arch = DRAW.choice(ARCHS)
    x, y = random(shape, dtype, pad), np.full(shape, np.nan, dtype)
    wide = x.astype(np.float64)
    run(softmax, arch, x, y, tile=tile)
    assert error(y, probabilities(wide)) < bound
    g, b = random((2, shape[1]), dtype)
    run(layer_norm, arch, x, g, b, y, 1e-5, tile=tile)
    exact = normalized(wide, g.astype(np.float64), b.astype(np.float64))
    assert error(y, exact) < 4 * bound
    other = random(shape, dtype)
    run(swiglu, arch, x, other, y, tile=tile)
    assert error(y, wide / (1 + np.exp(-wide)) * other.astype(np.float64)) < bound


@pytest.mark.some(6)
@pytest.mark.parametrize("warps", [None, (1, 4), (4, 2)])
@pytest.mark.parametrize("dtype", [BF16, np.float32, np.int8, np.float64])
def test_transposed_tiles_beside_others(dtype, warps):
    shape = int(DRAW.integers(1, 100)), int(DRAW.integers(1, 140))
    if DRAW.integers(2):
        shape = 72, 144
    x, z = (DRAW.integers(-30, 30, each).astype(dtype) for each in (shape, shape[::-1]))
    y = np.zeros(shape[::-1], dtype)
    schedule = None if warps is None else cute.Schedule(warps=warps)
    run(turned_sum, "sm_90a", x, z, y, schedule=schedule)
    assert np.array_equal(y, x.T + z)


@pytest.mark.parametrize("arch", ARCHS)
def test_sums_of_columns(arch):
    x, s = random((70, 300), np.float32), np.zeros((300, 1), np.float32)
    run(column_sums, arch, x, s)
    assert error(s[:, 0], x.astype(np.float64).sum(0)) < 1e-6


def loads_of(ptx):
    return re.findall(r"^\t(?:@%p\d+ )?ld\.global\.(\S+)", ptx, re.MULTILINE)


def bf16(*shape):
    return cute.TensorSpec(shape, cute.bf16)


def test_a_row_is_read_once_and_in_vectors():
    """One load for each vector of the row, and of the scale and the bias where they are used."""
    rows, vector = bf16(None, None), bf16(None)
    kernel = cute.compile(
        layer_norm, rows, vector, vector, rows, 1e-5, arch="sm_90a", tile=(1, 8192)
    )
    text = kernel.stages["cute-partition"]
    assert text.count("cute.load %X") == 1
    assert "alloc_smem" not in text
    # Straight code for whole tiles: 4 vectors of each of 3 tensors; the same at an edge in vectors.
    assert loads_of(kernel.ptx).count("v4.b32") == 2 * 12
    schedule = cute.Schedule.parse(kernel.schedule)
    assert (schedule.roles, schedule.warps, schedule.ctas) == ("uniform", (1, 8), 4)
    assert "div.full.f32" in kernel.ptx
    assert "div.rn" not in kernel.ptx


@pytest.mark.skipif(not ptxas.candidates(), reason="needs ptxas")
def test_long_rows_fit_the_registers():
    rows, vector = bf16(None, None), bf16(None)
    kernel = cute.compile(
        layer_norm, rows, vector, vector, rows, 1e-5, arch="sm_90a", tile=(1, 8192)
    )
    assert kernel.resources.spills == 0
    assert kernel.resources.registers <= 64
    kernel = cute.compile(softmax, rows, rows, arch="sm_90a", tile=(1, 32768))
    assert kernel.resources.spills == 0


@pytest.mark.skipif(not ptxas.candidates(), reason="needs ptxas")
def test_fewer_ctas_where_registers_would_spill():
    rows = bf16(None, None)
    options = {"arch": "sm_90a", "tile": (1, 8192)}
    kernel = cute.compile(softmax, rows, rows, schedule="warps = (1,8), ctas = 8", **options)
    assert ".minnctapersm 8" in kernel.ptx
    assert kernel.resources.spills == 0
    assert 32 < kernel.resources.registers <= 64


def test_work_items_follow_each_other_along_the_rows_that_they_store():
    @cute.kernel
    def transpose(X, Y, *, tile=(64, 64)):
        i, j = cute.tile_index(X, tile)
        x = cute.load(cute.local_tile(X, tile, (i, j)))
        cute.copy(x.T, cute.local_tile(Y, tile, (j, i)))

    @cute.kernel
    def by_its_rows(X, Y, *, tile=(64, 64)):
        j, i = cute.tile_index(Y, tile)
        x = cute.load(cute.local_tile(X, tile, (i, j)))
        cute.copy(x.T, cute.local_tile(Y, tile, (j, i)))

    @cute.kernel
    def copied_to_columns(X, Y, *, tile=(64, 64)):
        at = cute.tile_index(X, tile)
        cute.copy(cute.load(cute.local_tile(X, tile, at)), cute.local_tile(Y, tile, at))

    rows, columns = bf16(None, None), cute.TensorSpec((None, None), cute.bf16, (1, None))
    odd = cute.TensorSpec((None, None), cute.bf16, align=2)
    for program, args, order in (
        (transpose, (rows, rows), "tall"),
        (transpose, (odd, odd), "short"),
        (turned_sum, (rows, rows, rows), "tall"),
        (by_its_rows, (rows, rows), ""),
        (copied_to_columns, (odd, columns), "short"),
        (copied_to_columns, (columns, rows), ""),
        (softmax, (rows, rows), ""),
        (swiglu, (rows, rows, rows), ""),
    ):
        schedule = str(cute.compile(program, *args, arch="sm_90a").schedule)
        assert ("order" not in schedule) if not order else (f"order = {order}" in schedule)


def test_the_second_kernel_of_a_host_program_starts_early():
    @cute.kernel
    def doubled(X, Y, *, tile=(4, 256)):
        at = cute.tile_index(X, tile)
        x = cute.load(cute.local_tile(X, tile, at))
        cute.copy(x + x, cute.local_tile(Y, tile, at))

    @cute.host
    def twice(X, Y, *, tile=(4, 256)):
        between = cute.workspace((X.dim(0), X.dim(1)), cute.bf16)
        cute.launch(doubled, X, between, tile=tile)
        cute.launch(doubled, between, Y, tile=tile)

    x = DRAW.integers(-3, 4, (9, 300)).astype(BF16)
    for arch in ARCHS:
        y = np.zeros_like(x)
        kernel = run(twice, arch, x, y)
        assert np.array_equal(y, x * BF16(4))
        first, second = kernel.ptx.split(".visible .entry")[1:]
        assert "griddepcontrol" not in first
        assert ("griddepcontrol.wait" in second) == (arch == "sm_90a")


def test_transposes_need_no_shared_memory():
    @cute.kernel
    def transpose(X, Y, *, tile=(64, 64)):
        i, j = cute.tile_index(X, tile)
        x = cute.load(cute.local_tile(X, tile, (i, j)))
        cute.copy(x.T, cute.local_tile(Y, tile, (j, i)))

    for arch in ARCHS:
        kernel = cute.compile(transpose, bf16(None, None), bf16(None, None), arch=arch)
        assert "shared" not in kernel.ptx
        assert kernel.ptx.count("st.global.v4.b32") == 2 * 8
        assert kernel.ptx.count("prmt.b32") == 32


@cute.kernel
def loads_late(X, Y, Z, *, tile=(1, 512)):
    i, _ = cute.tile_index(Z, tile)
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    s = cute.row_sum(x)
    y = cute.local_tile(Y, tile, (i, 0)).to(cute.f32)
    again = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    cute.copy((again + y * s).to(Z.dtype), cute.local_tile(Z, tile, (i, 0)))


def test_loads_come_first_and_once():
    x, y = random((3, 512), np.float32), random((3, 512), np.float32)
    z = np.empty_like(x)
    kernel = run(loads_late, "sm_80", x, y, z)
    text = kernel.stages["cute-partition"]
    assert text.count("cute.load") == 2
    assert text.rindex("cute.load") < text.index("cute.reduce")
    wide = x.astype(np.float64)
    assert error(z, wide + y * wide.sum(1, keepdims=True)) < 1e-6


@cute.kernel
def in_place(X, *, tile=(1, 512)):
    """What is stored is loaded again: that load stays behind the store."""
    i, _ = cute.tile_index(X, tile)
    x = cute.local_tile(X, tile, (i, 0))
    cute.copy(cute.load(x) * 2.0, x)
    again = cute.load(x)
    cute.copy(again + cute.row_sum(again), x)


def test_loads_of_what_is_written_stay():
    x = DRAW.integers(-8, 8, (3, 512)).astype(np.float32)
    doubled = 2 * x
    run(in_place, "sm_80", x)
    assert np.array_equal(x, doubled + doubled.sum(1, keepdims=True))


@pytest.mark.parametrize(("rows", "turned"), [(128, False), (132, True), (130, True)])
def test_only_whole_vectors_are_turned_in_registers(rows, turned):
    """Rows of the result that are aligned to less than 16 bytes share sectors with their neighbors,
    and want longer stores than a few lanes make.
    """
    kernel = cute.compile(
        turned_sum,
        cute.TensorSpec((rows, 128), "f16"),
        *[cute.TensorSpec((128, rows), "f16", align=min(16, rows * 2 & -(rows * 2)))] * 2,
        arch="sm_90a",
    )
    assert ("st.shared" in kernel.ptx) == turned


def test_bytes_move_with_the_elements_of_wider_types():
    """Rows of 8-bit floats aligned to 8 bytes: as many elements at once as of 16-bit ones in 16."""

    @cute.kernel
    def quantize(X, Y, *, tile):
        i, _ = cute.tile_index(Y, tile)
        x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
        y = x / cute.row_max(cute.abs(x))
        cute.copy(y.to(Y.dtype), cute.local_tile(Y, tile, (i, 0)))

    kernel = cute.compile(
        quantize,
        cute.TensorSpec((40, 1112), BF16),
        cute.TensorSpec((40, 1112), ml_dtypes.float8_e4m3fn, align=8),
        tile=(3, 1112),
        arch="sm_90a",
    )
    assert "ld.global.v4.b32" in kernel.ptx
    assert "st.global.v2.b32" in kernel.ptx
    # 32 lanes with 5 vectors of 8 elements, not 64 with 5 of 4.
    assert "warps = (3,1)" in str(kernel.schedule)
