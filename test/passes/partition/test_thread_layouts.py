"""Layouts in which threads move tiles between registers and memory."""

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.layout import size
from cutedialect.passes.analysis.thread_layouts import blocked, copied


@pytest.mark.parametrize("threads", [32, 128, 256])
def test_threads_share_blocks_before_they_repeat_them(threads):
    """Every element belongs to a thread, and to no more of them than with blocks of one element."""
    rng = np.random.default_rng(threads)
    for _ in range(60):
        shape = tuple(int(n) for n in rng.choice([2, 4, 6, 8, 16, 24, 32, 48, 64], 2))
        one, two = rng.choice([1, 2, 4, 8], 2)
        mode = int(rng.integers(2))
        layout = copied(blocked(shape, mode, (int(one), int(two)), threads), shape)
        assert size(layout.shape[0]) == threads
        held = {layout(i) for i in range(size(layout))}
        assert sorted(held) == list(range(shape[0] * shape[1]))
        single = copied(blocked(shape, mode, (1, 1), threads), shape)
        assert size(layout) in (len(held), size(single))


def test_a_small_tile_that_is_turned_is_shared_by_all_threads():
    """A tile of 16x48 halves has 12 blocks of 8x8: with those, 32 threads hold 192 values each."""

    @cute.kernel
    def turned(X, Y):
        i, j = cute.tile_index(X, (16, 48))
        x = cute.local_tile(X, (16, 48), (i, j)).load()
        cute.copy(x + 1, cute.local_tile(Y, (48, 16), (j, i)).T)

    x = np.zeros((32, 48), np.float16)
    kernel = cute.compile(turned, x, np.zeros((48, 32), np.float16), arch="sm_80")
    assert "((4,8),(4,2,3)):((64,2),(16,1,256))" in kernel.stages["cute-partition"]
