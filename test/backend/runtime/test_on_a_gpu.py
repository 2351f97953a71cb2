"""Launches through a real driver: what a stand-in cannot tell. Where there is a GPU and CuPy."""

from __future__ import annotations

import ctypes
import threading

import pytest

import cutedialect as cute
from cutedialect.backend.runtime.driver import driver, find_driver

if find_driver() is None:
    pytest.skip("needs a GPU", allow_module_level=True)
cupy = pytest.importorskip("cupy")

pytestmark = [pytest.mark.gpu, pytest.mark.long]


@cute.kernel
def raised(X, Y, amount, *, tile=(16, 16)):
    at = cute.tile_index(Y, tile)
    cute.copy(cute.load(cute.local_tile(X, tile, at)) + amount, cute.local_tile(Y, tile, at))


def drawn(seed: int):
    return cupy.random.RandomState(seed).rand(64, 48).astype(cupy.float32)


def test_a_launch_out_of_another_context() -> None:
    found, x, y = driver(), drawn(0), drawn(1)
    raised(x, y, 1.0)
    mine = found.current_context()
    other = ctypes.c_void_p()
    found.call("cuCtxCreate_v2", ctypes.byref(other), ctypes.c_uint(0), ctypes.c_int(0))
    try:
        for amount in (2.0, 3.0):
            raised(x, y, amount)
            assert found.current_context() == other.value
    finally:
        found.call("cuCtxDestroy_v2", other)
    assert found.current_context() == mine
    assert cupy.array_equal(y, x + 3.0)


def test_a_launch_in_a_thread_without_a_context() -> None:
    x, y = drawn(2), drawn(3)
    raised(x, y, 1.0)
    prepared = cute.compile(raised, x, y, 1.0).prepare(x, y, 4.0)
    assert prepared is not None
    y.fill(0)
    cupy.cuda.runtime.deviceSynchronize()
    contexts: list[int] = []

    def launch() -> None:
        contexts.append(driver().current_context())
        prepared.repeat(stream=0)
        contexts.append(driver().current_context())

    thread = threading.Thread(target=launch)
    thread.start()
    thread.join()
    cupy.cuda.runtime.deviceSynchronize()
    assert contexts[0] == 0
    assert contexts[1]
    assert cupy.array_equal(y, x + 4.0)
