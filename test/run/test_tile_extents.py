"""Programs without a multiply with tiles of any extents: odd, too large for the registers, of three
modes, of rows that lie apart, against float64 on several targets; and that none of them spills.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import ptxas

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
ARCHS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")
DRAW = np.random.default_rng(1919)


@cute.kernel
def spread(X, Y, P, *, tile=(4, 1024)):
    """Y = X less the mean of its row, in ranges of each row; P is the number of each element."""
    i, _ = cute.tile_index(Y, tile)
    width = X.shape[1]
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    mean = cute.row_sum(x) / width
    d = cute.where(cute.coord(x, 1) < width, x - mean, -cute.inf)
    least = cute.reduce(cute.where(cute.coord(x, 1) < width, x, cute.inf), 1, "min")
    cute.copy((d / (cute.row_max(d) + mean - least)).to(Y.dtype), cute.local_tile(Y, tile, (i, 0)))
    number = cute.coord(x, 0, i * tile[0]) * width + cute.coord(x, 1)
    cute.copy(number, cute.local_tile(P, tile, (i, 0)))


@cute.kernel
def numbered(X, Y, *, tile=(512, 512)):
    at = cute.tile_index(Y, tile)
    x = cute.load(cute.local_tile(X, tile, at))
    row, column = (cute.coord(x, mode, at[mode] * tile[mode]) for mode in (0, 1))
    cute.copy(x + row * 1000 + column, cute.local_tile(Y, tile, at))


@cute.kernel
def sums_of_tiles(X, S, *, tile=(30, 50)):
    """S[i, j] is the sum of a tile and, of its largest of each column, the smallest."""
    i, j = cute.tile_index(S, (1, 1))
    x = cute.local_tile(X, tile, (i, j)).to(cute.f32)
    rows, columns = X.shape[0] - i * tile[0], X.shape[1] - j * tile[1]
    there = (cute.coord(x, 0) < rows) & (cute.coord(x, 1) < columns)
    total = cute.row_sum(cute.column_sum(x))
    top = cute.column_max(cute.where(there, x, -cute.inf))
    top = cute.where(cute.coord(top, 1) < columns, top, cute.inf)
    cute.copy(total + cute.reduce(top, 1, "min"), cute.local_tile(S, (1, 1), (i, j)))


@cute.kernel
def turned(X, Y, *, tile=(24, 40)):
    i, j = cute.tile_index(X, tile)
    x = cute.load(cute.local_tile(X, tile, (i, j)))
    cute.copy(x.T, cute.local_tile(Y, (tile[1], tile[0]), (j, i)))


@cute.kernel
def scaled(X, Y, S, *, tile=(3, 100)):
    """Of a tensor of three modes: Y = X * S along the last one."""
    b, i, j = cute.tile_index(Y, (1, *tile))
    x = cute.local_tile(X, tile, (b, i, j)).to(cute.f32)
    y = x * cute.row_vector(S, j, tile[1]).to(cute.f32)
    cute.copy(y.to(Y.dtype), cute.local_tile(Y, tile, (b, i, j)))


def run(program, arch, *args, **options):
    kernel = cute.compile(program, *args, arch=arch, backend="emulator", **options)
    kernel.launch(*args)
    return kernel


def random(shape, dtype, pad):
    whole = DRAW.standard_normal((*shape[:-1], shape[-1] + pad)).astype(dtype)
    return whole[..., : shape[-1]]


def draws(count):
    """(shape, tile, padding): any extents, some tiles too large for the registers."""
    found = [((9, 264), (4, 264), 0), ((5, 503), (1, 503), 1), ((70, 300), (64, 512), 4)]
    for _ in range(count):
        width = int(2 ** DRAW.uniform(3, 11))
        tile = int(2 ** DRAW.uniform(0, 6.5)), width + int(DRAW.integers(0, 9))
        shape = int(DRAW.integers(1, 2 * tile[0] + 2)), int(DRAW.integers(1, width + 1))
        found.append((shape, tile, int(DRAW.choice([0, 1, 4, 8]))))
    return found


@pytest.mark.some(5)
@pytest.mark.parametrize(("shape", "tile", "pad"), draws(7))
def test_rows_in_tiles_of_any_extents(shape, tile, pad):
    dtype = DRAW.choice([np.float16, np.float32, BF16])
    arch = str(DRAW.choice(ARCHS))
    x, y = random(shape, dtype, pad), np.full(shape, np.nan, dtype)
    p = np.full(shape, -1, np.int32)
    run(spread, arch, x, y, p, tile=tile)
    wide = x.astype(np.float64)
    d = wide - wide.mean(1, keepdims=True)
    width = wide.max(1, keepdims=True) - wide.min(1, keepdims=True)
    exact = d / np.where(width == 0, np.nan, width)
    bound = 2e-6 if dtype == np.float32 else 2e-3 if dtype == np.float16 else 1e-2
    assert np.nanmax(np.abs(y.astype(np.float64) - exact), initial=0) < bound
    assert np.array_equal(p, np.arange(x.size).reshape(shape))


@pytest.mark.parametrize("tile", [(512, 512), (300, 700), (1024, 40), (7, 64), (3, 1000)])
def test_coordinates_count_as_the_program_says(tile):
    shape = int(DRAW.integers(1, 400)), int(DRAW.integers(1, 800))
    x, y = DRAW.integers(0, 9, shape).astype(np.int32), np.zeros(shape, np.int32)
    run(numbered, str(DRAW.choice(ARCHS)), x, y, tile=tile)
    assert np.array_equal(y, x + 1000 * np.arange(shape[0])[:, None] + np.arange(shape[1]))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_tiles_beside_each_other_do_not_mix(arch):
    """Sums along both modes of tiles whose padding lies where the next tile is."""
    shape = 71, 130
    x, s = random(shape, np.float32, 0), np.zeros((3, 3), np.float32)
    run(sums_of_tiles, arch, x, s)
    for i in range(3):
        for j in range(3):
            part = x[30 * i : 30 * i + 30, 50 * j : 50 * j + 50].astype(np.float64)
            assert abs(s[i, j] - (part.sum() + part.max(0).min())) < 1e-4


@pytest.mark.parametrize("dtype", [BF16, np.float32, np.int8])
@pytest.mark.parametrize("tile", [(24, 40), (100, 100), (64, 33)])
def test_transposes_of_any_extents(dtype, tile):
    shape = int(DRAW.integers(1, 150)), int(DRAW.integers(1, 150))
    x, y = DRAW.integers(-50, 50, shape).astype(dtype), np.zeros(shape[::-1], dtype)
    run(turned, str(DRAW.choice(ARCHS)), x, y, tile=tile)
    assert np.array_equal(y, x.T)


@pytest.mark.parametrize("dtype", [np.float16, E4M3])
def test_tensors_of_three_modes(dtype):
    arch = str(DRAW.choice(ARCHS[1:]))
    x, s = random((3, 7, 250), dtype, 6), random((250,), np.float32, 0)
    y = np.zeros((3, 7, 250), np.float32)
    run(scaled, arch, x, y, s)
    assert np.array_equal(y, x.astype(np.float32) * s)


@pytest.mark.long
@pytest.mark.skipif(not ptxas.candidates(), reason="needs ptxas")
def test_no_tile_spills():
    rows, numbers = (
        cute.TensorSpec((None, None), cute.bf16),
        cute.TensorSpec((None, None), cute.i32),
    )
    for tile in ((4, 264), (1, 5003), (64, 1024), (8, 8192), (33, 61)):
        for align in (16, 2):
            spec = cute.TensorSpec((None, None), cute.bf16, align=align)
            kernel = cute.compile(spread, spec, rows, numbers, arch="sm_90a", tile=tile)
            assert kernel.resources.spills == 0, (tile, align)
    for tile in ((512, 512), (300, 700)):
        kernel = cute.compile(numbered, numbers, numbers, arch="sm_90a", tile=tile)
        assert kernel.resources.spills == 0, tile


def test_a_cut_tile_is_remarked():
    numbers = cute.TensorSpec((None, None), cute.i32)
    kernel = cute.compile(numbered, numbers, numbers, arch="sm_80", tile=(512, 512))
    said = [remark.message for remark in kernel.remarks]
    assert any(
        "8 work items share each, of 64 along mode 0 instead of 512" in each for each in said
    )


@cute.kernel
def two_widths(X, Y, A, B, *, extents=(264, 320)):
    """Sums of the rows of two tensors, each in tiles of its own extent."""
    i = cute.tile_index(A, (4,))
    x, y = (
        cute.load(cute.local_tile(each, (4, extent), (i, 0)))
        for each, extent in zip((X, Y), extents, strict=True)
    )
    cute.copy(cute.row_sum(x), cute.local_tile(A, (4,), (i,)))
    cute.copy(cute.row_sum(y), cute.local_tile(B, (4,), (i,)))


PAIRS = np.random.default_rng(264).integers(3, 400, (6, 2)).tolist()


@pytest.mark.parametrize("extents", [(264, 320), (264, 300), (5, 8), *map(tuple, PAIRS)])
def test_tiles_of_two_extents_do_not_mix(extents):
    """One is padded to what the other has, or both to the same."""
    rng = np.random.default_rng(extents)
    x, y = (rng.integers(-3, 4, (9, extent)).astype(np.float32) for extent in extents)
    a, b = np.zeros((2, 9), np.float32)
    two_widths(x, y, a, b, extents=extents, arch="sm_90a", backend="emulator")
    np.testing.assert_array_equal(a, x.sum(1))
    np.testing.assert_array_equal(b, y.sum(1))
