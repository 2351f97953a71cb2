"""Results that leave in loops by TMA, several in one trip: what one is stored from may be written
again only when TMA has read it, however many buffers and lines of columns a trip has.
"""

import re

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator


def integers(*shape):
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape)


@cute.kernel
def beside_a_multiply(X, W, Y, Z):
    """Y by one thread, Z by one of each warpgroup, in lines that take turns."""
    for t in cute.range(3):
        cute.copy(cute.zeros((128, 64)) + 2.0, cute.local_tile(Y, (128, 64), (t, 0)))
        acc = cute.zeros((128, 64))
        x = cute.local_tile(X, (128, 64), (t, 0))
        cute.gemm(x, cute.local_tile(W, (64, 64), (0, 0)), acc)
        cute.copy(acc * 1.0, cute.local_tile(Z, (128, 64), (t, 0)))


@cute.kernel
def in_and_behind_a_loop(X, W, Y, Z):
    """A buffer that is stored once in a trip, and in a branch of some trips."""
    w = cute.local_tile(W, (64, 64), (0, 0))
    for t in cute.range(3):
        acc = cute.zeros((128, 64))
        cute.gemm(cute.local_tile(X, (128, 64), (t, 0)), w, acc)
        cute.copy(acc * 1.0, cute.local_tile(Z, (128, 64), (t, 0)))
        with cute.when(t > 0):
            cute.copy(cute.zeros((128, 64)) + 2.0, cute.local_tile(Y, (128, 64), (t, 0)))
    cute.copy(cute.zeros((128, 64)) + 2.0, cute.local_tile(Y, (128, 64), (0, 0)))


def run(program, arch="sm_90a"):
    x, w = integers(384, 64).astype(np.float16), integers(64, 64).astype(np.float16)
    y, z = np.ones((384, 64), np.float32), np.zeros((384, 64), np.float32)
    program(x, w, y, z, arch=arch, backend="emulator")
    return np.array_equal(z, x.astype(np.float32) @ w) and bool((y == 2).all())


@pytest.mark.parametrize("program", [beside_a_multiply, in_and_behind_a_loop])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_each_is_stored_before_its_buffer_is_written(program, arch):
    assert run(program, arch)


def test_each_wait_in_the_loop_is_needed(monkeypatch):
    original, texts = emulator.launch, []
    waits = re.compile(r"cp\.async\.bulk\.wait_group\.read 0;")

    def without(number):
        def launch(ptx, *arguments):
            texts.append(ptx)
            place = list(waits.finditer(ptx))[number]
            return original(ptx[: place.start()] + ptx[place.end() :], *arguments)

        return launch

    # In front of Y, whose thread waits for lines of Z as well; for each line of Z; two at the end.
    for number in range(1, 5):
        monkeypatch.setattr(emulator, "launch", without(number))
        with pytest.raises(emulator.EmulatorError):
            run(beside_a_multiply)
    assert len(waits.findall(texts[0])) == 1 + 4 + 2
