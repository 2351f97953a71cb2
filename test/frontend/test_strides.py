"""Arrays that are views: steps, windows that overlap, one row for all, conditions; what is written
has each element at an address of its own. Strides below zero are in test/run/test_steps_back.py.
"""

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import cutedialect as cute

X = np.arange(40 * 70, dtype=np.float32).reshape(40, 70)
B = X % 3 == 0
LINE = np.arange(300, dtype=np.float32)


@cute.kernel
def _changed(X, Y, *, tile=(8, 32)):
    at = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, at).load()
    cute.copy(~x if x.dtype.bits == 1 else 2 * x, cute.local_tile(Y, tile, at))


@pytest.mark.parametrize("backend", ["interpreter", "emulator"])
@pytest.mark.parametrize(
    ("x", "y"),
    [
        (sliding_window_view(LINE[:109], 70), np.zeros((40, 70), np.float32)),
        (np.broadcast_to(X[:1], X.shape), np.zeros((80, 210), np.float32)[::2, ::3]),
        (np.broadcast_to(X[:, :1], X.shape).T, np.zeros((40, 70), np.float32).T),
        (as_strided(LINE, (40, 70), (0, 0)), np.zeros_like(X)),
        (as_strided(LINE, (40, 30), (8, 4)), as_strided(np.zeros(99, np.float32), (3, 2), (8, 12))),
        (B[::2, 1::2], np.zeros((20, 70), bool)[:, ::2]),
        (np.broadcast_to(B[3], B.shape), np.zeros_like(B)),
    ],
)
def test_views(backend, x, y):
    x = x[: y.shape[0], : y.shape[1]]
    _changed(x, y, backend=backend)
    assert np.array_equal(y, ~x if x.dtype == bool else 2 * x)


OVERLAP = r"Y: expected an array whose elements do not overlap, .* write to an array of its own"


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (X, as_strided(np.zeros(70, np.float32), (40, 70), (0, 4)), OVERLAP),
        (X, as_strided(np.zeros(70, np.float32), (40, 70), (0, 4))[:, ::-1], OVERLAP),
        (X, as_strided(np.zeros(300, np.float32), (40, 70), (4, 4))[::-1], OVERLAP),
        (X, as_strided(np.zeros(300, np.float32), (40, 70), (4, 4)), OVERLAP),
        (X, as_strided(np.zeros(900, np.float32), (40, 70), (20, 4)), OVERLAP),
    ],
)
def test_what_is_refused(x, y, message):
    with pytest.raises(ValueError, match=message):
        _changed(x, y, backend="emulator")
