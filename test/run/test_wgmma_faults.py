"""The synchronization of a compiled Hopper GEMM is all needed: without any one instruction of it,
the emulator names a fault.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator

# (instruction, its replacement, codes of faults that may be found first)
FAULTS = {
    "no wgmma.fence": (r"wgmma\.fence\.sync\.aligned;", "", {"CD-C1"}),
    "no commit": (r"wgmma\.commit_group\.sync\.aligned;", "", {"CD-B6", "CD-B7", "CD-C2"}),
    "no wait in the loop": (
        r"wgmma\.wait_group\.sync\.aligned [1-9];", "", {"CD-B6", "CD-B7"}
    ),
    "one more group left in the loop": (
        r"wgmma\.wait_group\.sync\.aligned 1;", "wgmma.wait_group.sync.aligned 2;",
        {"CD-B6", "CD-B7"},
    ),
    "no wait at the end": (r"wgmma\.wait_group\.sync\.aligned 0;", "", {"CD-C2"}),
    "one group left at the end": (
        r"wgmma\.wait_group\.sync\.aligned 0;", "wgmma.wait_group.sync.aligned 1;", {"CD-C2"}
    ),
    "no proxy fence": (r"fence\.proxy\.async\.shared::cta;", "", {"CD-A1"}),
}  # fmt: skip


def multiply() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a = rng.integers(-2, 3, (512, 512)).astype(np.float16)
    b = rng.integers(-2, 3, (512, 512)).astype(np.float16)
    found = cute.gemm(a, b, arch="sm_90a", backend="emulator")
    return found, a.astype(np.float64) @ b.astype(np.float64)


def test_the_program_is_right():
    found, exact = multiply()
    np.testing.assert_array_equal(found.astype(np.float64), exact)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_missing_instruction_is_found(monkeypatch, fault):
    pattern, replacement, codes = FAULTS[fault]
    original = emulator.launch

    def launch(ptx, *arguments):
        changed, count = re.subn(pattern, replacement, ptx)
        assert count
        return original(changed, *arguments)

    monkeypatch.setattr(emulator, "launch", launch)
    with pytest.raises(emulator.EmulatorError) as caught:
        multiply()
    assert caught.value.code in codes
