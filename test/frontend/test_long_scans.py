"""Scans of rows of which each thread has many elements apart, as those that are not aligned."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute


def computed(function, x):
    @cute.kernel
    def program(X, Y):
        at = cute.tile_index(Y, x.shape)
        cute.copy(function(cute.local_tile(X, x.shape, at).load()), cute.local_tile(Y, x.shape, at))

    y = np.zeros(x.shape, x.dtype)
    program(x, y, arch="sm_90a", backend="emulator", schedule=cute.Schedule(warps=(1, 8)))
    return y


def sums(x, reverse, exclusive):
    wide = np.flip(x, 1) if reverse else x
    y = np.cumsum(wide, 1) - (wide if exclusive else 0)
    return np.flip(y, 1) if reverse else y


@pytest.mark.parametrize(
    ("columns", "reverse", "exclusive"),
    [(2304, True, False), (2304, True, True), (2103, False, True), (9001, False, False)],
)
def test_rows_that_begin_anywhere(columns, reverse, exclusive):
    """Each thread has one element of every 256, and lanes combine what the warps have of those."""
    whole = np.random.default_rng(0).integers(-4, 5, (1, columns + 1)).astype(np.float32)
    x, how = whole[:, :columns], {"reverse": reverse, "exclusive": exclusive}
    y = computed(lambda tile: cute.cumsum(tile, 1, **how), x)
    np.testing.assert_array_equal(y, sums(x, reverse, exclusive))


def test_what_lanes_combine_is_combined_in_order():
    """Of tuples, in an order that matters: of two elements the later one where it is a flag."""
    x = np.random.default_rng(3).integers(-4, 5, (1, 2103)).astype(np.int32)

    def segments(tile):
        flag = (tile > 3).to(cute.i32)
        return cute.scan((tile, flag), 1, lambda a, f, b, g: (cute.where(g != 0, b, a + b), f | g))[
            0
        ]

    y, total, want = computed(segments, x), 0, np.zeros_like(x)
    for at, value in enumerate(x[0]):
        total = value if value > 3 else total + value
        want[0, at] = total
    np.testing.assert_array_equal(y, want)


def test_lanes_share_what_warps_have():
    """2,285 GB/s of an H200 and 238 registers where each thread combined it: one CTA on an SM."""

    @cute.kernel
    def program(X, Y):
        at = cute.tile_index(Y, (1, 11697))
        x = cute.local_tile(X, (1, 11697), at).load()
        cute.copy(cute.cumsum(x), cute.local_tile(Y, (1, 11697), at))

    spec = cute.TensorSpec((None, 11697), cute.f32)
    ptx = cute.compile(program, spec, spec, arch="sm_90a").ptx
    assert ptx.count("add.rn.f32") < 500
    # Its total, that of all warps and what is in front of this one, for each element of a thread.
    assert ptx.count("shfl.sync.idx") == 48 * 3
