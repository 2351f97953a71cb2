"""Compiling takes time in proportion to the program."""

import time

import numpy as np

import cutedialect as cute


def chained(count):
    """So many reductions, each of what the one before left."""

    @cute.kernel
    def kernel(X, Y):
        i, j = cute.tile_index(Y, (16, 64))
        x = cute.local_tile(X, (16, 64), (i, j)).load()
        for _ in range(count):
            x = x - cute.row_max(x) * 0.5
        cute.copy(x, cute.local_tile(Y, (16, 64), (i, j)))

    return kernel


def seconds(count):
    x = np.ones((16, 64), np.float32)
    began = time.process_time()
    assert cute.compile(chained(count), x, x, arch="sm_80").ptx
    return time.process_time() - began


def test_chained_reductions(monkeypatch):
    """Eight times as many take about eight times as long: what grows with the square takes 64."""
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    seconds(5)
    short = min(seconds(25) for _ in range(2))
    assert seconds(200) < 20 * short
