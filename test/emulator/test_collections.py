"""Rounds of Python's garbage collector around the emulator."""

import gc
import tracemalloc

import numpy as np
import pytest

from cutedialect.backend.emulator import EmulatorError, launch
from cutedialect.backend.emulator.launch import RESIDENT_LANES

HEAD = """.version 7.8
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x)
{
    .reg .b32 %r<64>;
    .reg .b64 %rd<4>;
"""


def many(count):
    """A kernel of so many moves, and one store."""
    moves = "".join(f"    mov.u32 %r{n % 60 + 1}, {n};\n" for n in range(count))
    return f"{HEAD}{moves}    ld.param.u64 %rd0, [x];\n    st.global.u32 [%rd0], 7;\n    ret;\n}}\n"


def test_a_launch_starts_no_rounds():
    rounds = []

    def count(phase, info):
        rounds.append(phase)

    thresholds = gc.get_threshold()
    gc.collect()
    gc.set_threshold(700, 10, 10)
    gc.callbacks.append(count)
    try:
        launch(many(2000), "k", 1, 32, [np.zeros(4, np.uint32)])
    finally:
        gc.callbacks.remove(count)
        gc.set_threshold(*thresholds)
    assert len(rounds) < 12
    assert gc.isenabled()


def test_they_go_on_after_a_fault():
    with pytest.raises(EmulatorError):
        launch(many(2).replace("7;", "%r63;"), "k", 1, 32, [np.zeros(4, np.uint32)])
    assert gc.isenabled()


def test_batches_do_not_add_up_in_memory():
    def peak(batches):
        gc.collect()
        tracemalloc.start()
        launch(many(64), "k", batches * RESIDENT_LANES // 128, 128, [np.zeros(4, np.uint32)])
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(1)
    assert peak(6) < 2.5 * peak(1)
