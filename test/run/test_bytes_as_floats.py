"""Bytes become floats four at a time: every byte, by each op that works on all four at once, and by
those that do not.
"""

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

BF16 = ml_dtypes.bfloat16

FORMS = (
    lambda x, t: x.to(t),
    lambda x, t: (x & 15).to(t),
    lambda x, t: (x >> 4).to(t),
    lambda x, t: (x >> 4).to(t) - 8,
    lambda x, t: (((x & 15) ^ 8) - 8).to(t),
    lambda x, t: ((x << 4) >> 4).to(t),
    lambda x, t: (x // 16).to(t) + 3,
    lambda x, t: ((x & 7) | 64).to(t),
    lambda x, t: ((x >> 1) | 65).to(t),
    lambda x, t: (~x).to(t),
    lambda x, t: x.to(t) - 9,
    lambda x, t: x.to(t) + 300,
    lambda x, t: 5 - x.to(t),
    lambda x, t: (x.to(cute.i32) - 8).to(t),
    lambda x, t: (x % 16).to(t),
    lambda x, t: (x >> 2).to(t) * 0.5 + (x & 3).to(t),
)


@cute.kernel
def convert(X, Y, *, tile=(16, 64)):
    m, n = cute.tile_index(X, tile)
    x = cute.local_tile(X, tile, (m, n)).load()
    for form, compute in enumerate(FORMS):
        y = cute.local_tile(Y, (1, *tile), (form, m, n))
        cute.copy(cute.reshape(compute(x, Y.dtype), (1, *tile)), y)


class Numbers(np.ndarray):
    """An array with the method of a tile that `FORMS` call."""

    def to(self, dtype):
        return self.astype(np.int32 if dtype is cute.i32 else dtype)


@pytest.mark.some(3)
@pytest.mark.parametrize("integer", [np.int8, np.uint8])
@pytest.mark.parametrize(
    ("arch", "type_"),
    [("sm_75", BF16), ("sm_90a", BF16), ("sm_90a", np.float16), ("sm_90a", np.float32)],
)
def test_every_byte_becomes_the_float_that_it_is(arch, type_, integer):
    x = np.arange(1024).astype(np.uint8).view(integer).reshape(16, 64)
    y = np.zeros((len(FORMS), 16, 64), type_)
    convert(x, y, arch=arch, backend="emulator")
    for form, compute in enumerate(FORMS):
        assert np.array_equal(y[form], compute(x.view(Numbers), type_)), form


@cute.kernel
def nibble(X, Y, *, tile=(16, 64)):
    m, n = cute.tile_index(X, tile)
    x = cute.local_tile(X, tile, (m, n)).load()
    cute.copy((x & 15).to(Y.dtype) - 8, cute.local_tile(Y, tile, (m, n)))


@pytest.mark.parametrize(
    ("dtype", "instruction"), [("bf16", "fma.rn.bf16x2"), ("f16", "add.rn.f16x2")]
)
def test_a_nibble_costs_a_permute_and_a_sum_for_two(dtype, instruction):
    specs = cute.TensorSpec((16, 64), "u8"), cute.TensorSpec((16, 64), dtype)
    lines = cute.compile(nibble, *specs, arch="sm_90a").ptx.splitlines()
    permutes, sums, masks, conversions = (
        sum(name in line for line in lines)
        for name in ("prmt.b32", instruction, f", {0x0F0F0F0F};", "cvt.rn")
    )
    assert permutes == sums == 2 * masks > 0
    assert conversions == 0
