"""Elements of tensors as coordinates in loops whose loads run ahead: nothing behind the end of the
tensor is read for trips that there are not.
"""

import numpy as np
import pytest

import cutedialect as cute

TARGETS = ("sm_75", "sm_80", "sm_90a", "sm_100a")


@cute.kernel
def experts(E, F, G, Y):
    """The sum of those of F's matrices that E lists, times G."""
    cute.tile_index(Y, (64, 16))
    acc = cute.zeros((64, 16))
    g = cute.local_tile(G, (32, 16), (0, 0))
    for k in cute.range(E.shape[0]):
        cute.gemm(cute.local_tile(F, (64, 32), (E[k], 0, 0)), g, acc)
    cute.copy(acc, cute.local_tile(Y, (64, 16), (0, 0)))


@pytest.mark.some(17)
@pytest.mark.parametrize("kind", [np.int32, np.uint8, np.int64])
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
@pytest.mark.parametrize("arch", TARGETS)
def test_a_list_as_long_as_the_loop(arch, trips, kind):
    @cute.kernel
    def program(E, F, G, Y):
        cute.tile_index(Y, (64, 16))
        acc = cute.zeros((64, 16))
        g = cute.local_tile(G, (32, 16), (0, 0))
        for k in cute.range(E.shape[0]):
            cute.gemm(cute.local_tile(F, (64, 32), (E[k].to(cute.i32), 0, 0)), g, acc)
        cute.copy(acc, cute.local_tile(Y, (64, 16), (0, 0)))

    rng = np.random.default_rng(trips)
    f = rng.integers(-2, 3, (3, 64, 32)).astype(np.float16)
    g = rng.integers(-2, 3, (32, 16)).astype(np.float16)
    e = rng.integers(0, 3, trips).astype(kind)
    y = np.zeros((64, 16), np.float32)
    program(e, f, g, y, arch=arch, backend="emulator")
    assert np.array_equal(y, f[e].astype(np.float32).sum(0) @ g.astype(np.float32))


def test_a_read_that_a_condition_switches_off():
    """A stage that reads under a condition runs in the interpreter as in the emulator."""
    f, g = np.ones((3, 64, 32), np.float16), np.ones((32, 16), np.float16)
    e, y = np.array([2, 1], np.int32), np.zeros((64, 16), np.float32)
    kernel = cute.compile(experts, e, f, g, y, arch="sm_80")
    assert "cute.read %E[" in kernel.stages["cute-schedule-loops"]
    assert "] if %" in kernel.stages["cute-schedule-loops"]
    experts(e, f, g, y, backend="interpreter")
    assert (y == 64).all()
