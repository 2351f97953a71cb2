"""What each thread has of a reduction is computed once, as long as the tile stays as it is."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute

ROWS, WIDTH = 64, 64


def compiled(writes):
    """A loop that adds a block's sums to others only if its parts are small, else it halves it."""

    @cute.kernel
    def program(x, y):
        total = cute.zeros((ROWS, 1))
        for j in cute.range(4):
            tile = cute.zeros((ROWS, WIDTH))
            tile.assign(cute.local_tile(x, (ROWS, WIDTH), (0, j)).load())
            many = cute.any(cute.row_sum(tile, local=True) > 1.0, local=True)
            if writes:
                tile.assign(tile * 0.5)
            with cute.when(many):
                tile.assign(tile * 0.25)
                total.assign(total + cute.row_sum(tile))
            with cute.otherwise():
                total.assign(total + cute.row_sum(tile))
        cute.copy(total, cute.local_tile(y, (ROWS,), (0,)))

    specs = cute.TensorSpec((ROWS, 4 * WIDTH), "f32"), cute.TensorSpec((ROWS,), "f32")
    return cute.compile(program, *specs, arch="sm_80", schedule="warps = (4,1)")


@pytest.mark.parametrize("writes", [False, True])
def test_parts_of_a_tile_that_stays_are_added_once(writes):
    kernel = compiled(writes)
    x = np.zeros((ROWS, 4 * WIDTH), np.float32)
    x[:, WIDTH : 2 * WIDTH] = 1
    x[:, 3 * WIDTH] = np.arange(ROWS) / 1024
    y = np.full((ROWS,), np.nan, np.float32)
    kernel.launch(x, y)
    scale = 0.5 if writes else 1.0
    np.testing.assert_array_equal(y, scale * (WIDTH * 0.25 + x[:, 3 * WIDTH]))


def test_fewer_additions_where_nothing_is_written():
    added = [compiled(writes).ptx.count("add.f32") for writes in (False, True)]
    assert added[0] < added[1]
