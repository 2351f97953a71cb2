"""Strides and offsets of layouts that are products of extents: in 64 bits, where 32 would wrap."""

import numpy as np

import cutedialect as cute

EXTENTS = (1 << 16, (1 << 16) + 1)


@cute.kernel
def strides(X, Y):
    n, m = X.shape
    given = cute.make_layout((2, 8), (n * m + m, 1))
    compact = cute.make_layout((n, m, 2))
    one = cute.local_tile(Y, (1,), (0,))
    other = cute.local_tile(Y, (1,), (1,))
    cute.copy(one.load() * 0 + given.stride[0], one)
    cute.copy(other.load() * 0 + compact.stride[2], other)


@cute.kernel
def moved(X, Y):
    """Of eight elements those from the third on: n m + 2 - n m."""
    n, m = X.shape
    part = cute.make_tensor(Y, cute.make_layout((4,), (1,)), n * m + 2 - m * n)
    tile = cute.local_tile(part, (4,), (0,))
    cute.copy(tile.load() + 1, tile)


def test_a_product_of_extents_is_a_stride():
    X = np.broadcast_to(np.float32(0), EXTENTS)
    Y = np.zeros(2, np.int64)
    strides(X, Y, arch="sm_90a", backend="emulator")
    n, m = EXTENTS
    assert Y.tolist() == [n * m + m, n * m]


def test_an_offset_is_computed_as_a_stride_is():
    X = np.broadcast_to(np.float32(0), EXTENTS)
    Y = np.zeros(8, np.int32)
    moved(X, Y, arch="sm_90a", backend="emulator")
    assert Y.tolist() == [0, 0, 1, 1, 1, 1, 0, 0]
    (traced, *_) = cute.compile(moved, X, Y, arch="sm_90a").stages.values()
    (view,) = [line for line in traced.splitlines() if "cute.make_view" in line]
    assert ", i64 -> " in view
