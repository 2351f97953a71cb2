"""Rows that lie a whole number of vectors apart and end within one: the elements of that vector go
one by one, in programs without a multiply, and what lies behind the rows stays as it was.
"""

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import ptxas

ARCHS = ("sm_80", "sm_90a")
DRAW = np.random.default_rng(1922)
TYPES = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "i8": np.int8,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
}


@cute.kernel
def added(X, Y, Z, *, tile):
    at = cute.tile_index(Z, tile)
    x, y = (cute.local_tile(v, tile, at).to(cute.f32) for v in (X, Y))
    cute.copy((x + y).to(Z.dtype), cute.local_tile(Z, tile, at))


@cute.kernel
def scaled_rows(X, G, Y, *, tile):
    i, _ = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    total = cute.row_sum(x)
    g = cute.row_vector(G, 0, tile[1]).to(cute.f32)
    cute.copy((x * g + total).to(Y.dtype), cute.local_tile(Y, tile, (i, 0)))


@cute.kernel
def turned(X, Y, *, tile):
    i, j = cute.tile_index(X, tile)
    x = cute.load(cute.local_tile(X, tile, (i, j)))
    cute.copy(x.T, cute.local_tile(Y, tile[::-1], (j, i)))


def rows(shape, dtype):
    """Rows of small integers, a multiple of 16 bytes apart, and the array that they are part of."""
    size = np.dtype(dtype).itemsize
    pitch = -(-shape[1] * size // 16) * 16 // size
    whole = np.zeros(shape[0] * pitch + 64, dtype)
    first = -whole.ctypes.data % 16 // size
    placed = whole[first : first + shape[0] * pitch].reshape(shape[0], pitch)
    placed[...] = DRAW.integers(-3, 4, placed.shape).astype(dtype)
    return placed[:, : shape[1]], whole


def widths(tile, size):
    """Widths of which the last vector of a row has some elements, and one of a single tile."""
    vector = 16 // size
    return int(DRAW.integers(1, vector)), 2 * tile + int(DRAW.integers(1, 3 * vector)), tile - 1


@pytest.mark.parametrize(
    ("arch", "name"),
    # 8-bit floats begin with sm_89.
    [(arch, name) for arch in ARCHS for name in TYPES if (arch, name) != ("sm_80", "e4m3")],
)
def test_elements_of_the_last_vector_go_one_by_one(arch, name):
    dtype = TYPES[name]
    for width in widths(256, np.dtype(dtype).itemsize):
        (x, _), (y, _), (z, whole) = (rows((9, width), dtype) for _ in range(3))
        wanted = whole.copy()
        kernel = cute.compile(added, x, y, z, tile=(4, 256), arch=arch, backend="emulator")
        kernel.launch(x, y, z)
        exact = (x.astype(np.float32) + y.astype(np.float32)).astype(dtype)
        assert np.array_equal(z, exact)
        z[...] = np.lib.stride_tricks.as_strided(
            wanted[(z.ctypes.data - whole.ctypes.data) // z.itemsize :], z.shape, z.strides
        )
        assert np.array_equal(whole, wanted)


@pytest.mark.parametrize("arch", ARCHS)
def test_rows_that_are_reduced_end_within_a_vector(arch):
    dtype = TYPES["bf16"]
    for width in (131, 264, 301):
        (x, _), (y, _) = (rows((5, width), dtype) for _ in range(2))
        g = rows((1, width), dtype)[0][0]
        scaled_rows(x, g, y, tile=(4, width + 3), arch=arch, backend="emulator")
        wide = x.astype(np.float32)
        exact = wide * g.astype(np.float32) + wide.sum(1, keepdims=True)
        assert np.array_equal(y, exact.astype(dtype))


@pytest.mark.parametrize("shape", [(131, 75), (75, 131), (64, 203)])
@pytest.mark.parametrize("name", ["bf16", "f32", "i8"])
def test_transposes_of_rows_that_end_within_a_vector(shape, name):
    (x, _), (y, _) = rows(shape, TYPES[name]), rows(shape[::-1], TYPES[name])
    turned(x, y, tile=(64, 32), arch="sm_90a", backend="emulator")
    assert np.array_equal(y, x.T)


@pytest.mark.skipif(not ptxas.candidates(), reason="needs ptxas")
@pytest.mark.parametrize("tile", [(256, 32), (256, 16), (128, 64)])
def test_rows_of_any_width_take_few_registers_to_transpose(tile):
    bf16 = np.zeros((7, 9), TYPES["bf16"])
    kernel = cute.compile(turned, bf16, bf16.T.copy(), tile=tile, arch="sm_90a")
    # As many CTAs as the schedule wants: 1,024 threads an SM or more.
    assert kernel.resources.registers <= 64
    assert not kernel.resources.spills
