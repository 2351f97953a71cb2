"""Every wait, arrival and fence has the Python line of the op for which it was derived."""

import numpy as np
import pytest
from xdsl.dialects.builtin import UnknownLoc

import cutedialect as cute
from cutedialect.passes.synchronize.synchronize import SynchronizePass

DERIVED = ("pipeline.producer_", "pipeline.consumer_", "cute_nvgpu.fence", "cute_nvgpu.wgmma_wait")


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_what_is_derived_has_a_line(arch, monkeypatch):
    original, places = SynchronizePass.apply, []

    def apply(self, ctx, module):
        original(self, ctx, module)
        places.extend(op.location for op in module.walk() if op.name.startswith(DERIVED))

    monkeypatch.setattr(SynchronizePass, "apply", apply)
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    a, b = np.zeros((256, 128), np.float16), np.zeros((128, 264), np.float16)
    schedule = f"tile = (128,128,64), stages = {2 if arch == 'sm_90a' else 3}"
    assert cute.compile(cute.gemm, a, b, arch=arch, backend="emulator", schedule=schedule).ptx
    assert places
    assert not any(isinstance(place, UnknownLoc) for place in places)
